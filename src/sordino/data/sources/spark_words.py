"""Writes questions in the SQL of Spark 4: the same texts, hashes, buckets and steps as elsewhere.

Under ANSI rules one row that an operator cannot take ends the query for all. So no part of a query can fail,
whatever is evaluated: numbers are moved into public ends before they are rounded, sums are decimals of 38
digits, and what has no value is NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from sordino.data.questions.bucket_query import X_AS_DOUBLE, BucketQuery, Scale
from sordino.data.questions.numbers import NumberKind
from sordino.data.questions.plain_sums import PlainSums, find_plain_sums
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
from sordino.data.sources.dialect import Dialect
from sordino.data.sources.spark_condition import write_condition
from sordino.data.sources.words import LONGEST_LABEL, WHOLE_NUMBERS, Words
from sordino.estimators import BucketGrid
from sordino.estimators.clipped.step_ladder import StepLadder
from sordino.grid import CLAMP

_DIGITS = 38

_PIECE = 18
_SMALL = 1 << 20
"""2^43 numbers up to here fit into a sum of 64 bits."""
_EASY = 1 << 49
"""Up to here, floats are near enough to a decimal that its digits can be read from one."""

SPARK_WORDS = Words(
    # The columns come without collations (`SparkBackend`). Bytes that are no text in UTF-8 are told apart
    # like others; they are no label that leaves the engine, because nobody could read them.
    text="CAST({} AS STRING)",
    readable="try_validate_utf8({})",
    # Which decimal is written depends on the version of Java.
    float_text=None,
    number=NUMBER,
    drawn="CAST(conv(substr(sha2({}, 256), 1, 15), 16, 10) AS BIGINT)",
    wide=f"CAST({{}} AS {WIDE})",
    shown="CAST({} AS STRING)",
    # There and back: only the usual text of a number is equal to the text of that number.
    whole=(
        "CASE WHEN CAST(try_cast({0} AS BIGINT) AS STRING) = {0}"
        f" THEN CAST(try_cast({{0}} AS BIGINT) AS {WIDE}) END"
    ),
    signed="CASE WHEN CAST(try_cast({0} AS BIGINT) AS STRING) = {0} THEN try_cast({0} AS BIGINT) END",
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


def _is_short(kind: NumberKind) -> bool:
    """Tell whether values are held without their point, as whole numbers of 64 bits: decimals of 18 digits.

    Spark compares, sorts and multiplies those several times as fast as decimals.
    """
    return kind.name.startswith("DECIMAL") and kind.largest < 10**18


def _write_number(index: int, kind: NumberKind) -> str:
    """Return the number of the column c<index>; floats are without NaN and with one zero."""
    if _is_short(kind):
        return _write_digits(f"CAST(c{index} AS {kind.name})", kind)
    if kind.scale is not None:
        return f"CAST(c{index} AS {kind.name})"
    return SPARK_WORDS.number.format(f"CAST(c{index} AS DOUBLE)")


def _write_digits(x: str, kind: NumberKind) -> str:
    """Return a short decimal times 10^scale, a whole number."""
    scale = kind.scale or 0
    if kind.largest <= _EASY:
        # The nearest float to u / 10^s, times 10^s, lies within 2^-52 of u, in proportion: less than 1/8.
        return f"CAST(rint(CAST({x} AS DOUBLE) * CAST('1e{scale}' AS DOUBLE)) AS BIGINT)"
    return f"CAST({x} * {write_whole(10**scale, f'DECIMAL({scale + 1},0)')} AS BIGINT)"


def _held(kind: NumberKind) -> str:
    """Return the type in which `x` is held."""
    return "BIGINT" if _is_short(kind) else kind.name


def _write_buckets(kind: NumberKind, grid: BucketGrid, ladder: StepLadder | None) -> tuple[BucketQuery]:
    """Return the query in which a logarithm proposes how many cuts a number reaches.

    Two comparisons say whether it is right. If not, and where edges have no scale, a search by halves finds
    it. So each number is in its bucket, whatever logarithms Spark computes.
    """
    # Edges that round up to one number of the kind have one cut each: they are reached together.
    found = (kind.cut(edge) for edge in grid.edges.tolist())
    cuts = tuple(_hold(kind, cut) for cut in found if cut is not None)
    # Written as one text of numbers with all their digits, which Spark reads while it plans: as a table they
    # would cost each question two more jobs. It stands in a query of its own, because the first thing that
    # Spark does is to compute for each row what is asked of a frame that holds its rows in its plan.
    array = f"(SELECT CAST(split('{','.join(cuts)}', ',') AS ARRAY<{_held(kind)}>))" if cuts else "NULL"
    scale = Scale.of(grid)
    proposed = "NULL" if scale is None or not scale.even else _propose(kind, scale, len(cuts))
    # No value of the kind may reach any edge.
    cell = (
        f"CASE WHEN x IS NULL THEN 0 WHEN {_check(len(cuts))} THEN near ELSE {_write_search(len(cuts))} END"
        if cuts
        else "0"
    )
    wanted, steps, plain = "", "", None
    if ladder is not None:
        plain = _find_sums_that_fit(kind, ladder)
        of_row, total = _write_ladder_sum(kind, ladder) if plain is None else _write_plain_sum(plain)
        wanted, steps = f", CAST({total} AS STRING) AS total", f"{of_row} AS steps, "
    sql = (
        f"SELECT {{group}}cell, count(*) AS n, count(x) AS known, CAST(0 AS BIGINT) AS reached{wanted} FROM "
        f"(SELECT {{group}}x, {steps}{cell} AS cell FROM (SELECT {{group}}x, {array} AS cuts,"
        f" CAST({proposed} AS INT) AS near FROM {{rows}} AS counted) AS beside) AS placed"
        " GROUP BY {group}cell"
    )
    return (BucketQuery((), np.arange(len(cuts) + 1), sql, plain),)


def _find_sums_that_fit(kind: NumberKind, ladder: StepLadder) -> PlainSums | None:
    """Return how numbers are added up as they are; None if they are not, or if they are too large for it."""
    plain = find_plain_sums(kind, ladder)
    # `_write_sum` takes no larger ones.
    return None if plain is None or max(map(abs, plain.ends)) > CLAMP else plain


def _write_ladder_sum(kind: NumberKind, ladder: StepLadder) -> tuple[str, str]:
    """Return what each row counts in the sum of its bucket, `steps`, and the sum of these."""
    steps = write_ladder_steps(partial(_write_steps, kind), partial(_write_cut, kind), ladder)
    return steps, _write_sum("steps")


def _write_plain_sum(plain: PlainSums) -> tuple[str, str]:
    """Return the same where numbers are added up as they are.

    Each is moved into the ends first, so that the sum fits.
    """
    # A missing one becomes one of the ends. It is in the first bucket, whose sum is not used.
    low, high = map(write_whole, plain.ends)
    small = max(map(abs, plain.ends)) <= _SMALL
    total = "coalesce(sum(steps), 0)" if small else _write_sum("steps")
    return f"least(greatest(CAST(x AS BIGINT), {low}), {high})", total


def _write_search(cuts: int) -> str:
    """Return how many cuts `x` reaches, by halves."""
    halves = [1 << bit for bit in reversed(range(cuts.bit_length()))]
    # Behind the last cut `get` is NULL, and so is the comparison.
    return (
        f"aggregate(array({', '.join(map(str, halves))}), 0, (reached, half) ->"
        " CASE WHEN get(cuts, reached + half - 1) <= x THEN reached + half ELSE reached END)"
    )


def _propose(kind: NumberKind, scale: Scale, cuts: int) -> str:
    """Return how many cuts `x` reaches on a logarithmic scale, about; NULL if it has no logarithm."""
    place = scale.sql
    if _is_short(kind):
        place = place.replace(X_AS_DOUBLE, f"({X_AS_DOUBLE} / CAST('1e{kind.scale}' AS DOUBLE))")
    # The second edge stands at the first cell. The place is moved into public ends before `floor`.
    near = f"{place} - {write_whole(int(scale.cells[0]) - 2)}"
    return f"floor(greatest(CAST(0 AS DOUBLE), least(CAST({cuts} AS DOUBLE), {near})))"


def _check(cuts: int) -> str:
    """Return whether `x` reaches the first `near` cuts, and no other."""
    return f"(near = 0 OR get(cuts, near - 1) <= x) AND (near = {cuts} OR get(cuts, near) > x)"


def _write_sum(steps: str) -> str:
    """Return the sum of whole numbers within +-2^52, exactly; 0 of none.

    They are added up in three pieces of 18 bits, each as a whole number of 64 bits, which holds 2^45 of them.
    A sum of decimals takes five times as long.
    """
    pieces = [f"shiftright({steps}, {2 * _PIECE})"]
    pieces += [
        f"shiftright({steps}, {place * _PIECE}) & {write_whole((1 << _PIECE) - 1)}" for place in (1, 0)
    ]
    total = f"CAST(coalesce(sum({pieces[0]}), 0) AS {WIDE})"
    for piece in pieces[1:]:
        shifted = f"CAST({total} * {write_whole(1 << _PIECE, 'DECIMAL(6,0)')} AS {WIDE})"
        total = f"({shifted} + CAST(coalesce(sum({piece}), 0) AS DECIMAL(19,0)))"
    return total


def _write_cut(kind: NumberKind, edge: Fraction) -> str | None:
    cut = kind.cut(edge)
    return None if cut is None else f"CAST('{_hold(kind, cut)}' AS {_held(kind)})"


def _hold(kind: NumberKind, cut: str) -> str:
    """Return the text of a number of the kind as `x` holds it."""
    # A cut of a decimal has all digits of its scale.
    return str(int(cut.replace(".", ""))) if _is_short(kind) else cut


def _write_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`, a whole number of 64 bits; NULL if it is missing."""
    write = _write_float_steps if kind.scale is None else partial(_write_exact_steps, kind)
    return write_steps(ends, partial(_write_cut, kind), write)


