"""Top 50 of 41,270 realistic counts against OpenDP's make_noisy_top_k (permute-and-flip, peeled)."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measuring import medians, table, verdict
from sordino import COUNTING, NoisyTopK

ITEMS, ROWS, K, EPSILON = 41_270, 5_000_000, 50, 1.0


def counts():
    """Zipf 1.05 over 5e6 rows, shuffled: distinct scores near the top, no ties there."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, ITEMS + 1) ** 1.05
    drawn = generator.multinomial(ROWS, weights / weights.sum())
    return generator.permutation(drawn)


def report():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    q = counts()
    ours = NoisyTopK(k=K, epsilon=EPSILON, sensitivity=COUNTING)
    space = dp.vector_domain(dp.atom_domain(T="i32"), size=ITEMS), dp.linf_distance(T="i32", monotonic=True)
    scale = K / EPSILON
    theirs = dp.m.make_noisy_top_k(*space, dp.max_divergence(), k=K, scale=scale)
    assert theirs.map(1) <= EPSILON * (1 + 1e-9), "the same privacy loss"
    assert float(ours.cost.pure()) == EPSILON
    narrow = q.astype(np.int32)
    best = set(np.argsort(-q)[:200].tolist())
    assert set(ours.release(q).indices.tolist()) <= best
    (ours_seconds,) = medians(lambda: ours.release(q), rounds=31)
    runs = []
    for _ in range(5):
        started = time.perf_counter()
        chosen = theirs(narrow)
        runs.append(time.perf_counter() - started)
        assert len(set(chosen)) == K
        assert set(chosen) <= best
    theirs_seconds = sorted(runs)[2]
    ratio = theirs_seconds / ours_seconds
    return [
        "## Top 50 of 41,270 counts",
        "",
        f"Counts: Zipf 1.05 over 5e6 rows, shuffled; largest {q.max():,}, 50th {np.sort(q)[-50]:,}, 51st {np.sort(q)[-51]:,}. Both "
        f"spend epsilon {EPSILON:g} on monotone counts. Ours also releases 50 gaps. OpenDP's time is random ({min(runs):.1f} to "
        f"{max(runs):.1f} s in 5 runs); ours is the median of 31.",
        "",
        *table(
            ("ours ms", "OpenDP ms", "OpenDP / ours", "target", ""),
            [(f"{ours_seconds * 1e3:.2f}", f"{theirs_seconds * 1e3:.0f}", f"{ratio:,.0f}x", "1,000x", verdict(ratio >= 1000))],
        ),
    ]
