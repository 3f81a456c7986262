"""Charges that refined another release, as earlier versions recorded them: what they count as by themselves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest

import sordino as sd
from ledger.fakes import REAL, Result
from sordino.cost import Pure
from sordino.ledger.account.records import find_alone
from sordino.ledger.renyi import amounts_at
from sordino.record import Record

ABOUT = {"adjacency": "add-remove", "unit": "u", "source": "orders.parquet"}
FIRST = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)


class Added(Pure):
    """What earlier versions charged: an epsilon beside that of another release, and more by itself."""

    def __init__(self, *, epsilon, alone):
        super().__init__(epsilon=epsilon)
        object.__setattr__(self, "alone", Fraction(alone))

    def to_dict(self):
        exact = [str(self.epsilon_), str(self.alone)]
        return {
            "notion": "added",
            "epsilon": float(self.epsilon_),
            "alone": float(self.alone),
            "exact": exact,
        }


# The ledger writes down the costs of its own package alone.
Added.__module__ = "sordino.cost.added"


@dataclass(frozen=True)
class Finer:
    """A mechanism that charges for such a release."""

    cost: Added
    sensitivity: sd.Sensitivity = sd.COUNTING
    exact: bool = True

    def release(self, _answers, *, entropy):
        return Result(self.cost)


FINER = Finer(Added(epsilon=Fraction(1, 2), alone=Fraction(5, 2)))


@pytest.fixture
def ledger(tmp_path):
    return sd.Ledger.create(tmp_path / "a.db", account="a", budget=sd.Budget(epsilon=3), **ABOUT)


def charge(ledger):
    with ledger.reserve(FIRST, label="look") as first:
        first.release(FIRST, 1000)
    with ledger.reserve(FINER, label="finer") as second:
        second.release(FINER, 1000, entropy=REAL)
    return second


def test_a_pure_account_has_paid_for_the_finer_noise_once(ledger):
    charge(ledger)
    assert ledger.statement().spent == Fraction(3, 2)
    rough, finer = ledger.statement().charges
    assert (rough.refines, finer.refines) == (0, 2)
    assert finer.charged == Fraction(1, 2)
    assert ledger.verify().sound


def test_a_converted_account_counts_the_release_by_itself(ledger):
    charge(ledger)
    budget = sd.Budget(epsilon=6, delta=1e-6)
    after = ledger.convert("b", budget).statement()
    order = Fraction(budget.order)
    alone = (
        amounts_at(Pure(epsilon=1), order).main
        + amounts_at(Pure(epsilon=Fraction(5, 2)), order).main
    )
    assert float(after.spent) == pytest.approx(float(alone), abs=1e-8)
    assert after.renyi.epsilon_spent == Fraction(3, 2)
    # Both looks together are the finer noise, whose divergence two separate costs would fall short of.
    assert after.spent >= amounts_at(Pure(epsilon=Fraction(3, 2)), order).main
    apart = (
        amounts_at(Pure(epsilon=1), order).main
        + amounts_at(Pure(epsilon=Fraction(1, 2)), order).main
    )
    assert apart < amounts_at(Pure(epsilon=Fraction(3, 2)), order).main


def test_events_of_another_library_are_those_of_the_release_by_itself(ledger):
    charge(ledger)
    told = ledger.dp_events()
    assert told == list(
        sd.accounting.to_dp_events([Pure(epsilon=1), Pure(epsilon=Fraction(5, 2))]).events
    )


def test_a_statement_says_what_the_release_loses_by_itself(ledger):
    made = charge(ledger)
    made.keep(Record(facts={"release": "count"}, columns=(), rows=[]))
    line = ledger.charge(made.id)
    guarantee = ledger.publish(made.id).promise["guarantee"]
    assert line.refines == 2
    assert Fraction(guarantee["epsilon"]) == line.reserved + line.refines


def test_a_refinement_inside_a_batch_is_found():
    pure, added = Pure(epsilon=1).to_dict(), Added(epsilon=Fraction(1, 4), alone=1).to_dict()
    parts = [added | {"count": 2}, pure | {"count": 1}]
    body = {
        "charges": [
            {"cost": {"notion": "composition", "parts": parts}},
            {"cost": FINER.cost.to_dict()},
        ]
    }
    assert find_alone(body) == 2 + 2 * Fraction(3, 4)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"charges": 3},
        {"charges": [3]},
        {"charges": [{"cost": {"notion": "added"}}]},
        {"charges": [{"cost": 3}]},
        {"charges": [{"cost": {"notion": "added", "exact": ["1/0", "x"]}}]},
    ],
)
def test_a_damaged_body_is_shown_all_the_same(body):
    assert find_alone(body) == 0
