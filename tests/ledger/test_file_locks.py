"""Locks of a file: whoever copies the files of a ledger in a process that charges it takes SQLite's locks away; nobody is harmed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest

from ledger.fakes import REAL, Mechanism, child, finished, make, spent
from sordino.cost import Pure
from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger import Ledger
from sordino.ledger.store import sqlite
from support.interrupts import interrupted

TINY = Fraction(1, 10**6)


def copy_all(path):
    for end in ("", "-journal"):
        with Path(f"{path}{end}").open("rb") as file:
            file.read()


def charging(path, seconds, wait, counts):
    """Charge for some seconds while a thread reads the files of the ledger every `wait` seconds."""
    ledger, stop, end = (
        Ledger.open(path, account="orders"),
        threading.Event(),
        time.monotonic() + seconds,
    )

    def read():
        while not stop.wait(wait):
            try:
                copy_all(path)
            except OSError:
                continue

    thread = threading.Thread(target=read)
    if wait:
        thread.start()
    charged = 0
    try:
        while time.monotonic() < end:
            with ledger.reserve(Pure(epsilon=TINY)) as charge:
                charge.draw(Pure(epsilon=TINY))
            charged += 1
    finally:
        stop.set()
        if wait:
            thread.join()
    os.write(counts, f"{charged}\n".encode())


def storm(tmp_path, seconds):
    ledger = make(tmp_path / "budget.db", 1000)
    out, into = os.pipe()
    children = [
        child(lambda wait=wait: charging(ledger.url, seconds, wait, into))
        for wait in (0, 0.003, 0.01)
    ]
    assert [finished(one) for one in children] == [0, 0, 0]
    os.close(into)
    with os.fdopen(out) as said:
        charged = sum(int(line) for line in said)
    assert charged > 0
    assert spent(ledger) == charged * TINY
    assert len(ledger.statement().charges) == charged


def test_copying_the_files_of_a_ledger_harms_nobody(tmp_path):
    storm(tmp_path, 1.0)


@pytest.mark.slow
def test_copying_the_files_of_a_ledger_for_long_harms_nobody(tmp_path):
    storm(tmp_path, 15.0)


def can_be_locked(path):
    """Tell whether another process can take every lock there is on a file."""
    process = subprocess.run([sys.executable, "-c", LOCK, path], check=False)
    return process.returncode == 0


LOCK = """
import fcntl, sys
with open(sys.argv[1], "rb+") as file:
    for lock in (fcntl.flock, fcntl.lockf):
        try:
            lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(1)
