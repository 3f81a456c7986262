"""The best correction: the public number added to a threshold so that a task is most likely done.

The task is to pass a run of answers below the threshold and to find the next one above it.

Claim: none about privacy: a correction is a public constant. Source: [liu2024, Sec. 4.3], with closed forms
for every pair of laws.
Floats: everything here; the mechanism turns the result into a whole threshold once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

Family = Literal["exponential", "laplace"]

# Sections in this ratio let each step of the search reuse one of its two values.
_GOLDEN_SECTION = (math.sqrt(5) - 1) / 2
# A Laplace variable is an exponential one of random sign.
_SIGNS: dict[str, tuple[int, ...]] = {"exponential": (1,), "laplace": (1, -1)}


def lead_probability(z: float, query: tuple[Family, float], threshold: tuple[Family, float]) -> float:
    """Return P(X - Y >= z) for noise X of a query and Y of the threshold, each a family with its scale.

    The laws are continuous. Sums of positive terms, also where both scales agree; one sign of each variable
    at a time.
    """
    (x, s), (y, b) = query, threshold
    terms = [_tail_of_difference(z, s * i, b * j) for i in _SIGNS[x] for j in _SIGNS[y]]
    return math.fsum(terms) / len(terms)


def stays(z: float, query: tuple[Family, float], threshold: tuple[Family, float]) -> float:
    """Return P(X - Y < z): the same with all signs turned, so that small probabilities keep their digits."""
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
    """Return the correction that makes it likeliest that `run` answers stay below and the next one is found.

    The probability is P(X - Y < r + margin)^run P(X - Y >= r - margin), for answers that keep `margin` from
    the threshold, each looked at alone [liu2024]. Without margin the best r is where a share 1/(run + 1)
    crosses; exponential noise on both sides has a closed form.

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
        crossing = _find_root(lambda z: math.log(lead_probability(z, query, threshold)) - goal, scale)
        if margin == 0:
            return crossing

    def value(r: float) -> float:
        below, above = stays(r + margin, query, threshold), lead_probability(r - margin, query, threshold)
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


def highest(value: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9) -> float:
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
