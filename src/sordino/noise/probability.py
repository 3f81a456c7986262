"""Probabilities such as e^-x and 1/(1+e^x), x rational, with as many exact bits as are asked for.

Claim: `bits(b)` is floor(p * 2^b) exactly. Proof: docs/proofs/samplers.md. Floats: none; correctly
rounded decimal arithmetic with a bound on each side, repeated at higher precision until both sides
agree.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import final

Bounds = tuple[Decimal, Decimal]
Enclosure = Callable[[int], Bounds]
"""A function from a number of digits to numbers just below and just above the probability."""


def contexts(digits: int) -> tuple[Context, Context]:
    """Return arithmetic of that many digits that rounds down, and one that rounds up.

    Exponents are practically unlimited.
    """
    # Nothing is trapped: an underflow is a value here, not an error.
    down = Context(prec=digits, rounding=ROUND_FLOOR, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    up = down.copy()
    up.rounding = ROUND_CEILING
    return down, up


def ratio_bounds(x: Fraction, digits: int) -> Bounds:
    """Return decimals of `digits` digits just below and just above the rational number `x`."""
    down, up = contexts(digits)
    top, bottom = Decimal(x.numerator), Decimal(x.denominator)
    return down.divide(top, bottom), up.divide(top, bottom)


def exp_bounds(x: Fraction, digits: int) -> Bounds:
    """Return decimals just below and just above e^-x, x >= 0."""
    down, up = contexts(digits)
    low, high = ratio_bounds(-x, digits)
    # The exponential is correctly rounded, so one step further out encloses it.
    return max(down.next_minus(down.exp(low)), Decimal(0)), min(
        up.next_plus(up.exp(high)), Decimal(1)
    )


def logistic_bounds(x: Fraction, digits: int) -> Bounds:
    """Return decimals just below and just above 1/(1 + e^x) = e^-x/(1 + e^-x), x >= 0."""
    down, up = contexts(digits)
    low, high = exp_bounds(x, digits)  # t/(1+t) rises with t
    return down.divide(low, up.add(1, low)), up.divide(high, down.add(1, high))


@final
class Probability:
    """A number in [0, 1] given by an enclosure that tightens.

    Its digits are computed once and kept.
    """

    __slots__ = ("_enclosure", "_known")

    def __init__(self, enclosure: Enclosure) -> None:
        self._enclosure = enclosure
        # How many digits, and the digits: one value, so that threads never see half of a change.
        self._known = (0, 0)

    @classmethod
    def exp(cls, x: Fraction) -> Probability:
        """Return e^-x for a rational x >= 0."""
        return _exp_probability(x)

    @classmethod
    def logistic(cls, x: Fraction) -> Probability:
        """Return 1/(1 + e^x) for a rational x >= 0."""
        return _logistic_probability(x)

    def bits(self, b: int) -> int:
        """Return floor(p * 2^b), exactly; `b` >= 1, and p = 1 gives 2^b."""
        length, known = self._known
        if b > length:
            length, known = self._known = b, self._computed(b)
        return known >> (length - b)

    def word(self, start: int, width: int) -> int:
        """Return the binary digits `start` to `start + width` after the point, as a whole number.

        It is below 2^width (p < 1).
        """
        return self.bits(start + width) & ((1 << width) - 1)

    def _computed(self, b: int) -> int:
        # 31/100 decimal digits are more than one binary digit; 20 more make a second round rare.
        digits = b * 31 // 100 + 20
        while True:
            # With so many digits a bound times 2^b is exact.
            down, up = contexts(digits + b * 31 // 100 + 5)
            low, high = self._enclosure(digits)
            scale = Decimal(1 << b)
            floor_low = int(down.multiply(low, scale).to_integral_value(ROUND_FLOOR))
            # Both ends have the same first digits, hence so has the number between them.
            if floor_low == int(up.multiply(high, scale).to_integral_value(ROUND_FLOOR)):
                return max(floor_low, 0)
            if low == high:  # a terminating number: the enclosure is exact
                return floor_low
            # The bounds lie on two sides of a whole number: tighter ones decide.
            digits *= 2


@lru_cache(maxsize=4096)
def _exp_probability(x: Fraction) -> Probability:
    """Return e^-x, x >= 0: the same object for the same x, so that digits are computed once."""
    # Bounds of e^0 = 1 would never agree on its digits: one of them lies below 1.
    return (
        Probability(lambda digits: exp_bounds(x, digits))
        if x
        else Probability(lambda _: (Decimal(1), Decimal(1)))
    )


@lru_cache(maxsize=4096)
def _logistic_probability(x: Fraction) -> Probability:
    """Return the probability 1/(1 + e^x), x >= 0.

    It is the same object for the same x, so that digits are computed once.
    """
    return (
        Probability(lambda digits: logistic_bounds(x, digits))
        if x
        else Probability(lambda _: (Decimal("0.5"),) * 2)
    )
