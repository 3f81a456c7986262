"""Unbiased noise for one value of [-1, 1] from the literature, as formulas: Duchi's two points, Piecewise, Hybrid. Not for use.

The variance at t of each, in squares of half the range [duchi2018; wang2019, Sections 2 and 3].
"""

from __future__ import annotations

import math

_SWITCH = 0.61  # the budget from which on Hybrid uses Piecewise at all [wang2019, equation 10]


def duchi(epsilon, t):
    return 1 / math.tanh(epsilon / 2) ** 2 - t**2


def piecewise(epsilon, t):
    rest = math.expm1(epsilon / 2)
    return t**2 / rest + (rest + 4) / (3 * rest**2)


def hybrid(epsilon, t):
    share = -math.expm1(-epsilon / 2) if epsilon > _SWITCH else 0.0
    return share * piecewise(epsilon, t) + (1 - share) * duchi(epsilon, t)


def laplace(epsilon, _):
    return 2 * (2 / epsilon) ** 2


RIVALS = {"Piecewise": piecewise, "Hybrid": hybrid, "Duchi": duchi, "Laplace": laplace}


def worst(rival, epsilon):
    """Return the largest variance: all of them are parabolas in t, so it is in the middle or at an end."""
    return max(rival(epsilon, 0), rival(epsilon, 1))
