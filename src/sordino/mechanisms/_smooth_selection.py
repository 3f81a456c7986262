"""Selection with noise in proportion to a smooth bound of the local sensitivity.

Claim: epsilon-differentially private if the bound is at least the local sensitivity of every score and beta-smooth [yamamoto2024, Thms 2
and 3, corrected and tightened].
Proof: docs/proofs/smooth-selection.md.
Noise: generalized Cauchy of power gamma, times bound/alpha: magnitudes (one-sided) or signed.
Floats: scores, bound and noise are floats; the claim is about ideal arithmetic (`exact` is False). Only a position is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import Claim
from sordino.constraints import COUNT, NOT_NEGATIVE, POSITIVE, Number, one_of, shown
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms._clamped_bound import clamped_bound
from sordino.mechanisms._private_floats import floats_of
from sordino.mechanisms._smooth_accounting import Accounting, Sided, largest_alpha, scale_loss
from sordino.mechanisms._statements import set_fields
from sordino.noise import GeneralizedCauchy
from sordino.noise._generalized_cauchy import GAMMA
from sordino.releases import Choice, parameters, pictured
from sordino.remnants import no_remnants

SIDED = one_of("one", "two")
ACCOUNTING = one_of("tight", "published")
INFLATED = 1 + 2.0**-40
"""Bounds are raised by this factor before they scale noise: more than all roundings on the way change them."""
_LIMITS = Fraction(1, 1 << 500), Fraction(1 << 500)
_CLAMP = 2.0**52
_HUGE = Fraction(1 << 1000)
"""A budget beyond buys no less noise, a beta beyond leaves nothing of any budget."""
_MOST_CANDIDATES = 1 << 53


@final
@dataclass(frozen=True, init=False, repr=False)
class SmoothSelection:
    """Select the largest of m private scores, with noise that follows a smooth bound of how far they move on data like these.

    The bound S is private, too: a number with S >= the local sensitivity of every score, and S <= e^beta times that of any neighbouring
    data set. Where data are far from their worst case, it is far below the global sensitivity, and the noise with it. The
    noise has a heavy tail, because a scale that differs between neighbours shows in lighter ones.

    Parameters
    ----------
    epsilon : number
        Budget of the selection, in (0, inf).
    beta : number
        How smooth the bound is, >= 0, in nats a record. 0 only where floor = ceiling: a bound that is the same for all data sets.
    candidates : int
        Number of scores, from 1 to 2^53: public, because noise depends on it.
    ceiling : number
        Public: larger bounds are lowered to it, in the unit of the scores. It must be at least the global sensitivity, or nothing is
        private; 2^500 at most.
    floor : number
        Public: smaller bounds are raised to it, in (0, ceiling], 2^-500 at least.
    gamma : number
        Power of the noise, from 1.1 to 100. The larger, the lighter the tail and the more beta costs.
    sided : str
        "one": magnitudes of the noise, better in all cases. "two": signed noise.
    accounting : str
        "tight": the least loss that is proved here. "published": that of the paper, for comparison; its noise is larger. Two-sided noise
        has one accounting.

    Attributes
    ----------
    alpha : float
        The noise is multiplied by S/alpha, the unit of the scores.
    noise : GeneralizedCauchy
        Its law, of scale 1.
    cost : Pure
        What a release spends: epsilon.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta leaves nothing of epsilon for the noise.

    Notes
    -----
    Neighbours are data sets of as many units of which one is replaced, as in all of `sd.smooth`; a ledger for another adjacency refuses the
    mechanism. Nothing that depends on the bound may be shown: no standard error, no gap. The scale of each score must be the same: a scale
    for each score is not private with any accounting of this kind (see the proof page), so of several bounds the largest counts.

    Examples
    --------
    >>> import sordino as sd
    >>> best = sd.SmoothSelection(epsilon=1, beta=0.05, candidates=3, ceiling=8, floor=0.01)
    >>> best.release([120.0, 7.5, 95.0], smooth_bound=0.4, entropy=sd.Seeded(7)).index
    0
    >>> best.cost, best.exact, round(best.alpha, 4)
    (Pure(epsilon=1), False, 0.2264)
    """

    epsilon: Number
    beta: Number
    candidates: int
    ceiling: Number
    floor: Number
    gamma: Number
    sided: Sided
    accounting: Accounting
    alpha: float = field(init=False)
    noise: GeneralizedCauchy = field(init=False)
    cost: Pure = field(init=False)
    exact: ClassVar[bool] = False
    adjacency: ClassVar[str] = "replace-one"

    def __init__(
        self,
        *,
        epsilon: Number,
        beta: Number,
        candidates: int,
        ceiling: Number,
        floor: Number,
        gamma: Number = 4.0,
        sided: Sided = "one",
        accounting: Accounting = "tight",
    ) -> None:
        budget = POSITIVE("SmoothSelection.epsilon", epsilon)
        smooth = NOT_NEGATIVE("SmoothSelection.beta", beta)
        count = COUNT("SmoothSelection.candidates", candidates)
        if count > _MOST_CANDIDATES:
            raise InvalidParameter(f"SmoothSelection.candidates must be at most 2^53; got {shown(count)}.")
        low, high = checked_limits(floor, ceiling, "SmoothSelection")
        law = GeneralizedCauchy(GAMMA("SmoothSelection.gamma", gamma))
        SIDED("SmoothSelection.sided", sided)
        ACCOUNTING("SmoothSelection.accounting", accounting)
        if smooth == 0 and low < high:
            raise InvalidParameter(
                "SmoothSelection.beta must be above 0 unless floor = ceiling: with beta 0 the bound must be the same for all data sets; "
                f"got {shown(beta)}. Give the beta of your bound, or floor = ceiling, the constant."
            )
        steep = steepness(smooth, low, high, accounting)
        alpha = largest_alpha(float(min(budget, _HUGE)) * (1 - 2.0**-50), steep, count, law, sided, accounting)
        if alpha <= 0:
            least = scale_loss(steep, count, law, sided, accounting)
            raise InvalidParameter(
                f"SmoothSelection.beta must leave a part of epsilon for the scores; got {shown(beta)}, of which the noise of {count} "
                f"candidates with gamma {shown(law.gamma)} loses {least:.6g} of epsilon {shown(budget)}. Lower beta, or raise epsilon."
            )
        given = {"epsilon": epsilon, "beta": beta, "candidates": count, "ceiling": ceiling, "floor": floor, "gamma": gamma}
        made = {"sided": sided, "accounting": accounting, "alpha": alpha, "noise": law, "cost": Pure(epsilon=budget)}
        set_fields(self, **given, **made)

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @no_remnants
    def release(self, scores: Any, *, smooth_bound: Any, entropy: Entropy = SYSTEM) -> Choice:
        """Select, with fresh noise.

        Parameters
        ----------
        scores : array of numbers, shape (candidates,)
            Private. They are clamped to 2^52 ceilings from 0; NaN counts as the lowest value.
        smooth_bound : number, or array of numbers, shape (candidates,)
            Private, in the unit of the scores; the largest counts. It is clamped to [floor, ceiling]; NaN and what is no number count as
            the ceiling.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Choice
            Without a gap. Among equals the smaller position wins: a public priority.

        Raises
        ------
        InvalidParameter
            If the scores are not `candidates` numbers, or the bound is neither one number nor as many.
        """
        fresh_entropy(entropy, "SmoothSelection.release")
        end = _CLAMP * float(POSITIVE("ceiling", self.ceiling))
        values = np.clip(floats_of(scores, self.candidates, "SmoothSelection"), -end, end)
        scale = scale_of(self, smooth_bound)
        draw = self.noise.sample if self.sided == "one" else self.noise.sample_signed
        with np.errstate(over="ignore"):
            scaled = (values - values.max()) / scale
        index = decide(scaled, draw(self.candidates, entropy))
        return Choice(index=index, mechanism=self, cost=self.cost, simulated=entropy.simulated, exact=False)


def scale_of(mechanism: SmoothSelection, smooth_bound: Any) -> float:
    """Return what the noise is multiplied by: private."""
    low, high = POSITIVE("floor", mechanism.floor), POSITIVE("ceiling", mechanism.ceiling)
    return float(clamped_bound(smooth_bound, mechanism.candidates, low, high, "SmoothSelection")) * INFLATED / mechanism.alpha


def decide(scaled: NDArray[np.float64], noise: NDArray[np.float64]) -> int:
    """Return the position of the largest noisy score, the smaller one among equals."""
    return int((scaled + noise).argmax())


def checked_limits(floor: Any, ceiling: Any, owner: str) -> tuple[Fraction, Fraction]:
    """Return floor and ceiling of a private bound, or raise `InvalidParameter`."""
    low, high = POSITIVE(f"{owner}.floor", floor), POSITIVE(f"{owner}.ceiling", ceiling)
    if low > high:
        raise InvalidParameter(f"{owner}.ceiling must be at least the floor {shown(low)}; got {shown(high)}.")
    if low < _LIMITS[0] or high > _LIMITS[1]:
        raise InvalidParameter(
            f"{owner}.floor and ceiling must lie between 2^-500 and 2^500; got {shown(low)} and {shown(high)}. Change the unit of the "
            "scores."
        )
    return low, high


def steepness(beta: Fraction, low: Fraction, high: Fraction, accounting: Accounting) -> float:
    """Return the logarithm of the largest ratio of the scales of neighbours, rounded up.

    A clamped bound never differs by more than the factor ceiling/floor. 2^-40 of a nat pays for the roundings of whoever computed the
    bound.
    """
    steep = float(min(beta, _HUGE)) + 2.0**-40 if beta else 0.0
    if accounting == "published":
        return steep
    return min(steep, math.log(high / low) + 2.0**-40) if low < high else 0.0


_PAIR: dict[str, Any] = {"epsilon": 1, "candidates": 2, "ceiling": 8, "floor": 0.125}
CLAIMS = (
    Claim(
        name="SmoothSelection",
        statement="The index is epsilon-differentially private where scores move by at most a beta-smooth bound (one-sided noise).",
        references=("yamamoto2024, Thm 3",),
        proof="smooth-selection.md",
        neighbours=((SmoothSelection(beta=0.1, **_PAIR), (5, 0, 1), (4, 1, 1.10517)),),
    ),
    Claim(
        name="SmoothSelection",
        statement="The same holds with signed noise.",
        references=("yamamoto2024, Thm 2",),
        proof="smooth-selection.md",
        neighbours=((SmoothSelection(beta=0.05, **_PAIR, sided="two"), (0, 12, 1), (-0.95, 12.95, 0.9513)),),
    ),
)
