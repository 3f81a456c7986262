"""Figures that are made of several released rows, with intervals from the exact law of their noise.

They are the sum and the difference of rows, their ratio, their ranks, and several looks at the same rows.
All of it is post-processing, at no cost.

Claim: each interval covers the figure of the answers with at least the stated confidence, ranks all together.
Proof: docs/proofs/refining.md, "Derived figures".
Floats: released values are whole numbers of steps again; ends are rounded to the nearest float.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.constraints import SHARE, Number, shown
from sordino.errors import InvalidParameter
from sordino.estimators.intervals import find_reach
from sordino.estimators.noise_sums import Noise, reach
from sordino.estimators.rows import share_confidence
from sordino.mechanisms import LaplaceMechanism, RefinedLaplace
from sordino.releases import HasEstimate, Value, Values, plain

_LARGEST_WEIGHT = 1000


@final
@dataclass(frozen=True, kw_only=True)
class DerivedValue(HasEstimate):
    """A figure that was made of released rows.

    Attributes
    ----------
    value : float
        In the unit of the rows; of a ratio without a unit, and NaN if the released divisor is not above 0.
    low, high : float
        Its interval; infinite where there is no end.
    confidence : float
        Of the interval.
    item : object
        Of several looks at rows the row that it is about; else None.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> both = sd.add_rows(m.release([50, 70], entropy=sd.Seeded(7)))
    >>> both.low <= 120 <= both.high
    True
    """

    value: float
    low: float
    high: float
    confidence: float
    item: Any = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON-ready values; an end that is infinite as None."""
        return dict(plain(vars(self)))


@final
@dataclass(frozen=True, kw_only=True)
class RowRanks:
    """Which ranks a row may have among the released rows, by the answers behind them.

    Attributes
    ----------
    item : object
        The row: its label, or its position.
    best, worst : int
        1 is the rank of the largest answer. Rows with equal answers may have either rank.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> [first, second] = sd.rank_rows(m.release([900, 300], entropy=sd.Seeded(7)))
    >>> first
    RowRanks(item=0, best=1, worst=1)
    """

    item: Any
    best: int
    worst: int


@final
@dataclass(frozen=True)
class _Rows:
    """Rows of one release, in whole steps."""

    places: dict[Any, int]
    steps: tuple[int, ...]
    mechanism: LaplaceMechanism | RefinedLaplace
    counts: bool

    @property
    def rate(self) -> Fraction:
        return self.mechanism.noise.rate

    @property
    def step(self) -> Fraction:
        return self.mechanism.step

    def find(self, name: Any, caller: str) -> int:
        """Return where a row stands."""
        if not isinstance(name, Hashable) or name not in self.places:
            raise InvalidParameter(f"{caller} needs a row of the release; got {shown(name)}.")
        return self.places[name]


def add_rows(
    release: Any, items: Iterable[Any] | None = None, *, minus: Iterable[Any] = (), confidence: Number = 0.95
) -> DerivedValue:
    """Return the sum of some rows of a release, less that of others, with an interval from its exact law.

    The ends of intervals of rows can be added up as well, but their noise hardly ever is at its end in all
    rows at once: for five counts with noise of rate 0.2 this interval reaches 32 to each side, and that of
    the added ends 75.

    Parameters
    ----------
    release : Histogram, TopItems, Count, Value or Values
        With Laplace noise, refined or not. Rows of a session have labels, those of a mechanism positions.
    items : iterable, optional
        The rows to be added; all if not given.
    minus : iterable, optional
        Rows that are subtracted.
    confidence : number
        In (0, 1), if the rows are chosen before anything is seen of them, or by other noise, such as that of
        a selection. Who looks at several sums, and then chooses one, must ask for more.

    Raises
    ------
    InvalidParameter
        If a row is not one of the release or is named twice, if there is none, if the release has other
        noise, or the confidence is not in (0, 1).

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING.over(5))
    >>> counts = m.release([100, 200, 300, 400, 500], entropy=sd.Seeded(7))
    >>> total, lead = sd.add_rows(counts), sd.add_rows(counts, [4], minus=[0])
    >>> total.high - total.value, lead.high - lead.value
    (32.0, 21.0)
    """
    wrong = 1 - SHARE("add_rows.confidence", confidence)
    rows = _read_rows(release, "add_rows")
    taken = range(len(rows.steps)) if items is None else [rows.find(item, "add_rows.items") for item in items]
    given = [rows.find(item, "add_rows.minus") for item in minus]
    # A row that counts twice has noise of twice the size, and not two noises.
    if len({*taken, *given}) < len(taken) + len(given) or not (taken or given):
        raise InvalidParameter("add_rows needs at least one row, and each of them once.")
    value = sum(rows.steps[place] for place in taken) - sum(rows.steps[place] for place in given)
    far = reach([Noise(rows.rate)] * (len(taken) + len(given)), wrong)
    return _derive(value, far, rows.step, wrong)


