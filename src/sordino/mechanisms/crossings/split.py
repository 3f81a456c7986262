"""How a sparse vector divides its budget between threshold and questions.

Claim: none about privacy: shares are public constants. Sources: [lyu2017; ding2022; liu2024], for
every pair of laws. Floats: everything here; a share is rounded to 20 binary digits, and the
mechanism counts with that fraction.

The best correction: the public number added to a threshold so that a task is most likely done.

The task is to pass a run of answers below the threshold and to find the next one above it.

Claim: none about privacy: a correction is a public constant. Source: [liu2024, Sec. 4.3], with
closed forms for every pair of laws. Floats: everything here; the mechanism turns the result into a
whole threshold once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import DOMAIN_SIZE, FINITE, NOT_NEGATIVE, SHARE, one_of, shown
from sordino.errors import InvalidParameter

# ---- correction ----------------------------------------------------------------------------------


Family = Literal["exponential", "laplace"]

# Sections in this ratio let each step of the search reuse one of its two values.
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
# A Laplace variable is an exponential one of random sign.
_SIGNS: dict[str, tuple[int, ...]] = {"exponential": (1,), "laplace": (1, -1)}


def lead_probability(
    z: float, query: tuple[Family, float], threshold: tuple[Family, float]
) -> float:
    """Return P(X - Y >= z) for noise X of a query and Y of the threshold.

    Each is a family with its scale. The laws are continuous. Sums of positive terms, also where
    both scales agree; one sign of each variable at a time.
    """
    (x, s), (y, b) = query, threshold
    terms = [_tail_of_difference(z, s * i, b * j) for i in _SIGNS[x] for j in _SIGNS[y]]
    return math.fsum(terms) / len(terms)


def stays(z: float, query: tuple[Family, float], threshold: tuple[Family, float]) -> float:
    """Return P(X - Y < z), which is `lead_probability` with all signs turned.

    So small probabilities keep their digits.
    """
    (x, s), (y, b) = query, threshold
    terms = [_tail_of_difference(-z, -s * i, -b * j) for i in _SIGNS[x] for j in _SIGNS[y]]
    return math.fsum(terms) / len(terms)


def _tail_of_difference(z: float, s: float, b: float) -> float:
    """Return P(E - F >= z), where E / s and F / b are standard exponential.

    A scale below 0 changes the sign of its variable.
    """
    # Both parts are negative: minus the sum of two exponential variables.
    if s < 0 < b:
        return 1 - _tail_of_sum(-z, -s, b)
    # Both parts are positive: their sum.
    if b < 0 < s:
        return _tail_of_sum(z, s, -b)
    if s < 0:  # F' - E' of the turned ones
        s, b = -b, -s
    # A difference has exponential tails on both sides, each with the scale of its own variable.
    return s / (s + b) * math.exp(-z / s) if z >= 0 else 1 - b / (s + b) * math.exp(z / b)


def _tail_of_sum(z: float, s: float, b: float) -> float:
    """Return P(E + F >= z) for exponential variables of scales s and b, equal or not."""
    if z <= 0:
        return 1.0
    # Written so that no digits are lost where both scales are nearly equal.
    near, far = sorted((z / s, z / b))
    d = far - near
    psi = math.exp(-near) * (-math.expm1(-d) / d if d else 1.0)  # (e^-near - e^-far) / (far - near)
    return math.exp(-z / s) + z / s * psi


def best_correction(
    run: int, margin: float, query: tuple[Family, float], threshold: tuple[Family, float]
) -> float:
    """Return the correction with which `run` answers likeliest stay below and the next is found.

    The probability is P(X - Y < r + margin)^run P(X - Y >= r - margin), for answers that keep
    `margin` from the threshold, each looked at alone [liu2024]. Without margin the best r is where
    a share 1/(run + 1) crosses; exponential noise on both sides has a closed form.

    Parameters
    ----------
    run : int
        How many answers below come before one above, at least 1.
    margin : float
        How far answers keep from the threshold, at least 0, in the unit of the scales.
    query, threshold : pairs of a family and a scale
    """
    (x, s), (y, b) = query, threshold
    scale = s + b
    if x == y == "exponential":
        crossing = (
            s * math.log((run + 1) * s / scale)
            if run * s >= b
            else b * math.log(run * scale / ((run + 1) * b))
        )
        # Here both tails are one exponential, so that the margin only shifts the best correction.
        if margin == 0 or crossing >= 2 * margin:
            return crossing - margin
    else:
        goal = -math.log(run + 1)
        crossing = _find_root(
            lambda z: math.log(lead_probability(z, query, threshold)) - goal, scale
        )
        if margin == 0:
            return crossing

    def value(r: float) -> float:
        below, above = (
            stays(r + margin, query, threshold),
            lead_probability(r - margin, query, threshold),
        )
        # As a logarithm, so that a long run does not underflow.
        return run * math.log(below) + math.log(above) if below > 0 and above > 0 else -math.inf

    return highest(value, -margin - 9 * scale, max(crossing, 0.0) + margin + scale)


def _find_root(falling: Callable[[float], float], scale: float) -> float:
    """Return where a falling function is 0, to the last digits."""
    low = high = 0.0
    # Outward, twice as far each time, until the root lies between.
    while falling(low) < 0:
        low = 2 * low - scale
    while falling(high) > 0:
        high = 2 * high + scale
    while True:
        middle = (low + high) / 2
        # No float lies between the two: these are the last digits.
        if not low < middle < high:
            return middle
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)


def highest(
    value: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9
) -> float:
    """Return where a function that rises and then falls is highest, by golden sections."""
    width = tolerance * (high - low)
    a, b = high - _GOLDEN_SECTION * (high - low), low + _GOLDEN_SECTION * (high - low)
    at_a, at_b = value(a), value(b)
    while high - low > width:
        # Where both values are -inf the search moves to the right.
        if at_a >= at_b and not at_a == at_b == -math.inf:
            high, b, at_b = b, a, at_a
            a = high - _GOLDEN_SECTION * (high - low)
            at_a = value(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + _GOLDEN_SECTION * (high - low)
            at_b = value(b)
    return (low + high) / 2


_UNIT_VARIANCE = {"exponential": 1.0, "laplace": 2.0}  # of noise with scale 1
# A share keeps its first 20 binary digits.
_SHARE_BITS = 20
_MOST_SCALES = Fraction(1 << 60)


class Task(NamedTuple):
    """What is to be found: `run` answers `margin` below the threshold, then one as far above.

    There are `positives` such rounds; `margin` is in units of bound/epsilon.
    """

    query: Family
    threshold: Family
    kappa: int
    positives: int
    resample: bool
    run: int = 1
    margin: float = 0.0


class SplitPlan(NamedTuple):
    """How the caller wants split and correction chosen, checked."""

    split: Fraction | str
    correction: Fraction | str
    run: int
    margin: Fraction

    @classmethod
    def checked(cls, owner: str, split: Any, correction: Any, run: Any, margin: Any) -> SplitPlan:
        """Return the plan, or raise `InvalidParameter`, which names the parameters at fault."""
        if isinstance(split, str):
            one_of("variance", "success")(f"{owner}.split", split)
        else:
            split = SHARE(f"{owner}.split", split)
        if isinstance(correction, str):
            one_of("optimal")(f"{owner}.correction", correction)
        else:
            correction = FINITE(f"{owner}.correction", 0 if correction is None else correction)
        found = cls(
            split,
            correction,
            1 if run is None else DOMAIN_SIZE(f"{owner}.correction_run", run),
            NOT_NEGATIVE(f"{owner}.correction_margin", 0 if margin is None else margin),
        )
        wanted = split == "success" or correction == "optimal"
        if wanted and run is None:
            raise InvalidParameter(
                f"{owner}.correction_run must be given with correction='optimal' and "
                "split='success': how many answers below come before one above."
            )
        if split == "success" and not found.margin:
            raise InvalidParameter(
                f"{owner}.correction_margin must be above 0 with split='success'; got "
                f"{shown(margin)}."
            )
        if not wanted and (run is not None or margin is not None):
            raise InvalidParameter(
                f"{owner}.correction_run and correction_margin must only be given with "
                "correction='optimal' or split='success'."
            )
        return found

    def share(self, task: Task, unit: Fraction) -> tuple[Fraction, Fraction | None]:
        """Return the share of the threshold, and the correction.

        The correction is None if it is still to be chosen for that share. `unit` is bound/epsilon,
        in the unit of the answers.
        """
        fixed = None if isinstance(self.correction, str) else self.correction
        if isinstance(self.split, Fraction):
            return self.split, fixed
        if self.split == "variance":
            return _shorten_share(variance_share(task)), fixed
        # In units of bound/epsilon the best share depends on the task alone.
        best, correction = success_share(
            task._replace(run=self.run, margin=_clip_to_float(self.margin / unit)),
            None if fixed is None else _clip_to_float(fixed / unit),
        )
        return _shorten_share(best), fixed if fixed is not None else Fraction(correction) * unit

    def best_correction(
        self, query: tuple[Family, Fraction], threshold: tuple[Family, Fraction]
    ) -> Fraction:
        """Return the best correction for noise of these families and scales, in answer units."""
        unit = query[1]
        scale = float(threshold[1] / unit)
        found = best_correction(
            self.run, _clip_to_float(self.margin / unit), (query[0], 1.0), (threshold[0], scale)
        )
        return Fraction(found) * unit


def _clip_to_float(number: Fraction) -> float:
    """Return a public number as a float; beyond 2^60 scales of noise nothing changes any more."""
    # A fraction that is larger still might not fit a float.
    return float(max(min(number, _MOST_SCALES), -_MOST_SCALES))


def _shorten_share(share: float) -> Fraction:
    """Return the share with its first 20 binary digits, in (0, 1)."""
    # A short fraction, because the shares become part of rational rates; never 0 and never 1.
    mantissa, exponent = math.frexp(share)
    kept = max(1, min((1 << _SHARE_BITS) - 1, round(math.ldexp(mantissa, _SHARE_BITS))))
    return Fraction(kept, 1 << _SHARE_BITS) * Fraction(2) ** exponent


def variance_share(task: Task) -> float:
    """Return the share of the budget for the thresholds with the least variance of a comparison.

    That is the variance of noisy answer less noisy threshold. Questions get w = (kappa^2 c^2 A_q /
    A_0)^(1/3) times as much, with A the variance at scale 1; without c for new thresholds.
    """
    c = 1 if task.resample else task.positives
    return 1 / (
        1
        + math.cbrt(
            task.kappa**2 * c**2 * _UNIT_VARIANCE[task.query] / _UNIT_VARIANCE[task.threshold]
        )
    )


@lru_cache(maxsize=256)
def success_share(task: Task, correction: float | None) -> tuple[float, float]:
    """Return the share, and the correction if None is given, that make success likeliest.

    Success is to find all of the task. The true probability is maximized, with one threshold for
    all questions of a stage. It may have more than one peak, so a grid is searched first.
    """

    def best(log_w: float) -> tuple[float, float]:
        share = 1 / (1 + math.exp(log_w))
        return (
            best_success(task, share)
            if correction is None
            else (log_success(task, share, correction), correction)
        )

    # From the share with the least variance on, in even steps of the log odds.
    start = math.log(1 / variance_share(task) - 1)
    grid = [start + 0.5 * i for i in range(-6, 13)]
    peak = max(grid, key=lambda log_w: best(log_w)[0])
    log_w = highest(lambda log_w: best(log_w)[0], peak - 0.5, peak + 0.5, 1e-3)
    return 1 / (1 + math.exp(log_w)), best(log_w)[1]


def best_success(task: Task, share: float) -> tuple[float, float]:
    """Return the largest log probability of success at this share, and its correction."""
    s, b = scales(task, share)
    # A grid first, then a search around its best point.
    step = (s + b) / 4
    grid = np.arange(-4 * s, s * (math.log(task.run + 1) + 6), step).tolist()
    peak = max(grid, key=lambda r: log_success(task, share, r))
    r = highest(lambda r: log_success(task, share, r), peak - step, peak + step, 1e-4)
    return log_success(task, share, r), r


def scales(task: Task, share: float) -> tuple[float, float]:
    """Return the scales of the noise of questions and thresholds, in units of bound/epsilon."""
    return task.kappa * task.positives / (1 - share), (
        task.positives if task.resample else 1
    ) / share


def log_success(task: Task, share: float, r: float) -> float:
    """Return the log probability that all questions of the task are answered correctly.

    It is an integral over the noise of the threshold, by quadrature.

    One stage: E[(F(r + rho + margin)^run (1 - F(r + rho - margin)))^c] with F of the questions; a
    new rho each time: c such stages.
    """
    s, b = scales(task, share)
    rho, weight = _threshold_nodes(
        b,
        (-r - task.margin, -r + task.margin),
        two_sided=task.threshold == "laplace",
        width=min(s, b) / 4,
    )
    inside = np.full(rho.shape, -math.inf)
    below, _ = _log_probabilities(task.query, (r + rho + task.margin) / s)
    _, above = _log_probabilities(task.query, (r + rho - task.margin) / s)
    # Where an answer below would be found for certain, all of the task fails.
    possible = np.isfinite(below)
    inside[possible] = task.run * below[possible] + above[possible]
    stages = 1 if task.resample else task.positives
    # Given the noise of the threshold the questions are independent, so their logs add up.
    terms = stages * inside + np.log(weight)
    # The largest term is taken out before the sum, so that small probabilities do not underflow.
    top = float(terms.max())
    if top == -math.inf:
        return top
    total = top + math.log(float(np.exp(terms - top).sum()))
    return total * task.positives if task.resample else total


def _log_probabilities(
    family: Family, x: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the logs of P(X < x) and P(X >= x) for noise of scale 1."""
    with np.errstate(divide="ignore"):
        if family == "exponential":
            x = np.maximum(x, 0.0)
            return np.log(-np.expm1(-x)), -x
        # The smaller tail; the larger one is computed from it, so that neither loses digits.
        half = np.log(0.5) - np.abs(x)
        rest = np.log1p(-np.exp(half))
        return np.where(x < 0, half, rest), np.where(x < 0, rest, half)


def _threshold_nodes(
    b: float, kinks: tuple[float, ...], *, two_sided: bool, width: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights, density included, of a Gauss rule on panels.

    No kink of the integrand lies inside a panel.
    """
    # Noise beyond 40 scales has a probability of about e^-40.
    low, high = (-40 * b if two_sided else 0.0), 40 * b
    ends = sorted({low, 0.0, high, *(kink for kink in kinks if low < kink < high)})
    panels = [
        np.linspace(a, z, max(2, min(257, 2 + math.ceil((z - a) / width))))
        for a, z in pairwise(ends)
    ]
    left = np.concatenate([part[:-1] for part in panels])
    right = np.concatenate([part[1:] for part in panels])
    x, w = _gauss_rule()
    rho = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * x
    weight = (
        (right - left)[:, None] / 2 * w * np.exp(-np.abs(rho) / b) / (2 * b if two_sided else b)
    )
    return rho.ravel(), weight.ravel()


@lru_cache(maxsize=1)
def _gauss_rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eight nodes and weights of Gauss and Legendre on [-1, 1]."""
    return np.polynomial.legendre.leggauss(8)
