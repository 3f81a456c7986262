"""Selection with noise in proportion to a smooth bound of the local sensitivity.

Claim: epsilon-differentially private if the bound is at least the local sensitivity of every score
and beta-smooth [yamamoto2024, Thms 2 and 3, corrected and tightened]. Proof:
docs/proofs/smooth-selection.md. Noise: generalized Cauchy of power gamma, times bound/alpha:
magnitudes (one-sided) or signed. Floats: scores, bound and noise are floats; the claim is about
ideal arithmetic (`exact` is False). Only a position is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, Number, one_of, shown, to_fraction
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms.base import Mechanism
from sordino.mechanisms.smooth.clamped_bound import checked_limits, clamped_bound, floats_of
from sordino.noise.generalized_cauchy import GAMMA, GeneralizedCauchy
from sordino.releases import Choice
from sordino.scrubbing import scrubbed

INFLATED = 1 + 2.0**-40
"""Bounds are raised by this factor before they scale noise: by more than all roundings on the
way."""
_SCORE_CLAMP = 2.0**52
_LARGEST_BUDGET = Fraction(1 << 1000)
"""A budget beyond buys no less noise, a beta beyond leaves nothing of any budget."""
_MOST_CANDIDATES = 1 << 53


@final
class SmoothSelection(Mechanism):
    """Select the largest of m private scores, with noise that follows a smooth bound.

    The bound S of how far scores move is private, too. It is at least the local sensitivity of
    every score, and at most e^beta times the bound of any neighboring data set. Where data are far
    from their worst case, it is far below the global sensitivity, and so is the noise. The noise
    has a heavy tail, because a scale that differs between neighbors shows in lighter ones.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta leaves nothing of epsilon for the
        noise.

    Notes
    -----
    Neighbors are data sets of as many units of which one is replaced, as in all of `sd.smooth`; a
    ledger for another adjacency refuses the mechanism. Nothing that depends on the bound may be
    shown: no standard error, no gap. The scale of each score must be the same: a scale for each
    score is not private with any accounting of this kind (see the proof page), so of several bounds
    the largest counts.

    Examples
    --------
    >>> import sordino as sd
    >>> best = sd.SmoothSelection(epsilon=1, beta=0.05, candidates=3, ceiling=8, floor=0.01)
    >>> best.release([120.0, 7.5, 95.0], smooth_bound=0.4, entropy=sd.Seeded(7)).index
    0
    >>> best.cost, best.exact, round(best.alpha, 4)
    (Pure(epsilon=1), False, 0.2264)
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the selection.")
    beta: Number = parameter(
        NOT_NEGATIVE,
        "How smooth the bound is, in nats a record. 0 only where floor = ceiling: a bound that is "
        "the same for all data sets.",
    )
    candidates: int = parameter(
        COUNT, "Number of scores, at most 2^53: public, because noise depends on it."
    )
    ceiling: Number = parameter(
        POSITIVE,
        "Public: larger bounds are lowered to it, in the unit of the scores. It must be at "
        "least the global sensitivity, or nothing is private; 2^500 at most.",
    )
    floor: Number = parameter(
        POSITIVE, "Public: smaller bounds are raised to it; at most the ceiling, 2^-500 at least."
    )
    gamma: Number = parameter(
        GAMMA,
        "Power of the noise, from 1.1 to 100. The larger, the lighter the tail and the more beta "
        "costs.",
        default=4.0,
    )
    sided: Sided = parameter(
        one_of("one", "two"),
        '"one": magnitudes of the noise, better in all cases. "two": signed noise.',
        default="one",
    )
    accounting: Accounting = parameter(
        one_of("tight", "published"),
        '"tight": the least loss that is proved here. "published": that of the paper, for '
        "comparison; its noise is larger. Two-sided noise has one accounting.",
        default="tight",
    )
    alpha: float = derived("The noise is multiplied by S/alpha, the unit of the scores.")
    noise: GeneralizedCauchy = derived("Its law, of scale 1.")
    cost: Pure = derived("What a release spends: epsilon.")
    exact: ClassVar[bool] = False
    adjacency: ClassVar[str] = "replace-one"

    def derive(self) -> None:
        """Set the scale of the noise and the cost."""
        budget, smooth, count = to_fraction(self.epsilon), to_fraction(self.beta), self.candidates
        if count > _MOST_CANDIDATES:
            raise InvalidParameter(
                f"SmoothSelection.candidates must be at most 2^53; got {shown(count)}."
            )
        low, high = checked_limits(self.floor, self.ceiling, "SmoothSelection", "scores")
        law = GeneralizedCauchy(to_fraction(self.gamma))
        if smooth == 0 and low < high:
            raise InvalidParameter(
                "SmoothSelection.beta must be above 0 unless floor = ceiling: with beta 0 the "
                f"bound must be the same for all data sets; got {shown(self.beta)}. Give the beta "
                "of your bound, or floor = ceiling, the constant."
            )
        steep = _selection_steepness(smooth, low, high, self.accounting)
        # Lowered a little, because the budget is rounded to a float.
        most = float(min(budget, _LARGEST_BUDGET)) * (1 - 2.0**-50)
        alpha = largest_selection_alpha(most, steep, count, law, self.sided, self.accounting)
        if alpha <= 0:
            least = scale_loss(steep, count, law, self.sided, self.accounting)
            raise InvalidParameter(
                "SmoothSelection.beta must leave a part of epsilon for the scores; got "
                f"{shown(self.beta)}, of which the noise of {count} candidates with gamma "
                f"{shown(law.gamma)} loses {least:.6g} of epsilon {shown(budget)}. Lower beta, or "
                "raise epsilon."
            )
        self._set(alpha=alpha, noise=law, cost=Pure(epsilon=budget))

    @scrubbed
    def release(self, scores: Any, *, smooth_bound: Any, entropy: Entropy = SYSTEM) -> Choice:
        """Select, with fresh noise.

        Parameters
        ----------
        scores : array of numbers, shape (candidates,)
            Private. They are clamped to 2^52 ceilings from 0; NaN counts as the lowest value.
        smooth_bound : number, or array of numbers, shape (candidates,)
            Private, in the unit of the scores; the largest counts. It is clamped to [floor,
            ceiling]; NaN and what is no number count as the ceiling.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Choice
            Without a gap. Among equals the smaller position wins: a public priority.

        Raises
        ------
        InvalidParameter
            If the scores are not `candidates` numbers, or the bound is neither one number nor as
            many.
        """
        fresh_entropy(entropy, "SmoothSelection.release")
        end = _SCORE_CLAMP * float(to_fraction(self.ceiling))
        values = np.clip(floats_of(scores, self.candidates, "SmoothSelection"), -end, end)
        scale = scale_of(self, smooth_bound)
        # Of the differences to the largest score: an addend that all scores share then costs no
        # digits.
        draw = self.noise.sample if self.sided == "one" else self.noise.sample_signed
        with np.errstate(over="ignore"):
            scaled = (values - values.max()) / scale
        index = decide(scaled, draw(self.candidates, entropy))
        return Choice(
            index=index, mechanism=self, cost=self.cost, simulated=entropy.simulated, exact=False
        )


