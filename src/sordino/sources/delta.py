"""Tables of Delta: which files of a folder count is said by a log, and by nothing else.

The log is read once, when the source is opened, by the package `deltalake`. What is taken from it
is public: names of files, values of the columns that folders are named by, the schema and the
features of the table. Its statistics are those of rows, and decide nothing. The files are then read
as any Parquet files are. They never change, and so the version that was opened is the one that is
read, whatever is written meanwhile.

What a file alone does not tell of its rows is refused: marks on single rows that were removed,
columns with other names than those in the files. Refused is what the table allows, not what it
makes use of: whether a row was removed is private.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from sordino.constraints import shown
from sordino.errors import DataSourceError, UnsupportedBackend
from sordino.sources.folders import Folders

LOG = "_delta_log"
"""The folder in which such a table keeps its log."""

_HARMLESS = frozenset({"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"})
"""Features that change how the log is written, and not what a row is."""

_REMEDY = "Write its rows to Parquet files first."


class DeltaFiles(NamedTuple):
    """The files of a table of Delta that count, and all that lie there.

    Parameters
    ----------
    files : tuple of Path
        Those that count, sorted.
    folders : Folders
        The columns by which the table is partitioned.
    """

    files: tuple[Path, ...]
    folders: Folders


def find_delta_files(top: Path) -> DeltaFiles:
    """Read the log of a table, and return the files that count now.

    Raises
    ------
    UnsupportedBackend
        If the package that reads logs is not installed.
    DataSourceError
        If the log cannot be read, or allows what a file alone does not tell.
    """
    if find_spec("deltalake") is None:
        raise UnsupportedBackend(
            f"A table of Delta needs the package deltalake, which reads its log; {top} is one. "
            "Install it: pip install 'sordino[delta]'."
        )
    table = _read_log(top)
    _check_features(top, table)
    keys = tuple(table.metadata().partition_columns)
    writers = _find_writers(top, table, keys)
    entries = _list_entries(top, table, keys)
    found = {
        _locate(top, path): tuple(
            None if value is None else write(value)
            for write, value in zip(writers, values, strict=True)
        )
        for path, values in entries
    }
    if not found:
        raise DataSourceError(
            f"A table of Delta must have at least one file that counts; {top} has none. Which "
            "files there are is public; add rows first."
        )
    files = tuple(sorted(found))
    _check_names(top, files)
    return DeltaFiles(files, Folders(keys, tuple(found[file] for file in files)))


def _check_names(top: Path, files: Sequence[Path]) -> None:
    """Refuse a file that counts under two names: one row would be two."""
    places = {(about.st_dev, about.st_ino) for about in map(Path.stat, files)}
    if len(places) < len(files):
        raise DataSourceError(
            f"The log of a table of Delta must name each file once; that of {top} has a file and a "
            f"link to it. {_REMEDY}"
        )


def list_all_files(top: Path) -> tuple[Path, ...]:
    """Return the files in the folder of a table, also those whose rows were removed."""
    return tuple(sorted(path for path in top.rglob("*") if path.is_file()))


def _read_log(top: Path) -> Any:
    from deltalake import DeltaTable  # noqa: PLC0415

    try:
        # As an address, in which no letter of a path has another meaning.
        return DeltaTable(top.as_uri())
    # The package has errors of several kinds, and theirs may quote the log.
    except Exception:  # noqa: BLE001 - see above
        refused = DataSourceError(
            "The log of a table of Delta must be readable, and of a version that the installed "
            f"deltalake knows; that of {top} is not. {_REMEDY}"
        )
    # Outside of the handler: nothing of the first error stays with the second one.
    raise refused


def _check_features(top: Path, table: Any) -> None:
    """Refuse a table whose files alone do not tell what its rows are."""
    features = set(table.protocol().reader_features or ())
    # Before there were lists of features, a table said so in its configuration.
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    beyond = sorted(features - _HARMLESS)
    if beyond:
        raise DataSourceError(
            f"A table of Delta must not use features beyond its log and plain Parquet files; {top} "
            f"allows {', '.join(map(shown, beyond))}. {_REMEDY}"
        )


def _write_delta_truth(value: Any) -> str:
    return "true" if value else "false"


def _write_day(value: date) -> str:
    return value.isoformat()


_WRITERS: Mapping[str, Callable[[Any], str]] = {
    **dict.fromkeys(("string", "byte", "short", "integer", "long"), str),
    "boolean": _write_delta_truth,
    "date": _write_day,
}
"""How values of a partition are written as texts, by their types: as values of such columns are."""


def _find_writers(top: Path, table: Any, keys: Sequence[str]) -> list[Callable[[Any], str]]:
    types = {field.name: getattr(field.type, "type", "nested") for field in table.schema().fields}
    for key in keys:
        if types.get(key) not in _WRITERS:
            raise DataSourceError(
                "A partition column of a table of Delta must hold texts, whole numbers, dates or "
                f"truth values; that of {top} has {shown(key)} of type {types.get(key)}. {_REMEDY}"
            )
    return [_WRITERS[types[key]] for key in keys]


def _list_entries(top: Path, table: Any, keys: Sequence[str]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return the path of each file that counts, and its values of the partition columns."""
    try:
        added = table.get_add_actions()
        paths = added.column("path").to_pylist()
        # A table without partitions has no such column.
        values = added.column("partition").to_pylist() if keys else [{}] * len(paths)
    except Exception:  # noqa: BLE001 - as in `_read_log`
        refused = DataSourceError(
            f"The log of a table of Delta must be readable; that of {top} is not. {_REMEDY}"
        )
    else:
        # Delta writes an empty text and a missing one alike.
        return [
            (str(path), tuple(None if of_file[key] == "" else of_file[key] for key in keys))
            for path, of_file in zip(paths, values, strict=True)
        ]
    raise refused


def _locate(top: Path, address: str) -> Path:
    """Return the file of an entry: an address below the folder of the table."""
    path = Path(unquote(address))
    if "://" in address or address.startswith("file:") or path.is_absolute() or ".." in path.parts:
        raise DataSourceError(
            f"A table of Delta must be made of files of its own folder; the log of {top} names "
            f"others, as that of a clone does. {_REMEDY}"
        )
    file = top / path
    if not file.is_file():
        raise DataSourceError(
            f"A table of Delta must have all files that its log names; {file} is not there. "
            "Restore it."
        )
    return file
