"""A source: a table whose schema is public and whose rows are private."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Protocol, final

import duckdb

from sordino.address import join_tables
from sordino.constraints import did_you_mean, shown, text
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.computed_columns import (
    ComputedColumn,
    find_function,
    is_call,
    write_call,
    write_computed,
    write_unit,
)
from sordino.sources.csv.column_types import Marks, say_conversion, say_type_first
from sordino.sources.engine import Engine, Marking, Reader, Scan, engine, scanning
from sordino.sources.lookups import JoinedTable, LookedUpReader, LookupTable, PrivateTable
from sordino.sources.memory import NO_LIMITS, Limits
from sordino.sources.nearby import find_tie
from sordino.sources.predicates.calls import USAGES
from sordino.sources.predicates.predicate import Predicate, parse, say_meant
from sordino.sources.selected_part import SelectedPart
from sordino.sources.shared import Readings
from sordino.sources.sql.dialect import EMBEDDED, Dialect
from sordino.sources.sql.number_kind import WHOLE_NUMBER_TYPE, NumberKind, number_kind
from sordino.sources.sql.sql_templates import FLOATS
from sordino.sources.sql.times import drop_beyond_type
from sordino.sources.validation import QueryValidation
from sordino.unit_columns import UnitColumn, write_unit_columns

SUPPORTED = (
    "A source must be a path, a pattern or a folder of files of CSV, JSON lines or Parquet, "
    "duckdb:FILE#TABLE, excel:FILE#SHEET, postgresql://...#TABLE, sc://HOST#CATALOG.SCHEMA.TABLE, "
    "a DuckDB relation, a pandas, Polars or Spark frame (eager or lazy), or an Arrow table"
)
"""The beginning of an error message: what a source may be. The rest of it says what was given."""


TYPE_OF_NO_VALUES = "INTEGER"
"""Of a column that holds nothing but NULL, whose own type one value more would change.

It can be a unit, a label and a number, as any can be into which one value more would turn it.
"""


def settle_type(kind: str) -> str:
    """Return the declared type of a column, also of one that holds nothing but NULL."""
    return TYPE_OF_NO_VALUES if kind.strip('"') == "NULL" else kind


def unusable(kind: str) -> str:
    """Return the declared type of a column that no question can use.

    A source may have such columns.

    Its own name goes with it, for messages. It stands behind a word that no engine has for a type:
    users of a server may call a type of theirs as they like.
    """
    return f"UNUSABLE {kind}"


def name_type(declared: str) -> str:
    """Return what a declared type is called in words for people."""
    return shown(declared.removeprefix("UNUSABLE "))[1:-1]


def refuse_names(names: Sequence[str]) -> dict[str, str]:
    """Return the names by which no question can ask for a column, and why.

    Words that follow on each.
    """
    several = "is the name of several columns. Rename them."
    return {name: several for name in names if names.count(name) > 1}


AS_LABELS = re.compile(
    r"VARCHAR|BOOLEAN|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|DECIMAL\(\d+,\s*\d+\)"
    r"|FLOAT|DOUBLE|DATE|UUID|ENUM\(.*\)",
    re.DOTALL,
)
"""Declared types whose values have exactly one text each.

Bytes, nested values and times are not among them: files and frames can hold some of these on which
the engine fails. Floats have one text by a rule of our own (`SqlTemplates.float_text`).
"""


@final
@dataclass(frozen=True)
class RowPredicate:
    """A predicate that was checked, in the SQL of the engine that will be asked."""

    indices: frozenset[int]
    total: str
    """The condition over columns c<index>, true or false for each row by itself. It never fails."""


Asked = Sequence[tuple[str, Sequence[str] | None]]
"""Questions with their labels."""


_TYPES_BEYOND_TRY = re.compile(r"\b(?:BIGNUM|GEOMETRY|VARIANT)\b")
"""Types on some values of which the engine fails in a way that TRY does not catch, or ends the
process."""

_ITS_SOURCE = (
    "Convert the column at its source, for example with CAST(NAME AS VARCHAR) in a view, or in the "
    "query that writes the file."
)


class AnswerLimit(NamedTuple):
    """How large an answer may be.

    Attributes
    ----------
    size : int
        In bytes.
    remedy : str
        What lets it be larger, in words.
    beside : int
        How many bytes come beside its rows.
    """

    size: int
    remedy: str
    beside: int = 0


class Backend(Protocol):
    """How the rows of one kind of source are read, and what its engine is asked in."""

    @property
    def limit(self) -> AnswerLimit | None:
        """The limit of an answer beyond which the engine fails; None if it has none."""

    @property
    def dialect(self) -> Dialect:
        """The SQL of the engine."""

    def look_up(self, joined: tuple[JoinedTable, ...]) -> Backend:
        """Return the same with columns of other tables beside those of the source."""

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Scan]:
        """Open the source after the charge; its columns are named c<index>."""

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask questions of an empty table with columns of these types, before the charge."""


