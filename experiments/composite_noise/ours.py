"""Our mechanisms by the names of the paper, and their errors at an answer: expectations over exact laws, nothing is drawn."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

import sordino as sd

SIX = {
    f"A{i}B{j}": {"activation": activation, "base": base}
    for j, base in ((1, "constant"), (2, "quartic"))
    for i, activation in ((1, "rectangle"), (2, "sine"), (3, "triangle"))
}
WHOLE = {**SIX, "mixture": {"activation": "mixture"}}


@lru_cache(maxsize=256)
def composite(name, epsilon, lower=-1, upper=1, **options):
    """Return one of the six, the mixture or the table for a range, tuned for its worst value unless said otherwise."""
    if name == "table":
        return sd.CompositeTable(lower=lower, upper=upper, epsilon=epsilon)
    return sd.CompositeMechanism(
        lower=lower, upper=upper, epsilon=epsilon, **WHOLE[name], **options
    )


def bounded_by(sensitivity, step=None):
    return sd.Sensitivity(bound=sensitivity, monotone=False, adjacency="replace-one", step=step)


def folded(epsilon, lower, upper, sensitivity, noise="laplace", step=None):
    return sd.FoldedMechanism(
        lower=lower,
        upper=upper,
        epsilon=epsilon,
        sensitivity=bounded_by(sensitivity, step),
        noise=noise,
    )


def law(noise, c):
    """Return the probabilities of the outputs for an input, as floats."""
    if noise.name == "table":
        return np.array(noise.rows[c + noise.inputs]) / noise.total
    near = np.array(noise.bump.weights(c)) * float(noise.share / noise.bump.total)
    return (
        near
        if noise.share == 1
        else np.append(
            near, np.array(noise.far.weights(c)) * float((1 - noise.share) / noise.far.total)
        )
    )


def errors(mechanism, value):
    """Return the errors that a composite mechanism can make at a value, and their probabilities, rounding to the grid included."""
    grid, noise = mechanism.grid, mechanism.noise
    place = float((Fraction(value) - grid.low) / grid.step)
    low = min(math.floor(place), 2 * noise.inputs - 1)
    part, c = place - low, low - noise.inputs
    return grid.outputs - float(value), (1 - part) * law(noise, c) + part * law(noise, c + 1)


def absolute_error(mechanism, value):
    found, weights = errors(mechanism, value)
    return float(weights @ np.abs(found))


def of_noise(mechanism):
    """Return the mean absolute error and the mean square error of the noise of a mechanism, in the unit of its answers.

    Folding replaces a noisy answer beyond an end by a mean over answers on the same side: it leaves the first as it is, and lowers the
    second.
    """
    law, step = mechanism.noise, float(mechanism.step)
    if law.name == "staircase":
        r, flat, period = math.exp(-law.rate), float(law.flat), float(law.period)
        weight = flat + (period - flat) * r
        first = flat * (flat - 1) / 2 + r * (period * (period - 1) - flat * (flat - 1)) / 2
        mean = (
            2 * (period * weight * r / (1 - r) ** 2 + first / (1 - r)) / (2 * weight / (1 - r) - 1)
        )
    else:
        q = math.exp(-law.rate)
        mean = 2 * q / (-math.expm1(-2 * float(law.rate)))
    return mean * step, law.variance * step**2
