"""What goes in and out of a smooth bound: private numbers by a total rule, floats rounded outward.

Claim: private numbers become floats within public limits, each by itself, and counts a table of
families; no value raises an error. A bound that is beta-smooth for `inner(beta, error)` and off by
a share of `error` at most is beta-smooth for `beta` after `outward`, which never lowers it. With a
distance that changes by at most 1 between neighbors and an admissible beta, ceiling * e^(-beta
distance) is such a bound. Proof: docs/proofs/smooth-bounds.md, "Private numbers of any kind",
"Floats", "From a distance". Floats: private numbers to the nearest, counts and `largest_beta` down,
bounds outward.
"""

from __future__ import annotations

import math
import numbers
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import FINITE, NOT_NEGATIVE, POSITIVE, Number, shown
from sordino.errors import InvalidParameter
from sordino.grid import convert_answers, to_steps
from sordino.scrubbing import scrubbed

# ---- counts --------------------------------------------------------------------------------------


Counts = NDArray[np.int64]


def tables(b: Any, c: Any, families: int, owner: str) -> tuple[Counts, Counts]:
    """Return both counts, shape () or (m,), as a table.

    They are rounded down; NaN and what is below 0 become 0, b at most 2N, c at most 2N - b.

    Raises
    ------
    InvalidParameter
        If they are no numbers or lists of equal length (their shape and type are public).
    """
    first, second = (_round_family_counts(counts, owner) for counts in (b, c))
    if first.shape != second.shape:
        raise InvalidParameter(
            f"{owner} needs as many counts b as c; got shapes {first.shape} and {second.shape}."
        )
    # Each marker becomes a table by its own two counts alone.
    np.clip(first, 0, 2 * families, out=first)
    np.clip(second, 0, None, out=second)
    return first, np.minimum(second, 2 * families - first)


def _round_family_counts(counts: Any, owner: str) -> Counts:
    # Counts are rounded down and limited one by one, and no count is refused: only the shape and
    # the type are, which are public.
    try:
        return to_steps(counts, Fraction(1), owner)
    except InvalidParameter:
        raise InvalidParameter(
            f"{owner} needs counts b and c that are numbers, or one-dimensional lists or arrays of "
            "numbers; got something of another shape or type."
        ) from None


# ---- floats --------------------------------------------------------------------------------------


OUTWARD = 1 + 2.0**-45
"""What bounds are multiplied by."""

ERROR = 2.0**-42
"""The largest relative error of a bound before that, where a module says nothing else.

It is that of e^-624 and of a few operations.
"""

LEAST = 2.0**-900
"""No bound is a smaller share of its ceiling, because floats below that lose digits."""

_STEEPEST_BETA = Fraction(1 << 1000)
_HIGHEST_CEILING = 1 << 1000

Floats = NDArray[np.float64]


def inner(beta: Fraction, error: float = ERROR) -> float:
    """Return a float below `beta`, at least 0.

    Relative errors of `error` cannot break smoothness then.
    """
    # The share pays for the rounding of beta, the rest for the errors of the bounds of two
    # neighbors (docs/proofs/smooth-bounds.md, "Floats").
    return max(0.0, float(beta) * (1 - 2.0**-48) - 4 * error)


def outward(found: Any, ceiling: float) -> Any:
    """Return computed bounds raised a little and kept in [ceiling * LEAST, ceiling].

    A number or an array.
    """
    # Raised to a floor, multiplied by a constant and kept below the ceiling: a smooth bound stays
    # smooth under each of these.
    return np.minimum(np.maximum(found, ceiling * LEAST) * OUTWARD, ceiling)


def rounded_up(value: Fraction | float) -> float:
    """Return a float that is at least `value`: a public bound."""
    # float() rounds to the nearest float, which may be below the value.
    return math.nextafter(float(value), math.inf)


def checked_beta(beta: Number, owner: str) -> Fraction:
    """Return `beta`, a number in [0, inf), else raise `InvalidParameter`.

    A large one becomes a smaller one, which gives the same floats.
    """
    number: Fraction = NOT_NEGATIVE(f"{owner}.beta", beta)
    # The smaller beta is the safe one, and no float tells them apart.
    return min(number, _STEEPEST_BETA)


def checked_ceiling(ceiling: Number, owner: str) -> float:
    """Return a float at least `ceiling`, a number in (0, 2^1000], else raise `InvalidParameter`."""
    number: Fraction = POSITIVE(f"{owner}.ceiling", ceiling)
    if number > _HIGHEST_CEILING:
        raise InvalidParameter(
            f"{owner}.ceiling must be at most 2^1000; got {shown(number)}. Change the unit of the "
            "statistic."
        )
    return rounded_up(number)


def float_of(value: Any) -> float:
    """Return one object as a float.

    NaN where it is no number, infinite where it is beyond the floats.
    """
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
            f"{owner}.upper must be above lower, {shown(low)}, by at most {widest:.3g}; got "
            f"{shown(high)}. Change the unit of the values."
        )
    return low, high


