"""Writes a row predicate as SQL of DataFusion.

Whole numbers of 64 bits go around the end there, in silence. So they are computed as decimals of 38 digits,
which hold every product of two of them, and cast back; `condition_writer` says what stands around that.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordino.data.questions.condition import Arithmetic, Negative, Node, parts_of
from sordino.data.questions.predicate import Predicate
from sordino.data.sources.condition_writer import Grammar, write_typed
from sordino.data.sources.engine import literal
from sordino.data.sources.words import FLOATS
from sordino.errors import InvalidParameter

MOST_ARITHMETIC = 24
"""So many + - * may stand in a predicate: for a chain of 200 the planner takes minutes."""

LARGEST = 1000
"""So many operators and operands: for four times as many it takes half a minute."""

_WIDE = "DECIMAL(38,0)"
# Its optimizer compares what is cast, and not the cast, with a literal: what does not fit would not be NULL.
# It sees no cast in what is the largest of one value.
_CAST = "greatest(try_cast({0} AS {1}))"


def _compute(left: str, operator: str, right: str, kind: str) -> str:
    if kind in FLOATS:
        # What processors make of infinity times 0 has a sign, by which NaN would be the least of all numbers.
        return f"nanvl({left} {operator} {right}, CAST('NaN' AS {kind}))"
    return _CAST.format(f"CAST({left} AS {_WIDE}) {operator} CAST({right} AS {_WIDE})", kind)


def _match(text: str, pattern: str) -> str:
    # A backslash escapes what follows it, here always another one.
    doubled = pattern.replace("\\", "\\\\")
    return f"({text} LIKE {literal(doubled)})"


_GRAMMAR = Grammar(
    engine="DataFusion",
    names={},
    # True for every random number, which the engine does not know: so it moves and folds nothing of it.
    whole="(coalesce({}, FALSE) = (random() >= 0))",
    cast=_CAST,
    compute=_compute,
    # They have less than 38 digits, so nothing overflows.
    compute_exact=lambda left, operator, right: f"({left} {operator} {right})",
    # Its `round` moves halves away from 0, and so does the embedded engine for decimals alone.
    round=lambda number, is_float: None if is_float else f"round({number}, 0)",
    text=literal,
    match=_match,
)


def write_condition(predicate: Predicate, kinds: Mapping[int, str]) -> str:
    """Return SQL that is true or false for every row by itself, and never fails.

    Raises
    ------
    InvalidParameter
        If a part of it has a type, or joins types, that DataFusion reads otherwise than the embedded engine;
        or if it is too long for the planner.
    """
    computed = _count_arithmetic(predicate.condition)
    if computed > MOST_ARITHMETIC or predicate.condition.size > LARGEST:
        raise InvalidParameter(
            f"where must have at most {MOST_ARITHMETIC} of + - * and {LARGEST} operators and operands for a "
            f"DataFusion source, whose planner takes very long for more; got {computed} and "
            f"{predicate.condition.size}. Compute a column in the frame."
        )
    return write_typed(_GRAMMAR, predicate, kinds)


def _count_arithmetic(node: Node) -> int:
    own = node.operators if isinstance(node, Arithmetic | Negative) else 0
    return own + sum(map(_count_arithmetic, parts_of(node)))
