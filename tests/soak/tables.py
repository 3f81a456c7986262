"""What a ledger holds, read from its tables without any code of the library."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import psycopg

from soak.amounts import Sums


class Event(NamedTuple):
    number: int
    kind: str
    charge: str
    amount: int
    spent: int
    allowance: int
    head: str
    body: str
    sums: str = ""
    """Of an account with a delta what it adds, and what is spent and allowed afterwards: eight numbers."""

    @property
    def more(self) -> list[int]:
        return [int(word) for word in self.sums.split(",")] if self.sums else [0] * 8

    @property
    def moved(self) -> Sums:
        """What it is about."""
        return _sums(self.amount, *self.more[:3])

    @property
    def after(self) -> Sums:
        """What is spent afterwards."""
        return _sums(self.spent, self.more[3], self.more[5], self.more[7])

    @property
    def limits(self) -> Sums:
        return _sums(self.allowance, max(0, self.more[4]), self.more[6], int(self.more[4] < 0))


class Charge(NamedTuple):
    id: str
    account: str
    number: int
    state: str
    reserved: int
    drawn: int
    draws: int
    settled: int | None
    pure_reserved: int = 0
    pure_drawn: int = 0
    pure_settled: int = 0
    failing_reserved: int = 0
    failing_drawn: int = 0
    impure: int = 0

    @property
    def asked(self) -> Sums:
        """What was reserved."""
        return _sums(self.reserved, self.pure_reserved, self.failing_reserved, self.impure)

    @property
    def used(self) -> Sums:
        """What was drawn."""
        return _sums(self.drawn, self.pure_drawn, self.failing_drawn, self.impure)

    @property
    def charged(self) -> Sums:
        """What it counts as."""
        if self.settled is None:
            return self.asked
        return _sums(self.settled, self.pure_settled, self.failing_drawn, self.impure)


class Account(NamedTuple):
    name: str
    parent: str | None
    allowance: int
    spent: int
    number: int
    head: str
    meter: str = "pure"
    pure_limit: int = 0
    pure_spent: int = 0
    failing_limit: int = 0
    failing_spent: int = 0
    impure: int = 0
    alpha: str = ""

    @property
    def limits(self) -> Sums:
        return _sums(
            self.allowance, max(0, self.pure_limit), self.failing_limit, int(self.pure_limit < 0)
        )

    @property
    def sums(self) -> Sums:
        return _sums(self.spent, self.pure_spent, self.failing_spent, self.impure)

    @property
    def either(self) -> bool:
        """Whether one of its two sums within its limit is enough."""
        return self.meter == "renyi" and self.parent is None and not self.of_rhos

    @property
    def of_rhos(self) -> bool:
        """Whether it keeps deltas beside rhos, and no epsilons."""
        return self.meter == "renyi" and self.alpha == "1"


def _sums(main: int, pure: int, failing: int, impure: int = 0) -> Sums:
    return Sums(Fraction(main), Fraction(pure), Fraction(failing), impure)


@dataclass
class Tables:
    """All rows; events by their account and in order."""

    accounts: dict[str, Account]
    charges: dict[str, Charge]
    events: dict[str, list[Event]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    """What each charge is called, by its id."""
    damaged: str = ""


def of(url: str) -> Tables:
    """Read a ledger while nobody writes it."""
    if "://" in url:
        with psycopg.connect(url) as connection:
            return _read(lambda sql: connection.execute(sql.replace("~", "sordino.").encode()))
    with closing(sqlite3.connect(url)) as file:
        tables = _read(lambda sql: file.execute(sql.replace("~", "")))
        found = file.execute("PRAGMA integrity_check").fetchall()
        tables.damaged = "" if found == [("ok",)] else str(found[:1])
        return tables


def _read(ask: Callable[[str], Iterable[Any]]) -> Tables:
    accounts = [Account(*row) for row in ask(f"SELECT {', '.join(Account._fields)} FROM ~account")]
    charges = [
        Charge(*row) for row in ask(f"SELECT {', '.join(Charge._fields)} FROM ~charge ORDER BY id")
    ]
    tables = Tables(
        {account.name: account for account in accounts}, {charge.id: charge for charge in charges}
    )
    asked = "SELECT account, number, kind, charge, amount, spent, allowance, head, body, sums FROM ~event ORDER BY account, number"
    for name, *row in ask(asked):
        event = Event(*row)
        tables.events.setdefault(name, []).append(event)
        if event.kind == "reserve":
            tables.labels[event.charge] = json.loads(event.body).get("label", "")
    return tables
