"""Noise for sums of whole steps: exact discrete Laplace noise, on a grid that may be coarser than the steps.

Claim: totals that move by at most `bound` record steps in the L1 norm are released with at most epsilon.
Proof: docs/proofs/clipped-sum.md.
Noise: discrete Laplace, from `LaplaceMechanism`.
Floats: none; totals are Python integers of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms import LaplaceMechanism
from sordino.sensitivity import Adjacency, Sensitivity

# Released numbers could leave the range of floats beyond this (docs/proofs/grid.md, "Steps").
_COARSEST_RECORD_STEP = Fraction(1 << 900)
# The noise is about 2^28 grid steps wide. Rates with denominators up to 2^40 can follow that to a thousandth.
_NOISE_SCALE_BITS = 28


@final
@dataclass(frozen=True, kw_only=True)
class TotalNoise:
    """Turns totals in record steps into noisy totals in noise steps: rounds down to their grid, adds noise.

    Attributes
    ----------
    epsilon : Fraction
        The budget.
    bound : int
        How far the totals of neighbors are apart, in the L1 norm, in record steps.
    totals : int
        How many there are.
    record_step : Fraction
        A power of two, in the unit of the values.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    """

    epsilon: Fraction
    bound: int
    totals: int
    record_step: Fraction
    adjacency: Adjacency

    def __post_init__(self) -> None:
        if not 1 / _COARSEST_RECORD_STEP <= self.record_step <= _COARSEST_RECORD_STEP:
            raise InvalidParameter(
                "Clipped records must be counted in steps from 2^-900 to 2^900; for this cap and unit they "
                "would be smaller or larger. Change the unit of the values."
            )

    @cached_property
    def shift(self) -> int:
        """How many binary digits the noise grid is coarser than that of the records."""
        # The scale of the noise in record steps: public, as it depends on the clip only.
        scale = self.bound / self.epsilon
        return max(0, scale.numerator.bit_length() - scale.denominator.bit_length() - 1 - _NOISE_SCALE_BITS)

    @property
    def least_rate(self) -> Fraction:
        """A rate that the noise has at least, whatever the bound is."""
        # `shift` leaves a scale below 2^30 noise steps, so a total moves by fewer than epsilon times that.
        return self.epsilon / (math.ceil(self.epsilon * (1 << (_NOISE_SCALE_BITS + 2))) + self.totals - 1)

    @property
    def step(self) -> Fraction:
        """The noise step, in the unit of the values."""
        return self.record_step * (1 << self.shift)

    @cached_property
    def mechanism(self) -> LaplaceMechanism:
        """What adds the noise."""
        # Rounding down moves one total by at most ceil(bound / 2^shift) noise steps. Several totals together
        # move by less than one step more for each.
        coarse = -(-self.bound >> self.shift) + (self.totals - 1 if self.shift else 0)
        statement = Sensitivity(
            bound=coarse * self.step,
            monotone=False,
            adjacency=self.adjacency,
            norm="l1",
            step=self.step,
            size=self.totals,
        )
        return LaplaceMechanism(epsilon=self.epsilon, sensitivity=statement)

    def noisy(self, totals: Sequence[int], entropy: Entropy) -> tuple[int, ...]:
        """Return the totals with fresh noise, in noise steps."""
        # One independent draw for each total. Shifting rounds down, negative totals too.
        drawn = self.mechanism.noise.sample(self.totals, entropy).tolist()
        return tuple((total >> self.shift) + noise for total, noise in zip(totals, drawn, strict=True))

    def reach(self, wrong: Fraction) -> int:
        """Return the reach of the noise on one total, in noise steps.

        It is the smallest number that the noise exceeds in size with a probability of at most `wrong`.
        """
        # The law is symmetric: half of `wrong` lies on each side.
        return -self.mechanism.noise.quantile(float(wrong / 2))

    @property
    def rounded(self) -> int:
        """By how many noise steps a total may have been rounded down, rounded up."""
        return 1 if self.shift else 0
