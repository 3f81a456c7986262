"""The report of a continuous law: bounds of all views from its cells, for both orders of all pairs.

Claim: each bound holds for the outputs in the cells, and for the rest as far as the report says.
Proof: docs/proofs/exact-audit.md, "Cells".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost.conversion import round_up
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.cells import TINY, Cells, joined
from sordino_audit.continuous.continuous import Asked, Compared, Continuous
from sordino_audit.continuous.enclosures import (
    Bounds,
    Floats,
    bound_total,
    enclose,
    mean_exponential,
)
from sordino_audit.report import ExactReport, Witness
from sordino_audit.views import Claimed, Findings, OneOrder, Views


@final
@dataclass(frozen=True, eq=False)
class Ordered:
    """The cells of all labels in one order of a pair."""

    labels: Sequence[Any]
    places: NDArray[np.int64]
    cells: Cells
    unresolved: float
    lost: float
    outside: float
    claimed: Claimed

    @cached_property
    def ends(self) -> tuple[Bounds, Bounds]:
        """Return bounds of the log ratio at both ends of all cells."""
        return self.cells.ends()

    @cached_property
    def least(self) -> Floats:
        """Return a lower bound of the largest log ratio of each cell."""
        return np.maximum(self.ends[0][0], self.ends[1][0])

    @cached_property
    def most(self) -> Floats:
        """Return an upper bound of the log ratio on each cell."""
        return np.maximum(self.ends[0][1], self.ends[1][1])

    @cached_property
    def masses(self) -> tuple[Bounds, Bounds]:
        """Return bounds of the probability of each cell, under both laws."""
        return self.cells.mass(self.cells.a), self.cells.mass(self.cells.b)

    @cached_property
    def epsilons(self) -> list[Fraction]:
        """Return the pure epsilon that is claimed for each label."""
        return [self.claimed.epsilon(label) for label in self.labels]

    def _each(self, values: Sequence[Any], *, up: bool) -> Floats:
        ends = np.array([enclose(value)[up] for value in values])
        spread: Floats = ends[self.places]
        return spread

    def worst(self) -> tuple[float, float, int]:
        """Return bounds of the largest log ratio, and the cell of the lower one."""
        place = int(self.least.argmax())
        return float(self.least[place]), float(self.most.max()), place

    def beyond(self) -> tuple[float, float, int]:
        """Return the same for the log ratio less what is claimed."""
        # The claim is rounded against the bound: up for the lower one, down for the upper one.
        low = floats.widen(*(self.least - self._each(self.epsilons, up=True),) * 2)[0]
        high = floats.widen(*(self.most - self._each(self.epsilons, up=False),) * 2)[1]
        place = int(low.argmax())
        return float(low[place]), float(high.max()), place

    def witness(self, place: int, a: Any, b: Any, *, pure: bool) -> Witness:
        """Return a cell as a witness: the end at which its log ratio is largest."""
        label = self.labels[int(self.places[place])]
        left = self.ends[0][0][place] >= self.ends[1][0][place]
        at = float(self.cells.start[place] if left else self.cells.end[place])
        # An atom has no place.
        output = label if math.isnan(at) else at if label is None else (label, at)
        return Witness(
            output=output,
            answers_a=a,
            answers_b=b,
            at_least=float(self.least[place]),
            at_most=float(self.most[place]),
            claimed=float(self.epsilons[int(self.places[place])]) if pure else math.inf,
        )

    def hockey_stick(self, epsilon: Fraction | None) -> tuple[float, float]:
        """Return bounds of the largest P_a(S) - e^epsilon P_b(S).

        `epsilon` None: each label at its own claim.
        """
        claims = self.epsilons if epsilon is None else [epsilon] * len(self.labels)
        # Cells are cut where their log ratio passes the claim.
        with np.errstate(invalid="ignore", divide="ignore"):
            left, right = ((low + high) / 2 for low, high in self.ends)
            share = (self._each(claims, up=False) - left) / (right - left)
        share = np.where(np.isfinite(share), np.clip(share, 0.0, 1.0), 0.0)
        crossed = (share > 0) & (share < 1)
        whole, parts = self.cells.chosen(~crossed), self.cells.chosen(crossed).split(share[crossed])
        cells = joined([whole, parts])
        places = np.concatenate([self.places[~crossed], np.tile(self.places[crossed], 2)])
        return replace(self, cells=cells, places=places).gains(claims)

    def gains(self, claims: Sequence[Fraction]) -> tuple[float, float]:
        """Return bounds of the largest P_a(S) - e^claim P_b(S)."""
        low, high = self._each(claims, up=False), self._each(claims, up=True)
        stretch = floats.exp((low, high))
        (a_low, a_high), (b_low, b_high) = self.masses
        with np.errstate(invalid="ignore", over="ignore"):
            gains = np.nan_to_num(a_low - b_high * stretch[1], nan=0.0, neginf=0.0)
            least = bound_total(
                np.maximum(gains - a_low * floats.WIDER - floats.TINY, 0.0), up=False
            )
            # Where the ratio is above at both ends it is above all along: a difference of two
            # integrals. Else a share of one integral.
            both = (self.ends[0][1] >= low) & (self.ends[1][1] >= low)
            slop = a_high * floats.WIDER * (2 + np.minimum(np.abs(self.most), 1e3))
            whole = np.nan_to_num(a_high - b_low * stretch[0], nan=math.inf) + slop
            share = np.minimum(
                -np.expm1(-np.maximum(self.most - low, 0.0)) * (1 + floats.WIDER) + floats.TINY, 1.0
            )
            part = np.where(self.most > low, a_high * share, 0.0)
        over = bound_total(np.where(both, np.maximum(np.minimum(whole, part), 0.0), part), up=True)
        rest = self.lost
        if self.unresolved:
            # The log ratio of outputs in no cell is at most `outside`.
            excess = max(
                0.0, self.outside - float(low.min()) + (1 + abs(self.outside)) * floats.WIDER
            )
            rest += self.unresolved * -math.expm1(-excess) * (1 + floats.WIDER)
        return least, min(1.0, (over + rest) * (1 + floats.WIDER))

    def renyi(self, alpha: Fraction, *, discounted: bool) -> tuple[float, float]:
        """Return bounds of the Rényi divergence of order `alpha`.

        `discounted`: less what is claimed for each label.
        """
        a, b = self.cells.a, self.cells.b
        # 1 - alpha is negative: the lower line needs b from above, the upper one b from below.
        low = [
            self._tilted(alpha, one, other)[0]
            for one, other in ((a.low_left, b.high_left), (a.low_right, b.high_right))
        ]
        high = [
            self._tilted(alpha, one, other)[1]
            for one, other in ((a.high_left, b.low_left), (a.high_right, b.low_right))
        ]
        if discounted:
            less = self._each(
                [(alpha - 1) * self.claimed.divergence(alpha, label) for label in self.labels],
                up=True,
            )
            low = [floats.widen(end - less, end - less)[0] for end in low]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            # The exponents are lines: the integral over a cell is its width times the mean of an
            # exponential.
            width = self.cells.width
            least = mean_exponential((low[0], low[0]), (low[1], low[1]))[0] * width
            most = mean_exponential((high[0], high[0]), (high[1], high[1]))[1] * width
        rest = 0.0
        if self.unresolved:
            outside = enclose(alpha - 1)[1] * self.outside * (1 + floats.WIDER)
            # e^700 is still a float.
            rest = (
                self.unresolved * math.exp(outside) * (1 + floats.WIDER)
                if outside < 700
                else math.inf
            )
        sums = (
            np.array([bound_total(np.nan_to_num(least, nan=0.0, posinf=math.inf), up=False)]),
            np.array(
                [
                    # Cells that were left out may hold any divergence.
                    bound_total(np.nan_to_num(most, nan=math.inf, posinf=math.inf), up=True)
                    * (1 + floats.WIDER)
                    + rest
                    + (math.inf if self.lost else 0.0)
                ]
            ),
        )
        logs = floats.scaled(floats.log(sums), 1 / (alpha - 1))
        return float(logs[0][0]), float(logs[1][0])

    def _tilted(self, alpha: Fraction, a: Floats, b: Floats) -> Bounds:
        """Return bounds of alpha a - (alpha - 1) b."""
        low, high = floats.minus(floats.scaled((a, a), alpha), floats.scaled((b, b), alpha - 1))
        return np.where(np.isneginf(a), -math.inf, low), np.where(np.isneginf(a), -math.inf, high)


# ---- report --------------------------------------------------------------------------------------


_NARROWEST_CELL = 4 * TINY
"""Cells this narrow that nothing is known of, around a break, are left out and counted as
unresolved."""


def report(
    subject: Continuous,
    pairs: Sequence[tuple[Any, Any]],
    asked: Asked,
    orders: list[Fraction] | None,
    epsilons: list[Fraction] | None,
) -> ExactReport:
    """Return the worst over all pairs and both orders."""
    claimed = Claimed(subject.cost, subject.cost_of)
    found = Findings(claimed, claimed.views(orders, epsilons))
    assumed: dict[str, None] = {}
    tail = 0.0
    for a, b in pairs:
        forth = subject.compared(a, b, asked)
        assumed[forth.assumed] = None
        tail = max(tail, forth.unresolved)
        # The other order has the same cells with the sides exchanged.
        found.take(
            _find_order(_order_cells(forth, claimed, turned=False), a, b, found.views),
            _find_order(_order_cells(forth, claimed, turned=True), b, a, found.views),
        )
    return found.report(
        subject,
        tail=min(1.0, tail),
        pairs=len(pairs),
        vectors=0,
        partitioned=asked.cuts is not None,
        # Nothing was played: the law is what the subject says.
        stated=True,
        assumed="; ".join(assumed),
    )


def loss(subject: Continuous, a: Any, b: Any, asked: Asked) -> float:
    """Return the lower bound of the loss less the claim, of the worse order.

    What a search climbs.
    """
    claimed = Claimed(subject.cost, subject.cost_of)
    forth = subject.compared(a, b, asked)
    both = [_order_cells(forth, claimed, turned=turned) for turned in (False, True)]
    if isinstance(subject.cost.pure(), Fraction):
        return max(each.beyond()[0] for each in both)
    return max(each.renyi(Fraction(2), discounted=True)[0] for each in both)


def _order_cells(compared: Compared, claimed: Claimed, *, turned: bool) -> Ordered:
    """Return all cells in one order, without the tiny ones that nothing is known of."""
    labels = [label for label, _ in compared.cells]
    places = np.concatenate(
        [np.full(cells.width.size, i) for i, (_, cells) in enumerate(compared.cells)]
    )
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
        unknown |= np.isposinf(np.maximum(left[1], right[1])) & ~np.isposinf(
            np.maximum(left[0], right[0])
        )
    gone = narrow & unknown
    lost = (
        max(
            (bound_total(cells.mass(side)[1][gone], up=True) for side in (cells.a, cells.b)),
            default=0.0,
        )
        if gone.any()
        else 0.0
    )
    kept = cells.chosen(~gone)
    # What is known of the rest has an order, too.
    outside = compared.outside[1 if turned else 0]
    return Ordered(
        labels,
        places[~gone],
        kept.turned if turned else kept,
        compared.unresolved,
        lost,
        outside,
        claimed,
    )


def _find_order(order: Ordered, a: Any, b: Any, views: Views) -> OneOrder:
    """Return what is found of one order of one pair."""
    pure = isinstance(order.claimed.whole.pure(), Fraction)
    least, most, place = order.worst()
    # Outputs in no cell are covered if something is known of their log ratio.
    covered = not order.unresolved or order.outside < math.inf
    if order.unresolved and covered:
        most = max(most, order.outside)
    low, high, farthest = order.beyond() if pure else (-math.inf, -math.inf, place)
    if pure and order.unresolved and covered:
        # They may have any label, so that the smallest claim counts.
        high = max(high, round_up(Fraction(order.outside) - min(order.epsilons)))
    return OneOrder(
        least=least,
        most=most,
        # With nothing left out, the bound is about every output.
        everywhere=most if covered and not order.lost else math.inf,
        witness=order.witness(place, a, b, pure=pure),
        beyond=(low, high),
        overrun=order.witness(farthest, a, b, pure=pure) if pure else None,
        unresolved=order.lost + (0.0 if covered else order.unresolved),
        audited=order.places.size,
        outputs=order.places.size,
        deltas=[order.hockey_stick(epsilon) for epsilon in views.epsilons],
        divergences=[
            # What is claimed, discounted, is in the middle, as `Claimed.divergences` takes it.
            (low, order.renyi(alpha, discounted=True)[0], high)
            for alpha in views.orders
            for low, high in [order.renyi(alpha, discounted=False)]
        ],
    )
