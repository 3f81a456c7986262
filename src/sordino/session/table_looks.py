"""Several looks at one cross table, put together: from what was released, never from what is shown.

Whole numbers that are not below 0 are for readers. They are fitted to each table anew, and nothing
is computed with them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sordino.figures.table_fit import Axes, Ends, Floats, list_margins
from sordino.figures.table_sums import find_sum_reach, round_cells
from sordino.session.cross_table import CrossTable, TableCell, find_level, find_sums, place_ends
from sordino.session.looks import Joined, Rows


class TableLooks(NamedTuple):
    """What several looks say together.

    Attributes
    ----------
    rows : tuple of TableCell
        In the order of a table.
    errors : list of float
        The standard deviation of the noise of each estimate.
    """

    rows: tuple[TableCell, ...]
    errors: list[float]


def join_table_looks(fresh: CrossTable, reads: Sequence[Rows], *, planned: bool) -> TableLooks:
    """Return all looks at a table as one, which adds up and lies inside of all intervals.

    Parameters
    ----------
    fresh : CrossTable
        The last look.
    reads : sequence of Rows
        The cells of all looks, the last one among them.
    planned : bool
        Whether intervals are those of all looks, else of the last one.
    """
    layout, shape = fresh.layout, fresh.layout.shape
    items = list(layout.list_items(()))
    # All cells of a look have the same noise.
    joined = Joined.of([look[items[0]] for look in reads])
    cells = np.zeros(shape)
    for weight, look in zip(joined.weights, reads, strict=True):
        values = np.array([float(look[item].terms[0].value) for item in items])
        cells = cells + float(weight) * values.reshape(shape)
    cells, error = round_cells(cells), joined.deviation
    if planned:
        ends = place_ends(cells, _find_joint_reach(joined, shape), rounded=True)
    else:
        alone, ends = find_sums(fresh.parts, shape)
        # Whoever looks again because of what the first look said may have been misled by it. Moved
        # into an interval each by itself, numbers would not add up.
        if not _lie_between(cells, ends):
            cells, error = alone, fresh.standard_error
    whole = fresh.parts[()].mechanism.step == 1
    errors = [
        error * math.sqrt(math.prod(shape[axis] for axis in axes))
        for axes in list_margins(len(shape))
        for _ in layout.list_items(axes)
    ]
    return TableLooks(layout.list_numbers(cells, ends, whole=whole), errors)


def _find_joint_reach(joined: Joined, shape: tuple[int, ...]) -> dict[Axes, Fraction]:
    """Return how far the sums of all looks reach, so that all intervals of a table hold."""
    noises = [
        (row.terms[0].law, weight * row.terms[0].step)
        for weight, row in zip(joined.weights, joined.rows, strict=True)
    ]
    return {
        axes: find_sum_reach(
            noises * math.prod(shape[axis] for axis in axes), find_level(axes, shape)
        )
        for axes in list_margins(len(shape))
    }


def _lie_between(cells: Floats, ends: dict[Axes, Ends]) -> bool:
    """Tell whether all sums of a table lie within their intervals."""
    return all(
        bool(np.all((low <= sums) & (sums <= high)))
        for axes, (low, high) in ends.items()
        for sums in [cells.sum(axis=axes, keepdims=True)]
    )
