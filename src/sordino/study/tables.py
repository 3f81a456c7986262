"""The tables of a study, each with the keys that it may have, declared once."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, cast, final

from sordino.address import without_password
from sordino.constraints import (
    NAME,
    NOT_NEGATIVE,
    POSITIVE,
    TABLE_NAME,
    Number,
    OrNone,
    shown,
    text,
    to_fraction,
)
from sordino.declared import Declared, parameter
from sordino.errors import BudgetExceeded, InvalidParameter
from sordino.ledger.store.urls import store_at
from sordino.questions import PrivacyUnit
from sordino.report.promise import find_docs
from sordino.sources import CsvFormat
from sordino.sources.memory import read_limit
from sordino.study.document import Document, Place
from sordino.study.kinds import join_path


def accept_text(name: str, value: Any) -> str:
    """Return a text that is not empty and can be printed."""
    return text(value, name)


def _accept_docs(_name: str, value: Any) -> str | None:
    return find_docs(value)


class Table(Declared):
    """A table of a study."""

    name_in_file: ClassVar[str]

    @property
    def spoken(self) -> str:
        """How messages name it."""
        return self.name_in_file


@final
class AccountTable(Table):
    """Who pays."""

    name_in_file: ClassVar[str] = "account"

    ledger: str = parameter(accept_text, "File of the ledger, or postgresql://USER@HOST/DATABASE.")
    name: str = parameter(accept_text, "Account of the ledger to charge.")


@final
class BudgetTable(Table):
    """What all releases of one run may spend together."""

    name_in_file: ClassVar[str] = "budget"

    epsilon: Number | None = parameter(
        OrNone(POSITIVE), "What the releases of one run may spend together.", default=None
    )
    rho: Number | None = parameter(
        OrNone(POSITIVE),
        "The same as a rho: an epsilon counts as half of its square.",
        default=None,
    )
    delta: Number = parameter(
        NOT_NEGATIVE, "What those that find labels nobody listed may spend of a delta.", default=0
    )

    def derive(self) -> None:
        """Refuse a budget of both kinds, or of none."""
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter(
                "budget must have epsilon or rho, what the releases of one run may spend together; "
                f"got {'none of them' if self.rho is None else 'both'}."
            )

    @property
    def measure(self) -> str:
        """In what it is counted."""
        return "epsilon" if self.rho is None else "rho"

    @property
    def whole(self) -> Fraction:
        """All of it, in its own measure."""
        return to_fraction(cast("Number", self.epsilon if self.rho is None else self.rho))

    def count(self, epsilon: Fraction) -> Fraction:
        """Return what a release with an epsilon takes of it."""
        return epsilon if self.rho is None else epsilon**2 / 2

    def refuse_beyond(self, spent: Fraction) -> None:
        """Refuse releases that spend more together, in its own measure.

        Raises
        ------
        BudgetExceeded
            If they do.
        """
        if spent > self.whole:
            raise BudgetExceeded(say_beyond(self.measure, spent, self.whole))

    def find_epsilon(self, share: Fraction) -> Fraction:
        """Return the epsilon of a release that has a share of it."""
        if self.rho is None:
            return self.whole * share
        # Rounded down to a billionth, so that all shares together fit.
        square = 2 * self.whole * share * 10**18
        return Fraction(math.isqrt(math.floor(square)), 10**9)


def say_beyond(measure: str, spent: Fraction, whole: Fraction) -> str:
    """Return the sentence about releases that spend more than their budget."""
    return (
        f"The releases of a study must fit into its [budget]: together they spend {measure} "
        f"{shown(spent)}, and it has {shown(whole)}. Give some of them less, or raise it."
    )


@final
class StudyTable(Table):
    """What stands above all tables."""

    name_in_file: ClassVar[str] = "study"

    name: str = parameter(
        NAME, "Of the study: in the ledger, and in front of the names of its folders."
    )
    table: str | None = parameter(
        OrNone(TABLE_NAME),
        "Name of a declared table, in place of [source], [unit] and [account].",
        default=None,
    )
    declaration: str | None = parameter(
        OrNone(accept_text),
        "File that declares it; unless said sordino.toml in the folder of the study or above.",
        default=None,
    )
    title: str | None = parameter(OrNone(accept_text), "For readers of the report.", default=None)
    docs: str | None = parameter(
        OrNone(_accept_docs),
        "Where the documentation of sordino is published, for links of the report to the pages of "
        "proofs.",
        default=None,
    )


def list_names(kind: type[Any]) -> list[str]:
    """Return the names of the parameters of a declared class, or of a plain one."""
    return [one.name for one in fields(kind) if one.init]


def read_declared(document: Document, name: str, kind: type[Table]) -> Any:
    """Return a table whose keys are the parameters of a class."""
    return build_declared(document, (name,), document.take_table(name), kind)


def build_declared(
    document: Document, place: Place, said: Mapping[str, Any], kind: type[Table]
) -> Any:
    """Return what a table at a place says, whose keys are the parameters of a class."""
    named = ".".join(map(str, place))
    document.check_keys(said, place, list_names(kind), f"[{named}]")
    missing = [
        one.name
        for one in fields(cast("Any", kind))
        if one.default is MISSING and one.name not in said
    ]
    if missing:
        document.refuse((*place, missing[0]), f"{named}.{missing[0]} must be given; got none.")
    return guard(document, place, lambda: kind(**said))


def guard(document: Document, place: tuple[str | int, ...], build: Any) -> Any:
    """Return what is built; what is refused is refused with its line."""
    try:
        return build()
    except InvalidParameter as error:
        refused = document.add_place(place, error)
    # Outside of the handler, so that the message is said once.
    raise refused


_LIMITS = ("memory_limit", "temp_limit")
FORM_KEYS = tuple(list_names(CsvFormat))
SOURCE_KEYS = ("path", *_LIMITS, *FORM_KEYS)
UNIT_KEYS = ("row", *list_names(PrivacyUnit))


class StudySource(NamedTuple):
    """The table of a study, as `open_source` takes it."""

    path: str
    form: CsvFormat
    memory_limit: int | None
    temp_limit: int | None


def read_source(document: Document, folder: str) -> StudySource:
    """Return the source of a study: a file is named from its folder."""
    said = document.take_table("source")
    document.check_keys(said, ("source",), SOURCE_KEYS, "[source]")
    return read_place(document, ("source",), said, "path", folder)


def read_place(
    document: Document, table: Place, said: Mapping[str, Any], key: str, folder: str
) -> StudySource:
    """Return the source that a table of a document describes, whose path has a key.

    What else it says of anything but how texts are written is passed over.
    """
    path = said.get(key)
    if not (isinstance(path, str) and path.strip()):
        document.refuse(
            (*table, key),
            f"{'.'.join((*map(str, table), key))} must name the table that is read; got "
            f"{shown(path)}.",
        )
    limits = {name: _read_limit(document, (*table, name), said.get(name)) for name in _LIMITS}
    of_texts: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in said.items()
        if name in FORM_KEYS
    }
    form = guard(document, table, lambda: CsvFormat(**of_texts))
    return StudySource(locate_source(folder, document.expand(path, (*table, key))), form, **limits)


def _read_limit(document: Document, place: Place, said: Any) -> int | None:
    if said is None:
        return None
    named = ".".join(map(str, place))
    found: int = guard(document, place, lambda: read_limit(named, said))
    return found


def locate_source(folder: str, source: str) -> str:
    """Return a source as it is named from here; files are named from the folder of the study."""
    scheme, colon, rest = source.partition(":")
    if colon and scheme in {"duckdb", "excel"}:
        return f"{scheme}:{join_path(folder, rest)}"
    return source if "://" in source else join_path(folder, source)


def name_source(folder: str, source: str) -> str:
    """Return a source as it is named from a folder, so that `locate_source` finds it again.

    An address loses its user and password, and what is named from the root and lies elsewhere is
    left so.
    """
    if "://" in source:
        return without_password(source)
    scheme, colon, rest = source.partition(":")
    prefix = f"{scheme}:" if colon and scheme in {"duckdb", "excel"} else ""
    path = rest if prefix else source
    if path.startswith("/") and not Path(path).is_relative_to(Path(folder).absolute()):
        return source
    return prefix + os.path.relpath(path, folder)


def locate_ledger(folder: str, url: str) -> str:
    """Return a ledger as it is named from here.

    Raises
    ------
    LedgerError
        If it is neither a path nor an address; it is not shown then, because it may hold a
        password.
    """
    if "://" in url:
        return url
    # Looked at before a folder stands in front of it, behind which an address would pass for a
    # path.
    store_at(url)
    return join_path(folder, url)


def read_unit(document: Document) -> PrivacyUnit:
    """Return whom a study protects."""
    said = dict(document.take_table("unit"))
    document.check_keys(said, ("unit",), UNIT_KEYS, "[unit]")
    row, column = said.pop("row", False), said.get("column")
    if (row is True) == (column is not None) or not isinstance(row, bool):
        document.refuse(
            ("unit",),
            "[unit] must say whom the guarantee protects: the column of the person, or row = true; "
            f"got {'both' if row is True else 'neither'}.",
        )
    unit: PrivacyUnit = guard(document, ("unit",), lambda: PrivacyUnit(**{"column": None} | said))
    return unit
