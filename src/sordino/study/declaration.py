"""`sordino.toml`: tables that are declared once, each under a name that commands and programs take.

A declaration is public. It says where a table lies, whom it protects, how it is written, which
files list its labels, and which account pays (docs/decisions/0050).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple, final

from sordino.address import without_password
from sordino.constraints import ADJACENCY, TABLE_NAME, did_you_mean, shown, text
from sordino.errors import DataSourceError, InvalidParameter, SordinoError, UnsupportedBackend
from sordino.ledger import Ledger
from sordino.questions import Domain, Lookup, PrivacyUnit
from sordino.questions.lookups import look_up
from sordino.sources import CsvFormat, Source, open_source
from sordino.study.document import Document, Place, digest_tree
from sordino.study.kinds import join_path
from sordino.study.tables import (
    FORM_KEYS,
    AccountTable,
    StudySource,
    build_declared,
    guard,
    locate_ledger,
    locate_source,
    read_place,
)

Said = Mapping[str, Any]
"""What a file says, by the names of keys."""
LEDGER = "budget.db"
"""The file of the ledger unless another one is named."""
FILE = "sordino.toml"
"""How the file is called unless somebody names another one."""
DAY = "{date}"
"""What stands in a path for a day."""
TABLE_KEYS = (
    "source",
    "person",
    "row",
    "called",
    "max_rows",
    "adjacency",
    "account",
    "labels",
    "lookup",
    "memory_limit",
    "temp_limit",
    *FORM_KEYS,
)
_LABEL_KEYS = ("file", "column", "header")
_LOOKUP_KEYS = ("source", "key", "of", "private")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_BEFORE_TODAY = re.compile(r"today(?:-([0-9]{1,5}))?", re.ASCII)


class LabelFile(NamedTuple):
    """A file that lists the public labels of a column."""

    file: str
    column: str | None
    header: bool


@final
@dataclass(frozen=True, kw_only=True)
class DeclaredTable:
    """A table as it is declared.

    Attributes
    ----------
    name : str
        What its owner calls it.
    source : StudySource
        Where it lies, on the day that is meant, and how it is written.
    unit : PrivacyUnit
        Whom it protects.
    called : str
        What such a person is called.
    labels : mapping of str to LabelFile
        The public labels of its columns.
    lookups : mapping of str to Lookup
        The other tables that say more about its rows.
    ledger, account : str
        Who pays.
    said : frozenset of str
        Which keys stand in the file.
    document : Document
        The file.
    """

    name: str
    source: StudySource
    unit: PrivacyUnit
    called: str
    labels: Mapping[str, LabelFile]
    lookups: Mapping[str, Lookup]
    ledger: str
    account: str
    said: frozenset[str]
    document: Document

    def open_source(
        self,
        form: CsvFormat,
        ledger: Ledger | None,
        *,
        unit: PrivacyUnit | None,
        memory_limit: int | None,
        temp_limit: int | None,
    ) -> Source:
        """Open the table: names and declared types are read and compared, and no row.

        Parameters
        ----------
        form : CsvFormat
            How it is written, if that was said otherwise than here.
        ledger : Ledger or None
            The account that pays.
        unit : PrivacyUnit or None
            Whom it protects, if that was not said otherwise than here.
        memory_limit, temp_limit : int or None
            As for `open_source`.

        Raises
        ------
        DataSourceError, UnsupportedBackend, InvalidParameter
            If it cannot be opened, or lacks a column that the declaration names.
        """
        limits = {"memory_limit": memory_limit, "temp_limit": temp_limit}
        refused: SordinoError
        try:
            opened = open_source(
                self.source.path, csv=form, name=name_for(self.name, ledger), **limits
            )
        except (DataSourceError, UnsupportedBackend, InvalidParameter) as error:
            where = self.document.describe(("table", self.name, "source"))
            refused = type(error)(f"{where}: {self._say_place()}: {error}")
        else:
            opened = self._look_up(opened)
            self._check_columns(opened, unit)
            return replace(opened, labels=self._list_domains())
        # Outside of the handler, so that the message is said once.
        raise refused

    def _look_up(self, opened: Source) -> Source:
        """Return the table with what is looked up; what is wrong is said with its line."""
        # Private ones come first: what lies beside them is read by nobody.
        for name, one in sorted(self.lookups.items(), key=lambda pair: not pair[1].private):
            opened = guard(
                self.document,
                ("table", self.name, "lookup", name),
                lambda name=name, one=one, opened=opened: look_up(opened, {name: one}),
            )
        return opened

    def _list_domains(self) -> dict[str, Domain]:
        """Return the labels that are declared; a file is read when they are asked about."""
        return {
            column: Domain.from_file(listed.file, listed.column, header=listed.header)
            for column, listed in self.labels.items()
        }

    def digest_with(self, document: Document, day: str | None) -> str:
        """Return a hash of a study and of what is declared of its table on a day."""
        said = self.document.take_table("table")[self.name]
        on = None if day is None else read_day(day, "date").isoformat()
        return digest_tree({"study": document.tree, "table": {self.name: said}, "day": on})

    def _say_place(self) -> str:
        path = self.source.path
        return f"{self.name}, {without_password(path) if '://' in path else path}"

    def _check_columns(self, opened: Source, unit: PrivacyUnit | None) -> None:
        if unit is not None:
            guard(
                self.document,
                ("table", self.name, "person"),
                lambda: opened.take_unit(unit.columns, f"{self.name}.person"),
            )
        for column, listed in self.labels.items():
            spot = ("table", self.name, "labels", column)
            guard(
                self.document,
                spot,
                lambda column=column: opened.label_index(column, f"{self.name}.labels"),
            )
            if not Path(listed.file).is_file():
                self.document.refuse(
                    spot,
                    f"labels.{column} must be a file that is there; got {shown(listed.file)}. Say "
                    "where it lies now, or take the line out.",
                )


def name_for(name: str, ledger: Ledger | None) -> str | None:
    """Return what a ledger calls a table by a name; None if its account knows it by its place."""
    # An account that was made for a path goes on to be compared with that path.
    named = ledger is None or ledger.source.startswith("name:")
    return name if named else None


def find_declaration(start: str = "") -> str | None:
    """Return the path of the declaration of a folder, or of the nearest one above it.

    It is this folder, unless another one is given.

    Raises
    ------
    InvalidParameter
        If anybody could have put it there.
    """
    # Not resolved: above a folder that is a link stands what its path says.
    here = Path(start).absolute()
    for folder in (here, *here.parents):
        found = folder / FILE
        if not found.is_file():
            continue
        path = str(Path(start) / FILE) if folder == here else str(found)
        # In a folder that all may write into somebody else would say who is protected, and who
        # pays.
        shared = folder.stat().st_mode & stat.S_IWOTH
        # A link says whose file it is by itself, and by what it leads to.
        owners = {found.lstat().st_uid, found.stat().st_uid}
        if shared and not owners <= {0, os.getuid()}:
            raise InvalidParameter(
                f"{path} belongs to somebody else, in a folder into which everybody may write. If "
                f"it is meant, name it: --declaration {path}, or declaration={path!r} in Python."
            )
        return path
    return None


def open_declaration(path: str | os.PathLike[str]) -> Document:
    """Return a declaration whose tables have names that tables may have.

    Raises
    ------
    InvalidParameter
        If it cannot be read, is no TOML, or says anything but tables.
    """
    document = Document(path, "declaration")
    document.check_keys(document.tree, (), ("table", "series"), "A declaration")
    for name, said in document.take_table("table").items():
        guard(document, ("table", name), lambda name=name: TABLE_NAME("The name of a table", name))
        if not isinstance(said, dict):
            document.refuse(
                ("table", name),
                f"table.{name} must be a table, [table.{name}]; got something else.",
            )
    return document


def find_table(
    document: Document, name: str, day: str | None = None, *, option: str = "open.date"
) -> DeclaredTable:
    """Return a table by its name.

    Parameters
    ----------
    document : Document
        As `open_declaration` returns it.
    name : str
        Of the table.
    day : str, optional
        What stands for the day in its path: YYYY-MM-DD, today, or today-N.
    option : str
        How the day is given, for messages.

    Raises
    ------
    InvalidParameter
        If there is none of that name, what is said of it is wrong, or a day is missing, or not
        wanted.
    """
    tables = document.take_table("table")
    if name not in tables:
        listed = ", ".join(map(repr, tables)) or "none"
        raise InvalidParameter(
            f"{document.path} must declare the table {shown(name)}, which is no file either; it "
            f"declares {listed}.{did_you_mean(name, tables)}"
        )
    return read_table(document, name, day, option=option)


def read_table(
    document: Document, name: str, day: str | None, *, option: str = "open.date"
) -> DeclaredTable:
    """Return what a declaration says of a table, with its path as it is on a day.

    A table whose day is nobody's question is read with the day {date} itself.
    """
    place, said = ("table", name), document.take_table("table")[name]
    document.check_keys(said, place, TABLE_KEYS, f"[table.{name}]")
    folder = str(Path(document.path).parent)
    source = read_place(document, place, said, "source", folder)
    if day != DAY:
        source = guard(
            document,
            (*place, "source"),
            lambda: source._replace(path=put_day(source.path, day, option)),
        )
    account = said.get("account")
    if not isinstance(account, dict):
        document.refuse(
            (*place, "account"),
            f'[table.{name}] must say who pays, account = {{ledger = "budget.db", name = "{name}"}}'
            f"; got {shown(account)}.",
        )
    payer: AccountTable = build_declared(document, (*place, "account"), account, AccountTable)
    unit, given = _read_unit(document, place, said), said.get("called", "person")
    called = guard(document, (*place, "called"), lambda: text(given, f"{name}.called"))
    return DeclaredTable(
        name=name,
        source=source,
        unit=unit if unit.column is None else replace(unit, called=called),
        called=called,
        labels=_read_label_files(document, place, said.get("labels", {}), folder),
        lookups=_read_lookups(document, place, said.get("lookup", {}), folder),
        ledger=locate_ledger(folder, document.expand(payer.ledger, (*place, "account"))),
        account=payer.name,
        said=frozenset(said),
        document=document,
    )


def _read_unit(document: Document, place: Place, said: Said) -> PrivacyUnit:
    row, person = said.get("row", False), said.get("person")
    if (row is True) == (person is not None) or not isinstance(row, bool):
        document.refuse(
            place,
            f"[{'.'.join(map(str, place))}] must say whom it protects, person with a column or "
            f"row = true; got {'both' if row is True else 'neither'}.",
        )
    if person is not None and not isinstance(person, list):
        guard(document, (*place, "person"), lambda: text(person, "person"))
    adjacency = guard(
        document,
        (*place, "adjacency"),
        lambda: ADJACENCY("adjacency", said.get("adjacency", "add-remove")),
    )
    unit: PrivacyUnit = guard(
        document,
        (*place, "max_rows"),
        lambda: PrivacyUnit(person, adjacency=adjacency, max_rows=said.get("max_rows")),
    )
    return unit


def _read_label_files(
    document: Document, place: Place, said: Any, folder: str
) -> dict[str, LabelFile]:
    if not isinstance(said, dict):
        document.refuse((*place, "labels"), 'labels must be as in labels.COLUMN = "FILE".')
    found = {}
    for column, value in said.items():
        spot = (*place, "labels", column)
        told = {"file": value} if isinstance(value, str) else value
        if not isinstance(told, dict) or not (isinstance(told.get("file"), str) and told["file"]):
            document.refuse(
                spot,
                f'labels.{column} must be a file, "labels.csv" or {{file = "labels.csv", '
                f'column = "name"}}; got {shown(value)}.',
            )
        document.check_keys(told, spot, _LABEL_KEYS, f"labels.{column}")
        header, named = told.get("header", True), told.get("column")
        if not isinstance(header, bool) or not isinstance(named, str | None):
            document.refuse(
                spot, f"labels.{column} must have a text as column, and header = false."
            )
        found[column] = LabelFile(join_path(folder, told["file"]), named, header)
    return found


def _read_lookups(document: Document, place: Place, said: object, folder: str) -> dict[str, Lookup]:
    found: dict[str, Lookup] = {}
    # What is no table at all lacks what each must say.
    for name, told in (said if isinstance(said, dict) else {"NAME": said}).items():
        spot = (*place, "lookup", name)
        if not isinstance(told, dict) or not {"source", "key"} <= told.keys():
            document.refuse(
                spot,
                f'lookup.{name} must say its file and its key, {{source = "products.csv", key = '
                f'"product"}}; got {shown(told)}.',
            )
        document.check_keys(told, spot, _LOOKUP_KEYS, f"lookup.{name}")
        source = guard(document, spot, lambda told=told: text(told["source"], "lookup.source"))
        path = locate_source(folder, document.expand(source, spot))
        more = {key: value for key, value in told.items() if key != "source"}
        found[name] = guard(document, spot, lambda path=path, more=more: Lookup(path, **more))
    return found


# ---- days ----------------------------------------------------------------------------------------


def show_place(place: str) -> str:
    """Return where a table lies as messages show it: an address without a user and a password."""
    return shown(without_password(place) if "://" in place else place)


def put_day(path: str, day: str | None, option: str) -> str:
    """Return a path with a day in place of {date}; `option` says how that is given.

    Raises
    ------
    InvalidParameter
        If a day is missing, is none, or is not wanted.
    """
    if DAY not in path:
        if day is not None:
            raise InvalidParameter(
                f"{option} is for a path with {DAY} in it; {show_place(path)} has none. Leave it "
                "out."
            )
        return path
    if day is None:
        raise InvalidParameter(
            f"{option} must say which day {DAY} stands for in {show_place(path)}: "
            "2026-11-27, today or today-1; got none."
        )
    return path.replace(DAY, read_day(day, option).isoformat())


def read_part(part: str | None, day: str | None, option: str) -> str | None:
    """Return which part a release is about, with today's date for "today".

    Parameters
    ----------
    part : str or None
        As it was given.
    day : str or None
        What stands for the day in the path of its table.
    option : str
        How the part is given, for messages.

    Raises
    ------
    InvalidParameter
        If it is another day than that of the path.
    """
    if part is None:
        return None
    named = read_day(part, option).isoformat() if part.startswith("today") else part
    if day is not None:
        on = read_day(day, "The day of its path").isoformat()
        first, dots, last = named.partition("..")
        # A month has all of its days: texts of times are in the order of the times.
        if not (first <= on and on[: len(last or first)] <= (last if dots else first)):
            raise InvalidParameter(
                f"{option} must hold the day of the path, {on}; got {shown(part)}. What is read of "
                "a file and what is charged are one day."
            )
    return named


def read_day(said: str, option: str, *, offset: int | None = None) -> date:
    """Return a day of the calendar of this machine.

    `offset` says for "today" where another one is meant: so many minutes ahead of UTC.

    Raises
    ------
    InvalidParameter
        If it is none.
    """
    before = _BEFORE_TODAY.fullmatch(said)
    try:
        if before is not None:
            # Files are named after the days of whoever writes them.
            zone = None if offset is None else timezone(timedelta(minutes=offset))
            today = datetime.now().astimezone(zone).date()
            return today - timedelta(days=int(before[1] or 0))
        if _DAY.fullmatch(said):
            return date.fromisoformat(said)
    # No such day, or one before the first year.
    except (ValueError, OverflowError):
        pass
    raise InvalidParameter(
        f"{option} must be a day as in 2026-11-27, today or today-1; got {shown(said)}."
    )
