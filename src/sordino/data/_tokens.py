"""Splits a row predicate into words.

What is no word here cannot be said: comments, parameters, casts with `::`, other quotes.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sordino.errors import UnsafePredicate

ALLOWED = (
    "A predicate may use columns (plain or in double quotes), numbers, 'texts', TRUE, "
    "FALSE, NULL, = <> != < <= > >=, AND, OR, NOT, IS [NOT] NULL, [NOT] IN (literals), "
    "[NOT] BETWEEN, [NOT] LIKE 'pattern', + - *, parentheses and TRY_CAST(x AS type)"
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
        "ALL", "ANY", "ARRAY", "CASE", "CAST", "COLLATE", "DISTINCT", "ELSE", "END", "ESCAPE", "EXISTS",
        "EXTRACT", "FILTER", "FROM", "GLOB", "GROUP", "HAVING", "ILIKE", "INTERVAL", "ISNULL", "LAMBDA",
        "LIMIT", "MAP", "NOTNULL", "ORDER", "OVER", "PARTITION", "REGEXP", "ROW", "SELECT", "SIMILAR", "SOME",
        "STRUCT", "THEN", "TO", "UNION", "UNNEST", "USING", "VALUES", "WHEN", "WHERE", "WITH",
    }
)  # fmt: skip

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n]+)
  | (?P<comment>--|/\*)
  | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<text>'(?:[^'\0]|'')*')
  | (?P<quoted>"(?:[^"\0]|"")+")
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol><>|!=|<=|>=|[=<>+*(),-])
    """,
    re.VERBOSE,
)


class Token(NamedTuple):
    """One word: its kind, its text and where it starts (counted from 1)."""

    kind: str
    text: str
    position: int


def refuse(found: str, position: int) -> UnsafePredicate:
    """Return the error for what leaves the allow-list."""
    return UnsafePredicate(f"{ALLOWED}; got {found} at position {position}.")


def tokens(predicate: str) -> list[Token]:
    """Return the words of a predicate, the last one being the end.

    Raises
    ------
    UnsafePredicate
        At the first character that starts no allowed word.
    """
    if len(predicate) > LONGEST:
        raise UnsafePredicate(f"A predicate must have at most {LONGEST} characters; got {len(predicate)}.")
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
