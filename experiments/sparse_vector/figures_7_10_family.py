"""Figures 7 and 10: NCR and F1 of top-c selection over epsilon, many passes."""

from __future__ import annotations

import numpy as np

from experiments.data import NAMES, at_hand
from experiments.repeating import repeated, shown, table
from experiments.sparse_vector.family import PASSES, members, one_shot, trial

EPSILONS = (0.05, 0.1, 0.2, 0.5, 1, 2)
RUNS = 50


def report():
    known, missing = at_hand(NAMES)
    lines = [
        "## Sparse vector against its family (figures 7 and 10 of the paper)",
        "",
        f"Top-c selection in shuffled lists, up to {PASSES} passes, run = items/c, margin 0, {RUNS} runs; mean ± one standard error. "
        "Noise of the questions, then of the threshold, then the correction. The last row sees all answers at once. " + missing,
        "",
    ]
    worst, gains = 0.0, []
    for score, place in (("NCR", 0), ("F1", 1)):
        rows = []
        for data in known:
            cells = {epsilon: {} for epsilon in EPSILONS}
            for epsilon in EPSILONS:
                methods = members(data, epsilon) | {"all at once: NoisyTopK": one_shot(data, epsilon)}
                for name, mechanism in methods.items():
                    mean, error = repeated(lambda i, m=mechanism, d=data: trial(m, d, i), RUNS)
                    cells[epsilon][name] = mean[place], error[place]
                ours, paper = cells[epsilon]["ours: Exp, Exp, optimal"], cells[epsilon]["paper: Exp, Lap, optimal"]
                if score == "NCR":
                    gains.append(ours[0] - paper[0])
                    worst = min(worst, (ours[0] - paper[0]) / max(float(np.hypot(ours[1], paper[1])), 1e-9))
            rows += [
                (data.name, name, *(shown(*cells[epsilon][name]) for epsilon in EPSILONS)) for name in next(iter(cells.values()))
            ]
        lines += [f"**{score}**", "", *table(("counts", "method", *(f"eps {e}" for e in EPSILONS)), rows), ""]
    lines += [
        f"Ours less the paper's method, NCR: mean gain {np.mean(gains):+.4f}, largest {max(gains):+.4f}; "
        f"worst case {worst:+.1f} standard errors of the difference.",
        "",
    ]
    return lines
