"""The Rényi curves of `two_point`, `bounded_range` and `rdp` over arrays, for many costs at once.

Every argument but the order is an array of floats of one shape (n,), or (n, k) for tables of k
rows; every result has shape (n,), rounded up. The order may be an array for Laplace noise. What a
formula loses outside the floats is caught by the caps, each a bound by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

_ARRAY_ROUNDING = 2.0**-48  # a difference of rounded terms is raised by this share of their sum
_EXPONENT_LIMIT = 30.0  # beyond e^30 a moment is summed by its logarithm


def interval_curves(lows: Floats, highs: Floats, alpha: float) -> Floats:
    """Return the curves for losses in [-low, high], each in its worse order."""
    order = alpha - 1
    best = np.zeros_like(lows)
    # As in `two_point`, for both orders of the neighbors; the larger divergence counts.
    for low, high in ((lows, highs), (highs, lows)):
        width = -np.expm1(-(low + high))
        p_low, p_high = np.exp(-low) * -np.expm1(-high) / width, -np.expm1(-low) / width
        reach = order * high
        # Cut off where `far` takes over, so that nothing overflows.
        up, down = (
            p_high * np.expm1(np.minimum(reach, _EXPONENT_LIMIT)),
            -p_low * np.expm1(-order * low),
        )
        near = np.log1p(np.maximum(up - down, 0) + _ARRAY_ROUNDING * (up + down))
        share = np.log(p_high)
        far = (
            reach
            + share
            + np.log1p(p_low / p_high * np.exp(-order * (low + high)))
            + _ARRAY_ROUNDING * (reach - share)
        )
        best = np.maximum(best, np.where(reach < _EXPONENT_LIMIT, near, far) / order)
    return _cap_curves(best, (lows + highs) ** 2 / 8, np.maximum(lows, highs), alpha)


def bounded_curves(widths: Floats, alpha: float) -> Floats:
    """Return the curves for losses in an interval of known width and unknown place."""
    order = alpha - 1
    whole, rest, one = (_log_sinhc_array(share * widths / 2) for share in (alpha, order, 1.0))
    total = (
        whole
        - rest
        + (whole - one) / order
        + _ARRAY_ROUNDING * (whole + rest + (whole + one) / order)
    )
    return _cap_curves(total, widths**2 / 8, widths, alpha)


def _log_sinhc_array(y: Floats) -> Floats:
    """Return ln(sinh(y) / y) with few lost digits, y > 0."""
    square, total = np.minimum(y, 1) ** 2, np.ones_like(y)
    for factor in (272, 210, 156, 110, 72, 42, 20):  # the series of sinh(y) / y - 1, from its end
        total = 1 + square / factor * total
    # Both formulas are computed for all, each with its argument cut off where the other one counts.
    far = np.maximum(y, 1)
    return np.where(
        y > 1, far + np.log1p(-np.exp(-2 * far)) - np.log(2 * far), np.log1p(square / 6 * total)
    )


def laplace_curves(rates: Floats, alpha: float | Floats) -> Floats:
    """Return the curves of continuous Laplace noise on a number that moves by 1."""
    order = alpha - 1
    whole, reach = 2 * order + 1, order * rates
    # Cut off where `far` takes over, so that nothing overflows.
    up = alpha / whole * np.expm1(np.minimum(reach, _EXPONENT_LIMIT))
    down = order / whole * -np.expm1(-alpha * rates)
    near = np.log1p(np.maximum(up - down, 0) + _ARRAY_ROUNDING * (up + down))
    share = np.log(alpha / whole)
    far = (
        reach
        + share
        + np.log1p(order / alpha * np.exp(-whole * rates))
        + _ARRAY_ROUNDING * (reach - share)
    )
    return _cap_curves(
        np.where(reach < _EXPONENT_LIMIT, near, far) / order, rates**2 / 2, rates, alpha
    )


def discrete_curves(rates: Floats, steps: Floats, alpha: float | Floats) -> Floats:
    """Return the curves of discrete Laplace noise on a number that moves by `steps` of the grid."""
    order = alpha - 1
    step = rates / steps
    r, log_x = np.exp(-step), -step * (2 * order + 1)
    # The moment of `rdp._discrete_log_moment`; with one step `inner` is 0.
    inner = np.expm1(-step) * np.exp(log_x) * np.expm1((steps - 1) * log_x) / -np.expm1(log_x)
    reach = order * rates
    lift = np.expm1(np.minimum(reach, _EXPONENT_LIMIT))
    ends = (lift + np.exp(-rates) * np.expm1(-reach)) / (1 + r)
    between = (inner * (1 + lift) - (r - np.exp(-rates))) / (1 + r)
    near = np.log1p(np.maximum(ends + between, 0) + _ARRAY_ROUNDING * (lift + 2))
    far = (
        reach
        + np.log((1 + np.exp(-(2 * order + 1) * rates) + inner) / (1 + r))
        + _ARRAY_ROUNDING * (reach + 1)
    )
    return _cap_curves(
        np.where(reach < _EXPONENT_LIMIT, near, far) / order, rates**2 / 2, rates, alpha
    )


def table_chords(orders: Floats, values: Floats, alpha: float) -> Floats:
    """Return the chords of (alpha - 1) D between the orders of each table.

    Rows of `values` do not fall.
    """
    # The first row at or above the order, and one past the end where there is none.
    place = (orders < alpha).sum(axis=1)
    outside = place == orders.shape[1]
    row, right = np.arange(len(orders)), np.minimum(place, orders.shape[1] - 1)
    left = np.maximum(right - 1, 0)
    a, b, low, high = orders[row, left], orders[row, right], values[row, left], values[row, right]
    # In the first row both ends are one row, and the chord is not used.
    share = (alpha - a) / np.where(b > a, b - a, 1.0)
    chord = ((1 - share) * (a - 1) * low + share * (b - 1) * high) / (alpha - 1)
    inside = np.where(np.isnan(chord), high, np.fmin(high, np.fmax(low, chord * (1 + 1e-14))))
    return np.where(outside, np.inf, np.where((place == 0) | (b == alpha), high, inside))


def _cap_curves(curve: Floats, rho: Floats, pure: Floats, alpha: float | Floats) -> Floats:
    # `fmin` passes over NaN: a formula that left the floats is replaced by the bounds that hold
    # anyway.
    return np.fmin(np.fmin(curve, rho * alpha), pure) * (1 + 1e-11)


def lowest(curves: Callable[[Floats], Floats], count: int, last: float) -> tuple[Floats, Floats]:
    """Return for each of `count` curves the order of a lowest point and its value.

    `curves` takes one order for each. A grid, then steps to the better side. Any order would be
    valid.
    """
    width = (np.log(last) + 7) / 128
    x, value = np.full(count, -7.0), np.full(count, np.inf)

    def improve(candidates: Floats) -> None:
        found = curves(1 + np.exp(candidates))
        better = found < value
        x[better], value[better] = candidates[better], found[better]

    for i in range(129):
        improve(np.full(count, -7 + i * width))
    while width > 1e-7:
        width /= 2
        middle = x.copy()
        improve(middle - width)
        improve(np.minimum(middle + width, np.log(last)))
    return 1 + np.exp(x), value
