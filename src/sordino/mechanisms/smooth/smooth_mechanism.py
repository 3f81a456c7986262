"""One number with noise in proportion to a smooth bound of the local sensitivity.

Claim: epsilon-differentially private if the bound is at least the local sensitivity and
beta-smooth; for Cauchy noise the loss is attained [nissim2007, tightened]. Proof:
docs/proofs/smooth-mechanism.md. Noise: Cauchy, or of density proportional to 1/(1 + z^4), times
bound/alpha. Floats: value, bound and noise are floats; the claim is about ideal arithmetic (`exact`
is False). Released are multiples of a public power of two.
"""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from typing import Any, ClassVar, Literal, final

import numpy as np

from sordino.claims import ClaimsAbout
from sordino.constraints import NOT_NEGATIVE, POSITIVE, Number, one_of, shown, to_fraction
from sordino.cost import Pure
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import HeavyTailWarning, InvalidParameter
from sordino.grid import CLAMP, choose_grid_step, convert_answers
from sordino.mechanisms.base import Mechanism
from sordino.mechanisms.smooth.clamped_bound import (
    MOST_BOUND,
    checked_limits,
    clamped_bound,
    floats_of,
)
from sordino.mechanisms.smooth.scaled_noise import largest_alpha, power_loss
from sordino.noise import GeneralizedCauchy
from sordino.releases import SmoothValue
from sordino.scrubbing import scrubbed

_LAW_POWERS = {"cauchy": Fraction(2), "quartic": Fraction(4)}
# In nats: larger budgets buy no less noise, and no two scales are farther apart.
_MOST_NATS = Fraction(1000)
_INFLATION = 1 + 2.0**-40
"""Bounds are raised by this factor before they scale noise: by more than all roundings on the
way."""
_BETA_ALLOWANCE = 2.0**-40
"""What is added to beta, for the roundings of whoever computed the bound."""


@final
class SmoothMechanism(Mechanism):
    """Release a number with noise that follows a smooth bound of how far one unit moves it.

    The bound S is private, too. It is at least the largest change of the number between the data
    and a neighbor, and at most e^beta times the bound of any neighbor; `sd.smooth` makes such
    bounds. Where data are far from their worst case, S is far below the global sensitivity, and so
    is the noise.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta leaves nothing of epsilon for the
        noise.

    Warns
    -----
    HeavyTailWarning
        Where the noise has no variance (law="cauchy"). ``warnings.simplefilter("ignore",
        sd.HeavyTailWarning)`` silences it.

    Notes
    -----
    Nothing that depends on the bound may be shown: a release has no standard error. Neighbors are
    data sets of as many units of which one is replaced, as in all of `sd.smooth`; a ledger for
    another adjacency refuses the mechanism.

    Examples
    --------
    >>> import sordino as sd
    >>> ages = [21, 23, 24, 30, 31, 33, 34, 36, 41, 55, 62] * 20
    >>> bound = sd.smooth.quantile(ages, q=0.5, lower=0, upper=120, beta=0.2)
    >>> median = sd.SmoothMechanism(epsilon=1, beta=0.2, ceiling=120, floor=0.01, law="quartic")
    >>> value = sd.smooth.quantile_statistic(ages, q=0.5, lower=0, upper=120)
    >>> round(median.release(value, smooth_bound=bound, entropy=sd.Seeded(7)).value, 1)
    32.4
    >>> median.cost, median.exact, round(median.alpha, 4)
    (Pure(epsilon=1), False, 0.2592)
    """

    epsilon: Number = parameter(POSITIVE, "Budget of the release.")
    beta: Number = parameter(
        NOT_NEGATIVE,
        "How smooth the bound is, in nats a unit: below epsilon for Cauchy noise, below "
        "epsilon/3 for the quartic law. 0 only where floor = ceiling: a bound that is the same "
        "for all data. With Cauchy noise anything up to ln(2 cosh(epsilon) - 1) costs nothing.",
    )
    ceiling: Number = parameter(
        POSITIVE,
        "Public: larger bounds are lowered to it, in the unit of the number. It must be at "
        "least the global sensitivity, or nothing is private; 2^500 at most.",
    )
    floor: Number = parameter(
        POSITIVE,
        "Public: smaller bounds are raised to it; at most the ceiling, 2^-500 at least. The "
        "grid of the releases is about a millionth of it (of floor/alpha, where that is more), "
        "and their range reaches at least 2^31 times as far on both sides of 0.",
    )
    law: Literal["cauchy", "quartic"] = parameter(
        one_of("cauchy", "quartic"),
        '"cauchy" takes the smoother bounds and less noise in the middle, but has neither '
        "mean nor "
        'variance: a few releases in a hundred are far off. "quartic", with density '
        "proportional to 1/(1 + z^4), has a standard deviation of S/alpha.",
        default="cauchy",
    )
    alpha: float = derived("The noise is multiplied by S/alpha.")
    noise: GeneralizedCauchy = derived("Its law, of scale 1.")
    step: Fraction = derived(
        "Releases are multiples of this power of two, in the unit of the number."
    )
    output_range: tuple[float, float] = derived(
        "The smallest and the largest release: numbers beyond are moved to them, before and after "
        "the noise."
    )
    cost: Pure = derived("What a release spends: epsilon.")
    exact: ClassVar[bool] = False
    adjacency: ClassVar[str] = "replace-one"

    def derive(self) -> None:
        """Set the scale of the noise, the grid and the cost."""
        budget, smooth = to_fraction(self.epsilon), to_fraction(self.beta)
        low, high = checked_limits(self.floor, self.ceiling, "SmoothMechanism", "number")
        power = _LAW_POWERS[self.law]
        if smooth == 0 and low < high:
            raise InvalidParameter(
                "SmoothMechanism.beta must be above 0 unless floor = ceiling: with beta 0 the "
                f"bound must be the same for all data; got {shown(self.beta)}. Give the beta of "
                "your bound, or floor = ceiling, the constant."
            )
        steep = steepness(smooth, low, high)
        # Lowered a little, because the budget is rounded to a float.
        alpha = largest_alpha(float(min(budget, _MOST_NATS)) * (1 - 2.0**-50), steep, float(power))
        if alpha <= 0:
            raise InvalidParameter(
                "SmoothMechanism.beta must leave a part of epsilon for the number; got "
                f"{shown(self.beta)}, of which {self.law} noise loses "
                f"{power_loss(steep, float(power)):.6g} of epsilon {shown(budget)}. Lower beta, or "
                "raise epsilon."
            )
        # The largest scale of the noise, which has to be a float.
        if high / Fraction(alpha) > MOST_BOUND**2:
            raise InvalidParameter(
                "SmoothMechanism needs a ceiling/alpha of at most 2^1000. Raise epsilon, or change "
                "the unit."
            )
        # From public numbers alone: the grid must not tell the private bound.
        step = choose_grid_step((low * max(Fraction(1), 1 / Fraction(alpha))) ** 2)
        if power <= 3:
            warnings.warn(
                "Cauchy noise has neither mean nor variance: a few releases in a hundred are far "
                "off, and averages of releases do not settle. law='quartic' has both; ignore "
                "sordino.HeavyTailWarning to silence this.",
                HeavyTailWarning,
                # The caller of the constructor, which calls the check of a declared object, which
                # calls this.
                stacklevel=4,
            )
        # A whole number of steps up to here is a float, exactly.
        end = float(CLAMP * step)
        self._set(
            alpha=alpha,
            noise=GeneralizedCauchy(power),
            step=step,
            output_range=(-end, end),
            cost=Pure(epsilon=budget),
        )

    @scrubbed
    def release(self, value: Any, *, smooth_bound: Any, entropy: Entropy = SYSTEM) -> SmoothValue:
        """Release a private number, with fresh noise.

        Parameters
        ----------
        value : number
            Private. It is moved into `output_range`; NaN, and what is no number, counts as the
            lowest value.
        smooth_bound : number
            Private, in the unit of the number. It is moved into [floor, ceiling]; NaN, and what is
            no number, counts as the ceiling.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        SmoothValue
            Without a standard error, which would tell the bound.

        Raises
        ------
        InvalidParameter
            If the value or the bound is a list (their shape is public).
        """
        fresh_entropy(entropy, "SmoothMechanism.release")
        if convert_answers(value, "SmoothMechanism").ndim:
            raise InvalidParameter(
                "SmoothMechanism.release needs a single number; got a list. Each number needs a "
                "release of its own."
            )
        low, high = to_fraction(self.floor), to_fraction(self.ceiling)
        scale = (
            float(clamped_bound(smooth_bound, 1, low, high, "SmoothMechanism"))
            * _INFLATION
            / self.alpha
        )
        # Clamping moves no two values apart.
        [inside] = np.clip(floats_of(value, 1, "SmoothMechanism"), *self.output_range)
        with np.errstate(over="ignore"):
            noisy = float(inside + scale * self.noise.sample_signed(1, entropy)[0])
        released = decide(noisy, float(self.step), self.output_range)
        # No standard error, which would tell the private bound.
        return SmoothValue(
            value=released, mechanism=self, cost=self.cost, simulated=entropy.simulated, exact=False
        )


