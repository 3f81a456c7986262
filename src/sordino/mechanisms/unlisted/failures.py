"""How likely a label is released that only one unit has, and the least threshold for a probability.

Of two neighbors one may have labels that the other has not: at most `labels` of them, each with the
smallest count that takes part. The release fails if one of them reaches the threshold, `offset`
steps higher.

Claim: each bound is at least the probability of that, and the least offset is as stated for each
law. Proof: docs/proofs/unlisted.md, "Thresholds". Floats: none; decimals with directed rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache

from sordino.errors import InvalidParameter
from sordino.grid import CLAMP
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import Bounds, contexts, exp_bounds, ratio_bounds

_DIGITS = 60
# Expected numbers of failing labels up to which the alternating sum is taken: its terms stay below
# e^64.
_MOST_EXPECTED = 64
# The sum ends where the next term is smaller than this share of it.
_NEGLIGIBLE = Decimal("1e-30")
# Below this rate the weights of a discrete Gaussian add up to sqrt(pi/rate), but for a share of
# 1e-200.
_WIDE_RATE = Fraction(1, 50)
# From this rate on its tail is summed term by term; below, an integral is as good.
_SUMMED_RATE = Fraction(1, 500)
# Levels of the continued fraction of the normal tail, and more than what its steps and roots can
# lose.
_LEVELS = 60
_PI = Decimal("3.14159265358979323846264338327950288419716939937510")  # rounded down
_LOST = Decimal("1e-50")


# ---- at least one of several labels --------------------------------------------------------------


def bound_any(labels: int, moment: Callable[[int], Bounds]) -> Decimal:
    """Return an upper bound of the probability that at least one of `labels` labels fails.

    Given what they have in common they fail independently and with equal probability; `moment(m)`
    encloses the probability that `m` of them fail together. Sums of inclusion and exclusion that
    end with an odd number of terms are upper bounds [Bonferroni].
    """
    down, up = contexts(_DIGITS)
    first = up.multiply(Decimal(labels), moment(1)[1])
    # Far from any delta of use: the terms would grow before they fall.
    if first >= _MOST_EXPECTED:
        return Decimal(1)
    least, total, ways = first, first, Decimal(labels)
    for m in range(2, labels + 1):
        # binomial(labels, m) from the one before; few digits are lost, and outward both ways.
        ways = up.divide(up.multiply(ways, Decimal(labels - m + 1)), Decimal(m))
        low, high = moment(m)
        if m % 2:
            # The bound with one more pair of terms; any of them holds.
            total = up.add(total, up.multiply(ways, high))
            least = min(least, total)
            if up.multiply(ways, high) <= up.multiply(least, _NEGLIGIBLE):
                break
        else:
            # What is subtracted is rounded down: the factor makes up for `ways`, which was rounded
            # up.
            smaller = down.multiply(down.multiply(ways, low), Decimal(1) - _LOST)
            total = up.subtract(total, smaller)
            # All terms are there: the sum itself.
            if m == labels:
                least = min(least, total)
    return min(least, Decimal(1))


# ---- the laws ------------------------------------------------------------------------------------


def bound_exponential(rate: Fraction, offset: int, labels: int) -> Decimal:
    """Return an upper bound of the failure with geometric noise on labels and threshold.

    `offset` >= 0.
    """
    down, up = contexts(_DIGITS)
    one = exp_bounds(rate, _DIGITS)
    fall = down.subtract(1, one[1]), up.subtract(1, one[0])

    def moment(m: int) -> Bounds:
        # m labels pass given the noise j of the threshold with probability r^(m (offset + j));
        # summed over j.
        power = exp_bounds(rate * m * offset, _DIGITS) if offset else (Decimal(1), Decimal(1))
        next_one = exp_bounds(rate * (m + 1), _DIGITS)
        rest = down.subtract(1, next_one[1]), up.subtract(1, next_one[0])
        return (
            down.divide(down.multiply(power[0], fall[0]), rest[1]),
            up.divide(up.multiply(power[1], fall[1]), rest[0]),
        )

    return bound_any(labels, moment)


def bound_laplace(rate: Fraction, offset: int, labels: int) -> Decimal:
    """Return an upper bound of the failure with discrete Laplace noise on labels and threshold.

    Given the noise of the threshold the union bound is taken, at most 1. Of one label it is exact.
    """
    down, up = contexts(_DIGITS)
    low, high = exp_bounds(rate, _DIGITS)
    power = _bound_power(rate, offset)[1]
    above = down.add(1, low)
    # (1 - r)/(1 + r)^2 falls with r, and r^2/(1 - r^2) rises.
    share = up.divide(up.subtract(1, low), down.multiply(above, above))
    square = up.multiply(high, high)
    rest = up.divide(square, down.subtract(1, square))
    if labels == 1:
        # P(N1 - N2 >= g) = r^g (1 - r)/(1 + r)^2 (g + 1 + 2 r^2/(1 - r^2) + r/(1 - r)).
        lone = up.divide(high, down.subtract(1, high))
        steps = up.add(up.add(Decimal(offset + 1), up.multiply(2, rest)), lone)
        return min(Decimal(1), up.multiply(up.multiply(power, share), steps))
    # From this height over the smallest count on the union bound is below 1; any height gives a
    # bound.
    height = _find_height(rate, labels)
    if height > offset:
        return Decimal(1)
    # The noise of the threshold brings it below that height, or it does not: then M r^height/(1 +
    # r) each.
    below = up.divide(_bound_power(rate, offset - height + 1)[1], above)
    each = up.multiply(up.multiply(Decimal(labels), power), share)
    return min(
        Decimal(1), up.add(below, up.multiply(each, up.add(Decimal(offset - height + 1), rest)))
    )


def bound_laplace_alone(rate: Fraction, offset: int, labels: int) -> Decimal:
    """Return an upper bound of the failure with discrete Laplace noise on labels alone."""
    return _bound_independent(DiscreteLaplace(rate).at_least(offset)(_DIGITS)[1], labels)


def bound_gaussian_alone(rate: Fraction, offset: int, labels: int) -> Decimal:
    """Return an upper bound of the failure with discrete Gaussian noise on labels alone."""
    wide = rate < _SUMMED_RATE
    return _bound_independent(
        _bound_wide_tail(rate, offset) if wide else _sum_tail(rate, offset), labels
    )


def _sum_tail(rate: Fraction, offset: int) -> Decimal:
    """Return an upper bound of P(X >= offset), X discrete Gaussian, summed term by term."""
    down, up = contexts(_DIGITS)
    total, x = Decimal(0), offset
    while True:
        weight = _bound_power(rate, x * x)[1]
        # From x on each weight is at most e^(-rate (2x + 1)) times the one before.
        rest = up.divide(weight, down.subtract(1, exp_bounds(rate * (2 * x + 1), _DIGITS)[1]))
        if rest <= up.multiply(total, _NEGLIGIBLE):
            return min(Decimal(1), up.divide(up.add(total, rest), _add_weights(rate)))
        total, x = up.add(total, weight), x + 1


@lru_cache(maxsize=64)
def _add_weights(rate: Fraction) -> Decimal:
    """Return a lower bound of the sum of e^(-rate x^2) over all whole numbers."""
    down, _ = contexts(_DIGITS)
    # At least sqrt(pi/rate) at every rate [Poisson summation], which is all of it where the law is
    # wide.
    if rate < _WIDE_RATE:
        return down.sqrt(down.divide(_PI, ratio_bounds(rate, _DIGITS)[1]))
    total, x, weight = Decimal(1), 1, Decimal(1)
    while weight > _NEGLIGIBLE:
        weight = exp_bounds(rate * x * x, _DIGITS)[0]
        total, x = down.add(total, down.multiply(2, weight)), x + 1
    return total


def _bound_wide_tail(rate: Fraction, offset: int) -> Decimal:
    """Return erfc(x)/2, x = sqrt(rate) (offset - 1/2), rounded up.

    A bound where e^(-rate t^2) is convex.

    Each weight is at most the integral over the unit interval around it, from the second half of
    which the function is convex.
    """
    down, up = contexts(_DIGITS)
    edge = Fraction(2 * offset - 1, 2)
    # Convex from 1/sqrt(2 rate) on; below that the tail is above 0.15, and 1 will do.
    if 2 * rate * edge * edge < 1 or edge <= 0:
        return Decimal(1)
    square = ratio_bounds(rate * edge * edge, _DIGITS)
    x = down.sqrt(square[0])
    # erfc(x) = e^(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))): every second
    # convergent is below the fraction, so that its inverse is above.
    fraction = x
    for level in range(_LEVELS, 0, -1):
        fraction = down.add(x, down.divide(Decimal(level), down.multiply(2, fraction)))
    inverse = up.divide(1, fraction)
    tail = up.divide(
        up.multiply(exp_bounds(rate * edge * edge, _DIGITS)[1], inverse), down.sqrt(_PI)
    )
    return up.multiply(up.divide(tail, 2), 1 + _LOST)


def _bound_independent(chance: Decimal, labels: int) -> Decimal:
    """Return an upper bound of the probability that one of `labels` independent labels fails."""
    down, up = contexts(_DIGITS)
    # The probability rises with the chance of each, so that an upper bound may stand for it
    # exactly.
    return bound_any(labels, lambda m: (_power(down, chance, m), _power(up, chance, m)))


# ---- the least threshold -------------------------------------------------------------------------

Law = Geometric | DiscreteLaplace | DiscreteGaussian
_BOUNDS: dict[tuple[type, bool], Callable[[Fraction, int, int], Decimal]] = {
    (Geometric, True): bound_exponential,
    (DiscreteLaplace, True): bound_laplace,
    (DiscreteLaplace, False): bound_laplace_alone,
    (DiscreteGaussian, False): bound_gaussian_alone,
}


@lru_cache(maxsize=256)
def least_offset(law: Law, labels: int, delta: Fraction, owner: str, *, noisy: bool) -> int:
    """Return how many steps the threshold must lie above the smallest count that takes part.

    Parameters
    ----------
    law : Geometric, DiscreteLaplace or DiscreteGaussian
        The noise of each label.
    labels : int
        How many labels only one of two neighbors has, at most.
    delta : Fraction
        In (0, 1): how likely one of them may be released.
    owner : str
        Who asks, for the message.
    noisy : bool
        Whether the threshold has noise of the same law.

    Returns
    -------
    int
        The least whole number of at least 0 whose bound is at most `delta`.

    Raises
    ------
    InvalidParameter
        If it is beyond 2^52.
    """
    bound = _BOUNDS[type(law), noisy]

    # As a decimal, rounded down: a bound at a large rate is one with billions of zeros, and no
    # fraction.
    allowed = ratio_bounds(delta, _DIGITS)[0]

    def enough(offset: int) -> bool:
        return bound(law.rate, offset, labels) <= allowed

    high = _guess_offset(law, labels, delta)
    # Up in steps that double, until it is enough; then down to the last one that is.
    low, width = high - 1, 1
    while high <= CLAMP and not enough(high):
        low, high, width = high, high + width, 2 * width
    if high > CLAMP:
        raise InvalidParameter(
            f"{owner} must have a threshold of at most 2^52. Raise epsilon (rho) or delta, or let "
            "a unit count for fewer labels."
        )
    width = 1
    while low >= 0 and enough(low):
        low, high, width = low - width, low, 2 * width
    low = max(low, -1)
    # Whatever the search does, the bound was asked for what is returned.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _guess_offset(law: Law, labels: int, delta: Fraction) -> int:
    """Return about the offset at which so many labels fail with this probability."""
    # Decimals, because a delta may be below all floats.
    down, _ = contexts(20)
    wanted = Fraction(down.ln(ratio_bounds(delta / labels, 20)[0])) * -1
    if isinstance(law, DiscreteGaussian):
        # e^(-rate g^2) = delta/labels.
        return math.isqrt(max(0, math.floor(wanted / law.rate)))
    return max(0, math.floor(wanted / law.rate))


def _find_height(rate: Fraction, labels: int) -> int:
    """Return about the height from which on so many labels are expected to pass less than once."""
    down, _ = contexts(30)
    logarithm = Fraction(down.ln(Decimal(labels)))
    return max(0, round(logarithm / rate))


def _bound_power(rate: Fraction, steps: int) -> Bounds:
    return exp_bounds(rate * steps, _DIGITS) if steps else (Decimal(1), Decimal(1))


def _power(context: Context, base: Decimal, exponent: int) -> Decimal:
    """Return a power by repeated multiplication in one direction of rounding."""
    result, square = Decimal(1), base
    while exponent:
        if exponent % 2:
            result = context.multiply(result, square)
        square, exponent = context.multiply(square, square), exponent // 2
    return result
