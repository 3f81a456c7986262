"""How far sums of several laws reach: whole masses by another route, laws of one noise, and what cannot be too small."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sordino.figures import mixed_noise
from sordino.figures.mixed_noise import Noise, find_far
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from support.noises import reach_of

LAPLACE, GAUSS = DiscreteLaplace, DiscreteGaussian


def beyond(parts, far, span=400):
    """The chance that the sum exceeds `far`, from whole masses of at most two laws."""
    xs = np.arange(-span, span + 1)
    sums, weights = np.zeros(1), np.ones(1)
    for law, scale in parts:
        sums = np.add.outer(sums, float(scale) * xs).ravel()
        weights = np.multiply.outer(weights, law.pmf(xs)).ravel()
    return math.fsum(weights[np.abs(sums) > float(far) + 1e-9])


PAIRS = [
    [(LAPLACE(Fraction(1)), Fraction(1)), (GAUSS(Fraction(1, 20)), Fraction(1))],
    [(GAUSS(Fraction(1, 8)), Fraction(1)), (GAUSS(Fraction(1, 50)), Fraction(1))],
    [(GAUSS(Fraction(2)), Fraction(1)), (GAUSS(Fraction(2)), Fraction(-3))],
    [(LAPLACE(Fraction(1, 5)), Fraction(7, 10)), (LAPLACE(Fraction(1, 9)), Fraction(3, 10))],
    [(LAPLACE(Fraction(2)), Fraction(1)), (LAPLACE(Fraction(1, 10)), Fraction(1, 64))],
    [(LAPLACE(Fraction(1, 2)), Fraction(0.3712)), (GAUSS(Fraction(1, 7)), Fraction(0.6288))],
]


@pytest.mark.parametrize("parts", PAIRS)
@pytest.mark.parametrize("wrong", [Fraction(1, 20), Fraction(1, 1000)])
@pytest.mark.slow
def test_the_reach_is_enough_and_hardly_more(parts, wrong):
    far = find_far(parts, wrong)
    assert beyond(parts, far) <= wrong
    deviation = math.sqrt(sum(law.variance * float(scale) ** 2 for law, scale in parts))
    unit = min(abs(float(scale)) for _, scale in parts)
    # A hundredth of the deviation less, and a step where the sum has steps, would not do.
    assert beyond(parts, float(far) - 0.01 * deviation - unit) > wrong


@pytest.mark.parametrize(
    "law",
    [
        LAPLACE(Fraction(1)),
        LAPLACE(Fraction(1, 10**8)),
        GAUSS(Fraction(2)),
        GAUSS(Fraction(1, 10**14)),
    ],
)
@pytest.mark.parametrize("wrong", [0.05, 1e-3, 1e-5])
@pytest.mark.each_value
def test_one_noise_on_the_grid_reaches_as_far_as_its_quantile(law, wrong):
    counted = tuple(Counter([(law, Fraction(1))]).items())
    exact = -law.quantile(wrong / 2)
    assert exact <= mixed_noise._sum_on_grid(counted, wrong) <= 1.003 * exact + 1e-3


def test_the_grid_and_the_exact_law_agree():
    parts = [(LAPLACE(Fraction(1, 5)), Fraction(1))] * 5
    counted = tuple(Counter(parts).items())
    exact = reach_of([Noise(Fraction(1, 5))] * 5, Fraction(1, 20))
    assert find_far(parts, Fraction(1, 20)) == exact
    assert exact <= mixed_noise._sum_on_grid(counted, 0.05) <= 1.003 * exact


def test_units_far_apart():
    """A count and a sum whose steps are a millionth of it: no grid of the finest step would do."""
    fine = (LAPLACE(Fraction(1, 10**8)), Fraction(1, 1 << 20))
    far = find_far([(LAPLACE(Fraction(1, 100)), Fraction(1)), fine], Fraction(1, 20))
    alone = [
        float(find_far([one], Fraction(1, 20)))
        for one in ((LAPLACE(Fraction(1, 100)), Fraction(1)), fine)
    ]
    assert math.hypot(*alone) * 0.9 < far < sum(alone)


def test_nothing_reaches_nowhere_and_tiny_levels_end():
    assert find_far([], Fraction(1, 20)) == 0
    law = GAUSS(Fraction(1, 200))
    assert -law.quantile(5e-10) <= find_far([(law, Fraction(1))], Fraction(1, 10**9)) < 80
    both = find_far(
        [(law, Fraction(1)), (LAPLACE(Fraction(1)), Fraction(1, 3))], Fraction(1, 10**9)
    )
    assert both > -law.quantile(5e-10)


def test_the_moments_of_the_bound_are_those_of_the_laws():
    xs = np.arange(-3000, 3001)
    for law, t in ((LAPLACE(Fraction(1, 5)), 0.1), (GAUSS(Fraction(1, 30)), 0.2)):
        exact = math.log(float((law.pmf(xs) * np.exp(t * xs)).sum()))
        assert mixed_noise._log_moment(law, t) >= exact - 1e-12
        assert mixed_noise._log_moment(law, t) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("cells", [12, 42, 84])
def test_two_looks_of_very_different_weight_reach_as_far_as_their_sum(cells):
    """A large release and a small one that was planned beside it: the law of a table's total."""
    parts = [
        part
        for law, scale in ((LAPLACE(Fraction(1)), 1000), (LAPLACE(Fraction(1, 10)), 9))
        for part in [(law, Fraction(scale, 1009))] * cells
    ]
    far = float(find_far(parts, Fraction(1, 100)))
    draw = np.random.default_rng(cells)
    drawn = sum(
        float(scale) * (draw.geometric(chance, 200_000) - draw.geometric(chance, 200_000))
        for law, scale in parts
        for chance in [-math.expm1(-float(law.rate))]
    )
    seen = float(np.quantile(np.abs(drawn), 0.99))
    # Of 2,000 draws beyond it the place is known to a share of 2%.
    assert 0.97 * seen < far < 1.03 * seen
