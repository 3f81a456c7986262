"""Looks for the worst pair of neighbors: small answers with all extreme moves, then single steps uphill.

Claim: none; every pair that is tried is a pair of neighbors, so what is found is a lower bound.
Deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

from sordino.audit.continuous.continuous import Continuous
from sordino.audit.enumeration.neighbours import Answers, covered, list_answers, moves
from sordino.audit.enumeration.subject import Subject
from sordino.constraints import POSITIVE
from sordino.errors import InvalidParameter
from sordino.sensitivity import Sensitivity

_SMALLEST_CLIMB = 1e-9  # a smaller step may be a matter of what was not played

Loss = Callable[[Any, Any], float]
Trial = tuple[float, Answers, Answers]


def worst_pairs(
    loss: Loss, subject: Subject | Continuous, n: int, start: list[tuple[Any, Any]], limit: int
) -> list[tuple[Answers, Answers]]:
    """Return the worst pair found within `limit` trials of `loss`, in a list.

    Half of the trials go to the lattice: answers in {0, step, 2 step}, nearest to all equal first, with every
    extreme move. The rest climb from the best pair: one answer of both sides, or of one side, goes up or down
    by a step, as long as that makes it worse.
    """
    if subject.sensitivity is None:
        raise InvalidParameter(
            "audit.exact with search needs to know the neighbours: give Subject(sensitivity=)."
        )
    sensitivity = subject.sensitivity
    step = _search_step(sensitivity)
    tried: dict[tuple[Answers, Answers], float] = {}

    def value(a: Answers, b: Answers) -> float:
        # To audit a pair is dear: none is audited twice.
        if (a, b) not in tried:
            tried[a, b] = loss(a, b)
        return tried[a, b]

    lattice = list(islice(_propose_pairs(start, n, sensitivity, step), max(1, limit // 2)))
    if not lattice:
        raise InvalidParameter(
            "audit.exact with search found no pair of neighbours on the grid; "
            "give a bound of at least one step."
        )
    best = max(((value(a, b), a, b) for a, b in lattice), key=_loss_of_trial)
    while True:
        # Pairs that were tried are known; only new ones count against the limit.
        around = (pair for pair in _list_steps_from(best[1], best[2], sensitivity, step) if pair not in tried)
        trials = [(value(a, b), a, b) for a, b in islice(around, max(0, limit - len(tried)))]
        climbed = max([best, *trials], key=_loss_of_trial)
        # The climb ends at the first round that gains nothing, so also where the limit is used up.
        if climbed[0] <= best[0] + _SMALLEST_CLIMB:
            return [(best[1], best[2])]
        best = climbed


def _loss_of_trial(trial: Trial) -> float:
    return trial[0]


def _search_step(sensitivity: Sensitivity) -> Fraction:
    # Without a step the only grid is that of the bound itself.
    return Fraction(
        POSITIVE("Sensitivity.step", sensitivity.bound if sensitivity.step is None else sensitivity.step)
    )


def _propose_pairs(
    start: list[tuple[Any, Any]], n: int, sensitivity: Sensitivity, step: Fraction
) -> Iterator[tuple[Answers, Answers]]:
    # The pairs of the caller come first, so that the climb may start from them.
    for a, b in start:
        left, right = list_answers(a, n), list_answers(b, n)
        if len(left) != n:
            raise InvalidParameter(
                "audit.exact.n must be the number of answers of the pairs that are given, "
                f"{len(left)}; got {n}."
            )
        if left != right:
            yield _simplify_answers(left), _simplify_answers(right)
    for base in _list_bases(n):
        for move in moves(n, sensitivity, step):
            a = [step * x for x in base]
            yield _simplify_answers(a), _simplify_answers([x + y for x, y in zip(a, move, strict=True)])


def _list_bases(n: int) -> Iterator[tuple[int, ...]]:
    """Yield lists of 0, 1 and 2, the flattest first.

    All answers shifted together are tried by the climb, so that some entry is 0.
    """
    yield (0,) * n
    for top in (1, 2):
        for total in range(top, top * n - top + 1):
            yield from (base for base in _list_with_sum(n, total, top) if max(base) == top and min(base) == 0)


def _list_with_sum(n: int, total: int, top: int) -> Iterator[tuple[int, ...]]:
    """Yield all lists of n whole numbers from 0 to `top` with this sum, in the order of tuples."""
    if n == 0:
        yield ()
        return
    # What the other entries cannot hold together must be in the first one.
    for first in range(max(0, total - top * (n - 1)), min(top, total) + 1):
        for rest in _list_with_sum(n - 1, total - first, top):
            yield (first, *rest)


def _list_steps_from(
    a: Answers, b: Answers, sensitivity: Sensitivity, step: Fraction
) -> Iterator[tuple[Answers, Answers]]:
    for i in range(len(a)):
        # One answer goes up or down by a step: on both sides, on the second one, or on the first one.
        for up_a, up_b in ((1, 1), (-1, -1), (0, 1), (0, -1), (1, 0), (-1, 0)):
            left = [*a[:i], a[i] + up_a * step, *a[i + 1 :]]
            right = [*b[:i], b[i] + up_b * step, *b[i + 1 :]]
            if left != right and covered([y - x for x, y in zip(left, right, strict=True)], sensitivity):
                yield _simplify_answers(left), _simplify_answers(right)


def _simplify_answers(answers: Any) -> Answers:
    """Return the answers, those that are whole numbers as int."""
    return tuple(int(x) if x == int(x) else x for x in answers)
