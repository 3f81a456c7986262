"""The accuracy of a mechanism: a margin, and how likely it errs by that, for the hardest answers.

Claim: `beta` is at least the probability of failure for all answers that keep the margin. For one
noisy threshold `expected` is at most E[prod P(X_i < Y - h_i)^n_i * P(some branch: X_j >= Y -
g_j)^times] for independent noise X and Y, and within 2^-33 of it (relative) where a step is not
much finer than the noise. Proof: docs/proofs/accuracy.md.
Floats: everything here, with a margin that covers their rounding; beta is rounded up, and margins
are compared with the grid as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import DOMAIN_SIZE, FINITE, NOT_NEGATIVE, Constraint, Number, exact, shown
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
from sordino.mechanisms.crossings.branches import cut_at, cuts_of
from sordino.mechanisms.crossings.threshold_scan import weight
from sordino.mechanisms.race import Gumbel
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import contexts, exp_bounds

Noise = Geometric | DiscreteLaplace | DiscreteGaussian
Floats = NDArray[np.float64]

_MOST_NODES = 1 << 14
_DEEPEST_NATS = 45.0  # what lies so many scales out is left out: e^-45 of the threshold at most
# Of the sum: exponents below 745, each with a relative error below 2^-45, and the rounding of the
# sum.
_SUM_MARGIN = 2.0**-34
_TAIL_SLACK = 2.0**-36  # of a Gaussian tail: sums of up to 40,000 floats, or one error function
# Standard deviations from which Gaussian tails are those of the continuous law, with bounds of the
# difference.
_WIDE_DEVIATION = 1000
_LOG_TWO = math.log(2)


class Questions(NamedTuple):
    """Comparisons of one kind.

    Their noise, how far the answers lie above the public threshold in steps, and how many there
    are.
    """

    law: Noise
    height: int
    times: int = 1


def success(run: int, stages: int, low: int, high: int, query: Noise, threshold: Noise) -> float:
    """Return a lower bound of the probability that a stream is judged rightly.

    That is, `stages` times `run` answers stay below one threshold and the next one does not.

    Parameters
    ----------
    run, stages : int
        At least 0, at least 1.
    low, high : int
        How far the answers that shall stay below, and the one that shall not, lie above the public
        threshold, in steps.
    query, threshold : Geometric, DiscreteLaplace or DiscreteGaussian
        The noise of one question and of the threshold, in steps.
    """
    return expected(
        threshold, [Questions(query, low, run * stages)], [Questions(query, high)], stages
    )


def expected(
    center: Noise, passed: Sequence[Questions], found: Sequence[Questions] = (), times: int = 1
) -> float:
    """Return a lower bound of the probability that all stay on their side of a noisy threshold.

    All of `passed` must stay below it, and `times` answers of the kind `found` must not.

    Parameters
    ----------
    center : Geometric, DiscreteLaplace or DiscreteGaussian
        The noise of the threshold.
    passed : sequence of Question
        What shall stay below.
    found : sequence of Question
        The branches of one answer that shall not: it is tested in one after the other until it
        reaches the threshold.
    times : int
        How many such answers there are, at least 0.
    """
    passed = [part for part in passed if part.times]
    # Chords between nodes only lower the sum (docs/proofs/accuracy.md, "The sum from below").
    y = _choose_nodes(center, passed, found)
    if not y.size:
        return 0.0
    base = _log_mass(center, y)
    for law, height, count in passed:
        base = base + count * log_tails(law, y - height)[0]
    ways = np.zeros((1, y.size)) if not (found and times) else _log_first_reached(found, y)
    # Lowered by more than rounding can have raised it.
    return _sum_below_chords(y, base, ways, times) * (1 - _SUM_MARGIN)


def _log_first_reached(found: Sequence[Questions], y: NDArray[np.int64]) -> Floats:
    """Return for each branch the log of the probability that it is first to reach the threshold.

    The shape is (branches, nodes).
    """
    # An answer is found in a branch if it failed in all branches before.
    failed, ways = np.zeros(y.size), []
    for law, height, _ in found:
        below, above = log_tails(law, y - height)
        ways.append(failed + above)
        failed = failed + below
    return np.array(ways)


def log_tails(law: Noise, x: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return the logs of P(X < x) and P(X >= x), with few lost digits.

    Those of a Gaussian from below.
    """
    rate, at = float(law.rate), x.astype(np.float64)
    if isinstance(law, DiscreteGaussian):
        # The law is symmetric: P(X < x) = P(X >= 1 - x).
        least, most = _gaussian_tails(law, np.where(x >= 1, x, 1 - x))
        with np.errstate(divide="ignore"):
            near, far = np.log1p(-most), np.log(least)
        return np.where(x >= 1, near, far), np.where(x >= 1, far, near)
    if isinstance(law, Geometric):
        deep = rate * np.maximum(at, 0.0)
        with np.errstate(divide="ignore"):
            below = np.where(deep > _LOG_TWO, np.log1p(-np.exp(-deep)), np.log(-np.expm1(-deep)))
        return below, -deep
    lesser = -rate * np.where(at >= 1, at, 1 - at) - math.log1p(math.exp(-rate))  # at most one half
    rest = np.log1p(-np.exp(lesser))
    return np.where(at >= 1, rest, lesser), np.where(at >= 1, lesser, rest)


