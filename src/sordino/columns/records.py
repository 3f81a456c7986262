"""Records in blocks: any array of numbers, of any size, as arrays that hold each value unchanged.

Claim: nothing but the kind of the array (public) says how a value is read, and no value sways how
another one is. Proof: docs/proofs/bucket-counts.md. Floats: none is made from a whole number or a
decimal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.grid import column_to_array, list_to_array

BLOCK = 1 << 15
"""Records that are looked at together: they and what is computed from them stay in the processor's
cache."""

_NUMERIC_TYPE_NAMES = ("float", "double", "half", "int", "decimal", "bool", "object", "null")


def blocks(values: Any, owner: str, size: int = BLOCK) -> Iterator[NDArray[Any]]:
    """Yield all records in order, at most `size` at a time, as arrays of numbers or objects.

    A masked value is the object None. Memory maps are read block by block.

    Raises
    ------
    InvalidParameter
        At once, if the values are not a one-dimensional array or list, or their declared type is
        not numeric.
    """
    # The shape and the declared type are public, so what is refused for them says nothing of a
    # record.
    array = _read_column_array(values)
    if array is None or array.ndim != 1 or array.dtype.kind not in "buifO":
        kind = "" if _read_declared_type(values) is None else f" of {_read_declared_type(values)}"
        shape = "" if array is None or array.ndim == 1 else f" with {array.ndim} dimensions"
        raise InvalidParameter(
            f"{owner} must be a one-dimensional array or list of numbers; got "
            f"{type(values).__name__}{kind}{shape}."
        )
    # A generator: only one block of a memory map is in memory at a time.
    return (
        _unwrap_record_block(array[start : start + size]) for start in range(0, array.size, size)
    )


def _unwrap_record_block(part: NDArray[Any]) -> NDArray[Any]:
    # A masked value becomes None, whatever number lies under the mask. A block without one stays as
    # it is: its values are read the same either way.
    if isinstance(part, np.ma.MaskedArray):
        if not np.ma.getmaskarray(part).any():
            return np.asarray(part.data)
        filled: NDArray[Any] = np.ma.filled(part.astype(object), None)
        return filled
    plain = np.asarray(part)  # no longer a memory map, but a view of it
    return plain if plain.dtype.isnative else plain.astype(plain.dtype.newbyteorder("="))


def _read_column_array(values: Any) -> NDArray[Any] | None:
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, list | tuple | range):
        return list_to_array(list(values))
    if not hasattr(values, "__array__") or isinstance(values, np.generic):
        return None
    declared = _read_declared_type(values)
    # NumPy's own types say all about how their values are stored.
    if isinstance(declared, np.dtype):
        return np.asarray(values)
    if declared is not None and not any(
        name in str(declared).lower() for name in _NUMERIC_TYPE_NAMES
    ):
        return None
    return column_to_array(values)


def _read_declared_type(values: Any) -> Any:
    """Return the type of its values that an array or a column names, None if it names none."""
    return getattr(values, "dtype", getattr(values, "type", None))
