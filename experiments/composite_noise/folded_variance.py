"""Folded noise against discrete Laplace noise at every answer, and how far it exceeds the range."""

from __future__ import annotations

from decimal import Decimal
from functools import cache

import sordino as sd
from experiments.composite_noise.ours import folded
from experiments.repeating import table

EPSILONS = (0.2, 0.5, 1, 2, 5)
SIZES = (1, 2, 8, 40, 1000)
PLACES = (0, 1, 2, 5, 20)
BOUNDS = (1, 10, 100)


@cache
def ratios(epsilon, size):
    """Return the variance of a folded count over that of discrete Laplace noise, for every answer of 0..size."""
    mechanism = folded(epsilon, 0, size, 1, step=1)
    laplace = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING).noise.variance
    return [mechanism.variance(at=x) / laplace for x in range(size + 1)]


def rest(epsilon, size):
    """Return one minus the largest ratio, by the formula: where floats cannot tell the ratio from 1 it is still above 0."""
    q, middle = (-Decimal(str(epsilon))).exp(), size // 2
    return (q**middle + q ** (size - middle)) / (2 * (1 + q))


def everywhere():
    """Return whether it is smaller at every answer: never above in floats, and below by the formula."""
    return all(
        max(ratios(epsilon, size)) <= 1 and rest(epsilon, size) > 0
        for epsilon in EPSILONS
        for size in SIZES
    )


def report():
    rows = []
    for epsilon in EPSILONS:
        for size in SIZES:
            all_ratios = ratios(epsilon, size)
            cells = [f"{all_ratios[x]:.4f}" if x <= size else "" for x in PLACES]
            rows.append(
                (epsilon, size, *cells, f"{max(all_ratios):.6f}", f"{rest(epsilon, size):.1e}")
            )
    margins = []
    for epsilon in (0.5, 1, 2):
        for bound in BOUNDS:
            one = folded(epsilon, 0, 1000, bound, step=1)
            stairs = folded(epsilon, 0, 1000, bound, "staircase", step=1)
            laplace = sd.LaplaceMechanism(
                epsilon=epsilon, sensitivity=one.sensitivity
            ).noise.variance
            middle = [mechanism.variance(at=500) / laplace for mechanism in (one, stairs)]
            ends = [mechanism.variance(at=0) / laplace for mechanism in (one, stairs)]
            beyond = [f"{value:.5g}" for value in (one.least_excess, one.excess, stairs.excess)]
            margins.append(
                (
                    epsilon,
                    bound,
                    *beyond,
                    *(f"{value:.4f}" for value in (ends[0], middle[0], ends[1], middle[1])),
                )
            )
    places = ("folded, end", "folded, middle", "staircase, end", "staircase, middle")
    return [
        "## Folded noise against discrete Laplace noise",
        "",
        "The variance of a folded count of 0..n over that of discrete Laplace noise for the same budget, for answers next to the lower "
        "end, and the largest over all n + 1 answers; beside it one minus that by the formula, which is above 0 where floats print 1.",
        "",
        *table(("epsilon", "n", *(f"answer {x}" for x in PLACES), "largest", "1 - largest"), rows),
        "",
        "How far releases exceed the range of a whole number of 0..1000 that one unit moves by at most so many steps: the least that any "
        "unbiased private mechanism needs, folded Laplace and folded staircase noise; and their variances over that of discrete Laplace "
        "noise, at an end and in the middle.",
        "",
        *table(("epsilon", "bound", "least excess", "folded", "staircase", *places), margins),
        "",
        f"Below discrete Laplace noise at every answer: {'yes' if everywhere() else 'no'}.",
    ]
