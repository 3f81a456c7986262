"""Figures 8 and 11: NCR and F1 over the number of passes, the budget being the same."""

from __future__ import annotations

from experiments.data import NAMES, at_hand
from experiments.repeating import repeated, shown, table
from experiments.sparse_vector.family import members, trial

PASSES = (1, 2, 5, 10, 40, 160)
EPSILON = 0.5
RUNS = 30
SHOWN = ("ours: Exp, Exp, optimal", "paper: Exp, Lap, optimal", "Exp, Lap, mean", "Lap, Lap, none")


def report():
    known, missing = at_hand(NAMES)
    lines = [
        "## Sparse vector over the number of passes (figures 8 and 11)",
        "",
        f"epsilon {EPSILON}, {RUNS} runs. With few passes a large correction leaves budget unspent, which a pure ledger gets back. "
        + missing,
        "",
    ]
    for score, place in (("NCR", 0), ("F1", 1), ("budget left", 2)):
        rows = []
        for data in known:
            for name in SHOWN:
                cells = []
                for passes in PASSES:
                    mechanism = members(data, EPSILON, passes)[name]
                    mean, error = repeated(lambda i, m=mechanism, d=data: trial(m, d, i), RUNS)
                    cells.append(shown(mean[place], error[place]))
                rows.append((data.name, name, *cells))
        lines += [
            f"**{score}**",
            "",
            *table(("counts", "method", *(f"{n} {'pass' if n == 1 else 'passes'}" for n in PASSES)), rows),
            "",
        ]
    return lines