def scale_of(mechanism: SmoothSelection, smooth_bound: Any) -> float:
    """Return what the noise is multiplied by: private."""
    low, high = to_fraction(mechanism.floor), to_fraction(mechanism.ceiling)
    return (
        float(clamped_bound(smooth_bound, mechanism.candidates, low, high, "SmoothSelection"))
        * INFLATED
        / mechanism.alpha
    )


def decide(scaled: NDArray[np.float64], noise: NDArray[np.float64]) -> int:
    """Return the position of the largest noisy score, the smaller one among equals."""
    return int((scaled + noise).argmax())


def _selection_steepness(
    beta: Fraction, low: Fraction, high: Fraction, accounting: Accounting
) -> float:
    """Return the logarithm of the largest ratio of the scales of neighbors, rounded up.

    A clamped bound never differs by more than the factor ceiling/floor. 2^-40 of a nat pays for the
    roundings of whoever computed the bound.
    """
    steep = float(min(beta, _LARGEST_BUDGET)) + 2.0**-40 if beta else 0.0
    if accounting == "published":
        return steep
    return min(steep, math.log(high / low) + 2.0**-40) if low < high else 0.0


# ---- what a selection costs ----------------------------------------------------------------------
# What selection with noise in proportion to a smooth bound loses at most, and the noise that a
# budget buys.
#
# Claim: `bound_selection_loss` is at least the loss of the largest of m scores, each plus S/alpha
# times generalized Cauchy noise, S beta-smooth. Proof: docs/proofs/smooth-selection.md
# [yamamoto2024, corrected]. Noise: none. Floats: suprema are enclosed cell by cell with what the
# hazard's shape says of slopes, so that a grid decides nothing; each log of a survival function is
# assumed to err by less than 1e-12, and every bound is raised by more than that.


