"""Intervals for the true answers behind released numbers, from exact quantiles of the noise.

Claim: the interval covers each true answer with at least the stated confidence, given everything
released before the noise was drawn, so also after a selection made with other noise. Proof:
docs/proofs/intervals.md. Floats: rounding of the last bit.

A p-value for the selected answer being the best, from the gap that an exponential mechanism
released.

Claim: if another answer is at least as large, then P(p_value <= alpha) <= alpha for every alpha,
also given that this one was selected. Proof: docs/proofs/exponential-mechanism.md, "The p-value".
Floats: rounding of the last bits, upward.

Lower bounds of answers that were found above a noisy threshold, from exact quantiles of the noise.

Claim: for each question P(found and bound wrong) <= 1 - confidence; with `selective` P(bound wrong
| found) <= 1 - confidence [ding2022, Lemma 3, with the tail that one-sided noise needs]. Proof:
docs/proofs/lower-bounds.md. Floats: what is read from a release is a whole number of steps again;
the bound is rounded down to a float.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sordino.constraints import SHARE, TRUTH, Number
from sordino.errors import InvalidParameter
from sordino.estimators.difference import Difference, differences
from sordino.grid import CLAMP
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.releases import Choice, HybridTop, Positives, UnlistedTop, Value, Values, Verdict

# ---- lower bounds --------------------------------------------------------------------------------


_EXACT_STEPS = 1 << 51  # below so many steps a float tells which step is meant, after two roundings
# Rounding to the nearest float moves a number by at most this share of it.
_HALF_DIGIT = Fraction(1, 1 << 53)


def lower_bound(
    found: Verdict | Positives | HybridTop | UnlistedTop,
    *,
    confidence: Number = 0.95,
    selective: bool = False,
) -> Any:
    """Return a lower bound of each answer that was found above a noisy threshold, at no cost.

    By default the bound is right for a question **before it is known whether it is found**: with
    probability at most 1 - confidence the question is found and its bound is wrong. Among many
    questions that are far below the threshold a few are found all the same, and *their* bounds are
    wrong. With `selective` at most a share 1 - confidence of the findings of each question has a
    wrong bound; that bound is lower, and there is none where the answer lies too close to its noisy
    threshold.

    Parameters
    ----------
    found : Verdict, Positives, HybridTop or UnlistedTop
        What a sparse vector or a hybrid with a threshold released.
    confidence : number
        In (0, 1).
    selective : bool
        Whether the bound holds given that the answer was found. Only for `SparseVector`, where it
        is proved: for lists (whose order and thresholds were fixed before), and for verdicts of a
        stream with `positives=1` or `resample`.

    Returns
    -------
    float, or array of shape (t,)
        In the unit of the answers; one number for a verdict. -inf where nothing can be said: not
        above, no gap (a later pass, or a hybrid that did not meet its threshold), or too small a
        gap.

    Raises
    ------
    InvalidParameter
        If the confidence is not in (0, 1), or no selective bound is proved for the mechanism.

    Notes
    -----
    Each bound holds for its own question with the stated confidence, all of them together with
    less. Where a question has several branches, 1 - confidence is divided among them.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(threshold=100, positives=2, epsilon=1, sensitivity=sd.COUNTING)
    >>> found = m.release([3, 170, 8, 104, 2], entropy=sd.Seeded(7))
    >>> sd.lower_bound(found, confidence=0.95)
    array([166.,  95.])
    >>> sd.lower_bound(found, confidence=0.95, selective=True)
    array([166., -inf])
    """
    wrong = 1 - SHARE("lower_bound.confidence", confidence)
    TRUTH("lower_bound.selective", selective)
    if not isinstance(found, Verdict | Positives | HybridTop | UnlistedTop):
        raise InvalidParameter(
            "lower_bound.found must be a Verdict, Positives, HybridTop or UnlistedTop; got "
            "something else."
        )
    if selective:
        _check_selective(found)
    if isinstance(found, Verdict):
        return _bound_answers(found, [_read_found_verdict(found)], wrong, selective=selective)[0]
    return np.array(
        _bound_answers(found, _read_found_list(found), wrong, selective=selective), dtype=np.float64
    )


class _NoisyAnswer(NamedTuple):
    """One answer, in steps.

    `value` is its noisy value less the noise of the threshold, `branch` its branch, and `lift` how
    far it lies above the noisy threshold.
    """

    value: int
    branch: int
    lift: int


def _bound_answers(
    found: Any, seen: list[_NoisyAnswer | None], wrong: Fraction, *, selective: bool
) -> list[float]:
    laws = differences(found)
    share = wrong / len(laws)  # a question with several branches can be found by each of them
    return [
        -math.inf
        if one is None
        else _bound_answer(laws[one.branch], one, share, found.mechanism.step, selective)
        for one in seen
    ]


def _bound_answer(
    law: Difference, seen: _NoisyAnswer, wrong: Fraction, step: Fraction, selective: bool
) -> float:
    if selective:
        lowest = law.lowest(seen.lift, wrong)
        if lowest is None:
            return -math.inf
        # Value less lift is the public threshold, from which heights are counted.
        steps = seen.value - seen.lift + lowest
    else:
        steps = seen.value - law.reach(wrong)
    # The lowest value of the grid stands for everything below it.
    return -math.inf if steps <= -CLAMP else _round_down_to_float(steps * step)


def _round_down_to_float(number: Fraction) -> float:
    # The nearest float may lie above the number. Then the next one below is taken.
    near = float(number)
    return math.nextafter(near, -math.inf) if Fraction(near) > number else near


def _read_found_list(found: Positives | HybridTop | UnlistedTop) -> list[_NoisyAnswer | None]:
    mechanism, laws = found.mechanism, differences(found)
    centers = [
        Fraction((law.query.mean - law.threshold.mean) * float(mechanism.step)) for law in laws
    ]
    corrections = getattr(mechanism, "branch_corrections", None) or (Fraction(0),)
    branches = found.branches.tolist() if isinstance(found, Positives) else [0] * found.indices.size
    seen: list[_NoisyAnswer | None] = []
    for estimate, gap, branch in zip(
        found.estimates.tolist(), found.gaps.tolist(), branches, strict=True
    ):
        # A finding of a later pass has no gap, so nothing is known of its answer.
        if math.isnan(estimate):
            seen.append(None)
            continue
        # The estimate was centered by the means of the noise. With them added again it is the noisy
        # answer.
        value = (Fraction(estimate) + centers[branch]) / mechanism.step
        # A gap is counted from the threshold as it was stated, a lift from where the test really
        # is.
        lift = (Fraction(gap) - corrections[branch]) / mechanism.step
        # From 2^51 steps on the float may stand for a step nearby. The value is lowered then: the
        # bound stays a lower one.
        seen.append(
            _NoisyAnswer(
                round(value) - int(abs(value) / _EXACT_STEPS),
                branch,
                _lift_steps(lift, gap, mechanism.step),
            )
        )
    return seen


def _lift_steps(lift: Fraction, gap: float, step: Fraction) -> int:
    """Return the steps in a lift that was rounded to a float.

    It is one less where the float does not tell.
    """
    error = abs(Fraction(gap)) / step * _HALF_DIGIT
    certain = lift.denominator == 1 and error < 1  # a threshold on the grid
    return max(0, math.floor(lift if certain else lift - error))


def _read_found_verdict(found: Verdict) -> _NoisyAnswer | None:
    if found.gap is None or found.branch is None:
        return None
    # A verdict comes from a sparse vector, so that what is loaded here was loaded before.
    # Counts need not load it.
    from sordino.mechanisms.crossings.branches import cut_at  # noqa: PLC0415

    mechanism = found.mechanism
    cut = cut_at(
        "Verdict.threshold",
        found.threshold,
        mechanism.branch_corrections[found.branch],
        mechanism.step,
    )
    lift = (Fraction(found.gap) - cut.above) / mechanism.step
    error = abs(Fraction(found.gap)) / mechanism.step * _HALF_DIGIT
    # Where the float does not tell the step, the smallest lift that it may stand for.
    whole = round(lift) if error < Fraction(1, 2) else max(0, math.floor(lift - error))
    return _NoisyAnswer(cut.steps + whole, found.branch, whole)


def _check_selective(found: Any) -> None:
    """Refuse what no selective bound is proved for."""
    from sordino.mechanisms import SparseVector  # noqa: PLC0415 - counts need not load it

    mechanism = found.mechanism
    if not isinstance(mechanism, SparseVector):
        raise InvalidParameter(
            f"lower_bound.selective must be False for what {type(mechanism).__name__} found: being "
            "found depends there on more than one test. Measure the answer afresh and take its "
            "interval."
        )
    if isinstance(found, Verdict) and mechanism.positives > 1 and not mechanism.resample:
        raise InvalidParameter(
            "lower_bound.selective must be False for a stream with several positives and one "
            "threshold, whose later questions may be chosen by what was found. Use positives=1 or "
            "resample=True, or release a list."
        )


# ---- p values ------------------------------------------------------------------------------------


_P_VALUE_ROUNDING = 2.0**-44
_UNDERFLOW = 4 * math.ulp(0.0)  # below 1e-307 the bits that are lost are no longer a share


def p_value(choice: Choice) -> float:
    """Return the p-value of "the selected answer is not the only largest", from the released gap.

    It is post-processing, at no cost.

    Parameters
    ----------
    choice : Choice
        From an `ExponentialMechanism` with `gap=True`, with at least two answers.

    Returns
    -------
    float
        min(1, 2/(1 + e^g)), the gap g in nats (gap/step times the rate). It is at most alpha
        from g = ln(2/alpha - 1) on: 3.66 nats for 0.05. Among answers between two grid points it
        is about the grid points. It is rounded up, and never 0.

    Raises
    ------
    InvalidParameter
        If the choice was released without a gap.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.ExponentialMechanism(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> best = mechanism.release([120, 7, 110, 3], entropy=sd.Seeded(7))
    >>> best.gap, round(sd.p_value(best), 7)
    (12.0, 1.23e-05)
    """
    gap = _gap_of_choice(choice)
    if gap is None:
        raise InvalidParameter(
            "p_value needs a Choice with a gap, which an ExponentialMechanism(gap=True) releases "
            "about two answers or more."
        )
    # In nats (docs/proofs/exponential-mechanism.md, "The p-value").
    lead = gap / float(choice.mechanism.step) * float(choice.mechanism.rate)
    small = math.exp(-lead)  # 2/(1 + e^g) = 2 e^-g/(1 + e^-g), without an overflow
    # A relative error of the lead changes e^-lead by a share that grows with the lead.
    return min(1.0, 2 * small / (1 + small) * (1 + _P_VALUE_ROUNDING * (1 + lead)) + _UNDERFLOW)


def _gap_of_choice(choice: Any) -> float | None:
    return choice.gap if isinstance(choice, Choice) else None


def interval(released: Value | Values, *, confidence: Number = 0.95) -> tuple[Any, Any]:
    """Return the two ends of an interval for each true answer behind a release.

    The release is of a `LaplaceMechanism`, `GaussianMechanism` or `FoldedMechanism`.

    Parameters
    ----------
    released : Value or Values
        What the mechanism released.
    confidence : number
        In (0, 1): the least probability with which each interval covers its own answer.

    Returns
    -------
    low, high : float, or arrays of shape (n,)
        In the unit of the answers (for answers between two grid points: of the grid point below; of
        a `FoldedMechanism` without a step: of the one that the answer was rounded to). After folded
        noise both lie in the range of the answers, and an answer beyond that range counts as its
        end.

    Raises
    ------
    InvalidParameter
        If the confidence is not in (0, 1), or the release is of another mechanism.

    Examples
    --------
    >>> import sordino as sd
    >>> laplace = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> count = laplace.release(1000, entropy=sd.Seeded(7))
    >>> low, high = sd.interval(count, confidence=0.95)
    >>> high - low
    6.0
    """
    from sordino.mechanisms import FoldedMechanism  # noqa: PLC0415 - few releases need it

    share = SHARE("interval.confidence", confidence)
    mechanism = getattr(released, "mechanism", None)
    if not isinstance(mechanism, LaplaceMechanism | GaussianMechanism | FoldedMechanism):
        raise InvalidParameter(
            "interval.released must be what LaplaceMechanism, GaussianMechanism or FoldedMechanism "
            "released."
        )
    reach, step = find_reach(mechanism, share), float(mechanism.step)
    # Fresh noise has its own law whatever was selected before, so the interval holds after a
    # selection as well (docs/proofs/intervals.md).
    values = released.value if isinstance(released, Value) else released.values
    if not isinstance(mechanism, FoldedMechanism):
        return values - reach, values + reach
    low, high = (end * step for end in mechanism.ends)
    # A released number beyond an end of the range is cut to that end: the ends stand for all that
    # lies beyond.
    unfolded = np.clip(values, low, high)
    ends = np.maximum(low, unfolded - reach), np.minimum(high, unfolded + reach)
    return ends if isinstance(released, Values) else (float(ends[0]), float(ends[1]))


def find_reach(mechanism: Any, confidence: Fraction) -> float:
    """Return how far the noise on one answer reaches, in its unit: half the width of an interval.

    The noise exceeds it in size with a probability of at most 1 - confidence.
    """
    # The law is symmetric: half of what is left lies on each side.
    steps = -mechanism.noise.quantile(float((1 - confidence) / 2))
    return float(steps * float(mechanism.step))
