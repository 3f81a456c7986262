"""The k best by Gumbel noise, without the noise: one exact draw of the exponential mechanism after the other.

Claim: the ordered indices have the law of the k largest of answers with independent Gumbel noise, hence k selections of epsilon/k.
Proof: docs/proofs/exponential-mechanism.md, "Top k".
Noise: k races, each among the places that are left.
Floats: only in the closed forms of the law, which is never sampled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.mechanisms._race import Race


@final
@dataclass(frozen=True)
class Gumbel:
    """The continuous law P(X <= x) = exp(-e^(-rate x)); rate > 0 in nats a step. Only indices are ever drawn from it."""

    rate: Fraction
    name: ClassVar[str] = "gumbel"

    @property
    def mean(self) -> float:
        """Euler's constant over the rate, in steps."""
        return float(np.euler_gamma) / float(self.rate)

    @property
    def variance(self) -> float:
        """Variance pi^2/(6 rate^2), in steps squared."""
        return math.pi**2 / 6 / float(self.rate) ** 2

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        return np.exp(-np.exp(-float(self.rate) * np.asarray(x, dtype=np.float64)))

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        return -np.expm1(-np.exp(-float(self.rate) * np.asarray(x, dtype=np.float64)))

    def quantile(self, p: float) -> float:
        """Return the `x` with cdf(x) = p, for p in (0, 1)."""
        return -math.log(-math.log(p)) / float(self.rate)


def select(steps: NDArray[np.int64], k: int, rate: Fraction, entropy: Entropy) -> NDArray[np.int64]:
    """Return `k` different places, shape (k,): each next one with probability proportional to e^(rate score) among those left."""
    left = np.arange(steps.size)
    chosen = np.empty(k, dtype=np.int64)
    for turn in range(k):
        at, _ = Race(steps[left], rate).first(entropy)
        chosen[turn] = left[at]
        left = np.delete(left, at)
    return chosen
