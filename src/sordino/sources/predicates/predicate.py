"""Parses row predicates, a small language for conditions on one row.

What is parsed is written anew as SQL, so that the user's text never reaches the engine. A predicate
sees one row: its columns, with literals, comparisons and arithmetic. It cannot read another row, a
file, a clock or a random number. And it cannot fail: arithmetic that overflows, and a value that a
comparison cannot take, are NULL (`render_total`). A row for which the predicate is NULL is left
out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar, final

from sordino.constraints import did_you_mean
from sordino.errors import UnsafePredicate
from sordino.sources.engine import literal
from sordino.sources.predicates.calls import DATE_PARTS, USAGES, check_call
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
    parts_of,
)

DEEPEST = 40
"""Parentheses, NOT and minus signs may be nested this deep."""

LARGEST = 20_000
"""A predicate may have this many operators and operands.

IN and BETWEEN write their left side once for each comparison, and all of these count.
"""

TYPES = frozenset(
    {
        "BIGINT", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "INT", "REAL",
        "SMALLINT", "TIME", "TIMESTAMP", "TINYINT", "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT",
        "VARCHAR",
    }
)  # fmt: skip

T = TypeVar("T")
_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})


@final
@dataclass(frozen=True)
class Predicate:
    """A parsed predicate: its syntax tree, and the places of the columns that it reads."""

    condition: Node
    indices: frozenset[int]

    @property
    def sql(self) -> str:
        """The condition over columns c<index> as written.

        It may fail, and is asked of no private row.
        """
        return render_plain(self.condition)

    @property
    def operands(self) -> list[str]:
        """The values that stand where a condition is meant, over columns c<index>.

        Each of them must be a truth value by its type.
        """
        return render_operands(self.condition)

    @property
    def cast_to_numbers(self) -> list[int]:
        """Where columns stand that TRY_CAST makes numbers of, in the order of the predicate."""
        return list(_find_casts(self.condition))

    @property
    def total(self) -> str:
        """The condition over columns c<index>, true or false for each row by itself.

        It never fails.
        """
        return render_total(self.condition)


def parse(
    predicate: str,
    resolve: Callable[[str], int],
    write: Callable[[Call], Call] = lambda call: call,
) -> Predicate:
    """Parse a predicate.

    Parameters
    ----------
    predicate : str
        What the user wrote.
    resolve : callable
        Returns where a column stands in the source, or raises InvalidParameter.
    write : callable
        Returns a call in the SQL of the engine, or raises InvalidParameter.

    Raises
    ------
    UnsafePredicate
        If it leaves the allow-list.
    """
    words = tokens(predicate)
    # Parsed twice: first to find out whether it may be said at all, then which columns are meant.
    # So what leaves the language is refused before an unknown column is.
    _ = _Parser(words, lambda _name: 0).read(_Parser.disjunction)
    parser = _Parser(words, resolve, write)
    return Predicate(parser.read(_Parser.disjunction), frozenset(parser.indices))


def parse_call(
    text: str, resolve: Callable[[str], int], write: Callable[[Call], Call]
) -> tuple[Call, frozenset[int]]:
    """Parse a call that stands for a column; return it with the places of its columns.

    Parameters as for `parse`.

    Raises
    ------
    UnsafePredicate, InvalidParameter
        If it is none.
    """
    words = tokens(text)
    _ = _Parser(words, lambda _name: 0).read(_Parser.call)
    parser = _Parser(words, resolve, write)
    return parser.read(_Parser.call), frozenset(parser.indices)


class _Parser:
    """Recursive descent; every method returns the syntax tree of what it has read."""

    def __init__(
        self,
        words: list[Token],
        resolve: Callable[[str], int],
        write: Callable[[Call], Call] = lambda call: call,
    ) -> None:
        self._words = words
        self._resolve, self._write = resolve, write
        self._at = 0
        self._depth = 0
        self._allowed = ALLOWED
        self.indices: set[int] = set()

    def read(self, rule: Callable[[_Parser], T]) -> T:
        """Return what a rule makes of all words."""
        node = rule(self)
        if self._next.kind != "end":
            raise self._refusal()
        return node

    # From the loosest to the tightest: OR, AND, NOT, comparison, sum, product, atom. Each calls the
    # next.
    def disjunction(self) -> Node:
        operands = [self._conjunction()]
        while self._accept("OR"):
            operands.append(self._conjunction())
        return self._connected("OR", operands)

    def _conjunction(self) -> Node:
        operands = [self._negation()]
        while self._accept("AND"):
            operands.append(self._negation())
        return self._connected("AND", operands)

    def _connected(self, operator: str, operands: Sequence[Node]) -> Node:
        # A single operand is no chain: it needs no node around it.
        return (
            self._sized(Connected(operator, tuple(operands))) if len(operands) > 1 else operands[0]
        )

    def _negation(self) -> Node:
        if self._accept("NOT"):
            return Not(self._deeper(self._negation))
        return self._comparison()

    def _comparison(self) -> Node:
        left = self._sum()
        if self._next.kind == "symbol" and self._next.text in _COMPARISONS:
            operator = self._take().text
            return Comparison(left, operator, self._sum())
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._expect("NULL")
            return Not(IsNull(left)) if negated else IsNull(left)
        negated = self._accept("NOT")
        found = self._membership(left)
        if found is None:
            if negated:
                raise self._refusal()
            return left
        return Not(found) if negated else found

    def _membership(self, left: Node) -> Node | None:
        """Return what IN, BETWEEN or LIKE says about the left side.

        None if none of them stands here.
        """
        if self._accept("IN"):
            # Never written as IN: the engine turns longer lists into
            # a join, which takes the casts and sums out of TRY.
            return self._connected("OR", [Comparison(left, "=", item) for item in self._list()])
        if self._accept("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            # Never written as BETWEEN: it holds two comparisons, and each of them needs a TRY of
            # its own.
            return self._connected(
                "AND", [Comparison(left, ">=", low), Comparison(left, "<=", self._sum())]
            )
        if self._accept("LIKE"):
            return Comparison(left, "LIKE", self._text())
        return None

    def _list(self) -> list[Constant]:
        self._expect("(")
        items = [self._constant()]
        while self._accept(","):
            items.append(self._constant())
        self._expect(")")
        return items

    def _sum(self) -> Node:
        first = self._product()
        rest: list[tuple[str, Node]] = []
        while self._next.kind == "symbol" and self._next.text in {"+", "-"}:
            operator = self._take().text
            rest.append((operator, self._product()))
        return self._sized(Arithmetic(first, tuple(rest))) if rest else first

    def _product(self) -> Node:
        first = self._atom()
        rest: list[tuple[str, Node]] = []
        while self._accept("*"):
            rest.append(("*", self._atom()))
        return self._sized(Arithmetic(first, tuple(rest))) if rest else first

    def _atom(self) -> Node:
        if self._accept("-"):
            return Negative(self._deeper(self._atom))
        if self._accept("("):
            inside = self._deeper(self.disjunction)
            self._expect(")")
            return inside
        if self._accept("TRY_CAST"):
            self._expect("(")
            operand = self._deeper(self.disjunction)
            self._expect("AS")
            kind = self._type()
            self._expect(")")
            return TryCast(operand, kind)
        return self._operand()

    # ---- calls: `month(day)`, `map(code, 'a' = 'x')`, nested too

    def call(self) -> Call:
        """Read a call that is known: the name, what it is of, and its literals."""
        word = self._take()
        function, around = word.text.lower(), self._allowed
        if word.kind != "word" or function not in USAGES:
            raise refuse(_describe_token(word), word.position)
        self._allowed = USAGES[function]
        self._expect("(")
        operands = [self._deeper(self._argument)]
        zone, words, otherwise = None, [], None
        if function in DATE_PARTS and self._accept("AT"):
            zone = self._text().text
        if function == "part":
            self._expect(",")
            words.append(self._text().text)
        while self._accept(","):
            if function == "coalesce":
                operands.append(self._deeper(self._argument_or_text))
            elif function == "map" and self._accept("ELSE"):
                self._expect("=")
                otherwise = self._text().text
                break
            elif function == "map":
                key = self._text().text
                self._expect("=")
                words += [key, self._text().text]
            else:
                words.append(self._number())
        self._expect(")")
        self._allowed = around
        call = Call(function, tuple(operands), tuple(words), zone, otherwise)
        check_call(call)
        self._sized(call)
        return self._write(call)

    def _argument(self) -> Node:
        """Read what a call is of: a column or another call."""
        if self._is_call():
            return self.call()
        word = self._take()
        if word.kind == "quoted":
            return self._column(_unquote(word))
        if word.kind != "word" or word.text.upper() in KEYWORDS | RESERVED:
            raise refuse(_describe_token(word), word.position, self._allowed)
        return self._column(word.text)

    def _argument_or_text(self) -> Node:
        return self._text() if self._next.kind == "text" else self._argument()

    def _number(self) -> str:
        constant = self._constant()
        if constant.kind != "number":
            raise self._refusal()
        return constant.text.replace(" ", "")

    def _is_call(self) -> bool:
        word = self._next
        opens = self._at + 1 < len(self._words) and self._words[self._at + 1].text == "("
        return word.kind == "word" and opens and word.text.lower() in USAGES

    def _operand(self) -> Node:
        word = self._next
        if self._is_call():
            return self.call()
        if self._accept("NULL"):
            return Constant("null", "NULL")
        # What stands in double quotes is a column, even if it is spelled like a keyword.
        if word.kind == "quoted":
            return self._column(_unquote(self._take()))
        if word.kind == "word" and word.text.upper() not in KEYWORDS | RESERVED:
            self._take()
            # A name with a parenthesis behind it is a function, and no others are in the language.
            if self._next.text == "(":
                raise refuse(
                    f"the function {word.text!r}", word.position, hint=say_meant(word.text)
                )
            return self._column(word.text)
        return self._constant()

    def _constant(self) -> Constant:
        # The blank keeps two minus signs from becoming a comment.
        sign = "- " if self._accept("-") else ""
        if self._next.kind == "number":
            return Constant("number", f"{sign}{self._take().text}")
        if sign:
            raise self._refusal()
        for truth in ("TRUE", "FALSE"):
            if self._accept(truth):
                return Constant("truth", truth)
        return self._text()

    def _text(self) -> Constant:
        if self._next.kind != "text":
            raise self._refusal()
        return Constant("text", self._take().text[1:-1].replace("''", "'"))

    def _column(self, name: str) -> Column:
        index = self._resolve(name)
        self.indices.add(index)
        return Column(index)

    def _sized(self, node: Node) -> Node:
        """Return a node, or refuse it if its SQL is so long that it could exhaust the engine."""
        if node.size > LARGEST:
            raise UnsafePredicate(
                f"A predicate must have at most {LARGEST} operators and "
                "operands once IN, BETWEEN and map are written out; got more."
            )
        return node

    def _type(self) -> str:
        name = self._take()
        kind = name.text.upper()
        if name.kind != "word":
            raise refuse(_describe_token(name), name.position)
        if kind in {"DECIMAL", "NUMERIC"}:
            self._expect("(")
            # Decimals of the embedded engine have at most 38 digits.
            width, scale = self._digits(38), 0
            if self._accept(","):
                scale = self._digits(width)
            self._expect(")")
            return f"DECIMAL({max(width, 1)}, {scale})"
        # A list of what is allowed: a type that a later version of the engine adds is refused.
        if kind not in TYPES:
            raise UnsafePredicate(
                f"TRY_CAST must name one of DECIMAL(p, s), {', '.join(sorted(TYPES))}; "
                f"got {name.text!r} at position {name.position}."
            )
        return kind

    def _digits(self, most: int) -> int:
        word = self._take()
        if (
            word.kind != "number"
            or not re.fullmatch("[0-9]{1,2}", word.text)
            or int(word.text) > most
        ):
            raise refuse(_describe_token(word), word.position)
        return int(word.text)

    def _deeper(self, parse_rest: Callable[[], Node]) -> Node:
        # The parser calls itself for each level, and so does
        # what renders the tree: a bound keeps the stack small.
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnsafePredicate(
                f"A predicate must be nested at most {DEEPEST} deep; got more at position "
                f"{self._next.position}."
            )
        node = parse_rest()
        self._depth -= 1
        return node

    @property
    def _next(self) -> Token:
        return self._words[self._at]

    def _take(self) -> Token:
        word = self._next
        # Stays at the last word, which is the end.
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def _accept(self, text: str) -> bool:
        word = self._next
        # Keywords are known in any case. A quoted column or a text is never one of them.
        if word.kind in {"word", "symbol"} and word.text.upper() == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._refusal()

    def _refusal(self) -> UnsafePredicate:
        return refuse(_describe_token(self._next), self._next.position, self._allowed)


def _unquote(word: Token) -> str:
    return word.text[1:-1].replace('""', '"')


_OF_MANY = frozenset({"avg", "count", "max", "mean", "median", "min", "sum"})
"""What other tools ask of many rows."""


def say_meant(function: str) -> str:
    """Return which functions there are, after a message about one that is none."""
    if function.lower() in _OF_MANY:
        return (
            " A condition is about one row alone. How many rows or how much each person has: "
            "sordino histogram --per-person count --bins 3, in Python value_histogram."
        )
    return f" Functions are {', '.join(USAGES)}.{did_you_mean(function, USAGES)}"


def _describe_token(word: Token) -> str:
    return word.text if word.kind == "end" else ascii(word.text[:20])


# ---- words ---------------------------------------------------------------------------------------
# Splits a row predicate into words.
#
# What is no word here cannot be said: comments, parameters, casts with `::`, other quotes.


ALLOWED = (
    "A predicate may use columns (plain or in double quotes), numbers, 'texts', TRUE, FALSE, NULL,"
    " = <> != < <= > >=, AND, OR, NOT, IS [NOT] NULL, [NOT] IN (literals), "
    "[NOT] BETWEEN, [NOT] LIKE 'pattern', + - *, parentheses, TRY_CAST(x AS type) and calls such "
    "as month(day)"
)

LONGEST = 10_000
"""A predicate has at most this many characters."""

KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "IS", "NULL", "IN", "BETWEEN", "LIKE", "TRUE", "FALSE", "TRY_CAST", "AS"}
)

# A column with one of these names is written in double
# quotes. As plain words they only occur in what is refused.
RESERVED = frozenset(
    {
        "ALL", "ANY", "ARRAY", "CASE", "CAST", "COLLATE", "DISTINCT", "ELSE", "END", "ESCAPE",
        "EXISTS", "EXTRACT", "FILTER", "FROM", "GLOB", "GROUP", "HAVING", "ILIKE", "INTERVAL",
        "ISNULL", "LAMBDA", "LIMIT", "MAP", "NOTNULL", "ORDER", "OVER", "PARTITION", "REGEXP",
        "ROW", "SELECT", "SIMILAR", "SOME", "STRUCT", "THEN", "TO", "UNION", "UNNEST", "USING",
        "VALUES", "WHEN", "WHERE", "WITH",
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>--|/\*)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<text>'(?:[^'\0\ud800-\udfff]|'')*')
  | (?P<quoted>"(?:[^"\0\ud800-\udfff]|"")+")
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)?)
  | (?P<symbol><>|!=|<=|>=|[=<>+*(),-])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word: its kind, its text and where it starts (counted from 1)."""

    kind: str
    text: str
    position: int


