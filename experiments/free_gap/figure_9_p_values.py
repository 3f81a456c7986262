"""Figure 9: how often a p-value of the exponential mechanism is small although the choice is not the best one."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.data import at_hand
from experiments.repeating import table

RUNS = 3000
EPSILONS = (2e-3, 5e-3)
LEVELS = (0.05, 0.01)


def report():
    known, missing = at_hand(("retail", "t10i4d100k", "zipf"))
    rows = []
    for data in known:
        scores = np.random.default_rng(7).choice(data.values, 100)
        best = scores.max()
        for epsilon in EPSILONS:
            mechanism = sd.ExponentialMechanism(epsilon=epsilon, sensitivity=sd.COUNTING)
            entropy, wrong = sd.Seeded(7), []
            for _ in range(RUNS):
                choice = mechanism.release(scores, entropy=entropy)
                if scores[choice.index] < best:
                    wrong.append(sd.p_value(choice))
            below = [
                np.mean(np.array(wrong) < level) if wrong else float("nan") for level in LEVELS
            ]
            allowed = [
                level + 3 * (level / max(len(wrong), 1)) ** 0.5 for level in LEVELS
            ]  # three standard errors
            held = all(not share > most for share, most in zip(below, allowed, strict=True))
            rows.append(
                (
                    data.name,
                    epsilon,
                    len(wrong),
                    *(f"{share:.5f}" for share in below),
                    "held" if held else "**broken**",
                )
            )
    return [
        "## p-values of the exponential mechanism (figure 9)",
        "",
        f"100 counts drawn once from each data set, {RUNS} runs; of the choices that were not the best, the share with a p-value below "
        ".05 and .01. " + missing,
        "",
        *table(("counts", "epsilon", "wrong choices", "below .05", "below .01", ""), rows),
        "",
    ]
