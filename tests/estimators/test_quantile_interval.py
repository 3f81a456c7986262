"""An interval of values holds the quantile with the stated confidence: by enumeration of every way its searches may end."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import sordino as sd
from sordino import InvalidParameter, Quantile, QuantileInterval, Seeded
from sordino.columns import BucketCounts
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.estimators.quantiles.rank_search import Runs
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan
from sordino_audit.enumeration.searches import law_of

GRID = {"lower": 0, "cap": 16, "growth": 1.5, "integer": True}
COLUMNS = {
    "spread": list(range(16)) * 2,
    "one value": [5] * 30,
    "two": [2] * 15 + [9] * 16,
    "nothing": [],
    "one": [7],
    "at the bottom": [0] * 20,
    "at the top": [16] * 20,
    "missing": [None] * 10 + [8] * 11,
    "steep": [3] * 40 + [4] * 40 + [15] * 3,
}


def true_quantile(column, q):
    values = sorted(max(value, 0) for value in column if value is not None)
    return values[max(0, math.ceil(q * len(values)) - 1)]


def misses(subject, column, q):
    """Chances that `low` lies above the quantile, and `high` below it; upper bounds."""
    runs, true = Runs.of(BucketCounts.of(column, grid=subject.grid)), true_quantile(column, q)
    up, down = subject.parts
    low = sum(
        float(most) for found, (_, most) in law_of(up, runs) if _low(subject, up.edge(found)) > true
    )
    high = sum(
        float(most)
        for found, (_, most) in law_of(down, runs)
        if _high(subject, down.edge(found)) < true
    )
    return low, high


def _low(subject, edge):
    return subject.ends(edge, subject.grid.size)[0] if edge else -math.inf


def _high(subject, edge):
    return subject.ends(0, edge)[1]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("q", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("name", [name for name in COLUMNS if COLUMNS[name]])
@pytest.mark.slow
def test_each_end_misses_with_at_most_half_of_what_is_left(name, q, adjacency):
    for epsilon in (0.3, 2, 10):
        subject = QuantileInterval(q=q, epsilon=epsilon, adjacency=adjacency, **GRID)
        for missed in misses(subject, COLUMNS[name], q):
            assert missed <= 0.025 * (1 + 1e-9)


def test_the_chance_is_nearly_used_up_somewhere():
    """So the law above can tell: with much less noise of the counts than of the threshold a miss is as likely as allowed."""
    subject = QuantileInterval(
        q=0.5, epsilon=0.1, adjacency="add-remove", lower=0, cap=4, growth=2, integer=True
    )
    up, down = subject.parts
    rates = {"noise": replace(up.scan.noise, rate=up.scan.noise.rate * 1000)}
    sharp = (
        replace(up, scan=replace(up.scan, **rates)),
        replace(down, scan=replace(down.scan, **rates)),
    )
    object.__setattr__(subject, "parts", sharp)
    most = max(
        max(misses(subject, [1] * n + [3] * m, 0.5))
        for n, m in ((500, 501), (501, 500), (500, 500))
    )
    assert 0.02 < most <= 0.025


def stopped(subject, *, up, down):
    """The same interval with searches that stop so many steps earlier than they do."""
    parts = tuple(
        replace(part, scan=replace(part.scan, threshold=part.scan.threshold - more))
        for part, more in zip(subject.parts, (up, down), strict=True)
    )
    object.__setattr__(subject, "parts", parts)
    return subject


@pytest.mark.parametrize(("up", "down", "least"), [(0, 0, 0.95), (-1, 0, 1.5), (0, -1, 1.5)])
def test_one_step_less_would_miss_too_often(up, down, least):
    """Large rates, so that one step of a threshold is much; the noise of the counts is smaller by far."""
    worst = [0.0, 0.0]
    for rate in np.linspace(0.7, 1.4, 15):
        subject = QuantileInterval(
            q=0.5, epsilon=4 * rate, adjacency="add-remove", lower=0, cap=4, growth=2, integer=True
        )
        sharp = [
            replace(
                part,
                scan=replace(
                    part.scan, noise=replace(part.scan.noise, rate=part.scan.noise.rate * 50)
                ),
            )
            for part in subject.parts
        ]
        object.__setattr__(subject, "parts", tuple(sharp))
        subject = stopped(subject, up=up, down=down)
        for n, m in ((20, 20), (20, 21), (21, 20), (19, 21), (21, 19)):
            worst = np.maximum(worst, misses(subject, [1] * n + [3] * m, 0.5))
    end = 1 if down else 0
    if up == down == 0:
        assert least * 0.025 < max(worst) <= 0.025
    else:
        assert worst[end] > least * 0.025


def test_a_search_that_does_not_stop_early_misses_the_quantile():
    subject = QuantileInterval(
        q=0.5, epsilon=0.1, adjacency="add-remove", lower=0, cap=4, growth=2, integer=True
    )
    plain = tuple(
        replace(part, scan=ThresholdScan(0, part.scan.threshold_noise, part.scan.noise))
        for part in subject.parts
    )
    object.__setattr__(subject, "parts", plain)
    assert max(misses(subject, [1] * 501 + [3] * 500, 0.5)) > 0.1


def test_confidence_is_what_is_asked_for():
    for confidence in (0.5, 0.8, 0.99):
        subject = QuantileInterval(
            q=0.5, epsilon=1, adjacency="add-remove", confidence=confidence, **GRID
        )
        assert max(misses(subject, COLUMNS["spread"], 0.5)) <= (1 - confidence) / 2


def test_real_values_of_both_signs():
    values = np.random.default_rng(1).normal(0, 10, 3000)
    subject = QuantileInterval(
        q=0.3, epsilon=2, adjacency="add-remove", lower=None, cap=1e6, growth=1.05
    )
    true, entropy = float(np.sort(values)[math.ceil(0.3 * 3000) - 1]), Seeded(3)
    ends = [subject.release(values, entropy=entropy) for _ in range(200)]
    assert sum(one.low <= true <= one.high for one in ends) >= 188
    assert np.median([one.high - one.low for one in ends]) < 2


def test_the_cost_is_within_the_budget_and_that_of_both_searches():
    for adjacency, rows in itertools.product(("add-remove", "replace-one"), (1, 3)):
        subject = QuantileInterval(
            q=0.25, epsilon=1, adjacency=adjacency, rows_per_unit=rows, **GRID
        )
        assert 0.99 < subject.cost.pure() <= 1


@pytest.mark.parametrize("name", COLUMNS)
def test_the_value_lies_in_its_interval(name):
    value = Quantile(q=0.5, epsilon=0.2, adjacency="add-remove", **GRID)
    both = QuantilesWithIntervals(
        value, (QuantileInterval(q=0.5, epsilon=0.2, adjacency="add-remove", **GRID),)
    )
    entropy = Seeded(1)
    for _ in range(50):
        found = both.release(COLUMNS[name], entropy=entropy)
        assert found.low <= found.value <= found.high
        assert found.cost == both.cost
    assert both.cost.pure() <= 0.4


@pytest.mark.parametrize(
    "changed", [{"confidence": 0}, {"confidence": 1}, {"q": 2}, {"cap": -1}, {"epsilon": 0}]
)
def test_what_is_refused(changed):
    with pytest.raises(InvalidParameter):
        QuantileInterval(**{"q": 0.5, "epsilon": 1, "adjacency": "add-remove", **GRID} | changed)


def test_a_session_says_the_interval_and_its_price():
    import polars as pl

    frame = pl.DataFrame(
        {"age": np.random.default_rng(1).integers(0, 90, 4000), "g": ["a", "b"] * 2000}
    )
    session = sd.Session(frame, unit=sd.PrivacyUnit.row(), entropy=Seeded(7))
    ask = {"epsilon": 1, "lower": 0, "cap": 120, "integer": True}
    with_interval = session.quantile("age", q=0.5, **ask)
    without = session.quantile("age", q=0.5, interval_share=None, **ask)
    assert with_interval.low <= 44 <= with_interval.high
    assert (without.low, without.high) == (None, None)
    assert with_interval.cost.pure() <= 1
    several = session.quantile("age", q=(0.25, 0.5, 0.75), **ask)
    assert all(one.low <= one.value <= one.high for one in several)
    assert several.cost.pure() <= 1
    assert {"low", "high"} <= set(several.to_dict()["values"][0])

    groups = session.quantile("age", q=0.5, by="g", domain=["a", "b"], **ask)
    assert groups.to_dict()["mechanism"][1]["name"] == "QuantileInterval"
    assert all(row.release.low <= row.release.value <= row.release.high for row in groups)
