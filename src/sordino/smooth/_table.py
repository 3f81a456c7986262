"""Any statistic of a small contingency table, with its smallest smooth bounds, from all tables.

Claim: `Table.bound` is a beta-smooth upper bound of the local sensitivity of `Table.statistic` if
one record is replaced: without rounding its smooth sensitivity, the smallest such bound. Proof:
docs/proofs/smooth-bounds.md, "Any table". Floats: differences of the floats that the statistic
returns, rounded outward; beta lowered by what rounding can do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, Number, shown
from sordino.errors import InvalidParameter
from sordino.releases import short_repr
from sordino.scrubbing import scrubbed
from sordino.smooth.values import Floats, as_floats, checked_beta, inner, outward

LARGEST = 1 << 19
"""More tables than this are not listed."""


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Table:
    """A statistic of a contingency table with its smooth bounds; made by `smooth.table`.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    records : int or tuple of int
        How many records there are, in all or in each row.
    beta : number
        How fast the bound may change, in nats a record.
    ceiling : float
        The largest local sensitivity of all tables: the global sensitivity.

    Examples
    --------
    >>> import sordino as sd
    >>> table = sd.smooth.table(sd.smooth.chi_square, shape=(2, 2), records=(20, 20), beta=0.3)
    >>> counts = [[12, 8], [5, 15]]
    >>> round(table.statistic(counts), 3), round(table.bound(counts), 3), round(table.ceiling, 3)
    (5.013, 1.654, 3.81)
    """

    shape: tuple[int, int]
    records: int | tuple[int, ...]
    beta: Number
    ceiling: float
    _tables: Tables = field(repr=False)
    _statistics: Floats = field(repr=False)
    _bounds: Floats = field(repr=False)

    def __repr__(self) -> str:
        shown_fields = {
            "shape": self.shape,
            "records": self.records,
            "beta": self.beta,
            "ceiling": self.ceiling,
        }
        return short_repr(self, shown_fields)

    @scrubbed
    def statistic(self, counts: Any) -> float:
        """Return the statistic of one private table.

        Parameters
        ----------
        counts : array of int, shape `shape`
            What is no table of so many records becomes one by rule, cell by cell in reading order:
            rounded down, NaN and what is below 0 as 0, at most what is left of the records; the
            last cell gets what is left.

        Returns
        -------
        float
            Private.

        Raises
        ------
        InvalidParameter
            If the shape is another one.
        """
        return float(self._statistics[self._place(counts)])

    @scrubbed
    def bound(self, counts: Any) -> float:
        """Return the smooth bound of how far one record can move the statistic of a private table.

        `counts` is as for `statistic`.

        Returns
        -------
        float
            Private: it may scale noise, and must not be shown.

        Raises
        ------
        InvalidParameter
            If the shape is another one.
        """
        return float(self._bounds[self._place(counts)])

    def _place(self, counts: Any) -> int:
        rows = (
            counts
            if isinstance(counts, list | tuple) or (isinstance(counts, np.ndarray) and counts.ndim)
            else ()
        )
        cells = [as_floats(row, "smooth.Table") for row in rows]
        if len(cells) != self.shape[0] or any(row.shape != (self.shape[1],) for row in cells):
            raise InvalidParameter(
                f"smooth.Table needs counts of shape {self.shape}; got something else."
            )
        # A rule of its own for NaN and for both infinities, so that no count raises an error.
        given = np.nan_to_num(np.stack(cells), nan=0.0, posinf=2.0**53, neginf=0.0).reshape(
            len(self._tables.totals), -1
        )
        table = np.zeros(given.shape, dtype=np.int64)
        for group, total in enumerate(self._tables.totals):
            # Each cell takes what it says, as far as records are left; the last one gets the rest.
            # So this is one of the tables that were listed.
            left = total
            for cell in range(self._tables.cells - 1):
                table[group, cell] = min(left, max(0, math.floor(given[group, cell])))
                left -= table[group, cell]
            table[group, -1] = left
        return int(self._tables.place(table[None])[0])


def table(
    statistic: Callable[[Floats], Any],
    *,
    shape: tuple[int, int],
    records: int | Sequence[int],
    beta: Number,
) -> Table:
    """Return a statistic of contingency tables with its smallest smooth bounds.

    All tables are listed once.

    Neighbors are as many records of which one is replaced by another: one unit moves from one cell
    to another one.

    Parameters
    ----------
    statistic : callable
        Takes all tables as an array of floats, shape (m, rows, columns); returns m finite numbers.
        `chi_square` for example.
    shape : tuple of int
        Rows and columns: public.
    records : int, or sequence of int
        How many records there are: public. A list says how many there are in each row, as cases and
        controls in a study: a record then stays in its row, and its row is public.
    beta : number
        How fast the bound may change, in [0, inf), in nats a record: public. 0 makes it the
        ceiling.

    Returns
    -------
    Table

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, a statistic is not finite, or there are more
        than 524288 tables.

    Examples
    --------
    The number of records in the first cell, above 5, squared:

    >>> import sordino as sd
    >>> found = sd.smooth.table(lambda t: (t[:, 0, 0] - 5).clip(0) ** 2, shape=(1, 3),
    ...                         records=30, beta=0.2)
    >>> found.ceiling, round(found.bound([[5, 15, 10]]), 3), round(found.bound([[29, 1, 0]]), 3)
    (49.0, 4.047, 49.0)
    """
    owner = "smooth.table"
    rate, listed = checked_beta(beta, owner), _make_tables(shape, records)
    if not callable(statistic):
        raise InvalidParameter(
            f"{owner}.statistic must be a function of an array of tables; got {shown(statistic)}."
        )
    # Everything from here on is about all tables: public. Private counts only choose a place in the
    # list.
    tables = listed.listed()
    found = _read_table_statistics(statistic(tables.reshape(-1, *shape).astype(np.float64)))
    if found.shape != (listed.size,) or not np.isfinite(found).all():
        raise InvalidParameter(
            f"{owner}.statistic must return one finite number for each of {listed.size} tables; "
            "got something else."
        )
    moves = list(listed.moves(tables))
    # With each move its reverse is a move, so every table meets all of its neighbors.
    local = np.zeros(listed.size)
    for start, end in moves:
        local[start] = np.maximum(local[start], np.abs(found[start] - found[end]))
    ceiling = float(local.max())
    kept = int(listed.totals[0]) if isinstance(records, int) else listed.totals
    return Table(
        shape=(int(shape[0]), int(shape[1])),
        records=kept,
        beta=beta,
        ceiling=ceiling,
        _tables=listed,
        _statistics=found,
        _bounds=outward(_dilate_bounds(local, moves, math.exp(-inner(rate))), ceiling),
    )


def _read_table_statistics(values: Any) -> Floats:
    """Return what a statistic returned as floats of its shape.

    None at all if it is no array of numbers.
    """
    array = np.asarray(values)
    return array.astype(np.float64) if array.dtype.kind in "buif" else np.zeros(0)


def _make_tables(shape: Any, records: Any) -> Tables:
    """Return the tables of this shape, if there are not too many."""
    if not isinstance(shape, tuple) or len(shape) != 2:
        raise InvalidParameter(
            f"smooth.table.shape must be two whole numbers, rows and columns; got {shown(shape)}."
        )
    rows, columns = (COUNT("smooth.table.shape", length) for length in shape)
    if isinstance(records, Sequence) and not isinstance(records, str):
        totals = tuple(COUNT("smooth.table.records", total) for total in records)
        if len(totals) != rows:
            raise InvalidParameter(
                f"smooth.table.records must be one number, or one for each of {rows} rows; got "
                f"{len(totals)}."
            )
        found = Tables(totals=totals, cells=columns)
    else:
        found = Tables(totals=(COUNT("smooth.table.records", records),), cells=rows * columns)
    if found.size > LARGEST:
        raise InvalidParameter(
            f"smooth.table lists every table, at most {LARGEST} of them; got a shape and records "
            f"with {shown(found.size)}. Give a bound for all distances to smooth.bound instead, or "
            "a distance to smooth.from_distance."
        )
    return found


def _dilate_bounds(local: Floats, moves: list[tuple[Counts, Counts]], kept: float) -> Floats:
    """Raise each bound to its share of its neighbors', until no move lowers any by more."""
    # A share is lent along a path of several moves, so one pass over the moves may not be enough.
    bounds = local.copy()
    while True:
        before = bounds.copy()
        for start, end in moves:
            bounds[start] = np.maximum(bounds[start], kept * bounds[end])
        if (bounds == before).all():
            return bounds


