"""Turns private counts of any kind into tables of so many families, by a rule; no count can raise an error.

Claim: what comes out is a table, 0 <= b, 0 <= c, b + c <= 2N; tables come out as they are.
Proof: docs/proofs/smooth-bounds.md, "Private numbers of any kind".
Floats: whatever is no whole number is rounded down.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.grid import to_steps

Counts = NDArray[np.int64]


def tables(b: Any, c: Any, families: int, owner: str) -> tuple[Counts, Counts]:
    """Return both counts, shape () or (m,), as a table.

    They are rounded down; NaN and what is below 0 become 0, b at most 2N, c at most 2N - b.

    Raises
    ------
    InvalidParameter
        If they are no numbers or lists of equal length (their shape and type are public).
    """
    first, second = (_round_family_counts(counts, owner) for counts in (b, c))
    if first.shape != second.shape:
        raise InvalidParameter(
            f"{owner} needs as many counts b as c; got shapes {first.shape} and {second.shape}."
        )
    # Each marker becomes a table by its own two counts alone.
    np.clip(first, 0, 2 * families, out=first)
    np.clip(second, 0, None, out=second)
    return first, np.minimum(second, 2 * families - first)


def _round_family_counts(counts: Any, owner: str) -> Counts:
    # Counts are rounded down and limited one by one, and no count is refused: only the shape and the type
    # are, which are public.
    try:
        return to_steps(counts, Fraction(1), owner)
    except InvalidParameter:
        raise InvalidParameter(
            f"{owner} needs counts b and c that are numbers, or one-dimensional lists or arrays of numbers; "
            "got something of another shape or type."
        ) from None
