"""Does the time of a release depend on private answers? Measured, on pairs of answers; not a claim, and no protection."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.measuring import table
from sordino import COUNTING, LaplaceMechanism, NoisyTopK, PrivacyUnit, Seeded, Session, audit

CONFIDENCE = 0.999


def sampled(box_a, box_b, runs):
    """Seconds of each, in pairs of random order, after a warm-up: a fixed order falls into step with refills of the pool of words."""
    first = Seeded(1).words(runs) & 1
    taken = ([], [])
    for box in (box_a, box_b) * 20:
        box()
    gc.disable()
    try:
        for i in range(runs):
            for side in (1, 0) if first[i] else (0, 1):
                started = time.perf_counter()
                (box_a, box_b)[side]()
                taken[side].append(time.perf_counter() - started)
    finally:
        gc.enable()
    return taken


def welch(a, b):
    """Welch's t of the runs without the slowest twentieth of each side, which the machine and not the code makes slow."""
    a, b = (np.sort(x)[: int(len(x) * 0.95)] for x in (a, b))
    return (a.mean() - b.mean()) / (a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b)) ** 0.5


def row(name, box_a, box_b, runs, neighbours):
    a, b = sampled(box_a, box_b, runs)
    ends = iter(a), iter(b)
    report = audit.statistical(lambda: next(ends[0]), lambda: next(ends[1]), samples=runs, confidence=CONFIDENCE)
    middle = statistics.median(a), statistics.median(b)
    tails = [np.quantile(x, 0.95) for x in (a, b)]
    return (
        name,
        "yes" if neighbours else "no",
        f"{middle[0] * 1e6:,.1f}",
        f"{middle[1] * 1e6:,.1f}",
        f"{tails[0] * 1e6:,.1f} / {tails[1] * 1e6:,.1f}",
        f"{welch(a, b):+.1f}",
        f"{report.epsilon_at_least:.2f}",
    )


def report():
    laplace = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    top = NoisyTopK(k=10, epsilon=1, sensitivity=COUNTING)
    sparse = NoisyTopK(k=10, epsilon=1, sensitivity=COUNTING, domain_size=100_000)
    flat, one = np.zeros(1000, dtype=np.int64), np.eye(1, 1000, 999, dtype=np.int64)[0]
    steep = np.arange(1000)[::-1].copy()
    few, more, many = (list(range(n)) for n in (20, 21, 2000))

    def runs_of(mechanism, answers):
        return lambda: mechanism.release(answers)

    def sparse_at(places):
        answers = np.full(len(places), 5)
        return lambda: sparse.release(answers, positions=places)

    rows = [
        row("Laplace, 0 and 1", runs_of(laplace, 0), runs_of(laplace, 1), 4000, True),
        row("Laplace, 0 and 2^40", runs_of(laplace, 0), runs_of(laplace, 1 << 40), 4000, False),
        row("top 10 of 1000 zeros, twice the same", runs_of(top, flat), runs_of(top, flat.copy()), 4000, True),
        row("top 10 of 1000 zeros, and one of them 1", runs_of(top, flat), runs_of(top, one), 4000, True),
        row("top 10 of 1000 zeros, and of 999 to 0", runs_of(top, flat), runs_of(top, steep), 4000, False),
        row("top 10 of 100,000: 20 and 21 that are not 0", sparse_at(few), sparse_at(more), 2000, True),
        row("top 10 of 100,000: 20 and 2000 that are not 0", sparse_at(few), sparse_at(many), 2000, False),
    ]
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"u{i},tea\n" for i in range(2000)]
        boxes = []
        for name, listed in (("a", lines), ("b", lines[:-1]), ("c", lines * 50)):
            path = Path(folder, f"{name}.csv")
            path.write_text("user,item\n" + "".join(listed), encoding="utf-8")

            def count(path=path):
                with Session(str(path), unit=PrivacyUnit("user", adjacency="add-remove")) as session:
                    return session.count_distinct_units(epsilon=1)

            boxes.append(count)
        rows.append(row("count of units in a file, 2000 and 1999 rows", boxes[0], boxes[1], 400, True))
        rows.append(row("count of units in a file, 2000 and 100,000 rows", boxes[0], boxes[2], 200, False))
    return [
        "## Time of a release against private answers",
        "",
        "Runs in pairs of random order in one process; medians and 95 % quantiles in microseconds; Welch's t without the slowest twentieth; the last "
        f"column: what the statistical auditor says (confidence {CONFIDENCE}) that the time alone gives away, in nats. Time is no part of a "
        "release: keep it from the reader.",
        "",
        *table(("answers", "neighbours", "median a", "median b", "95 % a / b", "t", "loss of the time at least"), rows),
    ]
