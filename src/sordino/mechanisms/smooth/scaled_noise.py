"""The accounting of `SmoothMechanism`: its largest loss, and the noise that a budget buys.

Claim: with scale S/alpha, S beta-smooth and at least the local sensitivity, and generalized Cauchy
noise of power gamma the loss is at most `loss_bound`; it is attained. `largest_alpha` has a loss of
at most epsilon. Proof: docs/proofs/smooth-mechanism.md [nissim2007, yamamoto2024, tightened].
Noise: none. Floats: suprema are enclosed by slopes on both sides of the one place where they are
attained; each function is assumed to err by less than 1e-14, and bounds are raised by more.
"""

from __future__ import annotations

import math
from functools import lru_cache

# The place of a supremum is known to this much of ln z.
_HALVING_WIDTH = 1e-7
# Ten times what a function is assumed to err by.
_LOSS_ERROR = 1e-13
_MOST_BUDGET = 600.0
"""Budgets beyond buy no less noise: powers would leave the floats."""
_LEAST_BUDGET = 1e-6
"""Below this budget the noise is the simple one: differences would lose their digits."""


def loss_bound(alpha: float, beta: float, gamma: float) -> float:
    """Return an upper bound of the loss between neighbors, in nats.

    It is less than 1e-9 of the loss (and 1e-12) above it. The loss is convex in the logarithm of
    the ratio of the scales where these rise, and where they fall: one of three ratios has the
    largest.
    """
    return max(_loss_supremum(alpha, ratio, gamma) for ratio in (-beta, 0.0, beta))


def _loss_supremum(alpha: float, ratio: float, gamma: float) -> float:
    """Return an upper bound of sup over z > 0 of ln (1 + w^gamma)/(1 + z^gamma) - ratio.

    Here w = s z + shift and ratio = ln s. The derivative by z has the sign of
    s - (z/w)^(gamma - 1) - shift z^(gamma - 1), which changes once. Everything is a logarithm here.
    """
    # e^shift is how far w exceeds s z: alpha, or alpha s where the scale is smaller.
    power, shift = gamma - 1, math.log(alpha) + min(0.0, ratio)
    # The derivative changes its sign between these two: "What is lost" on the proof page.
    low, high = (ratio - _log_sum(shift, -power * shift)) / power, (ratio - shift) / power
    while high - low > _HALVING_WIDTH:
        z = (low + high) / 2
        rises = math.exp(ratio) - math.exp(power * (z - _log_sum(ratio + z, shift))) > math.exp(
            shift + power * z
        )
        low, high = (z, high) if rises else (low, z)
    # The comparison above may err where both powers are nearly equal, so the interval is widened.
    ends = low - _HALVING_WIDTH, high + _HALVING_WIDTH
    moved = tuple(_log_sum(ratio + z, shift) for z in ends)
    largest = (
        max(
            _log_sum(0.0, gamma * w) - _log_sum(0.0, gamma * z)
            for z, w in zip(ends, moved, strict=True)
        )
        - ratio
    )
    up = tuple(
        gamma * math.exp(ratio + z - w) / (1 + _exp_or_inf(-gamma * w))
        for z, w in zip(ends, moved, strict=True)
    )
    down = tuple(gamma / (1 + _exp_or_inf(-gamma * z)) for z in ends)
    # `up` and `down` say how fast both parts rise with ln z, faster the larger z is. So opposite
    # ends bound the slope of their difference.
    steep = max(up[1] - down[0], down[1] - up[0], 0.0)
    return largest + steep * (ends[1] - ends[0]) + _LOSS_ERROR * (1 + abs(largest))


def _log_sum(x: float, y: float) -> float:
    """Return ln(e^x + e^y)."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def _exp_or_inf(x: float) -> float:
    """Return e^x, or inf."""
    return math.exp(x) if x < _MOST_BUDGET else math.inf


@lru_cache(maxsize=256)
def largest_alpha(epsilon: float, beta: float, gamma: float) -> float:
    """Return an alpha whose loss is at most epsilon, less than a millionth below the largest.

    It is 0 if beta leaves nothing.
    """
    budget = min(epsilon, _MOST_BUDGET)
    if budget <= power_loss(beta, gamma):
        return 0.0
    if gamma == 2:
        # A closed form, lowered by more than its roundings.
        return cauchy_alpha(budget, beta) * (1 - 1e-12)
    slope = math.exp(math.log(gamma - 1) * (gamma - 1) / gamma)
    # This alpha is safe: it pays for the shift and for the scale one after the other.
    low = (budget - power_loss(beta, gamma)) / slope * (1 - 1e-12)
    if budget < _LEAST_BUDGET:
        return max(0.0, low)
    high = 2 * low
    # `low` is always affordable, so what is returned is rounded to the safe side.
    while high < math.inf and loss_bound(high, beta, gamma) <= budget:
        low, high = high, 2 * high
    while high > low * (1 + 1e-7):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if loss_bound(middle, beta, gamma) <= budget else (low, middle)
    return low


def power_loss(beta: float, gamma: float) -> float:
    """Return what is lost for the scale alone, however large the noise.

    That is (gamma - 1) beta, far out.
    """
    return max(1.0, gamma - 1) * beta * (1 + 1e-14)


def cauchy_alpha(epsilon: float, beta: float) -> float:
    """Return the alpha with which Cauchy noise loses epsilon exactly, beta < epsilon.

    min(2 sinh(epsilon/2), sqrt(2 e^beta (cosh epsilon - cosh beta))): the second one counts beyond
    beta = ln(2 cosh epsilon - 1).
    """
    # cosh epsilon - cosh beta as a product, because the difference would lose its digits.
    scales = math.sqrt(math.sinh((epsilon + beta) / 2)) * math.sqrt(math.sinh((epsilon - beta) / 2))
    return 2 * min(math.sinh(epsilon / 2), math.exp(beta / 2) * scales)
