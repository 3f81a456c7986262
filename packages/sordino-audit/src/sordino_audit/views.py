"""What an exact audit holds against a claim, and the worst that it has found of each.

The views of a cost are Rényi orders, epsilons and intervals, with what it claims of each.

Claim: a view that is held against a mechanism is one that its cost makes, and a report holds the
largest of each bound over all pairs and both orders. Proof: docs/proofs/exact-audit.md, "Report".
Floats: only outward rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple, final

from sordino.constraints import shown
from sordino.cost import Approximate, ApproximateZCDP, BoundedRange, Cost, GumbelStage, Pure, Range
from sordino.cost.conversion import round_down, round_up
from sordino.errors import InvalidParameter
from sordino_audit.report import Delta, Divergence, ExactReport, Witness

_DEFAULT_ORDERS = (Fraction(3, 2), Fraction(2), Fraction(8), Fraction(32))
_EPSILON_SHARES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))
_AUDITED_DELTAS = (1e-3, 1e-6)
_LARGEST_CLAIMED_EPSILON = 500
_DIVERGENCE_ROUNDING = 1e-12
_FINER_FACTOR = 1 - 1e-9
_COST_OF_TOO_LARGE = (
    "Subject.cost_of must never be above Subject.cost, which is what a ledger would have reserved."
)


class Views(NamedTuple):
    """Rényi orders, and epsilons of the hockey stick; None is the claim itself."""

    orders: list[Fraction]
    epsilons: list[Fraction | None]


@final
@dataclass(frozen=True)
class Claimed:
    """What is claimed for all outputs together, and for single ones if their costs differ."""

    whole: Cost
    of: Callable[[Any], Cost] | None

    def cost(self, output: Any) -> Cost:
        """Return what is claimed for an output."""
        if self.of is None:
            return self.whole
        cost = self.of(output)
        if isinstance(cost, type) or not isinstance(cost, Cost):
            raise InvalidParameter(
                "Subject.cost_of must return costs, such as cost.Pure(epsilon=1); got "
                f"{shown(cost)}."
            )
        return cost

    @property
    def firm(self) -> Fraction | float:
        """The epsilon of the whole claim: a pure one, one that holds but for a failure, or inf."""
        return self.whole.epsilon_ if isinstance(self.whole, Approximate) else self.whole.pure()

    def epsilon(self, output: Any) -> Fraction:
        """Return the epsilon claimed for an output: pure, or one that holds but for a failure.

        Outputs may have epsilons of their own; the failure is one for all of them together.
        """
        own = self.cost(output)
        if isinstance(self.whole, Approximate):
            if not isinstance(own, Approximate) or (own.delta_, own.epsilon_) > (
                self.whole.delta_,
                self.whole.epsilon_,
            ):
                raise InvalidParameter(
                    "Subject.cost_of must return costs Approximate(epsilon=, delta=) of no larger "
                    "epsilon and delta where Subject.cost is one."
                )
            return _check_epsilon(own.epsilon_)
        pure = own.pure()
        if not isinstance(pure, Fraction):
            raise InvalidParameter(
                "Subject.cost_of must return pure costs where Subject.cost is pure."
            )
        # A ledger reserves the whole cost: no output may spend more.
        if pure > self.whole.pure():
            raise InvalidParameter(_COST_OF_TOO_LARGE)
        return _check_epsilon(pure)

    def divergence(self, alpha: Fraction, output: Any) -> Fraction:
        """Return the Rényi divergence of order `alpha` that is claimed for an output."""
        own = self.cost(output)
        # The epsilon of one output is about its ratio alone. Where the whole claims a curve below
        # that of its own epsilon, as an interval does, the curve belongs to all outputs together.
        if isinstance(own, Pure) and isinstance(self.whole.pure(), Fraction):
            own = own if isinstance(self.whole, Pure) else self.whole
        claimed, most = (_claimed_divergence(cost, alpha) for cost in (own, self.whole))
        if claimed == math.inf:
            raise InvalidParameter(
                "audit.exact.orders must be orders at which the claim says something; got "
                f"{float(alpha):g}."
            )
        # Both numbers are rounded, so a tiny excess is no contradiction.
        if claimed > most * (1 + _DIVERGENCE_ROUNDING):
            raise InvalidParameter(_COST_OF_TOO_LARGE)
        return Fraction(claimed)

    def views(self, orders: list[Fraction] | None, epsilons: list[Fraction] | None) -> Views:
        """Return the views that were asked for, or where none were, those that say something."""
        pure = self.whole.pure()
        # A pure epsilon implies a curve and deltas; they are checked only where the cost claims
        # more.
        finer = isinstance(pure, Fraction) and _claims_more_than_pure(self.whole, pure)
        if orders is None:
            orders = [
                alpha
                for alpha in _DEFAULT_ORDERS
                if (finer or pure == math.inf) and _claimed_divergence(self.whole, alpha) < math.inf
            ]
        if self.of is not None and self.firm == math.inf and not orders:
            raise InvalidParameter(
                "Subject.cost_of must be None where neither a pure epsilon nor Rényi divergences "
                "are claimed."
            )
        where: list[Fraction | None]
        if epsilons is not None:
            where = [_check_epsilon(epsilon) for epsilon in epsilons]
        elif isinstance(self.firm, Fraction):
            where = [None, *(share * self.firm for share in _EPSILON_SHARES if finer)]
        else:
            # Of a rho that may fail beside that failure: below it nothing is claimed.
            failing = self.whole.delta(math.inf) if isinstance(self.whole, ApproximateZCDP) else 0.0
            at = [failing + d for d in _AUDITED_DELTAS if failing + d < 1]
            where = [
                Fraction(self.whole.epsilon(d))
                for d in at
                if self.whole.epsilon(d) < _LARGEST_CLAIMED_EPSILON
            ]
        if not where:
            raise InvalidParameter(
                "audit.exact needs epsilons=, where the claim says something about delta."
            )
        if None not in where and isinstance(self.firm, Fraction):
            where = [*where, None]  # the claim itself is always looked at
        return Views(orders, where)

    def deltas(
        self, where: Sequence[Fraction | None], found: Sequence[tuple[float, float]]
    ) -> tuple[Delta | None, tuple[Delta, ...]]:
        """Return what was found of the hockey stick, with what is claimed.

        The first is at the claim, the others are elsewhere.
        """
        deltas = []
        for epsilon, (low, high) in zip(where, found, strict=True):
            # A delta does not rise with epsilon, so the next smaller float claims no less. At the
            # claim itself only a failure is left.
            claimed = (
                self.whole.delta(math.inf)
                if epsilon is None
                else self.whole.delta(round_down(epsilon))
            )
            at = float(self.firm if epsilon is None else epsilon)
            deltas.append(Delta(epsilon=at, at_least=low, at_most=high, claimed=claimed))
        at_claim = deltas[where.index(None)] if None in where else None
        # A None behind other epsilons was added by `views`, not asked for: it is reported as
        # `at_claim` only.
        return at_claim, tuple(deltas[:-1] if None in where[1:] else deltas)

    def divergences(
        self, orders: Sequence[Fraction], found: Sequence[tuple[float, float, float]]
    ) -> tuple[Divergence, ...]:
        """Return what was found of the Rényi divergences, with what is claimed.

        Each entry of `found` is a lower bound, by how much the claim is exceeded at least, and an
        upper bound.
        """
        return tuple(
            Divergence(
                alpha=float(alpha),
                at_least=low,
                at_most=high,
                claimed=_claimed_divergence(self.whole, alpha),
                beyond_at_least=beyond,
            )
            for alpha, (low, beyond, high) in zip(orders, found, strict=True)
        )


def _check_epsilon(epsilon: Fraction) -> Fraction:
    if epsilon > _LARGEST_CLAIMED_EPSILON:
        raise InvalidParameter(
            "audit.exact must be given claims of an epsilon of at most "
            f"{_LARGEST_CLAIMED_EPSILON}; got {float(epsilon):g}."
        )
    return epsilon


def _claimed_divergence(cost: Cost, alpha: Fraction) -> float:
    """Return what a cost claims of the order: its curve, or its zCDP where that says more."""
    rho = cost.zcdp()
    # A divergence does not fall with the order, so the next larger float claims no less.
    order = round_up(alpha)
    return min(cost.rdp(order), math.inf if rho == math.inf else round_up(Fraction(rho) * alpha))


def _claims_more_than_pure(cost: Cost, pure: Fraction) -> bool:
    """Return whether a cost with a pure epsilon claims more than that."""
    alone = Pure(epsilon=pure)
    # A view says more only if it is smaller by more than the rounding of both.
    if isinstance(cost, Range | BoundedRange | GumbelStage) or any(
        _claimed_divergence(cost, a) < alone.rdp(float(a)) * _FINER_FACTOR for a in _DEFAULT_ORDERS
    ):
        return pure > 0
    return any(
        cost.delta(float(share * pure)) < alone.delta(float(share * pure)) * _FINER_FACTOR
        for share in _EPSILON_SHARES
    )


def interval_beyond(cost: Cost, forth: float, back: float) -> float:
    """Return by how much the loss leaves the interval that is claimed, at least.

    -inf if none is claimed.

    The loss in one order reaches from `-back` to `forth` at least: a `BoundedRange` is as wide as
    its epsilon, wherever it lies, and a `Range` has its own end for each order, but which order is
    which is not said.
    """
    if isinstance(cost, GumbelStage):
        cost = cost.interval
    if not isinstance(cost, Range | BoundedRange):
        return -math.inf
    # An infinite loss leaves every interval, and has no exact fraction.
    if math.inf in {forth, back}:
        return math.inf
    ends = Fraction(forth), Fraction(back)
    if isinstance(cost, BoundedRange):
        # Rounding its negative up rounds it down, whatever its sign.
        return -round_up(cost.pure() - sum(ends))
    # Either order may be the one that `high` is about; only what neither reading allows refutes the
    # claim.
    ways = ((cost.high, cost.low), (cost.low, cost.high))
    return -round_up(
        -min(max(end - most for end, most in zip(ends, way, strict=True)) for way in ways)
    )


# ---- findings ------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class OneOrder:
    """What was found of a pair of neighbors in one order; bounds as in `ExactReport`."""

    least: float
    most: float
    everywhere: float
    witness: Witness
    beyond: tuple[float, float] = (-math.inf, -math.inf)
    overrun: Witness | None = None
    unresolved: float
    audited: int
    outputs: int
    declared: bool = False
    deltas: Sequence[tuple[float, float]]
    divergences: Sequence[tuple[float, float, float]]


def _keep_larger(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Return the larger number at each place of each entry."""
    return [tuple(map(max, one, other)) for one, other in zip(some, others, strict=True)]


