"""One selection, and Gumbel top-k, of 41,270 and of a million counts against OpenDP's noisy max and noisy top-k of the same law."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.measuring import medians, table
from sordino import COUNTING, ExponentialMechanism, NoisyTopK, PermuteAndFlip, RandomizedResponse

ITEMS, ROWS, EPSILON, K = 41_270, 5_000_000, 1.0, 50
MILLION = 1_000_000


def counts(items):
    """Zipf 1.05 over 5e6 rows, shuffled."""
    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, items + 1) ** 1.05
    return generator.permutation(generator.multinomial(ROWS, weights / weights.sum()))


def lists():
    """The shapes that are hard in different ways, by name."""
    generator = np.random.default_rng(2)
    peak = np.zeros(MILLION, dtype=np.int64)
    peak[12_345] = 14  # about as likely as all others together
    return {
        "Zipf, 41,270": counts(ITEMS),
        "Zipf, 1,000,000": counts(MILLION),
        "uniform 0 to 99, 1,000,000": generator.integers(0, 100, MILLION),
        "one at 14, the others 0, 1,000,000": peak,
    }


def ours():
    known = {"epsilon": EPSILON, "sensitivity": COUNTING}
    return {
        "ExponentialMechanism": ExponentialMechanism(**known),
        "without gap": ExponentialMechanism(**known, gap=False),
        "PermuteAndFlip": PermuteAndFlip(**known),
        "RandomizedResponse": RandomizedResponse(epsilon=EPSILON),
        f"Gumbel top {K}": NoisyTopK(k=K, noise="gumbel", **known),
        f"top {K} with gaps": NoisyTopK(k=K, **known),
    }


def theirs(items):
    """OpenDP's jobs of the same law: permute-and-flip under pure privacy, Gumbel noise under zCDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = (
        dp.vector_domain(dp.atom_domain(T="i32"), size=items),
        dp.linf_distance(T="i32", monotonic=True),
    )
    pure, concentrated = dp.max_divergence(), dp.zero_concentrated_divergence()
    flip = dp.m.make_noisy_max(*space, pure, scale=1 / EPSILON)
    gumbel = dp.m.make_noisy_max(*space, concentrated, scale=1 / EPSILON)
    assert flip.map(1) <= EPSILON * (1 + 1e-9)
    assert abs(gumbel.map(1) - EPSILON**2 / 8) < 1e-9, "the same law: rate epsilon/bound"
    return flip, gumbel


def once(job, runs=3):
    """Median seconds of a job that takes long."""
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[runs // 2]


def report():
    mechanisms = ours()
    rows = []
    for name, q in lists().items():
        seconds = medians(*(lambda m=m, q=q: m.release(q) for m in mechanisms.values()))
        rows.append((name, *(f"{1e3 * s:.1f}" for s in seconds)))
    q = counts(ITEMS)
    narrow = q.astype(np.int32)
    flip, gumbel = theirs(ITEMS)
    compared = []
    for name, job, peer in (
        ("permute-and-flip", "PermuteAndFlip", flip),
        ("exponential mechanism", "without gap", gumbel),
    ):
        (mine,) = medians(lambda job=job: mechanisms[job].release(q), rounds=31)
        other = once(lambda peer=peer: peer(narrow))
        compared.append((name, f"{mine * 1e3:.2f}", f"{other * 1e3:.1f}", f"{other / mine:,.1f}x"))
    return [
        "## One selection",
        "",
        f"Milliseconds a release, epsilon {EPSILON:g}, monotone counts. Times of the exponential mechanism depend on the answers.",
        "",
        *table(("answers", *mechanisms), rows),
        "",
        f"OpenDP on the {ITEMS:,} counts (Zipf 1.05 over 5e6 rows, shuffled), the same law and the same rate, median of 3 and 31:",
        "",
        *table(("job", "ours ms", "OpenDP ms", "OpenDP / ours"), compared),
    ]
