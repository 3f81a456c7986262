"""The nodes of the syntax tree of a row predicate.

What may be said about one row, independent of any engine.

A chain such as `a OR b OR c` is one node. So a tree is never deeper than the parentheses of what
was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, cast, final


@final
@dataclass(frozen=True)
class Column:
    """The value of a column, by its place in the source, or what it is read as, in SQL."""

    index: int
    sql: str = ""
    size: int = 1


@final
@dataclass(frozen=True)
class Constant:
    """A literal: a number as it was written, a text, a truth value, or NULL."""

    kind: str  # "number", "text", "truth" or "null"
    text: str = ""
    size: int = 1


class _InnerNode:
    """A node with others below it."""

    @property
    def operators(self) -> int:
        """How many operators stand in it."""
        return 1

    @cached_property
    def size(self) -> int:
        """How many operators and operands are written out for it; the parser limits this."""
        # Kept once it is known: each node above asks for it, and so the whole tree is counted only
        # once.
        return self.operators + sum(part.size for part in parts_of(cast("Node", self)))


@final
@dataclass(frozen=True)
class Negative(_InnerNode):
    """Minus an operand."""

    # A node of its own, because it can overflow: the least whole number of a type has no negative
    # in it.
    operand: Node


@final
@dataclass(frozen=True)
class Arithmetic(_InnerNode):
    """`first`, then one operator and operand after the other, from left to right."""

    # Each operator of the chain can fail by itself, so each gets a TRY of its own when this is
    # rendered.
    first: Node
    rest: tuple[tuple[str, Node], ...]

    @property
    def operators(self) -> int:
        """How many operators the chain has."""
        return len(self.rest)


@final
@dataclass(frozen=True)
class TryCast(_InnerNode):
    """An operand converted to another type; NULL where that is impossible."""

    operand: Node
    kind: str


@final
@dataclass(frozen=True)
class Comparison(_InnerNode):
    """Two operands with an operator between them, LIKE among the operators."""

    # One kind of node for all of them: each is NULL where an operand is (docs/proofs/predicates.md,
    # E1).
    left: Node
    operator: str
    right: Node


@final
@dataclass(frozen=True)
class IsNull(_InnerNode):
    """Whether an operand is NULL."""

    # True or false for every operand: this never fails (docs/proofs/predicates.md, E4).
    operand: Node


@final
@dataclass(frozen=True)
class Not(_InnerNode):
    """The opposite; NULL stays NULL."""

    operand: Node


@final
@dataclass(frozen=True)
class Connected(_InnerNode):
    """Two operands or more, all joined by AND or all by OR."""

    # "AND" or "OR", never both: parentheses and precedence have been read into the tree by now.
    operator: str
    operands: tuple[Node, ...]

    @property
    def operators(self) -> int:
        """How many operands the chain has: one more than operators."""
        return len(self.operands)


@final
@dataclass(frozen=True)
class Call(_InnerNode):
    """A function of one row alone, whose value is a text or NULL (docs/proofs/computed-columns.md).

    Parameters
    ----------
    function : str
        In small letters.
    operands : tuple of Node
        Columns and calls; of `coalesce` texts as well.
    words : tuple of str
        Its literals, in their order.
    zone : str or None
        Where the day of an instant is meant.
    otherwise : str or None
        What `map` makes of all other texts.
    sql : str
        The call in the SQL of the engine that is asked, once that is known. It never fails.
    """

    function: str
    operands: tuple[Node, ...]
    words: tuple[str, ...] = ()
    zone: str | None = None
    otherwise: str | None = None
    sql: str = ""

    @property
    def operators(self) -> int:
        """How many comparisons and literals are written out for it."""
        return 1 + len(self.words)

    @cached_property
    def size(self) -> int:
        """As of every node; what `map` is of is written out for each of its texts."""
        copies = 1 + len(self.words) // 2 if self.function == "map" else 1
        return self.operators + copies * sum(operand.size for operand in self.operands)


NO_NUMBERS = frozenset({"VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP"})
"""Types to which TRY_CAST converts that are none of numbers."""


def parts_of(node: Node) -> tuple[Node, ...]:
    """Return the nodes that stand directly below a node."""
    match node:
        case Negative() | TryCast() | IsNull() | Not():
            return (node.operand,)
        case Arithmetic():
            return (node.first, *(operand for _, operand in node.rest))
        case Comparison():
            return (node.left, node.right)
        case Connected() | Call():
            return node.operands
    return ()


Node: TypeAlias = (
    Column
    | Constant
    | Negative
    | Arithmetic
    | TryCast
    | Comparison
    | IsNull
    | Not
    | Connected
    | Call
)
