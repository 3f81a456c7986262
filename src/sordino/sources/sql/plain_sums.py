"""Tells where numbers of a bucket can be added up as they are, and the steps follow from their sum.

That is so for whole numbers with steps of 1, 1/2, 1/4 and so on: inside its bucket a number x
counts x / step steps, without a rest, and beyond the outermost edges each counts the same
(docs/proofs/numbers.md, 3). The engine then adds up the column, and does no arithmetic for each
row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np

from sordino.columns.sum_steps import SumSteps
from sordino.sources.sql.number_kind import NumberKind

_BEYOND_BIGINT = 1 << 63


@final
@dataclass(frozen=True)
class PlainSums:
    """How the sums of buckets follow from sums of their numbers.

    Parameters
    ----------
    factors : tuple of int
        How many steps 1 is in each bucket.
    low, high : int
        What each number of the first and of the last bucket counts, in steps.
    ends : tuple of int
        Numbers of the type: what lies beyond them is in the same bucket, and counts the same.
    """

    factors: tuple[int, ...]
    low: int
    high: int
    ends: tuple[int, int]

    def find_steps(self, bucket: int, known: int, total: int) -> int:
        """Return the sum of the steps of `known` numbers of a bucket, which add up to `total`."""
        if bucket == 0:
            return self.low * known
        if bucket == len(self.factors) - 1:
            return self.high * known
        return self.factors[bucket] * total


def find_plain_sums(kind: NumberKind, ladder: SumSteps) -> PlainSums | None:
    """Return how the sums of a ladder's buckets follow from sums of numbers; None if they do not.

    The type of the column and the ladder decide, which are public.
    """
    # Sums of 2^63 numbers of 64 bits are within 128 bits.
    if kind.scale != 0 or not -_BEYOND_BIGINT <= kind.smallest < kind.largest < _BEYOND_BIGINT:
        return None
    places = ladder.rung_of(np.arange(ladder.grid.size + 1)).tolist()
    rungs = [ladder.rungs[place] for place in places]
    if any(rung.step.numerator > 1 for rung in rungs):
        return None
    factors = [rung.step.denominator for rung in rungs]
    # Bucket b has the whole numbers from edges[b - 1], rounded up, to below edges[b], rounded up.
    edges = [math.ceil(edge) for edge in ladder.grid.edges.tolist()]
    inside = all(
        least >= above or (rung.low <= least * factor and (above - 1) * factor <= rung.high)
        for least, above, rung, factor in zip(
            edges[:-1], edges[1:], rungs[1:-1], factors[1:-1], strict=True
        )
    )
    low, high = rungs[0].low, rungs[-1].high
    clipped = (edges[0] - 1) * factors[0] <= low and edges[-1] * factors[-1] >= high
    if not (inside and clipped):
        return None
    # Moved into the type: what lies beyond its ends no number reaches.
    least, most = (min(max(end, kind.smallest), kind.largest) for end in (edges[0] - 1, edges[-1]))
    return PlainSums(tuple(factors), low, high, (least, most))
