"""The discrete staircase law.

Flat steps that fall by one and the same factor from one period to the next.

Claim: P(X = x) is proportional to r^level, r = e^-rate, level = floor(|x|/period), one more where
|x| mod period is at least `flat`; exactly. Proof: docs/proofs/folded.md, "Staircases" [geng2015].
Noise: a geometric number of periods, a place within the period, and a sign; a minus with magnitude
0 is drawn again. Floats: only in the closed forms; the sampler uses none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.noise.geometric import Geometric, draw_fair_coins
from sordino.noise.probability import Bounds, Probability, contexts, exp_bounds
from sordino.noise.samplers.bernoulli import bernoulli
from sordino.noise.samplers.uniform import uniform_below


@final
@dataclass(frozen=True)
class Staircase:
    """Whole numbers; rate > 0 in nats a period, 1 <= flat <= period."""

    rate: Fraction
    period: int
    flat: int
    name: ClassVar[str] = "staircase"

    @property
    def mean(self) -> float:
        """0: the law is symmetric."""
        return 0.0

    @property
    def _ratio(self) -> float:
        """The factor r = e^-rate from one period to the next."""
        return math.exp(-self.rate)

    @property
    def _rest(self) -> float:
        """1 - r."""
        # 1 - r by `expm1`: at small rates the difference would lose its digits.
        return -math.expm1(-self.rate)

    @property
    def _whole(self) -> float:
        """The sum of all weights: 1 for a magnitude below `flat`."""
        return 2 * (self.flat + (self.period - self.flat) * self._ratio) / self._rest - 1

    @property
    def variance(self) -> float:
        """Variance, in steps squared."""
        r, rest, n = self._ratio, self._rest, float(self.period)
        # Sums of i^k over one period, with weight 1 below `flat` and r from there on.
        zeroth, first, second = (
            _sum_of_powers(k, self.flat)
            + r * (_sum_of_powers(k, self.period) - _sum_of_powers(k, self.flat))
            for k in (0, 1, 2)
        )
        # (n p + i)^2, multiplied out and summed over all periods p with weight r^p.
        sums = n**2 * zeroth * r * (1 + r) / rest**3 + 2 * n * first * r / rest**2 + second / rest
        # Twice for the two signs; the magnitude 0 adds nothing.
        return 2 * sums / self._whole

    def pmf(self, x: Any) -> Any:
        """Probability of exactly `x`."""
        return np.exp(-float(self.rate) * self.level(np.abs(np.asarray(x)))) / self._whole

    def level(self, magnitude: NDArray[Any]) -> NDArray[Any]:
        """Return how many rates a magnitude costs."""
        levels: NDArray[Any] = magnitude // self.period + (magnitude % self.period >= self.flat)
        return levels

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        # By symmetry: at most x is as likely as at least -x.
        return self.sf(-1 - np.asarray(x))

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        least = np.asarray(x) + 1
        return np.where(
            least >= 1, self._tail(np.maximum(least, 1)), 1 - self._tail(np.maximum(1 - least, 1))
        )

    def _tail(self, least: NDArray[Any]) -> NDArray[Any]:
        """Return the probability of at least this, from 1 on."""
        r, s = self._ratio, least % self.period
        # What is left of this period, and then all periods beyond.
        here = np.maximum(self.flat - s, 0) + r * (self.period - np.maximum(s, self.flat))
        beyond = r * (self.flat + (self.period - self.flat) * r) / self._rest
        tail: NDArray[Any] = (
            np.exp(-float(self.rate) * (least // self.period)) * (here + beyond) / self._whole
        )
        return tail

    def quantile(self, p: float) -> int:
        """Return the smallest `x` with cdf(x) >= p."""
        # Doubled until the quantile lies between -high and high.
        high = 1
        while float(self.cdf(high)) < p or float(self.cdf(-high)) >= p:
            high *= 2
        low = -high  # cdf(low) < p <= cdf(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if float(self.cdf(middle)) >= p else (middle, high)
        return high

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` independent draws, shape (n,)."""
        drawn = self._magnitudes(n, entropy)
        minus = draw_fair_coins(n, entropy)
        # 0 would come with both signs, and twice as often as it should.
        again = np.flatnonzero(minus & (drawn == 0))
        drawn = np.where(minus, -drawn, drawn)
        while again.size:
            redrawn, minus = (
                self._magnitudes(again.size, entropy),
                draw_fair_coins(again.size, entropy),
            )
            # A new draw may need more than 64 bits where none of the first did.
            if redrawn.dtype == object:
                drawn = drawn.astype(object)
            drawn[again] = np.where(minus, -redrawn, redrawn)
            again = again[minus & (redrawn == 0)]
        return drawn

    def _magnitudes(self, n: int, entropy: Entropy) -> Steps:
        """Return draws on 0, 1, 2, ... with weights r^level.

        Periods are drawn first, then a place below `flat` or above.
        """
        periods = Geometric(self.rate).sample(n, entropy)
        place = uniform_below(self.flat, n, entropy)
        # Without a lower step there is no coin to throw.
        if self.flat < self.period:
            lower = self.flat + uniform_below(self.period - self.flat, n, entropy)
            place = np.where(
                bernoulli(_lower_step_chance(self.rate, self.period, self.flat), n, entropy),
                lower,
                place,
            )
        # Python integers, so that nothing is cut where 64 bits would not do.
        if n and int(periods.max()) > (1 << 61) // self.period:
            periods = periods.astype(object)
        return periods * self.period + place


@lru_cache(maxsize=256)
def _lower_step_chance(rate: Fraction, period: int, flat: int) -> Probability:
    """Return the probability of a place above `flat`.

    It is (period - flat) r / (flat + (period - flat) r), rising with r.
    """

    def bounds(digits: int) -> Bounds:
        down, up = contexts(digits)
        low, high = exp_bounds(rate, digits)
        # x/(flat + x) rises with x, so the lower bound of r gives the lower bound of the
        # probability.
        low, high = down.multiply(period - flat, low), up.multiply(period - flat, high)
        return down.divide(low, up.add(flat, low)), up.divide(high, down.add(flat, high))

    return Probability(bounds)


def best_flat(rate: Fraction, period: int) -> int:
    """Return the `flat` with the least variance, which falls and then rises in it."""
    low, high = 1, period
    while high - low > 2:
        # The variance falls and then rises: the third next to the worse of two places is cut off.
        third = (high - low) // 3
        if (
            Staircase(rate, period, low + third).variance
            <= Staircase(rate, period, high - third).variance
        ):
            high -= third
        else:
            low += third
    return min(range(low, high + 1), key=lambda flat: Staircase(rate, period, flat).variance)


def _sum_of_powers(power: int, n: int) -> float:
    """Return the sum of i^power over i < n, power 0, 1 or 2."""
    return float((n, n * (n - 1) // 2, n * (n - 1) * (2 * n - 1) // 6)[power])
