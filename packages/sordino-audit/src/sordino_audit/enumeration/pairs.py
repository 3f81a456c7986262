"""Compares the laws of outputs of neighbors, in both orders, and reports the worst.

Claim: every `at_least` is at most, and every `at_most` at least, the true value for what it
covers, and a report holds the largest of each over all pairs and both orders. Proof:
docs/proofs/exact-audit.md, "Report".
Floats: they rank outputs, with their errors added outward; what is reported of an output is
repeated in decimals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Approximate
from sordino.cost.conversion import round_up
from sordino.errors import InvalidParameter
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import Bounds, contexts, exp_bounds, ratio_bounds
from sordino_audit.enumeration.laws import DIGITS, Noise, Region, gaussian_mass
from sordino_audit.enumeration.outcomes import Book, Outcomes
from sordino_audit.enumeration.subject import Subject
from sordino_audit.report import ExactReport, Witness, at_least
from sordino_audit.views import Claimed, Findings, OneOrder, Views

_COMPARISON_DIGITS = 40
# Outputs whose bound is repeated in decimals before the float bound of the next one is taken.
_REPEATED_OUTPUTS = 256
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
        An output is audited from above if the noise that was not played could change its ratio by
        at most this share.
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
        for less in (
            np.ones(1),
            self._discount[0],
        ):  # what bounds from below is bounded from above, too
            chosen[int(self._floor(less).argmax())] = True
        return chosen

    def _floor(self, less: Floats) -> Floats:
        """Return about the lower bound of the ratio of every output, times `less`."""
        a, _, _, b = self._sides
        # All noise that was not played may have this output under `b`: the ratio cannot be less
        # than this.
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(a > 0, a / (b + self._rest) * less, 0.0)

    @cached_property
    def unresolved(self) -> float:
        """Return an upper bound of the probability of all outputs that are not audited.

        It holds under either law.
        """
        if self._rest == 0:  # all noise was played, and every output is audited
            return 0.0
        a, _, b, _ = self._sides
        low = min(math.fsum(side[self.audited].tolist()) for side in (a, b)) * (1 - 2.0**-50)
        below, above = contexts(_COMPARISON_DIGITS)
        return min(
            1.0, max(0.0, up(above.subtract(1, below.divide(Decimal(low), self.a.region.total[1]))))
        )

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
        """Return decimal bounds of the log ratio of one output.

        `beyond`: less what is claimed for it.
        """
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
        # The floats err by a few roundings; widened by more, they say which outputs may be the
        # largest.
        ceiling = np.where(np.isnan(ceiling), math.inf, ceiling) * (1 + 2.0**-49)
        witness = int(self._ids[int(self._floor(less[0]).argmax())])
        return (
            down(self.loss(witness, beyond=beyond)[0]),
            self._ceiling(ceiling, beyond=beyond),
            witness,
        )

    def _ceiling(self, ceiling: Floats, *, beyond: bool) -> float:
        """Return an upper bound of the largest log ratio.

        The candidates are repeated in decimals until no other can be larger.
        """
        best = -math.inf
        order = np.argsort(-ceiling, kind="stable")
        for i in order[:_REPEATED_OUTPUTS].tolist():
            bound = (
                up(log_bounds((Decimal(0), Decimal(float(ceiling[i]))))[1])
                if ceiling[i] > 0
                else -math.inf
            )
            # The bounds fall: no output that is left can be larger.
            if bound <= best:
                return best
            best = max(best, up(self.loss(int(self._ids[i]), beyond=beyond)[1]))
        # The outputs that were not repeated lie below the float bound of the next one.
        if order.size > _REPEATED_OUTPUTS:
            following = float(ceiling[order[_REPEATED_OUTPUTS]])
            best = max(
                best, up(log_bounds((Decimal(0), Decimal(following)))[1]) if following > 0 else best
            )
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
        # P_a(S) - e^c P_b(S), with e^c between 1/large and 1/small; each side is widened by more
        # than its rounding. Terms that count have b no larger than about a: four roundings of a
        # each, and the sums have one more.
        rounding = 2.0**-49 * math.fsum(a_high.tolist())
        most = math.fsum(np.maximum(a_high - b_low / large, 0).tolist()) + rounding + self._rest
        gains = a_low - b_high / small
        chosen = gains > 0
        # All noise that was not played may fall on `b`, where it counts e^c times: the largest c of
        # the set.
        factor = float((1 / small[chosen]).max()) if chosen.any() else 0.0
        least = math.fsum(gains[chosen].tolist()) - rounding - self._rest * factor
        total = self.a.region.total
        below, above = contexts(_COMPARISON_DIGITS)
        return max(0.0, down(below.divide(Decimal(least), total[1]))), min(
            1.0, up(above.divide(Decimal(most), total[0]))
        )

    def renyi(self, alpha: Fraction, allowed: Callable[[int], Fraction]) -> tuple[float, float]:
        """Return lower bounds of the Rényi divergence of order `alpha`: plain, and discounted.

        In the second each output is discounted by what it is allowed.

        The second is ln(sum p^alpha q^(1 - alpha) e^(-(alpha - 1) allowed)) / (alpha - 1): at most
        0 if the claim holds, also where the claim depends on the output and the rest is to be spent
        on.
        """
        a_low, _, _, b_high = self._sides
        with np.errstate(divide="ignore"):
            # Floats only say which terms are largest. The terms are positive: the others may be
            # left out.
            size = float(alpha) * np.log(a_low) + (1 - float(alpha)) * np.log(b_high + self._rest)
        below, above = contexts(_COMPARISON_DIGITS)
        plain = counted = Decimal(0)
        for number in self._ids[np.argsort(-size, kind="stable")[:_DIVERGENCE_TERMS]].tolist():
            a, b = (
                self.a.certified(number)[0],
                above.add(self.b.certified(number)[1], self._whole_rest),
            )
            if not a:
                continue
            # The output is possible on one side only: the divergence is infinite.
            if not b:
                return math.inf, math.inf
            exponent = below.subtract(
                _scale_bounds(alpha, log_bounds((a, a)))[0],
                _scale_bounds(alpha - 1, log_bounds((b, b)))[1],
            )
            plain = below.add(plain, below.next_minus(below.exp(exponent)))
            # Rounded up, so that the discounted sum stays a lower bound.
            discount = ratio_bounds((alpha - 1) * allowed(number), _COMPARISON_DIGITS)[1]
            counted = below.add(
                counted, below.next_minus(below.exp(below.subtract(exponent, discount)))
            )
        # The powers add up to 1, so that dividing the sum by the whole mass turns masses into
        # probabilities.
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
    return below.multiply(low if y[0] > 0 else high, y[0]), above.multiply(
        high if y[1] > 0 else low, y[1]
    )


# ---- pairs ---------------------------------------------------------------------------------------


Pair = tuple[Any, Any]

_KEPT_LAWS, _KEPT_BYTES = (
    64,
    1 << 28,
)  # how many laws are kept for other pairs, and how much memory they may take


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
        key = (
            answers if plain else id(answers)
        )  # the answers are kept, so that no other object gets their id
        if key not in self._known:
            found = self.book.outcomes(self.subject.private(answers))
            # The oldest laws make room.
            while self._known and (
                len(self._known) >= _KEPT_LAWS or self._size() + found.size > _KEPT_BYTES
            ):
                self._known.pop(next(iter(self._known)))
            self._known[key] = answers, found
        return self._known[key][1]

    def _size(self) -> int:
        return sum(outcomes.size for _, outcomes in self._known.values())

    @cached_property
    def _claimed(self) -> Claimed:
        return Claimed(self.subject.cost, self.subject.cost_of)

    def epsilon(self, number: int) -> Fraction:
        """Return the epsilon that is claimed for an output."""
        return self._claimed.epsilon(self.book.outputs[number])

    def divergence(self, alpha: Fraction, number: int) -> Fraction:
        """Return the Rényi divergence of order `alpha` that is claimed for an output."""
        return self._claimed.divergence(alpha, self.book.outputs[number])

    def compared(self, a: Any, b: Any) -> Comparison:
        """Return the comparison of two lists of answers, in this order."""
        # A pure claim, or one that holds but for a failure: each output is held against its own
        # epsilon.
        firm = isinstance(self._claimed.firm, Fraction)
        return Comparison(
            self.outcomes(a), self.outcomes(b), self.epsilon if firm else None, self.slack
        )

    def loss(self, a: Any, b: Any) -> float:
        """Return the lower bound of the loss less the claim, of the worse order.

        It is what a search climbs.
        """
        compared = [self.compared(*pair) for pair in ((a, b), (b, a))]
        # Nor does one where the claim may fail; the hockey stick at the claim does.
        if isinstance(self.subject.cost, Approximate):
            return max(each.hockey_stick(None)[0] for each in compared)
        # Without a pure claim a large log ratio does not speak against it; the Rényi divergence
        # may.
        if compared[0].claimed is None and self.subject.cost.rdp(2.0) < math.inf:
            return max(
                each.renyi(Fraction(2), partial(self.divergence, Fraction(2)))[1]
                for each in compared
            )
        return max(each.worst(beyond=True)[0] for each in compared)

    def report(
        self, pairs: list[Pair], orders: list[Fraction] | None, epsilons: list[Fraction] | None
    ) -> ExactReport:
        """Return the worst over all pairs and both orders."""
        found = Findings(self._claimed, self._claimed.views(orders, epsilons))
        for a, b in pairs:
            found.take(self._compare(a, b, found.views), self._compare(b, a, found.views))
        return found.report(
            self.subject,
            tail=up(self.region.tail),
            pairs=len(pairs),
            vectors=self.region.noise.shape[0],
            partitioned=self.book.partition is not None or self.subject.merged,
            stated=self.subject.stated is not None,
        )

    def _compare(self, a: Any, b: Any, views: Views) -> OneOrder:
        """Return what is found of one order of one pair."""
        compared = self.compared(a, b)
        # Outputs that are drawn again are conditioned on what came out: then the noise alone proves
        # nothing.
        added = self.subject.added and self.subject.again is None
        moves = self.subject.private(b) - self.subject.private(a) if added else None
        everywhere = (
            math.inf
            if moves is None
            else _bound_all_ratios(self.subject.laws, moves, lifted=self.subject.shifts)
        )
        least, most, number = compared.worst(beyond=False)
        # A loss above what the noise allows shows that the subject declares something false.
        _check_declaration(least, everywhere)
        # Of a claim that may fail single outputs say nothing: a ratio may be infinite.
        pure = isinstance(self.subject.cost.pure(), Fraction)
        beyond = compared.worst(beyond=True) if pure else (-math.inf, -math.inf, number)
        # Where all outputs have the same claim, what the noise proves for all of them also bounds
        # the excess.
        if self.subject.cost_of is None and pure:
            beyond = beyond[0], min(beyond[1], round_up(everywhere - self.epsilon(number))), number
        return OneOrder(
            least=least,
            most=min(most, round_up(everywhere)),
            everywhere=round_up(everywhere),
            witness=self._witness(compared, a, b, number),
            beyond=beyond[:2],
            overrun=self._witness(compared, a, b, beyond[2]) if pure else None,
            unresolved=compared.unresolved,
            audited=int(compared.audited.sum()),
            outputs=compared.audited.size,
            # Where the noise alone gives the better bound, the report says that it rests on a
            # declaration.
            declared=everywhere < most,
            deltas=[compared.hockey_stick(epsilon) for epsilon in views.epsilons],
            divergences=[self._diverge(compared, moves, alpha) for alpha in views.orders],
        )

    def _diverge(
        self, compared: Comparison, moves: NDArray[Any] | None, alpha: Fraction
    ) -> tuple[float, float, float]:
        """Return bounds of a Rényi divergence of one order, as `Claimed.divergences` takes them."""
        plain, counted = compared.renyi(alpha, partial(self.divergence, alpha))
        # What the noise proves about divergences is held against them in the same way.
        everywhere = (
            math.inf if moves is None else _bound_all_divergences(self.subject.laws, moves, alpha)
        )
        _check_declaration(plain, everywhere)
        return plain, counted, everywhere

    def _witness(self, compared: Comparison, a: Any, b: Any, number: int) -> Witness:
        low, high = compared.loss(number, beyond=False)
        # Without a pure claim every log ratio is allowed.
        pure = isinstance(self.subject.cost.pure(), Fraction)
        claimed = float(self.epsilon(number)) if pure else math.inf
        return Witness(
            output=self.book.outputs[number],
            answers_a=a,
            answers_b=b,
            at_least=down(low),
            at_most=up(high),
            claimed=claimed,
        )


def _check_declaration(found: float, allowed: Fraction | float) -> None:
    if found > allowed:
        raise InvalidParameter(
            f"audit.exact found a loss of at least {at_least(found)} where the noise allows "
            f"{float(allowed):.9g} if outputs depend on the answers only through their sums with "
            "the noise (and Subject.shifts is true where it is said): what the subject declares is "
            "false."
        )


# ---- what the noise alone proves -----------------------------------------------------------------
# Bounds for every output, played or not: whatever `decide` does with noisy answers cannot lose more
# than the noisy answers do.
#
# Claim: data processing; the noisy answers are independent, so their losses add. Proof:
# docs/proofs/exact-audit.md, "Everywhere".
# Floats: only outward rounding of the final bounds.


def _bound_all_ratios(
    laws: tuple[Noise, ...], moves: NDArray[Any], *, lifted: bool
) -> Fraction | float:
    """Return a bound of the log ratio of all outputs when answers move by `moves` steps.

    It is inf where the noise alone proves nothing.

    Laplace noise of either sign pays for the move. One-sided noise pays only upward: if outputs do
    not change when all noisy answers are `lifted` together, the noise may rise by some common lift
    less the own move.
    """
    # The best lift is 0 or one of the moves: what is paid is linear between them.
    lifts = {0, *moves.tolist()} if lifted else {0}
    return min(_price_of_rises(laws, [lift - move for move in moves.tolist()]) for lift in lifts)


def _price_of_rises(laws: tuple[Noise, ...], rises: list[int]) -> Fraction | float:
    """Return what it costs that the noise rises by these steps (falls, where they are negative)."""
    total = Fraction(0)
    for law, rise in zip(laws, rises, strict=True):
        # Gaussian and finite noise bound no ratio, and one-sided noise none where it would have to
        # fall.
        if rise and not (
            isinstance(law, DiscreteLaplace) or (isinstance(law, Geometric) and rise > 0)
        ):
            return math.inf
        total += law.rate * abs(rise)
    return total


def _bound_all_divergences(laws: tuple[Noise, ...], moves: NDArray[Any], alpha: Fraction) -> float:
    """Return a bound of the Rényi divergence of order `alpha` of all outputs.

    It is inf unless what moves has Gaussian noise.

    For a law with probabilities proportional to e^(-b x^2) and its shift by m, completing the
    square gives alpha b m^2 plus ln(M(b, (1 - alpha) m) / M(b, 0)) / (alpha - 1), where M(b, s) is
    the sum of e^(-b (x - s)^2).
    """
    # Noisy answers are independent: the divergences of their coordinates add up.
    below, above = contexts(DIGITS)
    bound = ratio_bounds(Fraction(0), DIGITS)[1]
    for law, move in zip(laws, moves.tolist(), strict=True):
        if not move:
            continue
        if not isinstance(law, DiscreteGaussian):
            return math.inf
        square = ratio_bounds(alpha * law.rate * int(move) ** 2, DIGITS)[1]
        shift = (1 - alpha) * int(move)
        # A whole shift only renumbers the terms: the ratio is 1.
        if shift.denominator != 1:
            numerator, denominator = (
                gaussian_mass(law.rate, shift, DIGITS)[1],
                gaussian_mass(law.rate, Fraction(0), DIGITS)[0],
            )
            log = log_bounds(
                (below.divide(numerator, denominator), above.divide(numerator, denominator))
            )[1]
            # The sign of the logarithm decides which end of the factor makes the product larger.
            share = ratio_bounds(1 / (alpha - 1), DIGITS)
            square = above.add(square, above.multiply(share[1] if log > 0 else share[0], log))
        bound = above.add(bound, square)
    return up(bound)
