"""The privacy loss of additive noise, enumerated exactly: at most the declared cost, attained for pure privacy."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sordino import COUNTING, GaussianMechanism, LaplaceMechanism, Sensitivity

RANGE = np.arange(-60, 61)


def worst_pure_loss(mechanism, moves):
    """The largest log ratio over outputs, for answers (0, ...) against each of `moves`, from the law of the noise."""
    law = mechanism.noise
    worst = 0.0
    for move in moves:
        ratios = [np.log(law.pmf(RANGE)) - np.log(law.pmf(RANGE - m)) for m in move]
        worst = max(worst, sum(float(r.max()) for r in ratios))  # coordinates are independent
    return worst


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1])
def test_laplace_loss_is_attained(k, epsilon):
    mechanism = LaplaceMechanism(epsilon=epsilon, sensitivity=COUNTING.over(k))
    moves = [m for m in product((-1, 0, 1), repeat=k) if any(m)]
    assert worst_pure_loss(mechanism, moves) == pytest.approx(
        float(mechanism.cost.pure()), abs=1e-9
    )
    assert mechanism.cost.pure() == Fraction(str(epsilon))


def test_noise_for_one_answer_on_a_vector_is_convicted():
    one = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    assert worst_pure_loss(one, [(1, 1, 1)]) == pytest.approx(3)


def test_noise_at_nine_tenths_of_the_scale_is_convicted():
    mechanism = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    broken = replace(mechanism)
    broken.__dict__["noise"] = replace(mechanism.noise, rate=mechanism.noise.rate * Fraction(10, 9))
    assert worst_pure_loss(broken, [(1,)]) > float(mechanism.cost.pure()) + 0.1


def renyi(law, move, order):
    """The Rényi divergence between the law and the law shifted by `move`, term by term."""
    points = RANGE[
        (law.pmf(RANGE) > 0) & (law.pmf(RANGE - move) > 0)
    ]  # the rest weighs less than 1e-300
    p, q = np.log(law.pmf(points)), np.log(law.pmf(points - move))
    terms = order * p + (1 - order) * q
    top = terms.max()
    return float(top + np.log(np.exp(terms - top).sum())) / (order - 1)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("rho", [0.05, 0.5])
def test_gaussian_divergence_is_at_most_rho_times_the_order(k, rho):
    mechanism = GaussianMechanism(rho=rho, sensitivity=COUNTING.over(k, "l2"))
    for order in (1.01, 2, 8):
        for move in product((-1, 0, 1), repeat=k):
            total = sum(renyi(mechanism.noise, m, order) for m in move)
            assert total <= mechanism.cost.rdp(order) * (1 + 1e-9) + 1e-12
    assert sum(renyi(mechanism.noise, 1, 2) for _ in range(k)) >= 0.97 * mechanism.cost.rdp(2), (
        "nearly attained"
    )


def test_gaussian_noise_for_one_answer_on_a_vector_is_convicted():
    one = GaussianMechanism(rho=0.5, sensitivity=COUNTING)
    assert 3 * renyi(one.noise, 1, 2) > one.cost.rdp(2) * 2.5


def test_gaussian_noise_is_not_pure():
    law = GaussianMechanism(rho=0.5, sensitivity=COUNTING).noise
    losses = np.log(law.pmf(np.arange(0, 25))) - np.log(law.pmf(np.arange(1, 26)))
    assert losses.max() > 20
    assert GaussianMechanism(rho=0.5, sensitivity=COUNTING).cost.pure() == math.inf


def test_a_real_vector_pays_for_its_rounding():
    statement = Sensitivity(bound=0.5, monotone=False, adjacency="replace-one", norm="l1", size=4)
    mechanism = LaplaceMechanism(epsilon=1, sensitivity=statement)
    step = float(mechanism.step)
    # an L1 move of 0.5 that carries all four answers over an edge of the grid: the worst for the rounded answers
    edge = np.array([3, 5, 7, 9]) * step
    a, b = edge - step * 1e-6, edge + np.array([0.5 - 5e-6 * step, 0, 0, 0])
    assert np.abs(a - b).sum() <= 0.5
    moved = np.abs(np.floor(a / step) - np.floor(b / step)).sum()
    assert moved > 0.5 / step
    assert moved * float(mechanism.noise.rate) <= float(mechanism.cost.pure()) + 1e-12
