"""What the auditor looks at for clipped sums and means: the law of the clip, then of the noisy totals.

The totals are put in classes that lose nothing.

Claim: each listed probability lies between its two decimals, and no output loses more than its class. Proof:
docs/proofs/above-threshold.md, "The audit".
Floats: none.
"""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

from sordino.audit.enumeration.scans import positions
from sordino.audit.enumeration.subject import Stated, Subject
from sordino.errors import InvalidParameter
from sordino.estimators import BucketCounts, ClippedMean, ClippedSum, ClippedVariance
from sordino.estimators.clipped.clip import Clip
from sordino.noise import DiscreteLaplace
from sordino.noise.probability import Bounds, contexts, exp_bounds

_CLIP_DIGITS = 60
_MOST_CLIPPED_RECORDS = 16

Clipped = ClippedSum | ClippedMean | ClippedVariance


# Neighbors may have different numbers of records, so that `n` says nothing.
def clipped(mechanism: Clipped, n: int) -> Subject:  # noqa: ARG001
    """Return the law of the clip, and of the noisy totals within it."""
    return Subject(
        laws=[], stated=partial(_clipped_law, mechanism), cost=mechanism.cost, name=repr(mechanism)
    )


def _clipped_law(mechanism: Clipped, values: Any) -> Stated:
    """Return the law of (tests of each search, class of each noisy total)."""
    if len(values) > _MOST_CLIPPED_RECORDS:
        raise InvalidParameter(
            f"audit.exact needs at most {_MOST_CLIPPED_RECORDS} records for a clipped sum or mean; "
            f"got {len(values)}."
        )
    down, up = contexts(_CLIP_DIGITS)
    for tests, (low, high) in clips(mechanism, values):
        clip = mechanism.search.clip(tests, simulated=True)
        # The noise depends on the clip alone, which is public once it was released.
        law, ends = mechanism.noise_for(clip).mechanism.noise, reach(mechanism, clip)
        classes = [
            thirds(law, total, *end) for total, end in zip(totals(mechanism, values, clip), ends, strict=True)
        ]
        # Each total has fresh noise: given the clip the probabilities of their classes multiply.
        for each in product(*(enumerate(one) for one in classes)):
            least, most = low, high
            for _, (a, b) in each:
                least, most = down.multiply(least, a), up.multiply(most, b)
            yield (
                # A search in vain is written as 0: any other one tests an edge at least.
                (*((0 if one is None else one) for one in tests), *(place for place, _ in each)),
                (least, most),
            )


def clips(mechanism: Clipped, values: Any) -> list[tuple[tuple[int | None, ...], Bounds]]:
    """Return what the searches may find, with bounds of the probability.

    That is how many edges each of them tests, None for all in vain.
    """
    search = mechanism.search
    runs = search.runs(BucketCounts.of(values, grid=mechanism.grid))
    laws = [positions(search.scan, answers.tolist(), lengths.tolist()) for answers, lengths in runs]
    down, up = contexts(_CLIP_DIGITS)
    found = []
    # Each search has fresh noise: the law of all of them is a product.
    for each in product(*laws):
        low = high = Decimal(1)
        for _, (least, most) in each:
            low, high = down.multiply(low, least), up.multiply(high, most)
        found.append((tuple(None if place is None else place + 1 for place, _ in each), (low, high)))
    return found


def totals(mechanism: Clipped, values: Any, clip: Clip) -> list[int]:
    """Return the totals that meet the noise, in noise steps, as `release` does."""
    shift = mechanism.noise_for(clip).shift
    return [total >> shift for total in mechanism.totals(values, clip)]


def reach(mechanism: Clipped, clip: Clip) -> list[tuple[int, int]]:
    """Return two numbers for each total, in noise steps.

    No small list of records has a total below the first or above the second.
    """
    # One record more than a list may have: no total lies beyond the ends.
    shift, most = mechanism.noise_for(clip).shift, _MOST_CLIPPED_RECORDS + 1
    if isinstance(mechanism, ClippedVariance):
        # No record adds less than 0, or more than the squared width, to any of three totals.
        end = (most * (clip.high - clip.low) ** 2 >> shift) + 1
        return [(-2 * end, 2 * end), (0, 3 * end)] if mechanism.size_is_public else [(0, end)] * 3
    if isinstance(mechanism, ClippedMean) and not mechanism.size_is_public:
        return [(0, (most * (clip.high - clip.low) >> shift) + 1)] * 2
    return [((most * min(clip.low, 0) >> shift) - 1, (most * max(clip.high, 0) >> shift) + 1)]


def thirds(law: DiscreteLaplace, total: int, low: int, high: int) -> list[Bounds]:
    """Return bounds of the probabilities that total plus noise is at most `low`, between, or at least `high`.

    This takes low <= total <= high > low.

    Two totals between the ends have the same ratio at every number up to `low`, that of the whole class, and
    so from `high` on: there the log ratio is the rate times how far they are apart, which no number between
    exceeds.
    """
    down, up = contexts(_CLIP_DIGITS)
    r = exp_bounds(law.rate, _CLIP_DIGITS)

    def tail(distance: int) -> Bounds:  # P(noise >= distance) = r^distance / (1 + r), distance >= 0
        far = exp_bounds(law.rate * distance, _CLIP_DIGITS)
        return down.divide(far[0], up.add(1, r[1])), up.divide(far[1], down.add(1, r[0]))

    below, above = tail(total - low), tail(high - total)
    # The three probabilities add up to 1; the bound may fall below 0, which is cut off.
    middle = down.subtract(1, up.add(below[1], above[1])), up.subtract(1, down.add(below[0], above[0]))
    return [below, (max(middle[0], Decimal(0)), middle[1]), above]
