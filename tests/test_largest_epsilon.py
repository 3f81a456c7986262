"""A session whose account has not enough names the largest epsilon of what was asked that fits."""

from __future__ import annotations

import pickle
import re
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd

ROWS = pl.DataFrame(
    {
        "u": [n % 300 for n in range(1200)],
        "item": ["tea", "rice", "corn", "tea"] * 300,
        "x": [float(n % 40) for n in range(1200)],
    }
)
LABELS = ["corn", "rice", "tea"]
UNIT = sd.PrivacyUnit("u", max_rows=4)
BUDGETS = {
    "a delta": {"epsilon": 1, "delta": 1e-6},
    "a delta, much of it spent": {"epsilon": 3, "delta": 1e-6, "failures": 1e-7},
    "rho": {"epsilon": 2, "delta": 1e-6, "meter": "zcdp"},
}
ASK = {
    "histogram": lambda to, **asked: to.histogram("item", domain=LABELS, **asked),
    "top": lambda to, **asked: to.top_k("item", k=1, domain=LABELS, **asked),
    "count": lambda to, **asked: to.count(**asked),
    "sum": lambda to, **asked: to.sum("x", lower=0, cap=100, **asked),
    "quantile": lambda to, **asked: to.quantile("x", q=0.5, lower=0, cap=100, **asked),
    "unlisted": lambda to, **asked: to.histogram(
        "item", domain=sd.Domain.unlisted(delta=1e-8), **asked
    ),
}


def open_session(folder, budget):
    ledger = sd.Ledger.create(
        folder / "budget.db",
        account="orders",
        budget=sd.Budget(**budget),
        adjacency="add-remove",
        unit=UNIT,
        source="name:orders",
    )
    return sd.Session(ROWS, unit=UNIT, ledger=ledger, name="orders")


def read_largest(refused):
    found = re.search(r" The largest epsilon that fits is ([0-9.]+)\. Nothing was", str(refused))
    assert found, refused
    return Fraction(found[1])


# Labels that nobody listed need an account that keeps a delta for them.
PAIRS = [
    (kind, budget)
    for kind in ASK
    for budget, about in BUDGETS.items()
    if kind != "unlisted" or "failures" in about
]


@pytest.mark.parametrize(("kind", "budget"), PAIRS)
@pytest.mark.sample(3)
def test_it_fits_and_the_next_one_of_three_digits_does_not(tmp_path, kind, budget):
    session = open_session(tmp_path, BUDGETS[budget])
    session.count(epsilon=0.05)
    if "much" in budget:
        session.count(epsilon=0.7)
        session.histogram("item", epsilon=1, domain=LABELS, noise="gaussian")
    before = list(session._executor.ledger.history())
    with pytest.raises(sd.BudgetExceeded) as refused:
        ASK[kind](session, epsilon=20)
    with pytest.raises(sd.BudgetExceeded) as planned:
        ASK[kind](session.plan, epsilon=20)
    assert str(planned.value) == str(refused.value)
    most = read_largest(refused.value)
    digit = Fraction(10) ** (int(f"{float(most):e}".partition("e")[2]) - 2)
    with pytest.raises(sd.BudgetExceeded):
        ASK[kind](session.plan, epsilon=most + digit)
    assert list(session._executor.ledger.history()) == before
    ASK[kind](session, epsilon=most)


def test_no_row_is_read_for_it(tmp_path, monkeypatch):
    session = open_session(tmp_path, BUDGETS["a delta"])
    session.count(epsilon=0.5)
    backend = type(session._executor.source.backend)

    def scan(*_):
        pytest.fail("a row was read")

    monkeypatch.setattr(backend, "scan", scan)
    with pytest.raises(sd.BudgetExceeded, match="The largest epsilon that fits is"):
        session.histogram("item", epsilon=20, domain=LABELS)


def test_another_look_names_it_too(tmp_path):
    session = open_session(tmp_path, BUDGETS["a delta"])
    first = session.histogram("item", epsilon=0.3, domain=LABELS)
    with pytest.raises(sd.BudgetExceeded) as refused:
        session.remeasure(first, epsilon=20)
    session.remeasure(first, epsilon=read_largest(refused.value))


def test_a_batch_names_one_that_fits(tmp_path):
    """What else is in it may cost less than pure noise; of the whole no largest one is known."""
    session = open_session(tmp_path, BUDGETS["a delta"])

    def ask():
        with session.batch():
            session.count(epsilon=10)
            session.count_distinct_units(epsilon=10)

    with pytest.raises(sd.BudgetExceeded, match=r" Epsilon [0-9.]+ fits\."):
        ask()


def test_in_an_open_batch_a_plan_names_what_fits_behind_it(tmp_path):
    session = open_session(tmp_path, BUDGETS["a delta"])
    with session.batch():
        session.count(epsilon=0.5)
        with pytest.raises(sd.BudgetExceeded) as refused:
            session.plan.count_distinct_units(epsilon=20)
        session.plan.count_distinct_units(epsilon=read_largest(refused.value))


def test_a_pure_account_says_what_its_ledger_says(tmp_path):
    session = open_session(tmp_path, {"epsilon": Fraction(1, 3)})
    with pytest.raises(sd.BudgetExceeded, match=r"that fits is 0\.333333333\."):
        session.count_distinct_units(epsilon=Fraction(1, 3))


def test_a_refusal_survives_a_pickle(tmp_path):
    session = open_session(tmp_path, BUDGETS["a delta"])
    with pytest.raises(sd.BudgetExceeded) as refused:
        session.count(epsilon=20)
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.details) == (str(refused.value), refused.value.details)
