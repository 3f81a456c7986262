"""Writes a row predicate as SQL of Spark, with the types that the embedded engine gives its parts.

Under ANSI rules an overflow or a text that is no number ends the query for all rows. So each
operator that can do so is a `try_` function, and gives NULL instead; comparisons stand between
values of one type, so that no cast is left to Spark. What stands above follows three-valued logic
(docs/proofs/predicates.md).

The whole stands behind a value that changes from one part of a table to the next. So Spark neither
folds comparisons by what files say of all their rows, nor hands them to whoever makes the rows: a
column of floats that says its largest value leaves out NaN, and one row more could decide about
others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

import duckdb

from sordino.errors import InvalidParameter
from sordino.sources.engine import Engine
from sordino.sources.predicates.condition import (
    Arithmetic,
    Column,
    Comparison,
    Connected,
    Constant,
    IsNull,
    Negative,
    Node,
    Not,
    TryCast,
)
from sordino.sources.predicates.predicate import Predicate
from sordino.sources.sql.sql_templates import FLOATS
from sordino.sources.validation import lend_engine

LONGEST_PATTERN = 255
"""A pattern of LIKE has at most so many characters: longer ones could exhaust the stack on some
texts."""

_WHOLE = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Whole numbers, and how many digits they have."""

_MOST_DIGITS = 38
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_TYPES = frozenset({*_WHOLE, *FLOATS, "BOOLEAN", "VARCHAR", "DATE"})
_ALIASES = {"INT": "INTEGER", "REAL": "FLOAT"}
_NOTHING = "NULL"
_FUNCTIONS = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
# Its value changes from one part of a table to the next.
_ALWAYS = "spark_partition_id() >= 0"


class _Value(NamedTuple):
    """SQL, its type in words of the embedded engine, and how that engine would be told of it."""

    sql: str
    type: str
    told: str


def write_condition(predicate: Predicate, kinds: Mapping[int, str]) -> str:
    """Return SQL that is true or false for every row by itself, and never fails.

    Raises
    ------
    InvalidParameter
        If a part of it has a type, or joins types, that Spark reads otherwise than the embedded
        engine.
    """
    with lend_engine() as opened:
        condition = _Writer(opened, kinds).truth(predicate.condition)
    return f"coalesce(CASE WHEN {_ALWAYS} THEN {condition} END, FALSE)"


