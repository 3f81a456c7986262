"""The Laplace and the Gaussian mechanism: numbers with discrete noise that is drawn exactly.

Claim: epsilon-differentially private for an L1 bound; rho-zCDP for an L2 bound [ghosh2012;
canonne2020, Thm 4]. Proof: docs/proofs/additive.md. Noise: discrete Laplace of rate epsilon/bound,
discrete Gaussian of rate rho/bound^2, a step. Floats: none after the answers are on the grid; the
released float is the whole number of steps times a power of two.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import POSITIVE, Number, to_fraction
from sordino.cost import RDP, ZCDP, Cost, Pure
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.grid import (
    RATE_DENOMINATOR,
    Steps,
    add,
    bound_in_steps,
    fit_rate,
    from_steps,
    step_for,
    to_steps,
)
from sordino.mechanisms.base import ANY_STATEMENT, STEP_MEANS, Draws, Mechanism, Rules, whole_vector
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.releases import Value, Values
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Norm, Sensitivity

# The largest grid that a Rényi curve takes; beyond it answers are clamped.
_MOST_STEPS = 1 << 52


class AddsNoise:
    """A mechanism that releases each answer plus a draw of `noise`, and nothing else."""

    adds_noise: ClassVar[bool] = True
    norm: ClassVar[Norm]
    """In which the statement bounds how far all answers of a list move together."""
    sensitivity: Sensitivity
    noise: DiscreteLaplace | DiscreteGaussian
    step: Fraction
    cost: Cost

    @scrubbed
    def release(self, answers: Any, *, entropy: Entropy = SYSTEM) -> Value | Values:
        """Release private `answers`, a number or an array of shape (n,), with fresh noise.

        No answer is refused, because that would tell what it is: NaN, -inf and what is no number
        become the lowest value, -2^52 steps, and +inf the largest, 2^52 steps. A reader sees a
        number there that no real answer has (around 4.5e15 times `step`), and knows that the answer
        was none or far too large: sort such answers out before, by a rule that looks at one person
        alone.

        Raises
        ------
        InvalidParameter
            If the shape is another one, or the statement does not cover n answers.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        rules = self.rules
        steps = rules.steps(answers)
        # To floats only after the noise was added in whole numbers.
        noisy = from_steps(rules.play(steps.reshape(-1), steps.size, entropy), self.step)
        # The same whatever the answers are: it tells nothing about them.
        error = math.sqrt(self.noise.variance) * float(self.step)
        common: dict[str, Any] = {
            "mechanism": self,
            "cost": self.cost,
            "simulated": entropy.simulated,
        }
        if steps.ndim == 0:
            return Value(value=float(noisy[0]), standard_error=error, **common)
        return Values(values=noisy, standard_error=error, **common)

    @property
    def rules(self) -> Rules:
        """How a release is made: noise is added to every answer."""
        owner = type(self).__name__

        def draws(n: int) -> Draws:
            # Several numbers are one release: the statement must bound how far they move together.
            whole_vector(self.sensitivity, self.norm, n, owner)
            # Independent noise on each number, so that the losses (or divergences) of the numbers
            # add up.
            return ((self.noise, n),)

        return Rules(
            draws=draws,
            steps=lambda answers: to_steps(answers, self.step, owner),
            decide=decide,
            added=True,
        )


@final
class LaplaceMechanism(AddsNoise, Mechanism):
    """Release a number, or a list of numbers together, with discrete Laplace noise.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> laplace = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING)
    >>> count = laplace.release(1000, entropy=sd.Seeded(7))
    >>> abs(count.value - 1000) < 20
    True
    """

    norm: ClassVar[Norm] = "l1"
    epsilon: Number = parameter(POSITIVE, "Budget of the whole release.")
    sensitivity: Sensitivity = parameter(
        ANY_STATEMENT, 'For a list: norm "l1" (`COUNTING.over(n)`); for one number: any norm.'
    )
    noise: DiscreteLaplace = derived("The law of the noise on each answer, in steps.")
    step: Fraction = derived(STEP_MEANS)
    cost: Pure | RDP = derived(
        "What a release spends: a pure epsilon, the bound times the rate, exactly, at most "
        "epsilon. If answers move by several steps it is `RDP(laplace=, laplace_steps=)`, which "
        "has the Rényi curve of the noise, too."
    )

    def derive(self) -> None:
        """Set the grid, the noise and the cost."""
        epsilon = to_fraction(self.epsilon)
        # The scale of the noise, in the unit of the answers; its square chooses how fine the grid
        # is.
        scale = to_fraction(self.sensitivity.bound) / epsilon
        step = step_for(self.sensitivity, scale**2, "LaplaceMechanism")
        bound = bound_in_steps(self.sensitivity, step, "LaplaceMechanism")
        # The rate may be rounded down; the cost below is that of the rounded rate.
        rate = fit_rate(epsilon / bound, "LaplaceMechanism")
        self._set(noise=DiscreteLaplace(rate), step=step, cost=cost_of_laplace(rate, bound))