def decide(noisy: float, step: float, ends: tuple[float, float]) -> float:
    """Return the multiple of the step that is nearest to a noisy number, between the ends."""
    inside = min(max(noisy, ends[0]), ends[1])
    # The step is a power of two: nothing but the rounding to a whole number changes the value.
    return round(inside / step) * step


def steepness(beta: Fraction, low: Fraction, high: Fraction) -> float:
    """Return the logarithm of the largest ratio of the scales of neighbors, rounded up.

    A clamped bound never differs by more than the factor high/low.
    """
    if low == high:
        return 0.0
    ratio = high / low
    return (
        min(float(min(beta, _MOST_NATS)), math.log(ratio.numerator) - math.log(ratio.denominator))
        + _BETA_ALLOWANCE
    )


def _build_example(beta: float, law: Literal["cauchy", "quartic"]) -> SmoothMechanism:
    """Return a mechanism for the claims below, without the warning about heavy tails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeavyTailWarning)
        return SmoothMechanism(epsilon=1, beta=beta, ceiling=8, floor=Fraction(1, 8), law=law)


_claim = ClaimsAbout("SmoothMechanism", proof="smooth-mechanism.md")
CLAIMS = (
    _claim(
        "A number with Cauchy noise in proportion to a beta-smooth bound of its local sensitivity "
        "is epsilon-private.",
        ("nissim2007", "yamamoto2024, Thm 1"),
        (
            _build_example(0.5, "cauchy"),
            (0, 1),
            (1, 1),
        ),  # noise for the shift, which the scale leaves alone
        (_build_example(0.9, "cauchy"), (0, 1), (-1, math.exp(0.9))),  # both change
        tight=True,
    ),
    _claim(
        "The same holds with noise of density proportional to 1/(1 + z^4).",
        ("nissim2007", "yamamoto2024, Thm 1"),
        (_build_example(0.2, "quartic"), (0, 1), (1, math.exp(0.2))),
        tight=True,
    ),
)