def divide_rows(release: Any, first: Any, second: Any, *, confidence: Number = 0.95) -> DerivedValue:
    """Return the ratio of two rows of a release, with an interval from those of both rows.

    It has an upper end only where the interval of the divisor lies above 0. Counts, which the rows of a
    session are, are not negative; then the lower end is at least 0.

    Parameters
    ----------
    release : Histogram, TopItems or Values
        As for `add_rows`.
    first, second : object
        Two rows: first / second.
    confidence : number
        In (0, 1): both intervals hold together with that.

    Raises
    ------
    InvalidParameter
        As for `add_rows`.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> ratio = sd.divide_rows(m.release([900, 300], entropy=sd.Seeded(7)), 0, 1)
    >>> 2.8 < ratio.low < 3 < ratio.high < 3.2
    True
    """
    share = SHARE("divide_rows.confidence", confidence)
    rows = _read_rows(release, "divide_rows")
    place, under = rows.find(first, "divide_rows.first"), rows.find(second, "divide_rows.second")
    if place == under:
        raise InvalidParameter(f"divide_rows needs two different rows; got {shown(first)} twice.")
    each, _ = share_confidence(share, 2, simultaneous=True)
    far = round(find_reach(rows.mechanism, Fraction(each)) / float(rows.step))
    top = _bound_row(rows, place, far)
    bottom = _bound_row(rows, under, far)
    if bottom[0] > 0:
        # Of positive divisors the smallest one moves the quotient farthest from 0.
        ends = (min(top[0] / one for one in bottom), max(top[1] / one for one in bottom))
        low, high = float(ends[0]), float(ends[1])
    elif rows.counts:
        low, high = (float(top[0] / bottom[1]) if bottom[1] > 0 else 0.0), math.inf
    else:
        low, high = -math.inf, math.inf
    over, divisor = rows.steps[place], rows.steps[under]
    value = float(Fraction(over, divisor)) if divisor > 0 else math.nan
    return DerivedValue(value=value, low=low, high=high, confidence=float(share))


def rank_rows(release: Any, *, confidence: Number = 0.95) -> tuple[RowRanks, ...]:
    """Return which ranks each row may have among the released ones; all of them hold together.

    One row is surely above another one if its value leads by more than the noise of both would, for any of
    the pairs. Rows that were not released have no rank here.

    Parameters
    ----------
    release : Histogram, TopItems or Values
        As for `add_rows`.
    confidence : number
        In (0, 1): of all ranks together.

    Returns
    -------
    tuple of RowRanks
        In the order of the rows.

    Raises
    ------
    InvalidParameter
        As for `add_rows`.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.LaplaceMechanism(epsilon=3, sensitivity=sd.COUNTING.over(3))
    >>> [(row.best, row.worst) for row in sd.rank_rows(m.release([900, 301, 300], entropy=sd.Seeded(7)))]
    [(1, 1), (2, 3), (2, 3)]
    """
    wrong = 1 - SHARE("rank_rows.confidence", confidence)
    rows = _read_rows(release, "rank_rows")
    k = len(rows.steps)
    if k == 1:
        return (RowRanks(item=next(iter(rows.places)), best=1, worst=1),)
    # For each pair only one of the two directions can be wrong, so that one tail is enough.
    lead = reach([Noise(rows.rate)] * 2, 2 * wrong / math.comb(k, 2)) + 1
    ordered = np.sort(np.array(rows.steps, dtype=object).astype(np.float64))
    ranks = []
    for name, value in zip(rows.places, rows.steps, strict=True):
        above = k - int(np.searchsorted(ordered, value + lead))
        below = int(np.searchsorted(ordered, value - lead, side="right"))
        ranks.append(RowRanks(item=name, best=1 + above, worst=k - below))
    return tuple(ranks)


