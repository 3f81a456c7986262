"""Releases that may fail on an account with a delta: reserved at their most, epsilon comes back by the transcript, delta never."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ledger.fakes import make
from ledger.test_renyi_accounts import account, row_of, spent_in_all
from sordino import SYSTEM as REAL, HybridTopK, Sensitivity, UnlistedHistogram, UnlistedTopK
from sordino.cost import Approximate, Pure
from sordino.errors import BudgetExceeded, InvalidParameter, LedgerConflict
from sordino.ledger.renyi import ATTO, NANO, Sums, amounts_at
from sordino.mechanisms.unlisted.occurring import counting

DELTA = Fraction(1, 10**7)


def top(k=3, **other):
    return UnlistedTopK(
        **{"k": k, "epsilon": 0.6, "delta": DELTA, "sensitivity": counting(5)} | other
    )


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_epsilon_comes_back_and_delta_does_not(place, noise):
    ledger = account(place, 2, failures=5e-7)
    order = row_of(ledger).meter_at_order.order
    m = top(noise=noise)
    whole = amounts_at(m.cost, order).rounded_up()
    assert whole.failing == 10**11
    with ledger.reserve(m) as charge:
        assert spent_in_all(ledger) == whole
        found = charge.release(m, [], labels=[], entropy=REAL)
        assert found.labels == ()
    assert m.spent(0).epsilon_ == m.noise.rate
    empty = whole._replace(pure=-(-m.spent(0).epsilon_ * NANO // 1))
    assert spent_in_all(ledger) == empty
    with ledger.reserve(m) as charge:
        found = charge.release(m, [10**6], labels=["a"], entropy=REAL)
        assert found.cost == m.spent(1)
    one = -(-m.spent(1).epsilon_ * NANO // 1)
    assert spent_in_all(ledger) == Sums(2 * whole.main, empty.pure + one, 2 * 10**11)


def test_asking_again_until_something_is_found_ends_with_the_delta(place):
    """The broken twin gives delta back for an empty list; this account stops after five."""
    ledger = account(place, 100, failures=5e-7)
    for _ in range(5):
        with ledger.reserve(top()) as charge:
            charge.release(top(), [1], labels=["only one"], entropy=REAL)
    assert spent_in_all(ledger).failing == 5 * DELTA * ATTO
    with pytest.raises(BudgetExceeded, match="Nothing of the delta for labels that nobody listed"):
        ledger.reserve(top())


def test_accounts_without_a_delta_for_it_refuse(place):
    pure = make(place, 1, "pure")
    with pytest.raises(
        InvalidParameter, match="pure meter cannot be charged .* no finite epsilon at delta 0"
    ):
        pure.reserve(top())
    rho = make(place, 1, "rho", delta=1e-6, meter="zcdp")
    with pytest.raises(InvalidParameter, match="zcdp meter cannot be charged .* no finite rho"):
        rho.reserve(top())
    none = account(place, 1, name="none")
    with pytest.raises(BudgetExceeded, match="keeps no delta for labels that nobody listed"):
        none.reserve(top())
    either = account(place, 1, name="either", failures=5e-7)
    charge = either.reserve(Approximate(epsilon=1, delta=DELTA))
    with pytest.raises(LedgerConflict, match="adjacency"):
        charge.draw(top(sensitivity=counting(5, either=True)))


class Greedy:
    """Says afterwards that more may fail than was reserved, or that nothing may."""

    def __init__(self, said, *, per_transcript=True):
        self.cost = Approximate(epsilon=0.5, delta=DELTA)
        self.said = said
        self.per_transcript = per_transcript

    def release(self, _answers, *, entropy):
        class Result:
            simulated = False
            cost = self.said

        return Result()


def test_what_a_release_says_of_itself(place):
    ledger = account(place, 2, failures=5e-7)
    order = row_of(ledger).meter_at_order.order
    whole = amounts_at(Greedy(None).cost, order).rounded_up()
    for too_much in (
        Approximate(epsilon=0.1, delta=2 * DELTA),
        Approximate(epsilon=0.6, delta=DELTA),
    ):
        before = spent_in_all(ledger)
        charge = ledger.reserve(Greedy(too_much))
        with pytest.raises(LedgerConflict, match="spent more than its mechanism declared"):
            charge.release(Greedy(too_much), [1], entropy=REAL)
        after = spent_in_all(ledger)
        assert (after.pure - before.pure, after.failing - before.failing) == (
            whole.pure,
            whole.failing,
        )
    # A release that says "no delta" gets none back.
    before = spent_in_all(ledger)
    with ledger.reserve(Greedy(Pure(epsilon=0.1))) as charge:
        charge.release(Greedy(Pure(epsilon=0.1)), [1], entropy=REAL)
    after = spent_in_all(ledger)
    assert (after.pure - before.pure, after.failing - before.failing) == (10**8, whole.failing)


def test_nothing_comes_back_without_a_proof_for_each_transcript(place):
    ledger = account(place, 2, failures=5e-7)
    order = row_of(ledger).meter_at_order.order
    said = Greedy(Approximate(epsilon=0.1, delta=DELTA), per_transcript=False)
    with ledger.reserve(said) as charge:
        charge.release(said, [1], entropy=REAL)
    assert spent_in_all(ledger) == amounts_at(said.cost, order).rounded_up()


def test_beside_a_selection_with_a_list(place):
    """One charge may hold both; sums are over what each really spent."""
    ledger = account(place, 2, failures=5e-7)
    listed = HybridTopK(
        k=2,
        threshold=10**9,
        epsilon=0.4,
        sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1),
    )
    with ledger.reserve((top(), listed)) as charge:
        charge.release(top(), [], labels=[], entropy=REAL)
        charge.release(listed, [1, 2], entropy=REAL)
    assert spent_in_all(ledger).pure == 10**8 * 2 + 10**8 * 2
    assert spent_in_all(ledger).failing == 10**11


def test_a_rho_that_may_fail_is_charged_at_the_order_and_with_its_delta(place):
    ledger = account(place, 2, failures=5e-7)
    order = row_of(ledger).meter_at_order.order
    m = UnlistedHistogram(rho=0.01, delta=DELTA, sensitivity=counting(5))
    whole = Sums(-(-m.cost.rho * order * NANO // 1), 0, 10**11, 1)
    assert amounts_at(m.cost, order).rounded_up() == whole
    with ledger.reserve(m) as charge:
        charge.release(m, [1], labels=["only one"], entropy=REAL)
    assert spent_in_all(ledger) == whole
    for refused in (make(place, 1, "pure"), make(place, 1, "rho", delta=1e-6, meter="zcdp")):
        with pytest.raises(InvalidParameter, match=r"cannot be charged with a UnlistedHistogram"):
            refused.reserve(m)
    with pytest.raises(BudgetExceeded, match="keeps no delta for labels that nobody listed"):
        account(place, 2, name="none").reserve(m)