def _write_float_steps(ends: StepRange) -> str:
    # `floor` gives whole numbers of 64 bits.
    return write_float_steps(ends, "floor({})")


def _write_exact_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(x / step) of a whole number or a decimal, for values inside the ends."""
    known = write_known_steps(kind, ends)
    if known is not None:
        return known
    # The ends as values of the kind: whatever x is, it is moved between them before anything is computed.
    low, high = (clamp_end(kind, end * ends.step) for end in (ends.low, ends.high))
    # The step is a power of two, so its numerator or its denominator is 1.
    factor, divisor = ends.step.denominator, ends.step.numerator
    if _is_short(kind):
        return _write_short_steps(ends, low, high, kind.scale or 0)
    if kind.name in WHOLE_NUMBERS:
        x = f"least(greatest(x, {_unscaled(low, kind)}), {_unscaled(high, kind)})"
        # The product is within 2^53, and shifting rounds down.
        return f"(CAST({x} AS BIGINT) * {factor})" if factor > 1 else _shift(f"CAST({x} AS BIGINT)", divisor)
    return _write_decimal_steps(kind, ends, low, high)


def _write_short_steps(ends: StepRange, low: int, high: int, scale: int) -> str:
    """Return the same of a decimal without its point, with ends that are given so, too."""
    factor, by = ends.step.denominator, ends.step.numerator * 10**scale
    x, most = f"least(greatest(x, {write_whole(low)}), {write_whole(high)})", max(abs(low), abs(high))
    if most * factor < 1 << 60:
        product = f"({x} * {write_whole(factor)})" if factor > 1 else x
        # `div` cuts off toward 0, and is exact on whole numbers of 64 bits: so the number is lifted above 0.
        lift = -(-most * factor // by)
        return (
            f"(({product} + {write_whole(lift * by)}) div {write_whole(by)} - {write_whole(lift)})"
            if by > 1
            else product
        )
    # At most 2^53 times 10^18, which has 34 digits.
    digits = f"CAST({x} AS DECIMAL({len(str(most))},0))"
    product = f"CAST({digits} * {write_whole(factor, f'DECIMAL({len(str(factor))},0)')} AS {WIDE})"
    return divide(product, by, WIDE)


def _write_decimal_steps(kind: NumberKind, ends: StepRange, low: int, high: int) -> str:
    """Return the same of a decimal of more than 18 digits; the ends are given as numbers times 10^scale."""
    scale, factor, divisor = kind.scale or 0, ends.step.denominator, ends.step.numerator
    x = f"least(greatest(x, {_unscaled(low, kind)}), {_unscaled(high, kind)})"
    most = max(abs(low), abs(high))
    if factor == 1:
        below = f"CAST(floor(CAST({x} AS {_decimal(most, scale)})) AS {WIDE})"
        # Within the ends of 64 bits it is a whole number like others.
        if most < 1 << 62:
            return _shift(f"CAST({below} AS BIGINT)", divisor)
        return divide(below, divisor, WIDE)
    more = len(str(factor))
    value = _decimal(most, scale)
    if len(str(most // 10**scale)) + scale + more + 1 <= _DIGITS:
        return f"CAST(floor(CAST({x} AS {value}) * {write_whole(factor, f'DECIMAL({more},0)')}) AS BIGINT)"
    # The type of the product would have too many digits before the point, all of them 0. So the digits are
    # multiplied without their point: at most 2^53 times 10^18, which has 34.
    digits = f"CAST(replace(CAST({x} AS STRING), '.', '') AS DECIMAL({len(str(most))},0))"
    product = f"CAST({digits} * {write_whole(factor, f'DECIMAL({more},0)')} AS {WIDE})"
    return divide(product, 10**scale, WIDE)


def _decimal(most: int, scale: int) -> str:
    """Return the type of decimals up to a number times 10^scale."""
    return f"DECIMAL({len(str(most // 10**scale)) + scale},{scale})"


def _shift(whole: str, divisor: int) -> str:
    """Return floor(whole / divisor) of a whole number of 64 bits; the divisor is a power of two."""
    return f"shiftright({whole}, {min(divisor.bit_length() - 1, 63)})" if divisor > 1 else whole


def _unscaled(number: int, kind: NumberKind) -> str:
    """Return a number of the kind from the number times 10^scale."""
    scale = kind.scale or 0
    digits = str(abs(number)).rjust(scale + 1, "0")
    text = f"{digits[: len(digits) - scale]}.{digits[len(digits) - scale :]}" if scale else digits
    return f"CAST('{'-' if number < 0 else ''}{text}' AS {kind.name})"


def _write_totals(
    kind: NumberKind, ranges: Sequence[StepRange], rows: str, grouped: bool, squares: bool = False
) -> str:
    steps = partial(_write_steps, kind)
    return write_wide_totals(steps, ranges, rows, grouped=grouped, squares=squares, text="STRING")


SPARK = Dialect(
    words=SPARK_WORDS,
    number=_write_number,
    buckets=_write_buckets,
    steps=_write_totals,
    predicates=write_condition,
)
"""The SQL of Spark 4, under ANSI rules."""
