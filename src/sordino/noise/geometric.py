"""The geometric law on the whole numbers, one-sided and two-sided: exponential and Laplace noise.

Claim: P(G = g) = (1 - r) r^g for g >= 0, and P(X = x) = (1 - r)/(1 + r) r^|x|, exactly, where
r = e^-rate.
Proof: docs/proofs/samplers.md [binary digits of G are independent].
Noise: one 16-bit word a binary digit; the digits above a level are one more geometric variable,
almost always 0. X is a sign and a magnitude G; a minus with magnitude 0 is drawn again.
Floats: only in the closed forms `pmf`, `cdf`, `sf`, `quantile`; the samplers use none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, final

import numpy as np

from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.noise.probability import Bounds, Enclosure, Probability, contexts, exp_bounds
from sordino.noise.samplers.bernoulli import bernoulli, is_below

# Bounds the memory of one call: each digit takes a row of words.
_DRAWS_AT_ONCE = 1 << 15
_HIGH_RATE = (
    8  # the digits from rate * 2^L >= 8 on are drawn together: all 0 but once in 2,981 draws
)
_WORD_LIMIT = 1 << 61  # twice as much fits: the difference of two draws, each with an answer


@final
@dataclass(frozen=True)
class Geometric:
    """Whole numbers g >= 0 with probability proportional to e^(-rate g).

    The rate is above 0, in nats a step.
    """

    rate: Fraction
    name: ClassVar[str] = "exponential"

    @property
    def mean(self) -> float:
        """Expected value r/(1 - r), in steps."""
        return math.exp(-self.rate) / -math.expm1(-self.rate)

    @property
    def variance(self) -> float:
        """Variance r/(1 - r)^2, in steps squared."""
        return math.exp(-self.rate) / math.expm1(-self.rate) ** 2

    def pmf(self, x: Any) -> Any:
        """Probability of exactly `x`."""
        x = np.asarray(x)
        # The exponential of a negative number could overflow, though `where` drops it.
        return np.where(
            x < 0, 0.0, -np.expm1(-float(self.rate)) * np.exp(-float(self.rate) * np.maximum(x, 0))
        )

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        x = np.asarray(x)
        return np.where(x < 0, 0.0, -np.expm1(-float(self.rate) * (np.maximum(x, 0) + 1)))

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        x = np.asarray(x)
        return np.where(x < 0, 1.0, np.exp(-float(self.rate) * (np.maximum(x, 0) + 1)))

    def quantile(self, p: float) -> int:
        """Return the smallest `x` with cdf(x) >= p."""
        # Solves 1 - e^(-rate (x + 1)) >= p for x.
        return max(0, math.ceil(-math.log1p(-p) / float(self.rate)) - 1)

    def at_least(self, h: int) -> Enclosure:
        """Return the probability of `h` or more, as certified bounds."""
        # Noise is never below 0: there the probability is that of e^0, 1.
        return lambda digits: exp_bounds(self.rate * max(h, 0), digits)

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` independent draws, shape (n,).

        They are int64, or Python integers if one passes 2^61 (probability below n e^(-2^21)).
        """
        # From this digit on rate * 2^level is at least 8: a carry comes with probability e^-8 at
        # most.
        level = (
            max(0, math.ceil(math.log2(_HIGH_RATE / self.rate))) if self.rate < _HIGH_RATE else 0
        )
        digits, carry = _digit_chances(self.rate, level)
        drawn = np.zeros(n, dtype=np.int64)
        risen = [
            start + _draw_low_digits(drawn[start : start + _DRAWS_AT_ONCE], digits, carry, entropy)
            for start in range(0, n, _DRAWS_AT_ONCE)
        ]
        high = np.concatenate(risen) if risen else np.zeros(0, dtype=np.intp)
        return self._raised(drawn, high, level, entropy) if high.size else drawn

    def _raised(self, drawn: Steps, high: Any, level: int, entropy: Entropy) -> Steps:
        """Add the digits above `level` where they are not all 0.

        They are one more than a geometric variable of rate * 2^level.
        """
        # A carry says that the part above is at least 1. It is geometric, so each further 1 has the
        # same chance.
        above = np.ones(high.size, dtype=np.int64)
        _, carry = _digit_chances(self.rate, level)
        going = np.arange(high.size)
        while going.size:  # each further carry comes with probability at most e^-8
            going = going[bernoulli(carry, going.size, entropy)]
            above[going] += 1
        # Python integers, so that nothing is cut where 64 bits would not do.
        if int(above.max()) >= _WORD_LIMIT >> level:
            drawn, above = drawn.astype(object), above.astype(object)
        drawn[high] += above << level
        return drawn


@lru_cache(maxsize=1024)
def _digit_chances(rate: Fraction, level: int) -> tuple[tuple[Probability, ...], Probability]:
    """Return the probabilities that digits below `level` are 1, and of a carry to those above."""
    return tuple(Probability.logistic(rate * (1 << i)) for i in range(level)), Probability.exp(
        rate * (1 << level)
    )


def _draw_low_digits(
    out: Any, digits: tuple[Probability, ...], carry: Probability, entropy: Entropy
) -> Any:
    """Write low digits of each draw into `out` and return positions where a higher digit is 1."""
    n = out.size
    # Four digits of 16 bits come from one word, so a row has a multiple of four.
    stride = -(-n // 4) * 4
    # A row of fresh words for each digit and one for the carry: the digits are independent of each
    # other.
    words = (
        entropy.words((len(digits) + 1) * stride // 4)
        .view(np.uint16)
        .reshape(len(digits) + 1, stride)[:, :n]
    )
    for start in range(0, len(digits), 16):  # sums of 16 digits stay in small, fast words
        part = np.zeros(n, dtype=np.uint16)
        for i, p in enumerate(digits[start : start + 16]):
            part |= np.left_shift(
                is_below(words[start + i], p, entropy).view(np.uint8), i, dtype=np.uint16
            )
        out |= part.astype(np.int64) << start
    return np.flatnonzero(is_below(words[-1], carry, entropy))


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
