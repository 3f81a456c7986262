"""Takes costs, or mechanisms that have one, apart into parts, and adds them up.

No part is a composition.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from fractions import Fraction
from typing import Any

from sordino.constraints import shown
from sordino.cost import ZCDP, Approximate, Composition, Cost, compose
from sordino.cost.composition import summed
from sordino.cost.conversion import round_up
from sordino.cost.rdp_sum import MANY, summed_rdp
from sordino.errors import InvalidParameter

Parts = frozenset[tuple[Cost, int]]


def cost_of(thing: Any, caller: str) -> Cost:
    """Return a cost, or the cost of a mechanism.

    For anything else raise `InvalidParameter` in the name of `caller`.
    """
    cost = thing if isinstance(thing, Cost) else getattr(thing, "cost", None)
    if isinstance(thing, type) or not isinstance(cost, Cost):
        # Only the type is named: arguments in the wrong order would put private answers here.
        raise InvalidParameter(
            f"{caller} takes costs such as cost.Pure(epsilon=0.1), or mechanisms; got a "
            f"{type(thing).__name__}."
        )
    return cost


def total_of(costs: Any, caller: str) -> Cost:
    """Return the composition of a list of costs and mechanisms."""
    if isinstance(costs, str | bytes) or not isinstance(costs, Iterable):
        raise InvalidParameter(f"{caller} takes a list of costs; got {shown(costs)}.")
    # They hold each cost once, and a list that was meant would be read as less than it is.
    if isinstance(costs, Mapping | Set):
        raise InvalidParameter(
            f"{caller} takes a list of costs, equal ones as often as they are paid; "
            f"got a {type(costs).__name__}."
        )
    return compose(*(cost_of(thing, caller) for thing in costs))


def count_parts(cost: Cost) -> Parts:
    """Return the parts of a cost with their counts; nothing for a cost of nothing."""
    whole = compose(cost)
    return whole.parts if isinstance(whole, Composition) else frozenset({(whole, 1)})


def exact_rdp(parts: Parts, orders: Iterable[Fraction]) -> list[Fraction | float]:
    """Return bounds on the divergence at each order as fractions, or inf.

    They are exact for zCDP. For all else they are floats, which are rounded up.
    """
    # Concentrated costs are lines in the order, and are summed exactly.
    rho = sum((count * part.rho for part, count in parts if isinstance(part, ZCDP)), Fraction(0))
    curves = frozenset((part, count) for part, count in parts if not isinstance(part, ZCDP))
    many = summed_rdp(curves) if len(curves) > MANY else None

    def at(order: Fraction) -> Fraction | float:
        # The order is rounded up: a divergence never falls with the order.
        reached = round_up(order)
        values = (
            [(many(reached), 1)] if many else [(part.rdp(reached), count) for part, count in curves]
        )
        if not all(value < math.inf for value, _ in values):
            return math.inf
        return sum((count * Fraction(value) for value, count in values), rho * order)

    return [at(order) for order in orders]


def approximate_sums(cost: Cost) -> tuple[Fraction | float, Fraction]:
    """Return the sums of epsilons and deltas over the parts.

    The first is inf if a part has neither a pure epsilon nor an (epsilon, delta) pair.
    """
    parts = count_parts(cost)
    delta = sum(
        (count * part.delta_ for part, count in parts if isinstance(part, Approximate)), Fraction(0)
    )
    epsilon = summed(
        (part.epsilon_ if isinstance(part, Approximate) else part.pure(), count)
        for part, count in parts
    )
    return epsilon, delta
