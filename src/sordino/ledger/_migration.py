"""Brings a SQLite ledger from schema 1 to 2: it gets a history, as far as its charges tell it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from sordino.errors import LedgerError
from sordino.ledger._history import FACTS, Row, linked

_COLUMNS = "name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number, head"


def migrate(connection: sqlite3.Connection, build: Callable[[sqlite3.Connection], None]) -> None:
    """Bring a file of schema 1 to schema 2 inside the transaction that is running."""
    for table in ("account", "charge", "draw"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    build(connection)
    accounts = connection.execute(
        "SELECT name, meter, epsilon, delta, adjacency, unit, source, allowance, spent, time FROM old_account"
    ).fetchall()
    for account in accounts:
        _account(connection, *account)
    for table in ("draw", "charge", "account"):
        connection.execute(f"DROP TABLE old_{table}")


def _account(connection: sqlite3.Connection, name: str, *facts: Any) -> None:
    meter, epsilon, delta, adjacency, unit, source, allowance, spent, time = facts
    described = dict(zip(FACTS, (name, None, meter, epsilon, delta, adjacency, unit, source), strict=True))
    connection.execute(
        f"INSERT INTO account ({_COLUMNS}) VALUES ({', '.join('?' * 12)})",
        (*described.values(), allowance, spent, 0, ""),
    )
    history = _History(connection, name, allowance)
    history.add("create", "", allowance, {"time": time, **described})
    charges = connection.execute(
        "SELECT id, label, state, reserved, drawn, settled, draws, detail, time FROM old_charge"
        " WHERE account = ? ORDER BY number",
        (name,),
    ).fetchall()
    for key, label, state, reserved, drawn, settled, draws, detail, when in charges:
        history.spent += reserved
        number = history.add(
            "reserve",
            key,
            reserved,
            {"time": when, "label": label, "digest": "", "detail": json.loads(detail), "migrated": True},
        )
        for slot, mechanism, amount, at in connection.execute(
            "SELECT slot, mechanism, amount, time FROM old_draw WHERE charge_id = ? ORDER BY slot", (key,)
        ).fetchall():
            history.add(
                "draw", key, amount, {"time": at, "slot": slot, "mechanism": mechanism, "migrated": True}
            )
        # The rest returned to the account when the charge was settled.
        if settled is not None:
            history.spent -= reserved - settled
            history.add("settle", key, settled, {"time": "", "migrated": True})
        connection.execute(
            "INSERT INTO charge (id, account, number, digest, lock, state, reserved, drawn, draws, settled)"
            " VALUES (?, ?, ?, ?, '', ?, ?, ?, ?, ?)",
            (key, name, number, "", state, reserved, drawn, draws, settled),
        )
    if history.spent != spent:
        raise LedgerError(
            f"The account {name!r} of this older ledger does not add up: its charges are "
            "not what it says was spent. It was left as it is; compare it with a backup."
        )
    connection.execute(
        "UPDATE account SET number = ?, head = ? WHERE name = ?", (history.number, history.head, name)
    )


class _History:
    """Appends events to one account."""

    def __init__(self, connection: sqlite3.Connection, account: str, allowance: int) -> None:
        self.connection, self.account, self.allowance = connection, account, allowance
        self.number, self.spent, self.head = 0, 0, ""

    def add(self, kind: str, charge: str, amount: int, body: dict[str, Any]) -> int:
        self.number += 1
        row = Row(
            self.number,
            kind,
            charge,
            amount,
            self.spent,
            self.allowance,
            "",
            json.dumps(body, sort_keys=True),
        )
        self.head = linked(self.head, row)
        self.connection.execute(
            "INSERT INTO event (account, number, kind, charge, amount, spent, allowance, head, body)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.account, *row._replace(head=self.head)),
        )
        return self.number
