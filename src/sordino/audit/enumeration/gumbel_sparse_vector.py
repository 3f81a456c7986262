"""What the auditor looks at for the sparse vector with Gumbel noise: its stated law.

An output is (asked, places of the positives).

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.audit.enumeration.played import check_size
from sordino.audit.enumeration.subject import Rows, Subject
from sordino.cost import Pure
from sordino.mechanisms import GumbelSparseVector
from sordino.mechanisms.gumbel_sparse_vector import stages, weight
from sordino.noise.probability import Bounds, contexts

_TRANSCRIPT_DIGITS = 60


def gumbel_sparse_vector(mechanism: GumbelSparseVector, n: int) -> Subject:
    """Return the law of every transcript."""

    def heights(answers: Any) -> Rows:
        found = mechanism.heights(list(answers))
        check_size(found, n)
        return found

    def spent(output: tuple[int, ...]) -> Pure:
        return mechanism.spent(len(output) - 1, stages(np.array(output[1:]), output[0]))

    return Subject(
        laws=[],
        stated=lambda q: transcripts(q.tolist(), mechanism.noise.rate, mechanism.positives),
        steps=heights,
        cost=mechanism.cost,
        # For monotone answers more is claimed than an epsilon: an interval, of the whole.
        cost_of=spent if isinstance(mechanism.cost, Pure) else None,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def transcripts(heights: list[int], rate: Fraction, positives: int) -> list[tuple[Any, Bounds]]:
    """Return every transcript (asked, places) with bounds of its probability, a product over the thresholds.

    With w_i = e^(rate h_i) and A_m = 1 + w_1 + ... + w_m since the threshold, P(first above at m) = w_m /
    (A_m A_(m-1)), P(none) = 1/A_n.
    """
    down, up = contexts(_TRANSCRIPT_DIGITS)
    n, found = len(heights), []

    def go_on(places: tuple[int, ...], start: int, so_far: Bounds) -> None:
        # A transcript ends with its last positive, or with the list.
        if len(places) == positives or start == n:
            found.append(((start, *places), so_far))
            return
        # A_m starts at 1 with each new threshold.
        before = Decimal(1), Decimal(1)
        for m in range(start, n):
            w = weight([heights[m]], [1], rate, _TRANSCRIPT_DIGITS)
            after = down.add(before[0], w[0]), up.add(before[1], w[1])
            low = down.divide(down.multiply(so_far[0], w[0]), up.multiply(after[1], before[1]))
            high = up.divide(up.multiply(so_far[1], w[1]), down.multiply(after[0], before[0]))
            # The stream goes on behind the positive, with a new threshold.
            go_on((*places, m), m + 1, (low, high))
            before = after
        # No answer that is left was above: 1/A_n.
        found.append(((n, *places), (down.divide(so_far[0], before[1]), up.divide(so_far[1], before[0]))))

    go_on((), 0, (Decimal(1), Decimal(1)))
    return found
