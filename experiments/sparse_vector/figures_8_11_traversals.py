"""Figures 8 and 11: NCR and F1 over the number of passes, the budget being the same."""

from __future__ import annotations

from experiments.data import NAMES, at_hand
from experiments.repeating import averaged, lead, led, runs_of, shown, table
from experiments.sparse_vector.family import OURS, PAPER, at_once, members, once, trial

PASSES = (1, 2, 5, 10, 40, 160)
EPSILON = 0.5
RUNS = 60
COMPARED = 200
SCORES = ("NCR", "F1", "budget left")


def report():
    known, missing = at_hand(NAMES)
    rows = {score: [] for score in SCORES}
    leads = {score: ([], []) for score in SCORES[:2]}
    for data in known:
        cells = {}
        for passes in PASSES:
            for name, mechanism in members(data, EPSILON, passes).items():
                runs = COMPARED if name in {OURS, PAPER} else RUNS
                cells[name, passes] = runs_of(lambda i, m=mechanism, d=data: trial(m, d, i), runs)
        single = {
            name: averaged(runs_of(lambda i, m=mechanism, d=data: trial(m, d, i), RUNS))
            for name, mechanism in (once(data, EPSILON) | at_once(data, EPSILON)).items()
        }
        for place, score in enumerate(SCORES):
            for name in members(data, EPSILON):
                found = [averaged(cells[name, passes]) for passes in PASSES]
                rows[score].append(
                    (data.name, name, *(shown(mean[place], error[place]) for mean, error in found))
                )
            for name, (mean, error) in single.items():
                rows[score].append(
                    (data.name, name, shown(mean[place], error[place]), *("",) * (len(PASSES) - 1))
                )
            for passes in PASSES if score in leads else ():
                gain, error = lead(cells[OURS, passes][:, place], cells[PAPER, passes][:, place])
                leads[score][0].append(gain)
                leads[score][1].append(error)
    lines = [
        "## Sparse vector over the number of passes (figures 8 and 11)",
        "",
        f"epsilon {EPSILON}, {RUNS} runs (ours and the paper's optimal method: {COMPARED}). With few passes a large correction leaves "
        "budget unspent, which a pure ledger gets back. Methods that ask once have one figure. "
        + missing,
        "",
    ]
    header = ("counts", "method", *(f"{n} {'pass' if n == 1 else 'passes'}" for n in PASSES))
    for score, found in rows.items():
        lines += [f"**{score}**", "", *table(header, found), ""]
        if score in leads:
            lines += [f"Ours less the paper's method, {score}: {led(*leads[score])}", ""]
    return lines
