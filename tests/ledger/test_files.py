"""Accounts and files: what is not a ledger is said to be none, and every failure is one clear sentence."""

from __future__ import annotations

import doctest
import importlib
import os
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import PLACE, REAL, Mechanism, child, finished, make, raw, refused, spent
from sordino.cost import Pure
from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger import Budget, Ledger
from sordino.ledger.schema import VERSION
from sordino.ledger.store import sqlite


def test_accounts_are_added_to_one_place(place):
    path = place
    make(path, 1, "orders")
    make(path, 2, "alarms")
    assert Ledger.accounts(path) == ("alarms", "orders")
    with Ledger.open(path, account="alarms").reserve(Mechanism(0.5)) as charge:
        charge.release(Mechanism(0.5), [1], entropy=REAL)
    assert Ledger.open(path, account="alarms").remaining == Fraction(3, 2)
    assert Ledger.open(path, account="orders").remaining == 1


def test_an_account_is_made_once(place):
    ledger = make(place, 1)
    refused(lambda: make(place, 5), "Account 'orders' exists already", LedgerConflict)
    assert ledger.remaining == 1


def test_an_account_remembers_what_it_is_about(tmp_path, monkeypatch):
    class Row:
        identity = "each row"

    monkeypatch.chdir(tmp_path)
    ledger = Ledger.create(
        "budget.db",
        account="orders",
        budget=Budget(epsilon=1),
        adjacency="replace-one",
        unit=Row(),
        source="duckdb:shop.db#orders",
    )
    monkeypatch.chdir("/")
    statement = ledger.statement()
    assert (statement.adjacency, statement.unit) == ("replace-one", "each row")
    assert statement.source == f"duckdb:{tmp_path}/shop.db#main.orders"


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"account": ""}, "account must be"),
        ({"account": "two\nlines"}, "account must be"),
        ({"budget": 3.0}, "budget must be"),
        ({"adjacency": "both"}, "adjacency must be"),
        ({"unit": 3}, "unit must be"),
        ({"source": ""}, "source must be"),
    ],
)
def test_wrong_parameters_leave_no_file(tmp_path, changed, says):
    path = tmp_path / "budget.db"
    with pytest.raises(InvalidParameter, match=says):
        Ledger.create(path, **{"account": "orders", "budget": Budget(epsilon=1)} | PLACE | changed)
    assert not path.exists()


def test_a_file_may_have_any_name(tmp_path):
    path = tmp_path / 'it\'s %41 a #budget? "x".db'
    assert spent(make(path)) == 0
    assert path.exists()


@pytest.mark.parametrize(
    "name", ["x'); DROP TABLE charge; --", 'a"b $1 %s :account', "~account", "Äöü 😀", "x" * 2000]
)
@pytest.mark.sample(4)
def test_names_with_sql_in_them_are_names(place, name):
    path = place
    ledger = make(path, 1, name)
    with ledger.reserve(Pure(epsilon=0.5), label=name) as charge:
        charge.draw(Pure(epsilon=0.5))
    assert (Ledger.accounts(path), spent(ledger)) == ((name,), Fraction(1, 2))
    assert ledger.grant(name + "'", 0.1).statement().parent == name


def test_missing_things_are_named(tmp_path):
    ledger = make(tmp_path / "budget.db")
    make(ledger.url, 1, "alarms")
    refused(lambda: Ledger.open(tmp_path / "other.db", account="orders"), "There is no ledger at")
    refused(lambda: Ledger.accounts(tmp_path / "other.db"), "There is no ledger at")
    assert not (tmp_path / "other.db").exists()
    refused(lambda: Ledger.open(ledger.url, account="order"), "its accounts: 'alarms', 'orders'.")
    refused(lambda: make(tmp_path / "no" / "budget.db"), "There is no folder")
    refused(
        lambda: Ledger.open(tmp_path / "no" / "budget.db", account="orders"), "There is no folder"
    )
    refused(lambda: make(tmp_path), "cannot be opened")
    refused(lambda: make(tmp_path / ("x" * 300)), "cannot be")
    Path(ledger.url).unlink()
    refused(lambda: ledger.reserve(Mechanism(0.1)), "There is no ledger at")


def test_places_that_are_none_are_refused():
    refused(lambda: make("mysql://me:secret@host/db"), "mysql:// is neither")
    refused(lambda: make(":memory:"), "must outlive the process")
    for bad in ("", None, 3, b"x"):
        with pytest.raises(InvalidParameter, match="url must be"):
            make(bad)


