"""Turns answers into whole numbers of steps, and fits bounds and noise rates to that grid.

Claim: if two answers differ by at most `bound`, their steps differ by at most `bound_in_steps`, and
monotone lists stay monotone. Proof: docs/proofs/grid.md. Floats: multiplication by a power of two
and floor are exact; whatever leaves +-2^52 steps is clamped.
"""

from __future__ import annotations

import math
import numbers
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import POSITIVE, POWER_OF_TWO
from sordino.errors import InvalidParameter
from sordino.sensitivity import Sensitivity

CLAMP = 1 << 52
"""Answers are clamped to [-CLAMP, CLAMP] steps."""

UNCUT = 1 << 2000
"""The upper clamp where 2^52 would disturb an order: beyond every float, even at the smallest
step."""

RATE_DENOMINATOR = 1 << 40
KEPT = Fraction(999, 1000)
"""Parameters are refused whose noise would have less than this share of the ideal rate."""

_SMALLEST_STEP = Fraction(1, 1 << 900)  # 2^52 steps and any noise stay far inside the floats
_SHORT_LIST = 64  # up to here sorting a list is as fast as searching it
# A decimal with so many more digits than the step lies beyond the clamp, or below one step.
_DIGITS_BEYOND_STEP = 5000

Steps = NDArray[Any]
"""Whole numbers: int64, or Python integers (dtype object) where one does not fit."""


def step_for(sensitivity: Sensitivity, square: Fraction, owner: str) -> Fraction:
    """Return the step of the statement, else the public power of two in (scale/2^21, scale/2^20].

    The noise scale (in the unit of the answers) is given by its square, which is rational where the
    scale need not be.

    Raises
    ------
    InvalidParameter
        If released numbers would leave the floats: a step beyond 2^900, or below 2^-900.
    """
    step = (
        choose_grid_step(square)
        if sensitivity.step is None
        else Fraction(POWER_OF_TWO("step", sensitivity.step))
    )
    if not _SMALLEST_STEP <= step <= 1 / _SMALLEST_STEP:
        raise InvalidParameter(
            f"{owner} must work on a grid whose step lies between 2^-900 and 2^900. "
            "Change the unit of the answers."
        )
    return step


