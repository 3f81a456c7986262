"""Opens a source: reads and checks everything public about it, before any charge."""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb

from sordino.address import duckdb_table
from sordino.constraints import shown, text
from sordino.data.csv.column_types import Marks
from sordino.data.csv.lines import CsvFormat, marks_of, refuse_declarations
from sordino.data.csv.reader import open_csv
from sordino.data.sources.postgres import open_postgres
from sordino.data.sources.source import SUPPORTED, ReaderBackend, Source
from sordino.data.sources.tables import open_database, open_parquet, open_relation
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.remnants import no_remnants

CSV = frozenset({".csv", ".tsv", ".txt", ".psv"})
PARQUET = frozenset({".parquet", ".pq"})


@no_remnants
def open_source(source: Any, *, csv: CsvFormat | None = None, name: str | None = None) -> Source:
    """Open a table: read its names and declared types, and no row.

    Parameters
    ----------
    source : path, DuckDB relation or frame
        Path or pattern (``*``, ``?``, ``**``) of CSV or Parquet files, ``duckdb:FILE#TABLE``,
        ``postgresql://...#TABLE``, a DuckDB relation, a pandas or Polars frame, or an Arrow table. A pattern
        is expanded once, here.
    csv : CsvFormat, optional
        How CSV files are written; the default is comma, double quote, header line, UTF-8.
    name : str, optional
        What a ledger calls a table in memory, as `name:NAME`; without it such a table has no identity.

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
    >>> from sordino.data import open_source
    >>> open_source(polars.DataFrame({"item": ["a"], "user": [1]})).columns["user"]
    'BIGINT'
    """
    form = CsvFormat() if csv is None else csv
    if not isinstance(form, CsvFormat):
        raise InvalidParameter(f"csv must be a CsvFormat; got {shown(csv)}.")
    if name is not None:
        text(name, "name")
    # A text is always a path or an address, never data.
    if not isinstance(source, str | os.PathLike):
        opened = _open_in_memory(source, name)
    elif name is None:
        opened = _open_path(os.fspath(source), form)
    else:
        raise InvalidParameter(
            f"name is for tables in memory: a path has a name of its own; got {shown(name)}."
        )
    # Passed over in silence, a declared type would be one that nobody applies.
    if opened.kind != "csv":
        refuse_declarations(form, "a source other than CSV, whose columns have types of their own")
    return opened


def _open_in_memory(source: Any, name: str | None) -> Source:
    # The prefix keeps a name from being taken for a path, whatever the name is.
    identity = None if name is None else f"name:{name}"
    if isinstance(source, duckdb.DuckDBPyRelation):
        relation, columns = open_relation(source)
        return Source(
            "relation",
            identity,
            columns,
            (),
            ReaderBackend(relation),
            computed=True,
            ordered=False,
            files_known=False,
        )
    # Imported here, because narwhals is needed for tables in memory only.
    from sordino.data.sources.frames import open_frame  # noqa: PLC0415

    # Only types are read here. A lazy frame is computed after the charge.
    reader, columns = open_frame(source)
    kind = "lazy frame" if reader.lazy else "frame"
    return Source(
        kind,
        identity,
        columns,
        (),
        ReaderBackend(reader),
        computed=reader.lazy,
        inferred=reader.inferred,
        files_known=not reader.lazy,
    )


def _open_path(path: Any, form: CsvFormat) -> Source:
    text(path, "The path of a source")
    scheme, colon, rest = path.partition(":")
    if colon and scheme == "duckdb":
        # From the right: the name of a file may hold a # sign.
        file, hash_sign, table = rest.rpartition("#")
        if not (hash_sign and file and table):
            raise InvalidParameter(f"A DuckDB source must be written duckdb:FILE#TABLE; got {shown(path)}.")
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
        )
    if path.startswith("postgresql://"):
        # The server says which table it is, because an address has many spellings (docs/decisions/0016).
        server, columns, identity = open_postgres(path)
        return Source(
            "postgres",
            identity,
            columns,
            (),
            server,
            computed=server.computed,
            ordered=False,
            legible=server.legible,
        )
    if "://" in path:
        raise UnsupportedBackend(
            f"{SUPPORTED}; got an address with {scheme}://. Write the table to a file first."
        )
    # What is opened is what the ledger calls it, also where `..` stands behind a link.
    path = _make_absolute(path)
    files = _expand_pattern(path)
    # The names of the files decide how they are read. What stands in them is never looked at for that.
    kinds = {file.suffix.lower() for file in files}
    if kinds <= PARQUET:
        parquet, columns = open_parquet(files)
        return Source("parquet", path, columns, tuple(files), ReaderBackend(parquet))
    if kinds <= CSV:
        lines, columns = open_csv(files, form)
        return Source(
            "csv",
            path,
            columns,
            tuple(files),
            ReaderBackend(lines),
            texts=True,
            marks=None if marks_of(form) == Marks() else marks_of(form),
            drops=True,
        )
    raise UnsupportedBackend(
        f"All files of a source must end in {', '.join(sorted(CSV))} (uncompressed CSV) or all in "
        f"{', '.join(sorted(PARQUET))}; got {', '.join(repr(kind) for kind in sorted(kinds))}."
    )


def _make_absolute(path: str) -> str:
    # Links are not followed: a link is one source, whatever file it leads to (docs/decisions/0016).
    return os.path.normpath(Path(path).absolute())


def _expand_pattern(path: str) -> list[Path]:
    """Return the files of a path or pattern, sorted; a file with several names counts once."""
    # A file that exists is meant by its name, even if the name looks
    # like a pattern. Not `Path.glob`: it takes no absolute pattern.
    found = [path] if Path(path).exists() else glob.glob(path, recursive=True)  # noqa: PTH207
    # Of a file and its links (`latest.csv`) the first name counts. Otherwise its rows would count twice.
    by_place: dict[tuple[int, int], Path] = {}
    for one in sorted({Path(one).absolute() for one in found if Path(one).is_file()}):
        # A file that somebody removes meanwhile is none.
        with suppress(OSError):
            about = one.stat()
            by_place.setdefault((about.st_dev, about.st_ino), one)
    files = list(by_place.values())
    if not files:
        raise DataSourceError(
            "A source must be an existing file or a pattern that "
            f"matches one; nothing was found at {shown(path)}."
        )
    return files
