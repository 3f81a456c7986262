"""The base of mechanisms that release numbers of a public range: range, grid, and how one releases.

A range is cells of a grid. Values are rounded to inputs of the noise, at random and without bias,
and its outputs stand for numbers. Variances are given in the unit of the values.

Claim: what is released has the law of the noise for the input that a value was rounded to. Proof:
docs/proofs/composite.md, "Real values"; docs/proofs/composite-table.md. Floats: none before the
release, which is one of a public list of floats, nearest to public fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import FINITE, Number, shown, to_fraction
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import convert_answers
from sordino.mechanisms.base import Mechanism
from sordino.mechanisms.bounded.perturbation import Cells
from sordino.mechanisms.bounded.random_rounding import round_at_random
from sordino.releases import Value, Values
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Sensitivity

# ---- range grid ----------------------------------------------------------------------------------


# Ends beyond this, or a range below its inverse, might leave the floats.
_RANGE_LIMIT = 1 << 900


class CellNoise(Protocol):
    """Noise on inputs -inputs..inputs whose outputs have the input as their mean; all in cells."""

    @property
    def inputs(self) -> int:
        """The largest input."""
        ...

    @property
    def outputs(self) -> tuple[Fraction, ...]:
        """What each output stands for."""
        ...

    @property
    def farthest(self) -> Fraction:
        """The largest output that has a probability above 0."""
        ...

    @property
    def largest_variance(self) -> Fraction:
        """The largest variance over all places."""
        ...

    def law(self, c: int) -> list[Fraction]:
        """Return the probability of each output for input `c`."""
        ...

    def variance_at(self, place: Fraction) -> Fraction:
        """Return the variance for a place between two inputs.

        It includes that of rounding to them at random.
        """
        ...

    def sample(self, inputs: Cells, entropy: Entropy) -> Cells:
        """Return the number of one output for each input."""
        ...


@final
@dataclass(frozen=True, kw_only=True)
class RangeGrid:
    """The range from `low` to `high`, in 2 `noise.inputs` cells.

    Attributes
    ----------
    noise : CellNoise
        What happens to an input.
    low, high : Fraction
        The ends, in the unit of the values.
    """

    noise: CellNoise
    low: Fraction
    high: Fraction

    @property
    def step(self) -> Fraction:
        """The width of a cell, in the unit of the values."""
        return (self.high - self.low) / (2 * self.noise.inputs)

    @property
    def middle(self) -> Fraction:
        """The middle of the range, where input 0 is."""
        return (self.low + self.high) / 2

    @cached_property
    def outputs(self) -> NDArray[np.float64]:
        """All numbers that can be released, as floats."""
        (a, b), (c, d) = self.middle.as_integer_ratio(), self.step.as_integer_ratio()
        ratios = (output.as_integer_ratio() for output in self.noise.outputs)
        # A quotient of whole numbers is rounded once.
        outputs = np.array([(a * d * q + c * b * p) / (b * d * q) for p, q in ratios])
        # Releases are read from this list: nobody may change it.
        outputs.flags.writeable = False
        return outputs

    @property
    def output_range(self) -> tuple[float, float]:
        """The smallest and the largest release, in the unit of the values."""
        reach = self.noise.farthest * self.step
        return float(self.middle - reach), float(self.middle + reach)

    @cached_property
    def standard_error(self) -> float:
        """The largest standard deviation of a release, in the unit of the values."""
        # The largest over the range: the one at the value would tell where the value lies.
        return math.sqrt(self.noise.largest_variance) * float(self.step)

    def variance(self, at: Any, owner: str) -> float:
        """Return the variance of a release whose value is `at`.

        Refuse what is not between the ends.
        """
        value = FINITE(f"{owner}.variance.at", at)
        if not self.low <= value <= self.high:
            raise InvalidParameter(
                f"{owner}.variance.at must lie between lower and upper; got {shown(value)}."
            )
        return float(self.noise.variance_at((value - self.middle) / self.step) * self.step**2)

    def law(self, place: Fraction) -> list[Fraction]:
        """Return the probability of each output for a place, rounding to inputs included.

        The place is counted in cells from the lower end, from 0 to twice `inputs`.
        """
        # The upper end has no next input: it counts as the end of the cell before it.
        whole = min(math.floor(place), 2 * self.noise.inputs - 1)
        part, here = place - whole, self.noise.law(whole - self.noise.inputs)
        if not part:
            return here
        # Rounding at random mixes the laws of the two next inputs.
        return [
            (1 - part) * p + part * q
            for p, q in zip(here, self.noise.law(whole + 1 - self.noise.inputs), strict=True)
        ]

    def one(self, value: Any, entropy: Entropy, owner: str) -> tuple[float, float]:
        """Return one release with the standard error that it carries; refuse lists."""
        array = convert_answers(value, owner)
        if array.ndim:
            raise InvalidParameter(
                f"{owner}.release needs one number; got a list. Use reports where each number is "
                "the only one of its person."
            )
        return float(self._drawn(array.reshape(-1), entropy)[0]), self.standard_error

    def many(self, values: Any, entropy: Entropy, owner: str) -> tuple[NDArray[np.float64], float]:
        """Return one release for each value, shape (n,), with the standard error of each."""
        return self._drawn(
            np.atleast_1d(convert_answers(values, owner)), entropy
        ), self.standard_error

    def _drawn(self, array: NDArray[Any], entropy: Entropy) -> NDArray[np.float64]:
        """Return one release for each value of an array, shape (n,)."""
        inputs = self.noise.inputs
        # Cells are counted from the lower end, inputs from the middle.
        cells = round_at_random(array, self.low, self.step, 2 * inputs, entropy) - inputs
        # Looked up in the public list, so that nothing else can come out.
        released: NDArray[np.float64] = self.outputs[self.noise.sample(cells, entropy)]
        return released


def check_range(lower: Number, upper: Number, sensitivity: Sensitivity | None, owner: str) -> None:
    """Raise `InvalidParameter` unless the ends are a range.

    A statement, if there is one, must be about a move across all of it.
    """
    low, high = to_fraction(lower), to_fraction(upper)
    if high <= low:
        raise InvalidParameter(
            f"{owner}.upper must be above lower, {shown(low)}; got {shown(high)}."
        )
    if max(abs(low), abs(high)) > _RANGE_LIMIT or (high - low) * _RANGE_LIMIT < 1:
        raise InvalidParameter(
            f"{owner} needs a range within 2^900, at least 2^-900 wide. Change the unit of the "
            "values."
        )
    if sensitivity is None:
        return
    bound = to_fraction(sensitivity.bound)
    if bound < high - low:
        raise InvalidParameter(
            f"{owner} is private where the query takes values in a range no wider than the bound, "
            f"as where each person reports one value; got a range of {shown(high - low)} and a "
            f"bound of {shown(bound)}. FoldedMechanism has no such condition; or leave the "
            "statement out: the noise is that of the range."
        )


class RangeMechanism(Mechanism):
    """A mechanism that releases one number from a public range.

    Its noise works on the cells of a grid.
    """

    lower: Number = parameter(
        FINITE,
        "Every value that the query can take lies above it, whatever the data. Lower values are "
        "moved to it by rule.",
    )
    upper: Number = parameter(
        FINITE,
        "Every value that the query can take lies below it, whatever the data. Higher values are "
        "moved to it by rule.",
    )

    if TYPE_CHECKING:
        # Said to type checkers only: a subclass has them as fields, or makes them when they are
        # asked for.
        @property
        def noise(self) -> CellNoise:
            """What happens to an input of the grid."""
            ...

        @property
        def cost(self) -> Pure:
            """What one release, or one report, spends."""
            ...

    @cached_property
    def grid(self) -> RangeGrid:
        """The range in cells: what releases and variances are computed with."""
        return RangeGrid(
            noise=self.noise, low=to_fraction(self.lower), high=to_fraction(self.upper)
        )

    @property
    def output_range(self) -> tuple[float, float]:
        """The smallest and the largest release, in the unit of the values."""
        return self.grid.output_range

    def variance(self, *, at: Number) -> float:
        """Return the variance of a release whose value is `at`, in squared units of the values.

        It is exact, rounded once.

        Raises
        ------
        InvalidParameter
            If `at` does not lie between `lower` and `upper`.
        """
        return self.grid.variance(at, type(self).__name__)

    @scrubbed
    def release(self, value: Any, *, entropy: Entropy = SYSTEM) -> Value:
        """Release one private value, with fresh noise.

        NaN and what is no number count as the lower end of the range, and what lies beyond an end
        counts as that end. A reader sees a figure like any other.

        Returns
        -------
        Value
            With the largest standard error over the range: the true one would tell where the value
            lies.

        Raises
        ------
        InvalidParameter
            If it is a list: `reports` releases one value for each person.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        released, error = self.grid.one(value, entropy, type(self).__name__)
        return Value(
            value=released,
            standard_error=error,
            mechanism=self,
            cost=self.cost,
            simulated=entropy.simulated,
        )

    @scrubbed
    def reports(self, values: Any, *, entropy: Entropy = SYSTEM) -> Values:
        """Release one report for each of the private `values`, shape (n,), each with its own noise.

        That is local privacy. Each report spends `cost`. A person whose values are in r rows spends
        r times as much. The number of reports and their order are public.

        Raises
        ------
        InvalidParameter
            If the values are not a list of at least one number.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.reports")
        released, error = self.grid.many(values, entropy, type(self).__name__)
        return Values(
            values=released,
            standard_error=error,
            mechanism=self,
            cost=self.cost,
            simulated=entropy.simulated,
        )
