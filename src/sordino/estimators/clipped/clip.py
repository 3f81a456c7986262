"""The private search for a clip: the first edge that few records reach.

For `ClippedSum` and `ClippedMean`.

Claim: the clip costs a loss in [-e2, e1 + e2] if units come or go, with e1 and e2 the rates times
`rows_per_unit`; under replace-one what `ClipSearch.cost` says [durfee2023].
Proof: docs/proofs/clipped-sum.md.
Noise: one-sided geometric on the whole numbers, of twice the rate on the threshold as on the
counts; or Gumbel noise of one rate on both, a stage for each search.
Floats: edges are public floats; clips become whole numbers of a public power of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_counts import BucketCounts, limit_counts
from sordino.columns.bucket_grid import BucketGrid
from sordino.columns.bucket_sums import BucketSums, SumSteps, choose_step
from sordino.cost import Cost, GumbelStage, Pure, repeat
from sordino.cost.range import LARGER_FIRST
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import fit_rate
from sordino.mechanisms.crossings.threshold_scan import GumbelScan, ThresholdScan, monotone_cost
from sordino.mechanisms.race import Gumbel
from sordino.noise import Geometric
from sordino.releases import Release, parameters, short_repr
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency

RATIO = 2
"""The rate of the threshold over that of the counts.

A search passes the largest record by j edges with a probability of about 2/j^2; where it is 4, of
about 2/j^4.
"""

Sides = Literal["above", "magnitude", "both"]
Runs = tuple[NDArray[np.int64], NDArray[np.int64]]

# `BucketCounts` lets no sum of counts grow beyond this, so the limit never cuts an answer.
_MOST_RECORDS_BEYOND = 1 << 60


@final
@dataclass(frozen=True, eq=False)
class _Filled:
    """How many records of a group are in a bucket, sorted by both, shape (m,) each; private."""

    group: NDArray[np.int64]
    bucket: NDArray[np.int64]
    count: NDArray[np.int64]
    groups: int


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Clip(Release):
    """Between which whole numbers of steps records are kept.

    What lies outside is moved to the nearer end.

    Attributes
    ----------
    low, high : int
        The ends, in steps, at least one step apart.
    bottom, top : int
        Whole steps, at or next to the ends, beyond which no record counts: what one moves a sum by
        at most.
    step : Fraction
        A power of two, in the unit of the values.
    tests : tuple of (int or None)
        For each search, how many edges were tested until one was found; None if none was and the
        cap is the clip.
    """

    low: int
    high: int
    bottom: int
    top: int
    step: Fraction
    tests: tuple[int | None, ...]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Between which numbers every record counts, in the unit of the values.

        They are next to edges, or at them.
        """
        return float(self.bottom * self.step), float(self.top * self.step)

    @cached_property
    def capped(self) -> bool:
        """Whether the upper end is the cap, or any search ran to the end of its grid."""
        # With both signs a search runs over the edges on one side of 0: half of them, without the 0
        # itself.
        search = self.mechanism
        last = search.grid.size if search.sides == "above" else search.grid.size // 2
        return self.high == math.floor(search.cap / self.step) or not {None, last}.isdisjoint(
            self.tests
        )

    @cached_property
    def inside(self) -> tuple[int, int]:
        """The first and the last bucket of the grid between its ends."""
        # It was made by the search, whose grid it is.
        found: tuple[int, int] = self.mechanism.inside(self.tests)
        return found

    @cached_property
    def most(self) -> int:
        """What a record beyond the upper end counts as: no more than it is."""
        # A clip is at least one step wide, though its end may lie less than that above the lower
        # one.
        upper: Fraction = self.mechanism.ends(self.tests)[1]
        return min(self.high, math.floor(upper / self.step))

    @property
    def missing(self) -> int:
        """What keeps the place of a record that was said to have a number and has none, in steps.

        That is 0, or the end next to it.
        """
        return max(self.low, min(self.high, 0))


