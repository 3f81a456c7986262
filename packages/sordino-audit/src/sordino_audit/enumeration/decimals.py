"""Numbers between two decimals of sixty digits: each operation rounds outward.

Claim: the result encloses that of all numbers within the given bounds. Products and quotients are
of numbers that are not negative. Proof: docs/proofs/exact-audit.md, "Masses".
Floats: none; sixty digits are far more than a float has, so that no width shows in a report.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from functools import reduce

from sordino.noise.probability import Bounds, contexts, exp_bounds, ratio_bounds

_DIGITS = 60
_DOWN, _UP = contexts(_DIGITS)

ZERO: Bounds = (Decimal(0), Decimal(0))
ONE: Bounds = (Decimal(1), Decimal(1))


def enclose_ratio(x: Fraction) -> Bounds:
    """Return bounds of a rational number."""
    return ratio_bounds(x, _DIGITS)


def enclose_decay(x: Fraction) -> Bounds:
    """Return bounds of e^-x, x >= 0."""
    return exp_bounds(x, _DIGITS)


def add_bounds(a: Bounds, b: Bounds) -> Bounds:
    """Return the sum."""
    return _DOWN.add(a[0], b[0]), _UP.add(a[1], b[1])


def sum_of(parts: Iterable[Bounds]) -> Bounds:
    """Return the sum of all parts."""
    return reduce(add_bounds, parts, ZERO)


def subtract(a: Bounds, b: Bounds) -> Bounds:
    """Return the difference."""
    return _DOWN.subtract(a[0], b[1]), _UP.subtract(a[1], b[0])


def multiply(a: Bounds, b: Bounds) -> Bounds:
    """Return the product."""
    return _DOWN.multiply(a[0], b[0]), _UP.multiply(a[1], b[1])


def product_of(parts: Iterable[Bounds]) -> Bounds:
    """Return the product of all parts."""
    return reduce(multiply, parts, ONE)


def divide(a: Bounds, b: Bounds) -> Bounds:
    """Return the quotient."""
    return _DOWN.divide(a[0], b[1]), _UP.divide(a[1], b[0])


def root(a: Bounds) -> Bounds:
    """Return the square root, which is correct to the last digit."""
    return _DOWN.next_minus(_DOWN.sqrt(a[0])), _UP.next_plus(_UP.sqrt(a[1]))


def within_one(a: Bounds) -> Bounds:
    """Return the bounds of a probability, which is neither below 0 nor above 1."""
    return max(Decimal(0), a[0]), min(Decimal(1), a[1])
