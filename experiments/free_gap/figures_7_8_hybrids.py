"""Figures 7 and 8: what the hybrids leave of the budget, and how large the answers are that they select."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.data import at_hand
from experiments.repeating import repeated, shown, table

DATA = ("retail", "bms_webview1", "t10i4d100k")
KS = (2, 6, 12, 18, 24)
EPSILON = 0.7
RUNS = 400


def mechanisms(threshold, k):
    common = {"epsilon": EPSILON, "sensitivity": sd.COUNTING}
    return {
        "NoisyTopK": sd.NoisyTopK(k=k, **common),
        "HybridTopK": sd.HybridTopK(k=k, threshold=threshold, **common),
        "HybridSparseVector": sd.HybridSparseVector(k=k, threshold=threshold, **common),
        "SparseVector": sd.SparseVector(threshold=threshold, positives=k, **common),
    }


def trial(mechanism, data, seed):
    answers = data.values[np.random.default_rng(seed).permutation(data.values.size)]
    found = mechanism.release(answers, entropy=sd.Seeded(seed))
    average = answers[found.indices].mean() if found.indices.size else np.nan
    return 1 - float(found.cost.epsilon_ / mechanism.cost.epsilon_), average, found.indices.size


def report():
    known, missing = at_hand(DATA)
    rows = []
    for data in known:
        threshold = int(data.values[11])
        for k in KS:
            for name, mechanism in mechanisms(threshold, k).items():
                mean, error = repeated(lambda i, m=mechanism, d=data: trial(m, d, i), RUNS)
                rows.append(
                    (
                        data.name,
                        k,
                        name,
                        *(shown(m, e, n) for m, e, n in zip(mean, error, (3, 0, 1), strict=True)),
                    )
                )
    return [
        "## Hybrids (figures 7 and 8)",
        "",
        f"Threshold: the 12th largest count; epsilon {EPSILON}, {RUNS} runs, items shuffled. "
        + missing,
        "",
        *table(("counts", "k", "mechanism", "budget left", "average answer", "answers"), rows),
        "",
    ]
