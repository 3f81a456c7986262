"""Pure differential privacy."""

from __future__ import annotations

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
    pure_delta,
    pure_epsilon,
    pure_rdp,
    ratio,
    round_down,
    round_up,
    stated,
)
from sordino.cost.rho import pure_rho


@final
@dataclass(frozen=True)
class Pure:
    """Pure epsilon-differential privacy.

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

    epsilon_: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon_", NOT_NEGATIVE("Pure.epsilon", epsilon))

    def __hash__(self) -> int:  # of whole numbers: the hash of a fraction takes many times longer
        return hash(("pure", self.epsilon_.numerator, self.epsilon_.denominator))

    def __repr__(self) -> str:
        return f"Pure(epsilon={digits(self.epsilon_)})"

    def pure(self) -> Fraction:
        """Return epsilon, exactly."""
        return self.epsilon_

    def zcdp(self) -> Fraction:
        """Return epsilon tanh(epsilon/2), rounded up: the divergence of randomized response at order 1.

        It is at most epsilon^2/2 [bun2016, Prop. 3.3], and the least rho that holds for every pure epsilon.
        """
        return pure_rho(self.epsilon_)

    def rdp(self, alpha: float) -> float:
        """Return the Rényi divergence of randomized response, the largest that epsilon allows."""
        # Epsilon and order are rounded up: the divergence falls with neither.
        return pure_rdp(round_up(self.epsilon_), checked_alpha(alpha))

    def epsilon(self, delta: float | Fraction) -> float:
        """Return the least epsilon at `delta` [kairouz2015, Thm 3.3 with k = 1]."""
        # The delta that is asked for is rounded down, which can only raise the answer.
        return pure_epsilon(stated(self.epsilon_), round_down(checked_delta(delta)))

    def delta(self, epsilon: float) -> float:
        """Return the least delta at `epsilon` [kairouz2015, Thm 3.3 with k = 1]."""
        # Whether epsilon is reached is decided on fractions, before anything is rounded.
        least = checked_epsilon(epsilon)
        return 0.0 if least >= self.epsilon_ else pure_delta(round_up(self.epsilon_), round_down(least))

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and its parameter, exact and as a float."""
        return {"notion": "pure", "epsilon": nearest(self.epsilon_), "exact": ratio(self.epsilon_)}
