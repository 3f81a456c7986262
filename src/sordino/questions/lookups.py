"""Look-ups: other tables that say more about the rows of a table.

Public ones are read before any charge, as public labels are (`label_files`); of private ones names
and types alone. What a row finds is a function of that row, and of the rows of its own unit in
private tables (docs/proofs/look-ups.md).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, final

from sordino.constraints import TRUTH, did_you_mean, path_text, shown, text
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions.domain import Domain
from sordino.questions.label_files import check_public, read_texts
from sordino.questions.rank_law import Draw, choose_ranks
from sordino.questions.unit import PrivacyUnit
from sordino.sources.lookups import LookupTable, PrivateTable
from sordino.sources.open import open_source
from sordino.sources.source import AS_LABELS, Source
from sordino.sources.sql.sql_templates import FLOATS, LONGEST_LABEL, SqlTemplates

_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,99}", re.ASCII)


_KEY_TYPE = re.compile(r"VARCHAR|UUID|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?")
"""Declared types of which values that differ have texts that differ, and equal ones equal texts."""


@final
@dataclass(frozen=True)
class Lookup:
    r"""Another table that says more about the rows of a table, found by a column of them.

    Its columns are called by the name of the look-up and their own, as in ``products.category``,
    wherever labels, groups, numbers and filters are asked for. They are texts, as labels are. A row
    that finds nothing there has no value.

    A public table may be looked up by any column but that of the person, and each of its keys
    stands in it once. A private table (`private`) is looked up by the person: its rows are
    protected with those of the table itself, by one account for both. A person who has several
    rows there is lent one of them, drawn at random. The person may also stand in a private table
    that is looked up by something else, such as the number of an order, where PostgreSQL or DuckDB
    enforce that this stands there once.

    Parameters
    ----------
    path : str or path
        A public table: a CSV file (comma, header line, UTF-8) or a Parquet file, made of no private
        rows; it is read once, before any charge. A private one: a path or an address of a table, as
        `Session` takes it, CSV as it is by default; before the charge only its names and types are
        read. With a table of PostgreSQL it must be one of the same database.
    key : str
        Its column of keys.
    of : str, optional
        The column of the table that has these keys; unless said it is called as `key` is.
    private : bool
        Whether its rows are about the people who are protected.

    Raises
    ------
    InvalidParameter
        If one of them is no text.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> import sordino as sd
    >>> folder = tempfile.TemporaryDirectory()
    >>> products = pathlib.Path(folder.name, "products.csv")
    >>> _ = products.write_text("product,category\ntea,drinks\nrice,food\ncoffee,drinks\n")
    >>> sales = pl.DataFrame({"customer": [n % 900 for n in range(4000)],
    ...                       "product": [("tea", "rice")[n % 7 > 4] for n in range(4000)]})
    >>> session = sd.Session(sales, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7),
    ...                      lookup={"products": sd.Lookup(products, key="product")})
    >>> [row.item for row in session.histogram("products.category", epsilon=1)]
    ['drinks', 'food']
    >>> folder.cleanup()
    """

    # An address may hold a password.
    path: str | os.PathLike[str] = field(repr=False)
    key: str
    of: str | None = None
    private: bool = False

    def __post_init__(self) -> None:
        path_text(self.path, "Lookup.path")
        text(self.key, "Lookup.key")
        if self.of is not None:
            text(self.of, "Lookup.of")
        TRUTH("Lookup.private", self.private)

    @property
    def column(self) -> str:
        """The column of the table that has its keys."""
        return self.key if self.of is None else self.of


def look_up(source: Source, lookups: Mapping[str, Lookup] | None) -> Source:
    """Return a source with the columns of look-ups beside its own.

    Raises
    ------
    UnsafePredicate
        If a public one may have been made of the rows of the source.
    InvalidParameter, DataSourceError, UnsupportedBackend
        If one cannot be used.
    """
    if lookups is None:
        return source
    # Of what was given by mistake only the kind is said: it may be a table, or hold a password.
    if not isinstance(lookups, Mapping):
        raise InvalidParameter(
            f"lookup must map names to Lookup(PATH, key=COLUMN); got a {type(lookups).__name__}."
        )
    for name, lookup in lookups.items():
        if not _is_name(name):
            raise InvalidParameter(
                "A look-up must have a name of letters, digits and _, the first one no digit; got "
                f"{shown(name)}."
            )
        if not isinstance(lookup, Lookup):
            raise InvalidParameter(
                f"lookup.{name} must be a Lookup, as in Lookup('products.csv', key='product'); got "
                f"a {type(lookup).__name__}."
            )
    # Private ones come first: what lies beside them is read by nobody.
    for name, lookup in sorted(lookups.items(), key=lambda one: not one[1].private):
        read = _open_private if lookup.private else _read_public
        source = source.look_up([read(f"lookup.{name}", name, lookup, source)])
    for joined in source.lookups:
        if isinstance(joined.table, LookupTable):
            check_public(joined.table.path, source, f"lookup.{joined.table.name}.source")
    return source


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_lookups(source: Source, unit: PrivacyUnit, *, charged: bool) -> None:
    """Refuse public look-ups by the person, private ones by anything else, and looked-up people.

    Where an account is `charged`, also private ones of tables that have no name.

    Raises
    ------
    InvalidParameter
        If there is one.
    """
    for joined in source.lookups:
        role, of = f"lookup.{joined.table.name}", joined.table.of
        private = isinstance(joined.table, PrivateTable)
        if set(unit.names) & set(joined.names):
            if not set(unit.names) <= set(joined.names):
                raise InvalidParameter(
                    f"{role} must not say part of whom a row is of, {', '.join(unit.components)}: "
                    "its rows would be protected by nobody. Write the column into the table itself."
                )
            _check_owners(role, joined.table, unit)
            continue
        if private and unit.parts:
            raise InvalidParameter(
                f"{role} must not be private where a person is told by several columns, "
                f"{', '.join(unit.components)}: what it says of {of!r} would be protected by "
                f"nobody. Leave it out, or protect all rows of {of!r}."
            )
        if not private and of in unit.names:
            raise InvalidParameter(
                f"{role} must be private = true, because its key is the person ({of!r}): a table "
                "by person is about people, and its rows are protected then, too."
            )
        if private and of != unit.key:
            whom = "each row" if unit.key is None else repr(unit.key)
            raise InvalidParameter(
                f"{role} must be looked up by the person, {whom}, because it is private; got "
                f"{of!r}. If it is public knowledge, leave private away."
            )
    known = source.known_as
    if charged and source.private_tables and known is not None and not known.startswith("name:"):
        raise InvalidParameter(
            f"lookup.{source.private_tables[0].name} is private, so the account must know both "
            "tables by their names: declare the table (sordino declare), or give name."
        )


def _check_owners(role: str, table: LookupTable | PrivateTable, unit: PrivacyUnit) -> None:
    """Refuse owners that a table does not surely have one of for each row.

    One person's rows could then take over those of all.
    """
    if not isinstance(table, PrivateTable):
        raise InvalidParameter(
            f"The column of the person must not be looked up in a public table; got "
            f"{unit.key!r}. If {role} is about people, say private = true."
        )
    if not table.owns:
        raise InvalidParameter(
            f"{role}: nothing enforces that its key is unique (no primary key of one column of "
            "whole numbers, UUIDs or texts in PostgreSQL or DuckDB; child tables are covered by "
            "none, and texts must be compared byte by byte). One person's rows there could take "
            "over those of all. Add a primary key, or write the person into each row."
        )


def list_lookup_domains(source: Source, names: Iterable[object]) -> dict[str, Domain]:
    """Return for each of these columns that is looked up in a public table all of its values.

    They are shown in the order in which they stand there.
    """
    listed: dict[str, Domain] = {}
    for joined in source.lookups:
        table = joined.table
        if not isinstance(table, LookupTable):
            continue
        of_name = dict(zip(joined.names, table.values, strict=True))
        for name in names:
            values = of_name.get(str(name), ())
            if any(value is not None for value in values):
                listed[str(name)] = replace(Domain.of(values), origin=f"all values of {name}")
    return listed


# ---- private tables ------------------------------------------------------------------------------


def _open_private(role: str, name: str, lookup: Lookup, source: Source) -> PrivateTable:
    """Return a private table: its names and types are read, and no row."""
    opened = open_source(lookup.path)
    words = opened.backend.dialect.words
    if not _are_asked_together(source, opened):
        raise InvalidParameter(
            f"{role} must be read by the engine that reads the table: files and frames with files, "
            "tables of DuckDB and Excel; a table of PostgreSQL with one of the same database. Got "
            f"a {source.kind} table and a {opened.kind} look-up."
        )
    texts = {
        column: (place, words.label(place, kind))
        for place, (column, kind) in enumerate(opened.columns.items())
        if AS_LABELS.fullmatch(kind) and (kind not in FLOATS or words.float_text is not None)
    }
    _ = opened.label_index(lookup.key, f"{role}.key")
    key = texts.pop(lookup.key)
    if not texts:
        raise InvalidParameter(f"{role} must have a column beside its key; it has none.")
    # With a key that is unique whatever rows there are, each row is its own choice.
    compared = _KEY_TYPE.fullmatch(opened.columns[lookup.key]) is not None
    owns = compared and lookup.key in opened.unique
    one_row = "the row" if owns else "one row of each person"
    drawn = "" if owns else ", drawn if there are more"
    out = f", left out there: {opened.dropped}" if opened.dropped else ""
    return PrivateTable(
        name,
        f"{name}: private table, {one_row} by {lookup.key}{drawn}{out}",
        lookup.column,
        tuple(texts),
        opened,
        key,
        tuple(texts.values()),
        _take_all if owns else lambda kept, names, salt: _choose_one(kept, names, salt, words),
        owns,
    )


def _take_all(kept: str, names: Sequence[str], _salt: bytes) -> str:
    """Return a SELECT of all rows: no two of them have one key."""
    return f"SELECT unit, {', '.join(names)} FROM {kept} AS kept"


def _choose_one(kept: str, names: Sequence[str], salt: bytes, words: SqlTemplates) -> str:
    """Return a SELECT of one row of each unit, by the law of ranks.

    In the order of texts: the type of a column may follow from rows of others.
    """
    draw = Draw.of(salt, words, None)
    taken = ["unit", *names]
    return choose_ranks(kept, taken=taken, owner=["unit"], order=list(names), most=1, draw=draw)


def _are_asked_together(one: Source, other: Source) -> bool:
    """Tell whether one engine can be asked about the rows of both."""
    places = [getattr(each.backend, "address", None) for each in (one, other)]
    if places == [None, None]:
        return one.reader is not None and other.reader is not None
    # Which database it is says its server, however it was addressed.
    mine, _, _ = str(one.identity).partition("#")
    yours, _, _ = str(other.identity).partition("#")
    return None not in places and mine == yours


# ---- public tables -------------------------------------------------------------------------------


def _read_public(role: str, name: str, lookup: Lookup, source: Source) -> LookupTable:
    # Not shown, because an address may hold a password.
    if "://" in str(lookup.path):
        raise InvalidParameter(
            f"{role}.source must be a CSV or Parquet file where it is public; got an address. "
            "Write the table to a file, or, if it is by the person, say private = true."
        )
    path = Path(lookup.path)

    def choose(kinds: dict[str, str]) -> list[str]:
        # What has no exact text is left out, but not the key.
        names = [one for one, kind in kinds.items() if AS_LABELS.fullmatch(kind) and one]
        if lookup.key not in names:
            raise InvalidParameter(
                f"{role}.key must be one of {', '.join(map(repr, names))} in {path}; got "
                f"{lookup.key!r}.{did_you_mean(lookup.key, names)}"
            )
        return [lookup.key, *(one for one in names if one != lookup.key)]

    real = check_public(path, source, f"{role}.source")
    before = _digest(real)
    names, rows = read_texts(path, choose, source, f"{role}.source")
    after = _digest(real)
    # The same file is read as is recorded.
    if before is None or after != before:
        raise DataSourceError(f"{role}.source must not change while it is read; {path} did.")
    if len(names) == 1:
        raise InvalidParameter(
            f"{role} must have a column beside its key; {path} has {lookup.key!r} alone."
        )
    places: dict[str, int] = {}
    for place, (key, *values) in enumerate(rows, 1):
        listed = [one for one in (key, *values) if one is not None]
        if any("\0" in one or len(one) > LONGEST_LABEL for one in listed):
            raise InvalidParameter(
                f"{role} must have texts of at most {LONGEST_LABEL} characters without NUL; row "
                f"{place} of {path} has another one."
            )
        if key is not None and places.setdefault(key, place) != place:
            raise InvalidParameter(
                f"{role}: key {shown(key)} stands in rows {places[key]} and {place} of {path}; a "
                "key may stand once."
            )
    kept = [row for row in rows if row[0] is not None]
    if not kept:
        raise InvalidParameter(f"{role} must have a key; {path} has none.")
    keys, *columns = zip(*kept, strict=True)
    by = f"key {lookup.key}" + ("" if lookup.of is None else f" for {lookup.of}")
    return LookupTable(
        name,
        path,
        f"{name}: file {path}, {by}, SHA-256 {before}",
        lookup.column,
        tuple(names[1:]),
        tuple(keys),
        tuple(columns),
    )


def _digest(path: Path) -> str | None:
    """Return the SHA-256 of a file; None where there is none, which is said by whoever reads it."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