Sided = Literal["one", "two"]
Accounting = Literal["tight", "published"]
Floats = NDArray[np.float64]

_LOG_ERROR = 1e-12
_BOUND_GAP = 1e-7
"""How far above a supremum its bound may lie, and a quarter of what may be left of a budget, as a
share."""
_LARGEST_LOSS = 100.0
"""Budgets beyond that buy no less noise: survival functions would leave the floats."""
_SMALLEST_LOSS = 1e-4
"""Losses below are bounded well enough by the largest hazard, and (g - 1) beta."""
_FIRST_NODE = 1e-6
_CELL_WIDTH = 0.25
_CELL_PARTS = 16
_CUT_ROUNDS = 8
_ELASTICITY_CELLS = 4096


def sup_loss(law: GeneralizedCauchy, beta: float, shift: float) -> tuple[float, float]:
    """Return an upper bound of sup over z >= 0 of ln Q(z)/Q(e^beta z + shift), and its slope.

    The slope is by the shift, and approximate. With y = e^beta z + shift and p(z) = z r(z), which
    rises (r the hazard), the derivative by x = ln z is (1 - shift/y) p(y) - p(z): over a cell it
    lies between what the ends say. From `_end_of_search` on it is negative, and below the first
    node both survival functions fall.
    """
    # Simple and never too small: the scale costs at most (g - 1) beta, the shift itself times the
    # largest hazard.
    plain = float(law.gamma - 1) * beta + max(0.0, shift) * law.hazard_bound
    if shift <= 0 or plain < _SMALLEST_LOSS:
        return plain * (1 + _LOG_ERROR), law.hazard_bound
    far = _end_of_search(law, beta, shift)
    nodes = np.append(np.arange(math.log(_FIRST_NODE), math.log(far), _CELL_WIDTH), math.log(far))
    at = _Nodes.of(law, beta, shift, np.exp(nodes))
    start = _Nodes.of(law, beta, shift, np.zeros(1))
    best = max(start.best(), at.best())
    # Below the first node the numerator is at most 1, and the denominator at least its value at the
    # node.
    most = max(best[0], float(at.loss[0] - at.own[0]))
    left, right = at.take(slice(None, -1)), at.take(slice(1, None))
    for _ in range(_CUT_ROUNDS):
        above = _cell_bounds(left, right)
        # Only cells that may hold a value well above the best one found are cut further.
        open_ = above > best[0] * (1 + _BOUND_GAP) + 2 * _LOG_ERROR
        # The others count with their bound.
        most = max(most, float(above[~open_].max(initial=0.0)))
        if not open_.any():
            break
        ends = np.exp(np.linspace(left.x[open_], right.x[open_], _CELL_PARTS + 1))
        at = _Nodes.of(law, beta, shift, ends)
        best = max(best, at.best())
        left, right = at.take(slice(None, -1)), at.take(slice(1, None))
    else:
        # After the last round the cells that are still open count with their bounds, too.
        most = max(most, float(_cell_bounds(left, right).max()))
    return min(most + _LOG_ERROR, plain * (1 + _LOG_ERROR)), best[1]


def _end_of_search(law: GeneralizedCauchy, beta: float, shift: float) -> float:
    """Return a place from which on the ratio falls.

    There e^beta z^(1 - g) + shift z^-g <= shift, by p(z) >= (g - 1)(1 - z^-g).
    """
    g = float(law.gamma)
    return 2 * max(2.0, float((2 * math.exp(beta) / shift) ** (1 / (g - 1))))


