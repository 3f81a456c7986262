"""What an engine has its own SQL for.

Texts, hashes, and how it reads, counts and adds up numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import final

from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import SumSteps
from sordino.sources.csv.column_types import Marks
from sordino.sources.csv.typed_fields import write_number
from sordino.sources.predicates.predicate import Predicate
from sordino.sources.sql.bucket_query import BucketQuery, bucket_queries
from sordino.sources.sql.call_templates import EMBEDDED_CALLS, CallTemplates
from sordino.sources.sql.fine_query import fine_queries
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.person_query import write_row_steps
from sordino.sources.sql.sql_templates import EMBEDDED as EMBEDDED_WORDS, SqlTemplates
from sordino.sources.sql.step_query import Addends, find_plain_sums, ladder_steps, step_query


@final
@dataclass(frozen=True, kw_only=True)
class Dialect:
    """The SQL of one engine, and what may be asked of it.

    Parameters
    ----------
    words : SqlTemplates
        What questions of every kind are made of.
    number : callable
        From the index and kind of a column to its number; NULL if a value is none.
    buckets : callable
        From a kind, a grid and perhaps a ladder of steps to the queries that count rows in buckets,
        and with a ladder add up each; or with `WEIGHT` what the weights of its rows are. The first
        one that succeeds counts, and the last one always succeeds.
    steps : callable
        From a kind and rows to the query that adds up their steps.
    row_steps : callable
        From a kind and a step to the whole number of steps of a row, within `ROW_LIMIT`; NULL if it
        is missing.
    add_steps : callable
        From a column of these to their exact sum, whatever the order; NULL where there are none.
    float_type : str
        What floats of 64 bits are called.
    float_of_sum : str
        A template that makes a float of such a sum, the nearest one up to 2^63.
    predicates : callable
        From a predicate and the declared types of its columns to SQL that is true or false for each
        row by itself, and fails on none; it refuses what it cannot say so.
    every_character : bool
        Whether it takes every text of Unicode.
    calls : CallTemplates or None
        How it writes what may be called in place of a column. None: it takes no calls.
    """

    words: SqlTemplates
    number: Callable[[int, NumberKind], str]
    buckets: Callable[[NumberKind, BucketGrid, SumSteps | str | None], tuple[BucketQuery, ...]]
    steps: Callable[[NumberKind, Addends], str]
    row_steps: Callable[[NumberKind, Fraction], str]
    add_steps: Callable[[str], str]
    float_type: str
    float_of_sum: str
    predicates: Callable[[Predicate, Mapping[int, str]], str]
    every_character: bool = True
    calls: CallTemplates | None = None


_INFINITE = " ".join(
    f"WHEN '{sign}{word}' THEN CAST('{sign}inf' AS DOUBLE)"
    for sign in ("", "+", "-")
    for word in ("inf", "infinity")
)
"""What pandas reads as an infinite number, in any case."""


def _write_embedded_number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>.

    Floats are without NaN and with one zero, before anything compares or ranks them.
    """
    # A cast to its own type, or of a truth value: neither can fail.
    if kind.scale is not None:
        return f"CAST(c{index} AS {kind.name})"
    # A text that is no number is NULL, and so ends no query. Our own grammar says what a number is:
    # the engine takes 1_0, inf and line ends around a number as well (docs/decisions/0018).
    value = (
        write_number(f"c{index}", kind.marks or Marks())
        if kind.text
        else f"TRY_CAST(c{index} AS DOUBLE)"
    )
    # Truth values and infinite floats among other values are texts by now. They count as they do in
    # a column of truth values, or of floats.
    if kind.text and kind.truth:
        value = (
            # pandas reads them in any case, and keeps the spelling where one other text makes texts
            # of them.
            f"CASE lower(c{index}) WHEN 'true' THEN 1 WHEN 'false' THEN 0 {_INFINITE} ELSE {value}"
            " END"
        )
    # NaN and the two zeros go here, at the start: what ranks or compares later never meets them.
    return EMBEDDED_WORDS.number.format(value)


def _write_embedded_buckets(
    kind: NumberKind, grid: BucketGrid, ladder: SumSteps | str | None
) -> tuple[BucketQuery, ...]:
    if not isinstance(ladder, SumSteps):
        return fine_queries(grid, ladder) if grid.cuts > 1 else bucket_queries(kind, grid, ladder)
    plain = find_plain_sums(kind, ladder)
    steps = ladder_steps(kind, ladder) if plain is None else "x"
    return tuple(replace(query, plain=plain) for query in bucket_queries(kind, grid, steps))


EMBEDDED = Dialect(
    words=EMBEDDED_WORDS,
    number=_write_embedded_number,
    buckets=_write_embedded_buckets,
    steps=step_query,
    row_steps=write_row_steps,
    # Whole numbers of 64 bits are added up in 128.
    add_steps="sum({})".format,
    float_type="DOUBLE",
    # What has 128 bits becomes a float in two pieces, each of which is rounded.
    float_of_sum="coalesce(CAST(TRY_CAST({0} AS BIGINT) AS DOUBLE), CAST({0} AS DOUBLE))",
    predicates=lambda predicate, _: predicate.total,
    calls=EMBEDDED_CALLS,
)
"""Those of the embedded engine."""
