"""Writes the SQL that makes one number of all rows of a unit: their sum, number, mean, least, any.

Rows are added up in whole steps, so it does not matter in which order, in which pieces or by how
many threads: what one unit counts as depends on its own rows alone. Only then, of each unit by
itself, a float is made of it (docs/proofs/person-values.md).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Literal

from sordino.constraints import Number, to_fraction
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.step_query import write_float_steps, write_unscaled_number

Aggregate = Literal["sum", "count", "mean", "min", "max", "any"]
"""What one number is made of the numbers of a unit."""

ROW_LIMIT = 1 << 62
"""A row counts as at most so many steps, in either direction."""
_LEAST_POWER, _LARGEST_POWER = -900, 800
_MOST_DIGITS = 18

FLOAT_VALUES = NumberKind("DOUBLE", text=False, scale=None)
"""The kind of numbers that units have in place of their rows."""


def find_row_step(kind: NumberKind, cap: Number) -> Fraction:
    """Return the step in which rows of a kind are added up, up to a public cap.

    Whole numbers are added up as they are, and so are decimals. Floats, and decimals of so many
    digits that rows up to the cap might have more than `ROW_LIMIT` steps, are rounded down to a
    coarser one.
    """
    most = max(abs(to_fraction(cap)), Fraction(1, 10**300))
    if kind.scale is not None:
        # All values of most types fit as they are; of a type without declared digits it is not
        # known how many there are.
        if kind.largest and max(kind.largest, -kind.smallest) <= ROW_LIMIT:
            return Fraction(1, 10**kind.scale)
        # As many digits behind the point as leave room for the cap.
        digits = kind.scale if kind.largest else _MOST_DIGITS
        room = sum(most * 10**digit <= ROW_LIMIT for digit in range(1, digits + 1))
        return Fraction(1, 10**room)
    # At or above the base-2 logarithm of the cap.
    power = most.numerator.bit_length() - most.denominator.bit_length() + 1
    power = min(max(power - (ROW_LIMIT.bit_length() - 1), _LEAST_POWER), _LARGEST_POWER)
    return Fraction(2) ** power


def write_row_steps(kind: NumberKind, step: Fraction) -> str:
    """Return the steps of `x`, a BIGINT within +-`ROW_LIMIT`; NULL if it is missing."""
    least, most = f"CAST('{-ROW_LIMIT}' AS BIGINT)", f"CAST('{ROW_LIMIT}' AS BIGINT)"
    if kind.scale is None:
        # What lies beyond is decided by comparison, before anything is computed. What is missing
        # is neither, and stays so.
        end = f"CAST('{float(ROW_LIMIT * step)!r}' AS DOUBLE)"
        return (
            f"CASE WHEN x >= {end} THEN {most} WHEN x < -{end} THEN {least}"
            f" ELSE {write_float_steps(step)} END"
        )
    # In whole units of the last digit, of which a step may have several.
    unit = int(10**kind.scale * step)
    low, high = max(-ROW_LIMIT * unit, kind.smallest), min(ROW_LIMIT * unit, kind.largest)
    short = kind.smallest >= -(1 << 63) and kind.largest < 1 << 63
    steps = write_unscaled_number(kind, low, high, "BIGINT" if short else "HUGEINT")
    if unit > 1:
        # The division cuts off toward zero, so a negative remainder takes one off.
        by = f"CAST('{unit}' AS HUGEINT)"
        steps = f"{steps} // {by} - CASE WHEN {steps} % {by} < 0 THEN 1 ELSE 0 END"
    # What moves a number between ends makes one of them of NULL.
    return f"CASE WHEN x IS NULL THEN NULL ELSE CAST({steps} AS BIGINT) END"


def write_people(
    rows: str,
    aggregate: Aggregate,
    step: Fraction,
    *,
    steps: str,
    add: str,
    float_type: str,
    float_of_sum: str,
    grouped: bool,
) -> str:
    """Return one number of each unit, in each of its groups, as a SELECT in parentheses.

    Parameters
    ----------
    rows : str
        A SELECT in parentheses with the columns x, unit (never NULL) and, in groups, grp.
    aggregate : str
        What is made of them.
    step : Fraction
        In which they are added up: a power of two, or of ten with the whole number 1 above.
    steps : str
        The steps of `x`, a whole number of 64 bits; NULL if it is missing.
    add : str
        The exact sum of the column steps; NULL where there are none.
    float_type : str
        What the engine calls floats of 64 bits.
    float_of_sum : str
        A template that makes one of a sum.
    grouped : bool
        Whether there are groups.
    """

    def real(whole: str) -> str:
        return f"CAST({whole} AS {float_type})"

    # A float of a whole number of steps, divided or multiplied by one float: rounded twice, and
    # every engine does the same for every unit by itself.
    scale = (
        f" * {real(repr(str(float(step))))}"
        if step.numerator > 1 or step.denominator & (step.denominator - 1) == 0
        else f" / {real(repr(str(step.denominator)))}"
    )
    total = float_of_sum.format("part")
    # What is made of the rows of a unit, and its value. Of no number sums and ends are NULL.
    parts, value = {
        "sum": (f"{add} AS part", f"{total}{scale}"),
        # `nullif`, because nobody promises in which order engines compute.
        "mean": (
            f"{add} AS part, count(steps) AS known",
            f"{total} / nullif({real('known')}, 0){scale}",
        ),
        # Who has rows and no number has 0 of them.
        "count": ("count(steps) AS known", real("known")),
        "min": ("min(steps) AS part", f"{real('part')}{scale}"),
        "max": ("max(steps) AS part", f"{real('part')}{scale}"),
        # A number that is less than a step is not 0 either.
        "any": (
            "max(CASE WHEN x <> 0 THEN 1 WHEN x = 0 THEN 0 END) AS part",
            real("part"),
        ),
    }[aggregate]
    group = "grp, " if grouped else ""
    return (
        f"(SELECT {group}{value} AS x FROM (SELECT {group}unit, {parts}"
        f" FROM (SELECT {group}unit, x, {steps} AS steps FROM {rows} AS kept) AS counted"
        f" GROUP BY {group}unit) AS people)"
    )
