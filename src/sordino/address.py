"""Addresses of tables: what of them may be shown and kept, and when two of them mean the same table."""

from __future__ import annotations

import re
from typing import Any, final
from urllib.parse import parse_qsl, unquote

from sordino.errors import InvalidParameter

# A colon outside of brackets begins a port, and an at sign ends a password.
# Anywhere else they may be parts of a password: such an address is refused.
_HOST_PATTERN = r"(?:\[[^\]@/?#]*\]|:\d*(?=[,/?#]|$)|[^@/?#:\[\]])*"
_ADDRESS_PARTS = re.compile(
    rf"([A-Za-z][A-Za-z0-9+.-]*://)(?:[^@/?#]*@)?({_HOST_PATTERN}(?:/[^@?#]*)?)(?:[?][^@#]*)?(#[^@]*)?"
)


def without_password(address: str) -> str:
    """Return an address without its user, password and options: what may be shown and kept.

    Raises
    ------
    InvalidParameter
        If it is not clear where the password ends.
    """
    found = _ADDRESS_PARTS.fullmatch(address)
    if found is None:
        raise InvalidParameter(
            "An address must be written SCHEME://USER@HOST/DATABASE with special characters percent-encoded; "
            "got something else, which is not shown because it may hold a password."
        )
    scheme, place, table = found.groups(default="")
    return f"{scheme}{place}{table}"


# What the options of an address may say in place of its own parts.
_OVERRIDING_OPTIONS = frozenset(("host", "hostaddr", "port", "dbname", "service", "servicefile"))
_POSTGRES_ADDRESS = re.compile(r"postgresql://(?:[^@/?#]*@)?([^/?#]*)(?:/([^?#]*))?(?:[?]([^#]*))?#(.+)")
_LOCAL_HOSTS = frozenset(("localhost", "127.0.0.1", "::1"))


@final
class ServerTable(str):
    """The text by which a ledger knows a table of a PostgreSQL server, as the server itself says it.

    It is the same however the server was addressed: `postgresql:SYSTEM/DATABASE#SCHEMA.TABLE`, where SYSTEM
    is the number that a server gets when it is made. Accounts of older versions have an address in its place.

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
        """Tell whether an older account knows this table by an address that surely means the same."""
        # None means that nothing is sure, and two unsure addresses are never taken for the same.
        # docs/decisions/0016-a-table-is-named-by-its-server.md
        return self.place is not None and self.place == _parse_table_address(text)


def is_server_table(text: str) -> bool:
    """Tell whether a text is the address of a PostgreSQL table; the server itself has another name for it."""
    return text.startswith("postgresql://") and "#" in text


def split_table(table: str, schema: str) -> tuple[str, str]:
    """Return schema and name of a table; a name without a schema is in the given one."""
    named, _, name = table.rpartition(".")
    return named or schema, name


def duckdb_table(table: str) -> str:
    """Return the one text for a table of a DuckDB file, which tells no ASCII letter from its capital."""
    named = ".".join(split_table(table, "main"))
    # ASCII letters alone: DuckDB tells other letters from their capitals.
    return "".join(letter.lower() if letter.isascii() else letter for letter in named)


def _escape_name(name: str) -> str:
    """Return a name in which nothing can be taken for what stands around it."""
    return "".join(f"%{ord(c):02X}" if c in "%/#." or not c.isprintable() else c for c in name)


def _parse_table_address(address: str) -> Any:
    """Return what an address says of host, port, database and table; None if something else may say more."""
    found = _POSTGRES_ADDRESS.fullmatch(address)
    if found is None:
        return None
    hosts, database, options, table = (part or "" for part in found.groups())
    # Such an option may name another host or database than the address itself: then nothing is sure.
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
