"""How good a mechanism will be: a margin, and the probability that its answer is wrong by more, for the hardest answers.

Claim: `beta` is at least the probability of failure for all answers that keep the margin. Proof: docs/proofs/accuracy.md.
Floats: beta is rounded up; margins are compared with the grid as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from typing import Any, final

from sordino.constraints import DOMAIN_SIZE, FINITE, NOT_NEGATIVE, Constraint, Number, exact, shown
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP
from sordino.mechanisms import ExponentialMechanism, GumbelSparseVector, NoisyTopK, PermuteAndFlip, SparseVector
from sordino.mechanisms._gumbel_top_k import Gumbel
from sordino.noise import DiscreteLaplace, Geometric
from sordino.noise._probability import contexts
from sordino.plan._selection import exponential_failure, gumbel_failure, peeled_failure, permuted_failure
from sordino.plan._success import success

_EVERYWHERE = 1 << 60  # a height that every threshold lies below
_ROUNDING = 2.0**-50


def _chance(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and Fraction(1, 10**9) <= number < 1 else None


CHANCE = Constraint("a number in [1e-9, 1)", _chance, (1e-9, 0.05, Fraction(1, 3)), (0, 1, -0.5, 1e-10, math.nan, None, "half"))


@final
@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """What a mechanism guarantees: with probability at least 1 - beta it is right up to alpha, whatever the answers are.

    Attributes
    ----------
    alpha : number
        The margin, in the unit of the answers.
    beta : float
        At least the probability of failure, in [0, 1].
    answers : int
        How many answers there are (selection), or how many lie below before each positive (sparse vector).
    positives : int or None
        How many positives are to be found, each after so many answers below; None for a selection.
    statement : str
        The guarantee, in one sentence.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.PermuteAndFlip(epsilon=1, sensitivity=sd.COUNTING)
    >>> sd.plan.accuracy(m, answers=100, alpha=10).statement
    'With probability at least 1 - 0.002244, the selected answer lies less than 10 below the best of 100.'
    """

    alpha: Number
    beta: float
    answers: int
    positives: int | None
    statement: str


@dataclass(frozen=True)
class _Task:
    """What is asked of a mechanism: the margins that count, in steps, the failure at a margin, and words for both."""

    step: Fraction
    least: int
    guess: int
    failure: Callable[[Fraction], float]
    positives: int | None
    says: str


def accuracy(mechanism: Any, *, answers: int, alpha: Number | None = None, beta: Number | None = None) -> Accuracy:
    """Say how likely a mechanism errs by a margin, or which margin it keeps; from its exact law on the grid, before any data is seen.

    A `SparseVector` is right if, again and again until all positives are found, `answers` answers that lie at least `alpha` below the
    threshold are all said to be below, and then one that lies at least `alpha` above it is found; in the first pass, and also if answers
    are chosen after earlier verdicts. A selection among `answers` answers is right if every selected one lies less than `alpha` below
    the best (for `NoisyTopK`: below the k-th best). Both are the exact probabilities for the hardest answers, not products over
    questions: all questions of a stage meet one threshold. Answers of a selection lie within the clamp: beyond it they are equal.

    Parameters
    ----------
    mechanism : SparseVector, GumbelSparseVector, ExponentialMechanism, PermuteAndFlip or NoisyTopK
        `NoisyTopK` with Laplace noise for k = 1 only.
    answers : int
        From 1 to 2^52; for a selection at least k, for a domain its size.
    alpha : number, optional
        The margin, in the unit of the answers: at least 0, above 0 for a selection. Either this or `beta`.
    beta : number, optional
        In [1e-9, 1): the probability of failure that is accepted. What is found is the least margin that is a whole number of steps, as
        the next float whose shortest decimal is no smaller.

    Returns
    -------
    Accuracy
        Its `beta` is rounded up: by less than 1e-10 a threshold, and by about a millionth where the step is far below the noise.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, nothing is proved for the mechanism, or no margin within the clamp will do.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(threshold=1000, positives=1, epsilon=1, sensitivity=sd.COUNTING, correction="optimal", correction_run=100)
    >>> sd.plan.accuracy(m, answers=100, alpha=20).beta < 0.02
    True
    >>> sd.plan.accuracy(m, answers=100, beta=0.02).alpha
    14.0
    """
    n = DOMAIN_SIZE("plan.accuracy.answers", answers)
    task = _task(mechanism, n)
    if (alpha is None) == (beta is None):
        raise InvalidParameter("plan.accuracy needs alpha, a margin, or beta, a probability of failure, and not both.")
    if alpha is not None:
        margin = NOT_NEGATIVE("plan.accuracy.alpha", alpha)
        if not margin and task.least:
            raise InvalidParameter("plan.accuracy.alpha must be above 0 for a selection: the best lies 0 below the best.")
        return _stated(task, n, alpha, task.failure(margin))
    accepted = CHANCE("plan.accuracy.beta", beta)
    least = _least_steps(task, accepted) * task.step
    found = float(least)
    while FINITE("alpha", found) < least:  # a float means its shortest decimal
        found = math.nextafter(found, math.inf)
    return _stated(task, n, found, task.failure(FINITE("alpha", found)))


def _stated(task: _Task, answers: int, alpha: Number, beta: float) -> Accuracy:
    beta = min(1.0, beta)
    said = task.says.format(alpha=_rounded_up(FINITE("alpha", alpha), 6))
    return Accuracy(
        alpha=alpha,
        beta=beta,
        answers=answers,
        positives=task.positives,
        statement=f"With probability at least 1 - {_rounded_up(Fraction(beta), 5)}, {said}.",
    )


def _rounded_up(number: Fraction, digits: int) -> str:
    """Return a number with so many digits, rounded up: a smaller margin or a smaller failure would say more than is known."""
    said = contexts(digits)[1].divide(number.numerator, number.denominator).normalize()
    whole = 10 <= said < 10**15 and said == int(said)  # 30 rather than 3e+1
    return str(int(said)) if whole else f"{said:g}"


def _least_steps(task: _Task, accepted: Fraction) -> int:
    """Return the least number of steps at which the failure is accepted: it does not rise with the margin."""
    low, high = task.least - 1, max(task.guess, 1)
    while task.failure(high * task.step) > accepted:
        if high > 4 * CLAMP:
            raise InvalidParameter("plan.accuracy.beta must be one that some margin within 2^52 steps reaches for this mechanism.")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if task.failure(middle * task.step) > accepted else (low, middle)
    return high


@singledispatch
def _task(mechanism: Any, answers: int) -> _Task:  # noqa: ARG001 - registered functions use it
    raise InvalidParameter(
        "plan.accuracy.mechanism must be a SparseVector, GumbelSparseVector, ExponentialMechanism, PermuteAndFlip or NoisyTopK; "
        f"got {shown(mechanism)}."
    )


@_task.register
def _(mechanism: SparseVector, answers: int) -> _Task:
    c = mechanism.positives
    stages, times = (1, c) if mechanism.resample else (c, 1)

    def failure(low: int, high: int) -> float:
        rightly = success(answers, stages, low, high, mechanism.noise, mechanism.threshold_noise)
        return _above(-math.expm1(times * math.log(rightly)) if rightly > 0 else 1.0)

    return _searching(mechanism, mechanism.noise.rate, answers, failure)


@_task.register
def _(mechanism: GumbelSparseVector, answers: int) -> _Task:
    c, rate = mechanism.positives, mechanism.noise.rate
    return _searching(mechanism, rate, answers, lambda low, high: _up(gumbel_failure(answers, c, low, high, rate)))


def _searching(
    mechanism: SparseVector | GumbelSparseVector, rate: Fraction, answers: int, failure: Callable[[int, int], float]
) -> _Task:
    """Return the task of a sparse vector: answers alpha away from the threshold lie `low` and `high` steps above it on the grid."""
    c, cut, threshold = mechanism.positives, mechanism.cut().steps, FINITE("threshold", mechanism.threshold)

    def at(alpha: Fraction) -> float:
        low, high = (max(-CLAMP, min(CLAMP, (threshold + side * alpha) // mechanism.step)) - cut for side in (-1, 1))
        return failure(int(low), int(high))

    each = f"{answers} answers at least {{alpha}} below the threshold are passed and then one at least {{alpha}} above it is found"
    return _Task(mechanism.step, 0, int(1 / rate), at, c, each if c == 1 else f"{c} times in a row {each}")


def _selecting(step: Fraction, rate: Fraction, failure: Callable[[int], float], says: str) -> _Task:
    """Return the task of a selection: answers that lie alpha apart lie at least floor(alpha / step) steps apart on the grid."""
    return _Task(step, 1, int(1 / rate), lambda alpha: failure(min(int(alpha // step), 2 * CLAMP)), None, says)


@_task.register
def _(mechanism: ExponentialMechanism, answers: int) -> _Task:
    rate = mechanism.rate
    return _selecting(mechanism.step, rate, lambda gap: _up(exponential_failure(answers, gap, rate)), _best(answers))


@_task.register
def _(mechanism: PermuteAndFlip, answers: int) -> _Task:
    rate = mechanism.noise.rate
    return _selecting(mechanism.step, rate, lambda gap: _up(permuted_failure(answers, gap, rate)), _best(answers))


@_task.register
def _(mechanism: NoisyTopK, answers: int) -> _Task:
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
        return 0.0 if k == answers else _above(1 - success(answers - k, 1, -gap, _EVERYWHERE, law, least))

    return _selecting(mechanism.step, law.rate, failure, says)


def _best(answers: int) -> str:
    return f"the selected answer lies less than {{alpha}} below the best of {answers}"


def _up(x: Decimal) -> float:
    return math.nextafter(float(x), math.inf) if x else 0.0


def _above(x: float) -> float:
    return min(1.0, x * (1 + _ROUNDING) + _ROUNDING)
