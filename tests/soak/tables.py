"""What a ledger holds, read from its tables without any code of the library."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import psycopg


class Event(NamedTuple):
    number: int
    kind: str
    charge: str
    amount: int
    spent: int
    allowance: int
    head: str
    body: str


class Charge(NamedTuple):
    id: str
    account: str
    number: int
    state: str
    reserved: int
    drawn: int
    draws: int
    settled: int | None

    @property
    def charged(self) -> int:
        return self.reserved if self.settled is None else self.settled


class Account(NamedTuple):
    name: str
    parent: str | None
    allowance: int
    spent: int
    number: int
    head: str


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
    accounts = [
        Account(*row) for row in ask("SELECT name, parent, allowance, spent, number, head FROM ~account")
    ]
    charges = [
        Charge(*row)
        for row in ask(
            "SELECT id, account, number, state, reserved, drawn, draws, settled FROM ~charge ORDER BY id"
        )
    ]
    tables = Tables(
        {account.name: account for account in accounts}, {charge.id: charge for charge in charges}
    )
    asked = "SELECT account, number, kind, charge, amount, spent, allowance, head, body FROM ~event ORDER BY account, number"
    for name, *row in ask(asked):
        event = Event(*row)
        tables.events.setdefault(name, []).append(event)
        if event.kind == "reserve":
            tables.labels[event.charge] = json.loads(event.body).get("label", "")
    return tables
