"""Integrals of products of analytic functions, in the ball arithmetic of FLINT.

Claim: each integral lies between its bounds, however early the evaluations end. Proof:
docs/proofs/exact-audit.md, "Integrals".
Floats: a ball holds its value, and floats are rounded outward. Assumed of FLINT: that its balls
do, and that `acb.integral` encloses the integral of a function that says where it is not analytic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Literal, NamedTuple, final

import numpy as np
from flint import acb, arb, ctx, fmpq

from sordino_audit.continuous.enclosures import LARGEST, TINY, Bounds, Floats

Kind = Literal["density", "cdf", "survival"]

Function = Callable[[acb, int, bool], acb]
"""Takes a ball, the side of 0 on which it lies (-1 or 1), and whether it must be analytic there.

If it must be and is not, the result is not finite. Beyond 0 the function of that side is continued.
"""

UNKNOWN = acb(arb.nan())
ONE = acb(1)
NOTHING = acb(0)

_PRECISION = 80
_DEEPEST_BISECTION = 10_000
_MOST_EVALUATIONS_OF_PIECE = 50_000
_FIRST_REACH, _GROWTH = 8, 8
_STEPS = (Fraction(-8), Fraction(-2), Fraction(-1, 2), Fraction(1, 2), Fraction(2), Fraction(8))
_FARTHEST = Fraction(2) ** 10_000
"""So many of the smallest scale lie between the middle and the farthest cut."""


@final
@dataclass(frozen=True)
class Analytic:
    """A law of scale 1 by functions that are analytic on each side of 0.

    On neither side does the density rise with the distance from 0.
    """

    density: Function
    cdf: Function
    survival: Function

    def mirrored(self) -> Analytic:
        """Return the law of the noise with the other sign."""

        def turn(function: Function) -> Function:
            return lambda z, side, analytic: function(-z, -side, analytic)

        return Analytic(turn(self.density), turn(self.survival), turn(self.cdf))


class PlacedFactor(NamedTuple):
    """A factor: a function of (t + shift) / scale; densities are divided by the scale."""

    kind: Kind
    law: Analytic
    scale: Fraction
    shift: Fraction


@contextmanager
def precisely() -> Iterator[None]:
    """Compute with more digits than floats have. FLINT keeps its precision in a global variable."""
    before, ctx.prec = ctx.prec, _PRECISION
    try:
        yield
    finally:
        ctx.prec = before


def rational(x: Fraction) -> arb:
    """Return a ball that holds a rational number."""
    return arb(fmpq(x.numerator, x.denominator))


def enclose_ball(x: arb) -> tuple[float, float]:
    """Return floats around a ball; where nothing is known, the infinities."""
    if x.is_nan():
        return -math.inf, math.inf
    low, high = float(x.lower()), float(x.upper())
    # The nearest float may lie on the inner side. Beyond the largest one there is no other.
    return min(math.nextafter(low, -math.inf), LARGEST), max(
        math.nextafter(high, math.inf), -LARGEST
    )


def enclose_logs(function: Function, x: Floats) -> Bounds:
    """Return bounds of the logarithms of a function at points; it is not negative."""

    def at(point: float) -> tuple[float, float]:
        value = function(acb(point), 1 if point >= 0 else -1, False).real
        low, high = value.lower(), value.upper()
        return (
            enclose_ball(low.log())[0] if low > 0 else -math.inf,
            enclose_ball(high.log())[1] if high != 0 else -math.inf,
        )

    with precisely():
        found = np.array([at(point) for point in x.ravel().tolist()]).reshape(*x.shape, 2)
    return found[..., 0], found[..., 1]


@final
class BallIntegral:
    """The integral of a product over all real t; the first part is a density."""

    def __init__(self, parts: Sequence[PlacedFactor], share: float, evaluations: int) -> None:
        self.parts = parts
        # More digits than a float has are never shown.
        self.share = max(share, 2.0**-50)
        self.evaluations, self._most = 0, evaluations

    def bounds(self) -> tuple[float, float]:
        """Return bounds of the integral, about `share` of it apart unless the evaluations end."""
        with precisely():
            total = self._total()
            low, high = enclose_ball(total)
            cap = enclose_ball(self._largest())[1]
        if total.is_zero():
            return 0.0, 0.0
        # What is this small may be 0 for others who read it, as after any underflow.
        return 0.0 if low < TINY else low, min(max(high, TINY), cap)

    def _total(self) -> arb:
        """Return the integral between all places, outward by pieces, with a bound of the rest."""
        places = sorted({-part.shift for part in self.parts})
        total, self._rough = arb(0), self._estimate(places)
        for one, other in pairwise(places):
            total += self._between(one, other, total)
        ends = {-1: places[0], 1: places[-1]}
        reach = dict.fromkeys(ends, _FIRST_REACH * min(part.scale for part in self.parts))
        farthest = reach[1] * _FARTHEST
        while True:
            rest = {side: self._bound_rest(end, side) for side, end in ends.items()}
            # The side of which less is known is followed outward.
            side = max(rest, key=lambda each: rest[each])
            if self.evaluations >= self._most or reach[side] > farthest or not total.is_finite():
                break
            if rest[1] + rest[-1] <= total.upper() * self.share / 8:
                break
            before = ends[side]
            ends[side] += side * reach[side]
            reach[side] *= _GROWTH
            total += self._between(min(before, ends[side]), max(before, ends[side]), total)
        return total + arb(0).union(rest[1] + rest[-1])

    def _estimate(self, places: Sequence[Fraction]) -> arb:
        """Return roughly how large the integral is: which digits count is no matter of proof."""
        finest = min(part.scale for part in self.parts)
        points = [
            *(place + step * finest for place in places for step in _STEPS),
            *((one + other) / 2 for one, other in pairwise(places)),
        ]
        values = [
            self._product(point)(acb(rational(point)), False).real.lower() for point in points
        ]
        return max([value for value in values if value > 0], default=arb(0)) * rational(finest)

    def _product(self, inside: Fraction) -> Callable[[acb, bool], acb]:
        """Return the product as it is written between the two places around a point."""
        factors = [
            (
                getattr(part.law, part.kind),
                rational(part.shift),
                rational(1 / part.scale),
                1 if inside + part.shift > 0 else -1,
                part.kind == "density",
            )
            for part in self.parts
        ]

        def product(t: acb, analytic: bool) -> acb:
            self.evaluations += 1
            found = ONE
            for function, shift, rate, side, dense in factors:
                value = function((t + shift) * rate, side, analytic)
                found *= value * rate if dense else value
                if found.is_zero():
                    return NOTHING
            return found

        return product

    def _between(self, start: Fraction, end: Fraction, known: arb) -> arb:
        """Return the integral over an interval with no place of a part inside."""
        return acb.integral(
            self._product((start + end) / 2),
            rational(start),
            rational(end),
            rel_tol=arb(self.share / 8),
            # Digits far below the share of the whole need not be known.
            abs_tol=self._rough.max(known.lower()) * self.share / 64,
            eval_limit=max(1, min(self._most - self.evaluations, _MOST_EVALUATIONS_OF_PIECE)),
            depth_limit=_DEEPEST_BISECTION,
        ).real

    def _bound_rest(self, end: Fraction, side: int) -> arb:
        """Return an upper bound of the integral from an end outward.

        The probability under the first part, times the largest value of each other one: at the end,
        or 1.
        """
        outward = "survival" if side > 0 else "cdf"
        bound = arb(1)
        for i, part in enumerate(self.parts):
            kind = outward if i == 0 else part.kind
            if kind in {outward, "density"}:
                z = acb(rational((end + part.shift) / part.scale))
                value = getattr(part.law, kind)(z, side, False).real
                bound *= value / rational(part.scale) if kind == "density" else value
        return bound.upper() if not bound.is_nan() else arb.pos_inf()

    def _largest(self) -> arb:
        """Return an upper bound of the integral that needs no integration."""
        bound = arb(1)
        for part in self.parts[1:]:
            if part.kind == "density":
                tops = [part.law.density(NOTHING, side, False).real for side in (-1, 1)]
                bound *= tops[0].max(tops[1]) / rational(part.scale)
        return bound
