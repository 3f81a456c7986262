"""A damped test statistic: one family moves it by little, since markers with few transmissions are held back.

Claim: one family moves `damped_tdt` by at most `BOUND`, for all data. Proof: docs/proofs/most-significant.md,
"The damped statistic".
Floats: `BOUND` has room for their rounding.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sordino.constraints import POSITIVE, Constraint, Number
from sordino.remnants import no_remnants
from sordino.smooth.counts import tables

# For so many families `ROUNDING` is proved to be enough (docs/proofs/most-significant.md, "Floats").
MOST_FAMILIES = 1 << 28

FAMILIES = Constraint(
    "a whole number from 1 to 2^28",
    lambda value: (
        int(value)
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= value <= MOST_FAMILIES
        else None
    ),
    (1, 150, 10**6),
    (0, -1, 1.5, True, None, MOST_FAMILIES + 1),
)

ROUNDING = Fraction(1, 1 << 20)
"""An allowance for rounding: more than floats add to the distance of two statistics."""

BOUND = 4 + ROUNDING
"""How far one family moves the damped statistic, in transmissions."""


@no_remnants
def damped_tdt(b: Any, c: Any, *, families: int, damping: Number) -> Any:
    """Return abs(b - c) sqrt(min(1, damping / (b + c))) for each marker; one family moves it by at most 4.

    Of markers with at least `damping` transmissions b + c it is sqrt(damping) times abs(b - c) / sqrt(b + c),
    the square root of the TDT statistic, and orders them alike. A marker with fewer counts as if it had so
    many: its statistic is lowered, and that is what bounds how far it can move.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private: how often heterozygous parents transmitted the one and the other allele. What is no such
        count becomes one by rule: NaN and what is below 0 become 0, b at most 2 * families, c at most what b
        leaves of that; fractions are rounded down.
    families : int
        How many families there are, at most 2^28: public.
    damping : number
        From how many transmissions on a marker counts in full, in (0, inf): public. Fewer than any marker of
        interest has: more make rare alleles count less, fewer need more noise.

    Returns
    -------
    array of float, shape (m,), or a float
        In transmissions. Private.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.genomics.damped_tdt([115, 60, 4], [85, 40, 0], families=150, damping=100).round(3).tolist()
    [21.213, 20.0, 4.0]
    """
    n = FAMILIES("genomics.damped_tdt.families", families)
    # No marker has more transmissions than that.
    least = float(min(POSITIVE("genomics.damped_tdt.damping", damping), 2 * n))
    # By a rule for each marker: no count raises an error.
    first, second = tables(b, c, n, "genomics.damped_tdt")
    # Without transmissions the difference is 0 as well, and the divisor does not matter.
    total = np.maximum(first + second, 1).astype(np.float64)
    found = np.abs(first - second) * np.sqrt(np.minimum(1.0, least / total))
    return found if found.ndim else float(found)
