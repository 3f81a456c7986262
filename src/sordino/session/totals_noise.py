"""Chooses the noise of the totals of sums and means, by the account and by how rows of a unit are bounded."""

from __future__ import annotations

from fractions import Fraction
from typing import cast

from sordino.cost import Cost, compose
from sordino.errors import InvalidParameter
from sordino.estimators import ClippedMean, ClippedSum
from sordino.mechanisms import LaplaceMechanism
from sordino.sensitivity import Sensitivity
from sordino.session.noise_choice import MeasureNoise, choose_rho, find_terms
from sordino.session.request import CONFIDENCE, Table
from sordino.session.table_numbers import TableNumbers

_FINE_STEP = Fraction(1, 1 << 20)
"""Intervals are compared in steps of this share of what one unit moves."""


def refuse_gaussian_together(name: str, noise: MeasureNoise | None) -> None:
    """Refuse Gaussian noise where the bound on rows is about all groups together.

    All rows of a unit may be in one group: then its total moves by the sum of what they move, and that counts
    squared. Laplace noise pays for each row alone.
    """
    if noise == "gaussian":
        raise InvalidParameter(
            f"{name}.noise must be laplace where max_rows bounds the rows of a unit in all groups together; "
            "got 'gaussian'. Give groups_per_unit (--groups-per-unit): then it bounds them in each group."
        )


def choose_totals_rho(
    name: str, noise: MeasureNoise | None, table: Table, whole: TableNumbers, search: Cost
) -> Fraction | None:
    """Return the rho of Gaussian noise for the totals of each group; None where noise stays pure.

    Parameters
    ----------
    name : str
        Of the release, for messages.
    noise : {"laplace", "gaussian"} or None
        What the user asks for; None leaves it to the rule.
    table : Table
        Its account decides.
    whole : TableNumbers
        The release with pure noise.
    search : Cost
        Of what finds groups.
    """
    adjacency, groups = table.unit.adjacency, whole.groups_per_unit
    paid = compose(whole.cost, search)
    terms = find_terms(f"{name}.noise", table.price, paid, forced=noise == "gaussian")
    if terms is None:
        return None
    # In a group a unit may leave and another one join: then its totals move twice as far.
    steps = 2 if whole.labels is not None and adjacency == "replace-one" else 1
    moved = Sensitivity(bound=steps, monotone=False, adjacency=adjacency, step=_FINE_STEP)
    each = steps * Fraction(cast("ClippedSum | ClippedMean", whole.estimator).total_cost.pure())
    rho = choose_rho(
        terms,
        noise,
        # The noise of any clip is this noise, but for its unit.
        LaplaceMechanism(epsilon=groups * each, sensitivity=moved.over(groups)),
        moved.over(groups, "l2"),
        # The clip, what counts rows with a number, and what finds groups stay pure.
        paid=paid,
        beside=compose(whole.without_totals, search),
        confidence=CONFIDENCE,
    )
    return None if rho is None else rho / (groups * steps**2)
