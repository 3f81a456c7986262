"""Answers as whole numbers of steps: total conversion, exact rates, and the public priority among equals.

Claim: if two answers differ by at most `bound`, their steps differ by at most `bound_in_steps`, and monotone lists stay monotone.
Proof: docs/proofs/grid.md.
Floats: multiplication by a power of two and floor are exact; whatever leaves +-2^52 steps is clamped.
"""

from __future__ import annotations

import math
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

RATE_DENOMINATOR = 1 << 40
_RATE_KEPT = Fraction(999, 1000)

Steps = NDArray[Any]
"""Whole numbers: int64, or Python integers (dtype object) where one does not fit."""


def choose_step(scale: Fraction) -> Fraction:
    """Return the public power of two in (scale/2^21, scale/2^20]."""
    target = scale / (1 << 20)
    exponent = target.numerator.bit_length() - target.denominator.bit_length()
    step = Fraction(2) ** exponent
    while step > target:
        step /= 2
    while 2 * step <= target:
        step *= 2
    return step


def step_for(sensitivity: Sensitivity, scale: Fraction) -> Fraction:
    """Return the step of the statement, or the one chosen from the noise scale (in the unit of the answers)."""
    return choose_step(scale) if sensitivity.step is None else Fraction(POWER_OF_TWO("step", sensitivity.step))


def bound_in_steps(sensitivity: Sensitivity, step: Fraction) -> Fraction:
    """Return the bound of the statement after rounding the answers down to the grid, in steps.

    One answer moves by at most ceil(bound/step). A vector whose statement names no step of its own gains one step for each answer
    that rounding may carry over an edge: `size` steps in the L1 norm, at most sqrt(size) <= `size` in the L2 norm.
    """
    steps = POSITIVE("bound", sensitivity.bound) / step
    if sensitivity.norm == "each" or (sensitivity.step is None and sensitivity.size in {None, 1}):
        return Fraction(math.ceil(steps))
    if sensitivity.step is not None:  # a statement about answers that are on the grid
        return Fraction(math.floor(steps)) if sensitivity.norm == "l1" else steps
    size = sensitivity.size or 1
    return Fraction(math.floor(steps) + size) if sensitivity.norm == "l1" else steps + math.isqrt(size - 1) + 1


def fit_rate(ideal: Fraction, owner: str, denominator: int = RATE_DENOMINATOR) -> Fraction:
    """Return `ideal` if its denominator is at most 2^40 (a rate a squared step: 2^80), else the next smaller such rate.

    Raises
    ------
    InvalidParameter
        If that would lose more than a thousandth of the rate.
    """
    if ideal.denominator <= denominator:
        return ideal
    fitted = Fraction(math.floor(ideal * denominator), denominator)
    if fitted < _RATE_KEPT * ideal:
        raise InvalidParameter(
            f"{owner} must ask for noise with a rate of at least {1000 / denominator:.1g} a step; got {float(ideal):.3g}. "
            "Raise epsilon (rho) or give a larger step."
        )
    return fitted


def to_steps(answers: Any, step: Fraction, owner: str) -> NDArray[np.int64]:
    """Return `floor(answers / step)` clamped to +-2^52, as int64 of the same shape: () or (n,).

    Total: NaN and -inf become the lowest, +inf the highest value; what is not a number counts as NaN.

    Raises
    ------
    InvalidParameter
        If the answers are not a number or a one-dimensional list of at least one number (their shape and type are public).
    """
    array = _array(answers, owner)
    if array.dtype.kind in "OUS":
        flat = [_step_of(value, step) for value in array.ravel().tolist()]
        return np.array(flat, dtype=np.int64).reshape(array.shape)
    exponent = step.numerator.bit_length() - step.denominator.bit_length()
    if array.dtype.kind in "bui" and 0 <= exponent < 63:  # a shift is exact; elsewhere whole numbers clamp or fit a float
        shifted: NDArray[Any] = array.astype(np.uint64 if array.dtype.kind == "u" else np.int64) >> exponent
        bounded: NDArray[Any] = np.clip(shifted, -CLAMP if array.dtype.kind != "u" else 0, CLAMP)
        return bounded.astype(np.int64)
    values = array if array.dtype.itemsize > 8 else array.astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(values, -exponent)
        scaled = np.where((values < 0) & (scaled == 0), -1.0, np.floor(scaled))  # an underflow still lies below zero
    scaled = np.nan_to_num(scaled, nan=-CLAMP, posinf=CLAMP, neginf=-CLAMP)
    clamped: NDArray[Any] = np.clip(scaled, -CLAMP, CLAMP)
    return clamped.astype(np.int64)


def _array(answers: Any, owner: str) -> NDArray[Any]:
    """Return the answers as an array of shape () or (n,); no value of theirs can raise or reach a message."""
    try:
        array = np.asarray(answers)
    except (ValueError, TypeError, OverflowError):
        array = np.empty((0, 0))
    if array.dtype.kind not in "buifOUS" or array.ndim > 1 or array.size == 0:
        raise InvalidParameter(
            f"{owner}.release needs a number or a one-dimensional array of at least one number; "
            "got something of another shape or type."
        )
    return array


def _step_of(value: Any, step: Fraction) -> int:
    """Return the clamped step of one Python object by a rule that is total: what is no real number counts as NaN."""
    if (isinstance(value, float) and math.isfinite(value)) or isinstance(value, int | Fraction):
        return max(-CLAMP, min(CLAMP, math.floor(Fraction(value) / step)))
    if isinstance(value, Decimal) and not value.is_nan():
        beyond = value.adjusted() > 400 or value.is_infinite()
        bounded = CLAMP * step * (-1 if value < 0 else 1) if beyond else Fraction(value)
        return max(-CLAMP, min(CLAMP, math.floor(bounded / step)))
    return CLAMP if isinstance(value, float) and value == math.inf else -CLAMP


def add(steps: NDArray[np.int64], noise: Steps) -> Steps:
    """Return answers plus noise, exactly: int64, or Python integers in the astronomically rare case that noise needs them."""
    return steps.astype(object) + noise if noise.dtype == object else steps + noise


def largest(values: Steps, m: int) -> NDArray[np.intp]:
    """Return the positions of the `m` largest values, largest first; among equals the smaller position wins (the public priority)."""
    n = values.size
    m = min(m, n)
    if values.dtype == object:
        return np.array(sorted(range(n), key=lambda i: (-values[i], i))[:m], dtype=np.intp)
    last = np.partition(values, n - m)[n - m]
    above = np.flatnonzero(values > last)
    level = np.flatnonzero(values == last)[: m - above.size]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], level])


def from_steps(steps: Any, step: Fraction) -> Any:
    """Return `steps * step` as floats, rounded to nearest: post-processing, after the noise."""
    if isinstance(steps, np.ndarray):
        return np.array([float(x * step) for x in steps]) if steps.dtype == object else steps * float(step)
    return float(steps * step)
