"""Taylor coefficients with an error radius, for many cells at once.

They enclose the integral of a smooth function to many digits.

Claim: each coefficient lies within its radius of its middle, for all arguments in the given cells. Proof:
docs/proofs/exact-audit.md, "Integrals".
Floats: roundings are added to the radius; exp as in `enclosures`. What is not a number says nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sordino_audit.continuous.enclosures import TINY, WIDER, Bounds, Floats, enclose

ORDER = 10
"""The coefficient that bounds the remainder.

It is even, so that the power of the distance to the middle keeps its sign.
"""

_RADIUS_WIDENING = 1 + 2.0**-40
# Four times the rounding of a single operation.
_SERIES_ROUNDING = 2.0**-51


class Ball(NamedTuple):
    """Numbers known up to a radius, elementwise."""

    middle: Floats
    radius: Floats


Series = list[Ball]
"""Coefficients 0 to ORDER; those that are not listed are 0."""


def ball(bounds: Bounds) -> Ball:
    """Return the ball around all numbers between the bounds."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = bounds[0] / 2 + bounds[1] / 2
        # The farther end counts; what is added is more than the rounding of the middle.
        radius = (
            np.maximum(bounds[1] - middle, middle - bounds[0]) * _RADIUS_WIDENING
            + np.abs(middle) * _SERIES_ROUNDING
        )
    return Ball(middle, radius)


def constant(x: Fraction, like: Floats) -> Ball:
    """Return a rational number for every cell."""
    low, high = enclose(x)
    return ball((np.full_like(like, low), np.full_like(like, high)))


def bounds(a: Ball) -> Bounds:
    """Return floats on both sides of the ball."""
    with np.errstate(invalid="ignore", over="ignore"):
        slop = np.abs(a.middle) * _SERIES_ROUNDING + TINY
        return a.middle - a.radius * _RADIUS_WIDENING - slop, a.middle + a.radius * _RADIUS_WIDENING + slop


def times(a: Ball, b: Ball) -> Ball:
    """Return the product."""
    return dot([a], [b])


def dot(left: list[Ball], right: list[Ball]) -> Ball:
    """Return the sum of products."""
    middle = size = radius = np.zeros(())
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        for a, b in zip(left, right, strict=True):
            product = a.middle * b.middle
            middle = middle + product
            # The rounding of a sum is relative to the sizes of its terms, not to the sum.
            size = size + np.abs(product)
            radius = radius + np.abs(a.middle) * b.radius + a.radius * (np.abs(b.middle) + b.radius)
        return Ball(middle, radius * _RADIUS_WIDENING + size * ((len(left) + 1) * _SERIES_ROUNDING) + TINY)


def linear(at: Ball, slope: Fraction) -> Series:
    """Return the series of a linear function with this value and slope."""
    return [at, constant(slope, at.middle)]


def multiplied(a: Series, b: Series) -> Series:
    """Return the series of a product."""
    found = []
    for k in range(min(ORDER, len(a) + len(b) - 2) + 1):
        inner = range(max(0, k - len(b) + 1), min(k, len(a) - 1) + 1)
        found.append(dot([a[i] for i in inner], [b[k - i] for i in inner]))
    return found


def multiple(a: Ball, n: int) -> Ball:
    """Return a ball times a whole number."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = a.middle * n
        return Ball(middle, a.radius * n * _RADIUS_WIDENING + np.abs(middle) * _SERIES_ROUNDING)


def quotient(a: Ball, n: int) -> Ball:
    """Return a ball divided by a whole number."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = a.middle / n
        return Ball(middle, a.radius / abs(n) * _RADIUS_WIDENING + np.abs(middle) * _SERIES_ROUNDING + TINY)


def changed(a: Series, factor: Fraction) -> Series:
    """Return a series times a rational number."""
    by = constant(factor, a[0].middle)
    return [times(part, by) for part in a]


