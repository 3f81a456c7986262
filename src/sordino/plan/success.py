"""A lower bound of the probability that all noisy comparisons with one noisy threshold are right.

Claim: `expected` is at most E[prod P(X_i < Y - h_i)^n_i * P(some branch: X_j >= Y - g_j)^times] for
independent noise X and Y, and within 2^-33 of it (relative) where a step is not much finer than the
noise. Proof: docs/proofs/accuracy.md. Floats: everything here, with a margin that covers their
rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric

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
