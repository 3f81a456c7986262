"""The largest answers above a noisy threshold, at most k, each with its gap to that threshold.

It is a sparse vector on the sorted list.

Claim: with t answers above the threshold the release is (epsilon_0 + t b)-private, so
epsilon-private [ding2022, Alg. 5 and Lemma 8]. Proof: docs/proofs/hybrid-sparse-vector.md. Noise:
threshold of rate epsilon_0/bound, questions of rate b/spread, each one-sided geometric or discrete
Laplace, on the grid. Floats: the split is chosen with them, from public parameters; no comparison
and no cost is.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, SHARE, Number, WordOr, to_fraction
from sordino.cost import Pure, Range
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.grid import Steps, add, largest
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
)
from sordino.mechanisms.crossings.branches import (
    Cut,
    Noise,
    cut_at,
    divide_budget,
    family_of,
    law_parameter,
)
from sordino.mechanisms.crossings.implicit_zeros import Listed, dense, listed, noisy_domain
from sordino.mechanisms.crossings.split import Family, SplitPlan, Task
from sordino.mechanisms.crossings.threshold_scan import monotone_cost
from sordino.releases import Positives
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

# Noisy answers of 64 bits lie within about 2^61 steps: their difference from such a threshold fits,
# too.
_SAFE_THRESHOLD = 1 << 60

Found = tuple[NDArray[np.int64], Steps]


@final
class HybridSparseVector(Mechanism):
    """Select the largest of n private answers above a public threshold, at most k, estimating each.

    What is not selected is not paid for. Unlike `HybridTopK` it always says how far each item lies
    above the threshold, with more noise. Unlike `SparseVector` it looks at all answers and returns
    the best of them, not the first.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.HybridSparseVector(k=3, threshold=60, epsilon=4, sensitivity=sd.COUNTING, split=0.25)
    >>> found = m.release([3, 95, 8, 170, 2], entropy=sd.Seeded(7))
    >>> found.indices.tolist(), found.cost, m.cost
    ([3, 1], Pure(epsilon=3), Range(low=3, high=4))
    """

    k: int = parameter(COUNT, "How many to select at most, 1 <= k <= n.")
    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    epsilon: Number = parameter(POSITIVE, "Budget of the whole; what is not found is not spent.")
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Converted[Family | Noise, Noise] = law_parameter()
    threshold_noise: Converted[Family | Noise, Noise] = law_parameter()
    split: Number | Literal["variance"] = parameter(
        WordOr(("variance",), SHARE),
        "Share of the budget for the threshold, a number in (0, 1); or the one with the least "
        "variance of a gap.",
        default="variance",
    )
    domain_size: int | None = parameter(DOMAIN, DOMAIN_MEANS, default=None)
    step: Fraction = derived(STEP_MEANS)
    threshold_epsilon: Fraction = derived(
        "What the threshold and each selected item cost, exactly."
    )
    positive_epsilon: Fraction = derived("What the threshold and each selected item cost, exactly.")
    cost: Pure | Range = derived(
        "What a release spends at most, exactly; its pure epsilon is at most epsilon. For monotone "
        "answers it is an interval, which adds up to less. `Positives.cost` is what it did spend."
    )
    per_transcript: ClassVar[bool] = True

    def derive(self) -> None:
        """Set what follows from the parameters."""
        checked_size(self.domain_size, "HybridSparseVector", self.k)
        query, limit = family_of(self.noise), family_of(self.threshold_noise)
        budget, bound = to_fraction(self.epsilon), to_fraction(self.sensitivity.bound)
        # Answers that move both ways have twice the spread, and each item pays for it.
        k, kappa = self.k, 1 if self.sensitivity.monotone else 2
        plan = SplitPlan.checked("HybridSparseVector", self.split, None, None, None)
        share, _ = plan.share(Task(query, limit, kappa, k, resample=False), bound / budget)
        division = divide_budget("HybridSparseVector", self.sensitivity, budget, share, k)
        self._set(**division.one_branch(query, limit, kappa))
        # k items at most; an empty release still costs the threshold, though in one direction only
        # where all answers move in one direction.
        limit_epsilon, items = self.threshold_epsilon, k * self.positive_epsilon
        self._set(
            cost=monotone_cost(limit_epsilon, items) if self.sensitivity.monotone else self.spent(k)
        )
        # Refuse a threshold beyond the clamp now, not at the first release.
        _ = self._cut

    @cached_property
    def _cut(self) -> Cut:
        """The threshold on the grid, rounded up."""
        return cut_at("HybridSparseVector.threshold", self.threshold, Fraction(0), self.step)

    def spent(self, selected: int) -> Pure:
        """Return the cost of a release with so many items.

        That of the threshold, and of each of them.
        """
        return Pure(epsilon=self.threshold_epsilon + selected * self.positive_epsilon)

    @scrubbed
    def release(
        self, answers: Any, *, positions: Any = None, entropy: Entropy = SYSTEM
    ) -> Positives:
        """Select, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, which is not found; +inf
            is found, and what is released of it is a number that no real answer has.
            With a domain size: the answers that are not 0.
        positions : array of int, shape (n,)
            Private; only with a domain size, where it is required: the position of each answer in
            the domain. Positions outside the domain and repeated ones are dropped.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Positives
            Best first; `asked` is the number of items, a public one.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least k numbers, or positions do not go with them.
        """
        fresh_entropy(entropy, "HybridSparseVector.release")
        rules = self.rules
        steps = rules.steps(answers, positions)
        # Every answer is looked at, so the number of items is what was asked: it is public.
        asked = self.domain_size or steps.size
        items, lifts = rules.play(steps, asked, entropy)
        # After the last item that reaches the threshold there is -1.
        kept = [
            (item, lift)
            for item, lift in zip(items.tolist(), lifts.tolist(), strict=True)
            if item >= 0
        ]
        # The gap has the noise of the item less that of the threshold: estimates subtract the
        # public mean.
        center = (self.noise.mean - self.threshold_noise.mean) * float(self.step)
        return Positives(
            indices=np.array([item for item, _ in kept], dtype=np.int64),
            gaps=np.array([self._cut.gap(lift, self.step) for _, lift in kept]),
            branches=np.zeros(len(kept), dtype=np.int64),
            passes=np.ones(len(kept), dtype=np.int64),
            asked=asked,
            estimates=np.array([self._cut.value(lift, self.step) for _, lift in kept]) - center,
            mechanism=self,
            cost=self.spent(len(kept)),
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: a noisy threshold, and the largest noisy answers that reach it."""

        def draws(n: int) -> Draws:
            # One noisy threshold for all answers, and fresh noise for each of them.
            return ((self.threshold_noise, 1), (self.noise, n))

        if self.domain_size is not None:
            return Rules(
                draws=draws,
                steps=partial(listed, step=self.step, owner="HybridSparseVector"),
                decide=self._decide_domain,
                walks=True,
                spent_by=self._spent_by,
            )
        return Rules(
            draws=draws,
            steps=lambda answers, positions=None: dense(
                answers, positions, self.k, self.step, "HybridSparseVector"
            ),
            decide=lambda steps, limit, noise: decide(
                add(steps, noise), self._cut.steps + limit, self.k
            ),
            spent_by=self._spent_by,
        )

    def _decide_domain(self, given: Listed, entropy: Entropy, limit: Noise, law: Noise) -> Found:
        """Return the items and the lifts where only some items of the domain are listed.

        The noise of most zeros is never drawn.
        """
        steps, positions = given
        size = cast("int", self.domain_size)
        threshold = self._cut.steps + limit.sample(1, entropy)
        # Only the k largest can be released: no other noise is drawn.
        noisy, places = noisy_domain(steps, positions, size, law, min(self.k, size), entropy)
        items, lifts = decide(noisy, threshold, self.k)
        return np.where(items < 0, -1, places[items]), lifts

    def _spent_by(self, output: Sequence[int]) -> Pure:
        """Return what an output spends: the items (-1 after the last), then the lifts."""
        return self.spent(sum(item >= 0 for item in output[: self.k]))


