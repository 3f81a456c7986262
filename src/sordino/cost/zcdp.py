"""Zero-concentrated differential privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import NOT_NEGATIVE, Number
from sordino.cost.conversion import (
    checked_alpha,
    checked_delta,
    checked_epsilon,
    digits,
    nearest,
    ratio,
    rdp_delta,
    rdp_epsilon,
    round_down,
    round_up,
)


@final
@dataclass(frozen=True)
class ZCDP:
    """Rho-zero-concentrated differential privacy: Rényi divergence at most rho * alpha at every alpha > 1.

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

    rho: Fraction

    def __init__(self, *, rho: Number) -> None:
        object.__setattr__(self, "rho", NOT_NEGATIVE("ZCDP.rho", rho))

    def __hash__(self) -> int:  # of whole numbers: the hash of a fraction takes many times longer
        return hash(("zcdp", self.rho.numerator, self.rho.denominator))

    def __repr__(self) -> str:
        return f"ZCDP(rho={digits(self.rho)})"

    def pure(self) -> Fraction | float:
        """Return inf: concentrated privacy bounds no single log ratio (0 when rho is 0)."""
        return Fraction(0) if self.rho == 0 else math.inf

    def zcdp(self) -> Fraction:
        """Return rho, exactly."""
        return self.rho

    def rdp(self, alpha: float) -> float:
        """Return rho * alpha."""
        order = checked_alpha(alpha)
        if self.rho == 0 or math.isinf(order):
            return 0.0 if self.rho == 0 else math.inf
        # One exact product, rounded once.
        return round_up(self.rho * Fraction(order))

    def epsilon(self, delta: float | Fraction) -> float:
        """Return the least epsilon at `delta` over all orders [canonne2020, Prop. 12]."""
        # Rounded down, which can only raise the answer.
        left = round_down(checked_delta(delta))
        return 0.0 if self.rho == 0 else rdp_epsilon(self.rdp, left)

    def delta(self, epsilon: float) -> float:
        """Return the least delta at `epsilon` over all orders [canonne2020, Prop. 12]."""
        # Rounded down, which can only raise the answer.
        least = round_down(checked_epsilon(epsilon))
        return 0.0 if self.rho == 0 else rdp_delta(self.rdp, least)

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and its parameter, exact and as a float."""
        return {"notion": "zcdp", "rho": nearest(self.rho), "exact": ratio(self.rho)}
