"""How reports write bounds, outputs and answers: bounds are rounded outward, long values are cut.

Claim: what is written of a bound from below is never more, of one from above never less. Floats: converted
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.releases import plain


def at_least(x: float, digits: int = 9) -> str:
    """Return a lower bound in words: never more than the bound itself."""
    return _write_rounded(x, digits, ROUND_FLOOR)


def at_most(x: float, digits: int = 9) -> str:
    """Return an upper bound in words: never less than the bound itself."""
    return _write_rounded(x, digits, ROUND_CEILING)


def _write_rounded(x: float, digits: int, rounding: str) -> str:
    return (
        # The decimal of a float is exact before it is rounded to the wanted side.
        f"{Context(prec=digits, rounding=rounding).create_decimal_from_float(x):g}"
        if x and math.isfinite(x)
        else f"{x:g}"
    )


def write_interval(low: float, high: float) -> str:
    """Return a range in words, rounded outward."""
    return f"{at_least(low)} to {at_most(high)}" if math.isfinite(high) else f"at least {at_least(low)}"


def ready(value: Any) -> Any:
    """Return an output or a list of answers as JSON-ready values, or the `repr` of what has no JSON form."""
    if isinstance(value, Mapping):
        return {
            # JSON knows no numbers of numpy.
            int(place) if isinstance(place, np.integer) else place: ready(answer)
            for place, answer in value.items()
        }
    if isinstance(value, list | tuple | np.ndarray):
        return [ready(each) for each in value]
    if isinstance(value, bool | int | float | str | Fraction | Decimal | np.generic | type(None)):
        return plain(value)
    return repr(value)


def short(value: Any) -> str:
    """Return the `repr` of an output or of answers, cut to fit on a line."""
    text = repr(value.tolist() if hasattr(value, "tolist") else value)
    return text if len(text) <= 60 else text[:57] + "..."
