"""Parts of questions for engines in which what does not fit ends a query, or goes around the end in silence.

No part of what is written here can do either, whatever a row holds: numbers are moved into public ends before
anything is computed of them, and wide sums are decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sordino.data.questions.numbers import NumberKind
from sordino.data.questions.step_query import StepRange, added_up

WIDE = "DECIMAL(38,0)"
"""The type of sums: its 127 bits hold squares of 2^32 steps in 2^62 rows."""
NUMBER = "CASE WHEN isnan({0}) THEN NULL WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE {0} END"
"""A float without NaN, and with one zero."""


def write_whole(number: int, kind: str = "BIGINT") -> str:
    """Return a whole number as a value of a type."""
    return f"CAST('{number}' AS {kind})"


def write_steps(
    ends: StepRange, write_cut: Callable[[Fraction], str | None], write_inside: Callable[[StepRange], str]
) -> str:
    """Return the steps of `x`, a whole number of 64 bits; NULL if it is missing.

    Parameters
    ----------
    ends : StepRange
        Into which it is moved.
    write_cut : function
        From a number to the least value of the kind at or above it; None if there is none.
    write_inside : function
        To floor(x / step), for values inside the ends.
    """
    least, most = (write_cut(end * ends.step) for end in (ends.low, ends.high))
    above = f" WHEN x >= {most} THEN {write_whole(ends.high)}" if most is not None else ""
    # No value of the kind reaches the lower end: all of them are clipped to it.
    inside = f" WHEN x >= {least} THEN {write_inside(ends)}" if least is not None else ""
    # What is missing comes first: it is no number below the lower end, and adds nothing.
    return f"CASE WHEN x IS NULL THEN NULL{above}{inside} ELSE {write_whole(ends.low)} END"


def write_float_steps(ends: StepRange, rounded: str) -> str:
    """Return floor(x / step) of a float, for values inside the ends; `rounded` rounds one down to 64 bits.

    A number that is smaller than a step is not divided: the quotient might underflow to 0.
    """
    # The step is a power of two, so the product with its inverse is the exact quotient.
    one, per, low, high = (
        f"CAST('{float(number)!r}' AS DOUBLE)" for number in (ends.step, 1 / ends.step, ends.low, ends.high)
    )
    zero, below = write_whole(0), write_whole(-1)
    near = f"WHEN x >= 0 AND x < {one} THEN {zero} WHEN x < 0 AND x >= -{one} THEN {below}"
    # Moved into the ends, because nobody promises which branches are computed of which rows.
    place = f"greatest({low}, least({high}, x * {per}))"
    return f"CASE {near} ELSE {rounded.format(place)} END"


def write_known_steps(kind: NumberKind, ends: StepRange) -> str | None:
    """Return floor(x / step) of a whole number or a decimal where it needs no product; None elsewhere."""
    scale = kind.scale or 0
    # Such ends are within half of the last digit around 0: only 0 lies between them.
    if ends.step.denominator > (1 << 53) * 10**scale:
        return write_whole(0)
    # A step beyond every value of the type: the sign decides.
    if ends.step.denominator == 1 and ends.step.numerator * 10**scale > max(kind.largest, -kind.smallest):
        return f"CASE WHEN x >= 0 THEN {write_whole(0)} ELSE {write_whole(-1)} END"
    return None


def clamp_end(kind: NumberKind, end: Fraction) -> int:
    """Return the least value of the kind at or above an end, times 10^scale, and within the kind."""
    whole = -(-(end * 10 ** (kind.scale or 0)) // 1)
    return int(min(max(whole, kind.smallest), kind.largest))


def divide(whole: str, divisor: int, wide: str) -> str:
    """Return floor(whole / divisor) of a wide whole number, if it has 64 bits.

    What the remainder leaves is divided without a rest, so that no rounding of the engine is asked for.
    """
    by = write_whole(divisor, wide)
    rest = f"({whole} % {by})"
    return f"(CAST(({whole} - {rest}) / {by} AS BIGINT) - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)"


def write_wide_totals(
    write_of: Callable[[StepRange], str],
    ranges: Sequence[StepRange],
    rows: str,
    *,
    grouped: bool,
    squares: bool,
    text: str = "VARCHAR",
) -> str:
    """Return the query that adds up steps; `write_of` writes those within some ends.

    A sum of whole numbers of 64 bits would go around the end, or end the query.
    """

    def write_wide(ends: StepRange) -> str:
        return f"CAST({write_of(ends)} AS {WIDE})"

    return added_up(write_wide, ranges, rows, grouped, squares=squares, text=text, wide=WIDE)
