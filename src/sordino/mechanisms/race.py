"""The exact sampler behind the exponential mechanism.

Places with probability proportional to e^(rate score).

It is a race: places are tried at random until one arrives.

Claim: arrivals are independent; each is place i with probability e^(rate q_i) over the sum of all,
and its excess is geometric and independent of everything else. Proof:
docs/proofs/exponential-mechanism.md, "The race". Noise: every try is a uniform place and a
geometric level; it arrives if the level reaches the depth of the place below the highest. Floats:
one chooses below which depth places are tried less often (any depth is right, a good one is fast).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps
from sordino.noise import Geometric, Probability, bernoulli, uniform_below
from sordino.noise.probability import Bounds, contexts, exp_bounds

Arrivals = tuple[NDArray[np.int64], Steps]
"""Places and their excesses, both of shape (m,), in the order in which they arrived."""

TOGETHER = 64  # lists of at most this size are tried as a whole
_FIRST_TRIES, _MOST_TRIES = 16, 1 << 17  # tries in the first block, and in the largest


def decide(steps: Steps, places: NDArray[np.int64], levels: Steps) -> Steps:
    """Return how far the level of each try rises above what its place needs, in steps.

    A try arrives if that is not negative; else it counts for nothing. The place of the highest
    score needs 0, every other as much as it lies deeper: P(level >= depth) = e^(-rate depth).
    """
    excess: Steps = levels - (steps.max() - steps[places])
    return excess


@final
class ScoreRace:
    """The scores `steps` (n,), each with its place, at `rate` nats a step."""

    def __init__(self, steps: NDArray[np.int64], rate: Fraction) -> None:
        self.steps = steps
        self.law = Geometric(rate)

    @cached_property
    def _edge(self) -> int:
        """Return the depth that separates near places from far ones, which are tried less often."""
        n = self.steps.size
        # In a short list no place counts as far: 2^54 steps are deeper than the clamp allows.
        # In a long one n places deeper than ln(n)/rate weigh at most as much as the best one alone.
        return 1 << 54 if n <= TOGETHER else math.ceil(math.log(n) / float(self.law.rate))

    @cached_property
    def _near(self) -> NDArray[np.intp]:
        """Return the places that are at most `_edge` steps below the best one."""
        return np.flatnonzero(self.steps >= int(self.steps.max()) - self._edge)

    @cached_property
    def _far(self) -> NDArray[np.intp]:
        """Return the places that are deeper than that."""
        return np.flatnonzero(self.steps < int(self.steps.max()) - self._edge)

    @cached_property
    def _far_first(self) -> Probability:
        """Return the probability that a try is of a far place.

        Far places weigh their number times e^(-rate edge), near places their number.
        """
        near, far = self._near.size, self.steps.size - self._near.size

        def bounds(digits: int) -> Bounds:
            down, up = contexts(digits)
            low, high = exp_bounds(self.law.rate * self._edge, digits)
            # x / (near + x) rises with x, so the lower bound of x gives the lower bound of the
            # share.
            low, high = down.multiply(far, low), up.multiply(far, high)
            return down.divide(low, up.add(near, low)), up.divide(high, down.add(near, high))

        return Probability(bounds)

    def arrivals(self, entropy: Entropy) -> Iterator[Arrivals]:
        """Yield arrivals in blocks, without end; a block may be empty."""
        tries = _FIRST_TRIES
        while True:
            places, levels = self._tries(tries, entropy)
            excess = decide(self.steps, places, levels)
            arrived = np.flatnonzero(excess >= 0)
            yield places[arrived], excess[arrived]
            # Larger blocks for a longer race: fewer calls, and a bounded amount of memory.
            tries = min(4 * tries, _MOST_TRIES)

    def _tries(self, n: int, entropy: Entropy) -> Arrivals:
        """Return `n` tries, shape (n,) each.

        A far place needs a level of at least `edge`; tries of far places that stay below it are
        never drawn.
        """
        places = self._near[uniform_below(self._near.size, n, entropy)]
        levels = self.law.sample(n, entropy)
        if self._near.size < self.steps.size:
            far = np.flatnonzero(bernoulli(self._far_first, n, entropy))
            if far.size:
                places[far] = self._far[uniform_below(self._far.size, far.size, entropy)]
                # A geometric level that is known to reach the edge is the edge plus a geometric
                # one.
                levels[far] += self._edge
        return places, levels

    def first(self, entropy: Entropy) -> tuple[int, int]:
        """Return the first arrival and its excess, in steps."""
        places, excess = next(block for block in self.arrivals(entropy) if block[0].size)
        return int(places[0]), int(excess[0])


# ---- the k best, one race after the other --------------------------------------------------------
#
# Claim: the ordered indices have the law of the k largest of answers with independent Gumbel noise,
# hence k selections of epsilon/k. Proof: docs/proofs/exponential-mechanism.md, "Top k". Floats:
# only in the closed forms of the law, which is never sampled.


@final
@dataclass(frozen=True)
class Gumbel:
    """The continuous law P(X <= x) = exp(-e^(-rate x)), with rate > 0 in nats a step.

    No number is ever drawn from it, only the indices that it would give.
    """

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
        # Without `expm1` small probabilities would lose their digits.
        return -np.expm1(-np.exp(-float(self.rate) * np.asarray(x, dtype=np.float64)))

    def quantile(self, p: float) -> float:
        """Return the `x` with cdf(x) = p, for p in (0, 1)."""
        return -math.log(-math.log(p)) / float(self.rate)


def draw_places(
    steps: NDArray[np.int64], k: int, rate: Fraction, entropy: Entropy
) -> NDArray[np.int64]:
    """Return `k` different places, shape (k,), in the order in which they were drawn.

    Each next one is drawn with probability proportional to e^(rate score) among those left.
    """
    left = np.arange(steps.size)
    chosen = np.empty(k, dtype=np.int64)
    for turn in range(k):
        # A race of its own among those that are left, so that no place is drawn twice.
        at, _ = ScoreRace(steps[left], rate).first(entropy)
        chosen[turn] = left[at]
        left = np.delete(left, at)
    return chosen
