"""The discrete Laplace law, also called two-sided geometric.

Claim: P(X = x) = (1 - r)/(1 + r) r^|x|, r = e^-rate, exactly. Proof: docs/proofs/samplers.md.
Noise: a sign and a geometric magnitude; a minus with magnitude 0 is drawn again.
Floats: only in the closed forms; the sampler uses none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np

from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.noise.geometric import Geometric
from sordino.noise.probability import Bounds, Enclosure, contexts, exp_bounds


@final
@dataclass(frozen=True)
class DiscreteLaplace:
    """Whole numbers with probability proportional to e^(-rate |x|); rate > 0 in nats a step."""

    rate: Fraction
    name: ClassVar[str] = "laplace"

    @property
    def mean(self) -> float:
        """0: the law is symmetric."""
        return 0.0

    @property
    def variance(self) -> float:
        """Variance 2r/(1 - r)^2, in steps squared."""
        return 2 * Geometric(self.rate).variance

    @property
    def _both(self) -> float:
        """1 + r: all weights r^|x| together are (1 + r)/(1 - r)."""
        return 1 + math.exp(-self.rate)

    def pmf(self, x: Any) -> Any:
        """Probability of exactly `x`."""
        rate = float(self.rate)
        # 1 - r by `expm1`: at small rates the difference would lose its digits.
        return -np.expm1(-rate) / self._both * np.exp(-rate * np.abs(np.asarray(x)))

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        # By symmetry: at most x is as likely as at least -x.
        return self.sf(-1 - np.asarray(x))

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        rate, x = float(self.rate), np.asarray(x)
        # The smaller tail is computed and the larger one is the rest, so that small tails keep
        # their digits.
        upper = np.exp(-rate * (np.maximum(x, -1) + 1)) / self._both
        return np.where(x >= -1, upper, 1 - np.exp(-rate * np.maximum(-x, 0)) / self._both)

    def quantile(self, p: float) -> int:
        """Return the smallest `x` with cdf(x) >= p."""
        rate = float(self.rate)
        lower, upper = p * self._both, (1 - p) * self._both
        # The closed form may be off by one after rounding; the loops settle it.
        guess = (
            math.ceil(math.log(lower) / rate)
            if lower <= 1
            else math.ceil(-math.log(upper) / rate) - 1
        )
        while float(self.cdf(guess)) < p:
            guess += 1
        while float(self.cdf(guess - 1)) >= p:
            guess -= 1
        return guess

    def at_least(self, h: int) -> Enclosure:
        """Return the probability of `h` or more, as certified bounds.

        It is r^h/(1 + r) from 0 on, and follows by symmetry below.
        """

        def bounds(digits: int) -> Bounds:
            down, up = contexts(digits)
            # Below 0 the rest of the other side: P(X >= h) = 1 - P(X >= 1 - h).
            one, power = (
                exp_bounds(self.rate, digits),
                exp_bounds(self.rate * (h if h >= 0 else 1 - h), digits),
            )
            # Each end takes those bounds of its parts that move it outward.
            low = down.divide(power[0], up.add(1, one[1]))
            high = up.divide(power[1], down.add(1, one[0]))
            return (low, high) if h >= 0 else (down.subtract(1, high), up.subtract(1, low))

        return bounds

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` independent draws, shape (n,)."""
        magnitude = Geometric(self.rate).sample(n, entropy)
        minus = draw_fair_coins(n, entropy)
        # 0 would come with both signs, and twice as often as it should.
        again = np.flatnonzero(minus & (magnitude == 0))
        drawn = np.negative(magnitude, out=magnitude, where=minus)
        while again.size:
            redrawn = Geometric(self.rate).sample(again.size, entropy)
            minus = draw_fair_coins(again.size, entropy)
            # A new draw may need more than 64 bits where none of the first did.
            if redrawn.dtype == object:
                drawn = drawn.astype(object)
            drawn[again] = np.where(minus, -redrawn, redrawn)
            again = again[minus & (redrawn == 0)]
        return drawn


def draw_fair_coins(n: int, entropy: Entropy) -> Any:
    """Return `n` fair coins, shape (n,)."""
    # Each of the 64 bits of a word is a coin.
    return np.unpackbits(entropy.words(-(-n // 64)).view(np.uint8), count=n).view(np.bool_)