# Of outputs: the pair of which least was audited, and the one of which least was seen.
_WORSE: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("most", "everywhere", "unresolved", "declared"), max),
    **dict.fromkeys(("audited", "outputs"), min),
    **dict.fromkeys(("deltas", "divergences"), _keep_larger),
}


def _keep_worse(one: OneOrder, other: OneOrder) -> OneOrder:
    """Return the worse of each bound; of equal ones the first witness."""
    first = other if other.least > one.least else one
    over = other if one.overrun is None or other.beyond[0] > one.beyond[0] else one
    worse = {name: rule(getattr(one, name), getattr(other, name)) for name, rule in _WORSE.items()}
    beyond = over.beyond[0], max(one.beyond[1], other.beyond[1])
    return replace(first, beyond=beyond, overrun=over.overrun, **worse)


@final
@dataclass(eq=False)
class Findings:
    """The worst bounds over all pairs and both orders so far."""

    claimed: Claimed
    views: Views
    worst: OneOrder | None = None
    interval: float = -math.inf

    def take(self, forth: OneOrder, back: OneOrder) -> None:
        """Take in both orders of a pair."""
        for order in (forth, back):
            self.worst = order if self.worst is None else _keep_worse(self.worst, order)
        # An interval is about both orders of a pair together.
        self.interval = max(
            self.interval, interval_beyond(self.claimed.whole, forth.least, back.least)
        )

    def report(self, subject: Any, **covered: Any) -> ExactReport:
        """Return the report about a subject.

        `covered` are the fields that say what was looked at.
        """
        worst = self.worst
        if worst is None:
            raise InvalidParameter("audit.exact needs at least one pair of neighbours.")
        at_claim, deltas = self.claimed.deltas(self.views.epsilons, worst.deltas)
        return ExactReport(
            name=repr(subject),
            claimed=subject.cost,
            epsilon_at_least=max(0.0, worst.least),
            epsilon_at_most=worst.most,
            epsilon_everywhere=worst.everywhere,
            beyond_at_least=worst.beyond[0],
            beyond_at_most=worst.beyond[1],
            interval_beyond_at_least=self.interval,
            at_claim=at_claim,
            deltas=deltas,
            divergences=self.claimed.divergences(self.views.orders, worst.divergences),
            witness=worst.witness,
            overrun=worst.overrun,
            audited=worst.audited,
            outputs=worst.outputs,
            # A sum of upper bounds may be above 1; a probability is not.
            unresolved=min(1.0, worst.unresolved),
            declared=worst.declared,
            checked=subject.sensitivity is not None,
            **covered,
        )
