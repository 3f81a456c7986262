"""The largest noisy values of a public domain of mostly zeros, drawn without touching every item.

Claim: the pairs (position, value) returned contain the m largest under the public priority, with
the law of the dense computation. Proof: docs/proofs/noisy-top-k.md, "Implicit zeros". Noise:
binomial numbers of zero items above a falling level, then memoryless draws above it. Floats: the
first level is chosen with one (any level is right, a good one is fast); everything else is whole or
certified.
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
from sordino.noise import DiscreteLaplace, Geometric, binomial, uniform_below
from sordino.noise.probability import Bounds, Enclosure, contexts

DENSE = 1 << 16
"""Domains of at most this size are computed densely."""

OneSided = Geometric | DiscreteLaplace
Listed = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The answers that are not 0, in steps, and their positions in the domain."""


def listed(answers: Any, positions: Any, step: Fraction, owner: str) -> Listed:
    """Return the listed answers as steps with their positions; an empty list is allowed."""
    lengths = [
        len(part) if hasattr(part, "__len__") and getattr(part, "ndim", 1) == 1 else -1
        for part in (answers, positions)
    ]
    if lengths[0] < 0 or lengths[0] != lengths[1]:
        raise InvalidParameter(
            f"{owner}.release with a domain size needs positions: a list of whole numbers, one for "
            "each answer."
        )
    if not lengths[0]:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # Exactly an array, no subclass of it: a mask would be lost.
    if type(positions) is np.ndarray and positions.dtype.kind in "iu":
        # A position from 2^63 on turns negative, and so stays outside of every domain.
        at = positions.astype(np.int64, copy=False)
    else:
        at = to_steps(positions, Fraction(1), owner)
    return to_steps(answers, step, owner), at


def dense(answers: Any, positions: Any, k: int, step: Fraction, owner: str) -> NDArray[np.int64]:
    """Return the answers of a list without a domain as steps.

    Refuse positions and fewer than `k` answers.
    """
    if positions is not None:
        raise InvalidParameter(f"{owner}.release takes positions only when domain_size was given.")
    steps = np.atleast_1d(to_steps(answers, step, owner))
    if k > steps.size:
        raise InvalidParameter(
            f"{owner}.k must be at most the number of answers {steps.size}; got {k}."
        )
    return steps


def noisy_domain(
    steps: NDArray[np.int64],
    positions: NDArray[np.int64],
    size: int,
    law: OneSided,
    m: int,
    entropy: Entropy,
    *,
    floor: int | None = None,
) -> tuple[Steps, NDArray[np.int64]]:
    """Return noisy values and their positions, among them the `m` largest of the domain.

    They are sorted by position. With a floor nothing below it need be there.

    Parameters
    ----------
    steps, positions : arrays of int, shape (n,)
        The answers that are not 0 and where they stand in the domain. Positions outside 0..size-1
        and repeated ones are dropped.
    size : int
        Public number of items of the domain.
    law : Geometric or DiscreteLaplace
        The noise of every item.
    m : int
        How many of the largest must be among the result, at most `size`.
    floor : int or None
        Public: a level, in steps, below which no value matters.
    """
    steps, positions = distinct(steps, positions, size)
    if size <= DENSE:
        # A small domain is drawn item by item: there is nothing to gain by skipping.
        dense = np.zeros(size, dtype=np.int64)
        dense[positions] = steps
        return add(dense, law.sample(size, entropy)), np.arange(size)
    values = add(steps, law.sample(steps.size, entropy))
    # A listed item with m larger listed ones is not among the m largest of the domain.
    kept = _contenders(values, m)
    if floor is not None:
        kept = kept[values[kept] >= floor]
    ranks, noise = _draw_zeros_above(size - steps.size, law, m, values[kept], entropy, floor)
    everywhere = np.concatenate([positions[kept], find_unlisted_places(ranks, positions)])
    # In the order of the positions, because the smaller position wins among equals.
    order = np.argsort(everywhere, kind="stable")
    return np.concatenate([values[kept], noise])[order], everywhere[order]


