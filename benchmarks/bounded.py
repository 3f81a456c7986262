"""One million local releases, and how long a mechanism for a range takes to make: formulas, tables, folded noise."""

from __future__ import annotations

import statistics
import time

import numpy as np

from benchmarks.measuring import ROUNDS, machine, medians, table, verdict
from sordino import SYSTEM, CompositeMechanism, CompositeTable, FoldedMechanism, Sensitivity
from sordino.mechanisms.composite_table import designed_table

N = 1_000_000
ENDS = {"lower": 0, "upper": 100, "epsilon": 1}
KINDS = {
    "A1B1": {},
    "A2B1": {"activation": "sine"},
    "A3B1": {"activation": "triangle"},
    "A1B2": {"base": "quartic"},
    "A2B2": {"activation": "sine", "base": "quartic"},
    "A3B2": {"activation": "triangle", "base": "quartic"},
    "mixture": {"activation": "mixture"},
}


def report():
    return [*releases(), "", *construction()]


def processor(*jobs):
    """Seconds of one core for each job, medians over interleaved rounds: what other programs do meanwhile does not count."""
    for job in jobs:
        job()
    seconds = [[] for _ in jobs]
    for _ in range(ROUNDS):
        for taken, job in zip(seconds, jobs, strict=True):
            started = time.process_time()
            job()
            taken.append(time.process_time() - started)
    return [statistics.median(taken) for taken in seconds]


def inexact(values, rng):
    """Piecewise noise in floating point, as fast as NumPy can: not private, not unbiased, only a yardstick."""
    t = values / 50 - 1
    half = np.exp(0.5)
    far = (half + 1) / (half - 1)
    left = (far + 1) / 2 * t - (far - 1) / 2
    near = rng.random(t.size) < half / (half + 1)
    inside = left + (far - 1) * rng.random(t.size)
    outside = rng.random(t.size) * (far + 1) - far
    return 50 + 50 * np.where(near, inside, np.where(outside < left, outside, outside + far - 1))


def releases():
    rng = np.random.default_rng(1)
    values = rng.uniform(0, 100, N)
    made = {name: CompositeMechanism(**ENDS, **kind) for name, kind in KINDS.items()}
    made |= {f"table, {inputs} inputs": CompositeTable(**ENDS, inputs=inputs) for inputs in (5, 9)}
    floats, *seconds = processor(
        lambda: inexact(values, rng),
        *(lambda one=one: one.reports(values, entropy=SYSTEM) for one in made.values()),
    )
    rows = []
    for (name, one), taken in zip(made.items(), seconds, strict=True):
        off = one.reports(values, entropy=SYSTEM).values.mean() - values.mean()
        assert abs(off) < 6 * one.grid.standard_error / N**0.5, (
            "reports have the mean of the values"
        )
        rows.append(
            (name, f"{taken * 1e3:.0f}", f"{taken / floats:.1f}x", "250 ms", verdict(taken < 0.25))
        )
    return [
        "## Local release of 1e6 values",
        "",
        f"`reports` of {N:,} floats of a range of 100 at epsilon 1, exact, with entropy of the system, in time of one core; beside it how many times as long as Piecewise noise drawn in floating point by "
        f"NumPy ({floats * 1e3:.0f} ms; not private). {machine()[0]}",
        "",
        *table(("mechanism", "ms", "times inexact", "asked", ""), rows),
    ]


def construction():
    def first(make):
        """Make it and release one value: everything that a mechanism puts off is then there."""
        one = make()
        return one.release(37, entropy=SYSTEM), one.cost

    one_step = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
    makers = {
        name: lambda kind=kind: CompositeMechanism(**ENDS, **kind) for name, kind in KINDS.items()
    }
    makers["folded count"] = lambda: FoldedMechanism(**ENDS, sensitivity=one_step)
    makers["folded staircase"] = lambda: FoldedMechanism(
        **ENDS, sensitivity=one_step, noise="staircase"
    )
    alone, whole = (
        processor(*jobs)
        for jobs in (makers.values(), [lambda make=make: first(make) for make in makers.values()])
    )
    rows = [
        (name, f"{quick * 1e3:.2f} ms", f"{slow * 1e3:.1f} ms", "20 ms", verdict(quick < 0.02))
        for name, quick, slow in zip(makers, alone, whole, strict=True)
    ]
    for inputs in (5, 9):

        def table_of(inputs=inputs):
            return CompositeTable(**ENDS, inputs=inputs).noise

        def fresh():
            designed_table.cache_clear()
            return table_of()

        new, cached = medians(fresh, rounds=5)[0], medians(table_of)[0]
        cells = (
            f"{new:.2f} s",
            f"cached {cached * 1e6:.0f} us",
            "10 s, cached",
            verdict(new < 10 and cached < 0.02),
        )
        rows.append((f"table, {inputs} inputs", *cells))
    return [
        "## Making a mechanism for a range",
        "",
        "Construction, and construction with a first release, which also makes the outputs as floats; time of one core. A table is made at the first use of each epsilon and kept (wall clock, medians of 5).",
        "",
        *table(("mechanism", "made", "made and first release", "asked", ""), rows),
    ]


if __name__ == "__main__":
    print("\n".join(report()))
