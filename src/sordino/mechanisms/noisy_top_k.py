"""Noisy top-k: the k largest of n answers and the gaps between them, all from one draw an answer.

Claim: epsilon-differentially private with the ordered indices, all inner gaps and the margin
[ding2022, Thm 3; corrected proof]. Proof: docs/proofs/noisy-top-k.md. Noise: one-sided geometric
("exponential" on the grid) or discrete Laplace, rate epsilon/(k spread) a unit of the answers; for
Gumbel noise one race after the other, indices only (docs/proofs/exponential-mechanism.md). Floats:
none after the answers are on the grid; gaps are whole steps.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, POSITIVE, Number, to_fraction
from sordino.cost import BoundedRange, Cost, Pure, repeat
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import Steps, add, bound_in_steps, fit_rate, from_steps, largest, step_for
from sordino.mechanisms.base import (
    DOMAIN,
    DOMAIN_MEANS,
    EACH_ANSWER,
    EACH_ANSWER_MEANS,
    STEP_MEANS,
    Draws,
    Mechanism,
    Rules,
    checked_size,
    moves_together,
    one_of_the_laws,
)
from sordino.mechanisms.crossings.implicit_zeros import (
    Listed,
    OneSided,
    dense,
    listed,
    noisy_domain,
)
from sordino.mechanisms.race import Gumbel, draw_places
from sordino.noise import DiscreteLaplace, Geometric
from sordino.releases import TopK
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

Family = Geometric | DiscreteLaplace | Gumbel
_NOISE_LAWS: dict[str, type[Family]] = {
    "exponential": Geometric,
    "laplace": DiscreteLaplace,
    "gumbel": Gumbel,
}


@final
class NoisyTopK(Mechanism):
    """Select the k largest of n private answers, and say how far each lies above the next.

    The latter is at no extra cost.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.NoisyTopK(k=2, epsilon=1.0, sensitivity=sd.COUNTING)
    >>> top = mechanism.release([120, 7, 95, 3], entropy=sd.Seeded(7))
    >>> top.indices.tolist()
    [0, 2]
    """

    k: int = parameter(COUNT, "How many to select, 1 <= k <= n.")
    epsilon: Number = parameter(POSITIVE, "Budget of the whole selection.")
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Converted[Literal["exponential", "laplace", "gumbel"] | Family, Family] = parameter(
        one_of_the_laws("exponential", "laplace", "gumbel"),
        "One-sided noise (smaller, the default) or two-sided, which is smaller where the "
        "statement says that all answers together move by less than k spreads "
        "(`Sensitivity.l1`: few items a unit). Gumbel noise releases indices only, as k "
        "exponential mechanisms do; they compose to a smaller zCDP, epsilon^2/(8k) instead of "
        "epsilon tanh(epsilon/2), and so to a smaller epsilon at a delta.",
        default="exponential",
    )
    domain_size: int | None = parameter(
        DOMAIN, f"{DOMAIN_MEANS} Not for Gumbel noise.", default=None
    )
    step: Fraction = derived(STEP_MEANS)
    cost: Cost = derived(
        "What a release spends: k times the spread times the rate, exactly; at most epsilon. With "
        "two-sided noise, the smaller one of k times the spread and the `l1` of the statement."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        budget, k, family = to_fraction(self.epsilon), self.k, str(self.noise)
        checked_size(self.domain_size, "NoisyTopK", k)
        if family == "gumbel" and self.domain_size is not None:
            raise InvalidParameter(
                f"NoisyTopK.domain_size must be None with Gumbel noise; got {self.domain_size}. "
                "Use noise='exponential'."
            )
        # k spreads share the budget: the noise has the scale k spread/budget, whose square chooses
        # the grid.
        step = step_for(self.sensitivity, (k * self.sensitivity.spread / budget) ** 2, "NoisyTopK")
        bound = bound_in_steps(self.sensitivity, step, "NoisyTopK")
        spread = self.sensitivity.find_spread(bound, step)
        # The proof raises k draws of noise by at most a spread each: k spreads share the budget.
        # Two-sided noise may instead make up for what each answer moves.
        whole = (
            moves_together(self.sensitivity, step, k * spread)
            if family == "laplace"
            else k * spread
        )
        rate = fit_rate(budget / whole, "NoisyTopK")
        if family == "gumbel":  # k selections of bounded range, one after the other
            cost: Cost = repeat(BoundedRange(epsilon=spread * rate), k)
        else:
            cost = Pure(epsilon=whole * rate)
        self._set(noise=_NOISE_LAWS[family](rate), step=step, cost=cost)

    @scrubbed
    def release(self, answers: Any, *, positions: Any = None, entropy: Entropy = SYSTEM) -> TopK:
        """Select, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, and such an answer is
            chosen last; +inf is the largest, with a gap that no real answer has.
            With a domain size: the answers that are not 0.
        positions : array of int, shape (n,)
            Private; only with a domain size, where it is required: the position of each answer in
            the domain. Positions outside the domain and repeated ones are dropped.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least k numbers, or positions do not go with them.
        """
        fresh_entropy(entropy, "NoisyTopK.release")
        rules = self.rules
        steps = rules.steps(answers, positions)
        if isinstance(self.noise, Gumbel):
            # A race has no noisy answers, so there are no gaps to release.
            indices, gaps = draw_places(steps, self.k, self.noise.rate, entropy), np.zeros(0)
        else:
            indices, gaps = rules.play(steps, self.domain_size or steps.size, entropy)
        return TopK(
            indices=indices,
            gaps=from_steps(gaps, self.step),
            mechanism=self,
            cost=self.cost,
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: the largest noisy answers win.

        They do not describe Gumbel noise: there it is a race, whose number of draws has no limit.
        """

        def draws(n: int) -> Draws:
            return ((cast("OneSided", self.noise), n),)

        if self.domain_size is not None:
            steps = partial(listed, step=self.step, owner="NoisyTopK")
            return Rules(draws=draws, steps=steps, decide=self._decide_domain, walks=True)
        return Rules(
            draws=draws,
            steps=lambda answers, positions=None: dense(
                answers, positions, self.k, self.step, "NoisyTopK"
            ),
            decide=lambda steps, noise: decide(add(steps, noise), self.k),
            added=True,
            shifts=True,
        )

    def _decide_domain(
        self, given: Listed, entropy: Entropy, law: OneSided
    ) -> tuple[NDArray[np.int64], Steps]:
        """Return the winners and the gaps where only some items of the domain are listed.

        The noise of most zeros is never drawn.
        """
        steps, positions = given
        size = cast("int", self.domain_size)
        # One more than k, because the margin compares with the best loser.
        noisy, places = noisy_domain(steps, positions, size, law, min(self.k + 1, size), entropy)
        winners, gaps = decide(noisy, self.k)
        return places[winners], gaps


