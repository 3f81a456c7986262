"""The variance of a column without a guessed bound: a private clip, then totals of squares.

All totals are under one charge.

Claim: epsilon-differentially private under either adjacency, for units with at most `rows_per_unit`
records; with `total_rho` the clip for a share of epsilon, and the totals for that rho. Proof:
docs/proofs/clipped-variance.md. Noise: one-sided geometric for the clip, discrete Laplace or
Gaussian for the totals, all on whole numbers. Floats: none before the release; its floats are exact
fractions, rounded once, and square roots of such.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, final

from sordino.claims import ClaimsAbout
from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.clipped_steps import Moments, clipped_moments
from sordino.constraints import SHARE, TRUTH, Number
from sordino.cost import ZCDP, Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy, renew
from sordino.errors import InvalidParameter
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_column import ClippedColumn, SizedColumn
from sordino.estimators.clipped.clipped_value import (
    MISS_PROBABILITY,
    ClippedRelease,
    Ends,
    counts_beyond,
    is_light,
)
from sordino.estimators.clipped.total_noise import TotalNoise
from sordino.estimators.column_release import Weights
from sordino.scrubbing import scrubbed

Pair = tuple[int | Fraction, int | Fraction]
_WIDEST_CLIP = Fraction(1 << 500)
_LARGEST_VARIANCE = Fraction(1, 4)
"""No variance is larger, in units of the squared width of the clip: half of the records lie at
either end."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class VarianceValue(ClippedRelease):
    """A private variance, and standard deviation, between ends that were found privately.

    Attributes
    ----------
    value : float
        The noisy variance of the clipped records, in the squared unit of the values: the mean of
        squared distances from their mean, divided by their number n and not by n - 1; `estimate` is
        the same.
    standard_deviation : float
        Its square root, in the unit of the values.
    clip : tuple of float
        The ends (low, high) that records were moved into.
    capped : bool
        Whether the upper end is the cap, or a search ran to the end of its grid: noise is as large
        as the cap then.
    standard_error : float
        Standard deviation of the noise of the variance, given the clip: an approximation for many
        records, at the released numbers; infinite where there are too few to tell.
    interval : tuple of float
        Covers the variance *of the clipped records* with a probability of at least 95%, also for
        few records. Its square roots cover their standard deviation. Its ends are `low` and `high`
        as well.
    true_low, true_high : float
        Ends of an interval of 95% of the variance of all records as they are; infinite where no end
        is known. A session with `max_rows` leaves records out, of which these ends know and
        `true_interval` does not.
    too_few : bool
        Whether the interval leaves nothing out: then there are too few records to tell the
        variance. Of weighed rows also where all of them weigh less than five deviations of the
        noise.
    weights : Weights or None
        Of variances over people with any number of rows: how these were weighed.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.ClippedVariance(epsilon=2, adjacency="add-remove", lower=0, cap=1000)
    >>> spread = mechanism.release([20, 30, 40, 50, 60] * 500, entropy=sd.Seeded(7))
    >>> round(spread.standard_deviation), spread.interval[0] < 200 < spread.interval[1]
    (14, True)
    >>> spread.true_interval()[1]
    inf
    """

    value: float
    standard_deviation: float
    clip: tuple[float, float]
    capped: bool
    noise_error: float
    found: Clip = field(repr=False)
    totals: NoisyMoments = field(repr=False)
    records: int | None = field(repr=False)
    weights: Weights | None = field(default=None, repr=False)

    def _find_ends(self, wrong: Fraction) -> tuple[float, float]:
        return _scale_ends(self.totals.ends(wrong), self.found)

    @property
    def too_few(self) -> bool:
        """Whether the interval leaves nothing out."""
        # In units of the squared width, in which the largest variance is no float.
        low, high = self.totals.ends(MISS_PROBABILITY)
        light = self.weights is not None and is_light(self.totals.noisy, self.totals.noise)
        return light or (low <= 0 and high >= _LARGEST_VARIANCE)

    def true_interval(
        self, *, confidence: Number = 0.95, within_cap: bool = False
    ) -> tuple[float, float]:
        """Return the ends of an interval for the variance of the records as they are, not clipped.

        Clipping takes away from a variance and never adds to it, so the lower end holds for every
        column. No private number can tell how far the largest records reach, so the upper end is
        infinite unless a public statement closes it.

        Parameters
        ----------
        confidence : number
            In (0, 1).
        within_cap : bool
            Say True only if it is public that all records lie between `lower` (with None: minus the
            cap) and the cap.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).
        """
        wrong = 1 - SHARE("VarianceValue.true_interval.confidence", confidence)
        TRUTH("VarianceValue.true_interval.within_cap", within_cap)
        # Records were rounded down by less than a step, which moves their deviation by at most half
        # a step.
        half = float(self.found.step) / 2
        low, high = _scale_ends(self.totals.ends(wrong / 3 if within_cap else wrong), self.found)
        least = max(0.0, math.sqrt(low) - half) ** 2
        if not within_cap:
            return least, math.inf
        search = self.found.mechanism
        # Half of the records at either end is as far as they can be apart.
        largest = float(((search.cap - search.lower) / 2) ** 2)
        records = self.totals.least_records(wrong / 3)
        if not records:
            return min(least, largest), largest
        # A deviation is a norm: that of the records is at most that of the clipped ones plus that
        # of what clipping took off, whose mean square is at most this. (Each lies within the range:
        # never more than its square.)
        square = min(
            _bound_squares_beyond(self.found, wrong / 3) / records, (search.cap - search.lower) ** 2
        )
        most = (math.sqrt(high) + half + math.sqrt(float(square))) ** 2
        return min(least, largest), min(most, largest)


