"""Whole-number noise as the auditor counts it.

Every probability is a whole number times e^(-rate * level), over one constant.

Claim: `mass` encloses the sum of weight * e^(-rate level) over all whole numbers. Proof:
docs/proofs/exact-audit.md, "Masses".
Floats: none in `mass`; correctly rounded decimals with a bound on each side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import FINITE, WHOLE, shown
from sordino.errors import InvalidParameter
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import Bounds, contexts, exp_bounds

_LARGEST_WEIGHT_SUM = 1 << 31


@final
@dataclass(frozen=True)
class Finite:
    """Noise with finitely many values `low`, `low + 1`, ...: probabilities are proportional to `weights`.

    Parameters
    ----------
    weights : iterable of int
        At least one, all at least 0, with a sum from 1 to 2^31.
    low : int
        The first value, in steps.

    Raises
    ------
    InvalidParameter
        If the weights are no such numbers.

    Examples
    --------
    >>> import sordino_audit as audit
    >>> audit.Finite([1, 1]).rate
    Fraction(0, 1)
    """

    weights: tuple[int, ...]
    low: int = 0
    rate: ClassVar[Fraction] = Fraction(0)
    name: ClassVar[str] = "finite"

    def __init__(self, weights: Iterable[int], *, low: int = 0) -> None:
        listed = tuple(WHOLE("audit.Finite.weights", weight) for weight in weights)
        if not 1 <= sum(listed) <= _LARGEST_WEIGHT_SUM:
            raise InvalidParameter("audit.Finite.weights must have a sum from 1 to 2^31.")
        first = FINITE("audit.Finite.low", low)
        if first.denominator != 1 or abs(first) > _LARGEST_WEIGHT_SUM:
            raise InvalidParameter("audit.Finite.low must be a whole number from -2^31 to 2^31.")
        object.__setattr__(self, "weights", listed)
        object.__setattr__(self, "low", int(first))


Noise = Geometric | DiscreteLaplace | DiscreteGaussian | Finite


def checked_law(law: Any, owner: str) -> Noise:
    """Return `law` if its probabilities can be counted, else raise `InvalidParameter`."""
    if not isinstance(law, Noise):
        raise InvalidParameter(
            f"{owner} must be a Geometric, DiscreteLaplace, DiscreteGaussian or audit.Finite law, "
            "whose probabilities can be "
            f"counted; got {shown(law)}. Give the statistical audit what has another law."
        )
    return law


def levels(law: Noise, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rates each value costs: x, |x| or x^2; 0 for a finite law."""
    if isinstance(law, DiscreteGaussian):
        return x * x
    return np.zeros_like(x) if isinstance(law, Finite) else np.abs(x)


def weights(law: Noise, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the whole factor of each value: 1 unless the law is finite."""
    return np.array(law.weights, dtype=np.int64)[x - law.low] if isinstance(law, Finite) else np.ones_like(x)


def mass(law: Noise, digits: int) -> Bounds:
    """Return bounds of the sum of weight * e^(-rate level) over the whole law.

    Probabilities are divided by this constant.
    """
    if isinstance(law, Finite):
        # Whole weights are added exactly: both bounds are the same.
        return Decimal(sum(law.weights)), Decimal(sum(law.weights))
    if isinstance(law, DiscreteGaussian):
        return gaussian_mass(law.rate, Fraction(0), digits)
    # The other two laws are geometric series, whose sums rise with r.
    down, up = contexts(digits)
    low, high = exp_bounds(law.rate, digits)
    # 1/(1 - r) for the geometric law, (1 + r)/(1 - r) for discrete Laplace.
    above, below = (
        (down.add(1, low), up.add(1, high)) if isinstance(law, DiscreteLaplace) else (Decimal(1), Decimal(1))
    )
    return down.divide(above, up.subtract(1, low)), up.divide(below, down.subtract(1, high))


def gaussian_mass(rate: Fraction, shift: Fraction, digits: int) -> Bounds:
    """Return bounds of the sum of e^(-rate (x - shift)^2) over all whole x.

    Beyond distance d >= 1 on either side the terms fall at least as fast as a geometric series of the
    ratio e^(-2 rate d).
    """
    down, up = contexts(digits)
    center = round(shift)
    reach = 1
    # e^(-3 digits) is less than 10^-digits: what is farther out does not show.
    while rate * reach * reach < 3 * digits:
        reach *= 2
    low = high = Decimal(0)
    for x in range(center - reach, center + reach + 1):
        term = exp_bounds(rate * (x - shift) ** 2, digits)
        low, high = down.add(low, term[0]), up.add(high, term[1])
    nearest = reach + 1 - abs(shift - center)  # the closest point that was left out
    ratio = exp_bounds(2 * rate * nearest, digits)[1]
    # Both sides together, see "Masses" on the proof page: 2 e^(-rate d^2) / (1 - e^(-2 rate d)), d the
    # distance of the nearest point that was left out.
    rest = up.divide(up.multiply(2, exp_bounds(rate * nearest**2, digits)[1]), down.subtract(1, ratio))
    return low, up.add(high, rest)
