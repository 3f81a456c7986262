"""Writes the SQL that makes one number of all rows of a unit: their sum, number, mean, least, any.

Or one in each group of it, of which all together are clipped at one end.

Rows are added up in whole steps, so it does not matter in which order, in which pieces or by how
many threads: what one unit counts as depends on its own rows alone. Only then, of each unit by
itself, a float is made of it (docs/proofs/person-values.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, final

from sordino.constraints import Number, to_fraction
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.step_query import write_float_steps, write_unscaled_number

Aggregate = Literal["sum", "count", "mean", "min", "max", "any"]
"""What one number is made of the numbers of a unit."""

ROW_LIMIT = 1 << 62
"""A row counts as at most so many steps, in either direction."""
_FAR = 1 << 96
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


def write_row_counts(numbers: str, float_type: str) -> str:
    """Return how many numbers each unit has, as x; NULL where it has none.

    `numbers` is a SELECT in parentheses with the columns x and unit (never NULL).
    """
    known = f"SELECT nullif(count(x), 0) AS known FROM {numbers} AS owned GROUP BY unit"
    return f"(SELECT CAST(known AS {float_type}) AS x FROM ({known}) AS units)"


def write_weights(numbers: str, most: int, whole: int, float_type: str, *, grouped: bool) -> str:
    """Return numbers with their group and their weight, NULL where there is no number.

    The weight is floor(whole / n), with n numbers of the unit in all of its groups, or with `most`
    where it has fewer: those of a unit add up to `whole` at most.
    """
    group = "grp, " if grouped else ""
    many = f"(SELECT {group}x, count(x) OVER (PARTITION BY unit) AS many FROM {numbers} AS owned)"
    rows = f"CASE WHEN many < {most} THEN {most} ELSE many END"
    # A quotient of whole numbers up to 2^24 and of any size is nearer to itself, as a float, than
    # to the next whole number.
    share = f"floor(CAST({whole} AS {float_type}) / CAST({rows} AS {float_type}))"
    return (
        f"(SELECT {group}x, CASE WHEN x IS NOT NULL THEN CAST({share} AS BIGINT) END AS weight"
        f" FROM {many} AS counted)"
    )


@final
@dataclass(frozen=True, kw_only=True)
class People:
    """Writes one number of each unit, or one in each of its groups.

    Parameters
    ----------
    aggregate : str
        What is made of the numbers of its rows.
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
    ends : tuple of Fraction, optional
        Public: between them lies what a unit adds up to in a group, where one clip is of all of its
        groups; then `aggregate` is "sum" or "count".
    """

    aggregate: Aggregate
    step: Fraction
    steps: str
    add: str
    float_type: str
    float_of_sum: str
    ends: tuple[Fraction, Fraction] | None = None

    def write_one(self, rows: str, *, grouped: bool, owned: bool = False) -> str:
        """Return one number of each unit, in each of its groups, as a SELECT in parentheses.

        `rows` is a SELECT in parentheses with the columns x, unit (never NULL) and, in groups, grp.
        Numbers that are `owned` come with their unit.
        """
        real, scale = self._cast, self._write_scale()
        total = self.float_of_sum.format("part")
        # What is made of the rows of a unit, and its value. Of no number sums and ends are NULL.
        parts, value = {
            "sum": (f"{self.add} AS part", f"{total}{scale}"),
            # `nullif`, because nobody promises in which order engines compute.
            "mean": (
                f"{self.add} AS part, count(steps) AS known",
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
        }[self.aggregate]
        group = "grp, " if grouped else ""
        owner = "unit, " if owned else ""
        return (
            f"(SELECT {group}{owner}{value} AS x FROM (SELECT {group}unit, {parts}"
            f" FROM {self._write_steps(rows, group)} GROUP BY {group}unit) AS people)"
        )

    def write_wholes(self, rows: str) -> str:
        """Return what each unit adds up to in all of its groups, in size, as x."""
        parts = self._write_parts(rows)
        whole = f"SELECT sum(abs(part)) AS whole FROM {parts} AS sums GROUP BY unit"
        return f"(SELECT {self._make_real('whole')} AS x FROM ({whole}) AS people)"

    def write_shares(self, rows: str, most: Fraction, step: Fraction) -> str:
        """Return what each unit counts as in each of its groups: x and grp.

        Where it adds up to more than `most` in all groups together, each is made smaller in
        proportion. Numbers below 0 are whole numbers of `step`, rounded toward 0.
        """
        # Whole numbers are added up over the groups of a unit, so their order does not show.
        sums = (
            "(SELECT grp, part, sum(abs(part)) OVER (PARTITION BY unit) AS whole"
            f" FROM {self._write_parts(rows)} AS sums)"
        )
        values = (
            f"(SELECT grp, {self._make_real('part')} AS part, {self._make_real('whole')} AS whole"
            f" FROM {sums} AS wholes)"
        )
        end, unit = (self._cast(f"'{float(number)!r}'") for number in (most, step))
        # What a unit has in one group is no tiny part of what it has in all: of a quotient of the
        # clip by that there might be no digits left, or an engine might fail.
        share = f"CASE WHEN whole <= {end} THEN part ELSE part / whole * {end} END AS share"
        return (
            f"(SELECT grp, CASE WHEN share < 0 THEN -(floor(-share / {unit}) * {unit})"
            f" ELSE share END AS x FROM (SELECT grp, {share} FROM {values} AS reals) AS shares)"
        )

    def _write_parts(self, rows: str) -> str:
        """Return what each unit adds up to in each of its groups, in whole steps: `part`."""
        part = self.add if self.aggregate == "sum" else "count(steps)"
        # Of an end that no type of whole numbers holds an engine would make floats, and of the sums
        # as well. No unit has as many rows as would reach this one.
        low, high = (min(max(end // self.step, -_FAR), _FAR) for end in self.ends or ())
        return (
            f"(SELECT grp, unit, CASE WHEN part < {low} THEN {low} WHEN part > {high} THEN {high}"
            f" ELSE part END AS part FROM (SELECT grp, unit, {part} AS part"
            f" FROM {self._write_steps(rows, 'grp, ')} GROUP BY grp, unit) AS added)"
        )

    def _write_steps(self, rows: str, group: str) -> str:
        return f"(SELECT {group}unit, x, {self.steps} AS steps FROM {rows} AS kept) AS counted"

    def _make_real(self, whole: str) -> str:
        return self.float_of_sum.format(whole) + self._write_scale()

    def _write_scale(self) -> str:
        """Return what makes a number in the unit of the values of a float of whole steps."""
        # Divided or multiplied by one float: rounded twice, and every engine does the same for
        # every unit by itself.
        step = self.step
        if step.numerator > 1 or step.denominator & (step.denominator - 1) == 0:
            return f" * {self._cast(repr(str(float(step))))}"
        return f" / {self._cast(repr(str(step.denominator)))}"

    def _cast(self, text: str) -> str:
        return f"CAST({text} AS {self.float_type})"
