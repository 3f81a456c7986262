"""What the auditor looks at for selections without a fixed number of draws.

It is one try of a race, or a law that is stated.

What the auditor looks at for the sparse vector with Gumbel noise: its stated law.

An output is (asked, places of the positives).

Claim: each listed probability lies between its two decimals. Proof: docs/proofs/gumbel-sparse-vector.md.
Floats: none.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.audit.enumeration.laws import Finite
from sordino.audit.enumeration.played import check_size, make_step_reader, raced
from sordino.audit.enumeration.softmax import leads, peeled
from sordino.audit.enumeration.subject import Rows, Subject
from sordino.cost import Pure
from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    ExponentialMechanism,
    GumbelSparseVector,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothStepSelection,
)
from sordino.mechanisms.gumbel_sparse_vector import stages, weight
from sordino.mechanisms.permute_and_flip import decide as decide_permuted
from sordino.mechanisms.race import Gumbel
from sordino.mechanisms.randomized_response import standing
from sordino.mechanisms.smooth.smooth_step_selection import decide as decide_scaled
from sordino.noise.probability import Bounds, contexts

# ---- gumbel sparse vector ----------------------------------------------------------------------------------


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


_MOST_TURNS = 1 << 20


def exponential_mechanism(mechanism: ExponentialMechanism, n: int) -> Subject:
    """Return a race, or with the lead its law.

    The lead is the largest of a number of draws that has no bound, so that it cannot be played.
    """
    counts = make_step_reader(mechanism, n)
    common: dict[str, Any] = {
        "cost": mechanism.cost,
        "sensitivity": mechanism.sensitivity,
        "name": repr(mechanism),
    }
    # A single answer has no runner-up, and no lead is released.
    if mechanism.gap and n > 1:
        return Subject(
            laws=[], steps=counts, stated=lambda steps: leads(steps.tolist(), mechanism.rate), **common
        )
    return raced(mechanism.rate, counts, n, **common)


def randomized_response(mechanism: RandomizedResponse, n: int) -> Subject:
    """Return a race in which the largest answer stands one step above all others."""

    def steps(answers: Any) -> NDArray[np.int64]:
        found = standing(answers)
        check_size(found, n)
        return found

    return raced(mechanism.rate, steps, n, cost=mechanism.cost, name=repr(mechanism))


def permute_and_flip(mechanism: PermuteAndFlip, n: int) -> Subject:
    """Return noise on each answer, and a turn among equals."""
    steps = make_step_reader(mechanism, n)
    turns = math.lcm(*range(1, n + 1))  # a uniform number below it is uniform modulo every number of equals
    if turns > _MOST_TURNS:
        raise InvalidParameter(
            "audit.exact plays PermuteAndFlip with at most 16 answers, "
            f"whose turns among equals can be counted; got {n}. Audit fewer "
            "answers, or give audit.statistical its releases one by one."
        )

    def play(answers: Any, noise: Rows) -> Rows:
        # The last column is the turn among equals, the others are the noise of the answers.
        chosen: Rows = decide_permuted(steps(answers) + noise[:, :-1], noise[:, -1])
        return chosen

    return Subject(
        laws=[*[mechanism.noise] * n, Finite([1] * turns)],
        play=play,
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def noisy_top_k(mechanism: NoisyTopK, n: int) -> Subject | None:
    """Return the race of Gumbel noise, or the stated law of several, one after the other.

    None for noise that is added, which is played.
    """
    if not isinstance(mechanism.noise, Gumbel):
        return None
    if mechanism.k > n:
        raise InvalidParameter(f"NoisyTopK.k must be at most the number of answers {n}; got {mechanism.k}.")
    k, rate, steps = mechanism.k, mechanism.noise.rate, make_step_reader(mechanism, n)
    common: dict[str, Any] = {
        "cost": mechanism.cost,
        "sensitivity": mechanism.sensitivity,
        "name": repr(mechanism),
    }
    # The largest of answers with Gumbel noise is the winner of a race, which can be played.
    if k == 1:
        return raced(rate, steps, n, **common)
    return Subject(laws=[], steps=steps, stated=lambda found: peeled(found.tolist(), k, rate), **common)


def smooth_step_selection(mechanism: SmoothStepSelection, n: int) -> Subject:
    """Return noise on each score, in proportion to a private bound.

    Answers are the scores, followed by their smooth bound.
    """
    if n != mechanism.candidates + 1:
        raise InvalidParameter(
            f"audit.exact needs the {mechanism.candidates} scores of SmoothStepSelection, "
            f"followed by their smooth bound; got {n} numbers."
        )

    def play(answers: Any, noise: Rows) -> Rows:
        # Scores and bound go to their grids by the functions that a release calls.
        steps, scale = mechanism.on_grids(list(answers)[:-1], list(answers)[-1])
        return decide_scaled(steps, noise, scale, mechanism.heights)

    return Subject(
        laws=[mechanism.noise] * mechanism.candidates, play=play, cost=mechanism.cost, name=repr(mechanism)
    )
