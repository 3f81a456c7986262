"""One stage of the sparse vector with Gumbel noise.

A stage is a threshold with its questions, up to a first positive.

Claim: its largest Rényi divergence at every order and its largest delta at every epsilon, over all
lists and adaptive questions, are these closed forms; lists of many small weights come as near as
one likes. Proof: docs/proofs/gumbel-stage.md. Floats: moments whose error is bounded and added,
where that is small; else decimals of 60 digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import final

from sordino.constraints import NOT_NEGATIVE, PROPORTION, Number
from sordino.cost.base import FirmCost
from sordino.cost.conversion import digits, raise_delta, round_up, solve_curve
from sordino.cost.range import Pure, Range
from sordino.cost.rho import certify_rho, pure_rho, shorten_up
from sordino.errors import InvalidParameter

HALF = Fraction(1, 2)

# Near order 1 a moment is 1 and a difference of some 10^-31, which leaves 19 digits of it.
_MOMENT_CONTEXT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
# More than what is lost by decimals and by the last step to a float.
_STAGE_ROUNDING = 1e-12
# Outside, the interval of the loss says what is said.
_SMALLEST_WIDTH, _LARGEST_WIDTH = 1e-9, 200.0
# Beyond this order times epsilon a moment has so many digits that the largest loss is said instead.
_LARGEST_REACH = 1e5
# Below this order less 1 the value there is said: a divergence never falls with the order.
_LEAST_ORDER = 1e-12
# Where the logarithm of a moment may be a float: the width is at most so large, and so is k times
# the width; the order less 1 is at least so large, and so is one of the first two.
_QUICK_WIDTH, _QUICK_REACH = 8.0, 64.0
_QUICK_ORDER, _LEAST_WIDTH, _LEAST_REACH = 2.0**-8, 2.0**-11, 2.0**-8
# Its error is at most this, times 1 and k times the width; it serves where that is a small share of
# it.
_QUICK_ERROR, _QUICK_SHARE = 2.0**-42, 2.0**-22


@final
@dataclass(frozen=True, eq=False, repr=False)
class GumbelStage(FirmCost):
    """What a threshold with Gumbel noise costs with its questions.

    Only the first index above is released. Threshold and questions have Gumbel noise of one rate,
    no noisy answer is released, and the next stage has a new threshold. `GumbelSparseVector` pays
    it once for each positive that it may find. Every view is the largest over all lists, in both
    orders of the neighbors.

    Parameters
    ----------
    epsilon : number
        The length of the interval in which each answer moves, times the rate of the noise; at least
        0, in nats.
    start : number
        Where in this interval no move lies, as a share of it, in [0, 1/2]: 0 for answers that move
        one way (`monotone`), 1/2 for answers that move as far in either direction.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite, or start does not lie in [0, 1/2].

    Examples
    --------
    >>> from sordino import cost
    >>> stage = cost.GumbelStage(epsilon=0.05)
    >>> stage.pure(), round(cost.repeat(stage, 20).epsilon(1e-6), 4)
    (Fraction(1, 10), 0.6661)
    """

    notion = "gumbel-stage"
    epsilon_: Fraction
    start: Fraction = Fraction(0)

    def __init__(self, *, epsilon: Number, start: Number = 0) -> None:
        self._set(
            epsilon_=NOT_NEGATIVE("GumbelStage.epsilon", epsilon),
            start=PROPORTION("GumbelStage.start", start),
        )
        if self.start > HALF:
            raise InvalidParameter(
                "GumbelStage.start must be at most 1/2, because both orders of the neighbors are "
                f"priced; got {digits(self.start)}. Give 1 - start."
            )

    @classmethod
    def of(cls, moves: Number, *, monotone: bool) -> GumbelStage:
        """Return the cost of answers that move by at most `moves` times the rate, in nats."""
        most = NOT_NEGATIVE("GumbelStage.of.moves", moves)
        return cls(epsilon=most) if monotone else cls(epsilon=2 * most, start=HALF)

    @property
    def interval(self) -> Pure | Range:
        """The interval of the loss.

        It is [-epsilon, 2 epsilon] or its mirror image for answers that move one way, for others
        (2 - start) epsilon either way.
        """
        if self.start == 0:
            return Range(low=self.epsilon_, high=2 * self.epsilon_)
        return Pure(epsilon=self.pure())

    def pure(self) -> Fraction:
        """Return (2 - start) epsilon."""
        return (2 - self.start) * self.epsilon_

    def zcdp(self) -> Fraction:
        """Return the smallest rho of the curve, within 1e-5 of itself, rounded up.

        For small epsilons it is about .228 epsilon^2 for answers that move one way, and .129
        epsilon^2 for those that move as far in either direction.
        """
        return _stage_rho(*self.epsilon_.as_integer_ratio(), self.start)

    # Epsilon is rounded up: a larger one allows every list that a smaller one does.

    def _bound_divergence(self, order: float) -> float:
        return stage_rdp(round_up(self.epsilon_), self.start, order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        width, start = round_up(self.epsilon_), self.start
        share = math.cbrt(left / _curve_scale(width, start))
        return solve_curve(
            lambda epsilon: stage_delta(width, start, epsilon),
            left,
            top,
            _largest_loss(width, start),
            share,
            power=3,
        )

    def _bound_delta(self, least: float) -> float:
        return stage_delta(round_up(self.epsilon_), self.start, least)


# ---- delta ---------------------------------------------------------------------------------------


def stage_delta(width: float, start: Fraction, epsilon: float) -> float:
    """Return the largest delta at `epsilon` >= 0, for the worse order of neighbors, rounded up."""
    left = epsilon - _largest_loss(width, start)
    if left >= 0:
        return 0.0
    if math.isinf(left):
        return 1.0
    short = -math.expm1(left / 3)
    # Its cube alone would leave the floats.
    return raise_delta(short * (short * (short * _curve_scale(width, start))))


def _largest_loss(width: float, start: Fraction) -> float:
    # Multiples of 1 and 1/2 are floats; others are raised by more than their rounding.
    loss = float(2 - start) * width
    return loss if (2 * start).denominator == 1 else loss * (1 + 2.0**-51)


def _curve_scale(width: float, start: Fraction) -> float:
    """Return 1/((1 - e^-width) (1 - e^-(1 - start) width))."""
    if width <= 1e-150:
        return 1e300
    return 1 / (math.expm1(-width) * math.expm1(-float(1 - start) * width))


# ---- moments -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def stage_rdp(width: float, start: Fraction, alpha: float) -> float:
    """Return the largest divergence of order `alpha` > 1 over all lists, rounded up.

    `width` is epsilon.
    """
    top = _largest_loss(width, start)
    if not _SMALLEST_WIDTH < width < _LARGEST_WIDTH or alpha * width > _LARGEST_REACH:
        if math.isinf(width):
            return top
        return GumbelStage(epsilon=Fraction(width), start=start).interval.rdp(alpha)
    # The difference of the two floats is exact.
    reached = max(alpha, 1 + _LEAST_ORDER)
    order = reached - 1
    # "Smaller answers first", and the other order, too; in the middle they are equal.
    logs = [_raise_log_moment(width, start, order)]
    if start != HALF:
        logs.append(_raise_log_moment(width, start, -reached))
    return min(top, max(logs) / order * (1 + _STAGE_ROUNDING))


def _raise_log_moment(width: float, start: Fraction, k: float) -> float:
    """Return the log of the largest mean of (dP/dQ)^k under P, k > 0 or k < -1, rounded up."""
    reach, order = abs(k) * width, k if k > 0 else -1 - k
    if (
        width <= _QUICK_WIDTH
        and reach <= _QUICK_REACH
        and order >= _QUICK_ORDER
        and (width >= _LEAST_WIDTH or reach >= _LEAST_REACH)
    ):
        # "Floats" on the proof page.
        found, lost = _quick_log_moment(width, float(start), k), _QUICK_ERROR * (1 + reach)
        if lost <= _QUICK_SHARE * found:
            return found + lost
    return float(_decimal_log_moment(Decimal(width), start, Decimal(k))) * (1 + _STAGE_ROUNDING)


def _quick_log_moment(width: float, share: float, k: float) -> float:
    """Return what `_decimal_log_moment` does, in floats.

    The formulas are the same, by `expm1` and `log1p`.
    """
    start = share * width
    b, first = math.expm1(width), math.expm1(start)  # both less 1, and so is `stay`
    reach, exponent = k * width, 2 * k + 1
    beta = -math.expm1(-reach) / b
    stay = (k * b + math.expm1(-reach)) / (beta * b * (1 + k))
    log_stay = math.log1p(stay)
    value = math.exp(2 * k * log_stay) * (1 - beta * stay)
    # Both terms of the moment are positive.
    if first <= stay:
        integral = math.exp(exponent * start) * math.expm1(exponent * (log_stay - start)) / exponent
        moment = ((b - stay) * value + math.exp(-reach) * integral) / (b - first)
    else:
        integral = (
            math.exp(exponent * log_stay) * math.expm1(exponent * (start - log_stay)) / exponent
        )
        moment = (stay * value + integral) / first
    return math.log(moment) - k * start


def _decimal_log_moment(width: Decimal, share: Fraction, k: Decimal) -> Decimal:
    """Return the logarithm of the largest mean of (dP/dQ)^k under P, k > 0 or k < -1."""
    # Every step is one of this context: an operator would round as the caller's thread says.
    c = _MOMENT_CONTEXT
    # Answers are moved up until none falls; then the ratio begins at b^share ("A game on a line").
    start = c.divide(c.multiply(width, share.numerator), share.denominator)
    b, first = c.exp(width), c.exp(start)
    falling = c.exp(c.minus(c.multiply(k, width)))  # b^-k
    beta = c.divide(c.subtract(1, falling), c.subtract(b, 1))
    stay = c.divide(c.multiply(k, c.add(1, beta)), c.multiply(beta, c.add(1, k)))
    power = c.exp(c.multiply(c.multiply(2, k), c.ln(stay)))  # stay^(2k)
    value = c.multiply(power, c.subtract(1, c.multiply(beta, c.subtract(stay, 1))))
    exponent = c.add(c.multiply(2, k), 1)
    # The integral of r^(2k) from the start to where the ratio stays.
    integral = c.divide(
        c.subtract(c.multiply(power, stay), c.exp(c.multiply(exponent, start))), exponent
    )
    if first <= stay:
        total = c.add(c.multiply(c.subtract(b, stay), value), c.multiply(falling, integral))
        moment = c.divide(total, c.subtract(b, first))
    else:
        total = c.subtract(c.multiply(c.subtract(stay, 1), value), integral)
        moment = c.divide(total, c.subtract(first, 1))
    # The loss lies so much lower than that of the answers that were moved up.
    return c.subtract(c.ln(moment), c.multiply(k, start))


@lru_cache(maxsize=1024)
def _stage_rho(numerator: int, denominator: int, start: Fraction) -> Fraction:
    """Return the smallest rho that is proved for a stage.

    Kept, because it takes some milliseconds.
    """
    stage = GumbelStage(epsilon=Fraction(numerator, denominator), start=start)
    width = round_up(stage.epsilon_)
    if not _SMALLEST_WIDTH < width < _LARGEST_WIDTH:
        return stage.interval.zcdp()
    top = _largest_loss(width, start)
    found = shorten_up(certify_rho(lambda alpha: stage_rdp(width, start, alpha), top))
    # That of the interval is a search of its own, for hardly less anywhere; that of the epsilon is
    # a formula.
    return min(found, pure_rho(stage.pure()))
