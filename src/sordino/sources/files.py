"""Finds the files of a path, pattern or folder once, before the charge, and says how they are read.

The names of files and folders are public. What stands in a file is never looked at to find out what
it is.

The rules of a folder: all files in it are read, but those whose names begin with `_` or `.`, which
programs keep their notes in; so do folders with such names. All files are of one kind. Files that
come later are not read. Of a table of Delta the files count that its log names; a table of Hudi is
refused, because some of its files hold removed rows, and so is a pattern that reaches into one of
the two, or a folder inside.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.sources.csv.column_types import FileKind
from sordino.sources.csv.packed import PACKED, unpacked_suffix
from sordino.sources.delta import LOG, find_delta_files, list_all_files
from sordino.sources.folders import NO_FOLDERS, Folders, read_folder_names

_KINDS: dict[str, FileKind] = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".psv"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
}

_TO_CSV = "Export it to CSV or Parquet."
_AS_PARQUET = "Write it as Parquet, or hand it over as an Arrow table, in Python."
_UNPACK = "Unpack it, or compress it with gzip or zstandard."
_OPEN_TABLE = "A DuckDB file is written duckdb:FILE#TABLE."
_UNREAD = {
    **dict.fromkeys((".xlsx", ".xlsm"), "A sheet of a workbook is written excel:FILE#SHEET."),
    **dict.fromkeys(
        (".xls", ".xlsb", ".ods"),
        "This kind of spreadsheet is not read. Save it as .xlsx, or export it to CSV.",
    ),
    ".json": (
        "JSON is read with one object on each line. If it is written so: --format-in jsonl. Else "
        "write it so, for example with jq -c '.[]'."
    ),
    ".parq": "If it is Parquet: --format-in parquet.",
    **dict.fromkeys((".feather", ".arrow", ".ipc"), f"Arrow files are not read. {_AS_PARQUET}"),
    ".orc": f"ORC files are not read. {_AS_PARQUET}",
    ".avro": f"Avro files are not read. {_AS_PARQUET}",
    **dict.fromkeys((".sav", ".por"), f"Files of SPSS are not read. {_TO_CSV}"),
    ".dta": f"Files of Stata are not read. {_TO_CSV}",
    **dict.fromkeys((".sas7bdat", ".xpt"), f"Files of SAS are not read. {_TO_CSV}"),
    **dict.fromkeys((".rds", ".rdata"), f"Files of R are not read. {_TO_CSV}"),
    **dict.fromkeys((".pkl", ".pickle"), f"A pickle is a program, and is not run. {_TO_CSV}"),
    **dict.fromkeys(
        (".zip", ".bz2", ".xz", ".7z", ".tar", ".tgz", ".lz4"),
        f"This packing is not read. {_UNPACK}",
    ),
    ".bgz": "It is a file of gzip: give it a name that ends in .gz, such as .csv.gz.",
    ".tab": "If fields are separated by tabs: --format-in csv --delimiter '\\t'.",
    **dict.fromkeys((".duckdb", ".ddb"), _OPEN_TABLE),
    **dict.fromkeys(
        (".db", ".sqlite", ".sqlite3"), f"SQLite files are not read. {_TO_CSV} {_OPEN_TABLE}"
    ),
}
"""What to do with files that are not read, by the ends of their names."""

_BARE = frozenset({".txt"})
"""Ends of names of files that are mostly CSV, and may be something else."""
_MAY_BE: dict[str, FileKind] = {".json": "jsonl", ".tab": "csv", ".parq": "parquet"}
"""What some files that are not read may be all the same, if somebody says so."""
_SAID = "CsvFormat.format_in (--format-in)"

_LOGS = {LOG: "Delta", ".hoodie": "Hudi"}
"""Folders that say which of the files around them still count, and what they belong to."""

_NAME_TABLE = {"Delta": "Name that folder.", "Hudi": "Write its rows to Parquet files first."}


@final
@dataclass(frozen=True)
class FoundFiles:
    """The files of a source, sorted, and how they are read.

    Parameters
    ----------
    files : tuple of Path
        One or more.
    kind : {"csv", "jsonl", "parquet"}
        By the names of the files.
    folders : Folders
        The columns that their folders are named by.
    beside : tuple of Path
        Files that do not count and are private all the same: they hold removed rows.
    folder : Path or None
        The folder that was named: all that is in it is private, and will be.
    """

    files: tuple[Path, ...]
    kind: FileKind
    folders: Folders = NO_FOLDERS
    beside: tuple[Path, ...] = ()
    folder: Path | None = None


def find_files(path: str, said: FileKind | None = None) -> FoundFiles:
    """Return the files of a path, of a pattern, or in a folder.

    Parameters
    ----------
    path : str
        Of a file or a folder, or a pattern.
    said : {"csv", "jsonl", "parquet"}, optional
        What files are whose names do not tell it.

    Raises
    ------
    DataSourceError
        If there is none, or the files of a folder do not belong together.
    UnsupportedBackend
        If the files are of several kinds, or of one that is not read.
    InvalidParameter
        If a name tells something else than what was said.
    """
    top = Path(path)
    if (top / LOG).is_dir():
        if said not in {None, "parquet"}:
            raise InvalidParameter(f"{_SAID} must be left out for a table of Delta; got {said!r}.")
        table = find_delta_files(top)
        return FoundFiles(table.files, "parquet", table.folders, list_all_files(top), top)
    if top.is_dir():
        files = _keep_one_name(_walk_folder(top))
        if not files:
            raise DataSourceError(
                "A folder of files must hold at least one whose name does not begin with _ or a "
                f"point; {shown(path)} holds none."
            )
        # A folder of a partition has no log of its own.
        _refuse_tables(files)
        folders = read_folder_names(top, files)
        return FoundFiles(files, _find_file_kind(files, said), folders, folder=top)
    files = _expand_pattern(path)
    if not files:
        raise DataSourceError(
            "A source must be an existing file, a folder of files, or a pattern that "
            f"matches one; nothing was found at {shown(path)}."
        )
    # A file that is named as it is called is meant, wherever it lies.
    if not Path(path).exists():
        _refuse_tables(files)
    return FoundFiles(files, _find_file_kind(files, said))


def _expand_pattern(path: str) -> tuple[Path, ...]:
    """Return the files of a path or pattern."""
    # A file that exists is meant by its name, even if the name looks
    # like a pattern. Not `Path.glob`: it takes no absolute pattern.
    found = [path] if Path(path).exists() else glob.glob(path, recursive=True)  # noqa: PTH207
    return _keep_one_name(Path(one).absolute() for one in found if Path(one).is_file())


def _walk_folder(folder: Path) -> Iterator[Path]:
    """Yield the files in a folder and in the folders below it."""
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise DataSourceError(
            f"A folder must be readable; {folder} is not ({error.strerror})."
        ) from None
    for path in inside:
        if path.name in _LOGS and path.is_dir():
            raise DataSourceError(
                f"A folder of files must not be a table of {_LOGS[path.name]}, some of whose files "
                f"hold removed rows; {folder} has {path.name}. Write its rows to Parquet files "
                "first."
            )
        if path.name.startswith(("_", ".")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk_folder(path)
        elif path.is_file():
            yield path
        # Passed over in silence, its rows would be missing from every figure.
        else:
            raise DataSourceError(
                f"A folder must hold files and folders only, and links to files; {path} is none of "
                "these. Move it away, or name the files with a pattern."
            )


def _refuse_tables(files: Sequence[Path]) -> None:
    """Refuse files of a folder in which a log says that some of them do not count."""
    # Also where a link to a file or a folder leads there.
    places = {place for file in files for place in (file, file.resolve())}
    for folder in sorted({folder for place in places for folder in place.parents}):
        for log, table in _LOGS.items():
            if (folder / log).is_dir():
                raise DataSourceError(
                    f"A folder or a pattern must not reach into a table of {table}, some of whose "
                    f"files hold removed rows; {folder} has {log}. {_NAME_TABLE[table]}"
                )


def _keep_one_name(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files sorted, each with the first of its names."""
    # Of a file and its links (`latest.csv`) the first name counts. Otherwise its rows would count
    # twice.
    by_place: dict[tuple[int, int], Path] = {}
    for one in sorted(set(paths)):
        # A file that somebody removes meanwhile is none.
        with suppress(OSError):
            about = one.stat()
            by_place.setdefault((about.st_dev, about.st_ino), one)
    return tuple(by_place.values())


