"""Private scores as floats, made total by rule: NaN and what is no number are the lowest value.

Claim: each float is a function of its own value; nothing raises that depends on a value.
Proof: docs/proofs/smooth-selection.md, "Floats".
Floats: other types are rounded to the nearest float.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.grid import _to_answer_array as as_array
from sordino.mechanisms.randomized_response import _nearest_float as as_float


def floats_of(scores: Any, size: int, owner: str) -> NDArray[np.float64]:
    """Return `size` private numbers as floats, -inf for NaN and for what is no number.

    Raises
    ------
    InvalidParameter
        If they are not so many: their number is public.
    """
    array = np.atleast_1d(as_array(scores, owner))
    if array.size != size:
        raise InvalidParameter(
            f"{owner}.release needs {size} scores, one for each candidate; got {array.size}."
        )
    if array.dtype == object:
        # One by one, so that no value sways another.
        return np.array([as_float(value) for value in array.tolist()])
    # A wider float beyond all floats becomes an infinity, without a warning that would tell.
    with np.errstate(over="ignore"):
        floats = array.astype(np.float64)
    return np.where(np.isnan(floats), -np.inf, floats)
