"""The table of reference, cell by cell: its nine columns with its settings, and what the library does with its own."""

from __future__ import annotations

import math
from functools import cache

from experiments.repeating import table
from experiments.smooth_selection import coarse, methods, tuning
from experiments.smooth_selection.reference import CELLS, COLUMNS, EPSILONS, MARKERS, REGRETS
from experiments.smooth_selection.simulated import Trial

ROOT_BETA, STEP_BETA = 0.03, 0.02


@cache
def trial(markers):
    return Trial.made_up(markers)


def published(sample, epsilon):
    beta = tuning.published_beta(sample.markers, epsilon, sample.families)
    return methods.smooth_selection(
        sample, epsilon, beta, "raw", "distance", accounting="published"
    )


def coarsely(sample, epsilon, beta, scale, method="exact"):
    return methods.heavy_tail(
        sample,
        coarse.alpha(epsilon, beta, sample.markers),
        sample.bounds(beta, scale, method),
        scale,
    )


def tightened(sample, epsilon):
    return coarsely(sample, epsilon, tuning.distance_limit(sample.families), "raw", "distance")


def smallest(sample, epsilon):
    beta = tuning.raw_beta(sample.markers, epsilon, lambda *given: coarsely(*given, "raw"))
    return coarsely(sample, epsilon, beta, "raw")


def coarse_steps(sample, epsilon):
    law = coarse.step_law(epsilon, sample.markers)
    if law is None:
        return methods.heavy_tail(sample, 0, None, "sqrt")
    return methods.step_noise(
        sample,
        law,
        methods.smooth_steps(sample, 9, STEP_BETA).atoms,
        sample.bounds(STEP_BETA, "sqrt"),
    )


METHODS = {
    "EM": methods.exponential_mechanism,
    "PF": methods.permute_and_flip,
    "RR": methods.randomized_response,
    "published": published,
    "same noise, tightened": tightened,
    "smallest bound": smallest,
    "steps, global": lambda sample, epsilon: methods.step_selection(
        sample, epsilon, sample.scores("raw"), methods.ceiling(sample, "raw")
    ),
    "root, heavy tail": lambda sample, epsilon: coarsely(sample, epsilon, ROOT_BETA, "sqrt"),
    "root, steps": coarse_steps,
}


@cache
def rate(name, markers, epsilon):
    return METHODS[name](trial(markers), epsilon)


def verdict(found, asked):
    if asked is None:
        return "", None
    reached = abs(found.share - asked) <= 4 * math.sqrt(2) * found.error + 0.0005
    return f" ({asked:.3f} {'reached' if reached else '**not reached**'})", reached


def rows_and_verdicts():
    rows, verdicts = [], []
    for m in MARKERS:
        for epsilon in EPSILONS:
            cells = []
            for name, asked in zip(
                COLUMNS, CELLS.get((m, epsilon), (None,) * len(COLUMNS)), strict=True
            ):
                found = rate(name, m, epsilon)
                words, reached = verdict(found, asked)
                verdicts += [reached] if reached is not None else []
                cells.append(f"{found.share:.4f}{words}")
            rows.append((m, epsilon, *cells))
    return rows, verdicts


def regrets():
    names = tuple(name for name in COLUMNS if any(name in asked for asked in REGRETS.values()))

    def cell(m, epsilon, name, asked):
        return f"{rate(name, m, epsilon).regret:.3f}" + (f" ({asked:g})" if asked else "")

    rows = [
        (m, epsilon, *(cell(m, epsilon, name, asked.get(name)) for name in names))
        for (m, epsilon), asked in REGRETS.items()
    ]
    return table(("markers", "epsilon", *names), rows)


def report():
    rows, verdicts = rows_and_verdicts()
    return [
        "## The table of reference",
        "",
        "How often the marker with the largest statistic is selected (an equally good one counts): 150 families, 100,000 made-up "
        "data sets a cell, as in the paper; standard error at most .0016. Noise is drawn "
        "once for each number of markers and kind of noise, so that columns and rows can be compared better than that. In "
        "brackets what was to be reached, within 4√2 standard errors and .0005. "
        "EM: exponential mechanism; PF: permute-and-flip; RR: randomized response over the positions (exact), which needs no "
        "sensitivity at all. Published: the paper's method, case IV, one-sided noise of "
        "gamma 4, S of its Theorem 5, with the accounting of its Theorem 3; beta is the threshold .033689, or costs half of "
        "epsilon where that is less. The next columns have the plainest proven accounting "
        "(`coarse.py`): the same noise and bound; the smallest smooth bound, beta chosen on other made-up data; step noise with "
        "the global sensitivity; the square root of the statistic with beta "
        f"{ROOT_BETA}; and with step noise, beta {STEP_BETA}.",
        "",
        f"Of {len(verdicts)} cells with a figure {sum(verdicts)} are reached, {len(verdicts) - sum(verdicts)} are not.",
        "",
        *table(("markers", "epsilon", *COLUMNS), rows),
        "",
        "By how much the selected statistic is below the largest one, on average; in brackets the figure of reference.",
        "",
        *regrets(),
        "",
    ]
