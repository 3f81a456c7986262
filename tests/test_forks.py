"""A release, a question and a filter belong to one process, whenever a fork is made and whatever its number is."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import sordino as sd
import sordino.process as process_module
from sordino.accounting import PureFilter
from sordino.entropy import System
from sordino.process import Process

UNIT = sd.PrivacyUnit.row(adjacency="replace-one")
COUNTED = sd.GaussianSparseVector(
    threshold=10, positives=2, questions=9, rho=0.5, sensitivity=sd.COUNTING
)
PLAIN = sd.SparseVector(threshold=10, positives=2, epsilon=1, sensitivity=sd.COUNTING)


def fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of threads that are not used here
        process = os.fork()
    if not process:
        signal.alarm(30)
    return process


def in_both(run: Callable[[], Any], forks: list[int]) -> tuple[str, str]:
    """Return what `run`, in the middle of which a fork is made, does here and in the fork."""
    reader, writer = os.pipe()
    try:
        run()
        said = "released"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        said = type(error).__name__
    finally:
        if forks and not forks[0]:
            try:
                os.write(writer, said.encode())
            finally:
                os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        theirs = pipe.read()
    assert forks
    os.waitpid(forks[0], 0)
    return said, theirs


@pytest.fixture
def forks(monkeypatch):
    """Fork when noise is drawn for the first time; what is handed out stands in the list."""
    made: list[int] = []
    words = System.words

    def forking(self, n):
        if not made:
            made.append(fork())
        return words(self, n)

    monkeypatch.setattr(System, "words", forking)
    return made


@pytest.fixture
def rows(tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("x\n" + "".join(f"{row % 100}\n" for row in range(60_000)))
    return table


@pytest.fixture
def ledger(tmp_path, rows):
    return sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=9),
        unit=UNIT,
        source=rows,
        adjacency="replace-one",
    )


def test_of_a_charge_that_is_forked_while_it_releases_one_process_gets_the_release(ledger, forks):
    mechanism = sd.LaplaceMechanism(
        epsilon=1,
        sensitivity=sd.Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1),
    )
    with ledger.reserve(mechanism, label="x", adjacency="replace-one") as charge:
        assert in_both(lambda: charge.release(mechanism, 7), forks) == (
            "released",
            "LedgerConflict",
        )
    assert ledger.remaining == 8


@pytest.mark.parametrize(
    "mechanism",
    [PLAIN, COUNTED],
    ids=lambda one: type(one).__name__,
)
def test_of_a_question_that_is_forked_one_process_gets_the_verdict(mechanism, monkeypatch):
    made = []
    with mechanism.open() as stream:
        inner = getattr(stream, "_stream", stream)
        answered = type(inner)._answered

        def forking(self, *given):
            found = answered(self, *given)
            made.append(fork())
            return found

        monkeypatch.setattr(type(inner), "_answered", forking)
        assert in_both(lambda: stream.ask(3), made) == ("released", "StreamClosed")


@pytest.mark.parametrize("where", ["write", "noise"])
def test_records_are_reported_by_one_process(rows, ledger, where):
    made: list[int] = []
    blocks: list[int] = []

    def write(block):
        blocks.append(block.size)
        if where == "write" and not made:
            made.append(fork())

    def run():
        with sd.Session(rows, unit=UNIT, ledger=ledger) as session:
            session.randomize("x", lower=0, upper=100, epsilon=1, write=write)
        assert sum(blocks) == 60_000

    with pytest.MonkeyPatch.context() as patch:
        if where == "noise":
            words = System.words

            def forking(self, n):
                if blocks and not made:
                    made.append(fork())
                return words(self, n)

            patch.setattr(System, "words", forking)
        # In the fork neither `write` nor the result is reached any more.
        assert in_both(run, made) == ("released", "StreamClosed")
    assert ledger.remaining == 8


def test_a_fork_with_the_same_number_is_another_process(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(process_module, "_birth", process_module._Birth())
    home, limits = Process(), PureFilter(epsilon=1)
    stream = PLAIN.open()
    counted = COUNTED.open()
    process = fork()
    if not process:
        code = 1
        try:
            refused = 0
            for ask in (
                lambda: stream.ask(1),
                lambda: counted.ask(1),
                lambda: limits.spend(sd.cost.Pure(epsilon=1)),
            ):
                try:
                    ask()
                except sd.SordinoError:
                    refused += 1
            code = 0 if refused == 3 and not home.is_here() and Process().is_here() else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert home.is_here()
    stream.ask(1)
    counted.ask(1)
    limits.spend(sd.cost.Pure(epsilon=1))


def test_a_process_that_was_forked_outside_of_python_is_another_one(monkeypatch):
    home = Process()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not home.is_here()
