"""Takes a ledger back to the schema of an older version, as that version has left it."""

from __future__ import annotations

import sqlite3
from typing import Any

from ledger.fakes import raw
from sordino.ledger.history import chained
from sordino.ledger.schema import CHARGE_COLUMNS, PART_COLUMNS
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


# The table of accounts of schemas 5 and 6, and the last of its rules; charges had no parts either.
OLD_RULE = (
    "CHECK (spent <= allowance"
    " OR (meter = 'renyi' AND parent IS NULL AND impure = 0 AND pure_spent <= pure_limit))"
)
OLD_COLUMNS = (
    "name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number, head,"
    " alpha, failures, pure_spent, pure_limit, failing_spent, failing_limit, impure, successor,"
    " reading"
)
OLD_ACCOUNT = f"""CREATE TABLE older (
    name TEXT PRIMARY KEY,
    parent TEXT REFERENCES account (name),
    meter TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL,
    number BIGINT NOT NULL,
    head TEXT NOT NULL,
    alpha TEXT NOT NULL DEFAULT '',
    failures TEXT NOT NULL DEFAULT '0',
    pure_spent BIGINT NOT NULL DEFAULT 0,
    pure_limit BIGINT NOT NULL DEFAULT 0,
    failing_spent BIGINT NOT NULL DEFAULT 0,
    failing_limit BIGINT NOT NULL DEFAULT 0,
    impure BIGINT NOT NULL DEFAULT 0,
    successor TEXT NOT NULL DEFAULT '',
    reading TEXT NOT NULL DEFAULT '',
    CHECK (meter IN ('pure', 'zcdp', 'renyi')),
    CHECK (spent >= 0 AND pure_spent >= 0
        AND failing_spent >= 0 AND failing_spent <= failing_limit),
    {OLD_RULE}
) WITHOUT ROWID"""


def cut_out(text: str, start: str, end: str) -> str:
    return text[: text.index(start)] + text[text.index(end) :]


def take_back(url: Any, version: int = 4) -> None:
    """Make a ledger one of an older schema; 4 did not know how the column of a unit is read."""
    call_schema(url, version)
    if str(url).startswith("postgresql:"):
        # To drop a column drops what was asked of it; the functions are replaced whatever they do.
        columns = [column.split()[0] for column in (*PART_COLUMNS, *["reading"] * (version == 4))]
        for column in columns:
            raw(str(url), f"ALTER TABLE ~account DROP COLUMN {column}")
        raw(str(url), f"ALTER TABLE ~account ADD {OLD_RULE}")
        for column in CHARGE_COLUMNS:
            raw(str(url), f"ALTER TABLE ~charge DROP COLUMN {column.split()[0]}")
        for table in ("span", "part"):
            raw(str(url), f"DROP TABLE ~{table}")
        return
    trigger = cut_out(sqlite_schema._KEEP_FROM_OLDER, " OR (parts", " OR (reading")
    if version == 4:
        trigger = cut_out(trigger, " OR (reading", " OR (successor")
    reading = "    reading TEXT NOT NULL DEFAULT '',\n"
    account = OLD_ACCOUNT.replace(reading, "") if version == 4 else OLD_ACCOUNT
    columns = OLD_COLUMNS.removesuffix(", reading") if version == 4 else OLD_COLUMNS
    for statement in (
        "DROP TRIGGER event_insert",
        account,
        f"INSERT INTO older ({columns}) SELECT {columns} FROM account",
        "DROP TABLE account",
        "ALTER TABLE older RENAME TO account",
        *(f"ALTER TABLE charge DROP COLUMN {one.split()[0]}" for one in CHARGE_COLUMNS),
        "DROP TABLE span",
        "DROP TABLE part",
        trigger,
    ):
        raw(str(url), statement)
