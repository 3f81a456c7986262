"""The sums of the parts of an account, as its events make them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import NamedTuple, final

from sordino.ledger.parts import OPEN, PartRange, read_ranges
from sordino.ledger.renyi import NOTHING, Limits, Sums

_MANY = 1_000


class Touched(NamedTuple):
    """Which parts something is about: ranges, or all above what is closed."""

    ranges: tuple[PartRange, ...] = ()
    whole: bool = False


NOWHERE = Touched()


class Told(NamedTuple):
    """What an event of an account with parts says beside amounts and sums."""

    touched: Touched
    closed: int
    base: Sums


def read_told(sums: str) -> Told:
    """Return what an event says of parts, from its sums.

    Raises
    ------
    ValueError
        If that is nothing that the ledger writes.
    """
    _, ranges, whole, closed, base = sums.split(";")
    if whole not in {"0", "1"}:
        raise ValueError
    return Told(
        Touched(read_ranges(ranges), whole == "1"), int(closed), Sums(*map(int, base.split(",")))
    )


@final
@dataclass
class PartSums:
    """What was charged to all parts, and to each one beyond that."""

    base: Sums = NOTHING
    closed: int = OPEN
    parts: dict[int, Sums] = field(default_factory=dict)
    # Of each sum what parts had, the largest one first; what is no longer so is dropped when it is
    # met.
    _heaps: tuple[list[tuple[int, int]], ...] = field(default_factory=lambda: ([], [], [], []))

    def add(self, touched: Touched, amounts: Sums, *, returns: bool = False) -> bool:
        """Add amounts to parts, or give them back; tell whether no sum falls below nothing."""
        sign = -1 if returns else 1
        if touched.whole:
            self.base = _shifted(self.base, amounts, sign)
            return min(self.base) >= 0
        found = True
        for key in _keys(touched.ranges):
            now = self.parts[key] = _shifted(self.parts.get(key, NOTHING), amounts, sign)
            found = found and min(now) >= 0
            for heap, amount in zip(self._heaps, now, strict=True):
                if amount:
                    heappush(heap, (-amount, key))
        return found

    def find_largest(self) -> Sums:
        """Return what the base and the fullest parts have, each sum by itself."""
        return self.base.plus(Sums(*map(self._find_top, range(len(NOTHING)))))

    def admits(self, limits: Limits, touched: Touched) -> bool:
        """Tell whether each part that is touched is within its limits."""
        if not touched.whole:
            own = [self.parts.get(key, NOTHING) for key in _keys(touched.ranges)]
        elif limits.either:
            # Of one part the one sum may be beyond its limit, and of another one the other.
            own = [one for key, one in self.parts.items() if key > self.closed]
        else:
            return limits.admits(self.find_largest(), NOTHING)
        return all(limits.admits(self.base.plus(one), NOTHING) for one in (NOTHING, *own))

    def _find_top(self, which: int) -> int:
        heap = self._heaps[which]
        if len(heap) > 4 * len(self.parts) + _MANY:
            heap[:] = [(-one[which], key) for key, one in self.parts.items() if one[which]]
            heapify(heap)
        while heap:
            amount, key = heap[0]
            if key > self.closed and self.parts[key][which] == -amount:
                return -amount
            heappop(heap)
        return 0


def _shifted(sums: Sums, amounts: Sums, sign: int) -> Sums:
    return Sums(
        sums.main + sign * amounts.main,
        sums.pure + sign * amounts.pure,
        sums.failing + sign * amounts.failing,
        # That a part had no epsilon is never forgotten.
        sums.impure | amounts.impure,
    )


def _keys(ranges: Iterable[PartRange]) -> Iterable[int]:
    return (key for one in ranges for key in range(one.low, one.high + 1))
