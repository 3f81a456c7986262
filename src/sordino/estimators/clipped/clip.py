"""The private search for a clip: the first edge that few records reach; for `ClippedSum` and `ClippedMean`.

Claim: the clip costs a loss in [-e2, e1 + e2] if units come or go, with e1 and e2 the rates times
`rows_per_unit`; under replace-one what `ClipSearch.cost` says [durfee2023].
Proof: docs/proofs/clipped-sum.md.
Noise: one-sided geometric on the whole numbers; the threshold has twice the rate of the counts.
Floats: edges are public floats; clips become whole numbers of a public power of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Cost, Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.columns.bucket_counts import BucketCounts
from sordino.estimators.columns.bucket_grid import BucketGrid
from sordino.grid import fit_rate
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan, monotone_cost
from sordino.noise import Geometric
from sordino.releases import Release, parameters, pictured
from sordino.remnants import no_remnants
from sordino.sensitivity import Adjacency

RATIO = 2
"""The rate of the threshold over that of the counts.

A search passes the largest record by j edges with a probability of about 2/j^2.
"""

Sides = Literal["above", "magnitude", "both"]
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]

_WIDTH_BITS = 32  # a clipped record has less than 2^32 steps: 2^31 of them add up in 64 bits
# Floats hold an end exactly: it lies at most 2^52 steps from 0 (docs/proofs/clipped-sum.md, "The sum").
_OFFSET_BITS = 52
# `BucketCounts` lets no sum of counts grow beyond this, so the limit never cuts an answer.
_MOST_RECORDS_BEYOND = 1 << 60


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Clip(Release):
    """Between which whole numbers of steps records are kept; what lies outside is moved to the nearer end.

    Attributes
    ----------
    low, high : int
        The ends, in steps; a record counts as max(low, min(high, floor(value / step))).
    step : Fraction
        A power of two, in the unit of the values.
    tests : tuple of (int or None)
        For each search, how many edges were tested until one was found; None if none was and the cap is the
        clip.
    """

    low: int
    high: int
    step: Fraction
    tests: tuple[int | None, ...]

    @property
    def ends(self) -> tuple[float, float]:
        """The ends in the unit of the values."""
        return float(self.low * self.step), float(self.high * self.step)

    @property
    def capped(self) -> bool:
        """Whether the upper end is the cap, or any search ran to the end of its grid."""
        # With both signs a search runs over the edges on one side of 0: half of them, without the 0 itself.
        search = self.mechanism
        last = search.grid.size if search.sides == "above" else search.grid.size // 2
        return self.high == math.floor(search.cap / self.step) or not {None, last}.isdisjoint(self.tests)

    @property
    def missing(self) -> int:
        """What a missing record counts as, where it counts: 0, or the end next to it. In steps."""
        return max(self.low, min(self.high, 0))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ClipSearch:
    """Find where to clip: at the first edge, going outward, with at most about `tail` records beyond it.

    The records at or beyond each public edge are counted with noise, edge by edge.

    Parameters
    ----------
    epsilon : Fraction
        The budget of the search.
    grid : BucketGrid
        Its edges are tested.
    sides : {"above", "magnitude", "both"}
        "above": the lower end is `lower`. "magnitude": one search over distances from 0, and a clip on both
        sides. "both": one search on either side of 0. The last two need a grid for values of both signs.
    lower, cap : Fraction
        Between which the clip lies in any case.
    tail : int
        How many records are meant to lie beyond each end that is searched.
    rows_per_unit : int
        How many records a unit has at most.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    """

    epsilon: Fraction
    grid: BucketGrid
    sides: Sides
    lower: Fraction
    cap: Fraction
    tail: int
    rows_per_unit: int
    adjacency: Adjacency

    def __post_init__(self) -> None:
        # What is wrong with the budget is refused when the search is made, before any data are seen.
        _ = self.scan

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @property
    def _exchanged(self) -> bool:
        """Whether a replaced unit may have left one search and joined another."""
        return self.adjacency == "replace-one" and self.sides == "both"

    @cached_property
    def scan(self) -> ThresholdScan:
        """The search on each side: the first edge with -(records beyond it) + noise >= -tail + noise."""
        # The rates share the budget: RATIO parts for the threshold, one for the counts, two where a unit may
        # change sides.
        parts = RATIO + (2 if self._exchanged else 1)
        rate = fit_rate(self.epsilon / (parts * self.rows_per_unit), "ClipSearch", stepped=False)
        return ThresholdScan(-self.tail, Geometric(RATIO * rate), Geometric(rate))

    @cached_property
    def cost(self) -> Cost:
        """What all searches spend together."""
        threshold = self.scan.threshold_noise.rate * self.rows_per_unit
        each = self.scan.noise.rate * self.rows_per_unit
        # The four lines of the table in docs/proofs/clipped-sum.md, from the last one up.
        if self._exchanged:
            # A unit that crosses from one side to the other loses the rate of the counts in both searches.
            return Pure(epsilon=threshold + 2 * each)
        # Counts may rise at one edge and fall at another, so the bound for counts that move together fails.
        if self.adjacency == "replace-one" and self.rows_per_unit > 1:
            return Pure(epsilon=threshold + each)
        return monotone_cost(threshold, each)

    @property
    def exact(self) -> bool:
        """True: the law that is proved is the law that is sampled."""
        return True

    def runs(self, counts: BucketCounts) -> tuple[Runs, ...]:
        """Return what each search tests, edge by edge away from 0 (from `lower`).

        For each search: answers in runs of equal ones, and the lengths of the runs.

        Private. Negative values below the grid share their bucket with missing ones, and are not seen by a
        search on that side.
        """
        # Over another grid the answers would belong to other edges than those that the clip is read from.
        if getattr(counts, "grid", None) != self.grid:
            raise InvalidParameter(
                f"ClipSearch needs BucketCounts over its own grid, {self.grid!r}; got other ones."
            )
        # Records at or above each edge, from the first to the last.
        up = np.cumsum(counts.counts[::-1])[::-1][1:]
        if self.sides == "above":
            return (_group_equal_answers(up),)
        half = self.grid.size // 2
        # Bucket 0 is left out below: it also holds what is missing, which is beyond no edge.
        above, below = up[half + 1 :], (np.cumsum(counts.counts) - counts.counts[0])[:half][::-1]
        return (
            (_group_equal_answers(above + below),)
            if self.sides == "magnitude"
            else (_group_equal_answers(below), _group_equal_answers(above))
        )

    @no_remnants
    def release(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> Clip:
        """Search, with fresh noise.

        Raises
        ------
        InvalidParameter
            If the counts are over another grid.
        """
        # Searches on both sides draw independent noise, so their losses add up.
        fresh_entropy(entropy, "ClipSearch.release")
        found = tuple(self.scan.first(answers, lengths, entropy) for answers, lengths in self.runs(counts))
        return self.clip(
            tuple(None if position is None else position + 1 for position in found),
            simulated=entropy.simulated,
        )

    def clip(self, tests: tuple[int | None, ...], *, simulated: bool) -> Clip:
        """Return the clip after so many tests in each search: a function of public numbers."""
        # Both sides of 0 have the same edges, so a distance from 0 is read from the upper half alone.
        edges = self.grid.edges if self.sides == "above" else self.grid.edges[self.grid.size // 2 + 1 :]
        reached = [Fraction(float(edges[-1 if count is None else count - 1])) for count in tests]
        # The grid may reach farther than the clip may: the clip ends at `lower` and the cap in any case.
        upper = min(reached[-1], self.cap)
        lower = self.lower if self.sides == "above" else max(-reached[0], self.lower)
        step = _record_step(lower, upper)
        # A positive lower end is rounded down, as records are. A negative one is rounded toward 0, so that it
        # is not below `lower`.
        low = math.floor(lower / step) if lower > 0 else -math.floor(-lower / step)
        # The clip is at least one step wide: without a width there would be no scale for the noise.
        high = max(math.floor(upper / step), low + 1)
        return Clip(
            low=low, high=high, step=step, tests=tests, mechanism=self, cost=self.cost, simulated=simulated
        )

    def beyond(self, tests: int, wrong: Fraction) -> float:
        """Return a bound of the records at or beyond the found edge, right but for a probability of `wrong`.

        A bound over all edges together: noise of at least ln(pi^2 k^2 / (6 wrong)) / rate at test k has a
        probability of at most 6 wrong / (pi k)^2.
        """
        return self.tail + math.log(math.pi**2 * tests**2 / (6 * wrong)) / float(self.scan.noise.rate)


def _group_equal_answers(beyond: NDArray[np.int64]) -> Runs:
    """Return falling numbers of records, one for each edge, as rising answers in runs of equal ones."""
    # Nothing is equal to -1, so that the first edge begins a run.
    starts = np.flatnonzero(np.diff(beyond, prepend=-1))
    return -np.minimum(beyond[starts], _MOST_RECORDS_BEYOND), np.diff(starts, append=beyond.size)


def _record_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return the smallest step, a power of two, in which the clip is narrow and close enough to 0."""
    needed = max((upper - lower) / (1 << _WIDTH_BITS), max(abs(lower), abs(upper)) / (1 << _OFFSET_BITS))
    # From the numbers of digits alone: this power is below what is needed, by a factor of less than 4.
    step = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 1)
    while step <= needed:
        step *= 2
    return step
