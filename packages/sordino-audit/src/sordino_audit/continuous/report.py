"""The report of a continuous law: bounds of all views from cells, for both orders of all pairs.

Claim: each bound holds for what the report says that it covers. Proof: docs/proofs/exact-audit.md, "Cells".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.cost.conversion import round_up
from sordino_audit.continuous.continuous import Asked, Compared, Continuous
from sordino_audit.continuous.enclosures import bound_total
from sordino_audit.continuous.ordered import Ordered
from sordino_audit.continuous.ratios import TINY, joined
from sordino_audit.report import ExactReport
from sordino_audit.views import Claimed, Findings, Views, interval_beyond

_NARROWEST_CELL = 4 * TINY
"""Cells this narrow that nothing is known of, around a break, are left out and counted as unresolved."""


@final
@dataclass(eq=False, kw_only=True)
class _CellFindings(Findings):
    """The worst bounds over cells."""

    tail: float = 0.0
    cells: int = 1 << 62
    assumed: list[str] = field(default_factory=list)


def report(
    subject: Continuous,
    pairs: Sequence[tuple[Any, Any]],
    asked: Asked,
    orders: list[Fraction] | None,
    epsilons: list[Fraction] | None,
) -> ExactReport:
    """Return the worst over all pairs and both orders."""
    claimed = Claimed(subject.cost, subject.cost_of)
    views = claimed.views(orders, epsilons)
    found = _CellFindings.begin(views)
    for a, b in pairs:
        forth = subject.compared(a, b, asked)
        found.assumed.append(forth.assumed)
        found.tail = max(found.tail, forth.unresolved)
        # The other order has the same cells with the sides exchanged.
        ends = [
            _take_in_order(
                found, _order_cells(forth, claimed, turned=turned), *((b, a) if turned else (a, b)), views
            )
            for turned in (False, True)
        ]
        found.interval = max(found.interval, interval_beyond(subject.cost, *ends))
    return found.report(
        subject,
        claimed,
        views,
        audited=found.cells,
        outputs=found.cells,
        # A sum of upper bounds may be above 1; a probability is not.
        unresolved=min(1.0, found.unresolved),
        tail=min(1.0, found.tail),
        pairs=len(pairs),
        vectors=0,
        partitioned=asked.cuts is not None,
        declared=False,
        # Nothing was played: the law is what the subject says.
        stated=True,
        assumed="; ".join(dict.fromkeys(found.assumed)),
    )


def loss(subject: Continuous, a: Any, b: Any, asked: Asked) -> float:
    """Return the lower bound of the loss less the claim, of the worse order: what a search climbs."""
    claimed = Claimed(subject.cost, subject.cost_of)
    forth = subject.compared(a, b, asked)
    both = [_order_cells(forth, claimed, turned=turned) for turned in (False, True)]
    if isinstance(subject.cost.pure(), Fraction):
        return max(each.beyond()[0] for each in both)
    return max(each.renyi(Fraction(2), discounted=True)[0] for each in both)


def _order_cells(compared: Compared, claimed: Claimed, *, turned: bool) -> Ordered:
    """Return all cells in one order, without the tiny ones that nothing is known of."""
    labels = [label for label, _ in compared.cells]
    places = np.concatenate([np.full(cells.width.size, i) for i, (_, cells) in enumerate(compared.cells)])
    cells = joined([cells for _, cells in compared.cells])
    with np.errstate(invalid="ignore"):
        # Relative to where a cell is; at 0, to a number that is tiny itself.
        narrow = cells.width <= _NARROWEST_CELL * np.maximum(
            np.maximum(np.abs(cells.start), np.abs(cells.end)), 2.0**-1000
        )
    # A loss that is infinite for certain is known: such a cell stays.
    unknown = np.zeros(places.size, dtype=bool)
    for each in (cells, cells.turned):
        left, right = each.ends()
        unknown |= np.isposinf(np.maximum(left[1], right[1])) & ~np.isposinf(np.maximum(left[0], right[0]))
    gone = narrow & unknown
    lost = (
        max((bound_total(cells.mass(side)[1][gone], up=True) for side in (cells.a, cells.b)), default=0.0)
        if gone.any()
        else 0.0
    )
    kept = cells.chosen(~gone)
    # What is known of the rest has an order, too.
    outside = compared.outside[1 if turned else 0]
    return Ordered(
        labels, places[~gone], kept.turned if turned else kept, compared.unresolved, lost, outside, claimed
    )


def _take_in_order(found: _CellFindings, order: Ordered, a: Any, b: Any, views: Views) -> float:
    """Take in one order of one pair, and return the lower bound of its loss."""
    pure = isinstance(order.claimed.whole.pure(), Fraction)
    least, most, place = order.worst()
    # Outputs in no cell are covered if something is known of their log ratio.
    covered = not order.unresolved or order.outside < math.inf
    if order.unresolved and covered:
        most = max(most, order.outside)
    # With nothing left out, the bound is about every output.
    everywhere = most if covered and not order.lost else math.inf
    if found.witness is None or least > found.least:
        found.witness = order.witness(place, a, b, pure=pure)
    if pure:
        low, high, place = order.beyond()
        if order.unresolved and covered:
            # They may have any label, so that the smallest claim counts.
            high = max(high, round_up(Fraction(order.outside) - min(order.epsilons)))
        if found.overrun is None or low > found.beyond[0]:
            found.overrun = order.witness(place, a, b, pure=pure)
        found.beyond = max(found.beyond[0], low), max(found.beyond[1], high)
    found.least, found.most = max(found.least, least), max(found.most, most)
    found.everywhere = max(found.everywhere, everywhere)
    found.unresolved = max(found.unresolved, order.lost + (0.0 if covered else order.unresolved))
    found.cells = min(found.cells, order.places.size)
    for i, epsilon in enumerate(views.epsilons):
        found.deltas[i] = tuple(  # type: ignore[assignment]
            map(max, found.deltas[i], order.hockey_stick(epsilon))
        )
    for i, alpha in enumerate(views.orders):
        low, high = order.renyi(alpha, discounted=False)
        new = low, order.renyi(alpha, discounted=True)[0], high
        found.divergences[i] = tuple(map(max, found.divergences[i], new))  # type: ignore[assignment]
    return least
