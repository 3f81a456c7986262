"""Tables (b, c) of a transmission disequilibrium test: how a family moves them, and how far the statistic moves then.

Claim: the tables of two data sets that differ in one family differ by one of 18 moves, or not at all; `local_table` is the largest change
of the statistic over the moves that lead to a table of as many families.
Proof: docs/proofs/smooth-bounds.md, "Tables of families".
Floats: differences are whole numbers over whole numbers, one division.
"""

from __future__ import annotations

import numpy as np

from sordino.smooth._floats import Floats

MOVES = tuple((i, j) for i in range(-2, 3) for j in range(-2, 3) if 0 < max(abs(i), abs(j), abs(i + j)) <= 2)
"""What one family in place of another adds to (b, c): each of both parents transmits one allele, the other one, or says nothing."""

_FORWARD = tuple(move for move in MOVES if move > (0, 0))


def local_table(families: int) -> Floats:
    """Return the local sensitivity of (b - c)^2 / (b + c) at all tables, shape (2N + 1, 2N + 1); -1 where b + c > 2N."""
    size = 2 * families + 1
    found = np.full((size, size), -1.0)
    counts = np.arange(size, dtype=np.float64)

    def row(b: int) -> tuple[Floats, Floats]:
        return (b - counts) ** 2, np.maximum(b + counts, 1.0)  # no transmissions: 0/1

    rows = [row(b) for b in range(3)]
    for b in range(size):
        for i, j in _FORWARD:  # from (b, c) to (b + i, c + j), and back
            here = slice(max(0, -j), min(size - b, size - b - i - j))  # both are tables
            if b + i >= size or here.start >= here.stop:
                continue
            there = slice(here.start + j, here.stop + j)
            change = _change(*(part[here] for part in rows[0]), *(part[there] for part in rows[i]))
            np.maximum(found[b, here], change, out=found[b, here])
            np.maximum(found[b + i, there], change, out=found[b + i, there])
        rows = [*rows[1:], row(b + 3)]
    return found


def _change(square: Floats, total: Floats, square_moved: Floats, total_moved: Floats) -> Floats:
    """Return how far square/total moves; numerators are exact."""
    change: Floats = np.abs(square_moved * total - square * total_moved) / (total * total_moved)
    return change
