"""Top k of labels that nobody listed, by OpenDP, by Google's library and by Tumult Analytics, each called as its documentation says.

Tumult needs Spark and Python 3.12: TUMULT_PYTHON names a Python that has `tmlt.analytics`, and without it Tumult is not run.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

DELTA = 1e-6
TUMULT_RUNS = 4
"""Runs of Tumult: each takes some seconds of Spark."""
_MOST_THRESHOLD = 10**7


@cache
def build_threshold(epsilon, most):
    """OpenDP's Laplace threshold over counts by label, at the least threshold that delta allows."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    labels = dp.map_domain(dp.atom_domain(T="i32"), dp.atom_domain(T="i32"))
    moves = dp.l01inf_distance(dp.absolute_distance(T="i32"))
    # A unit has so many labels, which is how far all counts move together, and each by at most 1.
    unit = (most, most, 1)

    def build(scale, threshold):
        return dp.m.make_laplace_threshold(labels, moves, scale=scale, threshold=threshold)

    # The scale is rounded up where its epsilon is a digit above what was asked for.
    scale = most / epsilon
    while build(scale, _MOST_THRESHOLD).map(unit)[0] > epsilon:
        scale = float(np.nextafter(scale, np.inf)) * (1 + 1e-12)
    low, high = 1, _MOST_THRESHOLD
    while low < high:
        middle = (low + high) // 2
        low, high = (
            (low, middle) if build(scale, middle).map(unit)[1] <= DELTA else (middle + 1, high)
        )
    return build(scale, low)


def opendp(counts, k, epsilon, most, _hint, _rng):
    """All noisy counts above the threshold (`make_laplace_threshold`), of which the best are taken."""
    present = np.flatnonzero(counts)
    found = build_threshold(epsilon, most)(
        dict(zip(present.tolist(), counts[present].tolist(), strict=True))
    )
    return sorted(found, key=found.__getitem__, reverse=True)[:k]


def google(counts, k, epsilon, most, _hint, _rng):
    """Half of epsilon keeps partitions by the optimal probability, half counts those (through PyDP)."""
    from pydp.algorithms.numerical_mechanisms import LaplaceMechanism
    from pydp.algorithms.partition_selection import create_partition_strategy

    kept = create_partition_strategy("truncated_geometric", epsilon / 2, DELTA, most)
    noise = LaplaceMechanism(epsilon / 2, most)
    found = {
        item: noise.add_noise(count)
        for item, count in enumerate(counts.tolist())
        if count and kept.should_keep(count)
    }
    return sorted(found, key=found.__getitem__, reverse=True)[:k]


def tumult(pairs, k, epsilon, most):
    """What some releases find, or None where it is not there: half of epsilon for `get_groups`, half counts."""
    python = os.environ.get("TUMULT_PYTHON")
    if python is None:
        return None
    script = Path(__file__).with_name("unlisted_tumult.py")
    users, items = (column.astype(np.int64) for column in pairs)
    # Spark writes a folder of its own where it runs.
    with tempfile.TemporaryDirectory() as name:
        np.savez(Path(name) / "pairs.npz", user=users, item=items)
        line = [python, "-W", "ignore", str(script), "pairs.npz"]
        line += [str(one) for one in (k, epsilon, DELTA, most, TUMULT_RUNS)]
        done = subprocess.run(
            line,
            cwd=name,
            env=os.environ | {"PYSPARK_PYTHON": python},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return json.loads(done.stdout.splitlines()[-1])
