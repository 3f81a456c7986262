"""Played: figures of counts, sums and means over columns of several shapes, against the same figures without noise."""

from __future__ import annotations

import numpy as np
import pytest

import sordino as sd

RUNS, CONFIDENCE = 60, 0.9
# Misses of so many runs that a right interval has once in a million series.
MOST = 19


def shapes():
    drawn = np.random.default_rng(11)
    return {
        "flat": drawn.integers(0, 40, 900).astype(float),
        "skewed": np.round(np.exp(drawn.normal(2, 1.2, 900)), 2),
        "few": np.array([3.0, 4.0, 5.0, 30.0] * 6),
        "zeros": np.array([0.0] * 500 + [12.0] * 40),
    }


SHAPES = shapes()
SUM = sd.ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=1e4)
MEAN = sd.ClippedMean(epsilon=1, adjacency="add-remove", lower=0, cap=1e4)
COUNT = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
GAUSS = sd.GaussianMechanism(rho=0.5, sensitivity=sd.COUNTING)


def clipped(values, release):
    return np.clip(values, *release.clip)


def play(kind, values, noise):
    """Return a figure, and what it is without noise: within the clip that was found."""
    n, half = values.size, values[: values.size // 2]
    if kind == "sum by count":
        total, rows = SUM.release(values, entropy=noise), COUNT.release(n, entropy=noise)
        return total / rows, clipped(values, total).sum() / n
    if kind == "two sums":
        one, other = SUM.release(values, entropy=noise), SUM.release(half, entropy=noise)
        return one - 2 * other, clipped(values, one).sum() - 2 * clipped(half, other).sum()
    if kind == "two means":
        one, other = MEAN.release(values, entropy=noise), MEAN.release(half, entropy=noise)
        return one - other, clipped(values, one).mean() - clipped(half, other).mean()
    large = int((values > 10).sum())
    some, rest = GAUSS.release(large, entropy=noise), COUNT.release(n - large, entropy=noise)
    return some / (some + rest), large / n


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["sum by count", "two sums", "two means", "share of both noises"])
def test_intervals_cover_what_they_say(kind, shape):
    missed = {False: 0, True: 0}
    widths = {False: [], True: []}
    noise, values = sd.Seeded(len(kind) * 100 + len(shape)), SHAPES[shape]
    for _ in range(RUNS):
        figure, truth = play(kind, values, noise)
        for planned in missed:
            found = sd.derive(figure, confidence=CONFIDENCE, planned=planned)
            # Records are rounded down to steps that are far below the noise.
            missed[planned] += not found.low - 1e-6 <= truth <= found.high + 1e-6
            widths[planned].append(found.high - found.low)
    assert max(missed.values()) <= MOST
    assert missed[False] <= missed[True]
    assert np.median(widths[True]) <= np.median(widths[False]) * (1 + 1e-6)
