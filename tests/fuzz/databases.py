"""Tables of DuckDB, as files, relations and Parquet that it writes, and tables of a PostgreSQL server."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from fuzz.engines import CONNECT
from fuzz.tables import Table, arrow

OWNERS = ("plain", "plain", "threads", "settings", "macros")
"""Whose connection a relation belongs to."""

_SETTINGS = {
    "plain": (),
    "threads": ("SET threads = 3", "PRAGMA verify_parallelism"),
    "settings": (
        "SET default_collation = 'NOCASE'",
        "SET default_null_order = 'nulls_first'",
        "SET default_order = 'DESC'",
        "SET preserve_insertion_order = false",
        "SET integer_division = true",
        "SET TimeZone = 'America/New_York'",
        "SET threads = 2",
    ),
    "macros": (
        "CREATE MACRO isnan(x) AS false",
        "CREATE MACRO sha256(x) AS 'same'",
        "CREATE MACRO length(x) AS 0",
        "CREATE MACRO floor(x) AS 7",
        "CREATE MACRO abs(x) AS 1",
        "CREATE MACRO least(x, y) AS 1",
        "CREATE MACRO greatest(x, y) AS 2",
        "CREATE MACRO replace(x, y, z) AS '5'",
        "CREATE MACRO from_json(x, y) AS NULL",
        "CREATE MACRO sum(x) AS 3",
    ),
}
_NAMES = count()


@cache
def _writer() -> Any:
    return CONNECT(":memory:")


@cache
def _owner(name: str) -> Any:
    connection = CONNECT(":memory:")
    for statement in _SETTINGS[name]:
        connection.execute(statement)
    return connection


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _plain_names(table: Table) -> Table:
    """Return the table with names that no engine confuses."""
    return Table(tuple(f"c{place}" for place in range(len(table.names))), table.kinds, table.rows)


def _select(table: Table, rows: str) -> str:
    parts = [
        f"CAST(c{place} AS {kind}) AS {_quoted(name)}"
        for place, (name, kind) in enumerate(zip(table.names, table.kinds, strict=True))
    ]
    return f"SELECT {', '.join(parts)} FROM {rows}"


def write_file(spec: dict[str, Any], table: Table, folder: Path, *, keyed: bool = False) -> str:
    """Write a database file with one table, of which the first column may be a key.

    Ghosts are rows that were there and were deleted: what the file knows of a column may still hold them.
    """
    path, name = folder / "t.duckdb", f"w{next(_NAMES)}"
    cursor = _writer().cursor()
    declared = [
        f"{kind} COLLATE NOCASE" if kind == "VARCHAR" and spec["collated"] else kind
        for kind in table.kinds
    ]
    kinds = ", ".join(
        f"{_quoted(one)} {kind}" for one, kind in zip(table.names, declared, strict=True)
    )
    cursor.execute(f"ATTACH '{path}' AS {name} (ROW_GROUP_SIZE {spec['group']})")
    cursor.execute(f"CREATE TABLE {name}.t ({kinds})")
    ghosts = table.rows[: spec["ghosts"]][::-1]
    for rows in (ghosts, table.rows):
        if rows:
            cursor.register("handed", arrow(_plain_names(table.with_rows(rows))))
            cursor.execute(f"INSERT INTO {name}.t {_select(table, 'handed')}")
            cursor.unregister("handed")
    if ghosts:
        cursor.execute(f"DELETE FROM {name}.t WHERE rowid < {len(ghosts)}")
    if spec["view"]:
        cursor.execute(f"CREATE VIEW {name}.v AS SELECT * FROM {name}.t")
    cursor.execute(f"DETACH {name}")
    cursor.close()
    return f"duckdb:{path}#{'v' if spec['view'] else 't'}"


def write_parquet(table: Table, path: Path, group: int) -> None:
    """Write a Parquet file as DuckDB does."""
    cursor = _writer().cursor()
    cursor.register("handed", arrow(_plain_names(table)))
    cursor.execute(
        f"COPY ({_select(table, 'handed')}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {max(group, 2048)})"
    )
    cursor.close()


def relation(spec: dict[str, Any], table: Table, folder: Path) -> tuple[Any, Callable[[], None]]:
    """Return a relation of a connection that is not the library's, and what closes it."""
    cursor = _owner(spec["owner"]).cursor()
    name = f"r{next(_NAMES)}"
    handed = arrow(_plain_names(table))
    cursor.register(f"{name}_handed", handed)
    select = _select(table, f"{name}_handed")
    apart = len({one.lower() for one in table.names}) == len(table.names)
    if spec["made"] == "table" and apart:
        cursor.execute(f"CREATE TEMP TABLE {name} AS {select}")
        return cursor.table(name), cursor.close
    if (
        spec["made"] == "parquet"
        and apart
        and not any(kind.endswith("HUGEINT") for kind in table.kinds)
    ):
        cursor.execute(f"COPY ({select}) TO '{folder / 'r.parquet'}' (FORMAT parquet)")
        return cursor.read_parquet(str(folder / "r.parquet")), cursor.close
    return cursor.sql(select), cursor.close


