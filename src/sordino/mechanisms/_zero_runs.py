"""The crossings of a public domain in which all but a few answers are 0, without asking every item.

Claim: the transcript has the law of the dense computation. Proof: docs/proofs/sparse-vector.md, "Implicit zeros".
Noise: the number of zero items of a run that cross is binomial; which ones, a uniform subset; their noise above the level, memoryless.
Floats: only the length of a run (any length is right, a good one is fast).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sordino.entropy import Entropy
from sordino.grid import Steps, add
from sordino.mechanisms._ahead import Ahead, Sampler
from sordino.mechanisms._crossings import Transcript, crossings, decide, lifted
from sordino.mechanisms._implicit_zeros import DENSE, _fresh_ranks
from sordino.noise import DiscreteLaplace, Geometric, binomial

_LISTED = 1 << 16  # at most so many listed items in a run, which a new threshold may make draw again
_AHEAD = 1 << 12
_HITS = 64  # about so many crossings in a run

Run = tuple[NDArray[np.int64], Steps]


def domain_crossings(
    steps: NDArray[np.int64],
    positions: NDArray[np.int64],
    size: int,
    cut: int,
    *,
    thresholds: Sampler,
    queries: Geometric | DiscreteLaplace,
    positives: int,
    resample: bool,
    entropy: Entropy,
) -> Transcript:
    """Ask all items of the domain in order until enough are found.

    Parameters
    ----------
    steps, positions : arrays of int, shape (n,)
        The answers that are not 0 and where they stand in the domain. Positions outside 0..size-1 and repeated ones are dropped.
    size : int
        Public number of items of the domain.
    cut : int
        The public threshold, in steps.
    thresholds, queries, positives, resample
        As in `crossings`.
    """
    inside = (positions >= 0) & (positions < size)
    positions, first = np.unique(positions[inside], return_index=True)
    steps = steps[inside][first]
    if size <= DENSE:
        dense = np.zeros(size, dtype=np.int64)
        dense[positions] = steps
        return crossings(
            dense - cut,
            thresholds=thresholds,
            queries=queries,
            positives=positives,
            resample=resample,
            passes=1,
            entropy=entropy,
        )
    found: list[tuple[NDArray[np.int64], Steps, int]] = []
    left, start, stages = positives, 0, 0
    drawn, threshold = Ahead(thresholds, entropy, 1, min(positives, _AHEAD)), None
    while left and start < size:
        if threshold is None:
            threshold, stages = drawn.take(), stages + 1
        most = 1 if resample else left
        end = start + _length(queries, cut + threshold, size - start, most)
        low, high = (int(x) for x in np.searchsorted(positions, [start, end]))
        if high - low > _LISTED:
            high, end = low + _LISTED, int(positions[low + _LISTED])
        listed = positions[low:high]
        noisy = add(steps[low:high] - cut, queries.sample(high - low, entropy))
        hits = decide(noisy, threshold, most)
        ranks, noise_of_zeros = _zero_hits(end - start - listed.size, cut + threshold, queries, entropy)
        # The r-th zero item of the run stands r places after its start plus one place for every listed item before it.
        zeros = start + ranks + np.searchsorted(listed - start - np.arange(listed.size), ranks, side="right")
        places = np.concatenate([listed[hits], zeros])
        values = np.concatenate([noisy[hits], noise_of_zeros - cut])
        order = np.argsort(places)[:most]
        found.append((places[order], lifted(values[order], threshold), 1))
        left -= order.size
        start = int(places[order[-1]]) + 1 if order.size and (resample or not left) else end
        threshold = None if resample and order.size else threshold
    drawn.wipe()
    return Transcript.of(found, start, stages)


def _length(law: Geometric | DiscreteLaplace, level: int, rest: int, most: int) -> int:
    """Return how many items to ask together: about twice as many as give what is still wanted."""
    wanted = min(2 * most + 8, _HITS)
    chance = math.exp(-min(float(law.rate) * max(level, 0), 700.0))
    return min(rest, math.ceil(wanted / chance) if wanted / chance < rest else rest)


def _zero_hits(n: int, level: int, law: Geometric | DiscreteLaplace, entropy: Entropy) -> Run:
    """Return which of `n` items in a row have noise of at least `level`, as ranks below n, and that noise."""
    if float(law.rate) * level < math.log(2):  # most of them do
        noise = law.sample(n, entropy)
        hits = np.flatnonzero(noise >= level)
        return hits, noise[hits]
    count = binomial(n, law.at_least(level), entropy) if n else 0
    ranks = _fresh_ranks(n, count, np.zeros(0, dtype=np.int64), entropy) if count else np.zeros(0, dtype=np.int64)
    above = Geometric(law.rate).sample(count, entropy)
    return np.sort(ranks), level + above if level < 1 << 60 else level + above.astype(object)
