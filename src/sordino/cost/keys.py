"""Keys of costs, made of whole numbers and texts.

They count equal costs quickly, and give an order that never depends on hashes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from sordino.cost.approximate import Approximate
from sordino.cost.approximate_zcdp import ApproximateZCDP
from sordino.cost.bounded_range import BoundedRange
from sordino.cost.gumbel_stage import GumbelStage
from sordino.cost.notion import Cost
from sordino.cost.pure import Pure
from sordino.cost.randomized_choice import RandomizedChoice
from sordino.cost.range import Range
from sordino.cost.rdp import RDP
from sordino.cost.zcdp import ZCDP


def _rdp_key(cost: RDP) -> tuple[Any, ...]:
    # A rate is never 0, so 0 can stand for "no Laplace noise".
    noise = (cost.laplace or 0).as_integer_ratio()
    steps = cost.laplace_steps if isinstance(cost.laplace_steps, int) else 0  # 0 with a rate: continuous
    rows = tuple((*order.as_integer_ratio(), *value.as_integer_ratio()) for order, value in cost.table)
    return (
        *cost.rho.as_integer_ratio(),
        *cost.constant.as_integer_ratio(),
        *noise,
        steps,
        cost.choices,
        rows,
    )


# Keys are made of whole numbers because the hash of a fraction takes many times longer.
KEYS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    Pure: lambda cost: cost.epsilon_.as_integer_ratio(),
    ZCDP: lambda cost: cost.rho.as_integer_ratio(),
    BoundedRange: lambda cost: cost.epsilon_.as_integer_ratio(),
    Range: lambda cost: (*cost.low.as_integer_ratio(), *cost.high.as_integer_ratio(), cost.orientation or ""),
    Approximate: lambda cost: (*cost.epsilon_.as_integer_ratio(), *cost.delta_.as_integer_ratio()),
    ApproximateZCDP: lambda cost: (*cost.rho.as_integer_ratio(), *cost.delta_.as_integer_ratio()),
    GumbelStage: lambda cost: (*cost.epsilon_.as_integer_ratio(), cost.monotone),
    RandomizedChoice: lambda cost: (*cost.epsilon_.as_integer_ratio(), cost.choices),
    RDP: _rdp_key,
}


def ordered(parts: Iterable[tuple[Cost, int]]) -> list[tuple[Cost, int]]:
    """Return parts and their counts in an order that depends on nothing but exact numbers."""
    return sorted(parts, key=lambda entry: (order_key(entry[0]), entry[1]))


def order_key(cost: Cost) -> tuple[Any, ...]:
    """Return a key to sort parts by: equal for equal costs only, the same in every process."""
    # Our own costs come first, by class and numbers; those of others follow, by what they say of themselves.
    own = KEYS.get(type(cost))
    if own is not None:
        return (0, type(cost).__name__, *own(cost))
    return (
        1,
        type(cost).__module__,
        type(cost).__qualname__,
        json.dumps(cost.to_dict(), sort_keys=True, default=str),
    )