def refuse(found: str, position: int, allowed: str = "", hint: str = "") -> UnsafePredicate:
    """Return the error for what leaves the allow-list."""
    return UnsafePredicate(f"{allowed or ALLOWED}; got {found} at position {position}.{hint}")


def tokens(predicate: str) -> list[Token]:
    """Return the words of a predicate, the last one being the end.

    Raises
    ------
    UnsafePredicate
        At the first character that starts no allowed word.
    """
    # Before anything is split into words, so that no time is spent on what is refused.
    if len(predicate) > LONGEST:
        raise UnsafePredicate(
            f"A predicate must have at most {LONGEST} characters; got {len(predicate)}."
        )
    found: list[Token] = []
    at, glued = 0, False
    while at < len(predicate):
        match = _TOKEN.match(predicate, at)
        if match is None or match.lastgroup == "comment":
            raise refuse(ascii(predicate[at : at + 2]) if match else ascii(predicate[at]), at + 1)
        kind, text = match.lastgroup or "", match.group()
        # Words must not touch, as in E'..', 1e5x, 0x10 or 'a''b'c:
        # another dialect might read one word where we read two.
        solid = kind in {"number", "text", "quoted", "word"}
        if solid and glued:
            raise refuse(ascii(text[:20]), at + 1)
        if kind != "space":
            found.append(Token(kind, text, at + 1))
        at, glued = match.end(), solid
    found.append(Token("end", "the end", len(predicate) + 1))
    return found