@dataclass(frozen=True)
class _Nodes:
    """Places with the log ratio there, and the two rising parts of its derivative by x = ln z.

    The derivative is the difference of these parts.
    """

    x: Floats
    loss: Floats
    own: Floats
    rises: Floats
    falls: Floats
    slope: Floats

    @classmethod
    def of(cls, law: GeneralizedCauchy, beta: float, shift: float, z: Floats) -> _Nodes:
        """Return the nodes at the places `z`."""
        y = math.exp(beta) * z + shift
        both = np.stack([z, y])
        survival, hazard = law.tail(both)
        with np.errstate(divide="ignore"):
            logs, x = np.log(survival), np.log(z)
        return cls(
            x, logs[0] - logs[1], logs[0], math.exp(beta) * z * hazard[1], z * hazard[0], hazard[1]
        )

    def take(self, which: slice) -> _Nodes:
        """Return some of them."""
        return _Nodes(
            *(
                part[which]
                for part in (self.x, self.loss, self.own, self.rises, self.falls, self.slope)
            )
        )

    def best(self) -> tuple[float, float]:
        """Return the largest log ratio, and how fast it rises with the shift."""
        where = int(self.loss.argmax())
        return float(self.loss.flat[where]), float(self.slope.flat[where])


def _cell_bounds(left: _Nodes, right: _Nodes) -> Floats:
    """Return upper bounds of the log ratio over cells.

    Through the ends of a cell go two lines that are as steep as the parts allow: they meet above
    all values.
    """
    width = right.x - left.x
    up = np.maximum(right.rises - left.falls, 0.0) + _LOG_ERROR
    down = np.maximum(right.falls - left.rises, 0.0) + _LOG_ERROR
    meets = np.clip((right.loss - left.loss + down * width) / (up + down), 0.0, width)
    above: Floats = np.maximum(np.maximum(left.loss, right.loss), left.loss + up * meets)
    return above


def kappa(law: GeneralizedCauchy, shift: float) -> float:
    """Return an upper bound of sup over z >= 0 of ln Q(z)/Q(z + shift).

    It is what it costs a winner to stand `shift` lower.
    """
    return sup_loss(law, 0.0, shift)[0]


def k1(alpha: float, beta: float, law: GeneralizedCauchy) -> float:
    """Return an upper bound of sup over z >= 0 of ln Q(z)/Q(e^beta z + 2 alpha).

    It bounds the loss where the scale of the neighbor is smaller.
    """
    return sup_loss(law, beta, 2 * alpha)[0]


def k2(alpha: float, beta: float, candidates: int, law: GeneralizedCauchy) -> float:
    """Return an upper bound of the loss where the scale of the neighbor is larger.

    It is larger by a factor of 1/s, with s from e^-beta to 1. The bound is the largest value over s
    of kappa(2 alpha s) + min(D_m ln(1/s), ln m), which is convex in ln s up to where ln m is
    reached, and only falls beyond: one of the two ends has it.
    """
    factor, losers = dilation(beta, candidates, law)
    return max(kappa(law, 2 * alpha), kappa(law, 2 * alpha * factor) + losers)


def dilation(beta: float, candidates: int, law: GeneralizedCauchy) -> tuple[float, float]:
    """Return the smallest factor s that `k2` needs to look at, and what the losers cost there.

    Both are rounded up a little.
    """
    most = d_m(candidates, law) * beta
    all_of_them = math.log(candidates)
    # The losers never cost more than ln m: a factor that reaches that is small enough.
    if most <= all_of_them:
        return math.exp(-beta) * (1 + _LOG_ERROR), most * (1 + _LOG_ERROR)
    return math.exp(-all_of_them / d_m(candidates, law)) * (1 + _LOG_ERROR), all_of_them * (
        1 + _LOG_ERROR
    )