@final
@dataclass(frozen=True)
class NoisyMoments:
    """The totals of a variance with their noise, in noise steps.

    Attributes
    ----------
    noisy : tuple of int
        Where the number of records is private: the sums of (w - u)^2, 2 u (w - u) and u^2 over the
        records, u being the distance of a record from the lower end of the clip and w the width.
        Where it is public: the sums of 2 w s and of 3 s^2, s = 2 u - w being twice its distance
        from the middle.
    noise : TotalNoise
        What added the noise.
    records : Fraction or None
        Where their number is public, that times w^2, in noise steps.
    width : int
        w, in steps of the records.
    """

    noisy: tuple[int | Fraction, ...]
    noise: TotalNoise
    records: Fraction | None
    width: int

    def estimate(self) -> tuple[Fraction, float]:
        """Return the variance in units of w^2, and the standard deviation of its noise.

        The latter is to first order.
        """
        deviation = math.sqrt(self.noise.mechanism.noise.variance)
        # The derivatives of the variance for each total stand in docs/proofs/clipped-variance.md.
        if self.records is not None:
            place, square = (Fraction(total) / self.records for total in self.noisy)
            slope = math.hypot(float(place) / 8, 1 / 12) / float(self.records)
            return _limit_variance(_variance_of_two(place, square)), deviation * slope
        # Sums of squares are not negative, but noise may make their totals so.
        above, between, below = (max(0, total) for total in self.noisy)
        total = max(1, above + between + below)
        variance = _variance_of_three(above, between, below)
        twice = 2 * float(variance) / total
        slopes = (
            below / total**2 - twice,
            -between / (2 * total**2) - twice,
            above / total**2 - twice,
        )
        return _limit_variance(variance), deviation * math.hypot(*slopes)

    def ends(self, wrong: Fraction) -> Ends:
        """Return ends that hold the variance in units of w^2 with probability at least 1 - `wrong`.

        Each total lies between two ends of its own, and the variance between its smallest and its
        largest value over all totals between them.
        """
        if self.records is not None:
            place, square = self._boxes(wrong)
            return _ends_of_two(place, square, self.records)
        above, between, below = self._boxes(wrong)
        return _ends_of_three(above, between, below)

    def least_records(self, wrong: Fraction) -> Fraction:
        """Return how many records there are at least, with probability at least 1 - `wrong`."""
        # In noise steps a record adds w^2 to all totals together.
        record = Fraction(self.width**2, 1 << self.noise.shift)
        if self.records is not None:
            return self.records / record
        return Fraction(sum(max(0, low) for low, _ in self._boxes(wrong))) / record

    def _boxes(self, wrong: Fraction) -> list[Pair]:
        """Return between which ends each total lies.

        All of them do, but with a probability of `wrong`.
        """
        reach = self.noise.reach(wrong / len(self.noisy))
        # A total may have been rounded down by up to a noise step.
        return [(total - reach, total + reach + self.noise.rounded) for total in self.noisy]


