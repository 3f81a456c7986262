"""Writes questions in the SQL of DataFusion: the same texts, hashes, buckets and steps as elsewhere.

Sums and products of 64 bits go around the end there, in silence; those of decimals fail, but for their sums,
which go around as well. So every part is written within public ends: numbers are moved into them before they
are multiplied, and sums are decimals of 38 digits, which 2^62 rows of 2^52 steps do not reach.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from sordino.data.questions.bucket_query import BucketQuery
from sordino.data.questions.numbers import NumberKind
from sordino.data.questions.step_query import StepRange, write_ladder_steps
from sordino.data.sources.bounded_words import (
    NUMBER,
    WIDE,
    clamp_end,
    divide,
    write_float_steps,
    write_known_steps,
    write_steps,
    write_whole,
    write_wide_totals,
)
from sordino.data.sources.datafusion_condition import write_condition
from sordino.data.sources.dialect import Dialect
from sordino.data.sources.words import LONGEST_LABEL, Words
from sordino.estimators import BucketGrid
from sordino.estimators.clipped.step_ladder import StepLadder

_WIDER = "DECIMAL(60,0)"
"""The type of quotients: a division takes four digits more than its operands have."""

_UNSIGNED = {
    "UTINYINT": "TINYINT UNSIGNED",
    "USMALLINT": "SMALLINT UNSIGNED",
    "UINTEGER": "INTEGER UNSIGNED",
    "UBIGINT": "BIGINT UNSIGNED",
}
_SHIFTED = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})

_HASH = "encode(sha256({0}), 'hex')"
# No function reads a number from such digits: the place of each of them among all sixteen is its value.
_FIRST_60_BITS = " + ".join(
    f"CAST(strpos('0123456789abcdef', substr({_HASH}, {place + 1}, 1)) - 1 AS BIGINT) * {16 ** (14 - place)}"
    for place in range(15)
)

DATAFUSION_WORDS = Words(
    text="CAST({} AS VARCHAR)",
    # It writes exponents otherwise.
    float_text=None,
    number=NUMBER,
    drawn=f"({_FIRST_60_BITS})",
    wide=f"CAST({{}} AS {WIDE})",
    shown="CAST({} AS VARCHAR)",
    # There and back: only the usual text of a number is equal to the text of that number.
    whole=(
        "CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}"
        f" THEN CAST(TRY_CAST({{0}} AS BIGINT) AS {WIDE}) END"
    ),
    signed="CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0} THEN TRY_CAST({0} AS BIGINT) END",
    plain=f"{{0}} <> '' AND length({{0}}) <= {LONGEST_LABEL} AND NOT contains({{0}}, chr(0))",
    # Texts are in UTF-8 and compared byte by byte.
    code_points="{}",
    # A part of a query that occurs twice is read twice.
    materialized=False,
)


def write_type(kind: str) -> str:
    """Return a type of the embedded engine in the words of DataFusion."""
    return _UNSIGNED.get(kind, kind)


def _write_number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>; floats are without NaN and with one zero."""
    if kind.scale is not None:
        return f"CAST(c{index} AS {write_type(kind.name)})"
    return DATAFUSION_WORDS.number.format(f"CAST(c{index} AS DOUBLE)")


def _write_buckets(kind: NumberKind, grid: BucketGrid, ladder: StepLadder | None) -> tuple[BucketQuery]:
    """Return the query in which comparisons, by halves, find how many cuts a number reaches."""
    # Edges that round up to one number of the kind have one cut each: they are reached together.
    found = (kind.cut(edge) for edge in grid.edges.tolist())
    cuts = [_cast(cut, kind) for cut in found if cut is not None]
    cell = f"CASE WHEN x IS NULL THEN 0 ELSE {_write_search(cuts, 0, len(cuts))} END"
    wanted, steps = "", ""
    if ladder is not None:
        wanted = f", CAST(coalesce(sum(CAST(steps AS {WIDE})), 0) AS VARCHAR) AS total"
        of_rung = write_ladder_steps(partial(_write_steps, kind), partial(_write_cut, kind), ladder)
        steps = f"{of_rung} AS steps, "
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known, CAST(0 AS BIGINT) AS reached{wanted} FROM "
        f"(SELECT {{group}}x, {steps}CAST({cell} AS BIGINT) AS cell FROM {{rows}} AS counted) AS placed"
        " GROUP BY {group}cell"
    )
    return (BucketQuery((), np.arange(len(cuts) + 1), sql),)


def _write_search(cuts: Sequence[str], low: int, high: int) -> str:
    """Return how many cuts `x` reaches, which is from `low` to `high`."""
    if low == high:
        return str(low)
    middle = (low + high) // 2
    above, below = _write_search(cuts, middle + 1, high), _write_search(cuts, low, middle)
    return f"CASE WHEN x >= {cuts[middle]} THEN {above} ELSE {below} END"


def _cast(number: str, kind: NumberKind) -> str:
    return f"CAST('{number}' AS {write_type(kind.name)})"


def _write_cut(kind: NumberKind, edge: Fraction) -> str | None:
    cut = kind.cut(edge)
    return None if cut is None else _cast(cut, kind)


def _write_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`, a whole number of 64 bits; NULL if it is missing."""
    write = _write_float_steps if kind.scale is None else partial(_write_exact_steps, kind)
    return write_steps(ends, partial(_write_cut, kind), write)


def _write_float_steps(ends: StepRange) -> str:
    return write_float_steps(ends, "CAST(floor({}) AS BIGINT)")


def _write_exact_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(x / step) of a whole number or a decimal, for values inside the ends."""
    known = write_known_steps(kind, ends)
    if known is not None:
        return known
    scale = kind.scale or 0
    # The ends times 10^scale: whatever x is, it is moved between them before anything is computed.
    low, high = (clamp_end(kind, end * ends.step) for end in (ends.low, ends.high))
    # The step is a power of two, so its numerator or its denominator is 1.
    factor, divisor = ends.step.denominator, ends.step.numerator * 10**scale
    if kind.name in _SHIFTED:
        x = f"least(greatest(CAST(x AS BIGINT), {write_whole(low)}), {write_whole(high)})"
        # The product is within 2^53, and shifting rounds down.
        return f"({x} * {write_whole(factor)})" if factor > 1 else f"({x} >> {divisor.bit_length() - 1})"
    # The digits are read as a text: a product of long decimals might not fit.
    digits = "replace(CAST(x AS VARCHAR), '.', '')" if scale else "x"
    x = f"least(greatest(CAST({digits} AS {WIDE}), {write_whole(low, WIDE)}), {write_whole(high, WIDE)})"
    # At most 2^53 times 10^18, which has 34 digits.
    product = f"({x} * {write_whole(factor, WIDE)})" if factor > 1 else x
    if divisor == 1:
        return f"CAST({product} AS BIGINT)"
    return divide(f"CAST({product} AS {_WIDER})", divisor, _WIDER)


def _write_totals(
    kind: NumberKind, ranges: Sequence[StepRange], rows: str, grouped: bool, squares: bool = False
) -> str:
    return write_wide_totals(partial(_write_steps, kind), ranges, rows, grouped=grouped, squares=squares)


DATAFUSION = Dialect(
    words=DATAFUSION_WORDS,
    number=_write_number,
    buckets=_write_buckets,
    steps=_write_totals,
    predicates=write_condition,
)
"""The SQL of DataFusion."""
