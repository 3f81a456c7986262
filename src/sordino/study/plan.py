"""What a run of a study would spend.

Of each release, of all of them, and what the account has left.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from sordino.cost import Cost
from sordino.ledger import Preview
from sordino.record import list_spent
from sordino.releases import plain

# Only for type checkers: a run need not load what makes plans.
if TYPE_CHECKING:
    from sordino.session.plans.plan import Plan
    from sordino.session.plans.widths import PlannedFigure


@final
@dataclass(frozen=True, kw_only=True)
class PlannedRelease:
    """One release of a study, before it is made.

    Attributes
    ----------
    name, kind : str
        As the study says.
    epsilon : Fraction
        Its budget, also where the study gives it a share or a goal.
    cost : Cost
        What it may spend.
    goal : str or None
        What the epsilon was found for.
    plan : Plan or None
        How wide its intervals will be, how likely the right items are named, what is left out: as
        `Session.plan` says it. None where a run shows what it is about to spend.
    figures : tuple of PlannedFigure
        How wide its intervals will be, as far as that is known without dry runs; empty where it is
        not.
    """

    name: str
    kind: str
    epsilon: Fraction
    cost: Cost
    goal: str | None = None
    plan: Plan | None = None
    figures: tuple[PlannedFigure, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        spent = list_spent(self.cost)
        return {
            "name": self.name,
            "kind": self.kind,
            "budget": float(self.epsilon),
            "epsilon": spent["epsilon"],
            "rho": spent.get("rho"),
            "goal": self.goal,
            **({} if self.plan is None else _list_outlook(self.plan)),
        }


def _list_outlook(plan: Plan) -> dict[str, Any]:
    """Return what is to be expected of a release, JSON-ready, by the names that its dry run has."""
    return {
        "method": plan.method,
        "figures": plain(plan.rows),
        "choices": plain(plan.choices),
        "assumed": plan.assumed,
        "left_out": list(plan.left_out),
        "odds": plan.odds,
    }


@final
@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a run of a study would do; nothing was read or charged for it.

    Attributes
    ----------
    study, run, account : str
        Of the study, of the run, and of who pays.
    releases : tuple of PlannedRelease
        In the order of the study.
    epsilon : Fraction
        The budgets of all releases together.
    cost : Cost
        What all of them may spend together; their list is fixed, so the tight views hold.
    measure : str
        In what the account counts: "epsilon", "rho" or "divergence".
    remaining : Fraction
        What the account has left now.
    share_left : Fraction
        Which share of its budget that is.
    account_after : Preview or None
        What it would have left afterwards; None if it would not take the run, or was charged for it
        before.
    odds : str
        What all of it means for one person, in one sentence.
    refused : str or None
        Why the account would not take the run; None if it would.
    charge : str or None
        The id of its charge, if it was paid before: it is not paid again.
    kept : int
        How many of its releases the ledger has kept then.
    """

    study: str
    run: str
    account: str
    releases: tuple[PlannedRelease, ...]
    epsilon: Fraction
    cost: Cost
    measure: str
    remaining: Fraction
    share_left: Fraction
    odds: str
    refused: str | None = None
    charge: str | None = None
    kept: int = 0
    account_after: Preview | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values."""
        return {
            "study": self.study,
            "run": self.run,
            "account": self.account,
            "releases": [one.to_dict() for one in self.releases],
            "budget": float(self.epsilon),
            "cost": self.cost.to_dict(),
            "measure": self.measure,
            "remaining": float(self.remaining),
            "share_left": float(self.share_left),
            "left": None if self.account_after is None else self.account_after.to_dict(),
            "odds": self.odds,
            "refused": self.refused,
            "charge": self.charge,
            "kept": self.kept,
        }
