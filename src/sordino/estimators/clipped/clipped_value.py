"""A sum or a mean of clipped records: the number, and what is known of it.

Claim: `interval` covers the figure of the clipped records, `true_interval` that of the records themselves,
each with at least its confidence. Proof: docs/proofs/clipped-sum.md, docs/proofs/clipped-mean.md.
Floats: exact fractions of what was released, rounded once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import final

from sordino.constraints import SHARE, TRUTH, Number
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.columns.column_release import ColumnRelease
from sordino.releases import HasInterval

Ends = tuple[Fraction, Fraction]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClippedValue(HasInterval, ColumnRelease):
    """A private sum or mean, between ends that were found privately.

    Attributes
    ----------
    value : float
        The noisy sum or mean of the clipped records, in the unit of the values; `estimate` is the same.
    clip : tuple of float
        The ends (low, high) that records were moved into.
    capped : bool
        Whether the upper end is the cap, or a search ran to the end of its grid: noise is as large as the cap
        then.
    standard_error : float
        Standard deviation of the noise, given the clip; says nothing of what clipping cut off. Of a mean
        under add-remove an approximation for many records, at the released numbers.
    interval : tuple of float
        Covers the sum or mean *of the clipped records* with a probability of at least 95 %: from the exact
        law of the noise, also for few records. Its ends are `low` and `high` as well.

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
    standard_error: float
    interval: tuple[float, float]
    found: Clip = field(repr=False)
    noise: TotalNoise = field(repr=False)
    noisy: tuple[int, ...] = field(repr=False)
    records: int | None = field(repr=False)

    def interval_at(self, *, confidence: Number) -> tuple[float, float]:
        """Return an interval for the sum or mean of the clipped records at another confidence than 95 %.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).
        """
        # No noise is drawn, and no record is read: this is post-processing of what was released.
        wrong = 1 - SHARE("ClippedValue.interval_at.confidence", confidence)
        return _round_ends(clipped_ends(self.found, self.noise, self.noisy, self.records, wrong))

    def true_interval(self, *, confidence: Number = 0.95, within_cap: bool = False) -> tuple[float, float]:
        """Return the ends of an interval for the sum or mean of the records as they are, not clipped.

        No private number can tell how far the largest records reach. So an end is infinite unless a public
        statement closes it. Where `lower` was 0 or more and no record lies below it, the lower end is finite.
        With `within_cap` both are.

        Parameters
        ----------
        confidence : number
            In (0, 1).
        within_cap : bool
            Say True only if it is public that all records lie between `lower` (with None: minus the cap) and
            the cap. Then as many of them as the search may have left beyond the clip are counted as if they
            lay there.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).

        Notes
        -----
        A finite upper end is one for records that are rounded down to whole steps (of about the clip over
        2^32), as they were added.
        """
        wrong = 1 - SHARE("ClippedValue.true_interval.confidence", confidence)
        TRUTH("ClippedValue.true_interval.within_cap", within_cap)
        # With both signs clipping may have raised the figure, too: no end holds without a public statement.
        one_sided = self.found.mechanism.sides == "above"
        if not within_cap:
            low, _ = _round_ends(
                clipped_ends(self.found, self.noise, self.noisy, self.records, wrong, two_sided=False)
            )
            return (low if one_sided else -math.inf), math.inf
        # Noise, rank and number may each fail, with a third: docs/proofs/clipped-sum.md, "Intervals".
        return _round_ends(self._unclipped_ends(wrong / 3))

    def _unclipped_ends(self, wrong: Fraction) -> Ends:
        """Return the ends for all records, if they lie within the cap.

        Three things may fail, each with a probability of at most `wrong`.
        """
        low, high = clipped_ends(self.found, self.noise, self.noisy, self.records, wrong)
        down, up = _bound_sums_beyond_clip(self.found, wrong)
        if self.records is None and len(self.noisy) == 1:
            return low - down, high + up
        search = self.found.mechanism
        least = _least_number_of_records(self.found, self.noise, self.noisy, self.records, wrong)
        # No record is certain: the mean may lie anywhere within the public limits.
        if not least:
            return search.lower, search.cap
        return max(low - down / least, search.lower), min(high + up / least, search.cap)


def clipped_ends(
    clip: Clip,
    noise: TotalNoise,
    noisy: tuple[int, ...],
    records: int | None,
    wrong: Fraction,
    *,
    two_sided: bool = True,
) -> Ends:
    """Return ends that hold the figure of the clipped records with a probability of at least 1 - `wrong`.

    One total: the exact quantiles of its noise. Two totals, of the distances from either end: the shares that
    they do not refute. Not `two_sided`: only the lower end holds, at the same level.
    """
    if len(noisy) == 2:
        rate, slack = float(noise.mechanism.noise.rate), 1 + noise.rounded
        low, high = ShareTest(
            *noisy, rate=rate, slack=slack, wrong=float(wrong), one_sided=not two_sided
        ).ends()
        return (clip.low + low * (clip.high - clip.low)) * clip.step, (
            clip.low + high * (clip.high - clip.low)
        ) * clip.step
    # `reach` is for both tails. If only one may fail, it may fail as often as both together.
    reach = noise.reach(wrong if two_sided else min(2 * wrong, Fraction(1)))
    # A total may have been rounded down by up to one noise step.
    low, high = (noisy[0] - reach) * noise.step, (noisy[0] + reach + noise.rounded) * noise.step
    if records is None:
        return low, high
    return _move_into_clip(clip, low / max(1, records)), _move_into_clip(clip, high / max(1, records))


