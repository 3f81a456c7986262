"""The schema of a ledger in a SQLite file: recognizes it, makes it, and brings an older one up to date.

A ledger of schema 1 gets a history, as far as its charges tell it. One of schema 2 gets the table of releases
that are kept, one of schema 3 the columns of accounts with a delta (the meter "renyi"), and one of schema 4
how an account reads the column of its unit.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

from sordino.errors import LedgerError
from sordino.ledger.history import FACTS, Row, linked
from sordino.ledger.schema import (
    ACCOUNT_TABLE,
    ADDED_COLUMN,
    CHARGE_TABLE,
    EVENT_TABLE,
    KEPT_TABLE,
    READING_COLUMN,
    TABLES,
    VERSION,
    rendered,
)
from sordino.ledger.store.journal import APPLICATION

# A second guard beside the hashes. Whoever may write the file can drop the triggers.
_KEEP_KEPT, _KEEP_EVENTS = (
    tuple(
        f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table}"
        " BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"
        for verb in ("UPDATE", "DELETE")
    )
    for table in ("kept", "event")
)
APPEND_ONLY = (*_KEEP_EVENTS, *_KEEP_KEPT)
# A process of an older version that has the file open does not look at its schema again. It knows neither
# accounts with a delta nor that one was taken over: its charges must not go past the sums of either. Nor does
# it say how it reads the column of the unit, which every charge of this version does.
_KEEP_FROM_OLDER = (
    "CREATE TRIGGER IF NOT EXISTS event_insert BEFORE INSERT ON event WHEN EXISTS (SELECT 1 FROM account"
    " WHERE name = NEW.account AND ((meter = 'renyi' AND NEW.sums = '')"
    " OR (reading <> '' AND NEW.kind = 'reserve' AND NEW.body NOT LIKE '%\"reading\": %')"
    " OR (successor <> '' AND NEW.kind IN ('reserve', 'grant'))))"
    " BEGIN SELECT RAISE(ABORT, 'this account is for a newer version of sordino'); END",
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


def keep_from_older(connection: sqlite3.Connection) -> None:
    """Give a file that lacks it the trigger against older processes."""
    # Where it is there already this writes nothing.
    _build(connection, (), _KEEP_FROM_OLDER)


def _build_tables(connection: sqlite3.Connection) -> None:
    _build(connection, TABLES, (*APPEND_ONLY, *_KEEP_FROM_OLDER))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _build(connection: sqlite3.Connection, tables: Sequence[str], triggers: Sequence[str]) -> None:
    # The rows live in the index of their key: a charge touches no more pages than in a table without a key.
    for statement in (*(table + " WITHOUT ROWID" for table in tables), *triggers):
        connection.execute(rendered(statement, "", ":@"))


def bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file to the present schema, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have done it meanwhile.
    version = version_of(connection, path, may_be_new=False)
    if version == 1:
        migrate(connection, _build_tables)
    elif version in (2, 3, 4):
        _add_kept_table(connection)
        _add_sums(connection)
        _add_reading(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _add_kept_table(connection: sqlite3.Connection) -> None:
    """Give a file of schema 2 the table that schema 3 has more."""
    # An older process that had the file open may have put its own number back.
    if not _has_kept_table(connection):
        _build(connection, [KEPT_TABLE], _KEEP_KEPT)


def _add_sums(connection: sqlite3.Connection) -> None:
    """Give a file of schema 3 the columns that schema 4 has more."""
    if not _lacks_column(connection, "alpha"):
        return
    for name, table in (("charge", CHARGE_TABLE), ("event", EVENT_TABLE)):
        for column, kind, _ in ADDED_COLUMN.findall(table):
            connection.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")
    # What a row of an account must satisfy has changed, and SQLite changes that in a new table only.
    _build(
        connection, [ACCOUNT_TABLE.replace("CREATE TABLE ~account (", "CREATE TABLE new_account (", 1)], ()
    )
    connection.execute(f"INSERT INTO new_account ({_ACCOUNT_COLUMNS}) SELECT {_ACCOUNT_COLUMNS} FROM account")
    connection.execute("DROP TABLE account")
    connection.execute("ALTER TABLE new_account RENAME TO account")
    keep_from_older(connection)


def _add_reading(connection: sqlite3.Connection) -> None:
    """Give a file of schema 4 the column that schema 5 has more."""
    if not _lacks_column(connection, READING_COLUMN):
        return
    [kind] = [kind for column, kind, _ in ADDED_COLUMN.findall(ACCOUNT_TABLE) if column == READING_COLUMN]
    connection.execute(f"ALTER TABLE account ADD COLUMN {READING_COLUMN} {kind}")
    # That of schema 4 does not know the column.
    connection.execute("DROP TRIGGER IF EXISTS event_insert")
    keep_from_older(connection)


def stand_in_for_newer(connection: sqlite3.Connection) -> None:
    """Let a reader of a file of schema 2 to 4 ask for what it does not have yet; the file stays as it is."""
    # Of this connection alone, and gone with it.
    connection.execute("PRAGMA temp_store = MEMORY")
    if not _has_kept_table(connection):
        connection.execute(rendered(KEPT_TABLE, "", ":@").replace("CREATE TABLE", "CREATE TEMP TABLE", 1))
    for name, table in (("account", ACCOUNT_TABLE), ("charge", CHARGE_TABLE), ("event", EVENT_TABLE)):
        added = [
            f"{value} AS {column}"
            for column, _, value in ADDED_COLUMN.findall(table)
            if _lacks_column(connection, column, name)
        ]
        if added:
            connection.execute(f"CREATE TEMP VIEW {name} AS SELECT *, {', '.join(added)} FROM main.{name}")


def _has_kept_table(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'kept'").fetchone() is not None


def _lacks_column(connection: sqlite3.Connection, column: str, table: str = "account") -> bool:
    columns = connection.execute("SELECT name FROM pragma_table_info(?, 'main')", (table,)).fetchall()
    return (column,) not in columns


_ACCOUNT_COLUMNS = (
    "name, parent, meter, epsilon, delta, adjacency, unit, source, allowance, spent, number, head"
)


def migrate(connection: sqlite3.Connection, build: Callable[[sqlite3.Connection], None]) -> None:
    """Bring a file of schema 1 to the present one inside the transaction that is running."""
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
            (self.account, *row._replace(head=self.head)[:-1]),
        )
        return self.number
