"""Takes a ledger back to the schema of an older version, as that version has left it."""

from __future__ import annotations

import sqlite3
from typing import Any

from ledger.fakes import raw
from sordino.ledger import schema
from sordino.ledger.history import chained
from sordino.ledger.store import postgres, sqlite, sqlite_schema

# What schemas 2 and 3 had for an account.
OLD_COLUMNS = "name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number, head"
OLD_ACCOUNT = """CREATE TABLE old_account (
    name TEXT PRIMARY KEY,
    parent TEXT REFERENCES account (name),
    meter TEXT NOT NULL CHECK (meter IN ('pure', 'zcdp')),
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    number BIGINT NOT NULL,
    head TEXT NOT NULL,
    CHECK (spent >= 0 AND spent <= allowance)
) WITHOUT ROWID"""
NEWER_TRIGGERS = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%_insert'"
TABLES = {"charge": schema.CHARGE_TABLE, "event": schema.EVENT_TABLE}
ADDED = {
    name: [column for column, *_ in schema.ADDED_COLUMN.findall(table)]
    for name, table in {**TABLES, "account": schema.ACCOUNT_TABLE}.items()
}


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


def take_back(url: Any, version: int) -> None:
    """Make a ledger one of an older schema.

    2 kept no releases, 3 had no accounts with a delta, and 4 did not know how the column of a unit is read.
    """
    sqlite.close_all()
    postgres.close_waiting()
    url = str(url)
    statements = []
    if version == 4:
        _take_back_reading(url)
        return
    if url.startswith("postgresql:"):
        # To drop a column drops what was asked of it; the functions are replaced whatever they do.
        statements += [f"ALTER TABLE ~{name} DROP COLUMN {c}" for name in ADDED for c in ADDED[name]]
        statements += [
            # This one has none of the new columns, and so is still there.
            "ALTER TABLE ~account DROP CONSTRAINT account_meter_check",
            "ALTER TABLE ~account ADD CONSTRAINT account_meter_check CHECK (meter IN ('pure', 'zcdp'))",
            "ALTER TABLE ~account ADD CONSTRAINT account_check CHECK (spent >= 0 AND spent <= allowance)",
            f"UPDATE ~ledger SET version = {version}",
        ]
        if version == 2:
            statements += ["DROP FUNCTION ~keep", "DROP TABLE ~kept"]
    else:
        statements += [f"DROP TRIGGER {name}" for (name,) in raw(url, NEWER_TRIGGERS)]
        statements += [f"ALTER TABLE {name} DROP COLUMN {c}" for name in TABLES for c in ADDED[name]]
        statements += [
            OLD_ACCOUNT,
            f"INSERT INTO old_account SELECT {OLD_COLUMNS} FROM account",
            "DROP TABLE account",
            "ALTER TABLE old_account RENAME TO account",
            f"PRAGMA user_version = {version}",
        ]
        if version == 2:
            statements.append("DROP TABLE kept")
    for statement in statements:
        raw(url, statement)


def _take_back_reading(url: str) -> None:
    if url.startswith("postgresql:"):
        raw(url, "ALTER TABLE ~account DROP COLUMN reading")
        raw(url, "UPDATE ~ledger SET version = 4")
        return
    trigger = sqlite_schema._KEEP_FROM_OLDER[0]
    start, end = trigger.index(" OR (reading"), trigger.index(" OR (successor")
    raw(url, "DROP TRIGGER event_insert")
    raw(url, trigger[:start] + trigger[end:])
    raw(url, "ALTER TABLE account DROP COLUMN reading")
    raw(url, "PRAGMA user_version = 4")
