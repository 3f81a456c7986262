"""Reserve, draw, settle: what is recorded when, and what is refused before anything is drawn."""

from __future__ import annotations

from fractions import Fraction

import pytest

from ledger.fakes import PLACE, REAL, REPLACE, Entropy, Mechanism, spent
from sordino.cost import Pure
from sordino.errors import InvalidParameter, LedgerConflict, SimulatedRelease
from sordino.ledger import Ledger

TENTH = Fraction(1, 10)


def test_a_reservation_is_durable_before_it_is_used(ledger):
    charge = ledger.reserve(Mechanism(0.1), label="top", detail={"k": 3})
    (line,) = Ledger.open(ledger._store.address, account="orders").statement().charges
    assert (line.id, line.label, line.state, line.reserved, line.drawn, line.settled) == (
        charge.id,
        "top",
        "reserved",
        TENTH,
        0,
        None,
    )
    assert line.detail == {"k": 3}
    assert len(line.id) == 32
    assert ledger.remaining == 1 - TENTH


def test_a_draw_is_durable_before_its_noise(ledger):
    seen = []

    class Looking(Mechanism):
        def release(self, answers, *, entropy):
            (line,) = Ledger.open(ledger._store.address, account="orders").statement().charges
            seen.append((line.state, line.drawn))
            return super().release(answers, entropy=entropy)

    with ledger.reserve(Pure(epsilon=0.3)) as charge:
        charge.release(Looking(0.1), [1], entropy=REAL)
    assert seen == [("drawn", TENTH)]


def test_what_was_not_drawn_returns(ledger):
    with ledger.reserve(Pure(epsilon=0.5), label="two of five") as charge:
        charge.release(Mechanism(0.1), [1], entropy=REAL)
        charge.release(Mechanism(0.1), [1], entropy=REAL)
        assert ledger.remaining == Fraction(1, 2)
    (line,) = ledger.statement().charges
    assert (line.state, line.reserved, line.drawn, line.settled) == (
        "settled",
        5 * TENTH,
        2 * TENTH,
        2 * TENTH,
    )
    assert spent(ledger) == 2 * TENTH


def test_what_a_release_did_not_spend_returns(ledger):
    with ledger.reserve(Mechanism(0.5)) as charge:
        charge.release(Mechanism(0.5, spends=0.2), [1], entropy=REAL)
    assert spent(ledger) == 2 * TENTH


def test_a_block_without_a_draw_costs_nothing(ledger):
    with ledger.reserve(Mechanism(0.5)):
        pass
    assert spent(ledger) == 0


def test_a_recorded_draw_costs_its_worst_case(ledger):
    with ledger.reserve(Mechanism(0.5)) as charge:
        assert charge.draw(Mechanism(0.2)) == 0
        assert charge.draw(Mechanism(0.1)) == 1
    assert spent(ledger) == 3 * TENTH


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exception_leaves_the_full_charge(ledger, error):
    def stopped():
        with ledger.reserve(Mechanism(0.5)) as charge:
            charge.release(Mechanism(0.1), [1], entropy=REAL)
            raise error

    with pytest.raises(error):
        stopped()
    assert spent(ledger) == 5 * TENTH


def test_a_mechanism_that_fails_closes_its_charge_even_if_it_is_caught(ledger):
    """Why it failed may depend on the answers: nothing that follows from it may return."""
    late = Mechanism(0.3, spends=0.1)
    with ledger.reserve(Mechanism(0.5)) as charge:
        with pytest.raises(ZeroDivisionError):
            charge.release(Mechanism(0.2, error=ZeroDivisionError("no")), [1], entropy=REAL)
        with pytest.raises(LedgerConflict, match=r"closed \(charged in full\)"):
            charge.release(late, [1], entropy=REAL)
    assert late.noise == []
    assert spent(ledger) == 5 * TENTH


def test_draws_may_not_pass_the_reservation(ledger):
    late = Mechanism(0.2)
    with ledger.reserve(Mechanism(0.3), label="one") as charge:
        charge.release(Mechanism(0.2, spends=0), [1], entropy=REAL)
        with pytest.raises(
            LedgerConflict, match=r"needs epsilon 0\.2 but 0\.1 of 0\.3 remains in charge 'one'"
        ):
            charge.release(late, [1], entropy=REAL)
    assert late.noise == []
    assert spent(ledger) == 0


def test_a_closed_charge_is_refused(ledger):
    with ledger.reserve(Mechanism(0.3)) as charge:
        charge.settle()
        for again in (
            charge.settle,
            charge.__enter__,
            lambda: charge.draw(Mechanism()),
            lambda: charge.release(Mechanism(), [1]),
        ):
            with pytest.raises(LedgerConflict, match=r"closed \(settled\)"):
                again()
    assert spent(ledger) == 0
    late = Mechanism(0.1)
    with pytest.raises(LedgerConflict):
        charge.release(late, [1], entropy=REAL)
    assert late.noise == []


