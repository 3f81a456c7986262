"""Figures 7 and 11: maximum, mode, variance, mean and minimum of the columns of Pima, with the sensitivities that they have."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from experiments.composite_noise import biased_rivals
from experiments.composite_noise.gaussian import DELTA
from experiments.composite_noise.methods import METHODS, UNSAFE, moments, named
from experiments.composite_noise.pima import MISSING, STATISTICS, queries
from experiments.drawing import COLORS, Panel, Picture
from experiments.repeating import table

EPSILONS = (0.2, 0.5, 1, 2, 3, 5)
HEADER = ("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS))
COLUMN = "BloodPressure"
DRAWN = (
    *METHODS[:4],
    "mixture",
    "folded",
    "discrete Laplace",
    "truncated",
    "discrete Gaussian",
    UNSAFE[0],
)
FIGURE = Path(__file__).parents[2] / "benchmarks" / "accuracy-bounded-statistics.svg"
TITLE = "## Statistics of Pima (figures 7 and 11)"
ABOUT = (
    "RE and MSE are the paper's: the mean absolute and the mean square error (equations 42 and 43; the first is not divided by the "
    "answer). Expectations over exact laws. 768 records, their number public; one is replaced. Ranges are public and round; "
    "sensitivities are those of the statistic over all data in the range, not of these data: the whole range for maximum, mode and "
    "minimum, width/n for the mean, width² (n - 1)/n² for the variance of the population, which lies in 0 to width²/4. The composite "
    "mechanisms need the whole range of the statistic, whatever the sensitivity; they are tuned for the worst value, a quartic base has "
    "hump 1.1. Truncated and clamped: discrete Laplace noise given that it stays in the range, at the largest rate for which that is "
    f"private, and moved to the ends; both have a bias. Gaussian: (epsilon, {DELTA:g})-private, by equation 5 of the paper (proved for "
    "epsilon below 1), and discrete with the budget whose cost is that."
)
WARNING = (
    "**Not private**: the paper's setting, A1B1 in an interval about the answer, as wide as the sensitivity; and as wide as what leaving "
    "out one of these records changes. The interval moves with the data: what it can release for one data set it cannot for a neighbor."
)
PAPER = "The paper has 0.607 in RE for A1B1, in its own setting. A number in the middle has little error where the budget is small."


def asked(statistic):
    return [query for query in queries() if query.statistic == statistic]


def ratio(method, epsilon, statistic):
    """Return the geometric mean over the columns of the mean square error over that of discrete Laplace noise."""
    found = [
        [moments(name, epsilon, query)[1] for name in (method, "discrete Laplace")]
        for query in asked(statistic)
    ]
    return math.exp(np.mean([math.log(one / other) for one, other in found]))


def share(method, statistics, i):
    """Return RE (0) or MSE (1) of a method over those of Laplace noise, on average over columns and epsilons."""
    chosen = [query for statistic in statistics for query in asked(statistic)]
    found = [
        [moments(name, epsilon, query)[i] for name in (method, "Laplace")]
        for query in chosen
        for epsilon in EPSILONS
    ]
    return np.mean([one / other for one, other in found])


def shares(statistics):
    found = [
        f"{name} {share(name, statistics, 0):.3g} and {share(name, statistics, 1):.3g}"
        for name in METHODS[:1] + METHODS[6:10]
    ]
    return f"{', '.join(statistics)}: {'; '.join(found)}."


def part(statistic):
    chosen = next(query for query in asked(statistic) if query.column == COLUMN)
    errors = {
        method: [moments(method, epsilon, chosen) for epsilon in EPSILONS] for method in METHODS
    }
    both = [
        (named(method), *(f"{one:.4g}; {two:.4g}" for one, two in found))
        for method, found in errors.items()
    ]
    columns = [
        (named(method), *(f"{ratio(method, epsilon, statistic):.3g}" for epsilon in EPSILONS))
        for method in METHODS[:-1]
    ]
    return [
        f"### {statistic.capitalize()} of {COLUMN}",
        "",
        f"Answer {chosen.answer:g}, range {chosen.lower:g} to {chosen.upper:g}, sensitivity {chosen.sensitivity:.6g} (leaving out a "
        f"record of these data moves it by {chosen.seen:.4g}). RE; MSE:",
        "",
        *table(HEADER, both),
        "",
        f"{statistic.capitalize()} of all columns: geometric mean of MSE over that of discrete Laplace noise.",
        "",
        *table(HEADER, columns),
        "",
    ]


def columns():
    shown = ("A1B1", "mixture", "folded", "discrete Laplace", "discrete Gaussian")
    rows = []
    for query in queries():
        cells = [f"{query.lower:g}..{query.upper:g}", f"{query.sensitivity:.4g}"]
        cells += ["{:.3g}; {:.3g}".format(*moments(method, 1, query)) for method in shown]
        for name in biased_rivals.RIVALS:
            absolute, square, bias = biased_rivals.moments(
                name, 1, query.share, query.sensitivity, query.upper - query.lower
            )
            cells.append(
                f"{absolute:.3g}; {square:.3g}; {bias if abs(bias) > 1e-12 * query.upper else 0.0:+.2g}"
            )
        rows.append((query.statistic, query.column, f"{query.answer:g}", *cells))
    return table(
        (
            "",
            "column",
            "answer",
            "range",
            "sensitivity",
            *shown,
            "truncated; bias",
            "clamped; bias",
        ),
        rows,
    )


def draw():
    picture = Picture(1000, 570)
    for i, statistic in enumerate(STATISTICS):
        curves = {
            method: [ratio(method, epsilon, statistic) for epsilon in EPSILONS] for method in DRAWN
        }
        values = np.concatenate([*curves.values()])
        place = (60 + 325 * (i % 3), 40 + 280 * (i // 3), 250, 210)
        ends = 10 ** np.floor(np.log10(values.min())), 10 ** np.ceil(np.log10(values.max()))
        panel = Panel(
            picture, place, (0, 5), ends, f"{statistic}: MSE / discrete Laplace", logarithmic=True
        )
        for method, color in zip(DRAWN, COLORS, strict=False):
            panel.line(EPSILONS, curves[method], color, "4 3" if method in UNSAFE else "")
    picture.legend(
        710, 350, [name + (" (not private)" if name in UNSAFE else "") for name in DRAWN], columns=1
    )
    picture.write(FIGURE)


def report():
    if not queries():
        return [TITLE, "", MISSING]
    draw()
    averages = " ".join(map(shares, (("maximum", "mode", "minimum"), ("variance",), ("mean",))))
    lines = [
        TITLE,
        "",
        ABOUT,
        "",
        WARNING,
        "",
        f"![Mean square errors over that of discrete Laplace noise]({FIGURE.name})",
        "",
    ]
    lines.append(
        f"RE and MSE over those of Laplace noise, on average over columns and epsilons: {averages} {PAPER}"
    )
    lines += ["", *(line for statistic in STATISTICS for line in part(statistic))]
    return [
        *lines,
        "### All columns at epsilon 1",
        "",
        "RE; MSE; and for what has one, the bias.",
        "",
        *columns(),
    ]
