"""Writes the SQL that counts numbers over a grid whose steps are cut into many parts.

Such a grid has up to a million edges, which nobody sends: the engine makes them of the few edges
of the steps, by a difference, a product and a sum of floats each, which are rounded alike
everywhere. Numbers are compared with them as floats.

The embedded engine need not even make them. Where all rows are one group it hands on their numbers,
which are counted here as those of an array are. Of groups, and of weights, a logarithm and an
exponential propose how many edges a number reaches. The least and the largest number of each
proposed bucket come back with its count, and are compared with the edges here. If some number was
misplaced, the question is asked again, and the engine searches.
"""

from __future__ import annotations

import math
from contextlib import closing
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.columns import BucketGrid
from sordino.columns.bucket_counts import add_floats
from sordino.sources.number_stream import find_format, read_ahead, read_columns
from sordino.sources.sql.bucket_query import TOTAL, X_AS_DOUBLE, BucketQuery, Scale, write_double


class Steps(NamedTuple):
    """The steps of a grid, of which its edges follow.

    Attributes
    ----------
    edges : array of float64, shape (S + 1,)
        Where steps begin and end, from 0 up where the grid is mirrored.
    cuts : int
        Into how many parts each is cut.
    mirrored, whole : bool
        Whether the edges below 0 mirror those above it, and whether edges are rounded up to whole
        numbers before that.
    """

    edges: NDArray[np.float64]
    cuts: int
    mirrored: bool
    whole: bool

    @classmethod
    def of(cls, grid: BucketGrid) -> Steps:
        """Return the steps that a grid was cut in."""
        made, edges = dict(grid.recipe), grid.uncut().edges
        mirrored = made["lower"] is None
        up = edges[edges >= 0] if mirrored else edges
        return cls(up, grid.cuts, mirrored, "whole" in made)

    def list_pairs(self) -> list[tuple[float, float]]:
        """Return where each step begins and ends; the last one is the end of the grid alone."""
        ends = [*self.edges.tolist(), float(self.edges[-1])]
        return list(pairwise(ends))

    def write_texts(self) -> tuple[str, ...]:
        """Return each step as a text: where it begins and where it ends."""
        return tuple(f"{begins!r} {ends!r}" for begins, ends in self.list_pairs())

    def write_cuts(self, share: str, last: str) -> list[str]:
        """Return the edges in SQL, of the columns begins and ends and the share of a step."""
        # Of the last pair both are the end of the grid, and so is each part of it.
        cut = f"least(begins + (ends - begins) * {share}, ends)"
        if self.whole:
            # Rounded up a part may lie beyond the end.
            cut = f"least(ceil({cut}), {last})"
        return [cut, f"-({cut})"] if self.mirrored else [cut]


def find_scale(grid: BucketGrid) -> Scale | None:
    """Return the scale on which the steps of a grid are even, if it tells all parts apart."""
    uncut = grid.uncut()
    scale = Scale.of(uncut)
    # Neighboring floats may be one edge, and then there are fewer edges than places.
    whole = grid.size == (uncut.size - 1) * grid.cuts + 1
    return scale if scale is not None and scale.even and whole else None


def write_place(grid: BucketGrid, scale: Scale, far: str, number: str) -> str:
    """Return about how many edges a number reaches, between the ends of the grid.

    Parameters
    ----------
    grid : BucketGrid
    scale : Scale
        By `find_scale`.
    far, number : str
        The place on the scale, without its sign, and the number, in SQL.
    """
    steps, cuts = Steps.of(grid), grid.cuts
    growth = float(dict(grid.recipe)["growth"] or 2)
    # The growth to the power of how far the number is into its step.
    part = f"(exp(({far} - floor({far})) * {write_double(math.log(growth))}) - 1)"
    of_step = f"floor({far}) * {cuts} + {part} * {write_double(cuts / (growth - 1))}"
    # The last step ends at the cap, and not where it would by its growth.
    size = f"abs({number})" if steps.mirrored else number
    begins, ends = steps.edges[-2:].tolist()
    start, width = write_double(begins), write_double((ends - begins) / cuts)
    at_end = f"{int(scale.cells[-1]) * cuts} + ({size} - {start}) / {width}"
    place = f"(CASE WHEN {size} >= {start} THEN {at_end} ELSE {of_step} END)"
    # Steps are counted from 0, or from `lower`, and the first edge is at the end of one.
    first = -(steps.edges.size - 1) if steps.mirrored else int(scale.cells[0]) - 1
    return f"{f'sign({number}) * ' if steps.mirrored else ''}{place} - ({first * cuts - 1})"


