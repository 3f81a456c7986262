"""Asks a PostgreSQL server which of its tables an address means.

A host has many names, and so have a port, a database and a table. A server has one number, which it gets when
it is made and keeps for its life; its copies by replication have it too. So the budget of a table does not
depend on how its address is written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sordino.address import ServerTable, is_server_table, split_table, without_password
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

# A server that does not answer for so long counts as unreachable.
_SOURCE_CONNECT_SECONDS = 10
# Every catalog is named with its schema, so that no table of a user can stand in for it.
_TABLE_QUERY = (
    "SELECT s.system_identifier, pg_catalog.current_database(), n.nspname, c.relname, c.oid"
    " FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_class AS c"
    " JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace"
    # Tables, partitioned tables, views, materialized views and foreign tables.
    " WHERE n.nspname = %s AND c.relname = %s AND c.relkind = ANY ('{r,p,v,m,f}')"
)


def parts(address: str) -> tuple[str, str, str]:
    """Return the address of the server, and schema and name of the table.

    Raises
    ------
    InvalidParameter
        If the address has no table, or it is not clear where a password ends.
    """
    # An address whose password cannot be told apart is refused before anything of it is used.
    without_password(address)
    server, mark, table = address.partition("#")
    if not (mark and table):
        raise InvalidParameter(
            "A PostgreSQL source must be written postgresql://USER@HOST/DATABASE#TABLE; got no #TABLE."
        )
    return server, *split_table(table, "public")


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Turn a failure of the driver into one sentence: a server's text may hold a private value or a password.

    Raises
    ------
    UnsupportedBackend
        If the driver is not installed.
    DataSourceError
        If the driver fails.
    """
    try:
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise UnsupportedBackend(
            "A PostgreSQL source needs the driver psycopg: pip install 'sordino[postgres]'."
        ) from None
    try:
        yield
    except psycopg.Error:
        raise DataSourceError(
            f"A PostgreSQL source must be reachable; {without_password(address)} is not. "
            "Check the address, the user and whether the server runs."
        ) from None


@contextmanager
def connected(server: str) -> Iterator[Connection]:
    """Lend a connection to a server, on which every statement is a transaction."""
    import psycopg  # noqa: PLC0415 - an optional dependency, asked for when the source was opened

    # No prepared statements, so that a pooler between the two may change the session.
    with psycopg.connect(
        server,
        autocommit=True,
        connect_timeout=_SOURCE_CONNECT_SECONDS,
        prepare_threshold=None,
        application_name="sordino",
    ) as connection:
        # Unqualified names mean the server's own functions: no schema of a user can shadow them.
        connection.execute("SET client_encoding = 'UTF8'; SET search_path = pg_catalog, pg_temp")
        yield connection


def identify(connection: Connection, address: str) -> tuple[ServerTable, int]:
    """Return the text by which a ledger knows a table or view, and its oid.

    Raises
    ------
    DataSourceError
        If there is none of that name, or the server does not say which one it is.
    """
    import psycopg  # noqa: PLC0415 - a connection is there, so the driver is

    shown, (_, *names) = without_password(address), parts(address)
    try:
        # The names travel as parameters and are never part of the query.
        found = connection.execute(_TABLE_QUERY.encode(), names).fetchone()
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        raise DataSourceError(
            f"A PostgreSQL source must be on a server that says which one it is; {shown} does not. "
            "Its owner can let this user know: GRANT EXECUTE ON FUNCTION pg_control_system() TO ..."
        ) from None
    if found is None:
        raise DataSourceError(
            "A PostgreSQL source must be an existing table or view; "
            f"{shown} is none. Name it as schema.table."
        )
    system, database, schema, name, oid = found
    return ServerTable(system, (database, schema, name), address), oid


def named_by_its_server(source: str) -> str:
    """Return a source as a ledger knows it: a PostgreSQL server names its tables, the rest keep their text.

    Raises
    ------
    DataSourceError
        If the server cannot be reached, has no such table, or does not say which one it is.
    UnsupportedBackend
        If the driver is not installed.
    """
    if not is_server_table(source):
        return source
    server, _, _ = parts(source)
    with reaching(source), connected(server) as connection:
        return identify(connection, source)[0]
