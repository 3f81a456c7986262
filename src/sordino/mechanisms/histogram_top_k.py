"""The best of a noisy histogram.

Every answer gets noise, and the k largest noisy answers are released.

Claim: epsilon-differentially private for an L1 bound of all answers together, rho-zCDP for an L2
bound, with the noisy answers themselves: what is released follows from a noisy histogram
[ghosh2012; canonne2020, Thm 4]. Proof: docs/proofs/histogram-top-k.md. Noise: discrete Laplace of
rate epsilon/bound, discrete Gaussian of rate rho/bound^2, a step. Floats: none after the answers
are on the grid.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, partial
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, Number, OrNone
from sordino.cost import Cost
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import CLAMP, Steps, add, from_steps, largest, widen
from sordino.mechanisms.additive import GaussianMechanism, LaplaceMechanism
from sordino.mechanisms.base import (
    ANY_STATEMENT,
    DOMAIN,
    DOMAIN_MEANS,
    STEP_MEANS,
    Draws,
    Mechanism,
    Rules,
    checked_size,
    whole_vector,
)
from sordino.mechanisms.crossings.branches import Cut, cut_at
from sordino.mechanisms.crossings.implicit_zeros import Listed, dense, listed, noisy_domain
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.releases import HistogramTop
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Norm, Sensitivity

Found = tuple[NDArray[np.int64], Steps, Steps]
NOBODY = -1
"""Stands for an item where fewer than k are released."""


@final
class HistogramTopK(Mechanism):
    """Select the k largest of n private answers by their noisy values, and release these as well.

    All answers get noise for how far they move together, and what is largest afterwards is public.
    So the noise does not grow with k, but with how many answers a unit moves: few items a unit,
    many to select.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or not exactly one of epsilon and rho is
        given.

    Examples
    --------
    Each unit has one item:

    >>> import sordino as sd
    >>> one_item = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)
    >>> mechanism = sd.HistogramTopK(k=2, epsilon=1.0, sensitivity=one_item.over(4))
    >>> top = mechanism.release([120, 7, 95, 3], entropy=sd.Seeded(7))
    >>> top.indices.tolist(), mechanism.cost
    ([0, 2], Pure(epsilon=1))
    """

    k: int = parameter(COUNT, "How many to select at most; 1 <= k <= n without a threshold.")
    sensitivity: Sensitivity = parameter(
        ANY_STATEMENT,
        'About all n answers together: norm "l1" with epsilon, "l2" with rho '
        "(`statement.over(n, norm)`).",
    )
    epsilon: Number | None = parameter(
        OrNone(POSITIVE), "Budget of the whole release, with discrete Laplace noise.", default=None
    )
    rho: Number | None = parameter(
        OrNone(POSITIVE),
        "In place of epsilon: budget in zero-concentrated privacy, with discrete Gaussian noise.",
        default=None,
    )
    threshold: Number | None = parameter(
        OrNone(FINITE),
        "Public: only noisy answers that reach it, fewer than k then. It has no noise of its own, "
        "and is rounded up to the grid.",
        default=None,
    )
    domain_size: int | None = parameter(DOMAIN, f"{DOMAIN_MEANS} Not with rho.", default=None)
    noise: DiscreteLaplace | DiscreteGaussian = derived(
        "The law of the noise on each answer, in steps."
    )
    step: Fraction = derived(STEP_MEANS)
    cost: Cost = derived(
        "What a release spends, however many are found: all noisy answers are paid for."
    )

    def derive(self) -> None:
        """Set the grid, the noise and the cost: those of the histogram."""
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter(
                "HistogramTopK.epsilon or HistogramTopK.rho must be given, and not both; got "
                f"{'neither' if self.rho is None else 'both'}."
            )
        checked_size(self.domain_size, "HistogramTopK", self.k)
        whole: LaplaceMechanism | GaussianMechanism
        if self.epsilon is not None:
            whole = LaplaceMechanism(epsilon=self.epsilon, sensitivity=self.sensitivity)
        else:
            whole = GaussianMechanism(rho=cast("Number", self.rho), sensitivity=self.sensitivity)
            if self.domain_size is not None:
                raise InvalidParameter(
                    f"HistogramTopK.domain_size must be None with rho; got {self.domain_size}. Use "
                    "epsilon."
                )
        self._set(noise=whole.noise, step=whole.step, cost=whole.cost)
        # Refuse a threshold beyond the clamp now, not at the first release.
        _ = self._cut

    @cached_property
    def _cut(self) -> Cut | None:
        """The threshold on the grid, rounded up."""
        if self.threshold is None:
            return None
        return cut_at("HistogramTopK.threshold", self.threshold, Fraction(0), self.step)

    @scrubbed
    def release(
        self, answers: Any, *, positions: Any = None, entropy: Entropy = SYSTEM
    ) -> HistogramTop:
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
            If the answers are not a list of at least k numbers (with a threshold: of at least one),
            if positions do not go with them, or if the statement does not cover n answers.
        """
        fresh_entropy(entropy, "HistogramTopK.release")
        rules = self.rules
        steps = rules.steps(answers, positions)
        items, values, entries = rules.play(steps, self.domain_size or steps.size, entropy)
        found = int(np.count_nonzero(items != NOBODY))
        lowest = from_steps(entries[:found], self.step)
        return HistogramTop(
            indices=items[:found],
            values=from_steps(values[:found], self.step),
            # Without a loser and a threshold every value would have been selected.
            entries=np.where(entries[:found] == -CLAMP, -np.inf, lowest).astype(np.float64),
            crossed=None if self.threshold is None else found < self.k,
            mechanism=self,
            cost=self.cost,
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: every answer gets noise, and the largest noisy answers win."""
        norm: Norm = "l1" if self.epsilon is not None else "l2"

        def draws(n: int) -> Draws:
            # All noisy answers are released together: the statement must say how far they move
            # together.
            whole_vector(self.sensitivity, norm, n, "HistogramTopK")
            return ((self.noise, n),)

        def decide_list(steps: NDArray[np.int64], noise: Steps) -> Found:
            return decide(add(steps, noise), self.k, self._cut)

        if self.domain_size is not None:
            return Rules(
                draws=draws,
                steps=partial(listed, step=self.step, owner="HistogramTopK"),
                decide=self._decide_domain,
                walks=True,
            )
        # With a threshold a list may be shorter than k.
        least = self.k if self.threshold is None else 1
        return Rules(
            draws=draws,
            steps=lambda answers, positions=None: dense(
                answers, positions, least, self.step, "HistogramTopK"
            ),
            decide=decide_list,
            added=True,
        )

    def _decide_domain(self, given: Listed, entropy: Entropy, law: DiscreteLaplace) -> Found:
        """Decide where only some items of the domain are listed.

        The noise of most zeros is never drawn.
        """
        steps, positions = given
        size = cast("int", self.domain_size)
        cut = self._cut
        # One more than k, because the best loser says with which value an item would still have
        # won. What lies below the threshold says nothing.
        noisy, places = noisy_domain(
            steps,
            positions,
            size,
            law,
            min(self.k + 1, size),
            entropy,
            floor=None if cut is None else cut.steps,
        )
        # No more than there are: a threshold may leave none.
        items, values, entries = decide(noisy, min(self.k, noisy.size), cut)
        return np.where(items == NOBODY, NOBODY, places[items]), values, entries


def decide(noisy: Steps, k: int, cut: Cut | None) -> Found:
    """Return the winners, best first, noisy values, and with which value each would still have won.

    All in steps, shape (..., k); one list, shape (n,), or many in rows. Among equals the smaller
    position wins. Where fewer are found, `NOBODY` stands with the value 0. An item wins with a
    value that is at least that of the best loser (one step more if that wins ties against it), and
    at least the threshold; without either that is -CLAMP, below every value.
    """
    order = largest(noisy, k + 1)
    ranked = np.take_along_axis(noisy, order, axis=-1)
    items, values = order[..., :k], ranked[..., :k]
    entries = np.full_like(values, -CLAMP)
    if order.shape[-1] > k:
        entries = ranked[..., k:] + (order[..., k:] < items)
    if items.shape[-1] < k:
        # A list that is shorter than k, below a threshold.
        items, values, entries = widen(items, k, NOBODY), widen(values, k), widen(entries, k)
    if cut is None:
        return items, values, entries
    found = (values >= cut.steps) & (items != NOBODY)
    entries = np.maximum(entries, cut.steps)
    return np.where(found, items, NOBODY), np.where(found, values, 0), np.where(found, entries, 0)


_ONE_ITEM = Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=1)
_REPLACED_ITEM = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1, l1=2)
_claim = ClaimsAbout("HistogramTopK", proof="histogram-top-k.md")
CLAIMS = (
    _claim(
        "The items, their noisy answers and with which value each would still have won are "
        "together epsilon-differentially private, for any k.",
        ("ghosh2012", "dwork2014, Thm 3.6"),
        (HistogramTopK(k=1, epsilon=1, sensitivity=_ONE_ITEM.over(3)), (0, 0, 0), (1, 0, 0)),
        (HistogramTopK(k=2, epsilon=2, sensitivity=_REPLACED_ITEM.over(2)), (1, 0), (0, 1)),
        (
            HistogramTopK(k=2, epsilon=1, sensitivity=_ONE_ITEM.over(3), threshold=1),
            (0, 0, 0),
            (1, 0, 0),
        ),
        (
            HistogramTopK(k=1, epsilon=2, sensitivity=COUNTING.over(2), domain_size=2),
            (0, 0),
            (1, 1),
        ),
        tight=True,
    ),
    _claim(
        "With discrete Gaussian noise they are rho-zCDP.",
        ("canonne2020, Thm 4",),
        (
            HistogramTopK(k=1, rho=Fraction(1, 2), sensitivity=_ONE_ITEM.over(2, "l2")),
            (0, 0),
            (1, 0),
        ),
        (
            HistogramTopK(k=2, rho=Fraction(1, 2), sensitivity=EITHER_WAY.over(2, "l2")),
            (0, 0),
            (1, -1),
        ),
    ),
)
