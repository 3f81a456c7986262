"""How likely the best of public scores wins under step noise: closed forms in floats, for plans.

Claim: `win_probability` is P(the best of these scores wins), up to the rounding of floats and 1e-12.
Proof: docs/proofs/step-selection.md, "How likely the best one wins".
Floats: everything here; nothing about privacy depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

# Levels are added up to here: what is left out has a probability of e^-30 at most.
_SUCCESS_NATS = 30.0
# Entries of one matrix of levels and scores, which bounds the memory.
_CELLS_AT_ONCE = 1 << 20
_BEYOND_SCORES = 1 << 1000  # a float, and beyond all scores
_MOST_SUMMED_LEVELS = 1 << 20


def win_probability(
    steps: NDArray[np.int64], rate: Fraction, heights: Callable[[Sequence[int]], Sequence[int | Fraction]]
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
        # With how many of its levels another score stays behind the best one, at each level of that.
        counted = np.where(
            strict, np.searchsorted(above, limits, "left"), np.searchsorted(above, limits, "right")
        )
        with np.errstate(divide="ignore"):
            # Scores are independent, so their logs add up, equal ones at once. Where one cannot stay behind
            # it is -inf.
            logs = np.log(-np.expm1(-slow * counted)) @ times
        total += float((-np.expm1(-slow) * np.exp(-slow * levels + logs)).sum())
    return total
