"""A ledger reserves the worst case of a sparse vector and gets back what its transcript did not spend."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sordino import COUNTING, Budget, Ledger, SparseVector
from sordino.cost import Pure

HIGH, LOW = 10**9, -(10**9)
WORST = SparseVector(threshold=0, positives=3, epsilon=1, sensitivity=COUNTING, split=0.25)


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(
        str(tmp_path / "budget.db"),
        account="a",
        budget=Budget(epsilon=2),
        adjacency="add-remove",
        unit="user",
        source="orders",
    )


@pytest.mark.parametrize(
    ("values", "found"), [([LOW] * 9, 0), ([LOW, HIGH, LOW], 1), ([HIGH] * 4, 3)]
)
def test_what_was_not_found_returns(ledger, values, found):
    with ledger.reserve(WORST, label="above") as charge:
        assert ledger.remaining == 1
        release = charge.release(WORST, values)
    assert release.indices.size == found
    assert (
        ledger.remaining == 2 - Fraction(1, 4) - found * Fraction(1, 4) == 2 - release.cost.pure()
    )


def test_thresholds_and_positions_go_through(ledger):
    wide = SparseVector(
        threshold=10**6, positives=2, epsilon=1, sensitivity=COUNTING, domain_size=10**9
    )
    with ledger.reserve(Pure(epsilon=2), label="two") as charge:
        assert charge.release(WORST, [5, 5], thresholds=[HIGH, LOW]).indices.tolist() == [1]
        assert charge.release(wide, [HIGH], positions=[77]).indices.tolist() == [77]
    exactly = 2 - Fraction(1, 2) - wide.spent(1).pure()
    assert exactly - Fraction(2, 10**9) <= ledger.remaining <= exactly, (
        "a ledger counts in nanos, rounded up"
    )


def test_a_stream_keeps_its_full_reservation(ledger):
    with ledger.reserve(WORST, label="watch") as charge:
        charge.draw(WORST)
        with WORST.open() as stream:
            stream.ask(LOW)
    assert stream.spent.pure() == Fraction(1, 4)
    assert ledger.remaining == 1, "the ledger has not seen what the stream spent"


def test_another_meter_gives_nothing_back(tmp_path):
    ledger = Ledger.create(
        str(tmp_path / "rho.db"),
        account="a",
        budget=Budget(epsilon=20, delta=1e-6, meter="zcdp"),
        adjacency="add-remove",
        unit="user",
        source="orders",
    )
    before = ledger.remaining
    with ledger.reserve(WORST, label="above") as charge:
        charge.release(WORST, [LOW] * 9)
    assert before - ledger.remaining >= WORST.cost.zcdp() > WORST.spent(0).zcdp()
