"""The schema of a ledger in a SQLite file: recognizes it, makes it, and brings an older one up to date.

A ledger of schema 1 gets a history, as far as its charges tell it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from sordino.errors import LedgerError
from sordino.ledger.history import FACTS, Row, linked
from sordino.ledger.schema import TABLES, VERSION, rendered
from sordino.ledger.store.journal import APPLICATION

# A second guard beside the hashes. Whoever may write the file can drop the triggers.
APPEND_ONLY = tuple(
    f"CREATE TRIGGER event_{verb.lower()} BEFORE {verb} ON event"
    " BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)


def version_of(connection: sqlite3.Connection, path: str, *, may_be_new: bool) -> int | None:
    """Return the schema of a ledger, or None for an empty file where one may be made; refuse all else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    # A newer schema may mean something else by the same columns, so it is not even read.
    if application == APPLICATION and version > VERSION:
        raise LedgerError(
            f"The ledger at {path!r} has schema {version} but this version "
            f"of sordino knows schemas up to {VERSION}; use a newer sordino."
        )
    if application == APPLICATION and version >= 1:
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # Nothing of another program may be in it: a database that is in use is left as it is.
    if may_be_new and not (application or version or tables):
        return None
    raise LedgerError(f"{path!r} is not a sordino ledger; it was left as it is.")


def build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file."""
    if version_of(connection, path, may_be_new=True) is None:
        _build_tables(connection)


def _build_tables(connection: sqlite3.Connection) -> None:
    # The rows live in the index of their key: a charge touches no more pages than in a table without a key.
    for statement in (*(table + " WITHOUT ROWID" for table in TABLES), *APPEND_ONLY):
        connection.execute(rendered(statement, "", ":@"))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file to the present schema, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have done it meanwhile.
    if version_of(connection, path, may_be_new=False) != VERSION:
        migrate(connection, _build_tables)
    connection.execute("COMMIT")


_ACCOUNT_COLUMNS = (
    "name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number, head"
)


def migrate(connection: sqlite3.Connection, build: Callable[[sqlite3.Connection], None]) -> None:
    """Bring a file of schema 1 to schema 2 inside the transaction that is running."""
    # All in one transaction: if a step fails, the file is as it was.
    for table in ("account", "charge", "draw"):
        connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    build(connection)
    accounts = connection.execute(
        "SELECT name, meter, epsilon, delta, adjacency, unit, source, allowance, spent, time FROM old_account"
    ).fetchall()
    for account in accounts:
        _migrate_account(connection, *account)
    for table in ("draw", "charge", "account"):
        connection.execute(f"DROP TABLE old_{table}")


def _migrate_account(connection: sqlite3.Connection, name: str, *facts: Any) -> None:
    # Schema 1 knew no shares, so no account has a parent.
    meter, epsilon, delta, adjacency, unit, source, allowance, spent, time = facts
    described = dict(zip(FACTS, (name, None, meter, epsilon, delta, adjacency, unit, source), strict=True))
    connection.execute(
        f"INSERT INTO account ({_ACCOUNT_COLUMNS}) VALUES ({', '.join('?' * 12)})",
        (*described.values(), allowance, spent, 0, ""),
    )
    history = _MigratedHistory(connection, name, allowance)
    history.add("create", "", allowance, {"time": time, **described})
    # In the order of their reservation. When a charge was settled is not known: it is told after its draws.
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
            # No key has an empty hash: an older charge can be given up (`void`), and nobody can draw from it.
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


class _MigratedHistory:
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
