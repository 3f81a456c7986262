"""Conversions between notions of privacy, each rounded to the safe side and each with its source.

References: [canonne2020, Prop. 12] for Rényi to (epsilon, delta); [bun2016, Prop. 3.3] for pure to zCDP;
[kairouz2015, Thm 3.3] for one pure mechanism to (epsilon, delta).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from sordino.constraints import exact, shown
from sordino.errors import InvalidParameter

_GOLDEN = (math.sqrt(5) - 1) / 2


def above(number: Fraction | float) -> float:
    """Return the smallest float at least `number`; inf beyond the floats."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if nearest < number else nearest


def checked_delta(delta: float) -> float:
    """Return `delta` as a float, or raise unless it lies in [0, 1)."""
    number = exact(delta)
    if number is None or not 0 <= number < 1:
        raise InvalidParameter(f"delta must be a number in [0, 1); got {shown(delta)}.")
    return float(number)


def checked_epsilon(epsilon: float) -> float:
    """Return `epsilon` as a float, or raise unless it is at least 0 (inf is allowed)."""
    number = exact(epsilon)
    if (number is None and epsilon != math.inf) or (number is not None and number < 0):
        raise InvalidParameter(f"epsilon must be a number in [0, inf]; got {shown(epsilon)}.")
    return math.inf if number is None else float(number)


def checked_alpha(alpha: float) -> float:
    """Return `alpha` as a float, or raise unless it is above 1 (inf is allowed)."""
    number = exact(alpha)
    if (number is None and alpha != math.inf) or (number is not None and number <= 1):
        raise InvalidParameter(f"alpha must be a number in (1, inf]; got {shown(alpha)}.")
    return math.inf if number is None else max(float(number), 1 + 2**-40)  # a divergence never falls with the order


def pure_rdp(epsilon: float, alpha: float) -> float:
    """Return the largest Rényi divergence of order `alpha` between two laws whose log ratio lies in [-epsilon, epsilon].

    The extreme pair is randomized response (two points): ln(p e^{(a-1)e} + (1-p) e^{-(a-1)e}) / (a-1), p = e^e / (1 + e^e).
    """
    if epsilon == 0 or math.isinf(epsilon) or math.isinf(alpha):
        return epsilon
    order = alpha - 1
    reach = order * epsilon
    if reach < 20:  # ln(cosh y + tanh(e/2) sinh y), all terms positive: no digits cancel near alpha = 1
        total = math.log1p(2 * math.sinh(reach / 2) ** 2 + math.tanh(epsilon / 2) * math.sinh(reach))
    else:
        total = reach - math.log1p(math.exp(-epsilon)) + math.log1p(math.exp(-2 * reach - epsilon))
    # Rounding up: the terms carry relative errors of a few 2^-53, and the divergence never passes epsilon.
    return min(epsilon, total / order * (1 + 1e-12))


def pure_delta(epsilon0: float, epsilon: float) -> float:
    """Return the least delta of (epsilon, delta) that holds for every epsilon0-private mechanism."""
    if epsilon >= epsilon0:
        return 0.0
    if math.isinf(epsilon0):
        return 1.0
    return min(1.0, -math.expm1(epsilon - epsilon0) / (1 + math.exp(-epsilon0)) * (1 + 1e-12))


def pure_epsilon(epsilon0: float, delta: float) -> float:
    """Return the least epsilon of (epsilon, delta) that holds for every epsilon0-private mechanism."""
    if delta == 0 or math.isinf(epsilon0):
        return epsilon0
    kept = -delta * (1 + math.exp(-epsilon0))
    if kept <= -1:
        return 0.0
    return min(epsilon0, max(0.0, (epsilon0 + math.log1p(kept)) * (1 + 1e-12)))


def rdp_epsilon(rdp: Callable[[float], float], delta: float) -> float:
    """Return the smallest epsilon at `delta` over all orders; every order gives a valid one, so the search need not be exact."""
    if delta == 0:
        return rdp(math.inf)

    def at(log_order: float) -> float:
        order = math.exp(log_order)  # alpha - 1
        alpha = 1 + order
        return rdp(alpha) + math.log1p(-1 / alpha) - (math.log(delta) + math.log(alpha)) / order

    return max(0.0, _least(at) * (1 + 1e-12))


def rdp_delta(rdp: Callable[[float], float], epsilon: float) -> float:
    """Return the smallest delta at `epsilon` over all orders."""

    def at(log_order: float) -> float:
        order = math.exp(log_order)
        alpha = 1 + order
        return order * (rdp(alpha) - epsilon + math.log1p(-1 / alpha)) - math.log(alpha)

    least = _least(at)
    return 1.0 if least >= 0 else math.exp(least) * (1 + 1e-12)


def _least(at: Callable[[float], float]) -> float:
    """Return a value of `at` close to its minimum on a wide bracket of log orders: a grid, then golden section."""
    grid = [-7 + 0.25 * i for i in range(93)]
    values = [at(x) for x in grid]
    best = min(range(len(grid)), key=values.__getitem__)
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_inner, at_outer = at(inner), at(outer)
    for _ in range(60):
        if at_inner < at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - _GOLDEN * (high - low)
            at_inner = at(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + _GOLDEN * (high - low)
            at_outer = at(outer)
    return min(values[best], at_inner, at_outer)