def combine_looks(releases: Iterable[Any], *, confidence: Number = 0.95) -> tuple[DerivedValue, ...]:
    """Return each row from several independent looks at it, with an interval from the exact law.

    The values are weighted by one over their variances, rounded to whole numbers. Refined looks are not
    independent: the last one says all that the ones before it say.

    Parameters
    ----------
    releases : iterable of Histogram, TopItems, Count, Value or Values
        At least two, with Laplace noise of their own, about the same rows.
    confidence : number
        In (0, 1), if it does not depend on released values how often and how finely was looked. If it does,
        take the last look alone.

    Returns
    -------
    tuple of DerivedValue
        One for each row, in the order of the first release.

    Raises
    ------
    InvalidParameter
        If there are fewer than two looks, they have different rows or other noise, one refines another one,
        or the confidence is not in (0, 1).

    Examples
    --------
    >>> import sordino as sd
    >>> noise, m = sd.Seeded(7), sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
    >>> looks = [m.release(1000, entropy=noise), m.release(1000, entropy=noise)]
    >>> [both] = sd.combine_looks(looks)
    >>> both.high - both.low, sd.interval(looks[0])[1] - sd.interval(looks[0])[0]
    (4.0, 6.0)
    """
    wrong = 1 - SHARE("combine_looks.confidence", confidence)
    looks = [_read_rows(release, "combine_looks") for release in releases]
    if len(looks) < 2 or any(look.places.keys() != looks[0].places.keys() for look in looks):
        raise InvalidParameter("combine_looks needs at least two releases about the same rows.")
    _check_independent(looks)
    # In the smallest unit every released value is whole.
    unit = min(look.step for look in looks)
    precisions = [1 / (look.mechanism.noise.variance * float(look.step) ** 2) for look in looks]
    weights = [max(1, round(_LARGEST_WEIGHT * one / max(precisions))) for one in precisions]
    common = math.gcd(*weights)
    weights = [weight // common for weight in weights]
    whole = [int(weight * look.step / unit) for weight, look in zip(weights, looks, strict=True)]
    far = reach([Noise(look.rate, times) for look, times in zip(looks, whole, strict=True)], wrong)
    combined = []
    for name in looks[0].places:
        seen = (look.steps[look.places[name]] for look in looks)
        total = sum(times * steps for times, steps in zip(whole, seen, strict=True))
        combined.append(_derive(total, far, unit / sum(weights), wrong, name))
    return tuple(combined)


def _derive(value: int, far: int, step: Fraction, wrong: Fraction, item: Any = None) -> DerivedValue:
    return DerivedValue(
        value=float(value * step),
        low=float((value - far) * step),
        high=float((value + far) * step),
        confidence=float(1 - wrong),
        item=item,
    )


def _bound_row(rows: _Rows, place: int, far: int) -> tuple[Fraction, Fraction]:
    """Return the interval of one row, in steps."""
    low, high = Fraction(rows.steps[place] - far), Fraction(rows.steps[place] + far)
    # No count lies below 0.
    return (max(low, Fraction(0)), max(high, Fraction(0))) if rows.counts else (low, high)


def _check_independent(looks: Sequence[_Rows]) -> None:
    """Refuse looks of which one refines another one."""
    known = [look.mechanism for look in looks]
    for look in looks:
        before: Any = look.mechanism
        while isinstance(before, RefinedLaplace):
            before = before.first
            if before in known:
                raise InvalidParameter(
                    "combine_looks needs independent looks; got one that refines another one, and says all "
                    "that it says. Take the last one alone."
                )


def _read_rows(release: Any, caller: str) -> _Rows:
    """Return the rows of a release with Laplace noise."""
    mechanism = getattr(release, "mechanism", None)
    listed = getattr(release, "rows", None)
    if isinstance(mechanism, tuple):
        # Of what was selected the fresh measurement counts, which is the last mechanism.
        measured = listed and all(hasattr(row, "measured") for row in listed)
        mechanism = mechanism[-1] if measured else None
    if not isinstance(mechanism, LaplaceMechanism | RefinedLaplace):
        raise InvalidParameter(
            f"{caller} needs a release with Laplace noise: a count, a histogram, a top k, or what "
            "LaplaceMechanism or RefinedLaplace released."
        )
    counts = not isinstance(release, Value | Values)
    if listed is not None:
        names = [row.item for row in listed]
        values = [getattr(row, "measured", row.estimate) for row in listed]
    else:
        # A number alone is a `value`, a count of a session an `estimate`.
        alone = release.value if isinstance(release, Value) else getattr(release, "estimate", None)
        values = release.values.tolist() if isinstance(release, Values) else [alone]
        names = list(range(len(values)))
    # The step is a power of two: a released value is a whole number of steps.
    steps = tuple(round(Fraction(value) / mechanism.step) for value in values)
    return _Rows({name: place for place, name in enumerate(names)}, steps, mechanism, counts)
