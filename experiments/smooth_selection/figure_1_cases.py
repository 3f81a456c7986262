"""Figure 1: the paper's method in its four cases, against methods with the global sensitivity and ours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from experiments.drawing import COLORS, Panel, Picture
from experiments.repeating import table
from experiments.smooth_selection import methods, tuning
from experiments.smooth_selection.accuracy import trial
from experiments.smooth_selection.reference import MARKERS

EPSILONS = (3, 6, 9, 12, 15, 18, 21)
FIGURE = Path(__file__).parents[2] / "benchmarks" / "accuracy-smooth-cases.svg"


def case(sample, epsilon, distance, sided):
    """Select by the paper's method: distances to the global sensitivity or to 6, noise of two sides or one."""
    limit = tuning.global_limit(sample.families) if distance == "global" else None
    beta = tuning.published_beta(sample.markers, epsilon, sample.families, sided=sided, limit=limit)
    alpha = methods.alpha_of(sample, epsilon, beta, "raw", sided=sided, accounting="published")
    bounds = (
        tuning.global_bounds(sample, beta)
        if distance == "global"
        else sample.bounds(beta, "raw", "distance")
    )
    return methods.heavy_tail(sample, alpha, bounds, "raw", sided=sided)


METHODS = {
    "EM": methods.exponential_mechanism,
    "PF": methods.permute_and_flip,
    "case I": lambda *given: case(*given, "global", "two"),
    "case II": lambda *given: case(*given, "global", "one"),
    "case III": lambda *given: case(*given, "six", "two"),
    "case IV": lambda *given: case(*given, "six", "one"),
    "RR": methods.randomized_response,
    "default": methods.most_significant,
}


@cache
def share(name, markers, epsilon):
    return METHODS[name](trial(markers), epsilon).share


def draw():
    picture = Picture(820, 620)
    for i, m in enumerate(MARKERS):
        panel = Panel(
            picture,
            (50 + 400 * (i % 2), 40 + 280 * (i // 2), 330, 210),
            (0, 21),
            (0, 1),
            f"{m} markers",
        )
        for name, color in zip(METHODS, COLORS, strict=False):
            panel.line(EPSILONS, [share(name, m, epsilon) for epsilon in EPSILONS], color)
    picture.legend(50, 590, METHODS, wide=95)
    picture.write(FIGURE)


def report():
    rows = [
        (m, epsilon, *(f"{share(name, m, epsilon):.4f}" for name in METHODS))
        for m in MARKERS
        for epsilon in EPSILONS
    ]
    behind = [
        (m, epsilon)
        for m in MARKERS
        for epsilon in EPSILONS
        if share("case IV", m, epsilon) >= share("RR", m, epsilon)
    ]
    no_more = [
        (m, epsilon)
        for m in MARKERS
        for epsilon in EPSILONS
        if share("case IV", m, epsilon) <= share("PF", m, epsilon)
    ]
    simple = [
        (m, epsilon)
        for m in MARKERS
        for epsilon in EPSILONS
        if share("default", m, epsilon) < share("RR", m, epsilon)
    ]
    ahead = [
        share("default", m, epsilon) - share("case IV", m, epsilon)
        for m in MARKERS
        for epsilon in EPSILONS
    ]
    draw()
    return [
        "## The four cases (figure 1)",
        "",
        "The paper's method with noise of gamma 4 and its own accountings: S by the distance to the tables with the global "
        "sensitivity (I, II) or to those with a sensitivity above 6 (III, IV); noise of two sides (I, III) or "
        f"one (II, IV). beta is the threshold of its inequality (5), {tuning.global_limit(150):.5g}, or (8), "
        f"{tuning.distance_limit(150):.6f}, or costs half of epsilon where that is less. The noise is the stated law, not what "
        "the authors' sampler draws (below). RR: randomized response; default: `sd.genomics.most_significant`.",
        "",
        *table(("markers", "epsilon", *METHODS), rows),
        "",
        f"Case IV is at or above randomized response in {len(behind)} of {len(rows)} cells, and at or below permute-and-flip in "
        f"{len(no_more)}: {', '.join(f'{m} markers, epsilon {e}' for m, e in no_more) or 'none'}. "
        f"The default is above case IV by {min(ahead):+.3f} at least and {max(ahead):+.3f} at most, and below randomized response "
        f"in {len(simple)} cells.",
        "",
        f"![How often the best marker is selected]({FIGURE.name})",
        "",
    ]
