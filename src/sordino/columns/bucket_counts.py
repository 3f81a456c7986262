"""Counts a column into the buckets of a grid.

In one pass, at any size, and parts are merged by adding.

Claim: the counts are the sum of one vector for each record, which is a function of this record and
public parameters alone. Proof: docs/proofs/bucket-counts.md. Floats: what is computed with a value
proposes its bucket only; exact comparisons with the edges decide.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_grid import BucketGrid
from sordino.columns.records import BLOCK, blocks
from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.grid import number_of
from sordino.scrubbing import scrubbed

_MOST_BUCKET_RECORDS = 1 << 60


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BucketCounts:
    """The number of records of a column in each bucket of a grid. Private: it is no release.

    Quantiles, and the search for a clip, read nothing else of a column.

    Parts of a table may be counted apart, on several machines, and merged in any order.

    Parameters
    ----------
    grid : BucketGrid
        Public.
    counts : array of int64, shape (K + 1,)
        Records in each bucket, from 0 to 2^60 / (K + 1): other numbers become the nearer end, each
        alone. So the sums of all hold, too, and a record moves at most one count, by at most one.
        Records without a number are in none. Private.

    Raises
    ------
    InvalidParameter
        If the counts are not K + 1 whole numbers.

    Examples
    --------
    >>> import sordino as sd
    >>> grid = sd.BucketGrid.geometric(lower=0, cap=100, growth=3)
    >>> monday = sd.BucketCounts.of([0, 3, 7.5], grid=grid)
    >>> tuesday = sd.BucketCounts.of([20, None], grid=grid)
    >>> monday.merge(tuesday)
    BucketCounts(grid=BucketGrid(lower=0, cap=100, growth=3, unit=1, edges=[2, 8, 26, 80, 100]))
    """

    grid: BucketGrid
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if not isinstance(self.grid, BucketGrid):
            raise InvalidParameter(
                f"BucketCounts.grid must be a BucketGrid; got {shown(self.grid)}."
            )
        if counts.dtype.kind not in "ui" or counts.shape != (self.grid.size + 1,):
            raise InvalidParameter(
                f"BucketCounts.counts must be {self.grid.size + 1} whole numbers, one more than "
                f"there are edges; got {counts.dtype} of shape {counts.shape}."
            )
        kept = limit_counts(counts, self.grid)
        kept.flags.writeable = False
        object.__setattr__(self, "counts", kept)

    @classmethod
    @scrubbed
    def of(cls, values: Any, *, grid: BucketGrid) -> BucketCounts:
        """Count records.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private: floats, whole numbers, truth values, or objects such as decimals; a memory map
            of any size is read in blocks. What is missing (NULL, NaN, None) or no number is in no
            bucket.
        grid : BucketGrid
            Public.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        # At least twice as many records in a block as there are edges, so that adding up counts
        # costs little.
        counts = np.zeros(grid.size + 1, dtype=np.int64)
        for block in blocks(values, "BucketCounts.of: values", max(BLOCK, 2 * grid.size)):
            counts += _count_block(block, grid)
        return cls(grid=grid, counts=counts)

    @classmethod
    def empty(cls, grid: BucketGrid) -> BucketCounts:
        """Return the counts of no records."""
        return cls(grid=grid, counts=np.zeros(grid.size + 1, dtype=np.int64))

    @scrubbed
    def merge(self, other: Any) -> BucketCounts:
        """Return the counts of the records of both: the sum.

        Parameters
        ----------
        other : BucketCounts
            Over an equal grid.

        Raises
        ------
        InvalidParameter
            If the other counts are over another grid.
        """
        if not isinstance(other, BucketCounts) or other.grid != self.grid:
            given = (
                f"counts over {other.grid!r}"
                if isinstance(other, BucketCounts)
                else type(other).__name__
            )
            raise InvalidParameter(
                f"BucketCounts.merge needs counts over the same grid, {self.grid!r}; got {given}."
            )
        # Each count is at most 2^60 / (K + 1), so two of them add up in 64 bits.
        return BucketCounts(grid=self.grid, counts=self.counts + other.counts)

    @scrubbed
    def onto(self, grid: BucketGrid) -> BucketCounts:
        """Return the counts over a coarser grid: each bucket holds several of these.

        Parameters
        ----------
        grid : BucketGrid
            Each of its edges is one of this grid.

        Raises
        ------
        InvalidParameter
            If some edge is not.
        """
        if grid == self.grid:
            return self
        places = np.searchsorted(self.grid.edges, grid.edges)
        known = places < self.grid.size
        if not known.all() or not np.array_equal(self.grid.edges[places], grid.edges):
            raise InvalidParameter(
                "BucketCounts.onto needs a grid of which each edge is one of the grid that was "
                f"counted over, {self.grid!r}; got {grid!r}."
            )
        # Bucket i of the coarser grid begins with the bucket behind its edge i - 1.
        starts = np.append(0, places + 1)
        return BucketCounts(grid=grid, counts=np.add.reduceat(self.counts, starts))

    @property
    def records(self) -> int:
        """How many records with a number there are; private."""
        return int(self.counts.sum())

    def runs_up(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records below edges 0, 1, ..., K - 1, in runs of equal numbers.

        The first array holds the numbers, which rise, the second one the length of each run.

        Both have shape (m,), where m - 1 is the number of non-empty buckets other than the first
        and the last one; the lengths add up to K.
        """
        return _cumulate_in_runs(self.counts)

    def runs_down(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records at or above edges K - 1, ..., 0 in runs.

        The mirror image of `runs_up`.
        """
        return _cumulate_in_runs(self.counts[::-1])

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BucketCounts)
            and self.grid == other.grid
            and np.array_equal(self.counts, other.counts)
        )

    __hash__ = None  # type: ignore[assignment]  # private, and compared by value

    def __repr__(self) -> str:
        return f"BucketCounts(grid={self.grid!r})"


