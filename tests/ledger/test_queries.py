"""How much a charge asks of its database: as much after a million events as after one."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

import psycopg
import pytest

from ledger.fakes import REAL, Mechanism, charge_some, make
from sordino.cost import Pure
from sordino.ledger import schema
from sordino.ledger.operation import rendered
from sordino.ledger.schema import OPERATIONS
from sordino.ledger.store import sqlite

SMALL = Fraction(1, 1000)


@pytest.fixture
def counted(monkeypatch):
    """Count statements and rows that are read, on both databases."""
    seen = []

    class Lite(sqlite3.Connection):
        def execute(self, sql, *arguments):
            seen.append(sql)
            return super().execute(sql, *arguments)

    connect, execute = sqlite3.connect, psycopg.Connection.execute
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **({"factory": Lite} | k)))

    def counting(self, query, *arguments, **options):
        seen.append(query)
        return execute(self, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Connection, "execute", counting)
    return seen


def cost_of(seen, do):
    seen.clear()
    do()
    return len(seen)


@pytest.mark.slow
def test_what_is_asked_does_not_grow_with_the_history(place, counted):
    ledger = make(place)
    charge_some(ledger, 3)
    charge = ledger.reserve(Pure(epsilon=SMALL))

    def whole():
        with ledger.reserve(Pure(epsilon=SMALL)) as inner:
            inner.release(Mechanism(SMALL), [1], entropy=REAL)

    uses = {
        "remaining": lambda: ledger.remaining,
        "reserve": lambda: ledger.reserve(Pure(epsilon=SMALL)),
        "whole": whole,
        "look": lambda: ledger.charge(charge.id),
        "grant": lambda: ledger.grant("team", SMALL),
    }
    uses["grant"]()
    before = {name: cost_of(counted, use) for name, use in uses.items()}
    charge_some(ledger, 200)
    assert {name: cost_of(counted, use) for name, use in uses.items()} == before
    # One transaction of at most five statements and what surrounds it, or one call of a function.
    assert before["remaining"] <= 5
    assert before["reserve"] <= (1 if place.startswith("postgresql:") else 8)
    assert before["whole"] <= 3 * (1 if place.startswith("postgresql:") else 8)


WAY_UP = "SCAN up"
"""From a share to the account on top: as many rows as there are accounts on that way."""
NO_TABLES = {WAY_UP, *(f"SCAN {name}" for name in ("piece", "touched", "one", "found", "each"))}
"""What a charge names of parts, and it names few."""
QUESTIONS = {
    name: getattr(schema, name)
    for name in ("ACCOUNT", "ONE_CHARGE", "EVENTS", "SOME_PARTS", "FULLEST_PART")
}


def test_questions_use_an_index_in_sqlite(tmp_path):
    ledger = make(tmp_path / "budget.db")
    charge_some(ledger, 20)
    sqlite.close_all()
    for name, question in QUESTIONS.items():
        sql = rendered(question, "", ":@")
        given = {"account": "orders", "charge": "x", "after": 3, "until": 5, "low": 3, "high": 5}
        connection = sqlite3.connect(ledger.url)
        plan = [row[-1] for row in connection.execute("EXPLAIN QUERY PLAN " + sql, given)]
        connection.close()
        assert plan
        assert not [step for step in plan if step.startswith("SCAN") and step != WAY_UP], name
        assert any("PRIMARY KEY" in step or "INDEX" in step for step in plan), name
        # An event is found by its number, not among all of its account.
        if name in {"ONE_CHARGE", "EVENTS"}:
            assert any("number" in step for step in plan)


def test_questions_use_an_index_in_postgres(server):
    ledger = make(server)
    charge_some(ledger, 20)
    given = {
        "account": "orders",
        "charge": ledger.reserve(Pure(epsilon=SMALL)).id,
        "after": 3,
        "until": 5,
        "low": 3,
        "high": 5,
    }
    with psycopg.connect(server) as connection:
        connection.execute(
            "SET enable_seqscan = off"
        )  # the tables are so small that an index would not be worth it
        for name, question in QUESTIONS.items():
            asked = "EXPLAIN " + rendered(question, "sordino.", "%(@)s")
            plan = "\n".join(row[0] for row in connection.execute(asked.encode(), given))
            assert "Seq Scan" not in plan, name
            assert "Index" in plan, name


def test_operations_use_an_index_in_sqlite(tmp_path):
    for operation in OPERATIONS:
        look_at(operation, tmp_path / f"{operation.name}.db")


def look_at(operation, path):
    ledger = make(path)
    charge_some(ledger, 20)
    sqlite.close_all()
    connection = sqlite3.connect(ledger.url)
    connection.create_function("chain", 1, str)
    given = {name: 0 if kind == "bigint" else "x" for name, kind in operation.parameters.items()}
    for statement in operation.statements:
        for row in connection.execute("EXPLAIN QUERY PLAN " + rendered(statement, "", ":@"), given):
            # An account moves to a name once, and accounts are few.
            few = operation.name in {"resource", "close_parts", "add_parts"}
            if few and row[-1] in {"SCAN other", "SCAN account"}:
                continue
            found = (
                not row[-1].startswith("SCAN ") or "CONSTANT ROW" in row[-1] or row[-1] in NO_TABLES
            )
            assert found, (statement, row)
    connection.close()


def test_the_statements_are_portable_and_parameterized():
    for operation in OPERATIONS:
        assert operation.parameters
        for statement in operation.statements:
            assert rendered(statement, "sordino.", "_@").count("~") == 0
            assert ":" not in rendered(statement, "sordino.", "_@")
    assert {operation.name for operation in OPERATIONS if not operation.again} == {
        "grant_share",
        "grant_parts",
    }