class _Writer:
    def __init__(self, opened: Engine, kinds: Mapping[int, str]) -> None:
        self._engine, self._kinds = opened, kinds
        self._known: dict[str, str] = {}

    def truth(self, node: Node) -> str:
        """Return SQL of a condition."""
        match node:
            case Not():
                return f"(NOT {self.truth(node.operand)})"
            case Connected():
                return f"({f' {node.operator} '.join(map(self.truth, node.operands))})"
            case IsNull():
                return f"({self._inside(node.operand)} IS NULL)"
            case Comparison():
                return self._compare(node)
        value = self._value(node)
        # Refused before by the embedded engine, which is asked for the types of all of these.
        return "CAST(NULL AS BOOLEAN)" if value.type == _NOTHING else value.sql

    def _inside(self, node: Node) -> str:
        if isinstance(node, Not | Connected | IsNull | Comparison):
            return self.truth(node)
        return self._value(node).sql

    def _value(self, node: Node) -> _Value:
        match node:
            case Column():
                value = self._typed(f"c{node.index}", self._checked(self._kinds[node.index]))
            case Constant():
                value = self._constant(node)
            case Negative():
                value = self._negate(node)
            case Arithmetic():
                value = self._value(node.first)
                for operator, operand in node.rest:
                    value = self._compute(value, operator, self._value(operand))
            case TryCast():
                value = self._convert(self._value(node.operand), _ALIASES.get(node.kind, node.kind))
            case _:
                # A condition where a value is meant: compared or converted as a truth value.
                value = self._typed(self.truth(node), "BOOLEAN")
        return value

    def _negate(self, node: Negative) -> _Value:
        """Return minus a value: as the embedded engine has it, of the same type."""
        value = self._value(node.operand)
        told = f"(- {value.told})"
        kind = self._ask(told)
        self._require_number(kind)
        # As a difference: the minus sign fails on some decimals of more than 34 digits.
        zero = _Value(f"CAST('0' AS {kind})", kind, told)
        if _DECIMAL.fullmatch(kind):
            return self._typed(self._add_decimals(zero, "-", value, kind), kind)
        return self._typed(_write_operator(zero.sql, "-", self._cast(value, kind)), kind)

    def _constant(self, node: Constant) -> _Value:
        if node.kind == "null":
            return _Value(_NOTHING, _NOTHING, _NOTHING)
        if node.kind == "truth":
            return _Value(node.text, "BOOLEAN", node.text)
        if node.kind == "text":
            return _Value(_write_literal(node.text), "VARCHAR", "CAST(NULL AS VARCHAR)")
        digits = node.text.replace(" ", "")
        kind = self._checked(self._ask(f"({node.text})"))
        number = repr(float(digits)) if kind in FLOATS else format(Decimal(digits), "f")
        return _Value(f"CAST('{number}' AS {kind})", kind, f"({node.text})")

    def _compute(self, left: _Value, operator: str, right: _Value) -> _Value:
        for one in (left, right):
            if one.type != _NOTHING:
                self._require_number(one.type)
        kind = self._checked(self._ask(f"({left.told} {operator} {right.told})"))
        self._require_number(kind)
        if _NOTHING in {left.type, right.type}:
            return self._typed(f"CAST(NULL AS {kind})", kind)
        if _DECIMAL.fullmatch(kind):
            return self._typed(self._add_decimals(left, operator, right, kind), kind)
        found = _write_operator(self._cast(left, kind), operator, self._cast(right, kind))
        return self._typed(found, kind)

    def _add_decimals(self, left: _Value, operator: str, right: _Value, kind: str) -> str:
        """Return a sum, a difference or a product of exact numbers, as a decimal."""
        (whole, scale), (more, finer) = (_digits(one.type) for one in (left, right))
        digits = (
            whole + scale + more + finer
            if operator == "*"
            else max(whole, more) + max(scale, finer)
        )
        # Spark would drop some digits behind the point.
        if digits >= _MOST_DIGITS:
            raise _make_refusal("sums and products of decimals that may have more than 38 digits")
        # Computed with the digits that they have, and moved into the type afterwards.
        found = _write_operator(self._as_decimal(left), operator, self._as_decimal(right))
        return _write_try_cast(found, kind)

    def _convert(self, value: _Value, kind: str) -> _Value:
        kind = self._checked(kind)
        if value.type == _NOTHING:
            return self._typed(f"CAST(NULL AS {_name_type(kind)})", kind)
        sql = value.sql
        if kind == "VARCHAR" and value.type in FLOATS:
            raise _make_refusal("the text of a float")
        if "DATE" in {kind, value.type} and not {kind, value.type} <= {"DATE", "VARCHAR"}:
            raise _make_refusal(f"TRY_CAST of {value.type} to {kind}")
        if kind in _WHOLE and (value.type in FLOATS or _has_point(value.type)):
            # To the nearest whole number; Spark would cut off.
            sql = f"rint(CAST({sql} AS DOUBLE))" if value.type in FLOATS else f"round({sql}, 0)"
        return self._typed(_write_try_cast(sql, kind), kind)

    def _compare(self, node: Comparison) -> str:
        left, right = self._value(node.left), self._value(node.right)
        if _NOTHING in {left.type, right.type}:
            return "CAST(NULL AS BOOLEAN)"
        if node.operator == "LIKE":
            return self._match(left, node.right)
        for one, other, side in ((left, right, node.right), (right, left, node.left)):
            # A text as it was written takes the type of what it is compared with, as in the
            # embedded engine.
            if isinstance(side, Constant) and side.kind == "text" and one.type != "VARCHAR":
                converted = _Value(_write_try_cast(other.sql, one.type), one.type, one.told)
                left, right = (one, converted) if one is left else (converted, one)
        kind = _find_common(left.type, right.type)
        return f"({self._cast(left, kind)} {node.operator} {self._cast(right, kind)})"

    def _match(self, left: _Value, pattern: Node) -> str:
        if left.type != "VARCHAR" or not isinstance(pattern, Constant):
            raise _make_refusal(f"LIKE of {left.type}")
        if len(pattern.text) > LONGEST_PATTERN:
            raise InvalidParameter(
                f"A pattern of LIKE must have at most {LONGEST_PATTERN} characters for a Spark "
                f"source; got {len(pattern.text)}."
            )
        return _write_match(left.sql, pattern.text)

    def _typed(self, sql: str, kind: str) -> _Value:
        return _Value(sql, kind, f"CAST(NULL AS {kind})")

    def _ask(self, told: str) -> str:
        """Return the type that the embedded engine gives an expression."""
        if told not in self._known:
            try:
                rows = self._engine.connection.execute(
                    f"DESCRIBE SELECT {told} AS answer"
                ).fetchall()
            except duckdb.Error:
                raise _make_refusal(
                    "numbers with more digits than the engine can compute with"
                ) from None
            self._known[told] = str(rows[0][1])
        return self._known[told]

    def _checked(self, kind: str) -> str:
        if kind not in _TYPES and not _DECIMAL.fullmatch(kind):
            raise _make_refusal(f"type {kind}")
        return kind

    def _require_number(self, kind: str) -> None:
        if not _is_numeric(kind):
            raise _make_refusal(f"arithmetic of {kind}")

    def _as_decimal(self, value: _Value) -> str:
        whole, scale = _digits(value.type)
        return self._cast(value, f"DECIMAL({whole + scale},{scale})")

    def _cast(self, value: _Value, kind: str) -> str:
        """Return a value in another type; NULL where it does not fit."""
        return value.sql if value.type == kind else _write_try_cast(value.sql, kind)


