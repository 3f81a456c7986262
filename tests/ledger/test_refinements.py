"""Accounts with refinements in them: what they add, and what they count by themselves where epsilons are not added."""

from __future__ import annotations

from fractions import Fraction

import pytest

import sordino as sd
from sordino.cost import Added, Pure, compose
from sordino.ledger.account.records import find_alone
from sordino.ledger.renyi import amounts_at

ABOUT = {"adjacency": "add-remove", "unit": "u", "source": "orders.parquet"}
FIRST = sd.LaplaceMechanism(epsilon=1, sensitivity=sd.COUNTING)
FINER = sd.RefinedLaplace(first=FIRST, epsilon=Fraction(1, 2))


@pytest.fixture
def ledger(tmp_path):
    return sd.Ledger.create(tmp_path / "a.db", account="a", budget=sd.Budget(epsilon=3), **ABOUT)


def charge(ledger):
    with ledger.reserve(FIRST, label="look") as first:
        rough = first.release(FIRST, 1000)
    with ledger.reserve(FINER, label="finer") as second:
        return second.release(FINER, 1000, values=rough)


def test_a_pure_account_pays_for_the_finer_noise_once(ledger):
    assert charge(ledger).total == Pure(epsilon=Fraction(3, 2))
    assert ledger.statement().spent == Fraction(3, 2)
    rough, finer = ledger.statement().charges
    # By itself it loses both rates: 1 and 3/2.
    assert (rough.refines, finer.refines) == (0, 2)
    assert finer.charged == Fraction(1, 2)
    assert ledger.verify().sound


def test_a_converted_account_counts_the_release_by_itself(ledger):
    charge(ledger)
    budget = sd.Budget(epsilon=6, delta=1e-6)
    after = ledger.convert("b", budget).statement()
    order = Fraction(budget.order)
    alone = amounts_at(Pure(epsilon=1), order).main + amounts_at(Pure(epsilon=Fraction(5, 2)), order).main
    assert float(after.spent) == pytest.approx(float(alone), abs=1e-8)
    assert after.renyi.epsilon_spent == Fraction(3, 2)
    # Both looks together are the finer noise, whose divergence two separate costs would fall short of.
    assert after.spent >= amounts_at(Pure(epsilon=Fraction(3, 2)), order).main
    apart = amounts_at(Pure(epsilon=1), order).main + amounts_at(Pure(epsilon=Fraction(1, 2)), order).main
    assert apart < amounts_at(Pure(epsilon=Fraction(3, 2)), order).main


def test_events_of_another_library_are_those_of_the_release_by_itself(ledger):
    charge(ledger)
    told = ledger.dp_events()
    assert told == list(sd.accounting.to_dp_events([Pure(epsilon=1), Pure(epsilon=Fraction(5, 2))]).events)


def test_a_refinement_inside_a_batch_is_found(ledger):
    cost = compose(
        Added(epsilon=Fraction(1, 4), alone=1), Added(epsilon=Fraction(1, 4), alone=1), Pure(epsilon=1)
    )
    with ledger.reserve((cost, FINER), label="all of it"):
        pass
    [line] = ledger.statement().charges
    assert line.refines == 2 + 2 * Fraction(3, 4)


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
