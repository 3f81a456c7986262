"""The most significant of many markers: statistic, smooth bound and selection together, the tables behind them, and the choice of a method."""

from __future__ import annotations

import sys
import time
from fractions import Fraction

import numpy as np

from benchmarks.measuring import ROUNDS, medians, process, table
from sordino.genomics import choose_method, most_significant
from sordino.genomics.choose import _choose_likeliest_method
from sordino.mechanisms.smooth.smooth_selection import largest_selection_alpha
from sordino.noise import GeneralizedCauchy
from sordino.smooth import tdt
from sordino.smooth._tdt import smallest_bounds

FAMILIES, EPSILON, MILLION = 150, 3.0, 1_000_000
METHODS = ("damped", "smooth-step", "heavy-tail", "step", "randomized-response")
SCRIPT = """
import resource, sys
import numpy as np
from sordino.genomics import most_significant
generator = np.random.default_rng(1)
total = generator.binomial(300, 2 / 3, {markers})
b = generator.binomial(total, 0.5)
held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
most_significant(b=b, c=total - b, families=150, epsilon=3, method={method!r})
print(held, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def counts(markers):
    """Markers without effect; two of three parents are heterozygous."""
    generator = np.random.default_rng(1)
    total = generator.binomial(2 * FAMILIES, 2 / 3, markers)
    b = generator.binomial(total, 0.5)
    return b, total - b


def selections(markers, rounds=ROUNDS):
    b, c = counts(markers)
    jobs = [
        lambda method=method: most_significant(
            b=b, c=c, families=FAMILIES, epsilon=EPSILON, method=method
        )
        for method in METHODS
    ]
    default = lambda: most_significant(b=b, c=c, families=FAMILIES, epsilon=EPSILON)  # noqa: E731

    def raw():
        return most_significant(
            b=b, c=c, families=FAMILIES, epsilon=EPSILON, scale="raw", method="smooth-step"
        )

    return medians(default, *jobs, raw, rounds=rounds)


def cold(job, *caches, rounds=5):
    """Median seconds of a job whose tables are not kept."""
    seconds = []
    for _ in range(rounds):
        for cache in caches:
            cache.cache_clear()
        started = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[rounds // 2]


def report():
    rows = [
        (f"{markers:,}", *(f"{1e3 * s:.2f}" for s in selections(markers)))
        for markers in (20, 1_000, MILLION)
    ]
    memory = []
    for method in ("damped", "smooth-step", "heavy-tail"):
        out, _, peak = process(sys.executable, "-c", SCRIPT.format(markers=MILLION, method=method))
        held = int(out.split()[0]) * 1024
        memory.append((method, f"{peak / 1e6:.0f}", f"{(peak - held) / 1e6:.0f}"))
    law = GeneralizedCauchy(Fraction(4))
    alpha = cold(
        lambda: largest_selection_alpha(1.0, 0.05, 1000, law, "one", "tight"),
        largest_selection_alpha,
    )
    stars = {
        families: cold(
            lambda families=families: tdt([5], [5], families=families, beta=0.05, scale="raw"),
            smallest_bounds,
        )
        for families in (150, 1000)
    }
    rules = {
        markers: cold(
            lambda markers=markers: choose_method(
                markers=markers, families=FAMILIES, epsilon=EPSILON
            ),
            _choose_likeliest_method,
        )
        for markers in (20, 1_000, MILLION)
    }
    kept = [
        (f"smallest bounds of all tables, {n:,} families", f"{s:.3f}") for n, s in stars.items()
    ]
    kept += [("alpha of the heavy tail, 1,000 candidates", f"{alpha:.4f}")]
    kept += [(f"choice of a method, {n:,} markers", f"{s:.3f}") for n, s in rules.items()]
    return [
        "## The most significant of many markers",
        "",
        f"Milliseconds from counts in {FAMILIES} families to the released position, epsilon {EPSILON:g}: statistic, bound and selection. The",
        "paper reports 43 s for the smooth bounds of 1,000 markers.",
        "",
        *table(("markers", "default", *METHODS, "smooth-step, raw"), rows),
        "",
        "Megabytes of a process that selects among 1,000,000 markers, all of it, and beyond what held the counts:",
        "",
        *table(("method", "peak MB", "of these the selection"), memory),
        "",
        "Seconds of what is computed once and kept, medians of 5:",
        "",
        *table(("what", "seconds"), kept),
    ]
