"""The smallest rho that is proved for a Rényi curve.

Zero-concentrated privacy as sharp as it can be said.

rho is the largest D(alpha)/alpha over all orders alpha > 1. For randomized response, Laplace noise
and bounded range that is D(1), in closed form. For every other curve chords bound it between the
orders that were computed.

Claim: each rho bounds D(alpha)/alpha at every order above 1. Proof: docs/proofs/smallest-rho.md.
Floats: every number is positive where it is summed, and raised by more than rounding can have
taken.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, Context
from fractions import Fraction
from itertools import pairwise

from sordino.cost.conversion import round_up

# The formulas below err by a few 2^-53 of themselves.
_FORMULA_ROUNDING = 1e-12
# Significant digits of a rho: decimals of so many digits add up to decimals, and a ledger adds
# thousands.
_RHO_DIGITS = 14
# Beyond these epsilon^2/2, or epsilon, is within a share of 1e-14 of the truth.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-7, 40.0

# The smallest alpha - 1 that is looked at, and the factor between neighboring ones at first.
_FIRST_ORDER, _FIRST_FACTOR = 1e-6, 4.0
# Chords are split until they prove a rho at most this share above one that is attained.
_CHORD_TOLERANCE = 1e-5
# More than a chord can lose: its highest point is found to 1e-5 of its order ("Chords").
_CHORD_ROUNDING = 1e-9
# Halving the widest chords comes to its end long before; beyond it what was proved so far is
# returned.
_MOST_CHORDS = 2000

Point = tuple[float, float]
"""An order less 1, called x, and a bound of x times the divergence there."""


def shorten_up(number: float) -> Fraction:
    """Return a decimal of 14 digits at or just above a positive float, as an exact fraction."""
    # Decimals of their own precision, whatever the context of the caller's thread is.
    context = Context(prec=_RHO_DIGITS, rounding=ROUND_CEILING, Emax=MAX_EMAX, Emin=MIN_EMIN)
    return Fraction(context.create_decimal_from_float(number))


def pure_rho(epsilon: Fraction) -> Fraction:
    """Return epsilon tanh(epsilon/2), the rho of randomized response.

    Randomized response dominates all of that epsilon. The rho is rounded up, and never above
    epsilon^2/2 and epsilon.
    """
    known, nearby = min(epsilon * epsilon / 2, epsilon), round_up(epsilon)
    if not _SMALLEST_EPSILON < nearby < _LARGEST_EPSILON:
        return known
    return min(known, shorten_up(nearby * math.tanh(nearby / 2) * (1 + _FORMULA_ROUNDING)))


def laplace_rho(rate: Fraction, steps: int | None) -> Fraction:
    """Return the rho of Laplace noise of so many nats a unit on a number that moves by one unit.

    It is rounded up. `steps` of the grid are one unit; None is the continuous law, whose rho is
    rate + e^-rate - 1. With a = rate/steps nats a step it is larger by (1 - e^-rate) (1 - a / sinh
    a).
    """
    # Never above that of the pure epsilon; with one step the two are the same number.
    known = pure_rho(rate)
    nearby = round_up(rate)
    if steps == 1 or not _SMALLEST_EPSILON < nearby < math.inf:
        return known
    found = _exponential_excess(nearby)
    if steps is not None:
        found += -math.expm1(-nearby) * _sinh_excess(nearby / steps)
    return min(known, shorten_up(found * (1 + _FORMULA_ROUNDING)))


def _exponential_excess(x: float) -> float:
    """Return x + e^-x - 1 for x > 0."""
    if x > 1:
        return x + math.expm1(-x)
    # Its series from the end, x^2/2 (1 - x/3 (1 - x/4 (...))): every bracket is at least 2/3.
    total = 1.0
    for divisor in range(20, 2, -1):
        total = 1 - x / divisor * total
    return x * x / 2 * total


def _sinh_excess(x: float) -> float:
    """Return 1 - x / sinh(x) for x > 0."""
    if x > 1:
        # x / sinh(x) with negative exponents only, so that nothing overflows.
        return 1 - 2 * x * math.exp(-x) / -math.expm1(-2 * x)
    # The series of sinh(x)/x - 1 from its end; all terms are positive.
    square, total = x * x, 1.0
    for factor in (272, 210, 156, 110, 72, 42, 20):
        total = 1 + square / factor * total
    excess = square / 6 * total
    return excess / (1 + excess)


def bounded_rho(width: Fraction) -> Fraction:
    """Return the rho of a loss in an interval of this width whose place is not known, rounded up.

    With y half the width it is ln(sinh(y)/y) + y coth(y) - 1 ("Bounded range"), and never above
    width^2/8 and the rho of its pure epsilon.
    """
    known, nearby = min(width * width / 8, pure_rho(width)), round_up(width)
    if not _SMALLEST_EPSILON < nearby < math.inf:
        return known
    found = log_sinhc(nearby / 2) + _coth_excess(nearby / 2)
    return min(known, shorten_up(found * (1 + _FORMULA_ROUNDING)))


def log_sinhc(y: float) -> float:
    """Return ln(sinh(y) / y) with few lost digits, y > 0."""
    # sinh(y) = e^y (1 - e^(-2y)) / 2, by its logarithm: nothing overflows.
    if y > 1:
        return y + math.log1p(-math.exp(-2 * y)) - math.log(2 * y)
    square, total = y * y, 1.0
    for factor in (272, 210, 156, 110, 72, 42, 20):  # the series of sinh(y) / y - 1, from its end
        total = 1 + square / factor * total
    return math.log1p(square / 6 * total)


def _coth_excess(y: float) -> float:
    """Return y coth(y) - 1 for y > 0."""
    if y > 1:
        return y / math.tanh(y) - 1
    # (y cosh(y) - sinh(y)) / sinh(y), the numerator by its series from the end: all terms are
    # positive.
    square, total = y * y, 1.0
    for k in range(8, 0, -1):
        total = 1 + square / (2 * k * (2 * k + 3)) * total
    return square / 3 * total * (y / math.sinh(y))


def certify_rho(divergence: Callable[[float], float], epsilon: float) -> float:
    """Return a rho that is proved for a Rényi curve, within 1e-5 of the least one.

    Parameters
    ----------
    divergence : function of an order above 1
        A bound of the Rényi divergence, rounded up, in nats.
    epsilon : float
        A pure epsilon that holds too, finite and above 0.

    Returns
    -------
    float
        At least D(alpha)/alpha at every order, where D is the true divergence. It is never above
        epsilon.
    """
    # With x = alpha - 1, x D is convex and 0 at x = 0, and rho is the largest x D / (x (1 + x)).
    points = [_find_point(divergence, 1.0)]
    found = _rho_at(points[0])
    # As soon as epsilon is at most `found` times the order nothing larger can follow.
    while epsilon > found * (1 + points[-1][0]):
        points.append(_find_point(divergence, points[-1][0] * _FIRST_FACTOR))
        found = max(found, _rho_at(points[-1]))
    # Below the first order D is at most its value there, and the order at least 1.
    while (
        points[0][1] > found * (1 + _CHORD_TOLERANCE) * points[0][0] and points[0][0] > _FIRST_ORDER
    ):
        points.insert(0, _find_point(divergence, points[0][0] / _FIRST_FACTOR))
        found = max(found, _rho_at(points[0]))
    proved = points[0][1] / points[0][0]
    # The chord that allows the largest rho is split first.
    chords = [_bound_chord(left, right) for left, right in pairwise(points)]
    heapq.heapify(chords)
    while (
        chords
        and len(chords) < _MOST_CHORDS
        and -chords[0][0] > max(found * (1 + _CHORD_TOLERANCE), proved)
    ):
        _, left, right = heapq.heappop(chords)
        middle = _find_point(divergence, math.sqrt(left[0] * right[0]))
        found = max(found, _rho_at(middle))
        heapq.heappush(chords, _bound_chord(left, middle))
        heapq.heappush(chords, _bound_chord(middle, right))
    widest = -chords[0][0] if chords else 0.0
    return min(epsilon, max(found, proved, widest) * (1 + _CHORD_ROUNDING))


def _find_point(divergence: Callable[[float], float], x: float) -> Point:
    # The difference is exact, so that order and point belong to each other to the last digit.
    alpha = 1 + x
    return alpha - 1, (alpha - 1) * divergence(alpha)


def _rho_at(point: Point) -> float:
    return point[1] / (point[0] * (1 + point[0]))


def _bound_chord(left: Point, right: Point) -> tuple[float, Point, Point]:
    """Return minus the largest rho that the chord between two points allows, and the points."""
    (start, low), (end, high) = left, right
    slope = (high - low) / (end - start)
    # The chord is slope x - fall; in exact numbers the fall is not negative, for the curve is
    # convex from 0.
    fall = max(slope * start - low, 0.0)
    # (slope x - fall) / (x (1 + x)) rises up to this x, and falls from there.
    top = (fall + math.sqrt(fall * fall + slope * fall)) / slope if slope > 0 else start
    at = min(max(top, start), end)
    # Between the two points by their shares, which are positive: no digits cancel.
    height = (low * (end - at) + high * (at - start)) / (end - start)
    return -height / (at * (1 + at)), left, right
