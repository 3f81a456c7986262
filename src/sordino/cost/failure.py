"""Sets probabilities of failure aside, and adds them back to the guarantee that holds without failure.

If with probability f, the same under both laws, nothing is promised and otherwise a curve d holds, then f +
(1 - f) d holds.
Proof: docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

from sordino.cost.conversion import round_down, round_up, stated

# Bits of a product of fractions up to which it is formed exactly; longer ones take too long.
_EXACT_BITS = 1 << 12


def failure(deltas: Iterable[tuple[Fraction, int]]) -> Fraction:
    """Return the probability that any of independent failures happens: 1 - prod (1 - delta)^count.

    It is exact or rounded up.
    """
    listed = [(delta, count) for delta, count in deltas if delta]
    if sum(count * delta.denominator.bit_length() for delta, count in listed) <= _EXACT_BITS:
        return 1 - math.prod(((1 - delta) ** count for delta, count in listed), start=Fraction(1))
    # Relative errors of a few 2^-53 in each term, all terms of one sign.
    # The logarithm of 0 does not exist. A delta that rounds up to 1 may as well be 1.
    if any(round_up(delta) >= 1 for delta, _ in listed):
        return Fraction(1)
    # Counts and deltas are rounded up, toward more failures.
    # At -1000 the result is 1 in floats already, so that the cut changes nothing.
    total = math.fsum(max(round_up(count) * math.log1p(-round_up(delta)), -1e3) for delta, count in listed)
    return min(Fraction(1), Fraction(-math.expm1(total)) * (1 + Fraction(1, 10**14)))


def kept_epsilon(failing: Fraction, delta: Fraction, epsilon_at: Callable[[float], float]) -> float:
    """Return the epsilon at `delta` when nothing is promised with probability `failing`.

    The rest of delta is spent on what holds without failure.
    """
    if delta < failing:
        return math.inf
    # Of delta, (delta - f) / (1 - f) may be spent on the rest ("Guarantees that fail"), rounded down.
    return epsilon_at(round_down((delta - failing) / (1 - failing) if failing < 1 else Fraction(0)))


def raised_delta(failing: Fraction, delta: float) -> float:
    """Return f + (1 - f) delta as a float whose shortest decimal is at least that.

    The shortest decimal is what a float means here.
    """
    if not failing:
        return delta
    # Exact up to here, and rounded once.
    number = failing + (1 - failing) * Fraction(delta)
    nearest = float(number)
    return nearest if Fraction(repr(nearest)) >= number else min(1.0, stated(number))
