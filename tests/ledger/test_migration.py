"""A file of schema 1 becomes one of schema 2: nothing of what was spent is forgotten, whatever happens on the way."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import REAL, Mechanism, child, finished, in_child, raw, refused, spent
from ledger.faults import Counter, failing
from sordino.errors import LedgerConflict
from sordino.ledger import (
    Ledger,
    schema,
)
from sordino.ledger.store import sqlite

SCHEMA_1 = """
CREATE TABLE account (
    name TEXT PRIMARY KEY,
    meter TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL DEFAULT 0,
    charges BIGINT NOT NULL DEFAULT 0,
    time TEXT NOT NULL,
    CHECK (spent >= 0 AND spent <= allowance)
);
CREATE TABLE charge (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES account (name),
    number BIGINT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'drawn', 'settled')),
    reserved BIGINT NOT NULL,
    drawn BIGINT NOT NULL DEFAULT 0,
    settled BIGINT,
    draws BIGINT NOT NULL DEFAULT 0,
    detail TEXT NOT NULL,
    time TEXT NOT NULL,
    UNIQUE (account, number),
    CHECK (drawn >= 0 AND drawn <= reserved),
    CHECK ((state = 'settled') = (settled IS NOT NULL)),
    CHECK (settled IS NULL OR (settled >= 0 AND settled <= drawn))
);
CREATE TABLE draw (
    charge_id TEXT NOT NULL REFERENCES charge (id),
    slot BIGINT NOT NULL,
    mechanism TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0),
    time TEXT NOT NULL,
    PRIMARY KEY (charge_id, slot)
);
PRAGMA application_id = 1397707332;
PRAGMA user_version = 1;
"""
TIME = "2025-01-02T03:04:05+00:00"
# id, account, number, label, state, reserved, drawn, settled, draws
CHARGES = (
    ("a1", "orders", 1, "never drawn", "reserved", 100, 0, None, 0),
    ("b2", "orders", 2, "prix d'été", "drawn", 200, 150, None, 2),
    ("c3", "orders", 3, "settled", "settled", 300, 250, 120, 1),
    ("d4", "orders", 4, "settled for nothing", "settled", 400, 0, 0, 0),
    ("e5", "orders", 5, "of nothing", "settled", 0, 0, 0, 0),
    ("f6", "alarms", 1, "elsewhere", "drawn", 50, 50, None, 1),
)
DRAWS = (
    ("b2", 0, "NoisyTopK", 100),
    ("b2", 1, "LaplaceMechanism", 50),
    ("c3", 0, "NoisyTopK", 250),
    ("f6", 0, "Other", 50),
)
SPENT = {"orders": 100 + 200 + 120, "alarms": 50, "empty": 0}
ALLOWANCE = 1000


def old_file(path, mode="wal"):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("PRAGMA synchronous = OFF")
    connection.executescript(SCHEMA_1)
    for name, total in SPENT.items():
        facts = (
            name,
            "pure",
            "1/1000000",
            "0",
            "add-remove",
            'column "customer"',
            "/data/orders.parquet",
            ALLOWANCE,
            total,
        )
        connection.execute("INSERT INTO account VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 9, ?)", (*facts, TIME))
    for charge in CHARGES:
        detail = json.dumps({"k": charge[2], "domain": "público"})
        connection.execute(
            "INSERT INTO charge VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*charge, detail, TIME)
        )
    for draw in DRAWS:
        connection.execute("INSERT INTO draw VALUES (?, ?, ?, ?, ?)", (*draw, TIME))
    connection.close()
    return str(path)


def dumped(path):
    connection = sqlite3.connect(path)
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def check_migrated(path):
    assert Ledger.accounts(path) == tuple(sorted(SPENT))
    for name, total in SPENT.items():
        ledger = Ledger.open(path, account=name)
        assert spent(ledger) == Fraction(total, 10**9)
        assert ledger.remaining == Fraction(ALLOWANCE - total, 10**9)
        statement = ledger.statement()
        assert (statement.unit, statement.source, statement.meter) == (
            'column "customer"',
            "/data/orders.parquet",
            "pure",
        )
        assert statement.epsilon == Fraction(1, 10**6)
        wanted = [charge for charge in CHARGES if charge[1] == name]
        assert [
            (line.id, line.label, line.state, line.reserved, line.drawn, line.settled, line.time, line.detail)
            for line in statement.charges
        ] == [
            (
                key,
                label,
                state,
                Fraction(reserved, 10**9),
                Fraction(drawn, 10**9),
                None if settled is None else Fraction(settled, 10**9),
                TIME,
                {"k": number, "domain": "público"},
            )
            for key, _, number, label, state, reserved, drawn, settled, _ in wanted
        ]
    drawn = [
        (e.charge, e.detail["slot"], e.detail["mechanism"], int(e.amount * 10**9))
        for n in SPENT
        for e in history(path, n)
    ]
    assert sorted(drawn) == sorted(DRAWS)
    assert raw(path, "PRAGMA user_version") == [(schema.VERSION,)]
    assert {name for (name,) in raw(path, "SELECT name FROM sqlite_master WHERE type = 'table'")} == {
        "account",
        "charge",
        "event",
        "kept",
    }


def history(path, name):
    return [event for event in Ledger.open(path, account=name).history() if event.kind == "draw"]


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_an_old_file_is_brought_up_to_date_when_it_is_opened(tmp_path, mode):
    check_migrated(old_file(tmp_path / "budget.db", mode))


def test_what_an_old_file_left_open_can_be_charged_and_given_up(tmp_path):
    path = old_file(tmp_path / "budget.db")
    ledger = Ledger.open(path, account="orders")
    assert ledger.void("a1", reason="its process died").settled == 0
    assert ledger.void("b2", reason="its process died").settled == Fraction(150, 10**9)
    refused(lambda: ledger.void("c3", reason="again"), "closed already (settled)", LedgerConflict)
    with ledger.reserve(Mechanism(Fraction(30, 10**9))) as charge:
        charge.release(Mechanism(Fraction(30, 10**9)), [1], entropy=REAL)
    assert spent(ledger) == Fraction(150 + 120 + 30, 10**9)
    assert ledger.grant("team", Fraction(10, 10**9)).remaining == Fraction(10, 10**9)
    assert spent(ledger) == Fraction(310, 10**9)


def test_many_processes_bring_one_file_up_to_date(tmp_path):
    path = old_file(tmp_path / "budget.db")

    def use():
        Ledger.open(path, account="orders").reserve(Mechanism(Fraction(1, 10**9)))

    assert [finished(process) for process in [child(use) for _ in range(6)]] == [0] * 6
    ledger = Ledger.open(path, account="orders")
    assert spent(ledger) == Fraction(SPENT["orders"] + 6, 10**9)
    assert len(ledger.statement().charges) == 5 + 6


@pytest.mark.parametrize("mode", ["wal", "delete"])
@pytest.mark.sample(4)
def test_migrations_at_once_of_which_some_are_killed_lose_nothing(tmp_path, mode):
    """Some are killed at random statements, some go on; an older process may have the file open, and copies are made meanwhile."""
    chance = random.Random(11)
    for attempt in range(4):
        path = old_file(tmp_path / f"{attempt}.db", mode)

        def use(fatal, path=path):
            if fatal is not None:
                Counter(fatal).install()
            ledger = Ledger.open(path, account="orders")
            with ledger.reserve(Mechanism(Fraction(1, 10**9))) as charge:
                charge.release(Mechanism(Fraction(1, 10**9)), [1], entropy=REAL)

        def look(path=path, attempt=attempt):
            ledger = Ledger.open(path, account="alarms")
            assert ledger.remaining == Fraction(ALLOWANCE - SPENT["alarms"], 10**9)
            ledger.backup(tmp_path / f"copy-{attempt}-{os.getpid()}.db")

        fatals = [chance.randrange(90) for _ in range(4)]
        doomed = [child(lambda fatal=fatal: use(fatal)) for fatal in fatals]
        others = [child(lambda: use(None)) for _ in range(2)] + [child(look)]
        codes = [finished(process) for process in doomed]
        assert set(codes) <= {0, -9}
        assert [finished(process) for process in others] == [0] * 3
        ledger = Ledger.open(path, account="orders")
        mine = [line for line in ledger.statement().charges if line.label == "Mechanism"]
        assert 2 + codes.count(0) <= len(mine) <= 2 + len(codes)
        assert spent(ledger) == Fraction(SPENT["orders"] + len(mine), 10**9)
        assert spent(Ledger.open(path, account="alarms")) == Fraction(SPENT["alarms"], 10**9)
        [copy] = tmp_path.glob(f"copy-{attempt}-*.db")
        assert spent(Ledger.open(copy, account="alarms")) == Fraction(SPENT["alarms"], 10**9)


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.slow
def test_a_kill_at_every_boundary_leaves_the_old_file_or_the_new_one(tmp_path, stride):
    counter = Counter()
    with pytest.MonkeyPatch.context() as patch:
        template = old_file(tmp_path / "template.db", "delete")
        path = str(shutil.copy(template, tmp_path / "dry.db"))
        counter.install(patch.setattr)
        Ledger.open(path, account="orders")
        sqlite.close_all()
    commit = counter.seen.index("after DROP TABLE old_account")
    assert len(counter.seen) > commit + 4 > 60
    for fatal in {*range(0, len(counter.seen), stride), *range(commit - 3, len(counter.seen))}:
        path = str(shutil.copy(template, tmp_path / f"{fatal}.db"))

        def killed(path=path, fatal=fatal):
            Counter(fatal).install()
            Ledger.open(path, account="orders")
            sqlite.close_all()

        assert in_child(killed) == -9
        assert raw(path, "PRAGMA user_version") == [(1,) if fatal <= commit + 1 else (schema.VERSION,)], (
            counter.seen[fatal]
        )
        if fatal % 21 == 0 or fatal >= commit - 1:
            check_migrated(path)
            sqlite.close_all()


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE])
def test_a_failure_on_the_way_leaves_the_old_file(tmp_path, monkeypatch, code):
    path = old_file(tmp_path / "budget.db", "delete")
    before = dumped(path)
    for words in (
        "ALTER",
        "CREATE TABLE",
        "INSERT INTO account",
        "INSERT INTO event",
        "INSERT INTO charge",
        "UPDATE account",
        "DROP",
    ):
        with monkeypatch.context() as patch:
            failed = failing(patch, code, lambda sql, words=words: sql.startswith(words))
            refused(lambda: Ledger.open(path, account="orders"), "budget.db' could not be")
            assert len(failed) == 1
        assert dumped(path) == before
    check_migrated(path)


def test_an_old_file_that_is_read_only_is_left_as_it_is():
    with tempfile.TemporaryDirectory() as folder:
        path = old_file(Path(folder) / "budget.db", "delete")
        before = Path(path).read_bytes()
        Path(path).chmod(0o444)
        Path(folder).chmod(0o755)

        def unprivileged():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            for use in (lambda: Ledger.open(path, account="orders"), lambda: Ledger.accounts(path)):
                refused(use, "is read-only, and charges must be written to it")

        assert in_child(unprivileged) == 0
        assert Path(path).read_bytes() == before
        Path(path).chmod(0o644)
        check_migrated(path)


def test_a_history_that_was_migrated_is_guarded_like_any_other(tmp_path):
    path = old_file(tmp_path / "budget.db")
    ledger = Ledger.open(path, account="orders")
    head = ledger.statement().head
    with pytest.raises(sqlite3.DatabaseError):
        raw(path, "UPDATE event SET amount = 0")
    raw(path, "DROP TRIGGER event_update")
    raw(path, "UPDATE event SET amount = amount - 1 WHERE account = 'orders' AND number = 2")
    assert not ledger.verify(head=head).sound
