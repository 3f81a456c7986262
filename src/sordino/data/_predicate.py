"""Row predicates: a small language, parsed and written anew, so that no text of the user ever reaches the engine.

A predicate sees one row: its columns, literals, comparisons and arithmetic. It cannot read another row, a file, a clock or chance, and
it cannot fail: it is evaluated as `COALESCE(TRY(predicate), FALSE)`, so a row for which the engine finds no answer (it overflows, or
meets NULL) is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from sordino.data._engine import literal
from sordino.data._tokens import KEYWORDS, RESERVED, Token, refuse, tokens
from sordino.errors import UnsafePredicate

DEEPEST = 40
"""Parentheses, NOT and minus signs may be nested this deep."""

TYPES = frozenset(
    {
        "BIGINT", "BOOLEAN", "DATE", "DOUBLE", "FLOAT", "HUGEINT", "INTEGER", "INT", "REAL", "SMALLINT", "TIME", "TIMESTAMP", "TINYINT",
        "UBIGINT", "UINTEGER", "USMALLINT", "UTINYINT", "VARCHAR",
    }
)  # fmt: skip

_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})


@final
@dataclass(frozen=True)
class Predicate:
    """A parsed predicate: our own SQL over columns c<index>, and the places of the columns it reads."""

    sql: str
    indices: frozenset[int]

    @property
    def total(self) -> str:
        """The condition that holds or does not hold for every row, and never fails."""
        return f"COALESCE(TRY({self.sql}), FALSE)"


def parse(predicate: str, resolve: Callable[[str], int]) -> Predicate:
    """Parse a predicate.

    Parameters
    ----------
    predicate : str
        What the user wrote.
    resolve : callable
        Returns where a column stands in the source, or raises InvalidParameter.

    Raises
    ------
    UnsafePredicate
        If it leaves the allow-list.
    """
    words = tokens(predicate)
    for meaning in (lambda _name: 0, resolve):  # first what may be said at all, then which columns are meant
        parser = _Parser(words, meaning)
        sql = parser.disjunction()
        parser.expect_end()
    return Predicate(sql, frozenset(parser.indices))


class _Parser:
    """Recursive descent; every method returns SQL in parentheses or an atom."""

    def __init__(self, words: list[Token], resolve: Callable[[str], int]) -> None:
        self._words = words
        self._resolve = resolve
        self._at = 0
        self._depth = 0
        self.indices: set[int] = set()

    def expect_end(self) -> None:
        if self._next.kind != "end":
            raise self._refusal()

    def disjunction(self) -> str:
        sql = self._conjunction()
        while self._accept("OR"):
            sql = f"({sql} OR {self._conjunction()})"
        return sql

    def _conjunction(self) -> str:
        sql = self._negation()
        while self._accept("AND"):
            sql = f"({sql} AND {self._negation()})"
        return sql

    def _negation(self) -> str:
        if self._accept("NOT"):
            return f"(NOT {self._deeper(self._negation)})"
        return self._comparison()

    def _comparison(self) -> str:
        sql = self._sum()
        if self._next.kind == "symbol" and self._next.text in _COMPARISONS:
            operator = self._take().text
            return f"({sql} {operator} {self._sum()})"
        if self._accept("IS"):
            negated = "NOT " if self._accept("NOT") else ""
            self._expect("NULL")
            return f"({sql} IS {negated}NULL)"
        negated = "NOT " if self._accept("NOT") else ""
        if self._accept("IN"):
            # Never as IN: the engine turns longer lists into a join, which takes the casts and sums out of TRY.
            equal = " OR ".join(f"({sql} = {item})" for item in self._list())
            return f"({negated}({equal}))"
        if self._accept("BETWEEN"):
            low = self._sum()
            self._expect("AND")
            return f"({sql} {negated}BETWEEN {low} AND {self._sum()})"
        if self._accept("LIKE"):
            return f"({sql} {negated}LIKE {self._text()})"
        if negated:
            raise self._refusal()
        return sql

    def _list(self) -> list[str]:
        self._expect("(")
        items = [self._constant()]
        while self._accept(","):
            items.append(self._constant())
        self._expect(")")
        return items

    def _sum(self) -> str:
        sql = self._product()
        while self._next.kind == "symbol" and self._next.text in {"+", "-"}:
            operator = self._take().text
            sql = f"({sql} {operator} {self._product()})"
        return sql

    def _product(self) -> str:
        sql = self._atom()
        while self._accept("*"):
            sql = f"({sql} * {self._atom()})"
        return sql

    def _atom(self) -> str:
        if self._accept("-"):
            return f"(- {self._deeper(self._atom)})"  # the space keeps two minus signs from becoming a comment
        if self._accept("("):
            sql = self._deeper(self.disjunction)
            self._expect(")")
            return f"({sql})"
        if self._accept("TRY_CAST"):
            self._expect("(")
            sql = self._deeper(self.disjunction)
            self._expect("AS")
            kind = self._type()
            self._expect(")")
            return f"TRY_CAST({sql} AS {kind})"
        return self._operand()

    def _operand(self) -> str:
        word = self._next
        if self._accept("NULL"):
            return "NULL"
        if word.kind == "quoted":
            return self._column(self._take().text[1:-1].replace('""', '"'))
        if word.kind == "word" and word.text.upper() not in KEYWORDS | RESERVED:
            self._take()
            if self._next.text == "(":
                raise refuse(f"the function {word.text!r}", word.position)
            return self._column(word.text)
        return self._constant()

    def _constant(self) -> str:
        sign = "- " if self._accept("-") else ""
        if self._next.kind == "number":
            return f"({sign}{self._take().text})" if sign else self._take().text
        if sign:
            raise self._refusal()
        for truth in ("TRUE", "FALSE"):
            if self._accept(truth):
                return truth
        return self._text()

    def _text(self) -> str:
        if self._next.kind != "text":
            raise self._refusal()
        return literal(self._take().text[1:-1].replace("''", "'"))

    def _column(self, name: str) -> str:
        index = self._resolve(name)
        self.indices.add(index)
        return f"c{index}"

    def _type(self) -> str:
        name = self._take()
        kind = name.text.upper()
        if name.kind != "word":
            raise refuse(_shown(name), name.position)
        if kind in {"DECIMAL", "NUMERIC"}:
            self._expect("(")
            width, scale = self._digits(38), 0
            if self._accept(","):
                scale = self._digits(width)
            self._expect(")")
            return f"DECIMAL({max(width, 1)}, {scale})"
        if kind not in TYPES:
            raise UnsafePredicate(
                f"TRY_CAST must name one of DECIMAL(p, s), {', '.join(sorted(TYPES))}; got {name.text!r} at position {name.position}."
            )
        return kind

    def _digits(self, most: int) -> int:
        word = self._take()
        if word.kind != "number" or not re.fullmatch("[0-9]{1,2}", word.text) or int(word.text) > most:
            raise refuse(_shown(word), word.position)
        return int(word.text)

    def _deeper(self, parse_rest: Callable[[], str]) -> str:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnsafePredicate(f"A predicate must be nested at most {DEEPEST} deep; got more at position {self._next.position}.")
        sql = parse_rest()
        self._depth -= 1
        return sql

    @property
    def _next(self) -> Token:
        return self._words[self._at]

    def _take(self) -> Token:
        word = self._next
        self._at = min(self._at + 1, len(self._words) - 1)
        return word

    def _accept(self, text: str) -> bool:
        word = self._next
        if word.kind in {"word", "symbol"} and word.text.upper() == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise self._refusal()

    def _refusal(self) -> UnsafePredicate:
        return refuse(_shown(self._next), self._next.position)


def _shown(word: Token) -> str:
    return word.text if word.kind == "end" else ascii(word.text[:20])
