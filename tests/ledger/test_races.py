"""Threads, resumed copies and forks: of those who race for one slot or one refund, one wins."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest

from ledger.fakes import REAL, Marking, Mechanism, in_child, resumed, spent
from sordino.cost import Pure
from sordino.errors import BudgetExceeded, LedgerConflict
from sordino.ledger.schema import DRAW

TENTH = Fraction(1, 10)


def race(calls):
    barrier, outcomes = threading.Barrier(len(calls)), []

    def run(call):
        barrier.wait()
        try:
            call()
            outcomes.append("won")
        except (LedgerConflict, BudgetExceeded) as refused:
            outcomes.append(type(refused).__name__)

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(outcomes)


def test_threads_race_for_the_last_slot_of_a_charge(ledger):
    mechanism = Mechanism(0.3)
    with ledger.reserve(mechanism) as charge:
        assert race([lambda: charge.release(mechanism, [1], entropy=REAL)] * 8) == [
            "LedgerConflict"
        ] * 7 + ["won"]
    assert mechanism.noise == [1]
    assert spent(ledger) == 3 * TENTH


def test_threads_race_for_the_last_of_the_budget(ledger):
    assert (
        race([lambda: ledger.reserve(Mechanism(0.4))] * 8) == ["BudgetExceeded"] * 6 + ["won"] * 2
    )
    assert spent(ledger) == 8 * TENTH


def test_a_resumed_copy_races_for_a_slot_and_cannot_refund_the_other(ledger):
    mechanism = Mechanism(0.1)
    charge = ledger.reserve(Pure(epsilon=0.3))
    twin = resumed(charge)
    assert race(
        [
            lambda: charge.release(mechanism, [1], entropy=REAL),
            lambda: twin.release(mechanism, [1], entropy=REAL),
        ]
    ) == [
        "LedgerConflict",
        "won",
    ]
    assert mechanism.noise == [1]
    winner, loser = (charge, twin) if charge.drawn else (twin, charge)
    for stale in (loser.settle, lambda: loser.release(mechanism, [1], entropy=REAL)):
        with pytest.raises(LedgerConflict, match="elsewhere"):
            stale()
    winner.settle()
    assert spent(ledger) == TENTH


def test_a_resumed_copy_cannot_settle_twice(ledger):
    ledger.reserve(Mechanism(0.5))  # so that the account has something to lose
    charge = ledger.reserve(Pure(epsilon=0.3))
    charge.release(Mechanism(0.1), [1], entropy=REAL)
    twin = resumed(charge)
    third, late = resumed(charge), Mechanism(0.1)
    assert race([charge.settle, twin.settle]) == ["LedgerConflict", "won"]
    with pytest.raises(LedgerConflict):
        third.release(late, [1], entropy=REAL)
    assert late.noise == []
    assert spent(ledger) == 6 * TENTH


def test_a_fork_may_not_use_the_charge_of_its_parent(ledger, tmp_path):
    mark = tmp_path / "mark"
    with ledger.reserve(Mechanism(0.3)) as charge:

        def use():
            for refused in (
                lambda: charge.release(Marking(TENTH, TENTH, mark), [1], entropy=REAL),
                lambda: charge.draw(Mechanism(0.1)),
                charge.settle,
                lambda: charge.__exit__(None, None, None),
            ):
                with pytest.raises(LedgerConflict, match="process that reserved it"):
                    refused()

        assert in_child(use) == 0
        charge.release(Mechanism(0.1), [1], entropy=REAL)
    assert not mark.exists()
    assert spent(ledger) == TENTH


def test_a_draw_that_costs_nothing_takes_its_slot_too(ledger):
    """Noise drawn twice under one slot is noise used twice, whatever it costs."""
    charge = ledger.reserve(Pure(epsilon=0.3))
    twin, free, late = resumed(charge), Mechanism(0), Mechanism(0)
    charge.release(free, [1], entropy=REAL)
    with pytest.raises(LedgerConflict, match="elsewhere"):
        twin.release(late, [1], entropy=REAL)
    assert (free.noise, late.noise) == ([1], [])
    with pytest.raises(LedgerConflict, match="elsewhere"):
        twin.settle()
    charge.settle()
    assert spent(ledger) == 0


def test_a_draw_must_know_slot_and_sum(ledger):
    charge = ledger.reserve(Pure(epsilon=0.3))
    charge.draw(Pure(epsilon=0.1))
    known = {
        "account": "orders",
        "charge": charge.id,
        "key": charge._key,
        "amount": 10**8,
        "pure": 0,
        "failing": 0,
        "body": '{"slot": 1}',
    }
    for slot, before in ((0, 10**8), (2, 10**8), (1, 0), (1, 10**8 - 1), (1, 2 * 10**8)):
        assert ledger._store.apply(DRAW, {**known, "slot": slot, "before": before}) is False
    assert ledger._store.apply(DRAW, {**known, "slot": 1, "before": 10**8}) is True
    assert spent(ledger) == 3 * TENTH
