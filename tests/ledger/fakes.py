"""Mechanisms, entropy and crashes for the tests of the ledger; nothing here knows how a real mechanism works."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sordino.cost import Pure
from sordino.errors import LedgerError
from sordino.ledger import Budget, Ledger
from sordino.sensitivity import COUNTING, Sensitivity

REPLACE = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
PLACE = {"adjacency": "add-remove", "unit": "customer", "source": "/data/orders.parquet"}


@dataclass(frozen=True)
class Entropy:
    simulated: bool = False


REAL = Entropy()


@dataclass(frozen=True)
class Result:
    cost: Any
    simulated: Any = False


@dataclass(frozen=True)
class Mechanism:
    """Notes every time it draws noise."""

    epsilon: Any = 0.1
    spends: Any = None
    simulated: Any = False
    sensitivity: Any = COUNTING
    exact: bool = True
    error: Exception | None = None
    noise: list[int] = field(default_factory=list, compare=False)

    @property
    def cost(self) -> Pure:
        return Pure(epsilon=self.epsilon)

    def release(self, answers: Any, *, entropy: Any) -> Result:
        self.noise.append(1)
        if self.error is not None:
            raise self.error
        return Result(Pure(epsilon=self.epsilon if self.spends is None else self.spends), self.simulated)


@dataclass(frozen=True)
class Marking:
    """A mechanism that leaves a mark in the file system when it draws noise, so that a crash cannot hide it."""

    epsilon: Fraction
    spends: Fraction
    mark: Path

    @property
    def cost(self) -> Pure:
        return Pure(epsilon=self.epsilon)

    def release(self, answers: Any, *, entropy: Any) -> Result:
        self.mark.touch()
        return Result(Pure(epsilon=self.spends))


def make(path: Any, epsilon: Any = 1, account: str = "orders") -> Ledger:
    return Ledger.create(path, account=account, budget=Budget(epsilon=epsilon), **PLACE)


def spent(ledger: Ledger) -> Fraction:
    """Return what is spent after checking that it is the sum of the charges and that the file is sound."""
    statement = ledger.statement()
    assert statement.spent == sum((line.charged for line in statement.charges), Fraction(0))
    assert 0 <= statement.spent <= statement.limit
    connection = sqlite3.connect(ledger.url)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    return statement.spent


def refused(call, says, kind=LedgerError):
    with pytest.raises(LedgerError) as caught:
        call()
    assert type(caught.value) is kind
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def child(run: Callable[[], Any]) -> int:
    """Run something in a forked process and return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads that these children never use
        process = os.fork()
    if process:
        return process
    code = 99
    signal.alarm(60)  # a child that waits for ever fails its test instead of stopping the suite
    try:
        run()
        code = 0
    except BaseException:  # noqa: BLE001  (a child must end here, whatever happened)
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def finished(process: int) -> int:
    """Wait for a child; return its exit code, or minus the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def in_child(run: Callable[[], Any]) -> int:
    return finished(child(run))


class Counter:
    """Counts the boundaries between statements in this process and kills it at the `fatal` one."""

    def __init__(self, fatal: int | None = None) -> None:
        self.seen: list[str] = []
        self.fatal = fatal
        counter = self

        class Connection(sqlite3.Connection):
            def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
                counter.boundary("before " + sql)
                cursor = super().execute(sql, *arguments)
                counter.boundary("after " + sql)
                return cursor

            def close(self) -> None:
                counter.boundary("before close")
                super().close()
                counter.boundary("after close")

        self.factory = Connection

    def boundary(self, name: str) -> None:
        if len(self.seen) == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append(name)

    def install(self, patch: Callable[[Any, str, Any], None] = setattr) -> None:
        connect = sqlite3.connect
        patch(sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=self.factory, **options))


def full_disk(patch: pytest.MonkeyPatch) -> None:
    """Let every transaction that needs a new page meet a full disk."""
    connect = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            if sql.startswith("INSERT"):
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return super().execute(sql, *arguments)

    patch.setattr(sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=Connection, **options))
