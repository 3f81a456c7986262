"""Random row predicates over the whole grammar, as trees: `["op", ...]`, so that they can be cut down.

Trees: ["col", name] ["const", text] ["neg", x] ["+", a, b] ["-", a, b] ["*", a, b] ["try_cast", x, type]
["=", a, b] and other comparisons, ["is null", x] ["is not null", x] ["in", x, constants] ["not in", ...]
["between", x, a, b] ["not between", ...] ["like", x, pattern] ["not like", ...] ["and", a, b] ["or", a, b] ["not", x]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fuzz.values import FLOATS, WHOLE, decimal_digits

Tree = list[Any]
COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")
ARITHMETIC = ("+", "-", "*")
CASTS = (
    "BIGINT", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "SMALLINT", "TIME", "TIMESTAMP", "TINYINT", "UBIGINT",
    "UINTEGER", "USMALLINT", "UTINYINT", "VARCHAR", "DECIMAL(4, 2)", "DECIMAL(18, 6)", "DECIMAL(38, 10)",
)  # fmt: skip
NUMBERS = (
    "0", "1", "2", "3", "5", "7", "10", "100", "1000", "32767", "2147483647", ".5", "0.1", "1.50", "1e3", "1e19", "1e30",
    "9223372036854775807", "170141183460469231731687303715884105727", "1e308", "1e400", "1e-400", "127", "255",
)  # fmt: skip
PATTERNS = ("'%'", "'a%'", "'_'", "'%a'", "'\\%'", "''", "'1%'", "'%\U0001f600'")
WORDS = (
    "'a'",
    "'b'",
    "''",
    "'nan'",
    "' 7 '",
    "'7'",
    "'1e400'",
    "'ß'",
    "'2024-01-01'",
    "'it''s'",
    "'true'",
)


def render(tree: Tree) -> str:
    """Return the text of a predicate."""
    op, *parts = tree
    if op == "col":
        return '"' + parts[0].replace('"', '""') + '"'
    if op == "const":
        return parts[0]
    if op == "neg":
        return f"- {_group(parts[0])}"
    if op == "not":
        return f"NOT {_group(parts[0])}"
    if op == "try_cast":
        return f"TRY_CAST({render(parts[0])} AS {parts[1]})"
    if op.endswith("null"):
        return f"{_group(parts[0])} {op.upper()}"
    if op.endswith("in"):
        return f"{_group(parts[0])} {op.upper()} ({', '.join(parts[1])})"
    if op.endswith("between"):
        return f"{_group(parts[0])} {op.upper()} {_group(parts[1])} AND {_group(parts[2])}"
    if op.endswith("like"):
        return f"{_group(parts[0])} {op.upper()} {parts[1]}"
    return f"{_group(parts[0])} {op.upper()} {_group(parts[1])}"


def _group(tree: Tree) -> str:
    text = render(tree)
    return (
        text
        if tree[0] in {"col", "const", "try_cast"} and not text.startswith("-")
        else f"({text})"
    )


def subtrees(tree: Tree) -> Iterator[Tree]:
    """Yield the trees inside a tree, at every depth, itself not among them."""
    for part in tree[1:]:
        if isinstance(part, list) and part and isinstance(part[0], str) and part[0] in _OPS:
            yield part
            yield from subtrees(part)


_OPS = {
    *COMPARISONS,
    *ARITHMETIC,
    "col",
    "const",
    "neg",
    "not",
    "try_cast",
    "and",
    "or",
    "is null",
    "is not null",
}
_OPS |= {f"{sign}{op}" for sign in ("", "not ") for op in ("in", "between", "like")}


def columns_of(tree: Tree) -> set[str]:
    """Return the columns that a predicate reads."""
    return {tree[1]} if tree[0] == "col" else {one[1] for one in subtrees(tree) if one[0] == "col"}


class Maker:
    """Makes random predicates over typed columns; those that compute nothing are for servers, which refuse the others."""

    def __init__(self, rng: Any, columns: dict[str, str], *, computes: bool = True) -> None:
        self.rng, self.columns, self.computes = rng, columns, computes

    def condition(self, depth: int) -> Tree:
        """Return a condition; what engines fold by statistics is likely."""
        rng = self.rng
        dice = rng.random()
        if depth > 0 and dice < 0.45:
            op = rng.choice(("or", "or", "and", "not"))
            return (
                ["not", self.condition(depth - 1)]
                if op == "not"
                else [op, self.condition(depth - 1), self.condition(depth - 1)]
            )
        if dice < 0.62:
            return [
                rng.choice(("is null", "is not null")),
                self.condition(0) if rng.random() < 0.1 else self.value(2),
            ]
        if dice < 0.84:
            kind = self._kind()
            return [rng.choice(COMPARISONS), self.value(2, kind), self.value(1, kind)]
        if dice < 0.90:
            kind = self._kind()
            sign = rng.choice(("", "not "))
            return [f"{sign}between", self.value(1, kind), self.value(1, kind), self.value(1, kind)]
        if dice < 0.95:
            kind = self._kind()
            constants = [self._constant(kind) for _ in range(rng.choice((1, 2, 5)))]
            return [f"{rng.choice(('', 'not '))}in", self.value(1, kind), constants]
        if dice < 0.97 and "VARCHAR" in self.columns.values():
            return [
                f"{rng.choice(('', 'not '))}like",
                self.value(0, "VARCHAR"),
                rng.choice(PATTERNS),
            ]
        if dice < 0.985:  # a value where a condition is meant: refused, for whatever it is
            return self.value(1)
        truths = [name for name, kind in self.columns.items() if kind == "BOOLEAN"]
        return (
            ["col", rng.choice(truths)]
            if truths
            else ["=", self.value(1, "number"), self.value(1, "number")]
        )

    def value(self, depth: int, kind: str | None = None) -> Tree:
        """Return something that has a value: a column, a constant, arithmetic, a cast."""
        rng = self.rng
        depth = depth if self.computes else 0
        kind = kind or self._kind()
        numeric = kind not in {"VARCHAR", "BOOLEAN", "DATE", "TIME", "TIMESTAMP"}
        if rng.random() < 0.01:
            return ["const", "NULL"]
        dice = rng.random()
        if depth > 0 and numeric and dice < 0.5:
            return [
                rng.choice(ARITHMETIC),
                self.value(depth - 1, kind),
                self.value(depth - 1, kind),
            ]
        if depth > 0 and numeric and dice < 0.55:
            return ["neg", self.value(depth - 1, kind)]
        if depth > 0 and dice < 0.66:
            target = rng.choice(CASTS) if rng.random() < 0.5 or kind == "number" else kind
            return ["try_cast", self.value(depth - 1), target]
        if depth > 0 and kind == "DATE" and dice < 0.8:
            return [
                rng.choice(("+", "-")),
                self.value(0, kind),
                ["const", rng.choice(("1", "1000000", "2147483647"))],
            ]
        names = [name for name, declared in self.columns.items() if _alike(declared, kind)]
        if names and (dice < 0.9 or depth == 2):
            return ["col", rng.choice(names)]
        return ["const", self._constant(kind)]

    def _kind(self) -> str:
        kinds = [
            kind
            for kind in self.columns.values()
            if kind in WHOLE or kind in FLOATS or decimal_digits(kind)
        ]
        if kinds and self.rng.random() < 0.7:
            return "number"
        return self.rng.choice(list(self.columns.values()) or ["number"])

    def _constant(self, kind: str) -> str:
        rng = self.rng
        if rng.random() < 0.03:
            return rng.choice((*WORDS, *NUMBERS))
        if kind in {"VARCHAR", "DATE", "TIME", "TIMESTAMP"}:
            return rng.choice(WORDS)
        if kind == "BOOLEAN":
            return rng.choice(("TRUE", "FALSE"))
        sign = "-" if rng.random() < 0.2 else ""
        return sign + rng.choice(NUMBERS[:7] if rng.random() < 0.5 else NUMBERS)


def _alike(declared: str, kind: str) -> bool:
    if kind == "number":
        return declared in WHOLE or declared in FLOATS or decimal_digits(declared) is not None
    return declared == kind
