"""Noisy top-k of labels that nobody listed.

Labels that occur compete with a threshold that they must reach.

Claim: but for a failure of probability delta a release with s labels before the threshold is (s +
1) rate private under add-remove and (2s + 1) rate under replace-one, one with k labels k spread
rate [durfee2019; desfontaines2022, with a noisy threshold]; with Laplace noise never more than M
spread rate, where a unit counts for M labels. Proof: docs/proofs/unlisted.md. Noise: one-sided
geometric, rate epsilon/(k spread), or discrete Laplace, rate epsilon/(spread min(k, M)), on every
label that occurs and on the threshold. Floats: none; counts, gaps and the threshold are whole
numbers.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, SHARE, Number, OrNone, to_fraction
from sordino.cost import Approximate
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.grid import Steps, add, fit_rate, from_steps, widen
from sordino.mechanisms import noisy_top_k
from sordino.mechanisms.base import EACH_ANSWER, Mechanism, Rules
from sordino.mechanisms.crossings.branches import LAWS, Noise, family_of, law_parameter
from sordino.mechanisms.unlisted.failures import least_offset
from sordino.mechanisms.unlisted.occurring import (
    ABOVE_MEANS,
    COUNT_STEP_MEANS,
    COUNTS_OF_UNITS_MEANS,
    DELTA_MEANS,
    LEAST_MEANS,
    SPENT_FOR_FOUND_MEANS,
    Reach,
    counting,
    find_threshold,
    play_labels,
    read_counts,
    read_reach,
)
from sordino.releases import UnlistedTop
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Sensitivity

Found = tuple[NDArray[np.int64], Steps]


class LabelSelection:
    """What selections of labels share.

    Epsilon is paid for the labels that are there, delta in full.
    """

    k: int
    least: int
    step: Fraction
    noise: Any
    cost: Approximate
    per_transcript: ClassVar[bool] = True

    @abstractmethod
    def _steps_paid(self, found: int) -> int:
        """Return how many steps of noise a release with so many labels pays for."""

    @abstractmethod
    def _decide(self, counts: NDArray[np.int64], noise: Steps) -> Found:
        """Return what is decided of counts of which some may be below the least one."""

    @property
    def _told_threshold(self) -> int | None:
        """The threshold that estimates are counted from; None: it is private."""
        return None

    def spent(self, found: int) -> Approximate:
        """Return the cost of a release with so many labels.

        Fewer than k: the threshold ended the list.
        """
        return Approximate(
            epsilon=self._steps_paid(found) * self.noise.rate, delta=self.cost.delta_
        )

    def _spent_by(self, output: Sequence[int]) -> Approximate:
        """Return what an output spends: the items (-1 from the threshold on), then the gaps."""
        return self.spent(sum(item >= 0 for item in output[: self.k]))

    @scrubbed
    def release(self, answers: Any, *, labels: Any, entropy: Entropy = SYSTEM) -> UnlistedTop:
        """Select, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private: how many units each label has. n may be 0. Counts below `least` are left out,
            and so is NaN.
            Where only the largest are read, those will do, and of equal ones those of the labels
            that come first in the order of code points.
        labels : list of str, or of tuples of str, length n
            Private: the labels, of several columns as tuples of texts, which are ordered part by
            part. What is neither is left out; of equal ones the largest count
            counts.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        UnlistedTop
            Without estimates where it is private how high the threshold lay.

        Raises
        ------
        InvalidParameter
            If the answers and the labels are not two lists of one length.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        told, gaps = play_labels(self, answers, labels, entropy)
        crossed = len(told) < self.k
        estimates = np.full(len(told), np.nan)
        if crossed and self._told_threshold is not None:
            # The sum is taken in whole numbers and rounded to a float once.
            estimates = from_steps(self._told_threshold + np.cumsum(gaps[::-1])[::-1], self.step)
        return UnlistedTop(
            labels=told,
            gaps=from_steps(gaps, self.step),
            crossed=crossed,
            estimates=estimates,
            mechanism=self,
            cost=self.spent(len(told)),
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: the threshold is one more item, whose noise is the last draw.

        An output lists positions of labels, -1 from the threshold on, and then the gaps.
        """
        return Rules(
            draws=lambda n: ((self.noise, n + 1),),
            steps=lambda answers: read_counts(answers, type(self).__name__),
            decide=self._decide,
            spent_by=self._spent_by,
        )


@final
class UnlistedTopK(LabelSelection, Mechanism):
    """Select the labels with the largest counts, at most k, without a public list of labels.

    Labels that occur with at least `least` units compete, each with noise of its own, and with them
    a threshold that lies so high that a label which only one unit has reaches it with probability
    at most delta. The list ends where the threshold stands; k may be more than there are labels.
    Labels that are missing from the k are not paid for in epsilon; delta is always paid for in
    full.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> counts = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=5)
    >>> m = sd.UnlistedTopK(k=4, epsilon=2.0, delta=1e-6, sensitivity=counts)
    >>> m.threshold, m.cost
    (31, Approximate(epsilon=2, delta=1e-06))
    >>> fruit = ["fig", "kiwi", "lime", "pear", "plum"]
    >>> top = m.release([120, 7, 95, 3, 11], labels=fruit, entropy=sd.Seeded(7))
    >>> top.labels, top.crossed, top.cost
    (('fig', 'lime'), True, Approximate(epsilon=1.5, delta=1e-06))
    """

    k: int = parameter(COUNT, "How many to select at most.")
    epsilon: Number = parameter(
        POSITIVE, "Budget of the whole selection; spent in full only if k are found."
    )
    delta: Number = parameter(SHARE, DELTA_MEANS)
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER,
        COUNTS_OF_UNITS_MEANS,
    )
    least: int = parameter(COUNT, LEAST_MEANS, default=1)
    noise: Converted[Literal["exponential", "laplace"] | Noise, Noise] = law_parameter(
        "One-sided noise (the default) for k selections, or two-sided noise for the smaller of "
        "k and M: less where M is far below k."
    )
    above: Number | None = parameter(
        OrNone(FINITE),
        ABOVE_MEANS,
        default=None,
    )
    threshold: int = derived("The public threshold, in counts, before its noise.")
    step: Fraction = derived(COUNT_STEP_MEANS)
    cost: Approximate = derived(SPENT_FOR_FOUND_MEANS)

    def derive(self) -> None:
        """Set what follows from the parameters."""
        owner = "UnlistedTopK"
        steps = self._steps_paid(self.k)
        rate = fit_rate(to_fraction(self.epsilon) / steps, owner)
        law = LAWS[family_of(self.noise)](rate)
        delta = to_fraction(self.delta)
        offset = least_offset(law, self._reach.labels, delta, owner, noisy=True)
        self._set(
            noise=law,
            threshold=find_threshold(self.least, offset, self.above, owner),
            step=Fraction(1),
            cost=Approximate(epsilon=steps * rate, delta=delta),
        )

    @property
    def _reach(self) -> Reach:
        reach = read_reach(self.sensitivity, "UnlistedTopK")
        assert reach is not None  # noqa: S101  (without a bound it raised)
        return reach

    def _steps_paid(self, found: int) -> int:
        reach = self._reach
        steps = reach.selection_steps(found, self.k)
        # Two-sided noise may also leave the threshold alone and move with the counts themselves.
        return min(steps, reach.together) if family_of(self.noise) == "laplace" else steps

    def _decide(self, counts: NDArray[np.int64], noise: Steps) -> Found:
        return decide_occurring(counts, noise, self.least, self.threshold, self.k)

    @property
    def _told_threshold(self) -> int:
        return self.threshold


def decide_occurring(
    counts: NDArray[np.int64], noise: Steps, least: int, threshold: int, k: int
) -> Found:
    """Return what is decided of counts (n,) and noise (..., n + 1), the last for the threshold."""
    occurring = np.flatnonzero(counts >= least)
    # What does not occur is no item of count 0: its noise is not looked at.
    drawn = noise[..., np.append(occurring, counts.size)]
    items, gaps = decide(add(np.append(counts[occurring], np.int64(threshold)), drawn), k)
    places = np.append(occurring, -1)
    # -1 stands at the end of `places`, and stays -1.
    return places[items], gaps


def decide(noisy: Steps, k: int) -> Found:
    """Return items before the threshold, best first, and gaps in steps, both of shape (..., k).

    The threshold is the last value and loses all ties: an item at the noisy threshold comes before
    it. From the threshold on there is -1 instead of an item, and 0 instead of a gap: **nothing is
    told about what lies below a threshold that ended the list.** A margin there would tell the
    noisy threshold where no other item is near. Of k items the last gap is the margin, as in noisy
    top-k. There may be fewer than k items.
    """
    order, gaps = noisy_top_k.decide(noisy, k)
    ended = np.logical_or.accumulate(order == noisy.shape[-1] - 1, axis=-1)
    items, gaps = widen(np.where(ended, -1, order), k, -1), widen(gaps, k)
    return items, np.where(items < 0, 0, gaps)


# Two labels that one unit alone has, at rate 1 and three steps below the threshold: the failure is
# 0.071145559..., and the delta just above it.
_JUST_ENOUGH = Fraction("0.07114556")
_claim = ClaimsAbout("UnlistedTopK", proof="unlisted.md")
CLAIMS = (
    _claim(
        "But for a failure of probability delta each release is private for what it spent: s "
        "labels above the threshold cost (s + 1)/k epsilon under add-remove and (2s + 1)/(2k) "
        "epsilon under replace-one, k labels epsilon.",
        ("durfee2019", "desfontaines2022"),
        (UnlistedTopK(k=2, epsilon=2, delta=_JUST_ENOUGH, sensitivity=counting(2)), (1, 1), (0, 0)),
        (
            UnlistedTopK(k=2, epsilon=4, delta=_JUST_ENOUGH, sensitivity=counting(2, either=True)),
            (1, 1, 0),
            (0, 0, 1),
        ),
        # More places than labels, and a least count above 1.
        (
            UnlistedTopK(k=3, epsilon=3, delta=_JUST_ENOUGH, sensitivity=counting(2), least=3),
            (3, 3),
            (2, 2),
        ),
        tight=True,
    ),
    _claim(
        "With Laplace noise no release costs more than M spreads of it, where a unit has M labels.",
        ("durfee2019", "desfontaines2022"),
        (
            UnlistedTopK(
                k=2, epsilon=2, delta=Fraction(1, 20), sensitivity=counting(1), noise="laplace"
            ),
            (1, 4),
            (0, 4),
        ),
        (
            UnlistedTopK(
                k=1,
                epsilon=4,
                delta=Fraction(1, 20),
                sensitivity=counting(1, either=True),
                noise="laplace",
            ),
            (1, 0),
            (0, 1),
        ),
    ),
)
