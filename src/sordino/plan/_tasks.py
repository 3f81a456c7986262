"""What is asked of each mechanism when its accuracy is stated: which answers shall be found, and how likely that fails at a margin.

Claim: the failure at a margin is at least that of all answers that keep it. Proof: docs/proofs/accuracy.md.
Floats: a failure is rounded up; margins are compared with the grid as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from typing import Any

from sordino.constraints import FINITE, shown
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP
from sordino.mechanisms import (
    AdaptiveSparseVector,
    ExponentialMechanism,
    GaussianSparseVector,
    GumbelSparseVector,
    HybridSparseVector,
    HybridTopK,
    NoisyTopK,
    PermuteAndFlip,
    SparseVector,
)
from sordino.mechanisms._branches import cuts_of
from sordino.mechanisms._gumbel_top_k import Gumbel
from sordino.mechanisms._thresholds import cut_at
from sordino.noise import DiscreteLaplace, Geometric
from sordino.plan._selection import exponential_failure, gumbel_failure, peeled_failure, permuted_failure
from sordino.plan._success import Noise, Question, expected, success

_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class Asked:
    """What is asked of a mechanism: the margins that count, in steps, the failure at a margin, and words for both."""

    step: Fraction
    least: int
    guess: int
    failure: Callable[[Fraction], float]
    positives: int | None
    says: str


@singledispatch
def asked(mechanism: Any, answers: int) -> Asked:  # noqa: ARG001 - registered functions use it
    """Return what is asked of a mechanism with so many answers.

    Raises
    ------
    InvalidParameter
        If nothing is proved for the mechanism, or it does not take so many answers.
    """
    raise InvalidParameter(
        "plan.accuracy.mechanism must be a SparseVector, AdaptiveSparseVector, GaussianSparseVector, GumbelSparseVector, HybridTopK, "
        f"HybridSparseVector, ExponentialMechanism, PermuteAndFlip or NoisyTopK; got {shown(mechanism)}."
    )


@asked.register
def _(mechanism: SparseVector, answers: int) -> Asked:
    c, [cut] = mechanism.positives, cuts_of(mechanism, mechanism.threshold)
    stages, times = (1, c) if mechanism.resample else (c, 1)

    def failure(low: int, high: int) -> float:
        rightly = success(answers, stages, low - cut.steps, high - cut.steps, mechanism.noise, mechanism.threshold_noise)
        return _above(-math.expm1(times * math.log(rightly)) if rightly > 0 else 1.0)

    return _searching(mechanism, 1 / mechanism.noise.rate, c, _in_turn(answers, c), failure)


@asked.register
def _(mechanism: AdaptiveSparseVector, answers: int) -> Asked:
    c, cuts = mechanism.at_least, cuts_of(mechanism, mechanism.threshold)
    branches = list(zip(mechanism.branch_noise, (cut.steps for cut in cuts), strict=True))

    def failure(low: int, high: int) -> float:
        passed = [Question(law, low - cut, answers * c) for law, cut in branches]
        return _above(1 - expected(mechanism.threshold_noise, passed, [Question(law, high - cut) for law, cut in branches], c))

    return _searching(mechanism, 1 / mechanism.branch_noise[-1].rate, c, _in_turn(answers, c), failure)


@asked.register
def _(mechanism: GaussianSparseVector, answers: int) -> Asked:
    c, cut, most = mechanism.positives, mechanism.cut().steps, mechanism.questions
    if most is not None and (answers + 1) * c > most:
        raise InvalidParameter(
            f"plan.accuracy.answers must be small enough for {most} questions, of which {c} times one more than answers are asked; "
            f"got {answers}."
        )

    def failure(low: int, high: int) -> float:
        return _above(1 - success(answers, c, low - cut, high - cut, mechanism.noise, mechanism.threshold_noise))

    scale = math.sqrt(mechanism.noise.variance) + math.sqrt(mechanism.threshold_noise.variance)
    return _searching(mechanism, scale, c, _in_turn(answers, c), failure)


@asked.register
def _(mechanism: GumbelSparseVector, answers: int) -> Asked:
    c, rate, cut = mechanism.positives, mechanism.noise.rate, mechanism.cut().steps

    def failure(low: int, high: int) -> float:
        return _up(gumbel_failure(answers, c, low - cut, high - cut, rate))

    return _searching(mechanism, 1 / rate, c, _in_turn(answers, c), failure)


@asked.register
def _(mechanism: HybridTopK, answers: int) -> Asked:
    return _hybrid(mechanism, mechanism.noise, mechanism.noise, answers)


@asked.register
def _(mechanism: HybridSparseVector, answers: int) -> Asked:
    return _hybrid(mechanism, mechanism.noise, mechanism.threshold_noise, answers)


def _hybrid(mechanism: HybridTopK | HybridSparseVector, law: Noise, limit: Noise, answers: int) -> Asked:
    """Return the task of a hybrid: the answers below are left out, at most k others are selected.

    With k - 1 others, or fewer, those below must stay below the noisy threshold; with k of them, below the least of the k.
    """
    k = mechanism.k
    cut = cut_at("plan.accuracy.threshold", mechanism.threshold, Fraction(0), mechanism.step).steps
    least = Geometric(k * law.rate) if isinstance(law, Geometric) else law if k == 1 else None  # the least noise of k answers

    def failure(low: int, high: int) -> float:
        below, above = Question(law, low - cut, answers), Question(law, high - cut)
        if least is None:
            return _above(1 - expected(limit, [below], [above], k))
        full = expected(least, [Question(law, low - high, answers), Question(limit, cut - high - 1)])
        return _above(1 - min(expected(limit, [below], [above], k - 1), full))

    above = "one lies" if k == 1 else f"{k} lie"
    says = f"of {answers} answers at least {{alpha}} below the threshold none is selected, and all others, where at most {above} at least "
    return _searching(mechanism, 1 / law.rate, k, says + "{alpha} above it", failure)


def _in_turn(answers: int, c: int) -> str:
    each = f"{answers} answers at least {{alpha}} below the threshold are passed and then one at least {{alpha}} above it is found"
    return each if c == 1 else f"{c} times in a row {each}"


def _searching(mechanism: Any, scale: Any, positives: int, says: str, failure: Callable[[int, int], float]) -> Asked:
    """Return the task of finding what lies above a threshold: on the grid, answers alpha away from it lie at `low` and `high`."""
    threshold, step = FINITE("threshold", mechanism.threshold), mechanism.step

    def at(alpha: Fraction) -> float:
        low, high = (max(-CLAMP, min(CLAMP, (threshold + side * alpha) // step)) for side in (-1, 1))
        return failure(int(low), int(high))

    return Asked(step, 0, int(scale), at, positives, says)


def _selecting(step: Fraction, rate: Fraction, failure: Callable[[int], float], says: str) -> Asked:
    """Return the task of a selection: answers that lie alpha apart lie at least floor(alpha / step) steps apart on the grid."""
    return Asked(step, 1, int(1 / rate), lambda alpha: failure(min(int(alpha // step), 2 * CLAMP)), None, says)


@asked.register
def _(mechanism: ExponentialMechanism, answers: int) -> Asked:
    rate = mechanism.rate
    return _selecting(mechanism.step, rate, lambda gap: _up(exponential_failure(answers, gap, rate)), _best(answers))


@asked.register
def _(mechanism: PermuteAndFlip, answers: int) -> Asked:
    rate = mechanism.noise.rate
    return _selecting(mechanism.step, rate, lambda gap: _up(permuted_failure(answers, gap, rate)), _best(answers))


@asked.register
def _(mechanism: NoisyTopK, answers: int) -> Asked:
    k, law = mechanism.k, mechanism.noise
    if answers < k or mechanism.domain_size not in {None, answers}:
        needed = f"at least {k}" if mechanism.domain_size is None else f"the domain size {mechanism.domain_size}"
        raise InvalidParameter(f"plan.accuracy.answers must be {needed} for this mechanism; got {answers}.")
    says = _best(answers) if k == 1 else f"each selected answer lies less than {{alpha}} below the best {k} of {answers}"
    if isinstance(law, Gumbel):
        return _selecting(mechanism.step, law.rate, lambda gap: _up(peeled_failure(answers, k, gap, law.rate)), says)
    if isinstance(law, DiscreteLaplace) and k > 1:
        raise InvalidParameter("plan.accuracy.mechanism must be a NoisyTopK with k = 1 where its noise is 'laplace'.")
    least = Geometric(k * law.rate) if isinstance(law, Geometric) else law  # the least noise of k answers

    def failure(gap: int) -> float:
        return 0.0 if k == answers else _above(1 - expected(least, [Question(law, -gap, answers - k)]))

    return _selecting(mechanism.step, law.rate, failure, says)


def _best(answers: int) -> str:
    return f"the selected answer lies less than {{alpha}} below the best of {answers}"


def _up(x: Decimal) -> float:
    return math.nextafter(float(x), math.inf) if x else 0.0


def _above(x: float) -> float:
    return min(1.0, x * (1 + _ROUNDING) + _ROUNDING)
