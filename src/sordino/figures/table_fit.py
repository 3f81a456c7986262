"""Makes a table of noisy counts one of whole numbers that are not negative, and still add up.

It is made of what was released, and of nothing else. What it returns lies inside of all intervals
of the table, which is checked; where it finds no such table, there is none: docs/proofs/tables.md.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]
"""Which columns a margin adds up over; none: the cells, all: the total."""
Whole = NDArray[np.int64]
Floats = NDArray[np.float64]
Ends = tuple[Whole | Floats, Whole | Floats]
"""The lower and the upper end of each sum of a margin."""

_ROUNDS, _HALVINGS, _SETTLED = 300, 50, 1e-4
_MOVES, _WORK = 4000, 1 << 25
"""So many persons are moved at most, to bring sums back that rounding has taken out of their
interval; and so many cells are looked at for that."""


def list_margins(columns: int) -> Iterator[Axes]:
    """Yield every margin of a table: over which of its columns it adds up."""
    for many in range(columns + 1):
        yield from itertools.combinations(range(columns), many)


def fit_within(cells: Whole | Floats, ends: Mapping[Axes, Ends]) -> Whole | None:
    """Return whole numbers that add up, and whose sums lie between the ends of every margin.

    Of these the nearest ones, in squares, whose total is that of the cells where there are such,
    then rounded.

    Parameters
    ----------
    cells : array of int64 or float64
        The estimates; an axis for each column of labels.
    ends : mapping of tuple of int to pair of array
        For each margin between which ends its sums lie; axes over which it adds up have length 1.

    Returns
    -------
    array of int64, or None
        None if no such table was found.
    """
    boxes = {
        axes: _Box(axes, np.ceil(low).astype(np.int64), np.floor(high).astype(np.int64))
        for axes, (low, high) in ends.items()
    }
    if any(np.any(box.low > box.high) for box in boxes.values()):
        return None
    fitted = _find_nearest(cells, boxes)
    rounded = _round_sums(fitted)
    moved = _move_inside(rounded, fitted, boxes)
    return moved if all(box.holds(moved) for box in boxes.values()) else None


@final
@dataclass(frozen=True)
class _Box:
    """The intervals of one margin."""

    axes: Axes
    low: Whole
    high: Whole

    def add_up(self, table: Whole) -> Whole:
        found: Whole = table.sum(axis=self.axes, keepdims=True)
        return found

    def holds(self, table: Whole) -> bool:
        sums = self.add_up(table)
        return bool(np.all((self.low <= sums) & (sums <= self.high)))

    def narrow(self) -> tuple[Floats, Floats]:
        """Return ends within which rounding, by less than one, still lies inside."""
        middle = (self.low + self.high) / 2
        # Nothing that is not negative is rounded below 0.
        low = np.where(self.low != 0, np.minimum(self.low + 1, middle), self.low)
        return low, np.maximum(self.high - 1, middle)


# ---- the nearest table ---------------------------------------------------------------------------


def _find_nearest(noisy: Whole | Floats, boxes: Mapping[Axes, _Box]) -> Floats:
    """Return the table within the boxes that is nearest to the noisy one.

    By its dual: every sum that a box bounds has one number, which is added to all of its cells; one
    margin after the other finds its own, until none changes.
    """
    cells = boxes[()]
    ends = {axes: box.narrow() for axes, box in boxes.items() if axes}
    whole = tuple(range(noisy.ndim))
    low, _ = ends[whole]
    total = np.full_like(low, _choose_total(noisy, cells, ends, whole))
    ends[whole] = total, total
    added = {axes: np.zeros_like(low) for axes, (low, _) in ends.items()}
    for _ in range(_ROUNDS):
        change = 0.0
        for axes, (low, high) in ends.items():
            others: Floats = noisy.astype(np.float64) + sum(
                one for other, one in added.items() if other != axes
            )
            found = _find_added(others, axes, cells, low, high)
            change = max(change, float(np.max(np.abs(found - added[axes]))))
            added[axes] = found
        if change < _SETTLED:
            break
    nearest: Floats = np.clip(noisy + sum(added.values()), cells.low, cells.high)
    return nearest


def _choose_total(
    noisy: Whole | Floats, cells: _Box, ends: Mapping[Axes, tuple[Floats, Floats]], whole: Axes
) -> float:
    """Return the total: that of the noisy counts, or the nearest one that other sums leave."""
    low = float(cells.low.sum())
    high = float(cells.high.sum())
    for axes, (least, most) in ends.items():
        if axes == whole:
            continue
        low = max(low, float(least.sum()))
        high = min(high, float(most.sum()))
    total = max(float(np.rint(noisy.sum())), np.ceil(low))
    return float(min(total, np.floor(high)))


def _find_added(others: Floats, axes: Axes, cells: _Box, low: Floats, high: Floats) -> Floats:
    """Return what is added to the cells of each sum so that it lies between its ends."""
    sums = np.clip(others, cells.low, cells.high).sum(axis=axes, keepdims=True)
    wanted = np.clip(sums, low, high)
    widest = float(np.max(cells.high - cells.low))
    far = widest + float(np.max(np.abs(others))) + 1.0
    down = np.where(sums > high, -far, 0.0)
    up = np.where(sums < low, far, 0.0)
    if not np.any(down) and not np.any(up):
        return np.zeros_like(sums)
    for _ in range(_HALVINGS):
        middle = (down + up) / 2
        found = np.clip(others + middle, cells.low, cells.high).sum(axis=axes, keepdims=True)
        less = found < wanted
        down = np.where(less, middle, down)
        up = np.where(less, up, middle)
    return (down + up) / 2


# ---- whole numbers -------------------------------------------------------------------------------


def _round_sums(fitted: Floats) -> Whole:
    """Return whole numbers with the same total, of which any that stand in a row add up alike."""
    sums = np.rint(np.cumsum(fitted.reshape(-1))).astype(np.int64)
    return np.diff(sums, prepend=0).reshape(fitted.shape)


def _move_inside(table: Whole, fitted: Floats, boxes: Mapping[Axes, _Box]) -> Whole:
    """Move one person after the other, until all sums lie inside of their interval."""
    moved = table.copy()
    bounded = [box for axes, box in boxes.items() if axes]
    cells = boxes[()]
    for _ in range(min(_MOVES, _WORK // table.size)):
        if all(box.holds(moved) for box in boxes.values()):
            break
        taken = _find_cell(moved, fitted, bounded, cells, -1, None)
        moved[taken] -= 1
        moved[_find_cell(moved, fitted, bounded, cells, 1, taken)] += 1
    return moved


def _find_cell(
    table: Whole,
    fitted: Floats,
    bounded: list[_Box],
    cells: _Box,
    change: int,
    not_here: Axes | None,
) -> Axes:
    """Return the cell where one person more, or less, takes the fewest sums out of their ends."""
    # Of equal ones that which rounding has moved the other way.
    cost: Floats = 0.5 * np.tanh(change * (table - fitted))
    for box in bounded:
        sums = box.add_up(table)
        if change > 0:
            beyond = sums >= box.high
            before = sums < box.low
        else:
            beyond = sums <= box.low
            before = sums > box.high
        cost = cost + np.where(beyond, 1.0, 0.0) - np.where(before, 1.0, 0.0)
    # A cell inside of its own interval stays there.
    full = table >= cells.high if change > 0 else table <= cells.low
    cost[full] = np.inf
    if not_here is not None:
        cost[not_here] = np.inf
    return tuple(int(one) for one in np.unravel_index(np.argmin(cost), cost.shape))
