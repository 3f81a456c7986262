"""A row predicate in the words of the embedded engine: every operator that can fail is tried by itself.

`TRY` gives NULL where what it holds fails. Around several operators it would also tell which of them were
evaluated, and that is decided by the rows that stand side by side: a column that is NULL in a whole block
decides a comparison before the other operand is computed, and an operand that is not computed cannot overflow.
Hence the rule of this module:

- Each `TRY` holds one operator, its casts included. Each of these gives NULL if an operand is NULL. So it makes
  no difference whether the engine skips an operand: what fails and what is skipped is NULL either way.
- `AND`, `OR`, `NOT`, `IS NULL` and `COALESCE` stand above, follow three-valued logic and cannot fail.

So the value is a function of the row alone, and an overflow is NULL, as it is for the `try_` functions of other
engines. Proof: docs/proofs/predicates.md.
"""

from __future__ import annotations

from collections.abc import Callable

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
)
from sordino.data._engine import literal


def render_total(condition: Node) -> str:
    """Return SQL that is true or false for every row, and never fails."""
    return f"COALESCE({_rendered(condition, lambda operator: f'TRY{operator}')}, FALSE)"


def render_plain(condition: Node) -> str:
    """Return SQL without any TRY, in which what does not fit the declared types is an error."""
    return _rendered(condition, lambda operator: operator)


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
            sql = attempt(f"(- {inside(node.operand)})")  # the space keeps two minus signs from becoming a comment
        case Arithmetic():
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
            sql = f"(NOT {inside(node.operand)})"
        case Connected():
            sql = f"({f' {node.operator} '.join(map(inside, node.operands))})"
    return sql


def _literal(constant: Constant) -> str:
    if constant.kind == "text":
        return literal(constant.text)
    # In parentheses: a sign in front of a number must not meet the operator before it.
    return f"({constant.text})" if constant.text.startswith("-") else constant.text
