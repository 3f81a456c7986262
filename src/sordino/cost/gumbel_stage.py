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

from sordino.constraints import NOT_NEGATIVE, TRUTH, Number
from sordino.cost.base import FirmCost
from sordino.cost.conversion import raise_delta, round_up, solve_curve
from sordino.cost.pure import Pure
from sordino.cost.range import Range
from sordino.cost.rho import certify_rho, pure_rho, shorten_up

# Near order 1 a moment is 1 and a difference of some 10^-31, which leaves 19 digits of it.
_MOMENT_CONTEXT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
# More than what is lost by decimals and by the last step to a float.
_STAGE_ROUNDING = 1e-12
# Outside, the interval of the loss says what is said.
_SMALLEST_RATE, _LARGEST_RATE = 1e-9, 100.0
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
        How far one answer moves at most, times the rate of the noise; at least 0, in nats.
    monotone : bool
        Whether between neighbors all answers of a stage move in the same direction, or none does.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite, or `monotone` is not True or False.

    Examples
    --------
    >>> from sordino import cost
    >>> stage = cost.GumbelStage(epsilon=0.05, monotone=True)
    >>> stage.pure(), round(cost.repeat(stage, 20).epsilon(1e-6), 4)
    (Fraction(1, 10), 0.6661)
    """

    notion = "gumbel-stage"
    epsilon_: Fraction
    monotone: bool

    def __init__(self, *, epsilon: Number, monotone: bool) -> None:
        self._set(
            epsilon_=NOT_NEGATIVE("GumbelStage.epsilon", epsilon),
            monotone=TRUTH("GumbelStage.monotone", monotone),
        )

    @property
    def interval(self) -> Pure | Range:
        """The interval of the loss.

        It is [-epsilon, 2 epsilon] or its mirror image for monotone answers, for others 3 epsilon
        either way.
        """
        if self.monotone:
            return Range(low=self.epsilon_, high=2 * self.epsilon_)
        return Pure(epsilon=3 * self.epsilon_)

    def pure(self) -> Fraction:
        """Return 2 epsilon for monotone answers, else 3 epsilon."""
        return (2 if self.monotone else 3) * self.epsilon_

    def zcdp(self) -> Fraction:
        """Return the smallest rho of the curve, within 1e-5 of itself, rounded up.

        For small epsilons it is about .228 epsilon^2 for monotone answers, and .514 epsilon^2 for
        others.
        """
        return _stage_rho(*self.epsilon_.as_integer_ratio(), self.monotone)

    # Epsilon is rounded up: a larger one allows every list that a smaller one does.

    def _bound_divergence(self, order: float) -> float:
        return stage_rdp(round_up(self.epsilon_), self.monotone, order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        rate, monotone = round_up(self.epsilon_), self.monotone
        share = math.cbrt(left / _curve_scale(rate, monotone))
        return solve_curve(
            lambda epsilon: stage_delta(rate, monotone, epsilon),
            left,
            top,
            _largest_loss(rate, monotone),
            share,
            power=3,
        )

    def _bound_delta(self, least: float) -> float:
        return stage_delta(round_up(self.epsilon_), self.monotone, least)


# ---- delta ---------------------------------------------------------------------------------------


def stage_delta(rate: float, monotone: bool, epsilon: float) -> float:
    """Return the largest delta at `epsilon` >= 0, for the worse order of neighbors, rounded up."""
    left = epsilon - _largest_loss(rate, monotone)
    if left >= 0:
        return 0.0
    if math.isinf(left):
        return 1.0
    short = -math.expm1(left / 3)
    # Its cube alone would leave the floats.
    return raise_delta(short * (short * (short * _curve_scale(rate, monotone))))


def _largest_loss(rate: float, monotone: bool) -> float:
    return (2 if monotone else 3) * rate


def _curve_scale(rate: float, monotone: bool) -> float:
    """Return 1/(1 - e^-rate)^2 for monotone answers, and 1/(1 + e^-rate) of it for others."""
    scale = 1 / math.expm1(-rate) ** 2 if rate > 1e-150 else 1e300
    return scale if monotone else scale / (1 + math.exp(-rate))


# ---- moments -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def stage_rdp(rate: float, monotone: bool, alpha: float) -> float:
    """Return the largest divergence of order `alpha` > 1 over all lists, rounded up.

    `rate` is epsilon.
    """
    top = _largest_loss(rate, monotone)
    if not _SMALLEST_RATE < rate < _LARGEST_RATE or alpha * rate > _LARGEST_REACH:
        interval = (
            GumbelStage(epsilon=Fraction(rate), monotone=monotone).interval
            if rate < math.inf
            else None
        )
        return top if interval is None else interval.rdp(alpha)
    # The difference of the two floats is exact.
    reached = max(alpha, 1 + _LEAST_ORDER)
    order = reached - 1
    # "Smaller answers first", and where answers move one way the other order, too; for others they
    # are equal.
    logs = [_raise_log_moment(rate, monotone, order)]
    if monotone:
        logs.append(_raise_log_moment(rate, monotone, -reached))
    return min(top, max(logs) / order * (1 + _STAGE_ROUNDING))


def _raise_log_moment(rate: float, monotone: bool, k: float) -> float:
    """Return the log of the largest mean of (dP/dQ)^k under P, k > 0 or k < -1, rounded up."""
    width = rate if monotone else 2 * rate
    reach, order = abs(k) * width, k if k > 0 else -1 - k
    if (
        width <= _QUICK_WIDTH
        and reach <= _QUICK_REACH
        and order >= _QUICK_ORDER
        and (width >= _LEAST_WIDTH or reach >= _LEAST_REACH)
    ):
        # "Floats" on the proof page.
        found, lost = _quick_log_moment(rate, monotone, k), _QUICK_ERROR * (1 + reach)
        if lost <= _QUICK_SHARE * found:
            return found + lost
    return float(_decimal_log_moment(Decimal(rate), monotone, Decimal(k))) * (1 + _STAGE_ROUNDING)


def _quick_log_moment(rate: float, monotone: bool, k: float) -> float:
    """Return what `_decimal_log_moment` does, in floats.

    The formulas are the same, by `expm1` and `log1p`.
    """
    width, start = (rate, 0.0) if monotone else (2 * rate, rate)
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


def _decimal_log_moment(rate: Decimal, monotone: bool, k: Decimal) -> Decimal:
    """Return the logarithm of the largest mean of (dP/dQ)^k under P, k > 0 or k < -1."""
    # Every step is one of this context: an operator would round as the caller's thread says.
    c = _MOMENT_CONTEXT
    # General answers are monotone ones with twice the rate whose ratio begins at e^rate ("A game on
    # a line").
    width = rate if monotone else c.multiply(2, rate)
    b, start = c.exp(width), Decimal(0) if monotone else rate
    first = c.exp(start)
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
    # The loss of general answers lies one rate lower than that of the monotone ones.
    return c.subtract(c.ln(moment), c.multiply(k, start))


@lru_cache(maxsize=1024)
def _stage_rho(numerator: int, denominator: int, monotone: bool) -> Fraction:
    """Return the smallest rho that is proved for a stage.

    Kept, because it takes some milliseconds.
    """
    stage = GumbelStage(epsilon=Fraction(numerator, denominator), monotone=monotone)
    rate = round_up(stage.epsilon_)
    if not _SMALLEST_RATE < rate < _LARGEST_RATE:
        return stage.interval.zcdp()
    top = _largest_loss(rate, monotone)
    found = shorten_up(certify_rho(lambda alpha: stage_rdp(rate, monotone, alpha), top))
    # That of the interval is a search of its own, for hardly less anywhere; that of the epsilon is
    # a formula.
    return min(found, pure_rho(stage.pure()))
