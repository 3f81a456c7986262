"""Zero-concentrated differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.constraints import NOT_NEGATIVE, Number
from sordino.cost.base import FirmCost
from sordino.cost.conversion import rdp_delta, rdp_epsilon, round_up


@final
@dataclass(frozen=True, eq=False, repr=False)
class ZCDP(FirmCost):
    """Rho-zero-concentrated differential privacy.

    Rényi divergence at most rho * alpha at every alpha > 1.

    Epsilon and delta are the least over all orders [canonne2020, Prop. 12].

    Parameters
    ----------
    rho : number
        At least 0. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If rho is negative or not finite.

    Examples
    --------
    >>> from sordino import cost
    >>> round(cost.ZCDP(rho=0.05625).epsilon(1e-6), 4)
    1.5681
    """

    notion = "zcdp"
    rho: Fraction

    def __init__(self, *, rho: Number) -> None:
        self._set(rho=NOT_NEGATIVE("ZCDP.rho", rho))

    def pure(self) -> Fraction | float:
        """Return inf: concentrated privacy bounds no single log ratio (0 when rho is 0)."""
        return Fraction(0) if self.rho == 0 else math.inf

    def zcdp(self) -> Fraction:
        """Return rho, exactly."""
        return self.rho

    def _bound_divergence(self, order: float) -> float:
        # One exact product, rounded once.
        return math.inf if math.isinf(order) else round_up(self.rho * Fraction(order))

    def _solve_epsilon(self, left: float, top: float) -> float:
        return min(top, rdp_epsilon(self.rdp, left))

    def _bound_delta(self, least: float) -> float:
        return rdp_delta(self.rdp, least)
