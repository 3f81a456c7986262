"""Columns that stand in the names of folders.

`sales/year=2024/month=01/part-0.parquet`, as Hive writes it.

Such a column is one of texts, by what its folders are called: nothing is found out from the names.
Names of folders and files are public, and so which values there are; which row stands in which
folder is private.

The rules:

- The folders below the one that was named must all be KEY=VALUE, and every file must stand below
  the same keys in the same order.
- KEY and VALUE are percent-decoded (`%2F` is a slash), and must be text in UTF-8 without NUL.
- The value `__HIVE_DEFAULT_PARTITION__` is NULL, and so is an empty one.
- A key must have another name than the columns of the files, in capitals or not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final
from urllib.parse import unquote

from sordino.constraints import is_unicode, shown
from sordino.errors import DataSourceError
from sordino.sources.engine import literal

NULL_FOLDER = "__HIVE_DEFAULT_PARTITION__"
"""What Hive, and all who write as it does, call the folder of rows without a value."""

_FOLDER = re.compile("([^=]+)=(.*)", re.DOTALL)


@final
@dataclass(frozen=True)
class Folders:
    """The columns that folders are named by.

    Parameters
    ----------
    keys : tuple of str
        Their names, from the outermost folder on.
    values : tuple of tuple of str or None
        For each file the values of its folders.
    """

    keys: tuple[str, ...] = ()
    values: tuple[tuple[str | None, ...], ...] = ()

    def column(self, place: int) -> list[str | None]:
        """Return, for each file, the value of one key."""
        return [values[place] for values in self.values]


NO_FOLDERS = Folders()


class _Named(NamedTuple):
    key: str
    value: str | None


def read_folder_names(top: Path, files: Sequence[Path]) -> Folders:
    """Return the columns that the folders between `top` and its files are named by.

    Raises
    ------
    DataSourceError
        If a folder is no KEY=VALUE, or files stand below different keys.
    """
    named = [
        [_read_name(part, file) for part in file.relative_to(top).parts[:-1]] for file in files
    ]
    keys = [tuple(one.key for one in of_file) for of_file in named]
    for file, found in zip(files, keys, strict=True):
        if found != keys[0]:
            raise DataSourceError(
                f"All files of a folder must stand below the same KEY=VALUE folders; {file} does "
                f"not stand as {files[0]} does. Name fewer files with a pattern."
            )
    twice = [key for key in keys[0] if [one.lower() for one in keys[0]].count(key.lower()) > 1]
    if twice:
        raise DataSourceError(
            f"The keys of KEY=VALUE folders must be different; {files[0]} has {twice[0]!r} more "
            "than once."
        )
    return Folders(keys[0], tuple(tuple(one.value for one in of_file) for of_file in named))


def _read_name(folder: str, file: Path) -> _Named:
    matched = _FOLDER.fullmatch(folder)
    if matched is None:
        raise DataSourceError(
            f"The folders in a folder of files must be called KEY=VALUE; got {shown(folder)}, with "
            f"{file}. Name the files with a pattern, which reads no columns from the names of "
            "folders: FOLDER/**/*.csv"
        )
    try:
        key, value = (unquote(text, errors="strict") for text in matched.groups())
    except UnicodeDecodeError:
        key = value = "\0"
    if not (is_unicode(key) and is_unicode(value)) or "\0" in key + value:
        raise DataSourceError(
            "KEY=VALUE in the name of a folder must be text in UTF-8 without NUL; got "
            f"{shown(folder)}. Rename the folder."
        )
    return _Named(key, None if value in {"", NULL_FOLDER} else value)


def check_keys(folders: Folders, columns: Sequence[str], file: Path) -> None:
    """Refuse a key that is also a column of the files: a question could mean either.

    Raises
    ------
    DataSourceError
        If there is one.
    """
    known = {column.lower() for column in columns}
    both = [key for key in folders.keys if key.lower() in known]
    if both:
        raise DataSourceError(
            f"A KEY=VALUE folder must not have the name of a column of its files; {both[0]!r} is "
            f"both in {file}. Rename the folders, or name the files with a pattern, which leaves "
            "the folders out."
        )


def write_lookup(values: Sequence[str | None], number: str) -> str:
    """Return SQL for the entry of a list that belongs to the number of a file, counted from 0."""
    listed = ", ".join("NULL" if value is None else literal(value) for value in values)
    # Entries are counted from 1. The cast gives a type to a list of nothing but NULL.
    return f"list_extract(CAST([{listed}] AS VARCHAR[]), CAST({number} AS BIGINT) + 1)"
