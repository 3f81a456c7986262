"""How far a sum of independent noises reaches: of several laws, in several units.

Claim: `find_far` is never too small. It is the least one where all noises are discrete Laplace with
small whole weights (`reach`, but where the law comes within a share of 2e-6 of the level, or is too
wide for its points), and else too large by less than a hundredth of the deviation of the sum, but
for levels below one in a million and thousands of equal noises. Proof:
docs/proofs/derived-figures.md, "Sums of Laplace noise" and "Sums of several laws". Floats: sums of
positive numbers, raised by more than they may have lost; or sums on a grid, by a Fourier transform:
what it rounds is far below what is left for it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.noise import DiscreteGaussian, DiscreteLaplace

Floats = NDArray[np.float64]

# ---- Laplace noise of whole weights --------------------------------------------------------------

_POINTS = 1 << 17
"""Of the law of half a sum; a wider one is put on a coarser grid."""
_CONVOLVED = 1 << 12
"""Up to so many points the law of equal geometric numbers is added at once, and factorials kept."""
_RAISED = 1 + 1e-6  # logarithms of factorials of so many points lose less than a part of 1e-8
_LEFT_OUT = 1e-7  # of the level: noise that is not summed, and counts as if it lay beyond


@final
@dataclass(frozen=True, order=True)
class Noise:
    """One independent noise of a sum: its rate in nats a step and its weight, above 0 and whole."""

    rate: Fraction
    weight: int = 1


@lru_cache(maxsize=256)
def reach(parts: tuple[tuple[Noise, int], ...], wrong: Fraction) -> int:
    """Return how far a sum of noises reaches, of which `parts` has each with how often it is there.

    It exceeds that in size with at most the chance `wrong`, in (0, 1). Signs do not matter, as each
    noise is symmetric.
    """
    # A noise is the difference of two geometric numbers, so that the sum is that of two equal
    # halves.
    left_out = float(wrong) * _LEFT_OUT
    points = _count_points(parts, wrong)
    coarse = -(-points // _POINTS)
    mass = _weigh_half(parts, coarse, points // coarse + 2)
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


def _count_points(parts: Iterable[tuple[Noise, int]], wrong: Fraction) -> int:
    """Return beyond how many steps half a sum lies with a chance that is left out at most."""
    # "Sums of Laplace noise" on the page.
    slowest = min(float(noise.rate) / noise.weight for noise, _ in parts) / 2
    doubled = sum(times for _, times in parts) * math.log(2)
    return math.ceil((doubled - math.log(float(wrong) * _LEFT_OUT)) / slowest) + 1


def _weigh_half(parts: tuple[tuple[Noise, int], ...], coarse: int, points: int) -> Floats:
    """Return the law of a sum of geometric numbers on 0, 1, ..., in cells of `coarse` steps."""
    # The whole cells of a geometric number are geometric, too.
    (first, times), *others = sorted(parts, key=lambda part: (part[0].weight, -part[1]))
    mass = np.zeros(points)
    own = _weigh_equal(float(first.rate) * coarse, times, -(-points // first.weight))
    mass[:: first.weight] = own
    for one, repeated in others:
        if one.weight == 1 and points <= _CONVOLVED:
            more = _weigh_equal(float(one.rate) * coarse, repeated, points)
            mass = np.convolve(mass, more)[:points]
            continue
        for _ in range(repeated):
            mass = _add_geometric(mass, float(one.rate) * coarse, one.weight)
    return mass


def _weigh_equal(rate: float, times: int, points: int) -> Floats:
    """Return the law of a sum of equal geometric numbers: C(times - 1 + k, k) (1 - r)^times r^k."""
    places = np.arange(points, dtype=np.float64)
    if times <= _CONVOLVED:
        factorials = _list_factorials(1 << (points + times).bit_length())
        above = factorials[times - 1 : times - 1 + points]
    else:
        factorials = _list_factorials(1 << points.bit_length())
        above = np.array([math.lgamma(times + k) for k in range(points)])
    ways = above - factorials[:points] - math.lgamma(times)
    weighed: Floats = np.exp(ways + times * math.log(-math.expm1(-rate)) - rate * places)
    return weighed


@lru_cache(maxsize=16)
def _list_factorials(many: int) -> Floats:
    """Return the logarithms of the factorials of 0, 1, ..., `many` of them."""
    return np.array([math.lgamma(1 + k) for k in range(many)])


def _add_geometric(mass: Floats, rate: float, weight: int) -> Floats:
    """Return the law of a sum to which a geometric number times a weight is added."""
    kept, more = math.exp(-rate), -math.expm1(-rate)
    padded = np.append(mass, np.zeros(-mass.size % weight)).reshape(-1, weight)
    # It is either 0, or one more than another such number.
    rows = list(accumulate(padded * more, lambda before, own: kept * before + own))
    return np.concatenate(rows)[: mass.size]


# ---- several laws --------------------------------------------------------------------------------

Law = DiscreteLaplace | DiscreteGaussian
Part = tuple[Law, Fraction]
"""One independent noise: its law in steps, and how much of the sum one step is."""

# Whole weights up to this go to the exact law, whose work grows with them.
_LARGEST_WHOLE = 1000
# Of the deviation of the sum: what all roundings to the grid may add together, half of it to each
# side.
_ROUNDING = 1 / 250
_MOST_CELLS = 1 << 20
_TAIL_ROUNDING = Fraction(1, 1 << 30)
_BEYOND = 5e-6  # of the level: what lies beyond the grid
_TRANSFORM = 1e-11  # more than what the transform rounds (tests compare with laws of one noise)
# Below this level the bound of Chernoff is taken: the transform has no digits for it.
_LEAST_LEVEL = 1e-6


def find_far(parts: Iterable[Part], wrong: Fraction) -> Fraction:
    """Return how far the sum of the noises reaches.

    It exceeds that in size with at most the chance `wrong`.

    Signs do not matter, as each noise is symmetric. `wrong` is in (0, 1).
    """
    counted = Counter((law, abs(scale)) for law, scale in parts if scale)
    return _find_far(tuple(counted.items()), wrong) if counted else Fraction(0)


@lru_cache(maxsize=512)
def _find_far(counted: tuple[tuple[Part, int], ...], wrong: Fraction) -> Fraction:
    [[(law, scale), times], *others] = counted
    if times == 1 and not others:
        # One noise alone has quantiles; tails are floats, which err by less than is taken off here.
        return -law.quantile(float(wrong / 2 * (1 - _TAIL_ROUNDING))) * scale
    unit = _find_unit(counted)
    whole = _list_whole(counted, unit)
    fine = bool(whole) and _count_points(whole, wrong) <= _POINTS
    found: list[Fraction] = []
    # Equal noises have a closed form, however many and wide they are.
    if fine or len(whole) == 1:
        found.append(reach(whole, wrong) * unit)
    level = float(wrong)
    if not fine:
        far = _bound_far(counted, level) if level < _LEAST_LEVEL else _sum_on_grid(counted, level)
        # The sum is a whole number of the common unit: what lies between two of them reaches no
        # farther.
        found.append(Fraction(far) // unit * unit)
    return min(found)


def _list_whole(
    counted: tuple[tuple[Part, int], ...], unit: Fraction
) -> tuple[tuple[Noise, int], ...]:
    """Return the noises in a unit of which they have small whole weights; none if some have not."""
    whole = [
        (Noise(law.rate, int(scale / unit)), times)
        for (law, scale), times in counted
        if isinstance(law, DiscreteLaplace)
    ]
    small = len(whole) == len(counted) and all(one.weight <= _LARGEST_WHOLE for one, _ in whole)
    return tuple(sorted(whole)) if small else ()


def _find_unit(counted: tuple[tuple[Part, int], ...]) -> Fraction:
    """Return the largest number of which one step of each noise is a whole multiple."""
    scales = [scale for (_, scale), _ in counted]
    common = math.lcm(*(one.denominator for one in scales))
    return Fraction(math.gcd(*(int(one * common) for one in scales)), common)


# ---- on a grid -----------------------------------------------------------------------------------


def _sum_on_grid(counted: tuple[tuple[Part, int], ...], wrong: float) -> float:
    """Return the reach of the sum, each noise rounded to the nearest cell of a grid."""
    number = sum(times for _, times in counted)
    far = _bound_far(counted, wrong * _BEYOND)
    cell = max(_find_deviation(counted) * _ROUNDING / number, 2 * far / _MOST_CELLS)
    # Twice as many cells as the sum has: what lies beyond comes back at the other end, and is left
    # out.
    cells = 1 << math.ceil(math.log2(2 * far / cell + 4))
    transform: Any = 1.0
    for (law, scale), times in counted:
        transform = transform * np.fft.rfft(_weigh_cells(law, float(scale) / cell, cells)) ** times
    mass = np.fft.irfft(transform, cells)
    # P(|sum| > j) for j = 0, 1, ...; cells - j stands for -j.
    one_side = np.maximum(mass[1 : cells // 2], 0.0) + np.maximum(mass[: cells // 2 : -1], 0.0)
    beyond = np.append(np.cumsum(one_side[::-1])[::-1], 0.0)
    spare = wrong * (1 - _BEYOND) - _TRANSFORM
    least = int(np.argmax(beyond <= spare))
    # Each noise lies within half a cell of where it was put.
    return math.nextafter((least + number / 2) * cell * (1 + 1e-12), math.inf)


def _weigh_cells(law: Law, step: float, cells: int) -> Floats:
    """Return the law of a noise on cells 0, 1, ..., -2, -1; one step of it is `step` cells."""
    half = cells // 2
    # The first whole number whose step lies in cell 1, 2, ..., half.
    firsts = np.minimum(np.ceil((np.arange(1, half + 2) - 0.5) / step), float(1 << 62))
    if isinstance(law, DiscreteLaplace):
        rate = float(law.rate)
        side = (
            np.exp(-rate * firsts[:-1]) * -np.expm1(-rate * np.diff(firsts)) / (1 + math.exp(-rate))
        )
    else:
        above = np.asarray(law.sf((firsts - 1).astype(np.int64)), dtype=np.float64)
        side = np.maximum(above[:-1] - above[1:], 0.0)
    mass = np.zeros(cells)
    mass[1 : half + 1] = side
    mass[: half - 1 : -1] += side
    mass[0] = 1 - 2 * float(side.sum())
    return mass


def _find_deviation(counted: tuple[tuple[Part, int], ...]) -> float:
    return math.sqrt(
        math.fsum(times * law.variance * float(scale) ** 2 for (law, scale), times in counted)
    )


def _bound_far(counted: tuple[tuple[Part, int], ...], wrong: float) -> float:
    """Return a reach by the bound of Chernoff: P(|S| > x) <= 2 E[e^(tS)] e^(-tx)."""
    slowest = min(
        (
            float(law.rate) / float(scale)
            for (law, scale), _ in counted
            if isinstance(law, DiscreteLaplace)
        ),
        default=math.inf,
    )
    wide = math.sqrt(2 * math.log(2 / wrong)) / _find_deviation(counted)
    bounds = []
    # Any t below the slowest rate is right; of a few the best one is taken.
    for t in (*(share * slowest for share in (0.5, 0.8, 0.95)), wide):
        if t < slowest:
            moments = math.fsum(
                times * _log_moment(law, t * float(scale)) for (law, scale), times in counted
            )
            bounds.append((moments + math.log(2 / wrong)) / t)
    return min(bounds) * (1 + 1e-9)


def _log_moment(law: Law, t: float) -> float:
    """Return log E[e^(tN)], or a bound of it."""
    if isinstance(law, DiscreteLaplace):
        rate = float(law.rate)
        return 2 * math.log(-math.expm1(-rate)) - math.log(
            math.expm1(-(rate - t)) * math.expm1(-(rate + t))
        )
    # A discrete Gaussian moment is at most that of the continuous law [canonne2020].
    return t * t / (4 * float(law.rate))
