"""What the auditor adds up, against routes that share no code with it: high-precision sums, and the formula of noisy top-k."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from sordino import COUNTING, NoisyTopK, Sensitivity
from sordino.cost import Pure
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino_audit import Finite, Subject
from sordino_audit.enumeration.laws import gaussian_mass, levels, mass, region, weights
from sordino_audit.enumeration.outcomes import Book
from sordino_audit.enumeration.pairs import _scale_bounds, down, log_bounds, up
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import by_formula, outputs

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
LAWS = [
    Geometric(Fraction(1, 3)),
    DiscreteLaplace(Fraction(1, 3)),
    DiscreteGaussian(Fraction(1, 7)),
    DiscreteGaussian(Fraction(5)),
    DiscreteGaussian(Fraction(1, 900)),
]


@pytest.fixture(autouse=True)
def sixty_digits():
    with mpmath.workdps(60):
        yield


def exact(x):
    return (
        mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(str(x))
    )


def term(law, x):
    power = x * x if isinstance(law, DiscreteGaussian) else abs(x)
    return mpmath.exp(-exact(law.rate) * power)


def long_sum(law, reach=4000):
    return mpmath.fsum(
        term(law, x) for x in range(0 if isinstance(law, Geometric) else -reach, reach)
    )


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.slow
def test_the_mass_of_a_law_is_enclosed(law):
    low, high = (exact(side) for side in mass(law, 40))
    assert low <= long_sum(law) <= high
    assert high - low < high * mpmath.mpf(10) ** -36


@pytest.mark.parametrize("shift", [Fraction(1, 2), Fraction(-7, 3), Fraction(12)])
@pytest.mark.parametrize("rate", [Fraction(1, 50), Fraction(1, 2), Fraction(4)])
@pytest.mark.each_value
def test_a_shifted_gaussian_sum_is_enclosed(rate, shift):
    low, high = (exact(side) for side in gaussian_mass(rate, shift, 40))
    truth = mpmath.fsum(
        mpmath.exp(-exact(rate) * (x - exact(shift)) ** 2) for x in range(-300, 300)
    )
    assert low <= truth <= high
    assert high - low < high * mpmath.mpf(10) ** -36


@pytest.mark.parametrize("tail", [1e-2, 1e-6, 1e-15])
@pytest.mark.parametrize(
    "laws",
    [
        (Geometric(Fraction(3, 2)),) * 3,
        (DiscreteLaplace(Fraction(1)),) * 2,
        (LAWS[2],),
        (Geometric(Fraction(1)), DiscreteLaplace(Fraction(1, 2))),
        (DiscreteGaussian(Fraction(1)), Geometric(Fraction(2)), Finite([1, 2])),
    ],
    ids=str,
)
@pytest.mark.slow
def test_what_is_left_out_is_what_is_declared(laws, tail):
    played = region(laws, tail, 10**6)
    assert np.unique(played.noise, axis=0).shape == played.noise.shape
    inside = mpmath.mpf(0)
    for row, weight in zip(played.noise.tolist(), played.weight.tolist(), strict=True):
        product = mpmath.mpf(weight)
        for law, x in zip(laws, row, strict=True):
            assert not isinstance(law, Geometric) or x >= 0
            product *= 1 if isinstance(law, Finite) else term(law, x)
        inside += product
    total = mpmath.mpf(1)
    for law in laws:
        total *= sum(law.weights) if isinstance(law, Finite) else long_sum(law)
    outside = total - inside
    assert 0 < outside <= exact(played.rest) * (1 + mpmath.mpf(10) ** -30) + mpmath.mpf(10) ** -40
    assert exact(played.rest) <= outside * (1 + mpmath.mpf(10) ** -20) + mpmath.mpf(10) ** -40, (
        "and no more than that"
    )
    assert tail / 100 < float(played.tail) <= tail


def test_finite_noise_leaves_nothing_out():
    played = region((Finite([1, 0, 2], low=-1), Finite([1, 1])), 1e-15, 100)
    assert played.rest == 0
    assert played.noise.tolist() == [[-1, 0], [-1, 1], [1, 0], [1, 1]]
    assert played.weight.tolist() == [1, 1, 2, 2]
    assert played.total == (Decimal(6), Decimal(6))


@pytest.mark.parametrize("x", [Fraction(1, 3), Fraction(7, 11)])
@pytest.mark.parametrize("log", ["2", "-2", "0.3333333333333333333333333333333333333333"])
def test_products_and_logarithms_are_rounded_outward(x, log):
    y = Decimal(log)
    low, high = _scale_bounds(x, (y, y))
    assert Fraction(low) < x * Fraction(y) < Fraction(high)
    least, most = log_bounds((abs(y), abs(y)))
    assert exact(least) < mpmath.log(exact(abs(y))) < exact(most)
    assert (up(Decimal("Infinity")), down(Decimal("-Infinity"))) == (math.inf, -math.inf)
    assert down(Decimal("Infinity")) == math.inf, "an infinite loss stays infinite"
    assert Fraction(down(y)) < Fraction(y) < Fraction(up(y))


def test_levels_and_weights():
    x = np.array([-2, 0, 3])
    assert levels(LAWS[1], x).tolist() == [2, 0, 3]
    assert levels(LAWS[2], x).tolist() == [4, 0, 9]
    assert weights(Finite([5, 7], low=-1), np.array([0, -1])).tolist() == [7, 5]


def outcomes(mechanism, answers, tail=1e-15, partition=None):
    subject = subject_of(mechanism, len(answers))
    book = Book(subject, region(subject.laws, tail, 10**6), partition)
    return book, book.outcomes(subject.private(answers))


def near(rate):
    """e^-rate as a fraction that is right to 29 digits."""
    return Fraction(mpmath.nstr(mpmath.exp(-exact(rate)), 30, strip_zeros=False))


CASES = [
    ("exponential", (1, 0, 0), 1, False, 3),
    ("exponential", (0, 1, 0), 2, True, 1),
    ("exponential", (0, 2), 2, True, 3),
    ("laplace", (1, 0, 0), 1, False, 1),
    ("laplace", (0, 1), 1, True, 3),
]


@pytest.mark.parametrize("tail", [1e-3, 1e-15])
@pytest.mark.parametrize(("kind", "q", "k", "monotone", "highest"), CASES)
@pytest.mark.slow
def test_probabilities_of_top_k_enclose_the_formula(kind, q, k, monotone, highest, tail):
    mechanism = NoisyTopK(
        k=k, epsilon=2 * k, sensitivity=COUNTING if monotone else EITHER, noise=kind
    )
    book, law = outcomes(mechanism, q, tail)
    total, rest = law.region.total, law.region.rest
    r = near(mechanism.noise.rate)
    short = 0
    for winners, gaps in outputs(len(q), k, highest):
        low, high = law.certified(book._numbers.get((*winners, *gaps), -1))
        truth = by_formula(kind, r, q, winners, gaps, reach=50)
        error = Fraction(1, 10**20)  # of the sum and of r
        assert Fraction(low) / Fraction(total[1]) <= truth * (1 + error)
        assert truth <= (Fraction(high) + Fraction(rest)) / Fraction(total[0]) + error
        short += truth > Fraction(high) / Fraction(total[0]) * (1 + error) + error
    assert short, (
        "some of each probability lies in the noise that is not played: without the rest the bound would be wrong"
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        NoisyTopK(k=2, epsilon=2, sensitivity=COUNTING),
        NoisyTopK(k=1, epsilon=2, sensitivity=EITHER),
    ],
)
def test_no_weight_is_lost_in_the_grouping(mechanism):
    _, law = outcomes(mechanism, (0, 1, 0), 1e-9)
    assert int(law.counts.sum()) == int(law.region.weight.sum())
    assert law.starts[-1] == law.counts.size
    mine = sum(law.certified(int(number))[0] for number in law.ids)
    assert float(mine + law.region.rest) == pytest.approx(float(law.region.total[0]), rel=1e-15)
    for k, number in enumerate(law.ids.tolist()):
        low, high = law.certified(number)
        assert Fraction(law.low[k]) <= Fraction(low)
        assert Fraction(high) <= Fraction(law.high[k])
        assert law.high[k] <= law.low[k] * (1 + 1e-12)


def test_oracles_of_noisy_max():
    """D1 and D3: ratio 1/2, q = (0, 0, 0), ties by position."""
    mechanism = NoisyTopK(k=1, epsilon=2 * Fraction(math.log(2)), sensitivity=EITHER)
    assert float(mechanism.noise.rate) == pytest.approx(math.log(2), abs=1e-12)
    book, law = outcomes(mechanism, (0, 0, 0), partition=lambda output: output[0])
    wins = [float(law.certified(book._numbers[i])[0] / law.region.total[0]) for i in range(3)]
    assert wins[0] == pytest.approx(10 / 21, abs=1e-10)
    assert sum(wins) == pytest.approx(1, abs=1e-12)
    book, law = outcomes(mechanism, (0, 0, 0))
    assert float(law.certified(book._numbers[1, 0])[0] / law.region.total[0]) == pytest.approx(
        1 / 7, abs=1e-10
    )


@pytest.mark.parametrize(("strict", "oracle"), [(False, 0.74572478741), (True, 0.58077104839)])
def test_oracles_of_the_sparse_vector(strict, oracle):
    """G1 and G2: threshold rate 1/2, query rate 1/4, the query on the threshold."""
    subject = Subject(
        laws=[Geometric(Fraction(1, 2)), Geometric(Fraction(1, 4))],
        play=lambda q, z: (q[0] + z[:, 1] - z[:, 0] >= int(strict)).astype(int),
        cost=Pure(epsilon=1),
    )
    book = Book(subject, region(subject.laws, 1e-15, 10**6), None)
    law = book.outcomes((0,))
    assert float(law.certified(book._numbers[1])[0] / law.region.total[0]) == pytest.approx(
        oracle, abs=1e-11
    )
