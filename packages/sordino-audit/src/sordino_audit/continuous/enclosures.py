"""Arrays of floats between which a number lies: every operation rounds outward.

Claim: the result of each function encloses the true value for all arguments in the given bounds.
Proof: docs/proofs/exact-audit.md, "Floats". Floats: sums, products and quotients are correctly
rounded; exp, expm1, log and log1p of numpy err by less than 2^-47 of their value, 32 units in the
last place. That is assumed, and compared with mpmath in the tests. Four times as much is taken off
each side.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bounds = tuple[Floats, Floats]
"""Floats at or below, and at or above, the true values."""

WIDER = 2.0**-45
TINY = 2.0**-1020
"""What an underflow may lose.

It is more than the smallest normal float, because a process may be told to take all below that for
0.
"""
LARGEST = float(np.finfo(np.float64).max)
NEVER = -math.inf
"""The logarithm of a probability or a density that is 0."""


def widen(low: Floats, high: Floats) -> Bounds:
    """Return the bounds moved apart by more than a few roundings; what is infinite or 0 stays."""
    with np.errstate(invalid="ignore"):
        below, above = low - np.abs(low) * WIDER, high + np.abs(high) * WIDER
    return np.where(np.isinf(low), low, below), np.where(np.isinf(high), high, above)


def enclose(x: Fraction) -> tuple[float, float]:
    """Return the floats next to a rational number: twice itself, if it is one."""
    try:
        near = float(x)
    except OverflowError:
        # Beyond all floats there is only one on the inner side: the largest.
        return (LARGEST, math.inf) if x > 0 else (-math.inf, -LARGEST)
    exact = Fraction(near)
    return (near if exact <= x else math.nextafter(near, -math.inf)), (
        near if exact >= x else math.nextafter(near, math.inf)
    )


def plus(a: Bounds, b: Bounds) -> Bounds:
    """Return the sum. An exact 0 stays one: a float difference is 0 only if it is."""
    with np.errstate(invalid="ignore"):
        low, high = a[0] + b[0], a[1] + b[1]
    # Infinity less infinity may be anything.
    return widen(np.where(np.isnan(low), -math.inf, low), np.where(np.isnan(high), math.inf, high))


def minus(a: Bounds, b: Bounds) -> Bounds:
    """Return the difference; infinity less infinity may be anything."""
    return plus(a, (-b[1], -b[0]))


def scaled(a: Bounds, x: Fraction) -> Bounds:
    """Return the product with a positive rational number."""
    low, high = enclose(x)
    with np.errstate(over="ignore", under="ignore"):
        below, above = widen(
            np.minimum(a[0] * low, a[0] * high), np.maximum(a[1] * low, a[1] * high)
        )
    return np.where(a[0] == 0, 0.0, below - TINY), np.where(a[1] == 0, 0.0, above + TINY)


def exp(a: Bounds) -> Bounds:
    """Return the exponential."""
    with np.errstate(over="ignore", under="ignore"):
        # A lower bound that overflows is the largest float, which is still below the true value.
        low, high = widen(
            np.where(a[0] == math.inf, math.inf, np.minimum(np.exp(a[0]), LARGEST)), np.exp(a[1])
        )
    return np.where(a[0] == -math.inf, 0.0, np.maximum(low - TINY, 0.0)), np.where(
        a[1] == -math.inf, 0.0, high + TINY
    )


def log(a: Bounds) -> Bounds:
    """Return the logarithm of bounds that are not negative."""
    with np.errstate(divide="ignore", under="ignore"):
        return widen(np.log(a[0]), np.log(a[1]))


def log1mexp(a: Bounds) -> Bounds:
    """Return log(1 - e^-t) for t >= 0."""

    def at(t: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            # Each formula keeps its digits on its side of about ln 2; both are computed everywhere.
            return np.where(t < 0.7, np.log(-np.expm1(-t)), np.log1p(-np.exp(-np.maximum(t, 0.5))))

    low, high = widen(at(np.maximum(a[0], 0.0)), at(np.maximum(a[1], 0.0)))
    return low - TINY, np.minimum(high + TINY, 0.0)


def log1pexp(a: Bounds) -> Bounds:
    """Return log(1 + e^t)."""

    def at(t: Floats) -> Floats:
        with np.errstate(under="ignore"):
            # The exponent is never above 0, so that nothing overflows.
            return np.maximum(t, 0.0) + np.log1p(np.exp(-np.abs(t)))

    low, high = widen(at(a[0]), at(a[1]))
    return np.maximum(low - TINY, 0.0), high + TINY


def log_total(terms: Bounds) -> Bounds:
    """Return the logarithm of the sum of exponentials over the first axis."""
    totals = []
    for side, way in zip(terms, (0, 1), strict=True):
        most = side.max(axis=0)
        safe = np.where(np.isinf(most), 0.0, most)
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            # The largest term is taken out first, so that nothing overflows.
            parts = np.exp(side - safe)
            # Widened by more than the roundings of the terms and of their sum.
            total = parts.sum(axis=0) * (1 - WIDER if way == 0 else 1 + WIDER) ** (
                2 + len(side) // 8
            )
            logs = np.log(total)
            found = np.where(np.isinf(most), most, widen(logs, logs)[way] + safe)
        totals.append(widen(found, found)[way])
    return totals[0], totals[1]


def mean_exponential(left: Bounds, right: Bounds) -> Bounds:
    """Return the mean over an interval of e^l, where l runs straight from `left` to `right`.

    It is e^max (1 - e^-d)/d with d = |left - right|.

    It rises with both ends.
    """

    def at(a: Floats, b: Floats) -> Floats:
        with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
            most, steep = np.maximum(a, b), np.abs(a - b)
            share = np.where(steep > 0, -np.expm1(-steep) / np.where(steep > 0, steep, 1.0), 1.0)
            found = np.where(
                most == -math.inf, 0.0, np.where(steep == math.inf, 0.0, np.exp(most) * share)
            )
            return np.where(most == math.inf, math.inf, found)

    # (1 - e^-d)/d changes by less than d: the rounding of d costs less than it is relative to
    # max(1, |l|).
    low, high = np.minimum(at(left[0], right[0]), LARGEST), at(left[1], right[1])
    with np.errstate(invalid="ignore"):
        rough = WIDER * (
            1 + sum(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (*left, *right))
        )
    with np.errstate(over="ignore"):
        return np.maximum(low * (1 - rough) - TINY, 0.0), np.where(
            high == 0, 0.0, high * (1 + rough) + TINY
        )


def bound_total(values: Any, *, up: bool) -> float:
    """Return a bound of the sum of numbers that are not negative."""
    try:
        found = math.fsum(np.asarray(values, dtype=float).tolist())
    except OverflowError:
        return math.inf if up else LARGEST
    return found * (1 + 2.0**-50) if up else found * (1 - 2.0**-50)
