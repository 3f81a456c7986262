"""The public numbers of a sparse vector: thresholds on the grid, and what each branch costs.

Thresholds, corrections included, are whole numbers of steps, rounded up before any answer is
compared with them.

Claim: none about privacy: rates, prices, boundaries and thresholds are public numbers, which may
depend on earlier outputs. The proofs are those of the mechanisms. Floats: in the default
boundaries, from public parameters; a float as a threshold means its shortest decimal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from sordino.constraints import COUNT, FINITE, POSITIVE, Constraint, Number, exact, shown
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP, bound_in_steps, fit_rate, step_for
from sordino.mechanisms.base import one_of_the_laws
from sordino.mechanisms.crossings.split import Family
from sordino.noise import DiscreteLaplace, Geometric
from sordino.sensitivity import Sensitivity

On = TypeVar("On")


class Cut(NamedTuple):
    """A threshold on the grid, and how far that lies above the threshold itself.

    The one is in steps, the other in the unit of the answers.
    """

    steps: int
    above: Fraction

    def gap(self, lift: int, step: Fraction) -> float:
        """Return how far an answer `lift` steps above the cut lies above the threshold itself.

        It is a quotient of integers: exact, rounded once.
        """
        # A common denominator first, so that only the division rounds.
        top = (
            lift * step.numerator * self.above.denominator + self.above.numerator * step.denominator
        )
        return top / (step.denominator * self.above.denominator)

    def value(self, lift: int, step: Fraction) -> float:
        """Return where an answer `lift` steps above the cut lies: exact, rounded once."""
        return (lift + self.steps) * step.numerator / step.denominator


def cut_at(name: str, threshold: Any, correction: Fraction, step: Fraction) -> Cut:
    """Return the smallest whole number of steps that is at least threshold and correction together.

    Raises
    ------
    InvalidParameter
        If the threshold is no finite number or lies, with the correction, beyond 2^52 steps, where
        answers are clamped.
    """
    plain = FINITE(name, threshold)
    # Rounded up, while answers are rounded down: an answer below the threshold stays below on the
    # grid.
    steps = -(-(plain + correction) // step)
    if abs(steps) > CLAMP:
        raise InvalidParameter(
            f"{name} must lie within 2^52 steps of {float(step):g}, correction included; got "
            f"{shown(plain)}."
        )
    return Cut(int(steps), steps * step - plain)


def cuts_at(name: str, thresholds: Any, n: int, cut: Callable[[Any], On]) -> list[On]:
    """Return a list of n thresholds as `cut` puts them on the grid.

    Each different one is converted once.

    Raises
    ------
    InvalidParameter
        If they are not a list of n numbers.
    """
    listed = isinstance(thresholds, list | tuple | range) or (
        hasattr(thresholds, "__array__") and np.ndim(thresholds) == 1
    )
    if not listed or len(thresholds) != n:
        raise InvalidParameter(f"{name} must be a list of {n} numbers, one for each answer.")
    # NumPy's narrow floats have a shortest decimal of their own, which `tolist` would lose: they
    # are converted one by one.
    plain = isinstance(thresholds, np.ndarray) and thresholds.dtype in {
        np.dtype(np.int64),
        np.dtype(np.float64),
    }
    known: dict[tuple[type, float], On] = {}
    cuts: list[On] = []
    for value in thresholds.tolist() if plain else thresholds:
        if type(value) not in {int, float}:
            cuts.append(cut(value))
            continue
        # By type as well, because 1 and 1.0 are one key. NaN is never found here, so `cut` sees and
        # refuses it.
        if (type(value), value) not in known:
            known[type(value), value] = cut(value)
        cuts.append(known[type(value), value])
    return cuts


Noise = Geometric | DiscreteLaplace
LAWS: dict[str, type[Geometric | DiscreteLaplace]] = {
    "exponential": Geometric,
    "laplace": DiscreteLaplace,
}
_MOST_BRANCHES = 32  # branches; a branch has at most 2^32 tokens


def law_parameter(
    meaning: str = "Noise of the questions and of the threshold: one-sided (smaller, the default) "
    "or two-sided.",
) -> Any:
    """Declare the parameter that names a law of noise; one-sided noise is the default."""
    return parameter(one_of_the_laws(*LAWS), meaning, default="exponential")


def family_of(noise: Any) -> Family:
    """Return the name of a family of laws.

    Before `derive` a field holds the name, after it the law.
    """
    family: Family = getattr(noise, "name", noise)
    return family


def _convert_branches(value: Any) -> tuple[int, ...] | None:
    """Return the tokens of each branch, or None if the value does not name any.

    They are 1, 2, 4, ... for a number of branches, else as they are given, if they rise.
    """
    if isinstance(value, list | tuple):
        # Rising prices: the branches that can be paid for are then always the first ones.
        listed = tuple(COUNT.convert(each) for each in value)
        rising = listed and None not in listed and all(a < b for a, b in pairwise(listed))
        return (
            listed
            if rising and listed[-1] <= 1 << _MOST_BRANCHES and len(listed) <= _MOST_BRANCHES
            else None
        )
    count = COUNT.convert(value)
    # Each branch costs half as much as the next.
    return (
        tuple(1 << j for j in range(count))
        if count is not None and count <= _MOST_BRANCHES
        else None
    )


BRANCHES = Constraint(
    f"a whole number from 1 to {_MOST_BRANCHES}, or rising whole numbers of tokens up to "
    f"2^{_MOST_BRANCHES}, one for each branch",
    _convert_branches,
    (1, 2, 5, (1, 3)),
    (0, -1, 1.5, True, None, 33, (), (2, 1), (1, 1), (0, 1), ("1",)),
)


class Branching(Protocol):
    """The public numbers and laws of a mechanism that tests answers in branches, cheapest first."""

    @property
    def threshold(self) -> Number:
        """The public threshold, in the unit of the answers."""
        ...

    @property
    def branch_corrections(self) -> tuple[Fraction, ...]:
        """What each branch adds to it."""
        ...

    @property
    def tokens(self) -> int:
        """How many tokens its positives may cost together."""
        ...

    @property
    def branch_tokens(self) -> tuple[int, ...]:
        """How many tokens a positive of each branch costs, rising."""
        ...

    @property
    def branch_noise(self) -> tuple[Noise, ...]:
        """The noise of the tests of each branch."""
        ...

    @property
    def threshold_noise(self) -> Noise:
        """The noise of thresholds."""
        ...

    @property
    def passes(self) -> int:
        """How often a list is asked."""
        ...

    @property
    def domain_size(self) -> int | None:
        """How many items a public domain has, most of them 0."""
        ...

    @property
    def resample(self) -> bool:
        """Whether each positive is followed by a new threshold."""
        ...

    @property
    def step(self) -> Fraction:
        """Width of the grid."""
        ...

    @property
    def exact(self) -> bool:
        """Whether what is sampled is what is proved."""
        ...

    def spent(self, tokens: int, thresholds: int = 1) -> Pure:
        """Return the cost of a transcript."""
        ...


class Division(NamedTuple):
    """How finely, and with how much noise, a sparse vector compares."""

    step: Fraction
    moves: Fraction
    """The bound, in steps."""
    threshold_rate: Fraction
    token_rate: Fraction
    """Rate of the noise of a question whose positive costs one token."""

    def one_branch(self, query: Family, limit: Family, kappa: int) -> dict[str, Any]:
        """Return what follows for a mechanism with one branch, by the names of its fields."""
        # What the rates that are sampled cost, exactly, not what was asked for.
        return {
            "noise": LAWS[query](self.token_rate),
            "threshold_noise": LAWS[limit](self.threshold_rate),
            "step": self.step,
            "threshold_epsilon": self.moves * self.threshold_rate,
            "positive_epsilon": kappa * self.moves * self.token_rate,
        }


def divide_budget(
    owner: str,
    sensitivity: Sensitivity,
    budget: Fraction,
    share: Fraction,
    positives: int,
    *,
    tokens: int = 1,
    stages: int = 1,
) -> Division:
    """Divide a budget between thresholds and positives.

    A share is for so many thresholds, the rest for so many positives of so many tokens each.

    Both rates are rounded down, that of the threshold first, so that together they never cost more
    than the budget.

    Raises
    ------
    InvalidParameter
        If there is no grid, or no noise, for such a budget.
    """
    # Answers that move both ways have twice the spread, and the questions pay for it.
    bound, kappa = (
        POSITIVE("Sensitivity.bound", sensitivity.bound),
        1 if sensitivity.monotone else 2,
    )
    scale = min(
        bound * stages / (budget * share), kappa * bound * positives / (budget * (1 - share))
    )
    # The smaller of the scales of threshold and questions chooses the grid: fine enough for both.
    step = step_for(sensitivity, scale**2, owner)
    moves = bound_in_steps(sensitivity, step, owner)
    limit = fit_rate(budget * share / (stages * moves), owner)
    # What the rounded rate of the threshold does not spend goes to the questions.
    left = budget - stages * moves * limit
    return Division(
        step, moves, limit, fit_rate(left / (positives * tokens * kappa * moves), owner)
    )


def cuts_of(mechanism: Branching, threshold: Any, what: str = "threshold") -> tuple[Cut, ...]:
    """Return a public threshold on the grid, once for each branch.

    Raises
    ------
    InvalidParameter
        If it is no finite number or lies, with a correction, beyond 2^52 steps, where answers are
        clamped.
    """
    name = f"{type(mechanism).__name__}.{what}"
    return tuple(
        cut_at(name, threshold, correction, mechanism.step)
        for correction in mechanism.branch_corrections
    )


def centers(mechanism: Branching) -> list[float]:
    """Return the mean of the noise of a gap for each branch, in the unit of the answers."""
    return [
        (law.mean - mechanism.threshold_noise.mean) * float(mechanism.step)
        for law in mechanism.branch_noise
    ]


def far(law: Noise, last: Noise) -> int:
    """Return the boundary of a branch in steps: two standard deviations of its noise.

    The difference between its mean and that of the last branch is added. The paper centers its
    noise instead; so a branch is no likelier to fire by mistake than it is there. The boundary is a
    public number either way.
    """
    return 0 if law == last else math.ceil(2 * math.sqrt(law.variance) + law.mean - last.mean)


def checked_boundaries(name: str, boundaries: Any, n: int) -> tuple[Fraction, ...]:
    """Return the boundaries exactly, if they are n finite numbers that do not rise."""
    listed = [exact(value) for value in boundaries] if isinstance(boundaries, list | tuple) else []
    # What is no finite number has no exact value: then too few are left.
    found = tuple(value for value in listed if value is not None)
    if len(listed) != n or len(found) != n or any(a < b for a, b in pairwise(found)):
        raise InvalidParameter(
            f"{name} must be {n} finite numbers, one for each branch, none larger than the one "
            "before."
        )
    return found
