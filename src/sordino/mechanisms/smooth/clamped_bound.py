"""Reads what a selection with a smooth bound takes, private scores and a private bound.

No value raises.

Claim: each score becomes the float nearest to it, NaN and what is no number the lowest. A bound is
clamped to [floor, ceiling]; if it is off by a share of its size, so is the result, at most. Proof:
docs/proofs/smooth-selection.md, "Floats"; docs/proofs/step-selection.md, "The scale". Floats: 53
binary digits of an array of bounds are kept; fractions and decimals are exact.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import Number, shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.grid import convert_answers, number_of
from sordino.mechanisms.randomized_response import read_nearest_float

# ---- private floats ------------------------------------------------------------------------------


def floats_of(scores: Any, size: int, owner: str) -> NDArray[np.float64]:
    """Return `size` private numbers as floats, -inf for NaN and for what is no number.

    Raises
    ------
    InvalidParameter
        If they are not so many: their number is public.
    """
    array = np.atleast_1d(convert_answers(scores, owner))
    if array.size != size:
        raise InvalidParameter(
            f"{owner}.release needs {size} scores, one for each candidate; got {array.size}."
        )
    if array.dtype == object:
        # One by one, so that no value sways another.
        return np.array([read_nearest_float(value) for value in array.tolist()])
    # A wider float beyond all floats becomes an infinity, without a warning that would tell.
    with np.errstate(over="ignore"):
        floats = array.astype(np.float64)
    return np.where(np.isnan(floats), -np.inf, floats)


MOST_BOUND = Fraction(1 << 500)
"""No ceiling is larger, and no floor smaller than its inverse: floats hold what is computed with
them."""
_BOUND_EXPONENT_LIMIT = 5000  # a decimal whose exponent lies beyond is 0, or beyond the ceiling


def checked_limits(
    floor: Number, ceiling: Number, owner: str, unit_of: str
) -> tuple[Fraction, Fraction]:
    """Return floor and ceiling of a private bound, or raise `InvalidParameter`.

    They are in the unit of `unit_of`.
    """
    low, high = to_fraction(floor), to_fraction(ceiling)
    if low > high:
        raise InvalidParameter(
            f"{owner}.ceiling must be at least the floor {shown(low)}; got {shown(high)}."
        )
    if low < 1 / MOST_BOUND or high > MOST_BOUND:
        raise InvalidParameter(
            f"{owner}.floor and ceiling must lie between 2^-500 and 2^500; got {shown(low)} and "
            f"{shown(high)}. Change the unit of the {unit_of}."
        )
    return low, high


def clamped_bound(
    smooth_bound: Any, size: int, floor: Fraction, ceiling: Fraction, owner: str
) -> Fraction:
    """Return the largest of the bounds, clamped to [floor, ceiling].

    There is one bound for all or one for each of `size` scores. What is no number, NaN among it,
    counts as the ceiling.

    Raises
    ------
    InvalidParameter
        If it is neither a number nor a list of `size` numbers (their shape and type are public).
    """
    try:
        bounds = np.atleast_1d(convert_answers(smooth_bound, owner))
    except InvalidParameter:
        # Refused below, with the message about bounds.
        bounds = np.zeros(0)
    if bounds.size not in {1, size}:
        raise InvalidParameter(
            f"{owner}.release.smooth_bound must be a number, or a list of one for each of the "
            f"{size} scores; got something of another shape or type."
        )
    if bounds.dtype == object:
        return max(_clamp_bound(value, floor, ceiling) for value in bounds.tolist())
    with np.errstate(over="ignore"):
        # The largest of several smooth bounds is a smooth bound of all of them.
        # It is NaN if one of them is: then the ceiling counts.
        largest = float(bounds.astype(np.float64).max())
    return _clamp_bound(largest, floor, ceiling)


def _clamp_bound(value: Any, floor: Fraction, ceiling: Fraction) -> Fraction:
    """Return one bound between the ends; it never raises."""
    bound = number_of(value)
    # The safe side, and a rule of this value alone.
    if bound is None:
        return ceiling
    if isinstance(bound, int | Fraction):
        return max(floor, min(ceiling, Fraction(bound)))
    if math.isinf(bound):
        return ceiling if bound > 0 else floor
    # Written out as a fraction it would have as many digits as its exponent says.
    if isinstance(bound, Decimal) and bound and abs(bound.adjusted()) > _BOUND_EXPONENT_LIMIT:
        return ceiling if bound > 1 else floor
    return max(floor, min(ceiling, Fraction(*bound.as_integer_ratio())))
