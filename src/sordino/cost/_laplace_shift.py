"""The Rényi divergence between Laplace noise and the same noise moved by 1, at `rate` per unit.

Continuous [mironov2017, Prop. 6]: ln(a/(2a-1) e^((a-1)e) + (a-1)/(2a-1) e^(-ae)) / (a-1), e = rate. Discrete on a grid of 1/s, with
r = e^(-e/s) and x = r^(2a-1): the moment is [e^((a-1)e) + e^(-ae) + (1-r) e^((a-1)e) (x - x^s)/(1-x)] / (1+r).
Proof: docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

import math

from sordino.cost._conversion import lifted

_ROUNDING = 2.0**-48


def laplace_rdp(rate: float, steps: int | None, alpha: float) -> float:
    """Return the divergence, rounded up and never above min(rate, alpha*rate^2/2); `steps` of the grid are 1, None is continuous."""
    if math.isinf(alpha) or math.isinf(rate):
        return rate
    order, cap = alpha - 1, min(rate, rate * rate / 2 * alpha * (1 + 1e-15))
    if steps is not None and rate / steps < 1e-300:  # what one step of the grid does would leave the floats
        return lifted(cap, rate)
    total = _continuous(rate, order) if steps is None else _discrete(rate, steps, order)
    return lifted(min(cap, total / order * (1 + 1e-12)), rate)


def _continuous(rate: float, order: float) -> float:
    whole = 2 * order + 1
    if order * rate > 30:
        share = math.log1p(order) - math.log(whole)
        rest = math.log1p(order / (order + 1) * math.exp(-whole * rate))
        return order * rate + share + rest + _ROUNDING * (order * rate - share)
    up, down = (order + 1) / whole * math.expm1(order * rate), order / whole * -math.expm1(-(order + 1) * rate)
    return math.log1p(up - down + _ROUNDING * (up + down))


def _discrete(rate: float, steps: int, order: float) -> float:
    """Return the logarithm of the moment, everything divided by e^(order*rate) when that is large."""
    step = rate / steps
    r, log_x = math.exp(-step), -step * (2 * order + 1)
    inner = 0.0
    if steps > 1:  # (1 - r) (x - x^s) / (1 - x)
        inner = math.expm1(-step) * math.exp(log_x) * math.expm1((steps - 1) * log_x) / -math.expm1(log_x)
    if order * rate > 30:
        scaled = (1 + math.exp(-(2 * order + 1) * rate) + inner) / (1 + r)
        return order * rate + math.log(scaled) + _ROUNDING * (order * rate + 1)
    lift = math.expm1(order * rate)
    # moment - 1: the masses are 1/(1+r), e^-rate/(1+r), and (e^-step - e^-rate)/(1+r) between the ends
    ends = (lift + math.exp(-rate) * math.expm1(-order * rate)) / (1 + r)
    between = (inner * (1 + lift) - (r - math.exp(-rate))) / (1 + r)
    return math.log1p(ends + between + _ROUNDING * (lift + 2))
