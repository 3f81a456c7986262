"""The law of a sum of discrete Laplace noises with whole weights, and how far it reaches.

Claim: `reach` is never too small; it is the least one but where the law comes within a share of
2e-6 of the level, or is so wide that it is summed on a coarser grid. Proof:
docs/proofs/derived-figures.md, "Sums of Laplace noise". Floats: sums of positive numbers, raised by
more than they may have lost.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_POINTS = 1 << 17
"""Of the law of half a sum; a wider one is put on a coarser grid."""
_RAISED = 1 + 1e-6  # logarithms of factorials of so many points lose less than a part of 1e-8
_LEFT_OUT = 1e-7  # of the level: noise that is not summed, and counts as if it lay beyond


@final
@dataclass(frozen=True, order=True)
class Noise:
    """One independent noise of a sum: its rate in nats a step and its weight, above 0 and whole."""

    rate: Fraction
    weight: int = 1


def reach(noises: Iterable[Noise], wrong: Fraction) -> int:
    """Return how far the sum of noises reaches.

    It exceeds that in size with at most the chance `wrong`.

    Signs do not matter, as each noise is symmetric. `wrong` is in (0, 1).
    """
    return _find_reach(tuple(sorted(Counter(noises).items())), wrong)


@lru_cache(maxsize=256)
def _find_reach(parts: tuple[tuple[Noise, int], ...], wrong: Fraction) -> int:
    # A noise is the difference of two geometric numbers, so that the sum is that of two equal
    # halves.
    left_out = float(wrong) * _LEFT_OUT
    slowest = min(float(noise.rate) / noise.weight for noise, _ in parts) / 2
    # Beyond so many steps a half lies with at most that chance ("Sums of noises").
    points = (
        math.ceil((sum(times for _, times in parts) * math.log(2) - math.log(left_out)) / slowest)
        + 1
    )
    coarse = -(-points // _POINTS)
    mass = _weigh_half(tuple((one, times) for one, times in parts), coarse, points // coarse + 2)
    above = np.append(np.cumsum(mass[:0:-1])[::-1], 0.0)

    def exceeds(steps: int) -> float:
        # One half is `steps` above the other one; the law of the sum is symmetric.
        one_side = float(mass[: mass.size - steps] @ above[steps:])
        return 2 * _RAISED * (one_side + 2 * left_out)

    low, high = -1, mass.size - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if exceeds(middle) <= wrong else (middle, high)
    # On a coarser grid each noise may lie up to a cell further out.
    return coarse * high + (coarse - 1) * sum(one.weight * times for one, times in parts)


def _weigh_half(parts: tuple[tuple[Noise, int], ...], coarse: int, points: int) -> Floats:
    """Return the law of a sum of geometric numbers on 0, 1, ..., in cells of `coarse` steps."""
    # The whole cells of a geometric number are geometric, too.
    (first, times), *others = sorted(parts, key=lambda part: (part[0].weight, -part[1]))
    mass = np.zeros(points)
    own = _weigh_equal(float(first.rate) * coarse, times, -(-points // first.weight))
    mass[:: first.weight] = own
    for one, repeated in others:
        for _ in range(repeated):
            mass = _add_geometric(mass, float(one.rate) * coarse, one.weight)
    return mass


def _weigh_equal(rate: float, times: int, points: int) -> Floats:
    """Return the law of a sum of equal geometric numbers: C(times - 1 + k, k) (1 - r)^times r^k."""
    places = np.arange(points, dtype=np.float64)
    factorials = np.array([math.lgamma(1 + k) for k in range(points)])
    ways = (
        np.array([math.lgamma(times + k) for k in range(points)]) - factorials - math.lgamma(times)
    )
    weighed: Floats = np.exp(ways + times * math.log(-math.expm1(-rate)) - rate * places)
    return weighed


def _add_geometric(mass: Floats, rate: float, weight: int) -> Floats:
    """Return the law of a sum to which a geometric number times a weight is added."""
    kept, more = math.exp(-rate), -math.expm1(-rate)
    padded = np.append(mass, np.zeros(-mass.size % weight)).reshape(-1, weight)
    # It is either 0, or one more than another such number.
    rows = list(accumulate(padded * more, lambda before, own: kept * before + own))
    return np.concatenate(rows)[: mass.size]
