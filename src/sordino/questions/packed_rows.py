"""Writes a unit and its number as one whole number of 48 bits, which the engine sorts fastest.

An engine that sorts keys of up to 8 bytes, with those that say what is missing, takes half as long
as with more. 32 and 16 bits are such a key. They hold a unit and a number where public ends leave
few numbers between them: beyond these all count the same, so they are moved there. What counts does
not change: the order stays the same, and what is equal by it may change places
(docs/proofs/numbers.md, 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import final

import numpy as np

from sordino.sources.number_stream import Column, find_array, find_format

_BITS, _LOW_BITS = 48, 16
"""Of a packed row, and of them those of the second column."""

_LEAST_UNIT_BITS = 24
"""At least so many bits are left for units: with fewer, the units of few tables would fit."""

_FAR = 1 << 62
"""What is computed of ends below this is within 64 bits."""


@final
@dataclass(frozen=True)
class Packing:
    """How rows are packed.

    Parameters
    ----------
    least, most : int
        Ends between which numbers are moved; public.
    kind : str
        The declared type of the numbers, which has both ends.
    """

    least: int
    most: int
    kind: str

    @classmethod
    def between(cls, least: int, most: int, kind: str) -> Packing | None:
        """Return how rows with numbers between public ends are packed.

        None if the ends are too far apart, or if the type is one of decimals, which come as two
        halves.
        """
        packing = cls(least, most, kind)
        near = max(-least, most) < _FAR and packing.bits <= _BITS - _LEAST_UNIT_BITS
        return packing if near and find_array(find_format(kind) or "") is not None else None

    @property
    def bits(self) -> int:
        """How many bits a number has: 0 is a missing one, 1 the least."""
        return (self.most - self.least + 1).bit_length()

    @property
    def formats(self) -> list[str]:
        """How the two columns of packed rows travel."""
        return ["I", "S"]

    def write(self, rows: str) -> str:
        """Return the query for packed rows in order, of a SELECT with columns unit and x.

        Rows are NULL whose unit does not fit, and come first.
        """
        least, most = (f"CAST('{end}' AS {self.kind})" for end in (self.least, self.most))
        moved = f"CAST(least(greatest(x, {least}), {most}) AS BIGINT) - ({self.least - 1})"
        number = f"CASE WHEN x IS NULL THEN 0 ELSE {moved} END"
        fits = f"unit >= 0 AND unit < {1 << (_BITS - self.bits)}"
        packed = f"CASE WHEN {fits} THEN CAST(unit AS BIGINT) * {1 << self.bits} + {number} END"
        return (
            f"SELECT CAST(packed >> {_LOW_BITS} AS UINTEGER) AS high,"
            f" CAST(packed & {(1 << _LOW_BITS) - 1} AS USMALLINT) AS low"
            f" FROM (SELECT {packed} AS packed FROM {rows} AS known)"
            " ORDER BY high NULLS FIRST, low NULLS FIRST"
        )

    def unpack(self, pieces: Iterable[list[Column]], form: str) -> Iterator[list[Column]]:
        """Yield the units and the numbers of packed rows; numbers in the array of a format."""
        for high, low in pieces:
            packed = high.values.astype(np.int64) << _LOW_BITS
            packed |= low.values
            number = packed & ((1 << self.bits) - 1)
            # What stands where one is missing need not fit the type, and nobody reads it.
            known = number > 0
            number += self.least - 1
            packed >>= self.bits
            numbers = Column(number.astype(find_array(form)), None if known.all() else known)
            yield [Column(packed, high.known), numbers]