def as_floats(values: Any, owner: str) -> Floats:
    """Return numbers as floats, shape () or (n,): NaN what is none.

    Raises
    ------
    InvalidParameter
        If they are not a number, or a list or one-dimensional array of at least one number (their
        shape and type are public).
    """
    try:
        array = convert_answers(values, owner)
    except InvalidParameter:
        raise InvalidParameter(
            f"{owner} needs numbers, or lists or one-dimensional arrays of at least one number; "
            "got something else."
        ) from None
    # One by one, so that no value sways how another one is read.
    if array.dtype == object:
        found = [float_of(value) for value in array.ravel()]
        return np.array(found, dtype=np.float64).reshape(array.shape)
    # A wider float may be beyond those of 64 bits. It becomes infinite, and is moved to a limit
    # later.
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def clip_values(values: Any, low: float, high: float, owner: str) -> Floats:
    """Return private values, shape (n,), moved into [low, high]; what is no number becomes `low`.

    Raises
    ------
    InvalidParameter
        If they are not a list or one-dimensional array of at least one number (their shape and type
        are public).
    """
    array = as_floats(values, owner)
    if array.ndim != 1:
        raise InvalidParameter(
            f"{owner} needs a list or a one-dimensional array of at least one number; got a single "
            "one."
        )
    # NaN is replaced first, because np.clip would keep it.
    inside: Floats = np.clip(np.nan_to_num(array, nan=low, posinf=high, neginf=low), low, high)
    return inside


# ---- distance ------------------------------------------------------------------------------------


@scrubbed
def from_distance(distance: Any, *, beta: Number, ceiling: Number, largest: Number) -> Any:
    """Return the smooth bound ceiling * e^(-beta * distance) [yamamoto2024, Thm 4 and 5].

    Parameters
    ----------
    distance : number, or array of float, shape (m,)
        Private: how many units must be replaced, at least, to come from the data into a set that
        holds all data with a large local sensitivity; any lower bound of it will do that changes by
        at most 1 between neighbors. Below 0 counts as 0; what is not finite, as where that set is
        empty, as 0 too: the bound is the ceiling.
    beta : number
        How fast the bound may change, in [0, inf), in nats a unit: public.
    ceiling : number
        Public: at least every local sensitivity.
    largest : number
        Public: what `largest_beta` returns for this statistic and this distance, from *all*
        possible data. Read off the data at hand it would neither be public nor an upper bound for
        their neighbors.

    Returns
    -------
    float, or array of float, shape (m,)
        Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta is above `largest`.

    Examples
    --------
    >>> import sordino as sd
    >>> round(sd.smooth.from_distance(10, beta=0.1, ceiling=8, largest=0.2), 6)
    2.943036
    """
    owner = "smooth.from_distance"
    rate, top = checked_beta(beta, owner), checked_ceiling(ceiling, owner)
    limit = (
        math.inf
        if isinstance(largest, float) and largest == math.inf
        else NOT_NEGATIVE(f"{owner}.largest", largest)
    )
    # Both numbers are public, so the refusal says nothing of the data.
    if rate > limit:
        raise InvalidParameter(
            f"{owner}.beta must be at most {shown(limit)}, the largest admissible one: above it "
            f"the formula is no upper bound; got {shown(rate)}."
        )
    away = as_floats(distance, owner)
    # A rule for single numbers: no distance raises an error.
    away = np.where(np.isfinite(away), np.maximum(away, 0.0), 0.0)
    found = outward(top * np.exp(-inner(rate) * away), top)
    return found if found.ndim else float(found)


def largest_beta(local: Any, distance: Any, *, ceiling: Number) -> float:
    """Return the largest beta for which `from_distance` is an upper bound, rounded down.

    Parameters
    ----------
    local : array of float, shape (n,)
        The local sensitivity of *all* possible data sets, or of all tables that they lead to:
        public, not those of the data at hand.
    distance : array of float, shape (n,)
        Their distances. All infinite: nothing is that sensitive, and the bound is constant.
    ceiling : number
        At least every local sensitivity.

    Returns
    -------
    float
        The smallest ln(ceiling / local) / distance over all with a distance above 0; inf if there
        are none.

    Raises
    ------
    InvalidParameter
        If shapes differ, a number is negative or NaN, a local sensitivity is above the ceiling, or
        some distances are infinite and others not.

    Examples
    --------
    >>> import sordino as sd
    >>> round(sd.smooth.largest_beta([8, 4, 1], [0, 1, 5], ceiling=8), 6)
    0.415888
    """
    owner = "smooth.largest_beta"
    top = checked_ceiling(ceiling, owner)
    moves, away = as_floats(local, owner), as_floats(distance, owner)
    if moves.shape != away.shape or moves.ndim != 1:
        raise InvalidParameter(
            f"{owner} needs lists of equal length; got shapes {moves.shape} and {away.shape}."
        )
    if not ((moves >= 0) & (moves <= top)).all():
        raise InvalidParameter(
            f"{owner}.local must lie in [0, ceiling], in [0, {shown(top)}]; got something else."
        )
    # A set of data is either empty, so that all distances to it are infinite, or not.
    if not (away >= 0).all() or np.isinf(away).any() > np.isinf(away).all():
        raise InvalidParameter(
            f"{owner}.distance must be numbers in [0, inf), or all of them inf; got something else."
        )
    # At a distance of 0 the bound is the ceiling for every beta, and what nothing moves needs no
    # bound.
    far = (away > 0) & (moves > 0) & np.isfinite(away)
    slopes = np.log(top / moves[far]) / away[far]
    # Rounded down: a larger beta would not be admissible.
    return float(np.min(slopes, initial=math.inf)) * (1 - 2.0**-40)
