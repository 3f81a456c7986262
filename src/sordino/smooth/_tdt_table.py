"""The smallest smooth bound of a transmission disequilibrium test, for all its tables at once.

Claim: `smallest_bounds` is at least the local sensitivity, and moves by a factor of at most e^beta with one family; without rounding it is
the smooth sensitivity, the smallest such bound.
Proof: docs/proofs/smooth-bounds.md, "The smallest bound by two sweeps".
Floats: in logarithms; whether the result is smooth is checked on every move, and beta is lowered by what the check lets pass.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from sordino.smooth._floats import OUTWARD, Floats, inner
from sordino.smooth._tdt_moves import MOVES, local_table

_PAD = 2  # no move goes farther
_ROUNDING = 2.0**-50


@lru_cache(maxsize=4)
def smallest_bounds(families: int, beta: Fraction) -> Floats:
    """Return the bounds at (larger count, smaller count), shape (2N + 1, N + 1): the statistic does not tell b from c.

    Where the larger and the smaller one are more than 2N together nothing is meant.
    """
    local = local_table(families)
    least = float(local.min(where=local > 0, initial=math.inf))
    steepest = math.log(float(local.max()) / least)  # a larger beta has no other closure
    error = _ROUNDING * (16 + families * min(float(beta), steepest))
    decay = min(inner(beta, error), steepest)
    if decay == 0:
        return np.full((2 * families + 1, families + 1), float(local.max()) * OUTWARD)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.pad(np.where(local > 0, np.log(local), -np.inf), _PAD, constant_values=-np.inf)
    del local
    while True:
        for turned in (logs, logs[::-1, ::-1]):  # the moves are the same seen from behind
            _sweep(turned, decay, families, reverse=turned is not logs)
        if _is_closed(logs, decay + 2 * error, families):
            break
    bounds: Floats = np.exp(logs[_PAD:-_PAD, _PAD : _PAD + families + 1]) * OUTWARD
    bounds.flags.writeable = False
    return bounds


def _sweep(logs: Floats, decay: float, families: int, *, reverse: bool) -> None:
    """Raise each row by what the two rows before it, and its own cells, lend it, one family at a time."""
    size = 2 * families + 1
    costs: Floats = decay * np.arange(size // 2 + 1, dtype=np.float64)[:, None]
    for row in range(size):
        # the cells of the row that are tables, in padded columns
        cells = slice(_PAD + size - 1 - row, _PAD + size) if reverse else slice(_PAD, _PAD + size - row)
        own, one, two = (logs[row + _PAD - back] for back in range(3))
        lent = np.maximum(one[cells], two[cells])
        for shift, source in ((-1, one), (1, one), (2, one), (1, two), (2, two)):
            np.maximum(lent, source[cells.start + shift : cells.stop + shift], out=lent)
        np.maximum(own[cells], lent - decay, out=own[cells])
        _close(own[cells], decay, costs)


def _close(row: Floats, decay: float, costs: Floats) -> None:
    """Raise each cell of a row to what each other cell lends it: a family pays for two cells of the way, or for one."""
    pairs = np.full((row.size + 1) // 2 * 2, -np.inf)
    pairs[: row.size] = row
    for seen in (pairs, pairs[::-1]):  # from the left, from the right
        halves = seen.reshape(-1, 2)
        paid = costs[: len(halves)]
        even = np.maximum.accumulate(halves + paid, axis=0)
        even -= paid
        reached = even.reshape(-1)
        np.maximum(seen, reached, out=seen)
        np.maximum(seen[1:], reached[:-1] - decay, out=seen[1:])
    row[:] = pairs[: row.size]


def _is_closed(logs: Floats, decay: float, families: int) -> bool:
    """Return whether no move lowers the bound by more than `decay`."""
    size = 2 * families + 1
    for row in range(_PAD, _PAD + size):
        cells = slice(_PAD, 2 * _PAD + size - row)
        own = logs[row, cells] + decay
        for i, j in MOVES:
            if (logs[row + i, cells.start + j : cells.stop + j] > own).any():
                return False
    return True
