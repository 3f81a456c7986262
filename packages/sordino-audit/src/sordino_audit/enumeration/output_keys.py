"""Says which outputs are the same: those that are equal in type and value, all the way down.

Claim: two outputs share a key only if they have the same type, shape and value; floats never do so without a
partition, and with one only if their bits are the same. Proof: docs/proofs/exact-audit.md, "Outputs".
Floats: compared by their bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter

Partition = Callable[[Any], Hashable]

_RADIX_LIMIT = 1 << 62
_OUTPUTS_MUST_BE = "audit.exact needs outputs that are"
_CLASSES_MUST_BE = "audit.exact.partition must return"
_PLAIN_TYPES = (bool, str, bytes, type(None), Fraction)


def key(value: Any, owner: str = _OUTPUTS_MUST_BE, *, floats: bool = False) -> Hashable:
    """Return what stands for a value: whole numbers and tuples of them as they are, others with their type.

    `==` would not do: it calls 1, True and 1.0 the same, also inside of tuples, and 0.0 the same as -0.0.
    """
    kind = type(value)
    if kind is int:
        return int(value)
    if kind is tuple:
        return tuple(key(part, owner, floats=floats) for part in value)
    # The elements are compared by their keys: a set of True is no set of 1.
    if kind is frozenset:
        return kind, frozenset(key(part, owner, floats=floats) for part in value)
    if kind in _PLAIN_TYPES:
        return kind, value
    # A number of numpy keeps its type, by which a reader can tell it from a whole number of Python.
    if isinstance(value, np.bool_ | np.integer):
        return kind, int(value)
    # The bits tell -0.0 from 0.0, and let a NaN be the same as itself.
    if floats and kind is float:
        return kind, struct.pack("<d", value)
    advice = (
        ""
        if owner is _CLASSES_MUST_BE
        else " For others give partition=, a function that puts each output into a class."
    )
    raise InvalidParameter(
        f"{owner} whole numbers, truth values, texts, bytes, None, fractions, "
        "or tuples and frozensets of these; got a value of type "
        f"{kind.__name__}.{advice}"
    )


@final
@dataclass(frozen=True, eq=False)
class Seen:
    """The different outputs of some rows, what is shown of them, their keys, and which one each row has."""

    values: list[Any]
    shown: list[Any]
    keys: list[Hashable]
    which: NDArray[np.int64]

    def rows(self, places: Any) -> list[Hashable]:
        """Return the keys of the rows at `places`."""
        return [self.keys[i] for i in self.which[places].tolist()]

    def same(self, other: Seen) -> bool:
        """Return whether all rows have the same outputs on both sides."""
        return self.keys == other.keys and np.array_equal(self.which, other.which)


def seen(played: Any, n: int, partition: Partition | None) -> Seen:
    """Return the outputs of `n` rows, the same ones together.

    With a partition their classes are what is shown and compared.

    Raises
    ------
    InvalidParameter
        If there is not one output for each row, or outputs or classes are nothing that can be told apart for
        certain.
    """
    if (
        isinstance(played, np.ma.MaskedArray)
        or not isinstance(played, np.ndarray | list)
        or getattr(played, "ndim", 1) < 1
    ):
        raise InvalidParameter(
            "audit.exact needs one output for each noise vector, in an array or a list; "
            f"got a value of type {type(played).__name__}."
        )
    if len(played) != n:
        raise InvalidParameter(
            f"audit.exact needs one output for each of {n} noise vectors; got {len(played)}."
        )
    values, keys, which = _find_distinct(played, partition is not None)
    if partition is None:
        return Seen(values, values, keys, which)
    classes = [partition(value) for value in values]
    return Seen(values, classes, [key(each, _CLASSES_MUST_BE) for each in classes], which)


def _find_distinct(played: Any, partitioned: bool) -> tuple[list[Any], list[Hashable], NDArray[np.int64]]:
    """Return the different outputs as Python values, their keys, and which of them each row has."""
    kind = played.dtype.kind if isinstance(played, np.ndarray) else "O"
    # Without a partition floats go on to `key`, which refuses them.
    if kind in "biu" or (kind == "f" and partitioned and played.dtype.itemsize <= 8):
        first, which = unique_rows(_view_bits(played).reshape(played.shape[0], math.prod(played.shape[1:])))
        values = _nest_tuples(played[first].tolist(), played.ndim)
        if kind == "i" and played.size:  # whole numbers and tuples of them stand for themselves
            return values, values, which
        # An array without elements has no values: only its shape can tell it from another one.
        empty = () if played.size else (played.shape[1:],)
        return (
            values,
            [(played.dtype.kind, *empty, value) if kind != "b" else (*empty, key(value)) for value in values],
            which,
        )
    listed = _nest_tuples(played.tolist(), played.ndim) if isinstance(played, np.ndarray) else played
    try:
        keys = [key(value, floats=partitioned) for value in listed]
    except InvalidParameter:
        if not partitioned:
            raise
        return list(listed), [], np.arange(len(listed))  # the partition looks at each of them
    order: dict[Hashable, int] = {}
    firsts: list[Any] = []
    which = np.empty(len(listed), dtype=np.int64)
    for i, (value, one) in enumerate(zip(listed, keys, strict=True)):
        which[i] = order.setdefault(one, len(order))
        if len(firsts) < len(order):
            firsts.append(value)
    return firsts, list(order), which


def _view_bits(played: NDArray[Any]) -> NDArray[Any]:
    """Return floats as the whole numbers that their bits are, everything else as it is."""
    return (
        np.ascontiguousarray(played).view(f"u{played.dtype.itemsize}") if played.dtype.kind == "f" else played
    )


def _nest_tuples(listed: list[Any], ndim: int) -> list[Any]:
    """Return nested lists of an array with its rows as nested tuples."""
    return listed if ndim == 1 else [tuple(_nest_tuples(row, ndim - 1)) for row in listed]


def unique_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where the different rows first stand and which of them each row is.

    Rows are packed into one word where they fit.
    """
    # Rows without columns are all the same.
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(rows.shape[0], dtype=np.int64)
    if rows.dtype.kind in "iu" and rows.shape[1] > 1:
        # 64 bits of the same sign: what is narrower would wrap, and unsigned with signed numbers would become
        # floats.
        wide: NDArray[Any] = rows.astype(np.uint64 if rows.dtype.kind == "u" else np.int64)
        low = wide.min(axis=0)
        span = [int(most) - int(least) + 1 for most, least in zip(wide.max(axis=0), low, strict=True)]
        if math.prod(span) < _RADIX_LIMIT:
            # One whole number for each row, in mixed radix: sorting words is much faster than sorting rows.
            packed = np.zeros(rows.shape[0], dtype=np.int64)
            for i, width in enumerate(span):
                packed = packed * width + (wide[:, i] - low[i]).astype(np.int64)
            rows = packed[:, None]
    _, first, which = np.unique(
        rows, axis=None if rows.shape[1] == 1 else 0, return_index=True, return_inverse=True
    )
    return first, which.reshape(-1)
