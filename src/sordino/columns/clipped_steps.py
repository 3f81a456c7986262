"""The sum of records that were clipped and rounded down to whole steps, one by one.

Where to clip and how wide a step is (`StepRange`), and what the numbers of a group add up to.

Claim: one record contributes a whole number in [low, high], a function of this record alone; the
sum is exact. Proof: docs/proofs/bucket-counts.md. Floats: clipping, powers of two and floor are
exact; sums are whole numbers of any size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.records import blocks
from sordino.constraints import POWER_OF_TWO, shown
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP, number_of


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


_LOW_BITS = 32
_SQUARE_PART = (1 << 18) - 1


def clipped_steps(
    values: Any,
    low: int,
    high: int,
    step: Fraction,
    *,
    missing: int | None = None,
    owner: str = "values",
) -> int:
    """Return the sum of max(low, min(high, floor(value / step))) over the records.

    Parameters
    ----------
    values : array or list of numbers, shape (n,)
        Private; read in blocks.
    low, high : int
        In steps, within +-2^52.
    step : Fraction
        A power of two from 2^-900 to 2^900, in the unit of the values.
    missing : int, optional
        What a record counts that is missing (NULL, NaN, None) or no number, in [low, high]; `low`
        by default.

    Raises
    ------
    InvalidParameter
        If the limits do not hold, the values are not one-dimensional or their declared type is not
        numeric.
    """
    exponent = _check_ends(low, high, step)
    absent = low if missing is None else missing
    if not low <= absent <= high:
        raise InvalidParameter(
            f"clipped_steps.missing must be from {low} to {high}; got {shown(missing)}."
        )
    return sum(
        _sum_without_overflow(steps) + unknown * absent
        for steps, unknown in _clip_blocks(values, low, high, exponent, owner)
    )


class Moments(NamedTuple):
    """What the records of a clipped column add up to, by their distances u from the lower end.

    Private.

    Attributes
    ----------
    known, missing : int
        How many records have a number, and how many have none.
    first, second : int
        The sums of u and of u^2 over the records with a number, in steps.
    """

    known: int
    missing: int
    first: int
    second: int


def clipped_moments(
    values: Any, low: int, high: int, step: Fraction, *, owner: str = "values"
) -> Moments:
    """Return the sums of distances from the lower end and of their squares, exactly.

    A record counts max(low, min(high, floor(value / step))) - low. The parameters, and what is
    refused, are those of `clipped_steps`; high - low is below 2^32.
    """
    exponent = _check_ends(low, high, step)
    records = first = second = missing = 0
    for steps, unknown in _clip_blocks(values, low, high, exponent, owner):
        records, missing = records + steps.size, missing + unknown
        # A missing record stands here with 0 steps, which is no distance from the lower end.
        distances = steps - low
        first += _sum_without_overflow(distances) + unknown * low
        second += _sum_squares(distances) - unknown * low**2
    return Moments(records - missing, missing, first, second)


def _check_ends(low: int, high: int, step: Fraction) -> int:
    """Return the power of two that a step is, and refuse ends and steps beyond the limits."""
    number = POWER_OF_TWO("clipped_steps.step", step)
    if not -CLAMP <= low <= high <= CLAMP:
        raise InvalidParameter(
            f"clipped_steps needs -2^52 <= low <= high <= 2^52; got low={shown(low)}, "
            f"high={shown(high)}."
        )
    # A power of two has 1 for its numerator or its denominator, so this is the exponent.
    exponent: int = number.numerator.bit_length() - number.denominator.bit_length()
    if abs(exponent) > 900:
        raise InvalidParameter(
            f"clipped_steps.step must be from 2^-900 to 2^900; got 2^{exponent}."
        )
    return exponent


def _clip_blocks(
    values: Any, low: int, high: int, exponent: int, owner: str
) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Yield the clipped steps of records by blocks, and how many are missing, with 0 steps."""
    for block in blocks(values, owner):
        yield clip_block(block, low, high, exponent)


