"""How good a mechanism will be: a margin, and the probability that its answer is wrong by more, for the hardest answers.

Claim: `beta` is at least the probability of failure for all answers that keep the margin. Proof: docs/proofs/accuracy.md.
Floats: beta is rounded up; margins are compared with the grid as fractions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import DOMAIN_SIZE, FINITE, NOT_NEGATIVE, Constraint, Number, exact
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP
from sordino.noise._probability import contexts
from sordino.plan._tasks import Asked, asked


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
        How many answers there are (selection), how many lie below before each positive (sparse vector), or how many lie below (hybrids).
    positives : int or None
        How many positives are to be found, each after so many answers below (hybrids: k); None for a selection.
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


def accuracy(mechanism: Any, *, answers: int, alpha: Number | None = None, beta: Number | None = None) -> Accuracy:
    """Say how likely a mechanism errs by a margin, or which margin it keeps; from its exact law on the grid, before any data is seen.

    A `SparseVector` is right if, again and again until all positives are found, `answers` answers that lie at least `alpha` below the
    threshold are all said to be below, and then one that lies at least `alpha` above it is found; in the first pass, and also if answers
    are chosen after earlier verdicts. An `AdaptiveSparseVector` is asked the same, `at_least` times; in which branch it finds them does
    not matter. A hybrid is right if `answers` answers that lie at least `alpha` below the threshold are all left out and all others, at
    most k that lie at least `alpha` above it, are selected. A selection among `answers` answers is right if every selected one lies less
    than `alpha` below the best (for `NoisyTopK`: below the k-th best). All are the exact probabilities for the hardest answers, not
    products over questions: all questions of a stage meet one threshold. Answers of a selection lie within the clamp: beyond it they are
    equal.

    Parameters
    ----------
    mechanism : SparseVector, AdaptiveSparseVector, GaussianSparseVector, GumbelSparseVector, HybridTopK, HybridSparseVector, \
ExponentialMechanism, PermuteAndFlip or NoisyTopK
        `NoisyTopK` with Laplace noise for k = 1 only. For a hybrid with Laplace noise and k > 1 `beta` is a bound that is not attained.
    answers : int
        From 1 to 2^52; for a selection at least k, for a domain its size. A `GaussianSparseVector` must have questions enough.
    alpha : number, optional
        The margin, in the unit of the answers: at least 0, above 0 for a selection. Either this or `beta`.
    beta : number, optional
        In [1e-9, 1): the probability of failure that is accepted. What is found is the least margin that is a whole number of steps, as
        the next float whose shortest decimal is no smaller.

    Returns
    -------
    Accuracy
        Its `beta` is rounded up: by less than 1e-10 a threshold, and by about a millionth where the step is far below the noise, or
        the noise is Gaussian.

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
    task = asked(mechanism, n)
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


def _stated(task: Asked, answers: int, alpha: Number, beta: float) -> Accuracy:
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


def _least_steps(task: Asked, accepted: Fraction) -> int:
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
