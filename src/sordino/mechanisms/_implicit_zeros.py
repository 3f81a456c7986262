"""Noisy values of a public domain in which all but a few answers are 0, without touching every item.

Claim: the pairs (position, value) returned contain the m largest under the public priority, with the law of the dense computation.
Proof: docs/proofs/noisy-top-k.md, "Implicit zeros".
Noise: binomial numbers of zero items above a falling level, then memoryless draws above it.
Floats: the first level is chosen with one (any level is right, a good one is fast); everything else is whole or certified.
"""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps, add
from sordino.noise import DiscreteLaplace, Geometric, binomial, uniform_below
from sordino.noise._probability import Bounds, Enclosure, contexts

DENSE = 1 << 16
"""Domains of at most this size are computed densely."""

OneSided = Geometric | DiscreteLaplace


def noisy_domain(
    steps: NDArray[np.int64], positions: NDArray[np.int64], size: int, law: OneSided, m: int, entropy: Entropy
) -> tuple[Steps, NDArray[np.int64]]:
    """Return noisy values and their positions, sorted by position, among them the `m` largest of the domain.

    Parameters
    ----------
    steps, positions : arrays of int, shape (n,)
        The answers that are not 0 and where they stand in the domain. Positions outside 0..size-1 and repeated ones are dropped.
    size : int
        Public number of items of the domain.
    law : Geometric or DiscreteLaplace
        The noise of every item.
    m : int
        How many of the largest must be among the result, at most `size`.
    """
    inside = (positions >= 0) & (positions < size)
    positions, first = np.unique(positions[inside], return_index=True)
    steps = steps[inside][first]
    if size <= DENSE:
        dense = np.zeros(size, dtype=np.int64)
        dense[positions] = steps
        return add(dense, law.sample(size, entropy)), np.arange(size)
    values = add(steps, law.sample(steps.size, entropy))
    ranks, noise = _zeros_above(size - steps.size, law, m, values, entropy)
    # The r-th item that is not listed stands r places after the start plus one place for every listed item before it.
    places = ranks + np.searchsorted(positions - np.arange(positions.size), ranks, side="right")
    values, everywhere = np.concatenate([values, noise]), np.concatenate([positions, places])
    order = np.argsort(everywhere, kind="stable")
    return values[order], everywhere[order]


def _zeros_above(zeros: int, law: OneSided, m: int, listed: Steps, entropy: Entropy) -> tuple[NDArray[np.int64], Steps]:
    """Return ranks and noise of all zero items at or above some level that `m` items reach (all zero items if there is none)."""
    rate = float(law.rate)
    level = _first_level(zeros, m, rate)
    stride = max(1, math.ceil(1 / rate))
    ranks: list[NDArray[np.int64]] = []
    noise: list[Steps] = []
    used: set[int] = set()
    above: int | None = None
    while True:
        rest = zeros - len(used)
        all_of_them = isinstance(law, Geometric) and level == 0
        hits = rest if all_of_them else binomial(rest, _between(law, level, above), entropy)
        noise.append(_noise_between(law, level, above, hits, entropy))
        ranks.append(_fresh_ranks(zeros, hits, used, entropy))
        reached = len(used) + int(np.count_nonzero(listed >= level))
        if reached >= m or len(used) == zeros:
            return np.concatenate(ranks), np.concatenate(noise)
        above, level = level, level - stride if isinstance(law, DiscreteLaplace) else max(0, level - stride)
        if level < 0 < above:  # the law bends at 0: stop there first
            level = 0


def _first_level(zeros: int, m: int, rate: float) -> int:
    """Return a level that about four times as many zero items reach as are needed; any level gives the same law."""
    return max(0, math.ceil(math.log(zeros / (4 * m)) / rate)) if zeros > 4 * m else 0


def _between(law: OneSided, level: int, above: int | None) -> Enclosure:
    """Return P(X >= level | X < above) with certified bounds; `above` None means no condition."""
    lower = law.at_least(level)
    if above is None:
        return lower
    upper = law.at_least(above)

    def bounds(digits: int) -> Bounds:
        down, up = contexts(digits)
        a, b = lower(2 * digits), upper(2 * digits)  # differences cancel: work with twice the digits
        low = down.divide(max(down.subtract(a[0], b[1]), Decimal(0)), up.subtract(1, b[0]))
        return low, up.divide(up.subtract(a[1], b[0]), down.subtract(1, b[1]))

    return bounds


def _noise_between(law: OneSided, level: int, above: int | None, n: int, entropy: Entropy) -> Steps:
    """Return `n` draws of the law conditioned on level <= X < above; the interval does not straddle 0."""
    geometric = Geometric(law.rate)
    if above is None:
        return level + geometric.sample(n, entropy)
    offsets = geometric.sample(n, entropy)
    missing = np.flatnonzero(offsets >= above - level)
    while missing.size:
        offsets[missing] = geometric.sample(missing.size, entropy)
        missing = missing[offsets[missing] >= above - level]
    return level + offsets if level >= 0 else above - 1 - offsets


def _fresh_ranks(zeros: int, n: int, used: set[int], entropy: Entropy) -> NDArray[np.int64]:
    """Return `n` distinct uniform numbers below `zeros` that are not in `used`, and add them to it."""
    fresh: list[int] = []
    while len(fresh) < n:
        for rank in uniform_below(zeros, n - len(fresh), entropy).tolist():
            if rank not in used:
                used.add(rank)
                fresh.append(rank)
    return np.array(fresh, dtype=np.int64)
