"""Turns a mechanism into what the auditor looks at.

Most mechanisms are played by their own rules. The others stand in a table: no finite number of
draws decides what they release, so the law of a release is stated, or one try of it is played.
Noise in proportion to a smooth bound is a density, or a race whose scale differs between
neighbors.

Claim: none of its own. Rounding to a grid, and the range of the releases, come after the noise;
the scale of a selection is the one of `release`, but for its last float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sordino.constraints import shown, to_fraction
from sordino.errors import InvalidParameter
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedVariance,
    ClippedVariances,
    Quantile,
    QuantileInterval,
    Quantiles,
    SizedQuantile,
)
from sordino.mechanisms import (
    AboveThreshold,
    CompositeMechanism,
    CompositeTable,
    ExponentialMechanism,
    FoldedMechanism,
    GumbelSparseVector,
    JointTopK,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothMechanism,
    SmoothSelection,
    SmoothStepSelection,
)
from sordino.mechanisms.base import Rules
from sordino.mechanisms.smooth.clamped_bound import clamped_bound
from sordino.mechanisms.smooth.smooth_selection import scale_of
from sordino_audit.continuous.continuous import Asked, Compared, Continuous
from sordino_audit.continuous.density import Density, added
from sordino_audit.continuous.laws import Law
from sordino_audit.continuous.races import Race
from sordino_audit.enumeration.clipped import clipped, composite, folded
from sordino_audit.enumeration.searches import (
    above_threshold,
    quantile,
    quantile_interval,
    quantiles,
    sized_quantile,
)
from sordino_audit.enumeration.selection import (
    exponential_mechanism,
    gumbel_sparse_vector,
    joint_top_k,
    noisy_top_k,
    permute_and_flip,
    randomized_response,
    smooth_step_selection,
)
from sordino_audit.enumeration.subject import Subject, subject_by_rules

# ---- smooth race ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class _ScaledRace(Continuous):
    """A race that takes the scores, followed by their smooth bound."""

    mechanism: SmoothSelection

    def compared(self, a: Any, b: Any, asked: Asked) -> Compared:
        law = Law.cauchy(self.mechanism.noise.gamma, one_sided=self.mechanism.sided == "one")
        # A race takes a pair of scores and scale: the scale may differ between neighbors.
        return Race(noise=law, cost=self.cost, name=self.name).compared(
            self._placed(a), self._placed(b), asked
        )

    def _placed(self, numbers: Sequence[Any]) -> tuple[list[Any], Fraction]:
        if len(numbers) != self.mechanism.candidates + 1:
            raise InvalidParameter("audit.exact needs the same number of answers on both sides.")
        # The scale is computed by the function that a release calls.
        return list(numbers[:-1]), Fraction(scale_of(self.mechanism, numbers[-1]))


def smooth_selection(mechanism: SmoothSelection, n: int) -> Continuous:
    """Return the race; answers are the scores, followed by their smooth bound."""
    if n != mechanism.candidates + 1 or n == 2:
        raise InvalidParameter(
            f"audit.exact needs the {mechanism.candidates} scores of SmoothSelection, at least 2, "
            f"followed by their smooth bound; got {n} numbers."
        )
    return _ScaledRace(mechanism=mechanism, cost=mechanism.cost, name=repr(mechanism))


_WINDOW_REACH = 1 << 6
"""The window reaches so many ceilings/alpha to both sides."""


def smooth_mechanism(mechanism: SmoothMechanism, n: int) -> Continuous:
    """Return the density of the noise; answers are a number and its smooth bound."""
    if n != 2:
        raise InvalidParameter(
            f"audit.exact needs a pair on each side, a number and its smooth bound; got {n} "
            "numbers."
        )
    low, high = to_fraction(mechanism.floor), to_fraction(mechanism.ceiling)
    alpha = Fraction(mechanism.alpha)
    # The noise is widest where the bound is the ceiling: ceiling/alpha.
    window = -_WINDOW_REACH * high / alpha, _WINDOW_REACH * high / alpha
    # Noise for a bound of 1; each answer brings its own bound as the scale.
    plain = added(Law.cauchy(mechanism.noise.gamma, 1 / alpha), window, scaled=True)

    def kept(pair: Any) -> tuple[Any, Fraction]:
        # The bound is clamped by the function that a release calls.
        value, bound = pair
        return value, clamped_bound(bound, 1, low, high, "SmoothMechanism")

    seen: dict[str, Any] = {
        "log_density": lambda start, end, pair: plain["log_density"](start, end, kept(pair)),
        "breaks": lambda pair: plain["breaks"](kept(pair)),
        "tail": lambda a, b: plain["tail"](kept(a), kept(b)),
        "shape": plain["shape"],
    }
    return Density(window=window, cost=mechanism.cost, name=repr(mechanism), **seen)


# ---- table ---------------------------------------------------------------------------------------


Audited = Subject | Continuous

STATED: dict[type, Callable[[Any, int], Audited | None]] = {
    AboveThreshold: above_threshold,
    ClippedMean: clipped,
    ClippedMeans: clipped,
    ClippedVariance: clipped,
    ClippedVariances: clipped,
    ClippedSum: clipped,
    ClippedSums: clipped,
    CompositeMechanism: composite,
    CompositeTable: composite,
    ExponentialMechanism: exponential_mechanism,
    FoldedMechanism: folded,
    GumbelSparseVector: gumbel_sparse_vector,
    JointTopK: joint_top_k,
    NoisyTopK: noisy_top_k,
    PermuteAndFlip: permute_and_flip,
    Quantile: quantile,
    QuantileInterval: quantile_interval,
    Quantiles: quantiles,
    SizedQuantile: sized_quantile,
    RandomizedResponse: randomized_response,
    SmoothMechanism: smooth_mechanism,
    SmoothSelection: smooth_selection,
    SmoothStepSelection: smooth_step_selection,
}
"""What is not played by its rules; None from a function says that these parameters are."""


def subject_of(mechanism: Any, n: int) -> Audited:
    """Return the mechanism, for `n` answers, as the auditor sees it.

    A mechanism of yours has a method `audited(n)` for that.

    Raises
    ------
    InvalidParameter
        If the auditor knows nothing about it.
    """
    # A subject is what the auditor looks at already.
    if isinstance(mechanism, Subject | Continuous):
        return mechanism
    stated = STATED.get(type(mechanism))
    found = None if stated is None else stated(mechanism, n)
    # None from the table: with these parameters the mechanism is played by its rules.
    if found is not None:
        return found
    rules = getattr(mechanism, "rules", None)
    if isinstance(rules, Rules):
        return subject_by_rules(mechanism, rules, n)
    # Somebody else's mechanism says itself what is to be audited.
    made = mechanism.audited(n) if hasattr(mechanism, "audited") else None
    if isinstance(made, Subject | Continuous):
        return made
    raise InvalidParameter(
        "audit.exact needs a mechanism of this library, an audit.Subject, or an object whose "
        f"audited(n) returns one; got {shown(mechanism)}."
    )
