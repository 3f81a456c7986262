"""Compares two laws of outputs: certified bounds of the log ratio, the hockey stick and the Rényi divergence.

Claim: every `at_least` is at most, and every `at_most` at least, the true value for what it covers. Proof:
docs/proofs/exact-audit.md.
Floats: they rank outputs, with their errors added outward; what is reported of an output is repeated in
decimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.noise.probability import Bounds, contexts, exp_bounds, ratio_bounds
from sordino_audit.enumeration.outcomes import Outcomes

_COMPARISON_DIGITS = 40
_REPEATED_OUTPUTS = (
    256  # outputs whose bound is repeated in decimals before the float bound of the next one is taken
)
_DIVERGENCE_TERMS = 400  # outputs that a lower bound of a divergence adds up, the largest ones

Floats = NDArray[np.float64]


def up(x: Decimal) -> float:
    """Return a float that is at least x."""
    return math.nextafter(float(x), math.inf) if x and x.is_finite() else float(x)


def down(x: Decimal) -> float:
    """Return a float that is at most x."""
    return math.nextafter(float(x), -math.inf) if x and x.is_finite() else float(x)


def log_bounds(x: Bounds) -> Bounds:
    """Return bounds of the natural logarithm of positive bounds.

    The decimal logarithm is correct to the last digit, so that one step outward is enough.
    """
    below, above = contexts(_COMPARISON_DIGITS)
    low = below.next_minus(below.ln(x[0])) if x[0] else Decimal("-Infinity")
    return low, above.next_plus(above.ln(x[1])) if x[1].is_finite() else Decimal("Infinity")


@final
@dataclass(frozen=True, eq=False)
class Comparison:
    """The law `a` against the law `b`, in this order.

    Attributes
    ----------
    a, b : Outcomes
        From the same region of noise and the same book.
    claimed : callable or None
        The claimed epsilon of an output, by its id; None if no pure epsilon is claimed.
    slack : float
        An output is audited from above if the noise that was not played could change its ratio by at most
        this share.
    """

    a: Outcomes
    b: Outcomes
    claimed: Callable[[int], Fraction] | None
    slack: float

    @cached_property
    def _ids(self) -> NDArray[np.int64]:
        return np.union1d(self.a.ids, self.b.ids)

    def _spread(self, outcomes: Outcomes, values: Floats) -> Floats:
        spread = np.zeros(self._ids.size)
        spread[np.searchsorted(self._ids, outcomes.ids)] = values
        return spread

    @cached_property
    def _sides(self) -> tuple[Floats, Floats, Floats, Floats]:
        a, b = self.a, self.b
        return (
            self._spread(a, a.low),
            self._spread(a, a.high),
            self._spread(b, b.low),
            self._spread(b, b.high),
        )

    @cached_property
    def _whole_rest(self) -> Decimal:
        # The larger rest serves both sides, so that every bound holds.
        return max(self.a.rest, self.b.rest)

    @cached_property
    def _rest(self) -> float:
        return up(self._whole_rest)

    @cached_property
    def _discount(self) -> tuple[Floats, Floats]:
        """Return bounds of e^-claimed for every output."""
        if self.claimed is None:
            return np.ones(self._ids.size), np.ones(self._ids.size)
        known: dict[Fraction, tuple[float, float]] = {}
        bounds = np.empty((self._ids.size, 2))
        for i, number in enumerate(self._ids.tolist()):
            cost = self.claimed(number)
            # Many outputs share a claim, so that each exponential is enclosed once.
            if cost not in known:
                low, high = exp_bounds(cost, _COMPARISON_DIGITS)
                known[cost] = down(low), up(high)
            bounds[i] = known[cost]
        return bounds[:, 0], bounds[:, 1]

    @cached_property
    def audited(self) -> NDArray[np.bool_]:
        """Return which outputs are bounded from above.

        Those are the likely ones under either law, and those that give the lower bounds.
        """
        a, _, b, _ = self._sides
        most = np.maximum(a, b)
        chosen: NDArray[np.bool_] = most > 0 if self._rest == 0 else most * self.slack >= self._rest
        for less in (np.ones(1), self._discount[0]):  # what bounds from below is bounded from above, too
            chosen[int(self._floor(less).argmax())] = True
        return chosen

    def _floor(self, less: Floats) -> Floats:
        """Return about the lower bound of the ratio of every output, times `less`."""
        a, _, _, b = self._sides
        # All noise that was not played may have this output under `b`: the ratio cannot be less than this.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(a > 0, a / (b + self._rest) * less, 0.0)

    @cached_property
    def unresolved(self) -> float:
        """Return an upper bound, under either law, of the probability of all outputs that are not audited."""
        if self._rest == 0:  # all noise was played, and every output is audited
            return 0.0
        a, _, b, _ = self._sides
        low = min(math.fsum(side[self.audited].tolist()) for side in (a, b)) * (1 - 2.0**-50)
        below, above = contexts(_COMPARISON_DIGITS)
        return min(1.0, max(0.0, up(above.subtract(1, below.divide(Decimal(low), self.a.region.total[1])))))

    def _ratio(self, number: int) -> Bounds:
        """Return decimal bounds of the ratio of the probabilities of one output.

        The noise that was not played may fall on either side.
        """
        below, above = contexts(_COMPARISON_DIGITS)
        a, b, rest = self.a.certified(number), self.b.certified(number), self._whole_rest
        most = above.add(b[1], rest)
        low = below.divide(a[0], most) if most else Decimal("Infinity" if a[0] else 0)
        return low, above.divide(above.add(a[1], rest), b[0]) if b[0] else Decimal("Infinity")

    def loss(self, number: int, *, beyond: bool) -> Bounds:
        """Return decimal bounds of the log ratio of one output; `beyond`: less what is claimed for it."""
        ratio = self._ratio(number)
        low, high = log_bounds(ratio) if ratio[0].is_finite() else (Decimal("Infinity"),) * 2
        if not beyond or self.claimed is None:
            return low, high
        below, above = contexts(_COMPARISON_DIGITS)
        cost = ratio_bounds(self.claimed(number), _COMPARISON_DIGITS)
        return below.subtract(low, cost[1]), above.subtract(high, cost[0])

    def worst(self, *, beyond: bool) -> tuple[float, float, int]:
        """Return bounds of the largest log ratio, and the output of the lower one.

        The lower bound is over all outputs, the upper one over the audited ones.
        """
        _, a_high, b_low, _ = self._sides
        less = self._discount if beyond else (np.ones(1), np.ones(1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ceiling = np.where(self.audited, (a_high + self._rest) / b_low * less[1], 0.0)
        # The floats err by a few roundings; widened by more, they say which outputs may be the largest.
        ceiling = np.where(np.isnan(ceiling), math.inf, ceiling) * (1 + 2.0**-49)
        witness = int(self._ids[int(self._floor(less[0]).argmax())])
        return down(self.loss(witness, beyond=beyond)[0]), self._ceiling(ceiling, beyond=beyond), witness

    def _ceiling(self, ceiling: Floats, *, beyond: bool) -> float:
        """Return an upper bound of the largest log ratio.

        The candidates are repeated in decimals until no other can be larger.
        """
        best = -math.inf
        order = np.argsort(-ceiling, kind="stable")
        for i in order[:_REPEATED_OUTPUTS].tolist():
            bound = (
                up(log_bounds((Decimal(0), Decimal(float(ceiling[i]))))[1]) if ceiling[i] > 0 else -math.inf
            )
            # The bounds fall: no output that is left can be larger.
            if bound <= best:
                return best
            best = max(best, up(self.loss(int(self._ids[i]), beyond=beyond)[1]))
        # The outputs that were not repeated lie below the float bound of the next one.
        if order.size > _REPEATED_OUTPUTS:
            following = float(ceiling[order[_REPEATED_OUTPUTS]])
            best = max(best, up(log_bounds((Decimal(0), Decimal(following)))[1]) if following > 0 else best)
        return best

    def hockey_stick(self, epsilon: Fraction | None) -> tuple[float, float]:
        """Return bounds of the largest P_a(S) - e^epsilon P_b(S) over all sets S of outputs.

        Outputs that were never played are among them.

        `epsilon` None: each output at its own claim.
        """
        a_low, a_high, b_low, b_high = self._sides
        if epsilon is None:
            small, large = self._discount
        else:
            low, high = exp_bounds(epsilon, _COMPARISON_DIGITS)
            small, large = np.full(self._ids.size, down(low)), np.full(self._ids.size, up(high))
        # P_a(S) - e^c P_b(S), with e^c between 1/large and 1/small; each side is widened by more than its
        # rounding. Terms that count have b no larger than about a: four roundings of a each, and the sums
        # have one more.
        rounding = 2.0**-49 * math.fsum(a_high.tolist())
        most = math.fsum(np.maximum(a_high - b_low / large, 0).tolist()) + rounding + self._rest
        gains = a_low - b_high / small
        chosen = gains > 0
        # All noise that was not played may fall on `b`, where it counts e^c times: the largest c of the set.
        factor = float((1 / small[chosen]).max()) if chosen.any() else 0.0
        least = math.fsum(gains[chosen].tolist()) - rounding - self._rest * factor
        total = self.a.region.total
        below, above = contexts(_COMPARISON_DIGITS)
        return max(0.0, down(below.divide(Decimal(least), total[1]))), min(
            1.0, up(above.divide(Decimal(most), total[0]))
        )

    def renyi(self, alpha: Fraction, allowed: Callable[[int], Fraction]) -> tuple[float, float]:
        """Return lower bounds of the Rényi divergence of order `alpha`: plain, and with outputs discounted.

        Each output is discounted by what it is allowed.

        The second is ln(sum p^alpha q^(1 - alpha) e^(-(alpha - 1) allowed)) / (alpha - 1): at most 0 if the
        claim holds, also where the claim depends on the output and the rest is to be spent on.
        """
        a_low, _, _, b_high = self._sides
        with np.errstate(divide="ignore"):
            # Floats only say which terms are largest. The terms are positive: the others may be left out.
            size = float(alpha) * np.log(a_low) + (1 - float(alpha)) * np.log(b_high + self._rest)
        below, above = contexts(_COMPARISON_DIGITS)
        plain = counted = Decimal(0)
        for number in self._ids[np.argsort(-size, kind="stable")[:_DIVERGENCE_TERMS]].tolist():
            a, b = self.a.certified(number)[0], above.add(self.b.certified(number)[1], self._whole_rest)
            if not a:
                continue
            # The output is possible on one side only: the divergence is infinite.
            if not b:
                return math.inf, math.inf
            exponent = below.subtract(
                _scale_bounds(alpha, log_bounds((a, a)))[0], _scale_bounds(alpha - 1, log_bounds((b, b)))[1]
            )
            plain = below.add(plain, below.next_minus(below.exp(exponent)))
            # Rounded up, so that the discounted sum stays a lower bound.
            discount = ratio_bounds((alpha - 1) * allowed(number), _COMPARISON_DIGITS)[1]
            counted = below.add(counted, below.next_minus(below.exp(below.subtract(exponent, discount))))
        # The powers add up to 1, so that dividing the sum by the whole mass turns masses into probabilities.
        plain, counted = (below.divide(value, self.a.region.total[1]) for value in (plain, counted))
        logs = [log_bounds((value, value)) for value in (plain, counted)]
        return down(_scale_bounds(1 / (alpha - 1), logs[0])[0]), down(
            _scale_bounds(1 / (alpha - 1), logs[1])[0]
        )


def _scale_bounds(x: Fraction, y: Bounds) -> Bounds:
    """Return bounds of x * y for an exact x > 0."""
    below, above = contexts(_COMPARISON_DIGITS)
    low, high = ratio_bounds(x, _COMPARISON_DIGITS)
    # The sign of y decides which end of x makes the product smaller.
    return below.multiply(low if y[0] > 0 else high, y[0]), above.multiply(high if y[1] > 0 else low, y[1])
