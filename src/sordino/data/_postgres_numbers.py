"""Writes questions about numbers in the SQL of PostgreSQL: the same buckets and the same steps as elsewhere.

Floats are compared with edges as floats and divided by powers of two, which is exact. All other numbers are
`numeric`, which is exact whatever their size: the edges are sent with all their digits. No function is called
where it could fail: PostgreSQL raises where other engines return infinity, and nothing may depend on that.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from sordino.data._bucket_query import BucketQuery
from sordino.data._number_words import NumberWords
from sordino.data._numbers import NumberKind
from sordino.data._step_query import StepRange, added_up
from sordino.data._words import SERVER
from sordino.estimators import BucketGrid


def _number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>, without NaN and with one zero.

    This comes before anything compares or ranks it.
    """
    if kind.scale is not None:
        # Zeros at its end are dropped, so that equal numbers have
        # one text. A number without declared digits can be NaN.
        return f"trim_scale(nullif(CAST(c{index} AS numeric), 'NaN'))"
    return SERVER.number.format(f"CAST(c{index} AS float8)")


def _type(kind: NumberKind) -> str:
    return "float8" if kind.scale is None else "numeric"


def _literal(number: float | Fraction, kind: NumberKind) -> str:
    """Return a public number as the text of a value of the kind, with all its digits."""
    if kind.scale is None:
        return repr(float(number))
    # A whole number divided by a power of two: it has as many
    # digits after the point as the divisor has factors of two.
    exact = Fraction(number)
    places = exact.denominator.bit_length() - 1
    sign = "-" if exact < 0 else ""
    digits = str(abs(exact.numerator) * 5**places).rjust(places + 1, "0")
    return (
        f"{sign}{digits[: len(digits) - places]}.{digits[len(digits) - places :]}"
        if places
        else sign + digits
    )


def _buckets(kind: NumberKind, grid: BucketGrid) -> tuple[BucketQuery]:
    """Return the query in which the server finds the bucket by comparisons with a sorted array of edges."""
    cuts = tuple(_literal(edge, kind) for edge in grid.edges.tolist())
    edges = (
        f"ARRAY(SELECT CAST(label AS {_type(kind)}) FROM labels WHERE position < {len(cuts)}"
        " ORDER BY position)"
    )
    # The bucket of what is missing is said here, because `width_bucket` of NULL is NULL.
    cell = f"CASE WHEN x IS NULL THEN 0 ELSE width_bucket(x, {edges}) END"
    sql = (
        "SELECT {group}cell, count(*) AS n, 0 AS reached FROM "
        f"(SELECT {{group}}{cell} AS cell FROM {{rows}} AS counted) AS placed GROUP BY {{group}}cell"
    )
    return (BucketQuery(cuts, np.arange(grid.size + 1), sql),)


def _steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`; NULL if it is missing."""
    least, most = (
        f"CAST('{_literal(end * ends.step, kind)}' AS {_type(kind)})" for end in (ends.low, ends.high)
    )
    # Values beyond the ends are sorted out first by comparison,
    # so they never enter the arithmetic, which could fail.
    inside = (_float_steps if kind.scale is None else _numeric_steps)(ends.step)
    return (
        f"CASE WHEN x IS NULL THEN NULL WHEN x >= {most} THEN CAST({ends.high} AS bigint) "
        f"WHEN x >= {least} THEN {inside} ELSE CAST({ends.low} AS bigint) END"
    )


def _float_steps(step: Fraction) -> str:
    """Return floor(x / step) of a float inside the ends.

    A number that is smaller than a step is not divided: the quotient might underflow, which is an error.
    """
    # The step is a power of two, so the product with its inverse is the exact quotient.
    one, per = (f"CAST('{float(number)!r}' AS float8)" for number in (step, 1 / step))
    return (
        f"CASE WHEN x >= 0 AND x < {one} THEN 0 WHEN x < 0 AND x >= -{one} THEN -1"
        f" ELSE CAST(floor(x * {per}) AS bigint) END"
    )


def _numeric_steps(step: Fraction) -> str:
    """Return floor(x / step) of an exact number inside the ends: a product, or a whole-number division."""
    if step.numerator == 1:
        return f"CAST(floor(x * CAST('{step.denominator}' AS numeric)) AS bigint)"
    # The division cuts off toward zero, so a negative remainder takes one off. The inner floor changes
    # nothing, because the step is a whole number.
    by = f"CAST('{step.numerator}' AS numeric)"
    return f"CAST(div(floor(x), {by}) - CASE WHEN mod(floor(x), {by}) < 0 THEN 1 ELSE 0 END AS bigint)"


def _added(kind: NumberKind, ranges: Sequence[StepRange], rows: str, grouped: bool) -> str:
    return added_up(partial(_steps, kind), ranges, rows, grouped).replace("AS VARCHAR", "AS text")


POSTGRES = NumberWords(
    words=SERVER,
    number=_number,
    buckets=_buckets,
    steps=_added,
)
