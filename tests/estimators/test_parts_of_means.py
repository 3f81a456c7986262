"""How many records a mean is of, and their sum: of its own noisy totals, with intervals that hold."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sordino as sd
from sordino.estimators import ClippedMean, ClippedMeans, ClippedSum

ROUNDS = 400
# Of so many rounds at 95% fewer hold with a chance of 1e-4.
LEAST = 363
VALUES = [3.0, 7.5, -2.0, 40.0, 11.25] * 12


def clipped(values: Any, clip: Any, *, weights: Any = None) -> Fraction:
    """The sum of what the records count as, in steps of the clip that are rounded down."""
    steps = [
        max(clip.bottom, min(clip.top, math.floor(Fraction(one) / clip.step))) for one in values
    ]
    own = [Fraction(1)] * len(steps) if weights is None else weights
    return sum(
        (Fraction(step) * one for step, one in zip(steps, own, strict=True)), Fraction(0)
    ) * (clip.step)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("lower", [None, 0, -5])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.sample(6)
def test_intervals_of_count_and_sum_hold(noise: str, lower: Any, adjacency: Any) -> None:
    rho: dict[str, Any] = {"total_rho": Fraction(1, 8)} if noise == "gaussian" else {}
    mean = ClippedMean(epsilon=1, adjacency=adjacency, lower=lower, cap=100, growth=2, **rho)
    held = {"count": 0, "sum": 0}
    for seed in range(ROUNDS):
        found = mean.release(VALUES, entropy=sd.Seeded(seed))
        parts = found.parts
        truth = {"count": len(VALUES), "sum": clipped(VALUES, found.found)}
        for name, one in truth.items():
            held[name] += parts[name].low <= one <= parts[name].high
        # The mean is their ratio, moved into the clip.
        if min(found.noisy) >= 0:
            assert parts["sum"].value / parts["count"].value == pytest.approx(found.value)
    assert min(held.values()) >= LEAST, held
    # Nor are they much too wide.
    assert min(held.values()) < ROUNDS


@pytest.mark.parametrize("upper", [False, True])
def test_rows_with_weights_count_as_their_unit_may(upper: bool) -> None:
    """Of a person with more rows than count each counts less; of all others each is one row."""
    rows = [[[float(2 + unit % 5)] * (1 + unit % 6), [1.0]] for unit in range(60)]
    means = ClippedMeans(
        groups=2, epsilon=2, adjacency="add-remove", lower=0, cap=50, weight_cap=3, upper=upper
    )
    held = {"count": 0, "sum": 0}
    for seed in range(ROUNDS):
        found, _ = means.release(rows, entropy=sd.Seeded(seed))
        [bits] = {found.weights.bits}
        whole = (1 << bits) // 3
        values = [one for unit in rows for one in unit[0]]
        weights = [
            Fraction((1 << bits) // max(3, len(unit[0]) + 1), whole)
            for unit in rows
            for _ in unit[0]
        ]
        truth = {"count": sum(weights), "sum": clipped(values, found.found, weights=weights)}
        for name, one in truth.items():
            held[name] += found.parts[name].low <= one <= found.parts[name].high
        assert found.parts["count"].clipped
    assert min(held.values()) >= LEAST, held


def test_a_public_number_has_no_noise() -> None:
    mean = ClippedMean(
        epsilon=1, adjacency="replace-one", lower=0, cap=100, growth=2, size_is_public=True
    )
    found = mean.release(np.array(VALUES), entropy=sd.Seeded(3))
    count, total = found.parts["count"], found.parts["sum"]
    assert (count.value, count.low, count.high) == (len(VALUES),) * 3
    assert total.low < clipped(VALUES, found.found) < total.high


def test_of_no_records_they_are_noise_and_nothing_fails() -> None:
    for lower in (None, 0):
        mean = ClippedMean(epsilon=1, adjacency="add-remove", lower=lower, cap=100, growth=2)
        for seed in range(30):
            parts = mean.release([], entropy=sd.Seeded(seed)).parts
            assert all(math.isfinite(end) for one in parts.values() for end in (one.low, one.high))
            # What cannot lie below 0 has no end there.
            assert 0 <= parts["count"].low <= parts["count"].high
            assert lower is None or 0 <= parts["sum"].low <= parts["sum"].high


def test_a_sum_is_made_of_nothing_else() -> None:
    total = ClippedSum(epsilon=1, adjacency="add-remove", lower=0, cap=100)
    assert total.release(VALUES, entropy=sd.Seeded(1)).parts == {}


def test_they_can_be_gone_on_with() -> None:
    """Noise that is in both is known: a count less itself is nothing."""
    mean = ClippedMean(epsilon=1, adjacency="add-remove", lower=0, cap=100, growth=2)
    count = mean.release(VALUES, entropy=sd.Seeded(3)).parts["count"]
    assert (count - count).high == 0
