"""Reads Parquet files, tables of DuckDB files, and DuckDB relations.

An engine, or the connection of a relation, reads their rows. It takes columns by their places and
evaluates nothing; it only writes as texts what cannot travel as it is (`sent`). What questions
compute is computed by another engine, which gets a stream of these rows (docs/decisions/0014).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast, final

import duckdb

from sordino.errors import DataSourceError, UnsupportedBackend
from sordino.sources.engine import Engine, engine, literal, quoted
from sordino.sources.folders import NO_FOLDERS, Folders, check_keys, write_lookup
from sordino.sources.nearby import find_named_files
from sordino.sources.source import (
    describe_columns,
    received,
    refuse_names,
    sent,
    settle_type,
    unusable,
)


@final
@dataclass(frozen=True)
class ParquetReader:
    """Parquet files with one schema."""

    files: tuple[Path, ...]
    # Of the columns that can be asked for.
    types: tuple[str, ...]
    # Of all columns, in the words of the engine, which renames those whose names differ only in
    # case.
    schema: Mapping[str, str] = field(repr=False)
    places: tuple[int, ...]
    # Their columns stand behind those of the files.
    folders: Folders = NO_FOLDERS

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns of the files, and return the SELECT over them."""
        # An engine of its own: what a file says of all rows never reaches the one that evaluates.
        source = engine.open_beside(self.files)
        rows = _write_read_parquet(self.files)
        _check_unchanged(source, rows, self.schema, str(self.files[0]))
        of_files = [index for index in indices if index < len(self.types)]
        keys = [index for index in indices if index >= len(self.types)]
        # Of its folders a row brings along the number of its file, and nothing is looked up here.
        columns = sent(self.types, of_files) + (f", {_FILE} AS file" if keys else "")
        named = _name_columns(len(self.schema), self.places)
        engine.lend(source.select(f"SELECT {columns} FROM {rows} AS file({named})"))
        values = (
            f"{write_lookup(self.folders.column(index - len(self.types)), 'file')} AS c{index}"
            for index in keys
        )
        return received(self.types, of_files, *values)


# The place of a row's file in the list of files.
_FILE = "file.file_index"


def _write_read_parquet(files: Sequence[Path]) -> str:
    # The files alone say what a column is: nothing comes from
    # the names of folders, or from several schemas put together.
    listed = ", ".join(literal(str(path)) for path in files)
    return (
        f"read_parquet([{listed}], hive_partitioning = false, union_by_name = false,"
        " filename = false, file_row_number = false)"
    )


def _name_columns(count: int, places: Sequence[int] | None = None) -> str:
    """Return names for all columns of a table, by their places.

    C0, c1, ... are those that can be asked for.

    Asked by name, the engine could find `user` where `User` was meant.
    """
    names = [f"unasked{index}" for index in range(count)]
    for index, place in enumerate(range(count) if places is None else places):
        names[place] = f"c{index}"
    return ", ".join(names)


def _find_askable(names: Sequence[str], types: Sequence[str]) -> Askable:
    """Return which of these columns a question can ask for, and why not for the others."""
    refused = refuse_names(names)
    places = tuple(place for place, name in enumerate(names) if name not in refused)
    columns = {names[place]: settle_type(types[place]) for place in places}
    return Askable(places, columns, refused)


class Askable(NamedTuple):
    """The columns of a table that a question can ask for: their places, and their types by name."""

    places: tuple[int, ...]
    columns: dict[str, str]
    refused: dict[str, str]


def _check_unchanged(source: Engine, rows: str, schema: Mapping[str, str], what: str) -> None:
    """Refuse a table whose columns have changed since it was opened.

    They are read by their places.
    """
    # In order, because another order would give the columns other names.
    if list(describe_columns(source, f"SELECT * FROM {rows}", what).items()) != list(
        schema.items()
    ):
        raise DataSourceError(
            f"A source must not change while it is open; the columns of {what} have."
        )


