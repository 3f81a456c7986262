"""Does the time of a release depend on private answers? Measured, on pairs of answers; not a claim, and no protection."""

from __future__ import annotations

import gc
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import sordino_audit as audit
from benchmarks.measuring import table
from sordino import (
    COUNTING,
    ExponentialMechanism,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    PrivacyUnit,
    RandomizedResponse,
    Seeded,
    Session,
    SparseVector,
)

CONFIDENCE = 0.999
FLIPS = 2000  # re-labellings of the randomization test: its smallest p-value is 1/(FLIPS + 1)
N, LONG = 1000, 200_000
FLAT, ONE = np.zeros(N, dtype=np.int64), np.eye(1, N, N - 1, dtype=np.int64)[0]
STEEP = np.arange(N)[::-1].copy()
HERMIT = np.where(
    np.arange(N) == 7, 6, 0
)  # one far enough ahead that most tries of the others miss
NEXT_HERMIT = HERMIT + (np.arange(N) == 7)


def nothing():
    """Prepare nothing."""


def sampled(job_a, job_b, runs):
    """Seconds of each, in pairs of random order, after a warm-up: a fixed order falls into step with refills of the pool of words.

    A job is (prepare, run): `run` is measured on what `prepare` returns.
    """
    first = Seeded(1).words(runs) & 1
    taken = ([], [])
    for prepare, run in (job_a, job_b) * 20:
        run(prepare())
    gc.disable()
    try:
        for i in range(runs):
            for side in (1, 0) if first[i] else (0, 1):
                prepare, run = (job_a, job_b)[side]
                ready = prepare()
                started = time.perf_counter()
                run(ready)
                taken[side].append(time.perf_counter() - started)
    finally:
        gc.enable()
    return taken


def by_chance(a, b):
    """P-value of the difference of the medians: how often it is as large if the two labels of each pair change places at random."""
    pairs = np.array([a, b])
    seen = abs(np.subtract(*np.median(pairs, axis=1)))
    generator = np.random.default_rng(1)
    as_large = 0
    for _ in range(FLIPS):
        mixed = np.where(generator.integers(0, 2, pairs.shape[1], dtype=bool), pairs, pairs[::-1])
        as_large += abs(np.subtract(*np.median(mixed, axis=1))) >= seen
    return (1 + as_large) / (FLIPS + 1)


def row(name, job_a, job_b, runs, neighbours):
    a, b = sampled(job_a, job_b, runs)
    ends = iter(a), iter(b)
    report = audit.statistical(
        lambda: next(ends[0]), lambda: next(ends[1]), samples=runs, confidence=CONFIDENCE
    )
    middle = statistics.median(a), statistics.median(b)
    tails = [np.quantile(x, 0.95) for x in (a, b)]
    return (
        name,
        neighbours,
        f"{middle[0] * 1e6:,.1f}",
        f"{middle[1] * 1e6:,.1f}",
        f"{middle[1] / middle[0]:.3f}",
        f"{by_chance(a, b):.4f}",
        f"{tails[0] * 1e6:,.1f} / {tails[1] * 1e6:,.1f}",
        f"{report.epsilon_at_least:.2f}",
    )


def released(mechanism, answers, **more):
    """The job of one release."""
    return nothing, lambda _: mechanism.release(answers, **more)


def asked(mechanism, *answers):
    """The job of the last of some questions to a new stream."""

    def prepare():
        stream = mechanism.open()
        for answer in answers[:-1]:
            stream.ask(answer)
        return stream

    return prepare, lambda stream: stream.ask(answers[-1])


def selections():
    """Releases of one list, or of one answer."""
    known = {"epsilon": 1, "sensitivity": COUNTING}
    laplace, top = LaplaceMechanism(**known), NoisyTopK(k=10, **known)
    yield "Laplace, 0 and 1", released(laplace, 0), released(laplace, 1), 4000, "yes"
    yield "Laplace, 0 and 2^40", released(laplace, 0), released(laplace, 1 << 40), 4000, "no"
    yield (
        "top 10 of 1000 zeros, twice the same",
        released(top, FLAT),
        released(top, FLAT.copy()),
        4000,
        "the same",
    )
    one_answer = (
        ("top 10", top),
        ("Gumbel top 10", NoisyTopK(k=10, noise="gumbel", **known)),
        ("permute-and-flip", PermuteAndFlip(**known)),
        ("randomized response", RandomizedResponse(epsilon=1)),
        ("exponential mechanism", ExponentialMechanism(**known)),
        ("exponential mechanism without the lead", ExponentialMechanism(gap=False, **known)),
    )
    for name, mechanism in one_answer:
        yield (
            f"{name}, 1000 zeros, and one of them 1",
            released(mechanism, FLAT),
            released(mechanism, ONE),
            2000,
            "yes",
        )
        yield (
            f"{name}, 1000 zeros, and 999 to 0",
            released(mechanism, FLAT),
            released(mechanism, STEEP),
            1000,
            "no",
        )
    for name, mechanism in one_answer[4:]:
        yield (
            f"{name}, one of 1000 at 6, and at 7",
            released(mechanism, HERMIT),
            released(mechanism, NEXT_HERMIT),
            2000,
            "yes",
        )
        yield (
            f"{name}, 1000 zeros, and one of them 6",
            released(mechanism, FLAT),
            released(mechanism, HERMIT),
            1000,
            "no",
        )


