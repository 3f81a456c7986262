"""The figures of merit are those of the laws, and the choice follows them; it sees nothing private."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import Seeded, Sensitivity
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    ExponentialMechanism,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothSelection,
    SmoothStepSelection,
    StepSelection,
)
from sordino.plan import choose_selector
from sordino.plan.designs import noise_alone
from sordino.plan.winning import Design, winning


def moves(bound):
    return Sensitivity(bound=bound, monotone=False, adjacency="replace-one")


SCORES = np.random.default_rng(3).normal(size=(40, 6)).__abs__()
BOUND = 0.3
DESIGN = Design(SCORES, SCORES.argmax(axis=1), np.full(40, BOUND))
LIMITS = {"beta": 0.02, "candidates": 6, "ceiling": 2, "floor": Fraction(1, 10)}


@pytest.mark.parametrize("epsilon", [0.1, 1, 6])
def test_step_noise_is_counted(epsilon):
    mechanism = StepSelection(epsilon=epsilon, sensitivity=moves(BOUND))
    assert winning(mechanism, DESIGN) == pytest.approx(
        np.mean([mechanism.success(row) for row in SCORES]), abs=1e-3
    )


@pytest.mark.parametrize("epsilon", [2, 6])
def test_smooth_step_noise_is_counted(epsilon):
    mechanism = SmoothStepSelection(epsilon=epsilon, **LIMITS)
    counted = [mechanism.success(row, smooth_bound=BOUND) for row in SCORES]
    assert winning(mechanism, DESIGN) == pytest.approx(np.mean(counted), abs=1e-3)


@pytest.mark.parametrize("epsilon", [0.2, 1, 6])
def test_permute_and_flip_is_a_race_of_exponentials(epsilon):
    """The known sum over subsets: the best is refused by nobody."""
    mechanism = PermuteAndFlip(epsilon=epsilon, sensitivity=moves(BOUND))

    def exactly(row):
        depths = (row.max() - np.delete(row, row.argmax())) * epsilon / (2 * BOUND)
        total = 0.0
        for subset in range(1 << depths.size):
            chosen = [depth for i, depth in enumerate(depths) if subset >> i & 1]
            total += (-1) ** len(chosen) * math.exp(-sum(chosen)) / (len(chosen) + 1)
        return total

    assert winning(mechanism, DESIGN) == pytest.approx(
        np.mean([exactly(row) for row in SCORES]), abs=1e-3
    )


@pytest.mark.parametrize("epsilon", [0.5, 3])
def test_the_heavy_tail_by_quadrature(epsilon):
    mechanism = SmoothSelection(epsilon=epsilon, **LIMITS)
    nodes, weights = np.polynomial.legendre.leggauss(600)
    t = (nodes + 1) / 2
    z = (t / (1 - t)) ** 2
    density = mechanism.noise.pdf(z) * 2 * np.sqrt(z) * (1 + np.sqrt(z)) ** 2 * weights / 2
    total = 0.0
    for row in SCORES[:8]:
        depths = (row.max() - np.delete(row, row.argmax())) * mechanism.alpha / BOUND
        total += float(
            (density * np.prod([mechanism.noise.cdf(z + depth) for depth in depths], axis=0)).sum()
        )
    design = Design(SCORES[:8], DESIGN.best[:8], DESIGN.bounds[:8])
    assert winning(mechanism, design) == pytest.approx(total / 8, abs=1e-3)


def test_randomized_response_knows_one_candidate():
    mechanism = RandomizedResponse(epsilon=2)
    assert winning(mechanism, DESIGN) == pytest.approx(mechanism.truthful(6))
    other = Design(SCORES, (SCORES.argmax(axis=1) + 1) % 6)
    assert winning(mechanism, other) == pytest.approx((1 - mechanism.truthful(6)) / 5)


def test_many_candidates_are_counted_in_bins():
    scores = np.abs(np.random.default_rng(5).normal(size=(2, 3000)))
    mechanism = StepSelection(epsilon=5, sensitivity=moves(0.2))
    found = winning(mechanism, Design(scores, scores.argmax(axis=1)))
    assert found == pytest.approx(np.mean([mechanism.success(row) for row in scores]), abs=0.01)


def test_the_best_may_be_another_one_than_the_largest():
    """What is best by one score and selected by another: the largest one in between counts against it."""
    scores = np.array([[1.0, 0.9, 0.0]])
    mechanism = StepSelection(epsilon=3, sensitivity=moves(0.01))
    assert winning(mechanism, Design(scores, np.array([0]))) > 0.99
    assert winning(mechanism, Design(scores, np.array([1]))) < 0.01


def test_other_mechanisms_are_refused():
    with pytest.raises(InvalidParameter, match="compares RandomizedResponse"):
        winning(ExponentialMechanism(epsilon=1, sensitivity=moves(1)), DESIGN)


def chosen(**parameters):
    return type(choose_selector(**parameters).mechanism).__name__


SMOOTH = {"sensitivity": moves(2), "beta": 0.02, "floor": 0.23, "typical": 0.29}


# What the accuracy table of the paper's simulation says is best, where the smooth bound of |z| is all there is.
@pytest.mark.parametrize(
    ("m", "epsilon", "best"),
    [
        (5, 1, "SmoothSelection"),
        (5, 3, "SmoothStepSelection"),
        (10, 9, "StepSelection"),
        (15, 6, "SmoothStepSelection"),
        (20, 1, "SmoothSelection"),
        (20, 6, "SmoothStepSelection"),
    ],
)
def test_what_is_best_for_a_smooth_bound(m, epsilon, best):
    found = choose_selector(m=m, epsilon=epsilon, **SMOOTH)
    names = {type(one.mechanism).__name__: one.success for one in found.alternatives}
    assert len(names) == 5
    assert type(found.mechanism).__name__ == best
    assert names[best] >= max(names.values()) - 0.002
    assert found.success == names[best]
    assert found.why.startswith(best)


def test_without_knowledge_randomized_response_is_left():
    found = choose_selector(m=20, epsilon=3)
    assert found.mechanism == RandomizedResponse(epsilon=3)
    assert found.success == pytest.approx(0.513886683012)


def test_small_sensitivities_need_no_smooth_bound():
    assert chosen(m=20, epsilon=3, sensitivity=moves(0.3)) == "StepSelection"
    assert chosen(m=20, epsilon=3, sensitivity=moves(100)) == "RandomizedResponse"


def test_exact_ones_only():
    found = choose_selector(m=20, epsilon=1, exact=True, **SMOOTH)
    assert all(one.mechanism.exact for one in found.alternatives)
    assert not choose_selector(m=20, epsilon=1, **SMOOTH).mechanism.exact


def test_a_budget_too_small_for_smooth_noise_leaves_the_others():
    found = choose_selector(m=20, epsilon=1e-8, **SMOOTH)
    assert "SmoothStepSelection" not in {type(one.mechanism).__name__ for one in found.alternatives}


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 1e4])
def test_budgets_of_any_size(epsilon):
    """Among them one for which noise would have billions of levels."""
    constant = SMOOTH | {"floor": 2}
    assert 0.19 < choose_selector(m=5, epsilon=epsilon, **constant).success <= 1


def test_scores_of_ones_own():
    clear = [9.0, 1.0, 0.5, 0.2]
    assert choose_selector(m=4, epsilon=1, sensitivity=moves(0.5), scores=clear).success > 0.99
    assert (
        choose_selector(m=4, epsilon=1, sensitivity=moves(0.5), scores=[clear, clear[::-1]]).success
        > 0.99
    )
    assert choose_selector(m=4, epsilon=1, sensitivity=moves(50), scores=clear).success < 0.6


def test_public_numbers_beyond_the_floats_are_numbers():
    assert choose_selector(m=5, epsilon=1, **SMOOTH | {"typical": 10**400}).success > 0.2
    assert (
        choose_selector(m=2, epsilon=1, sensitivity=moves(1), scores=[1.7e308, -1.7e308]).success
        > 0.999
    )


def test_the_choice_is_the_same_each_time():
    assert choose_selector(m=7, epsilon=1.3, **SMOOTH) == choose_selector(
        m=7, epsilon=1.3, **SMOOTH
    )
    assert np.array_equal(noise_alone(20).scores, noise_alone(20).scores)
    assert abs(float((noise_alone(20).scores ** 2).mean()) - 1) < 0.1


def test_what_it_says_about_success_is_so():
    found, entropy = choose_selector(m=10, epsilon=2, sensitivity=moves(0.4)), Seeded(12)
    scores = np.abs(np.random.default_rng(8).normal(size=(800, 10)))
    hits = (
        sum(found.mechanism.release(row, entropy=entropy).index == row.argmax() for row in scores)
        / 800
    )
    assert abs(hits - found.success) < 0.13, "7 standard errors"


@pytest.mark.parametrize(
    "wrong",
    [
        {"m": 0},
        {"m": 2.5},
        {"epsilon": 0},
        {"epsilon": math.nan},
        {"exact": 1},
        {"beta": 0.1},
        {"sensitivity": None},
        {"floor": 3},
        {"floor": 0},
        {"typical": 0},
        {"beta": -1},
        {"beta": 0},
        {"scores": [1, 2]},
        {"scores": [math.nan] * 5},
        {"scores": "abcde"},
        {"scores": []},
    ],
    ids=str,
)
@pytest.mark.sample(2)
def test_public_mistakes_are_refused(wrong):
    given = {"m": 5, "epsilon": 1, **SMOOTH} | wrong
    if wrong == {"beta": 0.1}:
        given |= {"floor": None, "typical": None}
    with pytest.raises(InvalidParameter):
        choose_selector(**given)


@pytest.mark.parametrize("m", [0, 2**22 + 1, 2**63])
def test_so_many_candidates_as_no_design_can_hold_are_refused(m):
    with pytest.raises(
        InvalidParameter, match=r"choose_selector\.m must be a whole number from 1 to 2\^22"
    ):
        choose_selector(m=m, epsilon=3)
