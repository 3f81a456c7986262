"""Recall of the joint set beside a list of the same epsilon, for made-up counts of several shapes, and where the rule says that it turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.measuring import table
from sordino import COUNTING, JointTopK, NoisyTopK, Seeded
from sordino.plan import choose_top_k

# k, how many counts, how they fall.
SHAPES = (
    (10, 3000, 1.0),
    (100, 3000, 0.8),
    (25, 3000, 0.5),
    (25, 100_000, 0.5),
    (100, 100_000, 0.3),
)
UNITS = (16, 8, 4, 2, 1)
RUNS = 100


def recall(mechanism, counts):
    """Return which share of the k largest is found in the mean; whatever is as large as the last of them counts."""
    entropy, least = Seeded(3), counts[mechanism.k - 1]
    return np.mean(
        [
            (counts[mechanism.release(counts, entropy=entropy).indices] >= least).mean()
            for _ in range(RUNS)
        ]
    )


def report():
    rows: list[Any] = []
    for k, m, decay in SHAPES:
        known: dict[str, Any] = {"k": k, "epsilon": 1, "sensitivity": COUNTING}
        needed = choose_top_k(k=k, m=m, epsilon=1, decay=decay).needed
        cells = []
        for units in UNITS:
            counts = np.round(units * k * (k / np.arange(1.0, m + 1)) ** decay).astype(np.int64)
            found = (recall(kind(**known), counts) for kind in (JointTopK, NoisyTopK))
            cells.append(" / ".join(f"{one:.3f}" for one in found))
        rows.append((f"{k} of {m:,}, 1/rank^{decay:g}", f"{needed:.1f}", *cells))
    return [
        "## A list or a set",
        "",
        f"Recall of `JointTopK` / `NoisyTopK` with the same epsilon, means of {RUNS} seeded releases. The k-th count is so many times k/epsilon; from `needed` on `plan.choose_top_k` takes the set.",
        "",
        *table(
            ("k of m counts, which fall as", "needed", *(f"{units} k/epsilon" for units in UNITS)),
            rows,
        ),
    ]
