"""Takes a ledger back to the schema of an older version, as that version has left it."""

from __future__ import annotations

from typing import Any

from ledger.fakes import raw
from sordino.ledger import schema
from sordino.ledger.store import postgres, sqlite

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
TABLES = {"charge": schema.CHARGE_TABLE, "event": schema.EVENT_TABLE}
ADDED = {
    name: [column for column, *_ in schema.RENYI_COLUMN.findall(table)]
    for name, table in {**TABLES, "account": schema.ACCOUNT_TABLE}.items()
}


def take_back(url: Any, version: int) -> None:
    """Make a ledger one of schema 2, which kept no releases, or 3, which had no accounts with a delta."""
    sqlite.close_all()
    postgres.close_waiting()
    url = str(url)
    statements = []
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
