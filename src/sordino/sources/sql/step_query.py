"""Writes the SQL with which the embedded engine adds up numbers in whole steps.

Each number is clipped and rounded down by itself, so sums are sums of whole numbers. The rule is
that of `columns.clipped_steps`: max(low, min(high, floor(x / step))); what is missing is left out.
A step is a power of two, so floats are divided by it exactly. Whole numbers and decimals are
divided as whole numbers of 128 bits. Values beyond the ends never enter the arithmetic, so nothing
overflows.

Whole numbers with steps of 1, 1/2, 1/4 and so on are added up as they are: inside its bucket a
number x counts x / step steps, without a rest, and beyond the outermost edges each counts the same
(docs/proofs/numbers.md, 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import NamedTuple, final

import numpy as np

from sordino.columns.bucket_sums import Rung, SumSteps
from sordino.columns.clipped_steps import StepRange
from sordino.sources.sql.number_kind import NumberKind

_BEYOND_BIGINT = 1 << 63


@final
@dataclass(frozen=True)
class PlainSums:
    """How the sums of buckets follow from sums of their numbers.

    Parameters
    ----------
    factors : tuple of int
        How many steps 1 is in each bucket.
    low, high : int
        What each number of the first and of the last bucket counts, in steps.
    ends : tuple of int
        Numbers of the type: what lies beyond them is in the same bucket, and counts the same.
    """

    factors: tuple[int, ...]
    low: int
    high: int
    ends: tuple[int, int]

    def find_steps(self, bucket: int, known: int, total: int) -> int:
        """Return the sum of the steps of `known` numbers of a bucket, which add up to `total`."""
        if bucket == 0:
            return self.low * known
        if bucket == len(self.factors) - 1:
            return self.high * known
        return self.factors[bucket] * total


def find_plain_sums(kind: NumberKind, ladder: SumSteps) -> PlainSums | None:
    """Return how the sums of a ladder's buckets follow from sums of numbers; None if they do not.

    The type of the column and the ladder decide, which are public.
    """
    # Sums of 2^63 numbers of 64 bits are within 128 bits.
    if kind.scale != 0 or not -_BEYOND_BIGINT <= kind.smallest < kind.largest < _BEYOND_BIGINT:
        return None
    places = ladder.rung_of(np.arange(ladder.grid.size + 1)).tolist()
    rungs = [ladder.rungs[place] for place in places]
    if any(rung.step.numerator > 1 for rung in rungs):
        return None
    factors = [rung.step.denominator for rung in rungs]
    # Bucket b has the whole numbers from edges[b - 1], rounded up, to below edges[b], rounded up.
    edges = [math.ceil(edge) for edge in ladder.grid.edges.tolist()]
    inside = all(
        least >= above or (rung.low <= least * factor and (above - 1) * factor <= rung.high)
        for least, above, rung, factor in zip(
            edges[:-1], edges[1:], rungs[1:-1], factors[1:-1], strict=True
        )
    )
    low, high = rungs[0].low, rungs[-1].high
    clipped = (edges[0] - 1) * factors[0] <= low and edges[-1] * factors[-1] >= high
    if not (inside and clipped):
        return None
    # Moved into the type: what lies beyond its ends no number reaches.
    least, most = (min(max(end, kind.smallest), kind.largest) for end in (edges[0] - 1, edges[-1]))
    return PlainSums(tuple(factors), low, high, (least, most))


DIGITS = 18
"""Decimals have at most so many digits after the point: 2^53 steps, times 10^18, fit into 128
bits."""

_BEYOND_HUGEINT = 1 << 127


class Addends(NamedTuple):
    """Which rows are added up, and how.

    Attributes
    ----------
    ranges : sequence of StepRange
        Where numbers are moved to. With several the first labels say, for each group, which one is
        its own, as a number from 0.
    rows : str
        Rows with a number `x` and, in groups, their group `grp`, as a SELECT in parentheses.
    grouped : bool
        Whether there are groups.
    squares : bool
        Whether squared distances from the lower end are added up, too.
    weighed : bool
        Whether rows have a `weight` of at most 2^24, NULL without a number: each counts so many
        times, also where they are counted.
    beyond : bool
        Whether the weights of rows at or beyond the upper end are added up, too; of one range.
    """

    ranges: Sequence[StepRange]
    rows: str
    grouped: bool
    squares: bool = False
    weighed: bool = False
    beyond: bool = False


def step_query(kind: NumberKind, addends: Addends) -> str:
    """Return the query that adds up steps of each group, and counts rows with a number and without.

    Sums are texts, because they may have 128 bits.
    """
    return added_up(partial(_write_steps, kind), addends)


def added_up(
    steps_of: Callable[[StepRange], str],
    addends: Addends,
    *,
    text: str = "VARCHAR",
    wide: str = "HUGEINT",
) -> str:
    """Return the query that adds up what `steps_of` says of each range, alike for every engine.

    `text` and `wide` are what the engine calls texts, and whole numbers of 128 bits or more.
    """
    ranges, rows, grouped, squares, weighed, beyond = addends
    group = "grp, " if grouped else ""
    steps = f"{_write_by_range(ranges, steps_of)} AS steps"
    times, known = "", "count(steps)"
    if weighed:
        # What all rows of a unit weigh is at most 2^24.
        times, known = f" * CAST(weight AS {wide})", f"CAST(coalesce(sum(weight), 0) AS {text})"
        steps += ", weight"
    each = f"CAST(steps AS {wide}){times}" if weighed else "steps"
    # The sum over no numbers is NULL, and counts as 0.
    total = (
        f"CAST(coalesce(sum({each}), 0) AS {text}) AS total, {known} AS known,"
        " count(*) - count(steps) AS missing"
    )
    if beyond:
        here = f"CASE WHEN steps >= {ranges[0].high} THEN weight ELSE 0 END"
        total += f", CAST(coalesce(sum({here}), 0) AS {text}) AS beyond"
    if squares:
        # Clips are narrower than 2^32 steps, so a square has at most 64 digits, and 2^63 of them
        # fit; with weights those of 2^39 units.
        away = f"(CAST(steps AS {wide}) - low)"
        total += f", CAST(coalesce(sum({away} * {away}{times}), 0) AS {text}) AS squares"
        low = _write_by_range(ranges, lambda one: f"CAST('{one.low}' AS {wide})")
        steps += f", {low} AS low"
    # Which range a group has stands in a table, by the place of the group: a list of groups for
    # each range would be searched for each row.
    ends = (
        " JOIN (SELECT position AS place, label AS which FROM labels) AS ends ON place = grp"
        if len(ranges) > 1
        else ""
    )
    return (
        f"SELECT {group}{total} FROM (SELECT {group}{steps} FROM {rows} AS kept{ends}) AS counted"
        + " GROUP BY grp" * grouped
    )


def write_ladder_steps(
    write_steps: Callable[[StepRange], str],
    write_cut: Callable[[Fraction], str | None],
    ladder: SumSteps,
) -> str:
    """Return the steps of `x` on the rung of its bucket; NULL if it is missing.

    Parameters
    ----------
    write_steps : callable
        Returns the steps of `x` within a range, as `step_query` adds them up.
    write_cut : callable
        Returns the least number of the type that reaches an edge, in SQL; None if there is none.
    ladder : SumSteps
        The rungs.
    """
    first, *others = ladder.rungs
    cases = []
    # From the highest rung down: the first edge that a number reaches says on which one it is.
    for rung in reversed(others):
        cut = write_cut(Fraction(float(ladder.grid.edges[rung.start - 1])))
        if cut is not None:
            cases.append(f"WHEN x >= {cut} THEN {write_steps(_find_range(rung))}")
    lowest = write_steps(_find_range(first))
    return f"CASE {' '.join(cases)} ELSE {lowest} END" if cases else lowest


def _find_range(rung: Rung) -> StepRange:
    return StepRange(rung.low, rung.high, rung.step)


def ladder_steps(kind: NumberKind, ladder: SumSteps) -> str:
    """Return the steps of `x` on its rung, in the words of the embedded engine."""

    def write_cut(edge: Fraction) -> str | None:
        cut = kind.cut(edge)
        return None if cut is None else _cast_end(cut, kind)

    return write_ladder_steps(partial(_write_steps, kind), write_cut, ladder)


def _write_by_range(ranges: Sequence[StepRange], write: Callable[[StepRange], str]) -> str:
    """Return the expression that has for each row what `write` says of the range of its group."""
    if len(ranges) == 1:
        return write(ranges[0])
    cases = (f"WHEN '{place}' THEN {write(one)}" for place, one in enumerate(ranges))
    return f"CASE which {' '.join(cases)} END"


def _write_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`, a BIGINT; NULL if it is missing."""
    least, most = (kind.cut(end * ends.step) for end in (ends.low, ends.high))
    above = (
        f" WHEN x >= {_cast_end(most, kind)} THEN {_cast_whole(ends.high)}"
        if most is not None
        else ""
    )
    # No value of the kind reaches the lower end: all of them are clipped to it.
    if least is None:
        inside = ""
    elif kind.scale is None:
        # Between the ends now: the quotient is within 2^52, so its cast to BIGINT does not fail.
        inside = f" WHEN x >= {_cast_end(least, kind)} THEN {write_float_steps(ends.step)}"
    else:
        inside = f" WHEN x >= {_cast_end(least, kind)} THEN {_write_whole_steps(kind, ends)}"
    # What is missing comes first: it is no number below the lower end, and adds nothing.
    return f"CASE WHEN x IS NULL THEN NULL{above}{inside} ELSE {_cast_whole(ends.low)} END"


