"""The schema of a ledger in a SQLite file.

Recognizes it, makes it, and brings an older one up to date.
"""

from __future__ import annotations

import sqlite3

from sordino.errors import LedgerError
from sordino.ledger.schema import READING_COLUMN, TABLES, VERSION, rendered
from sordino.ledger.store.journal import APPLICATION
from sordino.ledger.store.store import check_schema

# A second guard beside the hashes. Whoever may write the file can drop the triggers.
_APPEND_ONLY = tuple(
    f"CREATE TRIGGER {table}_{verb.lower()} BEFORE {verb} ON {table}"
    " BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"
    for table in ("event", "kept")
    for verb in ("UPDATE", "DELETE")
)
# A process of an older version that has the file open does not look at its schema again. It knows
# neither accounts with a delta nor that one was taken over: its charges must not go past the sums
# of either. Nor does it say how it reads the column of the unit, which every charge of this version
# does.
_KEEP_FROM_OLDER = (
    "CREATE TRIGGER IF NOT EXISTS event_insert BEFORE INSERT ON event WHEN EXISTS (SELECT 1"
    " FROM account"
    " WHERE name = NEW.account AND ((meter = 'renyi' AND NEW.sums = '')"
    " OR (reading <> '' AND NEW.kind = 'reserve' AND NEW.body NOT LIKE '%\"reading\": %')"
    " OR (successor <> '' AND NEW.kind IN ('reserve', 'grant'))))"
    " BEGIN SELECT RAISE(ABORT, 'this account is for a newer version of sordino'); END"
)


def version_of(connection: sqlite3.Connection, path: str, *, may_be_new: bool) -> int | None:
    """Return the schema of a ledger, or None for an empty file where one may be made.

    Refuse all else.
    """
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION and version >= 1:
        check_schema(version, path)
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    # Nothing of another program may be in it: a database that is in use is left as it is.
    if may_be_new and not (application or version or tables):
        return None
    raise LedgerError(f"{path!r} is not a sordino ledger; it was left as it is.")


def build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file."""
    if version_of(connection, path, may_be_new=True) is not None:
        return
    for table in TABLES:
        # The rows live in the index of their key: a charge touches no more pages than in a table
        # without one.
        connection.execute(rendered(table, "", ":@") + " WITHOUT ROWID")
    for trigger in (*_APPEND_ONLY, _KEEP_FROM_OLDER):
        connection.execute(trigger)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def keep_from_older(connection: sqlite3.Connection) -> None:
    """Give a file that lacks it the trigger against older processes."""
    # Where it is there already this writes nothing.
    connection.execute(_KEEP_FROM_OLDER)


def bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file of an older schema to the present one, in one transaction.

    Schema 5 has the same tables: by its number older versions keep away from events that they do
    not know.
    """
    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have done it meanwhile, and an older one that
    # has the file open may have put its own number back.
    if version_of(connection, path, may_be_new=False) != VERSION:
        if _lacks_reading(connection):
            connection.execute(f"ALTER TABLE account ADD COLUMN {READING_COLUMN}")
            # That of schema 4 does not know the column.
            connection.execute("DROP TRIGGER IF EXISTS event_insert")
            keep_from_older(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def stand_in_for_newer(connection: sqlite3.Connection) -> None:
    """Let a reader of a file of schema 4 ask for the column that it lacks.

    The file stays as it is.
    """
    # Of this connection alone, and gone with it.
    connection.execute("PRAGMA temp_store = MEMORY")
    if _lacks_reading(connection):
        connection.execute("CREATE TEMP VIEW account AS SELECT *, '' AS reading FROM main.account")


def _lacks_reading(connection: sqlite3.Connection) -> bool:
    columns = connection.execute("SELECT name FROM pragma_table_info('account', 'main')").fetchall()
    return ("reading",) not in columns
