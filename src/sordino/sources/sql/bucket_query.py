"""Writes the SQL with which the embedded engine counts the numbers in each bucket of a grid.

It is one aggregate, and the edges are sent as a table. Comparisons alone decide a bucket; a
logarithm only proposes it, and what it proposes is checked. There are three ways, each slower than
the one before:

- *Even* grids: the logarithm proposes a bucket for each row. The least and the largest number of
  each proposed bucket are compared with its edges. If all of them lie within, the answer is right,
  however the logarithm was computed. If not, a number beside an edge was misplaced, and the
  question is asked again in the next way.
- *Cells*, where the numbers of each bucket are added up: the logarithm proposes, for each row, the
  one edge that is worth comparing with. The cell of a number is the nearest whole number on the
  scale. It holds at most one edge; every other edge lies to the left or right of it. For the edges
  at hand it is checked, publicly, that this holds with a quarter of a cell to spare. Only a
  logarithm that is wrong by that much could put a number into a wrong bucket, and then the least
  or the largest number of that bucket shows it.
- *Search*: the engine looks for the edge itself. This is always right.

Logarithms are not taken where they would not exist, and a cast that fails is NULL, never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import starmap
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns import BucketCounts, BucketGrid
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.step_query import PlainSums

WEIGHT = "weight"
"""What may be added up in place of steps: this column of a row, NULL where it has no number."""
_MOST_WEIGHT = 1 << 60


class CountedRows(NamedTuple):
    """The rows of a question with a number, counted.

    Of each group in each bucket, shape (groups, K + 1).

    `known` of all rows hold a number, `missing` hold none: these are in no bucket. Private.
    """

    counts: NDArray[np.int64]
    known: int
    missing: int


@final
@dataclass(frozen=True)
class BucketQuery:
    """How rows are counted that have a number `x`, never NaN, and, in groups, their group `grp`.

    Parameters
    ----------
    cuts : tuple of str
        What is sent to the engine, one text for each cut.
    buckets : array of int64
        The bucket of the numbers of a cell.
    sql : str
        The aggregate over `{rows}`, which has columns grp, cell, n, known, perhaps sound and total;
        `{group}` is the group with a comma, or nothing. Column known counts the rows of a cell that
        have a number. A total is the text of a whole number.
    plain : PlainSums, optional
        How the sums of buckets follow from the totals; None: they are the totals.
    take : callable, optional
        What counts the numbers that the aggregate hands on one by one, of all rows as one group.
    """

    cuts: tuple[str, ...] = field(repr=False)
    buckets: NDArray[np.int64] = field(repr=False)
    sql: str = field(repr=False)
    plain: PlainSums | None = None
    take: Callable[[Any], dict[str, NDArray[Any]]] | None = field(default=None, repr=False)

    def over(self, rows: str, *, grouped: bool) -> str:
        """Return the query over rows, a SELECT in parentheses or a name."""
        # The rows come last: a text of their predicate may look like one of the marks.
        return self.sql.replace("{group}", "grp, " if grouped else "").replace("{rows}", rows)

    def counted(
        self, answer: dict[str, NDArray[Any]], grid: BucketGrid, groups: int
    ) -> CountedRows | None:
        """Return the counts of an answer.

        None if some number is not in the bucket that was proposed for it.
        """
        if not _is_sound(answer) or not _is_within(answer, grid):
            return None
        counts = np.zeros((groups, grid.size + 1), dtype=np.int64)
        cells, rows, known = (
            np.asarray(answer[name], dtype=np.int64) for name in ("cell", "n", "known")
        )
        group = _list_groups(answer, cells)
        np.add.at(counts, (group, self.buckets[cells]), known)
        with_number = int(known.sum())
        return CountedRows(counts, with_number, int(rows.sum()) - with_number)

    def weighed(
        self, answer: dict[str, NDArray[Any]], grid: BucketGrid, groups: int
    ) -> tuple[BucketCounts, ...] | None:
        """Return what the weights of rows add up to in each bucket, of each group.

        None if some number is not in the bucket that was proposed for it.
        """
        if not _is_sound(answer) or not _is_within(answer, grid):
            return None
        totals = [int(total) for total in np.asarray(answer["total"], dtype=object).tolist()]
        counts = np.zeros((groups, grid.size + 1), dtype=np.int64)
        cells = np.asarray(answer["cell"], dtype=np.int64)
        weights = np.array([min(one, _MOST_WEIGHT) for one in totals], np.int64)
        np.add.at(counts, (_list_groups(answer, cells), self.buckets[cells]), weights)
        return tuple(BucketCounts(grid=grid, counts=one) for one in counts)

    def summed(
        self, answer: dict[str, NDArray[Any]], ladder: SumSteps, groups: int
    ) -> BucketSums | None:
        """Return the counts and the sums of an answer, whose steps are those of a ladder.

        None if some number is not in the bucket that was proposed for it.
        """
        if not _is_sound(answer):
            return None
        cells, rows, known = (
            np.asarray(answer[name], dtype=np.int64) for name in ("cell", "n", "known")
        )
        group = _list_groups(answer, cells)
        bucket = self.buckets[cells]
        # Engines answer in any order, and the counts of groups are looked up by place.
        order = np.lexsort((bucket, group))
        # In some all rows may be without a number.
        order = order[known[order] > 0]
        totals: Iterator[int] = map(int, np.asarray(answer["total"], dtype=object)[order].tolist())
        if self.plain is not None:
            each = zip(bucket[order].tolist(), known[order].tolist(), totals, strict=True)
            totals = starmap(self.plain.find_steps, each)
        missing = np.zeros(groups, dtype=np.int64)
        np.add.at(missing, group, rows - known)
        return BucketSums(
            ladder=ladder,
            group=group[order],
            bucket=bucket[order],
            count=known[order],
            total=list(totals),
            missing=missing,
        )


def _list_groups(answer: dict[str, NDArray[Any]], cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of each row of an answer."""
    return np.asarray(answer["grp"], dtype=np.int64) if "grp" in answer else np.zeros_like(cells)


