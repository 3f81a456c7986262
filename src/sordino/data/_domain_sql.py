"""Runs domain queries: SQL over public files that lists the labels of a domain.

They run in an engine of their own. It can open the files that the query names, and never those of the source.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb

from sordino.constraints import shown
from sordino.data._engine import Engine, engine, literal, quoted
from sordino.data._source import AS_LABELS, Source, described
from sordino.data._words import FLOATS
from sordino.errors import InvalidParameter, UnsafePredicate


def labels_of_query(query: str, source: Source) -> list[str | None]:
    """Return the labels that a query lists.

    Raises
    ------
    UnsafePredicate
        If it is not one SELECT statement, or can see the source.
    InvalidParameter
        If it fails or does not list one column of texts.
    """
    if source.kind in {"relation", "lazy frame"}:
        raise UnsafePredicate(
            f"A domain query must not see the source, and which files a {source.kind} reads cannot be known. "
            "Write the labels to a file and use Domain.from_file, or open the source by its path."
        )
    with engine() as opened:
        # Before the query runs, and before the engine may open anything: which files could it mean?
        files = _files(opened, query)
        for path in files:
            if source.holds(path):
                raise UnsafePredicate(
                    f"A domain query must not see the source; it names {path}. Use a public list of labels."
                )
        opened.close_doors([path.absolute() for path in files])
        try:
            opened.connection.execute(f"CREATE TEMP TABLE domain AS {query}")
        except duckdb.PermissionException:
            raise UnsafePredicate(
                "A domain query may open the files whose names it holds as plain texts, without patterns or "
                "calculations; got another one."
            ) from None
        # The query sees public things only, so the engine may say what is wrong with it.
        except duckdb.Error as error:
            raise InvalidParameter(
                f"The domain query must run; the engine says: {str(error).splitlines()[0]}"
            ) from None
        return _labels(opened, "SELECT * FROM domain", "the domain query")


def labels_of_parquet(path: Path, column: str | None) -> tuple[str, list[str | None]]:
    """Return the column that was read and its labels."""
    from sordino.data._domain import one_column  # noqa: PLC0415 - the choice of a column is the same for CSV

    with engine() as opened:
        opened.close_doors([path.absolute()])
        rows = f"SELECT * FROM read_parquet({literal(str(path.absolute()))}, hive_partitioning = false)"
        name = one_column(list(described(opened, rows, str(path))), column, path)
        return name, _labels(opened, f"SELECT {quoted(name)} FROM ({rows})", f"column {name!r} of {path}")


def _labels(opened: Engine, select: str, what: str) -> list[str | None]:
    schema = described(opened, select, what)
    kind = next(iter(schema.values()))
    if len(schema) != 1 or not AS_LABELS.fullmatch(kind) or kind in FLOATS:
        kinds = ", ".join(schema.values())
        raise InvalidParameter(
            "A domain must be one column of texts, whole numbers, "
            f"dates or truth values; {what} has {shown(kinds)}."
        )
    rows = opened.connection.execute(
        f"SELECT DISTINCT CAST(label AS VARCHAR) FROM ({select}) AS listed(label)"
    ).fetchall()
    return [row[0] for row in rows]


def _files(opened: Engine, query: str) -> list[Path]:
    """Return every file that a text in the query could mean."""
    try:
        statements = opened.connection.extract_statements(query)
    except duckdb.Error:
        raise UnsafePredicate(f"A domain query must be one SELECT statement; got {shown(query)}.") from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UnsafePredicate(f"A domain query must be one SELECT statement; got {shown(query)}.")
    # The engine's own parser, so that no other reading of the query decides which texts it holds.
    row = opened.connection.execute(f"SELECT json_serialize_sql({literal(query)})").fetchone()
    tree = json.loads(row[0]) if row else {"error": True}
    if tree.get("error"):
        raise UnsafePredicate(f"A domain query must be a plain SELECT statement; got {shown(query)}.")
    found: dict[Path, None] = {}
    for word in _texts(tree):
        if "\0" not in word and len(word) < 4096:
            # A pattern counts as all files that it matches: one of them could be the source. It may be
            # absolute, which `Path.glob` refuses.
            matches = glob.glob(word, recursive=True) if set(word) & set("*?[") else []  # noqa: PTH207
            for name in [word, *matches]:
                if _is_file(name):
                    found[Path(name)] = None
    return list(found)


def _is_file(name: str) -> bool:
    try:
        return Path(name).is_file()
    except OSError:
        return False


def _texts(tree: Any) -> Iterator[str]:
    """Yield every string of a parsed query."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        yield from _each(tree.values())
    elif isinstance(tree, list):
        yield from _each(tree)


def _each(parts: Iterable[Any]) -> Iterator[str]:
    for part in parts:
        yield from _texts(part)
