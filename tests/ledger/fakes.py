"""Mechanisms, entropy and a look behind the back of the ledger; nothing here knows how a real mechanism works."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from sordino.cost import Pure
from sordino.errors import LedgerError
from sordino.ledger import Budget, Charge, Ledger
from sordino.ledger.store.store import NoLedgerError, TryAgainError
from sordino.sensitivity import COUNTING, Sensitivity

REPLACE = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
PLACE = {"adjacency": "add-remove", "unit": "customer", "source": "/data/orders.parquet"}
NANO = 10**9


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
    per_transcript: Any = True
    error: Exception | None = None
    noise: list[int] = field(default_factory=list, compare=False)

    @property
    def cost(self) -> Pure:
        return Pure(epsilon=self.epsilon)

    def release(self, answers: Any, *, entropy: Any) -> Result:
        self.noise.append(1)
        if self.error is not None:
            raise self.error
        return Result(
            Pure(epsilon=self.epsilon if self.spends is None else self.spends), self.simulated
        )


@dataclass(frozen=True)
class Marking:
    """A mechanism that leaves a mark in the file system when it draws noise, so that a crash cannot hide it."""

    epsilon: Fraction
    spends: Fraction
    mark: Path
    per_transcript: bool = True

    @property
    def cost(self) -> Pure:
        return Pure(epsilon=self.epsilon)

    def release(self, answers: Any, *, entropy: Any) -> Result:
        with self.mark.open("a") as mark:
            mark.write("x")
        return Result(Pure(epsilon=self.spends))


def make(path: Any, epsilon: Any = 1, account: str = "orders", **budget: Any) -> Ledger:
    return Ledger.create(path, account=account, budget=Budget(epsilon=epsilon, **budget), **PLACE)


def charge_some(ledger: Ledger, count: int) -> None:
    """Reserve a thousandth again and again; also run by processes that import this module."""
    for _ in range(count):
        ledger.reserve(Pure(epsilon=Fraction(1, 1000)))


def raw(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Run SQL behind the back of the ledger: ~ stands before its things, ? is a parameter."""
    if url.startswith("postgresql:"):
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(
                sql.replace("~", "sordino.").replace("?", "%s").encode(), parameters or None
            )
            return cursor.fetchall() if cursor.description else []
    connection = sqlite3.connect(url, isolation_level=None)
    try:
        return connection.execute(sql.replace("~", ""), parameters).fetchall()
    finally:
        connection.close()


def spent(ledger: Ledger) -> Fraction:
    """Return what is spent after checking that it is the sum of charges and shares, and that history and file are sound."""
    statement, url = ledger.statement(), ledger._store.address
    assert statement.spent == sum((line.charged for line in statement.charges), Fraction(0)) + sum(
        statement.shares.values()
    )
    assert 0 <= statement.spent <= statement.limit
    assert len({line.id for line in statement.charges}) == len(statement.charges)
    found = ledger.verify(head=statement.head)
    assert found.problems == ()
    # The same, from the tables and by other code.
    [(total,)] = raw(
        url,
        "SELECT coalesce(sum(coalesce(settled, reserved)), 0) FROM ~charge WHERE account = ?",
        ledger.account,
    )
    [(shares,)] = raw(
        url, "SELECT coalesce(sum(allowance), 0) FROM ~account WHERE parent = ?", ledger.account
    )
    assert Fraction(int(total) + int(shares), NANO) == statement.spent
    draws = raw(url, "SELECT draws FROM ~charge WHERE account = ?", ledger.account)
    [(events,)] = raw(
        url, "SELECT count(*) FROM ~event WHERE account = ? AND kind = 'draw'", ledger.account
    )
    assert sum(count for (count,) in draws) == events
    if not url.startswith("postgresql:"):
        assert raw(url, "PRAGMA integrity_check") == [("ok",)]
    return statement.spent


def refused(call: Callable[[], Any], says: str, kind: type[LedgerError] = LedgerError) -> str:
    with pytest.raises(LedgerError) as caught:
        call()
    known = {LedgerError: (LedgerError, NoLedgerError, TryAgainError)}.get(kind, (kind,))
    assert type(caught.value) in known
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


def resumed(charge: Charge) -> Charge:
    """Return the charge as it would be in a copy of the whole process, such as a virtual machine that was resumed twice."""
    twin = object.__new__(Charge)
    for name in Charge.__slots__:
        setattr(twin, name, getattr(charge, name))
    twin._spent = list(charge._spent)
    twin._lock = threading.Lock()
    return twin


def child(run: Callable[[], Any]) -> int:
    """Run something in a forked process and return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python 3.12 warns of threads that these children never use
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


def in_threads(jobs: list[Callable[[], Any]]) -> None:
    """Run jobs at the same time; an error of one is an error of the test."""
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            job()
        except BaseException as error:  # noqa: BLE001  (raised again below)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