def chi_square(tables: Any) -> Floats:
    """Return Pearson's chi-square statistic of each table, for `smooth.table`.

    Parameters
    ----------
    tables : array of float, shape (m, rows, columns)
        Counts.

    Returns
    -------
    array of float, shape (m,)
        The sum of (observed - expected)^2 / expected over all cells, without a correction; 0 where
        nothing is expected.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.chi_square([[[12, 8], [5, 15]], [[10, 10], [10, 10]]]).round(3)
    array([5.013, 0.   ])
    """
    counts = np.asarray(tables, dtype=np.float64)
    # Without records nothing is expected anywhere, and the divisor does not matter.
    total = np.maximum(counts.sum(axis=(1, 2), keepdims=True), 1.0)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=2, keepdims=True) / total
    # NumPy computes both branches, so the divisor is mended where nothing is expected.
    parts = np.where(
        expected > 0, (counts - expected) ** 2 / np.where(expected > 0, expected, 1.0), 0.0
    )
    found: Floats = parts.sum(axis=(1, 2))
    return found


# ---- all tables of a size ------------------------------------------------------------------------
# All contingency tables of so many records, and which one record leads from one to another.
#
# Claim: `Tables` lists every table once, `place` finds it again, and `moves` holds all pairs of
# tables that differ in one record. Proof: docs/proofs/smooth-bounds.md, "Any table". Floats: none.


Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """All ways to put records into cells.

    `totals` records into each of the groups, of `cells` cells each.

    A record stays in its group. One group: records may be anywhere.
    """

    totals: tuple[int, ...]
    cells: int
    _sizes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        # The ways to put so many records into the cells of a group. The groups are independent.
        object.__setattr__(
            self, "_sizes", tuple(math.comb(total + self.cells - 1, total) for total in self.totals)
        )

    @property
    def size(self) -> int:
        """How many tables there are."""
        return math.prod(self._sizes)

    def listed(self) -> Counts:
        """Return all tables, shape (size, groups, cells), in the order of `place`."""
        found = np.empty((self.size, len(self.totals), self.cells), dtype=np.int64)
        # A position in the list has one digit for each group, in a mixed base.
        places = np.unravel_index(np.arange(self.size), self._sizes)
        for group, total in enumerate(self.totals):
            found[:, group] = _list_compositions(total, self.cells)[places[group]]
        return found

    def place(self, tables: Counts) -> Counts:
        """Return the position of each table, shape (m, groups, cells), in the list."""
        places = tuple(
            _composition_ranks(tables[:, group], total) for group, total in enumerate(self.totals)
        )
        found: Counts = np.ravel_multi_index(places, self._sizes).astype(np.int64)
        return found

    def moves(self, tables: Counts) -> Iterator[tuple[Counts, Counts]]:
        """Yield for each kind of move the positions of tables before it, and of those after it."""
        for group in range(len(self.totals)):
            for here, there in permutations(range(self.cells), 2):
                # Only a cell that has a record can lose one.
                start = np.flatnonzero(tables[:, group, here] > 0)
                moved = tables[start]
                moved[:, group, here] -= 1
                moved[:, group, there] += 1
                yield start, self.place(moved)


def _list_compositions(total: int, cells: int) -> Counts:
    """Return all ways to put `total` records in `cells` cells, ordered by `_composition_ranks`."""
    if cells == 1:
        return np.array([[total]])
    parts = []
    for first in range(total + 1):
        others = _list_compositions(total - first, cells - 1)
        parts.append(np.column_stack([np.full(len(others), first), others]))
    return np.concatenate(parts)


def _composition_ranks(counts: Counts, total: int) -> Counts:
    """Return the position of each row of counts, shape (m, cells), among all rows with this total.

    That is how many rows have a smaller number where they first differ from it.
    """
    cells = counts.shape[1]
    left = np.full(len(counts), total)
    found = np.zeros(len(counts), dtype=np.int64)
    for cell in range(cells - 1):
        # Rows with a smaller number here: all that put `left` into the rest,
        # less those that put `left - number` there.
        others = cells - cell
        ways = np.array(
            [math.comb(records + others - 1, records) for records in range(total + 1)],
            dtype=np.int64,
        )
        found += ways[left] - ways[left - counts[:, cell]]
        left = left - counts[:, cell]
    return found
