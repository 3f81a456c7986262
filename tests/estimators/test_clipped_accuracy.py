"""The expected error of a clipped sum, exactly: the law of the clip times B + b e^(-B/b), against the settings of the paper."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from sordino import BucketCounts, BucketGrid, ClippedSum

PEOPLE = (np.arange(1000) + 0.5) / 1000
COLUMNS = {
    "ages": np.floor(17 + 73 * PEOPLE**1.7),
    "ratings": 5 - 2.2 * np.sqrt(-np.log(PEOPLE)) / 2,
    "lognormal": np.exp(3 + np.array([NormalDist().inv_cdf(p) for p in PEOPLE])),
    "pareto": PEOPLE ** (-1 / 1.5),
}
CAP = 1e4


def clip_law(answers, lengths, threshold, slow, fast):
    """P(stop at test k) and of no stop: a sum over the noise of the threshold."""
    z = np.arange(int(40 / slow))
    answers = np.repeat(answers, lengths)
    fail = -np.expm1(-fast * np.maximum(0, threshold + z[:, None] - answers))
    alive = np.cumprod(np.column_stack([np.ones(z.size), fail]), axis=1)
    law = np.append(alive[:, :-1] * (1 - fail), alive[:, -1:], axis=1)
    return (np.exp(-slow * z) * -math.expm1(-slow)) @ law


def error(column, edges, law, epsilon):
    """E|noise - what is cut off|, and the probability of a clip beyond four times the largest record."""
    ends = np.append(edges, edges[-1])
    cut = np.maximum(column - ends[:, None], 0).sum(axis=1)
    scale = ends / epsilon
    return float(law @ (cut + scale * np.exp(-cut / scale))), float(
        law[ends > 4 * column.max()].sum()
    )


def ours(column, epsilon, **changed):
    subject = ClippedSum(epsilon=epsilon, adjacency="add-remove", lower=0, cap=CAP, **changed)
    scan = subject.search.scan
    [runs] = subject.search.runs(BucketCounts.of(column, grid=subject.grid))
    law = clip_law(*runs, scan.threshold, float(scan.threshold_noise.rate), float(scan.noise.rate))
    return error(column, subject.grid.edges, law, epsilon * (1 - float(subject.clip_share)))


def of_the_paper(column, epsilon):
    """Half the budget for the 0.99 quantile over edges a thousandth apart, equal rates, a public number of records; half for the sum."""
    grid = BucketGrid.geometric(lower=0, cap=CAP, growth=1.001)
    below, lengths = BucketCounts.of(column, grid=grid).runs_up()
    law = clip_law(below, lengths, math.ceil(0.99 * column.size), epsilon / 4, epsilon / 4)
    return error(column, grid.edges, law, epsilon / 2)[0]


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.sample(4)
def test_the_defaults_are_no_worse_than_the_settings_of_the_paper(name):
    column = COLUMNS[name]
    found, far = ours(column, 2)
    assert found <= of_the_paper(column, 2)
    assert far < 3e-3


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 1])
@pytest.mark.parametrize("name", COLUMNS)
def test_nor_for_less_epsilon(name, epsilon):
    assert ours(COLUMNS[name], epsilon)[0] <= of_the_paper(COLUMNS[name], epsilon)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.2, 2])
def test_the_default_share_is_near_the_best_for_every_column(epsilon):
    for column in COLUMNS.values():
        errors = {
            share: ours(column, epsilon, clip_share=share)[0]
            for share in (0.15, 0.25, 0.35, 0.5, 0.65)
        }
        assert errors[0.35] <= 1.6 * min(errors.values())
