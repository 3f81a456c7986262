"""The law of density proportional to 1/(1 + |z|^gamma).

Its distribution function is computed by alternating sums that converge fast.

Claim: everything returned encloses the true value. Proof: docs/proofs/exact-audit.md, "Laws with a density".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from sordino_audit.continuous import enclosures as floats, series
from sordino_audit.continuous.enclosures import NEVER, WIDER, Bounds, Floats
from sordino_audit.continuous.series import Series

_ALTERNATING_TERMS = 24


def _chebyshev_weights() -> tuple[list[float], float]:
    """Return the weights of the alternating sum, and what the rest is at most relative to it.

    The rest is 1/T_n(3), T_n being a Chebyshev polynomial.
    """
    d, before = Fraction(3), Fraction(1)
    # T_n(3), by the recurrence of the Chebyshev polynomials.
    for _ in range(_ALTERNATING_TERMS - 1):
        d, before = 6 * d - before, d
    # b runs through the coefficients of T_n(1 - 2x), and c through their sums, which are the weights.
    b, c = Fraction(-1), -d
    weights = []
    for k in range(_ALTERNATING_TERMS):
        c = b - c
        weights.append(float(abs(c) / d))
        b *= Fraction(2 * (k + _ALTERNATING_TERMS) * (k - _ALTERNATING_TERMS), (2 * k + 1) * (k + 1))
    return weights, float(1 / d)


_CHEBYSHEV_WEIGHTS, _CHEBYSHEV_REST = _chebyshev_weights()


@final
class HeavyTail:
    """Enclosures of the law of density 1/(C (1 + |z|^gamma)), on all z, or on z >= 0."""

    def __init__(self, gamma: Fraction, *, one_sided: bool) -> None:
        self.gamma, self.one_sided = gamma, one_sided

    @property
    def breaks(self) -> tuple[Fraction, ...]:
        """Return 0, where the density jumps or is not smooth.

        Nothing where gamma is an even number and both sides are there.
        """
        even = self.gamma.denominator == 1 and self.gamma % 2 == 0
        return () if even and not self.one_sided else (Fraction(0),)

    @property
    def bends(self) -> tuple[tuple[float, float], ...]:
        """Return bounds of where the log density stops being convex (or the density 0), and concave.

        There |z|^gamma is gamma - 1, but for the start of one-sided noise at 0.
        """
        low, high = self._power(np.array([float(self.gamma - 1)]), 1 / self.gamma)
        turn = (
            math.nextafter(float(low[0]), 0.0) * (1 - WIDER),
            math.nextafter(float(high[0]), math.inf) * (1 + WIDER),
        )
        return ((0.0, 0.0) if self.one_sided else (-turn[1], -turn[0]), turn)

    @cached_property
    def half(self) -> Bounds:
        """Return the integral of 1/(1 + z^gamma) over z >= 0."""
        one = np.ones(1)
        parts = [self._sum((one, one), Fraction(1)), self._sum((one, one), self.gamma - 1)]
        return floats.plus(*parts)

    @cached_property
    def _log_mass(self) -> Bounds:
        low, high = floats.log(self.half)
        return (low, high) if self.one_sided else floats.plus((low, high), floats.log((np.full(1, 2.0),) * 2))

    def _sum(self, t: Bounds, start: Fraction) -> Bounds:
        """Return the sum over k of (-t)^k / (gamma k + start), 0 <= t <= 1: it falls as t rises."""

        def at(t: Floats) -> tuple[Floats, Floats]:
            total, size, power = np.zeros_like(t), np.zeros_like(t), np.ones_like(t)
            for k, weight in enumerate(_CHEBYSHEV_WEIGHTS):
                term = weight * power / float(self.gamma * k + start)
                total, size, power = total + term, size + np.abs(term), -power * t
            # The terms that were left out are at most a share of the true sum, hence the divisors.
            error = size * WIDER
            return (total - error) / (1 + _CHEBYSHEV_REST), (total + error) / (1 - _CHEBYSHEV_REST)

        # The sum falls as t rises: its lower bound is that of the larger t.
        low, high = at(t[1])[0], at(t[0])[1]
        return floats.widen(low, high)

    @staticmethod
    def _power(z: Floats, exponent: Fraction) -> Bounds:
        """Return z^exponent for z > 0."""
        logs = floats.log((z, z))
        size = abs(exponent)
        ends = tuple(np.where(side == 0, 0.0, side) for side in logs)
        found = tuple(floats.scaled((np.abs(side),) * 2, size) for side in ends)
        signs = tuple(np.sign(side) * np.sign(float(exponent)) for side in ends)
        # Signs of logarithm and exponent decide which product is the smallest: all of them are looked at.
        every = [
            np.where(sign < 0, -part, part) for sign, pair in zip(signs, found, strict=True) for part in pair
        ]
        return floats.exp((np.minimum.reduce(every), np.maximum.reduce(every)))

    def _upper(self, z: Floats) -> Bounds:
        """Return the integral of 1/(1 + s^gamma) from z >= 0 to infinity."""
        # Both formulas are computed everywhere, each at arguments for which it converges.
        near = np.clip(z, 2.0**-1000, 1.0)
        inner = floats.widen(
            *_multiply_enclosures((near, near), self._sum(self._power(near, self.gamma), Fraction(1)))
        )
        # At 0 nothing is inside, whatever the clip says.
        below = floats.minus(
            self.half,
            tuple(np.where(z == 0, 0.0, side) for side in inner),  # type: ignore[arg-type]
        )
        far = np.maximum(np.where(np.isinf(z), 1.0, z), 1.0)
        above = _multiply_enclosures(
            self._power(far, 1 - self.gamma), self._sum(self._power(far, -self.gamma), self.gamma - 1)
        )
        low, high = np.where(z <= 1, below[0], above[0]), np.where(z <= 1, below[1], above[1])
        return np.where(np.isinf(z), 0.0, np.maximum(low, 0.0)), np.where(np.isinf(z), 0.0, high)

    def log_survival(self, x: Floats) -> Bounds:
        """Return log P(Z > x)."""
        beyond = floats.minus(floats.log(self._upper(np.abs(x))), self._log_mass)
        if self.one_sided:
            return np.where(x <= 0, 0.0, beyond[0]), np.where(x <= 0, 0.0, np.minimum(beyond[1], 0.0))
        within = floats.log1mexp((np.maximum(-beyond[1], 0.0), np.maximum(-beyond[0], 0.0)))
        return np.where(x >= 0, beyond[0], within[0]), np.where(x >= 0, beyond[1], within[1])

    def log_cdf(self, x: Floats) -> Bounds:
        """Return log P(Z <= x)."""
        if not self.one_sided:
            return self.log_survival(-x)
        # Near 0 the small probability is computed itself: one minus the rest would lose its digits.
        near = np.clip(x, 2.0**-1000, 1.0)
        inner = _multiply_enclosures((near, near), self._sum(self._power(near, self.gamma), Fraction(1)))
        below = floats.minus(floats.log(inner), self._log_mass)
        low, high = self.log_survival(np.maximum(x, 1.0))
        above = floats.log1mexp((np.maximum(-high, 0.0), np.maximum(-low, 0.0)))
        found = (np.where(x <= 1, below[i], above[i]) for i in range(2))
        low, high = (np.where(x <= 0, NEVER, side) for side in found)
        # Below the clip the probability is smaller: only the upper bound holds there.
        return np.where((x > 0) & (x < 2.0**-999), NEVER, low), high

    def log_density(self, z: Floats) -> Bounds:
        """Return -log(1 + |z|^gamma) - log C."""
        # A power of what is farther out, or nearer to 0, would leave the floats.
        size = np.clip(np.abs(z), 2.0**-1000, 2.0**1000)
        logs = floats.scaled(floats.log((np.maximum(size, 1.0),) * 2), self.gamma)
        under = floats.scaled(floats.log((1 / np.minimum(size, 1.0),) * 2), self.gamma)
        exponent = np.where(size >= 1, logs[0], -under[1]), np.where(size >= 1, logs[1], -under[0])
        plain = floats.log1pexp(exponent)
        low, high = floats.minus((-plain[1], -plain[0]), self._log_mass)
        # Farther out only the upper bound holds: the density there is smaller.
        return np.where(np.abs(z) > size, np.where(size >= 1, NEVER, low), low), np.where(
            np.isinf(z), NEVER, high
        )

    def outside(
        self, window: tuple[Fraction, Fraction], a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]
    ) -> float:
        """Return an upper bound of the log ratio of two densities outside the window.

        Both densities are given by their places and scales.

        With u = |o - x_a|/s_a and v = |o - x_b|/s_b it is log((1 + v^gamma)/(1 + u^gamma)) + log(s_b/s_a),
        and the quotient is at most max(1, v/u)^gamma; v/u runs from its value at the end of the window
        straight up or down to s_a/s_b.
        """
        low, high = window
        # The quotient is monotone outside the window only if both answers are inside.
        if not low < min(a[0], b[0]) <= max(a[0], b[0]) < high:
            return math.inf
        ends = [(b[0] - low) / (a[0] - low)] * (not self.one_sided) + [(high - b[0]) / (high - a[0])]
        most = max([Fraction(1), *ends]) * a[1] / b[1]
        steep = _log_upper_bound(most) * float(self.gamma) * (1 + WIDER) if most > 1 else 0.0
        return (_log_upper_bound(b[1] / a[1]) + steep) + 1e-12

    def coefficients(self, z: Series, side: Floats) -> Series:
        """Return the Taylor coefficients of the density."""
        # The law is one of |z|. Only an even power may be taken of z itself.
        size = z if not self.breaks else [series.Ball(part.middle * side, part.radius) for part in z]
        found = series.inverse(series.increased(series.power(size, self.gamma)))
        by = series.reciprocal(series.ball(self.half))
        share = series.Ball(
            by.middle * (1.0 if self.one_sided else 0.5), by.radius * (1.0 if self.one_sided else 0.5)
        )
        spread = [np.broadcast_to(part, side.shape) for part in share]
        values = [series.times(part, series.Ball(*spread)) for part in found]
        if not self.one_sided:
            return values
        return [
            series.Ball(np.where(side > 0, a.middle, 0.0), np.where(side > 0, a.radius, 0.0)) for a in values
        ]


def _multiply_enclosures(a: Bounds, b: Bounds) -> Bounds:
    return floats.widen(a[0] * b[0], a[1] * b[1])


def _log_upper_bound(x: Fraction) -> float:
    """Return an upper bound of the logarithm."""
    high = np.array([floats.enclose(x)[1]])
    return float(floats.log((high, high))[1][0])
