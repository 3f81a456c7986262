"""Locked, full, read-only, damaged: one clear sentence, nothing charged that was not said, no noise."""

from __future__ import annotations

import os
import resource
import sqlite3
import tempfile
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import REAL, Mechanism, in_child, make, refused, spent
from sordino.cost import Pure
from sordino.errors import LedgerError
from sordino.ledger import _sqlite as sqlite_module


def test_a_locked_ledger_says_so(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    charge = ledger.reserve(Mechanism(0.1))
    mechanism = Mechanism(0.1)
    monkeypatch.setattr(sqlite_module, "_TIMEOUT", 0.05)
    other = sqlite3.connect(ledger.url, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused(lambda: ledger.reserve(Mechanism(0.1)), "was locked by another process for longer than 0.05 seconds")
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
    with monkeypatch.context() as patch:
        full_by_pages(patch)
        refused(lambda: ledger.reserve(Mechanism(1), detail=long), "because the disk is full")
    assert spent(ledger) == 1
    charge.settle()
    assert spent(ledger) == 0


def test_a_file_that_may_not_grow_charges_nothing_and_releases_nothing(tmp_path):
    ledger = make(tmp_path / "budget.db", 100)
    charge = ledger.reserve(Mechanism(1))

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        mechanism = Mechanism(1)
        charge._process = os.getpid()  # stands for the process that reserved it
        for use in (lambda: ledger.reserve(Mechanism(1)), lambda: charge.release(mechanism, [1], entropy=REAL), charge.settle):
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
    raw = bytearray(Path(ledger.url).read_bytes())
    raw[4096:] = b"\xa5" * (len(raw) - 4096)
    Path(ledger.url).write_bytes(raw)
    refused(ledger.statement, "is damaged")
    refused(lambda: ledger.reserve(Mechanism(0.1)), "is damaged")