@final
class ClippedVariance(SizedColumn):
    """Measure how far the records of a private column spread, whose range nobody knows.

    A share of the budget finds the clip, as for `ClippedSum`. The rest goes to totals of squares at
    once. No record moves all of them together by more than the squared width of the clip. So they
    share one budget without dividing it.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Notes
    -----
    With u the distance of a record from the lower end of the clip and w the width of the clip, the
    totals are the sums of (w - u)^2, 2 u (w - u) and u^2. Every record adds three numbers that are
    not negative and add up to w^2. Their sum tells the number of records, and all three together
    mean and variance. Where the number of records is public two totals do: three times the sum of
    s^2 and twice that of s w, s = 2 u - w. Where one record takes the place of another they move by
    at most 16/3 w^2. They are never worse than sums of u w and u (w - u), and have less than half
    of their noise where the mean is in the middle of the clip.

    Missing values (NULL, NaN, None) do not count, and how many do is private, under replace-one as
    well: see `ClippedMean`.

    The defaults are those of `ClippedMean`. With `total_rho` the totals get Gaussian noise: see
    `ClippedSum`.

    Examples
    --------
    >>> import sordino as sd
    >>> heights = [1.62, 1.71, 1.80, 1.68, 1.75] * 400
    >>> mechanism = sd.ClippedVariance(epsilon=1, adjacency="add-remove", lower=1, cap=10, unit=0.1)
    >>> spread = mechanism.release(heights, entropy=sd.Seeded(7))
    >>> 0.03 < spread.standard_deviation < 0.12
    True
    """

    takes_squares: ClassVar[bool] = True

    def noise_for(self, clip: Clip, budget: Pure | ZCDP | None = None) -> TotalNoise:
        """Return the noise of the totals for this clip, which are counted in squares of its steps.

        With a `budget` it is that of another look.
        """
        square = find_squared_width(clip, "ClippedVariance")
        paid = budget or self.total_budget
        return TotalNoise(
            budget=paid,
            bound=self._find_bound(square, squared=isinstance(paid, ZCDP)),
            totals=2 if self.size_is_public else 3,
            # The variance depends on ratios of totals alone, so they have no unit.
            record_step=Fraction(1),
            adjacency=self.adjacency,
        )

    def _find_bound(self, square: int, *, squared: bool) -> int:
        """Return how far totals of neighbors may be apart, for a clip whose squared width it is.

        In the L1 norm, or `squared`, for a rho, in the L2 norm.
        """
        if self.size_is_public:
            # Where one record takes the place of another: from one end to the other, or in the L1
            # norm from one end to two thirds of the way, which is 16/3 and rounded up.
            return 4 * square if squared else -(-16 * square // 3)
        bound = self.moved_records * square
        if squared and self.adjacency == "replace-one":
            # What leaves and what joins are squares and products, none negative: two vectors at a
            # right angle at most, apart by sqrt(2) times what either may be.
            return math.isqrt(bound**2 // 2 - 1) + 1
        return bound

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> VarianceValue:
        """Measure the spread of private values, with fresh noise: two passes over them.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private; a memory map of any size is read in blocks. Under `size_is_public` n is public.
            NaN and what is no number do not count; infinite ones lie beyond the clip.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        fresh_entropy(entropy, "ClippedVariance.release")
        clip = self.clip_from(BucketCounts.of(values, grid=self.grid), entropy=entropy)
        return self._finished(
            self.moments(values, clip), clip, self.noise_for(clip), entropy=entropy
        )

    @scrubbed
    def finish(self, moments: Moments, clip: Clip, *, entropy: Entropy = SYSTEM) -> VarianceValue:
        """Add noise to what the clipped records add up to.

        The second stage of `release`, once for each clip.

        Parameters
        ----------
        moments : Moments
            Private: how many records there are, how many are missing, and the sums of their
            distances from `clip.low` and of the squares of these, in the steps of `clip`.
        clip : Clip
            What `clip_from` of this variance released.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the clip is that of another search.
        """
        fresh_entropy(entropy, "ClippedVariance.finish")
        [finished] = self.finish_each([moments], [clip], entropy=entropy)
        return finished

    @scrubbed
    def finish_each(
        self, moments: Sequence[Moments], clips: Sequence[Clip], *, entropy: Entropy = SYSTEM
    ) -> list[VarianceValue]:
        """Do what `finish` does for each of several groups, with noise of its own.

        Parameters
        ----------
        moments : sequence of Moments
            Private; one for each group.
        clips : sequence of Clip
            What `search.release_each` of this variance released, or `clip_from` for each.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If a clip is that of another search.
        """
        fresh_entropy(entropy, "ClippedVariance.finish_each")
        # Groups whose searches ended at the same edges share a clip.
        for clip in {id(one): one for one in clips}.values():
            self.check_clip(clip, "finish")
        renew(entropy)  # the second stage: the values were read since the clips were found
        exact = [Moments(*map(int, one)) for one in moments]
        totals = [self._totals(one, clip) for one, clip in zip(exact, clips, strict=True)]
        return [
            build_variance(
                self,
                clip,
                noise,
                noisy,
                records=self._find_public_size(one),
                simulated=entropy.simulated,
            )
            for one, clip, (noise, noisy) in zip(
                exact, clips, self._draw_each(clips, totals, entropy), strict=True
            )
        ]

    @scrubbed
    def add_noise(
        self,
        total: Any,
        records: int,  # noqa: ARG002 - the moments know it
        clip: Clip,
        noise: TotalNoise,
        *,
        entropy: Entropy,
    ) -> VarianceValue:
        """Return the variance of private moments with this noise; the caller pays for it."""
        fresh_entropy(entropy, "ClippedVariance.add_noise")
        return self._finished(Moments(*map(int, total)), clip, noise, entropy=entropy)

    def estimate(
        self, clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction], records: int | None
    ) -> tuple[Fraction, float]:
        """Return the variance, and the standard deviation of its noise to first order."""
        _, value, error = read_moments(clip, noise, noisy, records)
        return value, error

    @scrubbed
    def moments(self, values: Any, clip: Clip) -> Moments:
        """Return what the clipped records add up to, in record steps. Private."""
        return clipped_moments(
            values, clip.low, clip.high, clip.step, owner="ClippedVariance.release: values"
        )

    @scrubbed
    def totals(self, values: Any, clip: Clip) -> tuple[int, ...]:
        """Return the totals that get noise, in squares of record steps. Private."""
        return self._totals(self.moments(values, clip), clip)

    def _totals(self, moments: Moments, clip: Clip) -> tuple[int, ...]:
        width, first, second = clip.high - clip.low, moments.first, moments.second
        if self.size_is_public:
            # It was said that every record has a number. 0 keeps the place of one that has none.
            place = clip.missing - clip.low
            first, second = first + moments.missing * place, second + moments.missing * place**2
            n = moments.known + moments.missing
            # Of s = 2 u - w: the sum is 2 first - n w, that of squares 4 second - 4 w first + n
            # w^2.
            return (
                2 * width * (2 * first - n * width),
                3 * (4 * second - 4 * width * first + n * width**2),
            )
        return take_squares(moments, width)

    def _finished(
        self, moments: Moments, clip: Clip, noise: TotalNoise, *, entropy: Entropy
    ) -> VarianceValue:
        renew(entropy)  # the second stage: the values were read since the clip was found
        noisy = noise.noisy(self._totals(moments, clip), entropy)
        records = self._find_public_size(moments)
        return build_variance(
            self, clip, noise, noisy, records=records, simulated=entropy.simulated
        )

    def _find_public_size(self, moments: Moments) -> int | None:
        # Where their number is public it is that of all records, with a number or without.
        return moments.known + moments.missing if self.size_is_public else None


def read_moments(
    clip: Clip, noise: TotalNoise, noisy: Sequence[int | Fraction], records: int | None
) -> tuple[NoisyMoments, Fraction, float]:
    """Return noisy totals with what their figure needs, the variance, and its standard error.

    The error is the standard deviation of its noise to first order.
    """
    width = clip.high - clip.low
    known = None if records is None else Fraction(max(1, records) * width**2, 1 << noise.shift)
    totals = NoisyMoments(tuple(noisy), noise, known, width)
    value, error = totals.estimate()
    square = (width * clip.step) ** 2
    return totals, value * square, error * float(square)


def build_variance(
    mechanism: ClippedColumn,
    clip: Clip,
    noise: TotalNoise,
    noisy: tuple[int, ...],
    *,
    records: int | None = None,
    weights: Weights | None = None,
    simulated: bool,
) -> VarianceValue:
    """Return what is released: of noisy totals, and of what is public."""
    totals, value, error = read_moments(clip, noise, noisy, records)
    return VarianceValue(
        value=float(value),
        standard_deviation=math.sqrt(value),
        clip=clip.ends,
        capped=clip.capped,
        noise_error=error,
        found=clip,
        totals=totals,
        records=records,
        weights=weights,
        mechanism=mechanism,
        cost=mechanism.cost,
        simulated=clip.simulated or simulated,
    )


def find_squared_width(clip: Clip, owner: str) -> int:
    """Return the squared width of a clip in its steps, unless its square in values is no float.

    Raises
    ------
    InvalidParameter
        If the clip is narrower than 2^-500 or wider than 2^500.
    """
    width = clip.high - clip.low
    # The narrowest and the widest clip are tried when the parameters are given. So no clip that is
    # found later is refused here, and no square of one is beyond what floats hold.
    if not 1 / _WIDEST_CLIP <= width * clip.step <= _WIDEST_CLIP:
        raise InvalidParameter(
            f"{owner} needs clips from 2^-500 to 2^500 wide, whose squares are floats; for this "
            "cap and unit they would be narrower or wider. Change the unit of the values."
        )
    return width**2


def take_squares(moments: Moments, width: int) -> tuple[int, int, int]:
    """Return the sums of (w - u)^2, 2 u (w - u) and u^2 over records with a number; private."""
    between = 2 * (width * moments.first - moments.second)
    # All three add up to w^2 for every record.
    return moments.known * width**2 - between - moments.second, between, moments.second


# ---- the variance of totals, and its extremes ----------------------------------------------------
# In units of w^2. Let a, b and c be the sums of (w - u)^2, 2 u (w - u) and u^2: n w^2 = a + b + c.
# The mean of u / w is (c + b/2) / (n w^2), and that of its square c / (n w^2).


def _variance_of_three(
    above: Fraction | int, between: Fraction | int, below: Fraction | int
) -> Fraction:
    """Return the variance that the three totals stand for; 0 if they are all 0."""
    total = Fraction(above + between + below)
    return (above * below - Fraction(between**2) / 4) / total**2 if total else Fraction(0)


def _ends_of_three(above: Pair, between: Pair, below: Pair) -> Ends:
    """Return the least and the largest variance of all totals between their ends."""
    # No total is negative, only what noise makes of it.
    above, between, below = ((max(0, low), max(0, high)) for low, high in (above, between, below))
    # The more lies between the ends of the clip, the smaller is the variance. In each of the other
    # two it rises up to a point and falls beyond, so it is smallest in a corner.
    least = min(_variance_of_three(a, between[1], c) for a in above for c in below)
    # It is largest on an edge: where one of the two is at an end, and the other at its best.
    b = between[0]
    edges = [(Fraction(a), _find_best_partner(a, b, below)) for a in above]
    edges += [(_find_best_partner(c, b, above), Fraction(c)) for c in below]
    most = max(_variance_of_three(a, b, c) for a, c in edges)
    return _limit_variance(least), _limit_variance(most)


def _find_best_partner(one: int | Fraction, between: int | Fraction, ends: Pair) -> Fraction:
    """Return where between the ends a total makes the variance largest, given the other one."""
    # Next to a total of 0 it only rises.
    best = between + one + Fraction(between**2) / (2 * one) if one else Fraction(ends[1])
    return max(Fraction(ends[0]), min(Fraction(ends[1]), best))


def _variance_of_two(place: Fraction, square: Fraction) -> Fraction:
    """Return the variance for the means of 2 s / w and of 3 s^2 / w^2."""
    return square / 12 - (place / 4) ** 2


def _ends_of_two(place: Pair, square: Pair, records: Fraction) -> Ends:
    """Return the least and the largest variance of all totals between their ends."""
    # It rises with the squares, and falls with the distance of the mean from the middle.
    distances = [abs(end / records) for end in place]
    nearest = Fraction(0) if place[0] <= 0 <= place[1] else min(distances)
    least, most = (Fraction(end) / records for end in square)
    return (
        _limit_variance(_variance_of_two(max(distances), least)),
        _limit_variance(_variance_of_two(nearest, most)),
    )


def _limit_variance(variance: Fraction) -> Fraction:
    return max(Fraction(0), min(_LARGEST_VARIANCE, variance))


def _scale_ends(ends: Ends, clip: Clip) -> tuple[float, float]:
    """Return ends in units of w^2 in the squared unit of the values."""
    square = ((clip.high - clip.low) * clip.step) ** 2
    return float(ends[0] * square), float(ends[1] * square)


def _bound_squares_beyond(clip: Clip, wrong: Fraction) -> Fraction:
    """Return how much the squares of what clipping took off may add up to, if the cap holds."""
    search, counts = clip.mechanism, counts_beyond(clip, wrong)
    down = max(Fraction(0), clip.low * clip.step - search.lower)
    up = max(Fraction(0), search.cap - clip.high * clip.step)
    total: Fraction = counts[0] * down**2 + counts[-1] * up**2
    return total


_SMALL_VARIANCE: dict[str, Any] = {"lower": 0, "cap": 8, "growth": 2}
_VARIANCE_RHO: dict[str, Any] = {**_SMALL_VARIANCE, "epsilon": 1, "cap": 4, "total_rho": 0.5}
_claim = ClaimsAbout("ClippedVariance", proof="clipped-variance.md")
CLAIMS = (
    _claim(
        "With total_rho the clip costs its share of epsilon, or with clip_gumbel a stage for each "
        "search, and the totals total_rho in zero-concentrated privacy, for units with at most "
        "rows_per_unit records.",
        ("durfee2023, Sec. 6.3", "canonne2020, Thm 4"),
        (ClippedVariance(adjacency="add-remove", **_VARIANCE_RHO), (5,), ()),
        (ClippedVariance(adjacency="replace-one", **_VARIANCE_RHO), (5, 3), (0, 3)),
        # The Rényi divergence of the search is below that of the interval in which its loss lies.
        tight=False,
    ),
    _claim(
        "Clip and variance together are epsilon-differentially private for units with at most "
        "rows_per_unit records.",
        ("durfee2023, Sec. 6.3",),
        (ClippedVariance(epsilon=2, adjacency="add-remove", **_SMALL_VARIANCE), (5,), ()),
        (
            ClippedVariance(
                epsilon=2, adjacency="add-remove", cap=4, lower=None, growth=2, rows_per_unit=2
            ),
            (2, -2),
            (),
        ),
        (
            ClippedVariance(
                epsilon=1, adjacency="replace-one", size_is_public=True, **_SMALL_VARIANCE
            ),
            (14 / 3,),
            (0,),
        ),
        (
            ClippedVariance(epsilon=2, adjacency="replace-one", **_SMALL_VARIANCE),
            (8 - 2**-40, 3),
            (0, 3),
        ),
        tight=True,
    ),
)
