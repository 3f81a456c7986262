"""How a sparse vector divides its budget between threshold and questions.

Claim: none about privacy: shares are public constants. Sources: [lyu2017; ding2022; liu2024], for every pair
of laws.
Floats: everything here; a share is rounded to 20 binary digits, and the mechanism counts with that fraction.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import DOMAIN_SIZE, FINITE, NOT_NEGATIVE, SHARE, one_of, shown
from sordino.errors import InvalidParameter
from sordino.mechanisms.crossings.correction import Family, best_correction, highest

_UNIT_VARIANCE = {"exponential": 1.0, "laplace": 2.0}  # of noise with scale 1
# A share keeps its first 20 binary digits.
_SHARE_BITS = 20
_MOST_SCALES = Fraction(1 << 60)


class Task(NamedTuple):
    """What is to be found: `run` answers `margin` below the threshold, then one as far above, and so on.

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
        """Return the plan, or raise `InvalidParameter`, which names the parameters that are at fault."""
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
                f"{owner}.correction_run must be given with correction='optimal' and split='success': how "
                "many answers below come before one above."
            )
        if split == "success" and not found.margin:
            raise InvalidParameter(
                f"{owner}.correction_margin must be above 0 with split='success'; got {shown(margin)}."
            )
        if not wanted and (run is not None or margin is not None):
            raise InvalidParameter(
                f"{owner}.correction_run and correction_margin must only be given with correction='optimal' "
                "or split='success'."
            )
        return found

    def share(self, task: Task, unit: Fraction) -> tuple[Fraction, Fraction | None]:
        """Return the share of the threshold, and the correction.

        The correction is None if it is still to be chosen for that share. `unit` is bound/epsilon, in the
        unit of the answers.
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

    def best_correction(self, query: tuple[Family, Fraction], threshold: tuple[Family, Fraction]) -> Fraction:
        """Return the best correction for noise of these families and scales, in the unit of the answers."""
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

    That is the variance of noisy answer less noisy threshold. Questions get w = (kappa^2 c^2 A_q / A_0)^(1/3)
    times as much, with A the variance at scale 1; without c for new thresholds.
    """
    c = 1 if task.resample else task.positives
    return 1 / (
        1 + math.cbrt(task.kappa**2 * c**2 * _UNIT_VARIANCE[task.query] / _UNIT_VARIANCE[task.threshold])
    )


@lru_cache(maxsize=256)
def success_share(task: Task, correction: float | None) -> tuple[float, float]:
    """Return the share, and the correction if None is given, that make finding all of the task likeliest.

    The true probability is maximized, with one threshold for all questions of a stage. It may have more than
    one peak, so a grid is searched first.
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
    """Return the largest log probability of success at this share, and the correction that reaches it."""
    s, b = scales(task, share)
    # A grid first, then a search around its best point.
    step = (s + b) / 4
    grid = np.arange(-4 * s, s * (math.log(task.run + 1) + 6), step).tolist()
    peak = max(grid, key=lambda r: log_success(task, share, r))
    r = highest(lambda r: log_success(task, share, r), peak - step, peak + step, 1e-4)
    return log_success(task, share, r), r


def scales(task: Task, share: float) -> tuple[float, float]:
    """Return the scales of the noise of questions and thresholds, in units of bound/epsilon."""
    return task.kappa * task.positives / (1 - share), (task.positives if task.resample else 1) / share


def log_success(task: Task, share: float, r: float) -> float:
    """Return the log probability that all questions of the task are answered correctly.

    It is an integral over the noise of the threshold, by quadrature.

    One stage: E[(F(r + rho + margin)^run (1 - F(r + rho - margin)))^c] with F of the questions; a new rho
    each time: c such stages.
    """
    s, b = scales(task, share)
    rho, weight = _threshold_nodes(
        b, (-r - task.margin, -r + task.margin), two_sided=task.threshold == "laplace", width=min(s, b) / 4
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
    panels = [np.linspace(a, z, max(2, min(257, 2 + math.ceil((z - a) / width)))) for a, z in pairwise(ends)]
    left = np.concatenate([part[:-1] for part in panels])
    right = np.concatenate([part[1:] for part in panels])
    x, w = _gauss_rule()
    rho = (left + right)[:, None] / 2 + (right - left)[:, None] / 2 * x
    weight = (right - left)[:, None] / 2 * w * np.exp(-np.abs(rho) / b) / (2 * b if two_sided else b)
    return rho.ravel(), weight.ravel()


@lru_cache(maxsize=1)
def _gauss_rule() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eight nodes and weights of Gauss and Legendre on [-1, 1]."""
    return np.polynomial.legendre.leggauss(8)