def sparse_vectors():
    """Questions to a stream, and lists."""
    known = {"epsilon": 8, "sensitivity": COUNTING, "threshold": 0}
    low, high = -(10**6), 10**6
    stream = SparseVector(positives=3, **known)
    yield (
        "ask, first question: below and above",
        asked(stream, low),
        asked(stream, high),
        4000,
        "no, and released",
    )
    yield (
        "ask, second question: below and above",
        asked(stream, low, low),
        asked(stream, low, high),
        4000,
        "no, and released",
    )
    yield (
        "ask, below: by 10^6 and by 10^6 + 1",
        asked(stream, low, low),
        asked(stream, low, low - 1),
        4000,
        "yes",
    )
    yield (
        "ask, below: by 1000 and by 2^40",
        asked(stream, low, -1000),
        asked(stream, low, -(1 << 40)),
        4000,
        "no",
    )
    yield (
        "ask, above: by 1000 and by 2^60 (clamped)",
        asked(stream, low, 1000),
        asked(stream, low, 1 << 60),
        4000,
        "no",
    )
    yield (
        "ask, below: a float and NaN",
        asked(stream, low, -1000.0),
        asked(stream, low, float("nan")),
        4000,
        "no",
    )
    yield (
        "ask, the question that draws 64 more, and the next one",
        asked(stream, *[low] * 65),
        asked(stream, *[low] * 66),
        1000,
        "public",
    )
    zeros = np.full(LONG, low)
    early, late, others = zeros.copy(), zeros.copy(), zeros.copy()
    early[10], late[LONG - 10], others[11:] = high, high, low - 1
    early_too = np.where(np.arange(LONG) == 10, high, others)
    once = SparseVector(positives=1, **known)
    yield (
        "sparse vector of 200,000, positive at 10 and at 199,990",
        released(once, early),
        released(once, late),
        300,
        "no, and released",
    )
    yield (
        "sparse vector, the same positive, others lower by 1",
        released(once, early),
        released(once, early_too),
        300,
        "yes",
    )
    yield (
        "sparse vector, nothing found, all lower by 1",
        released(once, zeros),
        released(once, zeros - 1),
        300,
        "yes",
    )
    domain = SparseVector(
        threshold=100, positives=3, epsilon=1, sensitivity=COUNTING, domain_size=100_000
    )
    yield (
        "sparse vector over 100,000: 20 and 21 that are not 0",
        *listed(domain, 20, 21),
        1000,
        "yes",
    )


def listed(mechanism, *sizes):
    """Releases over a domain of which so many answers are not 0."""
    return [released(mechanism, np.full(size, 5), positions=list(range(size))) for size in sizes]


def tables(folder):
    """Counts and a top-k of files."""
    lines = [f"u{i},{'tea' if i % 3 else 'milk'}\n" for i in range(2000)]
    jobs = {}
    for name, rows in (("a", lines), ("b", lines[:-1]), ("c", lines * 50)):
        path = Path(folder, f"{name}.csv")
        path.write_text("user,item\n" + "".join(rows), encoding="utf-8")

        def count(_, path=path):
            with Session(
                str(path), unit=PrivacyUnit("user", adjacency="add-remove"), ledger=None
            ) as session:
                return session.count_distinct_units(epsilon=1)

        def top(_, path=path):
            with Session(
                str(path), unit=PrivacyUnit("user", adjacency="add-remove"), ledger=None
            ) as session:
                return session.top_k("item", k=1, epsilon=1, domain=["tea", "milk", "rum"])

        jobs[name] = (nothing, count), (nothing, top)
    yield "count of units in a file, 2000 and 1999 rows", jobs["a"][0], jobs["b"][0], 300, "yes"
    yield "count of units in a file, 2000 and 100,000 rows", jobs["a"][0], jobs["c"][0], 100, "no"
    yield (
        "top 1 of three items in a file, 2000 and 1999 rows",
        jobs["a"][1],
        jobs["b"][1],
        300,
        "yes",
    )


def report():
    sparse = NoisyTopK(k=10, epsilon=1, sensitivity=COUNTING, domain_size=100_000)
    rows = [row(*case) for case in (*selections(), *sparse_vectors())]
    few, one_more, many = listed(sparse, 20, 21, 2000)
    rows.append(row("top 10 of 100,000: 20 and 21 that are not 0", few, one_more, 2000, "yes"))
    rows.append(row("top 10 of 100,000: 20 and 2000 that are not 0", few, many, 2000, "no"))
    with tempfile.TemporaryDirectory() as folder:
        rows += [row(*case) for case in tables(folder)]
    return [
        "## Time of a release against private answers",
        "",
        "Runs in pairs of random order in one process; medians and 95 % quantiles in microseconds; how often so large a difference of the medians "
        f"comes about if the labels of each pair change places at random ({FLIPS} times); the last column: what the statistical auditor says "
        f"(confidence {CONFIDENCE}) that the time alone gives away, in nats. Of {len(rows)} p-values one or two are below 0.05 by chance. "
        '"Released": the release itself says which of the two it was. Time is no part of a release: keep it from the reader.',
        "",
        *table(
            (
                "answers",
                "neighbours",
                "median a",
                "median b",
                "b/a",
                "p",
                "95 % a / b",
                "loss of the time at least",
            ),
            rows,
        ),
    ]
