"""Addresses of tables: what may be shown and kept, and when two of them mean the same table.

Asks a PostgreSQL server which of its tables an address means.

A host has many names, and so have a port, a database and a table. A server has one number, which it
gets when it is made and keeps for its life; its copies by replication have it too. So the budget of
a table does not depend on how its address is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, final
from urllib.parse import parse_qsl, unquote

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]


# A colon outside of brackets begins a port, and an at sign ends a password.
# Anywhere else they may be parts of a password: such an address is refused.
_HOST_PATTERN = r"(?:\[[^\]@/?#]*\]|:\d*(?=[,/?#]|$)|[^@/?#:\[\]])*"
_ADDRESS_PARTS = re.compile(
    rf"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^@/?#]*@)?({_HOST_PATTERN}(?:/[^@?#]*)?)"
    r"(?:[?][^@#]*)?(#[^@]*)?"
)


def without_password(address: str) -> str:
    """Return an address without its user, password and options: what may be shown and kept.

    Raises
    ------
    InvalidParameter
        If it is not clear where the password ends.
    """
    if address.startswith(SPARK_SCHEME):
        return spark_parts(address)[0].shown
    found = _ADDRESS_PARTS.fullmatch(address)
    if found is None:
        raise InvalidParameter(
            "An address must be written SCHEME://USER@HOST/DATABASE with special characters "
            "percent-encoded; got something else, which is not shown because it may hold a "
            "password."
        )
    scheme, place, table = found.groups(default="")
    return f"{scheme}{place}{table}"


# What the options of an address may say in place of its own parts.
_OVERRIDING_OPTIONS = frozenset(("host", "hostaddr", "port", "dbname", "service", "servicefile"))
_POSTGRES_ADDRESS = re.compile(
    r"postgresql://(?:[^@/?#]*@)?([^/?#]*)(?:/([^?#]*))?(?:[?]([^#]*))?#(.+)"
)
_LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))


def join_tables(table: str, others: Iterable[str]) -> str:
    """Return what a ledger calls a table together with private tables that it looks up.

    Examples
    --------
    >>> from sordino.address import join_tables
    >>> join_tables("name:orders", ["customers"]), join_tables("name:orders", [])
    ('name:orders + customers', 'name:orders')
    """
    # A name has no blank and no plus sign.
    return " + ".join((table, *sorted(others)))


def list_tables(source: str) -> set[str]:
    """Return the names of the tables that an account is about; none where it knows a place."""
    return set(source.removeprefix("name:").split(" + ")) if source.startswith("name:") else set()


def covers_tables(kept: str, source: str) -> bool:
    """Tell whether what an account is about holds all tables that a release is of."""
    own, *has = kept.split(" + ")
    table, *read = source.split(" + ")
    if not own.startswith("name:") or own != table:
        return False
    return set(read) <= set(has)


@final
class ServerTable(str):
    """The text by which a ledger knows a table of a PostgreSQL server, as the server says it.

    It is the same however the server was addressed: `postgresql:SYSTEM/DATABASE#SCHEMA.TABLE`,
    where SYSTEM is the number that a server gets when it is made. Accounts of older versions have
    an address in its place.

    Parameters
    ----------
    system : int
        The system identifier of the server.
    names : tuple of str
        Of the database, the schema and the table.
    address : str
        How the server and the table were addressed.

    Examples
    --------
    >>> from sordino.address import ServerTable
    >>> address = "postgresql://me@DB.example.org:5432/shop#orders"
    >>> table = ServerTable(7000, ("shop", "public", "orders"), address)
    >>> table, table.was_called("postgresql://db.example.org/shop#public.orders")
    ('postgresql:7000/shop#public.orders', True)
    """

    place: Any  # what the address says, without its password

    def __new__(cls, system: int, names: tuple[str, str, str], address: str) -> ServerTable:
        """Return the address of a table by the system of its server and its three names."""
        database, schema, table = map(_escape_name, names)
        made = super().__new__(cls, f"postgresql:{system}/{database}#{schema}.{table}")
        # Kept for accounts of older versions, which know the table by an address.
        made.place = _parse_table_address(address)
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        # A copy is plain text, which is all that a ledger keeps.
        return str, (str(self),)

    def was_called(self, text: str) -> bool:
        """Tell whether an older account knows this table by an address that surely means it."""
        # None means that nothing is sure, and two unsure addresses are never taken for the same.
        # docs/decisions/0016-a-table-is-named-by-its-server.md
        return self.place is not None and self.place == _parse_table_address(text)


def is_server_table(text: str) -> bool:
    """Tell whether a text is the address of a PostgreSQL table.

    The server itself has another name for it.
    """
    return text.startswith("postgresql://") and "#" in text


def split_table(table: str, schema: str) -> tuple[str, str]:
    """Return schema and name of a table; a name without a schema is in the given one."""
    named, _, name = table.rpartition(".")
    return named or schema, name


def duckdb_table(table: str) -> str:
    """Return the one text for a table of a DuckDB file, which ignores the case of ASCII letters."""
    named = ".".join(split_table(table, "main"))
    # ASCII letters alone: DuckDB tells other letters from their capitals.
    return "".join(letter.lower() if letter.isascii() else letter for letter in named)


_EXCEL_ADDRESS = re.compile(r"excel:(.+?\.xls[xm])#(.+)", re.IGNORECASE | re.DOTALL)


def excel_parts(address: str) -> tuple[str, str]:
    """Return the file and the sheet of `excel:FILE#SHEET`.

    Raises
    ------
    InvalidParameter
        If it is written otherwise.
    """
    # The first # behind a name of a workbook: the name of a sheet may have one, too.
    found = _EXCEL_ADDRESS.fullmatch(address)
    if found is None:
        raise InvalidParameter(
            "An Excel source must be written excel:FILE#SHEET, with a FILE that ends in .xlsx or "
            f".xlsm; got {shown(address)}."
        )
    return found[1], found[2]


SPARK_SCHEME = "sc://"
"""How the address of a server of Spark Connect begins."""

_SPARK_SERVER = re.compile(
    r"sc://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?(?:/(?:;.*)?)?", re.DOTALL
)
# A part of a name: in backticks, which are doubled inside, or without what has a meaning.
_SPARK_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.\s#;=@/%:]+)")


class SparkServer(NamedTuple):
    """A server of Spark Connect.

    Attributes
    ----------
    address : str
        As it was given: it may hold a token.
    shown : str
        Its host and its port, which may be shown.
    host : str
        Its host.
    port : int
        Its port.
    """

    address: str
    shown: str
    host: str
    port: int


def spark_parts(address: str) -> tuple[SparkServer, tuple[str, ...]]:
    """Return the server and the name of a table of `sc://HOST:PORT/;OPTIONS#CATALOG.SCHEMA.TABLE`.

    Raises
    ------
    InvalidParameter
        If it is written otherwise; the message shows nothing of it, because it may hold a token.
    """
    # The first # begins the table: options are percent-encoded.
    server, mark, table = address.partition("#")
    found = _SPARK_SERVER.fullmatch(server)
    if found is None or not mark:
        raise InvalidParameter(
            "A Spark source must be written sc://HOST:PORT#CATALOG.SCHEMA.TABLE, with options as "
            "in sc://HOST:PORT/;use_ssl=true#...; got something else, which is not shown because "
            "it may hold a token."
        )
    names = spark_names(table)
    port = int(found[2] or _SPARK_PORT)
    shown_part = f"{SPARK_SCHEME}{found[1]}:{port}#{'.'.join(map(_quote_spark_name, names))}"
    return SparkServer(server, shown_part, found[1], port), names


def spark_names(table: str) -> tuple[str, ...]:
    """Return the names of the catalog, schema (or several) and table of `CATALOG.SCHEMA.TABLE`.

    Raises
    ------
    InvalidParameter
        If there are less than three names.
    """
    names: list[str] = []
    at = 0
    while found := _SPARK_PART.match(table, at):
        names.append(found[1].replace("``", "`") if found[1] is not None else found[2])
        at = found.end() + 1
        if table[at - 1 : at] != ".":
            break
    # In full, so that a table has one name whatever catalog and schema a session begins with.
    if at <= len(table) or len(names) < 3 or not table.isprintable():
        raise InvalidParameter(
            "A table of Spark must be named CATALOG.SCHEMA.TABLE, in full (the catalog of a plain "
            "server is spark_catalog), with backticks around names that hold other characters; got "
            "something else, which is not shown because it may hold a part of a token."
        )
    return tuple(names)


def spark_table(names: Sequence[str]) -> str:
    """Return the one text for a table of Spark, which tells no letter from its capital.

    The server is no part of it: many of them read the tables of one catalog, and a catalog has no
    number.
    """
    return SPARK_START + ".".join(_quote_spark_name(name.lower()) for name in names)


SPARK_START = "spark:"
"""How the text of a table of Spark begins in a ledger."""

_SPARK_PORT = 15002


def _quote_spark_name(name: str) -> str:
    return name if re.fullmatch(r"\w+", name, re.ASCII) else "`" + name.replace("`", "``") + "`"


def _escape_name(name: str) -> str:
    """Return a name in which nothing can be taken for what stands around it."""
    return "".join(f"%{ord(c):02X}" if c in "%/#." or not c.isprintable() else c for c in name)


def _parse_table_address(address: str) -> Any:
    """Return what an address says of host, port, database and table.

    None if something else may say more.
    """
    found = _POSTGRES_ADDRESS.fullmatch(address)
    if found is None:
        return None
    hosts, database, options, table = (part or "" for part in found.groups())
    # Such an option may name another host or database than the address itself: then nothing is
    # sure.
    if _OVERRIDING_OPTIONS & {name for name, _ in parse_qsl(options, keep_blank_values=True)}:
        return None
    # An address may list several hosts, each with a port of its own.
    places = [_split_host_and_port(unquote(host)) for host in hosts.split(",")]
    return places, unquote(database), split_table(table, "public")


def _split_host_and_port(named: str) -> tuple[str, str]:
    host, colon, port = named.rpartition(":")
    # A colon within brackets belongs to an address of IPv6, and begins no port.
    if not colon or port.endswith("]"):
        host, port = named, ""
    host = host.strip("[]").lower()
    # All names of this machine are one place, and a missing port is the default one.
    return "localhost" if host in _LOCAL_HOSTS else host, port or "5432"


# ---- server tables -------------------------------------------------------------------------------


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
            "A PostgreSQL source must be written postgresql://USER@HOST/DATABASE#TABLE; got no "
            "#TABLE."
        )
    return server, *split_table(table, "public")


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Turn a failure of the driver into one sentence.

    A server's text may hold a private value or a password.

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
            f"A PostgreSQL source must be an existing table or view; {shown} is none. Name it as "
            "schema.table."
        )
    system, database, schema, name, oid = found
    return ServerTable(system, (database, schema, name), address), oid


def named_by_its_server(source: str) -> str:
    """Return a source as a ledger knows it.

    A PostgreSQL server names its tables, the rest keep their text.

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
