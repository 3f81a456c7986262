"""Where the share of one total in two lies, from both with noise: an interval by inverting a test, exact for every number of records.

Claim: the share u/(u + v) of whole u, v >= 0, u + v > 0, is between the ends with at least the stated confidence. Proof:
docs/proofs/clipped-mean.md, "Intervals".
Floats: distances are exact fractions; the tail of two Laplace variables is rounded in its last digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

_ONE = 1 << 64  # ends are whole multiples of 2^-64


@final
@dataclass(frozen=True)
class ShareTest:
    """Which shares are refuted by two noisy totals.

    Attributes
    ----------
    first, second : int
        The totals with independent discrete Laplace noise, in steps.
    rate : float
        Of the noise, in nats a step.
    slack : int
        How many steps noise and rounding may be away from Laplace noise on exact totals.
    wrong : float
        With which probability the true share may be refuted.
    one_sided : bool
        Refute only shares that are too small.
    """

    first: int
    second: int
    rate: float
    slack: int
    wrong: float
    one_sided: bool

    def refutes(self, low: int, high: int) -> bool:
        """Return whether all shares from `low` to `high`, in units of 2^-64, are refuted: each says that the totals are too far apart."""
        ends = [self.first * _ONE - share * (self.first + self.second) for share in (low, high)]  # linear in the share
        away = min(ends) if self.one_sided or min(ends) > 0 else -max(ends)
        distance = away / _ONE - self.slack
        if distance <= 0:
            return False
        wider, other = max(_ONE - low, high) / _ONE, min(_ONE - low, high) / _ONE
        return tail(distance * self.rate, wider, other) <= (2 * self.wrong if self.one_sided else self.wrong)

    def ends(self) -> tuple[Fraction, Fraction]:
        """Return the smallest and the largest share that is not refuted, rounded outward; 0 and 1 where there is but noise."""
        if self.first + self.second <= 0:  # nothing but noise: the share at which they balance means nothing
            return Fraction(0), Fraction(1)
        low, high = self._end(upper=False), self._end(upper=True)
        if low is None or high is None:  # the true share is refuted, too: any answer is as wrong, and this one is sensible
            return replace(self, first=max(0, self.first), second=max(0, self.second)).ends()
        return Fraction(low, _ONE), Fraction(high, _ONE)

    def _end(self, *, upper: bool) -> int | None:
        """Return the outer end of the outermost cell of width 2^-64 that is not refuted as a whole."""
        cells = [(0, _ONE)]
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


def tail(t: float, a: float, c: float) -> float:
    """Return P(|a X - c Y| > t) for two standard Laplace variables, t >= 0 and a >= c >= 0, a > 0.

    It is (a^2 e^(-t/a) - c^2 e^(-t/c)) / (a^2 - c^2), written without differences of what may be equal.
    """
    if c == 0:
        return math.exp(-t / a)
    x = (a - c) * t / (a * c)
    mean = -math.expm1(-x) / x if x > 0 else 1.0  # of e^-y over 0 < y < x
    return math.exp(-t / a) * (1 + c * t / (a * (a + c)) * mean)