# It is handed private counts.
BucketCounts.__init__ = scrubbed(BucketCounts.__init__)  # type: ignore[method-assign]


def limit_counts(counts: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return counts of buckets of a grid, each moved between 0 and 2^60 / (K + 1)."""
    # Each count is limited alone. A limit on their sums would let a record move some of the sums
    # and not others, and a search that pays for sums that move together would pay too little.
    kept: NDArray[np.int64] = np.minimum(counts, _MOST_BUCKET_RECORDS // (grid.size + 1)).astype(
        np.int64
    )
    np.maximum(kept, 0, out=kept)
    return kept


def _cumulate_in_runs(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    inner = counts[1:-1]
    # A new run begins at edge 0 and at each later edge whose bucket is not empty.
    starts = np.append(0, np.flatnonzero(inner) + 1)
    return np.cumsum(counts[:-1])[starts], np.diff(starts, append=counts.size - 1)


def _count_block(block: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return how many records of a block are in each bucket, shape (K + 1,)."""
    if block.dtype != object:
        counts = counts_of(block, grid)
        # NaN has passed no edge. It is taken out here, and nowhere else.
        if block.dtype.kind == "f":
            counts[0] -= np.count_nonzero(np.isnan(block))
        return counts
    found = [bucket for value in block if (bucket := _bucket_of_object(value, grid)) is not None]
    return np.bincount(np.array(found, dtype=np.int64), minlength=grid.size + 1)


def find_buckets(block: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return the bucket of each record of a block of numbers or objects, shape (n,).

    For a record without a number that is 0: whoever counts takes it out again.
    """
    if block.dtype != object:
        table, wide = _prepare_block(block, grid)
        places: NDArray[np.int64] = table.buckets[table.pass_marks(wide)]
        return places
    found = (_bucket_of_object(value, grid) or 0 for value in block)
    return np.fromiter(found, dtype=np.int64, count=block.size)


def _bucket_of_object(value: Any, grid: BucketGrid) -> int | None:
    """Return the bucket of one object, by the same comparisons.

    None if it is missing or no number.
    """
    number = number_of(value)
    if number is None:
        return None
    if isinstance(number, Decimal):
        # Decimals are compared with decimals: exact, and not slow however large the exponent is.
        return bisect_right(_edges_as_decimals(grid), number)
    return bisect_right(_edges_as_floats(grid), number)


@lru_cache(maxsize=64)
def _edges_as_floats(grid: BucketGrid) -> list[float]:
    return list(grid.edges.tolist())


@lru_cache(maxsize=64)
def _edges_as_decimals(grid: BucketGrid) -> list[Decimal]:
    return [Decimal(edge) for edge in grid.edges.tolist()]


# ---- where values lie ----------------------------------------------------------------------------
# The bucket of each record: a rising function of the value proposes a place, comparisons with the
# edges decide.
#
# Claim: the place is the number of edges that are at most the value, exactly, for floats of any
# width and whole numbers of 64 bits. Proof: docs/proofs/bucket-counts.md. Floats: subtraction,
# conversion and the digits of a float only have to rise with the value; nothing that they round can
# misplace it.


_MOST_MARK_CELLS = 1 << 16
"""A table of so many stays in the processor's cache; of more edges it has two for each edge."""
_FRACTION_BITS = 52  # binary digits of a float after its exponent


def counts_of(block: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return how many records of a block have passed as many edges, shape (K + 1,).

    The block holds floats, whole numbers or truth values. NaN has passed none.
    """
    table, wide = _prepare_block(block, grid)
    return table.counts(wide)


def add_floats(counts: NDArray[np.int64], block: NDArray[np.float64], grid: BucketGrid) -> None:
    """Count floats that are no NaN into the buckets of a grid, shape (K + 1,); private.

    Of a grid with many edges it takes less time than to add up the counts of blocks.
    """
    np.add.at(counts, _build_mark_table(grid, "f").pass_marks(block), 1)


def _prepare_block(block: NDArray[Any], grid: BucketGrid) -> tuple[_MarkTable, NDArray[Any]]:
    """Return the table for a block of numbers, and the block as it is compared with its marks."""
    # A float may not hold a whole number of 64 bits, so these are compared as they are.
    whole = block.dtype.kind in "iu" and block.dtype.itemsize == 8
    if not whole and block.dtype.itemsize < 8:
        block = block.astype(np.float64)  # which holds them all
    return _build_mark_table(grid, block.dtype.kind if whole else "f"), block


@final
@dataclass(frozen=True, eq=False)
class _Cells:
    """A function from numbers to cells 0, 1, ... that never falls.

    It reads the leading binary digits of the distance from a public origin.

    Distances from `near` to `far` are told apart, on both sides of the origin if `mirrored`; nearer
    and farther ones fall into the first and the last cell of their side, and NaN into the lowest
    cell of all.
    """

    origin: float
    near: float
    far: float
    mirrored: bool
    shift: int

    @property
    def side(self) -> int:
        """The number of cells on one side."""
        return self._digits(self.far) - self._digits(self.near) + 1

    @property
    def size(self) -> int:
        return self.side * (2 if self.mirrored else 1)

    def _digits(self, distance: float) -> int:
        return int(np.float64(distance).view(np.int64)) >> self.shift

    def of(self, values: NDArray[Any]) -> NDArray[np.int64]:
        with np.errstate(all="ignore"):
            distance = np.subtract(values.astype(np.float64, copy=False), self.origin)
            # NaN becomes the lowest, since fmax prefers a number to it.
            np.fmax(distance, -self.far if self.mirrored else self.near, out=distance)
            left = distance < 0 if self.mirrored else None
            if left is not None:
                np.maximum(np.abs(distance, out=distance), self.near, out=distance)
            np.minimum(distance, self.far, out=distance)
        # The digits of positive floats are ordered as the floats are.
        cells: NDArray[np.int64] = distance.view(np.int64)
        cells >>= self.shift
        cells -= self._digits(self.near)
        if left is not None:
            cells ^= -left.astype(np.int64)  # -1 - cell, left of the origin
            cells += self.side
        return cells


@final
@dataclass(frozen=True, eq=False)
class _MarkTable:
    """The marks that records are compared with.

    All that is in one cell has passed a known number of them.
    """

    cells: _Cells
    passed: NDArray[np.int64]
    marks: NDArray[Any]  # with sentinels behind the last one, which nothing passes
    strict: bool  # x > mark rather than x >= mark
    most: int  # marks that one cell may leave open, plus one, is at most 2^most
    buckets: NDArray[np.int64]  # of a record that has passed 0, 1, ... marks
    size: int

    def pass_marks(self, block: NDArray[Any]) -> NDArray[np.int64]:
        """Return how many marks each record has passed."""
        # A higher cell has passed all marks of lower cells. Only the marks of the own cell are left
        # to compare.
        place = self.passed[self.cells.of(block)]
        passes = np.greater if self.strict else np.greater_equal
        for level in reversed(
            range(self.most)
        ):  # the marks rise: a binary search, of one comparison mostly
            step = 1 << level
            place += passes(block, self.marks[step - 1 :][place]) * np.int64(step)
        return place

    def counts(self, block: NDArray[Any]) -> NDArray[np.int64]:
        place = self.pass_marks(block)
        counts = np.zeros(self.size, dtype=np.int64)
        counts[self.buckets] = np.bincount(place, minlength=self.buckets.size)
        return counts


@lru_cache(maxsize=16)
def _build_mark_table(grid: BucketGrid, kind: str) -> _MarkTable:
    """Return the table for floats ("f"), whole numbers ("i") or such without sign ("u")."""
    if kind == "f":
        marks, buckets, nobody = grid.edges, np.arange(grid.size + 1), np.nan
        first = marks
    else:
        first, buckets, nobody = _find_whole_cuts(grid.edges, kind)
        marks = first - first.dtype.type(1)  # x > cut - 1, because nothing is above the sentinel
    cells = _choose_cells(first, grid)
    open_marks = np.bincount(cells.of(first), minlength=cells.size)
    most = int(open_marks.max()).bit_length()
    # A search may look 2^most - 1 marks ahead, past the last one. Nothing passes a sentinel.
    sentinels = np.full(1 << most, nobody, dtype=marks.dtype)
    return _MarkTable(
        cells=cells,
        passed=np.cumsum(open_marks) - open_marks,
        marks=np.concatenate([marks, sentinels]),
        strict=kind != "f",
        most=most,
        buckets=buckets,
        size=grid.size + 1,
    )


def _find_whole_cuts(
    edges: NDArray[np.float64], kind: str
) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return where buckets of whole numbers change, the buckets between, and the largest number.

    A whole number x has reached an edge if and only if x >= ceil(edge).
    """
    smallest, largest = (0, (1 << 64) - 1) if kind == "u" else (-(1 << 63), (1 << 63) - 1)
    ceilings = [math.ceil(edge) for edge in edges.tolist()]
    below = sum(cut <= smallest for cut in ceilings)  # edges that every such number has reached
    cuts = [cut for cut in ceilings if smallest < cut <= largest]
    different, times = np.unique(
        np.array(cuts, dtype=np.uint64 if kind == "u" else np.int64), return_counts=True
    )
    return different, below + np.append(0, np.cumsum(times)), largest


def _choose_cells(marks: NDArray[Any], grid: BucketGrid) -> _Cells:
    """Return the fewest cells that tell all marks apart, or the most that are allowed."""
    origin = float(dict(grid.recipe).get("lower") or 0)
    # Beyond all floats a distance is infinite, and does not count.
    with np.errstate(over="ignore"):
        distance = np.abs(marks.astype(np.float64) - origin) if marks.size else np.ones(1)
    known = distance[(distance > 0) & np.isfinite(distance)]
    # Half the smallest distance: so a mark at the origin and the nearest other one fall into
    # different cells.
    near, far = (float(known.min()) / 2, float(known.max())) if known.size else (1.0, 1.0)
    mirrored = bool((marks.astype(np.float64) < origin).any())
    best = _Cells(origin, max(near, math.ulp(0)), far, mirrored, _FRACTION_BITS)
    most = max(_MOST_MARK_CELLS, 2 * marks.size)
    for shift in reversed(range(_FRACTION_BITS)):
        finer = _Cells(origin, best.near, far, mirrored, shift)
        # Marks rise, and so do their cells.
        if finer.size > most or (np.diff(best.of(marks)) > 0).all():
            break
        best = finer
    return best