def exponentiated(a: Series) -> Series:
    """Return the series of the exponential: k e_k is the sum of j a_j e_(k-j)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        middle = np.exp(a[0].middle)
        # Within a radius r of m the exponential differs from e^m by at most e^m (e^r - 1).
        radius = middle * np.expm1(a[0].radius) * _RADIUS_WIDENING + middle * WIDER + TINY
        # Beyond a radius of 1 an underflow could hide more than TINY.
        first = Ball(middle, np.where(a[0].radius < 1, radius, math.inf))
    found = [first]
    weighted = [multiple(part, j) for j, part in enumerate(a)]
    for k in range(1, ORDER + 1):
        parts = weighted[1 : k + 1]
        found.append(quotient(dot(parts, found[k - 1 :: -1][: len(parts)]), k))
    return found


def inverse(a: Series) -> Series:
    """Return the series of the reciprocal: r_k = -r_0 times the sum of a_j r_(k-j)."""
    first = reciprocal(a[0])
    found = [first]
    opposite = Ball(-first.middle, first.radius)
    for k in range(1, ORDER + 1):
        parts = a[1 : k + 1]
        found.append(times(opposite, dot(parts, found[k - 1 :: -1][: len(parts)])))
    return found


def reciprocal(a: Ball) -> Ball:
    """Return one over the ball; anything at all where it contains 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        middle = 1 / a.middle
        # 1/x differs from 1/m by at most r / (|m| (|m| - r)) where x is within r of m.
        least = np.abs(a.middle) * (1 - _SERIES_ROUNDING) - a.radius
        radius = (
            a.radius / (np.abs(a.middle) * least) * _RADIUS_WIDENING**2 + np.abs(middle) * _SERIES_ROUNDING
        )
    return Ball(middle, np.where(least > 0, radius, math.inf))


def power(a: Series, exponent: Fraction) -> Series:
    """Return the series of a linear function that is positive, to a power.

    The recurrence is k a_0 p_k = (exponent - k + 1) a_1 p_(k-1).
    """
    # Even powers are products, so that the function may have either sign.
    if exponent.denominator == 1 and exponent > 0 and exponent % 2 == 0:
        found = a
        for _ in range(int(exponent) - 1):
            found = multiplied(found, a)
        return found
    low, high = bounds(a[0])
    by = enclose(exponent)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        logs = np.log(low), np.log(high)
        ends = [log * x for log in logs for x in by]
        rough = WIDER * (1 + np.maximum(np.abs(ends[0]), np.abs(ends[-1])))
        raw = (
            np.exp(np.minimum.reduce(ends)) * (1 - rough),
            np.exp(np.maximum.reduce(ends)) * (1 + rough) + TINY,
        )
    # Where the function may be 0 or less nothing is known.
    first = ball((np.where(low > 0, raw[0], np.nan), raw[1]))
    step = times(a[1], reciprocal(a[0]))
    found = [first]
    for k in range(1, ORDER + 1):
        found.append(quotient(times(times(step, found[k - 1]), constant(exponent - k + 1, low)), k))
    return found


def subtracted(a: Ball, b: Ball) -> Ball:
    """Return the difference."""
    with np.errstate(invalid="ignore", over="ignore"):
        middle = a.middle - b.middle
        return Ball(middle, (a.radius + b.radius) * _RADIUS_WIDENING + np.abs(middle) * _SERIES_ROUNDING)


def increased(a: Series) -> Series:
    """Return one plus the series."""
    return [subtracted(a[0], Ball(np.full_like(a[0].middle, -1.0), np.zeros_like(a[0].middle))), *a[1:]]


def less(a: Series, b: Series) -> Series:
    """Return the difference; the second one has at least as many coefficients."""
    zero = Ball(np.zeros_like(b[0].middle), np.zeros_like(b[0].middle))
    return [subtracted(a[k] if k < len(a) else zero, part) for k, part in enumerate(b)]


def negated(a: Series) -> Series:
    """Return minus the series."""
    return [Ball(-part.middle, part.radius) for part in a]
