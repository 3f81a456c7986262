"""The sum of records that were clipped and rounded down to whole steps, one by one.

Claim: one record contributes a whole number in [low, high], a function of this record alone; the sum is
exact. Proof: docs/proofs/bucket-counts.md.
Floats: clipping, powers of two and floor are exact; sums are whole numbers of any size.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import POWER_OF_TWO, shown
from sordino.errors import InvalidParameter
from sordino.estimators.columns.records import blocks
from sordino.grid import CLAMP, number_of

_LOW_BITS = 32


def clipped_steps(
    values: Any, low: int, high: int, step: Fraction, *, missing: int | None = None, owner: str = "values"
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
        What a record counts that is missing (NULL, NaN, None) or no number, in [low, high]; `low` by default.

    Raises
    ------
    InvalidParameter
        If the limits do not hold, the values are not one-dimensional or their declared type is not numeric.
    """
    number = POWER_OF_TWO("clipped_steps.step", step)
    if not -CLAMP <= low <= high <= CLAMP:
        raise InvalidParameter(
            f"clipped_steps needs -2^52 <= low <= high <= 2^52; got low={shown(low)}, high={shown(high)}."
        )
    absent = low if missing is None else missing
    if not low <= absent <= high:
        raise InvalidParameter(f"clipped_steps.missing must be from {low} to {high}; got {shown(missing)}.")
    # A power of two has 1 for its numerator or its denominator, so this is the exponent.
    exponent = number.numerator.bit_length() - number.denominator.bit_length()
    if abs(exponent) > 900:
        raise InvalidParameter(f"clipped_steps.step must be from 2^-900 to 2^900; got 2^{exponent}.")
    # Blocks are added as integers of Python, which do not overflow.
    return sum(_block_sum(block, low, high, exponent, absent) for block in blocks(values, owner))


def _block_sum(block: NDArray[Any], low: int, high: int, exponent: int, absent: int) -> int:
    # Objects, whole numbers of 64 bits and floats: each by a rule that is exact for its kind
    # (docs/proofs/bucket-counts.md, "Proof of 5").
    if block.dtype == object:
        return sum(_clip_object(value, low, high, exponent, absent) for value in block)
    if block.dtype.kind in "iu" and block.dtype.itemsize == 8:
        return _sum_without_overflow(_clip_whole_numbers(block, low, high, exponent))
    # A float of 64 bits holds every value of a narrower type.
    values = block if block.dtype.itemsize > 8 else block.astype(np.float64, copy=False)
    with np.errstate(all="ignore"):
        steps = np.clip(values, low * 2.0**exponent, high * 2.0**exponent)
        if exponent > 0:  # floor first, so that nothing vanishes below the smallest float
            np.floor(steps, out=steps)
        steps *= 2.0**-exponent
        np.floor(steps, out=steps)
    # NaN passes through the clipping. It is counted apart and becomes what a missing record counts.
    unknown = np.isnan(steps)
    count = int(np.count_nonzero(unknown))
    steps[unknown] = 0
    return _sum_without_overflow(steps.astype(np.int64)) + count * absent


def _clip_whole_numbers(block: NDArray[Any], low: int, high: int, exponent: int) -> NDArray[np.int64]:
    """Return clipped steps of whole numbers of 64 bits, which a float may not hold."""
    down, up = max(exponent, 0), max(-exponent, 0)
    shifted = block >> min(down, 64)  # floor, of negative numbers, too
    whole = np.minimum(shifted, 2 * CLAMP).astype(np.int64)  # also where there is no sign
    smallest, largest = -(-low >> up), high >> up  # x 2^up >= low means x >= ceil(low / 2^up)
    inside = whole << min(up, 63)  # beyond the limits it overflows, and is not used
    return np.where(whole > largest, high, np.where(whole < smallest, low, inside))


def _clip_object(value: Any, low: int, high: int, exponent: int, absent: int) -> int:
    """Return the clipped steps of one object."""
    number = number_of(value)
    if number is None:
        return absent
    if not isinstance(number, int | Fraction):
        if math.isinf(number):
            return high if number > 0 else low
        if isinstance(number, Decimal):
            number = _limit_exponent(number)
        number = Fraction(number)
    return max(low, min(high, math.floor(number / Fraction(2) ** exponent)))


def _limit_exponent(number: Decimal) -> Decimal | Fraction:
    """Return a number with the same clipped steps as this decimal, whose exponent might fill the memory."""
    if not number:
        return Fraction(0)
    # `Fraction` would write out all the digits of 10^exponent.
    sign = 1 if number > 0 else -1
    beyond = 1000  # 10^1000 is more than 2^52 steps of 2^900, and 10^-1000 less than one of 2^-900
    if number.adjusted() > beyond:
        return Fraction(sign * 10**beyond)
    return number if number.adjusted() > -beyond else Fraction(sign, 10**beyond)


def _sum_without_overflow(steps: NDArray[np.int64]) -> int:
    """Return the sum of whole numbers within +-2^52, without overflow: halves of 32 digits apart."""
    return (int((steps >> _LOW_BITS).sum()) << _LOW_BITS) + int((steps & ((1 << _LOW_BITS) - 1)).sum())
