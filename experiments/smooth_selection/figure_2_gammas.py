"""Figure 2: noise of gamma 2, 4, 6 and 10, with the paper's accounting and bound, with ours, and on the square root."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from experiments.drawing import COLORS, Panel, Picture
from experiments.repeating import table
from experiments.smooth_selection import methods, tuning
from experiments.smooth_selection.accuracy import trial
from experiments.smooth_selection.reference import MARKERS

EPSILONS = (3, 6, 9, 12, 15, 18, 21)
SHOWN = (3, 6, 9, 15, 21)
GAMMAS = (2, 4, 6, 10)
ROOT_BETA = 0.022
FIGURE = Path(__file__).parents[2] / "benchmarks" / "accuracy-smooth-gammas.svg"


def published(sample, epsilon, gamma):
    beta = tuning.published_beta(sample.markers, epsilon, sample.families, gamma=gamma)
    return methods.smooth_selection(
        sample, epsilon, beta, "raw", "distance", gamma=gamma, accounting="published"
    )


def tight(sample, epsilon, gamma):
    return methods.smooth_selection(
        sample, epsilon, tuning.distance_limit(sample.families), "raw", "distance", gamma=gamma
    )


def root(sample, epsilon, gamma):
    return methods.smooth_selection(sample, epsilon, ROOT_BETA, "sqrt", gamma=gamma)


KINDS = {"paper": published, "ours, same bound": tight, "ours, root": root}


@cache
def share(kind, markers, epsilon, gamma):
    return KINDS[kind](trial(markers), epsilon, gamma).share


def best(kind, markers, epsilon):
    return max(GAMMAS, key=lambda gamma: share(kind, markers, epsilon, gamma))


def draw():
    picture = Picture(820, 640)
    for i, m in enumerate(MARKERS):
        panel = Panel(
            picture,
            (50 + 400 * (i % 2), 40 + 280 * (i // 2), 330, 210),
            (0, 21),
            (0, 1),
            f"{m} markers",
        )
        for kind, dash in (("paper", "4 3"), ("ours, root", "")):
            for gamma, color in zip(GAMMAS, COLORS, strict=False):
                panel.line(
                    EPSILONS, [share(kind, m, epsilon, gamma) for epsilon in EPSILONS], color, dash
                )
    picture.legend(50, 600, [f"gamma {gamma}" for gamma in GAMMAS], wide=95)
    picture.text(450, 600, "dashed: the paper's; solid: ours, square root; horizontal: epsilon")
    picture.write(FIGURE)


def report():
    rows = [
        (
            m,
            epsilon,
            *(f"{share(kind, m, epsilon, gamma):.4f}" for kind in KINDS for gamma in GAMMAS),
        )
        for m in MARKERS
        for epsilon in SHOWN
    ]
    wins = {
        kind: [best(kind, m, epsilon) for m in MARKERS for epsilon in EPSILONS] for kind in KINDS
    }
    said = "; ".join(
        kind + ": " + ", ".join(f"{gamma} in {found.count(gamma)}" for gamma in GAMMAS)
        for kind, found in wins.items()
    )
    draw()
    return [
        "## Powers of the noise (figure 2)",
        "",
        "Case IV with gamma 2, 4, 6 and 10. Paper: its accounting, beta the threshold or what costs half of epsilon. Ours, same "
        "bound: `SmoothSelection` with the threshold. Ours, root: `SmoothSelection` of the square "
        f"root with beta {ROOT_BETA}.",
        "",
        *table(
            ("markers", "epsilon", *(f"{kind}, {gamma}" for kind in KINDS for gamma in GAMMAS)),
            rows,
        ),
        "",
        f"Which gamma is best, of {len(MARKERS) * len(EPSILONS)} cells (epsilon 3 to 21 by 3): {said}.",
        "",
        f"![Powers of the noise]({FIGURE.name})",
        "",
    ]
