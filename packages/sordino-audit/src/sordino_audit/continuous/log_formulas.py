"""Exponential, Laplace, Gumbel, logistic and normal laws: enclosures of logarithms, and balls.

Claim: everything returned encloses the true value. Proof: docs/proofs/exact-audit.md, "Laws with a density".
Floats: outward, see `enclosures` and `balls`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from flint import acb, arb

from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.balls import NOTHING, ONE, Analytic
from sordino_audit.continuous.enclosures import NEVER, Bounds, Floats

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


EXPONENTIAL = Analytic(
    density=lambda z, side, _: (-z).exp() if side > 0 else NOTHING,
    cdf=lambda z, side, _: -(-z).expm1() if side > 0 else NOTHING,
    survival=lambda z, side, _: (-z).exp() if side > 0 else ONE,
)
LAPLACE = Analytic(
    density=lambda z, side, _: (-z * side).exp() / 2,
    cdf=lambda z, side, _: 1 - (-z).exp() / 2 if side > 0 else z.exp() / 2,
    survival=lambda z, side, _: (-z).exp() / 2 if side > 0 else 1 - z.exp() / 2,
)
# Written with exponentials that are at most 1 on their side of 0.
LOGISTIC = Analytic(
    density=lambda z, side, _: (-z * side).exp() / (1 + (-z * side).exp()) ** 2,
    cdf=lambda z, side, _: 1 / (1 + (-z).exp()) if side > 0 else z.exp() / (1 + z.exp()),
    survival=lambda z, side, _: (-z).exp() / (1 + (-z).exp()) if side > 0 else 1 / (1 + z.exp()),
)


# From a depth of 1000 down density and probability are at most e^(1000 - e^1000), far less than 2^-(10^9),
# over balls of any width: the exponential of a wide ball would say nothing.
_GUMBEL_DEPTH = 1000
_DEEP_GUMBEL = acb(arb(0, arb((1, -(10**9)))))


def _is_deep(z: acb) -> bool:
    return bool(z.imag.is_zero() and z.real < -_GUMBEL_DEPTH)


GUMBEL = Analytic(
    density=lambda z, _, __: _DEEP_GUMBEL if _is_deep(z) else (-z - (-z).exp()).exp(),
    cdf=lambda z, _, __: _DEEP_GUMBEL if _is_deep(z) else (-(-z).exp()).exp(),
    survival=lambda z, _, __: 1 - _DEEP_GUMBEL if _is_deep(z) else -(-(-z).exp()).expm1(),
)
