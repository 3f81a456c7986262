"""The canonical texts of what an account is about: one for its source, one for its privacy unit."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sordino.address import (
    SPARK_SCHEME,
    SPARK_START,
    ServerTable,
    covers_tables,
    duckdb_table,
    excel_parts,
    is_server_table,
    named_by_its_server,
    spark_names,
    spark_parts,
    spark_table,
    without_password,
)
from sordino.constraints import shown, text
from sordino.errors import InvalidParameter

# How a source begins: an address, a table as its server names it, a table in a DuckDB file.
_ADDRESS_START = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SERVER_TABLE_START = re.compile(r"postgresql:\d+/")
_DUCKDB_START = "duckdb:"
_EXCEL_START = "excel:"


def canonical_source(source: str | os.PathLike[str]) -> str:
    """Return the one text that stands for a source of rows, whatever folder it was named from.

    Local paths and globs become absolute; so does the file of `duckdb:FILE#TABLE`, whose table gets
    its schema and small letters, and that of `excel:FILE#SHEET`. An address (`postgresql://...`)
    loses its user, password and options, which say who asks and not what is asked about. A table of
    Spark, named in full, is `spark:CATALOG.SCHEMA.TABLE` in small letters, whatever server reads
    it. A frame in memory (`name:orders`), standard input (`-`) and a table as its server names it
    (`postgresql:7000/...`) are left alone. Symbolic links are not followed, and no server is asked:
    `Ledger.create` and `Ledger.reserve` ask it.

    Parameters
    ----------
    source : str or path
        Public.

    Raises
    ------
    InvalidParameter
        If it is not a non-empty printable text, or a DuckDB or Excel source without a table or a
        sheet.

    Examples
    --------
    >>> from sordino.ledger import canonical_source
    >>> canonical_source("/data/2024/../orders-*.parquet"), canonical_source("name:orders")
    ('/data/orders-*.parquet', 'name:orders')
    """
    named = text(os.fspath(source) if isinstance(source, os.PathLike) else source, "source")
    # One table, in whatever capitals: before what has no place, which it is, too.
    if named.startswith((SPARK_START, SPARK_SCHEME)):
        known = named.startswith(SPARK_START)
        return spark_table(
            spark_names(named.removeprefix(SPARK_START)) if known else spark_parts(named)[1]
        )
    # These mean the same from every folder.
    if has_no_place(named):
        return named
    if _ADDRESS_START.match(named):
        return without_password(named)
    if named.startswith(_EXCEL_START):
        workbook, sheet = excel_parts(named)
        return f"{_EXCEL_START}{_absolute_source_path(workbook)}#{sheet}"
    if not named.startswith(_DUCKDB_START):
        return _absolute_source_path(named)
    # The last # begins the table: the name of a file may have one, too.
    file, mark, table = named.removeprefix(_DUCKDB_START).rpartition("#")
    if not (mark and file and table):
        raise InvalidParameter(
            f"A DuckDB source must be written duckdb:FILE#TABLE; got {shown(named)}."
        )
    return f"{_DUCKDB_START}{_absolute_source_path(file)}#{duckdb_table(table)}"


def has_no_place(source: str) -> bool:
    """Tell whether a source is named, and not addressed: there is nothing that could be opened.

    So it is with a table in memory (`name:orders`), standard input (`-`), and what a ledger calls a
    table of a server.
    """
    return (
        source == "-"
        or source.startswith(("name:", SPARK_START))
        or bool(_SERVER_TABLE_START.match(source))
    )


def known_source(source: str | os.PathLike[str]) -> str:
    """Return the text that a ledger keeps for a source.

    A table of a PostgreSQL server is asked for its own.

    Raises
    ------
    InvalidParameter
        As for `canonical_source`.
    DataSourceError, UnsupportedBackend
        If a server cannot be asked, or has no such table.
    """
    return (
        # One table has many addresses, and each could have a budget: so its server names it
        # (decision 0016).
        named_by_its_server(source)
        if isinstance(source, str) and is_server_table(source)
        else canonical_source(source)
    )


def is_about(source: str, kept: str) -> bool:
    """Tell whether the text that an account keeps means a source.

    Older accounts write it otherwise.
    """
    # An account keeps the text for ever, so what older versions wrote is brought to the present
    # form.
    return (
        source == kept
        or covers_tables(kept, source)
        or source == canonical_source(kept)
        or (isinstance(source, ServerTable) and source.was_called(kept))
    )


def canonical_unit(unit: Any) -> str:
    """Return the one text that stands for a privacy unit.

    Parameters
    ----------
    unit : str or PrivacyUnit
        The name of a column, or an object whose attribute `identity` is this text already.

    Raises
    ------
    InvalidParameter
        If it is neither.

    Examples
    --------
    >>> from sordino.ledger import canonical_unit
    >>> canonical_unit("customer_id")
    'column "customer_id"'
    """
    if isinstance(unit, str):
        return f'column "{text(unit, "unit")}"'
    identity = getattr(unit, "identity", None)
    if not isinstance(identity, str):
        raise InvalidParameter(
            f"unit must be the name of a column or a PrivacyUnit; got a {type(unit).__name__}."
        )
    return text(identity, "unit.identity")


def real_place(source: str) -> str:
    """Return where a source lies, with links followed: two texts for one place become one.

    `source` is a text as `known_source` returns it. What has no place is returned as it is.
    """
    if has_no_place(source) or _ADDRESS_START.match(source):
        return source
    scheme = next((one for one in (_EXCEL_START, _DUCKDB_START) if source.startswith(one)), "")
    # The names of sheets may have a # sign, and so may the names of files of DuckDB.
    file, mark, inside = source.removeprefix(scheme), "", ""
    if scheme == _EXCEL_START:
        file, inside = excel_parts(source)
        mark = "#"
    elif scheme:
        file, mark, inside = file.rpartition("#")
    return f"{scheme}{os.path.realpath(file)}{mark}{inside}"


def _absolute_source_path(path: str) -> str:
    # Links are not followed: `current.parquet` may point elsewhere every day, and is one source
    # (0016).
    return os.path.normpath(Path(path).absolute())
