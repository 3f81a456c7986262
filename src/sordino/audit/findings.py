"""What an exact audit has found so far, over the pairs that it has looked at, and the report of it.

Claim: a report holds the largest of each bound over all pairs and both orders. Proof:
docs/proofs/exact-audit.md, "Report".
Floats: none of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

from sordino.audit.report import ExactReport, Witness
from sordino.audit.views import Claimed, Views
from sordino.errors import InvalidParameter


@dataclass(eq=False, kw_only=True)
class Findings:
    """The worst bounds that were found so far."""

    deltas: list[tuple[float, float]]
    divergences: list[tuple[float, float, float]]
    least: float = -math.inf
    most: float = -math.inf
    everywhere: float = -math.inf
    beyond: tuple[float, float] = (-math.inf, -math.inf)
    interval: float = -math.inf
    unresolved: float = 0.0
    witness: Witness | None = None
    overrun: Witness | None = None

    @classmethod
    def begin(cls, views: Views) -> Self:
        """Return what is known of these views before a pair was looked at: nothing."""
        return cls(
            deltas=[(0.0, 0.0)] * len(views.epsilons),
            divergences=[(-math.inf, -math.inf, 0.0)] * len(views.orders),
        )

    def report(self, subject: Any, claimed: Claimed, views: Views, **covered: Any) -> ExactReport:
        """Return the report about a subject; `covered` are the fields that say what was looked at."""
        if self.witness is None:
            raise InvalidParameter("audit.exact needs at least one pair of neighbours.")
        at_claim, deltas = claimed.deltas(views.epsilons, self.deltas)
        return ExactReport(
            name=repr(subject),
            claimed=subject.cost,
            epsilon_at_least=max(0.0, self.least),
            epsilon_at_most=self.most,
            epsilon_everywhere=self.everywhere,
            beyond_at_least=self.beyond[0],
            beyond_at_most=self.beyond[1],
            interval_beyond_at_least=self.interval,
            at_claim=at_claim,
            deltas=deltas,
            divergences=claimed.divergences(views.orders, self.divergences),
            witness=self.witness,
            overrun=self.overrun,
            checked=subject.sensitivity is not None,
            **covered,
        )