def _is_sound(answer: dict[str, NDArray[Any]]) -> bool:
    """Tell whether every number is in the bucket that was proposed for it."""
    return "sound" not in answer or bool(np.all(np.asarray(answer["sound"], dtype=bool)))


def _is_within(answer: dict[str, NDArray[Any]], grid: BucketGrid) -> bool:
    """Tell whether the least and the largest number of each bucket lie between its edges.

    They do where an engine that proposes buckets says none, as it has compared them itself.
    """
    if "low" not in answer:
        return True
    known = np.asarray(answer["known"], dtype=np.int64) > 0
    bucket = np.asarray(answer["cell"], dtype=np.int64)[known]
    if bucket.size and not 0 <= bucket.min() <= bucket.max() <= grid.size:
        return False
    low, high = (np.asarray(answer[name], dtype=np.float64)[known] for name in ("low", "high"))
    ends = np.concatenate([[-np.inf], grid.edges, [np.inf]])
    # What is infinite is in the last bucket, which has no upper end.
    return bool(np.all((low >= ends[bucket]) & ((high < ends[bucket + 1]) | (bucket == grid.size))))


def bucket_queries(
    kind: NumberKind, grid: BucketGrid, steps: str | None = None
) -> tuple[BucketQuery, ...]:
    """Return the queries that count the values of a kind in buckets; the last one always succeeds.

    Parameters
    ----------
    kind : NumberKind
        Of the values.
    grid : BucketGrid
        The buckets.
    steps : str, optional
        What a row `x` adds to the sum of its bucket, in SQL; NULL if it is missing. None: only
        count.
    """
    # The grid is public, so which queries there are depends on no row.
    scale, search = Scale.of(grid), _write_search_query(kind, grid, steps)
    if scale is None:
        return (search,)
    even = (_write_even_query(kind, grid, scale, steps),) if scale.even else ()
    # To count takes no longer by a search; to add up takes many times longer.
    cells = () if steps is None else (_write_cell_query(kind, grid, scale, steps),)
    return (*even, *cells, search)


_CUTS = (
    "(SELECT position AS cell, TRY_CAST(label AS {type}) AS cut FROM labels WHERE position < "
    "{size})"
)


TOTAL = "CAST(coalesce(sum(steps), 0) AS VARCHAR) AS total"


def _write_even_query(
    kind: NumberKind, grid: BucketGrid, scale: Scale, steps: str | None
) -> BucketQuery:
    """Return the query in which a logarithm proposes the bucket.

    The least and the largest number of each bucket are compared with its edges.
    """
    # At least 1: bucket 0 also holds what is missing, so nothing
    # is compared there, and nothing may be proposed for it.
    inside = f"greatest(1, TRY_CAST(floor({scale.sql}) AS BIGINT) - ({int(scale.cells[0]) - 2}))"
    cell = _write_cell_case(kind, grid, inside, grid.size)
    more = "" if steps is None else f"{steps} AS steps, "
    return _write_checked_query(
        kind,
        grid,
        f"(SELECT {{group}}x, {more}{cell} AS cell FROM {{rows}})",
        summed=steps is not None,
    )