def distinct(
    steps: NDArray[np.int64], positions: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the listed answers inside the domain in the order of positions.

    Of repeated ones it is the first.
    """
    # Sorted positions are not copied; `unique` is slower, and only repeated ones need it.
    if not _is_increasing(positions):
        order = np.argsort(positions)
        ordered = positions[order]
        if not _is_increasing(ordered):
            ordered, order = np.unique(positions, return_index=True)
        steps, positions = steps[order], ordered
    # In order by now, so what lies outside the domain stands at the two ends.
    start, end = np.searchsorted(positions, [0, size])
    return steps[start:end], positions[start:end]


def _is_increasing(positions: NDArray[np.int64]) -> bool:
    """Return whether each position is above the one before."""
    return bool((positions[1:] > positions[:-1]).all())


def _contenders(values: Steps, m: int) -> NDArray[np.intp]:
    """Return the places of the values that are not below the m-th largest.

    The m largest are among them.
    """
    n = values.size
    if n <= m or values.dtype == object:
        return np.arange(n)
    return np.flatnonzero(values >= np.partition(values, n - m)[n - m])


def find_unlisted_places(
    ranks: NDArray[np.int64], positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return positions of items that are not listed, given how many such items come before each.

    The r-th one stands r places after the start, and one more for every listed item before it. The
    i-th listed item has positions[i] - i items that are not listed before it. These numbers never
    fall, so halving finds how many of them are at most r.
    """
    before, beyond = np.zeros(ranks.size, dtype=np.int64), np.full(ranks.size, positions.size)
    for _ in range(positions.size.bit_length()):
        middle = (before + beyond) // 2
        at = np.minimum(middle, positions.size - 1)
        passed = (middle < beyond) & (positions[at] - at <= ranks)
        before, beyond = np.where(passed, middle + 1, before), np.where(passed, beyond, middle)
    return ranks + before


def _draw_zeros_above(
    zeros: int, law: OneSided, m: int, listed: Steps, entropy: Entropy, floor: int | None
) -> tuple[NDArray[np.int64], Steps]:
    """Return ranks and noise of all zero items at or above some level that `m` items reach.

    Or that is no higher than the floor. If there is no such level, they are all zero items.
    """
    rate = float(law.rate)
    level = _first_level(zeros, m, rate)
    if floor is not None:
        level = max(level, floor)
    stride = max(1, math.ceil(1 / rate))
    ranks: list[NDArray[np.int64]] = []
    noise: list[Steps] = []
    used = np.zeros(0, dtype=np.int64)
    above: int | None = None
    while True:
        rest = zeros - used.size
        # None: all of the rest, because one-sided noise is never below 0.
        p = (
            None
            if isinstance(law, Geometric) and level == 0
            else _chance_between(law, level, above)
        )
        if above is not None and above - level == 1 and _prefer_first_hits(p, rest, m):
            # All hits of a band of one step are equal, so by priority only the first m can matter.
            fresh = _first_hits(zeros, p, used, m, entropy)
            drawn: Steps = np.full(fresh.size, level)
        else:
            hits = _count_hits(rest, p, entropy)
            fresh, drawn = (
                draw_fresh_ranks(zeros, hits, used, entropy),
                _noise_between(law, level, above, hits, entropy),
            )
        noise.append(drawn)
        ranks.append(fresh)
        used = np.concatenate([used, fresh])
        # Once m items, listed ones included, reach the level, no item below it is among the m
        # largest.
        reached = used.size + int(np.count_nonzero(listed >= level))
        done = reached >= m or used.size == zeros
        if done or (floor is not None and level <= floor):
            return np.concatenate(ranks), np.concatenate(noise)
        above, level = (
            level,
            level - stride if isinstance(law, DiscreteLaplace) else max(0, level - stride),
        )
        # Two-sided noise has another law below 0 than above, so no band may lie on both sides.
        if level < 0 < above:
            level = 0


def _first_level(zeros: int, m: int, rate: float) -> int:
    """Return a level that about four times as many zero items reach as needed.

    Any has the same law.
    """
    return max(0, math.ceil(math.log(zeros / (4 * m)) / rate)) if zeros > 4 * m else 0


def _chance_between(law: OneSided, level: int, above: int | None) -> Enclosure:
    """Return P(X >= level | X < above) with certified bounds; `above` None means no condition."""
    lower = law.at_least(level)
    if above is None:
        return lower
    upper = law.at_least(above)

    def bounds(digits: int) -> Bounds:
        down, up = contexts(2 * digits)
        # Differences lose leading digits: they are taken with twice as many.
        a, b = lower(2 * digits), upper(2 * digits)
        low = down.divide(max(down.subtract(a[0], b[1]), Decimal(0)), up.subtract(1, b[0]))
        high = up.divide(up.subtract(a[1], b[0]), down.subtract(1, b[1]))
        return low, min(high, Decimal(1))

    return bounds


def _noise_between(law: OneSided, level: int, above: int | None, n: int, entropy: Entropy) -> Steps:
    """Return `n` draws of the law conditioned on level <= X < above.

    The interval does not straddle 0.
    """
    geometric = Geometric(law.rate)
    if above is None:
        return level + geometric.sample(n, entropy)
    offsets = geometric.sample(n, entropy)
    missing = np.flatnonzero(offsets >= above - level)
    while missing.size:
        # Draws beyond the band are drawn again. One too large for 64 bits is first cut to the end
        # of the band, where it does not fit either.
        offsets[missing] = np.minimum(geometric.sample(missing.size, entropy), above - level)
        missing = missing[offsets[missing] >= above - level]
    # Below 0 two-sided noise falls away from 0: offsets are counted down from the upper end of the
    # band.
    return level + offsets if level >= 0 else above - 1 - offsets


def draw_fresh_ranks(
    zeros: int, n: int, used: NDArray[np.int64], entropy: Entropy
) -> NDArray[np.int64]:
    """Return a uniform set of `n` numbers below `zeros` that are not in `used`."""
    # Where few are left, choose among those: most draws of the loop below would be rejected.
    if 2 * used.size > zeros:
        left = np.setdiff1d(np.arange(zeros), used, assume_unique=True)
        return left[draw_fresh_ranks(left.size, n, used[:0], entropy)]
    free = zeros - used.size
    # Where most are wanted, leave out a uniform set instead.
    if 2 * n > free:
        left_out = np.concatenate([used, draw_fresh_ranks(zeros, free - n, used, entropy)])
        return np.setdiff1d(np.arange(zeros), left_out, assume_unique=True)
    fresh = np.zeros(0, dtype=np.int64)
    # Numbers in the order drawn, each kept unless it came before or is used.
    while fresh.size < n:
        drawn = np.concatenate([fresh, uniform_below(zeros, n - fresh.size, entropy)])
        _, first = np.unique(drawn, return_index=True)
        kept = drawn[np.sort(first)]
        fresh = kept[~np.isin(kept, used)]
    return fresh


def _count_hits(n: int, p: Enclosure | None, entropy: Entropy) -> int:
    """Return how many of `n` items hit with probability `p` each (None: all of them).

    The misses are counted instead if they are fewer on average. Then a chance next to 1 need only
    be known as far as the draw asks for.
    """
    if p is None:
        return n
    return (
        n - binomial(n, _complement(p), entropy)
        if _approximate_chance(p) > 1 / 2
        else binomial(n, p, entropy)
    )


def _complement(p: Enclosure) -> Enclosure:
    """Return one minus a probability with certified bounds."""

    def bounds(digits: int) -> Bounds:
        down, up = contexts(digits)
        low, high = p(digits)
        return max(down.subtract(1, high), Decimal(0)), up.subtract(1, low)

    return bounds


def _prefer_first_hits(p: Enclosure | None, rest: int, m: int) -> bool:
    """Tell whether finding the first `m` hits is faster than listing all hits.

    A matter of speed only.
    """
    return rest * _approximate_chance(p) > 8 * m


def _hit_block(p: Enclosure | None, m: int) -> int:
    """Return how many items to look at together for `m` hits; any number gives the same law."""
    # As many as give m hits on average; the limits keep the divisor above 0 and the length within
    # 64 bits.
    return min(math.ceil(m / max(_approximate_chance(p), 2.0**-60)), 1 << 60)


def _approximate_chance(p: Enclosure | None) -> float:
    """Return a probability as a float, just below it; None stands for 1."""
    # Twenty digits are enough, because it only decides what is faster.
    return 1.0 if p is None else float(p(20)[0])


def _first_hits(
    zeros: int, p: Enclosure | None, used: NDArray[np.int64], m: int, entropy: Entropy
) -> NDArray[np.int64]:
    """Return the first `m` numbers below `zeros` not in `used` that hit with probability `p` each.

    They are fewer if there are no more.
    """
    free, block, none = zeros - used.size, _hit_block(p, m), np.zeros(0, dtype=np.int64)
    found, start = none, 0
    while found.size < m and start < free:
        length = min(block, free - start)
        # The number of hits in a block is binomial; given the number, they are a uniform set.
        hits = _count_hits(length, p, entropy)
        found = np.concatenate(
            [found, start + np.sort(draw_fresh_ranks(length, hits, none, entropy))]
        )
        start += length
    return find_unlisted_places(found[:m], np.sort(used))