def decide(noisy: Steps, k: int) -> tuple[NDArray[np.intp], Steps]:
    """Return the positions of the `k` largest noisy values, largest first, and the gaps in steps.

    One list, shape (n,), or many short ones in rows, shape (..., n): the audit plays all noise at
    once through this very function. Among equals the smaller position wins: a public priority. The
    last gap is the margin: how far the last winner lies above the smallest value with which it
    would still have won. That is the value of the best loser, or one step more where the best loser
    wins ties against it. (The raw last gap tells on which side of the priority the best loser
    stands; that costs a (k+1)-th share of epsilon.)
    """
    # The best loser comes along, for the margin.
    order = largest(noisy, k + 1)
    values = np.take_along_axis(noisy, order, axis=-1)
    gaps = values[..., :-1] - values[..., 1:]
    # Where the best loser wins ties against the last winner, one step is taken off. The raw gap
    # would tell the order of the two, which costs more.
    if order.shape[-1] > k:
        gaps[..., k - 1] -= order[..., k] < order[..., k - 1]
    return order[..., :k], gaps


# Answers between two steps: a bound of a step and a half counts as two.
_TOP_K_OFF_GRID = Sensitivity(bound=Fraction(3, 2), monotone=False, adjacency="replace-one", step=1)
_claim = ClaimsAbout("NoisyTopK", proof="noisy-top-k.md")
CLAIMS = (
    _claim(
        "The ordered indices, the inner gaps and the margin together are epsilon-differentially "
        "private.",
        ("ding2022, Thm 3", "mckenna2020, Thm 1"),
        (NoisyTopK(k=1, epsilon=1, sensitivity=EITHER_WAY), (1, 0, 0), (0, 1, 1)),
        (NoisyTopK(k=2, epsilon=2, sensitivity=COUNTING), (0, 0, 0, 0), (0, 0, 1, 1)),
        (NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=3), (0, 0, 0), (0, 1, 1)),
        (
            NoisyTopK(k=1, epsilon=2, sensitivity=_TOP_K_OFF_GRID),
            (2.25, 0.75, 0.75),
            (0.75, 2.25, 2.25),
        ),
        (
            # A rate with too many digits is rounded down; the cost is that of the rounded one.
            NoisyTopK(k=1, epsilon=Fraction(10**15 + 1, 10**15), sensitivity=COUNTING),
            (0, 0, 0),
            (0, 1, 1),
        ),
        tight=True,
    ),
    _claim(
        "The same holds where a raw last gap would cost (k + 1)/k of the budget, and where k = n, "
        "so that nobody is left over.",
        ("ding2022, Thm 3",),
        (NoisyTopK(k=2, epsilon=4, sensitivity=COUNTING), (0, 0, 0, 0), (1, 0, 1, 1)),
        (NoisyTopK(k=2, epsilon=8, sensitivity=EITHER_WAY), (0, 0, 0, 0), (1, -1, -1, -1)),
        (NoisyTopK(k=2, epsilon=2, sensitivity=COUNTING), (0, 0), (0, 1)),
    ),
    _claim(
        "With Laplace noise the same outputs are epsilon-differentially private.",
        ("ding2022, Thm 3",),
        (
            NoisyTopK(k=1, epsilon=1.5, sensitivity=EITHER_WAY, noise="laplace"),
            (1, 0, 0),
            (0, 1, 1),
        ),
        (
            NoisyTopK(k=2, epsilon=4, sensitivity=COUNTING, noise="laplace"),
            (0, 0, 0, 0),
            (0, 0, 1, 1),
        ),
    ),
    ClaimsAbout("NoisyTopK", proof="exponential-mechanism.md")(
        "With Gumbel noise the ordered indices are k selections of epsilon/k-bounded range one "
        "after the other.",
        ("durfee2019", "dong2020"),
        (NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, noise="gumbel"), (-16, 0, 0), (-16, 1, 1)),
        (
            NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, noise="gumbel"),
            (-40, -40, 0, 0),
            (-40, -40, 1, 1),
        ),
        tight=True,
    ),
)
