"""How many records are in each bucket of a grid: one pass, any size, merged by addition.

Claim: the counts are the sum of one vector for each record, which is a function of this record and public parameters alone. Proof:
docs/proofs/bucket-counts.md.
Floats: what is computed with a value proposes its bucket only; exact comparisons with the edges decide.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.estimators._bucket_grid import BucketGrid
from sordino.estimators._bucket_places import counts_of
from sordino.estimators._records import BLOCK, blocks, number_of
from sordino.remnants import no_remnants

_MOST = 1 << 60


@final
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class BucketCounts:
    """The records of a column, as far as a quantile looks at them: their number in each bucket. Private: it is no release.

    Parts of a table may be counted apart, on several machines, and merged in any order.

    Parameters
    ----------
    grid : BucketGrid
        Public.
    counts : array of int64, shape (K + 1,)
        Records in each bucket, from 0 to 2^60 / (K + 1): other numbers become the nearer end, each alone. So the sums of all hold, too,
        and a record moves at most one count, by at most one. Private.

    Raises
    ------
    InvalidParameter
        If the counts are not K + 1 whole numbers.

    Examples
    --------
    >>> import sordino as sd
    >>> grid = sd.BucketGrid.geometric(lower=0, cap=100, growth=2)
    >>> monday, tuesday = sd.BucketCounts.of([0, 3, 7.5], grid=grid), sd.BucketCounts.of([20, None], grid=grid)
    >>> monday.merge(tuesday)
    BucketCounts(grid=BucketGrid(lower=0, cap=100, growth=2, unit=1, edges=[1, 3, 7, 15, 31, 63, ...]))
    """

    grid: BucketGrid
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        counts = np.asarray(self.counts)
        if not isinstance(self.grid, BucketGrid):
            raise InvalidParameter(f"BucketCounts.grid must be a BucketGrid; got {shown(self.grid)}.")
        if counts.dtype.kind not in "ui" or counts.shape != (self.grid.size + 1,):
            raise InvalidParameter(
                f"BucketCounts.counts must be {self.grid.size + 1} whole numbers, one more than there are edges; got "
                f"{counts.dtype} of shape {counts.shape}."
            )
        kept = np.minimum(counts, _MOST // counts.size).astype(
            np.int64
        )  # a limit on sums would let a record move some of them only
        np.maximum(kept, 0, out=kept)
        kept.flags.writeable = False
        object.__setattr__(self, "counts", kept)

    @classmethod
    @no_remnants
    def of(cls, values: Any, *, grid: BucketGrid) -> BucketCounts:
        """Count records.

        Parameters
        ----------
        values : array or list of numbers, shape (n,)
            Private: floats, whole numbers, truth values, or objects such as decimals; a memory map of any size is read in blocks.
            What is missing or no number is in the lowest bucket.
        grid : BucketGrid
            Public.

        Raises
        ------
        InvalidParameter
            If the values are not one-dimensional, or their declared type is not numeric.
        """
        counts = np.zeros(grid.size + 1, dtype=np.int64)
        for block in blocks(values, "BucketCounts.of: values", max(BLOCK, 2 * grid.size)):
            counts += _counts(block, grid)
        return cls(grid=grid, counts=counts)

    @classmethod
    def empty(cls, grid: BucketGrid) -> BucketCounts:
        """Return the counts of no records."""
        return cls(grid=grid, counts=np.zeros(grid.size + 1, dtype=np.int64))

    @no_remnants
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
            given = f"counts over {other.grid!r}" if isinstance(other, BucketCounts) else type(other).__name__
            raise InvalidParameter(f"BucketCounts.merge needs counts over the same grid, {self.grid!r}; got {given}.")
        return BucketCounts(grid=self.grid, counts=self.counts + other.counts)

    @property
    def records(self) -> int:
        """How many records were counted; private."""
        return int(self.counts.sum())

    def runs_up(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records below edge 0, 1, ..., K - 1 in runs of equal numbers: the numbers, rising, and the length of each run.

        Both have shape (m,), where m - 1 is the number of non-empty buckets other than the first and the last one; the lengths add up
        to K.
        """
        return _runs(self.counts)

    def runs_down(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the records at or above edge K - 1, K - 2, ..., 0 in runs of equal numbers: the mirror image of `runs_up`."""
        return _runs(self.counts[::-1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BucketCounts) and self.grid == other.grid and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # private, and compared by value

    def __repr__(self) -> str:
        return f"BucketCounts(grid={self.grid!r})"


BucketCounts.__init__ = no_remnants(BucketCounts.__init__)  # type: ignore[method-assign]  # it is handed private counts


def _runs(counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    inner = counts[1:-1]
    starts = np.append(0, np.flatnonzero(inner) + 1)
    return np.cumsum(counts[:-1])[starts], np.diff(starts, append=counts.size - 1)


def _counts(block: NDArray[Any], grid: BucketGrid) -> NDArray[np.int64]:
    """Return how many records of a block are in each bucket, shape (K + 1,)."""
    if block.dtype != object:
        return counts_of(block, grid)
    return np.bincount([_place(value, grid) for value in block], minlength=grid.size + 1)


def _place(value: Any, grid: BucketGrid) -> int:
    """Return the bucket of one object, by the same comparisons."""
    number = number_of(value)
    if number is None:
        return 0
    if isinstance(number, Decimal):
        return bisect_right(_decimal_edges(grid), number)  # exact, and not slow however large the exponent
    return bisect_right(_listed_edges(grid), number)


@lru_cache(maxsize=64)
def _listed_edges(grid: BucketGrid) -> list[float]:
    return list(grid.edges.tolist())


@lru_cache(maxsize=64)
def _decimal_edges(grid: BucketGrid) -> list[Decimal]:
    return [Decimal(edge) for edge in grid.edges.tolist()]
