"""Numbers as whole steps inside the embedded engine: clipped and rounded down one by one, so that sums are sums of whole numbers.

The rule is that of `estimators._clipped_steps`: max(low, min(high, floor(x / step))); what is missing is left out. A step is a power of
two, by which floats are divided exactly; whole numbers and decimals are divided as whole numbers of 128 bits. Values beyond the ends
never enter the arithmetic, so nothing overflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import NamedTuple, final

from sordino.constraints import POWER_OF_TWO, shown
from sordino.data._numbers import NumberKind
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP

DIGITS = 18
"""Decimals have at most so many digits after the point: times 2^60 they still fit into 128 bits."""

_HUGE = 1 << 127


@final
@dataclass(frozen=True)
class StepRange:
    """Between which ends a number is clipped, and in which steps it is counted; not private.

    Parameters
    ----------
    low, high : int
        In steps, within +-2^52.
    step : Fraction
        A power of two from 2^-900 to 2^900, in the unit of the column.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.
    """

    low: int
    high: int
    step: Fraction

    def __post_init__(self) -> None:
        step = POWER_OF_TWO("StepRange.step", self.step)
        if max(step.numerator, step.denominator).bit_length() > 901:
            raise InvalidParameter(f"StepRange.step must be from 2^-900 to 2^900; got {shown(step)}.")
        if not -CLAMP <= self.low <= self.high <= CLAMP:
            raise InvalidParameter(
                f"StepRange needs -2^52 <= low <= high <= 2^52; got {shown(self.low)} and {shown(self.high)}."
            )
        object.__setattr__(self, "step", step)


class Total(NamedTuple):
    """What the numbers of a group add up to, in steps, and how many they are; missing ones are not among them. Private."""

    steps: int
    known: int


def step_query(kind: NumberKind, ranges: Sequence[StepRange], rows: str, grouped: bool) -> str:
    """Return the query that adds up the steps of each group (as text, they may have 128 bits) and counts the numbers that are there.

    `rows` has a number `x` and, in groups, its group `grp`.
    """
    return added_up(partial(_steps, kind), ranges, rows, grouped)


def added_up(
    steps_of: Callable[[StepRange], str], ranges: Sequence[StepRange], rows: str, grouped: bool
) -> str:
    """Return the query that adds up what `steps_of` says of each range, the same way for every engine."""
    group = "grp, " if grouped else ""
    alike: dict[StepRange, list[int]] = {}
    for place, one in enumerate(ranges):
        alike.setdefault(one, []).append(place)
    if len(alike) == 1:
        steps = steps_of(ranges[0])
    else:
        cases = (
            f"WHEN grp IN ({', '.join(map(str, groups))}) THEN {steps_of(one)}"
            for one, groups in alike.items()
        )
        steps = f"CASE {' '.join(cases)} END"
    total = "CAST(coalesce(sum(steps), 0) AS VARCHAR) AS total, count(steps) AS known"
    return (
        f"SELECT {group}{total} FROM (SELECT {group}{steps} AS steps FROM {rows} AS kept) AS counted"
        + " GROUP BY grp" * grouped
    )


def _steps(kind: NumberKind, ends: StepRange) -> str:
    """Return the steps of `x`, a BIGINT; NULL if it is missing."""
    least, most = (kind.cut(end * ends.step) for end in (ends.low, ends.high))
    above = f" WHEN x >= {_typed(most, kind)} THEN {_whole(ends.high)}" if most is not None else ""
    if least is None:  # no value of the kind reaches the lower end
        inside = ""
    elif kind.scale is None:
        inside = f" WHEN x >= {_typed(least, kind)} THEN {_float_steps(ends.step)}"
    else:
        inside = f" WHEN x >= {_typed(least, kind)} THEN {_whole_steps(kind, ends)}"
    return f"CASE WHEN x IS NULL THEN NULL{above}{inside} ELSE {_whole(ends.low)} END"


def _typed(text: str, kind: NumberKind) -> str:
    return f"CAST('{text}' AS {kind.name})"


def _whole(number: int, kind: str = "BIGINT") -> str:
    return f"CAST('{number}' AS {kind})"


def _float_steps(step: Fraction) -> str:
    """Return floor(x / step) of a float inside the ends. What is smaller than a step is not divided: it might vanish."""
    one, per = (f"CAST('{float(number)!r}' AS DOUBLE)" for number in (step, 1 / step))
    near = f"WHEN x >= 0 AND x < {one} THEN {_whole(0)} WHEN x < 0 AND x >= -{one} THEN {_whole(-1)}"
    return f"CASE {near} ELSE TRY_CAST(floor(x * {per}) AS BIGINT) END"


def _whole_steps(kind: NumberKind, ends: StepRange) -> str:
    """Return floor(u / (10^scale step)) of u = 10^scale x, a whole number, for values inside the ends."""
    scale = kind.scale or 0
    top = 10**scale
    low, high = (
        min(max(math.ceil(end * ends.step * top), kind.smallest), kind.largest)
        for end in (ends.low, ends.high)
    )
    unscaled = f"least(greatest({_unscaled(scale)}, {_whole(low, 'HUGEINT')}), {_whole(high, 'HUGEINT')})"
    factor, divisor = ends.step.denominator, ends.step.numerator * top
    if factor > 1 and factor * max(abs(low), abs(high)) >= _HUGE:
        # Such ends are less than one unscaled whole number away from 0 (2^52 steps are at most 2^112 / factor): only 0 lies between them.
        return _whole(0)
    if divisor >= _HUGE:  # a step is larger than every value of the type
        return f"CASE WHEN {unscaled} >= 0 THEN {_whole(0)} ELSE {_whole(-1)} END"
    product = f"({unscaled} * {_whole(factor, 'HUGEINT')})" if factor > 1 else unscaled
    by = _whole(divisor, "HUGEINT")
    return f"CAST({product} // {by} - CASE WHEN {product} % {by} < 0 THEN 1 ELSE 0 END AS BIGINT)"


def _unscaled(scale: int) -> str:
    """Return 10^scale x as a whole number of 128 bits. A product of decimals might not fit into a decimal: the digits always do."""
    return "CAST(x AS HUGEINT)" if scale == 0 else "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)"
