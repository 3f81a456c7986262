"""The staircase law: its closed forms against sums of its definition, its sampler against it, the flat part with the least variance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import Seeded
from sordino.noise import DiscreteLaplace, Staircase, staircase as staircase_module
from sordino.noise.staircase import best_flat
from support.fit import assert_convicted, assert_fits

LAWS = [
    Staircase(Fraction(1), 1, 1),
    Staircase(Fraction(1, 2), 3, 2),
    Staircase(Fraction(2), 5, 1),
    Staircase(Fraction(3, 2), 7, 7),
]


def weight(law, x):
    level = abs(x) // law.period + (abs(x) % law.period >= law.flat)
    return math.exp(-float(law.rate) * level)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_closed_forms(law):
    x = np.arange(-600, 601)
    weights = np.array([weight(law, int(z)) for z in x])
    pmf = weights / weights.sum()
    assert law.pmf(x) == pytest.approx(pmf, rel=1e-9)
    assert law.cdf(x) == pytest.approx(np.cumsum(pmf), abs=1e-9)
    assert law.sf(x) == pytest.approx(1 - np.cumsum(pmf), abs=1e-9)
    assert law.sf(40) == pytest.approx(pmf[x > 40].sum(), rel=1e-6)
    assert law.variance == pytest.approx((pmf * x**2).sum(), rel=1e-6)
    assert law.mean == 0
    for p in (0.001, 0.3, 0.5, 0.9, 0.9999):
        q = law.quantile(p)
        assert float(law.cdf(q)) >= p > float(law.cdf(q - 1))


def test_with_period_one_it_is_discrete_laplace():
    x = np.arange(-20, 21)
    assert LAWS[0].pmf(x) == pytest.approx(DiscreteLaplace(Fraction(1)).pmf(x))
    assert LAWS[0].variance == pytest.approx(DiscreteLaplace(Fraction(1)).variance)


@pytest.mark.parametrize("law", LAWS[1:], ids=str)
def test_samples_fit_the_law_and_no_other(law):
    sample = law.sample(20_000, Seeded(5))
    assert_fits(law, sample)
    assert_convicted(Staircase(law.rate, law.period, 1 if law.flat > 1 else 3), sample)
    assert_convicted(
        Staircase(law.rate * Fraction(11, 10), law.period, law.flat), law.sample(200_000, Seeded(6))
    )


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(2)])
@pytest.mark.parametrize("period", [1, 2, 3, 9, 40])
@pytest.mark.each_value
def test_the_best_flat_part(rate, period):
    best = best_flat(rate, period)
    assert Staircase(rate, period, best).variance == min(
        Staircase(rate, period, flat).variance for flat in range(1, period + 1)
    )


def test_long_periods_and_wide_noise():
    wide = Staircase(Fraction(1, 1 << 30), 1 << 40, 5).sample(50, Seeded(1))
    assert wide.dtype == object
    assert max(map(abs, wide.tolist())) > 1 << 62
    assert Staircase(Fraction(1), 1 << 50, 1 << 49).sample(50, Seeded(1)).dtype == np.int64
    assert Staircase(Fraction(1), 3, 2).sample(0, Seeded(1)).size == 0


def test_a_second_draw_may_be_wider_than_the_first(monkeypatch):
    law, wide = Staircase(Fraction(1), 3, 2), 1 << 70
    drawn = iter([np.array([0, 5]), np.array([wide], dtype=object)])
    coins = iter([np.array([True, True]), np.array([True])])
    monkeypatch.setattr(Staircase, "_magnitudes", lambda *_: next(drawn))
    monkeypatch.setattr(staircase_module, "draw_fair_coins", lambda *_: next(coins))
    assert law.sample(2, Seeded(1)).tolist() == [-wide, -5], "a minus with 0 is drawn again"
