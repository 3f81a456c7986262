"""Exponential, Laplace, Gumbel and logistic laws: enclosures of logarithms, and Taylor coefficients.

Claim: everything returned encloses the true value. Proof: docs/proofs/exact-audit.md, "Laws with a density".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from sordino_audit.continuous import enclosures as floats, series
from sordino_audit.continuous.enclosures import NEVER, Bounds, Floats
from sordino_audit.continuous.series import Series

OfPoint = Callable[[Floats], Bounds]
OfInterval = Callable[[Floats, Floats], Bounds]

LN_2 = floats.log((np.array(2.0), np.array(2.0)))
# The logarithm and pi err by a few units in the last place; much more is taken off.
LN_2_PI = floats.widen(*(np.array(math.log(2 * math.pi)),) * 2)


def unimodal(at: OfPoint, *, rises: bool = True) -> OfInterval:
    """Return the enclosure over intervals of a log density that rises up to 0 and falls after it.

    With `rises` False the density is 0 before 0.
    """

    def enclosed(low: Floats, high: Floats) -> Bounds:
        # The largest value is at 0, or at the end that is nearest to it.
        left, right, top = at(low), at(high), at(np.clip(0.0, low, high))
        least = np.minimum(left[0], right[0])
        if rises:
            return least, top[1]
        return np.where(low < 0, NEVER, least), np.where(high < 0, NEVER, top[1])

    return enclosed


exponential = unimodal(lambda z: (-np.maximum(z, 0.0),) * 2, rises=False)


def negative(a: Bounds) -> Bounds:
    """Return bounds of the negative number."""
    return -a[1], -a[0]


def decay(x: Floats) -> Bounds:
    """Return e^-x."""
    return floats.exp((-x, -x))


def laplace_cdf(x: Floats) -> Bounds:
    """Return the logarithm of the distribution function of the Laplace law."""
    # Each formula is for its own side of 0, computed everywhere at arguments that suit it.
    below = floats.minus((np.minimum(x, 0.0),) * 2, LN_2)
    half = tuple(side / 2 for side in floats.exp((-np.maximum(x, 0.0),) * 2))
    above = floats.widen(np.log1p(-half[1]), np.log1p(-half[0]))
    return np.where(x < 0, below[0], above[0]), np.where(x < 0, below[1], above[1])


def gumbel(z: Floats) -> Bounds:
    """Return -z - e^-z; at either end of the line the density is 0."""
    low, high = negative(floats.plus((z, z), decay(z)))
    return np.where(np.isinf(z), NEVER, low), np.where(np.isinf(z), NEVER, high)


def logistic(z: Floats) -> Bounds:
    """Return -|z| - 2 log(1 + e^-|z|)."""
    # By symmetry in terms of |z|: no exponential overflows.
    low, high = floats.log1pexp((-np.abs(z),) * 2)
    return negative(floats.plus((np.abs(z),) * 2, (2 * low, 2 * high)))


def gaussian(z: Floats) -> Bounds:
    """Return -z^2/2 - log(2 pi)/2."""
    with np.errstate(over="ignore", under="ignore"):
        power = -z * z / 2
    # What is finite is not 0: a square that overflows must not become a density of 0.
    least, most = (
        power - floats.TINY,
        np.where(np.isinf(z), NEVER, np.maximum(power, -1e308)),
    )
    return floats.minus((least, most), (LN_2_PI[0] / 2, LN_2_PI[1] / 2))


def signed(z: Series, side: Floats) -> Series:
    """Return the series with the sign of each cell."""
    return [series.Ball(part.middle * side, part.radius) for part in z]


def masked(z: Series, kept: Any) -> Series:
    """Return the series, 0 where a cell is left out."""
    return [series.Ball(np.where(kept, part.middle, 0.0), np.where(kept, part.radius, 0.0)) for part in z]


def gumbel_coefficients(z: Series, side: Floats) -> Series:  # noqa: ARG001 - the signature of coefficients
    """Return the density of the Gumbel law as a series, e^(-z - e^-z)."""
    falling = series.changed(z, Fraction(-1))
    inner = series.exponentiated(falling)
    return series.exponentiated(series.less(falling, inner))


def logistic_coefficients(z: Series, side: Floats) -> Series:
    """Return the density of the logistic law as a series, e^-|z| / (1 + e^-|z|)^2."""
    rest = series.exponentiated(signed(z, -side))
    whole = series.inverse(series.increased(rest))
    return series.multiplied(series.multiplied(rest, whole), whole)
