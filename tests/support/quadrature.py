"""Densities, distribution and survival functions in mpmath, and integrals of their products: the route that shares no code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mpmath as mp


@dataclass(frozen=True)
class Known:
    """A law of scale `scale`, with the places where its density is not smooth."""

    density: Any
    cdf: Any
    survival: Any
    scale: Any
    kinks: tuple[float, ...] = (0,)


def exponential(scale):
    s = mp.mpf(scale)
    return Known(
        lambda x: mp.exp(-x / s) / s if x >= 0 else mp.mpf(0),
        lambda x: -mp.expm1(-x / s) if x > 0 else mp.mpf(0),
        lambda x: mp.exp(-x / s) if x > 0 else mp.mpf(1),
        s,
    )


def laplace(scale):
    s = mp.mpf(scale)

    def cdf(x):
        return mp.exp(x / s) / 2 if x < 0 else 1 - mp.exp(-x / s) / 2

    return Known(lambda x: mp.exp(-abs(x) / s) / (2 * s), cdf, lambda x: cdf(-x), s)


def gumbel(scale):
    s = mp.mpf(scale)
    return Known(
        lambda x: mp.exp(-x / s - mp.exp(-x / s)) / s,
        lambda x: mp.exp(-mp.exp(-x / s)),
        lambda x: -mp.expm1(-mp.exp(-x / s)),
        s,
        (),
    )


def logistic(scale):
    s = mp.mpf(scale)
    return Known(
        lambda x: mp.exp(-abs(x) / s) / (s * (1 + mp.exp(-abs(x) / s)) ** 2),
        lambda x: 1 / (1 + mp.exp(-x / s)),
        lambda x: 1 / (1 + mp.exp(x / s)),
        s,
        (),
    )


def cauchy(gamma, scale=1, *, one_sided=False):
    """The incomplete beta function instead of sums: P(|Z| > z) = I(1/(1 + z^gamma); 1 - 1/gamma, 1/gamma)."""
    g, s = mp.mpf(gamma), mp.mpf(scale)
    half = mp.pi / (g * mp.sin(mp.pi / g))
    whole = half if one_sided else 2 * half

    def beyond(x):
        z = abs(x) / s
        return mp.betainc(1 - 1 / g, 1 / g, 0, 1 / (1 + z**g), regularized=True)

    def survival(x):
        if one_sided:
            return beyond(x) if x > 0 else mp.mpf(1)
        return beyond(x) / 2 if x >= 0 else 1 - beyond(x) / 2

    def cdf(x):
        return 1 - survival(x) if one_sided else survival(-x)

    def density(x):
        return mp.mpf(0) if one_sided and x < 0 else 1 / (whole * s * (1 + abs(x / s) ** g))

    return Known(density, cdf, survival, s)


def integral(factors, *, digits=30, far=80):
    """The integral over x of a product of (kind, law, shift): each factor at x + shift."""
    with mp.workdps(digits):
        shifts = [
            mp.mpf(shift.numerator) / shift.denominator
            if hasattr(shift, "numerator")
            else mp.mpf(shift)
            for *_, shift in factors
        ]
        kinks = sorted(
            {
                kink * law.scale - shift
                for (_, law, _), shift in zip(factors, shifts, strict=True)
                for kink in law.kinks
            }
        )
        scale = max(law.scale for _, law, _ in factors)
        places = [-shift for shift in shifts]
        steps = [-far, -20, -8, -3, -1, 1, 3, 8, 20, far]
        cuts = sorted(
            {
                *kinks,
                *(min(places) + k * scale for k in steps),
                *(max(places) + k * scale for k in steps),
            }
        )

        def product(x):
            value = mp.mpf(1)
            for (kind, law, _), shift in zip(factors, shifts, strict=True):
                value *= getattr(law, kind)(x + shift)
            return value

        return mp.quad(product, [-mp.inf, *cuts, mp.inf] if far > 1000 else cuts)
