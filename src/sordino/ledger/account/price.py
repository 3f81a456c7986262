"""What a release costs on an account, and whether it may leave pure noise there.

All of it is public: the numbers of the account and the parameters of a release. Claim: where every
release follows these rules, an account with a delta takes every list of epsilons that a pure
account of the same epsilon takes. Releases with parts that have no other noise than pure noise may
cost more than the rules allow. Proof: docs/proofs/noise-choice.md, which names them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, final

from sordino.ledger.amounts import Meter, exact_amounts
from sordino.ledger.renyi import NANO, NO_LIMITS, NOTHING, Amounts, Limits, Sums


@final
@dataclass(frozen=True)
class Price:
    """How an account counts costs at one moment.

    Attributes
    ----------
    meter : Meter
        How its charges add up.
    limits, spent : Limits, Sums
        What its sums may reach, and what they are; only an account that keeps deltas looks at them.
    """

    meter: Meter
    limits: Limits = NO_LIMITS
    spent: Sums = NOTHING

    @property
    def is_pure(self) -> bool:
        """Whether it takes pure epsilons alone."""
        return self.meter.name == "pure"

    @property
    def order(self) -> Fraction:
        """The order at which divergences are counted; 1 where a rho is counted."""
        return self.meter.order or Fraction(1)

    def after(self, things: Iterable[Any]) -> Price:
        """Return how it counts once these mechanisms and costs have been charged together."""
        if self.meter.order is None:
            # No sum is looked at.
            return self
        taken = sum((exact_amounts(thing, self.meter) for thing in things), Amounts())
        return replace(self, spent=self.spent.plus(taken.rounded_up()))

    def find(self, cost: Any) -> Fraction:
        """Return what a cost adds: an epsilon, a rho, or a divergence at the order.

        Raises
        ------
        InvalidParameter
            If the account cannot be charged with it.
        """
        return exact_amounts(cost, self.meter).main

    def find_worth(self, cost: Any) -> Fraction:
        """Return what other noise may add in place of a pure cost.

        It is what the cost adds itself. On an account with an order it is no larger a share of the
        divergences than the cost is of the epsilons: then as many releases fit with other noise.
        """
        asked = exact_amounts(cost, self.meter)
        if self.limits.pure <= 0 or asked.pure is None:
            return asked.main
        worth = min(asked.main, asked.pure * self.limits.main / self.limits.pure)
        # In whole billionths, as it is charged, but for what is less than one.
        return Fraction(math.floor(worth * NANO), NANO) or worth

    def find_stance(self, cost: Any) -> Literal["pure", "open", "free"]:
        """Tell whether a release of this pure cost may have other noise.

        "pure": it may not. "free": it may, and nothing is lost by it. "open": it may, but then the
        account takes on no more epsilons.
        """
        if self.meter.order is None:
            return "pure" if self.is_pure else "free"
        limits, spent = self.limits, self.spent
        if not limits.either:
            # A share that has a limit of epsilon takes nothing without one.
            return "pure" if limits.pure >= 0 else "free"
        asked = exact_amounts(cost, self.meter).rounded_up()
        if spent.impure or asked.impure or spent.pure > limits.pure - asked.pure:
            return "free"
        # Epsilons are left behind only where they are used up as far as the divergences are.
        return "open" if spent.main * limits.pure <= spent.pure * limits.main else "pure"


RHO = Price(Meter("zcdp"))
"""Of a release that nobody pays for: noise of another kind costs the same rho."""
