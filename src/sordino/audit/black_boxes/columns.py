"""Turns outcomes into columns: numbers, numbers computed from them, shapes, and a word for each outcome.

Claim: none. All of it is post-processing of single outcomes.
Floats: computed as they come; a sum or difference that is rounded is still a function of the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.audit.black_boxes.runs import RunPart, Table
from sordino.audit.black_boxes.shape import REAL, WHOLE, Mark, Shape

_MOST_PAIRED, _MOST_IN_A_ROW, _MOST_FINEST_BITS = 5, 16, 4
# An odd number with mixed bits: multiplying by it loses nothing and moves low bits up.
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_SHIFT = np.uint64(29)


class Columns(NamedTuple):
    """Some outcomes, in the order of their shapes.

    Attributes
    ----------
    numbers : dict of array, shape (n,)
        By name; NaN where an outcome has no such number.
    shapes : tuple of Shape
        The different ones.
    which : array of int, shape (n,)
        The position of each outcome's shape.
    words : array of uint64, shape (n,)
        The same for equal outcomes. Different ones share a word once in 2^64 or so, which merges two events
        and is harmless.
    tables : tuple of array
        The rows of each shape.
    """

    numbers: dict[str, Table]
    shapes: tuple[Shape, ...]
    which: NDArray[np.int64]
    words: NDArray[np.uint64]
    tables: tuple[Table, ...]


def is_number(mark: Mark) -> bool:
    """Tell whether a mark stands for a number."""
    return isinstance(mark.says, str) and mark.says in {WHOLE, REAL}


def columns(part: RunPart, paths: tuple[str, ...]) -> Columns:
    """Return the outcomes of a part, with the numbers at `paths` and those computed from them."""
    numbers = {path: np.full(part.size, np.nan) for path in paths}
    shapes, tables, which, words = [], [], [], []
    start = 0
    for i, (shape, table) in enumerate(part.tables()):
        rows = slice(start, start + table.shape[0])
        for at, mark in enumerate(filter(is_number, shape)):
            if mark.path in numbers:
                numbers[mark.path][rows] = table[:, at]
        shapes.append(shape)
        tables.append(table)
        which.append(np.full(table.shape[0], i, dtype=np.int64))
        words.append(_hash_rows(shape, table))
        start = rows.stop
    # Outcomes may be infinite: a difference that is NaN counts as a missing number.
    with np.errstate(invalid="ignore", over="ignore"):
        computed = {name: column for name, column in _compute_columns(numbers) if name not in numbers}
    return Columns(
        numbers | computed, tuple(shapes), np.concatenate(which), np.concatenate(words), tuple(tables)
    )


def _hash_rows(shape: Shape, table: Table) -> NDArray[np.uint64]:
    """Return one word for each row, made of what its shape says and of its numbers."""
    start = np.frombuffer(repr(shape).encode().ljust(-(-len(repr(shape).encode()) // 8) * 8), dtype="<u8")
    word = np.zeros(table.shape[0], dtype=np.uint64)
    # Numbers enter by their bits; multiplying and shifting spreads every bit over the word.
    for piece in [*start, *np.ascontiguousarray(table.T).view(np.uint64)]:
        word = (word ^ piece) * _HASH_MULTIPLIER  # wraps on purpose
        word ^= word >> _HASH_SHIFT
    return word


def _compute_columns(numbers: dict[str, Table]) -> Iterable[tuple[str, Table]]:
    """Yield numbers computed from several ones, and how fine the bits of single ones are."""
    names = list(numbers)
    # Of a single number the sum and the largest one are that number.
    if len(names) > 1:
        stacked = np.column_stack([numbers[name] for name in names])
        known = ~np.isnan(stacked)
        some = known.any(axis=1)
        yield "sum", np.where(some, np.where(known, stacked, 0).sum(axis=1), np.nan)
        for name, empty, function in (("largest", -np.inf, np.argmax), ("smallest", np.inf, np.argmin)):
            filled = np.where(known, stacked, empty)
            where = function(filled, axis=1)
            yield name, np.where(some, np.take_along_axis(filled, where[:, None], axis=1)[:, 0], np.nan)
            yield f"place of the {name}", np.where(some, where, np.nan)
    # There are too many pairs of many numbers: then neighbors only.
    near = (
        list(combinations(names, 2)) if len(names) <= _MOST_PAIRED else list(pairwise(names[:_MOST_IN_A_ROW]))
    )
    for one, other in near:
        yield f"{one} - {other}", numbers[one] - numbers[other]
    for name in names[:_MOST_FINEST_BITS]:
        yield f"finest bit of {name or 'value'}", _finest_bit(numbers[name])


def _finest_bit(column: Table) -> Table:
    """Return the exponent of the lowest bit that is set: -1 for 2.5, 3 for 8.

    A sum in floats is never finer than its parts are.
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(column), column, 0.0))
    # A float has 53 bits, so that this is a whole number.
    scaled = (np.abs(mantissa) * 2.0**53).astype(np.int64)
    # x & -x keeps the lowest bit of x alone.
    lowest = np.frexp((scaled & -scaled).astype(np.float64))[1] - 54
    return np.where(np.isfinite(column) & (scaled != 0), lowest + exponent, np.nan)
