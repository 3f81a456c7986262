"""What a release adds to one that it refines.

Claim: beside the cost of the release that is refined, the pure epsilons add up to that of both. Every other
view holds whatever stands beside it. Proof: docs/proofs/refining.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import POSITIVE, Number, shown
from sordino.cost.conversion import digits, nearest, ratio
from sordino.cost.pure import Pure
from sordino.errors import InvalidParameter


@final
@dataclass(frozen=True)
class Added:
    """The pure epsilon that a release adds to the one that it refines, and what it costs by itself.

    Only the pure view knows of the release that is refined: it is right in a sum that holds the cost of that
    one as well. The other views are those of `alone`, because given what was released before, the second
    release loses up to that. So an account of epsilons pays for the finer noise once, and any other account
    pays more than for a measurement of its own.

    Parameters
    ----------
    epsilon : number
        Above 0, in nats: what is added to the pure epsilon of the release that is refined.
    alone : number
        At least epsilon: the pure epsilon of the second release, given the first one.

    Raises
    ------
    InvalidParameter
        If a number is not positive or not finite, or `alone` is less than `epsilon`.

    Examples
    --------
    >>> from sordino import cost
    >>> first, more = cost.Pure(epsilon=1), cost.Added(epsilon=0.5, alone=2.5)
    >>> cost.compose(first, more).pure()
    Fraction(3, 2)
    >>> more.zcdp() == cost.Pure(epsilon=2.5).zcdp()
    True
    """

    epsilon_: Fraction
    alone_: Fraction

    def __init__(self, *, epsilon: Number, alone: Number) -> None:
        object.__setattr__(self, "epsilon_", POSITIVE("Added.epsilon", epsilon))
        object.__setattr__(self, "alone_", POSITIVE("Added.alone", alone))
        if self.alone_ < self.epsilon_:
            raise InvalidParameter(
                f"Added.alone must be at least epsilon, {shown(epsilon)}; got {shown(alone)}."
            )

    def __hash__(self) -> int:  # of whole numbers: the hash of a fraction takes many times longer
        return hash(("added", *self.epsilon_.as_integer_ratio(), *self.alone_.as_integer_ratio()))

    def __repr__(self) -> str:
        return f"Added(epsilon={digits(self.epsilon_)}, alone={digits(self.alone_)})"

    def pure(self) -> Fraction:
        """Return what is added to a sum of pure epsilons that holds that of the refined release."""
        return self.epsilon_

    @property
    def _second(self) -> Pure:
        return Pure(epsilon=self.alone_)

    def zcdp(self) -> Fraction:
        """Return the rho of the second release by itself, rounded up."""
        return self._second.zcdp()

    def rdp(self, alpha: float) -> float:
        """Return the largest Rényi divergence of the second release by itself."""
        return self._second.rdp(alpha)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at `delta` of the second release by itself."""
        return self._second.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """Return the least delta at `epsilon` of the second release by itself."""
        return self._second.delta(epsilon)

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and both numbers, exact and as floats."""
        numbers = {"epsilon": nearest(self.epsilon_), "alone": nearest(self.alone_)}
        return {"notion": "added", **numbers, "exact": [ratio(self.epsilon_), ratio(self.alone_)]}
