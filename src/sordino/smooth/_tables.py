"""All contingency tables of so many records, and which one record leads from one to another.

Claim: `Tables` lists every table once, `place` finds it again, and `moves` holds all pairs of tables that differ in one record.
Proof: docs/proofs/smooth-bounds.md, "Any table".
Floats: none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import permutations
from typing import final

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Tables:
    """All ways to put records into cells: `totals` records into each of the groups, of `cells` cells each.

    A record stays in its group. One group: records may be anywhere.
    """

    totals: tuple[int, ...]
    cells: int
    _sizes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_sizes", tuple(math.comb(total + self.cells - 1, total) for total in self.totals))

    @property
    def size(self) -> int:
        """How many tables there are."""
        return math.prod(self._sizes)

    def listed(self) -> Counts:
        """Return all tables, shape (size, groups, cells), in the order of `place`."""
        found = np.empty((self.size, len(self.totals), self.cells), dtype=np.int64)
        places = np.unravel_index(np.arange(self.size), self._sizes)
        for group, total in enumerate(self.totals):
            found[:, group] = _compositions(total, self.cells)[places[group]]
        return found

    def place(self, tables: Counts) -> Counts:
        """Return the position of each table, shape (m, groups, cells), in the list."""
        places = tuple(_ranks(tables[:, group], total) for group, total in enumerate(self.totals))
        found: Counts = np.ravel_multi_index(places, self._sizes).astype(np.int64)
        return found

    def moves(self, tables: Counts) -> Iterator[tuple[Counts, Counts]]:
        """Yield for each kind of move the tables that it starts from, and those that it leads to, by their positions."""
        for group in range(len(self.totals)):
            for here, there in permutations(range(self.cells), 2):
                start = np.flatnonzero(tables[:, group, here] > 0)
                moved = tables[start]
                moved[:, group, here] -= 1
                moved[:, group, there] += 1
                yield start, self.place(moved)


def _compositions(total: int, cells: int) -> Counts:
    """Return all ways to put `total` records into `cells` cells, in the order of `_ranks`."""
    if cells == 1:
        return np.array([[total]])
    parts = []
    for first in range(total + 1):
        others = _compositions(total - first, cells - 1)
        parts.append(np.column_stack([np.full(len(others), first), others]))
    return np.concatenate(parts)


def _ranks(counts: Counts, total: int) -> Counts:
    """Return the position of each row of counts, shape (m, cells), among all with this total: how many have a smaller first difference."""
    cells = counts.shape[1]
    left = np.full(len(counts), total)
    found = np.zeros(len(counts), dtype=np.int64)
    for cell in range(cells - 1):
        # those with a smaller number here: all that put `left` into the rest, less those that put `left - number` there
        others = cells - cell
        ways = np.array([math.comb(records + others - 1, records) for records in range(total + 1)], dtype=np.int64)
        found += ways[left] - ways[left - counts[:, cell]]
        left = left - counts[:, cell]
    return found