def d_m(candidates: int, law: GeneralizedCauchy) -> float:
    """Return D_m, a bound of how fast the chance of winning falls if all scores change by a factor.

    It is per unit of the logarithm of that factor.
    """
    if candidates == 1:
        return 0.0
    g = float(law.gamma)
    # The line without a constant part, by (e) of the proof page.
    chord = math.log(candidates) / -math.log1p(-1 / g)
    # Each of the three is a bound, so the least of them is one.
    return min(
        (candidates - 1) * mean_elasticity(law), chord, _least_line_bound(candidates, law)
    ) * (1 + _LOG_ERROR)


def _least_line_bound(candidates: int, law: GeneralizedCauchy) -> float:
    """Return the least (m - 1) a + b ln m of the lines a + b Lambda tried, Lambda = -ln F.

    Any line that is nowhere below psi is right. psi and Lambda both fall, so over a cell psi is at
    most what it is at the left end, Lambda at least what it is at the right one.
    """
    psi, logs = _elasticities(law)

    def height(slope: float) -> float:
        return (candidates - 1) * float((psi - slope * logs).max()) + slope * math.log(candidates)

    low, high = 1e-3, 8.0 * float(law.gamma)
    # The height is convex in the slope.
    for _ in range(40):
        one, two = (low * (high / low) ** part for part in (0.4, 0.6))
        low, high = (low, two) if height(one) < height(two) else (one, high)
    return height(low) * (1 + 1e-10)


@lru_cache(maxsize=64)
def mean_elasticity(law: GeneralizedCauchy) -> float:
    """Return an upper bound of E psi(Z), psi(z) = z f(z)/F(z), less than 1e-3 above it.

    psi falls, so over a cell it is at most its value at the left end.
    """
    psi, logs = _elasticities(law)
    below = np.concatenate([[0.0], np.exp(-logs)])
    return float((psi * np.diff(below)).sum()) * (1 + 1e-10)


@lru_cache(maxsize=64)
def _elasticities(law: GeneralizedCauchy) -> tuple[Floats, Floats]:
    """Return for each cell from 0 to infinity psi at its left end and -ln F at its right end.

    At the left end psi is largest, at the right end -ln F is smallest.
    """
    # The ends of the cells, from near 0 to far out in the tail.
    u = np.arange(1, _ELASTICITY_CELLS) / _ELASTICITY_CELLS
    z = u * (1 - u) ** (-1 / (float(law.gamma) - 1))
    below = law.cdf(z)
    psi = np.minimum(z * law.pdf(z) / below, 1.0)
    return np.append(1.0, psi), np.append(-np.log(below), 0.0)


def bound_selection_loss(
    alpha: float,
    beta: float,
    candidates: int,
    law: GeneralizedCauchy,
    sided: Sided = "one",
    accounting: Accounting = "tight",
) -> float:
    """Return an upper bound of the loss of a selection among m scores, in nats.

    Parameters
    ----------
    alpha : float
        Noise is multiplied by S/alpha, > 0.
    beta : float
        S is beta-smooth, >= 0.
    candidates : int
        m, at least 1. One candidate is accounted for like two.
    law : GeneralizedCauchy
        The law of the noise.
    sided : str
        "one" for magnitudes, "two" for signed noise.
    accounting : str
        "tight" or "published". Two-sided noise has one accounting only.
    """
    # One candidate is released whatever happens, and is accounted for like two.
    m = max(2, candidates)
    if accounting == "tight" and sided == "one" and law.gamma >= 2:
        factor, losers = dilation(beta, m, law)
        # The other end of `k2`, kappa(2 alpha), is at most `k1`.
        return max(k1(alpha, beta, law), kappa(law, 2 * alpha * factor) + losers)
    fixed = dilations(beta, m, law, sided, accounting)
    if accounting == "tight" and sided == "one":
        return kappa(law, 2 * alpha) + fixed
    return 2 * alpha * law.slope * (1 + _LOG_ERROR) + fixed