def test_files_of_others_are_left_as_they_are(tmp_path):
    text = tmp_path / "orders.csv"
    text.write_text("customer,product\n" * 200)
    foreign = tmp_path / "foreign.db"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE account (name TEXT)")
    connection.commit()
    connection.close()
    marked = tmp_path / "marked.db"
    connection = sqlite3.connect(marked)
    connection.execute("PRAGMA application_id = 77")
    connection.close()
    for path in (text, foreign, marked):
        before = path.read_bytes()
        for use in (
            lambda path=path: make(path),
            lambda path=path: Ledger.open(path, account="orders"),
        ):
            refused(use, "is not a sordino ledger")
        assert path.read_bytes() == before
    empty = tmp_path / "empty.db"
    empty.touch()
    refused(lambda: Ledger.open(empty, account="orders"), "is not a sordino ledger")
    assert make(empty).remaining == 1
    sqlite.close_all()
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "empty.db",
        "empty.db-journal",
        "foreign.db",
        "marked.db",
        "orders.csv",
    ]


def test_a_newer_schema_is_refused(tmp_path):
    ledger = make(tmp_path / "budget.db")
    sqlite.close_all()
    raw(ledger.url, f"PRAGMA user_version = {VERSION + 1}")
    refused(
        lambda: Ledger.open(ledger.url, account="orders"),
        f"has schema {VERSION + 1} but this version of sordino knows schemas 4 to {VERSION}",
    )
    refused(lambda: make(ledger.url, 1, "other"), "use a newer sordino")


def test_the_file_says_what_it_is(tmp_path):
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    assert [
        raw(ledger.url, f"PRAGMA {name}")[0][0]
        for name in ("application_id", "user_version", "journal_mode")
    ] == [
        0x534F5244,
        VERSION,
        "delete",  # as SQLite calls every mode but WAL where nobody has said more
    ]


def test_every_write_is_synchronous(tmp_path, monkeypatch):
    modes = []
    sqlite.close_all()

    class Connection(sqlite3.Connection):
        def execute(self, sql, *arguments):
            if sql.startswith(("UPDATE", "INSERT")):
                [(journal,)], [(mode,)] = (
                    super().execute("PRAGMA journal_mode"),
                    super().execute("PRAGMA synchronous"),
                )
                modes.append((journal, mode))
            return super().execute(sql, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))
    with make(tmp_path / "budget.db").reserve(Pure(epsilon=0.1)) as charge:
        charge.draw(Pure(epsilon=0.1))
    assert len(modes) == 2 + 4 + 3 + 3
    assert set(modes) == {("persist", 3)}


def test_a_busy_ledger_is_waited_for(place):
    ledger = make(place)
    processes = [
        child(lambda: [ledger.reserve(Pure(epsilon=Fraction(1, 20))) for _ in range(5)])
        for _ in range(4)
    ]
    assert [finished(process) for process in processes] == [0] * 4
    assert spent(ledger) == 1


@pytest.mark.sample(4)
def test_one_of_many_makers_of_an_account_wins(place):
    def make_one():
        try:
            make(place)
        except LedgerConflict:
            os._exit(7)

    processes = [child(make_one) for _ in range(6)]
    assert sorted(finished(process) for process in processes) == [0] + [7] * 5
    assert spent(Ledger.open(place, account="orders")) == 0


def test_the_ledger_alone_is_light():
    code = "import sys, sordino.ledger; print([m for m in ('numpy', 'duckdb', 'cryptography', 'scipy', 'narwhals') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "module",
    [
        "amounts",
        "history",
        "account.charge",
        "account.identity",
        "account.ledger",
        "account.statement",
    ],
)
def test_the_examples_are_true(module):
    result = doctest.testmod(importlib.import_module(f"sordino.ledger.{module}"))
    assert (result.failed, result.attempted > 0) == (0, True)


def test_a_schema_that_is_no_text_is_a_damaged_ledger(tmp_path):
    """SQLite quotes what it found there, and Python cannot read that."""
    ledger = make(tmp_path / "budget.db")
    sqlite.close_all()
    path, seen = Path(ledger.url), 0
    whole = path.read_bytes()
    for place in range(100, len(whole)):
        if whole[place : place + 6] == b"CREATE":
            path.write_bytes(whole[:place] + b"\xcf\xdc" + whole[place + 2 :])
            seen += 1
            for use in (
                lambda: ledger.remaining,
                lambda: ledger.reserve(Pure(epsilon=0.1)),
                lambda: Ledger.accounts(path),
            ):
                with pytest.raises(LedgerError, match="damaged"):
                    use()
            sqlite.close_all()
    assert seen > 1


def test_an_account_whose_name_is_no_text_is_listed_and_no_defect(tmp_path):
    ledger = make(tmp_path / "budget.db")
    make(tmp_path / "budget.db", 1, "other")
    sqlite.close_all()
    raw(ledger.url, "UPDATE account SET name = CAST(name AS BLOB) WHERE name = 'other'")
    assert len(Ledger.accounts(ledger.url)) == 2
    with pytest.raises(LedgerError, match="no account"):
        _ = Ledger.open(ledger.url, account="missing")
