"""What the auditor looks at for selections without a fixed number of draws.

It is one try of a race, or a stated law.

Claim: each listed probability lies between its two decimals. Proof:
docs/proofs/gumbel-sparse-vector.md; docs/proofs/exponential-mechanism.md (1), "Top k";
docs/proofs/joint-top-k.md.
Floats: none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.mechanisms import (
    ExponentialMechanism,
    GumbelSparseVector,
    JointTopK,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothStepSelection,
)
from sordino.mechanisms.crossings.threshold_scan import weight
from sordino.mechanisms.permute_and_flip import decide as decide_permuted
from sordino.mechanisms.race import Gumbel
from sordino.mechanisms.randomized_response import standing
from sordino.mechanisms.smooth.smooth_step_selection import decide as decide_scaled
from sordino.noise.probability import Bounds
from sordino_audit.enumeration import decimals
from sordino_audit.enumeration.laws import Finite
from sordino_audit.enumeration.subject import (
    Rows,
    Subject,
    check_domain,
    check_size,
    make_step_reader,
    nonzero,
    raced,
)

# ---- softmax -------------------------------------------------------------------------------------


_NEGLIGIBLE_LEAD = Decimal(
    "1e-30"
)  # leads are listed until each place has less than about this left
_LEAD_NATS = 70  # ln 1e30, and a bit


@final
@dataclass(frozen=True, eq=False)
class Counted:
    """Outputs with the bounds of their probabilities, computed as they are asked for.

    `size` is about how many there are, at most.
    """

    size: int
    outputs: Iterable[tuple[Any, Bounds]]

    def __iter__(self) -> Iterator[tuple[Any, Bounds]]:
        return iter(self.outputs)


def leads(q: list[int], rate: Fraction) -> Counted:
    """Return every (place, lead) whose lead matters, with the bounds of its probability."""
    # How far each answer leads all others: so many leads are likely, before their probabilities
    # fall.
    above = [max(0, x - max(q[:i] + q[i + 1 :])) for i, x in enumerate(q)]
    return Counted(sum(far + math.ceil(_LEAD_NATS / rate) for far in above), _list_leads(q, rate))


def peeled(q: list[int], k: int, rate: Fraction) -> Counted:
    """Return every ordered choice of `k` places.

    Each place has a probability proportional to its weight among those that are left.
    """
    return Counted(math.perm(len(q), k), _list_choices(q, k, rate))


def _list_leads(q: list[int], rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    """Yield the law of place and lead.

    With w the weight of the place and R that of all others, P(lead = m) = w e^(-rate m) R (1 -
    e^-rate) / (A(m) A(m + 1)), where A(m) = w e^(-rate m) + R.
    """
    weights = _enclose_weights(q, rate)
    fall = decimals.subtract(decimals.ONE, decimals.enclose_decay(rate))
    for i, x in enumerate(q):
        others = decimals.sum_of(weight for j, weight in enumerate(weights) if j != i)
        little = decimals.multiply(others, (_NEGLIGIBLE_LEAD, _NEGLIGIBLE_LEAD))[0]
        m, after = 0, weights[i]
        # What is left of a place, relative to the others, falls with the lead: the list ends where
        # that is negligible.
        while m == 0 or after[1] > little:
            here, after = after, decimals.enclose_decay(rate * (max(q) - x + m + 1))
            # All factors are positive, so that bounds of them multiply to bounds of the formula
            # above.
            below = decimals.multiply(
                decimals.add_bounds(here, others), decimals.add_bounds(after, others)
            )
            yield (i, m), decimals.divide(decimals.product_of([here, others, fall]), below)
            m += 1


def _list_choices(q: list[int], k: int, rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    weights = _enclose_weights(q, rate)
    for chosen in permutations(range(len(q)), k):
        turns = []
        for turn, i in enumerate(chosen):
            # What was chosen before takes no part any more.
            left = decimals.sum_of(
                weight for j, weight in enumerate(weights) if j not in chosen[:turn]
            )
            turns.append(decimals.divide(weights[i], left))
        yield chosen, decimals.product_of(turns)


def _enclose_weights(q: list[int], rate: Fraction) -> list[Bounds]:
    # Relative to the largest answer: no weight is above 1, and only differences count.
    return [decimals.enclose_decay(rate * (max(q) - x)) for x in q]


# ---- gumbel sparse vector ------------------------------------------------------------------------


_TRANSCRIPT_DIGITS = 60


def gumbel_sparse_vector(mechanism: GumbelSparseVector, n: int) -> Subject:
    """Return the law of every transcript."""

    def heights(answers: Any) -> Rows:
        found = mechanism.heights(list(answers))
        check_size(found, n)
        return found

    return Subject(
        laws=[],
        stated=lambda q: transcripts(q.tolist(), mechanism.noise.rate, mechanism.positives),
        steps=heights,
        # More is claimed than an epsilon, a curve, and that is about all transcripts together. What
        # each one spends is a pure epsilon of its own, with a test of its own.
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def transcripts(heights: list[int], rate: Fraction, positives: int) -> list[tuple[Any, Bounds]]:
    """Return every transcript (asked, places) with bounds of its probability.

    That is a product over the thresholds. With w_i = e^(rate h_i) and A_m = 1 + w_1 + ... + w_m
    since the threshold, P(first above at m) = w_m / (A_m A_(m-1)), P(none) = 1/A_n.
    """
    n, found = len(heights), []

    def go_on(places: tuple[int, ...], start: int, so_far: Bounds) -> None:
        # A transcript ends with its last positive, or with the list.
        if len(places) == positives or start == n:
            found.append(((start, *places), so_far))
            return
        # A_m starts at 1 with each new threshold.
        before = decimals.ONE
        for m in range(start, n):
            w = weight([heights[m]], [1], rate, _TRANSCRIPT_DIGITS)
            after = decimals.add_bounds(before, w)
            chance = decimals.divide(decimals.multiply(so_far, w), decimals.multiply(after, before))
            # The stream goes on behind the positive, with a new threshold.
            go_on((*places, m), m + 1, chance)
            before = after
        # No answer that is left was above: 1/A_n.
        found.append(((n, *places), decimals.divide(so_far, before)))

    go_on((), 0, decimals.ONE)
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
            laws=[],
            steps=counts,
            stated=lambda steps: leads(steps.tolist(), mechanism.rate),
            **common,
        )
    return raced(mechanism.rate, counts, n, **common)


def randomized_response(mechanism: RandomizedResponse, n: int) -> Subject:
    """Return a race in which the largest answer stands one step above all others."""
    if mechanism.candidates not in {None, n}:
        raise InvalidParameter(
            f"audit.exact needs the {mechanism.candidates} answers of RandomizedResponse; got {n}."
        )

    def steps(answers: Any) -> NDArray[np.int64]:
        found = standing(answers)
        check_size(found, n)
        return found

    return raced(mechanism.rate, steps, n, cost=mechanism.cost, name=repr(mechanism))


def permute_and_flip(mechanism: PermuteAndFlip, n: int) -> Subject:
    """Return noise on each answer, and a turn among equals."""
    steps = make_step_reader(mechanism, n)
    turns = math.lcm(
        *range(1, n + 1)
    )  # a uniform number below it is uniform modulo every number of equals
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
        raise InvalidParameter(
            f"NoisyTopK.k must be at most the number of answers {n}; got {mechanism.k}."
        )
    k, rate, steps = mechanism.k, mechanism.noise.rate, make_step_reader(mechanism, n)
    common: dict[str, Any] = {
        "cost": mechanism.cost,
        "sensitivity": mechanism.sensitivity,
        "name": repr(mechanism),
    }
    # The largest of answers with Gumbel noise is the winner of a race, which can be played.
    if k == 1:
        return raced(rate, steps, n, **common)
    return Subject(
        laws=[], steps=steps, stated=lambda found: peeled(found.tolist(), k, rate), **common
    )


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
        laws=[mechanism.noise] * mechanism.candidates,
        play=play,
        cost=mechanism.cost,
        name=repr(mechanism),
    )


# ---- joint top k ---------------------------------------------------------------------------------


def joint_top_k(mechanism: JointTopK, n: int) -> Subject:
    """Return the stated law of the set; with a domain, over all of its items."""
    domain = mechanism.domain_size
    check_domain(domain)
    size = n if domain is None else domain
    if mechanism.k > size:
        raise InvalidParameter(
            f"JointTopK.k must be at most the number of answers {size}; got {mechanism.k}."
        )

    def steps(answers: Any) -> NDArray[np.int64]:
        given = (answers,) if domain is None else nonzero(answers)
        # The rounding and the positions are those of the library.
        found, at, _ = mechanism.on_grid(*given)
        if domain is None:
            check_size(found, n)
        dense = np.zeros(size, dtype=np.int64)
        dense[at] = found
        return dense

    return Subject(
        laws=[],
        steps=steps,
        stated=lambda found: joint_sets(found.tolist(), mechanism.k, mechanism.rate),
        cost=mechanism.cost,
        sensitivity=mechanism.sensitivity,
        name=repr(mechanism),
    )


def joint_sets(q: list[int], k: int, rate: Fraction) -> Counted:
    """Return every set of `k` places with bounds of its probability.

    That is proportional to e^(-rate/2 regret).
    """
    return Counted(math.comb(len(q), k), _list_sets(q, k, rate))


def _list_sets(q: list[int], k: int, rate: Fraction) -> Iterator[tuple[Any, Bounds]]:
    regrets = {}
    for chosen in combinations(range(len(q)), k):
        outside = [x for i, x in enumerate(q) if i not in chosen]
        # If nothing is outside, there is one set, and no regret.
        regrets[chosen] = max(outside) - min(q[i] for i in chosen) if outside else 0
    least = min(regrets.values())
    # Relative to the best set: no weight is above 1.
    weights = {d: decimals.enclose_decay(rate * (d - least) / 2) for d in set(regrets.values())}
    whole = decimals.sum_of(
        decimals.multiply(weights[d], (Decimal(times), Decimal(times)))
        for d, times in Counter(regrets.values()).items()
    )
    for chosen, d in regrets.items():
        yield chosen, decimals.divide(weights[d], whole)
