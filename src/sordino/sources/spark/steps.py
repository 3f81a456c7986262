"""Adds up numbers in whole steps, in the SQL of Spark 4.

Under ANSI rules what does not fit ends a query, and `div` of decimals wraps in silence. No part of
what is written here can do either, whatever a row holds: numbers are moved into public ends before
anything is computed of them, and wide sums are decimals.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from sordino.columns.clipped_steps import StepRange
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.person_query import ROW_LIMIT
from sordino.sources.sql.sql_templates import WHOLE_NUMBERS
from sordino.sources.sql.step_query import Addends, added_up

WIDE = "DECIMAL(38,0)"
"""The type of sums: its 127 bits hold squares of 2^32 steps in 2^62 rows."""

_DIGITS = 38
_PIECE = 18


def write_whole(number: int, kind: str = "BIGINT") -> str:
    """Return a whole number as a value of a type."""
    return f"CAST('{number}' AS {kind})"


# ---- how numbers are held ------------------------------------------------------------------------


def is_short(kind: NumberKind) -> bool:
    """Tell whether values are held without their point, as whole numbers of 64 bits.

    Decimals of 18 digits.

    Spark compares, sorts and multiplies those several times as fast as decimals.
    """
    return kind.name.startswith("DECIMAL") and kind.largest < 10**18


def held_type(kind: NumberKind) -> str:
    """Return the type in which `x` is held."""
    return "BIGINT" if is_short(kind) else kind.name


def hold(kind: NumberKind, cut: str) -> str:
    """Return the text of a number of the kind as `x` holds it."""
    # A cut of a decimal has all digits of its scale.
    return str(int(cut.replace(".", ""))) if is_short(kind) else cut


def write_cut(kind: NumberKind, edge: Fraction) -> str | None:
    """Return the least number of the kind that reaches an edge, held as `x` is; None: none does."""
    cut = kind.cut(edge)
    return None if cut is None else f"CAST('{hold(kind, cut)}' AS {held_type(kind)})"


# ---- steps of a row ------------------------------------------------------------------------------


def write_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`, a whole number of 64 bits; NULL if it is missing."""
    least, most = (write_cut(kind, end * ends.step) for end in (ends.low, ends.high))
    above = f" WHEN x >= {most} THEN {write_whole(ends.high)}" if most is not None else ""
    # No value of the kind reaches the lower end: all of them are clipped to it.
    inside = f" WHEN x >= {least} THEN {_write_inside(kind, ends)}" if least is not None else ""
    # What is missing comes first: it is no number below the lower end, and adds nothing.
    return f"CASE WHEN x IS NULL THEN NULL{above}{inside} ELSE {write_whole(ends.low)} END"


