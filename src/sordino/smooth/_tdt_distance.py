"""How many families away the nearest table is at which the statistic of a transmission disequilibrium test moves by more than 6.

Claim: one family changes `distance` by at most 1, and `admissible` is a beta for which ceiling * e^(-beta distance) is at least the local
sensitivity of every table: both are checked on all tables.
Proof: docs/proofs/smooth-bounds.md, "Distances".
Floats: `admissible` is rounded down.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.smooth._tdt_moves import MOVES, local_table

Counts = NDArray[np.int64]

FEWEST = 5
"""With fewer families the statistic never moves by more than 6."""

_NEAREST = np.iinfo(np.int64).max


def distance(b: Counts, c: Counts) -> Counts:
    """Return the number of families to be replaced until a table is reached at which the statistic moves by more than 6.

    These tables have none, one or two transmissions of the rarer allele, or few of both; each kind has its nearest one.
    """
    more, less = np.maximum(b, c), np.minimum(b, c)
    none = np.maximum(np.maximum(_halves(less), _halves(9 - more)), 0)
    one = np.maximum(np.maximum(_halves(less - 1), _halves(16 - more)), 0)
    two = np.maximum(np.maximum(-((more + 7 - 7 * less) // 16), _halves(7 - more)), 0)
    alone = np.maximum(_halves(8 - more), 1)  # less is 1: it has to grow
    two = np.where(less >= 2, two, np.where(less == 1, alone, _NEAREST))
    found: Counts = np.minimum(np.minimum(none, np.where(less >= 1, one, _NEAREST)), two)
    return found


def _halves(counts: Counts) -> Counts:
    """Return half of each number, rounded up: a family moves a count by two."""
    return (counts + 1) // 2


@lru_cache(maxsize=64)
def admissible(families: int, ceiling: float) -> float:
    """Return the largest beta for which the distance makes a smooth bound, rounded down; 0 if no beta does.

    Every table is looked at, and every move between tables.
    """
    size = 2 * families + 1
    local = local_table(families)
    counts = np.arange(size, dtype=np.int64)
    away = np.full((size, size), -1, dtype=np.int64)
    for b in range(size):
        away[b, : size - b] = distance(np.full(size - b, b), counts[: size - b])
    for i, j in MOVES:
        here, there = _cut(away, i, j), _cut(away, -i, -j)
        if (np.abs(here - there)[(here >= 0) & (there >= 0)] > 1).any():
            return 0.0
    tables, far = (away >= 0) & (local > 0), away > 0
    if (local[tables & ~far] > ceiling).any():
        return 0.0
    slopes = np.log(ceiling / local[tables & far]) / away[tables & far]
    return max(0.0, float(slopes.min(initial=math.inf)) * (1 - 2.0**-40))


def _cut(table: Counts, i: int, j: int) -> Counts:
    """Return the cells from which a move by (i, j) stays inside the square."""
    size = len(table)
    return table[max(0, -i) : size - max(0, i), max(0, -j) : size - max(0, j)]
