"""Parquet files, tables of DuckDB files, and DuckDB relations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import duckdb

from sordino.data._engine import Answer, Engine, Scan, engine, literal, quoted, rehearsed
from sordino.data._source import Asked, described, selected
from sordino.errors import DataSourceError, InvalidParameter


@final
@dataclass(frozen=True)
class ParquetReader:
    """Parquet files with one schema."""

    files: tuple[Path, ...]
    names: tuple[str, ...]

    @property
    def paths(self) -> Sequence[Path]:
        """The files themselves."""
        return self.files

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Return the SELECT over the files."""
        del engine
        return f"SELECT {selected(self.names, indices)} FROM {_parquet(self.files)}"


def _parquet(files: Sequence[Path]) -> str:
    # Nothing comes from folder names or from several schemas glued together: what a column is, is in the files alone.
    listed = ", ".join(literal(str(path)) for path in files)
    return f"read_parquet([{listed}], hive_partitioning = false, union_by_name = false, filename = false, file_row_number = false)"


def open_parquet(files: Sequence[Path]) -> tuple[ParquetReader, dict[str, str]]:
    """Read the schemas, and nothing else, of Parquet files.

    Raises
    ------
    DataSourceError
        If a file is no Parquet file, or the schemas differ.
    """
    strange = [path for path in files if set(str(path)) & set("*?[")]
    if strange:
        raise DataSourceError(f"The name of a Parquet file must not hold *, ? or [; got {strange[0]}. Rename it.")
    with engine() as opened:
        opened.close_doors(files)
        schemas = [described(opened, f"SELECT * FROM {_parquet([path])}", str(path)) for path in files]
    for path, schema in zip(files, schemas, strict=True):
        if list(schema.items()) != list(schemas[0].items()):
            raise DataSourceError(f"All files of a source must have the same columns and types; {path} differs from {files[0]}.")
    return ParquetReader(tuple(files), tuple(schemas[0])), schemas[0]


@final
@dataclass(frozen=True)
class DatabaseReader:
    """One table of a DuckDB file, opened read only."""

    file: Path
    table: str
    names: tuple[str, ...]

    @property
    def paths(self) -> Sequence[Path]:
        """The file, and the log of writes that may lie beside it."""
        return (self.file, self.file.with_name(self.file.name + ".wal"))

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Attach the file and return the SELECT over its table."""
        engine.connection.execute(f"ATTACH {literal(str(self.file))} AS private (READ_ONLY)")
        return f"SELECT {selected(self.names, indices)} FROM {_table(self.table)}"


def _table(name: str) -> str:
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
            opened.connection.execute(f"ATTACH {literal(str(file))} AS private (READ_ONLY)")
        except duckdb.Error:
            raise DataSourceError(
                f"A DuckDB source must be a database file that no other process writes to; {file} cannot be opened read only."
            ) from None
        opened.close_doors([file])
        schema = described(opened, f"SELECT * FROM {_table(table)}", f"table {table!r} of {file}")
    return DatabaseReader(file, table, tuple(schema)), schema


_VIEW = "sordino_private_rows"


@final
@dataclass(frozen=True)
class RelationBackend:
    """A relation of somebody else's connection: its settings are not touched and nothing is left in it."""

    value: duckdb.DuckDBPyRelation
    names: tuple[str, ...]

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Scan]:
        """Ask in the connection of the relation."""
        return _relation_scan(self, indices)

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask an engine of our own: nothing is done in somebody else's before the charge."""
        rehearsed(columns, asked)


@contextmanager
def _relation_scan(backend: RelationBackend, indices: Sequence[int]) -> Iterator[Scan]:
    yield _RelationScan(backend, indices)


class _RelationScan:
    def __init__(self, backend: RelationBackend, indices: Sequence[int]) -> None:
        self._value = backend.value
        self._rows = f"SELECT {selected(backend.names, indices)} FROM {_VIEW}"

    def ask(self, question: str, labels: Sequence[str] | None = None) -> Answer:
        tables = f"WITH rows AS ({self._rows})"
        if labels is not None:  # nothing may be registered in a connection that is not ours: the labels travel in the query
            text = literal(json.dumps(list(labels), ensure_ascii=False))
            tables += (
                f", labels AS (SELECT unnest(labels) AS label, generate_subscripts(labels, 1) - 1 AS position FROM "
                f"(SELECT from_json({text}, '[\"VARCHAR\"]') AS labels))"
            )
        answer: Any = self._value.query(_VIEW, f"{tables} {question}")
        return dict(answer.fetchnumpy())

    def progress(self) -> float:
        return 0.0  # not ours to measure: that would need settings of the connection

    def interrupt(self) -> None:
        """Do nothing: the handle to stop the query belongs to the owner of the connection."""


def open_relation(value: duckdb.DuckDBPyRelation) -> tuple[RelationBackend, dict[str, str]]:
    """Read the schema of a relation.

    Raises
    ------
    InvalidParameter
        If a column name occurs twice.
    """
    names = list(value.columns)
    if len(set(names)) != len(names):
        raise InvalidParameter("The columns of a relation must have different names; rename them with an alias.")
    return RelationBackend(value, tuple(names)), dict(zip(names, map(str, value.types), strict=True))
