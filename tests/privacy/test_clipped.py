"""Clipped sums and means as the exact audit sees them: the law of clip and totals in classes, its losses, and a twin."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sordino import ClippedMean, ClippedSum, ClippedVariance, Seeded, audit
from sordino.audit import Subject
from sordino.audit.enumeration.quantiles import clips, reach, thirds
from sordino.audit.enumeration.subjects import subject_of
from sordino.cost import Pure
from sordino.errors import InvalidParameter
from sordino.noise import DiscreteLaplace
from support.fit import LEVEL

GRID = {"cap": 3, "growth": 2}
NEAR = 2.999999999999
MADE = [
    ClippedSum(epsilon=2, adjacency="add-remove", lower=0, **GRID),
    ClippedSum(epsilon=2, adjacency="replace-one", lower=-2, **GRID),
    ClippedMean(epsilon=2, adjacency="add-remove", lower=None, **GRID),
    ClippedMean(epsilon=2, adjacency="replace-one", rows_per_unit=2, lower=0, **GRID),
    ClippedVariance(epsilon=2, adjacency="add-remove", lower=None, **GRID),
    ClippedVariance(epsilon=2, adjacency="replace-one", lower=0, **GRID),
]
every = pytest.mark.parametrize(
    "m",
    MADE,
    ids=[
        "sum",
        "sum of both signs",
        "mean of both signs",
        "mean of two rows",
        "variance of both signs",
        "variance of a public number",
    ],
)


def test_the_classes_of_a_total_are_those_of_its_law():
    law = DiscreteLaplace(Fraction(1))
    y = np.arange(-60, 61)
    for total, low, high in ((0, 0, 1), (3, 0, 5), (-2, -2, 7)):
        mass = law.pmf(y - total)
        expected = (mass[y <= low].sum(), mass[(y > low) & (y < high)].sum(), mass[y >= high].sum())
        for (below, above), one in zip(thirds(law, total, low, high), expected, strict=True):
            assert below <= above
            assert float(below) == pytest.approx(one, abs=1e-12)


@every
@pytest.mark.slow
def test_the_law_adds_up_and_classes_hold_every_total(m):
    values = [0.5, NEAR, -3, 100]
    told = list(subject_of(m, 4).stated(values))
    assert sum(float(low) for _, (low, _) in told) == pytest.approx(1, abs=1e-12)
    assert len({output for output, _ in told}) == len(told)
    for tests, _ in clips(m, values):
        clip = m.search.clip(tests, simulated=True)
        shift = m.noise_for(clip).shift
        for total, (low, high) in zip(m.totals(values, clip), reach(m, clip), strict=True):
            assert low <= total >> shift <= high


@every
@pytest.mark.slow
def test_neighbours_lose_no_more_than_epsilon(m):
    rows = m.rows_per_unit
    for unit in ([NEAR] * rows, [-NEAR] * rows, [0.5, NEAR][:rows]):
        other = [0.25] * rows if m.adjacency == "replace-one" else []
        report = audit.exact(m, answers_a=[2.0, *unit], answers_b=[2.0, *other])
        assert not report.broken
        assert report.epsilon_at_most <= 2 + 1e-9


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean, ClippedVariance])
@pytest.mark.slow
def test_noise_for_fewer_rows_than_a_unit_has_is_convicted(estimator):
    m = estimator(epsilon=2, adjacency="add-remove", lower=0, **GRID)
    assert not audit.exact(m, answers_a=[NEAR], answers_b=[]).broken
    assert audit.exact(m, answers_a=[NEAR] * 2, answers_b=[]).broken


def test_a_clip_that_is_not_paid_for_is_convicted():
    m = MADE[0]
    assert m.cost.pure() == 2
    free = Subject(laws=[], stated=subject_of(m, 1).stated, cost=Pure(epsilon=1.3))
    assert audit.exact(free, answers_a=[NEAR], answers_b=[], n=1).broken


@pytest.mark.slow
def test_releases_follow_the_law_of_classes():
    m, values, n = MADE[0], [0.5, NEAR, 2.0], 300
    expected = {output: float(low) for output, (low, _) in subject_of(m, 3).stated(values)}
    drawn, entropy = dict.fromkeys(expected, 0), Seeded(9)
    for _ in range(n):
        found = m.release(values, entropy=entropy)
        [(low, high)] = reach(m, found.found)
        place = 0 if found.noisy[0] <= low else 2 if found.noisy[0] >= high else 1
        drawn[(found.found.tests[0] or 0, place)] += 1
    often = [key for key in expected if expected[key] * n > 5]
    observed = np.array([*(drawn[key] for key in often), n - sum(drawn[key] for key in often)])
    chances = np.array([expected[key] for key in often])
    assert stats.chisquare(observed, np.append(chances, 1 - chances.sum()) * n).pvalue > LEVEL


def test_many_records_are_refused():
    with pytest.raises(InvalidParameter, match="at most 16 records for a clipped sum or mean; got 17"):
        audit.exact(MADE[0], answers_a=[1] * 17, answers_b=[1])


@pytest.mark.slow
def test_the_attained_loss_is_that_of_clip_and_totals():
    m = MADE[0]
    report = audit.exact(m, answers_a=[NEAR], answers_b=[])
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-8)
    assert math.isclose(float(m.search.cost.pure()), 0.7)
