"""The bucket of each record: a rising function of the value proposes a place, comparisons with the edges decide.

Claim: the place is the number of edges that are at most the value, exactly, for floats of any width and whole numbers of 64 bits. Proof:
docs/proofs/bucket-counts.md.
Floats: subtraction, conversion and the digits of a float only have to rise with the value; nothing that they round can misplace it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.estimators._bucket_grid import BucketGrid

_MOST_CELLS = 1 << 16  # a table of them stays in the processor's cache
_FRACTION = 52  # binary digits of a float after its exponent


def counts_of(block: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return how many records of a block are in each bucket, shape (K + 1,): floats, whole numbers or truth values."""
    whole = block.dtype.kind in "iu" and block.dtype.itemsize == 8
    if not whole and block.dtype.itemsize < 8:
        block = block.astype(np.float64)  # which holds them all
    table = _table(grid, block.dtype.kind if whole else "f")
    return table.counts(block)


@final
@dataclass(frozen=True, eq=False)
class _Cells:
    """A rising function from numbers to whole numbers 0, 1, ...: the leading binary digits of the distance from a public origin.

    Distances from `near` to `far` are told apart, on both sides of the origin if `mirrored`; nearer and farther ones fall into the first
    and the last cell of their side, and NaN into the lowest cell of all.
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
            np.fmax(distance, -self.far if self.mirrored else self.near, out=distance)  # NaN becomes the lowest
            left = distance < 0 if self.mirrored else None
            if left is not None:
                np.maximum(np.abs(distance, out=distance), self.near, out=distance)
            np.minimum(distance, self.far, out=distance)
        cells: NDArray[np.int64] = distance.view(np.int64)  # the digits of positive floats are ordered as the floats are
        cells >>= self.shift
        cells -= self._digits(self.near)
        if left is not None:
            cells ^= -left.astype(np.int64)  # -1 - cell, left of the origin
            cells += self.side
        return cells


@final
@dataclass(frozen=True, eq=False)
class _Table:
    """Marks that records are compared with, and the number of marks that everything in a cell has passed."""

    cells: _Cells
    passed: NDArray[np.int64]
    marks: NDArray[Any]  # with sentinels behind the last one, which nothing passes
    strict: bool  # x > mark rather than x >= mark
    most: int  # marks that one cell may leave open, plus one, is at most 2^most
    buckets: NDArray[np.int64]  # of a record that has passed 0, 1, ... marks
    size: int

    def counts(self, block: NDArray[Any]) -> NDArray[np.int64]:
        place = self.passed[self.cells.of(block)]
        passes = np.greater if self.strict else np.greater_equal
        for level in reversed(range(self.most)):  # the marks rise: a binary search, of one comparison mostly
            step = 1 << level
            place += passes(block, self.marks[step - 1 :][place]) * np.int64(step)
        counts = np.zeros(self.size, dtype=np.int64)
        counts[self.buckets] = np.bincount(place, minlength=self.buckets.size)
        return counts


@lru_cache(maxsize=16)
def _table(grid: BucketGrid, kind: str) -> _Table:
    """Return the table for floats ("f"), whole numbers ("i") or such without sign ("u")."""
    if kind == "f":
        marks, buckets, nobody = grid.edges, np.arange(grid.size + 1), np.nan
        first = marks
    else:
        first, buckets, nobody = _whole_cuts(grid.edges, kind)
        marks = first - first.dtype.type(1)  # x > cut - 1, because nothing is above the sentinel
    cells = _cells(first, grid)
    open_marks = np.bincount(cells.of(first), minlength=cells.size)
    most = int(open_marks.max()).bit_length()
    sentinels = np.full(1 << most, nobody, dtype=marks.dtype)
    return _Table(
        cells=cells,
        passed=np.cumsum(open_marks) - open_marks,
        marks=np.concatenate([marks, sentinels]),
        strict=kind != "f",
        most=most,
        buckets=buckets,
        size=grid.size + 1,
    )


def _whole_cuts(edges: NDArray[np.float64], kind: str) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    """Return the whole numbers where the bucket changes, the buckets between them, and the largest number (x >= edge: x >= ceil(edge))."""
    smallest, largest = (0, (1 << 64) - 1) if kind == "u" else (-(1 << 63), (1 << 63) - 1)
    ceilings = [math.ceil(edge) for edge in edges.tolist()]
    below = sum(cut <= smallest for cut in ceilings)  # edges that every such number has reached
    cuts = [cut for cut in ceilings if smallest < cut <= largest]
    different, times = np.unique(np.array(cuts, dtype=np.uint64 if kind == "u" else np.int64), return_counts=True)
    return different, below + np.append(0, np.cumsum(times)), largest


def _cells(marks: NDArray[Any], grid: BucketGrid) -> _Cells:
    """Return the smallest number of cells that tells all marks apart, or else the largest number that is allowed."""
    origin = float(dict(grid.recipe).get("lower") or 0)
    distance = np.abs(marks.astype(np.float64) - origin) if marks.size else np.ones(1)
    known = distance[(distance > 0) & np.isfinite(distance)]
    near, far = (float(known.min()) / 2, float(known.max())) if known.size else (1.0, 1.0)
    mirrored = bool((marks.astype(np.float64) < origin).any())
    best = _Cells(origin, max(near, math.ulp(0)), far, mirrored, _FRACTION)
    for shift in reversed(range(_FRACTION)):
        finer = _Cells(origin, best.near, far, mirrored, shift)
        if finer.size > _MOST_CELLS or len(set(best.of(marks).tolist())) == marks.size:
            break
        best = finer
    return best
