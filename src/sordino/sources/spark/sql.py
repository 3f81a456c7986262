"""Writes questions in the SQL of Spark 4: the same texts, hashes and buckets as elsewhere.

Under ANSI rules one row that an operator cannot take ends the query for all. So no part of a query
can fail, whatever is evaluated: places on a scale are moved into public ends before they are
rounded, and what has no value is NULL. `steps` adds numbers up, `predicates.spark_condition`
chooses rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import SumSteps
from sordino.grid import CLAMP
from sordino.sources.predicates.spark_condition import write_condition
from sordino.sources.spark.steps import (
    WIDE,
    held_type,
    hold,
    is_short,
    write_cut,
    write_spark_row_steps,
    write_steps,
    write_sum,
    write_totals,
    write_whole,
)
from sordino.sources.sql.bucket_query import X_AS_DOUBLE, BucketQuery, Scale
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.fine_query import find_scale, write_place
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.sql_templates import LONGEST_LABEL, SqlTemplates
from sordino.sources.sql.step_query import PlainSums, find_plain_sums, write_ladder_steps

_SMALL = 1 << 20
"""2^43 numbers up to here fit into a sum of 64 bits."""
_EASY = 1 << 49
"""Up to here, floats are near enough to a decimal that its digits can be read from one."""

SPARK_WORDS = SqlTemplates(
    # The columns come without collations (`SparkBackend`). Bytes that are no text in UTF-8 are told
    # apart like others; they are no label that leaves the engine, because nobody could read them.
    text="CAST({} AS STRING)",
    readable="try_validate_utf8({})",
    # Which decimal is written depends on the version of Java.
    float_text=None,
    number="CASE WHEN isnan({0}) THEN NULL WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE {0} END",
    drawn="CAST(conv(substr(sha2({}, 256), 1, 15), 16, 10) AS BIGINT)",
    wide=f"CAST({{}} AS {WIDE})",
    shown="CAST({} AS STRING)",
    # There and back: only the usual text of a number is equal to the text of that number.
    whole=(
        "CASE WHEN CAST(try_cast({0} AS BIGINT) AS STRING) = {0}"
        f" THEN CAST(try_cast({{0}} AS BIGINT) AS {WIDE}) END"
    ),
    signed=(
        "CASE WHEN CAST(try_cast({0} AS BIGINT) AS STRING) = {0} THEN try_cast({0} AS BIGINT) END"
    ),
    plain=(
        f"{{0}} <> '' AND length({{0}}) <= {LONGEST_LABEL} AND NOT contains({{0}}, char(0))"
        " AND is_valid_utf8({0})"
    ),
    shifted="shiftright({}, {})",
    # Texts are kept in UTF-8 and compared byte by byte.
    code_points="{}",
    # A part of a query that occurs twice is read twice.
    materialized=False,
)


def _write_number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>; floats are without NaN and with one zero."""
    if is_short(kind):
        return _write_digits(f"CAST(c{index} AS {kind.name})", kind)
    if kind.scale is not None:
        return f"CAST(c{index} AS {kind.name})"
    return SPARK_WORDS.number.format(f"CAST(c{index} AS DOUBLE)")


def _write_digits(x: str, kind: NumberKind) -> str:
    """Return a short decimal times 10^scale, a whole number."""
    scale = kind.scale or 0
    if kind.largest <= _EASY:
        # The nearest float to u / 10^s, times 10^s, lies within 2^-52 of u, in proportion: less
        # than 1/8.
        return f"CAST(rint(CAST({x} AS DOUBLE) * CAST('1e{scale}' AS DOUBLE)) AS BIGINT)"
    return f"CAST({x} * {write_whole(10**scale, f'DECIMAL({scale + 1},0)')} AS BIGINT)"