# ---- SQL -----------------------------------------------------------------------------------------
# Writes a row predicate as SQL of the embedded engine; every operator that can fail has a `TRY` of
# its own.
#
# `TRY` gives NULL where what it holds fails. Around several operators it would also tell which of
# them were evaluated. Rows that stand side by side decide that: a column that is NULL in a whole
# block decides a comparison before the other operand is computed, and an operand that is not
# computed cannot overflow. Hence the rule of this module:
#
# - Each `TRY` holds one operator, its casts included. Each operator gives NULL if an operand is
#   NULL. So it makes no difference whether the engine skips an operand: what fails and what is
#   skipped is NULL.
# - `AND`, `OR`, `NOT`, `IS NULL` and `COALESCE` stand above these. They follow three-valued logic
#   and cannot fail: their operands are conditions. An operand that is a value (a column, say)
#   becomes a condition inside a `TRY` of its own. The engine would do that outside of every `TRY`,
#   and a text that is no truth value would end the query.
#
# So the value is a function of the row alone. An overflow is NULL, as it is for the `try_`
# functions of other engines. Proof: docs/proofs/predicates.md.


def render_total(condition: Node) -> str:
    """Return SQL that is true or false for every row, and never fails."""
    # NULL counts as false, so that whether a row is kept is never left open.
    return f"COALESCE({_render_truth(condition, _write_in_try)}, FALSE)"


