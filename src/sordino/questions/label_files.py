"""Reads public labels: a column of a file, or what a query lists over files that were named.

Nothing is read of the source here, nor of what may have been made of its rows (`nearby.py`). A
query runs in an engine of its own, which opens the files that its owner named, and nothing else, by
two walls. The engine opens no other path. And before it runs, every path in the query must be a
plain text that leads to one of these files: what the engine compares is how a path is written, and
`link/../labels.csv` is written like `labels.csv` and may be another file.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import duckdb

from sordino.constraints import did_you_mean, shown
from sordino.errors import DataSourceError, InvalidParameter, UnsafePredicate
from sordino.sources.csv.lines import LONGEST
from sordino.sources.engine import Engine, engine, literal, quoted
from sordino.sources.nearby import find_origin
from sordino.sources.source import AS_LABELS, Source, describe_columns
from sordino.sources.sql.sql_templates import EMBEDDED, FLOATS


class ListedLabels(NamedTuple):
    """What a column of a file lists, or that of a query.

    Parameters
    ----------
    column : str
        The column that was read.
    labels : iterable of str or None
        As they stand there.
    first : str or None
        The line that was taken for the header, if one was.
    """

    column: str
    labels: Iterable[str | None]
    first: str | None = None


# ---- files ---------------------------------------------------------------------------------------


def check_public(path: Path, source: Source, what: str) -> Path:
    """Return where a public file lies.

    Raises
    ------
    DataSourceError
        If there is none.
    UnsafePredicate
        If it may have been made of the rows of the source, or belongs to the machine or a server.
    """
    try:
        there = path.is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        raise DataSourceError(f"{what} must exist; got {path}.")
    # The source comes first: that is what a person can see.
    if reason := source.find_tie(path) or find_origin(path):
        raise UnsafePredicate(
            f"{what} must not be made of the rows of the source, nor belong to the machine; {path} "
            f"{reason}. Use a public list of labels, as a file of its own in another place."
        )
    return Path(os.path.realpath(path))


def read_file_labels(
    path: Path, column: str | None, source: Source, *, header: bool = True
) -> ListedLabels:
    """Return the labels of one column of a CSV or Parquet file.

    Raises
    ------
    UnsafePredicate
        If it may have been made of the rows of the source.
    InvalidParameter, DataSourceError
        If it cannot be used.
    """
    place = check_public(path, source, "The domain file")
    if _is_parquet(path, header=header):
        return _read_parquet_labels(place, column, path)
    names, rows = _read_csv(place, path, header=header)
    name = one_column(names, column, path)
    position = names.index(name)
    # An empty field is no label, as it is NULL in a CSV source. Nor is a field that a line lacks.
    labels = [row[position] or None for row in rows if len(row) > position]
    return ListedLabels(name, labels, shown(",".join(names)) if header else None)


def read_tuples(
    path: Path, columns: Sequence[str], source: Source, *, header: bool = True
) -> list[tuple[str | None, ...]]:
    """Return the labels of several columns of a CSV or Parquet file, those of a line together.

    Raises
    ------
    UnsafePredicate, InvalidParameter, DataSourceError
        As for `read_file_labels`.
    """
    if not header:
        raise InvalidParameter(
            "A file of labels of several columns names them in its first line; got header=False "
            "(--domain-no-header)."
        )

    def choose(kinds: dict[str, str]) -> list[str]:
        kept = [one_column(list(kinds), column, path) for column in columns]
        for name in kept:
            _check_label_type(kinds[name], f"column {name!r} of {path}")
        return kept

    return read_texts(path, choose, source)[1]


def read_texts(
    path: Path,
    choose: Callable[[dict[str, str]], list[str]],
    source: Source,
    what: str = "The domain file",
) -> tuple[list[str], list[tuple[str | None, ...]]]:
    """Return the columns of a public CSV or Parquet file that are chosen, and its rows of texts.

    Parameters
    ----------
    path : Path
    choose : callable
        From the names and types of its columns to the names that are wanted, each of which has
        texts.
    source : Source
        The table of which nothing may be read here.
    what : str
        What the file is called in messages.

    Raises
    ------
    UnsafePredicate, InvalidParameter, DataSourceError
        As for `read_file_labels`.
    """
    place = check_public(path, source, what)
    if not _is_parquet(path, header=True):
        names, lines = _read_csv(place, path, header=True, what=what)
        kept = choose(dict.fromkeys(names, "VARCHAR"))
        places = [names.index(name) for name in kept]
        twice = [name for name in kept if names.count(name) > 1]
        if twice:
            raise InvalidParameter(
                f"{what} must name a column once; {path} has {twice[0]!r} twice."
            )
        # A field that a line lacks is as an empty one.
        return kept, [
            tuple((line[at] if len(line) > at else "") or None for at in places) for line in lines
        ]
    with engine() as opened:
        opened.close_doors([place])
        table = f"read_parquet({literal(str(place))}, hive_partitioning = false)"
        kinds = describe_columns(opened, f"SELECT * FROM {table}", str(path))
        kept = choose(kinds)
        texts = ", ".join(
            ((kinds[name] in FLOATS and EMBEDDED.float_text) or EMBEDDED.text).format(quoted(name))
            for name in kept
        )
        # In their order: what stands there twice is one label later.
        return kept, opened.connection.execute(f"SELECT {texts} FROM {table}").fetchall()


def _is_parquet(path: Path, *, header: bool) -> bool:
    if path.suffix.lower() not in {".parquet", ".pq"}:
        return False
    if not header:
        raise InvalidParameter(
            f"A Parquet file names its columns; got {path} with header=False "
            "(--domain-no-header). Leave that out."
        )
    return True


def _read_csv(
    place: Path, path: Path, *, header: bool, what: str = "The domain file"
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns of a CSV file, and its other lines."""
    try:
        # "-sig": a byte order mark in front is no part of the name of the first column.
        with place.open(encoding="utf-8-sig", newline="") as file:
            # The file is public, so this reader may be stricter
            # than the one for private rows: it refuses bad quotes.
            rows = csv.reader(_read_bounded_lines(file), strict=True)
            first = next(rows, [])
            names = first if header else [str(number) for number in range(1, len(first) + 1)]
            return names, list(rows) if header else [first, *rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataSourceError(
            f"{what} must be UTF-8 CSV with a header line, or Parquet; {path} is not "
            f"({type(error).__name__})."
        ) from None


def _read_bounded_lines(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file, and stop at one that is too long before it is in memory."""
    # One character more than allowed is enough to see that a line is too long.
    while line := file.readline(LONGEST + 1):
        if len(line) > LONGEST:
            raise csv.Error
        yield line


def one_column(names: list[str], wanted: str | None, path: Path) -> str:
    """Return the column of a domain file that was asked for, or its only one."""
    if wanted is None and len(names) == 1:
        return names[0]
    if wanted is None or wanted not in names:
        if not names:
            raise DataSourceError(
                f"The domain file must begin with a line that holds something; {path} does not."
            )
        raise InvalidParameter(
            f"Domain.column must be one of {', '.join(map(repr, names))} in {path}; got "
            f"{shown(wanted)}.{did_you_mean(wanted, names)}"
        )
    return wanted


def _read_parquet_labels(place: Path, column: str | None, path: Path) -> ListedLabels:
    with engine() as opened:
        opened.close_doors([place])
        rows = f"SELECT * FROM read_parquet({literal(str(place))}, hive_partitioning = false)"
        name = one_column(list(describe_columns(opened, rows, str(path))), column, path)
        labels = _fetch_labels(
            opened, f"SELECT {quoted(name)} FROM ({rows})", f"column {name!r} of {path}"
        )
        return ListedLabels(name, labels)


def _check_label_type(kind: str, what: str) -> None:
    # The same types as those of items, whose values have one text each, without floats.
    if not AS_LABELS.fullmatch(kind) or kind in FLOATS:
        raise InvalidParameter(
            "A domain must be one column of texts, whole numbers, dates or truth values; "
            f"{what} has {shown(kind)}."
        )


def _fetch_labels(opened: Engine, select: str, what: str) -> list[str | None]:
    kinds = list(describe_columns(opened, select, what).values())
    # Several columns have no type of a label.
    _check_label_type(kinds[0] if len(kinds) == 1 else f"({', '.join(kinds)})", what)
    rows = opened.connection.execute(
        "SELECT label FROM (SELECT CAST(label AS VARCHAR) AS label, row_number() OVER () AS place"
        f" FROM ({select}) AS listed(label)) AS placed GROUP BY label ORDER BY min(place)"
    ).fetchall()
    return [row[0] for row in rows]


# ---- queries -------------------------------------------------------------------------------------

_READERS = frozenset(
    {"read_csv", "read_csv_auto", "sniff_csv", "read_text", "read_blob", "glob"}
    | {
        f"read_{kind}json{end}"
        for kind in ("", "nd")
        for end in ("", "_auto", "_objects", "_objects_auto")
    }
    | {"read_parquet", "parquet_scan", "parquet_schema", "parquet_bloom_probe"}
    | {f"parquet_{kind}metadata" for kind in ("", "file_", "full_", "kv_")}
)
"""Functions whose first argument is a file, or a list of files."""
_MAKERS = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
)
"""Functions that make rows of their arguments."""
_OF_THE_MACHINE = frozenset({"current_setting", "getenv"})
"""Functions that tell of the machine. Tables and other functions that do are in neither list
above."""


def read_query_labels(query: str, files: Sequence[Path], source: Source) -> ListedLabels:
    """Return the labels that a query lists.

    Raises
    ------
    UnsafePredicate
        If it is not one SELECT statement, opens a file that was not named, or asks about the
        machine; or if a file may have been made of the rows of the source.
    InvalidParameter, DataSourceError
        If it fails, or does not list one column of texts, whole numbers, dates or truth values.
    """
    places = [check_public(path, source, "A file of a domain query") for path in files]
    for place in places:
        # What stands in one is SQL, too, and names files that were not looked at.
        if place.suffix.lower() in {".db", ".ddb", ".duckdb"}:
            raise InvalidParameter(
                "A file of a domain query must be CSV, JSON, Parquet or text, and no database; got "
                f"{place}. Write its labels to a file."
            )
        # The engine would take such a name for a pattern.
        if set(str(place)) & set("*?["):
            raise InvalidParameter(
                f"The name of a file of a domain query must not hold *, ? or [; got {place}. "
                "Rename it."
            )
    with engine() as opened:
        _check_query(opened, query, set(places))
        opened.close_doors(places)
        try:
            # Into a table, so that the query runs once: its type and its labels are both read from
            # there.
            opened.connection.execute(f"CREATE TEMP TABLE domain AS {query}")
        except duckdb.PermissionException:
            raise _refuse_file("another file") from None
        # The query sees public things only, so the engine may say what is wrong with it.
        except duckdb.Error as error:
            raise InvalidParameter(
                f"The domain query must run; the engine says: {str(error).splitlines()[0]}"
            ) from None
        # Where it takes the first line of a file for its header, the column is called so.
        labels = _fetch_labels(opened, "SELECT * FROM domain", "the domain query")
        [(name, *_)] = opened.connection.execute("DESCRIBE domain").fetchall()
        return ListedLabels(name, labels)


def _refuse_file(name: str) -> UnsafePredicate:
    return UnsafePredicate(
        "A domain query may open only files that were named, each as a plain text; it opens "
        f"{name}. If that is a public file, name it: --domain-sql-file FILE, or "
        "Domain.from_sql(..., files=[FILE]) in Python."
    )


def _check_query(opened: Engine, query: str, places: set[Path]) -> None:
    """Refuse a query that is more than one SELECT over these files and what it makes itself."""
    try:
        statements = opened.connection.extract_statements(query)
    except duckdb.Error:
        raise UnsafePredicate(
            f"A domain query must be one SELECT statement; got {shown(query)}."
        ) from None
    # More than one statement, or another kind of one, could do something else than list labels.
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise UnsafePredicate(f"A domain query must be one SELECT statement; got {shown(query)}.")
    # The engine's own parser, so that no other reading of the query decides what it holds.
    row = opened.connection.execute(f"SELECT json_serialize_sql({literal(query)})").fetchone()
    try:
        tree = json.loads(row[0]) if row else {"error": True}
        parts = [] if tree.get("error") else list(_walk_query(tree))
    # Thousands of parts within each other.
    except RecursionError:
        parts = []
    if not parts:
        raise UnsafePredicate(
            f"A domain query must be a plain SELECT statement; got {shown(query)}."
        )
    views = opened.connection.execute("SELECT view_name FROM duckdb_views()").fetchall()
    # What a query gives a name to, and what is not a table of the engine. A name that could be a
    # path is one: where it stands, its table may not be known.
    own = {name.casefold() for part in parts for name in _list_own_tables(part) if "/" not in name}
    own -= {name.casefold() for (name,) in views}
    for part in parts:
        _check_part(part, own, places)


def _check_part(part: dict[str, Any], own: set[str], places: set[Path]) -> None:
    kind = part.get("type")
    if kind == "BASE_TABLE":
        name = ".".join(part["qualified_name"]["path"])
        if name.casefold() not in own:
            _check_path(name, places)
    elif kind == "TABLE_FUNCTION":
        function = part["function"]
        name = str(function.get("function_name")).lower()
        if name in _READERS:
            for path in _list_paths(name, function["arguments"]):
                _check_path(path, places)
        elif name not in _MAKERS:
            raise UnsafePredicate(
                "A domain query may read files by read_csv, read_parquet and their like, and make "
                f"rows by {', '.join(sorted(_MAKERS))}; it asks for {shown(name)}."
            )
    elif kind == "SHOW_REF" or (
        kind == "FUNCTION" and str(part["function_name"]).lower() in _OF_THE_MACHINE
    ):
        raise UnsafePredicate("A domain query must not ask about the engine and its machine.")


def _check_path(name: str, places: set[Path]) -> None:
    """Refuse a path that does not lead to one of these files."""
    try:
        found = Path(os.path.realpath(name)) in places
    except (OSError, ValueError):
        found = False
    if not found:
        raise _refuse_file(shown(name))


def _list_paths(name: str, arguments: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the files that a function reads.

    Its first argument, which is a text or a list of texts.
    """
    first = arguments[0]["expression"] if arguments and not arguments[0]["name"] else {}
    if first.get("type") == "VALUE_CONSTANT" and first["literal"]["kind"] == "STRING":
        yield first["literal"]["text"]
        return
    listed = [one["expression"] for one in first.get("arguments", ())]
    if first.get("type") != "FUNCTION" or first["function_name"] != "list_value" or not listed:
        raise _refuse_file(f"what {name} is handed")
    for one in listed:
        if one.get("type") != "VALUE_CONSTANT" or one["literal"]["kind"] != "STRING":
            raise _refuse_file(f"what {name} is handed")
        yield one["literal"]["text"]


def _list_own_tables(part: dict[str, Any]) -> Iterator[str]:
    """Yield the names that a part of a query gives to tables of its own: those of WITH."""
    for entry in (part.get("cte_map") or {}).get("map", ()):
        yield str(entry["key"])


def _walk_query(tree: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a parsed query."""
    if isinstance(tree, dict):
        yield tree
    for part in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _walk_query(part)
