"""Turns private numbers of any kind into floats within public limits; no value can raise an error.

Claim: what comes out are floats in [lower, upper], and each depends on one value only.
Proof: docs/proofs/smooth-bounds.md, "Private numbers of any kind".
Floats: to nearest.
"""

from __future__ import annotations

import math
import numbers
import sys
from decimal import Decimal
from typing import Any

import numpy as np

from sordino.constraints import FINITE, Number, shown
from sordino.errors import InvalidParameter
from sordino.grid import _to_answer_array as as_array
from sordino.smooth.floats import Floats


def float_of(value: Any) -> float:
    """Return one object as a float: NaN where it is no number, infinite where it is beyond the floats."""
    if isinstance(value, np.timedelta64) or (isinstance(value, Decimal) and value.is_snan()):
        # NumPy counts a time difference as a whole number, and float() refuses a signaling NaN.
        return math.nan
    if isinstance(value, float | numbers.Rational | np.floating | Decimal):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, -1 if value < 0 else 1)
    return math.nan


def limits(
    lower: Number, upper: Number, owner: str, widest: float = sys.float_info.max
) -> tuple[float, float]:
    """Return public limits as floats inside of them, the smaller one first.

    They are at most `widest` apart, else it raises `InvalidParameter`.
    """
    least, most = FINITE(f"{owner}.lower", lower), FINITE(f"{owner}.upper", upper)
    low, high = float_of(least), float_of(most)
    # The nearest float may lie outside of the limits. Then the next one inside is taken.
    if low < least:
        low = math.nextafter(low, math.inf)
    if high > most:
        high = math.nextafter(high, -math.inf)
    if not low < high or not high - low <= widest:
        raise InvalidParameter(
            f"{owner}.upper must be above lower, {shown(low)}, by at most {widest:.3g}; got {shown(high)}. "
            "Change the unit of the values."
        )
    return low, high


def as_floats(values: Any, owner: str) -> Floats:
    """Return numbers as floats, shape () or (n,): NaN what is none.

    Raises
    ------
    InvalidParameter
        If they are not a number, or a list or one-dimensional array of at least one number (their shape and
        type are public).
    """
    try:
        array = as_array(values, owner)
    except InvalidParameter:
        raise InvalidParameter(
            f"{owner} needs numbers, or lists or one-dimensional arrays of at least one number; got "
            "something else."
        ) from None
    # One by one, so that no value sways how another one is read.
    if array.dtype == object:
        found = [float_of(value) for value in array.ravel()]
        return np.array(found, dtype=np.float64).reshape(array.shape)
    # A wider float may be beyond those of 64 bits. It becomes infinite, and is moved to a limit later.
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def clip_values(values: Any, low: float, high: float, owner: str) -> Floats:
    """Return private values, shape (n,), moved into [low, high]; what is no number becomes `low`.

    Raises
    ------
    InvalidParameter
        If they are not a list or one-dimensional array of at least one number (their shape and type are
        public).
    """
    array = as_floats(values, owner)
    if array.ndim != 1:
        raise InvalidParameter(
            f"{owner} needs a list or a one-dimensional array of at least one number; got a single one."
        )
    # NaN is replaced first, because np.clip would keep it.
    inside: Floats = np.clip(np.nan_to_num(array, nan=low, posinf=high, neginf=low), low, high)
    return inside
