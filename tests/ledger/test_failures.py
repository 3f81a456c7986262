"""Locked, full, read-only, damaged: one clear sentence, nothing charged that was not said, no noise."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import REAL, Mechanism, in_child, make, refused, spent
from ledger.faults import POINTS, failing
from ledger.operations import happened, prepare
from sordino import receipt
from sordino.cost import Pure
from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger.store import sqlite as sqlite_module
from sordino.process import Process


def test_a_locked_ledger_says_so(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    charge = ledger.reserve(Mechanism(0.1))
    mechanism = Mechanism(0.1)
    monkeypatch.setattr(sqlite_module, "_LOCK_TIMEOUT", 0.05)
    sqlite_module.close_all()
    other = sqlite3.connect(ledger.url, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused(
        lambda: ledger.reserve(Mechanism(0.1)),
        "was locked by another process for longer than 0.05 seconds",
    )
    refused(lambda: charge.release(mechanism, [1], entropy=REAL), "was locked")
    refused(charge.settle, "was locked")
    assert ledger.remaining == Fraction(9, 10)
    other.execute("ROLLBACK")
    other.close()
    assert mechanism.noise == []
    charge.release(mechanism, [1], entropy=REAL)
    charge.settle()
    assert spent(ledger) == Fraction(1, 10)


def full_by_pages(monkeypatch):
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, sql, *arguments):
            if sql.startswith("BEGIN"):
                super().execute("PRAGMA max_page_count = 1").fetchone()
            return super().execute(sql, *arguments)

    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))


def test_a_full_disk_charges_nothing_and_releases_nothing(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db", 100)
    charge = ledger.reserve(Mechanism(1))
    long = {"domain": "x" * 20_000}
    sqlite_module.close_all()
    with monkeypatch.context() as patch:
        full_by_pages(patch)
        refused(lambda: ledger.reserve(Mechanism(1), detail=long), "because the disk is full")
    sqlite_module.close_all()
    assert spent(ledger) == 1
    charge.settle()
    assert spent(ledger) == 0


@pytest.mark.parametrize("name", POINTS)
@pytest.mark.sample(4)
def test_a_full_disk_at_every_write_changes_nothing(tmp_path, monkeypatch, name):
    """And so does an input/output error, at the statement or at its commit."""
    struck = prepare(name, make(tmp_path / "budget.db"), tmp_path / "mark")
    faults = [
        (sqlite3.SQLITE_FULL, point, False, "because the disk is full") for point in POINTS[name]
    ]
    faults += [
        (sqlite3.SQLITE_IOERR_WRITE, point, True, "an input/output error") for point in POINTS[name]
    ]
    faults += [
        (sqlite3.SQLITE_IOERR_FSYNC, "COMMIT", False, "an input/output error"),
        (sqlite3.SQLITE_FULL, "COMMIT", False, "disk is full"),
    ]
    for code, point, after, says in faults:
        words = point.replace("INSERT ", "INSERT INTO ")
        writing = []

        def chosen(sql, words=words, writing=writing):
            writing.append(sql.startswith(("INSERT", "UPDATE")))
            return sql.startswith(words) and (words != "COMMIT" or any(writing))

        with monkeypatch.context() as patch:
            failed = failing(patch, code, chosen, after=after)
            refused(struck.do, says)
            assert len(failed) == 1
        sqlite_module.close_all()
        assert (spent(struck.ledger), happened(name, struck.ledger)) == (struck.before, 0)
        assert struck.noise == (name in {"settle", "void", "keep"})
    struck.do()
    assert (spent(struck.ledger), happened(name, struck.ledger)) == (struck.after, 1)


@pytest.mark.parametrize("name", POINTS)
def test_an_error_after_the_commit_leaves_what_was_committed(tmp_path, monkeypatch, name):
    """Nobody knows then whether it is durable: it counts, and no noise is drawn on it."""
    struck = prepare(name, make(tmp_path / "budget.db"), tmp_path / "mark")
    used, writing = struck.noise, []

    def chosen(sql):
        writing.append(sql.startswith(("INSERT", "UPDATE")))
        return sql == "COMMIT" and any(writing)

    with monkeypatch.context() as patch:
        failing(patch, sqlite3.SQLITE_IOERR_FSYNC, chosen, after=True)
        refused(struck.do, "an input/output error")
    sqlite_module.close_all()
    assert (spent(struck.ledger), happened(name, struck.ledger), struck.noise) == (
        struck.after,
        1,
        used,
    )
    if name in {"draw", "settle", "keep"}:
        refused(struck.do, "elsewhere", LedgerConflict)
        assert (spent(struck.ledger), happened(name, struck.ledger), struck.noise) == (
            struck.after,
            1,
            used,
        )


@pytest.mark.parametrize("years", [-50, 50])
def test_a_clock_that_is_wrong_changes_the_text_only(place, monkeypatch, years):
    ledger = make(place)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return super().now(tz) + timedelta(days=365 * years)

    monkeypatch.setattr(receipt, "datetime", Clock)
    with ledger.reserve(Mechanism(0.5)) as charge:
        charge.release(Mechanism(0.5, spends=0.25), [1], entropy=REAL)
    ledger.void(ledger.reserve(Mechanism(0.1)).id, reason="test")
    monkeypatch.undo()
    ledger.reserve(Mechanism(0.125))
    first, _, last = ledger.statement().charges
    assert (first.time < last.time) == (years < 0)
    assert (first.settled, spent(ledger)) == (Fraction(1, 4), Fraction(3, 8))
    assert [event.number for event in ledger.history()] == list(range(1, 8))


def test_a_file_that_may_not_grow_charges_nothing_and_releases_nothing(tmp_path):
    ledger = make(tmp_path / "budget.db", 100)
    charge = ledger.reserve(Mechanism(1))

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        mechanism = Mechanism(1)
        charge._process = Process()  # stands for the process that reserved it
        for use in (
            lambda: ledger.reserve(Mechanism(1)),
            lambda: charge.release(mechanism, [1], entropy=REAL),
            charge.settle,
        ):
            with pytest.raises(LedgerError, match=r"could not be|disk is full"):
                use()
        assert mechanism.noise == []

    assert in_child(limited) == 0
    assert spent(ledger) == 1
    charge.settle()
    assert spent(ledger) == 0


def test_a_read_only_ledger_says_so_and_is_not_charged():
    with tempfile.TemporaryDirectory() as folder:
        ledger = make(Path(folder) / "budget.db")
        assert ledger.remaining == 1
        Path(ledger.url).chmod(0o444)
        Path(folder).chmod(0o755)

        def unprivileged():
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            with pytest.raises(LedgerError, match=r"is read-only|cannot be opened"):
                ledger.reserve(Mechanism(0.1))
            with pytest.raises(LedgerError, match=r"is read-only|cannot be opened"):
                make(ledger.url, 1, "other")

        assert in_child(unprivileged) == 0
        assert spent(ledger) == 0


def test_a_damaged_ledger_says_so(tmp_path):
    ledger = make(tmp_path / "budget.db")
    for k in range(40):
        ledger.reserve(Pure(epsilon=0.01), label=f"charge {k}" * 20)
    sqlite_module.close_all()
    raw = bytearray(Path(ledger.url).read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    Path(ledger.url).write_bytes(raw)
    refused(ledger.statement, "is damaged")
    refused(lambda: ledger.reserve(Mechanism(0.1)), "is damaged")


@pytest.mark.parametrize("spends", [0.1, 0.5])
def test_a_charge_that_cannot_be_settled_stays_in_full_and_its_release_is_not_lost(
    tmp_path, monkeypatch, spends, recwarn
):
    ledger = make(tmp_path / "budget.db")
    with monkeypatch.context() as patch:
        with ledger.reserve(Mechanism(0.5)) as charge:
            released = charge.release(Mechanism(0.5, spends=spends), [1], entropy=REAL)
            failing(
                patch,
                sqlite3.SQLITE_FULL,
                lambda sql: sql.startswith("UPDATE charge SET state = 'settled'"),
            )
        sqlite_module.close_all()
    assert released.simulated is False
    said = [str(warning.message) for warning in recwarn if warning.category is RuntimeWarning]
    assert len(said) == (spends < 0.5)  # nothing is lost where nothing would have come back
    assert all(
        "stays in full: it could not be settled" in words and "disk is full" in words
        for words in said
    )
    refused(charge.settle, "closed (charged in full)", LedgerConflict)
    assert spent(ledger) == Fraction(1, 2)
