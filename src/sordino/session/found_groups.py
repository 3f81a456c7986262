"""Figures of groups that nobody listed: they are found first, then each is released as if it were listed.

Claim: epsilon of the search and that of the figures add up, and the failure of the search is the delta that
the domain states (docs/proofs/groups.md).
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

from sordino.cost import compose
from sordino.data import Counts, Domain, NumberQuestion, prepare_groups
from sordino.mechanisms import UnlistedHistogram
from sordino.releases import UnlistedCounts
from sordino.session.column_figures import Estimator
from sordino.session.request import Reservation, Steps, Table, check_account
from sordino.session.table_numbers import Groups, TableNumbers

if TYPE_CHECKING:
    from sordino.session.numbers import ColumnRequest


def find_and_release(
    request: ColumnRequest[Any],
    table: Table,
    question: NumberQuestion,
    estimator: Estimator,
    detail: dict[str, Any],
) -> Steps[Groups]:
    """Find groups, at most `most_groups`, and release the figures of those.

    Parameters
    ----------
    request : ColumnRequest
        What is asked for.
    table : Table
        What is public about the table.
    question : NumberQuestion
        About groups that nobody listed.
    estimator : Estimator
        What releases the figure of a group.
    detail : dict
        What the ledger keeps.
    """
    check_account(request.name, table)
    domain = cast("Domain", question.domain)
    units = prepare_groups(
        table.source,
        table.unit,
        by=cast("str", request.by),
        domain=domain,
        groups_per_unit=request.groups_per_unit,
        where=request.where,
        # Of its own: in which groups a unit counts is chosen anew among those that are found.
        salt=table.salt(),
    )
    finder = UnlistedHistogram(
        epsilon=request.epsilon_to_find,
        delta=cast("Fraction", domain.delta),
        sensitivity=units.sensitivity,
        least=domain.least,
        k=request.most_groups,
    )
    # What the figures cost hangs on the groups of a unit, not on which ones or how many are found.
    figures = TableNumbers(
        estimator=estimator,
        adjacency=table.unit.adjacency,
        labels=(),
        groups_per_unit=request.count_parts(table),
        shared=request.build_count(table),
    )

    charged = yield Reservation((finder, figures), detail, domain)
    counts: Counts = charged.read(units)
    found: UnlistedCounts = charged.release(finder, counts.values, labels=counts.labels)
    # Nothing is asked about no groups, so the rest of epsilon returns: what was found is public by now.
    if not found.labels:
        return Groups(
            rows=(),
            budgets=figures.budgets,
            label_threshold=finder.threshold,
            mechanism=(finder,),
            cost=found.cost,
            simulated=found.simulated,
        )
    among = question.among(found.labels)
    numbers = charged.read(figures.read(among))
    released: Groups = charged.release(replace(figures, labels=tuple(among.groups)), numbers)
    measuring = released.mechanism
    return replace(
        released,
        label_threshold=finder.threshold,
        mechanism=(finder, *(measuring if isinstance(measuring, tuple) else (measuring,))),
        cost=compose(found.cost, released.cost),
    )