def _make_refusal(what: str) -> InvalidParameter:
    return InvalidParameter(
        f"where must not use {what} for a Spark source. It may use whole numbers of at most 64 "
        "bits, decimals, floats, texts, dates and truth values, compared with their like; TRY_CAST "
        "converts them."
    )


def _name_type(kind: str) -> str:
    """Return a type of the embedded engine in the words of Spark."""
    return "STRING" if kind == "VARCHAR" else kind


def _write_try_cast(sql: str, kind: str) -> str:
    """Return a value in another type; NULL where it does not fit."""
    return f"try_cast({sql} AS {_name_type(kind)})"


def _write_operator(left: str, operator: str, right: str) -> str:
    """Return what + - * makes of two values of one type, or of two decimals.

    NULL: it does not fit.
    """
    return f"{_FUNCTIONS[operator]}({left}, {right})"


def _write_literal(text: str) -> str:
    # As bytes: settings of the session say what marks in a text mean.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _write_match(text: str, pattern: str) -> str:
    """Return LIKE with a pattern in which no character escapes another one."""
    # The one that would is not in the pattern.
    unused = next(mark for mark in map(chr, range(0x100, 0x300)) if mark not in pattern)
    return f"({text} LIKE {_write_literal(pattern)} ESCAPE '{unused}')"


def _find_common(one: str, other: str) -> str:
    """Return the type in which values of two types are compared."""
    if one == other:
        return one
    if not (_is_numeric(one) and _is_numeric(other)):
        raise _make_refusal(f"a comparison of {one} with {other}")
    if "DOUBLE" in {one, other}:
        return "DOUBLE"
    if "FLOAT" in {one, other}:
        return "FLOAT"
    if one in _WHOLE and other in _WHOLE:
        return "BIGINT"
    (whole, scale), (more, finer) = _digits(one), _digits(other)
    most = max(scale, finer)
    return f"DECIMAL({min(_MOST_DIGITS, max(whole, more) + most)},{most})"


def _is_numeric(kind: str) -> bool:
    return kind in _WHOLE or kind in FLOATS or bool(_DECIMAL.fullmatch(kind))


def _has_point(kind: str) -> bool:
    return bool(_DECIMAL.fullmatch(kind)) and _digits(kind)[1] > 0


def _digits(kind: str) -> tuple[int, int]:
    """Return how many digits an exact type has before the point and after it."""
    if found := _DECIMAL.fullmatch(kind):
        return int(found[1]) - int(found[2]), int(found[2])
    return _WHOLE[kind], 0
