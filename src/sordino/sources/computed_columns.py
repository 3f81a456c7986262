"""Writes calls that stand in place of a column, such as `month(day)`, in the SQL of a source.

A call is a function of its row alone that fails on no value, so a table with computed columns is a
union over its rows, as before. All that is refused follows from the call and the declared types.
Where types follow from rows (pandas), nothing is refused or read by them: a date is a text that is
written as ISO 8601 has it, whatever type its column has. Proof: docs/proofs/computed-columns.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol, final

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.engine import literal
from sordino.sources.predicates.calls import DATE_PARTS, LONGEST_TEXT, USAGES, list_image, name_bins
from sordino.sources.predicates.condition import Call, Column, Constant, Node
from sordino.sources.predicates.predicate import parse_call
from sordino.sources.sql.call_templates import CallTemplates
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.number_kind import NumberKind
from sordino.unit_columns import UnitColumn, read_offset

_LOOKS_LIKE_CALL = re.compile(r"[ \t]*([A-Za-z_]+)[ \t]*\(.*\)[ \t]*", re.DOTALL)
_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"
_NEED_TIMES = frozenset({"minute", "hour", "day_hour"})
_FIRST, _END = (f"CAST('{day}' AS TIMESTAMP)" for day in ("0001-01-01", "10000-01-01"))
# Texts of times with the fractions of a second that pandas has.
_DATE_TEXT = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME_TEXT = r"[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{1,9})?)?"
_ZONE_TEXT = "(Z|[+-][0-9]{2}(:[0-9]{2})?)"


class _Engine(Protocol):
    """What asks an engine: its SQL, and questions before the charge."""

    @property
    def dialect(self) -> Dialect:
        """Its SQL."""
        ...

    def rehearse(self, columns: Mapping[int, str], asked: Any) -> None:
        """Ask questions of a table without rows."""
        ...


class TypedColumns(Protocol):
    """What a call needs to know of a source: its columns and their engine, and no row."""

    @property
    def kind(self) -> str:
        """What kind of source it is."""
        ...

    @property
    def columns(self) -> Mapping[str, str]:
        """Names and declared types."""
        ...

    @property
    def backend(self) -> _Engine:
        """What asks its engine."""
        ...

    @property
    def inferred(self) -> bool:
        """Whether rows may have decided the types."""
        ...

    @property
    def texts(self) -> bool:
        """Whether columns are texts unless a type was declared."""
        ...

    def index(self, column: object, role: str, *, any_case: bool = False) -> int:
        """Return where a column stands."""
        ...

    def is_written(self, index: int) -> bool:
        """Whether dates of a column are read from texts."""
        ...

    def label_index(self, column: str, role: str) -> int:
        """Return where a column of labels stands."""
        ...

    def number_column(self, column: str, role: str) -> tuple[int, NumberKind]:
        """Return where a column of numbers stands, and what it may hold."""
        ...


@final
@dataclass(frozen=True)
class ComputedColumn:
    """A call that stands in place of a column.

    Parameters
    ----------
    sql : str
        Its value, over columns c<index>. It never fails.
    indices : frozenset of int
        Of the columns that it reads.
    image : tuple of str or None
        All values that it can have, as they are shown; None where rows decide.
    """

    sql: str
    indices: frozenset[int]
    image: tuple[str, ...] | None


def find_function(name: object) -> str | None:
    """Return which function a name seems to call, in small letters; None if it is no call."""
    found = _LOOKS_LIKE_CALL.fullmatch(name) if isinstance(name, str) else None
    return None if found is None else found[1].lower()


def is_call(name: object) -> bool:
    """Tell whether a name calls one of the functions that there are."""
    return find_function(name) in USAGES


def write_computed(text: str, source: TypedColumns) -> ComputedColumn:
    """Return the column that a call computes, in the SQL of a source.

    Raises
    ------
    UnsafePredicate, InvalidParameter
        If it is written otherwise, or is nothing for these columns or this engine.
    """
    call, indices = parse_call(
        text,
        lambda name: source.index(name, f"The column in {shown(text)}", any_case=True),
        lambda one: write_call(one, source),
    )
    return ComputedColumn(call.sql, indices, list_image(call))


def write_unit(columns: Sequence[UnitColumn], source: TypedColumns, role: str) -> ComputedColumn:
    """Return the column in which two rows agree if they do in each column of a unit of several.

    It is missing where one of them is. What times are cut to is written in texts of one length, and
    before all values but the last stands how long they are: so no two units have one text.

    Raises
    ------
    InvalidParameter
        If a column is none of values that can be compared, or is not the time that it is cut as.
    """
    templates = source.backend.dialect.calls
    if templates is None:
        raise InvalidParameter(
            f"{role} must be one column, but for files, frames of pandas, Polars or Arrow, and "
            f"tables of DuckDB or PostgreSQL; got several for a {source.kind} source. Make one "
            "column of them at its source."
        )
    # Those of one length first, so that nothing need be said of theirs.
    ordered = sorted(columns, key=lambda one: one.cut is None)
    texts, indices = map(
        list, zip(*(write_unit_column(one, source, role) for one in ordered), strict=True)
    )
    plain = sum(column.cut is None for column in columns)
    for place in range(len(texts) - plain, len(texts) - 1):
        length = templates.bytes.format(texts[place])
        texts[place] = f"CAST({length} AS VARCHAR) || ':' || {texts[place]}"
    return ComputedColumn(f"({' || '.join(texts)})", frozenset(indices), None)


def write_unit_column(column: UnitColumn, source: TypedColumns, role: str) -> tuple[str, int]:
    """Return one column of a unit of several, as a text, and where it stands in the table.

    Raises
    ------
    InvalidParameter
        As for `write_unit`.
    """
    index = source.index(column.name, role)
    if column.cut is None:
        _ = source.label_index(column.name, role)
    elif column.offset is None and list(source.columns.values())[index] == _WITH_ZONE:
        raise InvalidParameter(
            f"{column.cut}({column.name}): {column.name} has a time zone; say at which offset "
            f"it is cut: {column.cut}({column.name} at '+00:00')."
        )
    call = Call(column.cut or "coalesce", (Column(index),), (), column.offset)
    return write_call(call, source).sql, index


def write_call(call: Call, source: TypedColumns) -> Call:
    """Return a call with its SQL; the calls in it have theirs already.

    Raises
    ------
    InvalidParameter
        If it is nothing for these columns or this engine.
    """
    templates = source.backend.dialect.calls
    if templates is None:
        raise InvalidParameter(
            f"{call.function}(...) must be asked of files, frames of pandas, Polars or Arrow, or "
            f"tables of DuckDB or PostgreSQL; a {source.kind} source takes no calls. Make a column "
            "of it at its source."
        )
    return replace(call, sql=_CallWriter(call, source, templates).write())


@final
@dataclass(frozen=True)
class _CallWriter:
    """Writes one call."""

    call: Call
    source: TypedColumns
    templates: CallTemplates

    def write(self) -> str:
        """Return its SQL: total, and a text or NULL."""
        call, known = self.call, self.templates
        if call.function in DATE_PARTS:
            return self._write_date_part()
        if call.function == "bin":
            return self._write_bins()
        texts = [self._write_text(one) for one in call.operands]
        # Not strict, and so beyond any `attempt`: each operand is total by itself.
        if call.function == "coalesce":
            return f"COALESCE({', '.join(texts)})"
        [text] = texts
        if call.function == "map":
            return self._write_map(text)
        if call.function == "lower" and known.asks_lower:
            self._ask(known.asks_lower, "lower(...) needs the collation C.utf8 of the server")
        template = {
            "lower": known.lower,
            "trim": known.trim,
            "host": known.host,
            "length": known.length,
            "left": known.left,
            "part": known.part,
        }[call.function]
        # The last literal of `left` and `part` is a number.
        words = [*map(literal, call.words[:-1]), *call.words[-1:]]
        return known.attempt.format(template.format(text, *words))

    # ---- texts

    def _write_text(self, node: Node) -> str:
        """Return the label text of an operand, by which items are compared."""
        if isinstance(node, Call):
            return node.sql
        if isinstance(node, Constant):
            return literal(node.text)
        index = self._name_operand(node)
        name, kind = self._columns[index]
        _ = self.source.label_index(name, f"What {self.call.function} is of")
        text = self.source.backend.dialect.words.label(index, kind)
        short = f"{self.templates.bytes.format(text)} <= {LONGEST_TEXT}"
        return f"(CASE WHEN {short} THEN {self.templates.sound.format(text)} END)"

    def _write_map(self, text: str) -> str:
        words, other = self.call.words, self.call.otherwise
        cases = " ".join(
            f"WHEN {literal(key)} THEN {literal(value)}"
            for key, value in zip(words[::2], words[1::2], strict=True)
        )
        # What is missing stays missing: it is no other value.
        rest = "" if other is None else f" ELSE {literal(other)}"
        return f"(CASE WHEN {text} IS NOT NULL THEN CASE {text} {cases}{rest} END END)"

    # ---- numbers

    def _write_bins(self) -> str:
        """Return the name of the bin of a number, found by halves; NULL of what is no number."""
        source, dialect = self.source, self.source.backend.dialect
        name, _ = self._columns[self._name_operand(self.call.operands[0])]
        index, kind = source.number_column(name, "What bin is of")
        number, edges = dialect.number(index, kind), [Fraction(word) for word in self.call.words]
        # Where rows decide the type, numbers are read as floats whatever it is.
        if kind.scale is None or source.inferred:
            number = f"CAST({number} AS {dialect.float_type})"
            floats = [float(edge) for edge in edges]
            if any(low >= high for low, high in pairwise(floats)):
                raise InvalidParameter("bin must have edges that differ as floats of 64 bits.")
            cuts = [f"CAST('{edge!r}' AS {dialect.float_type})" for edge in floats]
        else:
            for word, edge in zip(self.call.words, edges, strict=True):
                steps = edge * 10**kind.scale
                inside = steps.denominator == 1 and kind.smallest <= steps <= kind.largest
                if kind.name != "NUMERIC" and not inside:
                    raise InvalidParameter(
                        f"bin must have edges that {name!r} of type {kind.name} can hold; got "
                        f"{word}."
                    )
            exact = self.templates.exact_type.format(kind.name)
            cuts = [f"CAST('{word}' AS {exact})" for word in self.call.words]
        names = [literal(one) for one in name_bins([*map(float, edges)])]
        return f"(CASE WHEN {number} IS NOT NULL THEN {_write_halves(number, cuts, names)} END)"

    # ---- dates

    def _write_date_part(self) -> str:
        """Return a part of a date; the year that a clock shows must have four digits."""
        local = self._write_moment()
        value = self.templates.parts[self.call.function].format(local)
        guarded = f"CASE WHEN {local} >= {_FIRST} AND {local} < {_END} THEN {value} END"
        return self.templates.attempt.format(guarded)

    def _write_moment(self) -> str:
        """Return what a clock shows, as a timestamp."""
        call, source = self.call, self.source
        index = self._name_operand(call.operands[0])
        name, kind = self._columns[index]
        said = f"{call.function}({name})"
        if call.zone is not None and read_offset(call.zone) is None:
            asks = self.templates.asks_zone.format(literal(call.zone))
            self._ask(asks, f"{said}: {shown(call.zone)} must be a time zone that the engine knows")
        if source.is_written(index):
            return self._write_written_moment(index)
        if kind == _WITH_ZONE:
            if call.zone is None:
                raise InvalidParameter(
                    f"{said}: {name} has a time zone; say where the day is meant: "
                    f"{call.function}({name} at 'Europe/Zurich')."
                )
            return self._show_clock(f"c{index}", call.zone)
        if kind not in self.templates.moments:
            raise InvalidParameter(f"{said}: {_say_no_date(name, kind, source)}")
        if call.zone is not None:
            raise InvalidParameter(
                f"{said}: {name} has no time zone, so its day is the one that is written. Leave "
                "out at."
            )
        if call.function in _NEED_TIMES and kind == "DATE":
            raise InvalidParameter(f"{said}: {name} is a date, which has no time of day.")
        return self.templates.moments[kind].format(f"c{index}")

    def _show_clock(self, instant: str, zone: str) -> str:
        """Return what a clock shows in a zone, or at an offset, which is the same all year."""
        minutes = read_offset(zone)
        if minutes is None:
            return self.templates.instant.format(instant, literal(zone))
        clock = self.templates.instant.format(instant, literal("UTC"))
        return f"({clock} + INTERVAL '{minutes} minutes')"

    def _write_written_moment(self, index: int) -> str:
        """Return what a text says, which is written as ISO 8601 has it; of other texts NULL.

        Where a zone is meant the text must have one, and elsewhere none.
        """
        text = self._write_text(Column(index))
        timed = _TIME_TEXT if self.call.function in _NEED_TIMES else f"({_TIME_TEXT})?"
        zone = self.call.zone
        pattern = (
            f"{_DATE_TEXT}{timed}" if zone is None else f"{_DATE_TEXT}{_TIME_TEXT}{_ZONE_TEXT}"
        )
        # Fractions would be rounded: the last one of a year is not in the next one.
        whole = f"regexp_replace({text}, '[.][0-9]+', '')"
        kind = "TIMESTAMP" if zone is None else _WITH_ZONE
        value = f"TRY_CAST({whole} AS {kind})"
        if zone is not None:
            value = self._show_clock(value, zone)
        return f"(CASE WHEN regexp_full_match({text}, {literal(pattern)}) THEN {value} END)"

    # ---- what it is of

    @property
    def _columns(self) -> Sequence[tuple[str, str]]:
        return list(self.source.columns.items())

    def _name_operand(self, node: Node) -> int:
        """Return the place of a column; refuse a call, whose value is a text."""
        if not isinstance(node, Column):
            raise InvalidParameter(
                f"{USAGES[self.call.function]}; got a call in place of a column."
            )
        return node.index

    def _ask(self, query: str, what: str) -> None:
        """Ask the engine something that holds no row, before the charge."""
        try:
            self.source.backend.rehearse({}, [(query, None)])
        except DataSourceError:
            raise InvalidParameter(f"{what}; it does not.") from None


def _say_no_date(name: str, kind: str, source: TypedColumns) -> str:
    if kind == "VARCHAR" and source.texts:
        return (
            f"{name} is a text here. Declare it: --type {name}=date, or =timestamp if there is a "
            f"time of day; in Python CsvFormat(types={{{name!r}: 'date'}})."
        )
    said = "a text" if kind == "VARCHAR" else f"of type {kind.removeprefix('UNUSABLE ')}"
    return f"{name} is {said} here, and no date. Make a date or a timestamp of it at its source."


def _write_halves(number: str, cuts: Sequence[str], names: Sequence[str]) -> str:
    """Return which of the names between cuts belongs to a number."""
    if not cuts:
        return names[0]
    half = len(cuts) // 2
    below = _write_halves(number, cuts[:half], names[: half + 1])
    above = _write_halves(number, cuts[half + 1 :], names[half + 1 :])
    return f"CASE WHEN {number} < {cuts[half]} THEN {below} ELSE {above} END"
