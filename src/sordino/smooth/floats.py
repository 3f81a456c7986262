"""Outward rounding: it makes a bound that is computed in floats a true bound.

Claim: if a bound is beta-smooth for `inner(beta, error)`, its floats, off by a share of `error` at most, are
beta-smooth for `beta` after `outward`, which never lowers them.
Proof: docs/proofs/smooth-bounds.md, "Floats".
Floats: what this module is about.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import NOT_NEGATIVE, POSITIVE, Number, shown
from sordino.errors import InvalidParameter

OUTWARD = 1 + 2.0**-45
"""What bounds are multiplied by."""

ERROR = 2.0**-42
"""The largest relative error of a bound before that, where a module says nothing else.

It is that of e^-624 and of a few operations.
"""

LEAST = 2.0**-900
"""No bound is a smaller share of its ceiling, because floats below that lose digits."""

_STEEPEST_BETA = Fraction(1 << 1000)
_HIGHEST_CEILING = 1 << 1000

Floats = NDArray[np.float64]


def inner(beta: Fraction, error: float = ERROR) -> float:
    """Return a float below `beta`, at least 0: relative errors of `error` cannot break smoothness then."""
    # The share pays for the rounding of beta, the rest for the errors of the bounds of two neighbors
    # (docs/proofs/smooth-bounds.md, "Floats").
    return max(0.0, float(beta) * (1 - 2.0**-48) - 4 * error)


def outward(found: Any, ceiling: float) -> Any:
    """Return computed bounds raised a little and kept in [ceiling * LEAST, ceiling]; a number or an array."""
    # Raised to a floor, multiplied by a constant and kept below the ceiling: a smooth bound stays smooth
    # under each of these.
    return np.minimum(np.maximum(found, ceiling * LEAST) * OUTWARD, ceiling)


def rounded_up(value: Fraction | float) -> float:
    """Return a float that is at least `value`: a public bound."""
    # float() rounds to the nearest float, which may be below the value.
    return math.nextafter(float(value), math.inf)


def checked_beta(beta: Number, owner: str) -> Fraction:
    """Return `beta`, a number in [0, inf), else raise `InvalidParameter`.

    A large one becomes a smaller one, which gives the same floats.
    """
    number: Fraction = NOT_NEGATIVE(f"{owner}.beta", beta)
    # The smaller beta is the safe one, and no float tells them apart.
    return min(number, _STEEPEST_BETA)


def checked_ceiling(ceiling: Number, owner: str) -> float:
    """Return a float that is at least `ceiling`, a number in (0, 2^1000], else raise `InvalidParameter`."""
    number: Fraction = POSITIVE(f"{owner}.ceiling", ceiling)
    if number > _HIGHEST_CEILING:
        raise InvalidParameter(
            f"{owner}.ceiling must be at most 2^1000; got {shown(number)}. Change the unit of the statistic."
        )
    return rounded_up(number)
