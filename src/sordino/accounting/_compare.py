"""Compares the epsilon of one fixed batch by every proven route, side by side."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import Any, final

from sordino.accounting._pld import MISSING, SLACK, distribution_of, work_of
from sordino.accounting.parts import count_parts, total_of
from sordino.constraints import TRUTH
from sordino.cost import ZCDP, Composition, Cost
from sordino.cost.approximate import kept_epsilon
from sordino.cost.composition import exact_epsilon, split_failures
from sordino.cost.conversion import checked_delta, digits, rdp_epsilon, stated
from sordino.cost.rdp_sum import summed_rdp
from sordino.errors import InvalidParameter, UnsupportedBackend

# The width to whose multiples dp_accounting rounds losses up; the one that `pld` has by default.
_REFERENCE_INTERVAL = Fraction(1, 10**4)
# Intervals of all sums that the reference may form for one row of a table; a second or two.
_MOST_REFERENCE_WORK = 1 << 22


@final
@dataclass(frozen=True)
class Route:
    """One way to an epsilon.

    It has a name, the epsilon (inf if it has none), a note why it has none, and whether it is only
    a reference.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> accounting.compare([cost.ZCDP(rho=0.1)], delta=1e-6).routes[0]
    Route(name='sum', epsilon=inf, note='a part has no pure epsilon', reference=False)
    """

    name: str
    epsilon: float
    note: str = ""
    reference: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return name, epsilon (None for inf), note, and whether the row is only a reference."""
        epsilon = self.epsilon if self.epsilon < math.inf else None
        return {
            "name": self.name,
            "epsilon": epsilon,
            "note": self.note,
            "reference": self.reference,
        }


@final
@dataclass(frozen=True)
class Comparison:
    """What a fixed batch costs at `delta` by each route.

    As text it is a table, rounded up; `to_dict` is for machines.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> print(accounting.compare([cost.Pure(epsilon=0.1)] * 20, delta=1e-6))
    20 costs at delta 1e-06, epsilon by
      sum    2.0000
      zCDP   2.1410
      RDP    1.8609
      exact  1.7887
      PLD    1.7887  reference
    """

    cost: Cost
    delta: float
    routes: tuple[Route, ...]

    @property
    def epsilon(self) -> float:
        """The smallest epsilon of the proven routes.

        The reference, which rounds without a proven bound, is not one of them.
        """
        return min(route.epsilon for route in self.routes if not route.reference)

    def __str__(self) -> str:
        count = sum(times for _, times in count_parts(self.cost))
        rows = [
            (
                f"  {route.name:<6} "
                f"{_write_epsilon(route.epsilon)}{route.note and f'  {route.note}'}"
            ).rstrip()
            for route in self.routes
        ]
        return "\n".join(
            [f"{digits(Fraction(count), 15)} costs at delta {self.delta:g}, epsilon by", *rows]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the composition, delta and the routes as JSON-ready values."""
        return {
            "cost": self.cost.to_dict(),
            "delta": self.delta,
            "routes": [route.to_dict() for route in self.routes],
        }


def compare(costs: Any, *, delta: float, reference: bool = True) -> Comparison:
    """Return the epsilon of a fixed batch at `delta` by every route.

    The routes are sums, zCDP, RDP, exact sums of dominating pairs, and dp_accounting. The last is a
    reference to look at: its rounding is measured and not proved, so `Comparison.epsilon` does not
    use it.

    Parameters
    ----------
    costs : list of costs or mechanisms
        Fixed in advance: how many and with which parameters. Queries may depend on earlier answers.
        Equal costs are listed as often as they are paid.
    delta : number
        In [0, 1).
    reference : bool
        Whether to have the row of dp_accounting, which may take a second or two; it is left out
        with a note where it would take longer.

    Raises
    ------
    InvalidParameter
        If something in the list is no cost, the costs are a set or a mapping, or delta is outside
        its range.

    Examples
    --------
    >>> from sordino import accounting, cost
    >>> ordered = "price, upward, fixed threshold, replace-one"
    >>> search = cost.Range(low=0.05, high=0.1, orientation=ordered)
    >>> round(accounting.compare([search] * 20, delta=1e-6).epsilon, 4)
    1.3984
    """
    # The exact delta goes on, so that it is rounded once for each route and to the safe side.
    total, at, wanted = (
        total_of(costs, "compare"),
        checked_delta(delta),
        TRUTH("compare.reference", reference),
    )
    # Failures are set aside once for all routes: each is about the parts as they are when none
    # fails.
    failing, firm = split_failures(count_parts(total))
    whole = Composition(firm)

    def route(name: str, epsilon_at: Callable[[float], float], note: str) -> Route:
        epsilon = kept_epsilon(failing, at, epsilon_at)
        missing = (
            ""
            if epsilon < math.inf
            else note
            if at >= failing
            else "the deltas of the parts exceed delta"
        )
        return Route(name, epsilon, missing)

    routes = (
        # A sum of pure epsilons holds at every delta.
        route("sum", lambda _: stated(whole.pure()), "a part has no pure epsilon"),
        route(
            "zCDP", lambda left: _epsilon_by_zcdp(whole, left), "a part has no rho, or delta is 0"
        ),
        route(
            "RDP",
            lambda left: rdp_epsilon(summed_rdp(firm), left) if left else math.inf,
            "no order is finite, or delta is 0",
        ),
        route(
            "exact",
            lambda left: exact_epsilon(firm, left),
            "a part has no dominating pair, or the sums have too many points",
        ),
    )
    return Comparison(
        total, float(at), (*routes, _reference_route(total, at)) if wanted else routes
    )


def _epsilon_by_zcdp(whole: Composition, delta: float) -> float:
    # A float is inf, or a sum that was rounded up: as a rho it would be read as its shortest
    # decimal.
    rho = whole.zcdp()
    return math.inf if isinstance(rho, float) or not delta else ZCDP(rho=rho).epsilon(delta)


def _reference_route(total: Cost, delta: Fraction) -> Route:
    """Return the row of dp_accounting, or why there is none.

    Nothing that goes wrong in it may take the table away.
    """
    parts = count_parts(total)
    try:
        # The margin for what its sums may have lost would take all of delta.
        if delta <= SLACK:
            epsilon, note = math.inf, f"it is not accurate to {SLACK:g} in delta"
        elif work_of(parts, _REFERENCE_INTERVAL) > _MOST_REFERENCE_WORK:
            epsilon, note = (
                math.inf,
                "it would take too long; use accounting.pld with a larger interval",
            )
        else:
            epsilon, note = (
                distribution_of(parts, _REFERENCE_INTERVAL, "pld").epsilon(float(delta)),
                "reference",
            )
    except UnsupportedBackend:
        epsilon, note = math.inf, MISSING
    except InvalidParameter as error:
        epsilon, note = math.inf, str(error)
    except (ArithmeticError, ValueError) as error:
        epsilon, note = math.inf, f"dp_accounting failed with {type(error).__name__}"
    return Route("PLD", epsilon, note, reference=True)


def _write_epsilon(epsilon: float) -> str:
    """Return five digits, rounded up."""
    if epsilon in {0.0, math.inf}:
        return "-" if epsilon else "0.0000"
    # Rounded up, so that the table never shows less than what was proved.
    number = Decimal(repr(epsilon))
    shown = number.quantize(Decimal((0, (1,), number.adjusted() - 4)), rounding=ROUND_CEILING)
    return f"{shown:f}" if -5 <= number.adjusted() < 9 else f"{shown:.4e}"
