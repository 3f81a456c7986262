"""The law of Z, the noise of a question less the threshold's, and what it says of a found answer.

Claim: `at_least` encloses P(Z >= z); `reach` and `lowest` never say more of an answer than the law
does. Proof: docs/proofs/lower-bounds.md. Floats: none; decimals with a bound on each side, at
higher precision until they decide.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, final

from sordino.noise import DiscreteLaplace, Geometric
from sordino.noise.probability import Bounds, contexts, exp_bounds, ratio_bounds
from sordino.releases import HybridTop, UnlistedTop

Law = Geometric | DiscreteLaplace

# In decimal digits, doubled from the first number to the last one until the sign is certain.
_FIRST_PRECISION, _LAST_PRECISION = 40, 640
_STEPS_BEYOND_CLAMP = 1 << 54  # in steps: no clamped answer lies so far below its threshold
_UNIT_BOUNDS: Bounds = (Decimal(1), Decimal(1))
# Right for every probability: for where too few digits say nothing.
_ANY_PROBABILITY: Bounds = (Decimal(0), Decimal(1))


@final
@dataclass(frozen=True)
class Difference:
    """The law of Z = X - Y, independent noise X of a question and Y of the threshold, in steps."""

    query: Law
    threshold: Law

    def at_least(self, z: int, digits: int = _FIRST_PRECISION) -> Bounds:
        """Return bounds of P(Z >= z)."""
        return _difference_tail(self, z, digits)

    def reach(self, wrong: Fraction) -> int:
        """Return the smallest z with P(Z > z) <= wrong, for wrong in (0, 1)."""
        return _difference_quantile(self, wrong)

    def lowest(self, lift: int, wrong: Fraction) -> int | None:
        """Return the lowest height of a found answer that its lift does not refute.

        Of all lifts that such an answer has, a share `wrong` in (0, 1) may refute its true height.

        The height of an answer is how far it lies above its threshold, the lift how far its noisy
        value lies above the noisy threshold: height plus Z, which is at least 0 for an answer that
        is found. A height x is refuted if P(Z >= lift - x | Z >= -x) <= wrong; if it is, all lower
        ones are. None if no height is refuted.
        """

        def stands(x: int) -> bool:
            return not _is_certainly_not_negative(
                lambda digits: self._spare(lift - x, -x, wrong, digits)
            )

        # A lift that even the lowest answers have more often than that: as far below as one likes
        # it is the slowest tail that is left.
        slowest = (
            self.query.rate
            if self.threshold.name == "exponential"
            else min(self.query.rate, self.threshold.rate)
        )
        if (
            exp_bounds(slowest * lift, _FIRST_PRECISION)[0]
            > ratio_bounds(wrong, _FIRST_PRECISION)[1]
        ):
            return None
        high = lift - self.reach(
            wrong
        )  # stands: P(Z >= lift - high) > wrong, and a condition only raises it
        low, width = high - 1, 1
        # Downward in steps that double, until a height is refuted: the border lies between the last
        # two.
        while stands(low):
            if low < -_STEPS_BEYOND_CLAMP:
                return None
            low, high, width = low - 2 * width, low, 2 * width
        # Bisection is right as below a refuted height all are refuted (docs/proofs/lower-bounds.md,
        # Lemma 1).
        return _bisect_steps(stands, low, high)

    def _spare(self, z: int, given: int | None, wrong: Fraction, digits: int) -> Bounds:
        """Return bounds of wrong * P(Z >= given) - P(Z >= z).

        If `given` is None, 1 stands in place of P(Z >= given).
        """
        enclosed = _IntervalArithmetic(digits)
        known = _UNIT_BOUNDS if given is None else self.at_least(given, digits)
        return enclosed.less(
            enclosed.times(ratio_bounds(wrong, digits), known), self.at_least(z, digits)
        )


def differences(found: Any) -> tuple[Difference, ...]:
    """Return the law for each branch of what was found by a noisy threshold."""
    mechanism = found.mechanism
    if isinstance(
        found, HybridTop | UnlistedTop
    ):  # the threshold competes with the noise of an item
        return (Difference(mechanism.noise, mechanism.noise),)
    # One law for each branch, in the order of the numbers of the branches.
    laws = getattr(mechanism, "branch_noise", None) or (mechanism.noise,)
    return tuple(Difference(law, mechanism.threshold_noise) for law in laws)


@lru_cache(maxsize=1 << 12)
def _difference_tail(law: Difference, z: int, digits: int) -> Bounds:
    if z >= 0:
        return _upper_tail(law.query, law.threshold, z, digits)
    # P(Z >= z) = 1 - P(-Z >= 1 - z), and -Z is such a difference, too.
    return _IntervalArithmetic(digits).less(
        _UNIT_BOUNDS, _upper_tail(law.threshold, law.query, 1 - z, digits)
    )


@lru_cache(maxsize=256)
def _difference_quantile(law: Difference, wrong: Fraction) -> int:
    def enough(z: int) -> bool:
        # The private method is of this module.
        return _is_certainly_not_negative(
            lambda digits: law._spare(z + 1, None, wrong, digits)  # noqa: SLF001
        )

    # P(Z > z) falls with z: the interval is widened until it holds the border, then halved.
    low, high, width = -1, 0, 1
    while enough(low):
        low, high, width = low - 2 * width, low, 2 * width
    while not enough(high):
        low, high, width = high, high + 2 * width, 2 * width
    return _bisect_steps(enough, low, high)


def _is_certainly_not_negative(spare: Callable[[int], Bounds]) -> bool:
    """Return whether a number is certainly at least 0; what no number of digits decides is not."""
    digits = _FIRST_PRECISION
    while digits <= _LAST_PRECISION:
        low, high = spare(digits)
        # The bounds decide as soon as both have the same sign.
        if low >= 0 or high < 0:
            return low >= 0
        # The bounds have different signs. With more digits they are narrower.
        digits *= 2
    return False


def _bisect_steps(true: Callable[[int], bool], low: int, high: int) -> int:
    """Return a number in (low, high] where it is true and was not true one before.

    It is not true at `low`, and true at `high`.
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if true(middle) else (middle, high)
    return high


