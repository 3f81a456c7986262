"""The atoms of step noise under a private scale: the heights of its levels, rounded to a grid.

They are rounded so that one move crosses one of them.

Claim: `ratio_for` is at least (1 + ROOM) times the largest factor by which the scale moves; heights a satisfy
a_0 = 0 and a_(j+1) >= ratio a_j + 2, in units of 2^-32, up to where a level decides alone.
Proof: docs/proofs/step-selection.md, "Rounding".
Floats: none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

from sordino.grid import CLAMP
from sordino.noise.probability import exp_bounds

DIGITS = 32
"""Heights of atoms are whole multiples of 2^-32 scales."""

ROOM = Fraction(1, 1 << 38)
"""By which share a scale may be above what it stands for, all rounding together."""

FINE = 1 << 20
"""A scale is at least so many steps of the scores."""

_RATIO_DIGITS = 48
_EXP_DIGITS = 40
# A level so far above the one below it decides alone, whatever the scores and the scale.
_DECISIVE_HEIGHT = (2 * CLAMP // FINE + 1) << DIGITS

Heights = Callable[[Sequence[int]], list[int]]
"""From numbers of levels, any, to heights above 0 in units of 2^-32 scales."""


@lru_cache(maxsize=256)
def ratio_for(beta: Fraction, floor: Fraction, ceiling: Fraction) -> Fraction:
    """Return min(e^beta, ceiling/floor) (1 + ROOM), rounded up to 48 binary digits.

    It is 1 where the scale is one public number.
    """
    if floor == ceiling:
        return Fraction(1)
    widest = ceiling / floor
    # Otherwise e^beta > 2^beta >= ceiling/floor, and e^beta need not be computed.
    if beta < widest.numerator.bit_length() - widest.denominator.bit_length() + 1:
        widest = min(widest, 1 / Fraction(exp_bounds(beta, _EXP_DIGITS)[0]))
    unit = 1 << _RATIO_DIGITS
    return Fraction(-(-widest * (1 + ROOM) * unit // 1), unit)


_KEPT_ATOMS = 1 << 12


def heights(ratio: Fraction) -> Heights:
    """Return the heights of the atoms for this ratio."""
    if ratio == 1:
        # A public scale: heights are twice the level, in units of 2^-32.
        return lambda levels: [level << DIGITS + 1 for level in levels]
    # The ratio has 48 binary digits, so nothing is rounded here.
    steps = int(ratio * (1 << _RATIO_DIGITS))

    def at(levels: Sequence[int]) -> list[int]:
        most = max(levels, default=0) + 1
        # The levels are noise, and what is kept in memory must not follow from them: a fixed number of atoms
        # is kept. If more are needed, they are computed for this release.
        known = _kept_atoms(steps) if most <= _KEPT_ATOMS else _first_atoms(steps, most)
        last = len(known) - 1
        return [
            known[level] if level <= last else known[last] + (level - last) * _DECISIVE_HEIGHT
            for level in levels
        ]

    return at


@lru_cache(maxsize=4)
def _kept_atoms(ratio: int) -> tuple[int, ...]:
    return _first_atoms(ratio, _KEPT_ATOMS)


def _first_atoms(ratio: int, count: int) -> tuple[int, ...]:
    """Return the first `count` atoms, or fewer: up to the first that a level alone decides about."""
    found, up, two = [0], (1 << _RATIO_DIGITS) - 1, 2 << DIGITS
    while len(found) < count:
        # Each from the rounded one before it, and rounded up: otherwise they might not be far enough apart.
        found.append(((found[-1] * ratio + up) >> _RATIO_DIGITS) + two)
        if found[-1] - found[-2] >= _DECISIVE_HEIGHT:
            break
    return tuple(found)


def levels_needed(ratio: Fraction, rate: Fraction) -> int:
    """Return about how many atoms a release computes, for a ratio above 1.

    They are those that noise reaches, or those after which a level decides alone, if these are fewer.
    """
    return math.ceil(min(64 / rate, 23 / (ratio - 1) + 1))