def test_an_exception_closes_the_charge(ledger):
    with pytest.raises(ValueError, match="mine"), ledger.reserve(Mechanism(0.3)) as charge:
        raise ValueError("mine")
    for late in (charge.settle, lambda: charge.release(Mechanism(0.1), [1], entropy=REAL)):
        with pytest.raises(LedgerConflict, match="closed"):
            late()
    assert spent(ledger) == 3 * TENTH


@pytest.mark.parametrize("entropy", [Entropy(simulated=True), Entropy(simulated=None), object()])
def test_simulated_entropy_draws_nothing(ledger, entropy):
    mechanism = Mechanism(0.1)
    with ledger.reserve(mechanism) as charge, pytest.raises(SimulatedRelease):
        charge.release(mechanism, [1], entropy=entropy)
    assert mechanism.noise == []
    assert spent(ledger) == 0


@pytest.mark.parametrize("says", [True, None, 0])
def test_a_simulated_release_is_refused_and_charged(ledger, says):
    with ledger.reserve(Mechanism(0.3)) as charge, pytest.raises(SimulatedRelease):
        charge.release(Mechanism(0.1, simulated=says), [1], entropy=REAL)
    assert spent(ledger) == 3 * TENTH


@pytest.mark.parametrize("says", [0.2, 10])
def test_a_release_that_spent_more_than_declared_keeps_the_full_charge(ledger, says):
    with (
        ledger.reserve(Mechanism(0.5)) as charge,
        pytest.raises(LedgerConflict, match="more than its mechanism declared"),
    ):
        charge.release(Mechanism(0.1, spends=says), [1], entropy=REAL)
    assert spent(ledger) == 5 * TENTH


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"unit": "shop"}, ['column "customer"', 'column "shop"']),
        ({"source": "/data/other.parquet"}, ["/data/orders.parquet", "/data/other.parquet"]),
        ({"adjacency": "replace-one"}, ["'add-remove'", "'replace-one'"]),
    ],
)
def test_a_release_about_something_else_is_refused_before_the_charge(ledger, given, names):
    with pytest.raises(LedgerConflict) as refused:
        ledger.reserve(Mechanism(0.1), **given)
    assert all(name in str(refused.value) for name in names)
    assert ledger.statement().charges == ()
    with ledger.reserve(Mechanism(0.1), **PLACE):
        pass


def test_a_mechanism_for_another_adjacency_is_refused(ledger):
    class Estimator(Mechanism):
        adjacency = "replace-one"

    for other in (Mechanism(0.1, sensitivity=REPLACE), Estimator(0.1)):
        with pytest.raises(LedgerConflict, match=r"'add-remove' but \w+ is for 'replace-one'"):
            ledger.reserve((Mechanism(0.1), other))
        assert ledger.remaining == 1
        with (
            ledger.reserve(Pure(epsilon=0.1)) as charge,
            pytest.raises(LedgerConflict, match="'replace-one'"),
        ):
            charge.release(other, [1], entropy=REAL)
        assert other.noise == []
    assert spent(ledger) == 0


def test_an_approximate_mechanism_needs_to_be_allowed(ledger):
    smooth = Mechanism(0.1, exact=False)
    with pytest.raises(InvalidParameter, match="allow_approximate=True"):
        ledger.reserve(smooth)
    with (
        ledger.reserve(Pure(epsilon=0.1)) as charge,
        pytest.raises(InvalidParameter, match="not exact"),
    ):
        charge.release(smooth, [1], entropy=REAL)
    assert (smooth.noise, ledger.remaining) == ([], 1)
    with ledger.reserve(smooth, allow_approximate=True) as charge:
        charge.release(smooth, [1], entropy=REAL)
    assert spent(ledger) == TENTH


def test_further_private_arguments_reach_the_mechanism(ledger):
    class Sparse(Mechanism):
        def release(self, answers, *, positions, entropy):
            assert (answers, positions) == ([5], [7])
            return super().release(answers, entropy=entropy)

    with ledger.reserve(Mechanism(0.1)) as charge:
        charge.release(Sparse(0.1), [5], positions=[7], entropy=REAL)


def test_entropy_is_the_systems_if_not_given(ledger):
    from sordino.entropy import SYSTEM

    class Looking(Mechanism):
        def release(self, answers, *, entropy):
            assert entropy is SYSTEM
            return super().release(answers, entropy=entropy)

    with ledger.reserve(Mechanism(0.1)) as charge:
        charge.release(Looking(0.1), [1])
