"""Every SQL statement of the ledger. The text is portable: only placeholders and the connection differ between databases.

All amounts are whole nano-epsilon. Conditions are of the form `spent <= allowance - ?` so that no addition can overflow 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

VERSION = 1

SCHEMA = (
    """CREATE TABLE account (
    name TEXT PRIMARY KEY,
    meter TEXT NOT NULL,
    epsilon TEXT NOT NULL,
    delta TEXT NOT NULL,
    adjacency TEXT NOT NULL,
    unit TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance BIGINT NOT NULL,
    spent BIGINT NOT NULL DEFAULT 0,
    charges BIGINT NOT NULL DEFAULT 0,
    time TEXT NOT NULL,
    CHECK (spent >= 0 AND spent <= allowance)
)""",
    """CREATE TABLE charge (
    id TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES account (name),
    number BIGINT NOT NULL,
    label TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('reserved', 'drawn', 'settled')),
    reserved BIGINT NOT NULL,
    drawn BIGINT NOT NULL DEFAULT 0,
    settled BIGINT,
    draws BIGINT NOT NULL DEFAULT 0,
    detail TEXT NOT NULL,
    time TEXT NOT NULL,
    UNIQUE (account, number),
    CHECK (drawn >= 0 AND drawn <= reserved),
    CHECK ((state = 'settled') = (settled IS NOT NULL)),
    CHECK (settled IS NULL OR (settled >= 0 AND settled <= drawn))
)""",
    """CREATE TABLE draw (
    charge_id TEXT NOT NULL REFERENCES charge (id),
    slot BIGINT NOT NULL,
    mechanism TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0),
    time TEXT NOT NULL,
    PRIMARY KEY (charge_id, slot)
)""",
)


class Cursor(Protocol):
    """What a statement gives back."""

    @property
    def rowcount(self) -> int:
        """How many rows a write has changed."""
        ...

    def fetchone(self) -> Any:
        """Return the next row or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows."""
        ...


class Connection(Protocol):
    """A connection inside a transaction."""

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Cursor:
        """Run one statement."""
        ...


class Account(NamedTuple):
    """One row of `account`: its facts never change, only `spent` does."""

    name: str
    meter: str
    adjacency: str
    unit: str
    source: str
    allowance: int
    spent: int


def now() -> str:
    """Return the time for a human reader; nothing depends on it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def account_names(connection: Connection) -> tuple[str, ...]:
    """Return the names of all accounts, sorted."""
    return tuple(sorted(row[0] for row in connection.execute("SELECT name FROM account").fetchall()))


def find_account(connection: Connection, name: str) -> Account | None:
    """Return an account, or None if there is none of that name."""
    row = connection.execute(
        "SELECT name, meter, adjacency, unit, source, allowance, spent FROM account WHERE name = ?", (name,)
    ).fetchone()
    return None if row is None else Account(*row)


def add_account(connection: Connection, account: Account, *, epsilon: str, delta: str) -> None:
    """Write a new account."""
    connection.execute(
        "INSERT INTO account (name, meter, adjacency, unit, source, allowance, spent, epsilon, delta, time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*account, epsilon, delta, now()),
    )


def reserve(connection: Connection, account: str, charge: str, *, amount: int, label: str, detail: str) -> bool:
    """Charge `amount` to the account if it fits and write the charge; return whether it fitted."""
    fitted = connection.execute(
        "UPDATE account SET spent = spent + ?, charges = charges + 1 WHERE name = ? AND spent <= allowance - ?",
        (amount, account, amount),
    ).rowcount
    if fitted != 1:
        return False
    connection.execute(
        "INSERT INTO charge (id, account, number, label, state, reserved, detail, time)"
        " SELECT ?, name, charges, ?, 'reserved', ?, ?, ? FROM account WHERE name = ?",
        (charge, label, amount, detail, now(), account),
    )
    return True


def draw(connection: Connection, charge: str, *, slot: int, before: int, amount: int, mechanism: str) -> bool:
    """Record a draw in `slot` if the charge is exactly as the caller knows it; return whether it was."""
    won = connection.execute(
        "UPDATE charge SET state = 'drawn', draws = draws + 1, drawn = drawn + ?"
        " WHERE id = ? AND state IN ('reserved', 'drawn') AND draws = ? AND drawn = ? AND drawn <= reserved - ?",
        (amount, charge, slot, before, amount),
    ).rowcount
    if won != 1:
        return False
    connection.execute(
        "INSERT INTO draw (charge_id, slot, mechanism, amount, time) VALUES (?, ?, ?, ?, ?)",
        (charge, slot, mechanism, amount, now()),
    )
    return True


def settle(connection: Connection, account: str, charge: str, *, reserved: int, drawn: int, draws: int, actual: int) -> bool:
    """Close a charge at `actual` and give the rest back if the charge is exactly as the caller knows it; return whether it was.

    The number of draws is part of the condition: a copy of the process that drew more must not lose its draws to a refund here.
    """
    closed = connection.execute(
        "UPDATE charge SET state = 'settled', settled = ? WHERE id = ? AND account = ? AND state IN ('reserved', 'drawn')"
        " AND reserved = ? AND draws = ? AND drawn = ?",
        (actual, charge, account, reserved, draws, drawn),
    ).rowcount
    if closed != 1:
        return False
    connection.execute("UPDATE account SET spent = spent - ? WHERE name = ?", (reserved - actual, account))
    return True


def charge_rows(connection: Connection, account: str) -> list[Any]:
    """Return (id, label, state, reserved, drawn, settled, time, detail) of every charge, oldest first."""
    return connection.execute(
        "SELECT id, label, state, reserved, drawn, settled, time, detail FROM charge WHERE account = ? ORDER BY number", (account,)
    ).fetchall()
