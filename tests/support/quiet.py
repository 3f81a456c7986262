"""Exact laws of sparse vectors that release no gaps: transcripts (asked, places) with probabilities, by sums and closed forms."""

from __future__ import annotations

import math

import numpy as np


def gaussian_tail(rate, reach=400):
    """Return P(X >= y) of the discrete Gaussian, for arrays of y within reach."""
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-rate * z.astype(float) ** 2)
    above = np.concatenate([np.cumsum((mass / mass.sum())[::-1])[::-1], [0.0]])
    return lambda y: above[np.clip(np.asarray(y) + reach, 0, above.size - 1)]


def geometric_tail(rate):
    return lambda y: np.exp(-rate * np.maximum(np.asarray(y), 0))


def laplace_tail(rate):
    def tail(y):
        y = np.asarray(y)
        small = np.exp(-rate * np.where(y >= 0, y, 1 - y)) / (1 + math.exp(-rate))
        return np.where(y >= 0, small, 1 - small)

    return tail


TAILS = {"gaussian": gaussian_tail, "exponential": geometric_tail, "laplace": laplace_tail}


def gaussian_law(q, positives, threshold_rate, tail, reach=60):
    """P of every transcript of answers q less their thresholds, as {(asked, *places): probability}."""
    x = np.arange(-reach, reach + 1)
    f0 = np.exp(-threshold_rate * x.astype(float) ** 2)
    f0 /= f0.sum()
    law = {}

    def go_on(i, places, mass):
        if len(places) == positives or i == len(q):
            law[i, *places] = float(mass.sum())
            return
        above = tail(x - q[i])
        go_on(i + 1, (*places, i), mass * above)
        go_on(i + 1, places, mass * (1 - above))

    go_on(0, (), f0)
    return law


def gumbel_law(heights, rate, positives):
    """The same for Gumbel noise, by the chance that each next question fires given all before: w / (1 + sum of all weights so far)."""
    law = {}

    def go_on(i, places, weights, mass):
        if len(places) == positives or i == len(heights):
            law[i, *places] = mass
            return
        w = math.exp(rate * heights[i])
        fires = w / (weights + w)
        go_on(i + 1, (*places, i), 1.0, mass * fires)
        go_on(i + 1, places, weights + w, mass * (1 - fires))

    go_on(0, (), 1.0, 1.0)
    return law


def renyi(p, q, alpha):
    """The divergence of two laws with the same outcomes."""
    return math.log(sum(p[key] ** alpha * q[key] ** (1 - alpha) for key in p if p[key])) / (
        alpha - 1
    )
