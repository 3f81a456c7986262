"""The one-sided geometric law: exponential noise on the whole numbers.

Claim: P(G = g) = (1 - r) r^g for g >= 0, r = e^-rate, exactly.
Proof: docs/proofs/samplers.md [binary digits of G are independent].
Noise: one 16-bit word a binary digit; the digits above a level are one more geometric variable,
almost always 0.
Floats: only in the closed forms `pmf`, `cdf`, `sf`, `quantile`; the sampler uses none.
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
from sordino.noise.probability import Enclosure, Probability, exp_bounds
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
