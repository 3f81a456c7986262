"""Tables of a PostgreSQL server. Questions run inside it, in a transaction that can write nothing; rows stay where they are.

What the server says of an error may hold a private value, so none of it is repeated: not before the charge, where only the schema is
read, and not after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, final

import numpy as np

from sordino._address import without_password
from sordino.data._engine import Answer, Scan, quoted
from sordino.data._source import UNUSABLE, Asked
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_SECONDS = 10
_KINDS = {
    "smallint": "SMALLINT",
    "integer": "INTEGER",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
    "date": "DATE",
    "uuid": "UUID",
    "numeric": "NUMERIC",
}
_WHOLE = frozenset({20, 21, 23})  # the numbers of bigint, smallint and integer
_NUMERIC = re.compile(r"numeric\((\d+),(-?\d+)\)")
_SCHEMA = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), t.typtype = 'e' FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid"
    " WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
# What decides how a value is written, and how a name is understood, is ours; a setting of the server or the role is not.
_SETTINGS = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    "SET LOCAL search_path = pg_catalog, pg_temp",
    "SET LOCAL TimeZone = 'UTC'",
    "SET LOCAL DateStyle = 'ISO'",
    "SET LOCAL extra_float_digits = 1",
    "SET LOCAL client_min_messages = error",
    # How long an answer takes depends on rows: a time limit would make failing depend on them. One of the two is new in version 17.
    "SELECT set_config(name, '0', true) FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')",
)


@final
@dataclass(frozen=True)
class PostgresBackend:
    """One table or view of a server."""

    address: str = field(repr=False)  # it may hold a password
    table: str
    names: tuple[str, ...]

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Scan]:
        """Ask the server; the transaction is over when the scan is."""
        return _scan(self, indices)

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask the server, of none of its rows."""
        import psycopg  # noqa: PLC0415 - an optional dependency, asked for when the source was opened

        try:
            with _transaction(self.address) as connection:
                scan = _ServerScan(connection, f"{self.rows(list(columns))} WHERE FALSE")  # also whether we may read these columns
                for question, labels in asked:
                    scan.ask(question, labels)
        except psycopg.Error:
            raise DataSourceError(
                "The server cannot answer this question for the columns as they are; check that their rows may be read, and convert "
                "columns of other types in a view."
            ) from None

    def rows(self, indices: Sequence[int]) -> str:
        """Return the SELECT that renames the used columns to c<index>."""
        used = ", ".join(f"{quoted(self.names[index])} AS c{index}" for index in indices) or "1 AS c"
        return f"SELECT {used} FROM {self.table}"


@contextmanager
def _scan(backend: PostgresBackend, indices: Sequence[int]) -> Iterator[Scan]:
    with _transaction(backend.address) as connection:
        yield _ServerScan(connection, backend.rows(indices))


@contextmanager
def _transaction(address: str) -> Iterator[Connection]:
    import psycopg  # noqa: PLC0415

    with psycopg.connect(
        address, autocommit=True, connect_timeout=_SECONDS, prepare_threshold=None, application_name="sordino"
    ) as connection:
        connection.execute("SET client_encoding = 'UTF8'")
        with connection.transaction():
            for setting in _SETTINGS:
                connection.execute(setting.encode())
            yield connection


class _ServerScan:
    def __init__(self, connection: Connection, rows: str) -> None:
        self._connection, self._rows = connection, rows

    def ask(self, question: str, labels: Sequence[str] | None = None) -> Answer:
        tables = f"WITH rows AS ({self._rows})"
        sql, sent = f"{tables} {question}", None
        if labels is not None:
            listed = "SELECT label, place - 1 AS position FROM unnest(CAST(%s AS text[])) WITH ORDINALITY AS listed(label, place)"
            sql = f"{tables.replace('%', '%%')}, labels AS ({listed}) {question.replace('%', '%%')}"
            sent = [list(labels)]
        cursor = self._connection.execute(sql.encode(), sent)
        columns = list(zip(*cursor.fetchall(), strict=True))
        named = [(column.name, np.int64 if column.type_code in _WHOLE else object) for column in cursor.description or ()]
        return {name: np.array(columns[place] if columns else (), dtype=kind) for place, (name, kind) in enumerate(named)}

    def progress(self) -> float:
        return 0.0  # the server does not say how far it is

    def interrupt(self) -> None:
        import psycopg  # noqa: PLC0415

        with suppress(psycopg.Error):  # it may be over already
            self._connection.cancel()


def open_postgres(path: str) -> tuple[PostgresBackend, dict[str, str], str]:
    """Read the schema of one table of a server, and no row; return also the text that a ledger keeps.

    Raises
    ------
    InvalidParameter
        If the address is not written postgresql://USER@HOST/DATABASE#TABLE.
    UnsupportedBackend
        If the driver is not installed.
    DataSourceError
        If the server cannot be reached, or there is no such table.
    """
    identity = without_password(path)
    address, mark, table = path.partition("#")
    if not (mark and table):
        raise InvalidParameter("A PostgreSQL source must be written postgresql://USER@HOST/DATABASE#TABLE; got no #TABLE.")
    try:
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise UnsupportedBackend("A PostgreSQL source needs the driver psycopg: pip install 'sordino[postgres]'.") from None
    schema, _, name = table.rpartition(".")
    full = f"{quoted(schema or 'public')}.{quoted(name)}"
    try:
        with _transaction(address) as connection:
            columns = connection.execute(_SCHEMA.encode(), [full]).fetchall()
    except psycopg.Error:
        raise DataSourceError(
            f"A PostgreSQL source must be reachable; {identity} is not. Check the address, the user and whether the server runs."
        ) from None
    if not columns:
        raise DataSourceError(
            f"A PostgreSQL source must be an existing table or view; {identity} is none. Name it as schema.table."
        )
    declared = {str(column): _declared(str(kind), enumerated=bool(labels)) for column, kind, labels in columns}
    return PostgresBackend(address, full, tuple(declared)), declared, identity


def _declared(kind: str, *, enumerated: bool) -> str:
    """Return a type of the server in the words of the embedded engine."""
    if enumerated:
        return "ENUM()"
    if kind.startswith("character"):
        return "VARCHAR"
    if numeric := _NUMERIC.fullmatch(kind):
        width, scale = int(numeric[1]), int(numeric[2])
        return f"DECIMAL({width},{scale})" if 0 <= scale <= width <= 38 else "NUMERIC"
    return _KINDS.get(kind, UNUSABLE)
