"""Bounds for every output, played or not, that follow from added noise alone.

Whatever `decide` does with noisy answers cannot lose more than the noisy answers do.

Claim: data processing; the noisy answers are independent, so their losses add. Proof:
docs/proofs/exact-audit.md, "Everywhere".
Floats: only outward rounding of the final bounds.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from sordino.audit.enumeration.comparison import log_bounds, up
from sordino.audit.enumeration.laws import Noise, gaussian_mass
from sordino.audit.enumeration.region import DIGITS
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import contexts, ratio_bounds


def epsilon_everywhere(laws: tuple[Noise, ...], moves: NDArray[Any], *, lifted: bool) -> Fraction | float:
    """Return a bound of the log ratio of all outputs when answers move by `moves` steps.

    It is inf where the noise alone proves nothing.

    Laplace noise of either sign pays for the move. One-sided noise pays only upward: if outputs do not change
    when all noisy answers are `lifted` together, the noise may rise by some common lift less the own move.
    """
    # The best lift is 0 or one of the moves: what is paid is linear between them.
    lifts = {0, *moves.tolist()} if lifted else {0}
    return min(_price_of_rises(laws, [lift - move for move in moves.tolist()]) for lift in lifts)


def _price_of_rises(laws: tuple[Noise, ...], rises: list[int]) -> Fraction | float:
    """Return what it costs that the noise rises by these steps (falls, where they are negative)."""
    total = Fraction(0)
    for law, rise in zip(laws, rises, strict=True):
        # Gaussian and finite noise bound no ratio, and one-sided noise none where it would have to fall.
        if rise and not (isinstance(law, DiscreteLaplace) or (isinstance(law, Geometric) and rise > 0)):
            return math.inf
        total += law.rate * abs(rise)
    return total


def renyi_everywhere(laws: tuple[Noise, ...], moves: NDArray[Any], alpha: Fraction) -> float:
    """Return a bound of the Rényi divergence of order `alpha` of all outputs.

    It is inf unless what moves has Gaussian noise.

    For a law with probabilities proportional to e^(-b x^2) and its shift by m, completing the square gives
    alpha b m^2 plus ln(M(b, (1 - alpha) m) / M(b, 0)) / (alpha - 1), where M(b, s) is the sum of e^(-b (x -
    s)^2).
    """
    # Noisy answers are independent: the divergences of their coordinates add up.
    below, above = contexts(DIGITS)
    bound = ratio_bounds(Fraction(0), DIGITS)[1]
    for law, move in zip(laws, moves.tolist(), strict=True):
        if not move:
            continue
        if not isinstance(law, DiscreteGaussian):
            return math.inf
        square = ratio_bounds(alpha * law.rate * int(move) ** 2, DIGITS)[1]
        shift = (1 - alpha) * int(move)
        # A whole shift only renumbers the terms: the ratio is 1.
        if shift.denominator != 1:
            numerator, denominator = (
                gaussian_mass(law.rate, shift, DIGITS)[1],
                gaussian_mass(law.rate, Fraction(0), DIGITS)[0],
            )
            log = log_bounds((below.divide(numerator, denominator), above.divide(numerator, denominator)))[1]
            # The sign of the logarithm decides which end of the factor makes the product larger.
            share = ratio_bounds(1 / (alpha - 1), DIGITS)
            square = above.add(square, above.multiply(share[1] if log > 0 else share[0], log))
        bound = above.add(bound, square)
    return up(bound)
