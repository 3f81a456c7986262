"""The plainest proven accountings, which the table of reference was made with; those of the library are tighter or differ a little.

One-sided generalized Cauchy noise: kappa(2 alpha) + min{m - 1, D_m, ...} beta, with the D_m of Theorem C of the proof page by the least
concave majorant of psi; step noise: the rate + min{(m - 1) ln(1 + q), ln m}.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache

import numpy as np

import sordino as sd
from sordino.noise import GeneralizedCauchy, Geometric

PLACES = np.geomspace(1e-4, 1e4, 60_001)
SLOPES = np.geomspace(0.01, 20, 300)


@cache
def d_m(candidates, gamma=4):
    """Return (m - 1) times the least concave majorant of psi = z f/F over Lambda = -ln F, at Lambda = ln m/(m - 1), from above.

    A line through the majorant bounds it everywhere. psi and Lambda both fall with z, so between two places psi is at most its value at
    the left one and Lambda at least its value at the right one: no place in between is overlooked.
    """
    law = GeneralizedCauchy(Fraction(gamma))
    below = law.cdf(PLACES)
    psi = np.concatenate([[1.0], PLACES * law.pdf(PLACES) / below])
    logs = np.concatenate([-np.log(below), [0.0]])
    at = math.log(candidates) / (candidates - 1)
    return (candidates - 1) * min(
        float((psi - slope * logs).max()) + slope * at for slope in SLOPES
    )


def alpha(epsilon, beta, candidates, gamma=4):
    """Return the alpha of Theorem B with the losers' share of Theorem C: what is left of epsilon buys noise of one fixed scale."""
    losers = min(min(candidates - 1, d_m(candidates, gamma)) * beta, math.log(candidates))
    left = epsilon - max(losers, (gamma - 1) * beta)
    if left <= 0:
        return 0.0
    return sd.SmoothSelection(
        epsilon=left, beta=0, candidates=candidates, ceiling=1, floor=1, gamma=gamma
    ).alpha


def step_law(epsilon, candidates):
    """Return the geometric law of the levels for the cost rate + min{(m - 1) ln(1 + q), ln m}, or None: the fastest one of 4000."""
    rates = epsilon * np.arange(1, 4001) / 4000
    cost = rates + np.minimum((candidates - 1) * np.log1p(np.exp(-rates)), math.log(candidates))
    found = np.flatnonzero(cost <= epsilon)
    return Geometric(Fraction(epsilon * int(found[-1] + 1), 4000)) if found.size else None
