"""The folded mechanism: unbiased releases within a declared range.

The noise has tails that are folded back.

Claim: epsilon-differentially private for answers whose L1 sensitivity is the bound; the mean of a
release is the answer, exactly, and its variance is below that of the noise for every answer between
the ends. Its excess over the range is the least possible where the bound is one step. Proof:
docs/proofs/folded.md. Noise: discrete Laplace of rate epsilon/bound a step, or a discrete staircase
of rate epsilon a bound; one uniform number rounds answers that need not be on the grid. Floats:
none before the release, a whole number of steps as a float, beyond the range moved by a public
float.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Literal, final

import numpy as np

from sordino.claims import ClaimsAbout
from sordino.constraints import FINITE, POSITIVE, Number, OrNone, shown, to_fraction
from sordino.cost import RDP, Pure
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import (
    CLAMP,
    Steps,
    add,
    bound_in_steps,
    convert_answers,
    fit_rate,
    from_steps,
    step_for,
    to_steps,
)
from sordino.mechanisms.additive import cost_of_laplace
from sordino.mechanisms.base import (
    ANY_STATEMENT,
    Draws,
    Mechanism,
    Rules,
    one_of_the_laws,
    whole_vector,
)
from sordino.mechanisms.bounded.random_rounding import between, largest_between, round_at_random
from sordino.noise import DiscreteLaplace, Staircase
from sordino.noise.probability import exp_bounds
from sordino.noise.staircase import best_flat
from sordino.releases import Value, Values
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

Family = DiscreteLaplace | Staircase
# Public constants are computed to so many digits before they become floats.
_MEAN_DIGITS = 40
_NEGLIGIBLE_RATE = 2000  # e^-2000 steps are no float, whatever the step


@final
class FoldedMechanism(Mechanism):
    """Release a number, or a list of numbers together, inside a declared range and without bias.

    The range of the releases exceeds that of the answers by a known amount on either side,
    `excess`. No unbiased private mechanism can do without: `least_excess` is what each needs. The
    variance is below that of `LaplaceMechanism` everywhere, most at the ends.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, `upper` is not above `lower`, the bound is
        larger than the range, the margin below what the noise needs, or the statement is about
        several answers and the noise a staircase.

    Examples
    --------
    >>> import sordino as sd
    >>> share = sd.FoldedMechanism(lower=0, upper=100, epsilon=1, sensitivity=sd.COUNTING)
    >>> [round(end, 3) for end in share.output_range], round(share.excess, 3)
    ([-0.582, 100.582], 0.582)
    >>> round(share.variance(at=0), 3), round(share.variance(at=50), 3)
    (1.168, 1.841)
    >>> round(share.release(3, entropy=sd.Seeded(7)).value, 3)
    -0.582
    """

    lower: Number = parameter(
        FINITE,
        "All answers lie above it, on your word, and it is public. Lower answers are moved to it "
        "by rule.",
    )
    upper: Number = parameter(
        FINITE,
        "All answers lie below it, on your word, and it is public. Higher answers are moved to it "
        "by rule.",
    )
    epsilon: Number = parameter(POSITIVE, "Budget of the whole release.")
    sensitivity: Sensitivity = parameter(
        ANY_STATEMENT,
        'Its bound is at most `upper - lower` an answer. For a list: norm "l1" '
        "(`COUNTING.over(n)`). With a step, answers are rounded down to it; without one they "
        "are rounded at random to a fine grid, so that no real answer has a bias.",
    )
    noise: Converted[Literal["laplace", "staircase"] | Family, Family] = parameter(
        one_of_the_laws("laplace", "staircase"),
        '"laplace" has the smaller excess. "staircase" is for one number, and has the '
        "smaller variance where the bound is many steps and epsilon above 1 or so: by 15% in "
        "the middle at epsilon 2. Kept as the law of the noise before it is folded, in steps.",
        default="laplace",
    )
    margin: Number | None = parameter(
        OrNone(POSITIVE),
        "How far releases may lie beyond the range, at most, in the unit of the answers. Too "
        "small a margin is refused. By default there is no limit.",
        default=None,
    )
    step: Fraction = derived("Width of the grid, in the unit of the answers.")
    cost: Pure | RDP = derived(
        "What a release spends: a pure epsilon, the rate of a move by the bound, exactly, at most "
        "epsilon. With Laplace noise and a bound of several steps it is `RDP(laplace=, "
        "laplace_steps=)`, which has the Rényi curve of the noise, too."
    )
    output_range: tuple[float, float] = derived(
        "The smallest and the largest release, in the unit of the answers."
    )
    excess: float = derived(
        "How far that is beyond the ends of the range, these moved outwards to the grid."
    )
    least_excess: float = derived(
        "What every unbiased mechanism needs whose answers move by the bound next to an end: "
        "bound/(e^epsilon - 1)."
    )

    def derive(self) -> None:
        """Check the range against the statement.

        Set the grid, the noise, the cost and the output range.
        """
        low, high = to_fraction(self.lower), to_fraction(self.upper)
        if high <= low:
            raise InvalidParameter(
                f"FoldedMechanism.upper must be above lower, {shown(low)}; got {shown(high)}."
            )
        budget, bound = to_fraction(self.epsilon), to_fraction(self.sensitivity.bound)
        answers = _count_of_answers(self.sensitivity)
        if answers is not None and bound > (high - low) * answers:
            raise InvalidParameter(
                "FoldedMechanism.sensitivity must have a bound of at most upper - lower, "
                f"{shown(high - low)}, an answer; got {shown(bound)}. No two answers are farther "
                "apart than the range is wide."
            )
        step = step_for(self.sensitivity, (bound / budget) ** 2, "FoldedMechanism")
        # One step below the clamp, because the ends are rounded outward to the grid.
        if max(abs(low), abs(high)) > (CLAMP - 1) * step:
            raise InvalidParameter(
                f"FoldedMechanism needs ends within 2^52 steps of {float(step):.3g}; got "
                f"{shown(low)} and {shown(high)}. Give Sensitivity(step=), a larger power of two."
            )
        law, spent = _fit_noise(
            str(self.noise), budget, bound_in_steps(self.sensitivity, step, "FoldedMechanism")
        )
        # A staircase for several answers is refused now, not at the first release.
        check_covered(
            law, self.sensitivity, 1 if isinstance(law, DiscreteLaplace) else answers or 1
        )
        # How far a folded answer may lie beyond an end, and then the constant that is added there.
        excess = step * (_period_of(law) - 1 + _mean_tail(law))
        outer_low, outer_high = math.floor(low / step) * step, math.ceil(high / step) * step
        # In a list each answer may move by the bound, or by the whole range where that is less.
        least = float(min(bound, high - low) * _mean_of_geometric(budget))
        self._check_margin(excess + max(low - outer_low, outer_high - high), least)
        self._set(
            noise=law,
            step=step,
            cost=spent,
            output_range=(float(outer_low - excess), float(outer_high + excess)),
            excess=float(excess),
            least_excess=least,
        )

    def _check_margin(self, beyond: Fraction, least: float) -> None:
        """Raise `InvalidParameter` if releases exceed the range by more than the margin allows."""
        if self.margin is None:
            return
        allowed = to_fraction(self.margin)
        # As floats, because the range of releases is published as floats, too.
        if float(min(allowed, beyond)) < float(beyond):
            raise InvalidParameter(
                f"FoldedMechanism.margin must be at least {float(beyond)!r}, by which this noise "
                f"exceeds the range; got {shown(allowed)}. Every unbiased private mechanism needs "
                f"bound/(e^epsilon - 1) = {least:.12g}; this one does with that where the bound is "
                "one step. Raise the margin or epsilon."
            )

    @property
    def ends(self) -> tuple[int, int]:
        """The ends of the range in steps: the lower one rounded down, the upper one rounded up."""
        low, high = to_fraction(self.lower), to_fraction(self.upper)
        return math.floor(low / self.step), math.ceil(high / self.step)

    @property
    def parameters(self) -> dict[str, float]:
        """The numbers of the noise: its rate in nats a step, of a staircase in nats a period.

        `step`, `excess` and `least_excess` are in the unit of the answers.
        """
        own = {"rate": float(self.noise.rate), "step": float(self.step)}
        return own | {"excess": self.excess, "least_excess": self.least_excess}

    def variance(self, *, at: Number) -> float:
        """Return the variance of a release whose answer is `at`, in squared units of the answers.

        It is a public formula. It includes that of rounding to the grid at random, where answers
        are rounded so.

        Raises
        ------
        InvalidParameter
            If `at` does not lie between `lower` and `upper`.
        """
        answer = FINITE("FoldedMechanism.variance.at", at)
        if not to_fraction(self.lower) <= answer <= to_fraction(self.upper):
            raise InvalidParameter(
                "FoldedMechanism.variance.at must lie between lower and upper; got "
                f"{shown(answer)}."
            )
        place = answer / self.step
        whole = math.floor(place)
        # With a step answers are rounded down to it, and the rest of a step says nothing.
        part = 0.0 if self.sensitivity.step is not None else float(place - whole)
        # Exactly on the grid, as at the upper end, nothing is rounded and no next step is needed.
        here, there = (
            _folded_variance(self.noise, whole + i, *self.ends) for i in (0, 1 if part else 0)
        )
        # One factor after the other: a square that no float can hold is infinite, and no error.
        return float(self.step) * (float(self.step) * between(here, there, part))

    @scrubbed
    def release(self, answers: Any, *, entropy: Entropy = SYSTEM) -> Value | Values:
        """Release private `answers`, a number or an array of shape (n,), with fresh noise.

        No answer is refused, because that would tell what it is: NaN, -inf and what is no number
        count as the lower end, +inf as the upper one. A reader sees a figure like any other: sort
        such answers out before, by a rule that looks at one person alone.

        Returns
        -------
        Value or Values
            With the largest standard error between the ends: the true one would tell where the
            answer lies.

        Raises
        ------
        InvalidParameter
            If the shape is another one, or the statement does not cover n answers.
        """
        fresh_entropy(entropy, "FoldedMechanism.release")
        array = convert_answers(answers, "FoldedMechanism")
        check_covered(self.noise, self.sensitivity, array.size)
        low, high = self.ends
        # A statement with a step says that answers are multiples of it: those are not rounded at
        # random.
        if self.sensitivity.step is None:
            steps = low + round_at_random(array, low * self.step, self.step, high - low, entropy)
        else:
            steps = to_steps(array, self.step, "FoldedMechanism")
        # Clamping moves no two answers apart, and folding is unbiased for answers between the ends
        # only.
        inside = np.clip(steps.reshape(-1), low, high)
        folded = self.rules.play(inside, inside.size, entropy)
        released = np.asarray(from_steps(folded, self.step), dtype=np.float64)
        # At the ends and beyond, the mean of what folding took away is put back: that removes the
        # bias. A period of different outputs on each side at most, so there are few rounds.
        for output in set(folded[(folded <= low) | (folded >= high)].tolist()):
            released[folded == output] = self._moved(output)
        common: dict[str, Any] = {
            "mechanism": self,
            "cost": self.cost,
            "simulated": entropy.simulated,
        }
        # The largest over the range: the one at the answer would tell where the answer lies.
        error = self._largest_deviation
        if steps.ndim == 0:
            return Value(value=float(released[0]), standard_error=error, **common)
        return Values(values=released, standard_error=error, **common)

    @property
    def rules(self) -> Rules:
        """How a release is made of answers on the grid.

        Noise is added, what lies beyond an end is folded.
        """
        low, high = self.ends

        def draws(n: int) -> Draws:
            check_covered(self.noise, self.sensitivity, n)
            return ((self.noise, n),)

        return Rules(
            draws=draws,
            steps=lambda answers: np.clip(
                to_steps(answers, self.step, "FoldedMechanism"), low, high
            ),
            decide=lambda steps, noise: decide(
                add(steps, noise), low, high, _period_of(self.noise)
            ),
            added=True,
        )

    def _moved(self, output: int) -> float:
        """Return what is released for a folded answer at an end or beyond.

        A public constant farther out.
        """
        mean = _mean_tail(self.noise)
        return float(self.step * (output - mean if output <= self.ends[0] else output + mean))

    @cached_property
    def _largest_deviation(self) -> float:
        """The largest standard deviation.

        It is in the middle of the range, or between two steps there.
        """
        low, high = self.ends
        # The variance is concave and symmetric in the answer: "Variance" on the proof page.
        here, there = (
            _folded_variance(self.noise, low + (high - low) // 2 + i, low, high) for i in (0, 1)
        )
        # The square of a step may be more, or less, than a float can hold.
        return float(self.step) * math.sqrt(
            largest_between(here, there) if self.sensitivity.step is None else here
        )


def decide(noisy: Steps, low: int, high: int, period: int) -> Steps:
    """Return noisy answers in steps, shape (n,) or (N, n), folded at the ends.

    Those beyond an end are moved towards it by whole periods; with period 1 that is to the end
    itself. What is released for such answers lies farther out, by the mean of the geometric number
    of periods that was taken away.
    """
    # Whole periods are taken away, so what is left is the place within a period.
    below = low - (low - noisy) % period
    above = high + (noisy - high) % period
    folded: Steps = np.where(noisy <= low, below, np.where(noisy >= high, above, noisy))
    return folded


def check_covered(law: Family, sensitivity: Sensitivity, n: int) -> None:
    """Raise `InvalidParameter` unless `n` answers may be released together."""
    if isinstance(law, Staircase) and n > 1:
        raise InvalidParameter(
            f"FoldedMechanism.noise must be 'laplace' for {n} answers: each that moves at all "
            "would cost a staircase a whole period; got 'staircase'."
        )
    whole_vector(sensitivity, "l1", n, "FoldedMechanism")


def _count_of_answers(sensitivity: Sensitivity) -> int | None:
    """Return how many answers the statement is about; None if it is about as many as there are."""
    if sensitivity.norm == "each" or (sensitivity.size is None and sensitivity.step is None):
        return 1
    return sensitivity.size


def _fit_noise(name: str, budget: Fraction, bound: Fraction) -> tuple[Family, Pure | RDP]:
    """Return the law of the noise for a bound in steps, and what a move by the bound costs."""
    if name == "laplace":
        rate = fit_rate(budget / bound, "FoldedMechanism")
        return DiscreteLaplace(rate), cost_of_laplace(rate, bound)
    # The bound is at most one period, and the staircase falls by one rate in each: a move costs one
    # rate.
    rate, period = fit_rate(budget, "FoldedMechanism", stepped=False), math.ceil(bound)
    return Staircase(rate, period, best_flat(rate, period)), Pure(epsilon=rate)


def _period_of(law: Family) -> int:
    """Return after how many steps the law falls by one factor."""
    return law.period if isinstance(law, Staircase) else 1


def _mean_tail(law: Family) -> Fraction:
    """Return the mean of what is taken away from an answer beyond an end, in steps."""
    return _period_of(law) * _mean_of_geometric(law.rate)


@lru_cache(maxsize=256)
def _mean_of_geometric(rate: Fraction) -> Fraction:
    """Return q/(1 - q), q = e^-rate, to 40 digits: how far a geometric tail reaches on average."""
    if rate > _NEGLIGIBLE_RATE:
        return Fraction(0)
    # So many digits 1 - q loses where q is close to 1.
    lost = math.ceil(max(0.0, -math.log10(rate)))
    q = Fraction(exp_bounds(rate, _MEAN_DIGITS + lost)[0])
    return q / (1 - q)


def _folded_variance(law: Family, x: int, low: int, high: int) -> float:
    """Return the variance of a folded release whose answer is `x`, in steps squared.

    All in steps.
    """
    # The probability of being folded. There the variance of the geometric number of periods is
    # taken away.
    folded = float(law.sf(x - low - 1)) + float(law.sf(high - x - 1))
    return (
        law.variance
        - folded * _period_of(law) ** 2 * math.exp(-law.rate) / math.expm1(-law.rate) ** 2
    )


# More than one step, so that a staircase is not the same as Laplace noise.
_FOLDED_TWO_STEPS = Sensitivity(bound=2, monotone=False, adjacency="replace-one", step=1)
_claim = ClaimsAbout("FoldedMechanism", proof="folded.md")
CLAIMS = (
    _claim(
        "Folded discrete Laplace noise makes answers of L1 sensitivity bound epsilon-private, a "
        "folded staircase one answer.",
        ("ghosh2012", "zhang2024"),
        (FoldedMechanism(lower=0, upper=4, epsilon=1, sensitivity=COUNTING), (4,), (3,)),
        (FoldedMechanism(lower=-1, upper=1, epsilon=2, sensitivity=_FOLDED_TWO_STEPS), (-1,), (1,)),
        (
            FoldedMechanism(lower=0, upper=3, epsilon=2, sensitivity=COUNTING.over(2)),
            (0, 0),
            (1, 1),
        ),
        (
            FoldedMechanism(
                lower=-1, upper=4, epsilon=1, sensitivity=_FOLDED_TWO_STEPS, noise="staircase"
            ),
            (-1,),
            (1,),
        ),
        tight=True,
    ),
)
