"""The ends and steps in which a number is counted, and what the numbers of a group add up to."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

from sordino.constraints import POWER_OF_TWO, shown
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP


@final
@dataclass(frozen=True)
class StepRange:
    """Ends between which a number is clipped, and the steps in which it is counted; not private.

    Parameters
    ----------
    low, high : int
        In steps, within +-2^52.
    step : Fraction
        A power of two from 2^-900 to 2^900, in the unit of the column.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.
    """

    low: int
    high: int
    step: Fraction

    def __post_init__(self) -> None:
        step = POWER_OF_TWO("StepRange.step", self.step)
        if max(step.numerator, step.denominator).bit_length() > 901:
            raise InvalidParameter(
                f"StepRange.step must be from 2^-900 to 2^900; got {shown(step)}."
            )
        # With this bound the products of `_write_whole_steps` fit into 128 bits
        # (docs/proofs/numbers.md, 3).
        if not -CLAMP <= self.low <= self.high <= CLAMP:
            raise InvalidParameter(
                f"StepRange needs -2^52 <= low <= high <= 2^52; got {shown(self.low)} and "
                f"{shown(self.high)}."
            )
        object.__setattr__(self, "step", step)


class Total(NamedTuple):
    """What numbers of a group add up to, in steps, how many there are, and how many rows have none.

    Private.
    """

    steps: int
    known: int
    missing: int


class SquareTotal(NamedTuple):
    """The same, with what the squared distances from the lower end of the range add up to.

    Private. Of weighed rows also the weights of those at or beyond the upper end, if asked for.
    """

    steps: int
    known: int
    missing: int
    squares: int
    beyond: int = 0
