"""A batch is charged together, before anything is read, or not at all."""

from __future__ import annotations

import doctest
from fractions import Fraction

import polars as pl
import pytest

import sordino as sd
from sordino.questions import CountQuestion
from sordino.session import batch as batch_module, session as session_module

DOMAIN = ["tea", "rice", "salt"]


@pytest.fixture
def orders():
    return pl.DataFrame(
        {"customer": ["a", "b", "c", "a"] * 50, "product": ["tea", "tea", "rice", "rice"] * 50}
    )


def account(path, **budget):
    budget = sd.Budget(**budget)
    return sd.Ledger.create(
        path,
        account="shop",
        budget=budget,
        adjacency="add-remove",
        unit="customer",
        source="name:orders",
    )


def ask(s, *epsilons):
    with s.batch():
        return [s.count_distinct_units(epsilon=epsilon) for epsilon in epsilons]


def session(orders, ledger):
    return sd.Session(orders, unit=sd.PrivacyUnit("customer"), ledger=ledger, name="orders")


@pytest.fixture
def reads(monkeypatch):
    """Count how often rows are read, and what was charged by then."""
    seen = []
    run = CountQuestion.run

    def noted(question, **options):
        seen.append(question)
        return run(question, **options)

    monkeypatch.setattr(CountQuestion, "run", noted)
    return seen


def test_a_batch_is_one_charge_that_is_made_before_anything_is_read(tmp_path, orders, reads):
    ledger = account(tmp_path / "b.db", epsilon=3)
    with session(orders, ledger) as s, s.batch() as batch:
        top = s.top_k("product", k=2, epsilon=0.5, domain=DOMAIN)
        units = s.count_distinct_units(epsilon=0.25)
        assert (reads, ledger.remaining) == ([], 3)
        for early in (lambda: top.rows, lambda: units.result, lambda: list(top), lambda: len(top)):
            with pytest.raises(sd.InvalidParameter, match="after its `with` block has ended"):
                early()
        assert repr(top) == "Pending()"
    assert batch.cost.pure() == Fraction(3, 4)
    assert repr(batch) == "Batch(top_k, count_distinct_units)"
    assert len(reads) == 2
    assert [row.rank for row in top] == [1, 2]
    assert (len(top), top.rows[0].rank) == (2, 1)
    assert repr(units) == repr(units.result)
    (line,) = ledger.statement().charges
    assert (line.label, line.state, line.charged) == (
        "top_k + count_distinct_units",
        "settled",
        Fraction(3, 4),
    )
    assert [part["release"] for part in line.detail["batch"]] == ["top_k", "count_distinct_units"]
    assert line.detail["batch"][0]["k"] == 2


def test_a_batch_that_does_not_fit_reads_nothing(tmp_path, orders, reads):
    ledger = account(tmp_path / "b.db", epsilon=0.5)
    with session(orders, ledger) as s:
        with pytest.raises(sd.BudgetExceeded):
            ask(s, 0.4, 0.2)
        assert (reads, ledger.remaining) == ([], Fraction(1, 2))
        assert s.count_distinct_units(epsilon=0.5).cost.pure() == Fraction(
            1, 2
        )  # the session goes on without a batch


def test_an_error_inside_the_block_charges_nothing(tmp_path, orders, reads):
    ledger = account(tmp_path / "b.db", epsilon=1)
    with session(orders, ledger) as s:
        with pytest.raises(sd.InvalidParameter):
            ask(s, 0.4, -1)
        with pytest.raises(ZeroDivisionError):
            ask(s, 0.4, 1 / len(reads))
        assert (reads, ledger.remaining) == ([], 1)
        with s.batch():
            pass
        with pytest.raises(sd.InvalidParameter, match="inside a batch"), s.batch(), s.batch():
            pass
    assert ledger.statement().charges == ()


def test_an_error_after_the_charge_keeps_all_of_it(tmp_path, orders, monkeypatch):
    ledger = account(tmp_path / "b.db", epsilon=1)

    def fails(question, **options):
        raise sd.DataSourceError.after_charge()

    monkeypatch.setattr(CountQuestion, "run", fails)
    with session(orders, ledger) as s, pytest.raises(sd.DataSourceError):
        ask(s, 0.25, 0.25)
    assert ledger.remaining == Fraction(1, 2)


def test_a_zcdp_account_is_charged_in_rho(tmp_path, orders):
    ledger = account(tmp_path / "b.db", epsilon=1, delta=1e-6, meter="zcdp")
    with session(orders, ledger) as s, s.batch() as batch:
        for _ in range(4):
            s.count_distinct_units(epsilon=0.1, noise="laplace")
    assert ledger.statement().spent == Fraction(19_983_350, 10**9), "four times .1 tanh .05"
    assert batch.cost.epsilon(1e-6) <= 0.4


def test_the_examples_are_true():
    for module in (batch_module, session_module):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 0) == (0, True)
