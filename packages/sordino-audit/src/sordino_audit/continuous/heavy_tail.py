"""The law of density proportional to 1/(1 + |z|^gamma), by hypergeometric functions.

Claim: everything returned encloses the true value. Proof: docs/proofs/exact-audit.md, "Laws with a
density".
Floats: outward, see `enclosures` and `balls`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import final

import numpy as np
from flint import acb, arb
from numpy.typing import NDArray

from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.balls import (
    NOTHING,
    ONE,
    UNKNOWN,
    Analytic,
    enclose_ball,
    enclose_logs,
    precisely,
    rational,
)
from sordino_audit.continuous.enclosures import NEVER, Bounds, Floats


@final
class HeavyTail:
    """Enclosures of the law of density 1/(C (1 + |z|^gamma)), on all z, or on z >= 0."""

    def __init__(self, gamma: Fraction, *, one_sided: bool) -> None:
        self.gamma, self.one_sided = gamma, one_sided
        self.analytic = Analytic(self._density, self._cdf, self._survival)
        with precisely():
            self._power = rational(gamma)
            # The integral of 1/(1 + z^gamma) over z >= 0 is (pi/gamma) / sin(pi/gamma).
            half = (arb.pi() / self._power) / (arb.pi() / self._power).sin()
            self._total = half if one_sided else 2 * half
            low, high = enclose_ball(self._total.log())
            self._log_mass = np.array([low]), np.array([high])

    @property
    def breaks(self) -> tuple[Fraction, ...]:
        """Return 0, where the density jumps or is not smooth.

        Nothing where gamma is an even number and both sides are there.
        """
        even = self.gamma.denominator == 1 and self.gamma % 2 == 0
        return () if even and not self.one_sided else (Fraction(0),)

    @property
    def bends(self) -> tuple[tuple[float, float], ...]:
        """Return bounds of where a log density stops being convex (or the density 0), and concave.

        There |z|^gamma is gamma - 1, but for the start of one-sided noise at 0.
        """
        with precisely():
            turn = enclose_ball(((self._power - 1).log() / self._power).exp())
        return ((0.0, 0.0) if self.one_sided else (-turn[1], -turn[0]), turn)

    def log_survival(self, x: Floats) -> Bounds:
        """Return log P(Z > x)."""
        return _settle_ends(enclose_logs(self._survival, x), np.isposinf(x), np.isneginf(x))

    def log_cdf(self, x: Floats) -> Bounds:
        """Return log P(Z <= x)."""
        return _settle_ends(enclose_logs(self._cdf, x), np.isneginf(x), np.isposinf(x))

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
        self,
        window: tuple[Fraction, Fraction],
        a: tuple[Fraction, Fraction],
        b: tuple[Fraction, Fraction],
    ) -> float:
        """Return an upper bound of the log ratio of two densities outside the window.

        Both densities are given by their places and scales.

        With u = |o - x_a|/s_a and v = |o - x_b|/s_b it is log((1 + v^gamma)/(1 + u^gamma)) +
        log(s_b/s_a), and the quotient is at most max(1, v/u)^gamma; v/u runs from its value at the
        end of the window straight up or down to s_a/s_b.
        """
        low, high = window
        # The quotient is monotone outside the window only if both answers are inside.
        if not low < min(a[0], b[0]) <= max(a[0], b[0]) < high:
            return math.inf
        ends = [(b[0] - low) / (a[0] - low)] * (not self.one_sided) + [
            (high - b[0]) / (high - a[0])
        ]
        most = max([Fraction(1), *ends]) * a[1] / b[1]
        steep = _log_upper_bound(most) * float(self.gamma) * (1 + floats.WIDER) if most > 1 else 0.0
        return (_log_upper_bound(b[1] / a[1]) + steep) + 1e-12

    def _raise_to_gamma(self, y: acb, analytic: bool) -> acb:
        """Return y^gamma, for y on the positive side."""
        if self.gamma.denominator == 1:
            return y ** int(self.gamma)
        if y.real > 0:
            return (y.log() * self._power).exp()
        if analytic or not y.imag.is_zero():
            # The power branches at 0.
            return UNKNOWN
        # Of a real ball around 0 only what is not negative counts.
        high = y.real.upper()
        return acb(arb(0).union((high.log() * self._power).exp())) if high > 0 else NOTHING

    def _density(self, z: acb, side: int, analytic: bool) -> acb:
        if self.one_sided and side < 0:
            return NOTHING
        return 1 / ((1 + self._raise_to_gamma(z * side, analytic)) * self._total)

    def _near(self, y: acb, analytic: bool) -> acb:
        """Return the integral of the density from 0 to y, for y on the positive side."""
        return (
            y * _gauss(-self._raise_to_gamma(y, analytic), 1 / self._power, analytic) / self._total
        )

    def _far(self, y: acb, analytic: bool) -> acb:
        """Return the integral of the density from y on, for y on the positive side."""
        inverse = 1 / self._raise_to_gamma(y, analytic)
        outer = y * inverse * _gauss(-inverse, 1 - 1 / self._power, analytic)
        return outer / ((self._power - 1) * self._total)

    def _survival(self, z: acb, side: int, analytic: bool) -> acb:
        if side < 0:
            return ONE if self.one_sided else 1 - self._survival(-z, 1, analytic)
        # Each formula keeps its digits on its side of 1, and both are continued beyond.
        if z.real.mid() > 1:
            return self._far(z, analytic)
        return (1 if self.one_sided else acb(0.5)) - self._near(z, analytic)

    def _cdf(self, z: acb, side: int, analytic: bool) -> acb:
        if not self.one_sided:
            return self._survival(-z, -side, analytic)
        if side < 0:
            return NOTHING
        # Near 0 the small probability is computed itself: one minus the rest would lose its digits.
        return 1 - self._far(z, analytic) if z.real.mid() > 1 else self._near(z, analytic)


def _gauss(at: acb, b: arb, analytic: bool) -> acb:
    """Return the hypergeometric function 2F1(1, b; 1 + b; at), the sum of b at^k / (k + b)."""
    # It branches at 1, and is cut from there to infinity.
    if analytic and not (at.real < 1 or at.imag > 0 or at.imag < 0):
        return UNKNOWN
    return at.hypgeom_2f1(ONE, acb(b), acb(1 + b))


def _settle_ends(logs: Bounds, none: NDArray[np.bool_], everything: NDArray[np.bool_]) -> Bounds:
    """Return bounds of log probabilities, which are known at the ends of the line."""
    low, high = (np.where(none, NEVER, np.where(everything, 0.0, side)) for side in logs)
    return low, np.minimum(high, 0.0)


def _log_upper_bound(x: Fraction) -> float:
    """Return an upper bound of the logarithm."""
    high = np.array([floats.enclose(x)[1]])
    return float(floats.log((high, high))[1][0])
