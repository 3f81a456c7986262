"""The schema of a ledger in a SQLite file.

Recognizes it, makes it, and brings an older one up to date.
"""

from __future__ import annotations

import sqlite3

from sordino.errors import LedgerError
from sordino.ledger.operation import rendered
from sordino.ledger.parts import OPEN
from sordino.ledger.schema import CHARGE_COLUMNS, READING_COLUMN, TABLES, VERSION
from sordino.ledger.schema_parts import PART_INDEXES, PART_TABLES
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
# neither accounts with a delta nor those with parts nor that one was taken over: its charges must
# not go past the sums of either. Nor does it say how it reads the column of the unit, which every
# charge of this version does.
_KEEP_FROM_OLDER = (
    "CREATE TRIGGER IF NOT EXISTS event_insert BEFORE INSERT ON event WHEN EXISTS (SELECT 1"
    " FROM account"
    " WHERE name = NEW.account AND ((meter = 'renyi' AND NEW.sums = '')"
    " OR (parts <> '' AND NEW.sums NOT LIKE '%;%')"
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
    raise LedgerError(
        f"{path!r} is not a sordino ledger; it was left as it is. Name the file of the ledger, or "
        "another one that is not there yet (--ledger)."
    )


def build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables in an empty file."""
    if version_of(connection, path, may_be_new=True) is not None:
        return
    _build_tables(connection, TABLES)
    for trigger in (*_APPEND_ONLY, _KEEP_FROM_OLDER):
        connection.execute(trigger)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _build_tables(connection: sqlite3.Connection, tables: tuple[str, ...]) -> None:
    for table in tables:
        # The rows live in the index of their key: a charge touches no more pages than in a table
        # without one.
        connection.execute(rendered(table, "", ":@") + " WITHOUT ROWID")
    for index in PART_INDEXES:
        connection.execute(rendered(index, "", ":@"))


def keep_from_older(connection: sqlite3.Connection) -> None:
    """Give a file that lacks it the trigger against older processes."""
    # Where it is there already this writes nothing.
    connection.execute(_KEEP_FROM_OLDER)


def bring_up_to_date(connection: sqlite3.Connection, path: str) -> None:
    """Bring a file of an older schema to the present one, in one transaction.

    Schemas 5 and 8 have the tables of those before: by their numbers older versions keep away from
    events that they do not know.
    """
    connection.execute("BEGIN IMMEDIATE")
    # Asked again under the lock: another process may have done it meanwhile, and an older one that
    # has the file open may have put its own number back.
    if version_of(connection, path, may_be_new=False) != VERSION:
        columns = _columns(connection)
        if "reading" not in columns:
            connection.execute(f"ALTER TABLE account ADD COLUMN {READING_COLUMN}")
        if "parts" not in columns:
            # That of an older schema does not know the columns.
            connection.execute("DROP TRIGGER IF EXISTS event_insert")
            _give_parts(connection)
            keep_from_older(connection)
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _give_parts(connection: sqlite3.Connection) -> None:
    """Add what schema 7 has: a rule of accounts is another one, so their table is made anew."""
    known = ", ".join(_columns(connection))
    newer = TABLES[0].replace("CREATE TABLE ~account", "CREATE TABLE newer", 1)
    connection.execute(rendered(newer, "", ":@") + " WITHOUT ROWID")
    connection.execute(f"INSERT INTO newer ({known}) SELECT {known} FROM account")
    connection.execute("DROP TABLE account")
    connection.execute("ALTER TABLE newer RENAME TO account")
    for column in CHARGE_COLUMNS:
        connection.execute(f"ALTER TABLE charge ADD COLUMN {column}")
    _build_tables(connection, PART_TABLES)


def stand_in_for_newer(connection: sqlite3.Connection) -> None:
    """Let a reader of a file of an older schema ask for what it lacks.

    The file stays as it is.
    """
    # Of this connection alone, and gone with it.
    connection.execute("PRAGMA temp_store = MEMORY")
    columns = _columns(connection)
    if "parts" in columns:
        return
    more = ", '' AS reading" if "reading" not in columns else ""
    connection.execute(
        f"CREATE TEMP VIEW account AS SELECT *{more}, '' AS parts, 0 AS base, 0 AS base_pure,"
        f" 0 AS base_failing, 0 AS base_impure, {OPEN} AS closed FROM main.account"
    )
    connection.execute(
        f"CREATE TEMP VIEW charge AS SELECT *, 0 AS whole, {OPEN} AS closed FROM main.charge"
    )
    connection.execute(
        "CREATE TEMP VIEW part AS SELECT '' AS account, 0 AS key, 0 AS spent, 0 AS pure_spent,"
        " 0 AS failing_spent, 0 AS impure WHERE FALSE"
    )
    connection.execute(
        "CREATE TEMP VIEW span AS SELECT '' AS charge, 0 AS low, 0 AS high, '' AS account"
        " WHERE FALSE"
    )


def _columns(connection: sqlite3.Connection) -> list[str]:
    found = connection.execute("SELECT name FROM pragma_table_info('account', 'main')").fetchall()
    return [name for (name,) in found]
