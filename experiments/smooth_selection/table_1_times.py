"""Table I: run times over the number of markers."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

import sordino as sd
from experiments.repeating import table
from experiments.smooth_selection import methods
from experiments.smooth_selection.simulated import FAMILIES, Trial

SIZES = (20, 50, 100, 200, 500, 1000)
PAPER = {
    "EM": (1.5e-4, 3.5e-4, 6.6e-4, 1.5e-3, 3.4e-3, 6.4e-3),
    "PF": (1.3e-4, 3.2e-4, 6.4e-4, 1.4e-3, 3.2e-3, 6.3e-3),
    "SPS, Theorem 4": (4.6e-4, 1.1e-3, 2.3e-3, 4.8e-3, 1.1e-2, 2.0e-2),
    "SPS, Theorem 5": (0.90, 2.2, 4.6, 10.0, 22.7, 43.1),
}
TIMES = 5
RAW_BETA, ROOT_BETA, EPSILON = 0.03, 0.02, 9


def seconds(run):
    """Return the median of five runs, after one."""
    run()
    took = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        run()
        took.append(time.perf_counter() - begun)
    return float(np.median(took))


def global_noise(mechanism, b, c):
    mechanism.release(sd.smooth.tdt_statistic(b, c, families=FAMILIES, scale="raw"))


def smooth(mechanism, beta, scale, method, b, c):
    scores = sd.smooth.tdt_statistic(b, c, families=FAMILIES, scale=scale)
    mechanism.release(
        scores,
        smooth_bound=sd.smooth.tdt(b, c, families=FAMILIES, beta=beta, scale=scale, method=method),
    )


def by_default(b, c):
    sd.genomics.most_significant(b=b, c=c, families=FAMILIES, epsilon=EPSILON)


def jobs(m):
    """Return what is timed: from the counts to the choice, mechanisms made before."""
    raw = {"ceiling": sd.smooth.tdt_ceiling(families=FAMILIES, scale="raw"), "floor": 0.02}
    root = {"ceiling": 2, "floor": 0.23}
    moves = methods.moves(raw["ceiling"])
    heavy = sd.SmoothSelection(epsilon=EPSILON, beta=RAW_BETA, candidates=m, **raw)
    gentle = sd.SmoothSelection(epsilon=EPSILON, beta=ROOT_BETA, candidates=m, **root)
    return {
        "EM": partial(global_noise, sd.ExponentialMechanism(epsilon=EPSILON, sensitivity=moves)),
        "PF": partial(global_noise, sd.PermuteAndFlip(epsilon=EPSILON, sensitivity=moves)),
        "heavy tail, distance (Theorem 5)": partial(smooth, heavy, RAW_BETA, "raw", "distance"),
        "heavy tail, smallest bound": partial(smooth, heavy, RAW_BETA, "raw", "exact"),
        "heavy tail, root": partial(smooth, gentle, ROOT_BETA, "sqrt", "exact"),
        "default": by_default,
    }


def columns():
    found = {}
    for m in SIZES:
        sample = Trial.made_up(m, runs=1)
        for name, job in jobs(m).items():
            found.setdefault(name, []).append(seconds(partial(job, sample.b[0], sample.c[0])))
    return found


def report():
    found = columns()
    rows = [
        (f"{name}, paper", *(f"{value:.2g}" for value in values)) for name, values in PAPER.items()
    ]
    rows += [
        (f"{name}, here", *(f"{value:.2g}" for value in values)) for name, values in found.items()
    ]
    ratio = [
        theirs / ours
        for theirs, ours in zip(
            PAPER["SPS, Theorem 5"], found["heavy tail, distance (Theorem 5)"], strict=True
        )
    ]
    return [
        "## Run times (table I)",
        "",
        f"Seconds from the counts to the choice, median of {TIMES} runs, mechanisms and tables made before; the machine was not "
        "idle. Paper: its table, on its machine and with its code, which searches the nearest table for each "
        f"marker. The same bound has a closed form: {min(ratio):,.0f} to {max(ratio):,.0f} times faster, two machines apart.",
        "",
        *table(("seconds", *(f"{m} markers" for m in SIZES)), rows),
        "",
    ]
