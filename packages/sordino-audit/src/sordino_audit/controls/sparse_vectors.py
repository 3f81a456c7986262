"""Controls: sparse vectors as they were published, right and wrong ones, with whole-number one-sided noise.

The threshold is 0.

Claim: the verdict and the loss that each control carries [lyu2017; ding2022]. Never a mechanism of this
library.
Noise: one coordinate for each threshold, then one for each query. One-sided noise attains the losses that
Laplace noise approaches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY
from sordino.cost import Pure
from sordino.noise import Geometric
from sordino.sensitivity import COUNTING, Sensitivity
from sordino_audit.controls.control import Control
from sordino_audit.enumeration.subject import Subject

Rows = NDArray[np.int64]

UNASKED, BELOW, ABOVE = -1, 0, 1


def play_queries(
    q: Any,
    noise: Rows,
    *,
    thresholds: int = 1,
    positives: int | None = 1,
    reveal: Callable[[Rows, Rows], Rows] | None = None,
    sign: int = 1,
) -> Rows:
    """Return transcripts, shape (N, 2n): for each query whether it was above, and what was revealed of it.

    What is not revealed is 0. With more than one threshold the next one is taken after each positive. `sign`
    -1 subtracts the noise of the threshold.
    """
    rho, xi = sign * noise[:, :thresholds], noise[:, thresholds:]
    rows = np.zeros((noise.shape[0], 2 * len(q)), dtype=np.int64)
    found = np.zeros(noise.shape[0], dtype=np.int64)
    for i, answer in enumerate(q):
        asked = np.full(found.shape, fill_value=True) if positives is None else found < positives
        # After the last positive nothing is asked any more, but the index must stay in range.
        threshold = rho[np.arange(found.size), np.minimum(found, thresholds - 1)]
        # Without noise of its own a query is compared as it is [lyu2017, Alg. 5].
        value = answer + xi[:, i] if xi.shape[1] else np.full(found.shape, answer)
        above = asked & (value >= threshold)
        rows[:, 2 * i] = np.where(asked, np.where(above, ABOVE, BELOW), UNASKED)
        if reveal is not None:
            rows[:, 2 * i + 1] = np.where(above, reveal(value, threshold), 0)
        # Each transcript counts its own positives.
        found += above
    return rows


def gap(value: Rows, threshold: Rows) -> Rows:
    """Reveal how far the noisy query lies above the noisy threshold, which costs nothing more."""
    return value - threshold


def noisy_query(value: Rows, threshold: Rows) -> Rows:  # noqa: ARG001 - the signature of what can be revealed
    """Reveal the noisy query that was compared, which is not free."""
    return value


def sparse(
    *,
    epsilon: Fraction | int,
    rates: tuple[list[Fraction | int], list[Fraction | int]],
    sensitivity: Sensitivity = EITHER_WAY,
    cost_of: Callable[[Any], Pure] | None = None,
    name: str,
    **options: Any,
) -> Subject:
    """Return a sparse vector with geometric noise of these rates for thresholds and queries, at `epsilon`."""
    return Subject(
        laws=[Geometric(Fraction(rate)) for part in rates for rate in part],
        play=partial(play_queries, thresholds=len(rates[0]), **options),
        cost=Pure(epsilon=epsilon),
        cost_of=cost_of,
        sensitivity=sensitivity,
        name=name,
    )


def _price_positives(transcript: tuple[int, ...]) -> Pure:
    """Return 1 for the threshold and 1 for each positive.

    That is what is spent where queries have a rate of 1/2 and move by 1 either way.
    """
    return Pure(epsilon=1 + sum(flag == ABOVE for flag in transcript[::2]))


HALF = Fraction(1, 2)

SPARSE_VECTORS = (
    # Right ones.
    Control(
        name="sparse vector, noise added on both sides",
        subject=sparse(name="Lyu, Su, Li: Algorithm 1", epsilon=2, rates=([1], [HALF, HALF])),
        pair=((0, 0), (1, -1)),
        loss=2,
        broken=False,
        source="lyu2017, Alg. 1",
    ),
    Control(
        name="sparse vector with gaps, each transcript at its own cost",
        subject=sparse(
            name="sparse vector with gap",
            epsilon=3,
            rates=([1], [HALF, HALF]),
            positives=2,
            reveal=gap,
            cost_of=_price_positives,
        ),
        pair=((0, 0), (1, -1)),
        loss=2,
        broken=False,
        source="ding2022",
    ),
    Control(
        name="sparse vector, monotone queries at half the noise",
        subject=sparse(name="monotone sparse vector", epsilon=2, rates=([1], [1, 1]), sensitivity=COUNTING),
        pair=((0, 0), (1, 0)),
        loss=2,
        broken=False,
        source="lyu2017",
    ),
    Control(
        name="a new threshold after each positive, noise for all of them",
        subject=sparse(name="Dwork, Roth: book", epsilon=8, rates=([2, 2], [1, 1]), positives=2),
        pair=((0, 0), (1, -1)),
        loss=4,  # two queries show one negative and one positive: half of what a longer stream can lose
        broken=False,
        source="lyu2017, Alg. 2",
    ),
    # Wrong ones: each loses more than it is sold for.
    Control(
        name="publishes the noisy query that was compared",
        subject=sparse(name="Roth: lecture notes", epsilon=2, rates=([1], [1, 1]), reveal=noisy_query),
        pair=((0, 0), (1, 0)),
        loss=math.inf,
        source="lyu2017, Alg. 3",
    ),
    Control(
        name="noise of the queries does not grow with the number of positives",
        subject=sparse(name="Lee, Clifton", epsilon=2, rates=([HALF], [3 * HALF] * 3), positives=2),
        pair=((0, 0, 0), (1, -1, -1)),
        loss=6.5,  # (1 + 6c)/4 epsilon for c = 2 positives
        source="lyu2017, Alg. 4",
    ),
    Control(
        name="no noise on the queries, any number of positives",
        subject=sparse(name="Stoddard, Chen, Machanavajjhala", epsilon=2, rates=([1], []), positives=None),
        pair=((0, 1), (1, 0)),
        loss=math.inf,
        source="lyu2017, Alg. 5",
    ),
    Control(
        name="any number of positives at the price of one",
        subject=sparse(name="Chen, Xiao, Zhang, Xu", epsilon=2, rates=([1], [1, 1, 1]), positives=None),
        pair=((0, 0, 0), (1, -1, -1)),
        loss=5,  # (1/2 + t) epsilon for t = 2 positives: no bound for longer streams
        source="lyu2017, Alg. 6",
    ),
    Control(
        name="one-sided noise subtracted from the threshold",
        subject=sparse(name="T - Exp", epsilon=2, rates=([1], [HALF]), sign=-1),
        pair=((-1,), (0,)),
        loss=math.inf,
        source="an answer on the threshold can no longer lie below it",
    ),
    Control(
        name="noise for monotone queries where answers move both ways",
        subject=sparse(name="monotone scale under replace-one", epsilon=2, rates=([1], [1, 1])),
        pair=((0, 0), (1, -1)),
        loss=3,
        source="the threshold once, each positive twice",
    ),
    Control(
        name="a positive that is not paid for",
        subject=sparse(
            name="refund of a positive",
            epsilon=3,
            rates=([1], [HALF, HALF]),
            positives=2,
            cost_of=lambda transcript: Pure(epsilon=1 if sum(transcript[::2]) == 1 else 3),
        ),
        pair=((0, 0), (1, -1)),
        loss=2,
        source="a transcript with one positive spends 2 and says 1",
    ),
)
