"""The atoms of step noise under a private scale: the heights of its levels, rounded to a grid.

They are rounded so that one move crosses one of them.

Claim: `ratio_for` is at least (1 + ROOM) times the largest factor by which the scale moves; heights
a satisfy a_0 = 0 and a_(j+1) >= ratio a_j + 2, in units of 2^-32, up to where a level decides
alone. Proof: docs/proofs/step-selection.md, "Rounding". Floats: none.

How likely the best of public scores wins under step noise: closed forms in floats, for plans.

Claim: `win_probability` is P(the best of these scores wins), up to the rounding of floats and
1e-12. Proof: docs/proofs/step-selection.md, "How likely the best one wins". Floats: everything
here; nothing about privacy depends on it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sordino.grid import CLAMP
from sordino.noise.probability import exp_bounds

# ---- step success --------------------------------------------------------------------------------


# Levels are added up to here: what is left out has a probability of e^-30 at most.
_SUCCESS_NATS = 30.0
# Entries of one matrix of levels and scores, which bounds the memory.
_CELLS_AT_ONCE = 1 << 20
_BEYOND_SCORES = 1 << 1000  # a float, and beyond all scores
_MOST_SUMMED_LEVELS = 1 << 20


def win_probability(
    steps: NDArray[np.int64],
    rate: Fraction,
    heights: Callable[[Sequence[int]], Sequence[int | Fraction]],
) -> float:
    """Return the probability that the largest score wins, among equals the first.

    The noise of each score is the height of a geometric level.

    Parameters
    ----------
    steps : array of int, shape (n,)
        Scores, in the unit of the heights.
    rate : Fraction
        Of the geometric law of a level.
    heights : callable
        From levels to the noise that they stand for.
    """
    best = int(steps.argmax())
    others = np.delete(int(steps[best]) - steps.astype(np.int64), best)
    # Those before the best one win where they are equal, noise included.
    before = np.arange(others.size) < best
    # Others of equal depth and equal priority have the same factor: it is computed once.
    kinds, times = np.unique(2 * others + before, return_counts=True)
    depths, strict = (kinds // 2).astype(np.float64), kinds % 2 == 1
    reach = min(_MOST_SUMMED_LEVELS, math.ceil(_SUCCESS_NATS / float(rate)) + 1)
    above = np.array([float(min(x, _BEYOND_SCORES)) for x in heights(range(2 * reach))])
    slow, total, block = float(rate), 0.0, max(1, _CELLS_AT_ONCE // max(1, times.size))
    for start in range(0, reach, block):
        levels = np.arange(start, min(start + block, reach))
        limits = above[levels][:, None] + depths[None, :]
        # With how many of its levels another score stays behind the best one, at each level of
        # that.
        counted = np.where(
            strict, np.searchsorted(above, limits, "left"), np.searchsorted(above, limits, "right")
        )
        with np.errstate(divide="ignore"):
            # Scores are independent, so their logs add up, equal ones at once. Where one cannot
            # stay behind it is -inf.
            logs = np.log(-np.expm1(-slow * counted)) @ times
        total += float((-np.expm1(-slow) * np.exp(-slow * levels + logs)).sum())
    return total


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
        # The levels are noise, and what is kept in memory must not follow from them: a fixed number
        # of atoms is kept. If more are needed, they are computed for this release.
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
    """Return the first `count` atoms, or fewer.

    They go up to the first that a level alone decides about.
    """
    found, up, two = [0], (1 << _RATIO_DIGITS) - 1, 2 << DIGITS
    while len(found) < count:
        # Each from the rounded one before it, and rounded up: otherwise they might not be far
        # enough apart.
        found.append(((found[-1] * ratio + up) >> _RATIO_DIGITS) + two)
        if found[-1] - found[-2] >= _DECISIVE_HEIGHT:
            break
    return tuple(found)


@lru_cache(maxsize=64)
def least_counts(ratio: Fraction) -> tuple[int, ...]:
    """Return for the first levels k how many heights a rival stays behind with at least.

    It does so if it loses one. With z_k the height of level k the result is the number of heights
    that are at most (1 + ratio) z_k + 2, but no more than are looked at. It does not fall with k.
    Where the scale is public nobody loses any.
    """
    atoms = _kept_atoms(int(ratio * (1 << _RATIO_DIGITS)))
    # In the unit of the heights, rounded down: heights are whole, so none is counted that is
    # higher.
    limits = (
        atom + (atom * int(ratio * (1 << _RATIO_DIGITS)) >> _RATIO_DIGITS) + (2 << DIGITS)
        for atom in atoms
    )
    return tuple(bisect_right(atoms, limit) for limit in limits)


def levels_needed(ratio: Fraction, rate: Fraction) -> int:
    """Return about how many atoms a release computes, for a ratio above 1.

    They are those that noise reaches, or those after which a level decides alone, if these are
    fewer.
    """
    return math.ceil(min(64 / rate, 23 / (ratio - 1) + 1))