def _write_buckets(
    kind: NumberKind, grid: BucketGrid, ladder: SumSteps | str | None
) -> tuple[BucketQuery]:
    """Return the query in which a logarithm proposes how many cuts a number reaches.

    Two comparisons say whether it is right. If not, and where edges have no scale, a search by
    halves finds it. So each number is in its bucket, whatever logarithms Spark computes.
    """
    # Edges that round up to one number of the kind have one cut each: they are reached together.
    found = (kind.cut(edge) for edge in grid.edges.tolist())
    cuts = tuple(hold(kind, cut) for cut in found if cut is not None)
    # Written as one text of numbers with all their digits, which Spark reads while it plans: as a
    # table they would cost each question two more jobs. It stands in a query of its own, because
    # the first thing that Spark does is to compute for each row what is asked of a frame that holds
    # its rows in its plan.
    array = (
        f"(SELECT CAST(split('{','.join(cuts)}', ',') AS ARRAY<{held_type(kind)}>))"
        if cuts
        else "NULL"
    )
    scale = find_scale(grid)
    proposed = "NULL" if scale is None else _propose(kind, grid, scale, len(cuts))
    # No value of the kind may reach any edge.
    cell = (
        f"CASE WHEN x IS NULL THEN 0 WHEN {_is_near(len(cuts))} THEN near ELSE "
        f"{_write_search(len(cuts))} END"
        if cuts
        else "0"
    )
    wanted, steps, beside, plain = "", "", "", None
    if isinstance(ladder, str):
        wanted, steps = f", CAST({write_sum('steps')} AS STRING) AS total", "steps, "
        beside = f"{ladder} AS steps, "
    elif ladder is not None:
        plain = _find_sums_that_fit(kind, ladder)
        of_row, total = (
            _write_ladder_sum(kind, ladder) if plain is None else _write_plain_sum(plain)
        )
        wanted, steps = f", CAST({total} AS STRING) AS total", f"{of_row} AS steps, "
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known{wanted} FROM "
        f"(SELECT {{group}}x, {steps}{cell} AS cell FROM (SELECT {{group}}x, {beside}{array}"
        f" AS cuts, CAST({proposed} AS INT) AS near FROM {{rows}} AS counted) AS beside) AS placed"
        " GROUP BY {group}cell"
    )
    return (BucketQuery((), np.arange(len(cuts) + 1), sql, plain),)


def _find_sums_that_fit(kind: NumberKind, ladder: SumSteps) -> PlainSums | None:
    """Return how numbers are added up as they are.

    None if they are not, or if they are too large for it.
    """
    plain = find_plain_sums(kind, ladder)
    # `write_sum` takes no larger ones.
    return None if plain is None or max(map(abs, plain.ends)) > CLAMP else plain


def _write_ladder_sum(kind: NumberKind, ladder: SumSteps) -> tuple[str, str]:
    """Return what each row counts in the sum of its bucket, `steps`, and the sum of these."""
    steps = write_ladder_steps(partial(write_steps, kind), partial(write_cut, kind), ladder)
    return steps, write_sum("steps")


def _write_plain_sum(plain: PlainSums) -> tuple[str, str]:
    """Return the same where numbers are added up as they are.

    Each is moved into the ends first, so that the sum fits.
    """
    # A missing one becomes one of the ends. It is in the first bucket, whose sum is not used.
    low, high = map(write_whole, plain.ends)
    small = max(map(abs, plain.ends)) <= _SMALL
    total = "coalesce(sum(steps), 0)" if small else write_sum("steps")
    return f"least(greatest(CAST(x AS BIGINT), {low}), {high})", total


def _write_search(cuts: int) -> str:
    """Return how many cuts `x` reaches, by halves."""
    halves = [1 << bit for bit in reversed(range(cuts.bit_length()))]
    # Behind the last cut `get` is NULL, and so is the comparison.
    return (
        f"aggregate(array({', '.join(map(str, halves))}), 0, (reached, half) ->"
        " CASE WHEN get(cuts, reached + half - 1) <= x THEN reached + half ELSE reached END)"
    )


def _propose(kind: NumberKind, grid: BucketGrid, scale: Scale, cuts: int) -> str:
    """Return how many cuts `x` reaches on a logarithmic scale, about.

    NULL if it has no logarithm.
    """
    real = X_AS_DOUBLE
    if is_short(kind):
        real = f"({X_AS_DOUBLE} / CAST('1e{kind.scale}' AS DOUBLE))"
    place = scale.sql.replace(X_AS_DOUBLE, real)
    # The second edge stands at the first cell. The place is moved into public ends before `floor`.
    near = f"{place} - {write_whole(int(scale.cells[0]) - 2)}"
    if grid.cuts > 1:
        near = write_place(grid, scale, f"abs({place})", real)
    return f"floor(greatest(CAST(0 AS DOUBLE), least(CAST({cuts} AS DOUBLE), {near})))"


def _is_near(cuts: int) -> str:
    """Return whether `x` reaches the first `near` cuts, and no other."""
    return f"(near = 0 OR get(cuts, near - 1) <= x) AND (near = {cuts} OR get(cuts, near) > x)"


SPARK = Dialect(
    words=SPARK_WORDS,
    number=_write_number,
    buckets=_write_buckets,
    steps=write_totals,
    row_steps=write_spark_row_steps,
    add_steps=lambda steps: f"CASE WHEN count({steps}) > 0 THEN {write_sum(steps)} END",
    float_type="DOUBLE",
    float_of_sum="CAST({} AS DOUBLE)",
    predicates=write_condition,
)
"""The SQL of Spark 4, under ANSI rules."""
