"""One search for a rank over the edges of a grid.

The counts that it tests, and what its result says.

Claim: none of its own; `docs/proofs/quantile.md` and `docs/proofs/quantiles.md` say what a search
costs. Floats: only in the rank errors, which are computed from the public result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_counts import BucketCounts
from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.mechanisms.crossings.threshold_scan import GumbelScan, ThresholdScan
from sordino.mechanisms.race import ScoreRace
from sordino.noise import first_head

Ints = NDArray[np.int64]
# The sum of 1/k^2 over all k is pi^2/6: it divides one probability of failure among all tests.
_LOG_BASEL_SUM = math.log(math.pi**2 / 6)
_MOST_LATTICE_STEPS = 1 << 60


class Runs(NamedTuple):
    """What a search looks at; private.

    `below` holds the records below each edge in runs of equal numbers, `lengths` how many edges
    each run has and `ends` how many there are up to its end, all of shape (m,); `records` is the
    number of all records.
    """

    below: Ints
    lengths: Ints
    ends: Ints
    records: int

    @classmethod
    def of(cls, counts: BucketCounts) -> Runs:
        """Return the runs of a column that was counted."""
        # Runs, not edges: a million empty buckets cost no more than one.
        below, lengths = counts.runs_up()
        return cls(below, lengths, np.cumsum(lengths), counts.records)

    def at(self, edge: int) -> int:
        """Return the records below one edge: none below edge -1, all below edge K."""
        if edge < 0:
            return 0
        run = int(np.searchsorted(self.ends, edge, side="right"))
        return int(self.below[run]) if run < self.ends.size else self.records

    def between(self, first: int, last: int) -> tuple[Ints, Ints]:
        """Return the runs over the edges `first` to `last` - 1: the records below, and the lengths.

        Both have shape (r,); there is at least one edge.
        """
        # The whole grid, as most searches ask for it: nothing has to be cut.
        if first <= 0 and last >= int(self.ends[-1]):
            return self.below, self.lengths
        start = int(np.searchsorted(self.ends, first, side="right"))
        stop = int(np.searchsorted(self.ends, last, side="left")) + 1
        # The runs that reach into the part, the first and the last one cut to it.
        cuts = np.empty(stop - start + 1, dtype=np.int64)
        cuts[0], cuts[1:-1], cuts[-1] = first, self.ends[start : stop - 1], last
        return self.below[start:stop], cuts[1:] - cuts[:-1]


def _lattice_steps(counted: Ints, weight: int, drop: int, records: int) -> Steps:
    """Return weight counted - drop records, exactly.

    In Python's integers where 64 bits might not do.
    """
    # A limit on answers would move those of neighbors apart, as only some of them would reach it.
    exact: Steps = counted if weight * records <= _MOST_LATTICE_STEPS else counted.astype(object)
    return weight * exact - drop * records


@final
@dataclass(frozen=True)
class RankSearch:
    """One noisy walk over neighboring edges, to the first that has enough records behind it.

    Attributes
    ----------
    upward : bool
        From the lowest edge up, counting records below each; or from the highest down, counting
        records at or above each.
    first, last : int
        The edges `first` to `last` - 1 are tested; at least one.
    low, high : int
        Records in the buckets `low` + 1 to `high` are counted.
    weight, drop : int
        The lattice: `weight` steps for each record counted, less `drop` steps for every record
        there is.
    target : int
        What the answers are to reach, in lattice steps; the threshold of `scan` may be moved from
        there by a public correction.
    scan : ThresholdScan or GumbelScan
        Threshold and noise, in lattice steps.
    """

    upward: bool
    first: int
    last: int
    low: int
    high: int
    weight: int
    drop: int
    target: int
    scan: ThresholdScan | GumbelScan

    def lattice(self, runs: Runs) -> tuple[Steps, Ints]:
        """Return the tests' answers in order, in lattice steps, and how often in a row each comes.

        Both have shape (r,).
        """
        # Records outside of the part are taken off: only those between `low` and `high` are
        # counted.
        below, lengths = runs.between(self.first, self.last)
        if self.upward:
            return _lattice_steps(
                below - runs.at(self.low), self.weight, self.drop, runs.records
            ), lengths
        return _lattice_steps(
            runs.at(self.high) - below[::-1], self.weight, self.drop, runs.records
        ), lengths[::-1]

    def edge(self, found: int | None) -> int:
        """Return the edge of a test, counted from 0.

        If none was found it is the one behind the last that was tested, which may be -1 or K.
        """
        if self.upward:
            return self.last if found is None else self.first + found
        return self.first - 1 if found is None else self.last - 1 - found

    @property
    def deviation(self) -> float:
        """How wide the noise of a comparison is, in records."""
        return self.scan.deviation / self.weight

    def errors(self, edge: int, wrong: float) -> tuple[float, float]:
        """Return how many records too few (`short`) and too many (`over`) may lie behind the edge.

        Each holds but for a probability of `wrong`.

        Behind an edge that was reached there are at least target - short records of those that are
        counted; behind the one tested before it at most target + over. An end that was not reached
        has no `short`: 0.
        """
        shift = (self.scan.threshold - self.target) / self.weight
        # The test before did not pass. So it counts too many only as far as the noise reaches.
        over = shift + self.scan.reach(wrong) / self.weight
        tests = edge - self.first + 1 if self.upward else self.last - edge
        if tests > self.last - self.first:
            return 0.0, max(0.0, over)
        # A bound over all tests together: test k fails with a probability of at most 6 wrong / (pi
        # k)^2.
        short = (_LOG_BASEL_SUM + 2 * math.log(tests) - math.log(wrong)) / (
            float(self.scan.noise.rate) * self.weight
        ) - shift
        return max(0.0, short), max(0.0, over)


def find_each(searches: Sequence[RankSearch], runs: Sequence[Runs], entropy: Entropy) -> list[int]:
    """Return the edge where each of several walks ends.

    Each walk is over its own records and has noise of its own. The laws of their noise are the
    same.
    """
    if not searches:
        return []
    looked = [search.lattice(of) for search, of in zip(searches, runs, strict=True)]
    thresholds = [search.scan.threshold for search in searches]
    found = searches[0].scan.first_each(*_stack_rows(looked), entropy, thresholds)
    return [
        search.edge(None if position < 0 else position)
        for search, position in zip(searches, found.tolist(), strict=True)
    ]


def _stack_rows(looked: Sequence[tuple[Steps, Ints]]) -> tuple[Steps, Ints]:
    """Return answers and lengths of several walks in rows, which are filled up with empty runs."""
    shape = (len(looked), max(lengths.size for _, lengths in looked))
    far = any(answers.dtype == object for answers, _ in looked)
    answers: Steps = np.zeros(shape, dtype=object if far else np.int64)
    lengths = np.zeros(shape, dtype=np.int64)
    for row, (asked, many) in enumerate(looked):
        answers[row, : many.size], lengths[row, : many.size] = asked, many
    return answers, lengths


@final
@dataclass(frozen=True)
class RankChoice:
    """A choice among all buckets, by permute-and-flip or by the exponential mechanism.

    The fewer records lie between a bucket and the target rank, the likelier it is chosen.

    A bucket holds all ranks from the records before it to those before the next one. So a value
    that many records share is as good as its ranks are near, and is told from the empty buckets
    beside it.

    Attributes
    ----------
    weight, drop : int
        The lattice: u = weight records below an edge - drop records is how far it lies beyond the
        target.
    rate : Fraction
        In nats a step of the depth of a bucket: the distance of 0 from the interval between u of
        its lower and u of its upper edge.
    exponential : bool
        Whether a bucket is chosen with probability proportional to e^(-rate depth). Else it is the
        first, in random order, whose coin shows heads, with probability e^(-rate depth).
    """

    weight: int
    drop: int
    rate: Fraction
    exponential: bool = False

    def lattice(self, runs: Runs) -> tuple[Ints, Ints]:
        """Return the depths of the buckets 0 to K in order, and how often in a row each comes.

        Both have shape (2m + 1,); some depths come zero times.

        Some depth is 0: below the first bucket lie no records, below the end of the last one all.
        """
        ends = np.concatenate([[0], runs.below, [runs.records]])
        # Cutting off each distance alone moves none of them by more than it moved.
        u = np.clip(
            _lattice_steps(ends, self.weight, self.drop, runs.records),
            -_MOST_LATTICE_STEPS,
            _MOST_LATTICE_STEPS,
        ).astype(np.int64)
        depths, lengths = (
            np.empty(u.size * 2 - 3, dtype=np.int64),
            np.ones(u.size * 2 - 3, dtype=np.int64),
        )
        # The buckets before each run of edges, and the last one.
        depths[::2] = np.maximum(np.maximum(u[:-1], -u[1:]), 0)
        # The empty ones between two edges of a run.
        depths[1::2], lengths[1::2] = (
            np.abs(u[1:-1]),
            runs.lengths - 1,
        )
        return depths, lengths

    @property
    def deviation(self) -> float:
        """How wide the law of the bucket is where records are dense, in records: Laplace's."""
        return math.sqrt(2) / (float(self.rate) * self.weight)

    def find(self, runs: Runs, entropy: Entropy) -> int:
        """Return the bucket that is chosen, with fresh noise."""
        depths, lengths = self.lattice(runs)
        if self.exponential:
            bucket, _ = ScoreRace(-np.repeat(depths, lengths), self.rate).first(entropy)
            return bucket
        # The law does not depend on how equal depths are grouped (docs/proofs/samplers.md, "First
        # head").
        return first_head(depths, lengths, self.rate, entropy)

    def error(self, edges: int, wrong: float) -> float:
        """Return how many records the target may lie outside the bucket.

        It lies farther with probability `wrong` at most.
        """
        # Some bucket holds the target, so at most as many others compete as there are edges. Each
        # is chosen with a probability of at most e^(-rate depth), in either way.
        return max(0.0, math.log(edges / wrong) / (float(self.rate) * self.weight))
