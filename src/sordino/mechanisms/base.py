"""The base class of all mechanisms, the rules by which they release, and checks that many share.

A mechanism has public parameters, which are declared once, and a cost that follows from them.

Claim: none of its own. The rate of a selection: two answers move apart by at most `spread` steps
between neighbors, and spread times rate is at most the budget. Proof: docs/proofs/grid.md. Floats:
none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import DOMAIN_SIZE, Constraint, one_of, shown, to_fraction
from sordino.cost import Cost
from sordino.declared import Declared
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import bound_in_steps, fit_rate, from_steps, step_for, to_steps
from sordino.noise import Sampler
from sordino.releases import Choice
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Norm, Sensitivity


class Mechanism(Declared):
    """A private algorithm with public parameters.

    Attributes
    ----------
    exact : bool
        True if the law that the audit enumerates is the law that is sampled; False where the
        guarantee holds in ideal arithmetic only.
    """

    exact: ClassVar[bool] = True


# ---- how a release is made -----------------------------------------------------------------------

Draws = tuple[tuple[Sampler, int], ...]
"""Independent laws, each with how many draws of it a release takes at most."""


def join_arrays(outcome: Any) -> Any:
    """Return what was decided, one array or several, as one array with a row for each release."""
    return np.concatenate(outcome, axis=-1) if isinstance(outcome, tuple) else outcome


@final
@dataclass(frozen=True, kw_only=True)
class Rules:
    """How one mechanism makes a release of private answers.

    Attributes
    ----------
    draws : callable
        Takes the public number of answers (of items, with a domain); returns what is drawn. It
        refuses a number that the sensitivity statement does not cover.
    steps : callable
        Takes the answers, and where there is a domain their positions; returns what the noise is
        applied to, in whole steps.
    decide : callable
        Takes what `steps` returned and an array of noise for each of `draws`: shape (times,) for
        one release, (N, times) for N of them. Returns what is decided, an array or a tuple of
        arrays, with one row for each release.
    walks : bool
        Whether later draws depend on earlier ones. Then `decide` takes what `steps` returned, the
        entropy, and the laws: it draws as it goes, and returns what is decided of one release.
    written : callable
        Turns what was decided into whole numbers, from which everything that is released follows.
    added : bool
        Whether the noise is only added to what `steps` returned, number by number.
    shifts : bool
        Whether nothing changes in the outcome when all noisy answers move together.
    spent_by : callable or None
        What one outcome spends, as `written` returns it; None: each spends `cost`.
    """

    draws: Callable[[int], Draws]
    steps: Callable[..., Any]
    decide: Callable[..., Any]
    walks: bool = False
    written: Callable[[Any], Any] = join_arrays
    added: bool = False
    shifts: bool = False
    spent_by: Callable[[Any], Cost] | None = None

    def play(self, steps: Any, n: int, entropy: Entropy) -> Any:
        """Return what is decided of `n` answers, as `steps` returned them, with fresh noise."""
        # First of all, so that a number of answers that is not covered is refused before anything
        # is drawn.
        draws = self.draws(n)
        if self.walks:
            return self.decide(steps, entropy, *(law for law, _ in draws))
        return self.decide(steps, *(law.sample(times, entropy) for law, times in draws))


# ---- one of many ---------------------------------------------------------------------------------


class SelectsOne:
    """A mechanism that selects one of n private answers."""

    step: Fraction
    cost: Cost

    @scrubbed
    def release(self, answers: Any, *, entropy: Entropy = SYSTEM) -> Choice:
        """Select, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, and +inf as the largest.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Choice
            Its gap is None where the mechanism releases none, and where n = 1.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number, or of as many as the mechanism
            says.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        index, lead = self._select(self._read(answers), entropy)
        gap = None if lead is None else float(from_steps(lead, self.step))
        return Choice(
            index=index, gap=gap, mechanism=self, cost=self.cost, simulated=entropy.simulated
        )

    def _read(self, answers: Any) -> NDArray[np.int64]:
        """Return private answers as whole numbers, shape (n,)."""
        return np.atleast_1d(to_steps(answers, self.step, type(self).__name__))

    @abstractmethod
    def _select(self, steps: NDArray[np.int64], entropy: Entropy) -> tuple[int, int | None]:
        """Return the place that is selected, and its lead in steps where that is released."""


# ---- parameters that many mechanisms have --------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _StatementCheck:
    """The check of a sensitivity statement; with `each` it must be about each answer."""

    says: str
    each: bool

    def __call__(self, name: str, value: Any, /) -> Sensitivity:
        if not isinstance(value, Sensitivity):
            raise InvalidParameter(
                f"{name} must be a Sensitivity(bound=, monotone=, adjacency=), such as COUNTING; "
                f"got {shown(value)}."
            )
        if self.each and value.norm != "each":
            raise InvalidParameter(
                f"{name} must be a statement about each answer (norm 'each'); got norm "
                f"{value.norm!r}."
            )
        return value


