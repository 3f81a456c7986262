"""Noisy values of a public domain in which all but a few answers are 0, without touching every item.

Claim: the pairs (position, value) returned contain the m largest under the public priority, with the law of the dense computation.
Proof: docs/proofs/noisy-top-k.md, "Implicit zeros".
Noise: binomial numbers of zero items above a falling level, then memoryless draws above it.
Floats: the first level is chosen with one (any level is right, a good one is fast); everything else is whole or certified.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import Steps, add, to_steps
from sordino.noise import DiscreteLaplace, Geometric, Probability, bernoulli, binomial, uniform_below
from sordino.noise._probability import Bounds, Enclosure, contexts

DENSE = 1 << 16
"""Domains of at most this size are computed densely."""

_BLOCK = 1 << 14  # how many items are looked at together when they are looked at in turn

OneSided = Geometric | DiscreteLaplace


def listed(answers: Any, positions: Any, step: Fraction, owner: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the listed answers as steps with their positions; an empty list is an answer like any other."""
    lengths = [len(part) if hasattr(part, "__len__") and getattr(part, "ndim", 1) == 1 else -1 for part in (answers, positions)]
    if lengths[0] < 0 or lengths[0] != lengths[1]:
        raise InvalidParameter(f"{owner}.release with a domain size needs positions: a list of whole numbers, one for each answer.")
    if not lengths[0]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    return to_steps(answers, step, owner), to_steps(positions, Fraction(1), owner)


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
    used = np.zeros(0, dtype=np.int64)
    above: int | None = None
    while True:
        rest = zeros - used.size
        p = None if isinstance(law, Geometric) and level == 0 else _between(law, level, above)  # None: all of the rest
        if above is not None and above - level == 1 and _scanning_pays(p, rest, m):
            fresh = _first_hits(zeros, p, used, m, entropy)  # all hits tie at this level: only the first m can matter
            drawn: Steps = np.full(fresh.size, level)
        else:
            hits = rest if p is None else binomial(rest, p, entropy)
            fresh, drawn = _fresh_ranks(zeros, hits, used, entropy), _noise_between(law, level, above, hits, entropy)
        noise.append(drawn)
        ranks.append(fresh)
        used = np.concatenate([used, fresh])
        reached = used.size + int(np.count_nonzero(listed >= level))
        if reached >= m or used.size == zeros:
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
        down, up = contexts(2 * digits)
        a, b = lower(2 * digits), upper(2 * digits)  # differences cancel: work with twice the digits
        low = down.divide(max(down.subtract(a[0], b[1]), Decimal(0)), up.subtract(1, b[0]))
        high = up.divide(up.subtract(a[1], b[0]), down.subtract(1, b[1]))
        return low, min(high, Decimal(1))

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


def _fresh_ranks(zeros: int, n: int, used: NDArray[np.int64], entropy: Entropy) -> NDArray[np.int64]:
    """Return a uniform set of `n` numbers below `zeros` that are not in `used`."""
    free = zeros - used.size
    if 2 * n > free:  # most of them: leave out a uniform set instead
        left_out = np.concatenate([used, _fresh_ranks(zeros, free - n, used, entropy)])
        return np.setdiff1d(np.arange(zeros), left_out, assume_unique=True)
    fresh = np.zeros(0, dtype=np.int64)
    while fresh.size < n:  # numbers in the order drawn, each kept unless it came before
        drawn = np.concatenate([fresh, uniform_below(zeros, n - fresh.size, entropy)])
        _, first = np.unique(drawn, return_index=True)
        kept = drawn[np.sort(first)]
        fresh = kept[~np.isin(kept, used)]
    return fresh


def _scanning_pays(p: Enclosure | None, rest: int, m: int) -> bool:
    """Tell whether looking at the items in turn finds `m` hits sooner than listing all hits; a matter of speed only."""
    share = 1.0 if p is None else float(p(20)[0])
    return rest * share > DENSE and rest * share**2 > m


def _first_hits(zeros: int, p: Enclosure | None, used: NDArray[np.int64], m: int, entropy: Entropy) -> NDArray[np.int64]:
    """Return the first `m` numbers below `zeros`, not in `used`, that hit with probability `p` each (fewer if there are no more)."""
    chance = None if p is None else Probability(p)
    found = np.zeros(0, dtype=np.int64)
    start = 0
    while found.size < m and start < zeros:
        block = np.arange(start, min(start + _BLOCK, zeros))
        start += block.size
        free = block[~np.isin(block, used)]
        found = np.concatenate([found, free if chance is None else free[bernoulli(chance, free.size, entropy)]])
    return found[:m]
