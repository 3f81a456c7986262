"""In which steps the numbers of each bucket are added up.

So one reading gives the sum within any clip.

Claim: the steps follow from public parameters alone. Those of a bucket are no larger than the steps
of any clip that holds it, and divide them. Proof: docs/proofs/bucket-counts.md, "Sums of buckets".
Floats: edges, which are exact fractions; a comparison with an edge is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns.bucket_grid import BucketGrid
from sordino.grid import CLAMP

_WIDTH_BITS = 32  # a clipped record has less than 2^32 steps: 2^31 of them add up in 64 bits
# Floats hold an end exactly: it lies at most 2^52 steps from 0 (docs/proofs/clipped-sum.md, "The
# sum").
_OFFSET_BITS = 52


class Rung(NamedTuple):
    """Buckets that stand side by side, and are added up in steps of one size.

    Attributes
    ----------
    start : int
        The first of these buckets; they end where those of the next rung begin.
    low, high : int
        Between which whole numbers of steps a record of them counts, within +-2^52.
    step : Fraction
        A power of two, in the unit of the values.
    """

    start: int
    low: int
    high: int
    step: Fraction


@final
@dataclass(frozen=True)
class SumSteps:
    """The steps of all buckets of a grid; public.

    A record x of a bucket counts as max(low, min(high, floor(x / step))) steps of its rung.

    Parameters
    ----------
    grid : BucketGrid
        The buckets.
    rungs : tuple of Rung
        In the order of their buckets; the first one begins with bucket 0.
    """

    grid: BucketGrid
    rungs: tuple[Rung, ...]

    @classmethod
    def within(cls, grid: BucketGrid, lower: Fraction, cap: Fraction, *, signed: bool) -> SumSteps:
        """Return the ladder for clips that end at edges of a grid, and within `lower` and `cap`.

        Parameters
        ----------
        grid : BucketGrid
            Edges of values of both signs stand symmetrically, with one at 0.
        lower, cap : Fraction
            Public: no record counts as less or as more. Where values are not signed, every clip
            begins at `lower`.
        signed : bool
            Whether clips begin and end at edges on either side of 0.
        """
        if not signed:
            found = _climb(grid.edges, cap, lambda end: choose_step(lower, end))
        else:
            half = grid.size // 2
            sizes = grid.edges[half + 1 :]
            near = Fraction(float(sizes[0]))
            up = _climb(sizes, cap, lambda end: choose_step(max(-near, lower), end))
            down = _climb(sizes, -lower, lambda end: choose_step(max(-end, lower), min(near, cap)))
            # Below 0 the buckets stand in the opposite order: a rung begins where the next one away
            # from 0 ends, the last one with bucket 0.
            starts = [*(half + 1 - begin for begin, _ in down[1:]), 0]
            found = [
                *reversed([(start, step) for start, (_, step) in zip(starts, down, strict=True)]),
                *((half + 1 + begin, step) for begin, step in up),
            ]
        merged = [
            one for place, one in enumerate(found) if not place or found[place - 1][1] != one[1]
        ]
        return cls(grid, _close_rungs(grid, merged, lower, cap))

    @property
    def exponents(self) -> NDArray[np.int64]:
        """The power of two that the step of each bucket is, shape (K + 1,)."""
        each = np.array([exponent_of(rung.step) for rung in self.rungs], dtype=np.int64)
        return np.repeat(each, self._sizes)

    @property
    def _sizes(self) -> NDArray[np.int64]:
        return np.diff(np.array([*(rung.start for rung in self.rungs), self.grid.size + 1]))

    def rung_of(self, buckets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the place of the rung of each bucket, shape (n,)."""
        return np.repeat(np.arange(len(self.rungs)), self._sizes)[buckets]


def choose_step(lower: Fraction, upper: Fraction) -> Fraction:
    """Return the smallest step, a power of two, in which a clip is narrow and close enough to 0."""
    needed = max(
        (upper - lower) / (1 << _WIDTH_BITS), max(abs(lower), abs(upper)) / (1 << _OFFSET_BITS)
    )
    # From the numbers of digits alone: this power is below what is needed, by a factor of less than
    # 4.
    step = Fraction(2) ** (needed.numerator.bit_length() - needed.denominator.bit_length() - 1)
    while step <= needed:
        step *= 2
    return step


def exponent_of(step: Fraction) -> int:
    """Return e of a step 2^e."""
    # A power of two has 1 for its numerator or its denominator.
    return step.numerator.bit_length() - step.denominator.bit_length()


def _climb(
    ends: NDArray[np.float64], limit: Fraction, step_to: Callable[[Fraction], Fraction]
) -> list[tuple[int, Fraction]]:
    """Return where rungs begin on the way up from the lower end of all clips, and their steps.

    Parameters
    ----------
    ends : array of float, shape (n,)
        Upper ends of the buckets on the way, rising.
    limit : Fraction
        No clip reaches farther.
    step_to : callable
        Returns the step of the narrowest clip up to an end.
    """
    found, start = [], 0
    while True:
        # Wider clips have larger steps, so this one divides those of all clips that hold the
        # bucket.
        step = step_to(min(Fraction(float(ends[start])), limit))
        found.append((start, step))
        # As far as a record has at most 2^52 of these steps.
        far = step * (1 << _OFFSET_BITS)
        start = int(np.searchsorted(ends, float(far), side="right"))
        if far >= limit or start == ends.size:
            return found


def _close_rungs(
    grid: BucketGrid, begun: list[tuple[int, Fraction]], lower: Fraction, cap: Fraction
) -> tuple[Rung, ...]:
    """Return the rungs, each with the whole steps between which its records count."""
    rungs = []
    for place, (start, step) in enumerate(begun):
        after = begun[place + 1][0] if place + 1 < len(begun) else None
        least = max(lower, Fraction(float(grid.edges[start - 1]))) if start else lower
        most = cap if after is None else min(cap, Fraction(float(grid.edges[after - 1])))
        low, high = (min(max(end, -CLAMP), CLAMP) for end in (least // step, -(-most // step)))
        rungs.append(Rung(start, low, high, step))
    return tuple(rungs)
