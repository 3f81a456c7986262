"""Every claim names neighbours where its loss is largest; here the loss on them is computed, and equals the cost where it says so."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import COUNTING, GaussianMechanism, LaplaceMechanism, NoisyTopK, Sensitivity
from sordino.mechanisms import _additive, _noisy_top_k
from support.enumeration import by_formula, float_log, outputs

CLAIMS = [*_noisy_top_k.CLAIMS, *_additive.CLAIMS]
PAIRS = [(claim, *pair) for claim in CLAIMS for pair in claim.neighbours]
HALF = Fraction(1, 2)


def loss_of_top_k(parameters, a, b):
    k, monotone = parameters["k"], parameters["monotone"]
    worst = 0.0
    for winners, gaps in outputs(len(a), k, 2):
        p, q = (by_formula("exponential", HALF, x, winners, gaps) for x in (a, b))
        if p:
            worst = max(worst, float_log(p / q) / math.log(2))
    statement = Sensitivity(bound=1, monotone=monotone, adjacency="add-remove" if monotone else "replace-one", step=1)
    mechanism = NoisyTopK(k=k, epsilon=1, sensitivity=statement)
    return worst * float(mechanism.noise.rate), float(mechanism.cost.pure())


def loss_of_laplace(_parameters, a, b):
    mechanism = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
    x = np.arange(-30, 31)
    ratios = np.log(mechanism.noise.pmf(x - a[0])) - np.log(mechanism.noise.pmf(x - b[0]))
    return float(ratios.max()), float(mechanism.cost.pure())


def loss_of_gaussian(_parameters, a, b):
    mechanism = GaussianMechanism(rho=0.5, sensitivity=COUNTING)
    x = np.arange(-30, 31)
    p, q = mechanism.noise.pmf(x - a[0]), mechanism.noise.pmf(x - b[0])
    return float(np.log((p**2 / q).sum())), mechanism.cost.rdp(2)


LOSS = {"NoisyTopK": loss_of_top_k, "LaplaceMechanism": loss_of_laplace, "GaussianMechanism": loss_of_gaussian}


def test_every_claim_has_neighbours_to_try():
    assert {claim.name for claim in CLAIMS} == set(LOSS)
    assert all(claim.neighbours for claim in CLAIMS)


@pytest.mark.parametrize(("claim", "parameters", "a", "b"), PAIRS, ids=[f"{c.name} {p}" for c, p, _, _ in PAIRS])
def test_the_loss_on_the_named_neighbours(claim, parameters, a, b):
    loss, cost = LOSS[claim.name](parameters, a, b)
    assert loss <= cost + 1e-9
    if claim.tight:
        assert loss == pytest.approx(cost, abs=1e-9)
