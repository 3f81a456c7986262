"""Opens a source: reads and checks everything public about it, before any charge."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import duckdb

from sordino.address import SPARK_SCHEME, SPARK_START, duckdb_table, excel_parts
from sordino.constraints import shown, text
from sordino.errors import InvalidParameter, UnsupportedBackend
from sordino.scrubbing import scrubbed
from sordino.sources.csv.column_types import UNCLEAR_NAME, FileKind, Marks
from sordino.sources.csv.header import advise_header, find_clear_names
from sordino.sources.csv.json_lines import NO_OBJECT_LINES, open_json_lines
from sordino.sources.csv.lines import CsvFormat, marks_of, refuse_declarations, say_dropped
from sordino.sources.csv.reader import open_csv
from sordino.sources.files import find_files
from sordino.sources.memory import Limits, read_limit
from sordino.sources.shared import Readings
from sordino.sources.source import SUPPORTED, ReaderBackend, Source
from sordino.sources.tables import open_database, open_parquet, open_relation

if TYPE_CHECKING:
    from sordino.sources.spark.frames import SparkBackend


@scrubbed
def open_source(
    source: Any,
    *,
    csv: CsvFormat | None = None,
    name: str | None = None,
    memory_limit: int | str | None = None,
    temp_limit: int | str | None = None,
) -> Source:
    """Open a table: read its names and declared types, and no row.

    Parameters
    ----------
    source : path, DuckDB relation or frame
        Path or pattern (``*``, ``?``, ``**``) of files of CSV or JSON lines, which may be
        compressed (.gz, .zst), or of Parquet files; a folder of such files, whose KEY=VALUE folders
        are columns of texts; a folder of Delta; ``duckdb:FILE#TABLE``, ``excel:FILE#SHEET``,
        ``postgresql://...#TABLE``, ``sc://HOST#CATALOG.SCHEMA.TABLE``, a DuckDB relation, a pandas,
        Polars or Spark frame, or an Arrow table. A pattern or a folder is expanded once, here.
    csv : CsvFormat, optional
        How CSV files are written; the default is comma, double quote, header line, UTF-8. Its
        `types` are the columns of JSON lines, and with `null` and `date_format` hold for sheets of
        Excel, too. Its `format_in` says what files are whose names do not end in .csv or the like.
    name : str, optional
        What a ledger calls the table, as `name:NAME`, wherever it lies; without it a path or an
        address is called by that, and a table in memory has no identity.
    memory_limit : int or str, optional
        How many bytes of memory our engine may use, such as "2GB", before it writes to a private
        folder.
    temp_limit : int or str, optional
        How many bytes it may write there, such as "50GB". What is not free when a question is
        prepared is refused.

    Returns
    -------
    Source
        Its names and types; `prepare_counts` asks about its rows.

    Raises
    ------
    DataSourceError
        If files are missing, unreadable or do not agree.
    UnsupportedBackend
        If the kind of table is not known.
    InvalidParameter
        If an argument does not satisfy its constraint.

    Examples
    --------
    >>> import polars
    >>> from sordino.sources import open_source
    >>> open_source(polars.DataFrame({"item": ["a"], "user": [1]})).columns["user"]
    'BIGINT'
    """
    limits = Limits(
        memory=None if memory_limit is None else read_limit("memory_limit", memory_limit),
        temp=None if temp_limit is None else read_limit("temp_limit", temp_limit),
    )
    form = CsvFormat() if csv is None else csv
    if not isinstance(form, CsvFormat):
        raise InvalidParameter(f"csv must be a CsvFormat; got {shown(csv)}.")
    if name is not None:
        text(name, "name")
    # A text is always a path or an address, never data.
    if not isinstance(source, str | os.PathLike):
        opened = _open_in_memory(source, name)
    else:
        opened = _open_path(os.fspath(source), form)
        # Beside its identity: how rows are read follows from where they lie
        # (docs/decisions/0050-an-account-is-about-what-its-owner-names.md).
        if name is not None:
            opened = replace(opened, named=f"name:{name}")
    # Passed over in silence, a declared type would be one that nobody applies.
    if opened.kind not in {"csv", "jsonl", "excel"}:
        refuse_declarations(
            form,
            "a source other than CSV, JSON lines and Excel, whose columns have types of their own",
        )
    if form.format_in is not None and opened.kind not in get_args(FileKind):
        raise InvalidParameter(
            "CsvFormat.format_in (--format-in) is for files of CSV, JSON lines or Parquet; got "
            f"{form.format_in!r} for a {opened.kind} source. Leave it out."
        )
    return opened if limits == Limits() else _limit_engines(opened, limits)


def _limit_engines(opened: Source, limits: Limits) -> Source:
    # Nor would anybody apply a limit to a server.
    if not isinstance(opened.backend, ReaderBackend):
        raise InvalidParameter(
            f"{'temp_limit' if limits.memory is None else 'memory_limit'} is for tables that our "
            "own engine reads; a server has limits of its own, which its administrator sets. Leave "
            "it out."
        )
    return replace(opened, backend=replace(opened.backend, limits=limits))


def share_readings(source: Source) -> tuple[Source, Readings | None]:
    """Return a source for the questions of one batch, and what they share.

    None where nothing is shared.

    Whoever asks for it closes what is shared, after the last question.
    """
    backend = source.backend
    # A server answers each question in a snapshot of its own.
    if not isinstance(backend, ReaderBackend):
        return source, None
    # To find the fields of text takes long; other files and frames are read as fast as a copy of
    # them.
    readings = Readings(spools=source.texts, limits=backend.limits)
    return replace(source, backend=replace(backend, readings=readings)), readings


def _open_in_memory(source: Any, name: str | None) -> Source:
    # The prefix keeps a name from being taken for a path, whatever the name is.
    identity = None if name is None else f"name:{name}"
    if isinstance(source, duckdb.DuckDBPyRelation):
        relation, columns, refused = open_relation(source)
        return Source(
            "relation",
            identity,
            columns,
            relation.files,
            ReaderBackend(relation),
            computed=True,
            ordered=False,
            refused=refused,
        )
    if _is_spark_frame(source):
        # Few sources are of Spark.
        from sordino.sources.spark.frames import open_spark_frame  # noqa: PLC0415

        spark, columns = open_spark_frame(source)
        return _make_spark_source(spark, identity, columns)
    # Imported here, because narwhals is needed for tables in memory only.
    from sordino.sources.frames import open_frame  # noqa: PLC0415
    from sordino.sources.predicates.frame_condition import read_frame_columns  # noqa: PLC0415

    # Only types are read here. A lazy frame is computed after the charge.
    reader, columns, refused = open_frame(source)
    kind = "lazy frame" if reader.lazy else "frame"
    return Source(
        kind,
        identity,
        columns,
        reader.files,
        ReaderBackend(reader),
        computed=reader.lazy,
        inferred=reader.inferred,
        refused=refused,
        cast=reader.cast,
        read_columns=read_frame_columns,
        folders=reader.folders,
    )


def _open_path(path: Any, form: CsvFormat) -> Source:
    text(path, "The path of a source")
    scheme, colon, rest = path.partition(":")
    if colon and scheme == "duckdb":
        # From the right: the name of a file may hold a # sign.
        file, hash_sign, table = rest.rpartition("#")
        if not (hash_sign and file and table):
            raise InvalidParameter(
                f"A DuckDB source must be written duckdb:FILE#TABLE; got {shown(path)}."
            )
        where = Path(_make_absolute(file))
        database, columns = open_database(where, table)
        identity = f"duckdb:{where}#{duckdb_table(table)}"
        return Source(
            "duckdb",
            identity,
            columns,
            tuple(database.paths),
            ReaderBackend(database),
            computed=database.is_view,
            required=database.required,
            unique=database.unique,
        )
    if colon and scheme == "excel":
        # Here, and so with servers below: most sources need none of these.
        from sordino.sources.excel.workbook import DROPPED_ROWS, open_excel  # noqa: PLC0415

        file, sheet = excel_parts(path)
        where = Path(_make_absolute(file))
        cells, columns = open_excel(str(where), sheet, form)
        return Source(
            "excel",
            f"excel:{where}#{sheet}",
            columns,
            (where,),
            ReaderBackend(cells),
            texts=True,
            dropped=DROPPED_ROWS,
            refused=dict.fromkeys(
                set(cells.names.values()) - set(columns),
                "is a name that stands more than once in the first row. Rename one of the columns.",
            ),
        )
    if path.startswith(("postgresql://", SPARK_SCHEME, SPARK_START)):
        return _open_server_table(path)
    if scheme.lower() in {"postgres", "postgresql"} and rest.startswith("//"):
        raise InvalidParameter(
            "A table of PostgreSQL must be written postgresql://USER@HOST/DATABASE#TABLE; got an "
            f"address with {scheme}://. Write postgresql:// in its place."
        )
    if path.startswith("jdbc:postgresql:"):
        raise InvalidParameter(
            "A table of PostgreSQL must be written postgresql://USER@HOST/DATABASE#TABLE; got an "
            "address of JDBC. Leave out jdbc: and name the table behind #."
        )
    if "://" in path:
        raise UnsupportedBackend(
            f"{SUPPORTED}; got an address with {scheme}://. Write the table to a file first."
        )
    # What is opened is what the ledger calls it, also where `..` stands behind a link.
    path = _make_absolute(path)
    found = find_files(path, form.format_in)
    # A path that is there is none, whatever its letters.
    around: dict[str, Any] = {
        "folders": () if found.folder is None else (found.folder,),
        "pattern": "" if Path(path).exists() else path,
    }
    if found.kind == "parquet":
        parquet, columns, refused = open_parquet(found.files, found.folders)
        private = found.files + found.beside
        return Source(
            found.kind, path, columns, private, ReaderBackend(parquet), refused=refused, **around
        )
    if found.kind == "jsonl":
        objects, columns = open_json_lines(found.files, form, found.folders)
        return Source(
            found.kind,
            path,
            columns,
            found.files,
            ReaderBackend(objects),
            texts=True,
            dropped=NO_OBJECT_LINES,
            declared=True,
            **around,
        )
    lines, columns = open_csv(found.files, form, found.folders)
    named = find_clear_names(lines.names)
    return Source(
        found.kind,
        path,
        columns,
        found.files,
        ReaderBackend(lines),
        texts=True,
        marks=None if marks_of(form) == Marks() else marks_of(form),
        dropped=say_dropped(form),
        refused=dict.fromkeys(set(lines.names) - set(named), UNCLEAR_NAME),
        advice=advise_header(lines.names, form),
        **around,
    )


def _open_server_table(path: str) -> Source:
    if path.startswith(SPARK_START):
        raise InvalidParameter(
            "A table of Spark must be opened through a server, as "
            "sc://HOST:PORT#CATALOG.SCHEMA.TABLE, or in Python as spark.table(...); got "
            f"{shown(path)}, which is what a ledger calls it."
        )
    if path.startswith(SPARK_SCHEME):
        from sordino.sources.spark.frames import open_spark_table  # noqa: PLC0415 - as above

        spark, columns, spark_identity = open_spark_table(path)
        return _make_spark_source(spark, spark_identity, columns)
    # Few sources are on a server.
    from sordino.sources.postgres import open_postgres  # noqa: PLC0415

    # The server says which table it is, because an address has many spellings
    # (docs/decisions/0016).
    server, columns, identity = open_postgres(path)
    return Source(
        "postgres",
        identity,
        columns,
        (),
        server,
        computed=server.computed,
        required=server.required,
        unique=server.unique,
        ordered=False,
        legible=server.legible,
        cast="Name a view that has it as CAST(NAME AS text).",
    )


def _is_spark_frame(value: Any) -> bool:
    """Tell whether a value is a frame of Spark, without importing Spark."""
    module = sys.modules.get("pyspark.sql")
    return module is not None and isinstance(value, module.DataFrame)


def _make_spark_source(
    spark: SparkBackend, identity: str | None, columns: dict[str, str]
) -> Source:
    # Whether a table holds its rows itself, or a reader leaves some out, is not seen from here, and
    # neither is which files it reads.
    return Source(
        "spark",
        identity,
        columns,
        (),
        spark,
        computed=True,
        ordered=False,
        cast="Convert the column in Spark: frame.withColumn(NAME, frame[NAME].cast('string')).",
    )


def _make_absolute(path: str) -> str:
    # Links are not followed: a link is one source, whatever file it leads to (docs/decisions/0016).
    return os.path.normpath(Path(path).absolute())
