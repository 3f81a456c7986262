"""Pairs of answers, compared in both orders, and the worst of what is found.

Claim: a report holds the largest of each bound over all pairs and both orders. Proof: docs/proofs/exact-audit.md, "Report".
Floats: only outward rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, final

from sordino.audit._comparison import Comparison, down, up
from sordino.audit._everywhere import epsilon_everywhere, renyi_everywhere
from sordino.audit._outcomes import Book, Outcomes
from sordino.audit._region import Region
from sordino.audit._report import Delta, Divergence, ExactReport, Witness, at_least
from sordino.audit._subject import Subject
from sordino.constraints import shown
from sordino.cost import BoundedRange, Cost, Pure, Range
from sordino.errors import InvalidParameter

Pair = tuple[Any, Any]

_ORDERS = (Fraction(3, 2), Fraction(2), Fraction(8), Fraction(32))
_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_DELTAS = (1e-3, 1e-6)
_KEPT, _BYTES = 64, 1 << 28  # how many laws are kept for other pairs, and how much memory they may take
_MOST = 500
_ROUNDING = 1e-12
_LESS = 1 - 1e-9
_ABOVE = "Subject.cost_of must never be above Subject.cost, which is what a ledger would have reserved."


@final
@dataclass(eq=False)
class Audit:
    """Plays answers once and compares them in pairs."""

    subject: Subject
    book: Book
    slack: float
    _known: dict[Any, tuple[Any, Outcomes]] = field(default_factory=dict)

    @property
    def region(self) -> Region:
        """The noise that is played."""
        return self.book.region

    def outcomes(self, answers: Any) -> Outcomes:
        """Return the law of the outputs; the last few are kept."""
        plain = isinstance(answers, tuple) and all(type(x) in {int, Fraction} for x in answers)
        key = answers if plain else id(answers)  # the answers are kept, so that no other object gets their id
        if key not in self._known:
            found = self.book.outcomes(self.subject.private(answers))
            while self._known and (len(self._known) >= _KEPT or self._size() + found.size > _BYTES):
                self._known.pop(next(iter(self._known)))
            self._known[key] = answers, found
        return self._known[key][1]

    def _size(self) -> int:
        return sum(outcomes.size for _, outcomes in self._known.values())

    def cost(self, number: int) -> Cost:
        """Return what is claimed for an output."""
        if self.subject.cost_of is None:
            return self.subject.cost
        cost = self.subject.cost_of(self.book.outputs[number])
        if isinstance(cost, type) or not isinstance(cost, Cost):
            raise InvalidParameter(f"Subject.cost_of must return costs, such as cost.Pure(epsilon=1); got {shown(cost)}.")
        return cost

    def epsilon(self, number: int) -> Fraction:
        """Return the pure epsilon that is claimed for an output."""
        pure = self.cost(number).pure()
        if not isinstance(pure, Fraction):
            raise InvalidParameter("Subject.cost_of must return pure costs where Subject.cost is pure.")
        if pure > self.subject.cost.pure():
            raise InvalidParameter(_ABOVE)
        return _checked(pure)

    def divergence(self, alpha: Fraction, number: int) -> Fraction:
        """Return the Rényi divergence of order `alpha` that is claimed for an output."""
        claimed, most = (_divergence(cost, alpha) for cost in (self.cost(number), self.subject.cost))
        if claimed == math.inf:
            raise InvalidParameter(f"audit.exact.orders must be orders at which the claim says something; got {float(alpha):g}.")
        if claimed > most * (1 + _ROUNDING):
            raise InvalidParameter(_ABOVE)
        return Fraction(claimed)

    def compared(self, a: Any, b: Any) -> Comparison:
        """Return the comparison of two lists of answers, in this order."""
        pure = isinstance(self.subject.cost.pure(), Fraction)
        return Comparison(self.outcomes(a), self.outcomes(b), self.epsilon if pure else None, self.slack)

    def loss(self, a: Any, b: Any) -> float:
        """Return the lower bound of the loss less the claim, of the worse order: what a search climbs."""
        compared = [self.compared(*pair) for pair in ((a, b), (b, a))]
        if compared[0].claimed is None and self.subject.cost.rdp(2.0) < math.inf:
            return max(each.renyi(Fraction(2), partial(self.divergence, Fraction(2)))[1] for each in compared)
        return max(each.worst(beyond=True)[0] for each in compared)

    def report(self, pairs: list[Pair], orders: list[Fraction] | None, epsilons: list[Fraction] | None) -> ExactReport:
        """Return the worst over all pairs and both orders."""
        if not pairs:
            raise InvalidParameter("audit.exact needs at least one pair of neighbours.")
        cost = self.subject.cost
        pure = cost.pure()
        finer = isinstance(pure, Fraction) and _says_more(cost, pure)
        if orders is None:
            orders = [alpha for alpha in _ORDERS if (finer or pure == math.inf) and _divergence(cost, alpha) < math.inf]
        if self.subject.cost_of is not None and pure == math.inf and not orders:
            raise InvalidParameter("Subject.cost_of must be None where neither a pure epsilon nor Rényi divergences are claimed.")
        where: list[Fraction | None]
        if epsilons is not None:
            where = [_checked(epsilon) for epsilon in epsilons]
        elif isinstance(pure, Fraction):
            where = [None, *(share * pure for share in _SHARES if finer)]
        else:
            where = [Fraction(cost.epsilon(d)) for d in _DELTAS if cost.epsilon(d) < _MOST]
        if not where:
            raise InvalidParameter("audit.exact needs epsilons=, where the claim says something about delta.")
        if None not in where and isinstance(pure, Fraction):
            where = [*where, None]  # the claim itself is always looked at
        found = _Found(
            deltas=[(0.0, 0.0)] * len(where), divergences=[(-math.inf, -math.inf, 0.0)] * len(orders), smallest=(1 << 62, 1 << 62)
        )
        for a, b in pairs:
            ends = [self._compare(found, one, other, where, orders) for one, other in ((a, b), (b, a))]
            found.interval = max(found.interval, interval_beyond(cost, *ends))
        return self._reported(found, where, orders, len(pairs))

    def _compare(self, found: _Found, a: Any, b: Any, where: list[Fraction | None], orders: list[Fraction]) -> float:
        """Take in one order of one pair, and return the lower bound of its loss."""
        compared = self.compared(a, b)
        # Outputs that are drawn again are conditioned on what came out: then the noise alone proves nothing.
        added = self.subject.added and self.subject.again is None
        moves = self.subject.private(b) - self.subject.private(a) if added else None
        everywhere = math.inf if moves is None else epsilon_everywhere(self.subject.laws, moves, lifted=self.subject.shifts)
        least, most, number = compared.worst(beyond=False)
        _checked_declaration(least, everywhere)
        beyond = compared.worst(beyond=True) if compared.claimed is not None else (-math.inf, -math.inf, number)
        if self.subject.cost_of is None and compared.claimed is not None:
            beyond = beyond[0], min(beyond[1], _above(everywhere - self.epsilon(number))), number
        if found.witness is None or least > found.least:
            found.witness = self._witness(compared, a, b, number)
        if compared.claimed is not None and (found.overrun is None or beyond[0] > found.beyond[0]):
            found.overrun = self._witness(compared, a, b, beyond[2])
        found.declared |= everywhere < most
        found.least, found.most = max(found.least, least), max(found.most, min(most, _above(everywhere)))
        found.everywhere = max(found.everywhere, _above(everywhere))
        found.beyond = max(found.beyond[0], beyond[0]), max(found.beyond[1], beyond[1])
        found.unresolved = max(found.unresolved, compared.unresolved)
        found.smallest = (
            min(found.smallest[0], int(compared.audited.sum())),
            min(found.smallest[1], compared.audited.size),
        )
        for i, epsilon in enumerate(where):
            low_delta, high_delta = compared.hockey_stick(epsilon)
            found.deltas[i] = max(found.deltas[i][0], low_delta), max(found.deltas[i][1], high_delta)
        for i, alpha in enumerate(orders):
            plain, counted = compared.renyi(alpha, partial(self.divergence, alpha))
            most_everywhere = math.inf if moves is None else renyi_everywhere(self.subject.laws, moves, alpha)
            _checked_declaration(plain, most_everywhere)
            old = found.divergences[i]
            found.divergences[i] = max(old[0], plain), max(old[1], counted), max(old[2], most_everywhere)
        return least

    def _witness(self, compared: Comparison, a: Any, b: Any, number: int) -> Witness:
        low, high = compared.loss(number, beyond=False)
        claimed = float(self.epsilon(number)) if compared.claimed is not None else math.inf
        return Witness(
            output=self.book.outputs[number], answers_a=a, answers_b=b, at_least=down(low), at_most=up(high), claimed=claimed
        )

    def _reported(self, found: _Found, where: list[Fraction | None], orders: list[Fraction], pairs: int) -> ExactReport:
        cost = self.subject.cost
        pure = cost.pure()
        if found.witness is None:
            raise InvalidParameter("audit.exact needs at least one pair of neighbours.")
        deltas = []
        for epsilon, (low, high) in zip(where, found.deltas, strict=True):
            claimed = 0.0 if epsilon is None else cost.delta(below(epsilon))  # a delta does not rise with epsilon
            deltas.append(Delta(epsilon=float(pure if epsilon is None else epsilon), at_least=low, at_most=high, claimed=claimed))
        at_claim = deltas[where.index(None)] if None in where else None
        divergences = [
            Divergence(alpha=float(alpha), at_least=low, at_most=high, claimed=_divergence(cost, alpha), beyond_at_least=beyond)
            for alpha, (low, beyond, high) in zip(orders, found.divergences, strict=True)
        ]
        return ExactReport(
            name=repr(self.subject),
            claimed=cost,
            epsilon_at_least=max(0.0, found.least),
            epsilon_at_most=found.most,
            epsilon_everywhere=found.everywhere,
            beyond_at_least=found.beyond[0],
            beyond_at_most=found.beyond[1],
            interval_beyond_at_least=found.interval,
            at_claim=at_claim,
            deltas=tuple(deltas[:-1] if None in where[1:] else deltas),
            divergences=tuple(divergences),
            witness=found.witness,
            overrun=found.overrun,
            audited=found.smallest[0],
            outputs=found.smallest[1],
            unresolved=found.unresolved,
            tail=up(self.region.tail),
            pairs=pairs,
            vectors=self.region.noise.shape[0],
            partitioned=self.book.partition is not None,
            declared=found.declared,
            checked=self.subject.sensitivity is not None,
            stated=self.subject.stated is not None,
        )


def _checked(epsilon: Fraction) -> Fraction:
    if epsilon > _MOST:
        raise InvalidParameter(f"audit.exact must be given claims of an epsilon of at most {_MOST}; got {float(epsilon):g}.")
    return epsilon


def _checked_declaration(found: float, allowed: Fraction | float) -> None:
    if found > allowed:
        raise InvalidParameter(
            f"audit.exact found a loss of at least {at_least(found)} where the noise allows {float(allowed):.9g} if outputs depend on the "
            "answers only through their sums with the noise (and Subject.shifts is true where it is said): what the subject declares is "
            "false."
        )


def _above(x: Fraction | float) -> float:
    """Return the smallest float that is at least x."""
    near = float(x)
    return near if near == math.inf or Fraction(near) >= x else math.nextafter(near, math.inf)


def below(x: Fraction | float) -> float:
    """Return the largest float that is at most x, a finite number."""
    return -_above(-x)


def _divergence(cost: Cost, alpha: Fraction) -> float:
    """Return what a cost claims of the order: its curve, or its zCDP where that says more."""
    rho = cost.zcdp()
    order = _above(alpha)  # a divergence does not fall with the order
    return min(cost.rdp(order), math.inf if rho == math.inf else _above(Fraction(rho) * alpha))


def _says_more(cost: Cost, pure: Fraction) -> bool:
    """Return whether a cost with a pure epsilon claims more than that."""
    alone = Pure(epsilon=pure)
    if isinstance(cost, Range | BoundedRange) or any(_divergence(cost, a) < alone.rdp(float(a)) * _LESS for a in _ORDERS):
        return pure > 0
    return any(cost.delta(float(share * pure)) < alone.delta(float(share * pure)) * _LESS for share in _SHARES)


def interval_beyond(cost: Cost, forth: float, back: float) -> float:
    """Return by how much the loss leaves the interval that is claimed, at least; -inf if none is claimed.

    The loss in one order reaches from `-back` to `forth` at least: a `BoundedRange` is as wide as its epsilon, wherever it lies, and a
    `Range` has its own end for each order, but which order is which is not said.
    """
    if not isinstance(cost, Range | BoundedRange):
        return -math.inf
    if math.inf in {forth, back}:
        return math.inf
    ends = Fraction(forth), Fraction(back)
    if isinstance(cost, BoundedRange):
        return below(sum(ends) - cost.pure())
    ways = ((cost.high, cost.low), (cost.low, cost.high))
    return below(min(max(end - most for end, most in zip(ends, way, strict=True)) for way in ways))


@final
@dataclass(eq=False)
class _Found:
    """The worst so far."""

    deltas: list[tuple[float, float]]
    divergences: list[tuple[float, float, float]]
    smallest: tuple[int, int]
    least: float = -math.inf
    most: float = -math.inf
    everywhere: float = -math.inf
    beyond: tuple[float, float] = (-math.inf, -math.inf)
    interval: float = -math.inf
    unresolved: float = 0.0
    declared: bool = False
    witness: Witness | None = None
    overrun: Witness | None = None
