"""Where the share of one total in two lies, from both with noise: an interval by inverting a test.

Claim: the share u/(u + v) of whole u, v >= 0, u + v > 0, is between the ends with at least the
stated confidence, for every number of records. Proof: docs/proofs/clipped-mean.md, "Intervals".
Floats: distances are exact fractions; the tail of two variables is rounded in its last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import final

from sordino.noise import DiscreteGaussian, DiscreteLaplace

_FULL_SHARE = 1 << 64  # ends are whole multiples of 2^-64


@final
@dataclass(frozen=True)
class ShareTest:
    """Which shares are refuted by two noisy totals.

    Attributes
    ----------
    first, second : int
        The totals with independent noise, in steps.
    law : DiscreteLaplace or DiscreteGaussian
        Of the noise on each.
    rounded : int
        By how many steps a total may have been rounded down, rounded up.
    wrong : float
        With which probability the true share may be refuted.
    one_sided : bool
        Refute only shares that are too small.
    """

    first: int
    second: int
    law: DiscreteLaplace | DiscreteGaussian
    rounded: int
    wrong: float
    one_sided: bool

    def refutes(self, low: int, high: int) -> bool:
        """Return whether all shares from `low` to `high`, in units of 2^-64, are refuted.

        A share is refuted if under it the totals would be too far apart.
        """
        # The distance is linear in the share, so over a range of shares it is extreme at its ends.
        total, start = self.first + self.second, self.first * _FULL_SHARE
        one, other = start - low * total, start - high * total
        least, most = (one, other) if one < other else (other, one)
        away = least if self.one_sided or least > 0 else -most
        distance = away / _FULL_SHARE - self._slack
        if distance <= 0:
            return False
        # The tail rises with both scales, so the larger ones of the range make the test refute
        # less.
        left = _FULL_SHARE - low
        wider, narrow = max(left, high) / _FULL_SHARE, min(left, high) / _FULL_SHARE
        return self._tail(distance, wider, narrow) <= (
            2 * self.wrong if self.one_sided else self.wrong
        )

    @cached_property
    def _tail(self) -> Callable[[float, float, float], float]:
        """The tail for this law: a thousand cells are asked about."""
        return tail_of(self.law)

    @cached_property
    def _slack(self) -> int:
        """How many steps noise and rounding may be away from continuous noise on exact totals."""
        # Both laws are drawn together with continuous ones: Laplace noise less than a step away,
        # Gaussian noise a step and a half at most, which is rounded up.
        return (2 if isinstance(self.law, DiscreteGaussian) else 1) + self.rounded

    def ends(self) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest share that is not refuted, rounded outward.

        They are 0 and 1 where the totals are nothing but noise.
        """
        if (
            self.first + self.second <= 0
        ):  # nothing but noise: the share at which they balance means nothing
            return Fraction(0), Fraction(1)
        low, high = self._end(upper=False), self._end(upper=True)
        # All shares are refuted, the true one among them. Any answer is as wrong, and this one is
        # sensible.
        if low is None or high is None:
            return replace(self, first=max(0, self.first), second=max(0, self.second)).ends()
        return Fraction(low, _FULL_SHARE), Fraction(high, _FULL_SHARE)

    def _end(self, *, upper: bool) -> int | None:
        """Return the outer end of the outermost cell of width 2^-64 not refuted as a whole."""
        # Halving finds the outermost cell that stands. It needs no monotony of what is refuted
        # (docs/proofs/clipped-mean.md, "Intervals").
        cells = [(0, _FULL_SHARE)]
        while cells:
            low, high = cells.pop()
            if self.refutes(low, high):
                continue
            if high - low == 1:
                return high if upper else low
            middle = (low + high) // 2
            halves = [(low, middle), (middle, high)]
            cells += halves if upper else halves[::-1]  # the outer one is looked at first
        return None


def tail(law: DiscreteLaplace | DiscreteGaussian, t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two continuous variables of the rate of the law.

    This takes t >= 0 and a >= c >= 0, a > 0.
    """
    return tail_of(law)(t, a, c)


def tail_of(law: DiscreteLaplace | DiscreteGaussian) -> Callable[[float, float, float], float]:
    """Return `tail` for one law."""
    rate = float(law.rate)
    if isinstance(law, DiscreteGaussian):
        root = math.sqrt(rate)
        # The difference is normal, with a variance of (a^2 + c^2) / (2 rate).
        return lambda t, a, c: math.erfc(t * root / math.hypot(a, c))
    return lambda t, a, c: laplace_tail(t * rate, a, c)


def laplace_tail(t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two standard Laplace variables, t >= 0 and a >= c >= 0, a > 0.

    It is (a^2 e^(-t/a) - c^2 e^(-t/c)) / (a^2 - c^2), written without differences of what may be
    equal.
    """
    if c == 0:
        return math.exp(-t / a)
    x = (a - c) * t / (a * c)
    mean = -math.expm1(-x) / x if x > 0 else 1.0  # of e^-y over 0 < y < x
    return math.exp(-t / a) * (1 + c * t / (a * (a + c)) * mean)
