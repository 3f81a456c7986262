"""Noise for sums of whole steps, on a grid that may be coarser.

Exact discrete Laplace or Gaussian noise.

Claim: totals that move by at most `bound` record steps are released with at most `budget`: in the
L1 norm with a pure epsilon, in the L2 norm with a rho. Proof: docs/proofs/clipped-sum.md. Noise:
discrete Laplace from `LaplaceMechanism`, or discrete Gaussian from `GaussianMechanism`. Floats:
none; totals are Python integers of any size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

from sordino.cost import ZCDP, Pure
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import RATE_DENOMINATOR, check_rates_from
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.sensitivity import Adjacency, Sensitivity

# Released numbers could leave the range of floats beyond this (docs/proofs/grid.md, "Steps").
_COARSEST_RECORD_STEP = Fraction(1 << 900)
# The noise is about 2^28 grid steps wide. Rates with denominators up to 2^40 can follow that to a
# thousandth, and so can rates a squared step, with denominators up to 2^80.
_NOISE_SCALE_BITS = 28
# Tails of a law are floats, which err by less than this share of themselves: a reach is for a
# little less.
_TAIL_ROUNDING = Fraction(1, 1 << 30)


@final
@dataclass(frozen=True, kw_only=True)
class TotalNoise:
    """Turns totals in record steps into noisy totals in noise steps.

    They are rounded down to the grid of noise steps, then noise is added.

    Attributes
    ----------
    budget : Pure or ZCDP
        What may be spent, and by its kind the noise: discrete Laplace for a pure epsilon, discrete
        Gaussian for a rho.
    bound : int
        How far the totals of neighbors are apart, in record steps: in the L1 norm for a pure
        epsilon, in the L2 norm for a rho.
    totals : int
        How many there are.
    record_step : Fraction
        A power of two, in the unit of the values.
    adjacency : {"add-remove", "replace-one"}
        Which data sets are neighbors.
    apart : bool
        Whether other totals have noise of another bound, and the shares that a unit moves of all
        bounds add up to 1. Then each has room for the rounding of all.
    """

    budget: Pure | ZCDP
    bound: int
    totals: int
    record_step: Fraction
    adjacency: Adjacency
    apart: bool = False

    def __post_init__(self) -> None:
        if not 1 / _COARSEST_RECORD_STEP <= self.record_step <= _COARSEST_RECORD_STEP:
            raise InvalidParameter(
                "Clipped records must be counted in steps from 2^-900 to 2^900; for this cap and "
                "unit they would be smaller or larger. Change the unit of the values."
            )

    @cached_property
    def shift(self) -> int:
        """How many binary digits the noise grid is coarser than that of the records."""
        # The scale of the noise in record steps: public, as it depends on the clip only. Of
        # Gaussian noise the square is rational, and has twice as many digits.
        if isinstance(self.budget, ZCDP):
            bits = _whole_bits(self.bound**2 / (2 * self.budget.rho)) // 2
        else:
            bits = _whole_bits(self.bound / self.budget.epsilon_)
        return max(0, bits - _NOISE_SCALE_BITS)

    @property
    def least_rate(self) -> Fraction:
        """A rate that the noise has at least, whatever the bound is: a step, or a squared step."""
        # `shift` leaves a scale below 2^30 noise steps: what a total moves by follows from that.
        widest = 1 << (_NOISE_SCALE_BITS + 2)
        if isinstance(self.budget, ZCDP):
            # sqrt(2 rho) times that, and what rounding adds.
            most = math.isqrt(math.ceil(2 * self.budget.rho * widest**2) - 1) + 1 + self._rounding
            return self.budget.rho / most**2
        return self.budget.epsilon_ / (math.ceil(self.budget.epsilon_ * widest) + self._rounding)

    @property
    def _rounding(self) -> int:
        """By how many noise steps more than one total the totals move, if rounded to a grid."""
        if self.totals == 1:
            return 0
        # Each total is rounded by less than one step: in the L2 norm together by less than
        # sqrt(totals).
        concentrated = isinstance(self.budget, ZCDP)
        root = math.isqrt(self.totals - 1) + 1
        if self.apart:
            # Scales in steps of several bounds differ by less than four times.
            return 4 * (root if concentrated else self.totals)
        return root if concentrated else self.totals - 1

    def check(self, owner: str) -> None:
        """Raise `InvalidParameter` if the noise of this or another bound is too fine or coarse."""
        # Rates go up and down with the last digits of the bound, so all of them are looked at
        # together.
        squared = 2 if isinstance(self.budget, ZCDP) else 1
        check_rates_from(self.least_rate, owner, RATE_DENOMINATOR**squared)
        _ = self.mechanism

    @cached_property
    def step(self) -> Fraction:
        """The noise step, in the unit of the values."""
        return self.record_step * (1 << self.shift)

    @cached_property
    def mechanism(self) -> LaplaceMechanism | GaussianMechanism:
        """What adds the noise."""
        # Rounding down moves one total by at most ceil(bound / 2^shift) noise steps; several totals
        # together by a little more.
        coarse = -(-self.bound >> self.shift) + (self._rounding if self.shift or self.apart else 0)
        concentrated = isinstance(self.budget, ZCDP)
        statement = Sensitivity(
            bound=coarse * self.step,
            monotone=False,
            adjacency=self.adjacency,
            norm="l2" if concentrated else "l1",
            step=self.step,
            size=self.totals,
        )
        if isinstance(self.budget, ZCDP):
            return GaussianMechanism(rho=self.budget.rho, sensitivity=statement)
        return LaplaceMechanism(epsilon=self.budget.epsilon_, sensitivity=statement)

    @cached_property
    def deviation(self) -> float:
        """The standard deviation of the noise on each total, in noise steps."""
        return math.sqrt(self.mechanism.noise.variance)

    def noisy(self, totals: Sequence[int], entropy: Entropy) -> tuple[int, ...]:
        """Return the totals with fresh noise, in noise steps."""
        return self.noisy_each([totals], entropy)[0]

    def noisy_each(
        self, groups: Sequence[Sequence[int]], entropy: Entropy
    ) -> list[tuple[int, ...]]:
        """Return the totals of each of several groups with fresh noise, in noise steps."""
        # One independent draw for each total of each group. Shifting rounds down, negative totals
        # too.
        many = sum(map(len, groups))
        drawn = iter(self.mechanism.noise.sample(many, entropy).tolist())
        return [tuple((total >> self.shift) + next(drawn) for total in totals) for totals in groups]

    def noisy_some(self, totals: Sequence[int], entropy: Entropy) -> tuple[int, ...]:
        """Return some of the totals with fresh noise, in noise steps."""
        drawn = self.mechanism.noise.sample(len(totals), entropy).tolist()
        return tuple((total >> self.shift) + one for total, one in zip(totals, drawn, strict=True))

    def reach(self, wrong: Fraction) -> int:
        """Return the reach of the noise on one total, in noise steps.

        The noise exceeds it in size with a probability of at most `wrong`; it is the smallest such
        number, or next to it.
        """
        found = self._reaches.get(wrong)
        if found is None:
            # The law is symmetric: half of `wrong` lies on each side.
            found = -self.mechanism.noise.quantile(float(wrong / 2 * (1 - _TAIL_ROUNDING)))
            self._reaches[wrong] = found
        return found

    @cached_property
    def _reaches(self) -> dict[Fraction, int]:
        """Those that were asked for: thousands of groups have one noise."""
        return {}

    @property
    def rounded(self) -> int:
        """By how many noise steps a total may have been rounded down, rounded up."""
        return 1 if self.shift else 0


def _whole_bits(number: Fraction) -> int:
    """Return b with 2^b < number < 2^(b + 2)."""
    return number.numerator.bit_length() - number.denominator.bit_length() - 1
