"""The sparse vector with Gumbel noise, which is never drawn.

One exact uniform number a threshold decides.

What it releases has the law that Gumbel noise would give. Each question is an exponential mechanism
among the threshold and all questions so far.

Claim: each transcript is private for what it spent, thresholds met and positives found; for
monotone answers each threshold with its positive has a loss in [-epsilon_0, 2 epsilon_0]
[durfee2023, Lemmas 3.3 and A.4, Thm 1]; its divergences are those of `GumbelStage`. Proof:
docs/proofs/gumbel-sparse-vector.md, docs/proofs/gumbel-stage.md. Noise: one uniform U a threshold;
its first question above is the first m with U (1 + e^(rate h_1) + ... + e^(rate h_m)) > 1, h
heights. Floats: they propose where U passes; inside a certified band decimals decide.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, Number, to_fraction
from sordino.cost import Cost, GumbelStage, Pure, repeat
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.grid import bound_in_steps, fit_rate, step_for
from sordino.mechanisms.base import EACH_ANSWER, EACH_ANSWER_MEANS, STEP_MEANS, Mechanism
from sordino.mechanisms.crossings.counted_stream import Quiet
from sordino.mechanisms.crossings.threshold_scan import decide
from sordino.mechanisms.race import Gumbel
from sordino.noise.samplers.uniform import LazyUniform
from sordino.releases import Positives
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity


@final
class GumbelSparseVector(Quiet, Mechanism):
    """Find the first answers above a public threshold, with Gumbel noise and no gaps.

    The threshold gets new noise after each positive. For monotone answers each threshold with its
    positive costs about .228 epsilon_0^2 zCDP, where its pure epsilon, 2 epsilon_0, would cost
    nearly 2 epsilon_0^2; for others .514 epsilon_0^2, where 3 epsilon_0 would cost 4.5 (small
    epsilons; `cost.GumbelStage`). Under pure accounting `SparseVector` has less noise, releases
    gaps, and needs one threshold only.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.GumbelSparseVector(threshold=100, positives=2, epsilon=4, sensitivity=sd.COUNTING)
    >>> found = m.release([3, 170, 8, 2], entropy=sd.Seeded(7))
    >>> found.indices.tolist(), found.cost, m.cost.pure(), m.cost.zcdp() < 4**2 / 2
    ([1], Pure(epsilon=3), Fraction(4, 1), True)
    """

    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    positives: int = parameter(COUNT, "After so many it stops, at least 1.")
    epsilon: Number = parameter(
        POSITIVE, ("Budget of the whole; under pure accounting what is not found is not spent.")
    )
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Gumbel = derived(
        "The law of the noise of questions and of thresholds, in steps. It is never drawn: what is "
        "above is drawn from the law that it gives."
    )
    step: Fraction = derived(STEP_MEANS)
    threshold_epsilon: Fraction = derived("What each threshold and each positive costs, exactly.")
    positive_epsilon: Fraction = derived("What each threshold and each positive costs, exactly.")
    cost: Cost = derived(
        "What a release spends at most, exactly; its pure epsilon is at most epsilon. "
        "`Positives.cost` is what it did spend."
    )
    per_transcript: ClassVar[bool] = True

    def derive(self) -> None:
        """Set what follows from the parameters."""
        name, c, sensitivity = "GumbelSparseVector", self.positives, self.sensitivity
        budget, bound = to_fraction(self.epsilon), to_fraction(sensitivity.bound)
        kappa = 1 if sensitivity.monotone else 2
        share = budget / (c * (1 + kappa))  # of each threshold
        step = step_for(sensitivity, (bound / share) ** 2, name)
        moves = bound_in_steps(sensitivity, step, name)
        rate = fit_rate(share / moves, name)
        self._set(
            noise=Gumbel(rate),
            step=step,
            threshold_epsilon=moves * rate,
            positive_epsilon=kappa * moves * rate,
        )
        self._set(cost=repeat(GumbelStage.of(moves * rate, monotone=sensitivity.monotone), c))
        self.cut()  # refuse a threshold beyond the clamp now

    @property
    def threshold_noise(self) -> Gumbel:
        """The law of the noise of thresholds, in steps: that of questions."""
        return self.noise

    def spent(self, positives: int, thresholds: int) -> Pure:
        """Return the cost of a transcript with so many positives and so many thresholds met."""
        return Pure(epsilon=thresholds * self.threshold_epsilon + positives * self.positive_epsilon)

    @scrubbed
    def release(
        self, answers: Any, thresholds: Any = None, *, entropy: Entropy = SYSTEM
    ) -> Positives:
        """Find the first positives.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, which is not found; +inf
            is found, and what is released of it is a number that no real answer has.
        thresholds : array of numbers, shape (n,), optional
            Public: a threshold for each answer, instead of the one of the mechanism.
        entropy : Entropy
            Where chance comes from.

        Returns
        -------
        Positives
            Its gaps and estimates are NaN: there is no noisy answer that could have one.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number, or thresholds do not go with them.
        """
        fresh_entropy(entropy, "GumbelSparseVector.release")
        heights = self.heights(answers, thresholds)
        places, asked = select_positives(heights, self.noise.rate, self.positives, entropy)
        # A transcript that found fewer positives costs less, as a pure epsilon of its own.
        cost = (
            self.cost
            if places.size == self.positives
            else self.spent(places.size, stages(places, asked))
        )
        return self._pack(places, asked, cost, simulated=entropy.simulated)


def stages(places: NDArray[np.int64], asked: int) -> int:
    """Return how many thresholds questions have met.

    Each positive ended one, and a question after the last positive met another.
    """
    ended: int = places.size
    return ended + int(asked > (int(places[-1]) + 1 if ended else 0))


def select_positives(
    heights: NDArray[np.int64], rate: Fraction, positives: int, entropy: Entropy
) -> tuple[NDArray[np.int64], int]:
    """Return the places of the first positives, shape (t,), and how many questions were asked."""
    found: list[int] = []
    start = 0
    # A fresh uniform number after each positive: known to have passed, the old one would let all
    # others pass.
    while start < heights.size and len(found) < positives:
        u = LazyUniform(int(entropy.words(1)[0]), entropy)
        start += decide(heights[start:], rate, u) + 1
        if start <= heights.size:
            found.append(start - 1)
    return np.array(found, dtype=np.int64), min(start, heights.size)


def _make_vector(positives: int, epsilon: int, sensitivity: Sensitivity) -> GumbelSparseVector:
    """Return a mechanism whose transcripts can be enumerated: its threshold is 0."""
    return GumbelSparseVector(
        threshold=0, positives=positives, epsilon=epsilon, sensitivity=sensitivity
    )


# Many small weights come near the closed form; twelve are still enumerated in no time.
_SMALL_WEIGHTS = (-2, -2, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3)
_claim = ClaimsAbout("GumbelSparseVector", proof="gumbel-sparse-vector.md")
CLAIMS = (
    _claim(
        "Each transcript is private for what it spent: the thresholds met and the positives found.",
        ("durfee2023, Cor. A.1", "ding2022, Thm 2"),
        (_make_vector(1, 3, EITHER_WAY), (18, -18), (19, -19)),
        (_make_vector(2, 6, EITHER_WAY), (15, -15, 15, -15), (16, -16, 16, -16)),
        tight=True,
    ),
    _claim(
        "For monotone answers each threshold with its positive has a loss in an interval of 3/2 of "
        "its pure epsilon.",
        ("durfee2023, Thm 1",),
        (_make_vector(1, 2, COUNTING), (18, -18), (19, -18)),
        (_make_vector(2, 4, COUNTING), (15, -15, 15, -15), (16, -15, 16, -15)),
        tight=True,
    ),
    _claim(
        "A threshold with its questions has the Rényi divergences and deltas of a closed form at "
        "most.",
        ("durfee2023, Thm 1",),
        (_make_vector(1, 2, COUNTING), _SMALL_WEIGHTS, (-1, -1, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3)),
        (_make_vector(1, 3, EITHER_WAY), _SMALL_WEIGHTS, (-1, -1, 0, 0, 0, 1, 1, -1, 0, 0, 1, 2)),
    ),
)
