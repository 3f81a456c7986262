"""Tables: typed columns and rows of Python values, how files keep them, and how they become Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fuzz.values import (
    EXACT,
    NO_UNICODE,
    Far,
    decimal_digits,
    from_json,
    identity,
    is_beyond,
    to_json,
)

Row = tuple[Any, ...]
Rows = tuple[Row, ...]

_ARROW = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "VARCHAR": pa.string(),
}


@dataclass(frozen=True)
class Table:
    """Names and kinds of columns, and rows."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    rows: Rows

    def column(self, place: int) -> list[Any]:
        """Return the values of a column."""
        return [row[place] for row in self.rows]

    def with_rows(self, rows: Iterable[Row]) -> Table:
        """Return a table of the same columns with other rows."""
        return Table(self.names, self.kinds, tuple(rows))

    def kind(self, name: str) -> str:
        """Return the kind of a column."""
        return self.kinds[self.names.index(name)]


def arrow_type(kind: str) -> pa.DataType:
    """Return the Arrow type of a kind; whole numbers of 128 bits travel as text."""
    if digits := decimal_digits(kind):
        return pa.decimal128(*digits)
    return _ARROW.get(kind, pa.string())


def arrow(table: Table) -> pa.Table:
    """Return a table as Arrow, the bits of floats kept."""
    arrays = []
    for place, kind in enumerate(table.kinds):
        values, wanted = table.column(place), arrow_type(kind)
        if wanted == pa.string() and kind != "VARCHAR":
            values = [None if value is None else str(value) for value in values]
        if NO_UNICODE in values:
            arrays.append(_with_bytes(values))
        elif any(is_beyond(kind, value) for value in values):
            arrays.append(_with_digits(values, wanted))
        else:
            arrays.append(_with_far(values, wanted))
    return pa.Table.from_arrays(arrays, names=list(table.names))


def _with_far(values: list[Any], wanted: Any) -> Any:
    """Return a column of which some dates or times may be beyond the calendar of Python."""
    if not any(isinstance(value, Far) for value in values):
        return pa.array(values, wanted)
    whole = pa.int32() if wanted == pa.date32() else pa.int64()
    near = [None if isinstance(value, Far) else value for value in values]
    numbers = pa.array(near, wanted).cast(whole).to_pylist()
    far = [
        value if isinstance(value, Far) else one for value, one in zip(values, numbers, strict=True)
    ]
    return pa.array([None if one is None else int(one) for one in far], whole).cast(wanted)


def _with_bytes(values: list[Any]) -> pa.Array:
    """Return a column of texts of which some are none: bytes that are declared to be text."""
    raw = pa.array(
        [None if value is None else value.encode("utf-8", "surrogateescape") for value in values],
        pa.binary(),
    )
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)


def _with_digits(values: list[Any], kind: Any) -> pa.Array:
    """Return a column of decimals of which some have more digits than its type: what a cast leaves that is not safe."""
    known = pa.array([value is not None for value in values])
    numbers = [0 if value is None else int(value.scaleb(kind.scale, EXACT)) for value in values]
    memory = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(kind, len(values), [known.buffers()[1], pa.py_buffer(memory)])


def pack(rows: Sequence[Row]) -> list[Any]:
    """Return rows as JSON: `[times, values, steps]`, where whole numbers may rise by steps from row to row."""
    packed: list[Any] = []
    at = 0
    while at < len(rows):
        first, end, steps = rows[at], at + 1, None
        if end < len(rows):
            steps = _steps(first, rows[end])
        while end < len(rows) and steps is not None and _steps(rows[end - 1], rows[end]) == steps:
            end += 1
        packed.append(
            [
                end - at,
                [to_json(value) for value in first],
                *([steps] if steps and any(steps) else []),
            ]
        )
        at = end
    return packed


def _steps(one: Row, two: Row) -> list[int] | None:
    """Return by how much whole numbers rise from one row to the next; None if something else changes."""
    steps = []
    for a, b in zip(one, two, strict=True):
        if identity(a) == identity(b):
            steps.append(0)
        elif type(a) is int and type(b) is int:
            steps.append(b - a)
        else:
            return None
    return steps


def unpack(packed: Sequence[Any]) -> Rows:
    """Return the rows that `pack` wrote."""
    rows: list[Row] = []
    for times, values, *more in packed:
        first = tuple(from_json(value) for value in values)
        steps = more[0] if more else [0] * len(first)
        rows.extend(
            tuple(
                value + step * i if step else value
                for value, step in zip(first, steps, strict=True)
            )
            for i in range(times)
        )
    return tuple(rows)