def _least_number_of_records(
    clip: Clip, noise: TotalNoise, noisy: tuple[int, ...], records: int | None, wrong: Fraction
) -> Fraction:
    """Return how many records there are at least: their known number, or a bound from both totals.

    Each total fails with half of `wrong`.
    """
    if records is not None:
        # A mean of no records is taken as if there were one, as where it is released.
        return Fraction(max(1, records))
    least = sum(max(0, total - noise.reach(wrong / 2)) for total in noisy)
    return Fraction(least) * noise.step / ((clip.high - clip.low) * clip.step)


def counts_beyond(clip: Clip, wrong: Fraction) -> list[Fraction]:
    """Return how many records lie beyond the clip at most, for each search."""
    # A search that found nothing clips at the limit of its side, beyond which no record is taken to lie.
    return [
        Fraction(0) if tests is None else Fraction(clip.mechanism.beyond(tests, wrong / len(clip.tests)))
        for tests in clip.tests
    ]


def _bound_sums_beyond_clip(clip: Clip, wrong: Fraction) -> Ends:
    """Return how much the records beyond each end may add up to, if none lies beyond `lower` and the cap."""
    search, counts = clip.mechanism, counts_beyond(clip, wrong)
    down = counts[0] * max(Fraction(0), clip.low * clip.step - search.lower)
    return down, counts[-1] * max(Fraction(0), search.cap - clip.high * clip.step)


def _move_into_clip(clip: Clip, number: Fraction) -> Fraction:
    return max(clip.low * clip.step, min(clip.high * clip.step, number))


def _round_ends(ends: Ends) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


# ---- the interval of a share -------------------------------------------------------------------------------
# Where the share of one total in two lies, from both with noise: an interval by inverting a test, exact for
# every number of records.
#
# Claim: the share u/(u + v) of whole u, v >= 0, u + v > 0, is between the ends with at least the stated
# confidence. Proof: docs/proofs/clipped-mean.md, "Intervals".
# Floats: distances are exact fractions; the tail of two Laplace variables is rounded in its last digits.


_FULL_SHARE = 1 << 64  # ends are whole multiples of 2^-64


@final
@dataclass(frozen=True)
class ShareTest:
    """Which shares are refuted by two noisy totals.

    Attributes
    ----------
    first, second : int
        The totals with independent discrete Laplace noise, in steps.
    rate : float
        Of the noise, in nats a step.
    slack : int
        How many steps noise and rounding may be away from Laplace noise on exact totals.
    wrong : float
        With which probability the true share may be refuted.
    one_sided : bool
        Refute only shares that are too small.
    """

    first: int
    second: int
    rate: float
    slack: int
    wrong: float
    one_sided: bool

    def refutes(self, low: int, high: int) -> bool:
        """Return whether all shares from `low` to `high`, in units of 2^-64, are refuted.

        A share is refuted if under it the totals would be too far apart.
        """
        # The distance is linear in the share, so over a range of shares it is extreme at its ends.
        ends = [self.first * _FULL_SHARE - share * (self.first + self.second) for share in (low, high)]
        away = min(ends) if self.one_sided or min(ends) > 0 else -max(ends)
        distance = away / _FULL_SHARE - self.slack
        if distance <= 0:
            return False
        # The tail rises with both scales, so the larger ones of the range make the test refute less.
        wider, other = max(_FULL_SHARE - low, high) / _FULL_SHARE, min(_FULL_SHARE - low, high) / _FULL_SHARE
        return tail(distance * self.rate, wider, other) <= (2 * self.wrong if self.one_sided else self.wrong)

    def ends(self) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest share that is not refuted, rounded outward.

        They are 0 and 1 where the totals are nothing but noise.
        """
        if self.first + self.second <= 0:  # nothing but noise: the share at which they balance means nothing
            return Fraction(0), Fraction(1)
        low, high = self._end(upper=False), self._end(upper=True)
        # All shares are refuted, the true one among them. Any answer is as wrong, and this one is sensible.
        if low is None or high is None:
            return replace(self, first=max(0, self.first), second=max(0, self.second)).ends()
        return Fraction(low, _FULL_SHARE), Fraction(high, _FULL_SHARE)

    def _end(self, *, upper: bool) -> int | None:
        """Return the outer end of the outermost cell of width 2^-64 that is not refuted as a whole."""
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


def tail(t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two standard Laplace variables, t >= 0 and a >= c >= 0, a > 0.

    It is (a^2 e^(-t/a) - c^2 e^(-t/c)) / (a^2 - c^2), written without differences of what may be equal.
    """
    if c == 0:
        return math.exp(-t / a)
    x = (a - c) * t / (a * c)
    mean = -math.expm1(-x) / x if x > 0 else 1.0  # of e^-y over 0 < y < x
    return math.exp(-t / a) * (1 + c * t / (a * (a + c)) * mean)