def _gaussian_tails(law: DiscreteGaussian, x: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Return bounds of P(X >= x), x >= 1: sums of a narrow law, integrals of a wide one.

    Where the density is convex, from one standard deviation on, a trapezoid lies above it and a
    midpoint below; elsewhere a midpoint errs by at most an eighth of its second derivative, rate/4
    over the whole line.
    """
    rate, at = float(law.rate), x.astype(np.float64)
    if 2 * law.rate * _WIDE_DEVIATION**2 > 1:
        least = most = np.asarray(law.sf(x - 1), dtype=np.float64)
    else:
        middle, whole = (_gaussian_integral(rate, at - part) for part in (0.5, 0.0))
        convex = at - 0.5 >= math.sqrt(0.5 / rate) + 1
        least = np.where(convex, whole + np.asarray(law.pmf(x)) / 2, middle - rate / 4)
        most = np.where(convex, middle, middle + rate / 4)
    return least * (1 - _TAIL_SLACK), np.minimum(most * (1 + _TAIL_SLACK), 1.0)


def _gaussian_integral(rate: float, t: Floats) -> Floats:
    """Return P(T > t) for the continuous law with density proportional to e^(-rate t^2)."""
    root = math.sqrt(rate)
    return np.array([math.erfc(root * each) / 2 for each in t.tolist()])


def _log_mass(law: Noise, x: NDArray[np.int64]) -> Floats:
    """Return the log of P(X = x), x in the support."""
    rate, at = float(law.rate), x.astype(np.float64)
    if isinstance(law, DiscreteGaussian):
        return math.log(float(law.pmf(0))) - rate * at**2
    whole = -math.expm1(-rate) if isinstance(law, Geometric) else math.tanh(rate / 2)
    masses: Floats = math.log(whole) - rate * np.abs(at)
    return masses


def _steps_to_depth(law: Noise, nats: float) -> int:
    """Return how many steps out the law is e^-nats as likely as at 0."""
    scales = nats / float(law.rate)
    return math.ceil(math.sqrt(scales) if isinstance(law, DiscreteGaussian) else scales)


def _choose_nodes(
    center: Noise, passed: Sequence[Questions], found: Sequence[Questions]
) -> NDArray[np.int64]:
    """Return the values of the threshold noise that are looked at.

    These are all that matter, or as many as are affordable, dense where the sum bends.
    """
    # What lies farther out is left out, which only lowers the result.
    reach = _steps_to_depth(center, _DEEPEST_NATS)
    first = 0 if isinstance(center, Geometric) else -reach
    # Geometric noise is never negative, so an answer stays below only a threshold that is higher
    # than it.
    first = max([first, *(part.height + 1 for part in passed if isinstance(part.law, Geometric))])
    if first > reach:
        return np.zeros(0, dtype=np.int64)
    if reach - first < _MOST_NODES:
        return np.arange(first, reach + 1)
    parts, bends = [(first, reach)], {0}
    for law, height, count in (*passed, *found):
        narrow = _steps_to_depth(law, _DEEPEST_NATS)
        # Of many tests the largest noise lies farther out, by the logarithm of their number.
        parts.append(
            (height - narrow, height + _steps_to_depth(law, _DEEPEST_NATS + math.log(count)))
        )
        bends |= {height, height + 1}
    inside = [(max(a, first), min(b, reach)) for a, b in parts if a <= reach and b >= first]
    kept = np.array([x for x in sorted(bends) if first <= x <= reach], dtype=np.int64)
    return np.unique(
        np.concatenate(
            [kept, *(np.linspace(a, b, _MOST_NODES).astype(np.int64) for a, b in inside)]
        )
    )


def _sum_below_chords(x: NDArray[np.int64], base: Floats, ways: Floats, times: int) -> float:
    """Return a lower bound of the sum of e^base (sum of e^ways)^times over whole numbers.

    They are all from the first node to the last.

    Between nodes base and each way are concave, above their chords; the log of a sum of
    exponentials of chords is convex, above its tangent in the middle. What is left is the
    exponential of a line, and adds up to a geometric series.
    """
    height = base + times * np.logaddexp.reduce(ways, axis=0)
    length = np.diff(x).astype(np.float64)
    # A way that is impossible at one of two nodes has no chord between them. Leaving it out only
    # lowers the sum.
    usable = np.isfinite(ways[:, :-1]) & np.isfinite(ways[:, 1:])
    with np.errstate(invalid="ignore"):  # minus infinity less itself
        rise = np.where(usable, ways[:, 1:] - ways[:, :-1], 0.0)
        middle = np.where(usable, (ways[:, 1:] + ways[:, :-1]) / 2, -np.inf)
        whole = np.logaddexp.reduce(middle, axis=0)
        tilt = (np.where(usable, np.exp(middle - whole), 0.0) * rise).sum(axis=0)
        left, right = base[:-1] + times * (whole - tilt / 2), base[1:] + times * (whole + tilt / 2)
        # Where the next node is the next number nothing lies in between, and the value itself is
        # exact.
        left, right = (np.where(length == 1, height[:-1], side) for side in (left, right))
        rise = right - left
    known = np.isfinite(rise)
    left, right, rise, length = left[known], right[known], rise[known], length[known]
    steep = np.abs(rise) / length
    top = np.where(
        rise > 0, right - steep, left
    )  # of the numbers from one node to just before the next
    with np.errstate(divide="ignore", invalid="ignore"):
        # A geometric series, from its largest term.
        series = np.where(steep == 0, length, np.expm1(-np.abs(rise)) / np.expm1(-steep))
    return float(np.exp(height[-1])) + float(
        (np.exp(top) * np.where(length == 1, 1.0, series)).sum()
    )


def _convert_chance(value: Any) -> Fraction | None:
    number = exact(value)
    return number if number is not None and Fraction(1, 10**9) <= number < 1 else None


CHANCE = Constraint(
    "a number in [1e-9, 1)",
    _convert_chance,
    (1e-9, 0.05, Fraction(1, 3)),
    (0, 1, -0.5, 1e-10, math.nan, None, "half"),
)


@final
@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """A guarantee for all answers: right up to alpha with a probability of at least 1 - beta.

    Attributes
    ----------
    alpha : number
        The margin, in the unit of the answers.
    beta : float
        At least the probability of failure, in [0, 1].
    answers : int
        How many answers there are (selection), how many lie below before each positive (sparse
        vector), or how many lie below (hybrids).
    positives : int or None
        How many positives are to be found, each after so many answers below (hybrids: k); None for
        a selection.
    statement : str
        The guarantee, in one sentence.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.PermuteAndFlip(epsilon=1, sensitivity=sd.COUNTING)
    >>> chance, margin = sd.plan.accuracy(m, answers=100, alpha=10).statement.split(", ")
    >>> chance
    'With probability at least 1 - 0.002244'
    >>> margin
    'the selected answer lies less than 10 below the best of 100.'
    """

    alpha: Number
    beta: float
    answers: int
    positives: int | None
    statement: str


def accuracy(
    mechanism: Any, *, answers: int, alpha: Number | None = None, beta: Number | None = None
) -> Accuracy:
    """Say how likely a mechanism errs by a margin, or which margin it keeps.

    Both come from its exact law on the grid, before any data is seen.

    A `SparseVector` is right if, again and again until all positives are found, `answers` answers
    that lie at least `alpha` below the threshold are all said to be below, and then one that lies
    at least `alpha` above it is found; in the first pass, and also if answers are chosen after
    earlier verdicts. An `AdaptiveSparseVector` is asked the same, `at_least` times; in which branch
    it finds them does not matter. A hybrid is right if `answers` answers that lie at least `alpha`
    below the threshold are all left out and all others, at most k that lie at least `alpha` above
    it, are selected. A selection among `answers` answers is right if every selected one lies less
    than `alpha` below the best (for `NoisyTopK`: below the k-th best). All are the exact
    probabilities for the hardest answers, not products over questions: all questions of a stage
    meet one threshold. Answers of a selection lie within the clamp: beyond it they are equal.

    Parameters
    ----------
    mechanism : SparseVector, AdaptiveSparseVector, GaussianSparseVector, GumbelSparseVector, \
HybridTopK, HybridSparseVector, ExponentialMechanism, PermuteAndFlip or NoisyTopK
        `NoisyTopK` with Laplace noise for k = 1 only. For a hybrid with Laplace noise and k > 1
        `beta` is a bound that is not attained.
    answers : int
        From 1 to 2^52; for a selection at least k, for a domain its size. A `GaussianSparseVector`
        must have questions enough.
    alpha : number, optional
        The margin, in the unit of the answers: at least 0, above 0 for a selection. Either this or
        `beta`.
    beta : number, optional
        In [1e-9, 1): the probability of failure that is accepted. What is found is the least margin
        that is a whole number of steps, as the next float whose shortest decimal is no smaller.

    Returns
    -------
    Accuracy
        Its `beta` is rounded up: by less than 1e-10 a threshold, and by about a millionth where the
        step is far below the noise, or the noise is Gaussian.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, nothing is proved for the mechanism, or no
        margin within the clamp will do.

    Examples
    --------
    >>> import sordino as sd
    >>> public = {"threshold": 1000, "positives": 1, "correction": "optimal", "correction_run": 100}
    >>> m = sd.SparseVector(**public, epsilon=1, sensitivity=sd.COUNTING)
    >>> sd.plan.accuracy(m, answers=100, alpha=20).beta < 0.02
    True
    >>> sd.plan.accuracy(m, answers=100, beta=0.02).alpha
    14.0
    """
    # No data are seen, and none are asked for: all parameters are public.
    n = DOMAIN_SIZE("plan.accuracy.answers", answers)
    task = asked(mechanism, n)
    if (alpha is None) == (beta is None):
        raise InvalidParameter(
            "plan.accuracy needs alpha, a margin, or beta, a probability of failure, and not both."
        )
    if alpha is not None:
        margin = NOT_NEGATIVE("plan.accuracy.alpha", alpha)
        if not margin and task.least:
            raise InvalidParameter(
                "plan.accuracy.alpha must be above 0 for a selection: the best lies 0 below the "
                "best."
            )
        return _state_accuracy(task, n, alpha, task.failure(margin))
    accepted = CHANCE("plan.accuracy.beta", beta)
    least = _find_least_steps(task, accepted) * task.step
    found = float(least)
    while FINITE("alpha", found) < least:  # a float means its shortest decimal
        found = math.nextafter(found, math.inf)
    return _state_accuracy(task, n, found, task.failure(FINITE("alpha", found)))


def _state_accuracy(task: _MarginQuestion, answers: int, alpha: Number, beta: float) -> Accuracy:
    # Rounded up, the probability of failure may exceed 1.
    beta = min(1.0, beta)
    said = task.says.format(alpha=_write_rounded_up(FINITE("alpha", alpha), 6))
    return Accuracy(
        alpha=alpha,
        beta=beta,
        answers=answers,
        positives=task.positives,
        statement=f"With probability at least 1 - {_write_rounded_up(Fraction(beta), 5)}, {said}.",
    )


def _write_rounded_up(number: Fraction, digits: int) -> str:
    """Return a number with so many digits, rounded up.

    A smaller margin, or a smaller failure, would say more than is known.
    """
    said = contexts(digits)[1].divide(number.numerator, number.denominator).normalize()
    whole = 10 <= said < 10**15 and said == int(said)  # 30 rather than 3e+1
    return str(int(said)) if whole else f"{said:g}"


def _find_least_steps(task: _MarginQuestion, accepted: Fraction) -> int:
    """Return the least number of steps at which the failure is accepted."""
    # The failure does not rise with the margin, so bisection finds the least one.
    low, high = task.least - 1, max(task.guess, 1)
    while task.failure(high * task.step) > accepted:
        if high > 4 * CLAMP:
            raise InvalidParameter(
                "plan.accuracy.beta must be one that some margin within 2^52 steps reaches for "
                "this mechanism."
            )
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if task.failure(middle * task.step) > accepted else (low, middle)
    return high


# ---- tasks ---------------------------------------------------------------------------------------
# What is asked of each mechanism when its accuracy is stated: which answers shall be found, and how
# likely that fails at a margin.
#
# Claim: the failure at a margin is at least that of all answers that keep it. Proof:
# docs/proofs/accuracy.md. Floats: a failure is rounded up; margins are compared with the grid as
# fractions.


_BETA_ROUNDING = 2.0**-50


@dataclass(frozen=True)
class _MarginQuestion:
    """What is asked of a mechanism: which margins count, the failure at one, words for both.

    Margins are in steps.
    """

    step: Fraction
    least: int
    guess: int
    failure: Callable[[Fraction], float]
    positives: int | None
    says: str


def _ask_sparse_vector(mechanism: SparseVector, answers: int) -> _MarginQuestion:
    c, [cut] = mechanism.positives, cuts_of(mechanism, mechanism.threshold)
    # With a new threshold after each positive the stages are independent. Otherwise all of them
    # meet one threshold.
    stages, times = (1, c) if mechanism.resample else (c, 1)

    def failure(low: int, high: int) -> float:
        rightly = success(
            answers,
            stages,
            low - cut.steps,
            high - cut.steps,
            mechanism.noise,
            mechanism.threshold_noise,
        )
        return _add_rounding(-math.expm1(times * math.log(rightly)) if rightly > 0 else 1.0)

    return _search_task(
        mechanism, 1 / mechanism.noise.rate, c, _describe_turns(answers, c), failure
    )


def _ask_adaptive_sparse_vector(mechanism: AdaptiveSparseVector, answers: int) -> _MarginQuestion:
    c, cuts = mechanism.at_least, cuts_of(mechanism, mechanism.threshold)
    branches = list(zip(mechanism.branch_noise, (cut.steps for cut in cuts), strict=True))

    def failure(low: int, high: int) -> float:
        # Until `at_least` were found every branch can be paid for, so all of them are tested.
        passed = [Questions(law, low - cut, answers * c) for law, cut in branches]
        return _add_rounding(
            1
            - expected(
                mechanism.threshold_noise,
                passed,
                [Questions(law, high - cut) for law, cut in branches],
                c,
            )
        )

    return _search_task(
        mechanism, 1 / mechanism.branch_noise[-1].rate, c, _describe_turns(answers, c), failure
    )


def _ask_gaussian_sparse_vector(mechanism: GaussianSparseVector, answers: int) -> _MarginQuestion:
    c, cut, most = mechanism.positives, mechanism.cut().steps, mechanism.questions
    if most is not None and (answers + 1) * c > most:
        raise InvalidParameter(
            f"plan.accuracy.answers must be small enough for {most} questions, of which {c} times "
            f"one more than answers are asked; got {answers}."
        )

    def failure(low: int, high: int) -> float:
        return _add_rounding(
            1
            - success(answers, c, low - cut, high - cut, mechanism.noise, mechanism.threshold_noise)
        )

    scale = math.sqrt(mechanism.noise.variance) + math.sqrt(mechanism.threshold_noise.variance)
    return _search_task(mechanism, scale, c, _describe_turns(answers, c), failure)


def _ask_gumbel_sparse_vector(mechanism: GumbelSparseVector, answers: int) -> _MarginQuestion:
    c, rate, cut = mechanism.positives, mechanism.noise.rate, mechanism.cut().steps

    def failure(low: int, high: int) -> float:
        return _float_above(gumbel_failure(answers, c, low - cut, high - cut, rate))

    return _search_task(mechanism, 1 / rate, c, _describe_turns(answers, c), failure)


def _ask_hybrid_top_k(mechanism: HybridTopK, answers: int) -> _MarginQuestion:
    return _hybrid_task(mechanism, mechanism.noise, mechanism.noise, answers)


def _ask_hybrid_sparse_vector(mechanism: HybridSparseVector, answers: int) -> _MarginQuestion:
    return _hybrid_task(mechanism, mechanism.noise, mechanism.threshold_noise, answers)


def _hybrid_task(
    mechanism: HybridTopK | HybridSparseVector, law: Noise, limit: Noise, answers: int
) -> _MarginQuestion:
    """Return the task of a hybrid: the answers below are left out, at most k others are selected.

    With k - 1 others, or fewer, those below must stay below the noisy threshold; with k of them,
    below the least of the k.
    """
    k = mechanism.k
    cut = cut_at("plan.accuracy.threshold", mechanism.threshold, Fraction(0), mechanism.step).steps
    # The least of k geometric variables is geometric with k times the rate.
    least = Geometric(k * law.rate) if isinstance(law, Geometric) else law if k == 1 else None

    def failure(low: int, high: int) -> float:
        below, above = Questions(law, low - cut, answers), Questions(law, high - cut)
        if least is None:
            return _add_rounding(1 - expected(limit, [below], [above], k))
        full = expected(
            least, [Questions(law, low - high, answers), Questions(limit, cut - high - 1)]
        )
        return _add_rounding(1 - min(expected(limit, [below], [above], k - 1), full))

    above = "one lies" if k == 1 else f"{k} lie"
    says = (
        f"of {answers} answers at least {{alpha}} below the threshold none is selected, and all "
        f"others, where at most {above} at least "
    )
    return _search_task(mechanism, 1 / law.rate, k, says + "{alpha} above it", failure)


def _describe_turns(answers: int, c: int) -> str:
    each = (
        f"{answers} answers at least {{alpha}} below the threshold are passed and then one at "
        "least "
        "{alpha} above it is found"
    )
    return each if c == 1 else f"{c} times in a row {each}"


def _search_task(
    mechanism: Any, scale: Any, positives: int, says: str, failure: Callable[[int, int], float]
) -> _MarginQuestion:
    """Return the task of finding what lies above a threshold.

    On the grid, answers alpha away from the threshold lie at `low` and `high`.
    """
    threshold, step = FINITE("threshold", mechanism.threshold), mechanism.step

    def at(alpha: Fraction) -> float:
        # Rounded down and clamped as answers are, so all that keep the margin lie at least so far
        # away.
        low, high = (
            max(-CLAMP, min(CLAMP, (threshold + side * alpha) // step)) for side in (-1, 1)
        )
        return failure(int(low), int(high))

    return _MarginQuestion(step, 0, int(scale), at, positives, says)


def _selection_task(
    step: Fraction, rate: Fraction, failure: Callable[[int], float], says: str
) -> _MarginQuestion:
    """Return the task of a selection.

    Answers that lie alpha apart lie at least floor(alpha / step) steps apart on the grid.
    """
    return _MarginQuestion(
        step,
        1,
        int(1 / rate),
        lambda alpha: failure(min(int(alpha // step), 2 * CLAMP)),
        None,
        says,
    )


def _ask_exponential_mechanism(mechanism: ExponentialMechanism, answers: int) -> _MarginQuestion:
    rate = mechanism.rate
    return _selection_task(
        mechanism.step,
        rate,
        lambda gap: _float_above(exponential_failure(answers, gap, rate)),
        _describe_best(answers),
    )


def _ask_permute_and_flip(mechanism: PermuteAndFlip, answers: int) -> _MarginQuestion:
    rate = mechanism.noise.rate
    return _selection_task(
        mechanism.step,
        rate,
        lambda gap: _float_above(permuted_failure(answers, gap, rate)),
        _describe_best(answers),
    )


def _ask_noisy_top_k(mechanism: NoisyTopK, answers: int) -> _MarginQuestion:
    k, law = mechanism.k, mechanism.noise
    if answers < k or mechanism.domain_size not in {None, answers}:
        needed = (
            f"at least {k}"
            if mechanism.domain_size is None
            else f"the domain size {mechanism.domain_size}"
        )
        raise InvalidParameter(
            f"plan.accuracy.answers must be {needed} for this mechanism; got {answers}."
        )
    says = (
        _describe_best(answers)
        if k == 1
        else f"each selected answer lies less than {{alpha}} below the best {k} of {answers}"
    )
    if isinstance(law, Gumbel):
        return _selection_task(
            mechanism.step,
            law.rate,
            lambda gap: _float_above(peeled_failure(answers, k, gap, law.rate)),
            says,
        )
    if isinstance(law, DiscreteLaplace) and k > 1:
        raise InvalidParameter(
            "plan.accuracy.mechanism must be a NoisyTopK with k = 1 where its noise is 'laplace'."
        )
    least = (
        Geometric(k * law.rate) if isinstance(law, Geometric) else law
    )  # the least noise of k answers

    def failure(gap: int) -> float:
        return (
            0.0
            if k == answers
            else _add_rounding(1 - expected(least, [Questions(law, -gap, answers - k)]))
        )

    return _selection_task(mechanism.step, law.rate, failure, says)


def _describe_best(answers: int) -> str:
    return f"the selected answer lies less than {{alpha}} below the best of {answers}"


def _float_above(x: Decimal) -> float:
    return math.nextafter(float(x), math.inf) if x else 0.0


def _add_rounding(x: float) -> float:
    return min(1.0, x * (1 + _BETA_ROUNDING) + _BETA_ROUNDING)


# ---- selections ----------------------------------------------------------------------------------
# The probability of failure at a public margin where it is hardest, from above: closed forms of the
# exact laws.
#
# Claim: each function bounds the probability that an item is selected that lies `gap` steps or more
# below those it should be among (that a task fails), for all answers; it is attained where all
# others lie exactly so low. Proof: docs/proofs/accuracy.md. Floats: none; decimals with directed
# rounding.


_CLOSED_FORM_DIGITS = 120
_CANCELLATION_LIMIT = Decimal("1e-60")  # differences keep sixty digits down to here


def exponential_failure(n: int, gap: int, rate: Fraction) -> Decimal:
    """Return P(one of n - 1 others) for the exponential mechanism.

    It is (n - 1) w / (1 + (n - 1) w), with the weight w = e^(-rate gap) of each of them.
    """
    down, up = contexts(_CLOSED_FORM_DIGITS)
    weight = up.multiply(n - 1, exp_bounds(rate * gap, _CLOSED_FORM_DIGITS)[1])
    return up.divide(weight, down.add(1, weight))


def permuted_failure(n: int, gap: int, rate: Fraction) -> Decimal:
    """Return E[N/(N + 1)] for the number N of heads of n - 1 coins, each with p = e^(-rate gap).

    It is 1 - (1 - (1 - p)^n)/(n p).
    """
    down, up = contexts(_CLOSED_FORM_DIGITS)
    p = exp_bounds(rate * gap, _CLOSED_FORM_DIGITS)[1]  # it rises with p
    # E[N/(N + 1)] is at most E[N]/2, because N/(N + 1) <= N/2 for whole N. The closed form would
    # lose its digits here.
    if n == 1 or up.multiply(n, p) < _CANCELLATION_LIMIT:
        return up.divide(up.multiply(n - 1, p), 2)
    none = Decimal(0)
    if p < 1:
        log = up.next_plus(up.ln(up.subtract(1, p)))
        none = up.next_plus(up.exp(up.multiply(n, log)))
    return max(Decimal(0), up.subtract(1, down.divide(down.subtract(1, none), up.multiply(n, p))))


def peeled_failure(n: int, k: int, gap: int, rate: Fraction) -> Decimal:
    """Return P(one of n - k others among k draws without replacement).

    It is 1 - the product of j/(j + (n - k) w) over j = 1..k.
    """
    down, up = contexts(_CLOSED_FORM_DIGITS)
    # Rounded up: the weight of those that should not be drawn.
    others = up.multiply(n - k, exp_bounds(rate * gap, _CLOSED_FORM_DIGITS)[1])
    if (
        up.multiply(k, others) < _CANCELLATION_LIMIT
    ):  # each draw errs with probability at most (n - k) w
        return up.multiply(k, others)
    rightly = Decimal(1)
    for j in range(1, k + 1):
        rightly = down.multiply(rightly, down.divide(j, up.add(j, others)))
    return up.subtract(1, rightly)


def gumbel_failure(run: int, positives: int, low: int, high: int, rate: Fraction) -> Decimal:
    """Return 1 - P^positives, P = v/((1 + run w) (1 + run w + v)).

    Each time `run` questions of height `low`, weight w, are passed, and one of height `high`,
    weight v, is found.
    """
    down, up = contexts(_CLOSED_FORM_DIGITS)
    passed = up.add(1, weight([low], [run], rate, _CLOSED_FORM_DIGITS)[1])
    found = weight([high], [1], rate, _CLOSED_FORM_DIGITS)[0]
    rightly = down.multiply(down.divide(1, passed), down.divide(found, up.add(passed, found)))
    if positives > 1 and rightly:
        rightly = down.next_minus(
            down.exp(down.multiply(positives, down.next_minus(down.ln(rightly))))
        )
    return up.subtract(1, max(rightly, Decimal(0)))


_ASKED_OF: dict[type, Callable[[Any, int], _MarginQuestion]] = {
    SparseVector: _ask_sparse_vector,
    AdaptiveSparseVector: _ask_adaptive_sparse_vector,
    GaussianSparseVector: _ask_gaussian_sparse_vector,
    GumbelSparseVector: _ask_gumbel_sparse_vector,
    HybridTopK: _ask_hybrid_top_k,
    HybridSparseVector: _ask_hybrid_sparse_vector,
    ExponentialMechanism: _ask_exponential_mechanism,
    PermuteAndFlip: _ask_permute_and_flip,
    NoisyTopK: _ask_noisy_top_k,
}
"""For each mechanism what is asked of it."""


def asked(mechanism: Any, answers: int) -> _MarginQuestion:
    """Return what is asked of a mechanism with so many answers.

    Raises
    ------
    InvalidParameter
        If nothing is proved for the mechanism, or it does not take so many answers.
    """
    ask = _ASKED_OF.get(type(mechanism))
    if ask is None:
        raise InvalidParameter(
            "plan.accuracy.mechanism must be a SparseVector, AdaptiveSparseVector, "
            "GaussianSparseVector, GumbelSparseVector, HybridTopK, HybridSparseVector, "
            f"ExponentialMechanism, PermuteAndFlip or NoisyTopK; got {shown(mechanism)}."
        )
    return ask(mechanism, answers)
