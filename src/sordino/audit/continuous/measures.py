"""How large and how small the numbers of a continuous law may be, so that nothing computed of them overflows.

Claim: arguments of laws stay below 1e141, and their squares below 1e282. Floats: none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sordino.constraints import Constraint, exact

# Answers, windows and breaks are places, scales are spans ("Floats" on docs/proofs/exact-audit.md).
_LARGEST_PLACE, _LARGEST_SPAN = Fraction(10) ** 60, Fraction(10) ** 40


def _read_law_place(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and abs(number) <= _LARGEST_PLACE else None


def _read_law_span(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and 1 / _LARGEST_SPAN <= number <= _LARGEST_SPAN else None


PLACE = Constraint(
    "a finite number from -1e60 to 1e60",
    _read_law_place,
    (0, -1.5, 3),
    (float("nan"), float("inf"), 1e61, None, "1"),
)
SPAN = Constraint(
    "a number from 1e-40 to 1e40", _read_law_span, (1, 0.5, Fraction(1, 3)), (0, -1, 1e41, 1e-41, None, "1")
)