def dilations(
    beta: float, candidates: int, law: GeneralizedCauchy, sided: Sided, accounting: Accounting
) -> float:
    """Return what a change of scale costs in accountings that pay for it and for the scores apart.

    It is rounded up.
    """
    m, g = max(2, candidates), float(law.gamma)
    if sided == "two":
        return m * max(1.0, g - 1) * beta * (1 + _LOG_ERROR)
    if accounting == "published":
        return (m - 1) * max(1.0, g - 1) * beta * (1 + _LOG_ERROR)
    return max(m - 1, g - 1) * beta * (1 + _LOG_ERROR)


def scale_loss(
    beta: float, candidates: int, law: GeneralizedCauchy, sided: Sided, accounting: Accounting
) -> float:
    """Return what is lost for the scale alone, however large the noise."""
    m = max(2, candidates)
    if accounting == "tight" and sided == "one" and law.gamma >= 2:
        return max(float(law.gamma - 1) * beta, dilation(beta, m, law)[1])
    return dilations(beta, m, law, sided, accounting)


@lru_cache(maxsize=256)
def largest_selection_alpha(
    epsilon: float,
    beta: float,
    candidates: int,
    law: GeneralizedCauchy,
    sided: Sided,
    accounting: Accounting,
) -> float:
    """Return an alpha whose selection loses at most epsilon.

    It is less than a millionth below the largest such. It is 0 if beta leaves nothing.
    """
    m = max(2, candidates)
    epsilon *= 1 - _LOG_ERROR
    if accounting == "tight" and sided == "one" and law.gamma >= 2:
        factor, losers = dilation(beta, m, law)
        shifts = (
            largest_shift(law, beta, epsilon),
            largest_shift(law, 0.0, epsilon - losers) / factor,
        )
        return min(shifts) / 2 * (1 - _LOG_ERROR)
    # What the change of the scale leaves for the scores.
    left = epsilon - dilations(beta, m, law, sided, accounting)
    if left <= 0:
        return 0.0
    if accounting == "tight" and sided == "one":
        return largest_shift(law, 0.0, left) / 2 * (1 - _LOG_ERROR)
    return left / (2 * law.slope) * (1 - 2 * _LOG_ERROR)


def largest_shift(law: GeneralizedCauchy, beta: float, budget: float) -> float:
    """Return a shift whose `sup_loss` is at most the budget.

    It is less than a millionth below the largest such, and found by Newton's steps and secants.
    """
    budget = min(budget, _LARGEST_LOSS, _LARGEST_LOSS * float(law.gamma - 1)) * (1 - _LOG_ERROR)
    # This shift is safe, and `low` is replaced only by shifts whose enclosed loss is within the
    # budget.
    low = (budget - float(law.gamma - 1) * beta) / law.hazard_bound * (1 - 1e-9)
    if low <= 0:
        return 0.0
    (found, slope), high, over = sup_loss(law, beta, low), math.inf, math.inf
    for _ in range(60):
        if budget - found <= 4 * _BOUND_GAP * budget + 2 * _LOG_ERROR or high - low <= 1e-9 * low:
            break
        tried = low + (budget - found) / slope
        # A step beyond a shift that is known to be too large is replaced by a secant, kept in
        # between.
        if tried >= high:
            tried = low + (high - low) * min(0.9, max(0.1, (budget - found) / (over - found)))
        loss, rise = sup_loss(law, beta, tried)
        if loss <= budget:
            low, found, slope = tried, loss, rise
        else:
            high, over = tried, loss
    return low


_TWO_CANDIDATES: dict[str, Any] = {"epsilon": 1, "candidates": 2, "ceiling": 8, "floor": 0.125}
_claim = ClaimsAbout("SmoothSelection", proof="smooth-selection.md")
CLAIMS = (
    _claim(
        "The index is epsilon-differentially private where scores move by at most a beta-smooth "
        "bound (one-sided noise).",
        ("yamamoto2024, Thm 3",),
        (SmoothSelection(beta=0.1, **_TWO_CANDIDATES), (5, 0, 1), (4, 1, 1.10517)),
    ),
    _claim(
        "The same holds with signed noise.",
        ("yamamoto2024, Thm 2",),
        (
            SmoothSelection(beta=0.05, **_TWO_CANDIDATES, sided="two"),
            (0, 12, 1),
            (-0.95, 12.95, 0.9513),
        ),
    ),
)
