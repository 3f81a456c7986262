"""Turns costs into events of dp_accounting that its accountants treat rightly.

This needs the extra `dp-accounting`.
"""

from __future__ import annotations

import math
from typing import Any

from sordino.accounting._pld import dp_accounting
from sordino.accounting.parts import count_parts, total_of
from sordino.cost import RDP, Approximate, ApproximateZCDP, Cost, Pure
from sordino.cost.base import order_parts
from sordino.cost.conversion import round_up
from sordino.cost.rdp import steps_of
from sordino.cost.rho import laplace_rho
from sordino.errors import InvalidParameter


def to_dp_events(costs: Any) -> Any:
    """Return a `ComposedDpEvent` that stands for a fixed batch of costs.

    Account for it with `NeighboringRelation.REPLACE_ONE`, whatever your own neighbors are: the
    events only carry numbers. Pure costs become randomized response, listed one by one, because
    `PLDAccountant` ignores counts of it; under `REPLACE_SPECIAL` it would report too little, and
    Laplace noise is no stand-in for a pure cost. All other costs become (xi, rho)-zCDP events,
    which only `RdpAccountant` takes.

    Parameters
    ----------
    costs : list of costs or mechanisms
        Fixed in advance, at most 10^5 pure ones.

    Raises
    ------
    InvalidParameter
        If a cost has a delta of its own or no line that bounds its curve: there is no event for it.
    UnsupportedBackend
        If dp-accounting is not installed.

    Examples
    --------
    >>> import dp_accounting
    >>> from sordino import accounting, cost
    >>> event = accounting.to_dp_events([cost.Pure(epsilon=0.1)] * 20)
    >>> relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    >>> accountant = dp_accounting.rdp.RdpAccountant(neighboring_relation=relation)
    >>> round(float(accountant.compose(event).get_epsilon(1e-6)), 3)
    1.861
    """
    library = dp_accounting("dp_accounting", "to_dp_events")
    parts = order_parts(count_parts(total_of(costs, "to_dp_events")))
    # One by one, because `PLDAccountant` ignores the count of randomized response.
    if sum(count for part, count in parts if isinstance(part, Pure)) > 10**5:
        raise InvalidParameter(
            "to_dp_events lists at most 10^5 pure costs one by one; got more. Use "
            "compose(...).epsilon(delta)."
        )
    events: list[Any] = []
    for part, count in parts:
        if isinstance(part, Pure):
            events += [
                library.RandomizedResponseDpEvent(_random_answer_share(round_up(part.epsilon_)), 2)
            ] * count
        else:
            slope, level = _bounding_line(part)
            events.append(
                library.ZCDpEvent(rho=round_up(count * slope), xi=round_up(count * level))
            )
    return library.ComposedDpEvent(events)


def _random_answer_share(epsilon: float) -> float:
    """Return the share of answers that randomized response draws anew, rounded down.

    The share is 2/(1 + e^epsilon).
    """
    # Down, because less noise costs more; and by e^-epsilon, which never overflows.
    return 2 * math.exp(-epsilon) / (1 + math.exp(-epsilon)) * (1 - 1e-15)


def _bounding_line(part: Cost) -> tuple[Any, Any]:
    """Return slope and level of a line in the order that bounds the curve of one part."""
    if isinstance(part, RDP) and part.choices == 1 and not part.table:
        # Laplace noise is at most its rho times the order, so that the curve lies below a line.
        noise = 0 if part.laplace is None else laplace_rho(part.laplace, steps_of(part))
        return part.rho + noise, part.constant
    if isinstance(part, Approximate | ApproximateZCDP) or part.zcdp() == math.inf:
        raise InvalidParameter(
            f"dp_accounting has no event for {part!r}; use accounting.pld or "
            "compose(...).epsilon(delta)."
        )
    return part.zcdp(), 0
