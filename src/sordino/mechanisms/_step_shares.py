"""How step noise under a private scale divides its budget: what the winner pays, and what all losers pay together.

Claim: if `affordable`, losers whose noise follows a scale that differs between neighbours cost no more than what is spared for them.
Proof: docs/proofs/step-selection.md, "All losers together".
Floats: they only propose a rate; decimals with directed rounding decide.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.grid import RATE_DENOMINATOR, fit_rate
from sordino.noise._probability import Bounds, contexts, exp_bounds

_DIGITS = 40
_DENSE = 128  # up to here levels are looked at one by one, beyond in groups, each about this fraction of what is before it
_NATS = 36.0  # the levels beyond are one group
_TRIED = 64  # rates that are tried from the budget downwards
_SLOWEST = 2.0**-30

Floats = NDArray[np.float64]


class Shares(NamedTuple):
    """The parts of the cost, in nats: what one move costs the winner, the rate of the noise, and what it costs all losers together."""

    winner: Fraction
    losers: Fraction


@lru_cache(maxsize=256)
def divided(budget: Fraction, candidates: int, owner: str) -> Shares:
    """Return the largest rate found, a multiple of 2^-40, that leaves enough for the losers of so many candidates.

    Raises
    ------
    InvalidParameter
        If the rate would be below 2^-30, or above 2^40.
    """
    if candidates == 1:
        rate = fit_rate(budget, owner, stepped=False)
        return Shares(rate, budget - rate)
    if budget > RATE_DENOMINATOR:
        raise InvalidParameter(f"{owner}.epsilon must be at most 2^40; got {shown(budget)}. With so much there is no noise left.")
    units, less = math.floor(_proposed(float(budget), candidates) * RATE_DENOMINATOR), 1
    while units > _SLOWEST * RATE_DENOMINATOR:
        rate = Fraction(units, RATE_DENOMINATOR)
        if rate < budget and affordable(rate, budget - rate, candidates):
            return Shares(rate, budget - rate)
        units, less = units - less, 2 * less
    raise InvalidParameter(
        f"{owner}.epsilon must be larger for {candidates} candidates: noise of a rate above 2^-30 would cost more than {shown(budget)}. "
        "Raise epsilon, or lower the number of candidates."
    )


def affordable(rate: Fraction, spare: Fraction, candidates: int) -> bool:
    """Return whether it is certain that all losers together cost at most `spare` nats.

    With n losers, theta = e^-spare and p_k = (1 - q) q^k it is enough that sum_k p_k v_k >= 0, either for v_k = rho_k - theta, rho_k =
    ((1 - q^(k+2))/(1 - q^(k+3)))^n, or for the least value v_k of e^-Y (e^(-psi_k min(Y, n l_(k+3))) - theta) over 0 <= Y <= n l_(k+1),
    where l_j = -ln(1 - q^j) and psi_k = l_(k+2)/l_(k+3) - 1. Both rise with k: a group counts with its first value.
    """
    down, up = contexts(_DIGITS)
    losers, theta = candidates - 1, exp_bounds(spare, _DIGITS)[1]
    plain = weighed = Decimal(0)
    nodes = _nodes(float(rate), candidates)
    for k, after in zip(nodes, [*nodes[1:], None], strict=True):
        first = exp_bounds(rate * k, _DIGITS)
        beyond = (Decimal(0), Decimal(0)) if after is None else exp_bounds(rate * after, _DIGITS)
        mass = max(Decimal(0), down.subtract(first[0], beyond[1])), up.subtract(first[1], beyond[0])
        gain, least = _values(rate, k, losers, theta)
        plain = down.add(plain, down.multiply(mass[gain < 0], gain))
        weighed = down.add(weighed, down.multiply(mass[least < 0], least))
    return plain >= 0 or weighed >= 0


def _values(rate: Fraction, k: int, losers: int, theta: Decimal) -> tuple[Decimal, Decimal]:
    """Return lower bounds of both v_k."""
    down, up = contexts(_DIGITS)
    two, three = _lost(rate, k + 2), _lost(rate, k + 3)
    kept = down.next_minus(down.exp(up.multiply(losers, up.subtract(two[1], three[0])).copy_negate()))  # rho_k
    gain = down.subtract(max(kept, Decimal(0)), theta)
    if gain >= 0:  # no Y is worse than the largest
        deep = down.next_minus(down.exp(up.multiply(losers, _lost(rate, k + 1)[1]).copy_negate()))
        return gain, max(Decimal(0), down.multiply(deep, gain))
    if three[0] <= 0:  # beyond all digits
        return gain, gain
    psi = up.subtract(up.divide(two[1], three[0]), 1)
    worst = down.divide(
        down.next_minus(down.ln(down.divide(down.add(1, psi), theta))), psi
    )  # the Y that is worst if all are allowed
    everyone = down.multiply(losers, three[0])
    if worst >= up.multiply(losers, three[1]):  # and it is not reached
        return gain, down.multiply(up.next_plus(up.exp(everyone.copy_negate())), gain)
    share = up.multiply(theta, up.divide(psi, down.add(1, psi)))
    return gain, up.multiply(share, up.next_plus(up.exp(worst.copy_negate()))).copy_negate()


@lru_cache(maxsize=1 << 14)
def _lost(rate: Fraction, j: int) -> Bounds:
    """Return bounds of -ln(1 - q^j), j >= 1."""
    down, up = contexts(_DIGITS)
    low, high = exp_bounds(rate * j, _DIGITS)
    most, least = up.next_plus(up.ln(up.subtract(1, low))), down.next_minus(down.ln(down.subtract(1, high)))
    return most.copy_negate(), least.copy_negate()


@lru_cache(maxsize=512)
def _nodes(rate: float, candidates: int) -> tuple[int, ...]:
    """Return the first levels of the groups, from 0 on."""
    last = math.ceil((_NATS + math.log(candidates)) / rate)
    if last <= _DENSE:
        return tuple(range(last + 1))
    grown = _DENSE * (1 + 1 / _DENSE) ** np.arange(math.ceil(math.log(last / _DENSE) * (_DENSE + 1)) + 1)
    return (*range(_DENSE), *sorted({math.floor(x) for x in grown.tolist()}))


def _likely(rate: float, spare: float, candidates: int) -> bool:
    """Return what `affordable` will say, in floats."""
    k, losers, theta = np.array(_nodes(rate, candidates), dtype=np.float64), candidates - 1, math.exp(-spare)
    tails = np.exp(-rate * k)
    mass = np.append(-tails[:-1] * np.expm1(-rate * np.diff(k)), tails[-1])
    one, two, three = (-np.log1p(-np.exp(-rate * (k + j))) for j in (1, 2, 3))
    with np.errstate(all="ignore"):  # where nothing is lost there is nothing to divide
        psi = two / three - 1
        gain: Floats = np.exp(-losers * (two - three)) - theta
        worst = (np.log1p(psi) + spare) / psi
        steep = np.where(worst <= losers * three, -theta * psi / (1 + psi) * np.exp(-worst), np.exp(-losers * three) * gain)
    least = np.where(gain >= 0, np.exp(-losers * one) * gain, steep)
    return float((mass * gain).sum()) >= 0 or float((mass * least).sum()) >= 0


def _proposed(budget: float, candidates: int) -> float:
    """Return about the largest rate that leaves enough: not every smaller one does."""
    rates = [budget * (1 - i / _TRIED) for i in range(1, _TRIED)]
    while rates[-1] > _SLOWEST:
        rates.append(rates[-1] / 2)
    above = budget
    for rate in rates:
        if _likely(rate, budget - rate, candidates):
            break
        above = rate
    else:
        return 0.0
    for _ in range(50):
        middle = (rate + above) / 2
        rate, above = (middle, above) if _likely(middle, budget - middle, candidates) else (rate, middle)
    return rate