def open_parquet(
    files: Sequence[Path], folders: Folders = NO_FOLDERS
) -> tuple[ParquetReader, dict[str, str], dict[str, str]]:
    """Read the schemas, and nothing else, of Parquet files; columns of their folders are texts.

    Also returned are the names by which no column can be asked for, and why.

    Raises
    ------
    DataSourceError
        If a file is no Parquet file, the schemas differ, or a folder has the name of a column.
    """
    # The engine would take such a name for a pattern.
    strange = [path for path in files if set(str(path)) & set("*?[")]
    if strange:
        raise DataSourceError(
            f"The name of a Parquet file must not hold *, ? or [; got {strange[0]}. Rename it."
        )
    # It can open these files and nothing else, and is asked for schemas only.
    with engine() as opened:
        opened.close_doors(files)
        schemas = [
            describe_columns(opened, f"SELECT * FROM {_write_read_parquet([path])}", str(path))
            for path in files
        ]
        # The engine renames columns. The names that a question uses are those in the files.
        names = [_read_parquet_names(opened, path) for path in files]
        # What the engine cannot plan fails here, and not after the charge.
        if folders.keys:
            rows = f"{_write_read_parquet(files[:1])} AS file({_name_columns(len(schemas[0]))})"
            describe_columns(opened, f"SELECT {_FILE} FROM {rows}", str(files[0]))
    for path, schema, named in zip(files, schemas, names, strict=True):
        if list(schema.items()) != list(schemas[0].items()) or named != names[0]:
            difference = _find_difference(
                list(zip(names[0], schemas[0].values(), strict=False)),
                list(zip(named, schema.values(), strict=False)),
            )
            raise DataSourceError(
                "All files of a source must have the same columns and types in the same order; "
                f"{difference} in {files[0]} and {path}. Write them anew with one schema, or name "
                "those that agree with a pattern."
            )
    check_keys(folders, names[0], files[0])
    found = _find_askable(names[0], tuple(schemas[0].values()))
    types = tuple(found.columns.values())
    reader = ParquetReader(tuple(files), types, schemas[0], found.places, folders)
    return reader, found.columns | dict.fromkeys(folders.keys, "VARCHAR"), found.refused


def _find_difference(one: Sequence[tuple[str, str]], other: Sequence[tuple[str, str]]) -> str:
    """Return the first column in which two schemas differ, in words."""
    for place, (left, right) in enumerate(zip(one, other, strict=False), start=1):
        if left[0] != right[0]:
            return f"column {place} is {left[0]!r} and {right[0]!r}"
        if left != right:
            return f"column {left[0]!r} is {left[1]} and {right[1]}"
    longer = max(one, other, key=len)
    name = longer[min(len(one), len(other))][0]
    return f"there are {len(one)} and {len(other)} columns, and {name!r} is in one of them only,"


def _read_parquet_names(opened: Engine, path: Path) -> list[str]:
    """Return the names of the columns as the file has them.

    The engine would call a second `user` `user_1`, also beside `User`.
    """
    listed = f"SELECT name, num_children FROM parquet_schema({literal(str(path))})"
    rows = opened.connection.execute(listed).fetchall()
    names: list[str] = []
    # How many entries inside the column before are still to come: these are no columns of the table
    # itself.
    inside = 0
    # The first entry is the table itself; the others stand in depth-first order.
    for name, children in rows[1:]:
        if inside:
            inside += (children or 0) - 1
        else:
            names.append(str(name))
            inside = children or 0
    return names


