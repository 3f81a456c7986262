"""Laws of every cost: repetition is composition, order is irrelevant, zero is neutral, views are monotone and agree."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction
from itertools import pairwise, permutations

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from sordino import InvalidParameter, cost
from sordino.constraints import NOT_NEGATIVE
from sordino.cost import (
    RDP,
    ZCDP,
    Approximate,
    ApproximateZCDP,
    BoundedRange,
    Cost,
    GumbelStage,
    Pure,
    RandomizedChoice,
    Range,
    compose,
    repeat,
)
from sordino.cost.conversion import round_up, stated

amounts = st.fractions(min_value=0, max_value=3, max_denominator=1000)
positive = st.fractions(min_value=Fraction(1, 1000), max_value=3, max_denominator=1000)
lines = {"rho": amounts, "constant": amounts, "choices": st.sampled_from((1, 1, 41))}
curves = st.one_of(
    st.builds(RDP, **lines),
    st.builds(RDP, **lines, laplace=positive, laplace_steps=st.sampled_from(("continuous", 1, 60))),
    st.builds(
        RDP, table=st.sampled_from(((), ((2, 0.1), (8, 0.5), (1024, 3)), ((1.5, 0.2), (64, 0.5))))
    ),
)
single = st.one_of(
    amounts.map(lambda x: Pure(epsilon=x)),
    amounts.map(lambda x: ZCDP(rho=x)),
    amounts.map(lambda x: BoundedRange(epsilon=x)),
    st.builds(
        Range, low=positive, high=positive, orientation=st.sampled_from((None, "up", "down"))
    ),
    st.builds(
        GumbelStage,
        epsilon=st.sampled_from((0, 0.05, Fraction(1, 3), 1)),
        start=st.sampled_from((0, Fraction(1, 20), 0.3, Fraction(1, 2))),
    ),
    st.builds(RandomizedChoice, epsilon=amounts, choices=st.sampled_from((2, 3, 20, 10**6))),
    st.builds(Approximate, epsilon=amounts, delta=st.sampled_from((0, 1e-9, 1e-3))),
    st.builds(ApproximateZCDP, rho=amounts, delta=st.sampled_from((0, 1e-9, 1e-3))),
    curves,
)
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
    return all(
        x == y or math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-12)
        for x, y in zip(views(a), views(b), strict=True)
    )


@settings(max_examples=20)
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


@settings(max_examples=40)
@given(costs, costs, costs)
def test_nesting_is_irrelevant(a, b, c):
    assert compose(compose(a, b), c) == compose(a, compose(b, c)) == compose(a, b, c)


@settings(max_examples=40)
@given(costs)
def test_zero_is_neutral(c):
    assert compose(c, Pure(epsilon=0)) == compose(c) == compose(c, ZCDP(rho=0))
    assert close(compose(c), c)


@settings(max_examples=20)
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
    assert isinstance(c, Cost)
    again = pickle.loads(pickle.dumps(c))
    assert again == c
    assert hash(again) == hash(c)
    assert json.loads(json.dumps(c.to_dict())) == c.to_dict()
    assert "\n" not in repr(c)


@settings(max_examples=60)
@given(costs, st.sampled_from(DELTAS))
def test_epsilon_and_delta_are_each_others_inverse(c, delta):
    epsilon = c.epsilon(delta)
    assert epsilon == math.inf or c.delta(epsilon) <= delta * (1 + 1e-6) + 1e-15


@settings(max_examples=60)
@given(costs)
def test_no_delta_is_the_pure_view(c):
    assert c.epsilon(0) == stated(c.pure())
    if c.pure() < math.inf:
        assert c.delta(stated(c.pure())) == 0
    assert all(e <= stated(c.pure()) for e in (c.epsilon(d) for d in DELTAS))


@settings(max_examples=30)
@given(
    st.one_of(
        positive.map(lambda x: Pure(epsilon=x)),
        st.builds(Range, low=positive, high=positive, orientation=st.just("up")),
    )
)
def test_exact_routes_keep_their_promise_to_the_last_bit(c):
    for delta in DELTAS:
        for n in (1, 2, 7):
            assert repeat(c, n).delta(repeat(c, n).epsilon(delta)) <= delta


@settings(max_examples=5)
@given(st.lists(single, min_size=20, max_size=40))
def test_many_different_parts_are_summed_as_few_are(parts):
    whole = compose(*parts)
    for order in (1.001, 1.5, 8.0, 300.0, 1e6):
        one_by_one = sum(part.rdp(order) for part in parts)
        assert whole.rdp(order) == one_by_one or one_by_one * (1 - 1e-9) <= whole.rdp(
            order
        ) <= one_by_one * (1 + 1e-6)
    assert whole.zcdp() == sum(part.zcdp() for part in parts)
    assert whole.epsilon(0) == stated(sum(part.pure() for part in parts))
    for delta in (1e-6, 1e-2):
        assert (
            whole.epsilon(delta) >= max(part.epsilon(delta) for part in parts) * (1 - 1e-6) - 1e-9
        )


@given(amounts)
def test_no_view_passes_the_pure_epsilon(x):
    c = Pure(epsilon=x)
    limit = round_up(x)
    assert limit >= x, "a float view is rounded up"
    for order in ORDERS:
        assert c.rdp(order) <= limit
        assert c.rdp(order) <= order * float(c.zcdp()) * (1 + 1e-9) + 1e-12
    assert c.rdp(math.inf) == limit
    assert all(c.epsilon(d) <= stated(x) for d in DELTAS)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("alpha", [1.01, 2.0, 50.0])
@pytest.mark.each_value
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
        assert Pure(epsilon=1).delta(epsilon) == pytest.approx(
            p - math.exp(epsilon) * (1 - p), rel=1e-9
        )
    assert Pure(epsilon=1).delta(1) == 0


def test_concentrated_oracles():
    assert ZCDP(rho=0.05625).epsilon(1e-6) == pytest.approx(1.56813662455, abs=1e-7)
    assert Fraction(1, 8) * Fraction(97, 100) < Pure(epsilon=0.5).zcdp() < Fraction(1, 8)
    assert ZCDP(rho=1).pure() == math.inf
    assert ZCDP(rho=1).epsilon(0) == math.inf


def test_ten_tenths_are_one():
    assert repeat(Pure(epsilon=0.1), 10).pure() == 1
    assert compose(*[Pure(epsilon=0.1)] * 10).pure() == 1
    assert repr(repeat(Pure(epsilon=0.1), 10)) == "compose(repeat(Pure(epsilon=0.1), 10))"


def test_mixed_costs_take_the_best_route():
    many = repeat(Pure(epsilon=0.1), 100)
    assert many.pure() == 10
    assert many.zcdp() == 100 * Pure(epsilon=0.1).zcdp() < Fraction(1, 2)
    assert many.epsilon(1e-6) < 6
    assert many.to_dict()["parts"] == [
        {"notion": "pure", "epsilon": 0.1, "exact": "1/10", "count": 100}
    ]
    assert compose(Pure(epsilon=1), ZCDP(rho=0.5)).pure() == math.inf
    assert compose(Pure(epsilon=1), ZCDP(rho=0.5)).zcdp() == Pure(epsilon=1).zcdp() + Fraction(1, 2)


@pytest.mark.parametrize("bad", [*NOT_NEGATIVE.invalid, 1j, "x"])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"Pure.epsilon must be a number in \[0, inf\); got"):
        Pure(epsilon=bad)
    with pytest.raises(InvalidParameter, match=r"GumbelStage.epsilon must be"):
        GumbelStage(epsilon=bad)
    with pytest.raises(InvalidParameter, match=r"ZCDP.rho must be"):
        ZCDP(rho=bad)
    with pytest.raises(InvalidParameter, match=r"Range.low must be"):
        Range(low=bad, high=1)
    with pytest.raises(InvalidParameter, match=r"BoundedRange.epsilon must be"):
        BoundedRange(epsilon=bad)
    with pytest.raises(InvalidParameter, match=r"Approximate.epsilon must be"):
        Approximate(epsilon=bad, delta=0)
    with pytest.raises(InvalidParameter, match=r"RDP.rho must be"):
        RDP(rho=bad)


@pytest.mark.parametrize("bad", [None, -0.1, 1.1, "half", math.nan])
def test_where_answers_start_is_a_share(bad):
    with pytest.raises(InvalidParameter, match=r"GumbelStage.start must be"):
        GumbelStage(epsilon=1, start=bad)
    with pytest.raises(InvalidParameter, match="at most 1/2, because both orders"):
        GumbelStage(epsilon=1, start=0.6)


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
