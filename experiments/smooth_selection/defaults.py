"""What `sd.genomics.most_significant` does by default, against what was to be reached, and against each method of the library."""

from __future__ import annotations

from functools import cache

from experiments.repeating import table
from experiments.smooth_selection import methods, tuning
from experiments.smooth_selection.accuracy import rate, trial
from experiments.smooth_selection.reference import CELLS, COLUMNS, DEFAULTS, EPSILONS, MARKERS


def heavy_tail(sample, epsilon, beta, scale="sqrt"):
    return methods.smooth_selection(sample, epsilon, beta, scale)


def raw_heavy_tail(sample, epsilon, beta):
    return heavy_tail(sample, epsilon, beta, "raw")


def by_distance(sample, epsilon):
    return methods.smooth_selection(
        sample, epsilon, tuning.distance_limit(sample.families), "raw", "distance"
    )


def tuned(search, select):
    """Return a method whose beta is the best one on other data."""
    return lambda sample, epsilon: select(sample, epsilon, search(sample.markers, epsilon, select))


LIBRARY = {
    "heavy tail, distance": by_distance,
    "heavy tail, smallest bound": tuned(tuning.raw_beta, raw_heavy_tail),
    "root, heavy tail": tuned(tuning.root_beta, heavy_tail),
    "root, steps, beta .02": lambda sample, epsilon: methods.smooth_step_selection(
        sample, epsilon, 0.02
    ),
    "root, steps": tuned(tuning.root_beta, methods.smooth_step_selection),
    "root, steps, global": lambda sample, epsilon: methods.step_selection(
        sample, epsilon, sample.scores("sqrt"), methods.ceiling(sample, "sqrt")
    ),
}
SAME = {
    "heavy tail, distance": "same noise, tightened",
    "heavy tail, smallest bound": "smallest bound",
}
SAME |= {"root, heavy tail": "root, heavy tail", "root, steps, beta .02": "root, steps"}


@cache
def library(name, markers, epsilon):
    return LIBRARY[name](trial(markers), epsilon)


@cache
def default(markers, epsilon):
    return methods.most_significant(trial(markers), epsilon)


def default_row(m, epsilon):
    found, chosen = default(m, epsilon), methods.chosen(trial(m), epsilon)
    rivals = {name: library(name, m, epsilon) for name in LIBRARY} | {"RR": rate("RR", m, epsilon)}
    first = max(rivals, key=lambda name: rivals[name].share)
    parameter = (
        f", damping {chosen.damping}"
        if chosen.damping is not None
        else f", beta {chosen.beta}"
        if chosen.beta is not None
        else ""
    )
    asked, paper = DEFAULTS.get((m, epsilon), (None, None))
    words = (
        ""
        if asked is None
        else f"{asked:g} {'reached' if found.low >= asked else '**not reached**'}"
    )
    cells = (
        f"{found.share:.4f}",
        f"{found.low:.4f}",
        words,
        f"{rate('published', m, epsilon).share:.4f}" + (f" ({paper:.2f})" if paper else ""),
    )
    return (
        m,
        epsilon,
        f"{chosen.name}{parameter}",
        *cells,
        f"{found.regret:.3f}",
        f"{rivals[first].share:.4f} {first}",
    )


def library_cell(name, m, epsilon):
    found, asked = (
        library(name, m, epsilon),
        dict(zip(COLUMNS, CELLS.get((m, epsilon), ()), strict=False)).get(SAME.get(name)),
    )
    if asked is None:
        return f"{found.share:.4f}"
    return f"{found.share:.4f} ({asked:.3f} {'reached' if found.share >= asked - 4 * 2**0.5 * found.error - 0.0005 else '**not reached**'})"


def report():
    cells = [(m, epsilon) for m in MARKERS for epsilon in EPSILONS]
    rows = [default_row(*cell) for cell in cells]
    compared = [
        (m, epsilon, *(library_cell(name, m, epsilon) for name in LIBRARY)) for m, epsilon in cells
    ]
    lost = [
        (max(library(name, *cell).share for name in LIBRARY) - default(*cell).share, cell)
        for cell in cells
    ]
    return [
        "## The default",
        "",
        "`sd.genomics.most_significant` with no option, on the data sets of the table of reference below. Low: lower end of a one-sided "
        "interval of 99 % (Wilson's); what was asked is asked of it. Published: the paper's method, as below; in brackets the figure given "
        "with the target. Best other: the best of the methods of the next table and randomized response.",
        "",
        *table(
            (
                "markers",
                "epsilon",
                "chosen",
                "default",
                "low",
                "asked",
                "published",
                "regret",
                "best other",
            ),
            rows,
        ),
        "",
        f"Most lost against the best other method: {max(lost)[0]:+.4f} at {max(lost)[1][0]} markers and epsilon "
        f"{max(lost)[1][1]}; most gained: {-min(lost)[0]:+.4f} at {min(lost)[1][0]} markers and epsilon {min(lost)[1][1]}.",
        "",
        "The methods with the accounting of the library, beta chosen on other made-up data unless stated: `SmoothSelection` of "
        "the statistic with the bound of the paper's Theorem 5, and with the smallest bound; of its square root; "
        "`SmoothStepSelection` of the root; `StepSelection` of the root. In brackets the same column of the table of reference: "
        "reached where ours is within its tolerance or above. Where the two differ, the share of the losers does: "
        "the library has (m - 1) E psi(Z) and ln m/ln(gamma/(gamma - 1)), the table of reference the least concave majorant, "
        "which is smaller for many markers; steps cost L_m here, (m - 1) ln(1 + q) there.",
        "",
        *table(("markers", "epsilon", *LIBRARY), compared),
        "",
    ]
