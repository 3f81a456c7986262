"""Every method for a statistic with a sensitivity: mean absolute and mean square error, expectations over exact laws."""

from __future__ import annotations

from functools import cache

import sordino as sd
from experiments.composite_noise import biased_rivals, gaussian
from experiments.composite_noise.ours import (
    WHOLE,
    absolute_error,
    bounded_by,
    composite,
    folded,
    of_noise,
)

LOCAL = (*WHOLE, "table")
FOLDED = {"folded": "laplace", "folded staircase": "staircase"}
UNSAFE = ("A1B1 about the answer", "A1B1 about the answer, sensitivity read off the data")
METHODS = (
    *LOCAL,
    *FOLDED,
    "Laplace",
    "discrete Laplace",
    *biased_rivals.RIVALS,
    "Gaussian",
    "discrete Gaussian",
    *UNSAFE,
)


def named(method):
    return f"{method} (**not private**)" if method in UNSAFE else method


def one_value(name, epsilon, t, half, **options):
    """Return the errors of a composite mechanism at t in [-1, 1]; all ranges are the same but for their unit."""
    mechanism = composite(name, epsilon, **options)
    return absolute_error(mechanism, t) * half, mechanism.variance(at=t) * half**2


def unbounded(method, epsilon, moved):
    if method == "Laplace":
        return moved / epsilon, 2 * (moved / epsilon) ** 2
    if method == "discrete Laplace":
        return of_noise(sd.LaplaceMechanism(epsilon=epsilon, sensitivity=bounded_by(moved)))
    return gaussian.moments(method, epsilon, moved)


@cache
def moments(method, epsilon, query):
    """Return the mean absolute error and the mean square error of a method for a query of `pima`."""
    width, moved = query.upper - query.lower, query.sensitivity
    if method in LOCAL:
        return one_value(method, epsilon, 2 * query.share - 1, width / 2)
    if method in UNSAFE:  # the answer is the middle of an interval that moves with it
        return one_value(
            "A1B1",
            epsilon,
            0,
            (moved if method == UNSAFE[0] else query.seen) / 2,
            tuned_for="center",
        )
    if method in FOLDED:
        mechanism = folded(epsilon, query.lower, query.upper, moved, FOLDED[method])
        return of_noise(mechanism)[0], mechanism.variance(at=query.answer)
    if method in biased_rivals.RIVALS:
        return biased_rivals.moments(method, epsilon, query.share, moved, width)[:2]
    return unbounded(method, epsilon, moved)