def _find_file_kind(files: Sequence[Path], said: FileKind | None) -> FileKind:
    """Return how files are read, by their names, and by what was said where these do not tell."""
    suffixes = sorted({unpacked_suffix(file) for file in files})
    if said is not None:
        for suffix in suffixes:
            _refuse_other(suffix, said)
    usual = {suffix: said or _KINDS.get(suffix) for suffix in suffixes}
    kind, *others = set(usual.values())
    strays = [file for file in files if usual[unpacked_suffix(file)] is None]
    # What lies among files that are read is not what is meant.
    if others and strays:
        more = f", and {len(strays) - 1} more are not" if strays[1:] else ""
        known = next(suffix for suffix in suffixes if suffix in _KINDS)
        raise UnsupportedBackend(
            "All files of a source must be of a kind that is read, by the ends of their names; "
            f"{strays[0]} is not{more}. Move it away, or name files of one kind with a pattern, "
            f"such as FOLDER/*{known}."
        )
    if strays:
        ending = unpacked_suffix(strays[0])
        advice = _UNREAD.get(
            ending,
            "If it is CSV: --format-in csv (in Python CsvFormat(format_in='csv')).",
        )
        raise UnsupportedBackend(
            f"I do not know the ending {ending}. {advice}"
            if ending.isprintable() and ending
            else f"I do not know what a file is whose name has no ending, such as .csv. {advice}"
        )
    # Parquet is compressed inside, where its columns can still be found.
    packed = sorted({file.suffix.lower() for file in files if file.suffix.lower() in PACKED})
    if kind is None or others or (kind == "parquet" and packed):
        raise UnsupportedBackend(
            "All files of a source must be of one kind, by the ends of their names: "
            f"{_list_endings('csv')} (CSV) or {_list_endings('jsonl')} (JSON lines), all of which "
            f"may also end in {' or '.join(sorted(PACKED))}, or {_list_endings('parquet')}; got "
            f"{', '.join(map(shown, sorted({_ending(file) for file in files})[:12]))}. Name files "
            "of one kind with a pattern, such as FOLDER/*.csv."
        )
    return kind


def _refuse_other(suffix: str, said: FileKind) -> None:
    """Refuse to read a file as something that its name says it is not.

    The first line of CSV is public. So a file of JSON lines that is read as CSV would show a row.
    """
    told = None if suffix in _BARE else _KINDS.get(suffix)
    if told is not None and told != said:
        raise InvalidParameter(
            f"{_SAID} must be left out, or be {told!r}, for files that end in "
            f"{suffix}; got {said!r}."
        )
    if suffix in _UNREAD and _MAY_BE.get(suffix) != said:
        raise UnsupportedBackend(
            f"{_SAID} must fit the ending {suffix}; got {said!r}. {_UNREAD[suffix]}"
        )


def _ending(file: Path) -> str:
    # Of `sales.csv.gz` both parts of the end, and of `v1.2.csv` the last one.
    return unpacked_suffix(file) + (file.suffix.lower() if file.suffix.lower() in PACKED else "")


def _list_endings(kind: FileKind) -> str:
    return ", ".join(sorted(suffix for suffix, read_as in _KINDS.items() if read_as == kind))