def _write_inside(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(x / step), for values inside the ends."""
    if kind.scale is None:
        return _write_spark_float_steps(ends.step, ends.low, ends.high)
    return _write_exact_steps(kind, ends)


def _write_spark_float_steps(step: Fraction, least: int, most: int) -> str:
    """Return floor(x / step) of a float, for values from so many steps to so many.

    A number that is smaller than a step is not divided: the quotient might underflow to 0.
    """
    # The step is a power of two, so the product with its inverse is the exact quotient.
    one, per, low, high = (
        f"CAST('{float(number)!r}' AS DOUBLE)" for number in (step, 1 / step, least, most)
    )
    zero, below = write_whole(0), write_whole(-1)
    near = f"WHEN x >= 0 AND x < {one} THEN {zero} WHEN x < 0 AND x >= -{one} THEN {below}"
    # Moved into the ends, because nobody promises which branches are computed of which rows.
    place = f"greatest({low}, least({high}, x * {per}))"
    # `floor` gives whole numbers of 64 bits.
    return f"CASE {near} ELSE floor({place}) END"


def _write_exact_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(x / step) of a whole number or a decimal, for values inside the ends."""
    known = _write_known_steps(kind, ends)
    if known is not None:
        return known
    # The ends as values of the kind: whatever x is, it is moved between them before anything is
    # computed.
    low, high = (_clamp_end(kind, end * ends.step) for end in (ends.low, ends.high))
    # The step is a power of two, so its numerator or its denominator is 1.
    factor, divisor = ends.step.denominator, ends.step.numerator
    if is_short(kind):
        return _write_short_steps(ends, low, high, kind.scale or 0)
    if kind.name in WHOLE_NUMBERS:
        x = f"least(greatest(x, {_unscaled(low, kind)}), {_unscaled(high, kind)})"
        # The product is within 2^53, and shifting rounds down.
        return (
            f"(CAST({x} AS BIGINT) * {factor})"
            if factor > 1
            else _shift(f"CAST({x} AS BIGINT)", divisor)
        )
    return _write_decimal_steps(kind, ends, low, high)


def _write_known_steps(kind: NumberKind, ends: StepRange) -> str | None:
    """Return floor(x / step) of an exact number where it needs no product; None elsewhere."""
    scale = kind.scale or 0
    # Such ends are within half of the last digit around 0: only 0 lies between them.
    if ends.step.denominator > (1 << 53) * 10**scale:
        return write_whole(0)
    # A step beyond every value of the type: the sign decides.
    beyond = max(kind.largest, -kind.smallest)
    if ends.step.denominator == 1 and ends.step.numerator * 10**scale > beyond:
        return f"CASE WHEN x >= 0 THEN {write_whole(0)} ELSE {write_whole(-1)} END"
    return None


def _clamp_end(kind: NumberKind, end: Fraction) -> int:
    """Return the least value of the kind at or above an end, times 10^scale, within the kind."""
    whole = -(-(end * 10 ** (kind.scale or 0)) // 1)
    return int(min(max(whole, kind.smallest), kind.largest))


def _write_short_steps(ends: StepRange, low: int, high: int, scale: int) -> str:
    """Return the same of a decimal without its point, with ends that are given so, too."""
    factor, by = ends.step.denominator, ends.step.numerator * 10**scale
    x, most = (
        f"least(greatest(x, {write_whole(low)}), {write_whole(high)})",
        max(abs(low), abs(high)),
    )
    if most * factor < 1 << 60:
        product = f"({x} * {write_whole(factor)})" if factor > 1 else x
        # `div` cuts off toward 0, and is exact on whole numbers of 64 bits: so the number is lifted
        # above 0.
        lift = -(-most * factor // by)
        return (
            f"(({product} + {write_whole(lift * by)}) div {write_whole(by)} - {write_whole(lift)})"
            if by > 1
            else product
        )
    # At most 2^53 times 10^18, which has 34 digits.
    digits = f"CAST({x} AS DECIMAL({len(str(most))},0))"
    product = f"CAST({digits} * {write_whole(factor, f'DECIMAL({len(str(factor))},0)')} AS {WIDE})"
    return _divide_wide(product, by)


def _write_decimal_steps(kind: NumberKind, ends: StepRange, low: int, high: int) -> str:
    """Return the same of a decimal of more than 18 digits.

    The ends are given as numbers times 10^scale.
    """
    scale, factor, divisor = kind.scale or 0, ends.step.denominator, ends.step.numerator
    x = f"least(greatest(x, {_unscaled(low, kind)}), {_unscaled(high, kind)})"
    most = max(abs(low), abs(high))
    if factor == 1:
        below = f"CAST(floor(CAST({x} AS {_write_decimal(most, scale)})) AS {WIDE})"
        # Within the ends of 64 bits it is a whole number like others.
        if most < 1 << 62:
            return _shift(f"CAST({below} AS BIGINT)", divisor)
        return _divide_wide(below, divisor)
    more = len(str(factor))
    value = _write_decimal(most, scale)
    if len(str(most // 10**scale)) + scale + more + 1 <= _DIGITS:
        return (
            f"CAST(floor(CAST({x} AS {value}) * {write_whole(factor, f'DECIMAL({more},0)')}) AS "
            "BIGINT)"
        )
    # The type of the product would have too many digits before the point, all of them 0. So the
    # digits are multiplied without their point: at most 2^53 times 10^18, which has 34.
    digits = f"CAST(replace(CAST({x} AS STRING), '.', '') AS DECIMAL({len(str(most))},0))"
    product = f"CAST({digits} * {write_whole(factor, f'DECIMAL({more},0)')} AS {WIDE})"
    return _divide_wide(product, 10**scale)


def _divide_wide(whole: str, divisor: int) -> str:
    """Return floor(whole / divisor) of a wide whole number, if it has 64 bits.

    What the remainder leaves is divided without a rest, so that no rounding is asked for.
    """
    by = write_whole(divisor, WIDE)
    rest = f"({whole} % {by})"
    return f"(CAST(({whole} - {rest}) / {by} AS BIGINT) - CASE WHEN {rest} < 0 THEN 1 ELSE 0 END)"


def _write_decimal(most: int, scale: int) -> str:
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


def write_spark_row_steps(kind: NumberKind, step: Fraction) -> str:
    """Return the steps of `x` for what one unit adds up; NULL if it is missing."""
    least, most = write_whole(-ROW_LIMIT), write_whole(ROW_LIMIT)
    if kind.scale is None:
        end = f"CAST('{float(ROW_LIMIT * step)!r}' AS DOUBLE)"
        steps = _write_spark_float_steps(step, -ROW_LIMIT, ROW_LIMIT)
        return (
            f"CASE WHEN x IS NULL THEN NULL WHEN x >= {end} THEN {most} WHEN x < -{end} THEN"
            f" {least} ELSE {steps} END"
        )
    if is_short(kind):
        # Held in these steps, of which there are less than the limit.
        return "x"
    unit = int(10 ** (kind.scale or 0) * step)
    low, high = max(-ROW_LIMIT * unit, kind.smallest), min(ROW_LIMIT * unit, kind.largest)
    x = f"least(greatest(x, {_unscaled(low, kind)}), {_unscaled(high, kind)})"
    if kind.scale:
        x = f"CAST(replace(CAST({x} AS STRING), '.', '') AS {WIDE})"
    whole = _divide_wide(x, unit) if unit > 1 else f"CAST({x} AS BIGINT)"
    return f"CASE WHEN x IS NULL THEN NULL ELSE {whole} END"


# ---- sums of rows --------------------------------------------------------------------------------


def write_sum(steps: str) -> str:
    """Return the sum of whole numbers within +-2^52, exactly; 0 of none.

    They are added up in three pieces of 18 bits, each as a whole number of 64 bits, which holds
    2^45 of them; of numbers within +-2^62, of which the highest piece has 26 bits, 2^37. A sum of
    decimals takes five times as long.
    """
    pieces = [f"shiftright({steps}, {2 * _PIECE})"]
    pieces += [
        f"shiftright({steps}, {place * _PIECE}) & {write_whole((1 << _PIECE) - 1)}"
        for place in (1, 0)
    ]
    total = f"CAST(coalesce(sum({pieces[0]}), 0) AS {WIDE})"
    for piece in pieces[1:]:
        shifted = f"CAST({total} * {write_whole(1 << _PIECE, 'DECIMAL(6,0)')} AS {WIDE})"
        total = f"({shifted} + CAST(coalesce(sum({piece}), 0) AS DECIMAL(19,0)))"
    return total


def write_totals(kind: NumberKind, addends: Addends) -> str:
    """Return the query that adds up the steps of rows; `step_query` says what it answers."""
    # A sum of whole numbers of 64 bits could end the query.
    write = partial(_write_wide_steps, kind)
    return added_up(write, addends, text="STRING", wide=WIDE)


def _write_wide_steps(kind: NumberKind, ends: StepRange) -> str:
    return f"CAST({write_steps(kind, ends)} AS {WIDE})"
