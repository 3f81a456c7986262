"""One number for each row of a selection, inside its interval, and which neighbors are told apart.

Claim: `low` and `high` cover the answer of a row with the stated confidence, all rows together if
that was asked for. If the answer of a row is at most that of the next one, it is called clear with
a probability of at most 1 - confidence. Proof: docs/proofs/selected-rows.md. Of the best of a noisy
histogram each upper end is wrong with at most its share of 1 - confidence, given that the row was
selected. Of the lower ends the one from the entry is so as well, and of those for all answers the
expected number of wrong ones is at most its share of k: docs/proofs/histogram-top-k.md. Floats:
post-processing of what was released; chances are compared with a margin, so that an end may lie a
step further out, never further in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number, to_fraction
from sordino.estimators.gaps import combine_gaps, combine_group
from sordino.estimators.intervals import interval
from sordino.noise import DiscreteGaussian, Geometric
from sordino.noise.law import Law
from sordino.releases import (
    HistogramTop,
    HybridTop,
    Positives,
    TopK,
    TopSet,
    UnlistedTop,
    Value,
    Values,
)

Floats = NDArray[np.float64]

# Gaps are used where they promise at most this share of the variance of a measurement. Above it the
# bias of whoever was selected eats the gain (experiments: docs/proofs/selected-rows.md, "When gaps
# are used").
_WORTHWHILE = 0.8
# A group whose gaps contradict its measurements by more than chance does once in a thousand is not
# combined.
_NORMAL_999 = 3.0902
# Rows that lead the best loser by ln(10) over the rate of the noise, or ln(k), were not found by
# their noise.
_LEAST_LEAD = 10
# Discrete Gaussian noise of a rate above 1 has less than 1e-300 beyond so many steps.
_NARROW_REACH = 40
_TAIL_ROUNDING = 1e-11


@final
@dataclass(frozen=True, kw_only=True)
class SelectedRows:
    """What is said of each selected item; each array has shape (k,), in the unit of the answers.

    Attributes
    ----------
    estimate : array of float
        One number, inside the interval: the combined one where there is one, else the measured one.
    low, high : array of float
        Interval of the answer, from the measurement alone: valid after selection.
    true_low, true_high : array of float
        Interval of the count as it is. Where a unit counts for so many items at most it may be
        higher than the answer: then the upper end is infinite.
    measured : array of float
        The fresh measurement.
    combined : array of float
        Gaps and measurement combined, before it is moved into the interval; NaN where the gaps are
        not used.
    confidence : float
        Of each interval.
    together : float
        Least probability with which all intervals hold.
    """

    estimate: Floats
    low: Floats
    high: Floats
    true_low: Floats
    true_high: Floats
    measured: Floats
    combined: Floats
    confidence: float
    together: float

    def describe(self, place: int) -> dict[str, float]:
        """Return what every row of a session says of its count: the estimate and both intervals."""
        names = ("estimate", "low", "high", "true_low", "true_high")
        return {name: float(getattr(self, name)[place]) for name in names}


def estimate_rows(
    selection: TopK | HybridTop | UnlistedTop | Positives | TopSet,
    fresh: Values,
    *,
    confidence: Number,
    simultaneous: bool = False,
    capped: bool = False,
) -> SelectedRows:
    """Return one number and an interval for each count of a selection that was measured.

    Parameters
    ----------
    selection : TopK, HybridTop, UnlistedTop, Positives or TopSet
        What was selected, with its gaps if there are any.
    fresh : Values
        A measurement of the selected items, with noise of its own.
    confidence : number
        In (0, 1): of each interval, or of all of them together.
    simultaneous : bool
        Whether all intervals hold together with that confidence.
    capped : bool
        Public: whether each unit counts for some of its items only.
    """
    each, together = share_confidence(confidence, fresh.values.size, simultaneous=simultaneous)
    low, high = count_interval(fresh, each)
    true_low, true_high = true_interval(fresh, each, capped=capped)
    combined = _combine_rows(selection, fresh)
    chosen = np.where(np.isnan(combined), fresh.values, combined)
    # Whole steps: an answer is one. The ends of the interval are whole steps as well, so this stays
    # inside.
    step = float(fresh.mechanism.step)
    estimate = np.clip(np.round(chosen / step) * step, low, high)
    return SelectedRows(
        estimate=estimate,
        low=low,
        high=high,
        true_low=true_low,
        true_high=true_high,
        measured=np.asarray(fresh.values, dtype=np.float64),
        combined=combined,
        confidence=each,
        together=together,
    )


def count_interval(fresh: Value | Values, confidence: Number) -> tuple[Any, Any]:
    """Return an interval of each count that was measured: no count lies below 0."""
    low, high = interval(fresh, confidence=confidence)
    return np.maximum(low, 0.0), np.maximum(high, 0.0)


def true_interval(fresh: Value | Values, confidence: Number, *, capped: bool) -> tuple[Any, Any]:
    """Return an interval of each count as it is, and not as it was bounded before it was measured.

    Parameters
    ----------
    fresh : Value or Values
        The measurements.
    confidence : number
        In [3/4, 1).
    capped : bool
        Public: whether each unit counts for some of its rows or items only. Then the count may be
        higher than what was measured: there is no upper end, and the whole chance to be wrong is
        that of the lower one.
    """
    from sordino.mechanisms import FoldedMechanism  # noqa: PLC0415 - few releases need it

    # The noise is symmetric: with twice the chance to be wrong each end alone misses with that
    # chance.
    share = to_fraction(confidence)
    low, high = count_interval(fresh, max(2 * share - 1, Fraction(1, 2)) if capped else share)
    mechanism = fresh.mechanism
    if isinstance(mechanism, FoldedMechanism):
        # A count beyond the declared range was measured as its end: such an end says nothing.
        least, most = (float(end) * float(mechanism.step) for end in mechanism.ends)
        low = np.where(low <= least, 0.0, low)
        high = np.where(high >= most, math.inf, high)
    return low, np.full_like(high, math.inf) if capped else high


def share_confidence(confidence: Number, count: int, *, simultaneous: bool) -> tuple[float, float]:
    """Return the confidence of each of some intervals, and that of all together.

    Each interval has noise of its own.
    """
    share = float(to_fraction(confidence))
    if not simultaneous or count <= 1:
        # Rounded down to a tenth of a percent: nothing more is promised.
        return share, math.floor(share**count * 1000) / 1000 if count > 1 else share
    # Rounded up: the product must not fall below what was asked for.
    return min(math.nextafter(share ** (1 / count), 1) + 1e-12, math.nextafter(1, 0)), share


# ---- which number --------------------------------------------------------------------------------


def _combine_rows(
    selection: TopK | HybridTop | UnlistedTop | Positives | TopSet, fresh: Values
) -> Floats:
    """Return gaps and measurements combined, NaN where the gaps are not used."""
    k = fresh.values.size
    # Gumbel noise selects without gaps, and so does a set.
    if isinstance(selection, TopSet) or not selection.gaps.size or np.isnan(selection.gaps).all():
        return np.full(k, np.nan)
    if isinstance(selection, Positives):
        whole = combine_gaps(selection, fresh)
        worth = whole.variances <= _WORTHWHILE * fresh.standard_error**2
        return np.where(worth, whole.values, np.nan)
    combined = np.full(k, np.nan)
    for group in _split_by_lead(selection):
        # One row alone has no neighbor whose gap could say anything.
        if group.size < 2:
            continue
        found, misfit = combine_group(selection, fresh, group)
        if found.variances.max() > _WORTHWHILE * fresh.standard_error**2:
            continue
        if misfit <= _largest_misfit(group.size - 1):
            combined[group] = found.values
    return combined


def _split_by_lead(selection: TopK | HybridTop | UnlistedTop) -> list[NDArray[np.int64]]:
    """Return the rows that lie far above what was left out, and the others.

    Of the others some were found by their noise, which is then larger than that of the first ones.
    So each group has a level of its own.
    """
    k = selection.indices.size
    mechanism = selection.mechanism
    # The gaps add up to the lead of each row over the best one that was left out. Without any that
    # was left out the last gap is missing, and nothing was found by its noise.
    if selection.gaps.size < k:
        return [np.arange(k)]
    lead = np.cumsum(selection.gaps[::-1])[::-1]
    scale = math.sqrt(mechanism.noise.variance) * float(mechanism.step)
    clear = lead >= math.log(max(k, _LEAST_LEAD)) * scale
    return [np.flatnonzero(clear), np.flatnonzero(~clear)]


def _largest_misfit(degrees: int) -> float:
    """Return the 99.9% quantile of chi-square, by the approximation of Wilson and Hilferty."""
    share = 2 / (9 * degrees)
    return degrees * (1 - share + _NORMAL_999 * math.sqrt(share)) ** 3


# ---- order ---------------------------------------------------------------------------------------


def find_unclear(
    selection: TopK | HybridTop | UnlistedTop, fresh: Values | None, *, confidence: Number
) -> list[bool | None]:
    """Tell for each row whether it may be no larger than the next one.

    Then the next one is not told apart from it. The last row is compared with the best item that
    was left out, or with the threshold that ended the list. None: nothing is known, as of the last
    row of all items, or after two-sided noise.

    Parameters
    ----------
    selection : TopK or HybridTop
        What was selected.
    fresh : Values or None
        A measurement of the selected items, with noise of its own; None where nothing was measured.
    confidence : number
        In (0, 1). If a row is no larger than the next one, it is called clear with a probability of
        at most 1 - confidence.
    """
    wrong = float(1 - to_fraction(confidence))
    from_gaps = _test_gaps(selection)
    none: list[float | None] = [None] * selection.indices.size
    from_measurements = none if fresh is None else _test_measurements(fresh)
    unclear: list[bool | None] = []
    for row in range(selection.indices.size):
        tests = [test[row] for test in (from_gaps, from_measurements) if test[row] is not None]
        unclear.append(None if not tests else _merge_tests(tests) > wrong)
    return unclear


def _merge_tests(tests: list[Any]) -> float:
    """Return one p-value of independent ones.

    The chance that the product of two is at most theirs.
    """
    product = math.prod(tests)
    if len(tests) == 1 or product <= 0:
        return float(product)
    return float(product * (1 - math.log(product)))


def _test_gaps(selection: TopK | HybridTop | UnlistedTop) -> list[float | None]:
    """Return p-values of "this row is no larger than the next one" from gaps of one-sided noise."""
    k, mechanism = selection.indices.size, selection.mechanism
    noise = mechanism.noise
    # Proved for one-sided noise only.
    if not isinstance(noise, Geometric):
        return [None] * k
    step = float(mechanism.step)
    steps = np.rint(selection.gaps / step).astype(np.float64)
    places = selection.indices
    tests: list[float | None] = [None] * k
    for row, gap in enumerate(steps.tolist()):
        # A smaller place wins ties: then a gap of 0 is a step less than it takes. The margin of the
        # last row has that taken off already.
        behind = row + 1 < k and places[row + 1] < places[row]
        tests[row] = min(1.0, math.exp(-float(noise.rate) * (gap - (1 if behind else 0))))
    return tests


def _test_measurements(fresh: Values) -> list[float | None]:
    """Return p-values of "this row is no larger than the next one" from measurements.

    None of the last.
    """
    noise, step = fresh.mechanism.noise, float(fresh.mechanism.step)
    leads = np.rint(-np.diff(fresh.values) / step).tolist()
    if isinstance(noise, DiscreteGaussian):
        return [*(_gaussian_difference_tail(noise, lead) for lead in leads), None]
    return [*(_laplace_difference_tail(float(noise.rate), lead) for lead in leads), None]


def _gaussian_difference_tail(noise: DiscreteGaussian, lead: float) -> float:
    """Return the chance that two draws of discrete Gaussian noise differ by `lead` or more.

    It is rounded up.
    """
    if noise.rate > 1:
        # No wider than a few steps: all draws of the second one.
        drawn = np.arange(-_NARROW_REACH, _NARROW_REACH + 1)
        tail = float((noise.pmf(drawn) * noise.sf(drawn + int(lead) - 1)).sum())
    else:
        # Nearly discrete Gaussian noise of twice the variance: docs/proofs/selected-rows.md,
        # "Order".
        waves = math.exp(-(math.pi**2) / (2 * float(noise.rate)))
        tail = float(DiscreteGaussian(noise.rate / 2).sf(int(lead) - 1)) * (1 + 5 * waves)
    return min(1.0, tail * (1 + _TAIL_ROUNDING))


def _laplace_difference_tail(rate: float, lead: float) -> float:
    """Return the chance that two draws of discrete Laplace noise differ by `lead` or more."""
    if lead <= 0:
        return 1.0 - _laplace_difference_tail(rate, 1 - lead)
    r = math.exp(-rate)
    # docs/proofs/selected-rows.md, "Order", with 1 - r by `expm1`: at small rates it would lose its
    # digits.
    terms = -lead * math.expm1(-rate) + (1 + r * r) / (1 + r) + r
    return float(math.exp(-rate * lead) / (1 + r) ** 2 * terms)


# ---- the best of a noisy histogram ---------------------------------------------------------------

# Which share of the chance to be wrong a lower end has that counts on the number of all answers. It
# is for rows that were barely selected. The rest is for the ends that hold for each row.
_FOR_ALL = Fraction(1, 5)
# A chance is taken as smaller by this share than it was computed.
_MARGIN = 1 - 1e-9
# Below this a tail has no digits left to divide by.
_LEAST_TAIL = 1e-280


def estimate_histogram_rows(
    top: HistogramTop,
    *,
    size: int | None,
    confidence: Number,
    simultaneous: bool = False,
    capped: bool = False,
) -> SelectedRows:
    """Return one number and an interval for each row of a noisy histogram that selected itself.

    Parameters
    ----------
    top : HistogramTop
        What was selected, with its noisy answers.
    size : int or None
        Public number of all answers; None where it is not known.
    confidence : number
        In (0, 1). Of k rows the expected share whose interval is wrong is at most 1 - confidence.
    simultaneous : bool
        Whether all intervals hold together with that confidence.
    capped : bool
        Public: whether each unit counts for some of its items only. Then the true count may be
        higher.
    """
    rows = top.values.size
    wrong = 1 - to_fraction(confidence)
    # Together: every row gets its part of the chance, by adding up.
    each = wrong / max(rows, 1) if simultaneous else wrong
    low, high = find_ends(top, size=size, wrong=each)
    true_low, true_high = low, high
    if capped:
        # The true count has no upper end, and the whole chance to be wrong is that of the lower
        # one.
        true_low, true_high = find_ends(top, size=size, wrong=each, upper=False)
    _, together = share_confidence(confidence, rows, simultaneous=simultaneous)
    return SelectedRows(
        # No count lies below 0.
        estimate=np.maximum(top.values, 0.0),
        low=low,
        high=high,
        true_low=true_low,
        true_high=true_high,
        measured=top.values,
        combined=np.full(rows, np.nan),
        confidence=float(1 - each),
        # Chances to be wrong add up where the noise has selected.
        together=together
        if simultaneous
        else max(0.0, math.floor(1000 * float(1 - rows * wrong)) / 1000),
    )


def find_ends(
    top: HistogramTop, *, size: int | None, wrong: Fraction, upper: bool = True
) -> tuple[Floats, Floats]:
    """Return the ends of an interval of each row, wrong with a chance of `wrong`.

    Without an upper one if so.

    Parameters
    ----------
    top : HistogramTop
        What was selected.
    size : int or None
        Public number of all answers.
    wrong : Fraction
        The chance, on average over the rows if the size is known and the list is full.
    upper : bool
        Whether there are upper ends.
    """
    law, step = top.mechanism.noise, float(top.mechanism.step)
    values = np.rint(top.values / step)
    # Exactly k rows of a public number: then k/size of a chance may go to each answer, selected or
    # not.
    ranked = size is not None and top.crossed is not True and values.size > 0
    for_all = wrong * _FOR_ALL if ranked else Fraction(0)
    each = (wrong - for_all) / (2 if upper else 1)
    low = _bound_by_entry(law, values, np.rint(top.entries / step), each)
    if for_all and size is not None:
        low = np.maximum(low, values - _reach(law, for_all * values.size / size))
    high = np.maximum(values + _reach(law, each), 0.0) if upper else np.full(values.size, math.inf)
    # Answers of this mechanism in a session are counts: none lies below 0.
    return np.maximum(low, 0.0) * step, high * step


def _reach(law: Law, chance: Fraction) -> int:
    """Return the least R for which the noise exceeds it, to one side, with at most this chance."""
    return -law.quantile(float(chance) * _MARGIN)


def _bound_by_entry(law: Law, values: Floats, entries: Floats, chance: Fraction) -> Floats:
    """Return lower ends that hold given that a row was selected, in steps; 0 where there is none.

    A row wins with values from its entry c on. If its answer were at most t, a value of Y or more
    had, given that it won, at most the chance P(noise >= Y - t)/P(noise >= c - t). The end is the
    least t for which that is more than `chance`; the quotient rises with t.
    """
    free = np.isinf(entries)
    whole, entry = values.astype(np.int64), np.where(free, 0, entries).astype(np.int64)

    def winning(answer: NDArray[np.int64]) -> Floats:
        # Where any value wins, winning says nothing.
        return np.where(free, 1.0, law.sf(entry - answer - 1))

    below = np.full(values.size, -1)  # an answer of that is found to be too small,
    above = np.maximum(whole, 0)  # and this one is not: noise of 0 or more is no wonder.
    while (above - below > 1).any():
        middle = (below + above) // 2
        tail, won = np.asarray(law.sf(whole - middle - 1)), winning(middle)
        # Where no digits are left nothing is known of the answer. It is small, so look at larger
        # ones.
        wonder = (won <= _LEAST_TAIL) | (tail <= float(chance) * _MARGIN * won)
        below, above = np.where(wonder, middle, below), np.where(wonder, above, middle)
    # What is too small says so of all that are smaller. Without digits it does not, and nothing is
    # concluded.
    above = np.where(winning(below) > _LEAST_TAIL, above, 0)
    return above.astype(np.float64)
