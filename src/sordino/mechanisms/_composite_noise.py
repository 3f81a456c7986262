"""Composite noise in cells of its grid: a perturbation function, or a mixture of one with two far points, all weights whole.

Claim: between any two inputs no output's probability changes by more than the factor peak/floor <= e^epsilon, and the mean of an output
is the input, exactly. Proof: docs/proofs/composite.md, "On the grid" and "Mixtures".
Floats: they choose width and share, which are public parameters, before anything becomes a whole number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, final

import numpy as np

from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.grid import KEPT
from sordino.mechanisms._composite_search import best_mixture, best_width
from sordino.mechanisms._perturbation import Activation, Cells, Perturbation, TwoPoints
from sordino.mechanisms._random_rounding import largest_between
from sordino.noise._probability import contexts, exp_bounds

REACH = 1000
"""Outputs are -REACH..REACH cells of the grid of outputs."""

_BITS = 61  # all weights together lie below 2^61, which one word holds
_COIN = 32
_DIGITS = 60


@final
@dataclass(frozen=True, kw_only=True)
class CompositeNoise:
    """What is added to an input of -inputs..inputs, in cells: outputs are numbered from 0 on, those under the bump first.

    Attributes
    ----------
    bump : Perturbation
        Base and bump.
    share : Fraction
        Probability of base and bump, a multiple of 2^-32; two far points have the rest.
    """

    bump: Perturbation
    share: Fraction = Fraction(1)
    name: ClassVar[str] = "composite"

    @property
    def inputs(self) -> int:
        """The largest input."""
        return self.bump.inputs

    @cached_property
    def far(self) -> TwoPoints:
        """The two far points, for the same inputs."""
        return TwoPoints(inputs=self.bump.inputs, floor=self.bump.floor, peak=self.bump.peak)

    @cached_property
    def outputs(self) -> tuple[Fraction, ...]:
        """What each output stands for, in cells of the inputs; every mean is then the input."""
        reach = self.bump.reach
        near = tuple(j / self.bump.gain for j in range(-reach, reach + 1))
        return near if self.share == 1 else (*near, -1 / self.far.gain, 1 / self.far.gain)

    @property
    def farthest(self) -> Fraction:
        """The largest output that has a probability above 0, in cells of the inputs."""
        near = self.bump.reach / self.bump.gain if self.share else Fraction(0)
        return near if self.share == 1 else max(near, 1 / self.far.gain)

    def law(self, c: int) -> list[Fraction]:
        """Return the probability of each output for input `c`."""
        near = [self.share * weight / self.bump.total for weight in self.bump.weights(c)]
        return near if self.share == 1 else near + [(1 - self.share) * weight / self.far.total for weight in self.far.weights(c)]

    def variance(self, square: Fraction, rounding: Fraction = Fraction(0)) -> Fraction:
        """Return the variance for an input with this square, or one rounded from there at random with that variance; cells squared."""
        gain = self.bump.gain
        near = self.bump.spread / gain**2 + (1 / gain - 1) * (square + rounding)
        far = 1 / self.far.gain**2 - (square + rounding)
        return self.share * near + (1 - self.share) * far + rounding

    def variance_at(self, place: Fraction) -> Fraction:
        """Return the variance for a place between two inputs, that of rounding to them at random included; cells squared."""
        part = place - math.floor(place)
        return self.variance(place**2, part * (1 - part))

    @property
    def largest_variance(self) -> Fraction:
        """The largest variance over the whole range: next to the middle or to an end, as it rises or falls outwards."""
        places = (0, self.inputs - 1)
        return max(largest_between(self.variance(Fraction(c**2)), self.variance(Fraction((c + 1) ** 2))) for c in places)

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return the number of one output for each input, shape (n,)."""
        if self.share == 1:
            return self.bump.sample(inputs, entropy) + self.bump.reach
        coins = (entropy.words(inputs.size) >> np.uint64(64 - _COIN)).astype(np.int64)
        heads, near, far = coins < self.heads, np.zeros_like(inputs), np.zeros_like(inputs)
        near[heads] = self.bump.sample(inputs[heads], entropy) + self.bump.reach  # what the coin leaves out is not drawn
        far[~heads] = self.far.sample(inputs[~heads], entropy)
        return decide(coins, near, far, self)

    @property
    def heads(self) -> int:
        """How many of the 2^32 sides of a coin stand for base and bump."""
        return int(self.share * (1 << _COIN))

    @property
    def shape(self) -> dict[str, float]:
        """The density of base and bump where outputs lie between -1 and 1, and the rates of [zhang2024, Section 4.3] in the middle."""
        bump, half = self.bump, Fraction(2 * self.bump.reach + 1, 2)
        (base, mass), rest = bump.masses, float(bump.hump - 1)
        near, far = (z + rest * (z - z**5 / 5) for z in (0.25, 0.75))
        return {
            "width": float(bump.width / half),
            "height": float(int(bump.bump.max()) * half / bump.total),
            "center": float(int(bump.base.max()) * half / bump.total),
            "floor": float(bump.floor * half / bump.total),
            "mass": float(bump.gain),
            "H1": base / mass,
            "H2": near / far,
            "share": float(self.share),
        }


