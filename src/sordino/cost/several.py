"""What several units lose together, such as somebody who is there on many days.

Whoever is d units is d steps from neighbors, one unit each. Source: group privacy of pure and
(epsilon, delta) guarantees [dwork2014, Thm 2.2] and of rhos [bun2016, Prop. 1.9].
Proof: docs/proofs/units-of-several-columns.md.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from sordino.cost.zcdp import ZCDP

_DIGITS = Context(prec=40)
_UP = Context(prec=3, rounding=ROUND_CEILING)
_MOST_LOSS = 700


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