_MOST_CELLS, _MOST_SERVER_CELLS, _CELLS_OF_GROUPS = 700_000, 1 << 17, 1 << 23
"""So many cells of one group, and of all of them, take about twice as long as few."""


@final
@dataclass(frozen=True)
class ReaderBackend:
    """Sources whose rows become a table of our own engine.

    Parameters
    ----------
    reader : Reader
        What makes the rows.
    readings : Readings, optional
        What the questions of one batch share.
    limits : Limits
        What is allowed to its engines.
    """

    # A fresh engine for each scan: nothing that one reading leaves behind can meet another one.
    reader: Reader
    readings: Readings | None = None
    limits: Limits = NO_LIMITS
    limit: ClassVar[AnswerLimit | None] = None
    dialect: ClassVar[Dialect] = EMBEDDED

    def look_up(self, joined: tuple[JoinedTable, ...]) -> ReaderBackend:
        """Return the same with a reader that joins other tables."""
        return replace(self, reader=LookedUpReader(self.own_reader, joined))

    @property
    def own_reader(self) -> Reader:
        """What makes the rows of the table itself."""
        return self.reader.reader if isinstance(self.reader, LookedUpReader) else self.reader

    def scan(self, indices: Sequence[int]) -> AbstractContextManager[Scan]:
        """Open the source in a fresh engine."""
        if self.readings is not None:
            return self.readings.scan(self.reader, indices)
        return _scan_in_engine(self.reader, indices, self.limits)

    def rehearse(self, columns: Mapping[int, str], asked: Asked) -> None:
        """Ask an engine without rows, unless another question of the same batch was the same."""
        # Each time, because a session may be open for long.
        self.limits.check_room()
        if self.readings is not None:
            self.readings.rehearse(columns, asked)
            return
        with closing(QueryValidation()) as rehearsal:
            rehearsal.ask(columns, asked)


@contextmanager
def _scan_in_engine(reader: Reader, indices: Sequence[int], limits: Limits) -> Iterator[Scan]:
    with scanning(reader, indices, limits=limits) as opened:
        yield opened


