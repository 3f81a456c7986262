"""The sparse vectors without gaps as the auditor sees them: one played, one by its law; an output is (asked, places of the positives).

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.audit._sparse_vector import _Played
from sordino.audit._subject import Rows, Subject, subject_of
from sordino.cost import Pure
from sordino.entropy import SYSTEM
from sordino.errors import InvalidParameter
from sordino.mechanisms import GaussianSparseVector, GumbelSparseVector
from sordino.mechanisms._gaussian_sparse_vector import play as play_gaussian
from sordino.mechanisms._gumbel_sparse_vector import stages, weight
from sordino.noise._probability import Bounds, contexts

_DIGITS = 60


@subject_of.register
def _(mechanism: GaussianSparseVector, n: int) -> Subject:
    def play(answers: Any, noise: Rows) -> list[tuple[int, ...]]:
        heights, outputs = mechanism.heights(list(answers)), []
        for row in noise:  # the very steps of `release`
            places, asked = play_gaussian(heights, _Played(row[:1]), _Played(row[1:]), mechanism.positives, SYSTEM)
            outputs.append((asked, *places.tolist()))
        return outputs

    return Subject(
        laws=[mechanism.threshold_noise, *[mechanism.noise] * n],
        play=play,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


@subject_of.register
def _(mechanism: GumbelSparseVector, n: int) -> Subject:
    def heights(answers: Any) -> Rows:
        found = mechanism.heights(list(answers))
        if found.size != n:
            raise InvalidParameter(f"audit.exact needs the same number of answers on both sides; got {n} and {found.size}.")
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

    With w_i = e^(rate h_i) and A_m = 1 + w_1 + ... + w_m since the threshold, P(first above at m) = w_m / (A_m A_(m-1)), P(none) = 1/A_n.
    """
    down, up = contexts(_DIGITS)
    n, found = len(heights), []

    def go_on(places: tuple[int, ...], start: int, so_far: Bounds) -> None:
        if len(places) == positives or start == n:
            found.append(((start, *places), so_far))
            return
        before = Decimal(1), Decimal(1)
        for m in range(start, n):
            w = weight([heights[m]], [1], rate, _DIGITS)
            after = down.add(before[0], w[0]), up.add(before[1], w[1])
            low = down.divide(down.multiply(so_far[0], w[0]), up.multiply(after[1], before[1]))
            high = up.divide(up.multiply(so_far[1], w[1]), down.multiply(after[0], before[0]))
            go_on((*places, m), m + 1, (low, high))
            before = after
        found.append(((n, *places), (down.divide(so_far[0], before[1]), up.divide(so_far[1], before[0]))))

    go_on((), 0, (Decimal(1), Decimal(1)))
    return found
