"""Clipped sums and means as the exact audit sees them: the law of clip and totals in classes, its losses, and a twin."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import ClippedMean, ClippedSum, ClippedVariance, Seeded
from sordino.cost import ZCDP, Pure, compose
from sordino.errors import InvalidParameter
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino_audit import Subject
from sordino_audit.enumeration.clipped import cells, clips, reach, thirds
from sordino_audit.enumeration.subjects import subject_of
from support.fit import LEVEL

GRID = {"cap": 3, "growth": 2}
NEAR = 2.999999999999
MADE = [
    ClippedSum(epsilon=2, adjacency="add-remove", lower=0, **GRID),
    ClippedSum(epsilon=2, adjacency="replace-one", lower=-2, **GRID),
    ClippedMean(epsilon=2, adjacency="add-remove", lower=None, **GRID),
    ClippedMean(epsilon=2, adjacency="replace-one", rows_per_unit=2, lower=0, **GRID),
    ClippedVariance(epsilon=2, adjacency="add-remove", lower=None, **GRID),
    ClippedVariance(epsilon=2, adjacency="replace-one", lower=0, size_is_public=True, **GRID),
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


GAUSSIAN = [
    ClippedSum(epsilon=1, adjacency="add-remove", lower=0, total_rho=0.5, **GRID),
    ClippedSum(epsilon=1, adjacency="replace-one", lower=-2, total_rho=0.1, **GRID),
    ClippedMean(epsilon=1, adjacency="add-remove", lower=0, total_rho=0.5, **GRID),
    ClippedMean(
        epsilon=1, adjacency="replace-one", rows_per_unit=2, lower=0, total_rho=0.5, **GRID
    ),
    ClippedVariance(epsilon=1, adjacency="add-remove", lower=0, total_rho=0.5, **GRID),
]
every_gaussian = pytest.mark.parametrize(
    "m", GAUSSIAN, ids=["sum", "sum of both signs", "mean", "mean of two rows", "variance"]
)


@pytest.mark.slow
@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 200), Fraction(1, 1 << 24)])
def test_the_cells_of_gaussian_noise_are_those_of_its_law(rate):
    """By adding up its masses; a narrow law is far from its integral, and then the bounds are far apart."""
    law = DiscreteGaussian(rate)
    y = np.arange(-90_000, 90_000)
    far = 8 * (math.isqrt(math.floor(1 / (2 * rate))) + 1)
    for total, low, high in ((0, 0, 1), (7, 0, 50), (-40, -90, 0)):
        first, last = low - far, high + far
        starts = [first + (last - first) * part // 20 for part in range(21)]
        mass = law.pmf(y - total)
        edges = [-90_000, *starts, 90_000]
        expected = [mass[(y >= a) & (y < b)].sum() for a, b in pairwise(edges)]
        found = cells(law, 20, total, low, high)
        for (below, above), one in zip(found, expected, strict=True):
            assert float(below) - 1e-15 <= one <= float(above) + 1e-15
            assert rate > Fraction(1, 10**6) or float(above - below) < 1e-4


@pytest.mark.slow
def test_the_cells_of_wide_noise_are_known_to_sixteen_digits():
    law = DiscreteGaussian(Fraction(1, 1 << 58))
    found = cells(law, 160, 3 << 28, 0, 17 << 28)
    assert 1 - sum(below for below, _ in found) < 1e-15
    sigma, far = 2**28.5, 8 * (math.isqrt(1 << 57) + 1)
    starts = [((17 << 28) + 2 * far) * part // 160 - far - (3 << 28) for part in range(161)]
    for (a, b), (below, above) in zip(pairwise(starts), found[1:-1], strict=True):
        with mpmath.workdps(40):
            ends = [
                mpmath.ncdf((mpmath.mpf(end) - mpmath.mpf(1) / 2) / mpmath.mpf(sigma))
                for end in (a, b)
            ]
            wanted = ends[1] - ends[0]
            assert below - Decimal(10) ** -30 <= Decimal(str(wanted)) * (1 + Decimal(10) ** -14)
            assert above + Decimal(10) ** -30 >= Decimal(str(wanted)) * (1 - Decimal(10) ** -14)


@every_gaussian
@pytest.mark.slow
def test_gaussian_totals_cost_what_is_charged(m):
    rows = m.rows_per_unit
    for unit in ([NEAR] * rows, [-NEAR] * rows, [0.5, NEAR][:rows]):
        other = [0.25] * rows if m.adjacency == "replace-one" else []
        report = audit.exact(m, answers_a=[2.0, *unit], answers_b=[2.0, *other])
        assert not report.broken
        assert report.partitioned, "ratios differ within a cell"
        assert report.claimed == m.cost
        assert [order.alpha for order in report.divergences] == [1.5, 2, 8, 32]
        assert len(report.deltas) == 2


@pytest.mark.slow
def test_gaussian_noise_for_less_than_a_record_is_convicted():
    """The loss that is found is near the one that is charged: half of it is refuted at each order."""
    m = GAUSSIAN[0]
    stated = subject_of(m, 1).stated
    assert not audit.exact(m, answers_a=[NEAR], answers_b=[]).broken
    cheap = compose(m.search.cost, ZCDP(rho=Fraction(2, 5)))
    assert audit.exact(
        Subject(laws=[], stated=stated, cost=cheap, merged=True),
        answers_a=[NEAR],
        answers_b=[],
        n=1,
    ).broken


@pytest.mark.slow
def test_gaussian_noise_for_fewer_rows_than_a_unit_has_is_convicted():
    for m in (GAUSSIAN[0], GAUSSIAN[2], GAUSSIAN[4]):
        assert audit.exact(m, answers_a=[NEAR] * 2, answers_b=[]).broken


@pytest.mark.slow
def test_releases_follow_the_law_of_cells():
    m, values, n = GAUSSIAN[0], [0.5, NEAR, 2.0], 300
    expected = {output: float(low) for output, (low, _) in subject_of(m, 3).stated(values)}
    drawn, entropy = dict.fromkeys(expected, 0), Seeded(9)
    for _ in range(n):
        found = m.release(values, entropy=entropy)
        [(low, high)] = reach(m, found.found)
        far = 8 * (math.isqrt(math.floor(1 / (2 * found.noise.mechanism.noise.rate))) + 1)
        first, last = low - far, high + far
        starts = [first + (last - first) * part // 160 for part in range(161)]
        drawn[
            (found.found.tests[0] or 0, int(np.searchsorted(starts, found.noisy[0], side="right")))
        ] += 1
    often = [key for key in expected if expected[key] * n > 5]
    observed = np.array([*(drawn[key] for key in often), n - sum(drawn[key] for key in often)])
    chances = np.array([expected[key] for key in often])
    assert len(often) > 10
    assert stats.chisquare(observed, np.append(chances, 1 - chances.sum()) * n).pvalue > LEVEL


def test_what_is_merged_is_true_or_false():
    with pytest.raises(InvalidParameter, match="True or False"):
        Subject(laws=[], stated=lambda values: [], cost=Pure(epsilon=1), merged=1)


def test_noise_of_less_than_a_step_is_not_cut_into_cells():
    with pytest.raises(InvalidParameter, match="deviation of a step or more"):
        cells(DiscreteGaussian(Fraction(2)), 20, 0, 0, 1)


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
    with pytest.raises(
        InvalidParameter, match="at most 16 records for a clipped sum or mean; got 17"
    ):
        audit.exact(MADE[0], answers_a=[1] * 17, answers_b=[1])


@pytest.mark.slow
def test_the_attained_loss_is_that_of_clip_and_totals():
    m = MADE[0]
    report = audit.exact(m, answers_a=[NEAR], answers_b=[])
    assert report.epsilon_at_least == pytest.approx(2, abs=1e-8)
    assert math.isclose(float(m.search.cost.pure()), 0.7)