def decide(noisy: Steps, threshold: Steps, k: int) -> Found:
    """Return the `k` largest items that reach the noisy threshold, and lifts above it in steps.

    Both have shape (..., k). Noisy values have shape (..., n), the threshold (..., 1). Best first,
    the smaller position among equals; after the last one that reaches it there is -1 instead of an
    item, and 0.
    """
    # Sorted first, so that those below the threshold come last.
    order = largest(noisy, k)
    lifts = _lifts_above(np.take_along_axis(noisy, order, axis=-1), threshold)
    return np.where(lifts < 0, -1, order), np.where(lifts < 0, 0, lifts)


def _lifts_above(noisy: Steps, threshold: Steps) -> Steps:
    """Return how far noisy values lie above the noisy threshold, exactly.

    They are Python integers where 64 bits might not do.
    """
    near = (
        threshold.dtype != object
        and threshold.min() > -_SAFE_THRESHOLD
        and threshold.max() < _SAFE_THRESHOLD
    )
    return noisy - threshold if near else noisy.astype(object) - threshold


def _move_apart(**options: Any) -> tuple[HybridSparseVector, tuple[int, int], tuple[int, int]]:
    """Return a mechanism and two answers that move in opposite directions."""
    return HybridSparseVector(threshold=0, sensitivity=EITHER_WAY, **options), (0, 0), (1, -1)


def _raise_one(**options: Any) -> tuple[HybridSparseVector, tuple[int, int], tuple[int, int]]:
    """Return a mechanism and two counts of which one rises."""
    return HybridSparseVector(threshold=1, sensitivity=COUNTING, **options), (0, 0), (1, 0)


_HYBRID_VECTOR_REFERENCES = ("ding2022, Lemma 8",)
_claim = ClaimsAbout("HybridSparseVector", proof="hybrid-sparse-vector.md")
CLAIMS = (
    _claim(
        "Each release, gaps included, is private for what it spent: the threshold, and each item "
        "above it.",
        _HYBRID_VECTOR_REFERENCES,
        _move_apart(k=1, epsilon=6),
        _move_apart(k=2, epsilon=12, split=0.25),
        _move_apart(k=1, epsilon=6, domain_size=2),
        _raise_one(k=1, epsilon=6),
        _raise_one(k=1, epsilon=6, domain_size=2),
        tight=True,
    ),
    _claim(
        "The same with Laplace noise.",
        _HYBRID_VECTOR_REFERENCES,
        _move_apart(k=1, epsilon=12, noise="laplace"),
        _move_apart(k=1, epsilon=12, threshold_noise="laplace"),
        _move_apart(k=1, epsilon=12, noise="laplace", threshold_noise="laplace"),
    ),
)
