"""Writes a row predicate as SQL of another engine, with the types that the embedded engine gives its parts.

On other engines an overflow or a text that is no number ends the query for all rows, or becomes another
number in silence. So each operator that can do so is written in a way that gives NULL instead; comparisons
stand between values of one type, so that no cast is left to the engine. What stands above follows
three-valued logic (docs/proofs/predicates.md).

The whole stands behind a value that changes from row to row, or from one part of a table to the next. So an
engine neither folds comparisons by what files say of all their rows, nor hands them to whoever makes the
rows: a column of floats that says its largest value leaves out NaN, and one row more could decide about
others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple, final

import duckdb

from sordino.data.questions.condition import (
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
from sordino.data.questions.predicate import Predicate
from sordino.data.sources.engine import Engine
from sordino.data.sources.rehearsal import lend_engine
from sordino.data.sources.words import FLOATS
from sordino.errors import InvalidParameter

LONGEST_PATTERN = 255
"""A pattern of LIKE has at most so many characters: longer ones could exhaust the stack on some texts."""

_WHOLE = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19}
"""Whole numbers, and how many digits they have."""

_MOST_DIGITS = 38
_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
_TYPES = frozenset({*_WHOLE, *FLOATS, "BOOLEAN", "VARCHAR", "DATE"})
_ALIASES = {"INT": "INTEGER", "REAL": "FLOAT"}
_NOTHING = "NULL"


@final
@dataclass(frozen=True, kw_only=True)
class Grammar:
    """How an engine writes the parts of a predicate.

    Parameters
    ----------
    engine : str
        Its name, for messages.
    names : mapping of str to str
        Its names of types that it calls otherwise than the embedded engine does.
    whole : str
        The condition, true or false for every row, in a form that is never handed on or folded.
    cast : str
        A value `{0}` in a type `{1}`; NULL where it does not fit.
    compute : callable
        From two operands of one type, an operator between them and that type to the result; NULL where that
        type cannot hold it.
    compute_exact : callable
        The same of two decimals whose result has less than 38 digits.
    round : callable
        From a number, whether it is a float, to the nearest whole number, as the embedded engine rounds; None
        if it rounds otherwise.
    text : callable
        From a text to a literal.
    match : callable
        From a text in SQL and a pattern in which no character escapes another one to LIKE.
    """

    engine: str
    names: Mapping[str, str]
    whole: str
    cast: str
    compute: Callable[[str, str, str, str], str]
    compute_exact: Callable[[str, str, str], str]
    round: Callable[[str, bool], str | None]
    text: Callable[[str], str]
    match: Callable[[str, str], str]


class _Value(NamedTuple):
    """SQL, its type in the words of the embedded engine, and how that engine would be told of it."""

    sql: str
    type: str
    told: str


def write_typed(grammar: Grammar, predicate: Predicate, kinds: Mapping[int, str]) -> str:
    """Return SQL that is true or false for every row by itself, and never fails.

    Raises
    ------
    InvalidParameter
        If a part of it has a type, or joins types, that the engine reads otherwise than the embedded engine.
    """
    with lend_engine() as opened:
        condition = _Writer(grammar, opened, kinds).truth(predicate.condition)
    return grammar.whole.format(condition)


class _Writer:
    def __init__(self, grammar: Grammar, opened: Engine, kinds: Mapping[int, str]) -> None:
        self._grammar, self._engine, self._kinds = grammar, opened, kinds
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
        # As a difference: the minus sign of Spark fails on some decimals of more than 34 digits.
        zero = _Value(f"CAST('0' AS {kind})", kind, told)
        if _DECIMAL.fullmatch(kind):
            return self._typed(self._add_decimals(zero, "-", value, kind), kind)
        return self._typed(self._grammar.compute(zero.sql, "-", self._cast(value, kind), kind), kind)

    def _constant(self, node: Constant) -> _Value:
        if node.kind == "null":
            return _Value(_NOTHING, _NOTHING, _NOTHING)
        if node.kind == "truth":
            return _Value(node.text, "BOOLEAN", node.text)
        if node.kind == "text":
            return _Value(self._grammar.text(node.text), "VARCHAR", "CAST(NULL AS VARCHAR)")
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
        operands = self._cast(left, kind), self._cast(right, kind)
        return self._typed(self._grammar.compute(operands[0], operator, operands[1], kind), kind)

    def _add_decimals(self, left: _Value, operator: str, right: _Value, kind: str) -> str:
        """Return a sum, a difference or a product of exact numbers, as a decimal."""
        (whole, scale), (more, finer) = (_digits(one.type) for one in (left, right))
        digits = whole + scale + more + finer if operator == "*" else max(whole, more) + max(scale, finer)
        # Others would drop some digits behind the point.
        if digits >= _MOST_DIGITS:
            raise self._refusal("sums and products of decimals that may have more than 38 digits")
        # Computed with the digits that they have, and moved into the type afterwards.
        found = self._grammar.compute_exact(self._as_decimal(left), operator, self._as_decimal(right))
        return self._try(found, kind)

    def _convert(self, value: _Value, kind: str) -> _Value:
        kind = self._checked(kind)
        if value.type == _NOTHING:
            return self._typed(f"CAST(NULL AS {self._name(kind)})", kind)
        sql = value.sql
        if kind == "VARCHAR" and value.type in FLOATS:
            raise self._refusal("the text of a float")
        if "DATE" in {kind, value.type} and not {kind, value.type} <= {"DATE", "VARCHAR"}:
            raise self._refusal(f"TRY_CAST of {value.type} to {kind}")
        if kind in _WHOLE and (value.type in FLOATS or _has_point(value.type)):
            # To the nearest whole number; others would cut off.
            rounded = self._grammar.round(sql, value.type in FLOATS)
            if rounded is None:
                raise self._refusal(f"TRY_CAST of {value.type} to {kind}")
            sql = rounded
        return self._typed(self._try(sql, kind), kind)

    def _compare(self, node: Comparison) -> str:
        left, right = self._value(node.left), self._value(node.right)
        if _NOTHING in {left.type, right.type}:
            return "CAST(NULL AS BOOLEAN)"
        if node.operator == "LIKE":
            return self._match(left, node.right)
        for one, other, side in ((left, right, node.right), (right, left, node.left)):
            # A text as it was written takes the type of what it is compared with, as in the embedded engine.
            if isinstance(side, Constant) and side.kind == "text" and one.type != "VARCHAR":
                converted = _Value(self._try(other.sql, one.type), one.type, one.told)
                left, right = (one, converted) if one is left else (converted, one)
        kind = self._common(left.type, right.type)
        return f"({self._cast(left, kind)} {node.operator} {self._cast(right, kind)})"

    def _match(self, left: _Value, pattern: Node) -> str:
        if left.type != "VARCHAR" or not isinstance(pattern, Constant):
            raise self._refusal(f"LIKE of {left.type}")
        if len(pattern.text) > LONGEST_PATTERN:
            raise InvalidParameter(
                f"A pattern of LIKE must have at most {LONGEST_PATTERN} characters for a "
                f"{self._grammar.engine} source; got {len(pattern.text)}."
            )
        return self._grammar.match(left.sql, pattern.text)

    def _typed(self, sql: str, kind: str) -> _Value:
        return _Value(sql, kind, f"CAST(NULL AS {kind})")

    def _ask(self, told: str) -> str:
        """Return the type that the embedded engine gives an expression."""
        if told not in self._known:
            try:
                rows = self._engine.connection.execute(f"DESCRIBE SELECT {told} AS answer").fetchall()
            except duckdb.Error:
                raise self._refusal("numbers with more digits than the engine can compute with") from None
            self._known[told] = str(rows[0][1])
        return self._known[told]

    def _checked(self, kind: str) -> str:
        if kind not in _TYPES and not _DECIMAL.fullmatch(kind):
            raise self._refusal(f"type {kind}")
        return kind

    def _require_number(self, kind: str) -> None:
        if kind not in _WHOLE and kind not in FLOATS and not _DECIMAL.fullmatch(kind):
            raise self._refusal(f"arithmetic of {kind}")

    def _as_decimal(self, value: _Value) -> str:
        whole, scale = _digits(value.type)
        return self._cast(value, f"DECIMAL({whole + scale},{scale})")

    def _cast(self, value: _Value, kind: str) -> str:
        """Return a value in another type; NULL where it does not fit."""
        return value.sql if value.type == kind else self._try(value.sql, kind)

    def _try(self, sql: str, kind: str) -> str:
        return self._grammar.cast.format(sql, self._name(kind))

    def _name(self, kind: str) -> str:
        return self._grammar.names.get(kind, kind)

    def _common(self, one: str, other: str) -> str:
        """Return the type in which values of two types are compared."""
        kind = _find_common(one, other)
        if kind is None:
            raise self._refusal(f"a comparison of {one} with {other}")
        return kind

    def _refusal(self, what: str) -> InvalidParameter:
        return InvalidParameter(
            f"where must not use {what} for a {self._grammar.engine} source. It may use whole numbers of at "
            "most 64 bits, decimals, floats, texts, dates and truth values, compared with their like; "
            "TRY_CAST converts them."
        )


def _find_common(one: str, other: str) -> str | None:
    """Return the type in which values of two types are compared; None if they are not."""
    if one == other:
        return one
    numbers = [kind in _WHOLE or kind in FLOATS or bool(_DECIMAL.fullmatch(kind)) for kind in (one, other)]
    if not all(numbers):
        return None
    if "DOUBLE" in {one, other}:
        return "DOUBLE"
    if "FLOAT" in {one, other}:
        return "FLOAT"
    if one in _WHOLE and other in _WHOLE:
        return "BIGINT"
    (whole, scale), (more, finer) = _digits(one), _digits(other)
    most = max(scale, finer)
    return f"DECIMAL({min(_MOST_DIGITS, max(whole, more) + most)},{most})"


def _has_point(kind: str) -> bool:
    return bool(_DECIMAL.fullmatch(kind)) and _digits(kind)[1] > 0


def _digits(kind: str) -> tuple[int, int]:
    """Return how many digits an exact type has before the point and after it."""
    if found := _DECIMAL.fullmatch(kind):
        return int(found[1]) - int(found[2]), int(found[2])
    return _WHOLE[kind], 0