def fine_queries(grid: BucketGrid, weight: str | None = None) -> tuple[BucketQuery, ...]:
    """Return the queries of the embedded engine; the last one always succeeds.

    With a weight they add up this of the rows in each bucket as well. Without one the first is of
    all rows as one group, and always succeeds.
    """
    scale, search = find_scale(grid), _write_edge_search(grid, weight)
    queries = (search,) if scale is None else (_write_proposal(grid, scale, weight), search)
    return queries if weight is not None else (_hand_on(grid), *queries)


def _hand_on(grid: BucketGrid) -> BucketQuery:
    """Return the query that hands on all numbers, which are compared with the edges outside."""
    # The engine is asked the same of every grid. What it is sent says which one is meant, so that
    # no question of a batch is answered with the counts of another one.
    named = (repr(grid.recipe),)
    sql = f"SELECT {X_AS_DOUBLE} AS x FROM {{rows}}"
    return BucketQuery(named, np.arange(grid.size + 1), sql, take=partial(count_floats, grid=grid))


def count_floats(made: Any, grid: BucketGrid) -> dict[str, NDArray[Any]]:
    """Return how many floats of a stream are in each bucket of a grid: as a `BucketQuery` has it.

    An engine takes several times longer to group them where there are many buckets.

    Parameters
    ----------
    made : object
        A stream of Arrow with one column of floats of 64 bits, of which none is NaN; private.
    grid : BucketGrid
        Public.
    """
    counts, missing = np.zeros(grid.size + 1, dtype=np.int64), 0
    with (
        closing(read_columns(made, [str(find_format("DOUBLE"))])) as pieces,
        closing(read_ahead(pieces)) as ahead,
    ):
        for (column,) in ahead:
            known = column.values if column.known is None else column.values[column.known]
            missing += len(column.values) - len(known)
            add_floats(counts, known, grid)
    found = np.flatnonzero(counts)
    # What is missing stands in the first cell, and counts in no bucket.
    return {
        "cell": np.append(found, 0),
        "n": np.append(counts[found], missing),
        "known": np.append(counts[found], 0),
    }


def _write_proposal(grid: BucketGrid, scale: Scale, weight: str | None) -> BucketQuery:
    """Return the query in which a logarithm proposes the step, and an exponential the part."""
    low, high = (write_double(float(edge)) for edge in grid.edges[[0, -1]])
    near = f"TRY_CAST(floor({write_place(grid, scale, 'far', 'x')}) AS INTEGER)"
    cell = (
        f"CASE WHEN far IS NOT NULL THEN greatest(1, least({grid.size - 1}, {near}))"
        f" WHEN x >= {high} THEN {grid.size} ELSE 0 END"
    )
    # A logarithm is taken between the ends alone, where it exists.
    far = f"CASE WHEN x >= {low} AND x < {high} THEN abs({scale.sql}) END AS far"
    total, of_row, steps = _write_weight(weight)
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known{total}, min(x) AS low,"
        f" max(x) AS high FROM (SELECT {{group}}x{steps}, {cell} AS cell FROM"
        f" (SELECT {{group}}x{steps}, {far} FROM"
        f" (SELECT {{group}}{X_AS_DOUBLE} AS x{of_row} FROM {{rows}}))) GROUP BY ALL"
    )
    return BucketQuery((), np.arange(grid.size + 1), sql)


def _write_weight(weight: str | None) -> tuple[str, str, str]:
    """Return how weights are added up, how a row has one, and its name; nothing without."""
    return ("", "", "") if weight is None else (f", {TOTAL}", f", {weight} AS steps", ", steps")


def _write_edge_search(grid: BucketGrid, weight: str | None) -> BucketQuery:
    """Return the query in which the engine makes the edges, and looks for the last one reached."""
    steps = Steps.of(grid)
    texts, last = steps.write_texts(), write_double(float(steps.edges[-1]))
    cuts = ", ".join(steps.write_cuts("share", last))
    made = (
        f"(SELECT DISTINCT unnest([{cuts}]) AS cut FROM (SELECT"
        " TRY_CAST(split_part(label, ' ', 1) AS DOUBLE) AS begins,"
        " TRY_CAST(split_part(label, ' ', 2) AS DOUBLE) AS ends FROM labels"
        f" WHERE position < {len(texts)}) AS steps CROSS JOIN (SELECT CAST(part AS DOUBLE) /"
        f" {write_double(grid.cuts)} AS share FROM range({grid.cuts}) AS parts(part)) AS shares)"
    )
    table = f"(SELECT cut, row_number() OVER (ORDER BY cut) AS bucket FROM {made} AS made)"
    total, of_row, _ = _write_weight(weight)
    sql = (
        f"SELECT {{group}}coalesce(bucket, 0) AS cell, count(*) AS n, count(x) AS known{total} FROM"
        f" (SELECT {{group}}{X_AS_DOUBLE} AS x{of_row} FROM {{rows}})"
        f" ASOF LEFT JOIN {table} ON x >= cut GROUP BY ALL"
    )
    return BucketQuery(texts, np.arange(grid.size + 1), sql)
