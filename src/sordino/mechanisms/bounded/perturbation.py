"""Perturbation functions on a fixed grid: whole weights of a base and of a bump.

The base is the same for every input, the bump stands over the input. `TwoPoints` is a second law,
with two outputs only.

Claim: between any two inputs no output's probability changes by more than the factor `peak/floor`;
the mean output of input c is `gain * c`, exactly, for every input. Proof: docs/proofs/composite.md,
"On the grid". Floats: they shape the sine and the quartic before these become whole numbers, the
same for every input; none meets an answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.noise import uniform_below

Activation = Literal["rectangle", "sine", "triangle"]
Cells = NDArray[np.int64]


def read_only(array: Cells) -> Cells:
    """Return the array, made read-only, because what is drawn depends on it."""
    array.flags.writeable = False
    return array


@final
@dataclass(frozen=True, kw_only=True)
class Perturbation:
    """Outputs -reach..reach, inputs -inputs..inputs; weights base[j] + bump[j - c].

    Attributes
    ----------
    reach : int
        The largest output.
    width : int
        How many outputs the bump covers; odd.
    floor, peak : int
        The least weight of the base, and the largest weight there; the bump adds at most `peak -
        floor`.
    activation : {"rectangle", "sine", "triangle"}
        The shape of the bump.
    hump : Fraction
        Height of the base in the middle over that at its ends, at least 1: what is between is
        quartic.
    """

    reach: int
    width: int
    floor: int
    peak: int
    activation: Activation = "rectangle"
    hump: Fraction = Fraction(1)

    @property
    def inputs(self) -> int:
        """The largest input, over which the bump still fits."""
        return self.reach - (self.width - 1) // 2

    @cached_property
    def base(self) -> Cells:
        """Weights of outputs -reach..reach, symmetric, at least `floor`, shape (2 reach + 1,)."""
        places = np.arange(-self.reach, self.reach + 1) / self.reach
        above = np.floor(float((self.hump - 1) * self.floor) * (1 - places**4)).astype(np.int64)
        # Floats need not come out symmetric. The smaller of two mirror images is, and the mean
        # rests on that.
        return read_only(self.floor + np.maximum(np.minimum(above, above[::-1]), 0))

    @cached_property
    def bump(self) -> Cells:
        """Weights around the input, symmetric, from 0 to `peak - floor`, shape (width,)."""
        height, turns = self.peak - self.floor, np.arange(self.width)
        if self.activation == "rectangle":
            return read_only(np.full(self.width, height))
        # A triangle is whole from the start: no float shapes it.
        if self.activation == "triangle":
            return read_only(
                np.array(
                    [
                        height * (self.width - abs(2 * i + 1 - self.width)) // self.width
                        for i in turns.tolist()
                    ]
                )
            )
        arch = np.floor(height * np.sin(np.pi * (turns + 0.5) / self.width)).astype(np.int64)
        # The smaller of two mirror images, because floats need not come out symmetric.
        return read_only(np.clip(np.minimum(arch, arch[::-1]), 0, height))

    @cached_property
    def masses(self) -> tuple[int, int]:
        """What base and bump weigh."""
        return sum(self.base.tolist()), sum(self.bump.tolist())

    @property
    def total(self) -> int:
        """The weight of all outputs, the same for every input."""
        return sum(self.masses)

    @property
    def gain(self) -> Fraction:
        """The mean output of input c is gain * c."""
        return Fraction(self.masses[1], self.total)

    @cached_property
    def spread(self) -> Fraction:
        """The second moment of the output of input 0."""
        half = (self.width - 1) // 2
        base = sum(weight * (i - self.reach) ** 2 for i, weight in enumerate(self.base.tolist()))
        bump = sum(weight * (i - half) ** 2 for i, weight in enumerate(self.bump.tolist()))
        return Fraction(base + bump, self.total)

    def weights(self, c: int) -> list[int]:
        """Return the weights of the outputs -reach..reach for input `c`."""
        found = self.base.copy()
        start = c + self.inputs
        # The bump fits over every input, so the total is the same for all of them.
        found[start : start + self.width] += self.bump
        return [int(weight) for weight in found]

    @cached_property
    def _edges(self) -> Cells:
        """The running sums of the weights of base and bump."""
        return read_only(np.cumsum(np.concatenate([self.base, self.bump])))

    def decide(self, inputs: Cells, turns: Cells) -> Cells:
        """Return the outputs of `inputs`, shape (n,).

        `turns` are whole numbers, uniform below the total weight.
        """
        outputs = self.base.size
        # The first output under the bump.
        start = inputs - (self.reach - self.inputs)
        # All weights of the base are equal, and all of the bump: a division finds the output
        # without a search.
        if self.activation == "rectangle" and self.hump == 1:
            above = turns - self.floor * outputs
            return np.where(
                above < 0,
                turns // self.floor - self.reach,
                start + above // (self.peak - self.floor),
            )
        # Looked up in running sums, an output is met as often as it weighs.
        place = np.searchsorted(self._edges, turns, side="right")
        return np.where(place < outputs, place - self.reach, start + place - outputs)

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return one output for each input, shape (n,)."""
        return self.decide(inputs, uniform_below(self.total, inputs.size, entropy))


@final
@dataclass(frozen=True, kw_only=True)
class TwoPoints:
    """Outputs -1 and 1, inputs -inputs..inputs [duchi2018].

    Their weights are linear in the input, and `peak : floor` at the ends.
    The mean output of input c is `gain * c`, exactly.
    """

    inputs: int
    floor: int
    peak: int

    @property
    def total(self) -> int:
        """The weight of both outputs, the same for every input."""
        return 2 * self.inputs * (self.peak + self.floor)

    @property
    def gain(self) -> Fraction:
        """The mean output of input c is gain * c."""
        return Fraction(self.peak - self.floor, self.inputs * (self.peak + self.floor))

    def weights(self, c: int) -> list[int]:
        """Return the weights of -1 and 1 for input `c`."""
        # Linear in the input, from `floor` at one end to `peak` at the other: so is the mean.
        up = self.peak * (self.inputs + c) + self.floor * (self.inputs - c)
        return [self.total - up, up]

    def decide(self, inputs: Cells, turns: Cells) -> Cells:
        """Return the outputs of `inputs`, shape (n,).

        `turns` are whole numbers, uniform below the total weight.
        """
        up = self.peak * (self.inputs + inputs) + self.floor * (self.inputs - inputs)
        return np.where(turns < up, 1, -1)

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return one output for each input, shape (n,)."""
        return self.decide(inputs, uniform_below(self.total, inputs.size, entropy))
