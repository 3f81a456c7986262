"""Floats with proven errors, many at a time: powers e^-x and logarithms, for certified comparisons.

They are e^-x, 1 - e^-x and -ln(1 - e^-x) for x = rate * depth, and -ln U.

Claim: the bounds at each function, for every depth of 62 bits and every rate in [2^-400, 2^60].
Proof: docs/proofs/samplers.md, "Certified floats". Floats: IEEE 754 doubles, sums, products and
quotients of two at a time, rounded to nearest; no function of the C library.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIT = 2.0**-53
DEEP = 500.0
"""From this x on e^-x is proposed as 0; it is below 2^-721."""

_LN2_NEAREST = float.fromhex("0x1.62e42fefa39efp-1")
# 32 digits: its products with whole numbers below 2^21 are exact.
_LN2_HIGH = float.fromhex("0x1.62e42feep-1")
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_TAYLOR = [1 / math.factorial(n) for n in range(13, 0, -1)]  # (e^r - 1)/r
_ATANH = [1 / (2 * n + 1) for n in range(9, -1, -1)]  # atanh(s)/s, in s^2
_SHORT_WORD = 1 << 32  # a shorter word decides little: once in 2^32 draws
_ROOT_HALF = np.float64(0.7071067811865476).view(np.int64)


def _polynomial(coefficients: list[float], x: Floats) -> Floats:
    """Return the polynomial whose highest coefficient is the first."""
    # Horner's rule, one product or sum at a time: the proof counts these roundings.
    value = coefficients[0] * x
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


def exponents(depths: NDArray[np.int64], rate: Fraction) -> Floats:
    """Return x = rate * max(depth, 0), shape (m,), to a relative 4 UNIT.

    What is deeper than `DEEP` is as deep as that.
    """
    return np.minimum(np.maximum(depths, 0) * float(rate), DEEP)


def chances(x: Floats) -> tuple[Floats, Floats]:
    """Return p = e^-x and q = 1 - p, both of shape (m,), for what `exponents` returns.

    The first is right to a relative (4 x + 16) UNIT, the second to a relative 32 UNIT; both with
    the error of x. Beyond `DEEP` they are 0 and 1.
    """
    # e^-x = 2^-k e^r, with r between -0.35 and 0.35.
    k = np.rint(x * (1 / _LN2_NEAREST))
    # In two parts, because k times the high one is exact.
    r = (k * _LN2_HIGH - x) + k * _LN2_LOW
    grown = _polynomial(_TAYLOR, r)
    grown *= r
    # 2^-k by its exponent bits alone: to scale by it is exact.
    p = ((1023 - k.astype(np.int64)) << 52).view(np.float64) * (1 + grown)
    p[x >= DEEP] = 0
    # Near 0 the difference 1 - p would lose its digits.
    return p, np.where(k == 0, -grown, 1 - p)


def logarithms(p: Floats, q: Floats) -> Floats:
    """Return -ln q, shape (m,), q in (0, 1] and p = 1 - q, both known to a small relative error.

    Right to a relative 40 UNIT if p and q are right to a relative UNIT; to a relative (6 x + 64)
    UNIT if they are what `chances` returns.
    """
    # Split into 2^shift and f by the bits of the float, which rounds nothing.
    bits = q.view(np.int64)
    shift = (bits - _ROOT_HALF) >> 52  # q 2^-shift is in [sqrt 1/2, sqrt 2)
    f = (bits - (shift << 52)).view(np.float64)
    # Close to 1 the numerator is p itself, because 1 - f would lose its digits.
    s = np.where(shift == 0, p, 1 - f) / (1 + f)
    # -ln q = 2 artanh(s) - shift ln 2.
    value = _polynomial(_ATANH, s * s)
    value *= s
    value += value
    value -= shift * _LN2_NEAREST
    return value


def uniforms(words: list[int]) -> tuple[Floats, Floats]:
    """Return 1 - U and U, each of shape (m,), for U = word/2^64 with its first 64 digits.

    They are right to a relative UNIT if the word is not 0.
    """
    # A word of 0 has no logarithm: 1 takes its place, and `widened` makes nothing of so short a
    # word.
    p = np.array([float((1 << 64) - word) for word in words])
    return p * 2.0**-64, np.array([float(word or 1) for word in words]) * 2.0**-64


def widened(value: float, word: int) -> tuple[float, float]:
    """Return bounds on -ln U for all U that begin with the 64 digits of `word`.

    `value` is what `logarithms` says of `uniforms`.
    """
    if word < _SHORT_WORD:
        return 22.0, math.inf  # U < 2^-32
    # The proven error, the roundings of those who use it, and the digits that are not drawn.
    margin = 64 * UNIT * value + 2 / word
    return value - margin, value + margin


def exponentials(words: list[int]) -> list[tuple[float, float]]:
    """Return bounds on -ln U for uniform numbers that begin with these 64 digits."""
    return [
        widened(value, word)
        for value, word in zip(logarithms(*uniforms(words)).tolist(), words, strict=True)
    ]