def _upper_tail(first: Law, second: Law, z: int, digits: int) -> Bounds:
    """Return bounds of P(X - Y >= z) for z >= 0, X of the first and Y of the second law.

    A discrete Laplace variable is a geometric one with probability 1/(1 + r), else -1 less a
    geometric one. If X < 0 <= Y, nothing is left; the other signs give differences and a sum of
    geometric variables.
    """
    enclosed = _IntervalArithmetic(digits)
    # By signs, as in docs/proofs/lower-bounds.md, "The law of Z".
    above, below = enclosed.signs(first), enclosed.signs(second)
    total = enclosed.times(
        enclosed.times(above[0], below[0]), enclosed.difference(first.rate, second.rate, z)
    )
    if second.name == "laplace":
        total = enclosed.plus(
            total,
            enclosed.times(
                enclosed.times(above[0], below[1]), enclosed.sum(first.rate, second.rate, z - 1)
            ),
        )
        if first.name == "laplace":
            both = enclosed.times(above[1], below[1])
            total = enclosed.plus(
                total, enclosed.times(both, enclosed.difference(second.rate, first.rate, z))
            )
    return total


@lru_cache(maxsize=1 << 12)
def _enclose_tail_power(rate: Fraction, n: int, digits: int) -> Bounds:
    return exp_bounds(rate * n, digits) if n else _UNIT_BOUNDS


@final
class _IntervalArithmetic:
    """Arithmetic with bounds of numbers, and tails of two geometric variables.

    No number is negative where it is multiplied.
    """

    def __init__(self, digits: int) -> None:
        self._digits = digits
        self._down, self._up = contexts(digits)

    def plus(self, a: Bounds, b: Bounds) -> Bounds:
        """Return bounds of a + b."""
        return self._down.add(a[0], b[0]), self._up.add(a[1], b[1])

    def less(self, a: Bounds, b: Bounds) -> Bounds:
        """Return bounds of a - b."""
        return self._down.subtract(a[0], b[1]), self._up.subtract(a[1], b[0])

    def times(self, a: Bounds, b: Bounds) -> Bounds:
        """Return bounds of a b."""
        return self._down.multiply(a[0], b[0]), self._up.multiply(a[1], b[1])

    def over(self, a: Bounds, b: Bounds) -> Bounds:
        """Return bounds of a / b, for b > 0."""
        return self._down.divide(a[0], b[1]), self._up.divide(a[1], b[0])

    def power(self, rate: Fraction, n: int) -> Bounds:
        """Return bounds of e^(-rate n)."""
        return _enclose_tail_power(rate, n, self._digits)

    def signs(self, law: Law) -> tuple[Bounds, Bounds]:
        """Return bounds of the probabilities of 0 and more, and of less."""
        if law.name == "exponential":
            return _UNIT_BOUNDS, (Decimal(0), Decimal(0))
        r = self.power(law.rate, 1)
        return self.over(_UNIT_BOUNDS, self.plus(_UNIT_BOUNDS, r)), self.over(
            r, self.plus(_UNIT_BOUNDS, r)
        )

    def difference(self, first: Fraction, second: Fraction, z: int) -> Bounds:
        """Return bounds of P(G - H >= z), z >= 0, for geometric variables of these rates.

        It is (1 - s) r^z / (1 - r s).
        """
        s, both = self.power(second, 1), self.power(first + second, 1)
        return self.over(
            self.times(self.less(_UNIT_BOUNDS, s), self.power(first, z)),
            self.less(_UNIT_BOUNDS, both),
        )

    def sum(self, first: Fraction, second: Fraction, n: int) -> Bounds:
        """Return bounds of P(G + H >= n) for geometric variables of these rates.

        It is s^n + (1 - s) (r^n + r^(n-1) s + ... + r s^(n-1)).

        The sum in brackets is r (r^n - s^n)/(r - s), or n r^n if the rates agree.
        """
        if n <= 0:
            return _UNIT_BOUNDS
        # The sum does not depend on the order of the rates. In this order no difference below is
        # negative.
        slow, fast = min(first, second), max(first, second)
        r, s, r_n, s_n = (
            self.power(slow, 1),
            self.power(fast, 1),
            self.power(slow, n),
            self.power(fast, n),
        )
        if slow == fast:
            terms = self.times((Decimal(n), Decimal(n)), r_n)
        else:
            apart, ahead = self.less(r, s), self.less(r_n, s_n)
            if apart[0] <= 0 or ahead[0] < 0:  # too few digits to tell them apart
                return _ANY_PROBABILITY
            terms = self.times(r, self.over(ahead, apart))
        return self.plus(s_n, self.times(self.less(_UNIT_BOUNDS, s), terms))