def decide(coins: Cells, near: Cells, far: Cells, noise: CompositeNoise) -> Cells:
    """Return the numbers of the outputs: `near` where the coin, uniform below 2^32, falls below the share, else that of the far point."""
    return np.where(coins < noise.heads, near, 2 * noise.bump.reach + 1 + (far + 1) // 2)


def designed(
    activation: Activation | Literal["mixture"],
    *,
    epsilon: Fraction,
    hump: Fraction,
    tuned_for: Fraction | None,
    width: Fraction | None,
) -> CompositeNoise:
    """Return the noise with the least variance: at the worst input (None), or on average over inputs with this E[t^2].

    Raises
    ------
    InvalidParameter
        If epsilon is so small that whole weights cannot tell inputs apart.
    """
    floor, peak = _weights(epsilon, hump)
    widths = np.arange(1, 2 * REACH, 2) if width is None else np.array([_outputs(width)])
    m, moment = 2.0 * widths / (2 * REACH + 1), None if tuned_for is None else float(tuned_for)
    if activation == "mixture":
        place, share = best_mixture(float(epsilon), moment, m)
    else:
        place, share = best_width(activation, float(hump), float(epsilon), moment, m), 1.0
    shape: Activation = "rectangle" if activation == "mixture" else activation
    bump = Perturbation(reach=REACH, width=int(widths[place]), floor=floor, peak=peak, activation=shape, hump=hump)
    return CompositeNoise(bump=bump, share=Fraction(math.floor(share * (1 << _COIN)), 1 << _COIN))


def _outputs(width: Fraction) -> int:
    """Return the odd number of outputs whose width is next to this one."""
    return min(2 * REACH - 1, 2 * math.floor(width * (2 * REACH + 1) / 4) + 1)


def _weights(epsilon: Fraction, hump: Fraction) -> tuple[int, int]:
    """Return the least and the largest weight: whole numbers whose ratio is at most e^epsilon, and next to it."""
    down, _ = contexts(_DIGITS)
    ratio = Fraction(down.divide(1, exp_bounds(epsilon, _DIGITS)[1]))
    floor = 1 << (_BITS - ((2 * REACH + 1) * math.ceil(ratio + hump) * 2).bit_length())
    peak = math.floor(floor * ratio)
    if math.log1p((peak - floor) / floor) < KEPT * epsilon:
        raise InvalidParameter(
            f"CompositeMechanism.epsilon must be so large that whole weights below 2^{_BITS} can tell inputs apart, about 1e-10; got "
            f"{float(epsilon):.3g}. Raise epsilon."
        )
    return floor, peak
