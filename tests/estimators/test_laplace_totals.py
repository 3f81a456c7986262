"""What the totals of sums, means and variances cost: the curve of their Laplace noise, whatever clip is found."""

from __future__ import annotations

from fractions import Fraction

import pytest

import sordino as sd
from sordino.columns.bucket_counts import BucketCounts
from sordino.cost import RDP, Pure
from sordino.estimators.clipped import clipped_column
from sordino.estimators.clipped.clipped_column import _find_total_cost

KINDS = {"sum": sd.ClippedSum, "mean": sd.ClippedMean, "variance": sd.ClippedVariance}
ORDERS = (1.01, 1.1, 2.0, 8.92606, 100.0)


def list_clips(estimator):
    """Every clip that one search may end with, and of two searches those at the ends and along the diagonal."""
    edges = estimator.grid.size if estimator.search.sides == "above" else estimator.grid.size // 2
    counts = sorted(
        {1, 2, 3, edges // 3, edges // 2, edges - 1, edges, *range(1, edges + 1, 7)} - {0}
    )
    searches = len(estimator.search.runs(BucketCounts.empty(estimator.grid)))
    tests = [(count,) * searches for count in (*counts, None)]
    if searches == 2:
        tests += [(1, None), (None, 1), (edges, 1), (1, edges)]
    return [estimator.search.clip(found, simulated=True) for found in tests]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("lower", [0, None, -3])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**5), Fraction(1, 100), 1, 20])
@pytest.mark.sample(3)
def test_the_noise_of_every_clip_costs_at_most_what_is_said(kind, adjacency, lower, epsilon):
    for rows in (1, 7):
        made = KINDS[kind](
            epsilon=epsilon,
            adjacency=adjacency,
            lower=lower,
            cap=1e6,
            growth=1.5,
            rows_per_unit=rows,
        )
        assert made.total_cost.pure() == Fraction(epsilon) * Fraction(13, 20)
        assert made.total_cost.zcdp() < Pure(epsilon=made.total_cost.pure()).zcdp()
        for clip in list_clips(made):
            noise = made.noise_for(clip).mechanism
            assert noise.cost.pure() <= made.total_cost.pure()
            for order in ORDERS:
                assert noise.cost.rdp(order) <= made.total_cost.rdp(order) * (1 + 1e-7)


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 10**7)])
def test_noise_of_few_steps_keeps_its_pure_epsilon(epsilon):
    made = sd.ClippedSum(epsilon=epsilon, adjacency="add-remove", lower=0, cap=1e6)
    assert isinstance(made.total_cost, Pure)
    # The proof asks for so many steps at least, and there are fewer.
    steps = [made.noise_for(clip).mechanism for clip in list_clips(made)]
    assert min(noise.sensitivity.bound / noise.step for noise in steps) < clipped_column.LEAST_STEPS


def test_clips_that_are_narrow_beside_their_place_keep_their_pure_epsilon(monkeypatch):
    """A clip of a few record steps has noise of a few steps: values next to each other, far from 0."""
    made = sd.ClippedMean(epsilon=1, adjacency="add-remove", lower=10**15, cap=10**15 + 8, unit=1)
    assert isinstance(made.total_cost, Pure)
    monkeypatch.setattr(clipped_column, "_WIDE_CLIP", 1)
    said = _find_total_cost(made.search, made.total_budget)
    costs = [made.noise_for(clip).mechanism.cost for clip in list_clips(made)]
    assert any(cost.rdp(2) > said.rdp(2) for cost in costs)


def test_a_zcdp_account_is_charged_less_for_a_large_epsilon():
    made = sd.ClippedSum(epsilon=2, adjacency="add-remove", lower=0, cap=1e6)
    assert made.cost.pure() == 2
    assert isinstance(made.total_cost, RDP)
    assert made.total_cost.zcdp() < Fraction(4, 5) * Pure(epsilon=made.total_cost.pure()).zcdp()
