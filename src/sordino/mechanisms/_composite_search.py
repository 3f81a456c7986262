"""The width of the bump, and the share of a mixture, with the least variance: closed forms, looked through from end to end.

Claim: `variances` is the variance of a composite mechanism in the limit of a fine grid. Proof: docs/proofs/composite.md, "Variance".
Floats: throughout. They choose public parameters; the guarantee and the variance of what is chosen are computed in whole numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SHAPES = {"rectangle": (1.0, 1 / 12), "sine": (2 / math.pi, 1 / 4 - 2 / math.pi**2), "triangle": (1 / 2, 1 / 24)}
"""Of each bump: its area over that of the rectangle around it, and its variance at width 1."""


class Parabola(NamedTuple):
    """The variance at input t in [-1, 1] (the ends of the range), `at_center + slope t^2`, for many widths."""

    at_center: Floats
    slope: Floats


def variances(activation: str, hump: float, epsilon: float, m: Floats) -> Parabola:
    """Return the variance where outputs are -1..1 wide and the bump `m` < 2, in units of half the range of the inputs, squared."""
    area, scatter = SHAPES[activation]
    height = math.expm1(epsilon)
    base, second = (8 * hump + 2) / 5, 8 * hump / 21 + 2 / 7  # of 1 + (hump - 1)(1 - x^4)
    total = base + area * height * m
    mass = area * height * m / total
    inputs = mass * (1 - m / 2)
    return Parabola((second / total + mass * scatter * m**2) / inputs**2, 1 / mass - 1)


def two_points(epsilon: float, m: Floats) -> Parabola:
    """Return the variance of two points, one for each width."""
    square = (1 / math.tanh(epsilon / 2)) ** 2
    return Parabola(np.full_like(m, square), np.full_like(m, -1.0))


def mixed(one: Parabola, other: Parabola, share: Floats) -> Parabola:
    """Return the variance where `one` is used with probability `share`, else `other`: both have the same mean."""
    centers = share * one.at_center + (1 - share) * other.at_center
    return Parabola(centers, share * one.slope + (1 - share) * other.slope)


def objective(of: Parabola, tuned_for: float | None) -> Floats:
    """Return the variance at the worst input (None), or on average over inputs with this E[t^2]."""
    if tuned_for is None:
        return of.at_center + np.maximum(of.slope, 0)
    return of.at_center + tuned_for * of.slope


def best_width(activation: str, hump: float, epsilon: float, tuned_for: float | None, m: Floats) -> int:
    """Return the position in `m` of the best width."""
    return int(np.argmin(objective(variances(activation, hump, epsilon, m), tuned_for)))


def best_mixture(epsilon: float, tuned_for: float | None, m: Floats) -> tuple[int, float]:
    """Return the position in `m` of the best width, and the share of the rectangle: 0, 1, or that of a variance without slope.

    The objective is linear in the share on either side of the latter.
    """
    one, other = variances("rectangle", 1.0, epsilon, m), two_points(epsilon, m)
    shares = np.stack([np.ones_like(m), np.zeros_like(m), 1 / (1 + one.slope)])
    found = np.stack([objective(mixed(one, other, share), tuned_for) for share in shares])
    which, place = np.unravel_index(int(np.argmin(found)), found.shape)
    return int(place), float(shares[which, place])
