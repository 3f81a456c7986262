"""Takes a ledger back to the schema of an older version, as that version has left it."""

from __future__ import annotations

import sqlite3
from typing import Any

from ledger.fakes import raw
from sordino.ledger.history import chained
from sordino.ledger.store import postgres, sqlite, sqlite_schema

# How schemas 2 and 3 charged: a process of theirs that has a file open goes on with these.
_OLD_HEAD = "head = chain(head || ' ' || (number + 1) || ' reserve ' || :charge || ' ' || :amount || ' ' || (spent + :amount) || ' ' || allowance || ' ' || :body)"
OLD_RESERVE = (
    f"UPDATE account SET spent = spent + :amount, number = number + 1, {_OLD_HEAD}"
    " WHERE name = :account AND :amount >= 0 AND spent <= allowance - :amount",
    "INSERT INTO charge (id, account, number, digest, lock, state, reserved, drawn, draws)"
    " SELECT :charge, name, number, :digest, :lock, 'reserved', :amount, 0, 0 FROM account WHERE name = :account",
    "INSERT INTO event (account, number, kind, charge, amount, spent, allowance, head, body)"
    " SELECT name, number, 'reserve', :charge, :amount, spent, allowance, head, :body FROM account WHERE name = :account",
)


def reserve_as_before(url: str, parameters: dict[str, Any]) -> None:
    """Charge a file as a process of schema 2 or 3 does that opened it before it was brought up to date."""
    connection = sqlite3.connect(url, isolation_level=None)
    connection.create_function("chain", 1, chained, deterministic=True)
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in OLD_RESERVE:
            connection.execute(statement, parameters)
        connection.execute("COMMIT")
    finally:
        connection.close()


def call_schema(url: Any, version: int) -> None:
    """Let a ledger say that it has another schema."""
    sqlite.close_all()
    postgres.close_waiting()
    number = f"UPDATE ~ledger SET version = {version}"
    raw(
        str(url),
        number if str(url).startswith("postgresql:") else f"PRAGMA user_version = {version}",
    )


def take_back(url: Any) -> None:
    """Make a ledger one of schema 4, which did not know how the column of a unit is read."""
    call_schema(url, 4)
    if str(url).startswith("postgresql:"):
        # To drop a column drops what was asked of it; the functions are replaced whatever they do.
        raw(str(url), "ALTER TABLE ~account DROP COLUMN reading")
        return
    trigger = sqlite_schema._KEEP_FROM_OLDER
    start, end = trigger.index(" OR (reading"), trigger.index(" OR (successor")
    raw(str(url), "DROP TRIGGER event_insert")
    raw(str(url), trigger[:start] + trigger[end:])
    raw(str(url), "ALTER TABLE account DROP COLUMN reading")