@final
@dataclass(frozen=True)
class DatabaseReader:
    """One table of a DuckDB file, opened read only."""

    file: Path
    table: str
    schema: Mapping[str, str] = field(repr=False)
    is_view: bool
    required: frozenset[str] = frozenset()
    unique: frozenset[str] = frozenset()

    @property
    def paths(self) -> Sequence[Path]:
        """The file, and the log of writes that may lie beside it."""
        return (self.file, self.file.with_name(self.file.name + ".wal"))

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns of the table, and return the SELECT over them."""
        # Attached before the doors close, and read only: nothing in the file is changed.
        source = engine.open_beside(self.paths, attach=_write_attach(self.file))
        rows, types = _write_private_table(self.table), tuple(self.schema.values())
        _check_unchanged(source, rows, self.schema, f"table {self.table!r} of {self.file}")
        if not self.unique <= _find_unique(source, self.table):
            raise DataSourceError(f"A source must not change while it is open; {self.file} has.")
        engine.lend(
            source.select(
                f"SELECT {sent(types, indices)} FROM {rows} AS stored({_name_columns(len(types))})"
            )
        )
        return received(types, indices)


def _write_attach(file: Path) -> str:
    return f"ATTACH {literal(str(file))} AS private (READ_ONLY)"


def _write_private_table(name: str) -> str:
    # From the right: the last part is the table. Without a schema it is `main`, as for the engine
    # itself.
    schema, _, table = name.rpartition(".")
    return f"private.{quoted(schema or 'main')}.{quoted(table)}"


def open_database(file: Path, table: str) -> tuple[DatabaseReader, dict[str, str]]:
    """Read the schema of one table of a DuckDB file.

    Raises
    ------
    DataSourceError
        If the file cannot be opened or holds no such table.
    """
    if not file.is_file():
        raise DataSourceError(f"A DuckDB source must be an existing file; got {file}.")
    with engine() as opened:
        try:
            opened.connection.execute(_write_attach(file))
        except duckdb.Error:
            raise DataSourceError(
                "A DuckDB source must be a database file that no other "
                f"process writes to; {file} cannot be opened read only."
            ) from None
        opened.close_doors([file])
        schema = describe_columns(
            opened, f"SELECT * FROM {_write_private_table(table)}", f"table {table!r} of {file}"
        )
        is_view = _is_view(opened, table)
        computed = _find_columns(opened, table, "is_generated")
        required = _find_columns(opened, table, "NOT is_nullable")
        unique = _find_unique(opened, table)
    # Where the engine that makes the rows computes a column, one row may decide about others, or
    # fail.
    usable = {
        name: unusable(f"{kind} (computed when it is read)")
        if name in computed
        else settle_type(kind)
        for name, kind in schema.items()
    }
    return DatabaseReader(file, table, schema, is_view, frozenset(required), unique), usable


def _is_view(opened: Engine, table: str) -> bool:
    schema, _, name = table.rpartition(".")
    views = opened.connection.execute(
        "SELECT schema_name, view_name FROM duckdb_views() WHERE database_name = 'private'"
    ).fetchall()
    # The engine finds a table whatever the case of its name.
    return (schema.lower() or "main", name.lower()) in {
        (one.lower(), other.lower()) for one, other in views
    }


def _find_unique(opened: Engine, table: str) -> frozenset[str]:
    """Return the columns that the database lets no two rows agree in, each by itself."""
    schema, _, name = table.rpartition(".")
    constraints = opened.connection.execute(
        "SELECT schema_name, table_name, constraint_column_names FROM duckdb_constraints()"
        " WHERE database_name = 'private' AND constraint_type IN ('PRIMARY KEY', 'UNIQUE')"
    ).fetchall()
    # As in `_is_view`: the engine finds a table whatever the case of its name.
    wanted = (schema.lower() or "main", name.lower())
    return frozenset(
        columns[0]
        for one, other, columns in constraints
        if (one.lower(), other.lower()) == wanted and len(columns) == 1
    )


def _find_columns(opened: Engine, table: str, condition: str) -> set[str]:
    """Return the columns of a table that were declared so."""
    schema, _, name = table.rpartition(".")
    columns = opened.connection.execute(
        "SELECT schema_name, table_name, column_name FROM duckdb_columns()"
        f" WHERE database_name = 'private' AND {condition}"
    ).fetchall()
    # As in `_is_view`: the engine finds a table whatever the case of its name.
    wanted = (schema.lower() or "main", name.lower())
    return {str(column) for one, other, column in columns if (one.lower(), other.lower()) == wanted}


_VIEW = "sordino_private_rows"


@final
@dataclass(frozen=True)
class RelationReader:
    """A relation of somebody else's connection.

    Its settings are not touched, and nothing is left in it.

    The connection makes the rows of the relation and takes columns by their places. Its owner may
    have given names another meaning (macros, functions, collations): none of these occur there, and
    nothing that questions compute is computed there.
    """

    value: duckdb.DuckDBPyRelation = field(repr=False)  # it would print its rows
    # Of the columns that can be asked for.
    types: tuple[str, ...]
    named: str
    """Names for all of its columns."""
    files: tuple[Path, ...]
    """Those that its query, or a view, a macro or a database of its connection names."""

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns of the relation, and return the SELECT over them."""
        select = f"SELECT {sent(self.types, indices)} FROM {_VIEW} AS found({self.named})"
        engine.lend(lambda: _read_in_blocks(self.value.query(_VIEW, select)))
        return received(self.types, indices)


