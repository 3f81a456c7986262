"""Writes a row predicate as SQL of the embedded engine; every operator that can fail has a `TRY` of its own.

`TRY` gives NULL where what it holds fails. Around several operators it would also tell which of them were
evaluated. Rows that stand side by side decide that: a column that is NULL in a whole block decides a
comparison before the other operand is computed, and an operand that is not computed cannot overflow. Hence
the rule of this module:

- Each `TRY` holds one operator, its casts included. Each operator gives NULL if an operand is NULL. So it
  makes no difference whether the engine skips an operand: what fails and what is skipped is NULL either way.
- `AND`, `OR`, `NOT`, `IS NULL` and `COALESCE` stand above these. They follow three-valued logic and cannot
  fail: their operands are conditions. An operand that is a value (a column, say) becomes a condition inside a
  `TRY` of its own. The engine would do that outside of every `TRY`, and a text that is no truth value would
  end the query.

So the value is a function of the row alone. An overflow is NULL, as it is for the `try_` functions of other
engines. Proof: docs/proofs/predicates.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sordino.data._condition import (
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
    parts_of,
)
from sordino.data._engine import literal


def render_total(condition: Node) -> str:
    """Return SQL that is true or false for every row, and never fails."""
    # NULL counts as false, so that whether a row is kept is never left open.
    return f"COALESCE({_as_condition(condition, _tried)}, FALSE)"


def render_plain(condition: Node) -> str:
    """Return SQL without any TRY: what does not fit the declared types is an error there."""
    return _rendered(condition, _plain)


def render_operands(condition: Node) -> list[str]:
    """Return SQL without any TRY for each value that stands where a condition is meant.

    That is an operand of AND, OR or NOT, or the whole predicate.
    """
    values = [
        _rendered(node, _plain) for node in (condition, *_operands_inside(condition)) if _is_value(node)
    ]
    return list(dict.fromkeys(values))


def _operands_inside(node: Node) -> Iterator[Node]:
    """Yield what AND, OR and NOT connect, anywhere in a tree."""
    if isinstance(node, Connected):
        yield from node.operands
    elif isinstance(node, Not):
        yield node.operand
    for part in parts_of(node):
        yield from _operands_inside(part)


def _is_value(node: Node) -> bool:
    """Tell whether a node is no condition by itself; NULL is one, in three-valued logic."""
    if isinstance(node, Constant):
        return node.kind not in {"truth", "null"}
    return isinstance(node, Column | Negative | Arithmetic | TryCast)


def _tried(operator: str) -> str:
    return f"TRY{operator}"


def _plain(operator: str) -> str:
    return operator


def _as_condition(node: Node, attempt: Callable[[str], str]) -> str:
    """Return SQL for an operand of AND, OR or NOT."""
    sql = _rendered(node, attempt)
    return attempt(f"(CAST({sql} AS BOOLEAN))") if _is_value(node) else sql


def _rendered(node: Node, attempt: Callable[[str], str]) -> str:
    """Return SQL for a node; `attempt` is handed each operator that can fail, in parentheses."""

    def inside(part: Node) -> str:
        return _rendered(part, attempt)

    match node:
        case Column():
            sql = f"c{node.index}"
        case Constant():
            sql = _literal(node)
        case Negative():
            # The blank keeps two minus signs from becoming a comment.
            sql = attempt(f"(- {inside(node.operand)})")
        case Arithmetic():
            # One TRY for each operator of the chain, from the inside out, and not one around the chain.
            sql = inside(node.first)
            for operator, operand in node.rest:
                sql = attempt(f"({sql} {operator} {inside(operand)})")
        case TryCast():
            sql = attempt(f"(TRY_CAST({inside(node.operand)} AS {node.kind}))")
        case Comparison():
            sql = attempt(f"({inside(node.left)} {node.operator} {inside(node.right)})")
        case IsNull():
            sql = f"({inside(node.operand)} IS NULL)"
        case Not():
            sql = f"(NOT {_as_condition(node.operand, attempt)})"
        case Connected():
            sql = (
                f"({f' {node.operator} '.join(_as_condition(operand, attempt) for operand in node.operands)})"
            )
    return sql


def _literal(constant: Constant) -> str:
    if constant.kind == "text":
        return literal(constant.text)
    # In parentheses: a sign in front of a number must not meet the operator before it.
    return f"({constant.text})" if constant.text.startswith("-") else constant.text
