"""Noise that is brought into a range with a bias: cut off and scaled up, or moved to the ends. Exact laws on a lattice. Not for use.

The answer is a number 0..cells of a lattice, the sensitivity `bound` of its steps.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

BOUND = 64  # steps of the lattice for one sensitivity


def _whole(rate, answer, cells):
    """Return the sum of the weights e^(-rate |o - answer|) over the outputs 0..cells."""
    return (2 - np.exp(-rate * (answer + 1)) - np.exp(-rate * (cells - answer + 1))) / -math.expm1(
        -rate
    ) - 1


def loss(rate, bound, cells):
    """Return the largest loss of truncated noise of this rate: the sum of the weights depends on the answer, and changes most at an end."""
    moves = np.arange(1, min(bound, cells) + 1)
    sums = _whole(rate, np.append(0, moves), cells)
    return float((rate * moves + np.log(sums[1:] / sums[0])).max())


@lru_cache(maxsize=256)
def truncated_rate(epsilon, bound, cells):
    """Return the largest rate for which truncated noise is private, by bisection; between epsilon/(2 bound) and epsilon/bound."""
    low, high = epsilon / (2 * bound), epsilon / bound
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle, bound, cells) <= epsilon else (low, middle)
    return low


def truncated(epsilon, answer, bound, cells):
    """Return errors and probabilities of discrete Laplace noise given that it stays in the range, at its own private rate."""
    errors = np.arange(cells + 1) - answer
    weights = np.exp(-truncated_rate(epsilon, bound, cells) * np.abs(errors))
    return errors, weights / weights.sum()


def clamped(epsilon, answer, bound, cells):
    """Return errors and probabilities of discrete Laplace noise where outputs beyond the range are moved to its ends."""
    rate = epsilon / bound
    errors = np.arange(cells + 1) - answer
    law = np.exp(-rate * np.abs(errors)) * math.tanh(rate / 2)
    law[0], law[-1] = (
        math.exp(-rate * x) / (1 + math.exp(-rate)) for x in (answer, cells - answer)
    )
    return errors, law


RIVALS = {"truncated": truncated, "clamped": clamped}


def moments(name, epsilon, share, sensitivity, width):
    """Return mean absolute error, mean square error and bias of an answer this share of the range from its lower end."""
    step = sensitivity / BOUND
    cells = max(1, round(width / step))
    errors, law = RIVALS[name](epsilon, round(share * cells), BOUND, cells)
    return (
        law @ np.abs(errors) * step,
        law @ errors.astype(float) ** 2 * step**2,
        law @ errors * step,
    )
