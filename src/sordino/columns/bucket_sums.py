"""Sums of the records of each bucket, beside their counts: what gives the sum within any clip.

Claim: the steps follow from public parameters alone. Those of a bucket are no larger than the steps
of any clip that holds it, and divide them. Within a clip one record counts a multiple of its own
step between the ends of the clip, a function of this record and public parameters alone. The sum of
these is exact, and rounded down once. Proof: docs/proofs/bucket-counts.md, "Sums of buckets".
Floats: edges, which are exact fractions, and exact comparisons with them; sums of at most 2^21
whole numbers below 2^26, which floats hold; all others are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_counts import BucketCounts, find_buckets
from sordino.columns.bucket_grid import BucketGrid
from sordino.columns.clipped_steps import clip_block
from sordino.columns.records import BLOCK, blocks
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP
from sordino.scrubbing import scrubbed

_WIDTH_BITS = 32  # a clipped record has less than 2^32 steps: 2^31 of them add up in 64 bits
# Floats hold an end exactly: it lies at most 2^52 steps from 0 (docs/proofs/clipped-sum.md, "The
# sum").
_OFFSET_BITS = 52


class Rung(NamedTuple):
    """Buckets that stand side by side, and are added up in steps of one size.

    Attributes
    ----------
    start : int
        The first of these buckets; they end where those of the next rung begin.
    low, high : int
        Between which whole numbers of steps a record of them counts, within +-2^52.
    step : Fraction
        A power of two, in the unit of the values.
    """

    start: int
    low: int
    high: int
    step: Fraction


@final
@dataclass(frozen=True)
class SumSteps:
    """The steps of all buckets of a grid; public.

    A record x of a bucket counts as max(low, min(high, floor(x / step))) steps of its rung.

    Parameters
    ----------
    grid : BucketGrid
        The buckets.
    rungs : tuple of Rung
        In the order of their buckets; the first one begins with bucket 0.
    """

    grid: BucketGrid
    rungs: tuple[Rung, ...]

    @classmethod
    def within(cls, grid: BucketGrid, lower: Fraction, cap: Fraction, *, signed: bool) -> SumSteps:
        """Return the ladder for clips that end at edges of a grid, and within `lower` and `cap`.

        Parameters
        ----------
        grid : BucketGrid
            Edges of values of both signs stand symmetrically, with one at 0.
        lower, cap : Fraction
            Public: no record counts as less or as more. Where values are not signed, every clip
            begins at `lower`.
        signed : bool
            Whether clips begin and end at edges on either side of 0.
        """
        if not signed:
            found = _climb(grid.edges, cap, lambda end: choose_step(lower, end))
        else:
            half = grid.size // 2
            sizes = grid.edges[half + 1 :]
            near = Fraction(float(sizes[0]))
            up = _climb(sizes, cap, lambda end: choose_step(max(-near, lower), end))
            down = _climb(sizes, -lower, lambda end: choose_step(max(-end, lower), min(near, cap)))
            # Below 0 the buckets stand in the opposite order: a rung begins where the next one away
            # from 0 ends, the last one with bucket 0.
            starts = [*(half + 1 - begin for begin, _ in down[1:]), 0]
            found = [
                *reversed([(start, step) for start, (_, step) in zip(starts, down, strict=True)]),
                *((half + 1 + begin, step) for begin, step in up),
            ]
        merged = [
            one for place, one in enumerate(found) if not place or found[place - 1][1] != one[1]
        ]
        return cls(grid, _close_rungs(grid, merged, lower, cap))

    @property
    def exponents(self) -> NDArray[np.int64]:
        """The power of two that the step of each bucket is, shape (K + 1,)."""
        each = np.array([exponent_of(rung.step) for rung in self.rungs], dtype=np.int64)
        return np.repeat(each, self._sizes)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        return np.diff(np.array([*(rung.start for rung in self.rungs), self.grid.size + 1]))

    def rung_of(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of the rung of each bucket, shape (n,)."""
        return np.repeat(np.arange(len(self.rungs)), self._sizes)[buckets]


