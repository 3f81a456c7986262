"""Copies of a ledger that is being charged: each holds everything that was charged before, and never takes the place of a file."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import stat
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from ledger.fakes import child, finished, in_child, make, raw, refused, spent
from ledger.test_moved_files import in_log, older
from sordino.cost import Pure
from sordino.errors import InvalidParameter
from sordino.ledger import Ledger
from sordino.ledger.store import backup, sqlite
from sordino.ledger.store.backup import _find_rights

TINY = Fraction(1, 10**6)


def charging(ledger, log, stop):
    """Charge until there is a file `stop`; write each charge down when it is drawn."""
    with log.open("a") as drawn:
        while not stop.exists():
            with ledger.reserve(Pure(epsilon=TINY)) as charge:
                charge.draw(Pure(epsilon=TINY))
                drawn.write(f"{charge.id}\n")
                drawn.flush()


@pytest.mark.slow
def test_a_copy_holds_everything_that_was_drawn_before_it_was_made(tmp_path):
    ledger, stop = make(tmp_path / "budget.db", 1000), tmp_path / "stop"
    logs = [tmp_path / f"log-{k}" for k in range(3)]
    writers = [child(lambda log=log: charging(ledger, log, stop)) for log in logs]
    try:
        for number in range(6):
            before = {line for log in logs if log.exists() for line in log.read_text().split()}
            heads = ledger.backup(tmp_path / f"copy-{number}.db")
            copy = Ledger.open(tmp_path / f"copy-{number}.db", account="orders")
            assert before <= {line.id for line in copy.statement().charges}
            assert copy.verify(head=heads["orders"]).sound
            assert ledger.verify(head=heads["orders"]).sound  # it is a beginning of the ledger
            assert spent(copy) <= ledger.statement().spent
    finally:
        stop.touch()
    assert [finished(writer) for writer in writers] == [0] * 3
    assert len(before) > 6
    copy.reserve(Pure(epsilon=TINY))  # and it can be charged
    assert copy.verify(head=heads["orders"]).sound


def test_a_copy_is_one_file_with_every_account(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.grant("red", 0.5)
    make(ledger.url, 2, "alarms")
    folder = tmp_path / "folder"
    folder.mkdir()
    heads = ledger.backup(folder / "copy.db")
    assert list(folder.iterdir()) == [folder / "copy.db"]
    assert heads == {
        name: Ledger.open(ledger.url, account=name).statement().head
        for name in ("alarms", "orders", "red")
    }
    assert Ledger.accounts(folder / "copy.db") == ("alarms", "orders", "red")
    assert (folder / "copy.db").stat().st_mode == Path(ledger.url).stat().st_mode


@pytest.mark.parametrize("end", ["", "-journal", "-wal"])
@pytest.mark.parametrize("kind", ["file", "folder", "link to nothing"])
@pytest.mark.each_value
def test_what_is_there_is_left_as_it_is(tmp_path, kind, end):
    ledger, target = make(tmp_path / "budget.db"), tmp_path / "copy.db"
    other = tmp_path / f"copy.db{end}"
    if kind == "file":
        other.write_text("mine")
    elif kind == "folder":
        other.mkdir()
    else:
        other.symlink_to(tmp_path / "nothing")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(InvalidParameter, match="must go to a new file"):
        ledger.backup(target)
    assert sorted(tmp_path.iterdir()) == before
    assert kind != "file" or other.read_text() == "mine"
    with pytest.raises(InvalidParameter, match="exists already"):
        ledger.backup(ledger.url)
    assert spent(ledger) == 0


def test_a_copy_that_cannot_be_made_leaves_nothing(tmp_path):
    ledger = make(tmp_path / "budget.db")
    for k in range(10):
        ledger.reserve(Pure(epsilon=0.01), label=f"charge {k}" * 20)
    refused(lambda: ledger.backup(tmp_path / "none" / "copy.db"), "Choose another folder")
    folder = tmp_path / "folder"
    folder.mkdir()

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        refused(
            lambda: ledger.backup(folder / "copy.db"),
            f"The ledger at '{folder}/copy.db' could not be",
        )
        assert list(folder.iterdir()) == []

    assert in_child(limited) == 0
    assert spent(ledger) == Fraction(1, 10)


def test_a_copy_whose_maker_is_killed_is_no_ledger(tmp_path):
    ledger = make(tmp_path / "budget.db")
    for k in range(10):
        ledger.reserve(Pure(epsilon=0.01), label=f"charge {k}" * 20)

    def doomed():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, resource.RLIM_INFINITY))
        ledger.backup(tmp_path / "copy.db")

    assert in_child(doomed) == -signal.SIGXFSZ
    refused(lambda: Ledger.open(tmp_path / "copy.db", account="orders"), "is not a sordino ledger")


def test_a_ledger_that_holds_half_of_a_write_is_not_copied(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")
    raw(ledger.url, "UPDATE account SET number = number + 1")
    refused(lambda: ledger.backup(tmp_path / "copy.db"), "holds half of a write")
    raw(ledger.url, "UPDATE account SET number = number - 1")

    def unreadable(connection):
        raise sqlite3.DatabaseError("said by a test")

    with monkeypatch.context() as patch:
        patch.setattr(backup, "is_whole", unreadable)
        refused(lambda: ledger.backup(tmp_path / "copy.db"), "is damaged")
    assert not (tmp_path / "copy.db").exists()
    assert ledger.backup(tmp_path / "copy.db")


def test_what_an_older_process_has_in_its_log_is_in_the_copy(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    older(ledger.url)
    with closing(in_log(ledger.url)) as process:
        process.execute("UPDATE account SET unit = 'in the log'")
        ledger.backup(tmp_path / "copy.db")
        assert b"in the log" not in Path(ledger.url).read_bytes()
    sqlite.close_all()
    copy = Ledger.open(tmp_path / "copy.db", account="orders")
    assert copy.statement().unit == "in the log"
    copy.reserve(Pure(epsilon=TINY))
    assert copy.remaining == 1 - 2 * TINY


def test_a_reader_who_may_not_write_can_copy(tmp_path):
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    sqlite.close_all()
    Path(ledger.url).chmod(0o444)
    heads = ledger.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").stat().st_mode & 0o200
    assert Ledger.open(tmp_path / "copy.db", account="orders").verify(head=heads["orders"]).sound


def test_a_ledger_on_a_server_says_what_copies_it(server, tmp_path):
    ledger = make(server)
    with pytest.raises(InvalidParameter, match="pg_dump --schema=sordino"):
        ledger.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


# ---- rights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rights", [0o600, 0o640, 0o660, 0o644, 0o604, 0o400])
def test_nobody_may_read_a_copy_who_may_not_read_the_ledger(tmp_path, monkeypatch, rights):
    """From its first byte on: what was kept in the ledger is in the copy."""
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    sqlite.close_all()
    Path(ledger.url).chmod(rights)
    seen, replace = [], Path.replace

    def watch(self, target):
        seen.append(stat.S_IMODE(self.stat().st_mode))
        return replace(self, target)

    connect = sqlite3.connect

    def connected(name, *arguments, **options):
        seen.extend(stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "copies").iterdir())
        return connect(name, *arguments, **options)

    (tmp_path / "copies").mkdir()
    monkeypatch.setattr(Path, "replace", watch)
    monkeypatch.setattr(sqlite3, "connect", connected)
    before = os.umask(0)
    try:
        ledger.backup(tmp_path / "copies" / "copy.db")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "copies" / "copy.db").stat().st_mode) == rights | 0o600
    assert len(seen) >= 3
    assert {mode & ~(rights | 0o600) for mode in seen} == {0}


@pytest.mark.parametrize(
    ("rights", "left"),
    [
        (0o660, 0o600),
        (0o644, 0o644),
        (0o664, 0o644),
        (0o604, 0o600),
        (0o600, 0o600),
        (0o646, 0o644),
    ],
)
def test_a_copy_of_another_group_gives_that_group_what_everybody_has(tmp_path, rights, left):
    """It belongs to the group of whoever makes it, or of its folder; those of the ledger's group are others there."""
    file = tmp_path / "budget.db"
    file.touch()
    file.chmod(rights)
    elsewhere = SimpleNamespace(st_gid=file.stat().st_gid + 1)
    assert oct(_find_rights(file, elsewhere)) == oct(left)


def test_a_journal_loses_the_rights_that_its_file_has_lost(tmp_path):
    """It holds old pages, and stays after each write."""
    ledger = make(tmp_path / "budget.db")
    ledger.reserve(Pure(epsilon=TINY))
    sqlite.close_all()
    journal = Path(f"{ledger.url}-journal")
    journal.chmod(0o644)
    Path(ledger.url).chmod(0o600)
    ledger.reserve(Pure(epsilon=TINY))
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
    journal.unlink()
    ledger.reserve(Pure(epsilon=TINY))
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600
