"""Finer values of answers that were released with Laplace noise, drawn given the noise that they have.

Claim: both releases together are as private as one with the finer noise: its rate times the bound.
Proof: docs/proofs/refining.md.
Noise: three geometric draws for each answer, one of twice the first rate and two of what is added to it.
Floats: none after the answers are on the grid; released values are whole numbers of steps again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import Claim
from sordino.constraints import POSITIVE, Number, shown, to_fraction
from sordino.cost import Added, Pure
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import Steps, bound_in_steps, fit_rate, from_steps, to_steps
from sordino.mechanisms.additive import LaplaceMechanism
from sordino.mechanisms.base import STEP_MEANS, Mechanism, whole_vector
from sordino.noise import DiscreteLaplace, Geometric
from sordino.releases import Value, Values
from sordino.remnants import no_remnants
from sordino.sensitivity import COUNTING, Sensitivity

# A released float below so many steps is the whole number that was drawn.
_EXACT_STEPS = 1 << 53


@dataclass(frozen=True, slots=True)
class _FirstCheck:
    """The check of what released the values that are refined."""

    says: str = "LaplaceMechanism or RefinedLaplace"

    def __call__(self, name: str, value: Any, /) -> LaplaceMechanism | RefinedLaplace:
        if not isinstance(value, LaplaceMechanism | RefinedLaplace):
            raise InvalidParameter(
                f"{name} must be the LaplaceMechanism or RefinedLaplace whose values are refined; got "
                f"{shown(value)}. After other noise measure again."
            )
        return value


@final
class RefinedLaplace(Mechanism):
    """Release finer values of answers that a Laplace mechanism has released.

    The finer noise is drawn given the noise of the first values: both releases together are as private as one
    with the finer noise (`total`), and the second one says all that both say. A measurement of its own, for
    what is added, would leave two values with more noise.

    It holds for the same answers only, and for the first use of the first values: whoever refines the same
    values twice, or other answers, has spent more. A session sees to both (`Session.refine`).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> noise = sd.Seeded(7)
    >>> first = sd.LaplaceMechanism(epsilon=0.25, sensitivity=sd.COUNTING)
    >>> rough = first.release(1000, entropy=noise)
    >>> finer = sd.RefinedLaplace(first=first, epsilon=0.75)
    >>> finer.release(1000, values=rough, entropy=noise).standard_error < rough.standard_error / 3
    True
    >>> finer.cost.pure(), finer.total.pure()
    (Fraction(3, 4), Fraction(1, 1))
    """

    adds_noise: ClassVar[bool] = True
    """Whether what is released is each answer plus a draw of `noise`, and nothing else."""

    first: LaplaceMechanism | RefinedLaplace = parameter(
        _FirstCheck(), "What has released the values; of several looks the last one."
    )
    epsilon: Number = parameter(POSITIVE, "What this release may add to what was spent before.")
    sensitivity: Sensitivity = derived("That of the first release.")
    noise: DiscreteLaplace = derived("The law of the noise on each finer value, in steps.")
    step: Fraction = derived(STEP_MEANS)
    cost: Added = derived(
        "What is added: the bound times what is added to the rate, exactly, at most epsilon; and what the "
        "release costs by itself."
    )
    total: Pure = derived("What all looks together spend: the bound times the finer rate, exactly.")

    def derive(self) -> None:
        """Set the finer rate, and what it costs."""
        first = self.first
        bound = bound_in_steps(first.sensitivity, first.step, "RefinedLaplace")
        # Of the difference, and not of the sum: the finer noise is drawn with a rate of that size.
        more = fit_rate(to_fraction(self.epsilon) / bound, "RefinedLaplace")
        rate = first.noise.rate + more
        self._set(
            sensitivity=first.sensitivity,
            noise=DiscreteLaplace(rate),
            step=first.step,
            # Given the first values, the ratio of the second ones may be that of both noises.
            cost=Added(epsilon=bound * more, alone=bound * (first.noise.rate + rate)),
            total=Pure(epsilon=bound * rate),
        )

    @property
    def laws(self) -> tuple[Geometric, Geometric, Geometric]:
        """What is drawn for each answer: what both halves of the noise share, and where each is cut."""
        shared, cut = Geometric(2 * self.first.noise.rate), Geometric(self.noise.rate - self.first.noise.rate)
        return shared, cut, cut

    @no_remnants
    def release(self, answers: Any, *, values: Value | Values, entropy: Entropy = SYSTEM) -> Value | Values:
        """Release finer values.

        Parameters
        ----------
        answers : number, or array of numbers, shape (n,)
            Private: the very answers that `values` were made of.
        values : Value or Values
            What `first` released. Each release is to be refined once.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Value or Values
            Of the same shape, with the finer noise.

        Raises
        ------
        InvalidParameter
            If `values` is no release of `first`, or has another shape than the answers, or the statement
            does not cover n answers.
        """
        fresh = fresh_entropy(entropy, "RefinedLaplace.release")
        seen = _read_seen(self, values)
        steps = to_steps(answers, self.step, "RefinedLaplace")
        # Both shapes are public.
        if steps.shape != seen.shape:
            raise InvalidParameter(
                f"RefinedLaplace.release needs the answers that the values were made of, of shape "
                f"{seen.shape}; got shape {steps.shape}."
            )
        whole_vector(self.sensitivity, "l1", steps.size, "RefinedLaplace")
        drawn = (law.sample(steps.size, fresh) for law in self.laws)
        noisy = from_steps(decide(steps.reshape(-1), seen.reshape(-1), *drawn), self.step)
        # The same whatever the answers are: it tells nothing about them.
        error = math.sqrt(self.noise.variance) * float(self.step)
        common: dict[str, Any] = {
            "mechanism": self,
            "cost": self.cost,
            "total": self.total,
            "simulated": fresh.simulated,
        }
        if steps.ndim == 0:
            return Value(value=float(noisy[0]), standard_error=error, **common)
        return Values(values=noisy, standard_error=error, **common)


def _read_seen(mechanism: RefinedLaplace, values: Any) -> NDArray[np.int64]:
    """Return the values of the first release in steps, shape () or (n,); refuse those of another one."""
    if not isinstance(values, Value | Values) or values.mechanism != mechanism.first:
        raise InvalidParameter("RefinedLaplace.release needs the values that RefinedLaplace.first released.")
    listed = values.value if isinstance(values, Value) else values.values
    # The step is a power of two, so nothing is rounded.
    steps = np.asarray(listed, dtype=np.float64) / float(mechanism.step)
    if not (np.abs(steps) < _EXACT_STEPS).all():
        raise InvalidParameter("RefinedLaplace.release needs values of less than 2^53 steps; measure again.")
    return cast("NDArray[np.int64]", steps.astype(np.int64))


def decide(steps: NDArray[np.int64], seen: Steps, shared: Steps, above: Steps, below: Steps) -> Steps:
    """Return answers plus the finer noise, in steps.

    Parameters
    ----------
    steps : array of int, shape (n,)
        The answers.
    seen : array of int, shape (n,) or (N, n)
        Answers plus the first noise.
    shared, above, below : array of int, shape (n,) or (N, n)
        The draws of `laws`, n for each of N releases.
    """
    first = seen - steps
    # The first noise as a difference of two geometric numbers. What they share nobody has seen.
    up, down = np.maximum(first, 0) + shared, np.maximum(-first, 0) + shared
    # The smaller one of two geometric numbers is geometric, and their rates add up.
    finer: Steps = steps + np.minimum(up, above) - np.minimum(down, below)
    return finer


_REFINED_FIRST = LaplaceMechanism(epsilon=1, sensitivity=COUNTING)
CLAIMS = (
    Claim(
        name="RefinedLaplace",
        statement=(
            "Finer values, drawn given the noise of the first ones, make all looks together as private as "
            "one with the finest noise."
        ),
        references=("ghosh2012", "koufogiannis2015"),
        proof="refining.md",
        neighbours=((RefinedLaplace(first=_REFINED_FIRST, epsilon=1), (0,), (1,)),),
        tight=True,
    ),
)