# ---- PostgreSQL ---------------------------------------------------------------------------------------------------------

_SERVER: list[str] = []
_TYPES = {"FLOAT": "real", "DOUBLE": "double precision", "VARCHAR": "text", "NUMERIC": "numeric"}
_SENT = {
    "SMALLINT": "int2",
    "INTEGER": "int4",
    "BIGINT": "int8",
    "FLOAT": "float4",
    "DOUBLE": "float8",
}
_SENT |= {"BOOLEAN": "bool", "DATE": "date", "VARCHAR": "text"}


def use_server(address: str) -> None:
    """Say which PostgreSQL server tables may be written to."""
    _SERVER[:] = [address]


def has_server() -> bool:
    """Tell whether there is one."""
    return bool(_SERVER)


@cache
def _session(address: str) -> Any:
    connection = psycopg.connect(address, autocommit=True)
    connection.execute("SET client_min_messages = warning")
    return connection


def write_server(table: Table) -> tuple[str, Callable[[], None]]:
    """Write a table of its own to the server, and return its address and what drops it."""
    connection = _session(_SERVER[0])
    name = f"fuzz_{os.getpid()}_{next(_NAMES)}"
    declared = [_TYPES.get(kind, kind.replace("DECIMAL", "numeric")) for kind in table.kinds]
    kinds = ", ".join(
        f"{_quoted(one)} {kind}" for one, kind in zip(table.names, declared, strict=True)
    )
    connection.execute(f"CREATE UNLOGGED TABLE {name} ({kinds})")
    names = ", ".join(map(_quoted, table.names))
    if table.rows:
        # Binary, so that the bits of a NaN arrive.
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY {name} ({names}) FROM STDIN (FORMAT BINARY)") as copy,
        ):
            copy.set_types([_SENT.get(kind, "numeric") for kind in table.kinds])
            for row in table.rows:
                copy.write_row(row)
    base, _, _ = _SERVER[0].partition("#")
    return f"{base}#{name}", lambda: connection.execute(f"DROP TABLE {name}") and None


def write_orders(
    table: Table, folder: Path, *, kept: bool, server: bool
) -> tuple[str, Callable[[], None]]:
    """Write a table whose first column is a key, kept by the database or not; return its address and what drops it."""
    if server:
        address, close = write_server(table)
        if kept:
            named, key = address.partition("#")[2], _quoted(table.names[0])
            _session(_SERVER[0]).execute(f"ALTER TABLE {named} ADD PRIMARY KEY ({key})")
        return address, close
    spec = {"ghosts": 0, "view": False, "group": 122_880, "collated": False}
    below = folder / "orders"
    below.mkdir(exist_ok=True)
    return write_file(spec, table, below, keyed=kept), lambda: None