@final
@dataclass(frozen=True, eq=False)
class Source:
    """An opened table, and what is public about it.

    `open_source` makes one; questions read its rows after the charge.

    Parameters
    ----------
    kind : str
        "csv", "jsonl", "parquet", "duckdb", "excel", "postgres", "spark", "relation", "frame" or
        "lazy frame".
    identity : str or None
        The text that a ledger stores: the absolute path or pattern, `duckdb:FILE#TABLE`,
        `excel:FILE#SHEET`, what a server says of its table, `spark:CATALOG.SCHEMA.TABLE`, or
        `name:NAME` for a table in memory that was given a name.
    columns : mapping of str to str
        Names and declared types, in the engine's words.
    files : tuple of Path
        The files that hold the rows; of tables in memory those that can be seen to.
    computed : bool
        Whether its rows are computed from others (a view, a relation, a lazy frame). Then
        neighboring tables of those others need not have equally many rows here.
    inferred : bool
        Whether types may have been found out from values, as pandas does. Then no question is
        refused for a type that one more value could have brought about.
    texts : bool
        Whether columns are texts unless another type was declared, as in text files. Then texts
        that are written as numbers are numbers.
    marks : Marks or None
        By which marks such numbers are written; None: with a decimal point.
    dropped : str
        Which rows are dropped by a rule of the format, in words, as lines of text files are that do
        not parse; empty: none. Where there is such a rule, neighbors need not have equally many
        rows.
    declared : bool
        Whether its columns are those that were declared, as in JSON lines, where no line names all
        of them.
    required : frozenset of str
        Columns that a database declares NOT NULL, a rule that it keeps to for all rows that there
        may be. What a file or a frame says of its own rows may follow from them, and is no such
        rule.
    unique : frozenset of str
        Columns in which a database lets no two rows agree, whatever rows there may be.
    advice : str
        What is said to who asks for a column that is not there, in place of the names that are.
    ordered : bool
        Whether rows have an order of their own.
    refused : mapping of str to str
        Names by which no column can be asked for, and why: words that follow on the name.
    cast : str
        How a column is made one of texts there, in words.
    read_columns : callable or None
        From a predicate and the declared types of its columns to the predicate over what each
        column is read as, where types follow from rows. None: a column is what its declared type
        says.
    legible : bool
        Whether every text that a row can hold is one in Unicode, and so can be released as a label.
    folders : tuple of Path
        Folders all of whose files are private, also those that come later: notes of whoever writes
        there, and files into which the same rows are put anew.
    pattern : str
        By which the files were found, if by one.
    labels : mapping of str to object
        Domains of its columns, where their owner has declared them.
    named : str or None
        `name:NAME` for a table with a place of its own that was given a name: then a ledger stores
        that, and what is read does not depend on it.
    lookups : tuple of JoinedTable
        Columns behind those of the table are looked up in other tables (`look_up`).
    calls : tuple of ComputedColumn
        The last ones of its columns are computed, each from a row alone (`compute`).
    part : SelectedPart or None
        Only these of its rows are read, by every question (`select`).
    """

    kind: str
    identity: str | None
    columns: Mapping[str, str]
    files: tuple[Path, ...]
    backend: Backend = field(repr=False)
    computed: bool = False
    inferred: bool = False
    texts: bool = False
    marks: Marks | None = None
    dropped: str = ""
    declared: bool = False
    required: frozenset[str] = frozenset()
    unique: frozenset[str] = frozenset()
    advice: str = ""
    ordered: bool = True
    refused: Mapping[str, str] = field(default_factory=dict)
    cast: str = _ITS_SOURCE
    read_columns: Callable[[Predicate, Mapping[int, str]], Predicate] | None = field(
        default=None, repr=False
    )
    legible: bool = True
    folders: tuple[Path, ...] = ()
    pattern: str = ""
    labels: Mapping[str, object] = field(default_factory=dict)
    named: str | None = None
    lookups: tuple[JoinedTable, ...] = field(default=(), repr=False)
    calls: tuple[ComputedColumn, ...] = field(default=(), repr=False)
    part: SelectedPart | None = field(default=None, repr=False)

    @property
    def known_as(self) -> str | None:
        """What a ledger calls it: what its owner does, else where it is.

        With the private tables that are looked up, because an account is about all of them.
        """
        own = self.named or self.identity
        if own is None or not self.lookups:
            return own
        return join_tables(own, [one.name for one in self.private_tables])

    @property
    def private_tables(self) -> list[PrivateTable]:
        """The private tables that are looked up."""
        return [one.table for one in self.lookups if isinstance(one.table, PrivateTable)]

    def draw_rows(self, salt: bytes) -> Source:
        """Return this source with a secret that says which row of a private table a unit is lent.

        Of those that have several there.
        """
        if not self.private_tables:
            return self
        joined = tuple(replace(one, salt=salt) for one in self.lookups)
        return replace(self, lookups=joined, backend=self.backend.look_up(joined))

    def __post_init__(self) -> None:
        # A read-only copy: what was checked must not change afterwards.
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def index(self, column: object, role: str, *, any_case: bool = False) -> int:
        """Return where a column stands.

        Raises
        ------
        InvalidParameter
            If there is no such column; the message lists near matches.
        """
        if str(column) in self.refused:
            raise InvalidParameter(
                f"{role} must be a column that can be named; {shown(column)} "
                f"{self.refused[str(column)]}"
            )
        if not isinstance(column, str) and str(column) in self.columns:
            raise InvalidParameter(
                f"{role} must be the name of a column as a text; got {shown(column)}. "
                f"Write {shown(str(column))}."
            )
        known = isinstance(column, str) and column in self.columns
        if known and not (column and str(column).isprintable()):
            raise InvalidParameter(
                f"{role} must be a column that can be named; {shown(column)} has a name that is "
                "empty or cannot be printed. Rename the column."
            )
        column = text(column, role)
        names = list(self.columns)
        # Labels may be computed, and neither units nor numbers.
        names = names if role in _MAY_BE_COMPUTED else names[: self._own]
        if column in names:
            return names.index(column)
        # Only if it is clear which column is meant: names may differ in nothing but case.
        same = [name for name in names if any_case and name.lower() == column.lower()]
        if len(same) == 1:
            return names.index(same[0])
        # Names of columns are public, so the message may help with them.
        hint = (
            self.advice
            or did_you_mean(column, names)
            or _say_no_function(column)
            or (f" The columns are {_list_column_names(names)}." if names else "")
        )
        if self.declared:
            hint += (
                " Columns of JSON lines are declared: --type COL=TYPE, or CsvFormat(types=...) in "
                "Python."
            )
        if role == "where":
            hint += f" A text stands in single quotes: '{column}'."
        raise InvalidParameter(f"{role} must be a column of the source; got {shown(column)}.{hint}")

    @property
    def _own(self) -> int:
        """How many columns are no calls."""
        return len(self.columns) - len(self.calls)

    def look_up(self, tables: Sequence[LookupTable | PrivateTable]) -> Source:
        """Return this source with the columns of other tables, each found by a column of its own.

        Raises
        ------
        InvalidParameter
            If a name could mean two columns, there is no such column, or the engine joins nothing.
        """
        joined, columns = [*self.lookups], dict(self.columns)
        for table in tables:
            taken = [name for name in columns if name.startswith(f"{table.name}.")]
            if taken:
                raise InvalidParameter(
                    f"lookup.{table.name} must have a name that no column of the table begins "
                    f"with; it has a column {taken[0]!r}. Choose another name."
                )
            of = self.label_index(table.of, f"lookup.{table.name}.of")
            if self.find_lookup(of):
                raise InvalidParameter(
                    f"lookup.{table.name}.of must be a column of the table itself; got "
                    f"{table.of!r}, which is looked up."
                )
            text = self.backend.dialect.words.label(of, list(self.columns.values())[of])
            joined.append(JoinedTable(table, len(columns), of, text))
            columns |= dict.fromkeys(joined[-1].names, "VARCHAR")
        if not tables:
            return self
        backend = self.backend.look_up(tuple(joined))
        return replace(self, columns=columns, backend=backend, lookups=tuple(joined))

    @property
    def reader(self) -> Reader | None:
        """What makes the rows of the table itself, if our own engine asks about them."""
        return self.backend.own_reader if isinstance(self.backend, ReaderBackend) else None

    def is_written(self, index: int) -> bool:
        """Tell whether numbers and dates of a column are read from texts, whatever its type is.

        Rows may have decided that, or it is looked up.
        """
        looked_up = self.find_lookup(index) is not None and self.reader is not None
        return self.inferred or looked_up

    def find_lookup(self, index: int) -> JoinedTable | None:
        """Return the table in which a column is looked up; None: it is one of the table itself."""
        for joined in self.lookups:
            if joined.find_used([index]):
                return joined
        return None

    def is_of_unit(self, indices: Iterable[int], unit: str | None) -> bool:
        """Tell whether columns are looked up by that of the unit: then all of its rows agree."""
        if not self.lookups:
            return False
        for index in self._find_own(indices):
            joined = self.find_lookup(index)
            if joined is None or joined.table.of != unit:
                return False
        return True

    def find_lookups(
        self, labels: Iterable[object], column: object, where: str | None
    ) -> list[JoinedTable]:
        """Return which other tables a question reads.

        Parameters
        ----------
        labels : iterable of str
            Its columns of labels, or calls.
        column : str or None
            Its column of numbers.
        where : str or None
            Its filter.
        """
        # Which rows are read follows from columns of the table itself.
        seen = replace(self, part=None).compute(labels)
        named = [name for name in (*labels, column) if name in seen.columns]
        read = set(seen.find_read(list(seen.columns).index(str(name)) for name in named))
        if where:
            read |= parse(where, lambda name: self.index(name, "where", any_case=True)).indices
        return [one for one in self.lookups if one.find_used(sorted(read))]

    def compute(self, names: Iterable[object]) -> Source:
        """Return this source with a column more for each name that is a call, such as `month(day)`.

        A name that is literally a column is that column, and no call.

        Raises
        ------
        UnsafePredicate, InvalidParameter
            If a call is written otherwise, or is nothing for these columns or this engine.
        """
        fresh = [
            str(name)
            for name in dict.fromkeys(names)
            if name not in self.columns and name not in self.refused and is_call(name)
        ]
        if not fresh:
            return self
        calls = self.calls + tuple(write_computed(name, self) for name in fresh)
        return replace(
            self, columns={**self.columns, **dict.fromkeys(fresh, "VARCHAR")}, calls=calls
        )

    def take_unit(self, columns: Sequence[UnitColumn], role: str) -> Source:
        """Return this source with a column more for a unit of several columns (`find_unit`).

        Raises
        ------
        InvalidParameter
            If it has no such columns, their declared types have no exact texts, or this engine
            cannot cut times.
        """
        if len(columns) < 2:
            _ = [self.label_index(one.name, role) for one in columns]
            return self
        for one in columns:
            called = f"{one.cut}({one.name})"
            # The same call as a label is no column of the table.
            if one.cut is not None and called in list(self.columns)[: self._own]:
                raise InvalidParameter(
                    f"{role} must be clear; {called!r} is a column of the table, too. Rename that "
                    "column."
                )
        key = write_unit_columns(columns)
        if key in self.columns:
            return self
        written = write_unit(columns, self, role)
        return replace(self, columns={**self.columns, key: "VARCHAR"}, calls=(*self.calls, written))

    def find_unit(self, columns: Sequence[UnitColumn]) -> int:
        """Return where the column of the unit stands, which this source has taken."""
        if len(columns) > 1:
            return list(self.columns).index(write_unit_columns(columns))
        return self.index(columns[0].name, "PrivacyUnit.column")

    def write_rows(self, indices: Iterable[int]) -> str:
        """Return what a query reads its columns from, those that are computed among them.

        Nothing else of the table is read: docs/proofs/row-view.md.
        """
        inside, _ = self._inside
        if not self.calls and not inside:
            return "rows"
        # In the order of their places: equal questions are equal texts.
        listed = sorted(indices)
        computed = {
            index: f"{self.calls[index - self._own].sql} AS c{index}"
            for index in listed
            if index >= self._own
        }
        if not computed and not inside:
            return "rows"
        wanted = ", ".join(computed.get(index, f"c{index}") for index in listed) or "1 AS one"
        chosen = f" WHERE {inside}" if inside else ""
        return f"(SELECT {wanted} FROM rows{chosen}) AS rows"

    def select(self, part: SelectedPart) -> Source:
        """Return this source with some of its rows: no question of it sees the others.

        They are selected before a filter, a label or a bound is looked at.

        Raises
        ------
        InvalidParameter
            If it has no such column, or it is not the time that it is cut as.
        """
        chosen = replace(self, part=part)
        # Written here as well, so that what is wrong with it is said at once.
        part.write(chosen)
        return chosen

    @property
    def _inside(self) -> tuple[str, frozenset[int]]:
        """Which rows are read, as a condition, and the columns that it reads; empty: all."""
        return ("", frozenset()) if self.part is None else self.part.write(self)

    def find_read(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return which columns of the table are read for these, and to select rows."""
        return tuple(sorted({*self._find_own(indices), *self._inside[1]}))

    def _find_own(self, indices: Iterable[int]) -> tuple[int, ...]:
        """Return the columns themselves, and what calls are of."""
        found: set[int] = set()
        for index in indices:
            found |= {index} if index < self._own else self.calls[index - self._own].indices
        return tuple(sorted(found))

    def label_index(self, column: str, role: str) -> int:
        """Return where a column stands whose values can be labels or units.

        Raises
        ------
        InvalidParameter
            If there is no such column or its declared type has no exact text.
        """
        index = self.index(column, role)
        kind = list(self.columns.values())[index]
        # Refused by the declared type alone: a value without a text must not be what ends the
        # question.
        if not AS_LABELS.fullmatch(kind):
            raise InvalidParameter(
                f"{role} must be a column of texts, numbers, dates or booleans, "
                f"because items and people are compared as text; got {column!r} "
                f"of type {name_type(kind)}. {self.cast}"
            )
        if kind in FLOATS and self.backend.dialect.words.float_text is None:
            raise InvalidParameter(
                f"{role} must not be a column of floats for a {self.kind} source, which writes "
                f"them otherwise than other engines do; got {column!r} of type {kind}. Convert the "
                "column at its source, to a whole number, a decimal or a text."
            )
        return index

    def number_column(self, column: str, role: str) -> tuple[int, NumberKind]:
        """Return where a column of numbers stands, and what it may hold.

        Raises
        ------
        InvalidParameter
            If there is no such column or its declared type is not numeric.
        """
        index = self.index(column, role)
        declared = list(self.columns.values())[index]
        # Texts are numbers where a column has no better type: in CSV, and where pandas made texts
        # of numbers.
        kind = number_kind(
            declared,
            text=self.texts or self.is_written(index),
            inferred=self.inferred,
            marks=None if self.find_lookup(index) else self.marks,
        )
        if kind is None:
            raise InvalidParameter(
                f"{role} must be a column of whole numbers, decimals or floats; got {column!r} of "
                f"type {name_type(declared)}. Convert the column to numbers at its source, such as "
                "the seconds of a span of time: a view may do it, or a column beside it."
            )
        return index, kind

    def always_has_number(self, column: str) -> bool:
        """Tell whether no row can be without a number in a column, by what is declared of it."""
        # Floats have NaN, and so have decimals of PostgreSQL.
        whole = WHOLE_NUMBER_TYPE.fullmatch(self.columns.get(column, "")) is not None
        return whole and column in self.required

    def predicate(self, where: str, role: str = "where") -> RowPredicate:
        """Parse a row predicate, check it by declared types without a row, and write it as SQL.

        Raises
        ------
        UnsafePredicate
            If it leaves the allow-list.
        InvalidParameter
            If it names an unknown column, does not fit the declared types or is no condition.
        """
        # All that is refused here is public: the predicate, the kind of source and the declared
        # types.
        if not isinstance(where, str):
            raise InvalidParameter(f"{role} must be a text; got {shown(where)}.")

        def find(name: str) -> int:
            # In any case, as SQL has it, where one column is meant.
            return self.index(name, role, any_case=True)

        # Calls are total, and texts: all else is checked as if they were missing.
        predicate = parse(where, find, lambda call: replace(call, sql="CAST(NULL AS VARCHAR)"))
        # In the order of their places, so that messages do not depend on the order of a set.
        kinds = {index: list(self.columns.values())[index] for index in sorted(predicate.indices)}
        if any(_TYPES_BEYOND_TRY.search(kind) for kind in kinds.values()):
            raise InvalidParameter(
                f"{role} must not use a column of type BIGNUM, GEOMETRY or VARIANT, on some values "
                f"of which the engine fails; got {shown(where)}. Convert it at its source, for "
                "example to a text."
            )
        # Named before the engine meets the name of a type that it does not know, whatever stands in
        # it.
        for index, kind in kinds.items():
            if kind.startswith(unusable("")):
                raise InvalidParameter(
                    f"{role} must use columns of texts, numbers, dates, times or booleans; got "
                    f"{list(self.columns)[index]!r} of type {name_type(kind)}. {self.cast}"
                )
        for index in predicate.cast_to_numbers if self.marks is not None else ():
            if kinds[index] == "VARCHAR" and not self.find_lookup(index):
                name = shown(list(self.columns)[index])[1:-1]
                raise InvalidParameter(
                    f"{role} must not convert {name} with TRY_CAST: it does not know the marks "
                    f"that are declared (--decimal, --thousands). {say_type_first(name)}"
                )
        read = self.read_columns
        # Whether it is refused must not follow from types that follow from rows: asked as if all
        # were texts.
        plain = (
            {index: _OF_SERVERS.get(kind, kind) for index, kind in kinds.items()}
            if read is None
            else dict.fromkeys(kinds, "VARCHAR")
        )
        if not _fits_declared_types(predicate if read is None else read(predicate, plain), plain):
            if read is not None:
                raise InvalidParameter(
                    f"{role} must compare columns with values, such as price > 10, and use dates "
                    f"and numbers that exist; got {shown(where)}."
                )
            names = list(self.columns)
            used = (
                ", ".join(f"{names[index]} {shown(kind)[1:-1]}" for index, kind in kinds.items())
                or "no column"
            )
            texts = [names[index] for index, kind in kinds.items() if kind == "VARCHAR"]
            advice = say_conversion(self.kind, texts if self.texts else [])
            raise InvalidParameter(
                f"{role} must be a condition that fits the declared types ({used}),"
                " and so must what AND, OR "
                f"and NOT join; got {shown(where)}. {advice}"
            )
        predicate = parse(where, find, lambda call: write_call(call, self))
        known = predicate if read is None else read(predicate, kinds)
        return RowPredicate(predicate.indices, self.backend.dialect.predicates(known, kinds))

    def count_cells(self, groups: int, bytes_of_cell: int) -> int:
        """Return how many cells an answer may well have of each of so many groups.

        They are buckets in which numbers are counted: fewer of them on a server, and no more than
        fit what it sends.
        """
        limit = self.backend.limit
        most = _MOST_CELLS if isinstance(self.backend, ReaderBackend) else _MOST_SERVER_CELLS
        fit = _CELLS_OF_GROUPS
        if limit is not None:
            fit = min(fit, (limit.size - limit.beside) // bytes_of_cell)
        return min(most, fit // groups)

    def rehearse(
        self,
        indices: Sequence[int],
        asked: Asked,
        marking: Marking | None = None,
        *,
        largest: int | None = None,
    ) -> None:
        """Ask questions of an empty table of the declared types.

        What fails here would fail on any rows.

        Parameters
        ----------
        indices : sequence of int
            Of the columns that are used.
        asked : sequence of pairs
            The questions.
        marking : Marking, optional
            They are about numbers that a batch may choose together with those of other questions.
        largest : int, optional
            How many bytes an answer has at most, whatever the rows are. None: that follows from the
            rows.

        Raises
        ------
        DataSourceError
            If the engine cannot plan one of them.
        InvalidParameter
            If an answer may be larger than what the engine sends. How large it is would decide
            whether a release ends without figures, after its charge.
        """
        limit = self.backend.limit
        if limit is not None and largest is not None and largest + limit.beside > limit.size:
            raise InvalidParameter(
                f"An answer of this source must fit {limit.size:,} bytes, whatever the rows are; "
                f"this may take {largest + limit.beside:,}. Ask for fewer labels or groups, or "
                f"raise the growth. {limit.remedy}"
            )
        kinds = list(self.columns.values())
        columns = {index: kinds[index] for index in indices}
        self.backend.rehearse(columns, asked)
        # Nothing is shared by questions to a server, nor by those that are asked alone.
        if (
            marking is not None
            and isinstance(self.backend, ReaderBackend)
            and self.backend.readings is not None
        ):
            self.backend.readings.rehearse_marking(columns, marking)

    def find_tie(self, path: Path) -> str:
        """Return why a file may hold something of the private rows, by its names.

        Empty: nothing tells so.
        """
        own = find_tie(path, self.files, self.folders, self.pattern)
        told = (table.source.find_tie(path) for table in self.private_tables)
        return own or next(filter(None, told), "")


_OF_SERVERS = {"NUMERIC": "DOUBLE", "ENUM()": "VARCHAR"}
"""Declared types that the embedded engine does not have, and what takes the same literals there."""


def _fits_declared_types(predicate: Predicate, kinds: Mapping[int, str]) -> bool:
    """Tell whether the engine takes a predicate, with and without TRY, and finds truth values only.

    What it refuses it refuses because of public things: the predicate and the declared types.
    """
    try:
        return _finds_truth_values(
            predicate.sql, predicate.total, tuple(predicate.operands), tuple(kinds.items())
        )
    except duckdb.Error:
        return False


# Of a long predicate it takes a second, and the same one is asked again of other tables, night
# after night. An error is not kept: the engine may only have lacked memory.
@lru_cache(maxsize=64)
def _finds_truth_values(
    plain: str, total: str, operands: tuple[str, ...], kinds: tuple[tuple[int, str], ...]
) -> bool:
    """Plan and run both forms of a predicate on one row of nothing but NULL.

    The engine's errors go on.
    """
    table = ", ".join(f"c{index} {kind}" for index, kind in kinds) or "c INTEGER"
    with engine() as opened:
        # The predicate is the user's: even so this engine can open nothing.
        opened.close_doors(())
        con = opened.connection
        con.execute(f"CREATE TEMP TABLE nothing ({table})")
        # One row, so that what fails only when it is evaluated fails here, and not after the
        # charge.
        con.execute("INSERT INTO nothing DEFAULT VALUES")
        # Without TRY, so that what does not fit the declared types fails: as a value and as a
        # condition.
        con.execute(f"SELECT {plain} FROM nothing WHERE {plain}").fetchall()
        # This is the form that rows are asked: it has to be planned before the charge as well.
        con.execute(f"SELECT * FROM nothing WHERE {total}").fetchall()
        # A text or a number as an operand of AND, OR or NOT: the engine would make a condition of
        # it, and would fail on some of them. So each such value must be a truth value by its type.
        types = [
            con.execute(f"DESCRIBE SELECT {each} AS answer FROM nothing").fetchall()
            for each in (plain, *operands)
        ]
    # `DESCRIBE` has one line for the one column: its name, then its type.
    return all(described[0][1] == "BOOLEAN" for described in types)


_MAY_BE_COMPUTED = frozenset({"item", "by"})


def _say_no_function(name: str) -> str:
    """Return what is said of a name that calls a function which is none; nothing of others."""
    function = find_function(name)
    return "" if function is None or function in USAGES else say_meant(function)


def _list_column_names(names: Sequence[str]) -> str:
    # A table may have thousands of columns. A message names the first few.
    return ", ".join(map(repr, names[:12])) + (
        f" and {len(names) - 12} more" if len(names) > 12 else ""
    )


def describe_columns(opened: Engine, select: str, what: str) -> dict[str, str]:
    """Return names and declared types of a SELECT, without reading a row.

    Raises
    ------
    DataSourceError
        If the engine cannot plan it.
    """
    try:
        # `DESCRIBE` plans the statement and does not run it.
        rows = opened.connection.execute(f"DESCRIBE {select}").fetchall()
    # What the engine says of a file may quote what the file holds, so it is not repeated.
    except duckdb.Error:
        raise DataSourceError(
            f"A source must be readable; {what} is not. Check the name, the permissions and the "
            "kind of file."
        ) from None
    return {str(row[0]): str(row[1]) for row in rows}


_PORTABLE_TYPE = re.compile(
    r"VARCHAR|BLOB|BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL\(\d+,\s*\d+\)"
    r"|DATE|TIME|TIMESTAMP(?:_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE"
)
"""Types whose values travel between engines as they are, whatever the settings of the sending
engine."""


def sent(types: Sequence[str], indices: Sequence[int]) -> str:
    """Return the columns c<index> as an engine sends them.

    Values of types outside `_PORTABLE_TYPE` travel as texts. Something is sent for each row, even
    if no column is used.
    """
    columns = (
        f"c{index}"
        if _PORTABLE_TYPE.fullmatch(types[index])
        else f"CAST({drop_beyond_type(f'c{index}', types[index])} AS VARCHAR) AS c{index}"
        for index in indices
    )
    return ", ".join(columns) or "1 AS c"


def received(types: Sequence[str], indices: Sequence[int], *more: str) -> str:
    """Return the SELECT over the lent rows, in which each column has its declared type again.

    A text that is no value of that type is NULL. `more` are other columns, in SQL.
    """
    # `TRY_CAST` gives NULL for texts that are no value of the type, and `TRY` where it fails all
    # the same.
    columns = (
        f"{drop_beyond_type(f'c{index}', types[index])} AS c{index}"
        if _PORTABLE_TYPE.fullmatch(types[index])
        else f"TRY(TRY_CAST(c{index} AS {types[index]})) AS c{index}"
        for index in indices
    )
    return f"SELECT {', '.join((*columns, *more)) or '1'} FROM lent"
