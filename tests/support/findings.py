"""How often a sparse vector finds an answer, and with which lift: exact sums over the noise of the threshold, for lists of heights.

A height is how far an answer lies above its threshold on the grid, correction included. The code under test is asked for the bound of each
lift, through releases and verdicts that are made by hand.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from sordino import COUNTING, SparseVector, lower_bound
from sordino.releases import Positives, Verdict

REACH = 120
LIFTS = np.arange(REACH)


def vector(
    query="exponential",
    a=Fraction(1, 2),
    threshold_noise="exponential",
    b=Fraction(1, 2),
    *,
    positives=1,
    **options,
):
    """A sparse vector on whole numbers whose questions have noise of rate a, and its thresholds of rate b."""
    thresholds = positives if options.get("resample") else 1
    epsilon = positives * a + thresholds * b
    made = SparseVector(
        **{"threshold": 0} | options,
        positives=positives,
        epsilon=epsilon,
        split=thresholds * b / epsilon,
        sensitivity=COUNTING,
        noise=query,
        threshold_noise=threshold_noise,
    )
    assert (made.noise.rate, made.threshold_noise.rate) == (a, b)
    return made


def masses(law, x):
    """P(X = x), from the formula."""
    r = np.exp(-float(law.rate))
    if law.name == "laplace":
        return (1 - r) / (1 + r) * r ** np.abs(x)
    return np.where(x >= 0, (1 - r) * r ** np.maximum(x, 0), 0.0)


def tails(law, x):
    """P(X >= x), from the formula."""
    r = np.exp(-float(law.rate))
    if law.name == "laplace":
        return np.where(
            x > 0, r ** np.maximum(x, 0) / (1 + r), 1 - r ** np.maximum(1 - x, 0) / (1 + r)
        )
    return r ** np.maximum(x, 0)


RHO = np.arange(-REACH, REACH)


def findings(heights, mechanism):
    """P(answer i is found with lift l), shape (n, REACH), of a list of heights, asked once."""
    f, n = masses(mechanism.threshold_noise, RHO), len(heights)
    above = [tails(mechanism.noise, RHO - x) for x in heights]  # given the noise of the threshold
    lifts = [masses(mechanism.noise, RHO[:, None] + LIFTS - x) for x in heights]
    found = np.zeros((n, REACH))
    if not mechanism.resample:
        asked = np.zeros(
            (mechanism.positives, RHO.size)
        )  # P(so many found so far | noise of the threshold)
        asked[0] = 1
        for i in range(n):
            found[i] = (f * asked.sum(axis=0)) @ lifts[i]
            asked = asked * (1 - above[i]) + np.vstack([np.zeros(RHO.size), asked[:-1] * above[i]])
        return found
    starts = np.zeros(
        (n + 1, mechanism.positives + 1)
    )  # P(a threshold is drawn at place j with so many left to find)
    starts[0, mechanism.positives] = 1
    for j in range(n):
        for left in range(1, mechanism.positives + 1):
            waiting = f * starts[j, left]
            for i in range(j, n):
                found[i] += waiting @ lifts[i]
                starts[i + 1, left - 1] += waiting @ above[i]
                waiting = waiting * (1 - above[i])
    return found


@lru_cache(maxsize=64)
def alone(mechanism, window=30):
    """P(found with lift l) of one answer, shape (REACH,), for each height from -window to window."""
    f = masses(mechanism.threshold_noise, RHO)
    z = np.arange(-window, REACH + window)
    law = f @ masses(
        mechanism.noise, RHO[:, None] + z
    )  # of the noise of the question less that of the threshold
    return {x: law[window - x : window - x + REACH] for x in range(-window, window + 1)}


def made(mechanism, lifts=LIFTS):
    """Return positives with these lifts, as the mechanism releases them."""
    cut, step = mechanism.cut(), mechanism.step
    center = (mechanism.noise.mean - mechanism.threshold_noise.mean) * float(step)
    n = len(lifts)
    return Positives(
        indices=np.arange(n),
        gaps=np.array([cut.gap(int(lift), step) for lift in lifts]),
        branches=np.zeros(n, dtype=np.int64),
        passes=np.ones(n, dtype=np.int64),
        asked=n,
        estimates=np.array([cut.value(int(lift), step) - center for lift in lifts]),
        mechanism=mechanism,
        cost=mechanism.cost,
        simulated=True,
    )


def verdict(mechanism, lift, threshold=None):
    """Return the verdict of a question that was found with this lift."""
    gap = None if lift is None else mechanism.cut(threshold).gap(lift, mechanism.step)
    return Verdict(
        above=lift is not None,
        gap=gap,
        branch=None if lift is None else 0,
        threshold=mechanism.threshold if threshold is None else threshold,
        estimate=None,
        charged=Fraction(1),
        mechanism=mechanism,
        cost=mechanism.cost,
        simulated=True,
    )


def bounds(mechanism, confidence, *, selective):
    """Return the bound of the height for each lift, shape (REACH,)."""
    return (
        lower_bound(made(mechanism), confidence=confidence, selective=selective)
        / float(mechanism.step)
        - mechanism.cut().steps
    )


def wrong(found, height, bound):
    """P(found, and the bound of the height is wrong); what lies beyond the last lift counts as wrong."""
    return float(found[bound > height].sum())
