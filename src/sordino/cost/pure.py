"""Pure differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.constraints import NOT_NEGATIVE, Number
from sordino.cost.base import FirmCost
from sordino.cost.conversion import pure_delta, pure_epsilon, pure_rdp, round_up
from sordino.cost.rho import pure_rho


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pure(FirmCost):
    """Pure epsilon-differential privacy.

    Every view is that of randomized response [kairouz2015, Thm 3.3].

    Parameters
    ----------
    epsilon : number
        At least 0, in nats. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.Pure(epsilon=0.1).pure()
    Fraction(1, 10)
    """

    notion = "pure"
    epsilon_: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        self._set(epsilon_=NOT_NEGATIVE("Pure.epsilon", epsilon))

    def pure(self) -> Fraction:
        """Return epsilon, exactly."""
        return self.epsilon_

    def zcdp(self) -> Fraction:
        """Return epsilon tanh(epsilon/2), rounded up.

        The divergence of randomized response at order 1.

        It is at most epsilon^2/2 [bun2016, Prop. 3.3], and the least rho that holds for every pure
        epsilon.
        """
        return pure_rho(self.epsilon_)

    # Where epsilon is rounded up: neither a divergence nor a delta falls with it.

    def _bound_divergence(self, order: float) -> float:
        return pure_rdp(round_up(self.epsilon_), order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        return pure_epsilon(top, left)

    def _bound_delta(self, least: float) -> float:
        return pure_delta(round_up(self.epsilon_), least)
