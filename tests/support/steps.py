"""The law of a selection by step noise, by counting for each level of the winner how many levels each loser may have."""

from __future__ import annotations

import math
from bisect import bisect_right
from functools import lru_cache

import numpy as np


def wins(i, steps, scale, atoms, q, digits):
    """P(i wins), for scores in steps, a scale in steps/2^digits and atoms in units of it, whole: a sum over the winner's levels.

    The upper half of the atoms is for losers only; what is left out has probability q^(half the atoms).
    """
    own, total = steps[i], 0.0
    for k, height in enumerate(atoms[: len(atoms) // 2]):
        part = (1 - q) * q**k
        for r, other in enumerate(steps):
            if r != i:
                room = (
                    (own - other) << digits
                ) + scale * height  # the loser's noise may be that large, or must stay below it
                part *= 1 - q ** bisect_right(
                    atoms, room // scale if i < r else -(-room // scale) - 1
                )
        total += part
    return total


def law(steps, scale, atoms, q, digits):
    return [wins(i, steps, scale, atoms, q, digits) for i in range(len(steps))]


def loss(first, second):
    """The largest log ratio of two laws, in either order."""
    return max(abs(math.log(a / b)) for a, b in zip(first, second, strict=True))


@lru_cache
def losers(q, m, cells=2000):
    """What m - 1 losers cost: the lesser of two bounds, by plain sums over all levels; the worst Y of each is looked for on a grid."""
    n, k = m - 1, np.arange(math.ceil((30 + math.log(m)) / -math.log(q)))[:, None]
    mass = (1 - q) * q**k
    one, two, three = (-np.log1p(-(q ** (k + j))) for j in (1, 2, 3))
    psi, y = two / three - 1, np.linspace(0, 1, cells) * n * one
    kept, left = np.exp(-psi * np.minimum(y, n * three)), np.exp(-y)
    low, high = float((mass * np.exp(-psi * n * three)).sum()), 1.0
    while high - low > 1e-9:
        theta = (low + high) / 2
        enough = float((mass * (left * (kept - theta)).min(axis=1, keepdims=True)).sum()) >= 0
        low, high = (theta, high) if enough else (low, theta)
    return -math.log(low)
