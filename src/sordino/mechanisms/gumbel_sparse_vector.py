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

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, Claim
from sordino.constraints import (
    COUNT,
    FINITE,
    POSITIVE,
    Number,
    to_fraction,
)
from sordino.cost import Cost, GumbelStage, Pure, repeat
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.grid import bound_in_steps, fit_rate, step_for
from sordino.mechanisms.base import EACH_ANSWER, EACH_ANSWER_MEANS, STEP_MEANS, Mechanism
from sordino.mechanisms.crossings.quiet_transcripts import Quiet
from sordino.mechanisms.race import Gumbel
from sordino.noise.probability import Bounds, contexts, exp_bounds
from sordino.releases import Positives
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

# How many questions are looked at together, first and at most.
_FIRST_QUESTIONS, _MOST_QUESTIONS = 1 << 10, 1 << 16
# Larger weights count as e^80, which is enough: of all uniform numbers with 64 digits only 0 stays
# below.
_EXPONENT_CAP = 80.0
# More than the exponentials of a sum can be off by: "Floats" on the proof page.
_SUM_BAND = 2.0**-38


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
            Private.
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
        start += decide(heights[start:], rate, Uniform(entropy)) + 1
        if start <= heights.size:
            found.append(start - 1)
    return np.array(found, dtype=np.int64), min(start, heights.size)


@final
class Uniform:
    """A uniform number between 0 and 1 whose binary digits are drawn as they are asked for."""

    __slots__ = ("_entropy", "length", "word")

    def __init__(self, entropy: Entropy) -> None:
        self._entropy, self.word, self.length = entropy, 0, 0
        self.extend()

    def __repr__(self) -> str:
        return "Uniform()"

    def extend(self) -> None:
        """Draw 64 more digits."""
        self.word, self.length = (
            (self.word << 64) | int(self._entropy.words(1)[0]),
            self.length + 64,
        )


def decide(heights: NDArray[np.int64], rate: Fraction, u: Uniform) -> int:
    """Return the first place m with U (1 + the sum of e^(rate height) up to m) > 1, else n.

    The sum rises with m. Floats find where it may pass, and exact bounds decide between what floats
    leave open.
    """
    # U is known to its first 64 digits: it lies between these two.
    low, high = u.word * 2.0**-64, (u.word + 1) * 2.0**-64
    total, at, window = 1.0, 0, _FIRST_QUESTIONS
    while at < heights.size:
        # A larger exponent could overflow. e^80 is enough for every U of at least 2^-64 to pass;
        # whether a smaller U passes is left to `passes`.
        exponents = np.minimum(
            float(rate) * heights[at : at + window].astype(np.float64), _EXPONENT_CAP
        )
        sums = total + np.cumsum(np.exp(exponents))
        # All rounding of so many terms stays within the slack: before `maybe` no place passes,
        # whatever the digits of U that were not drawn yet.
        slack = _SUM_BAND + (at + window) * 2.0**-51
        maybe = int(np.searchsorted(sums * (high * (1 + slack)), 1.0))
        if maybe < sums.size:
            # At `surely` it passes for certain; between the two `passes` decides.
            surely = int(np.searchsorted(sums * (low * (1 - slack)), 1.0, side="right"))
            found = _first_passed(
                lambda m: passes(heights[: m + 1], rate, u),
                at + maybe,
                min(at + surely, heights.size),
            )
            if found < at + sums.size:
                return found
        total, at, window = float(sums[-1]), at + sums.size, min(2 * window, _MOST_QUESTIONS)
    return heights.size


def _first_passed(passed: Callable[[int], bool], low: int, high: int) -> int:
    """Return the first place from `low` on that is passed, or `high` if none before it is.

    After a place that is passed all are, so halving finds it.
    """
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle + 1, high)
    return low


def passes(heights: NDArray[np.int64], rate: Fraction, u: Uniform) -> bool:
    """Return whether U (1 + the sum of e^(rate height)) > 1, drawing digits of U until certain."""
    # Equal heights have one exponential, which is then computed once.
    distinct, counts = np.unique(heights, return_counts=True)
    while True:
        low, high = weight(distinct.tolist(), counts.tolist(), rate, u.length * 31 // 100 + 20)
        down, up = contexts(u.length + 40)  # enough for the digits of U, exactly
        scale = Decimal(1 << u.length)
        # U lies between word/scale and (word + 1)/scale: only what holds at both ends is certain.
        if down.multiply(Decimal(u.word), down.add(1, low)) >= scale:
            return True
        if up.multiply(Decimal(u.word + 1), up.add(1, high)) <= scale:
            return False
        u.extend()


def weight(heights: list[int], counts: list[int], rate: Fraction, digits: int) -> Bounds:
    """Return bounds of the sum of count * e^(rate height)."""
    down, up = contexts(digits)
    low = high = Decimal(0)
    for height, count in zip(heights, counts, strict=True):
        one = exp_bounds(rate * abs(height), digits)
        if height > 0:
            # The bounds are those of e^(-rate |height|): the reciprocal exchanges lower and upper.
            one = down.divide(1, one[1]), up.divide(1, one[0])
        low, high = (
            down.add(low, down.multiply(count, one[0])),
            up.add(high, up.multiply(count, one[1])),
        )
    return low, high


def _make_vector(positives: int, epsilon: int, sensitivity: Sensitivity) -> GumbelSparseVector:
    """Return a mechanism whose transcripts can be enumerated: its threshold is 0."""
    return GumbelSparseVector(
        threshold=0, positives=positives, epsilon=epsilon, sensitivity=sensitivity
    )


# Many small weights come near the closed form; twelve are still enumerated in no time.
_SMALL_WEIGHTS = (-2, -2, -1, -1, -1, 0, 0, 0, 1, 1, 2, 3)
CLAIMS = (
    Claim(
        name="GumbelSparseVector",
        statement=(
            "Each transcript is private for what it spent: the thresholds met and the positives "
            "found."
        ),
        references=("durfee2023, Cor. A.1", "ding2022, Thm 2"),
        proof="gumbel-sparse-vector.md",
        neighbours=(
            (_make_vector(1, 3, EITHER_WAY), (18, -18), (19, -19)),
            (_make_vector(2, 6, EITHER_WAY), (15, -15, 15, -15), (16, -16, 16, -16)),
        ),
        tight=True,
    ),
    Claim(
        name="GumbelSparseVector",
        statement=(
            "For monotone answers each threshold with its positive has a loss in an interval of "
            "3/2 of its pure epsilon."
        ),
        references=("durfee2023, Thm 1",),
        proof="gumbel-sparse-vector.md",
        neighbours=(
            (_make_vector(1, 2, COUNTING), (18, -18), (19, -18)),
            (_make_vector(2, 4, COUNTING), (15, -15, 15, -15), (16, -15, 16, -15)),
        ),
        tight=True,
    ),
    Claim(
        name="GumbelSparseVector",
        statement=(
            "A threshold with its questions has the Rényi divergences and deltas of a closed form "
            "at most."
        ),
        references=("durfee2023, Thm 1",),
        proof="gumbel-sparse-vector.md",
        neighbours=(
            (_make_vector(1, 2, COUNTING), _SMALL_WEIGHTS, (-1, -1, 0, 0, 0, 1, 1, 1, 1, 1, 2, 3)),
            (
                _make_vector(1, 3, EITHER_WAY),
                _SMALL_WEIGHTS,
                (-1, -1, 0, 0, 0, 1, 1, -1, 0, 0, 1, 2),
            ),
        ),
    ),
)