def choose_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return the smallest step, a power of two, in which a clip is narrow and close enough to 0."""
    needed = max(
        (upper - lower) / (1 << _WIDTH_BITS), max(abs(lower), abs(upper)) / (1 << _OFFSET_BITS)
    )
    # From the numbers of digits alone: this power is below what is needed, by a factor of less than
    # 4.
    step = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 1)
    while step <= needed:
        step *= 2
    return step


def exponent_of(step: Fraction) -> int:
    """Return e of a step 2^e."""
    # A power of two has 1 for its numerator or its denominator.
    return step.numerator.bit_length() - step.denominator.bit_length()


def _climb(
    ends: NDArray[np.float64], limit: Fraction, step_to: Callable[[Fraction], Fraction]
) -> list[tuple[int, Fraction]]:
    """Return where rungs begin on the way up from the lower end of all clips, and their steps.

    Parameters
    ----------
    ends : array of float, shape (n,)
        Upper ends of the buckets on the way, rising.
    limit : Fraction
        No clip reaches farther.
    step_to : callable
        Returns the step of the narrowest clip up to an end.
    """
    found, start = [], 0
    while True:
        # Wider clips have larger steps, so this one divides those of all clips that hold the
        # bucket.
        step = step_to(min(Fraction(float(ends[start])), limit))
        found.append((start, step))
        # As far as a record has at most 2^52 of these steps.
        far = step * (1 << _OFFSET_BITS)
        start = int(np.searchsorted(ends, float(far), side="right"))
        if far >= limit or start == ends.size:
            return found


def _close_rungs(
    grid: BucketGrid, begun: list[tuple[int, Fraction]], lower: Fraction, cap: Fraction
) -> tuple[Rung, ...]:
    """Return the rungs, each with the whole steps between which its records count."""
    rungs = []
    for place, (start, step) in enumerate(begun):
        after = begun[place + 1][0] if place + 1 < len(begun) else None
        least = max(lower, Fraction(float(grid.edges[start - 1]))) if start else lower
        most = cap if after is None else min(cap, Fraction(float(grid.edges[after - 1])))
        low, high = (min(max(end, -CLAMP), CLAMP) for end in (least // step, -(-most // step)))
        rungs.append(Rung(start, low, high, step))
    return tuple(rungs)


_HALF_BITS = 26  # steps within +-2^52 in halves: 2^21 of either add up exactly as floats
_MOST_TOGETHER = 1 << 21


class ClipEnds(Protocol):
    """The clip of one group, as `Clip` has it."""

    @property
    def low(self) -> int:
        """What a record beyond the lower end counts as, in steps."""
        ...

    @property
    def step(self) -> Fraction:
        """A power of two."""
        ...

    @property
    def most(self) -> int:
        """What a record beyond the upper end counts as, in steps."""
        ...

    @property
    def inside(self) -> tuple[int, int]:
        """The first and the last bucket between its ends."""
        ...


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BucketSums:
    """The records of one or several groups.

    How many, and their sum, for each bucket that is not empty.

    Private: it is no release.

    Parameters
    ----------
    ladder : SumSteps
        The buckets, and in which steps each is added up; public.
    group : array of int64, shape (m,)
        To which group each entry belongs; rising.
    bucket : array of int64, shape (m,)
        Its bucket.
    count : array of int64, shape (m,)
        How many records are in it; a record without a number is in none.
    total : list of int, length m
        Their sum, in the steps of the bucket.
    missing : array of int64, shape (groups,)
        Records without a number, of each group.
    """

    ladder: SumSteps
    group: NDArray[np.int64] = field(repr=False)
    bucket: NDArray[np.int64] = field(repr=False)
    count: NDArray[np.int64] = field(repr=False)
    total: Sequence[int] = field(repr=False)
    missing: NDArray[np.int64] = field(repr=False)

    @classmethod
    @scrubbed
    def of(cls, values: Any, ladder: SumSteps, *, owner: str = "values") -> BucketSums:
        """Count and add up the records of an array or a list, once, as one group.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        size = ladder.grid.size + 1
        counts, upper, lower = (np.zeros(size, dtype=np.int64) for _ in range(3))
        missing = 0
        starts = np.array([rung.start for rung in ladder.rungs])
        for block in blocks(values, owner, min(max(BLOCK, 2 * size), _MOST_TOGETHER)):
            places = find_buckets(block, ladder.grid)
            found = np.bincount(places, minlength=size)
            counts += found
            steps, unknown = _find_steps(block, places, ladder, np.add.reduceat(found, starts))
            missing += unknown
            upper += _add_by_bucket(places, steps >> _HALF_BITS, size)
            lower += _add_by_bucket(places, steps & ((1 << _HALF_BITS) - 1), size)
        # They have passed no edge, and count with no number.
        counts[0] -= missing
        filled = np.flatnonzero(counts)
        return cls(
            ladder=ladder,
            group=np.zeros(filled.size, dtype=np.int64),
            bucket=filled,
            count=counts[filled],
            total=[(int(upper[at]) << _HALF_BITS) + int(lower[at]) for at in filled.tolist()],
            missing=np.array([missing], dtype=np.int64),
        )

    @property
    def groups(self) -> int:
        """How many groups there are; public."""
        return self.missing.size

    @property
    def counts(self) -> BucketCounts:
        """The records in each bucket, where there is one group."""
        found = np.zeros(self.ladder.grid.size + 1, dtype=np.int64)
        found[self.bucket] = self.count
        return BucketCounts(grid=self.ladder.grid, counts=found)

    def known(self) -> NDArray[np.int64]:
        """Return how many records of each group hold a number, shape (groups,)."""
        found = np.zeros(self.groups, dtype=np.int64)
        np.add.at(found, self.group, self.count)
        return found

    @scrubbed
    def add_up(self, clips: Sequence[ClipEnds]) -> list[int]:
        """Return each group's sum of records within its clip, in steps of the clip, rounded down.

        Records beyond an end count as that end; what is missing adds nothing.

        Raises
        ------
        InvalidParameter
            If there is not one clip for each group.
        """
        if len(clips) != self.groups:
            raise InvalidParameter(
                f"BucketSums.add_up needs {self.groups} clips; got {len(clips)}."
            )
        exponents = self.ladder.exponents
        finest = int(exponents.min())
        ends = np.array([clip.inside for clip in clips], dtype=np.int64).reshape(-1, 2)[self.group]
        left, right = self.bucket < ends[:, 0], self.bucket > ends[:, 1]
        below, above = (np.zeros(self.groups, dtype=np.int64) for _ in range(2))
        np.add.at(below, self.group[left], self.count[left])
        np.add.at(above, self.group[right], self.count[right])
        # Python integers: as exact as the sums, whatever the steps are.
        sums = [0] * self.groups
        inner = np.flatnonzero(~(left | right))
        shifts = (exponents - finest)[self.bucket[inner]]
        for place, group, shift in zip(
            inner.tolist(), self.group[inner].tolist(), shifts.tolist(), strict=True
        ):
            sums[group] += self.total[place] << shift
        # Many groups share a clip.
        coarser = {
            id(clip): exponent_of(clip.step) - finest
            for clip in {id(one): one for one in clips}.values()
        }
        # The steps of a clip are no smaller than those of the buckets inside: to shift rounds down,
        # once.
        return [
            (total >> coarser[id(clip)]) + clip.low * under + clip.most * over
            for total, clip, under, over in zip(
                sums, clips, below.tolist(), above.tolist(), strict=True
            )
        ]


def _add_by_bucket(
    buckets: NDArray[np.int64], halves: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Return the sum of the halves of each bucket, shape (size,)."""
    # Floats hold it: at most 2^21 whole numbers within +-2^26.
    return np.bincount(buckets, weights=halves, minlength=size).astype(np.int64)


def _find_steps(
    block: NDArray[Any], places: NDArray[np.int64], ladder: SumSteps, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Return the steps of each record on the rung of its bucket, and how many are missing.

    Missing ones have 0 steps. `sizes` says how many records of the block are on each rung.
    """
    # Most records of a block are on one rung mostly: all are looked at as if they were, then the
    # others.
    most = int(sizes.argmax())
    rung = ladder.rungs[most]
    steps, unknown = clip_block(block, rung.low, rung.high, exponent_of(rung.step))
    on = ladder.rung_of(places) if np.count_nonzero(sizes) > 1 else None
    for place in np.flatnonzero(sizes).tolist():
        if on is not None and place != most:
            here, rung = np.flatnonzero(on == place), ladder.rungs[place]
            steps[here], _ = clip_block(block[here], rung.low, rung.high, exponent_of(rung.step))
    return steps, unknown
