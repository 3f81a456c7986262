"""Writes a row predicate as SQL of Spark.

Under ANSI rules an overflow or a text that is no number ends the query for all rows. So each operator that
can fail is a `try_` function, and gives NULL instead; `condition_writer` says what stands around them.
"""

from __future__ import annotations

from collections.abc import Mapping

from sordino.data.questions.predicate import Predicate
from sordino.data.sources.condition_writer import Grammar, write_typed

_FUNCTIONS = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}
# Its value changes from one part of a table to the next.
_ALWAYS = "spark_partition_id() >= 0"


def _compute(left: str, operator: str, right: str, kind: str = "") -> str:
    del kind
    return f"{_FUNCTIONS[operator]}({left}, {right})"


def _text(text: str) -> str:
    # As bytes: settings of the session say what marks in a text mean.
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def _match(text: str, pattern: str) -> str:
    # No character escapes another one: the one that would is not in the pattern.
    unused = next(mark for mark in map(chr, range(0x100, 0x300)) if mark not in pattern)
    return f"({text} LIKE {_text(pattern)} ESCAPE '{unused}')"


_GRAMMAR = Grammar(
    engine="Spark",
    names={"VARCHAR": "STRING"},
    whole=f"coalesce(CASE WHEN {_ALWAYS} THEN {{}} END, FALSE)",
    cast="try_cast({0} AS {1})",
    compute=_compute,
    compute_exact=_compute,
    round=lambda number, is_float: f"rint(CAST({number} AS DOUBLE))" if is_float else f"round({number}, 0)",
    text=_text,
    match=_match,
)


def write_condition(predicate: Predicate, kinds: Mapping[int, str]) -> str:
    """Return SQL that is true or false for every row by itself, and never fails.

    Raises
    ------
    InvalidParameter
        If a part of it has a type, or joins types, that Spark reads otherwise than the embedded engine.
    """
    return write_typed(_GRAMMAR, predicate, kinds)
