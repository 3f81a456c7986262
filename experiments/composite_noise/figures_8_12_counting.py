"""Figures 8, 9, 10 and 12: how far a count is off, as a share of it, for counts as large as the paper's three data sets."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from statistics import NormalDist

import numpy as np

import sordino as sd
from experiments.composite_noise import biased_rivals, gaussian
from experiments.composite_noise.ours import SIX, composite, errors, folded
from experiments.drawing import COLORS, Panel, Picture
from experiments.repeating import table

EPSILONS = (0.2, 0.5, 1, 2, 3)
COUNTS = {
    "ICUs": (91_714, 100_000),
    "RAHRD": (5_624, 10_000),
    "Diabetes": (768, 1_000),
}  # records, and the end of a public range
LEVELS = (0.001, 0.25, 0.5, 0.75, 0.999)
LOCAL = {"A1B1, whole range": "A1B1", "mixture, whole range": "mixture"}
PRIVATE = (
    "Laplace",
    "discrete Laplace",
    "truncated",
    "clamped",
    "Gaussian",
    "discrete Gaussian",
    "folded",
)
METHODS = (*SIX, *PRIVATE, *LOCAL)
DRAWN = (*SIX, "Laplace", "discrete Laplace", "truncated", "discrete Gaussian", "folded")
PAPER = "losses of up to 1.25e-4, 2e-3 and 1.3e-2 for A1B1, and 2.5e-4, 4e-3 and 2.5e-2 for A3B1"
FIGURE = Path(__file__).parents[2] / "benchmarks" / "accuracy-bounded-counting.svg"


def at_levels(values, weights):
    """Return the quantiles of the absolute error."""
    sizes = np.abs(values)
    order = np.argsort(sizes, kind="stable")
    found = np.searchsorted(np.cumsum(weights[order]), LEVELS)
    return sizes[order][np.minimum(found, sizes.size - 1)]


def folded_law(mechanism, count, end):
    low, high = mechanism.output_range
    inside = np.arange(1, end)
    tails = [float(mechanism.noise.sf(x - 1)) for x in (count, end - count)]
    law = np.concatenate([tails[:1], mechanism.noise.pmf(inside - count), tails[1:]])
    return np.concatenate([[low], inside, [high]]) - count, law


@cache
def quantiles(method, epsilon, name):
    """Return the quantiles of the absolute error of a count, in records."""
    count, end = COUNTS[name]
    if method in SIX:  # the paper's: an interval as wide as the sensitivity about the answer
        return at_levels(*errors(composite(method, epsilon, tuned_for="center"), 0)) / 2
    if method in LOCAL:
        return at_levels(*errors(composite(LOCAL[method], epsilon), 2 * count / end - 1)) * end / 2
    if method in biased_rivals.RIVALS:
        return at_levels(*biased_rivals.RIVALS[method](epsilon, count, 1, end))
    if method == "folded":
        return at_levels(*folded_law(folded(epsilon, 0, end, 1, step=1), count, end))
    return unbounded(method, epsilon)


def unbounded(method, epsilon):
    if method == "Laplace":
        return np.array([-math.log1p(-level) / epsilon for level in LEVELS])
    if method == "Gaussian":
        return np.array(
            [NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS]
        ) * gaussian.sigma(epsilon, 1)
    sizes = np.arange(-2000, 2001)
    if method == "discrete Laplace":
        noise = sd.LaplaceMechanism(epsilon=epsilon, sensitivity=sd.COUNTING).noise
    else:
        noise = gaussian.discrete(epsilon, 1, step=1).noise
    return at_levels(sizes, np.asarray(noise.pmf(sizes)))


def draw():
    picture = Picture(1240, 640)
    for i, name in enumerate(COUNTS):
        for j, epsilon in enumerate(EPSILONS):
            boxes = [quantiles(method, epsilon, name) / COUNTS[name][0] for method in DRAWN]
            place = (70 + 240 * j, 40 + 190 * i, 165, 140)
            ends, title = (0, 1.05 * max(box[-1] for box in boxes)), f"{name}, epsilon {epsilon:g}"
            panel = Panel(picture, place, (-1, len(DRAWN)), ends, title, x_ticks=False)
            for k, (method, color) in enumerate(zip(DRAWN, COLORS, strict=True)):
                panel.box(k, boxes[k], color, fill="#ddd" if method in SIX else "#fff")
    picture.legend(
        70,
        600,
        [method + (" (not private)" if method in SIX else "") for method in DRAWN],
        wide=190,
        columns=6,
    )
    picture.write(FIGURE)


def part(name):
    count, end = COUNTS[name]
    rows = []
    for method in METHODS:
        cells = [
            "; ".join(
                f"{100 * value / count:.2g}" for value in quantiles(method, epsilon, name)[1:]
            )
            for epsilon in EPSILONS
        ]
        rows.append((f"{method} (**not private**)" if method in SIX else method, *cells))
    return [
        f"### {name}: {count} records, range 0 to {end}",
        "",
        *table(("", *(f"epsilon {one:g}" for one in EPSILONS)), rows),
        "",
    ]


def reaches(name):
    """Return the largest loss of one of the six about the answer, for the three counts, at the smallest epsilon."""
    farthest = composite(name, EPSILONS[0], tuned_for="center").output_range[1] / 2
    return ", ".join(f"{farthest / count:.3g}" for count, _ in COUNTS.values())


def report():
    draw()
    return [
        "## Accuracy loss of counts (figures 8 to 10 and 12)",
        "",
        "|error|/count in per cent: lower quartile; median; upper quartile; 99.9 % quantile, about the largest of the paper's 1,000 "
        "queries. Quantiles of exact laws. The counts are those of the paper's data sets (768, since 769 counts the header); only their "
        "size matters. One record moves a count by one. Folded noise and what has a bias know a public range. The six functions stand in "
        "an interval of width 1 about the answer, as in the paper, which is **not private**, whatever its figures; used as they must be, "
        f"with the whole range as the sensitivity, they tell little about a count. The paper's figures fit that setting: {PAPER}; here "
        f"A1B1 reaches {reaches('A1B1')} and A3B1 {reaches('A3B1')}. Gaussian noise is (epsilon, {gaussian.DELTA:g})-private. "
        "Truncated noise has a rate that is private at the ends of the range, and pays for it in the middle.",
        "",
        f"![Quartiles, whiskers from the 0.1 % to the 99.9 % quantile; gray boxes are not private]({FIGURE.name})",
        "",
        *(line for name in COUNTS for line in part(name)),
    ]