@final
class GaussianMechanism(AddsNoise, Mechanism):
    """Release a number, or a list of numbers together, with discrete Gaussian noise.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.GaussianMechanism(rho=0.5, sensitivity=sd.COUNTING.over(3, "l2"))
    >>> counts = mechanism.release([5, 90, 7], entropy=sd.Seeded(7))
    >>> counts.values.shape
    (3,)
    """

    norm: ClassVar[Norm] = "l2"
    rho: Number = parameter(POSITIVE, "Budget of the whole release in zero-concentrated privacy.")
    sensitivity: Sensitivity = parameter(
        ANY_STATEMENT, 'For a list: norm "l2" (`COUNTING.over(n, "l2")`); for one number: any norm.'
    )
    noise: DiscreteGaussian = derived("The law of the noise on each answer, in steps.")
    step: Fraction = derived(STEP_MEANS)
    cost: ZCDP = derived(
        "What a release spends: the squared bound times the rate, exactly; at most rho."
    )

    def derive(self) -> None:
        """Set the grid, the noise and the cost."""
        rho = to_fraction(self.rho)
        # sigma^2 = bound^2/(2 rho), in squared units of the answers, before the rate is rounded.
        variance = to_fraction(self.sensitivity.bound) ** 2 / (2 * rho)
        step = step_for(self.sensitivity, variance, "GaussianMechanism")
        bound = bound_in_steps(self.sensitivity, step, "GaussianMechanism")
        # A rate a squared step may have a denominator as large as the square of the usual one.
        rate = fit_rate(rho / bound**2, "GaussianMechanism", RATE_DENOMINATOR**2)
        self._set(noise=DiscreteGaussian(rate), step=step, cost=ZCDP(rho=bound**2 * rate))


def cost_of_laplace(rate: Fraction, bound: Fraction) -> Pure | RDP:
    """Return the cost of discrete Laplace noise of a rate a step.

    `bound` is the L1 sensitivity in steps.
    """
    # With one step the noise is randomized response: a pure epsilon says it all. A bound between
    # two steps has no grid on which it is whole.
    if bound <= 1 or bound.denominator > 1 or bound > _MOST_STEPS:
        return Pure(epsilon=bound * rate)
    return RDP(laplace=bound * rate, laplace_steps=bound.numerator)


def decide(steps: NDArray[np.int64], noise: Steps) -> Steps:
    """Return answers plus noise in steps, shape (n,), or (N, n) for N rows of noise.

    The sums are released as they are, so nothing else is decided.
    """
    return add(steps, noise)


# Answers between two steps: a bound of a step and a half counts as two.
_ADDITIVE_OFF_GRID = Sensitivity(
    bound=Fraction(3, 2), monotone=False, adjacency="replace-one", step=1
)
CLAIMS = (
    ClaimsAbout("LaplaceMechanism", proof="additive.md")(
        "Discrete Laplace noise of rate epsilon/bound makes answers of L1 sensitivity bound "
        "epsilon-private.",
        ("ghosh2012", "dwork2014, Thm 3.6"),
        (LaplaceMechanism(epsilon=1, sensitivity=COUNTING), (0,), (1,)),
        (LaplaceMechanism(epsilon=2, sensitivity=COUNTING.over(2)), (0, 0), (1, 1)),
        (LaplaceMechanism(epsilon=3, sensitivity=EITHER_WAY.over(3)), (0, 0, 0), (1, -1, 1)),
        (LaplaceMechanism(epsilon=1, sensitivity=_ADDITIVE_OFF_GRID), (0.75,), (2.25,)),
        # A rate with too many digits is rounded down, and the cost is that of the rounded one.
        (LaplaceMechanism(epsilon=Fraction(10**15 + 1, 10**15), sensitivity=COUNTING), (0,), (1,)),
        tight=True,
    ),
    ClaimsAbout("GaussianMechanism", proof="additive.md")(
        "Discrete Gaussian noise of rate rho/bound^2 makes answers of L2 sensitivity bound "
        "rho-zCDP.",
        ("canonne2020, Thm 4",),
        (GaussianMechanism(rho=Fraction(1, 2), sensitivity=COUNTING), (0,), (1,)),
        (GaussianMechanism(rho=Fraction(1, 2), sensitivity=COUNTING.over(2, "l2")), (0, 0), (1, 1)),
        (
            GaussianMechanism(rho=Fraction(1, 2), sensitivity=EITHER_WAY.over(2, "l2")),
            (0, 0),
            (1, -1),
        ),
        (GaussianMechanism(rho=Fraction(1, 2), sensitivity=_ADDITIVE_OFF_GRID), (0.75,), (2.25,)),
        tight=True,
    ),
)
