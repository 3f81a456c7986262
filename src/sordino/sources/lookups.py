"""Joins the rows of a source with other tables, in which each row finds at most one row.

A public table has each key once, so what a row finds there is a function of that row. Of a private
table a unit is lent one of its own rows, which follows from these and a secret: so what its rows
find is a function of the rows of that unit. No row becomes two, and none is lost
(docs/proofs/look-ups.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, final

from sordino.sources.engine import Engine, Reader


@final
@dataclass(frozen=True)
class LookupTable:
    """A public table that was read.

    Parameters
    ----------
    name : str
        What stands before the dot in the names of its columns.
    path : Path
        Where it lies.
    origin : str
        Where it comes from, and what it was, in words.
    of : str
        The column of the source that has its keys.
    columns : tuple of str
        The names of its columns without the key.
    keys : tuple of str
        Each once.
    values : tuple of tuples of str or None
        For each column the values of all keys.
    """

    name: str
    path: Path
    origin: str
    of: str
    columns: tuple[str, ...]
    keys: tuple[str, ...] = field(repr=False)
    values: tuple[tuple[str | None, ...], ...] = field(repr=False)


class PrivateSource(Protocol):
    """What is joined of a private table: `Source`."""

    @property
    def backend(self) -> Any:
        """How its rows are read."""
        ...

    def find_tie(self, path: Path) -> str:
        """Return why a file may hold something of its rows; empty: nothing tells so."""
        ...


@final
@dataclass(frozen=True)
class PrivateTable:
    """A private table with rows of the same units, none of which was read.

    Parameters
    ----------
    name, origin, of, columns
        As of `LookupTable`.
    source : PrivateSource
        Where its rows are.
    key : tuple of int and str
        The place of the column of units there, and its label text in the SQL of the engine.
    texts : tuple of pairs of int and str
        The same of each column.
    owns : bool
        Whether each row of the source finds its one row there, whose unit is that of both: a
        database lets no two of its rows agree in the key.
    choose : callable
        From a SELECT with the columns `unit` and others, the names of those and a secret to the
        SELECT of one row of each unit, which follows from the rows of that unit and the secret.
    """

    name: str
    origin: str
    of: str
    columns: tuple[str, ...]
    source: PrivateSource
    key: tuple[int, str]
    texts: tuple[tuple[int, str], ...]
    choose: Callable[[str, Sequence[str], bytes], str] = field(repr=False)
    owns: bool = False


@final
@dataclass(frozen=True)
class JoinedTable:
    """Another table, and where its columns stand in the source.

    Parameters
    ----------
    table : LookupTable or PrivateTable
    first : int
        The place of its first column.
    of : int
        The place of the column that has its keys.
    text : str
        The label text of that column, in the SQL of the engine.
    salt : bytes
        A secret, by which a unit that has several rows in a private table is lent one of them.
    """

    table: LookupTable | PrivateTable
    first: int
    of: int
    text: str
    salt: bytes = field(default=b"", repr=False)

    @property
    def names(self) -> list[str]:
        """What its columns are called in the source."""
        return [f"{self.table.name}.{column}" for column in self.table.columns]

    @property
    def lends(self) -> bool:
        """Whether a unit may have several rows there, of which it is lent one."""
        return isinstance(self.table, PrivateTable) and not self.table.owns

    @property
    def place(self) -> str:
        """What the table is called in queries."""
        return f"lookup{self.first}"

    def find_used(self, indices: Sequence[int]) -> list[int]:
        """Return which of its columns are among those of a question, counted from 0."""
        own = range(self.first, self.first + len(self.table.columns))
        return [own.index(index) for index in indices if index in own]

    def name_column(self, one: int) -> str:
        """Return what a column of it, counted from 0, is called in queries."""
        return f"c{self.first + one}"

    def list_columns(
        self, table: LookupTable, used: Sequence[int]
    ) -> dict[str, Sequence[str | None]]:
        """Return what a query joins of a public table: keys, and the columns that are used."""
        columns: dict[str, Sequence[str | None]] = {"key": table.keys}
        for one in used:
            columns[self.name_column(one)] = table.values[one]
        return columns

    def choose_rows(
        self, table: PrivateTable, used: Sequence[int], rows: str = "rows"
    ) -> tuple[list[int], str]:
        """Return which columns of a private table are read, and the SELECT of one row a unit."""
        place, unit = table.key
        read = {place}
        names = [self.name_column(one) for one in used]
        named = [f"{unit} AS unit"]
        for one in used:
            index, text = table.texts[one]
            read.add(index)
            named.append(f"{text} AS {self.name_column(one)}")
        # What has no key there is nobody's.
        kept = f"(SELECT {', '.join(named)} FROM {rows} WHERE {unit} IS NOT NULL)"
        chosen = table.choose(kept, names, self.salt)
        sql = f"SELECT unit AS key, {', '.join(names)} FROM ({chosen}) AS chosen"
        return sorted(read), sql


def list_used(
    joined: Sequence[JoinedTable], indices: Sequence[int]
) -> list[tuple[JoinedTable, list[int]]]:
    """Return the tables of which a question uses columns, with these."""
    found = []
    for one in joined:
        used = one.find_used(indices)
        if used:
            found.append((one, used))
    return found


def write_joins(
    joined: Sequence[JoinedTable], indices: Sequence[int], write: Callable[[list[int]], str]
) -> str:
    """Return a SELECT of columns c<index>, those that are looked up among them.

    Parameters
    ----------
    joined : sequence of JoinedTable
    indices : sequence of int
        Of the columns that a question uses.
    write : callable
        Returns the SELECT of columns of the source itself.
    """
    own = set(indices)
    joins = ""
    for one, used in list_used(joined, indices):
        own -= {one.first + column for column in used}
        own.add(one.of)
        # The right side has each key once, and a row that finds none stays.
        joins += f" LEFT JOIN {one.place} ON {one.place}.key = {one.text}"
    rows = write(sorted(own))
    if not joins:
        return rows
    wanted = ", ".join(f"c{index}" for index in indices)
    return f"SELECT {wanted} FROM ({rows}) AS own{joins}"


@final
@dataclass(frozen=True)
class LookedUpReader:
    """Rows of a reader with the columns of other tables beside their own."""

    reader: Reader
    joined: tuple[JoinedTable, ...]

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the rows to an engine that has the other tables; return a SELECT of both."""
        for one, used in list_used(self.joined, indices):
            if isinstance(one.table, LookupTable):
                engine.take_in(one.place, one.list_columns(one.table, used))
            else:
                read, chosen = one.choose_rows(one.table, used)
                engine.take_chosen(one.place, one.table.source.backend.reader, read, chosen)
        return write_joins(self.joined, indices, lambda own: self.reader.relation(engine, own))