def one_of_the_laws(*names: str) -> Constraint:
    """Return the constraint that a value names a family of laws; a law stands for its family.

    `dataclasses.replace` hands back the law of the old parameters.
    """
    by_name = one_of(*names)
    # Of a law only its name is kept: `derive` computes the rate anew from the new parameters.
    return replace(by_name, convert=lambda value: by_name.convert(getattr(value, "name", value)))


@dataclass(frozen=True, slots=True)
class _DomainSizeCheck:
    """The check of the public size of a domain; None: answers come as a list."""

    says: str = "int"

    def __call__(self, name: str, value: Any, /) -> int | None:
        # `checked_size` takes the name of the mechanism, and adds that of the parameter itself.
        return checked_size(value, name.removesuffix(".domain_size"))


DOMAIN = _DomainSizeCheck()
ANY_STATEMENT = _StatementCheck("Sensitivity", each=False)
EACH_ANSWER = _StatementCheck("Sensitivity", each=True)
EACH_ANSWER_MEANS = 'A statement about each answer (norm "each"), such as `COUNTING`.'
DOMAIN_MEANS = (
    "Public number of items. If given, `release` takes only the answers that are not 0, with "
    "their positions."
)
STEP_MEANS = (
    "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: without "
    "a step of your own that is about 2^31 noise scales."
)


def checked_size(domain_size: Any, owner: str, k: int = 1) -> int | None:
    """Return the public size of a domain, or None if none was given.

    Raises `InvalidParameter` if it is not a size, or if it is below `k`.
    """
    if domain_size is None:
        return None
    size: int = DOMAIN_SIZE(f"{owner}.domain_size", domain_size)
    if k > size:
        raise InvalidParameter(f"{owner}.k must be at most the domain size {size}; got {k}.")
    return size


def whole_vector(sensitivity: Sensitivity, norm: Norm, n: int, owner: str) -> None:
    """Raise `InvalidParameter` unless the statement covers a vector of `n` answers in this norm."""
    # The norms of a single number agree.
    if n == 1:
        return
    if sensitivity.norm != norm:
        raise InvalidParameter(
            f"{owner} releases {n} answers together only under a statement about their "
            f"{norm.upper()} norm; got norm {sensitivity.norm!r}. If each answer moves by at most "
            f"the bound, use sensitivity.over({n}, {norm!r})."
        )
    if sensitivity.size is not None and n > sensitivity.size:
        raise InvalidParameter(
            f"{owner} was given a statement about {sensitivity.size} answers; got {n}. Use "
            f"sensitivity.over({n}, {norm!r})."
        )
    # Rounding can add a step to the move of each answer, so the bound of the vector depends on
    # their number.
    if sensitivity.step is None and sensitivity.size is None:
        raise InvalidParameter(
            f"{owner} needs to know how many answers are rounded to the grid: give "
            f"Sensitivity(size={n}) or a step that the answers are multiples of."
        )


def moves_together(sensitivity: Sensitivity, step: Fraction, lifted: Fraction) -> Fraction:
    """Return how far two-sided noise must move for the same release, in steps, all noise together.

    A proof lifts the noise of a few answers by `lifted` steps together. Or the noise of each answer
    makes up for what that answer moves: then all noisy answers stay as they are, and the noise
    moves by as much as the answers do. The smaller one counts: docs/proofs/noisy-top-k.md, "Two
    alignments".
    """
    return lifted if sensitivity.l1 is None else min(lifted, to_fraction(sensitivity.l1) / step)


def choice_rate(
    budget: Fraction, sensitivity: Sensitivity, owner: str
) -> tuple[Fraction, Fraction, Fraction]:
    """Return the step of the grid, the rate in nats a step, and what one selection then spends.

    The rate is budget/spread, rounded down where it needs too many digits.

    Raises
    ------
    InvalidParameter
        If the grid or the rate would be far from ideal.
    """
    # The noise has the scale spread/budget: its square chooses how fine the grid is.
    step = step_for(sensitivity, (sensitivity.spread / budget) ** 2, owner)
    bound = bound_in_steps(sensitivity, step, owner)
    spread = sensitivity.find_spread(bound, step)
    rate = fit_rate(budget / spread, owner)
    # The cost is that of the rate that is sampled: after rounding it may be a little less than the
    # budget.
    return step, rate, spread * rate
