"""Figures 4, 5 and 6: how much more the adaptive sparse vector answers, how right it is, and what is left when it is stopped."""

from __future__ import annotations

import numpy as np

import sordino as sd
from experiments.data import at_hand
from experiments.repeating import repeated, shown, table

DATA = ("retail", "bms_webview1", "t10i4d100k")
KS = (2, 6, 12, 24)
EPSILON = 0.7
RUNS = 400


def scores(indices, answers, threshold):
    """Return the number found, precision and F-measure."""
    true = int((answers[indices] >= threshold).sum())
    every = int((answers >= threshold).sum())
    return (
        indices.size,
        true / indices.size if indices.size else np.nan,
        2 * true / max(indices.size + every, 1),
    )


def trial(data, k, seed):
    chance = np.random.default_rng(seed)
    threshold = int(data.values[chance.integers(2 * k, 8 * k)])
    answers = data.values[chance.permutation(data.values.size)]
    common = {"threshold": threshold, "epsilon": EPSILON, "sensitivity": sd.COUNTING}
    plain = sd.SparseVector(positives=k, **common).release(answers, entropy=sd.Seeded(seed))
    mechanism = sd.AdaptiveSparseVector(at_least=k, **common)
    found = mechanism.release(answers, entropy=sd.Seeded(seed + 1_000_000))
    stopped = mechanism.threshold_epsilon + sum(
        mechanism.branch_epsilons[branch] for branch in found.branches[:k].tolist()
    )
    left = 1 - float(stopped / mechanism.cost.epsilon_) if found.indices.size >= k else np.nan
    first = int((found.branches == 0).sum())
    return (
        *scores(plain.indices, answers, threshold),
        *scores(found.indices, answers, threshold),
        first,
        left,
    )


def report():
    known, missing = at_hand(DATA)
    rows = []
    for data in known:
        for k in KS:
            mean, error = repeated(lambda i, d=data, k=k: trial(d, k, i), RUNS)
            cell = [
                shown(m, e, digits)
                for m, e, digits in zip(mean, error, (1, 3, 3, 1, 3, 3, 1, 3), strict=True)
            ]
            rows.append(
                (
                    data.name,
                    k,
                    cell[0],
                    cell[3],
                    cell[6],
                    cell[1],
                    cell[4],
                    cell[2],
                    cell[5],
                    cell[7],
                )
            )
    header = (
        "counts",
        "k",
        "found",
        "adaptive",
        "of them in branch 0",
        "precision",
        "adaptive",
        "F",
        "adaptive",
        "left after k",
    )
    return [
        "## Adaptive sparse vector (figures 4 to 6)",
        "",
        f"epsilon {EPSILON}, {RUNS} runs, threshold between the 2k-th and the 8k-th count, items shuffled, two branches, exponential "
        "noise, no correction. Left: the share of the budget when it is stopped after k positives (runs that found as many). "
        + missing,
        "",
        *table(header, rows),
        "",
    ]
