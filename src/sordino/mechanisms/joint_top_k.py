"""Joint top-k: the set of the k largest of n answers in one draw, without order and without gaps.

Claim: the set has epsilon-bounded range, hence it is epsilon-differentially private and
epsilon^2/8-zCDP [gillenwater2022, with the unclipped score]. Proof: docs/proofs/joint-top-k.md.
Noise: a race of classes of sets, rate epsilon/(2 spread) a unit of regret. Floats: none after the
answers are on the grid, but in the proposals of the race.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, POSITIVE, Number, to_fraction
from sordino.cost import BoundedRange
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.mechanisms.base import (
    DOMAIN,
    DOMAIN_MEANS,
    EACH_ANSWER,
    EACH_ANSWER_MEANS,
    Mechanism,
    checked_size,
    choice_rate,
)
from sordino.mechanisms.crossings.implicit_zeros import (
    dense,
    distinct,
    find_unlisted_places,
    listed,
)
from sordino.mechanisms.joint_sets import SetRace, ranked_runs
from sordino.releases import TopSet
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity


@final
class JointTopK(Mechanism):
    """Select the set of the k largest of n private answers, all of it at once.

    A set S has probability proportional to e^(-epsilon regret / (2 spread)), where its regret is
    the largest answer outside of S less the smallest one inside. The price does not grow with k.
    Nothing is told about the order within the set, and there are no gaps: for those use
    `NoisyTopK`. The set is better where the k-th largest count is large next to k/epsilon, and can
    be far worse below; see `docs/how-to/choose-a-selection.md`. Time and memory of a release depend
    on the answers: they grow with k times the number of different ones.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> mechanism = sd.JointTopK(k=2, epsilon=1.0, sensitivity=sd.COUNTING)
    >>> mechanism.release([120, 7, 95, 3], entropy=sd.Seeded(7)).indices.tolist()
    [0, 2]
    >>> mechanism.cost.pure(), round(float(mechanism.cost.zcdp()), 4)
    (Fraction(1, 1), 0.1233)
    """

    k: int = parameter(COUNT, "How many to select, 1 <= k <= n. All n are released without noise.")
    epsilon: Number = parameter(POSITIVE, "Budget of the whole set.")
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER, f"{EACH_ANSWER_MEANS} Monotone answers get the full rate epsilon/bound."
    )
    domain_size: int | None = parameter(DOMAIN, DOMAIN_MEANS, default=None)
    step: Fraction = derived(
        "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: "
        "without a step of your own that is about 2^31 times spread/epsilon."
    )
    rate: Fraction = derived(
        "Nats a step of the grid; a set whose regret is larger by d steps is e^(rate d/2) times "
        "less likely."
    )
    cost: BoundedRange = derived(
        "What a release spends: the spread times the rate, exactly; at most epsilon."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        checked_size(self.domain_size, "JointTopK", self.k)
        step, rate, spent = choice_rate(to_fraction(self.epsilon), self.sensitivity, "JointTopK")
        self._set(step=step, rate=rate, cost=BoundedRange(epsilon=spent))

    @scrubbed
    def release(self, answers: Any, *, positions: Any = None, entropy: Entropy = SYSTEM) -> TopSet:
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

        Returns
        -------
        TopSet
            Positions in rising order.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least k numbers, or positions do not go with them.
        """
        fresh_entropy(entropy, "JointTopK.release")
        steps, at, size = self.on_grid(answers, positions)
        # Of equals the order does not matter: a regret depends on values only.
        order = np.argsort(-steps, kind="stable")
        ranks = np.arange(size if self.k == size else self.k)
        if self.k < size:
            runs = ranked_runs(steps[order], size - steps.size)
            ranks = SetRace(*runs, self.k, self.rate).draw(entropy)
        indices = np.sort(place(ranks, steps[order], at[order], size))
        return TopSet(indices=indices, mechanism=self, cost=self.cost, simulated=entropy.simulated)

    def on_grid(
        self, answers: Any, positions: Any = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
        """Return the listed answers in steps, their positions, and how many items there are.

        With a domain they stand in the order of their positions, and every item that is not listed
        counts 0.
        """
        if self.domain_size is None:
            steps = dense(answers, positions, self.k, self.step, "JointTopK")
            return steps, np.arange(steps.size), steps.size
        found = listed(answers, positions, self.step, "JointTopK")
        return *distinct(*found, self.domain_size), self.domain_size


def place(
    ranks: NDArray[np.int64], ordered: NDArray[np.int64], at: NDArray[np.int64], size: int
) -> NDArray[np.int64]:
    """Return the positions of the items of these ranks, counted from 0.

    `ordered` (n,) are the listed answers in falling order, `at` (n,) their positions. Items that
    are not listed come after the last listed one of at least 0, by position.
    """
    before, zeros = int(np.count_nonzero(ordered >= 0)), size - ordered.size
    unlisted = (ranks >= before) & (ranks < before + zeros)
    places = np.empty_like(ranks)
    places[unlisted] = find_unlisted_places(ranks[unlisted] - before, np.sort(at))
    known = ranks[~unlisted]
    places[~unlisted] = at[np.where(known < before, known, known - zeros)]
    return places


_claim = ClaimsAbout("JointTopK", proof="joint-top-k.md")
CLAIMS = (
    _claim(
        "The set alone has epsilon-bounded range, hence it is epsilon-differentially private and "
        "epsilon^2/8-zCDP.",
        ("gillenwater2022", "dong2020"),
        (JointTopK(k=2, epsilon=1, sensitivity=COUNTING), (40, 20, 0), (40, 21, 0)),
        (JointTopK(k=2, epsilon=2, sensitivity=EITHER_WAY), (30, 15, 0, 0), (30, 16, -1, -1)),
        (JointTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=3), (20, 0, 0), (21, 0, 0)),
        tight=True,
    ),
)
