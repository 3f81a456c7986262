"""What can happen to the file under a ledger, and to the process above it."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import sys
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger.fakes import (
    REAL,
    Mechanism,
    charge_some,
    child,
    finished,
    in_child,
    in_threads,
    make,
    raw,
    refused,
    spent,
)
from sordino.cost import Pure
from sordino.errors import LedgerConflict
from sordino.ledger import Ledger
from sordino.ledger.store import journal, sqlite

SMALL = Fraction(1, 1000)


def test_a_file_that_was_replaced_is_another_ledger(tmp_path):
    ledger = make(tmp_path / "budget.db", 1)
    ledger.reserve(Mechanism(0.5))
    other = make(tmp_path / "other.db", 2)
    charge = ledger.reserve(Mechanism(0.25))
    sqlite.close_all()
    assert ledger.remaining == Fraction(1, 4)  # its connection is kept again
    Path(other.url).replace(ledger.url)
    assert ledger.remaining == 2
    refused(lambda: charge.draw(Mechanism(0.1)), "elsewhere", LedgerConflict)
    ledger.reserve(Mechanism(0.5))
    assert spent(ledger) == Fraction(1, 2)
    assert Ledger.open(ledger.url, account="orders").remaining == Fraction(3, 2)


def test_a_ledger_of_the_same_name_about_something_else_is_not_charged(tmp_path):
    ledger = make(tmp_path / "budget.db", 1)
    assert ledger.remaining == 1
    other = Ledger.create(
        tmp_path / "other.db",
        account="orders",
        budget=ledger_budget(),
        adjacency="add-remove",
        unit="customer",
        source="/data/others.parquet",
    )
    sqlite.close_all()
    Path(other.url).replace(ledger.url)
    refused(
        lambda: ledger.reserve(Mechanism(0.1)),
        "is not the one that was opened; open it again. Nothing was read",
        LedgerConflict,
    )
    assert Ledger.open(ledger.url, account="orders").remaining == 1


def ledger_budget():
    from sordino.ledger import Budget

    return Budget(epsilon=1)


def test_a_file_that_was_deleted_is_missed(tmp_path):
    ledger = make(tmp_path / "budget.db")
    charge, mechanism = ledger.reserve(Mechanism(0.5)), Mechanism(0.5)
    Path(ledger.url).unlink()
    for call in (
        lambda: ledger.reserve(Mechanism(0.1)),
        lambda: charge.release(mechanism, [1], entropy=REAL),
        charge.settle,
        lambda: ledger.remaining,
        ledger.verify,
        lambda: list(ledger.history()),
    ):
        refused(call, "There is no ledger at")
    assert mechanism.noise == []
    assert not Path(ledger.url).exists()


@pytest.mark.slow
def test_somebody_in_this_process_may_read_the_file(tmp_path):
    """Closing any descriptor of a file drops all locks of the process on it: what is committed then must not be lost."""
    ledger = make(tmp_path / "budget.db", 1)
    assert ledger.remaining == 1
    keys = []
    for number in range(6):
        keys.append(ledger.reserve(Pure(epsilon=SMALL)).id)
        assert Path(ledger.url).read_bytes()  # as a backup does it
        if number % 2:

            def elsewhere():
                ledger.reserve(Pure(epsilon=SMALL))

            assert in_child(elsewhere) == 0
        other = f"import sordino as sd; sd.Ledger.open({ledger.url!r}, account='orders').reserve(sd.cost.Pure(epsilon=0.001))"
        assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", other]) == 0
        keys.append(ledger.reserve(Pure(epsilon=SMALL)).id)
    lines = ledger.statement().charges
    assert set(keys) <= {line.id for line in lines}
    assert (len(lines), spent(ledger)) == (12 + 6 + 3, 21 * SMALL)


def test_reading_the_file_at_every_statement_loses_nothing(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db", 1)
    assert ledger.remaining == 1
    sqlite.close_all()

    class Connection(sqlite3.Connection):
        def execute(self, sql, *arguments):
            Path(ledger.url).read_bytes()
            return super().execute(sql, *arguments)

    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Connection, **k))
        keys = []
        for _ in range(3):
            with ledger.reserve(Pure(epsilon=SMALL)) as charge:
                charge.release(Mechanism(SMALL), [1], entropy=REAL)
            keys.append(charge.id)
            assert in_child(lambda: ledger.reserve(Pure(epsilon=SMALL))) == 0
    sqlite.close_all()
    assert set(keys) <= {line.id for line in ledger.statement().charges}
    assert spent(ledger) == 6 * SMALL


def test_a_copy_that_is_made_between_two_charges_is_sound(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Mechanism(0.5))
    sqlite.close_all()
    shutil.copy(ledger.url, tmp_path / "copy.db")
    ledger.reserve(Mechanism(0.25))
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert (spent(copy), spent(ledger)) == (Fraction(1, 2), Fraction(3, 4))


def test_more_files_than_connections_are_kept(tmp_path):
    ledgers = [make(tmp_path / f"{k}.db") for k in range(3 * sqlite._MOST_OPEN_FILES)]
    charges = [ledger.reserve(Mechanism(0.5)) for ledger in ledgers]
    assert len(sqlite._open_files) <= sqlite._MOST_OPEN_FILES
    in_threads(
        [lambda c=c: (c.release(Mechanism(0.25), [1], entropy=REAL), c.settle()) for c in charges]
    )
    assert len(sqlite._open_files) <= sqlite._MOST_OPEN_FILES
    assert {spent(ledger) for ledger in ledgers} == {Fraction(1, 4)}


def test_one_connection_is_kept_and_used_again(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    sqlite.close_all()
    opened, connect = [], sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: opened.append(a) or connect(*a, **k))
    for _ in range(10):
        with ledger.reserve(Pure(epsilon=SMALL)) as charge:
            charge.draw(Pure(epsilon=SMALL))
    assert len(opened) == len(sqlite._open_files) == 1


def test_a_fork_finds_no_connection_and_waits_for_the_transaction(tmp_path):
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1

    def look():
        assert not sqlite._open_files
        ledger.reserve(Mechanism(0.1))
        # And its own children find none either.
        assert finished(child(lambda: ledger.reserve(Mechanism(0.1)))) == 0

    assert in_child(look) == 0
    assert spent(ledger) == Fraction(2, 10)


def test_a_fork_outside_of_python_is_noticed(tmp_path):
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    assert ledger.url in sqlite._open_files
    kept = sqlite._open_files[ledger.url]
    sqlite._open_files[ledger.url] = kept._replace(
        process=SimpleNamespace(is_here=lambda: False)
    )  # as a child sees it
    refused(lambda: ledger.reserve(Mechanism(0.1)), "was forked outside of Python")
    refused(lambda: ledger.remaining, "was forked outside of Python")
    sqlite._open_files[ledger.url] = kept
    assert spent(ledger) == 0


@pytest.mark.parametrize("method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_processes_of_multiprocessing_share_a_ledger(place, method):
    ledger, context = make(place), multiprocessing.get_context(method)
    ledger.reserve(Pure(epsilon=SMALL))
    processes = [context.Process(target=charge_some, args=(ledger, 5)) for _ in range(4)]
    for process in processes:
        process.start()
    charge_some(ledger, 5)
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    assert spent(ledger) == 26 * SMALL


LINE = "36 35 {device} / /data rw,noatime shared:1 - {kind} server:/export rw\n"


@pytest.mark.parametrize(
    ("kind", "is_network"),
    [
        ("nfs4", True),
        ("nfs", True),
        ("cifs", True),
        ("fuse.sshfs", True),
        ("ext4", False),
        ("overlay", False),
        ("tmpfs", False),
    ],
)
def test_network_file_systems_are_refused_before_anything_is_made(
    tmp_path, monkeypatch, kind, is_network
):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    here = LINE.format(device=f"{os.major(device)}:{os.minor(device)}", kind=kind)
    mounts.write_text(LINE.format(device="0:0", kind="nfs") + "broken line\n\n" + here)
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setattr(sqlite, "check_place", lambda path: journal.check_place(path, mounts))
    if not is_network:
        assert make(folder / "budget.db").remaining == 1
        return
    refused(lambda: make(folder / "budget.db"), f"is on a network file system ({kind})")
    refused(lambda: make(folder / "budget.db"), "share a ledger in PostgreSQL")
    assert not list(folder.iterdir())
    with monkeypatch.context() as patch:
        patch.setattr(sqlite, "check_place", journal.check_place)
        ledger = make(folder / "budget.db")
        sqlite.close_all()
    refused(lambda: ledger.reserve(Mechanism(0.1)), "is on a network file system")
    refused(lambda: Ledger.open(ledger.url, account="orders"), "is on a network file system")


def test_a_file_that_is_mounted_alone_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "a folder"
    folder.mkdir()
    mounts = tmp_path / "mountinfo"
    place = str(folder / "budget.db").replace(" ", "\\040")
    mounts.write_text(f"36 35 0:0 / {place} rw - ext4 /dev/x rw\n")
    monkeypatch.setattr(sqlite, "check_place", lambda path: journal.check_place(path, mounts))
    refused(lambda: make(folder / "budget.db"), "is mounted as a single file")
    assert make(folder / "other.db").remaining == 1


def test_a_file_with_two_names_is_refused(tmp_path):
    """Each name would have a journal of its own."""
    ledger = make(tmp_path / "budget.db")
    sqlite.close_all()
    os.link(ledger.url, tmp_path / "twin.db")
    for path in (ledger.url, tmp_path / "twin.db"):
        refused(lambda path=path: Ledger.open(path, account="orders"), "has 2 names (hard links)")
    (tmp_path / "twin.db").unlink()
    assert spent(ledger) == 0


def test_a_symbolic_link_is_the_same_ledger(tmp_path):
    ledger = make(tmp_path / "budget.db")
    (tmp_path / "link.db").symlink_to(ledger.url)
    linked = Ledger.open(tmp_path / "link.db", account="orders")
    for _ in range(4):
        ledger.reserve(Pure(epsilon=SMALL))
        linked.reserve(Pure(epsilon=SMALL))
        assert in_child(lambda: linked.reserve(Pure(epsilon=SMALL))) == 0
    assert spent(ledger) == spent(linked) == 12 * SMALL


def test_the_rows_cannot_be_reached_under_the_ledger_by_mistake(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Mechanism(0.5))
    assert raw(ledger.url, "SELECT count(*) FROM sqlite_master WHERE type = 'trigger'") == [(5,)]
    assert raw(ledger.url, "SELECT spent FROM account") == [(500_000_000,)]