def _write_checked_query(
    kind: NumberKind, grid: BucketGrid, placed: str, *, summed: bool, others: tuple[str, ...] = ()
) -> BucketQuery:
    """Return the query that counts numbers in the buckets proposed for them, and checks these.

    `placed` is a SELECT with columns x, cell and, if they are added up, steps; `others` are texts
    that it is sent, which come after the cuts of the buckets.
    """
    cuts = ("", *(kind.cut(edge) or "" for edge in grid.edges.tolist()))
    table = _CUTS.format(type=kind.name, size=len(cuts))
    total, wanted = (", total", f"{TOTAL}, ") if summed else ("", "")
    # Without an upper cut it is the last bucket, or no value of the kind reaches the upper edge.
    # Without a lower cut nothing can be in the bucket: then the comparison is NULL and counts as
    # false.
    sound = "cell = 0 OR (low >= here.cut AND (above.cut IS NULL OR high < above.cut))"
    sql = (
        "SELECT {group}coalesce(cell, 0) AS cell, n, known, "
        f"coalesce({sound}, FALSE) AS sound{total} FROM "
        f"(SELECT {{group}}cell, count(*) AS n, count(x) AS known, {wanted}min(x) AS low,"
        " max(x) AS high"
        f" FROM {placed} GROUP BY ALL) "
        f"LEFT JOIN {table} AS here USING (cell) LEFT JOIN {table} AS above"
        " ON above.cell = here.cell + 1"
    )
    return BucketQuery((*cuts, *others), np.arange(len(cuts)), sql)


def _write_cell_case(kind: NumberKind, grid: BucketGrid, inside: str, top: int) -> str:
    """Return the cell of `x`.

    0 below the first edge and for what is missing, `top` from the last edge on.

    Both are decided by comparison. Only numbers between these edges get the cell `inside`.
    """
    first, last = (kind.cut(float(edge)) for edge in grid.edges[[0, -1]])
    if first is None:  # no value of the kind reaches the first edge
        return "0"
    within, above = f"x >= {_cast_cut(first, kind)}", ""
    if last is not None:
        within += f" AND x < {_cast_cut(last, kind)}"
        above = f" WHEN x >= {_cast_cut(last, kind)} THEN {top}"
    return f"CASE WHEN {within} THEN {inside}{above} ELSE 0 END"


def _place_in_cells(
    kind: NumberKind, grid: BucketGrid, scale: Scale
) -> tuple[tuple[str, ...], NDArray[np.int64], str]:
    """Return the cut of each cell, the bucket of values below it, and the cell of `x` in SQL.

    Cell 0 is below the first edge, the last cell at or above the last one.
    """
    low, high = scale.ends
    cuts = [""] * (high - low + 3)
    buckets = np.zeros(len(cuts), dtype=np.int64)
    inner = grid.edges[1:-1].tolist()
    for cell, edge in zip(scale.cells.tolist(), inner, strict=True):
        cuts[cell - low + 1] = kind.cut(edge) or ""
    # The bucket of a cell is one more than the number of inner
    # edges in lower cells: the first edge counts as well.
    buckets[1:-1] = 1 + np.searchsorted(scale.cells, np.arange(low, high + 1), side="left")
    buckets[-1] = grid.size
    # Moved between the inner cells: whatever a logarithm proposes, no row is lost in the join, and
    # none gets to where nothing is compared.
    place = f"least({len(cuts) - 2}, greatest(1, TRY_CAST({scale.sql} AS BIGINT) - ({low - 1})))"
    cell = _write_cell_case(kind, grid, place, len(cuts) - 1)
    return tuple(cuts), buckets, cell


def _write_cell_query(kind: NumberKind, grid: BucketGrid, scale: Scale, steps: str) -> BucketQuery:
    """Return the query in which a logarithm proposes the edge that a number is compared with."""
    cuts, buckets, cell = _place_in_cells(kind, grid, scale)
    # The cuts of buckets come first; behind them stand those of cells, each with the bucket below
    # it.
    first = grid.size + 1
    sent = tuple(f"{bucket} {cut}" for bucket, cut in zip(buckets.tolist(), cuts, strict=True))
    table = (
        f"(SELECT position - {first} AS place, TRY_CAST(split_part(label, ' ',"
        " 1) AS BIGINT) AS bucket,"
        f" TRY_CAST(split_part(label, ' ', 2) AS {kind.name}) AS cut FROM labels"
        f" WHERE position BETWEEN {first} AND {first + len(sent) - 1})"
    )
    placed = (
        "(SELECT {group}x, steps, bucket + CASE WHEN x >= cut THEN 1 ELSE 0 END AS cell FROM "
        f"(SELECT {{group}}x, {steps} AS steps, {cell} AS place FROM {{rows}}) JOIN {table}"
        " USING (place))"
    )
    return _write_checked_query(kind, grid, placed, summed=True, others=sent)


