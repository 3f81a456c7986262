"""Compares pairs of answers in both orders, and reports the worst of what is found.

Claim: a report holds the largest of each bound over all pairs and both orders. Proof:
docs/proofs/exact-audit.md, "Report".
Floats: only outward rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, final

from numpy.typing import NDArray

from sordino.cost import Approximate
from sordino.cost.conversion import round_up
from sordino.errors import InvalidParameter
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.noise.probability import contexts, ratio_bounds
from sordino_audit.enumeration.comparison import Comparison, down, log_bounds, up
from sordino_audit.enumeration.laws import Noise, gaussian_mass
from sordino_audit.enumeration.outcomes import Book, Outcomes
from sordino_audit.enumeration.region import DIGITS, Region
from sordino_audit.enumeration.subject import Subject
from sordino_audit.report import ExactReport, Witness, at_least
from sordino_audit.views import Claimed, Findings, Views, interval_beyond

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
        key = answers if plain else id(answers)  # the answers are kept, so that no other object gets their id
        if key not in self._known:
            found = self.book.outcomes(self.subject.private(answers))
            # The oldest laws make room.
            while self._known and (len(self._known) >= _KEPT_LAWS or self._size() + found.size > _KEPT_BYTES):
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
        # A pure claim, or one that holds but for a failure: each output is held against its own epsilon.
        firm = isinstance(self._claimed.firm, Fraction)
        return Comparison(self.outcomes(a), self.outcomes(b), self.epsilon if firm else None, self.slack)

    def loss(self, a: Any, b: Any) -> float:
        """Return the lower bound of the loss less the claim, of the worse order: what a search climbs."""
        compared = [self.compared(*pair) for pair in ((a, b), (b, a))]
        # Nor does one where the claim may fail; the hockey stick at the claim does.
        if isinstance(self.subject.cost, Approximate):
            return max(each.hockey_stick(None)[0] for each in compared)
        # Without a pure claim a large log ratio does not speak against it; the Rényi divergence may.
        if compared[0].claimed is None and self.subject.cost.rdp(2.0) < math.inf:
            return max(each.renyi(Fraction(2), partial(self.divergence, Fraction(2)))[1] for each in compared)
        return max(each.worst(beyond=True)[0] for each in compared)

    def report(
        self, pairs: list[Pair], orders: list[Fraction] | None, epsilons: list[Fraction] | None
    ) -> ExactReport:
        """Return the worst over all pairs and both orders."""
        if not pairs:
            raise InvalidParameter("audit.exact needs at least one pair of neighbours.")
        cost = self.subject.cost
        views = self._claimed.views(orders, epsilons)
        found = _PairFindings.begin(views)
        for a, b in pairs:
            ends = [self._compare(found, one, other, views) for one, other in ((a, b), (b, a))]
            # An interval is about both orders of a pair together.
            found.interval = max(found.interval, interval_beyond(cost, *ends))
        return found.report(
            self.subject,
            self._claimed,
            views,
            audited=found.smallest[0],
            outputs=found.smallest[1],
            unresolved=found.unresolved,
            tail=up(self.region.tail),
            pairs=len(pairs),
            vectors=self.region.noise.shape[0],
            partitioned=self.book.partition is not None or self.subject.merged,
            declared=found.declared,
            stated=self.subject.stated is not None,
        )

    def _compare(self, found: _PairFindings, a: Any, b: Any, views: Views) -> float:
        """Take in one order of one pair, and return the lower bound of its loss."""
        compared = self.compared(a, b)
        # Outputs that are drawn again are conditioned on what came out: then the noise alone proves nothing.
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
        # Where all outputs have the same claim, what the noise proves for all of them also bounds the excess.
        if self.subject.cost_of is None and pure:
            beyond = beyond[0], min(beyond[1], round_up(everywhere - self.epsilon(number))), number
        if found.witness is None or least > found.least:
            found.witness = self._witness(compared, a, b, number)
        if pure and (found.overrun is None or beyond[0] > found.beyond[0]):
            found.overrun = self._witness(compared, a, b, beyond[2])
        # Where the noise alone gives the better bound, the report says that it rests on a declaration.
        found.declared |= everywhere < most
        found.least, found.most = max(found.least, least), max(found.most, min(most, round_up(everywhere)))
        found.everywhere = max(found.everywhere, round_up(everywhere))
        found.beyond = max(found.beyond[0], beyond[0]), max(found.beyond[1], beyond[1])
        found.unresolved = max(found.unresolved, compared.unresolved)
        # The pair of which least was audited, and the one of which least was seen.
        found.smallest = (
            min(found.smallest[0], int(compared.audited.sum())),
            min(found.smallest[1], compared.audited.size),
        )
        for i, epsilon in enumerate(views.epsilons):
            low_delta, high_delta = compared.hockey_stick(epsilon)
            found.deltas[i] = max(found.deltas[i][0], low_delta), max(found.deltas[i][1], high_delta)
        for i, alpha in enumerate(views.orders):
            plain, counted = compared.renyi(alpha, partial(self.divergence, alpha))
            # What the noise proves about divergences is held against them in the same way.
            most_everywhere = (
                math.inf if moves is None else _bound_all_divergences(self.subject.laws, moves, alpha)
            )
            _check_declaration(plain, most_everywhere)
            old = found.divergences[i]
            found.divergences[i] = max(old[0], plain), max(old[1], counted), max(old[2], most_everywhere)
        return least

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
            f"{float(allowed):.9g} if outputs depend on the "
            "answers only through their sums with the noise (and Subject.shifts is true where it is said): "
            "what the subject declares is "
            "false."
        )


@final
@dataclass(eq=False, kw_only=True)
class _PairFindings(Findings):
    """The worst bounds over enumerated outputs."""

    smallest: tuple[int, int] = (1 << 62, 1 << 62)
    """The smallest numbers of outputs that were audited, and that were seen."""

    declared: bool = False


# ---- what the noise alone proves -------------------------------------------------------------------------
# Bounds for every output, played or not: whatever `decide` does with noisy answers cannot lose more than the
# noisy answers do.
#
# Claim: data processing; the noisy answers are independent, so their losses add. Proof:
# docs/proofs/exact-audit.md, "Everywhere".
# Floats: only outward rounding of the final bounds.


def _bound_all_ratios(laws: tuple[Noise, ...], moves: NDArray[Any], *, lifted: bool) -> Fraction | float:
    """Return a bound of the log ratio of all outputs when answers move by `moves` steps.

    It is inf where the noise alone proves nothing.

    Laplace noise of either sign pays for the move. One-sided noise pays only upward: if outputs do not change
    when all noisy answers are `lifted` together, the noise may rise by some common lift less the own move.
    """
    # The best lift is 0 or one of the moves: what is paid is linear between them.
    lifts = {0, *moves.tolist()} if lifted else {0}
    return min(_price_of_rises(laws, [lift - move for move in moves.tolist()]) for lift in lifts)


def _price_of_rises(laws: tuple[Noise, ...], rises: list[int]) -> Fraction | float:
    """Return what it costs that the noise rises by these steps (falls, where they are negative)."""
    total = Fraction(0)
    for law, rise in zip(laws, rises, strict=True):
        # Gaussian and finite noise bound no ratio, and one-sided noise none where it would have to fall.
        if rise and not (isinstance(law, DiscreteLaplace) or (isinstance(law, Geometric) and rise > 0)):
            return math.inf
        total += law.rate * abs(rise)
    return total


def _bound_all_divergences(laws: tuple[Noise, ...], moves: NDArray[Any], alpha: Fraction) -> float:
    """Return a bound of the Rényi divergence of order `alpha` of all outputs.

    It is inf unless what moves has Gaussian noise.

    For a law with probabilities proportional to e^(-b x^2) and its shift by m, completing the square gives
    alpha b m^2 plus ln(M(b, (1 - alpha) m) / M(b, 0)) / (alpha - 1), where M(b, s) is the sum of e^(-b (x -
    s)^2).
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
            log = log_bounds((below.divide(numerator, denominator), above.divide(numerator, denominator)))[1]
            # The sign of the logarithm decides which end of the factor makes the product larger.
            share = ratio_bounds(1 / (alpha - 1), DIGITS)
            square = above.add(square, above.multiply(share[1] if log > 0 else share[0], log))
        bound = above.add(bound, square)
    return up(bound)
