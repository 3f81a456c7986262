"""The schema of a ledger in a SQLite file: recognizes it, makes it, and brings an older one up to date."""

from __future__ import annotations

import sqlite3

from sordino.errors import LedgerError
from sordino.ledger._journal import APPLICATION
from sordino.ledger._migration import migrate
from sordino.ledger.schema import TABLES, VERSION, rendered

APPEND_ONLY = tuple(
    f"CREATE TRIGGER event_{verb.lower()} BEFORE {verb} ON event"
    " BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)


def version_of(connection: sqlite3.Connection, path: str, *, may_be_new: bool) -> int | None:
    """Return the schema of a ledger, or None for an empty file where one may be made; refuse all else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION and version > VERSION:
        raise LedgerError(
            f"The ledger at {path!r} has schema {version} but this version "
            f"of sordino knows schemas up to {VERSION}; use a newer sordino."
        )
    if application == APPLICATION and version >= 1:
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if may_be_new and not (application or version or tables):
        return None
    raise LedgerError(f"{path!r} is not a sordino ledger; it was left as it is.")


def build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file."""
    if version_of(connection, path, may_be_new=True) is None:
        _build(connection)


def _build(connection: sqlite3.Connection) -> None:
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
        migrate(connection, _build)
    connection.execute("COMMIT")