def render_plain(condition: Node) -> str:
    """Return SQL without any TRY: what does not fit the declared types is an error there."""
    return _render_node(condition, _write_without_try)


def render_operands(condition: Node) -> list[str]:
    """Return SQL without any TRY for each value that stands where a condition is meant.

    That is an operand of AND, OR or NOT, or the whole predicate.
    """
    values = [
        _render_node(node, _write_without_try)
        for node in (condition, *_walk_condition_operands(condition))
        if _is_value(node)
    ]
    return list(dict.fromkeys(values))


def _walk_condition_operands(node: Node) -> Iterator[Node]:
    """Yield what AND, OR and NOT connect, anywhere in a tree."""
    if isinstance(node, Connected):
        yield from node.operands
    elif isinstance(node, Not):
        yield node.operand
    for part in parts_of(node):
        yield from _walk_condition_operands(part)


def _find_casts(node: Node) -> Iterator[int]:
    """Yield the places of columns that TRY_CAST makes numbers of, anywhere in a tree."""
    if isinstance(node, TryCast) and node.kind not in NO_NUMBERS:
        of = node.operand
        yield from [of.index] if isinstance(of, Column) else []
    for part in parts_of(node):
        yield from _find_casts(part)


def _is_value(node: Node) -> bool:
    """Tell whether a node is no condition by itself; NULL is one, in three-valued logic."""
    if isinstance(node, Constant):
        return node.kind not in {"truth", "null"}
    return isinstance(node, Column | Negative | Arithmetic | TryCast | Call)


