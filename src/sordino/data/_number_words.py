"""How an engine is asked about numbers: what its SQL calls things, and the two aggregates in its own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from sordino.data._bucket_query import BucketQuery, bucket_queries
from sordino.data._numbers import NumberKind
from sordino.data._step_query import StepRange, step_query
from sordino.data._words import EMBEDDED as EMBEDDED_WORDS
from sordino.data._words import Words
from sordino.estimators import BucketGrid


@final
@dataclass(frozen=True, kw_only=True)
class NumberWords:
    """What questions about numbers are made of.

    Parameters
    ----------
    words : Words
        What questions of every kind are made of.
    number : callable
        From the index and kind of a column to its number; NULL if a value is none.
    buckets : callable
        From a kind and a grid to the queries that count rows in buckets: the first one that can, of which the last always does.
    steps : callable
        From a kind, ranges, rows and whether they are grouped to the query that adds up steps.
    """

    words: Words
    number: Callable[[int, NumberKind], str]
    buckets: Callable[[NumberKind, BucketGrid], tuple[BucketQuery, ...]]
    steps: Callable[[NumberKind, Sequence[StepRange], str, bool], str]


def _number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>: of floats without NaN and with one zero, before anything compares or ranks it."""
    if kind.scale is not None:
        return f"CAST(c{index} AS {kind.name})"  # of its own type, or of a truth value
    value = f"TRY_CAST(c{index} AS DOUBLE)"
    if (
        kind.text and kind.truth
    ):  # truth values among other things are texts by now, and count as they do in a column of their own
        value = f"CASE c{index} WHEN 'true' THEN 1 WHEN 'True' THEN 1 WHEN 'false' THEN 0 WHEN 'False' THEN 0 ELSE {value} END"
    return EMBEDDED_WORDS.number.format(value)


EMBEDDED = NumberWords(
    words=EMBEDDED_WORDS,
    number=_number,
    buckets=bucket_queries,
    steps=step_query,
)
"""Those of the embedded engine."""
