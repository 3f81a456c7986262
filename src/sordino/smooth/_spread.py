"""The largest gap between two numbers of a sorted list on both sides of a place, less the better the farther apart they stand.

Claim: `largest_gap` is max over i <= m <= j, i < j, of (x_j - x_i) e^(-decay (j - i - 1)), in time O(n log n) [nissim2007].
Proof: docs/proofs/smooth-bounds.md, "Quantiles".
Floats: logarithms; off by a share of `ERROR` at most.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sordino.smooth._floats import Floats

ERROR = 2.0**-36
"""Nearly equal candidates may be taken for each other, once on each of some twenty levels."""

Positions = NDArray[np.intp]


def largest_gap(padded: Floats, place: int, decay: float) -> float:
    """Return the largest weighted gap around `place` in a sorted list.

    The best partner of a left end does not move to the left when the left end moves to the right. So the partners of every other left
    end confine those between them, level by level: each level looks at each right end about once.
    """
    left, right = padded[: place + 1], padded[place:]
    partner = np.zeros(left.size, dtype=np.intp)
    ends = np.array([0]), np.array([right.size - 1])
    partner[:1], reached = _best_partners(left, right, np.array([0]), ends, decay)
    best = float(reached[0])
    for level in range(left.size.bit_length() - 1, -1, -1):
        stride = 1 << level
        rows = np.arange(stride, left.size, 2 * stride)  # those around them are solved
        if rows.size:
            beyond = rows + stride
            last = np.where(beyond < left.size, partner[np.minimum(beyond, left.size - 1)], right.size - 1)
            partner[rows], reached = _best_partners(left, right, rows, (partner[rows - stride], last), decay)
            best = max(best, float(reached.max()))
    nearest = padded[place - 1 : place + 2]
    return max(math.exp(best), float(np.diff(nearest).max()))  # these two without a logarithm: the local sensitivity


def _best_partners(
    left: Floats, right: Floats, rows: Positions, ends: tuple[Positions, Positions], decay: float
) -> tuple[Positions, Floats]:
    """Return for each left end the first best right end between two, and the logarithm of the weighted gap."""
    first, last = ends
    lengths = last - first + 1
    starts = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(rows.size), lengths)
    column = np.arange(lengths.sum()) - starts[row] + first[row]
    apart = column + (left.size - 1 - rows)[row]  # j - i
    with np.errstate(divide="ignore"):
        logs = np.log(right[column] - left[rows][row]) - decay * (apart - 1)
    reached = np.maximum.reduceat(logs, starts)
    hits = np.flatnonzero(logs == reached[row])
    found = column[hits[np.searchsorted(hits, starts)]]
    return found, reached
