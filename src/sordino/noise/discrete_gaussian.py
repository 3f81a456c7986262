"""The discrete Gaussian law.

Claim: P(X = x) is proportional to exp(-rate x^2), that is sigma^2 = 1/(2 rate), exactly. Proof:
docs/proofs/samplers.md [canonne2020, Algorithm 3]. Noise: a discrete Laplace proposal of scale
floor(sigma) + 1, kept with probability exp(-rate (|y| - c)^2), c = 1/(2 rate scale). Floats: the
closed forms; in the sampler a float proposes the exponent and the exact rational decides inside a
certified band.
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
from sordino.noise.geometric import DiscreteLaplace
from sordino.noise.samplers.bernoulli import bernoulli_exp

_WIDE_RATE = Fraction(1, 2_000_000)  # sigma from 1000 on: closed forms instead of a table
_TAIL_DEVIATIONS = 40  # standard deviations beyond which a term is below 1e-340


@final
@dataclass(frozen=True)
class DiscreteGaussian:
    """Whole numbers with probability proportional to e^(-rate x^2).

    Rate > 0 in nats a squared step.
    """

    rate: Fraction
    name: ClassVar[str] = "gaussian"

    @property
    def mean(self) -> float:
        """0: the law is symmetric."""
        return 0.0

    @property
    def variance(self) -> float:
        """Variance, in steps squared; just below 1/(2 rate)."""
        if self.rate < Fraction(1, 50):  # the difference is below 1e-200
            return float(1 / (2 * self.rate))
        x, weights = _probability_table(self.rate)
        return float((weights * x.astype(np.float64) ** 2).sum())

    def pmf(self, x: Any) -> Any:
        """Probability of exactly `x`."""
        rate = float(self.rate)
        return np.exp(-rate * np.asarray(x, dtype=np.float64) ** 2) / _normalizer(self.rate)

    def cdf(self, x: Any) -> Any:
        """Probability of at most `x`."""
        # By symmetry: at most x is as likely as at least -x.
        return self.sf(-1 - np.asarray(x))

    def sf(self, x: Any) -> Any:
        """Probability of more than `x`."""
        # A table would have 80 standard deviations of points.
        if self.rate < _WIDE_RATE:
            return _wide_sf(float(self.rate), np.asarray(x, dtype=np.float64))
        points, weights = _probability_table(self.rate)
        # Summed from the far end, so that small tails keep their digits.
        above = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])
        return above[np.clip(np.asarray(x) + 1 - points[0], 0, points.size)]

    def quantile(self, p: float) -> int:
        """Return the smallest `x` with cdf(x) >= p."""
        # No float says that there is anything beyond: the quantile lies between the two ends.
        high = math.ceil(_TAIL_DEVIATIONS / math.sqrt(2 * float(self.rate))) + 1
        low = -high
        while high - low > 1:  # cdf(low) < p <= cdf(high)
            middle = (low + high) // 2
            low, high = (low, middle) if float(self.cdf(middle)) >= p else (middle, high)
        return high

    def sample(self, n: int, entropy: Entropy) -> Steps:
        """Return `n` independent draws, shape (n,)."""
        # t = floor(sigma) + 1 of the page, with sigma^2 = 1/(2 rate).
        scale = math.isqrt(math.floor(1 / (2 * self.rate))) + 1
        proposal = DiscreteLaplace(Fraction(1, scale))
        drawn = np.empty(n, dtype=np.int64)
        filled = 0
        while filled < n:
            # More than are missing, because some are rejected; the cap bounds the memory.
            proposed = proposal.sample(min(2 * (n - filled) + 16, 1 << 15), entropy)
            kept = proposed[self._keep(proposed, scale, entropy)][: n - filled]
            # Draws beyond 64 bits stay exact, as Python integers.
            if kept.dtype == object:
                drawn = drawn.astype(object)
            drawn[filled : filled + kept.size] = kept
            filled += kept.size
        return drawn

    def _keep(self, proposed: Steps, scale: int, entropy: Entropy) -> NDArray[np.bool_]:
        """Return which of the proposals are kept."""
        # c of the page: what is kept with probability exp(-rate (|y| - c)^2) has the law.
        center = 1 / (2 * self.rate * scale)
        # |y| is exact and the center good to 2^-53: the exponent errs by at most max(1, exponent)
        # 2^-50.
        exponent = float(self.rate) * (np.abs(proposed).astype(np.float64) - float(center)) ** 2
        return bernoulli_exp(
            exponent, lambda i: self.rate * (abs(int(proposed[i])) - center) ** 2, entropy
        )


def _wide_sf(rate: float, x: NDArray[np.float64]) -> Any:
    """Return P(X > x) of a wide law, by the midpoint rule of Euler and Maclaurin.

    The next term of that rule is below sigma^-4.
    """
    # One tail is computed, and the other one is the rest: the law is symmetric.
    edge = np.abs(x + 0.5)
    tail = np.array([math.erfc(math.sqrt(rate) * t) / 2 for t in edge.ravel()]).reshape(edge.shape)
    slope = -2 * rate * edge * np.exp(-rate * edge**2) / _normalizer(Fraction(rate))
    # The integral, and the first correction of the midpoint rule.
    upper = tail + slope / 24
    return np.where(x + 0.5 >= 0, upper, 1 - upper)


@lru_cache(maxsize=64)
def _normalizer(rate: Fraction) -> float:
    """Return the sum of exp(-rate x^2).

    It is sqrt(pi / rate) where the law is wide (Poisson summation), and a sum term by term where it
    is narrow.
    """
    # Poisson summation leaves out a share of 2 e^(-pi^2/rate), which is below 1e-200.
    if rate < Fraction(1, 50):
        return math.sqrt(math.pi / float(rate))
    reach = math.ceil(_TAIL_DEVIATIONS / math.sqrt(2 * float(rate))) + 1
    return math.fsum(math.exp(-float(rate) * x * x) for x in range(-reach, reach + 1))


@lru_cache(maxsize=8)
def _probability_table(rate: Fraction) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the points of the law within 40 standard deviations and their probabilities."""
    reach = math.ceil(_TAIL_DEVIATIONS / math.sqrt(2 * float(rate))) + 1
    points = np.arange(-reach, reach + 1)
    return points, np.exp(-float(rate) * points.astype(np.float64) ** 2) / _normalizer(rate)
