"""Laws of every cost: repetition is composition, order is irrelevant, zero is neutral, views are monotone and agree."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from itertools import pairwise, permutations

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sordino import InvalidParameter, cost
from sordino.constraints import NOT_NEGATIVE
from sordino.cost import ZCDP, Cost, Pure, compose, repeat
from sordino.cost._conversion import above

amounts = st.fractions(min_value=0, max_value=3, max_denominator=1000)
single = st.one_of(amounts.map(lambda x: Pure(epsilon=x)), amounts.map(lambda x: ZCDP(rho=x)))
costs = st.one_of(single, st.lists(single, max_size=4).map(lambda parts: compose(*parts)))
ORDERS = (1.001, 1.5, 2, 8, 64, 1e4)
DELTAS = (1e-12, 1e-6, 1e-2, 0.5)


def views(c):
    return (
        c.pure(),
        c.zcdp(),
        *(c.rdp(a) for a in ORDERS),
        *(c.epsilon(d) for d in DELTAS),
        *(c.delta(e) for e in (0.0, 0.1, 1.0, 5.0)),
    )


def close(a, b):
    return all(x == y or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12) for x, y in zip(views(a), views(b), strict=True))


@settings(max_examples=40)
@given(costs, st.integers(0, 5))
def test_repetition_is_composition(c, n):
    assert close(repeat(c, n), compose(*[c] * n))
    assert repeat(c, n).pure() == n * c.pure() if n else repeat(c, n).pure() == 0


@given(st.lists(costs, max_size=3))
def test_order_is_irrelevant(parts):
    first = compose(*parts)
    for order in permutations(parts):
        assert compose(*order) == first
        assert hash(compose(*order)) == hash(first)


@given(costs, costs, costs)
def test_nesting_is_irrelevant(a, b, c):
    assert compose(compose(a, b), c) == compose(a, compose(b, c)) == compose(a, b, c)


@settings(max_examples=40)
@given(costs)
def test_zero_is_neutral(c):
    assert compose(c, Pure(epsilon=0)) == compose(c) == compose(c, ZCDP(rho=0))
    assert close(compose(c), c)


@settings(max_examples=40)
@given(costs, costs)
def test_more_is_never_cheaper(a, b):
    both = compose(a, b)
    assert both.pure() >= a.pure()
    assert both.zcdp() >= a.zcdp()
    for order in ORDERS:
        assert both.rdp(order) >= a.rdp(order) - 1e-12
    for delta in DELTAS:
        assert both.epsilon(delta) >= a.epsilon(delta) * (1 - 1e-6) - 1e-9
    for epsilon in (0.0, 0.5, 2.0):
        assert both.delta(epsilon) >= a.delta(epsilon) * (1 - 1e-6) - 1e-12


@settings(max_examples=40)
@given(costs)
def test_views_are_monotone(c):
    at_delta = [c.epsilon(d) for d in DELTAS]
    assert all(x >= y - 1e-9 for x, y in pairwise(at_delta))
    at_epsilon = [c.delta(e) for e in (0.0, 0.3, 1.0, 3.0, 30.0)]
    assert all(x >= y - 1e-12 for x, y in pairwise(at_epsilon))
    rdp = [c.rdp(a) for a in ORDERS]
    assert all(x <= y + 1e-12 for x, y in pairwise(rdp))
    assert c.epsilon(0) == above(c.pure())
    assert isinstance(c, Cost)
    assert pickle.loads(pickle.dumps(c)) == c
    assert "\n" not in repr(c)


@given(single, st.sampled_from(DELTAS))
def test_epsilon_and_delta_are_each_others_inverse(c, delta):
    epsilon = c.epsilon(delta)
    assert c.delta(epsilon) <= delta * (1 + 1e-6) + 1e-15


@given(amounts)
def test_no_view_passes_the_pure_epsilon(x):
    c = Pure(epsilon=x)
    limit = above(x)
    assert limit >= x, "a float view is rounded up"
    for order in ORDERS:
        assert c.rdp(order) <= limit
        assert c.rdp(order) <= order * float(c.zcdp()) * (1 + 1e-9) + 1e-12
    assert c.rdp(math.inf) == limit
    assert all(c.epsilon(d) <= limit for d in DELTAS)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 50.0])
def test_pure_divergence_is_that_of_randomized_response(epsilon, alpha):
    with mpmath.workdps(40):
        p = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        q = 1 - p
        exact = mpmath.log(p**alpha * q ** (1 - alpha) + q**alpha * p ** (1 - alpha)) / (alpha - 1)
    assert Pure(epsilon=epsilon).rdp(alpha) == pytest.approx(float(exact), rel=1e-9)
    assert Pure(epsilon=epsilon).rdp(alpha) >= float(exact) * (1 - 1e-15)


def test_pure_delta_is_that_of_randomized_response():
    p = 1 / (1 + math.exp(-1.0))
    for epsilon in (0.0, 0.3, 0.99):
        assert Pure(epsilon=1).delta(epsilon) == pytest.approx(p - math.exp(epsilon) * (1 - p), rel=1e-9)
    assert Pure(epsilon=1).delta(1) == 0


def test_concentrated_oracles():
    assert ZCDP(rho=0.05625).epsilon(1e-6) == pytest.approx(1.56813662455, abs=1e-7)
    assert Pure(epsilon=0.5).zcdp() == Fraction(1, 8)
    assert ZCDP(rho=1).pure() == math.inf
    assert ZCDP(rho=1).epsilon(0) == math.inf


def test_ten_tenths_are_one():
    assert repeat(Pure(epsilon=0.1), 10).pure() == 1
    assert compose(*[Pure(epsilon=0.1)] * 10).pure() == 1
    assert repr(repeat(Pure(epsilon=0.1), 10)) == "compose(repeat(Pure(epsilon=0.1), 10))"


def test_mixed_costs_take_the_best_route():
    many = repeat(Pure(epsilon=0.1), 100)
    assert many.pure() == 10
    assert many.zcdp() == Fraction(1, 2)
    assert many.epsilon(1e-6) < 6
    assert many.to_dict()["parts"] == [{"notion": "pure", "epsilon": 0.1, "exact": "1/10", "count": 100}]
    assert compose(Pure(epsilon=1), ZCDP(rho=0.5)).pure() == math.inf
    assert compose(Pure(epsilon=1), ZCDP(rho=0.5)).zcdp() == 1


@pytest.mark.parametrize("bad", [*NOT_NEGATIVE.invalid, 1j, "x"])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"Pure.epsilon must be a number in \[0, inf\); got"):
        Pure(epsilon=bad)
    with pytest.raises(InvalidParameter, match=r"ZCDP.rho must be"):
        ZCDP(rho=bad)


def test_bad_views_are_refused():
    for delta in (-0.1, 1, math.nan, None):
        with pytest.raises(InvalidParameter, match="delta must be"):
            Pure(epsilon=1).epsilon(delta)
    for epsilon in (-0.1, math.nan, "1"):
        with pytest.raises(InvalidParameter, match="epsilon must be"):
            ZCDP(rho=1).delta(epsilon)
    for alpha in (1, 0.5, math.nan, None):
        with pytest.raises(InvalidParameter, match="alpha must be"):
            compose(Pure(epsilon=1), ZCDP(rho=1)).rdp(alpha)
    with pytest.raises(InvalidParameter, match="repeat.n must be"):
        repeat(Pure(epsilon=1), -1)
    with pytest.raises(InvalidParameter, match="compose takes costs"):
        compose(0.5)
    assert cost.Pure is Pure


def test_extreme_costs_have_views_too():
    huge = repeat(Pure(epsilon=1e308), 2)
    assert huge.epsilon(0.1) == math.inf
    assert huge.delta(1.0) == 1
    assert 0 < Pure(epsilon=1).rdp(1 + Fraction(1, 10**20)) <= Pure(epsilon=1).rdp(2)