def _write_in_try(operator: str) -> str:
    return f"TRY{operator}"


def _write_without_try(operator: str) -> str:
    return operator


def _render_truth(node: Node, attempt: Callable[[str], str]) -> str:
    """Return SQL for an operand of AND, OR or NOT."""
    sql = _render_node(node, attempt)
    return attempt(f"(CAST({sql} AS BOOLEAN))") if _is_value(node) else sql


def _render_node(node: Node, attempt: Callable[[str], str]) -> str:
    """Return SQL for a node; `attempt` is handed each operator that can fail, in parentheses."""

    def inside(part: Node) -> str:
        return _render_node(part, attempt)

    match node:
        case Column() | Constant() | Call():
            sql = _render_leaf(node)
        case Negative():
            # The blank keeps two minus signs from becoming a comment.
            sql = attempt(f"(- {inside(node.operand)})")
        case Arithmetic():
            # One TRY for each operator of the chain, from the inside out, and not one around the
            # chain.
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
            sql = f"(NOT {_render_truth(node.operand, attempt)})"
        case Connected():
            truths = (_render_truth(operand, attempt) for operand in node.operands)
            sql = f"({f' {node.operator} '.join(truths)})"
    return sql


def _render_leaf(node: Column | Constant | Call) -> str:
    """Return SQL for what holds no operator that can fail: what fails in a call is NULL there."""
    if isinstance(node, Constant):
        return render_constant(node)
    return f"({node.sql})" if isinstance(node, Call) else node.sql or f"c{node.index}"


def render_constant(constant: Constant) -> str:
    """Return a literal in SQL."""
    if constant.kind == "text":
        return literal(constant.text)
    # In parentheses: a sign in front of a number must not meet the operator before it.
    return f"({constant.text})" if constant.text.startswith("-") else constant.text
