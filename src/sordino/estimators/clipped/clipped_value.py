"""A sum or a mean of clipped records: the number, and what is known of it.

Claim: `interval` covers the figure of the clipped records, `true_interval` that of the records
themselves, each with at least its confidence. Where the share of one total in two lies is found by
inverting a test: u/(u + v) of whole u, v >= 0, u + v > 0, is between the ends with at least the
stated confidence, for every number of records. Proof: docs/proofs/clipped-sum.md,
docs/proofs/clipped-mean.md. Floats: exact fractions of what was released, rounded once; the tail of
two variables is rounded in its last digits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

from sordino.constraints import SHARE, TRUTH, Number
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.column_release import ColumnRelease, Weights
from sordino.figures import Combination, Derivable, DerivedValue, Origin, Ratio, Term, state
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.population import Population
from sordino.releases import HasInterval

Ends = tuple[Fraction, Fraction]

MISS_PROBABILITY = Fraction(1, 20)
"""How often an interval may miss."""
_WITH_BEYOND = 3
"""Of so many totals the third one is of what lies beyond the clip."""
_LIGHT = 5
"""Of so many deviations of the noise of a total what all rows weigh must be told from nothing."""


class ClippedRelease(Derivable, HasInterval, ColumnRelease):
    """A figure of clipped records, and what is known of that of all records as they are."""

    found: Clip
    noise_error: float
    weights: Weights | None

    @property
    @abstractmethod
    def too_few(self) -> bool:
        """Whether there are too few records to tell the figure."""

    @cached_property
    def standard_error(self) -> float:
        """Standard deviation of the noise; infinite where there are too few records to tell it."""
        return math.inf if self.too_few and not self._is_sum else self.noise_error

    @property
    def _is_sum(self) -> bool:
        """Whether the error is that of the noise, and no approximation for many records."""
        return False

    def take_population(self, population: Population) -> None:
        """Take what says of whom it is, and add how rows were weighed."""
        if self.weights is not None:
            population = self.weights.tell(population)
        super().take_population(population)

    @abstractmethod
    def _find_ends(self, wrong: Fraction) -> tuple[float, float]:
        """Return ends that hold the figure of the clipped records, but for a chance of `wrong`."""

    @abstractmethod
    def true_interval(
        self, *, confidence: Number = 0.95, within_cap: bool = False
    ) -> tuple[float, float]:
        """Return the ends of an interval for the figure of the records as they are, not clipped."""

    @cached_property
    # It is read, and never set.
    def interval(self) -> tuple[float, float]:  # type: ignore[override]
        """Where the figure of the clipped records is, with a probability of at least 95%."""
        # Computed when somebody asks: of thousands of groups that takes longer than to release
        # them.
        return self._find_ends(MISS_PROBABILITY)

    def interval_at(self, *, confidence: Number) -> tuple[float, float]:
        """Return an interval for the figure of the clipped records at another confidence than 95%.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).
        """
        # No noise is drawn, and no record is read: this is post-processing of what was released.
        return self._find_ends(
            1 - SHARE(f"{type(self).__name__}.interval_at.confidence", confidence)
        )

    def _own(self) -> dict[str, Any]:
        named = {"noise_error": "standard_error"}
        own = {named.get(name, name): value for name, value in super()._own().items()}
        return own | {"standard_error": self.standard_error, "interval": self.interval}

    @cached_property
    def _true_ends(self) -> tuple[float, float]:
        return (self._low_without_rows, math.inf) if self.leaves_rows_out else self.true_interval()

    @property
    def _low_without_rows(self) -> float:
        """The lower end where rows are left out, of which nothing is known."""
        # They may change a figure either way.
        return -math.inf

    @property
    def true_low(self) -> float:
        """The lower end for all records as they are."""
        return self._true_ends[0]

    @property
    def true_high(self) -> float:
        """The upper end for all records as they are."""
        return self._true_ends[1]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedValue(ClippedRelease):
    """A private sum or mean, between ends that were found privately.

    Attributes
    ----------
    value : float
        The noisy sum or mean of the clipped records, in the unit of the values; `estimate` is the
        same.
    clip : tuple of float
        The ends (low, high) that records were moved into.
    capped : bool
        Whether the upper end is the cap, or a search ran to the end of its grid: noise is as large
        as the cap then.
    standard_error : float
        Standard deviation of the noise, given the clip; says nothing of what clipping cut off. Of a
        mean of a private number of records an approximation for many, at the released numbers;
        infinite where there are too few to tell a mean.
    interval : tuple of float
        Covers the sum or mean *of the clipped records* with a probability of at least 95%: from
        the exact law of the noise, also for few records. Its ends are `low` and `high` as well.
    true_low, true_high : float
        Ends of an interval of 95% of the figure of all records as they are; infinite where no end
        is known. A session with `max_rows` leaves records out, of which these ends know and
        `true_interval` does not.
    too_few : bool
        Whether the interval leaves nothing out: then there are too few records to tell the figure.
        Of a sum: whether it cannot be told from 0, that of no records. Of weighed rows also where
        all of them weigh less than five deviations of the noise.
    weights : Weights or None
        Of means over people with any number of rows: how these were weighed.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=1e6)
    >>> total = mechanism.release([12, 30, 7] * 200, entropy=sd.Seeded(7))
    >>> low, high = total.interval
    >>> low < total.value < high, total.clip[1] < 1000, total.capped
    (True, True, False)
    >>> total.true_interval()[1]
    inf
    """

    value: float
    clip: tuple[float, float]
    capped: bool
    noise_error: float
    found: Clip = field(repr=False)
    noise: TotalNoise = field(repr=False)
    noisy: tuple[int, ...] = field(repr=False)
    records: int | None = field(repr=False)
    weights: Weights | None = field(default=None, repr=False)

    def _find_ends(self, wrong: Fraction) -> tuple[float, float]:
        return _round_ends(clipped_ends(self.found, self.noise, self.noisy, self.records, wrong))

    @property
    def _is_sum(self) -> bool:
        return len(self.noisy) == 1 and self.records is None

    @property
    def _low_without_rows(self) -> float:
        # Rows that are left out make no sum smaller where no number lies below 0.
        return self.true_interval()[0] if self._is_sum else super()._low_without_rows

    @property
    def too_few(self) -> bool:
        """Whether the interval leaves nothing out."""
        # Whatever records hold, their mean lies within the clip. Of a sum 0 is what no records
        # give.
        least, most = (0.0, 0.0) if self._is_sum else self.clip
        # Of groups where rows weigh hardly anything an interval says nothing worth to be drawn.
        light = self.weights is not None and is_light(self.noisy, self.noise)
        return light or (self.low <= least and self.high >= most)

    def list_terms(self, origin: Origin) -> dict[Any, Term]:
        """Return the sum as one released number, for figures that are made of it; of a mean none.

        A mean is a ratio of two noisy totals, or was moved into the clip: it has an interval alone.
        """
        if not self._is_sum:
            return {}
        return dict(enumerate(self._list_totals(origin)))

    def _list_totals(self, origin: Origin) -> list[Term]:
        """Return the noisy totals."""
        return [
            Term(
                origin=origin,
                row=row,
                value=total * self.noise.step,
                law=self.noise.mechanism.noise,
                step=self.noise.step,
                rounded=self.noise.rounded * self.noise.step,
            )
            for row, total in enumerate(self.noisy)
        ]

    @cached_property
    def parts(self) -> dict[str, DerivedValue]:
        """Of a mean the `count` of its records and their `sum`, of the same noisy totals.

        Each has an interval of 95%, of clipped records as the mean's; where rows have weights, a
        row counts as 1 unless its unit has more than may count. They cost nothing. A sum has none.
        """
        if self._is_sum:
            return {}
        clip, once = self.found, Fraction(1)
        terms = self._list_totals(Origin())
        low, width = clip.bottom * clip.step, (clip.top - clip.bottom) * clip.step
        if self.records is not None:
            made = {
                "count": Combination({}, self.records * once),
                "sum": Combination({terms[0]: once}),
            }
        else:
            # All distances of a record, from the lower end and from the upper one, are the width.
            count = Combination(dict.fromkeys(terms, 1 / width))
            below = Combination({term: once for term in terms if term.row != 1})
            made = {"count": count, "sum": below.plus(count, low)}
        if self.weights is not None:
            # Totals are in units; a row of one that has no more than may count weighs this part.
            part = Fraction((1 << self.weights.bits) // self.weights.cap, 1 << self.weights.bits)
            made = {name: figure.times(1 / part) for name, figure in made.items()}
        # How many there are does not depend on where they were clipped; neither lies below 0 that
        # is made of nothing below it.
        clipped = {"count": self.weights is not None, "sum": True}
        floors = {"count": 0.0, "sum": 0.0 if low >= 0 else -math.inf}
        found = {}
        for name, figure in made.items():
            one = state(figure, confidence=1 - MISS_PROBABILITY, planned=False, parts=(self,))
            least = floors[name]
            down, up = max(one.low, least), max(one.high, least)
            found[name] = replace(one, clipped=clipped[name], low=down, high=up)
        return found

    def true_interval(
        self, *, confidence: Number = 0.95, within_cap: bool = False
    ) -> tuple[float, float]:
        """Return the ends of an interval for the sum or mean of records as they are, not clipped.

        No private number can tell how far the largest records reach. So an end is infinite unless a
        public statement closes it. Where `lower` was 0 or more and no record lies below it, the
        lower end is finite. With `within_cap` both are.

        Parameters
        ----------
        confidence : number
            In (0, 1).
        within_cap : bool
            Say True only if it is public that all records lie between `lower` (with None: minus the
            cap) and the cap. Then as many of them as the search may have left beyond the clip are
            counted as if they lay there. Of sums with one clip for all groups: that every unit adds
            up to at most the cap in all of them.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).

        Notes
        -----
        Of means with `upper` the upper end is finite in any case: it holds if no record lies above
        the cap, as what lies beyond the clip is taken to lie there.

        Else a finite upper end is one for records that are rounded down to whole steps (of about
        the clip over 2^32), as they were added.
        """
        wrong = 1 - SHARE("ClippedValue.true_interval.confidence", confidence)
        TRUTH("ClippedValue.true_interval.within_cap", within_cap)
        if len(self.noisy) == _WITH_BEYOND:
            return self._ends_by_beyond(wrong, within_cap=within_cap)
        # With both signs clipping may have raised the figure, too: no end holds without a public
        # statement.
        if not within_cap:
            if self.found.mechanism.sides != "above":
                return -math.inf, math.inf
            low, _ = _round_ends(
                clipped_ends(
                    self.found, self.noise, self.noisy, self.records, wrong, two_sided=False
                )
            )
            return low, math.inf
        # Noise, rank and number may each fail, with a third: docs/proofs/clipped-sum.md,
        # "Intervals".
        return _round_ends(self._unclipped_ends(wrong / 3))

    def _ends_by_beyond(self, wrong: Fraction, *, within_cap: bool) -> tuple[float, float]:
        """Return the ends for all records from three totals; half of `wrong` is for either end."""
        low = -math.inf
        if within_cap:
            # Three things may fail, each at both ends.
            low = float(self._unclipped_ends(wrong / 6)[0])
        elif self.found.mechanism.sides == "above":
            low = float(clipped_ends(self.found, self.noise, self.noisy, None, wrong)[0])
        # The mean as it is lies no lower than that of what is clipped. Released totals may say
        # otherwise, and then an end that is farther out holds as well.
        end = float(find_upper_end(self.found, self.noise, self.noisy, wrong))
        return low, max(end, self.value, self._find_ends(wrong)[1])

    def _unclipped_ends(self, wrong: Fraction) -> Ends:
        """Return the ends for all records, if they lie within the cap.

        Three things may fail, each with a probability of at most `wrong`.
        """
        low, high = clipped_ends(self.found, self.noise, self.noisy, self.records, wrong)
        down, up = _bound_sums_beyond_clip(self.found, wrong)
        if self.weights is not None:
            # Counted in steps of a unit's weight, and all groups together.
            down, up = down / (1 << self.weights.bits), up / (1 << self.weights.bits)
        if self.records is None and len(self.noisy) == 1:
            return low - down, high + up
        search = self.found.mechanism
        least = _least_number_of_records(self.found, self.noise, self.noisy, self.records, wrong)
        # No record is certain: the mean may lie anywhere within the public limits.
        if not least:
            return search.lower, search.cap
        return max(low - down / least, search.lower), min(high + up / least, search.cap)


def is_light(noisy: Sequence[int | Fraction], noise: TotalNoise) -> bool:
    """Tell whether what all rows weigh cannot be told from nothing, by totals that add up to it."""
    return sum(noisy) < _LIGHT * noise.deviation


def clipped_ends(
    clip: Clip,
    noise: TotalNoise,
    noisy: tuple[int, ...],
    records: int | None,
    wrong: Fraction,
    *,
    two_sided: bool = True,
) -> Ends:
    """Return ends that hold the figure of clipped records with probability at least 1 - `wrong`.

    One total: the exact quantiles of its noise. Two totals, of the distances from either end: the
    shares that they do not refute. Not `two_sided`: only the lower end holds, at the same level.
    """
    if len(noisy) == _WITH_BEYOND:
        level = wrong if two_sided else min(2 * wrong, Fraction(1))
        ends = _bound_share(noise, noisy, Fraction(1), level)
        width = clip.top - clip.bottom
        low, high = ((clip.bottom + Fraction(end) * width) * clip.step for end in ends)
        return low, high
    if len(noisy) == 2:
        law = noise.mechanism.noise
        low, high = ShareTest(
            *noisy, law=law, rounded=noise.rounded, wrong=float(wrong), one_sided=not two_sided
        ).ends()
        width = clip.top - clip.bottom
        return (clip.bottom + low * width) * clip.step, (clip.bottom + high * width) * clip.step
    # `reach` is for both tails. If only one may fail, it may fail as often as both together.
    reach = noise.reach(wrong if two_sided else min(2 * wrong, Fraction(1)))
    # A total may have been rounded down by up to one noise step.
    low, high = (noisy[0] - reach) * noise.step, (noisy[0] + reach + noise.rounded) * noise.step
    if records is None:
        return low, high
    return _move_into_clip(clip, low / max(1, records)), _move_into_clip(
        clip, high / max(1, records)
    )


def find_upper_end(
    clip: Clip, noise: TotalNoise, noisy: tuple[int, ...], wrong: Fraction
) -> Fraction:
    """Return an end that the mean of records as they are exceeds with half of `wrong` at most.

    That is so if none lies above the cap. The totals are three: what lies beyond the clip counts as
    if it lay at the cap.
    """
    # Of a record beyond, one step of its total stands for so much of the distance to the cap.
    far = max(Fraction(0), clip.mechanism.cap / clip.step - clip.high)
    each = 1 + far / (clip.high - clip.bottom)
    _, high = _bound_share(noise, noisy, each, wrong)
    # All others were rounded down by less than a step.
    end = (clip.bottom + Fraction(high) * (clip.top - clip.bottom) + 1) * clip.step
    cap: Fraction = clip.mechanism.cap
    return min(end, cap)


def _bound_share(
    noise: TotalNoise, noisy: tuple[int, ...], each: Fraction, wrong: Fraction
) -> tuple[float, float]:
    """Return ends of (first + `each` times third total) over all three, for `each` of 1 or more.

    Either end fails with half of `wrong` at most. There is such a share where records are.
    """
    origin = Origin()
    terms = [
        Term(
            origin=origin,
            row=place,
            value=Fraction(total),
            law=noise.mechanism.noise,
            step=Fraction(1),
            rounded=Fraction(noise.rounded),
            counts=True,
        )
        for place, total in enumerate(noisy)
    ]
    over = Combination({terms[0]: Fraction(1), terms[2]: each})
    under = Combination(dict.fromkeys(terms, Fraction(1)))
    return Ratio(over, under).test(wrong)


def _least_number_of_records(
    clip: Clip, noise: TotalNoise, noisy: tuple[int, ...], records: int | None, wrong: Fraction
) -> Fraction:
    """Return how many records there are at least: their known number, or a bound from all totals.

    Each total fails with an equal part of `wrong`.
    """
    if records is not None:
        # A mean of no records is taken as if there were one, as where it is released.
        return Fraction(max(1, records))
    reach = noise.reach(wrong / len(noisy))
    least = sum(max(0, total - reach) for total in noisy)
    return Fraction(least) * noise.step / ((clip.top - clip.bottom) * clip.step)


def counts_beyond(clip: Clip, wrong: Fraction) -> list[Fraction]:
    """Return how many records lie beyond the clip at most, for each search."""
    # A search that found nothing clips at the limit of its side, beyond which no record is taken to
    # lie.
    return [
        Fraction(0)
        if tests is None
        else Fraction(clip.mechanism.beyond(tests, wrong / len(clip.tests)))
        for tests in clip.tests
    ]


def _bound_sums_beyond_clip(clip: Clip, wrong: Fraction) -> Ends:
    """Return how much the records beyond each end may add up to.

    This holds if none lies beyond `lower` and the cap.
    """
    search, counts = clip.mechanism, counts_beyond(clip, wrong)
    down = counts[0] * max(Fraction(0), clip.low * clip.step - search.lower)
    return down, counts[-1] * max(Fraction(0), search.cap - clip.high * clip.step)


def _move_into_clip(clip: Clip, number: Fraction) -> Fraction:
    return max(clip.bottom * clip.step, min(clip.top * clip.step, number))


def _round_ends(ends: Ends) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


_FULL_SHARE = 1 << 64  # ends are whole multiples of 2^-64
_CELL = 2.0**-64


@final
@dataclass(frozen=True)
class ShareTest:
    """Which shares are refuted by two noisy totals.

    Attributes
    ----------
    first, second : int
        The totals with independent noise, in steps.
    law : DiscreteLaplace or DiscreteGaussian
        Of the noise on each.
    rounded : int
        By how many steps a total may have been rounded down, rounded up.
    wrong : float
        With which probability the true share may be refuted.
    one_sided : bool
        Refute only shares that are too small.
    """

    first: int
    second: int
    law: DiscreteLaplace | DiscreteGaussian
    rounded: int
    wrong: float
    one_sided: bool

    def refutes(self, low: int, high: int) -> bool:
        """Return whether all shares from `low` to `high`, in units of 2^-64, are refuted.

        A share is refuted if under it the totals would be too far apart.
        """
        total, start, slack, law_tail, wrong = self._known
        # The distance is linear in the share, so over a range of shares it is extreme at its ends.
        one, other = start - low * total, start - high * total
        least, most = (one, other) if one < other else (other, one)
        away = least if self.one_sided or least > 0 else -most
        # Exact: a power of two, and the nearest float of a whole number.
        distance = away * _CELL - slack
        if distance <= 0:
            return False
        # The tail rises with both scales, so the larger ones of the range make the test refute
        # less.
        left = _FULL_SHARE - low
        wider, narrow = (left, high) if left > high else (high, left)
        return law_tail(distance, wider * _CELL, narrow * _CELL) <= wrong

    @cached_property
    def _known(self) -> tuple[int, int, int, Callable[[float, float, float], float], float]:
        """What follows from the totals alone: a thousand cells are asked about."""
        wrong = 2 * self.wrong if self.one_sided else self.wrong
        total, start = self.first + self.second, self.first * _FULL_SHARE
        return total, start, self._slack, tail_of(self.law), wrong

    @property
    def _slack(self) -> int:
        """How many steps noise and rounding may be away from continuous noise on exact totals."""
        # Both laws are drawn together with continuous ones: Laplace noise less than a step away,
        # Gaussian noise a step and a half at most, which is rounded up.
        return (2 if isinstance(self.law, DiscreteGaussian) else 1) + self.rounded

    def ends(self) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest share that is not refuted, rounded outward.

        They are 0 and 1 where the totals are nothing but noise.
        """
        if (
            self.first + self.second <= 0
        ):  # nothing but noise: the share at which they balance means nothing
            return Fraction(0), Fraction(1)
        low = self._end(upper=False)
        # What refutes small shares alone leaves the largest one standing, where any one stands.
        high = _FULL_SHARE if self.one_sided and low is not None else self._end(upper=True)
        # All shares are refuted, the true one among them. Any answer is as wrong, and this one is
        # sensible.
        if low is None or high is None:
            return replace(self, first=max(0, self.first), second=max(0, self.second)).ends()
        return Fraction(low, _FULL_SHARE), Fraction(high, _FULL_SHARE)

    def _end(self, *, upper: bool) -> int | None:
        """Return the outer end of the outermost cell of width 2^-64 not refuted as a whole."""
        # Halving finds the outermost cell that stands. It needs no monotony of what is refuted
        # (docs/proofs/clipped-mean.md, "Intervals").
        cells = [(0, _FULL_SHARE)]
        while cells:
            low, high = cells.pop()
            if self.refutes(low, high):
                continue
            if high - low == 1:
                return high if upper else low
            middle = (low + high) // 2
            halves = [(low, middle), (middle, high)]
            cells += halves if upper else halves[::-1]  # the outer one is looked at first
        return None


def tail(law: DiscreteLaplace | DiscreteGaussian, t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two continuous variables of the rate of the law.

    This takes t >= 0 and a >= c >= 0, a > 0.
    """
    return tail_of(law)(t, a, c)


def tail_of(law: DiscreteLaplace | DiscreteGaussian) -> Callable[[float, float, float], float]:
    """Return `tail` for one law."""
    rate = float(law.rate)
    if isinstance(law, DiscreteGaussian):
        root = math.sqrt(rate)
        # The difference is normal, with a variance of (a^2 + c^2) / (2 rate).
        return lambda t, a, c: math.erfc(t * root / math.hypot(a, c))
    return lambda t, a, c: laplace_tail(t * rate, a, c)


def laplace_tail(t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two standard Laplace variables, t >= 0 and a >= c >= 0, a > 0.

    It is (a^2 e^(-t/a) - c^2 e^(-t/c)) / (a^2 - c^2), written without differences of what may be
    equal.
    """
    if c == 0:
        return math.exp(-t / a)
    x = (a - c) * t / (a * c)
    mean = -math.expm1(-x) / x if x > 0 else 1.0  # of e^-y over 0 < y < x
    return math.exp(-t / a) * (1 + c * t / (a * (a + c)) * mean)
