"""What several units lose together, such as somebody who is there on many days.

Whoever is d units is d steps from neighbors, one unit each. Source: group privacy of pure and
(epsilon, delta) guarantees [dwork2014, Thm 2.2] and of rhos [bun2016, Prop. 1.9].
Proof: docs/proofs/units-of-several-columns.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from sordino.cost.conversion import round_up_written
from sordino.cost.rdp import ZCDP
from sordino.unit_columns import find_cut, has_several_columns

_DIGITS = Context(prec=40)
_UP = Context(prec=3, rounding=ROUND_CEILING)
_SHORT = Context(prec=6, rounding=ROUND_CEILING)
_MOST_LOSS = 700
DAYS = (1, 7, 30)
"""On how many days somebody is there of whom promises are told."""
OWN_FACTS = (
    "That holds if every column is a fact of its own row: none is computed from other rows of the "
    "person, such as the number of a visit."
)


def bound_several(
    units: int, epsilon: Fraction, delta: Fraction, *, rho: Fraction | None = None
) -> tuple[Fraction, Fraction] | None:
    """Return the epsilon and the delta of whoever is several units; None if there are none.

    Parameters
    ----------
    units : int
        How many, at least 1.
    epsilon, delta : Fraction
        The guarantee of one.
    rho : Fraction, optional
        Of releases that add up rhos, which have no other guarantee.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from sordino.cost.several import bound_several
    >>> bound_several(7, Fraction(1, 2), Fraction(0))
    (Fraction(7, 2), Fraction(0, 1))
    >>> bound_several(2, Fraction(1), Fraction(1, 10**6))[1]
    Fraction(93, 25000000)
    """
    if rho is not None and units > 1:
        # A release may read all of them at once, so a rho grows with the square of their number.
        found = ZCDP(rho=units**2 * rho).epsilon(delta)
        return (Fraction(found), delta) if math.isfinite(found) else None
    if not delta or units == 1:
        return units * epsilon, delta
    if units * epsilon > _MOST_LOSS:
        return None
    # (e^(d epsilon) - 1) / (e^epsilon - 1), as the sum of powers that it is: no difference is lost.
    each = _DIGITS.exp(_DIGITS.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    total = sum((_DIGITS.power(each, power) for power in range(units)), Decimal(0))
    share = _DIGITS.divide(Decimal(delta.numerator), Decimal(delta.denominator))
    whole = Fraction(_UP.multiply(total, share))
    return (units * epsilon, whole) if whole < 1 else None


def list_days(guarantee: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """Return what a guarantee of one unit means for somebody who is 1, 7 or 30 of them.

    Parameters
    ----------
    guarantee : mapping
        Of what there is of "epsilon", "delta" and "rho"; with a rho the others follow from it, and
        it has no epsilon without a delta. Beside "failures" a rho is left aside.
    """
    known = {name: Fraction(guarantee[name]) for name in ("epsilon", "delta") if name in guarantee}
    # A rho that holds unless a release fails is none without the delta of that.
    firm = not Fraction(guarantee.get("failures") or 0)
    rho = Fraction(guarantee["rho"]) if guarantee.get("rho") and firm else None
    told: dict[str, list[float | None]] = {"days": list(DAYS)}
    if rho is not None:
        # A release may read all of somebody's days at once.
        told["rho"] = [round_up_written(days**2 * rho) for days in DAYS]
    if len(known) == 2:
        found = [bound_several(days, known["epsilon"], known["delta"], rho=rho) for days in DAYS]
        told["epsilon"] = [None if one is None else round_up_written(one[0]) for one in found]
        told["delta"] = [None if one is None else round_up_written(one[1]) for one in found]
    return told


def say_days_of(unit: str, adjacency: str, guarantee: Mapping[str, Any]) -> list[str]:
    """Return what a guarantee means for somebody who is many units; nothing where nobody is.

    Parameters
    ----------
    unit, adjacency : str
        Of the account.
    guarantee : mapping
        As for `list_days`.
    """
    if not has_several_columns(unit):
        return []
    cut, parts = find_cut(unit), list[str]()
    # With a column more than a time somebody may have many on one day.
    on, every = ("with", "combination") if cut is None else ("on", cut.removeprefix("day_"))
    told = list_days(guarantee)
    for place, days in enumerate(DAYS):
        amounts = {name: told[name][place] for name in ("epsilon", "delta", "rho") if name in told}
        # A rho has said it where there is an epsilon.
        if "epsilon" in amounts:
            amounts.pop("rho", None)
        said = " and ".join(
            f"{name} {_write_up(value)}" for name, value in amounts.items() if value
        )
        parts.append(f"{on} {days} {every}{'s' * (days > 1)} by {said or 'no number'}")
    like = f", compared with others {on} as many {every}s," if adjacency == "replace-one" else ""
    return [f"Somebody{like} is protected {', '.join(parts)}.", OWN_FACTS]


def _write_up(number: float) -> str:
    """Return a number with six digits, never less than it is."""
    return f"{float(_SHORT.create_decimal(repr(number))):g}"