def clip_block(
    block: NDArray[Any], low: int, high: int, exponent: int
) -> tuple[NDArray[np.int64], int]:
    """Return the clipped steps of the records of a block, and how many are missing, with 0 steps.

    The steps are 2^exponent large; the ends are checked by whoever calls this.
    """
    # Objects, whole numbers of 64 bits and floats: each by a rule that is exact for its kind
    # (docs/proofs/bucket-counts.md, "Proof of 5").
    if block.dtype == object:
        found = [_clip_object(value, low, high, exponent) for value in block]
        unknown = sum(steps is None for steps in found)
        return np.array([steps or 0 for steps in found], dtype=np.int64), unknown
    if block.dtype.kind in "iu" and block.dtype.itemsize == 8:
        return _clip_whole_numbers(block, low, high, exponent), 0
    # A float of 64 bits holds every value of a narrower type.
    values = block if block.dtype.itemsize > 8 else block.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        steps = np.clip(values, low * 2.0**exponent, high * 2.0**exponent)
        if exponent > 0:  # floor first, so that nothing vanishes below the smallest float
            np.floor(steps, out=steps)
        steps *= 2.0**-exponent
        np.floor(steps, out=steps)
    # NaN passes through the clipping. It is counted apart.
    missing = np.isnan(steps)
    steps[missing] = 0
    return steps.astype(np.int64), int(np.count_nonzero(missing))


def _clip_whole_numbers(
    block: NDArray[Any], low: int, high: int, exponent: int
) -> NDArray[np.int64]:
    """Return clipped steps of whole numbers of 64 bits, which a float may not hold."""
    down, up = max(exponent, 0), max(-exponent, 0)
    shifted = block >> min(down, 64)  # floor, of negative numbers, too
    whole = np.minimum(shifted, 2 * CLAMP).astype(np.int64)  # also where there is no sign
    smallest, largest = -(-low >> up), high >> up  # x 2^up >= low means x >= ceil(low / 2^up)
    inside = whole << min(up, 63)  # beyond the limits it overflows, and is not used
    return np.where(whole > largest, high, np.where(whole < smallest, low, inside))


def _clip_object(value: Any, low: int, high: int, exponent: int) -> int | None:
    """Return the clipped steps of one object, None if it is missing or no number."""
    number = number_of(value)
    if number is None:
        return None
    if not isinstance(number, int | Fraction):
        if math.isinf(number):
            return high if number > 0 else low
        if isinstance(number, Decimal):
            number = _limit_exponent(number)
        number = Fraction(number)
    return max(low, min(high, math.floor(number / Fraction(2) ** exponent)))


def _limit_exponent(number: Decimal) -> Decimal | Fraction:
    """Return a number with the same clipped steps as this decimal.

    The exponent of the decimal might fill the memory.
    """
    if not number:
        return Fraction(0)
    # `Fraction` would write out all the digits of 10^exponent.
    sign = 1 if number > 0 else -1
    beyond = 1000  # 10^1000 is more than 2^52 steps of 2^900, and 10^-1000 less than one of 2^-900
    if number.adjusted() > beyond:
        return Fraction(sign * 10**beyond)
    return number if number.adjusted() > -beyond else Fraction(sign, 10**beyond)


def _sum_squares(distances: NDArray[np.int64]) -> int:
    """Return the sum of squares of whole numbers within +-2^53, without overflow.

    In parts of 18 digits.

    A number is a 2^36 + b 2^18 + c with b and c from 0 to 2^18 - 1. Products of two parts are below
    2^36, and a block of 2^15 of them adds up to less than 2^51.
    """
    parts = (distances >> 36, (distances >> 18) & _SQUARE_PART, distances & _SQUARE_PART)
    total = 0
    for i, one in enumerate(parts):
        for j, other in enumerate(parts):
            total += int((one * other).sum()) << (18 * (4 - i - j))
    return total


def _sum_without_overflow(steps: NDArray[np.int64]) -> int:
    """Return the sum of whole numbers within +-2^52, without overflow.

    Halves of 32 digits apart.
    """
    return (int((steps >> _LOW_BITS).sum()) << _LOW_BITS) + int(
        (steps & ((1 << _LOW_BITS) - 1)).sum()
    )