def _cast_end(text: str, kind: NumberKind) -> str:
    return f"CAST('{text}' AS {kind.name})"


def _cast_whole(number: int, kind: str = "BIGINT") -> str:
    return f"CAST('{number}' AS {kind})"


def write_float_steps(step: Fraction) -> str:
    """Return floor(x / step) of a float inside the ends.

    A number that is smaller than a large step is not divided: the quotient might underflow to 0.
    """
    # The step is a power of two, so the product with its inverse is the exact quotient.
    one, per = (f"CAST('{float(number)!r}' AS DOUBLE)" for number in (step, 1 / step))
    whole = f"TRY_CAST(floor(x * {per}) AS BIGINT)"
    # Only where the product is smaller than the number can it underflow.
    if step <= 1:
        return whole
    near = (
        f"WHEN x >= 0 AND x < {one} THEN {_cast_whole(0)} WHEN x < 0 AND x >= -{one}"
        f" THEN {_cast_whole(-1)}"
    )
    return f"CASE {near} ELSE {whole} END"


def _write_whole_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(u / (10^scale step)) of whole u = 10^scale x, for values inside the ends."""
    scale = kind.scale or 0
    top = 10**scale
    low, high = (
        min(max(math.ceil(end * ends.step * top), kind.smallest), kind.largest)
        for end in (ends.low, ends.high)
    )
    # The step is a power of two, so its numerator or its denominator is 1.
    factor, divisor = ends.step.denominator, ends.step.numerator * top
    most = factor * max(abs(low), abs(high))
    # Whole numbers of 64 bits are divided several times as fast as those of 128. These ends are
    # public, and so is the type of the column.
    short = kind.smallest >= -_BEYOND_BIGINT and kind.largest < _BEYOND_BIGINT
    wide = "BIGINT" if short and max(most, divisor) < _BEYOND_BIGINT else "HUGEINT"
    unscaled = write_unscaled_number(kind, low, high, wide)
    if factor > 1 and most >= _BEYOND_HUGEINT:
        # Such ends are less than one unscaled whole number away from 0, because 2^52 steps are at
        # most 2^112 / factor: only 0 lies between them.
        return _cast_whole(0)
    # A step is larger than every value of the type, so the sign decides.
    if divisor >= _BEYOND_HUGEINT:
        return f"CASE WHEN {unscaled} >= 0 THEN {_cast_whole(0)} ELSE {_cast_whole(-1)} END"
    product = f"({unscaled} * {_cast_whole(factor, wide)})" if factor > 1 else unscaled
    if divisor == 1:
        return f"CAST({product} AS BIGINT)"
    # The division cuts off toward zero, so a negative remainder takes one off.
    by = _cast_whole(divisor, wide)
    return f"CAST({product} // {by} - CASE WHEN {product} % {by} < 0 THEN 1 ELSE 0 END AS BIGINT)"


def write_unscaled_number(kind: NumberKind, low: int, high: int, wide: str) -> str:
    """Return 10^scale x as a whole number, moved into public ends that are given so, too.

    It is moved there before it is multiplied, so that the product fits.
    """
    if kind.scale and wide == "BIGINT":
        ends = (format(Decimal(end).scaleb(-kind.scale), "f") for end in (low, high))
        least, most = (_cast_end(end, kind) for end in ends)
        # At most 18 digits and one more for each behind the point: the type of the product is made
        # so wide.
        roomy = f"DECIMAL({len(str(kind.largest)) + kind.scale + 1},{kind.scale})"
        tens = _cast_whole(10**kind.scale, f"DECIMAL({kind.scale + 1},0)")
        return f"CAST(CAST(least(greatest(x, {least}), {most}) AS {roomy}) * {tens} AS BIGINT)"
    # The digits are read as a text: a product of long decimals might not fit into a decimal.
    x = (
        f"CAST(replace(CAST(x AS VARCHAR), '.', '') AS {wide})"
        if kind.scale
        else f"CAST(x AS {wide})"
    )
    return f"least(greatest({x}, {_cast_whole(low, wide)}), {_cast_whole(high, wide)})"