"""


def test_a_connection_that_is_kept_holds_no_lock_that_could_be_lost(tmp_path):
    ledger = make(tmp_path / "budget.db")
    assert ledger.remaining == 1
    kept = sqlite._open_files[ledger.url]
    assert can_be_locked(ledger.url)
    for kind in ("read", "write"):
        with sqlite._run_transaction(ledger.url, kind):
            assert not can_be_locked(ledger.url)
        assert can_be_locked(ledger.url)
    copy_all(ledger.url)
    ledger.reserve(Pure(epsilon=TINY))
    assert sqlite._open_files[ledger.url].connection is kept.connection
    assert spent(ledger) == TINY


def test_one_writer_at_a_time_even_without_the_locks_of_sqlite(tmp_path):
    """The lock that is held is on the file itself, and the close of another handle does not drop it."""
    import fcntl

    ledger = make(tmp_path / "budget.db")
    with sqlite._run_transaction(ledger.url, "write"):
        copy_all(ledger.url)
        descriptor = os.open(ledger.url, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
    descriptor = os.open(ledger.url, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_nobody_else_can_use_a_charge(place):
    ledger = make(place)
    charge = ledger.reserve(Mechanism(0.5))
    thief = ledger.reserve(Mechanism(0.1))
    thief.id = charge.id
    for theft in (lambda: thief.draw(Mechanism(0.1)), thief.settle):
        with pytest.raises(LedgerConflict):
            theft()
    assert charge._key not in repr(charge)
    charge.release(Mechanism(0.5), [1], entropy=REAL)
    charge.settle()


def test_a_signal_handler_cannot_use_the_charge_that_is_in_use(place):
    ledger = make(place)
    charge = ledger.reserve(Mechanism(0.5))
    with charge._alone():
        for use in (charge.settle, lambda: charge.draw(Mechanism(0.1))):
            with pytest.raises(LedgerConflict, match="is being used"):
                use()
    charge.settle()


def test_a_release_is_not_lost_when_the_ledger_cannot_be_reached_any_more(tmp_path, monkeypatch):
    ledger = make(tmp_path / "budget.db")

    def gone(*_, **__):
        raise LedgerError("gone")

    with ledger.reserve(Mechanism(0.5)) as charge:
        released = charge.release(Mechanism(0.5), [1], entropy=REAL)
        monkeypatch.setattr(sqlite.SqliteStore, "apply", gone)
    assert released is not None  # all of it was drawn: nothing could have come back
    monkeypatch.undo()
    with (
        pytest.warns(RuntimeWarning, match="stays in full"),
        ledger.reserve(Mechanism(0.5)) as charge,
    ):
        monkeypatch.setattr(sqlite.SqliteStore, "apply", gone)
    monkeypatch.undo()
    assert spent(ledger) == 1


def test_a_signal_handler_in_the_middle_of_a_step_is_refused_and_harms_nobody(
    tmp_path, monkeypatch
):
    """It once closed the connection of the step, and the step closed a file that somebody had opened meanwhile."""
    ledger, other = make(tmp_path / "budget.db"), make(tmp_path / "other.db")
    counted, opened = sqlite.read_change_counter, []

    def interrupted(descriptor):
        """Stand for a signal that comes right after a transaction has begun."""
        monkeypatch.setattr(sqlite, "read_change_counter", counted)
        for use in (
            lambda: ledger.remaining,
            lambda: ledger.reserve(Pure(epsilon=TINY)),
            ledger.verify,
        ):
            with pytest.raises(LedgerConflict, match="signal handler"):
                use()
        # Other files, also so many that some are closed, go on.
        more = [make(tmp_path / f"{k}.db") for k in range(2 * sqlite._MOST_OPEN_FILES)]
        assert {one.remaining for one in (other, *more)} == {1}
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return counted(descriptor)

    monkeypatch.setattr(sqlite, "read_change_counter", interrupted)
    ledger.reserve(Pure(epsilon=TINY))
    assert spent(ledger) == TINY
    assert ledger.verify().sound
    assert os.read(opened[0], 1) == b"", "it is still open"
    os.close(opened[0])


def test_a_step_whose_connection_is_closed_under_it_closes_no_file_of_others(tmp_path, monkeypatch):
    """As a fork in a signal handler closes it."""
    ledger = make(tmp_path / "budget.db")
    counted, opened = sqlite.read_change_counter, []

    def interrupted(descriptor):
        monkeypatch.setattr(sqlite, "read_change_counter", counted)
        found = counted(descriptor)
        sqlite.close_all()
        # The number is used again, whichever others are free by then.
        other = os.open(os.devnull, os.O_RDONLY)
        if other != descriptor:
            os.dup2(other, descriptor)
            os.close(other)
        opened.append(descriptor)
        return found

    monkeypatch.setattr(sqlite, "read_change_counter", interrupted)
    with pytest.raises(LedgerError):
        ledger.reserve(Pure(epsilon=TINY))
    assert os.read(opened[0], 1) == b"", "it is still open"
    os.close(opened[0])
    assert spent(ledger) == 0


# ---- interrupts -----------------------------------------------------------------------------------------------------------


def test_a_path_that_an_interrupt_left_busy_is_free_again(tmp_path):
    """Between any two lines: also right before the path is marked as free."""
    path = str(tmp_path / "ledger.db")
    ledger = make(path, epsilon=1)
    left = 0
    for at in count(1):

        def use():
            with sqlite._take_turn(path):
                pass

        error = interrupted(use, at)
        left += path in sqlite._busy_paths
        assert ledger.remaining == 1
        assert not sqlite._busy_paths
        if error is None:
            break
    assert left, "the test has struck nowhere that matters"


@pytest.mark.parametrize("step", ["reserve", "draw", "settle"])
def test_an_interrupt_inside_of_a_hash_is_what_it_was(tmp_path, monkeypatch, step):
    """SQLite makes an error of its own of what its functions raise."""
    ledger = make(tmp_path / "ledger.db", epsilon=1)

    def strikes(covered):
        raise KeyboardInterrupt

    def charge():
        with monkeypatch.context() as patch:
            if step == "reserve":
                patch.setattr(sqlite, "chained", strikes)
            with ledger.reserve(Pure(epsilon=Fraction(1, 2))) as charge:
                if step == "draw":
                    patch.setattr(sqlite, "chained", strikes)
                charge.draw(Pure(epsilon=Fraction(1, 4)))
                if step == "settle":
                    patch.setattr(sqlite, "chained", strikes)

    with pytest.raises(KeyboardInterrupt):
        charge()
    assert ledger.remaining == (1 if step == "reserve" else Fraction(1, 2))
    assert not sqlite._interrupts