def _write_search_query(kind: NumberKind, grid: BucketGrid, steps: str | None) -> BucketQuery:
    """Return the query in which the engine looks for the last cut that a value reaches."""
    cuts = list_cuts(kind, grid)
    table = _CUTS.format(type=kind.name, size=len(cuts))
    wanted, more = ("", "") if steps is None else (f", {TOTAL}", f", {steps} AS steps")
    sql = (
        "SELECT {group}coalesce(cell + 1, 0) AS cell, count(*) AS n, count(x) AS known"
        f"{wanted} FROM "
        f"(SELECT {{group}}x{more} FROM {{rows}}) ASOF LEFT JOIN {table} ON x >= cut GROUP BY ALL"
    )
    return BucketQuery(tuple(cuts), np.array([0, *cuts.values()], dtype=np.int64), sql)


def list_cuts(kind: NumberKind, grid: BucketGrid) -> dict[str, int]:
    """Return the cuts that values of a kind may reach, in order, each with the bucket of these."""
    # Edges that round up to one number of the kind are reached together: the last bucket among them
    # counts.
    cuts: dict[str, int] = {}
    for bucket, edge in enumerate(grid.edges.tolist(), start=1):
        cut = kind.cut(edge)
        if cut is not None:
            cuts[cut] = bucket
    return cuts


def _cast_cut(text: str, kind: NumberKind) -> str:
    return f"CAST('{text}' AS {kind.name})"


# ---- scale ---------------------------------------------------------------------------------------
# Finds a logarithmic scale on which the edges of a geometric grid stand near whole numbers, as SQL.


# How far an edge may stand from its whole number. The proof
# in docs/proofs/numbers.md needs a quarter of a cell.
_CELL_TOLERANCE = 0.25
# The same for even grids. It decides only how often the fast way is right, because its answer is
# checked.
_EVEN_TOLERANCE = 1e-6
# Limits the table of cells that is sent, and the rounding errors of places
# (docs/proofs/numbers.md).
_MOST_SCALE_CELLS = 1 << 22
X_AS_DOUBLE = "CAST(x AS DOUBLE)"


@final
@dataclass(frozen=True)
class Scale:
    """A logarithmic scale on which each inner edge of a grid is close to a whole number of its own.

    Parameters
    ----------
    sql : str
        The place of a value `x` on the scale.
    cells : array of int64, shape (K - 2,)
        The whole numbers of the inner edges; strictly increasing.
    ends : tuple of int
        Between them, ends included, are the cells of everything from the first edge up to the last.
    even : bool
        Whether the inner edges stand at whole numbers almost exactly, one after the other.
    """

    sql: str
    cells: NDArray[np.int64]
    ends: tuple[int, int]
    even: bool

    @classmethod
    def of(cls, grid: BucketGrid) -> Scale | None:
        """Return the scale of a grid, or None if it has none."""
        made = dict(grid.recipe)
        # Only grids that a rule made, with these four parameters, have a scale.
        if made.keys() != {"lower", "cap", "growth", "unit"}:
            return None
        lower, unit, growth = made["lower"], float(made["unit"] or 1), made["growth"] or Fraction(2)
        # Places that are not finite are refused below, so no warning is needed for them.
        with np.errstate(all="ignore"):
            factor = float(1 / np.log(float(growth)))
            if lower is None:
                places = np.copysign(np.log(1 + np.abs(grid.edges) / unit) * factor, grid.edges)
                sql = (
                    f"sign({X_AS_DOUBLE}) * ln(1 + abs({X_AS_DOUBLE}) / {write_double(unit)})"
                    f" * {write_double(factor)}"
                )
            else:
                places = np.log(1 + (grid.edges - float(lower)) / unit) * factor
                far = (
                    X_AS_DOUBLE if lower == 0 else f"({X_AS_DOUBLE} - {write_double(float(lower))})"
                )
                sql = (
                    f"ln(1 + {far}{'' if unit == 1 else f' / {write_double(unit)}'}) * "
                    f"{write_double(factor)}"
                )
        if not np.isfinite(places).all() or np.abs(places).max() > _MOST_SCALE_CELLS:
            return None
        # All of this looks at public edges only. If the check
        # fails, the engine searches for the edge instead.
        cells = np.rint(places).astype(np.int64)
        # The first and the last edge need no cell: they are decided by comparison.
        inner = cells[1:-1]
        off, apart = np.abs(places - cells)[1:-1], np.diff(inner)
        if (off > _CELL_TOLERANCE).any() or (apart <= 0).any():
            return None
        even = bool(inner.size) and not (off > _EVEN_TOLERANCE).any() and not (apart > 1).any()
        # One more cell on either side, for the rounding of the engine's own logarithm.
        return cls(sql, inner, (int(cells[0]) - 1, int(cells[-1]) + 1), even)


def write_double(value: float) -> str:
    """Return a public float in SQL."""
    return f"CAST('{value!r}' AS DOUBLE)"
