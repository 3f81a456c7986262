"""Concentrated differential privacy that may fail with a probability.

Claim: if with probability delta nothing is promised and otherwise both laws are rho-zCDP, the divergence of
what holds is that of rho, and deltas add to the conversion.
Proof: docs/proofs/unlisted.md, "Concentrated, but for a failure".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import NOT_NEGATIVE, Number
from sordino.cost.approximate import PROBABILITY, MayFail
from sordino.cost.conversion import digits, nearest, ratio
from sordino.cost.zcdp import ZCDP


@final
@dataclass(frozen=True)
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
    >>> both = cost.ApproximateZCDP(rho=0.05, delta=1e-6)
    >>> both.epsilon(1e-7), round(both.epsilon(2e-6), 4), round(cost.ZCDP(rho=0.05).epsilon(1e-6), 4)
    (inf, 1.4716, 1.4716)
    """

    rho: Fraction
    delta_: Fraction

    def __init__(self, *, rho: Number, delta: Number) -> None:
        object.__setattr__(self, "rho", NOT_NEGATIVE("ApproximateZCDP.rho", rho))
        object.__setattr__(self, "delta_", PROBABILITY("ApproximateZCDP.delta", delta))

    def __hash__(self) -> int:  # of whole numbers: the hash of a fraction takes many times longer
        return hash(("approximate zcdp", *self.rho.as_integer_ratio(), *self.delta_.as_integer_ratio()))

    def __repr__(self) -> str:
        return f"ApproximateZCDP(rho={digits(self.rho)}, delta={digits(self.delta_)})"

    @property
    def firm(self) -> ZCDP:
        """What holds without the failure."""
        return ZCDP(rho=self.rho)

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and its parameters, exact and as floats."""
        numbers = {"rho": nearest(self.rho), "delta": nearest(self.delta_)}
        return {"notion": "approximate zcdp", **numbers, "exact": [ratio(self.rho), ratio(self.delta_)]}
