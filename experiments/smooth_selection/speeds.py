"""The speeds that were asked for: bounds and selection over a thousand and a million markers, tables, and alpha."""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.smooth_selection.simulated import Trial
from experiments.smooth_selection.table_1_times import TIMES, jobs, seconds

MILLION = 10**6


def verdict(found, most, unit="s"):
    return (
        f"{found:.3g} {unit} (asked: {most:g}) {'reached' if found <= most else '**not reached**'}"
    )


def asked():
    """Return the speeds that were asked for, each with what was measured."""
    thousand, million = (Trial.made_up(m, runs=1) for m in (1000, MILLION))
    rows = []
    for name in ("heavy tail, smallest bound", "heavy tail, root", "default"):
        small, large = (
            partial(jobs(m)[name], sample.b[0], sample.c[0])
            for m, sample in ((1000, thousand), (MILLION, million))
        )
        took = seconds(small), seconds(large)
        tracemalloc.start()
        large()
        peak = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
        rows.append(
            (name, verdict(1000 * took[0], 5, "ms"), verdict(took[1], 1), verdict(peak, 400, "MB"))
        )
    tables = [
        once(lambda i=i: sd.smooth.tdt(1, 1, families=1000, beta=0.01 + i / 1000, scale="raw"))
        for i in range(3)
    ]
    alphas = [
        once(
            lambda i=i: sd.SmoothSelection(
                epsilon=1 + i / 7, beta=0.03, candidates=20, ceiling=2, floor=0.2
            )
        )
        for i in range(TIMES)
    ]
    choices = [
        once(lambda i=i: sd.genomics.choose_method(markers=1000, families=150, epsilon=3 + i / 7))
        for i in range(3)
    ]
    return rows, (
        "Once for each setting, processor time, median of three or five settings: table of smallest bounds for 1000 families, "
        f"{verdict(float(np.median(tables)), 5)}; alpha of a mechanism, {verdict(1000 * float(np.median(alphas)), 20, 'ms')}; "
        f"the choice of a method for 1000 markers by the default, {np.median(choices):.2g} s."
    )


def once(run):
    """Return the processor seconds of what is kept afterwards, so that it cannot be repeated."""
    begun = time.process_time()
    run()
    return time.process_time() - begun


def report():
    speeds, sentence = asked()
    return [
        "### The speeds that were asked for",
        "",
        f"Bounds and selection together, median of {TIMES} runs, and the largest allocation of Python and NumPy on the way:",
        "",
        *table(("", "1000 markers", "1e6 markers", "memory, 1e6 markers"), speeds),
        "",
        sentence,
        "",
    ]
