"""What a refinement adds: right in a sum of pure epsilons with what it refines, and by itself in every other view."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction

import pytest

from sordino import InvalidParameter, accounting
from sordino.cost import Added, Composition, Cost, Pure, compose, repeat
from sordino.ledger.renyi import amounts_at

ONE = Added(epsilon=Fraction(1, 2), alone=Fraction(5, 2))
FIRST = Pure(epsilon=1)
BOTH = Pure(epsilon=Fraction(3, 2))


def test_the_pure_view_is_the_addition():
    assert isinstance(ONE, Cost)
    assert ONE.pure() == Fraction(1, 2)
    assert compose(FIRST, ONE).pure() == BOTH.pure()
    assert repeat(ONE, 3).pure() == Fraction(3, 2)
    assert pickle.loads(pickle.dumps(ONE)) == ONE
    assert hash(ONE) == hash(Added(epsilon=0.5, alone=2.5))
    assert ONE.to_dict() == {"notion": "added", "epsilon": 0.5, "alone": 2.5, "exact": ["1/2", "5/2"]}


def test_every_other_view_is_that_of_the_release_by_itself():
    alone = Pure(epsilon=ONE.alone_)
    assert ONE.zcdp() == alone.zcdp()
    for order in (1.5, 2, 30, math.inf):
        assert ONE.rdp(order) == alone.rdp(order)
    for delta in (0, 1e-9, 0.3):
        assert ONE.epsilon(delta) == alone.epsilon(delta)
    for epsilon in (0, 1, 2.5, 3):
        assert ONE.delta(epsilon) == alone.delta(epsilon)


@pytest.mark.parametrize("delta", [0, 1e-12, 1e-6, 1e-3, 0.1])
def test_no_view_of_both_says_less_than_the_finer_noise_alone(delta):
    """A pure cost in its place does: two of them together are less than one of their sum."""
    assert compose(FIRST, ONE).epsilon(delta) >= BOTH.epsilon(delta)
    twin = compose(FIRST, Pure(epsilon=ONE.pure()))
    if delta:
        assert twin.epsilon(delta) < BOTH.epsilon(delta)
    for epsilon in (0.0, 0.5, 1.4):
        assert compose(FIRST, ONE).delta(epsilon) >= BOTH.delta(epsilon)
        assert twin.delta(epsilon) < BOTH.delta(epsilon)


@pytest.mark.parametrize("order", [Fraction(3, 2), Fraction(4), Fraction(100)])
def test_an_account_of_divergences_takes_it_by_itself(order):
    amounts = amounts_at(compose(FIRST, ONE), order)
    assert amounts.pure == BOTH.pure()
    assert amounts.main >= amounts_at(BOTH, order).main
    # Its own epsilon is no bound of its divergence.
    assert amounts_at(ONE, order).main > ONE.pure()


def test_filters_and_accountants():
    pure = accounting.PureFilter(epsilon=Fraction(3, 2))
    pure.spend(FIRST)
    pure.spend(ONE)
    assert pure.spent == BOTH.pure()
    rhos = accounting.ZCDPFilter(rho=10)
    rhos.spend(FIRST)
    rhos.spend(ONE)
    assert rhos.spent >= BOTH.zcdp()
    with pytest.raises(InvalidParameter, match="dominating pair"):
        accounting.pld([FIRST, ONE])


def test_it_counts_as_itself_in_a_list():
    whole = compose(ONE, ONE, FIRST)
    assert isinstance(whole, Composition)
    assert dict(whole.parts) == {ONE: 2, FIRST: 1}


@pytest.mark.parametrize("bad", [0, -1, math.inf, math.nan, None, "1"])
def test_numbers_are_checked(bad):
    with pytest.raises(InvalidParameter, match="Added.epsilon"):
        Added(epsilon=bad, alone=1)
    with pytest.raises(InvalidParameter, match="Added.alone"):
        Added(epsilon=1, alone=bad)


def test_alone_is_never_less_than_the_addition():
    with pytest.raises(InvalidParameter, match=r"Added.alone must be at least epsilon, 1; got 0.5."):
        Added(epsilon=1, alone=0.5)