@final
@dataclass(frozen=True, kw_only=True, repr=False)
class ClipSearch:
    """Find where to clip: at the first edge with at most about `tail` records beyond it.

    The search goes outward.

    The records at or beyond each public edge are counted with noise, edge by edge.

    Parameters
    ----------
    epsilon : Fraction
        The budget of the search.
    grid : BucketGrid
        Its edges are tested.
    sides : {"above", "magnitude", "both"}
        "above": the lower end is `lower`. "magnitude": one search over distances from 0, and a clip
        on both sides. "both": one search on either side of 0. The last two need a grid for values
        of both signs.
    lower, cap : Fraction
        Between which the clip lies in any case.
    tail : int
        How many records are meant to lie beyond each end that is searched.
    rows_per_unit : int
        How many records a unit has at most.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    gumbel : Fraction, optional
        The budget of each search with Gumbel noise, which takes the place of `epsilon` then: how
        far a unit moves its counts, in nats. None: geometric noise.
    ratio : int
        The rate of the threshold over that of the counts; of Gumbel noise both have one rate.
    further : int
        By how many edges the clip lies beyond the edge that is found: that is post-processing.
    apart : bool
        Whether it is one of several searches with noise of their own, in groups of which a unit may
        have parts in all: at most `rows_per_unit` records in all of them together.
    """

    epsilon: Fraction
    grid: BucketGrid
    sides: Sides
    lower: Fraction
    cap: Fraction
    tail: int
    rows_per_unit: int
    adjacency: Adjacency
    gumbel: Fraction | None = None
    ratio: int = RATIO
    further: int = 0
    apart: bool = False

    def __post_init__(self) -> None:
        # What is wrong with the budget is refused when the search is made, before any data are
        # seen.
        _ = self.scan

    def __repr__(self) -> str:
        return short_repr(self, parameters(self))

    @property
    def _exchanged(self) -> bool:
        """Whether a replaced unit may have left one search and joined another."""
        return self.adjacency == "replace-one" and (self.sides == "both" or self.apart)

    @cached_property
    def scan(self) -> ThresholdScan | GumbelScan:
        """The search on each side, which finds an edge.

        That is the first edge with -(records beyond it) + noise >= -tail + noise.
        """
        if self.gumbel is not None:
            rate = fit_rate(self.gumbel / self.rows_per_unit, "ClipSearch", stepped=False)
            return GumbelScan(-self.tail, Gumbel(rate))
        # The rates share the budget: `ratio` parts for the threshold, one for the counts, two where
        # a unit may change sides.
        parts = self.ratio + (2 if self._exchanged else 1)
        rate = fit_rate(self.epsilon / (parts * self.rows_per_unit), "ClipSearch", stepped=False)
        return ThresholdScan(-self.tail, Geometric(self.ratio * rate), Geometric(rate))

    @cached_property
    def ladder(self) -> SumSteps:
        """In which steps the records of each bucket are added up, whatever clip is found."""
        return SumSteps.within(self.grid, self.lower, self.cap, signed=self.sides != "above")

    def inside(self, tests: tuple[int | None, ...]) -> tuple[int, int]:
        """Return the first and the last bucket between the ends of the clip.

        Each search found its edge after so many tests.
        """
        if self.sides == "above":
            return 0, self._count_edges(tests[0], self.grid.size) - 1
        half = self.grid.size // 2
        down, up = (self._count_edges(count, half) for count in (tests[0], tests[-1]))
        return half - down + 1, half + up

    def _count_edges(self, tests: int | None, edges: int) -> int:
        """Return which of so many edges the clip ends at, from 1: after so many tests of them."""
        if tests is None:
            return edges
        if tests > edges:
            raise IndexError(f"a search of {edges} edges has no test {tests}")
        return min(edges, tests + self.further)

    @cached_property
    def cost(self) -> Cost:
        """What all searches spend together."""
        each = self.scan.noise.rate * self.rows_per_unit
        if isinstance(self.scan, GumbelScan):
            # Counts of records beyond rising edges move within an interval of that length; two
            # searches are two stages.
            return repeat(GumbelStage(epsilon=each), 2 if self.sides == "both" else 1)
        threshold = self.scan.threshold_noise.rate * self.rows_per_unit
        # The four lines of the table in docs/proofs/clipped-sum.md, from the last one up.
        if self._exchanged:
            # A unit that crosses from one side to the other, or from one group to another, loses
            # the rate of the counts in both searches.
            return Pure(epsilon=threshold + 2 * each)
        # Counts may rise at one edge and fall at another, so the bound for counts that move
        # together fails.
        if self.adjacency == "replace-one" and self.rows_per_unit > 1:
            return Pure(epsilon=threshold + each)
        # Under add-remove it is the larger data whose answers are lower, at every edge.
        added = self.adjacency == "add-remove"
        return monotone_cost(threshold, each, orientation=LARGER_FIRST if added else None)

    @property
    def exact(self) -> bool:
        """True: the law that is proved is the law that is sampled."""
        return True

    def runs(self, counts: BucketCounts) -> tuple[Runs, ...]:
        """Return what each search tests, edge by edge away from 0 (from `lower`).

        For each search: answers in runs of equal ones, and the lengths of the runs.

        Private. Negative values below the grid are beyond no edge, and are not seen by a search on
        that side.
        """
        self._check_grid(counts)
        bucket = np.flatnonzero(counts.counts)
        found = self._run_each(np.zeros_like(bucket), bucket, counts.counts[bucket], 1)
        return tuple((answers[0], lengths[0]) for answers, lengths in found)

    def _run_each(
        self,
        group: NDArray[np.int64],
        bucket: NDArray[np.int64],
        count: NDArray[np.int64],
        groups: int,
    ) -> Iterator[Runs]:
        """Yield the runs of each search, in rows of shape (m,) for each of so many groups.

        The three arrays say how many records of a group are in a bucket, sorted by both.
        """
        size, half = self.grid.size, self.grid.size // 2
        if self.sides == "above":
            yield _line_up(group, bucket, count, groups, size)
            return
        # How many edges on their side of 0 records are beyond; below the grid none are.
        up, down = bucket - half - 1, np.where(bucket > 0, half - bucket, 0)
        if self.sides == "magnitude":
            yield _line_up(group, np.maximum(up, down), count, groups, half)
            return
        for passed in (down, up):
            yield _line_up(group, passed, count, groups, half)

    @scrubbed
    def release(self, counts: BucketCounts, *, entropy: Entropy = SYSTEM) -> Clip:
        """Search, with fresh noise.

        Raises
        ------
        InvalidParameter
            If the counts are over another grid.
        """
        # Searches on both sides draw independent noise, so their losses add up.
        fresh_entropy(entropy, "ClipSearch.release")
        found = tuple(
            self.scan.first(answers, lengths, entropy) for answers, lengths in self.runs(counts)
        )
        return self.clip(
            tuple(None if position is None else position + 1 for position in found),
            simulated=entropy.simulated,
        )

    @scrubbed
    def release_each(
        self, groups: BucketSums | Sequence[BucketCounts], *, entropy: Entropy = SYSTEM
    ) -> list[Clip]:
        """Search for the clip of every group, with fresh noise for each.

        Groups whose searches found the same edges share one clip.

        Parameters
        ----------
        groups : BucketSums, or sequence of BucketCounts
            Private: the records of all groups, in buckets.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the records are in buckets of another grid.
        """
        fresh_entropy(entropy, "ClipSearch.release_each")
        filled = self._list_filled(groups)
        known: dict[tuple[int | None, ...], Clip] = {}
        found: list[Clip] = []
        # Some groups at a time: what the searches look at would fill the memory.
        together = self.grid.together
        firsts = np.arange(0, filled.groups + together, together)
        for place, (begin, end) in enumerate(
            pairwise(np.searchsorted(filled.group, firsts).tolist())
        ):
            first = place * together
            here = slice(begin, end)
            many = min(together, filled.groups - first)
            runs = self._run_each(
                filled.group[here] - first, filled.bucket[here], filled.count[here], many
            )
            positions = [
                self.scan.first_each(answers, lengths, entropy).tolist()
                for answers, lengths in runs
            ]
            for each in zip(*positions, strict=True):
                tests = tuple(None if position < 0 else position + 1 for position in each)
                if tests not in known:
                    known[tests] = self.clip(tests, simulated=entropy.simulated)
                found.append(known[tests])
        return found

    def _list_filled(self, groups: BucketSums | Sequence[BucketCounts]) -> _Filled:
        """Return the buckets of all groups that hold records; private."""
        if isinstance(groups, BucketSums):
            if groups.ladder != self.ladder:
                raise InvalidParameter(
                    "ClipSearch needs BucketSums over its own ladder; got other ones."
                )
            counts = limit_counts(groups.count, self.grid)
            return _Filled(groups.group, groups.bucket, counts, groups.groups)
        for one in groups:
            self._check_grid(one)
        buckets = [np.flatnonzero(one.counts) for one in groups]
        none = np.zeros(0, dtype=np.int64)
        return _Filled(
            np.repeat(np.arange(len(groups)), [bucket.size for bucket in buckets]),
            np.concatenate([none, *buckets]),
            np.concatenate(
                [none, *(one.counts[at] for one, at in zip(groups, buckets, strict=True))]
            ),
            len(groups),
        )

    def _check_grid(self, counts: Any) -> None:
        # Over another grid the answers would belong to other edges than those that the clip is read
        # from.
        if getattr(counts, "grid", None) != self.grid:
            raise InvalidParameter(
                f"ClipSearch needs BucketCounts over its own grid, {self.grid!r}; got other ones."
            )

    def clip(self, tests: tuple[int | None, ...], *, simulated: bool) -> Clip:
        """Return the clip after so many tests in each search: a function of public numbers."""
        lower, upper = self.ends(tests)
        step = choose_step(lower, upper)
        # A positive lower end is rounded down, as records are. A negative one is rounded toward 0,
        # so that it is not below `lower`.
        low = math.floor(lower / step) if lower > 0 else -math.floor(-lower / step)
        # The clip is at least one step wide: without a width there would be no scale for the noise.
        high = max(math.floor(upper / step), low + 1)
        return Clip(
            low=low,
            high=high,
            # Records inside have finer steps than the clip, and may lie less than a step beyond its
            # ends.
            bottom=math.floor(lower / step),
            top=max(math.ceil(upper / step), high),
            step=step,
            tests=tests,
            mechanism=self,
            cost=self.cost,
            simulated=simulated,
        )

    def ends(self, tests: tuple[int | None, ...]) -> tuple[Fraction, Fraction]:
        """Return between which numbers the clip lies after so many tests in each search."""
        # Both sides of 0 have the same edges, so a distance from 0 is read from the upper half
        # alone.
        edges = (
            self.grid.edges if self.sides == "above" else self.grid.edges[self.grid.size // 2 + 1 :]
        )
        places = [self._count_edges(count, edges.size) for count in tests]
        reached = [Fraction(float(edges[place - 1])) for place in places]
        # The grid may reach farther than the clip may: the clip ends at `lower` and the cap in any
        # case.
        upper = min(reached[-1], self.cap)
        lower = self.lower if self.sides == "above" else max(-reached[0], self.lower)
        return lower, upper

    def beyond(self, tests: int, wrong: Fraction) -> float:
        """Return a bound of the records at or beyond the found edge.

        It is right but for a probability of `wrong`. A bound over all edges together: noise of at
        least ln(pi^2 k^2 / (6 wrong)) / rate at test k has a probability of at most 6 wrong / (pi
        k)^2.
        """
        return self.tail + math.log(math.pi**2 * tests**2 / (6 * wrong)) / float(
            self.scan.noise.rate
        )


def _line_up(
    group: NDArray[np.int64],
    passed: NDArray[np.int64],
    count: NDArray[np.int64],
    groups: int,
    edges: int,
) -> Runs:
    """Return falling numbers of records beyond each of so many edges, as rising answers in runs.

    Some records of a group are beyond the first `passed` edges. Shape (groups, m); rows with fewer
    runs are filled up with empty ones.
    """
    seen = passed > 0
    place = group[seen] * (edges + 1) + passed[seen]
    # Records that are beyond as many edges stand together, whichever side of 0 they are on.
    place, which = np.unique(place, return_inverse=True)
    many = np.zeros(place.size, dtype=np.int64)
    np.add.at(many, which, count[seen])
    row, last = np.divmod(place, edges + 1)
    # A run ends at the last edge that some records are beyond, and one more after all of them.
    sizes = np.bincount(row, minlength=groups)
    starts = np.cumsum(sizes) - sizes
    rank = np.arange(row.size) - starts[row]
    shape = (groups, int(sizes.max(initial=0)) + 1)
    lengths = np.zeros(shape, dtype=np.int64)
    ends = np.full(shape, edges, dtype=np.int64)
    ends[row, rank] = last
    np.subtract(ends[:, 1:], ends[:, :-1], out=lengths[:, 1:])
    lengths[:, 0] = ends[:, 0]
    answers = np.zeros(shape, dtype=np.int64)
    answers[row, rank] = many
    # All records that are beyond this edge or a later one.
    beyond = np.cumsum(answers[:, ::-1], axis=1)[:, ::-1]
    return -np.minimum(beyond, _MOST_RECORDS_BEYOND), lengths
