"""The extreme pair of two laws whose log ratio lies in [-low, high]: two points, at the two ends.

With masses P(high) = (1 - e^-low) / (1 - e^-(low+high)) and Q = P e^-loss it has the largest divergence of
every convex kind, and the other order of the pair is the same with low and high exchanged.
Proof: docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

import math

from sordino.cost.conversion import pure_delta, pure_epsilon, pure_rdp, raise_delta, raise_divergence, settled

_TWO_POINT_ROUNDING = 2.0**-49  # a difference of rounded terms is raised by this share of their sum


def masses(low: float, high: float) -> tuple[float, float]:
    """Return the probabilities of the losses -low and high under the first law; both ends positive."""
    # Written with negative exponents only, so that nothing overflows ("Loss in [-l,h]").
    width = -math.expm1(-(low + high))
    return math.exp(-low) * -math.expm1(-high) / width, -math.expm1(-low) / width


def range_delta(low: float, high: float, epsilon: float) -> float:
    """Return the delta of the worse order: the loss max(low, high) comes with the probability of that end."""
    if low == high:
        return pure_delta(high, epsilon)
    top, other = max(low, high), min(low, high)
    return 0.0 if epsilon >= top else raise_delta(masses(other, top)[1] * -math.expm1(epsilon - top))


def range_epsilon(low: float, high: float, delta: float, limit: float) -> float:
    """Return the least epsilon at `delta` for the worse order; `limit` is one that always holds."""
    top, other = max(low, high), min(low, high)
    if low == high or delta == 0:
        return pure_epsilon(limit, delta)
    # The curve solved for epsilon, in floats; `settled` raises it until its own delta is small enough.
    kept = -delta / masses(other, top)[1]
    guess = 0.0 if kept <= -1 else max(0.0, (top + math.log1p(kept)) * (1 + 1e-12))
    return settled(lambda epsilon: range_delta(low, high, epsilon), guess, delta, limit)


def range_rdp(low: float, high: float, alpha: float) -> float:
    """Return the largest Rényi divergence of order `alpha` over both orders of the pair."""
    if low == high:
        return pure_rdp(high, alpha)
    top = max(low, high)
    if math.isinf(alpha) or math.isinf(top):
        return top
    worse = max(_two_point_divergence(low, high, alpha - 1), _two_point_divergence(high, low, alpha - 1))
    return raise_divergence(min(top, worse, _zcdp_bound(low, high, alpha)), top)


def _zcdp_bound(low: float, high: float, alpha: float) -> float:
    # The rho of an interval is (low + high)^2 / 8 ("zCDP" in dominating-pairs).
    return (low + high) * (low + high) / 8 * alpha * (1 + 1e-15)


def _two_point_divergence(low: float, high: float, order: float) -> float:
    p_low, p_high = masses(low, high)
    reach = order * high
    # Up to e^30 the moment less 1 is a difference, raised by what its two terms may have lost.
    if reach < 30:
        up, down = p_high * math.expm1(reach), -p_low * math.expm1(-order * low)
        total = math.log1p(up - down + _TWO_POINT_ROUNDING * (up + down))
    else:
        # The moment would leave the floats, so its logarithm is summed.
        share = math.log(p_high)
        total = (
            reach
            + share
            + math.log1p(p_low / p_high * math.exp(-order * (low + high)))
            + _TWO_POINT_ROUNDING * (reach - share)
        )
    return total / order * (1 + 1e-12)
