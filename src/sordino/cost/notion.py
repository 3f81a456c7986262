"""The role "cost": one guarantee, seen through the views that privacy accounting uses."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Cost(Protocol):
    """What a release spends: an exact value with views; a view that does not exist is `math.inf`.

    The numbers of a cost are exact fractions. The views `rdp`, `epsilon` and `delta` are floats, each a valid
    upper bound.

    Examples
    --------
    >>> from sordino import cost
    >>> isinstance(cost.Pure(epsilon=0.1), cost.Cost)
    True
    """

    def pure(self) -> Fraction | float:
        """Return the smallest proven epsilon of pure differential privacy, or inf."""
        ...

    def zcdp(self) -> Fraction | float:
        """Return the smallest proven rho of zero-concentrated differential privacy, or inf."""
        ...

    def rdp(self, alpha: float) -> float:
        """Return a bound on the Rényi divergence of order `alpha` (> 1), in nats."""
        ...

    def epsilon(self, delta: float) -> float:
        """Return an epsilon such that (epsilon, `delta`)-differential privacy holds; `delta` in [0, 1)."""
        ...

    def delta(self, epsilon: float) -> float:
        """Return a delta such that (`epsilon`, delta)-differential privacy holds; `epsilon` >= 0."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Return the cost as JSON-ready values: exact numbers as text "n/d" and as floats."""
        ...
