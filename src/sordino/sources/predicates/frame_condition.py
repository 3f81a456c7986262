"""Reads the columns of a frame in a predicate by what stands beside them, and never by their types.

The type of a column of a frame follows from all of its rows together: one word among numbers makes
texts of them, one missing value makes floats of whole numbers. So a predicate must mean the same
whatever the type is, and must not be refused for it. Two steps see to that.

- How a column is read follows from the words of the predicate alone (`_Reader`). Beside a number,
  in arithmetic, or where TRY_CAST makes a number of it, it is a number. Beside TRUE or FALSE, and
  where a condition is meant, it is a truth value. Beside a text that is written as a date or a time
  of day it is one. Everywhere else it is a text.
- Each reading gives the same for one value in every type that the value may come in (`_READINGS`):
  numbers are floats of 64 bits, and have the text of that float, without a point where it is whole.

Proof: docs/proofs/predicates.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.sources.engine import literal
from sordino.sources.predicates.condition import (
    NO_NUMBERS,
    Arithmetic,
    Call,
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
from sordino.sources.predicates.predicate import Predicate, render_constant
from sordino.sources.sql.dialect import EMBEDDED
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.sql_templates import LARGEST_EXACT_WHOLE, WHOLE_NUMBERS

_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_HOUR = r"[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]+)?)?"
# What is written like one and is none is refused with the predicate.
_DATE = re.compile(rf"{_DAY}(?:[ T][0-9].*)?", re.DOTALL)
_TIME = re.compile(_HOUR)
_NUMBER = re.compile(r"[ \t]*[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[ \t]*")

# The type that a comparison gives a column beside it, by the type that TRY_CAST names.
_CAST_TO_MOMENT = frozenset({"DATE", "TIME", "TIMESTAMP"})
_EQUALITIES = frozenset({"=", "<>", "!="})
_TYPES_IN_LISTS = {
    "text": "VARCHAR",
    "number": "DOUBLE",
    "instant": "TIMESTAMP WITH TIME ZONE",
    "TIME": "TIME",
}


def read_frame_columns(predicate: Predicate, kinds: Mapping[int, str]) -> Predicate:
    """Return a predicate whose columns are what they are read as, in SQL of the embedded engine.

    Parameters
    ----------
    predicate : Predicate
        As it was parsed.
    kinds : mapping of int to str
        The declared types of its columns.

    Raises
    ------
    InvalidParameter
        If the predicate does not say how a column is read. This follows from its words alone.
    """
    return replace(predicate, condition=_Reader(kinds).condition(predicate.condition))


class _Reader:
    """Writes a syntax tree anew, with a reading for each column."""

    def __init__(self, kinds: Mapping[int, str]) -> None:
        self._kinds = kinds

    def condition(self, node: Node) -> Node:
        """Return what stands where a condition is meant."""
        return self._read(node, "truth")

    def _read(self, node: Node, reading: str) -> Node:
        """Return a node; a column as `reading`, whatever is no column as its own words say."""
        match node:
            case Column():
                read: Node = replace(
                    node, sql=_READINGS[reading](node.index, self._kinds[node.index])
                )
            case Constant() | Call():
                # A call has said itself how its columns are read.
                read = node
            case Negative():
                read = Negative(self._read(node.operand, "number"))
            case Arithmetic():
                rest = tuple((operator, self._read(one, "number")) for operator, one in node.rest)
                read = Arithmetic(self._read(node.first, "number"), rest)
            case TryCast():
                read = TryCast(self._read(node.operand, _find_source_of_cast(node.kind)), node.kind)
            case IsNull():
                read = IsNull(self._read(node.operand, "text"))
            case Not():
                read = Not(self.condition(node.operand))
            case Connected():
                read = self._join(node.operator, node.operands)
            case Comparison():
                read = self._compare(node)
        return read

    def _join(self, operator: str, operands: Sequence[Node]) -> Node:
        """Return what AND or OR connects; for a list of constants (IN) a column is read once."""
        lists: dict[tuple[int, str], list[Constant]] = {}
        joined = []
        for one in operands:
            listed = _find_listed(one) if operator == "OR" else None
            if listed is None:
                joined.append(self.condition(one))
            else:
                column, constant = listed
                lists.setdefault((column.index, _find_reading_beside(constant, "=")), []).append(
                    constant
                )
        for (index, reading), constants in lists.items():
            values = ", ".join(
                f"CAST({_write_constant(one, reading)} AS {_TYPES_IN_LISTS[reading]})"
                for one in constants
            )
            read = _READINGS[reading](index, self._kinds[index])
            joined.append(Column(index, f"list_contains([{values}], {read})"))
        return Connected(operator, tuple(joined)) if len(joined) > 1 else joined[0]

    def _compare(self, node: Comparison) -> Node:
        left, right = node.left, node.right
        if node.operator == "LIKE":
            return Comparison(self._read(left, "text"), node.operator, right)
        if (
            isinstance(left, Column)
            and isinstance(right, Column)
            and node.operator not in _EQUALITIES
        ):
            raise InvalidParameter(
                f"where must say how two columns of a frame are compared by {node.operator}, "
                "because their types may follow from rows. Write TRY_CAST(x AS DOUBLE), or AS "
                "TIMESTAMP or VARCHAR, for one of them."
            )
        sides = []
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Column):
                sides.append(self._read(one, _find_reading_beside(other, node.operator)))
            elif isinstance(one, Constant) and one.kind == "text" and _is_text_column(other):
                sides.append(Constant("text", _write_usual_text(one.text)))
            else:
                sides.append(self._read(one, "text"))
        return Comparison(sides[0], node.operator, sides[1])


def _find_listed(node: Node) -> tuple[Column, Constant] | None:
    """Return the column and the number or text that a node says are equal.

    None if it says something else.
    """
    if not (isinstance(node, Comparison) and node.operator == "="):
        return None
    left, right = node.left, node.right
    if (
        isinstance(left, Column)
        and isinstance(right, Constant)
        and right.kind in {"number", "text"}
    ):
        return left, right
    return None


def _write_constant(constant: Constant, reading: str) -> str:
    return (
        literal(_write_usual_text(constant.text))
        if reading == "text"
        else render_constant(constant)
    )


def _is_text_column(node: Node) -> bool:
    return isinstance(node, Column) or (isinstance(node, TryCast) and node.kind == "VARCHAR")


def _find_source_of_cast(kind: str) -> str:
    """Return how a column is read that TRY_CAST turns into a type."""
    return "text" if kind in NO_NUMBERS else "number"


def _find_reading_beside(other: Node, operator: str) -> str:
    """Return how a column is read that is compared with a node."""
    # Of NULL, or of another column.
    reading = "text"
    match other:
        case Constant(kind="text"):
            reading = _find_reading_of_text(other.text, operator)
        case Constant(kind="number") | Negative() | Arithmetic():
            reading = "number"
        case Constant(kind="truth") | Comparison() | IsNull() | Not() | Connected():
            reading = "truth"
        case TryCast(kind="BOOLEAN"):
            reading = "truth"
        case TryCast():
            reading = (
                other.kind if other.kind in _CAST_TO_MOMENT else _find_source_of_cast(other.kind)
            )
    return reading


def _find_reading_of_text(text: str, operator: str) -> str:
    if _DATE.fullmatch(text):
        return "instant"
    if _TIME.fullmatch(text):
        return "TIME"
    if operator not in _EQUALITIES and _NUMBER.fullmatch(text):
        raise InvalidParameter(
            f"where must not compare a column of a frame by {operator} with a number in quotes; "
            f"got {shown(text)}. Write the number without quotes, or TRY_CAST(x AS VARCHAR) for "
            "the column if the order of texts is meant."
        )
    return "text"


# ---- readings ------------------------------------------------------------------------------------
# SQL that is a function of the value of a column, whatever its type, and fails for none.


def _write_frame_text(index: int, kind: str) -> str:
    column = f"c{index}"
    if kind == "VARCHAR":
        number = f"TRY_CAST({column} AS DOUBLE)"
        # Truth values in the letters in which they are written where they have a type of their own,
        # and numbers that floats round, as floats: that is what remains of them in other types.
        return (
            f"(CASE WHEN lower({column}) = 'true' OR lower({column}) = 'false' THEN lower({column})"
            f" WHEN abs({number}) >= {LARGEST_EXACT_WHOLE} AND isfinite({number})"
            f" THEN {_write_text_of_number(number)} ELSE {column} END)"
        )
    if _is_number(kind):
        number = _write_double(column, kind)
        return f"(CASE WHEN NOT isnan({number}) THEN {_write_text_of_number(number)} END)"
    return f"TRY(CAST({column} AS VARCHAR))"


def _write_double(column: str, kind: str) -> str:
    # By the text of a decimal, which is rounded once.
    value = f"CAST({column} AS VARCHAR)" if kind.startswith("DECIMAL") else column
    return f"TRY_CAST({value} AS DOUBLE)"


def _write_text_of_number(number: str) -> str:
    """Return the text of a float that is no NaN.

    Its digits if it is whole, and else its shortest decimal.
    """
    whole = f"TRY_CAST({number} AS HUGEINT)"
    return (
        f"CASE WHEN {number} = floor({number}) AND {whole} IS NOT NULL"
        f" THEN CAST({whole} AS VARCHAR)"
        f" ELSE CAST({number} AS VARCHAR) END"
    )


def _write_frame_number(index: int, kind: str) -> str:
    """Return a column's number as sums and quantiles of frames read it (`Source.number_column`)."""
    if kind.startswith("DECIMAL") or kind == "UHUGEINT":
        return _write_double(f"c{index}", kind)
    if kind in WHOLE_NUMBERS:
        return f"CAST(c{index} AS DOUBLE)"
    known = number_kind(kind, text=True, inferred=True)
    # Neither a date nor a time of day is a number.
    return (
        "CAST(NULL AS DOUBLE)"
        if known is None
        else f"CAST({EMBEDDED.number(index, known)} AS DOUBLE)"
    )