def choose_grid_step(square: Fraction) -> Fraction:
    """Return the step of the grid for noise of a scale, a power of two.

    `square` is that of the scale.
    """
    # The step's square must lie in (square / 2^42, square / 2^40]: the scale itself may be
    # irrational.
    target = square / (1 << 40)
    # The bit lengths give a first guess, and the loops make it exact.
    step = Fraction(2) ** ((target.numerator.bit_length() - target.denominator.bit_length()) // 2)
    while step**2 > target:
        step /= 2
    while 4 * step**2 <= target:
        step *= 2
    return step


def bound_in_steps(sensitivity: Sensitivity, step: Fraction, owner: str) -> Fraction:
    """Return the bound of the statement after rounding the answers down to the grid, in steps.

    One answer moves by at most ceil(bound/step). A vector whose statement names no step of its own
    gains one step for each answer that rounding may carry over an edge: `size` steps in the L1
    norm, at most sqrt(size) in the L2 norm.

    Raises
    ------
    InvalidParameter
        If rounding would raise the noise by more than a thousandth (a step chosen from the noise
        scale is then too coarse for the bound), or if the bound of a vector on a grid is below one
        step of it.
    """
    steps = POSITIVE("bound", sensitivity.bound) / step
    # A statement about answers that are on the grid.
    if sensitivity.step is not None and sensitivity.norm != "each":
        if steps < 1:
            raise InvalidParameter(
                f"{owner}.sensitivity must have a bound of at least one step, "
                f"{float(step):g}; got {float(steps * step):g}."
            )
        # In the L1 norm such answers move by whole steps, so the bound may be rounded down.
        return Fraction(math.floor(steps)) if sensitivity.norm == "l1" else steps
    size = sensitivity.size or 1
    if sensitivity.norm == "each" or size == 1:
        rounded = Fraction(math.ceil(steps))
    else:
        # `isqrt(size - 1) + 1` is the square root of the size, rounded up.
        rounded = (
            Fraction(math.floor(steps) + size)
            if sensitivity.norm == "l1"
            else steps + math.isqrt(size - 1) + 1
        )
    if sensitivity.step is None and steps < KEPT * rounded:
        raise InvalidParameter(
            f"{owner} would add {float(rounded / steps - 1):.1%} more noise than its budget needs, "
            "because the grid chosen from the noise is coarse for these parameters. "
            "Raise the budget, or give Sensitivity(step=), a power of two."
        )
    return rounded


def fit_rate(
    ideal: Fraction, owner: str, denominator: int = RATE_DENOMINATOR, *, stepped: bool = True
) -> Fraction:
    """Return `ideal` if its denominator is at most `denominator`, else the next smaller such rate.

    The denominator is 2^40, for a rate a squared step 2^80. `stepped` tells whether there is a step
    to change.

    Raises
    ------
    InvalidParameter
        If that would lose more than a thousandth of the rate, or the rate is beyond 2^40.
    """
    if ideal > RATE_DENOMINATOR:
        raise InvalidParameter(
            f"{owner} must ask for noise with a rate of at most 2^40 a step, "
            "where none is left. Lower the budget."
        )
    if ideal.denominator <= denominator:
        return ideal
    # Down: a smaller rate is more noise, which keeps the budget.
    fitted = Fraction(math.floor(ideal * denominator), denominator)
    if fitted < KEPT * ideal:
        advice = "Raise epsilon (rho) or give a larger step." if stepped else "Raise epsilon."
        raise InvalidParameter(
            _TOO_SMALL_RATE.format(owner, 1000 / denominator, float(ideal), advice)
        )
    return fitted


_TOO_SMALL_RATE = "{} must ask for noise with a rate of at least {:.2g} a step; got {:.3g}. {}"


def check_rates_from(least: Fraction, owner: str, denominator: int = RATE_DENOMINATOR) -> None:
    """Raise `InvalidParameter` unless `fit_rate` keeps every rate from `least` up to the largest.

    A smaller rate may be kept as well, if it is a multiple of one over the denominator. So that one
    rate is kept says nothing of a larger one.
    """
    # Rounding down takes less than 1/denominator away: less than a thousandth of a rate from here
    # on.
    if least * denominator < 1000:
        smallest, advice = 1000 / denominator, "Raise epsilon (rho)."
        raise InvalidParameter(_TOO_SMALL_RATE.format(owner, smallest, float(least), advice))


def to_steps(answers: Any, step: Fraction, owner: str) -> NDArray[np.int64]:
    """Return `floor(answers / step)` clamped to +-2^52, as int64 of the same shape: () or (n,).

    Each value is converted by itself, and none is refused: NaN, -inf and what is no number become
    the lowest, +inf the highest value.

    Raises
    ------
    InvalidParameter
        If the answers are not a number or a one-dimensional list of at least one number (their
        shape and type are public).
    """
    array = convert_answers(answers, owner)
    if array.dtype == object:
        steps = np.array([_step_of(value, step) for value in array.ravel()], dtype=np.int64)
        return steps.reshape(array.shape)
    exponent = step.numerator.bit_length() - step.denominator.bit_length()
    # A shift is exact; by 64 and more nothing but the sign is left.
    if array.dtype.kind in "bui" and exponent >= 0:
        return _shift_to_steps(array, exponent)
    with np.errstate(all="ignore"):
        # A whole number that a float cannot hold lies beyond the clamp, because the step is below 1
        # here.
        values = array if array.dtype.itemsize > 8 else array.astype(np.float64)
        scaled = np.ldexp(values, -exponent)
        # A negative value that underflows still lies below zero.
        scaled = np.where((values < 0) & (scaled == 0), -1.0, np.floor(scaled))
    scaled = np.nan_to_num(scaled, nan=-CLAMP, posinf=CLAMP, neginf=-CLAMP)
    clamped: NDArray[Any] = np.clip(scaled, -CLAMP, CLAMP)
    return clamped.astype(np.int64)


def to_steps_uncut(answers: Any, step: Fraction, owner: str) -> Steps:
    """Return what `to_steps` returns, but clamped to [-2^52, 2^2000].

    If one step lies at 2^52 or beyond, all of them are Python integers. This is for lists in an
    order which a clamp from above would not keep: of two answers that rise together one would stop
    first.

    Raises
    ------
    InvalidParameter
        As `to_steps`.
    """
    steps = to_steps(answers, step, owner)
    if not (steps == CLAMP).any():
        return steps
    values, whole = convert_answers(answers, owner).ravel(), steps.ravel().astype(object)
    for i in np.flatnonzero(whole == CLAMP).tolist():
        whole[i] = _step_of(values[i], step, UNCUT)
    return whole.reshape(steps.shape)


def _shift_to_steps(array: NDArray[Any], exponent: int) -> NDArray[np.int64]:
    """Return whole numbers divided by 2^exponent, rounded down."""
    unsigned = array.dtype.kind == "u"
    wide: NDArray[Any] = array.astype(np.uint64 if unsigned else np.int64)
    if unsigned and exponent > 63:
        return np.zeros(array.shape, dtype=np.int64)
    bounded: NDArray[Any] = np.clip(wide >> min(exponent, 63), 0 if unsigned else -CLAMP, CLAMP)
    return bounded.astype(np.int64)


def convert_answers(answers: Any, owner: str) -> NDArray[Any]:
    """Return the answers as an array of numbers, or of objects to be converted one by one.

    None of their values raises, and none changes how another one is converted.
    """
    array: NDArray[Any] | None = None
    # Its type is asked, and not the object itself: what that says of its class may raise.
    kind = type(answers)
    if issubclass(kind, np.ma.MaskedArray):
        # Whatever stands under a mask is missing.
        array = np.ma.filled(answers.astype(object), None)
    elif issubclass(kind, list | tuple | range):
        array = list_to_array(list(answers))
    elif _is_single(answers):
        array = np.empty((), dtype=object)
        array[()] = answers
    elif _is_column(answers):
        array = column_to_array(answers)
    if array is None or array.dtype.kind not in "buifO" or array.ndim > 1 or array.size == 0:
        raise InvalidParameter(
            f"{owner}.release needs a number or a one-dimensional array of at least one number; "
            "got something of another shape or type."
        )
    return array


def column_to_array(answers: Any) -> NDArray[Any]:
    """Return a column of pandas, Polars or Arrow as an array.

    Whole numbers stay whole where one is missing: NumPy would make floats of all of them.
    """
    kind = getattr(answers, "dtype", getattr(answers, "type", None))
    name = str(kind).lower()
    if isinstance(kind, np.dtype) or name.startswith(("float", "double")):
        return np.asarray(answers)
    # NumPy has no whole numbers or decimals of 128 bits.
    if not name.endswith("128"):
        array = np.asarray(answers)
        if array.dtype.kind != "f":
            return array
    listed = next(
        (
            getattr(answers, way)
            for way in ("to_pylist", "to_list", "tolist")
            if hasattr(answers, way)
        ),
        None,
    )
    return np.asarray(answers) if listed is None else list_to_array(listed())


def _is_column(answers: Any) -> bool:
    """Return whether the answers can be made an array."""
    try:
        return hasattr(answers, "__array__")
    except Exception:  # noqa: BLE001 - its own methods raise
        return False


def _is_single(answers: Any) -> bool:
    """Return whether the answers are a single one.

    A number, or a mark where a number is missing.
    """
    times = np.datetime64 | np.timedelta64  # one of them is a whole number for NumPy
    # By their names: pandas is not imported for that.
    missing = answers is None or type(answers).__name__ in {"NAType", "NaTType"}
    try:
        return missing or issubclass(type(answers), numbers.Real | Decimal | times)
    # An answer that raises when it is asked what it is, is a single one.
    except Exception:  # noqa: BLE001
        return True


def list_to_array(values: list[Any]) -> NDArray[Any]:
    """Return a list as an array of one type if all values have exactly that type, else objects."""
    # Types are told apart by `id`: the type of a private value may have a hash of its own, which
    # raises.
    kinds = set(map(id, map(type, values)))
    if kinds == {id(float)}:
        return np.array(values, dtype=np.float64)
    if kinds == {id(int)} and all(-(1 << 63) <= value < 1 << 63 for value in values):
        return np.array(values, dtype=np.int64)
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array


def _step_of(value: Any, step: Fraction, highest: int = CLAMP) -> int:
    """Return the clamped step of one Python or NumPy object, by the same rule as for arrays."""
    number = number_of(value)
    if number is None:
        return -CLAMP
    if isinstance(number, int | Fraction):
        return _clamp_to_grid(Fraction(number) / step, highest)
    if math.isinf(number):
        return highest if number > 0 else -CLAMP
    # A decimal with a huge exponent would become a whole number of as many digits.
    beyond = _DIGITS_BEYOND_STEP + max(step.numerator.bit_length(), step.denominator.bit_length())
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > beyond:
        # A decimal that is far below one step is rounded down to 0 or -1.
        return (highest if number > 0 else -CLAMP) if number.adjusted() > 0 else -int(number < 0)
    return _clamp_to_grid(Fraction(*number.as_integer_ratio()) / step, highest)


def number_of(value: object) -> int | float | Fraction | Decimal | None:
    """Return one object as an exact number of Python's types, +-infinity among them; never raise.

    None where it is missing or no number, and where what it says of itself raises.
    """
    try:
        return _read_python_number(value)
    except Exception:  # noqa: BLE001 - a value whose own methods raise is no number
        return None


def read_float(value: object) -> float:
    """Return a number as a float, NaN if it is none; never raise."""
    number = number_of(value)
    if number is None:
        return math.nan
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _read_python_number(value: Any) -> int | float | Fraction | Decimal | None:
    # The methods of Python's own types are asked: those of a subclass may do anything.
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        number = float.__float__(value)
        return None if math.isnan(number) else number
    if isinstance(value, Fraction):
        return Fraction(Fraction.numerator.__get__(value), Fraction.denominator.__get__(value))
    if isinstance(value, Decimal):
        # `Decimal.is_nan`: `math.isnan` raises for a signaling decimal.
        return None if Decimal.is_nan(value) else Decimal(value)
    return _read_numpy_number(value)


def _read_numpy_number(value: Any) -> int | float | Fraction | None:
    """Return a number of another library, most often of NumPy, exactly."""
    # NumPy counts it as a whole number, and `int` refuses some of them.
    if isinstance(value, np.timedelta64):
        return None
    if isinstance(value, np.bool_ | numbers.Integral):
        return int(value)
    if isinstance(value, np.floating) and not np.isnan(value):
        # Floats of NumPy have many widths; a fraction holds each of them.
        return float(value) if np.isinf(value) else Fraction(*value.as_integer_ratio())
    return None


def _clamp_to_grid(steps: Fraction, highest: int) -> int:
    return max(-CLAMP, min(highest, math.floor(steps)))


def add(steps: NDArray[np.int64], noise: Steps) -> Steps:
    """Return answers plus noise, exactly.

    They are int64, or Python integers in the rare case that they are needed.
    """
    # Noise beyond 61 bits comes as Python integers, so that no sum leaves a word of 64 bits.
    # docs/proofs/samplers.md, "Geometric"
    return steps.astype(object) + noise if noise.dtype == object else steps + noise


def largest(values: Steps, m: int) -> NDArray[np.intp]:
    """Return the positions of the `m` largest values, largest first.

    Among equals the smaller position wins (the public priority). Lists may come in rows, shape
    (..., n): one or many, they are sorted by the same line. One long list is searched.
    """
    n = values.shape[-1]
    m = min(m, n)
    if values.dtype == object:
        return np.array(sorted(range(n), key=lambda i: (-values[i], i))[:m], dtype=np.intp)
    if n <= _SHORT_LIST or values.ndim > 1:
        # A stable sort keeps equals in the order of their positions.
        return np.argsort(-values, axis=-1, kind="stable")[..., :m]
    # All that lies above the m-th largest value is in; its equals fill the rest, smallest positions
    # first.
    last = np.partition(values, n - m)[n - m]
    above = np.flatnonzero(values > last)
    level = np.flatnonzero(values == last)[: m - above.size]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], level])


def widen(values: NDArray[Any], width: int, filler: int = 0) -> NDArray[Any]:
    """Return an array whose last axis has that many places, with the filler in missing ones."""
    missing = [(0, 0)] * (values.ndim - 1) + [(0, width - values.shape[-1])]
    return np.pad(values, missing, constant_values=filler)


def from_steps(steps: Any, step: Fraction) -> Any:
    """Return `steps * step` as floats, rounded to nearest: post-processing, after the noise."""
    if isinstance(steps, np.ndarray):
        # The step is a power of two: multiplying by it moves the exponent, and rounds nothing.
        return (
            np.array([float(x * step) for x in steps])
            if steps.dtype == object
            else steps * float(step)
        )
    return float(steps * step)
