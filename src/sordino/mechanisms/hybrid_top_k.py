"""Noisy top-k that stops at a public threshold.

The threshold competes as one more item, with noise of its own, and what lies below it is not paid
for.

Claim: with s items before the threshold the release is (2s + 1) bound rate private, (s + 1) bound
rate for monotone lists; with k items epsilon-private, which is 2k bound rate, k bound rate for
monotone lists, and (2k - 1) bound rate where there are no other items than k [ding2022, Alg. 4 and
Lemma 7; sharper for lists that are not monotone]. Proof: docs/proofs/hybrid-top-k.md. Noise:
one-sided geometric or discrete Laplace, rate epsilon/(k spread) a unit of the answers, or
epsilon/((2k - 1) bound), on every item and on the threshold. Floats: none after the answers are on
the grid; gaps are whole steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, Number, OrNone, to_fraction
from sordino.cost import Pure
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import Steps, add, bound_in_steps, fit_rate, from_steps, step_for
from sordino.mechanisms import noisy_top_k
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
)
from sordino.mechanisms.crossings.branches import LAWS, Cut, Noise, cut_at, family_of, law_parameter
from sordino.mechanisms.crossings.implicit_zeros import Listed, dense, listed, noisy_domain
from sordino.releases import HybridTop
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

Found = tuple[NDArray[np.int64], Steps]


@final
class HybridTopK(Mechanism):
    """Select the largest of n private answers, at most k, while they lie above a public threshold.

    Items that are missing from the k are not paid for. The threshold competes as one more item,
    with noise of its own. It ends the list where it stands, and costs as an item does, or half of
    that where answers move both ways.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.HybridTopK(k=4, threshold=60, epsilon=2.0, sensitivity=sd.COUNTING)
    >>> top = m.release([120, 7, 95, 3, 11], entropy=sd.Seeded(7))
    >>> top.indices.tolist(), top.crossed, top.cost, m.cost
    ([0, 2], True, Pure(epsilon=1.5), Pure(epsilon=2))
    """

    k: int = parameter(COUNT, "How many to select at most, 1 <= k <= n.")
    threshold: Number = parameter(
        FINITE, ("Public threshold, in the unit of the answers. It is rounded up to the grid.")
    )
    epsilon: Number = parameter(
        POSITIVE,
        "Budget of the whole selection; spent in full only if k items come before the "
        "threshold (or, for a monotone list, k - 1).",
    )
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Converted[Literal["exponential", "laplace"] | Noise, Noise] = law_parameter(
        "One-sided noise (smaller, the default) or two-sided, which is smaller where all answers "
        "together move by little (`Sensitivity.l1`: few items a unit)."
    )
    domain_size: int | None = parameter(DOMAIN, DOMAIN_MEANS, default=None)
    candidates: int | None = parameter(
        OrNone(COUNT),
        "Public number of answers, at least k; `release` refuses a list of any other length. "
        "Where it is k, and answers move both ways, there is less noise: nobody but the "
        "threshold is left. None: not said, or the domain size.",
        default=None,
    )
    step: Fraction = derived(STEP_MEANS)
    cost: Pure = derived(
        "What a release spends at most, exactly; at most epsilon. `HybridTop.cost` is what it did "
        "spend."
    )
    per_transcript: ClassVar[bool] = True

    def derive(self) -> None:
        """Set what follows from the parameters."""
        k, budget = self.k, to_fraction(self.epsilon)
        checked_size(self.domain_size, "HybridTopK", k)
        self._check_candidates()
        # So many bounds share the budget: the noise has the scale bounds/budget. Its square chooses
        # the grid.
        moves, bound = self._moves(k), to_fraction(self.sensitivity.bound)
        step = step_for(self.sensitivity, (moves * bound / budget) ** 2, "HybridTopK")
        family = family_of(self.noise)
        whole = self._all_moves(k, step, family)
        rate = fit_rate(budget / whole, "HybridTopK")
        self._set(noise=LAWS[family](rate), step=step, cost=Pure(epsilon=whole * rate))
        # Refuse a threshold beyond the clamp now, not at the first release.
        _ = self._cut

    def _check_candidates(self) -> None:
        """Raise `InvalidParameter` unless the number of answers is at least k, and said once."""
        if self.candidates is None:
            return
        if self.domain_size is not None:
            raise InvalidParameter(
                "HybridTopK.candidates must be None with a domain size, which says it; "
                f"got {self.candidates}."
            )
        if self.candidates < self.k:
            raise InvalidParameter(
                f"HybridTopK.candidates must be at least k, {self.k}; got {self.candidates}."
            )

    def _moves(self, selected: int) -> int:
        """Return by how many bounds a release with so many items may move all noise together."""
        k, monotone = self.k, self.sensitivity.monotone
        # A threshold that ends the list stands still while answers move: it costs half of an item,
        # where these move both ways.
        if selected < k:
            return selected + 1 if monotone else 2 * selected + 1
        # With no other items than k a full list leaves the threshold alone, which does not move.
        alone = k in {self.candidates, self.domain_size}
        return k if monotone else 2 * k - 1 if alone else 2 * k

    def _all_moves(self, selected: int, step: Fraction, family: str) -> Fraction:
        """Return by how many steps a release with so many items may move all noise together."""
        lifted = self._moves(selected) * bound_in_steps(self.sensitivity, step, "HybridTopK")
        # One-sided noise cannot go down: docs/proofs/noisy-top-k.md, "Two alignments".
        return moves_together(self.sensitivity, step, lifted) if family == "laplace" else lifted

    @cached_property
    def _cut(self) -> Cut:
        """The threshold on the grid, rounded up: a value of the same kind as the answers."""
        return cut_at("HybridTopK.threshold", self.threshold, Fraction(0), self.step)

    def spent(self, selected: int) -> Pure:
        """Return the cost of a release with so many items.

        Fewer than k means that the threshold ended the list. A full list costs k spreads of noise,
        or half a spread less where there are no other items. A threshold that ends the list costs
        less than an item may, because it stands still while answers move. With two-sided noise a
        release never costs more than the `l1` of the statement.
        """
        return Pure(epsilon=self._all_moves(selected, self.step, self.noise.name) * self.noise.rate)

    @scrubbed
    def release(
        self, answers: Any, *, positions: Any = None, entropy: Entropy = SYSTEM
    ) -> HybridTop:
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
            If the answers are not a list of at least k numbers, or of as many as there are
            candidates, or if positions do not go with them.
        """
        fresh_entropy(entropy, "HybridTopK.release")
        rules = self.rules
        steps = rules.steps(answers, positions)
        # In a list the last value is the threshold, which is no answer; `draws` takes one draw more
        # for it.
        items, gaps = rules.play(steps, self.domain_size or steps.size - 1, entropy)
        selected = int(np.count_nonzero(items >= 0))
        crossed = selected < self.k
        kept = gaps[:selected]
        # An item lies above the threshold by the sum of the gaps from it down. The sum is taken in
        # whole numbers and rounded to a float once.
        estimates = (
            from_steps(self._cut.steps + np.cumsum(kept[::-1])[::-1], self.step)
            if crossed
            else np.full(selected, np.nan)
        )
        return HybridTop(
            indices=items[:selected],
            gaps=from_steps(kept, self.step),
            crossed=crossed,
            threshold_margin=from_steps(gaps[selected], self.step) if crossed else None,
            estimates=estimates,
            mechanism=self,
            cost=self.spent(selected),
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: the threshold is one more item.

        Its noise is the last draw of a list, and the first of a domain.
        """

        def draws(n: int) -> Draws:
            # One more for the threshold, which competes like an item.
            return ((self.noise, n + 1),)

        def steps(answers: Any, positions: Any = None) -> NDArray[np.int64]:
            items = dense(answers, positions, self.k, self.step, "HybridTopK")
            # The cost of a full list rests on it.
            if self.candidates is not None and items.size != self.candidates:
                raise InvalidParameter(
                    "HybridTopK.release needs as many answers as there are candidates, "
                    f"{self.candidates}; got {items.size}."
                )
            return np.append(items, np.int64(self._cut.steps))

        if self.domain_size is not None:
            return Rules(
                draws=draws,
                steps=partial(listed, step=self.step, owner="HybridTopK"),
                decide=self._decide_domain,
                walks=True,
                spent_by=self._spent_by,
            )
        return Rules(
            draws=draws,
            steps=steps,
            decide=lambda steps, noise: decide(add(steps, noise), self.k),
            added=True,
            shifts=True,
            spent_by=self._spent_by,
        )

    def _decide_domain(self, given: Listed, entropy: Entropy, law: Noise) -> Found:
        """Return the items and the gaps where only some items of the domain are listed.

        The noise of most zeros is never drawn.
        """
        steps, positions = given
        size = cast("int", self.domain_size)
        threshold = self._cut.steps + law.sample(1, entropy)
        # `decide` looks at k + 1 values at most, so at most k + 1 items of the domain can matter.
        noisy, places = noisy_domain(steps, positions, size, law, min(self.k + 1, size), entropy)
        items, gaps = decide(np.append(noisy, threshold), self.k)
        # From the threshold on an item is -1, which is no place in `places`.
        return np.where(items < 0, -1, places[items]), gaps

    def _spent_by(self, output: Sequence[int]) -> Pure:
        """Return what an output spends: the items (-1 from the threshold on), then the gaps."""
        return self.spent(sum(item >= 0 for item in output[: self.k]))


def decide(noisy: Steps, k: int) -> Found:
    """Return the items before the threshold, best first, at most `k`, and the gaps in steps.

    Both have shape (..., k). The threshold is the last value: it loses all ties, so an item at the
    noisy threshold comes before it. From the threshold on there is -1 instead of an item. Each gap
    is the lead over whatever comes next, the threshold included; in the place of the threshold
    stands its margin over the best item after it, then 0. Of `k` items the last gap is the margin,
    as in noisy top-k.
    """
    order, gaps = noisy_top_k.decide(noisy, k)
    # The threshold is the last value of the list.
    here = order == noisy.shape[-1] - 1
    ended = np.logical_or.accumulate(here, axis=-1)
    # The margin of the threshold, which loses all ties: whoever comes next would have won a tie, so
    # one step is taken off. In the last place `noisy_top_k.decide` has done that already.
    gaps[..., :-1] -= here[..., :-1]
    return np.where(ended, -1, order), np.where(ended & ~here, 0, gaps)


def _swap_items(**options: Any) -> tuple[HybridTopK, tuple[int, int], tuple[int, int]]:
    """Return a mechanism and two answers of which the other one is the larger."""
    return HybridTopK(sensitivity=EITHER_WAY, **options), (1, 0), (0, 1)


def _raise_item(**options: Any) -> tuple[HybridTopK, tuple[int, int], tuple[int, int]]:
    """Return a mechanism for two items, and two counts of which one rises."""
    return HybridTopK(k=2, sensitivity=COUNTING, **options), (0, 0), (0, 1)


_claim = ClaimsAbout("HybridTopK", proof="hybrid-top-k.md")
CLAIMS = (
    _claim(
        "Each release is private for what it spent: (2s + 1)/(2k) epsilon with s items above the "
        "threshold, epsilon with k; (2s + 1)/(2k - 1) epsilon where there are no others.",
        ("ding2022, Lemma 7",),
        (HybridTopK(k=1, threshold=0, epsilon=4, sensitivity=EITHER_WAY), (0, 0), (1, 1)),
        _swap_items(k=1, threshold=-20, epsilon=4),
        _swap_items(k=2, threshold=0.5, epsilon=8),
        _swap_items(k=2, threshold=0, epsilon=6, domain_size=2),
        _swap_items(k=2, threshold=0, epsilon=6, candidates=2),
        tight=True,
    ),
    _claim(
        "The same for monotone lists, where s items above the threshold cost (s + 1)/k epsilon, "
        "also over a public domain.",
        ("ding2022, Lemma 7",),
        (HybridTopK(k=1, threshold=0, epsilon=2, sensitivity=COUNTING), (0, 0), (1, 1)),
        _raise_item(threshold=1, epsilon=4),
        _raise_item(threshold=1, epsilon=4, domain_size=2),
        tight=True,
    ),
    _claim(
        "With Laplace noise the same costs are enough.",
        ("ding2022, Lemma 7",),
        _swap_items(k=1, threshold=0, epsilon=4, noise="laplace"),
        _raise_item(threshold=0, epsilon=6, noise="laplace"),
    ),
)
