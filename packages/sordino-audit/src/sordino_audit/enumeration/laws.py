"""Whole-number noise as the auditor counts it, and the noise vectors that are played.

Every probability is a whole number times e^(-rate * level), over one constant. Played are all
vectors whose exponents sum to at most a budget, which leaves out about as little as was asked.

Claim: `mass` encloses the sum of weight * e^(-rate level) over all whole numbers, and
`Region.rest` is at least the mass of all noise vectors outside the region. Proof:
docs/proofs/exact-audit.md, "Masses" and "Region".
Floats: they choose the region, which may be any finite set; masses are correctly rounded decimals
on each side.
"""

from __future__ import annotations

import math
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
    """Noise with finitely many values `low`, `low + 1`, ....

    Probabilities are proportional to `weights`.

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
            f"whose probabilities can be counted; got {shown(law)}. Give the statistical audit "
            "what has another law."
        )
    return law


def levels(law: Noise, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rates each value costs: x, |x| or x^2; 0 for a finite law."""
    if isinstance(law, DiscreteGaussian):
        return x * x
    return np.zeros_like(x) if isinstance(law, Finite) else np.abs(x)


def weights(law: Noise, x: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the whole factor of each value: 1 unless the law is finite."""
    return (
        np.array(law.weights, dtype=np.int64)[x - law.low]
        if isinstance(law, Finite)
        else np.ones_like(x)
    )


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
        (down.add(1, low), up.add(1, high))
        if isinstance(law, DiscreteLaplace)
        else (Decimal(1), Decimal(1))
    )
    return down.divide(above, up.subtract(1, low)), up.divide(below, down.subtract(1, high))


def gaussian_mass(rate: Fraction, shift: Fraction, digits: int) -> Bounds:
    """Return bounds of the sum of e^(-rate (x - shift)^2) over all whole x.

    Beyond distance d >= 1 on either side the terms fall at least as fast as a geometric series of
    the ratio e^(-2 rate d).
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
    # Both sides together, see "Masses" on the proof page: 2 e^(-rate d^2) / (1 - e^(-2 rate d)), d
    # the distance of the nearest point that was left out.
    rest = up.divide(
        up.multiply(2, exp_bounds(rate * nearest**2, digits)[1]), down.subtract(1, ratio)
    )
    return low, up.add(high, rest)


# ---- region --------------------------------------------------------------------------------------


DIGITS = 50
_BUDGET_CELLS = 4096
_TOO_MANY_LEVELS = 1 << 24
_LARGEST_EXACT_COUNT = 1 << 52
TOO_MANY = (
    "audit.exact would have to play more than {limit} {what}. Audit fewer answers, a larger rate "
    "(epsilon in steps of the grid, such as Sensitivity(step=1)), a larger tail=, or raise "
    "vectors=."
)


@final
@dataclass(frozen=True, eq=False)
class Region:
    """Noise vectors with their weights.

    Attributes
    ----------
    noise : array of int, shape (N, d)
        In steps, all different.
    exponent : array of int, shape (N,)
        Which of `powers` the probability of each vector has.
    weight : array of int, shape (N,)
        The whole factor of each vector.
    powers : tuple of Bounds
        Enclosures of e^(-exponent).
    total, rest : Bounds, Decimal
        Mass of all noise; upper bound of the mass outside the region. Divided by the total they are
        probabilities.
    """

    noise: NDArray[np.int64]
    exponent: NDArray[np.int64]
    weight: NDArray[np.int64]
    powers: tuple[Bounds, ...]
    total: Bounds
    rest: Decimal

    @property
    def tail(self) -> Decimal:
        """Return an upper bound of the probability of the noise that is not played."""
        return contexts(DIGITS)[1].divide(self.rest, self.total[0])


def region(laws: tuple[Noise, ...], tail: float, limit: int) -> Region:
    """Return a region that leaves out about `tail` of the probability, in at most `limit` vectors.

    This takes 0 < tail < 1.
    """
    if (
        _log_fewest_vectors(laws, tail) > math.log(limit) + 1e-6
    ):  # whoever goes on would search for them for minutes
        raise InvalidParameter(TOO_MANY.format(limit=limit, what="noise vectors"))
    budget = _choose_exponent_budget(laws, tail)
    noise = np.zeros((1, 0), dtype=np.int64)
    spent = np.zeros(1)
    for law in laws:
        # Each coordinate may use what the ones before it have left of the budget.
        low, count = _count_affordable(law, budget - spent)
        if int(count.sum()) > limit:
            raise InvalidParameter(TOO_MANY.format(limit=limit, what="noise vectors"))
        rows = np.repeat(np.arange(spent.size), count)
        # Counts up from the first value in each row, without a loop over rows.
        x = np.arange(rows.size) - np.repeat(np.cumsum(count) - count, count) + low[rows]
        noise = np.column_stack([noise[rows], x])
        spent = spent[rows] + float(law.rate) * levels(law, x)
    others = 1 if all(isinstance(law, Finite) for law in laws) else noise.shape[0]
    # In Python's numbers, before anything is multiplied in 64 bits.
    if _finite_mass(laws) * others > _LARGEST_EXACT_COUNT:
        raise InvalidParameter(
            "audit.exact must count in whole numbers below 2^52: use smaller weights or fewer "
            "finite laws."
        )
    exponent, powers = _enclose_powers(laws, noise)
    # Noise with a part of weight 0 cannot happen: it is dropped.
    weight = np.ones(noise.shape[0], dtype=np.int64)
    possible = np.ones(noise.shape[0], dtype=np.bool_)
    for i, law in enumerate(laws):
        each = weights(law, noise[:, i])
        weight, possible = weight * each, possible & (each > 0)
    return _weigh_region(laws, noise[possible], exponent[possible], weight[possible], powers)


def _log_fewest_vectors(laws: tuple[Noise, ...], tail: float) -> float:
    """Return the logarithm of a number of vectors below which more than `tail` is left out.

    No vector is likelier than no noise at all.
    """
    rates = [float(law.rate) for law in laws if isinstance(law, Geometric | DiscreteLaplace)]
    return math.log1p(-tail) - sum(math.log(-math.expm1(-rate)) for rate in rates)


def _finite_mass(laws: tuple[Noise, ...]) -> int:
    """Return the product of the sums of the weights of all finite laws.

    No count of the noise of these laws is larger.
    """
    return math.prod(sum(law.weights) for law in laws if isinstance(law, Finite))


def _count_affordable(
    law: Noise, left: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first value and the number of values that what is left of the budget pays for."""
    if isinstance(law, Finite):
        ones = np.ones(left.size, dtype=np.int64)
        return law.low * ones, len(law.weights) * ones
    # Any region will do, so that roundings need no care here.
    most = np.floor(np.maximum(left, 0) / float(law.rate) + 1e-9)
    if isinstance(law, DiscreteGaussian):
        most = np.floor(np.sqrt(most) + 1e-9)
    high = most.astype(np.int64)
    return (np.zeros_like(high), high + 1) if isinstance(law, Geometric) else (-high, 2 * high + 1)


def _choose_exponent_budget(laws: tuple[Noise, ...], tail: float) -> float:
    """Return an exponent that the noise exceeds with a probability of about `tail`.

    It is found by sums of cells, which round exponents up.
    """
    most = 3 * math.log(1 / tail) + 12 * len(laws)
    width = most / _BUDGET_CELLS
    sums = np.zeros(_BUDGET_CELLS + 1)
    sums[0] = 1.0
    for law in laws:
        if isinstance(law, Finite):
            continue
        rate = float(law.rate)
        if most / rate > _TOO_MANY_LEVELS:
            raise InvalidParameter(
                "audit.exact must be able to play the noise step by step; "
                f"a rate of {rate:.3g} a step makes it too wide. Audit the "
                "mechanism with a larger step, such as Sensitivity(step=1)."
            )
        high = int(math.sqrt(most / rate) if isinstance(law, DiscreteGaussian) else most / rate) + 1
        x = np.arange(0 if isinstance(law, Geometric) else -high, high + 1)
        cells = np.minimum(np.ceil(rate * levels(law, x) / width), _BUDGET_CELLS).astype(np.int64)
        one = np.bincount(cells, weights=law.pmf(x), minlength=_BUDGET_CELLS + 1)
        both = np.convolve(sums, one)
        # What is beyond the last cell is counted in it: exponents are rounded up, never down.
        sums = np.append(both[:_BUDGET_CELLS], both[_BUDGET_CELLS:].sum())
    above = np.cumsum(sums[::-1])[::-1]  # above[i] = P(cell >= i), added from the small end
    return float(np.argmax(above <= tail)) * width if (above <= tail).any() else most


def _enclose_powers(
    laws: tuple[Noise, ...], noise: NDArray[np.int64]
) -> tuple[NDArray[np.int64], tuple[Bounds, ...]]:
    """Return for each vector which power it has, and the enclosed powers.

    A power has one factor for each different rate.
    """
    rates = sorted({law.rate for law in laws if law.rate})
    key = np.zeros(noise.shape[0], dtype=np.int64)
    sums: list[NDArray[np.int64]] = []
    for rate in rates:
        level = np.zeros(noise.shape[0], dtype=np.int64)
        for i, law in enumerate(laws):
            if law.rate == rate:
                level += levels(law, noise[:, i])
        sums.append(level)
        # Numbered anew at each rate, without gaps: so nothing overflows.
        key = np.unique(key * (int(level.max()) + 1) + level, return_inverse=True)[1].reshape(-1)
    _, first, exponent = np.unique(key, return_index=True, return_inverse=True)
    down, up = contexts(DIGITS)
    low, high = [Decimal(1)] * first.size, [Decimal(1)] * first.size
    for rate, level in zip(rates, sums, strict=True):
        table = {value: exp_bounds(rate * value, DIGITS) for value in set(level[first].tolist())}
        for j, value in enumerate(level[first].tolist()):
            low[j], high[j] = (
                down.multiply(low[j], table[value][0]),
                up.multiply(high[j], table[value][1]),
            )
    return exponent.reshape(-1), tuple(zip(low, high, strict=True))


def _weigh_region(
    laws: tuple[Noise, ...],
    noise: NDArray[np.int64],
    exponent: NDArray[np.int64],
    weight: NDArray[np.int64],
    powers: tuple[Bounds, ...],
) -> Region:
    """Return the region with what lies outside it.

    The mass of all noise less the mass that was counted.
    """
    down, up = contexts(DIGITS)
    # The laws are independent: the mass of all noise is the product of their masses.
    total = (Decimal(1), Decimal(1))
    for law in laws:
        low, high = mass(law, DIGITS)
        total = (down.multiply(total[0], low), up.multiply(total[1], high))
    # What is inside is rounded down and the whole up: the rest is never too small.
    inside = Decimal(0)
    counted = np.zeros(len(powers), dtype=np.int64)
    np.add.at(counted, exponent, weight)
    for count, power in zip(counted.tolist(), powers, strict=True):
        inside = down.add(inside, down.multiply(count, power[0]))
    if all(
        isinstance(law, Finite) for law in laws
    ):  # everything is played, and nothing of it is lost
        whole, rest = sum(counted.tolist()) == _finite_mass(laws), Decimal(0)
    else:
        whole, rest = inside <= total[1], max(Decimal(0), up.subtract(total[1], inside))
    if not whole:
        raise InvalidParameter(
            "audit.exact counted another mass than that of its noise; that is a fault of the audit."
        )
    noise.flags.writeable = False  # a play that changed it would change what the next one is given
    return Region(
        noise=noise, exponent=exponent, weight=weight, powers=powers, total=total, rest=rest
    )
