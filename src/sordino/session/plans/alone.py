"""Plans a mechanism alone, whose answers come from a pipe or from somebody else.

What it costs and leaves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordino.cost import Cost
from sordino.cost.odds import say_odds_of
from sordino.ledger import Ledger
from sordino.questions import PrivacyUnit
from sordino.session.plans.plan import Plan, PlannedChoice
from sordino.session.plans.widths import PlannedFigure
from sordino.unit_columns import narrow_odds


def plan_mechanism(
    name: str,
    mechanism: Any,
    ledger: Ledger | None,
    *,
    epsilon: Any,
    adjacency: str,
    unit: PrivacyUnit | None = None,
    reading: str = "",
    rows: Sequence[PlannedFigure] = (),
    choices: Sequence[PlannedChoice] = (),
    assumed: str = "",
    left_out: Sequence[str] = (),
    method: str | None = None,
    goal: str | None = None,
    allow_approximate: bool = False,
) -> Plan:
    """Return the plan of a mechanism, or of a cost, that is charged without a session.

    Raises
    ------
    BudgetExceeded, LedgerConflict
        If the account would refuse it.
    """
    preview = None
    if ledger is not None:
        preview = ledger.preview(
            mechanism,
            label=name,
            unit=unit,
            adjacency=adjacency,
            reading=reading,
            allow_approximate=allow_approximate,
        )
    cost: Cost = mechanism if isinstance(mechanism, Cost) else mechanism.cost
    return Plan(
        release=name,
        epsilon=float(epsilon),
        rows=tuple(rows),
        choices=tuple(choices),
        cost=cost,
        account=preview,
        assumed=assumed,
        left_out=tuple(left_out),
        odds=narrow_odds(
            say_odds_of(cost, None if preview is None else preview.delta),
            None if unit is None else unit.identity,
            None if unit is None else unit.called,
        ),
        method=method,
        goal=goal,
    )
