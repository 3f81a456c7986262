"""Laws that every noise obeys: its closed forms agree with each other, with another library, and with its samples."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, strategies as st

from sordino import SYSTEM, Seeded
from sordino.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    Geometric,
    Probability,
    binomial,
    geometric as geometric_module,
)
from support.fit import assert_convicted, assert_fits
from support.scripted import Scripted

LAWS = [
    Geometric(Fraction(1, 2)),
    Geometric(Fraction(1, 50)),
    Geometric(Fraction(1, 10_000)),
    Geometric(Fraction(1, 10**9)),
    Geometric(Fraction(9, 4)),
    DiscreteLaplace(Fraction(1, 2)),
    DiscreteLaplace(Fraction(1, 50)),
    DiscreteLaplace(Fraction(1, 10**6)),
    DiscreteGaussian(Fraction(1, 2)),
    DiscreteGaussian(Fraction(1, 100)),
    DiscreteGaussian(Fraction(1, 2_000_000)),
]
SMALL = [law for law in LAWS if law.variance < 1e5]


def support_of(law):
    reach = (
        45 / float(law.rate)
        if not isinstance(law, DiscreteGaussian)
        else 30 / math.sqrt(2 * float(law.rate)) + 2
    )
    return np.arange(0 if isinstance(law, Geometric) else -math.ceil(reach), math.ceil(reach) + 1)


@pytest.mark.parametrize("law", SMALL, ids=repr)
def test_closed_forms_agree(law):
    x = support_of(law)
    pmf = law.pmf(x)
    assert math.fsum(pmf) == pytest.approx(1, abs=1e-12)
    assert math.fsum(pmf * x) == pytest.approx(law.mean, abs=1e-7)
    assert math.fsum(pmf * (x - law.mean) ** 2) == pytest.approx(law.variance, rel=1e-9)
    assert np.cumsum(pmf) == pytest.approx(law.cdf(x), abs=1e-11)
    assert law.cdf(x) + law.sf(x) == pytest.approx(np.ones(x.size), abs=1e-12)
    assert float(law.cdf(x[0] - 1)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_quantiles_are_the_smallest_that_reach(law):
    for p in (1e-6, 0.025, 0.5, 0.9, 0.975, 1 - 1e-6):
        x = law.quantile(p)
        assert float(law.cdf(x)) >= p * (1 - 1e-9)
        assert float(law.cdf(x - 1)) < p * (1 + 1e-9)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 50), Fraction(3)])
def test_masses_agree_with_another_library(rate):
    with mpmath.workdps(40):
        r = mpmath.exp(-mpmath.mpf(rate.numerator) / rate.denominator)
        total = mpmath.nsum(lambda x: r ** (int(x) ** 2), [-mpmath.inf, mpmath.inf])
        for x in (0, 1, 7):
            assert float(Geometric(rate).pmf(x)) == pytest.approx(float((1 - r) * r**x), rel=1e-13)
            assert float(DiscreteLaplace(rate).pmf(-x)) == pytest.approx(
                float((1 - r) / (1 + r) * r**x), rel=1e-13
            )
            assert float(DiscreteGaussian(rate).pmf(x)) == pytest.approx(
                float(r ** (x * x) / total), rel=1e-10
            )
        assert Geometric(rate).variance == pytest.approx(float(r / (1 - r) ** 2), rel=1e-12)


def test_oracles_of_the_geometric_law():
    law = Geometric(Fraction(1, 4))
    assert law.mean == pytest.approx(3.52081166419, rel=1e-11)  # G6
    assert law.variance == pytest.approx(15.9169264389, rel=1e-11)  # G7
    assert math.sqrt(law.variance) == pytest.approx(3.98960229081, rel=1e-11)  # G8


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.sample(4)
def test_samples_fit_and_the_wrong_scale_is_convicted(law):
    size = 30_000 if isinstance(law, DiscreteGaussian) or law.rate > 1 else 60_000
    sample = law.sample(size, Seeded(2026))
    assert sample.dtype == np.int64
    assert sample.shape == (size,)
    assert_fits(law, sample)
    power = 2 if isinstance(law, DiscreteGaussian) else 1
    for wrong in (Fraction(11, 10), Fraction(10, 11)):
        assert_convicted(replace(law, rate=law.rate * wrong**power), sample)


def test_a_truncated_sampler_is_convicted(monkeypatch):
    monkeypatch.setattr(
        geometric_module, "_HIGH_RATE", Fraction(1)
    )  # fewer digits below, but the rest is still drawn: same law
    assert_fits(Geometric(Fraction(1, 50)), Geometric(Fraction(1, 50)).sample(60_000, Seeded(5)))
    monkeypatch.setattr(
        Geometric, "_raised", lambda self, drawn, high, level, entropy: drawn
    )  # the rest is forgotten
    assert_convicted(
        Geometric(Fraction(1, 50)), Geometric(Fraction(1, 50)).sample(60_000, Seeded(5))
    )


def test_binary_digits_multiply_to_the_geometric_mass():
    # the law of the low digits times the law of the carry is (1 - r) r^g, digit by digit, to 60 places
    rate = Fraction(1, 3)
    level = 5
    with mpmath.workdps(60):
        r = mpmath.exp(-mpmath.mpf(1) / 3)
        for g in range(70):
            mass = mpmath.mpf(1)
            for i in range(level):
                p = mpmath.mpf(Probability.logistic(rate * 2**i).bits(190)) / mpmath.mpf(2) ** 190
                mass *= p if g >> i & 1 else 1 - p
            carry = mpmath.mpf(Probability.exp(rate * 2**level).bits(190)) / mpmath.mpf(2) ** 190
            high = g >> level
            mass *= (1 - carry) * carry**high
            assert abs(mass / ((1 - r) * r**g) - 1) < mpmath.mpf(10) ** -50


def test_a_draw_beyond_the_word_is_a_python_integer(monkeypatch):
    law = Geometric(Fraction(1, 1 << 40))
    monkeypatch.setattr(
        geometric_module, "_WORD_LIMIT", 1 << 43
    )  # the true limit is reached once in e^(2^21) draws
    none, carry = (
        [(1 << 64) - 1],
        [0],
    )  # the largest word is above every probability, the smallest below
    drawn = law.sample(1, Scripted(none * 43 + carry + carry * 3 + none * 2))
    assert drawn.dtype == object
    assert drawn.tolist() == [4 << 43]
    monkeypatch.undo()
    assert law.sample(1, Scripted(none * 43 + carry + carry * 3 + none * 2)).tolist() == [4 << 43]


@pytest.mark.parametrize(("carries", "kind"), [(6, np.int64), (7, object)])
def test_what_stays_in_a_word_leaves_room_for_the_difference_of_two_draws(
    monkeypatch, carries, kind
):
    coins = iter([True] * carries + [False])
    monkeypatch.setattr(geometric_module, "bernoulli", lambda *_: np.array([next(coins)]))
    law = Geometric(Fraction(1, 1 << 40))
    drawn = law._raised(np.array([(1 << 58) - 1]), np.array([0]), 58, Seeded(1))
    furthest = int(drawn[0])
    assert (furthest, drawn.dtype) == (((carries + 2) << 58) - 1, kind)
    assert kind is object or 2 * (furthest + (1 << 53)) < 1 << 63


def test_memory_and_no_cliff_at_small_rates():
    law = Geometric(Fraction(1, 10**9))
    law.sample(1000, Seeded(1))
    tracemalloc.start()
    law.sample(1_000_000, Seeded(1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1_000_000


@given(st.integers(0, 3000), st.sampled_from(LAWS))
def test_any_number_of_draws(n, law):
    assert law.sample(n, Seeded(n)).shape == (n,)


def test_system_entropy_draws_too():
    assert_fits(Geometric(Fraction(1, 50)), Geometric(Fraction(1, 50)).sample(60_000, SYSTEM))


def binomial_law(n, p):
    return np.array([math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)])


@pytest.mark.slow
def test_binomial_fits_and_the_wrong_probability_is_convicted():
    from scipy import stats

    x = Fraction(6, 5)
    p = math.exp(-1.2)
    entropy = Seeded(4)
    counts = np.bincount(
        [binomial(6, Probability.exp(x)._enclosure, entropy) for _ in range(6000)], minlength=7
    )
    assert stats.chisquare(counts, binomial_law(6, p) * 6000).pvalue > 1e-8
    assert stats.chisquare(counts, binomial_law(6, p * 0.9) * 6000).pvalue < 1e-8


def test_binomial_inverts_the_cumulative_sum_exactly():
    x, n = Fraction(3, 2), 5
    p = math.exp(-1.5)
    cumulative = np.cumsum(binomial_law(n, p))
    for j in range(n):
        for side, expected in ((-1e-9, j), (1e-9, j + 1)):
            uniform = int((cumulative[j] + side) * 2**53) << 11
            got = binomial(n, Probability.exp(x)._enclosure, Scripted([uniform, 0, 0] + [7] * 9))
            assert got == min(expected, n)


def test_binomial_of_very_many_rare_trials():
    entropy = Seeded(8)
    x = Fraction(25)
    draws = [binomial(10**12, Probability.exp(x)._enclosure, entropy) for _ in range(2000)]
    mean = 1e12 * math.exp(-25)
    assert abs(np.mean(draws) - mean) < 6 * math.sqrt(mean / 2000)
    assert abs(np.var(draws) / mean - 1) < 6 * math.sqrt(2 / 2000) + 0.05


@pytest.mark.parametrize("j", range(5))
@pytest.mark.parametrize("side", [-1, 1])
@pytest.mark.each_value
def test_binomial_decides_next_to_an_edge_at_192_digits(j, side):
    """A uniform number within 2^-180 of the edge between j and j + 1 falls on its own side, by digits that no float has."""
    n, x = 5, Fraction(3, 2)
    with mpmath.workdps(120):
        p = mpmath.exp(-mpmath.mpf(3) / 2)
        edge = mpmath.fsum(mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(j + 1))
        word = int(mpmath.floor(edge * mpmath.mpf(2) ** 192)) + side * (1 << 12)
    parts = [(word >> 128) & (2**64 - 1), (word >> 64) & (2**64 - 1), word & (2**64 - 1)]
    assert binomial(n, Probability.exp(x)._enclosure, Scripted(parts)) == j + (side > 0)


def test_binomial_asks_for_more_when_the_digits_do_not_tell():
    n, x = 5, Fraction(3, 2)
    with mpmath.workdps(200):
        p = mpmath.exp(-mpmath.mpf(3) / 2)
        edge = mpmath.fsum(mpmath.binomial(n, i) * p**i * (1 - p) ** (n - i) for i in range(3))
        word = int(mpmath.floor(edge * mpmath.mpf(2) ** 384))
    parts = [(word >> (64 * i)) & (2**64 - 1) for i in reversed(range(6))]
    low = [*parts[:5], parts[5] - (1 << 40)]
    high = [*parts[:5], parts[5] + (1 << 40)]
    assert binomial(n, Probability.exp(x)._enclosure, Scripted(low)) == 2
    assert binomial(n, Probability.exp(x)._enclosure, Scripted(high)) == 3


def test_a_wide_enclosure_decides_nothing():
    from decimal import Decimal

    from sordino.noise.samplers.bernoulli import _invert_cdf

    wide = lambda _digits: (Decimal("0.2"), Decimal("0.3"))  # noqa: E731
    middle = (
        1 << 190
    )  # U = 0.25: below C(0) = 0.8^5 = 0.33 for the one end, above 0.7^5 = 0.17 for the other
    assert _invert_cdf(5, wide, middle, 192) is None
    assert _invert_cdf(5, wide, 1 << 180, 192) == 0
    assert _invert_cdf(5, lambda _digits: (Decimal("0.9"), Decimal(1)), middle, 192) is None


def test_gaussian_draws_that_only_the_exact_exponent_decides(monkeypatch):
    from sordino.noise.samplers import bernoulli

    monkeypatch.setattr(bernoulli, "BAND", 1.0)  # nothing is certain: every draw goes the exact way
    law = DiscreteGaussian(Fraction(1, 40))
    sample = law.sample(3000, Seeded(3))
    assert_fits(law, sample)
    assert_convicted(replace(law, rate=law.rate * Fraction(3, 2)), sample)


@pytest.mark.parametrize("rate", [Fraction(1, 2_000_001), Fraction(1, 10**9), Fraction(1, 10**24)])
def test_wide_gaussians_have_closed_forms(rate):
    law = DiscreteGaussian(rate)
    sigma = math.sqrt(1 / (2 * float(rate)))
    for z, tail in (
        (1.0, 0.15865525393145707),
        (1.959963984540054, 0.025),
        (6.0, 9.865876450376946e-10),
    ):
        assert float(law.sf(round(z * sigma))) == pytest.approx(
            tail, rel=2e-2 if sigma < 1e4 else 1e-4
        )
        assert float(law.cdf(-round(z * sigma) - 1)) == pytest.approx(
            float(law.sf(round(z * sigma))), rel=1e-12
        )
    x = law.quantile(0.025)
    assert float(law.cdf(x)) >= 0.025 > float(law.cdf(x - 1))


def test_the_closed_form_of_wide_gaussians_agrees_with_the_sum():
    from sordino.noise.discrete_gaussian import _wide_sf

    law = DiscreteGaussian(Fraction(1, 1_900_000))  # still summed term by term
    points = np.array([-4000, -900, -1, 0, 1, 500, 3000, 6000])
    assert _wide_sf(float(law.rate), points.astype(float)) == pytest.approx(
        law.sf(points), rel=1e-9
    )