# How many rows a block has. The texts of a block are limited
# together: with larger blocks, less text fits into a row.
_ROWS_PER_BLOCK = 2048


def _read_in_blocks(rows: Any) -> Any:
    """Return a stream in small blocks.

    The texts of a block must have less than 2 GiB. Larger blocks would need a setting of the
    connection, and that belongs to somebody else.
    """
    return rows.to_arrow_reader(_ROWS_PER_BLOCK) if find_spec("pyarrow") is not None else rows


def open_relation(
    value: duckdb.DuckDBPyRelation,
) -> tuple[RelationReader, dict[str, str], dict[str, str]]:
    """Read the schema of a relation.

    Also return the names by which no column can be asked for, and why.

    Raises
    ------
    UnsupportedBackend
        If rows decide the types of its columns.
    """
    # A relation knows names and types without being run.
    found = _find_askable(value.columns, tuple(map(str, value.types)))
    files = _find_files(value)
    _check_plan(value)
    named = _name_columns(len(value.columns), found.places)
    return (
        RelationReader(value, tuple(found.columns.values()), named, files),
        found.columns,
        found.refused,
    )


# The steps of a plan that find the types of columns out from rows.
_GUESSING = re.compile(r'"name": "(READ_(?:CSV|JSON|NDJSON|XLSX)|PANDAS_SCAN)')


def _check_plan(value: duckdb.DuckDBPyRelation) -> None:
    """Refuse a relation over what has no declared types: rows have decided those of its columns.

    Raises
    ------
    UnsupportedBackend
        If its plan reads text files or pandas frames. Whether types were given is not seen there.
    """
    try:
        # Nothing is read: only how it would be.
        plan = value.explain(format="json")
    # What its engine says may quote rows.
    except duckdb.Error:
        raise DataSourceError(
            "A relation must be one that its connection can plan; this one is not."
        ) from None
    if found := _GUESSING.search(plan):
        raise UnsupportedBackend(
            "A relation must read tables or files that declare the types of their columns, such as "
            f"Parquet, because otherwise rows decide them; got one over {found[1]}. Open the file "
            "by its path, hand the frame over itself, or store the rows in a table with declared "
            "types."
        )


_DEFINITIONS = (
    "SELECT sql FROM system.main.duckdb_views() WHERE NOT internal"
    " UNION ALL SELECT macro_definition FROM system.main.duckdb_functions() WHERE NOT internal"
    " UNION ALL SELECT '\"' || path || '\"' FROM system.main.duckdb_databases()"
)


def _find_files(value: duckdb.DuckDBPyRelation) -> tuple[Path, ...]:
    """Return the files that a relation may read, as far as the SQL tells that it is made of."""
    try:
        defined: list[Any] = cast("Any", value.query(_VIEW, _DEFINITIONS)).fetchall()
        return find_named_files(
            [value.sql_query(), *(text for (text,) in defined if text is not None)]
        )
    # What its engine says may quote rows.
    except duckdb.Error:
        raise DataSourceError(
            "A relation must belong to a connection that is open and can be asked; this one cannot."
        ) from None
