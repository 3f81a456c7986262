"""Figure 16: NCR on Binary over the margin for which the correction is the best one."""

from __future__ import annotations

from experiments.data import counts
from experiments.repeating import repeated, shown, table
from experiments.sparse_vector.family import members, trial

MARGINS = (0, 10, 100, 500)
EPSILONS = (0.1, 0.2, 0.5, 1)
RUNS = 50


def report():
    data = counts("binary")
    rows = []
    for name in ("ours: Exp, Exp, optimal", "paper: Exp, Lap, optimal"):
        for margin in MARGINS:
            cells = []
            for epsilon in EPSILONS:
                mechanism = members(data, epsilon, margin=margin)[name]
                mean, error = repeated(lambda i, m=mechanism: trial(m, data, i), RUNS)
                cells.append(shown(mean[0], error[0]))
            rows.append((name, margin, *cells))
    return [
        "## The margin of the correction (figure 16)",
        "",
        f"NCR on Binary (50 answers of 1,000, 9,950 of 0, threshold 500), {RUNS} runs.",
        "",
        *table(("method", "margin", *(f"eps {e}" for e in EPSILONS)), rows),
    ]
