"""Intervals of a share from two noisy totals: the tail that they rest on, their coverage, and how narrow they are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import sordino as sd
from sordino import Seeded
from sordino.estimators.clipped.clipped_value import ShareTest, laplace_tail as tail
from sordino.noise import DiscreteLaplace

TENTH = DiscreteLaplace(Fraction(1, 10))


@pytest.mark.parametrize(
    ("a", "c"),
    [(1.0, 0.0), (0.9, 0.1), (0.5, 0.5), (0.5 + 1e-9, 0.5 - 1e-9), (0.7, 0.3), (1.0, 1.0)],
)
def test_the_tail_is_that_of_a_difference_of_laplace_variables(a, c):
    """P(|a X - c Y| > t) by adding up over Y."""
    y = (
        np.arange(100_000) + 0.5
    ) * 4e-4  # one half of the law of Y; the other half is its mirror image
    weight = np.exp(-y) * 4e-4 / 2

    def beyond(x):  # P(a X > x)
        return np.where(x > 0, np.exp(-np.abs(x) / a) / 2, 1 - np.exp(-np.abs(x) / a) / 2)

    for t in (0.0, 0.3, 2.0, 7.0):
        wanted = 2 * (weight @ beyond(t + c * y) + weight @ beyond(t - c * y))
        assert tail(t, a, c) == pytest.approx(wanted, rel=1e-5)
    assert tail(0.0, a, c) == 1


def test_a_wider_part_never_makes_a_tail_smaller():
    for t in (0.2, 1.0, 5.0):
        table = np.array(
            [
                [tail(t, max(a, c), min(a, c)) for a in np.linspace(0.05, 1, 20)]
                for c in np.linspace(0.05, 1, 20)
            ]
        )
        assert (np.diff(table, axis=0) >= -1e-15).all()
        assert (np.diff(table, axis=1) >= -1e-15).all()


def covered(u, v, rate, wrong, *, one_sided=False, draws=400, seed=1):
    noise = DiscreteLaplace(rate).sample(2 * draws, Seeded(seed)).reshape(draws, 2)
    share = Fraction(u, u + v)
    ends = [
        ShareTest(u + int(x), v + int(y), DiscreteLaplace(rate), 0, wrong, one_sided).ends()
        for x, y in noise
    ]
    return [low <= share and (one_sided or share <= high) for low, high in ends], ends


@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(("u", "v"), [(0, 900), (900, 0), (40, 60), (3000, 9000), (500, 500)])
@pytest.mark.sample(4)
def test_intervals_cover_also_where_noise_is_larger_than_the_totals(u, v, one_sided):
    hit, _ = covered(u, v, Fraction(1, 200), 0.2, one_sided=one_sided, draws=150)
    assert np.mean(hit) > 0.8 - 0.09


def test_intervals_are_not_wider_than_they_have_to_be():
    hit, ends = covered(30_000, 30_000, Fraction(1, 500), 0.1, draws=200)
    assert np.mean(hit) == pytest.approx(0.9, abs=0.08)
    width = np.mean([float(high - low) for low, high in ends])
    both = (
        2 * 500 * math.log(2 / 0.1) / 60_000
    )  # the totals at their own quantiles, each with half the level
    assert width < 0.7 * both


def test_impossible_totals_and_levels_say_nothing():
    assert ShareTest(-10_000, -10_000, TENTH, 0, 0.05, False).ends() == (0, 1)
    assert ShareTest(5, 5, TENTH, 0, 0.999, True).ends()[0] < Fraction(1, 2)
    low, high = ShareTest(-50, 10_000, TENTH, 0, 0.05, False).ends()
    assert low == 0 < high < Fraction(1, 100)
    assert ShareTest(
        1 << 70, 1 << 71, DiscreteLaplace(Fraction(1, 10**9)), 1, 0.05, False
    ).ends() == pytest.approx((1 / 3, 1 / 3), rel=1e-9)


def test_a_narrow_cell_refutes_what_its_parts_refute():
    test = ShareTest(300, 700, DiscreteLaplace(Fraction(1, 20)), 0, 0.05, False)
    one = 1 << 64
    cells = [(k * one // 64, (k + 1) * one // 64) for k in range(64)]
    for low, high in cells:
        parts = [test.refutes(x, x) for x in range(low, high + 1, (high - low) // 8)]
        assert all(parts) or not test.refutes(low, high)


def test_ends_that_nobody_is_told_are_not_looked_for(monkeypatch):
    """Of a table of 8,000 means they take longer than all else."""
    looked, find = [], ShareTest._end

    def end(self, *, upper):
        looked.append(upper)
        return find(self, upper=upper)

    monkeypatch.setattr(ShareTest, "_end", end)
    low, high = ShareTest(300, 700, TENTH, 0, 0.05, True).ends()
    assert (0 < low < Fraction(3, 10), high, looked) == (True, 1, [False])
    looked.clear()
    values = [float(i % 50) for i in range(900)]
    for lower, many in ((None, 2), (0, 3)):
        mean = sd.ClippedMean(epsilon=1, adjacency="add-remove", lower=lower, cap=1e6)
        found = mean.release(values, entropy=sd.Seeded(7))
        assert found.true_high == np.inf
        assert (found.true_low == -np.inf) == (lower is None)
        assert found.low < found.value < found.high
        assert len(looked) == many
        looked.clear()
