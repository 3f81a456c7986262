"""Guarantees that may fail with a probability; otherwise a pure or a concentrated one holds.

Claim: if with probability f, the same under both laws, nothing is promised and otherwise a curve d
holds, then f + (1 - f) d holds. Every (epsilon, delta)-private pair of laws is the image, under one
channel, of randomized response that with probability delta gives everything away [kairouz2015;
murtagh2016]. Proof: docs/proofs/dominating-pairs.md; docs/proofs/unlisted.md, "Concentrated, but
for a failure".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.constraints import NOT_NEGATIVE, Constraint, Number, accept_if
from sordino.cost.base import ExactCost, FirmCost
from sordino.cost.conversion import (
    checked_alpha,
    checked_delta,
    checked_epsilon,
    round_down,
    round_up,
    stated,
)
from sordino.cost.range import Pure
from sordino.cost.rdp import ZCDP

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
    total = math.fsum(
        max(round_up(count) * math.log1p(-round_up(delta)), -1e3) for delta, count in listed
    )
    return min(Fraction(1), Fraction(-math.expm1(total)) * (1 + Fraction(1, 10**14)))


def kept_epsilon(failing: Fraction, delta: Fraction, epsilon_at: Callable[[float], float]) -> float:
    """Return the epsilon at `delta` when nothing is promised with probability `failing`.

    The rest of delta is spent on what holds without failure.
    """
    if delta < failing:
        return math.inf
    # Of delta, (delta - f) / (1 - f) may be spent on the rest ("Guarantees that fail"), rounded
    # down.
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


PROBABILITY = Constraint(
    "a number in [0, 1)",
    accept_if(lambda number: 0 <= number < 1),
    (0, 1e-6, Fraction(1, 3)),
    (-1e-9, 1, math.nan, None, "0", True),
)


class MayFail(ExactCost):
    """A cost that holds but for a failure of probability `delta_`.

    Its views follow from the firm one.
    """

    delta_: Fraction

    @property
    @abstractmethod
    def firm(self) -> FirmCost:
        """What holds without the failure ("Guarantees that fail")."""

    def split_failure(self) -> tuple[Fraction, FirmCost]:
        """Return the probability that it fails, and what it costs otherwise."""
        return self.delta_, self.firm

    # A failure may give everything away: then any single log ratio may be infinite, and every
    # divergence is.

    def pure(self) -> Fraction | float:
        """Return what holds without the failure if delta is 0, else inf."""
        return self.firm.pure() if self.delta_ == 0 else math.inf

    def zcdp(self) -> Fraction | float:
        """Return what holds without the failure if delta is 0, else inf."""
        return self.firm.zcdp() if self.delta_ == 0 else math.inf

    def rdp(self, alpha: float) -> float:
        """Return what holds without the failure if delta is 0, else inf."""
        order = checked_alpha(alpha)
        return self.firm.rdp(order) if self.delta_ == 0 else math.inf

    def epsilon(self, delta: float) -> float:
        """Return the least proven epsilon at `delta`; inf below the delta of this cost."""
        # The failure is set aside; what is left of delta is for the rest ("Guarantees that fail").
        return kept_epsilon(
            self.delta_, checked_delta(delta), lambda left: self.firm.epsilon(Fraction(left))
        )

    def delta(self, epsilon: float) -> float:
        """Return the least proven delta at `epsilon`: the failure, and what the rest leaves."""
        endless = checked_epsilon(epsilon) == math.inf
        return raised_delta(self.delta_, 0.0 if endless else self.firm.delta(epsilon))


@final
@dataclass(frozen=True, eq=False, repr=False)
class Approximate(MayFail):
    """(epsilon, delta)-differential privacy.

    Parameters
    ----------
    epsilon : number
        At least 0, in nats. A float means its shortest decimal.
    delta : number
        In [0, 1). A float means its shortest decimal. With 0 this is `Pure`.

    Raises
    ------
    InvalidParameter
        If a parameter is outside its range.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.Approximate(epsilon=1, delta=1e-6).epsilon(1e-6)
    1.0
    >>> cost.Approximate(epsilon=1, delta=1e-6).pure()
    inf
    """

    notion = "approximate"
    epsilon_: Fraction
    delta_: Fraction

    def __init__(self, *, epsilon: Number, delta: Number) -> None:
        self._set(
            epsilon_=NOT_NEGATIVE("Approximate.epsilon", epsilon),
            delta_=PROBABILITY("Approximate.delta", delta),
        )

    @property
    def firm(self) -> Pure:
        """What holds without the failure: randomized response ("Guarantees that fail")."""
        return Pure(epsilon=self.epsilon_)


@final
@dataclass(frozen=True, eq=False, repr=False)
class ApproximateZCDP(MayFail):
    """Rho-zero-concentrated differential privacy but for a failure of probability delta.

    Both laws are mixtures: with probability delta anything, else laws that are rho-zCDP.

    Parameters
    ----------
    rho : number
        At least 0. A float means its shortest decimal.
    delta : number
        In [0, 1). A float means its shortest decimal. With 0 this is `ZCDP`.

    Raises
    ------
    InvalidParameter
        If a parameter is outside its range.

    Examples
    --------
    >>> from sordino import cost
    >>> both, firm = cost.ApproximateZCDP(rho=0.05, delta=1e-6), cost.ZCDP(rho=0.05)
    >>> both.epsilon(1e-7), round(both.epsilon(2e-6), 4), round(firm.epsilon(1e-6), 4)
    (inf, 1.4716, 1.4716)
    """

    notion = "approximate zcdp"
    rho: Fraction
    delta_: Fraction

    def __init__(self, *, rho: Number, delta: Number) -> None:
        self._set(
            rho=NOT_NEGATIVE("ApproximateZCDP.rho", rho),
            delta_=PROBABILITY("ApproximateZCDP.delta", delta),
        )

    @property
    def firm(self) -> ZCDP:
        """What holds without the failure."""
        return ZCDP(rho=self.rho)
