"""Figure 16: NCR on Binary over the margin for which the correction is the best one."""

from __future__ import annotations

from experiments.data import counts
from experiments.repeating import averaged, lead, led, runs_of, shown, table
from experiments.sparse_vector.family import OURS, PAPER, at_once, members, once, trial

MARGINS = (0, 10, 100, 500)
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1, 2)
RUNS = 50
COMPARED = 200


def report():
    data = counts("binary")
    cells, gains, errors = {}, [], []
    for epsilon in EPSILONS:
        for margin in MARGINS:
            compared = members(data, epsilon, margin=margin)
            for name in (OURS, PAPER):
                cells[name, margin, epsilon] = runs_of(
                    lambda i, m=compared[name]: trial(m, data, i), COMPARED
                )
            gain, error = lead(
                cells[OURS, margin, epsilon][:, 0], cells[PAPER, margin, epsilon][:, 0]
            )
            gains.append(gain)
            errors.append(error)
        for name, mechanism in (once(data, epsilon) | at_once(data, epsilon)).items():
            cells[name, "", epsilon] = runs_of(lambda i, m=mechanism: trial(m, data, i), RUNS)
    rows = []
    for name, margin in dict.fromkeys((name, margin) for name, margin, _ in cells):
        found = [averaged(cells[name, margin, epsilon]) for epsilon in EPSILONS]
        rows.append((name, margin, *(shown(mean[0], error[0]) for mean, error in found)))
    return [
        "## The margin of the correction (figure 16)",
        "",
        f"NCR on Binary (50 answers of 1,000, 9,950 of 0, threshold 500), {COMPARED} runs, {RUNS} of the methods without a margin.",
        "",
        *table(
            ("method", "margin", *(f"eps {e}" for e in EPSILONS)),
            sorted(rows, key=lambda row: row[1] == ""),
        ),
        "",
        f"Ours less the paper's method, NCR: {led(gains, errors)}",
        "",
    ]
