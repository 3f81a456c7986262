"""Writes a row predicate as SQL of PostgreSQL, whose server ends a query for all rows at one error.

So nothing is written that can fail on a value: each comparison is between two values of one type,
after casts that every value survives, and three-valued logic stands above. It then does not matter
what the server leaves out, does early, or does in another order (docs/proofs/predicates.md).

What may fail, or would answer otherwise than the embedded engine, is refused: by the words of the
predicate and the declared types alone. The embedded engine says what a literal is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

import duckdb

from sordino.errors import InvalidParameter
from sordino.sources.engine import Engine, literal
from sordino.sources.predicates.condition import (
    Call,
    Column,
    Comparison,
    Connected,
    Constant,
    IsNull,
    Negative,
    Node,
    Not,
)
from sordino.sources.predicates.predicate import Predicate, render_constant
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.sql_templates import FLOATS, SERVER
from sordino.sources.validation import lend_engine

LONGEST_PATTERN = 255
"""A pattern of LIKE has at most so many characters: for each % of a longer one the server might
need more of its stack than it has, on some texts."""

_WITH_ZONE = "TIMESTAMP WITH TIME ZONE"
_NULL = "NULL"
_TEXTS = frozenset({"VARCHAR", "ENUM()"})
_WHOLE = frozenset({"SMALLINT", "INTEGER", "BIGINT"})
_MOST_DIGITS = 38
_SERVER_TYPES = {
    **dict.fromkeys(_WHOLE, "bigint"), "FLOAT": "float4", "DOUBLE": "float8", "DATE": "date",
    "TIMESTAMP": "timestamp", _WITH_ZONE: "timestamptz", "UUID": "uuid", "NUMERIC": "numeric",
    "BOOLEAN": "boolean",
}  # fmt: skip
"""What the server calls the types in which values are compared."""

# As the embedded engine shows dates and times of the years 1 to 9999.
_SHOWN_MOMENT = re.compile(r"-?infinity|[0-9]{4}-[0-9]{2}-[0-9]{2}(?: [0-9:.+-]+)?")
_ZONED = re.compile(
    r"-?infinity|.*:[0-9]{2}(?:\.[0-9]+)? ?(?:Z|[+-][0-9]{2}(?::[0-9]{2})?)", re.DOTALL
)


class _Operand(NamedTuple):
    """SQL, its declared type, and the literal that it is, if it is one."""

    sql: str
    type: str
    constant: Constant | None = None


def write_server_condition(
    predicate: Predicate, kinds: Mapping[int, str], *, unicode: bool = True
) -> str:
    """Return SQL that is true or false for every row by itself, and never fails.

    Parameters
    ----------
    predicate : Predicate
        Its calls have their SQL.
    kinds : mapping of int to str
        The declared types of its columns.
    unicode : bool
        Whether the database keeps texts in UTF-8. In others letters have another order.

    Raises
    ------
    InvalidParameter
        If a part of it could fail there, or would mean something else than elsewhere.
    """
    with lend_engine() as opened:
        condition = _ServerWriter(opened, kinds, unicode=unicode).truth(predicate.condition)
    return f"COALESCE({condition}, FALSE)"


class _ServerWriter:
    def __init__(self, opened: Engine, kinds: Mapping[int, str], *, unicode: bool) -> None:
        self._engine, self._kinds, self._unicode = opened, kinds, unicode

    def truth(self, node: Node) -> str:
        """Return SQL of a condition."""
        value = self._value(node)
        if value.type == _NULL:
            return "CAST(NULL AS boolean)"
        if value.type != "BOOLEAN":
            raise _refuse_on_server(f"{_say_type(value)} as a condition")
        return value.sql

    def _value(self, node: Node) -> _Operand:
        """Return a value as it stands there, or a condition as a truth value."""
        match node:
            case Column():
                return _Operand(f"c{node.index}", self._kinds[node.index])
            case Constant():
                return self._constant(node)
            case Call():
                return _Operand(f"({node.sql})", "VARCHAR")
            case Not():
                sql = f"(NOT {self.truth(node.operand)})"
            case Connected():
                sql = f"({f' {node.operator} '.join(map(self.truth, node.operands))})"
            case IsNull():
                inner = self._value(node.operand)
                sql = "FALSE" if inner.constant is not None else f"({inner.sql} IS NULL)"
            case Comparison():
                sql = self._compare(node)
            case Negative(operand=Constant(kind="number") as number):
                return self._constant(Constant("number", f"- {number.text}"))
            case Negative(operand=Negative(operand=Constant(kind="number") as number)):
                return self._constant(number)
            case _:
                raise _refuse_on_server("arithmetic or TRY_CAST")
        return _Operand(sql, "BOOLEAN")

    def _constant(self, node: Constant) -> _Operand:
        """Return a literal with the type that the embedded engine gives it."""
        if node.kind == "null":
            return _Operand(_NULL, _NULL)
        if node.kind == "truth":
            return _Operand(node.text, "BOOLEAN")
        if node.kind == "text":
            return _Operand(literal(node.text), "VARCHAR", node)
        [described] = self._ask(f"DESCRIBE SELECT {render_constant(node)} AS answer")
        return _Operand(render_constant(node), str(described[1]), node)

    def _compare(self, node: Comparison) -> str:
        left, right = self._value(node.left), self._value(node.right)
        if _NULL in {left.type, right.type}:
            return "CAST(NULL AS boolean)"
        texts = {left.type, right.type} <= _TEXTS
        if not texts and node.operator == "LIKE":
            raise _refuse_on_server(f"LIKE of {_say_type(left)}")
        if texts and node.operator not in {"=", "<>", "!="}:
            self._check_order(node, left, right)
        if node.operator == "LIKE":
            # Nothing escapes another character, as on the embedded engine.
            return f"({_write_server_text(left)} LIKE {right.sql} ESCAPE '')"
        kind = _find_shared_type(left, right)
        return f"({self._cast(left, kind)} {node.operator} {self._cast(right, kind)})"

    def _check_order(self, node: Comparison, left: _Operand, right: _Operand) -> None:
        """Refuse texts whose order, or letters, the embedded engine has otherwise."""
        if not self._unicode:
            raise _refuse_on_server(
                "LIKE, or the order of texts, where the database is in another encoding than UTF8"
            )
        if left.type == right.type == "ENUM()":
            raise _refuse_on_server("the order of two columns of listed values")
        if isinstance(node.right, Constant) and node.operator == "LIKE":
            length = len(node.right.text)
            if length > LONGEST_PATTERN:
                raise InvalidParameter(
                    f"A pattern of LIKE must have at most {LONGEST_PATTERN} characters for a "
                    f"PostgreSQL source; got {length}."
                )

    def _cast(self, value: _Operand, kind: str) -> str:
        """Return a value in the type in which it is compared; no value fails there."""
        if kind in _TEXTS:
            return _write_server_text(value)
        sql = value.sql
        if value.constant is not None:
            sql = literal(self._read_constant(value.constant, kind))
        return f"CAST({sql} AS {_SERVER_TYPES[kind]})"

    def _read_constant(self, constant: Constant, kind: str) -> str:
        """Return a literal as the text of a value of a type."""
        if kind in FLOATS:
            # The very float that the embedded engine makes of it.
            [(number,)] = self._ask(f"SELECT CAST({render_constant(constant)} AS {kind})")
            return repr(float(number))
        if constant.kind == "number":
            return format(Decimal(constant.text.replace(" ", "")), "f")
        if kind == _WITH_ZONE and not _ZONED.fullmatch(constant.text):
            raise _refuse_on_server(
                "a time without a zone beside a column with one (write '2024-01-01 00:00+00')"
            )
        [(text,)] = self._ask(f"SELECT CAST(CAST({literal(constant.text)} AS {kind}) AS VARCHAR)")
        if kind != "UUID" and not _SHOWN_MOMENT.fullmatch(text):
            raise _refuse_on_server("a date of another year than 0001 to 9999")
        return str(text)

    def _ask(self, question: str) -> list[tuple[str, ...]]:
        """Ask the embedded engine what a literal is, and about no row."""
        try:
            return self._engine.connection.execute(question).fetchall()
        except duckdb.Error:
            raise _refuse_on_server("a literal that is no value of the type beside it") from None


def _find_shared_type(left: _Operand, right: _Operand) -> str:
    """Return the type in which two values are compared, as the embedded engine chooses it."""
    types = {left.type, right.type}
    for one, other in ((left, right), (right, left)):
        # Dates and the like are written as texts.
        written = other.constant is not None and other.type == "VARCHAR"
        if written and one.type in {"DATE", "TIMESTAMP", _WITH_ZONE, "UUID"}:
            return one.type
    if types <= _TEXTS:
        return "VARCHAR"
    numbers = [number_kind(kind, text=False) for kind in types]
    if None in numbers:
        if len(types) > 1 or not types <= _SERVER_TYPES.keys():
            raise _refuse_on_server(f"a comparison of {_say_type(left)} with {_say_type(right)}")
        return left.type
    if types & FLOATS:
        for one in (left, right):
            # Decimals may become floats that differ by engine.
            if one.type not in FLOATS | _WHOLE and one.constant is None:
                beside = f"a float beside {_say_type(one)}"
                raise _refuse_on_server(f"{beside} (a number with an exponent is one)")
        return "DOUBLE" if "DOUBLE" in types else "FLOAT"
    if types <= _WHOLE:
        return "BIGINT"
    if "NUMERIC" not in types and types - _WHOLE != {"HUGEINT"}:
        digits = [_count_digits(left), _count_digits(right)]
        # Elsewhere numbers that need more are missing there.
        if sum(map(max, *digits)) > _MOST_DIGITS:
            raise _refuse_on_server("a comparison that needs decimals of more than 38 digits")
    return "NUMERIC"


def _count_digits(value: _Operand) -> tuple[int, int]:
    """Return how many digits an exact number may have before the point and after it."""
    if value.constant is not None:
        number = Decimal(value.constant.text.replace(" ", ""))
        return max(0, number.adjusted() + 1), -int(number.as_tuple().exponent)
    kind = number_kind(value.type, text=False)
    if kind is None or kind.scale is None:
        raise AssertionError(value.type)
    return len(str(kind.largest)) - kind.scale, kind.scale


def _write_server_text(value: _Operand) -> str:
    """Return a text as labels are compared: byte by byte, whatever its collation is."""
    return SERVER.text.format(value.sql)


def _say_type(value: _Operand) -> str:
    return {"ENUM()": "ENUM", "VARCHAR": "a text"}.get(value.type, value.type)


def _refuse_on_server(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"where must not use {what} for a PostgreSQL source, whose server would end the query on "
        "some rows or answer otherwise than other engines. It may compare columns and literals of "
        "one kind (whole numbers and decimals, floats, texts, dates, times, UUIDs, truth values) "
        "and calls such as month(day). Name a view that has what it takes as a column."
    )