def _write_frame_truth(index: int, kind: str) -> str:
    # pandas makes 1 and 0 of truth values beside numbers.
    text = _write_frame_text(index, kind)
    known = {"true": "TRUE", "1": "TRUE", "false": "FALSE", "0": "FALSE"}
    cases = " ".join(f"WHEN '{one}' THEN {truth}" for one, truth in known.items())
    return f"(CASE {text} {cases} END)"


def _write_moment(kind_of_moment: str) -> Callable[[int, str], str]:
    return lambda index, kind: (
        f"TRY(TRY_CAST({_write_frame_text(index, kind)} AS {kind_of_moment}))"
    )


def _is_number(kind: str) -> bool:
    return kind.startswith("DECIMAL") or kind in {"FLOAT", "DOUBLE"} or "INT" in kind


_READINGS: Mapping[str, Callable[[int, str], str]] = {
    "text": _write_frame_text,
    "number": _write_frame_number,
    "truth": _write_frame_truth,
    # With a time zone, where the text names one; without, in UTC.
    "instant": _write_moment("TIMESTAMP WITH TIME ZONE"),
    **{kind: _write_moment(kind) for kind in _CAST_TO_MOMENT},
}


def _write_usual_text(text: str) -> str:
    """Return a text as `_write_frame_text` writes it."""
    if text.lower() in {"true", "false"}:
        return text.lower()
    number = float(text) if _NUMBER.fullmatch(text) else 0.0
    if abs(number) < LARGEST_EXACT_WHOLE or math.isinf(number):
        return text
    return str(int(number)) if abs(number) < 1 << 127 else repr(number)
