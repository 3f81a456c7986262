"""Tables that are never negative: whole, adding up, and inside of all intervals, or not shown at all."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from sordino.figures.mixed_noise import find_far
from sordino.figures.table_fit import fit_within, list_margins
from sordino.mechanisms import LaplaceMechanism
from sordino.sensitivity import COUNTING


def noise_of(epsilon=1):
    return LaplaceMechanism(epsilon=epsilon, sensitivity=COUNTING).noise


def fit_counts(noisy, reach):
    """Whole numbers, none below 0, of which each sum lies within its reach of the noisy one."""
    sums = {axes: noisy.sum(axis=axes, keepdims=True) for axes in reach}
    return fit_within(
        noisy,
        {axes: (np.maximum(one - reach[axes], 0), one + reach[axes]) for axes, one in sums.items()},
    )


def reaches(shape, epsilon=1):
    """Return how far each margin reaches so that all hold together with 95%, by the same law as the product."""
    found = {}
    for axes in list_margins(len(shape)):
        cells = math.prod(shape[axis] for axis in axes)
        level = Fraction(1, 20) / 2 ** len(shape)
        each = Fraction(1 - (1 - float(level)) ** (cells / math.prod(shape))).limit_denominator(
            10**12
        )
        found[axes] = int(find_far([(noise_of(epsilon), Fraction(1))] * cells, each))
    return found


def draw(truth, rng, epsilon=1):
    p = 1 - math.exp(-epsilon)
    return truth + rng.geometric(p, truth.shape) - rng.geometric(p, truth.shape)


def is_inside(fitted, noisy, reach):
    """Tell whether every number lies in its interval, which begins at 0 at least: written anew here."""
    for axes, far in reach.items():
        here, there = (one.sum(axis=axes) if axes else one for one in (fitted, noisy))
        if np.any(here > np.maximum(there + far, 0)) or np.any(here < np.maximum(there - far, 0)):
            return False
    return bool(np.all(fitted >= 0))


def full_lines(shape, lines, mean, seed=1, axis=0):
    rng = np.random.default_rng(seed)
    truth = np.zeros(shape, dtype=np.int64)
    where = [slice(None)] * len(shape)
    where[axis] = slice(lines)
    truth[tuple(where)] = rng.poisson(mean, truth[tuple(where)].shape)
    return truth


def scattered(shape, share, mean, seed=1):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < share, rng.poisson(mean, shape), 0)


TABLES = {
    "empty": np.zeros((2, 2), dtype=np.int64),
    "small": np.random.default_rng(1).poisson(3, (5, 5)),
    "full": np.random.default_rng(1).poisson(100, (20, 12)),
    "scattered": scattered((30, 30), 0.05, 29),
    "one full row": full_lines((20, 12), 1, 50),
    "full columns": full_lines((30, 30), 2, 30, axis=1),
    "six large offices": full_lines((40, 30), 6, 60),
    "three labels": full_lines((10, 5, 4), 1, 40),
    "four labels": full_lines((3, 4, 2, 5), 1, 20),
    "one label": np.array([0, 0, 5, 100, 0]),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(10)
def test_a_table_lies_inside_of_all_its_intervals(name):
    truth, rng = TABLES[name], np.random.default_rng(7)
    reach, inside, runs = reaches(truth.shape), 0, 30
    for _ in range(runs):
        noisy = draw(truth, rng)
        fitted = fit_counts(noisy, reach)
        if fitted is None:
            continue
        assert fitted.dtype == np.int64
        assert is_inside(fitted, noisy, reach), "what is returned was checked"
        inside += 1
    # The truth lies inside of all intervals in 95 of 100 tables, so that there is a table.
    assert inside >= 0.9 * runs


def test_it_depends_on_what_was_released_alone():
    noisy = draw(TABLES["scattered"], np.random.default_rng(3))
    reach = reaches(noisy.shape)
    first, second = fit_counts(noisy, reach), fit_counts(noisy.copy(), reach)
    assert np.array_equal(first, second)


def test_the_total_stays_where_it_can():
    rng = np.random.default_rng(5)
    for _ in range(20):
        noisy = draw(TABLES["full"], rng)
        assert fit_counts(noisy, reaches(noisy.shape)).sum() == noisy.sum()


def test_clamping_each_cell_is_convicted():
    """Empty cells rise by .4 on average: rows of 30 by 12, and their total by hundreds."""
    rng = np.random.default_rng(9)
    truth = TABLES["scattered"]
    clamped, fitted = [], []
    for _ in range(20):
        noisy = draw(truth, rng)
        clamped.append(np.maximum(noisy, 0).sum() - truth.sum())
        table = fit_counts(noisy, reaches(truth.shape))
        fitted += [] if table is None else [table.sum() - truth.sum()]
    assert len(fitted) >= 18
    assert np.mean(clamped) > 250
    assert abs(np.mean(fitted)) < 40


def test_what_cannot_be_is_none():
    # A cell that lies below 0 by more than its reach: no table is inside.
    noisy = np.array([[-50, 3], [2, 1]])
    assert fit_counts(noisy, reaches((2, 2))) is None


def test_all_margins_are_listed():
    assert sorted(list_margins(2)) == [(), (0,), (0, 1), (1,)]
    assert len(set(list_margins(4))) == 16
    assert set(itertools.chain(*list_margins(3))) == {0, 1, 2}
