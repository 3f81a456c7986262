"""Writes the declaration of a table: from the names of its columns, and never from a value."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.ledger.account.identity import canonical_source, real_place
from sordino.questions import PrivacyUnit
from sordino.sources import CsvFormat
from sordino.study.declaration import DAY, open_declaration, read_table
from sordino.study.template import list_own_form, write_key, write_value

_MOST_COLUMNS = 12
"""So many columns get a line to take the mark off."""
_HEAD = """\
# Tables that sordino knows by a name: where each lies, whom it protects, and who pays.
# All of it follows from names of columns. No row was read for it.
"""


@final
@dataclass(frozen=True, kw_only=True)
class TableDraft:
    """What is to be written of a table.

    Attributes
    ----------
    name : str
        What its owner calls it.
    source : str
        Where it lies, as it is named from the folder of the file.
    unit : PrivacyUnit
        Whom it protects.
    called : str
        What such a person is called.
    columns : sequence of str
        Names; none where they may be a row.
    texts : bool
        Whether columns are texts unless a type is declared.
    form : CsvFormat
        How it is written.
    labels : mapping of str to str
        Columns with the files that list their labels, as these are named from there.
    ledger, account : str
        Who pays.
    secret : bool
        Whether a user and a password were left out of an address.
    """

    name: str
    source: str
    unit: PrivacyUnit
    called: str
    columns: Sequence[str]
    texts: bool
    form: CsvFormat
    labels: Mapping[str, str]
    ledger: str
    account: str
    secret: bool


def write_table(declared: TableDraft) -> str:
    """Return the text of a table of a declaration."""
    unit = declared.unit
    person = [one.short for one in unit.parts] or unit.key
    whom = "row = true" if person is None else f"person = {write_value(person)}"
    pays = {"ledger": declared.ledger, "name": declared.account}
    lines = [
        "",
        f"[table.{declared.name}]",
        f"source = {write_value(declared.source)}",
        whom,
        f"called = {write_value(declared.called)}",
        f"adjacency = {write_value(unit.adjacency)}",
        f"account = {write_value(pays)}",
    ]
    if declared.secret:
        lines.insert(
            2,
            "# Who asks was left out: //USER:${PASSWORD}@HOST takes it from the environment.",
        )
    if unit.max_rows is not None:
        lines.append(f"max_rows = {unit.max_rows}")
    lines += ["", *_write_text_options(declared)]
    lines += ["", *_write_labels(declared)]
    return "\n".join(lines) + "\n"


def _write_text_options(declared: TableDraft) -> list[str]:
    own = list_own_form(declared.form)
    types = dict(own.pop("types", {}))
    lines = [f"{name} = {write_value(value)}" for name, value in own.items()]
    lines += [f"types.{write_key(name)} = {write_value(kind)}" for name, kind in types.items()]
    if not declared.texts:
        return lines
    lines.append("# How it is written. Take the mark off the lines that are true.")
    plain = {"delimiter": ";", "decimal": ",", "null": ["NA", "n/a"]}
    lines += [
        f"# {name} = {write_value(value)}" for name, value in plain.items() if name not in own
    ]
    open_columns = [name for name in _list_open_columns(declared) if name not in types]
    if open_columns:
        lines.append(
            "# A column is text until you say integer, decimal(p,s), double, date, timestamp or "
            "boolean."
        )
    return lines + _mark(f'types.{write_key(name)} = "text"' for name in open_columns)


def _write_labels(declared: TableDraft) -> list[str]:
    lines = [
        f"labels.{write_key(name)} = {write_value(file)}" for name, file in declared.labels.items()
    ]
    open_columns = [name for name in _list_open_columns(declared) if name not in declared.labels]
    if open_columns:
        lines.append(
            "# A public file that lists the labels of a column. Never make it from the table."
        )
    return lines + _mark(f'labels.{write_key(name)} = "labels.csv"' for name in open_columns)


def _list_open_columns(declared: TableDraft) -> list[str]:
    # A name with a line in it would end the comment, and no question could ask for it.
    return [
        name
        for name in declared.columns
        if name and name.isprintable() and name != declared.unit.column
    ]


def _mark(lines: Iterable[str]) -> list[str]:
    listed = [f"# {line}" for line in lines]
    left = len(listed) - _MOST_COLUMNS
    return listed if left <= 0 else [*listed[:_MOST_COLUMNS], f"# ... and {left} more columns"]


def find_folder(source: str) -> Path:
    """Return the folder beside the files of a source: there its declaration is put."""
    scheme, colon, rest = source.partition(":")
    if "://" in source:
        return Path()
    path = Path(rest.partition("#")[0] if colon and scheme in {"duckdb", "excel"} else source)
    # All files in a folder, and all that a pattern finds, are rows.
    parts = path.parent.parts
    plain = next((at for at, part in enumerate(parts) if set(part) & set("*?{")), len(parts))
    return Path(*parts[:plain])


# ---- the file ------------------------------------------------------------------------------------


@final
class DeclarationFile:
    """A file of declarations that gets one table more, whole or not at all.

    Parameters
    ----------
    path : str
        Of the file; it need not be there.

    Raises
    ------
    InvalidParameter
        If it cannot be written, or somebody else writes it now.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = Path(os.path.realpath(path))
        self._part = self._real.with_name(f"{self._real.name}.part")
        try:
            # Only one of several commands gets it.
            self._file = self._part.open("xb")
        except FileExistsError:
            raise InvalidParameter(
                f"Somebody writes {shown(path)} now: there is {self._part.name}. If no "
                "other command is running, one was killed: remove that file."
            ) from None
        # A name with a zero byte is no OSError.
        except (OSError, ValueError):
            raise InvalidParameter(
                f"A declaration must be a file in a folder that exists and can be written; got "
                f"{shown(path)}."
            ) from None

    def __enter__(self) -> DeclarationFile:
        return self

    def __exit__(self, *_: object) -> None:
        """Give up what was not written."""
        self._file.close()
        with suppress(OSError):
            self._part.unlink()

    def check(self, name: str, source: str, *, second: bool) -> None:
        """Refuse a table that the file has: by its name, or by where it lies.

        Parameters
        ----------
        name : str
            Of the new table.
        source : str
            Where it lies, as it is named from here.
        second : bool
            Whether a second account for a table is meant.

        Raises
        ------
        InvalidParameter
            If it has it, or anything in the file is wrong.
        """
        if not self._real.exists():
            return
        document = open_declaration(self.path)
        tables = [read_table(document, one, DAY) for one in document.take_table("table")]
        for table in tables:
            if table.name == name:
                document.refuse(
                    ("table", name),
                    f"[table.{name}] is declared already. Give the new one another name (--name), "
                    "or remove that one.",
                )
            if not second and _find_place(table.source.path) == _find_place(source):
                document.refuse(
                    ("table", table.name),
                    f"Table {table.name} lies at the same place: use it by that name, or say that "
                    "another account for the same people is meant (--second-budget).",
                )

    def add(self, text: str) -> None:
        """Take on a text that is to stand at the end of the file."""
        # As bytes, so that the lines of somebody else stay as they are.
        before = self._real.read_bytes() if self._real.exists() else _HEAD.encode()
        self._file.write(before + (b"" if before.endswith(b"\n") else b"\n") + text.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def finish(self) -> None:
        """Let the file appear with what was added."""
        if self._real.exists():
            shutil.copymode(self._real, self._part)
        self._part.replace(self._real)


def _find_place(source: str) -> str:
    # No server is asked for what another table of the file is: two addresses of one are told apart
    # by the ledger.
    return real_place(canonical_source(source))
