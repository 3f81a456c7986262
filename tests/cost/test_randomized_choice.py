"""Randomized response among many as a cost: every view against 50 digits and sums over all outputs, and twins that are convicted."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import mpmath
import pytest

from sordino import InvalidParameter
from sordino.cost import Pure, RandomizedChoice, compose, repeat
from sordino.cost.randomized_choice import choice_rdp
from sordino.cost.rho import certify_rho

EPSILONS = ("1e-9", "1e-6", "0.001", "0.05", "0.3", "1", "3", "10", "60", "400", "1000")
CHOICES = (2, 3, 5, 20, 1000, 10**9, 2**52)
ORDERS = (1 + 1e-12, 1.000001, 1.01, 1.5, 2, 5, 35, 1e3, 1e6, 1e12, math.inf)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(600):  # of e^1000 and 1 in one sum
        yield


def true_rdp(epsilon, n, order):
    if math.isinf(order):
        return mpmath.mpf(epsilon)
    a, alpha = mpmath.mpf(epsilon), mpmath.mpf(order)
    whole = mpmath.exp(a) + n - 1
    return mpmath.log((mpmath.exp(alpha * a) + mpmath.exp((1 - alpha) * a) + n - 2) / whole) / (
        alpha - 1
    )


@pytest.mark.parametrize("n", CHOICES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.sample(4)
def test_divergences_are_the_true_ones_rounded_up(epsilon, n):
    one = RandomizedChoice(epsilon=Fraction(epsilon), choices=n)
    for order in ORDERS:
        if order * float(epsilon) < 1e7:
            true = true_rdp(epsilon, n, order)
            assert (
                true * (1 - mpmath.mpf(10) ** -40) <= one.rdp(order) <= true * (1 + 1e-8) + 1e-290
            ), order


@pytest.mark.parametrize("epsilon", ["1e-290", "1e-320", "1e-330", "1e-4000"])
def test_a_divergence_is_there_for_the_smallest_epsilons(epsilon):
    """Their products with an order near 1 are 0 as floats, and have no logarithm."""
    one = RandomizedChoice(epsilon=Fraction(epsilon), choices=20)
    for order in ORDERS:
        assert 0 < Fraction(epsilon) <= Fraction(one.rdp(order)) <= Fraction(1, 10**289)


@pytest.mark.parametrize("n", CHOICES)
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.sample(4)
def test_deltas_are_the_true_ones_rounded_up_and_epsilons_their_inverse(epsilon, n):
    a, one = mpmath.mpf(epsilon), RandomizedChoice(epsilon=Fraction(epsilon), choices=n)
    for share in (0, 0.1, 0.5, 0.9, 0.999):
        at = share * float(epsilon)
        true = (mpmath.exp(a) - mpmath.exp(mpmath.mpf(at))) / (mpmath.exp(a) + n - 1)
        assert true <= one.delta(at) <= true * (1 + 1e-9) + 1e-290
    assert one.delta(float(epsilon)) == 0
    for delta in (1e-12, 1e-6, 0.1):
        found = one.epsilon(delta)
        assert one.delta(found) <= delta
        assert found == 0 or one.delta(found * (1 - 1e-6)) > delta * (1 - 1e-3) or found < 1e-12


def largest_ratio(epsilon, n):
    """The largest divergence over its order on a fine grid: nothing smaller is a rho."""
    places = [mpmath.mpf(k) / 20 for k in range(-280, 500)]
    with mpmath.workdps(60):
        return max(true_rdp(epsilon, n, 1 + mpmath.exp(u)) / (1 + mpmath.exp(u)) for u in places)


@pytest.mark.parametrize("n", [2, 3, 5, 20, 1000, 10**9])
@pytest.mark.parametrize("epsilon", ["0.001", "0.3", "1", "3", "10"])
@pytest.mark.sample(3)
def test_the_rho_is_the_least_one(epsilon, n):
    rho = RandomizedChoice(epsilon=Fraction(epsilon), choices=n).zcdp()
    least = largest_ratio(epsilon, n)
    assert least <= rho <= least * (1 + 1e-3)
    assert rho <= Pure(epsilon=Fraction(epsilon)).zcdp()


@pytest.mark.parametrize("epsilon", ["0.5", "1", "4"])
def test_the_closed_form_holds_up_to_its_limit_and_not_beyond(epsilon):
    """The divergence at order 1 alone, for any number of outcomes, is the twin: convicted as soon as it may not be used."""
    a = float(epsilon)
    last = int(2 * math.exp(a / 2) + 2)
    for n in (last, last + 1, 8 * last):
        at_one = a * math.expm1(a) / (math.exp(a) + n - 1)
        curve = certify_rho(lambda order, n=n: choice_rdp(a, n, order), a)
        rho = float(RandomizedChoice(epsilon=Fraction(epsilon), choices=n).zcdp())
        assert at_one * (1 - 1e-12) <= rho <= curve * (1 + 1e-9)
        if n == last:
            assert rho <= at_one * (1 + 1e-9)
    assert largest_ratio(epsilon, 8 * last) > 1.05 * at_one


def test_more_outcomes_cost_no_more_and_two_are_pure():
    for epsilon in (Fraction(1, 20), 1, 5):
        two, pure = RandomizedChoice(epsilon=epsilon, choices=2), Pure(epsilon=epsilon)
        assert float(two.zcdp()) == pytest.approx(float(pure.zcdp()), rel=1e-9)
        for order in (1.5, 8, 100):
            assert two.rdp(order) == pytest.approx(pure.rdp(order), rel=1e-9)
        for fewer, more in ((2, 3), (3, 20), (20, 10**6)):
            first, second = (RandomizedChoice(epsilon=epsilon, choices=n) for n in (fewer, more))
            assert second.zcdp() <= first.zcdp()
            assert all(second.rdp(order) <= first.rdp(order) for order in (1.1, 2, 30))
            assert all(second.delta(at) <= first.delta(at) for at in (0, 0.01))
            assert first.pure() == second.pure() == epsilon


@pytest.mark.parametrize(
    ("epsilon", "n", "count"), [("0.5", 3, 1), ("0.5", 3, 4), ("1", 20, 5), ("2", 4, 6)]
)
def test_a_list_of_them_is_the_sum_over_all_outputs(epsilon, n, count):
    """Of one fixed pair of largest answers, all outputs are summed: the bound is reached, and not passed."""
    a = mpmath.mpf(epsilon)
    whole = mpmath.exp(a) + n - 1
    points = [(a, mpmath.exp(a) / whole), (mpmath.mpf(0), (n - 2) / whole), (-a, 1 / whole)]
    total = repeat(RandomizedChoice(epsilon=Fraction(epsilon), choices=n), count)
    for at in (0.0, 0.3, float(epsilon), 1.7):
        true = mpmath.mpf(0)
        for outputs in product(points, repeat=count):
            loss = mpmath.fsum(one for one, _ in outputs)
            if loss > at:
                true += mpmath.fprod(mass for _, mass in outputs) * (1 - mpmath.exp(at - loss))
        assert true <= total.delta(at) <= true * (1 + 1e-6) + 1e-12
    assert total.pure() == count * Fraction(epsilon)
    assert total.epsilon(1e-6) <= repeat(Pure(epsilon=Fraction(epsilon)), count).epsilon(1e-6)


def test_beside_other_costs_it_is_summed_with_its_own_law():
    one = RandomizedChoice(epsilon=Fraction(1, 10), choices=50)
    beside = compose(repeat(one, 40), repeat(Pure(epsilon=Fraction(1, 10)), 10))
    assert beside.epsilon(1e-6) < repeat(Pure(epsilon=Fraction(1, 10)), 50).epsilon(1e-6) / 1.5
    assert eval(repr(one), {"RandomizedChoice": RandomizedChoice}) == one
    assert one.to_dict() == {
        "notion": "randomized-choice",
        "epsilon": 0.1,
        "choices": 50,
        "exact": "1/10",
    }


@pytest.mark.parametrize(
    "given", [{"choices": 1}, {"choices": 2.5}, {"choices": 1 << 60}, {"epsilon": -1}]
)
def test_what_is_no_such_cost_is_refused(given):
    with pytest.raises(InvalidParameter, match=r"RandomizedChoice\.(choices|epsilon) must be"):
        RandomizedChoice(**{"epsilon": 1, "choices": 3, **given})
