"""Rounds real answers up or down at random to a public grid, so that the mean is the answer.

Claim: the result is floor(p + U) for U uniform on [0, 1) and p = (answer - low)/step clamped to [0,
cells]: its mean is p, exactly, and for the same U two answers that are d steps apart end at most
ceil(d) apart. Proof: docs/proofs/folded.md, "Rounding". Noise: one word an answer, more where 64
digits do not decide. Floats: a float may only propose; within a certified band of a whole number
fractions decide.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import number_of

_WORD = 1 << 64
# Sixteen times what a subtraction, a division, an addition and their rounded ends can be off.
_PLACE_ERROR = 2.0**-49
_ANSWER_EXPONENT_LIMIT = (
    5000  # a decimal with an exponent beyond this is 0 or lies beyond every end
)

Variance = TypeVar("Variance", float, Fraction)


def round_at_random(
    array: NDArray[Any], low: Fraction, step: Fraction, cells: int, entropy: Entropy
) -> NDArray[np.int64]:
    """Return numbers of 0..cells, of the shape of the answers, () or (n,).

    It never raises: what is no number counts as the lowest.
    """
    flat = array.ravel()
    words = entropy.words(flat.size)
    # Python's own numbers may be no floats at all: fractions decide about each.
    if flat.dtype == object:
        found, close = np.zeros(flat.size, dtype=np.int64), np.arange(flat.size)
    else:
        found, close = _propose_rounding(
            flat, words, (float(low), float(low + cells * step)), float(step), cells
        )
    # Where floats do not decide, fractions do. They use the same word, the first digits of the same
    # U.
    for i in close.tolist():
        place = max(
            Fraction(0),
            min(Fraction(cells), (number(flat[i], low, low + cells * step) - low) / step),
        )
        whole = math.floor(place)
        # floor(place + U) is one more than `whole` exactly if U is at least what is missing to the
        # next number.
        found[i] = whole + reaches(int(words[i]), 1 - (place - whole), entropy)
    return found.reshape(array.shape)


def between(here: Variance, there: Variance, part: Variance) -> Variance:
    """Return the variance at this part of the way between two whole numbers with these variances.

    The variance of rounding to them at random is included.
    """
    return (1 - part) * here + part * there + part * (1 - part)


def largest_between(here: Variance, there: Variance) -> Variance:
    """Return the largest variance between two whole numbers with these variances.

    The top of a parabola.
    """
    kind = type(here)
    return between(here, there, min(max((1 + there - here) / 2, kind(0)), kind(1)))


def _propose_rounding(
    values: NDArray[Any],
    words: NDArray[np.uint64],
    ends: tuple[float, float],
    step: float,
    cells: int,
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Return floor(p + U) in floats, and the positions where floats do not decide.

    There p + U is too close to a whole number.
    """
    # Infinities and NaN come through without a warning, which would tell that they are there.
    with np.errstate(all="ignore"):
        # Rounding keeps the order, and what is rounded is within the band or beyond an end.
        wide = values.astype(np.float64)
        inside = np.clip(np.where(np.isnan(wide), -np.inf, wide), *ends)
        sums = (inside - ends[0]) / step + words.astype(np.float64) * 2.0**-64
        band = _PLACE_ERROR * (max(map(abs, ends)) / step + cells + 1)
        nearest = np.rint(sums)
        # A comparison with NaN is false, so that one would count as close.
        close = np.flatnonzero(~(np.abs(sums - nearest) > band))
        return np.clip(np.floor(sums), 0, cells).astype(np.int64), close


def number(value: Any, low: Fraction, high: Fraction) -> Fraction:
    """Return the exact number that one private answer stands for, `low` for what is none.

    It never raises.
    """
    exact = number_of(value)
    if exact is None:
        return low
    if isinstance(exact, int | Fraction):
        return Fraction(exact)
    if math.isinf(exact):
        return high if exact > 0 else low
    # Written out as a fraction it would have as many digits as its exponent says.
    if isinstance(exact, Decimal) and exact and abs(exact.adjusted()) > _ANSWER_EXPONENT_LIMIT:
        return Fraction(0) if exact.adjusted() < 0 else high if exact > 0 else low
    return Fraction(*exact.as_integer_ratio())


def reaches(word: int, least: Fraction, entropy: Entropy) -> bool:
    """Return whether the uniform number that begins with these 64 digits is at least `least`.

    More digits are drawn while they equal those of `least`.
    """
    while True:
        least *= _WORD
        digits = math.floor(least)
        # The first digits that differ decide, and so does a `least` that has no digits left.
        if word != digits or least == digits:
            return word >= digits
        least -= digits
        word = int(entropy.words(1)[0])
