"""What the paper on selection with smooth sensitivity concludes from its experiments, and why it does not follow (docs/papers)."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import sordino as sd
from sordino.noise import GeneralizedCauchy

FAMILIES, RUNS = 150, 4000
TOP = float(sd.smooth.tdt_ceiling(families=FAMILIES, scale="raw"))
LIMIT = 0.0336889


@cache
def synthetic(markers):
    """Return the statistics of the paper's simulation, and the bound of its Theorem 5 at the threshold."""
    rng = np.random.default_rng((7, markers))
    total = rng.binomial(2 * FAMILIES, 2 / 3, (RUNS, markers))
    b = rng.binomial(total, 0.5)
    counts = b.ravel(), (total - b).ravel()
    bounds = (
        sd.smooth.tdt(*counts, families=FAMILIES, beta=LIMIT, scale="raw", method="distance")
        .reshape(b.shape)
        .max(axis=1)
    )
    return sd.smooth.tdt_statistic(*counts, families=FAMILIES, scale="raw").reshape(b.shape), bounds


def best_of(noisy, scores):
    return float(
        (
            np.take_along_axis(scores, noisy.argmax(axis=1)[:, None], axis=1)[:, 0]
            == scores.max(axis=1)
        ).mean()
    )


def heavy(markers, gamma):
    return GeneralizedCauchy(gamma).sample(RUNS * markers, sd.Seeded(7)).reshape(RUNS, markers)


def selected(markers, epsilon, gamma, accounting):
    scores, bounds = synthetic(markers)
    mechanism = sd.SmoothSelection(
        epsilon=epsilon,
        beta=LIMIT,
        candidates=markers,
        ceiling=TOP,
        floor=0.01,
        gamma=gamma,
        accounting=accounting,
    )
    return best_of(scores * (mechanism.alpha / bounds)[:, None] + heavy(markers, gamma), scores)


@pytest.mark.parametrize(
    ("markers", "epsilon", "known"), [(5, 3, 0.40), (5, 21, 0.85), (20, 6, 0.34), (20, 21, 0.84)]
)
def test_a_method_that_needs_no_sensitivity_is_better(markers, epsilon, known):
    """Randomized response over the positions, which no table of the paper has; the figures are those of the paper's method."""
    theirs = selected(markers, epsilon, 4, "published")
    assert theirs == pytest.approx(known, abs=0.03)
    assert sd.RandomizedResponse(epsilon=epsilon).truthful(markers) > theirs + 0.1


@pytest.mark.parametrize("markers", [5, 20])
def test_a_power_of_four_is_best_only_by_the_published_accounting(markers):
    assert selected(markers, 9, 4, "published") > selected(markers, 9, 2, "published") + 0.1
    assert selected(markers, 9, 2, "tight") > selected(markers, 9, 4, "tight") + 0.05


def test_means_do_not_order_accuracies():
    """Lemma 4 compares means of noise: these have the same one, 2 GS/epsilon, at 5 markers and epsilon 9."""
    scores, _ = synthetic(5)
    mean = 2 * TOP / 9
    rng = np.random.default_rng(7)
    exponential = best_of(scores + mean * rng.exponential(size=scores.shape), scores)
    cauchy = best_of(scores + mean / GeneralizedCauchy(10).mean * heavy(5, 10), scores)
    steps = best_of(
        scores + mean * math.expm1(9) * (rng.geometric(-math.expm1(-9), size=scores.shape) - 1),
        scores,
    )
    assert exponential == pytest.approx(0.505, abs=0.03)
    assert cauchy == pytest.approx(0.618, abs=0.03)
    assert steps > 0.99


def test_the_noise_that_the_accounting_leaves():
    """20 markers, epsilon 6: the factor m - 1 of the paper takes a third of the budget, and the rest is not used up."""
    options = {"epsilon": 6, "beta": LIMIT, "candidates": 20, "ceiling": TOP, "floor": 0.01}
    published, tight = (
        sd.SmoothSelection(**options, accounting=name).alpha for name in ("published", "tight")
    )
    assert published == pytest.approx(0.8949, abs=1e-3)
    assert tight > 2.4 * published
