"""A ledger where nothing can be written: it can be looked at, says what is wrong, and draws no noise."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path

import pytest

from ledger.fakes import REAL, Mechanism, in_child, make, refused, spent
from ledger.test_moved_files import hot, older
from sordino.errors import LedgerError
from sordino.ledger import Ledger
from sordino.ledger.store import sqlite
from sordino.process import Process


@pytest.fixture
def folder():
    """Return a folder that other users can reach, too."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)
        Path(name).chmod(0o755)


@contextmanager
def closed_to_writing(folder, *, files=0o444):
    """Let nobody write into a folder and its files while the block runs."""
    sqlite.close_all()
    for file in folder.iterdir():
        file.chmod(files)
    folder.chmod(0o555)
    yield
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def as_somebody(run):
    """Run something as a user who owns nothing of it, or as this one who may not write either."""

    def unprivileged():
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        run()

    assert in_child(unprivileged) == 0


def test_a_ledger_that_may_only_be_read_is_read_and_not_charged(folder):
    ledger, mechanism = make(folder / "budget.db"), Mechanism(0.25)
    charge = ledger.reserve(mechanism)

    def look():
        charge._process = Process()  # stands for the process that reserved it
        assert ledger.remaining == Fraction(3, 4)
        assert ledger.verify().sound
        assert len(ledger.statement().charges) == 1
        for use in (
            lambda: ledger.reserve(Mechanism(0.1)),
            lambda: charge.release(mechanism, [1], entropy=REAL),
            charge.settle,
            lambda: ledger.grant("team", 0.1),
            lambda: ledger.void(charge.id, reason="test"),
        ):
            refused(use, "is read-only, and charges must be written to it")
        refused(lambda: make(folder / "other.db"), "cannot be")
        refused(lambda: ledger.backup(folder / "copy.db"), "A backup cannot be made at")
        with tempfile.TemporaryDirectory() as place:
            copied = (
                Ledger.open(place + "/copy.db", account="orders")
                if ledger.backup(place + "/copy.db")
                else None
            )
            assert copied.remaining == Fraction(3, 4)
        assert mechanism.noise == []

    with closed_to_writing(folder):
        as_somebody(look)
    assert spent(ledger) == Fraction(1, 4)


def test_half_of_a_write_is_not_undone_by_who_may_not_write_and_nothing_is_read_of_it(folder):
    ledger = make(folder / "budget.db")
    ledger.reserve(Mechanism(0.25))
    sqlite.close_all()
    journal = Path(f"{ledger.url}-journal")
    journal.write_bytes(hot(journal.read_bytes()))
    before = Path(ledger.url).read_bytes()

    def look():
        for use in (
            lambda: ledger.remaining,
            ledger.verify,
            lambda: ledger.reserve(Mechanism(0.1)),
        ):
            refused(use, "holds half of a write that a killed process has left")

    with closed_to_writing(folder):
        as_somebody(look)
    assert Path(ledger.url).read_bytes() == before
    assert spent(ledger) == 0  # undone by who may
    ledger.reserve(Mechanism(0.25))


def test_a_file_without_a_journal_in_a_folder_that_takes_none(folder):
    ledger = make(folder / "budget.db")
    ledger.reserve(Mechanism(0.25))
    sqlite.close_all()
    Path(f"{ledger.url}-journal").unlink()

    def use():
        assert ledger.remaining == Fraction(3, 4)
        refused(lambda: ledger.reserve(Mechanism(0.1)), "is read-only")

    with closed_to_writing(folder, files=0o666):
        as_somebody(use)
    assert spent(ledger) == Fraction(1, 4)


def test_a_file_of_an_older_version_that_may_only_be_read_says_so(folder):
    ledger = make(folder / "budget.db")
    older(ledger.url)

    def look():
        for use in (lambda: ledger.remaining, lambda: ledger.reserve(Mechanism(0.1))):
            with pytest.raises(
                LedgerError,
                match=r"cannot be opened; this user must be able to write|is read-only, and charges",
            ):
                use()

    with closed_to_writing(folder):
        as_somebody(look)
    ledger.reserve(Mechanism(0.25))
    assert spent(ledger) == Fraction(1, 4)


@pytest.mark.parametrize("mode", [0o000, 0o222])
def test_a_file_that_may_not_even_be_read_says_so(folder, mode):
    ledger = make(folder / "budget.db")

    def look():
        for use in (lambda: ledger.remaining, lambda: ledger.reserve(Mechanism(0.1))):
            refused(use, "cannot be opened")

    with closed_to_writing(folder, files=mode):
        as_somebody(look)
    assert spent(ledger) == 0
