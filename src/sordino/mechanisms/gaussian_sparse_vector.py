"""The sparse vector with a Gaussian threshold, for accounting in Rényi divergences.

Its guarantee is a Rényi curve, with Gaussian questions one with a term that counts transcripts. It
has no pure epsilon.

Claim: D_alpha <= alpha rho + ln(choices)/(alpha - 1) with Gaussian questions, alpha rho + epsilon
with exponential or Laplace ones. Proof: docs/proofs/gaussian-sparse-vector.md. Noise: discrete
Gaussian for the threshold; discrete Gaussian, one-sided geometric or discrete Laplace for each
question; on the grid. Floats: none after the answers are on the grid.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar, Literal, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import (
    COUNT,
    DOMAIN_SIZE,
    FINITE,
    POSITIVE,
    SHARE,
    Number,
    OrNone,
    WordOr,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import RDP
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import RATE_DENOMINATOR, bound_in_steps, fit_rate, step_for
from sordino.mechanisms.base import (
    EACH_ANSWER,
    EACH_ANSWER_MEANS,
    STEP_MEANS,
    Mechanism,
    Rules,
    one_of_the_laws,
)
from sordino.mechanisms.crossings.counted_stream import CountedStream, Counting
from sordino.mechanisms.crossings.crossings import crossings
from sordino.noise import DiscreteGaussian, DiscreteLaplace, Geometric
from sordino.releases import Positives
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity

Noise = DiscreteGaussian | Geometric | DiscreteLaplace
_MOST_COUNTED = 4096  # positives whose choices are counted


@final
class GaussianSparseVector(Counting, Mechanism):
    """Find the first answers above a public threshold, with Gaussian noise on the threshold.

    It is for accounting in Rényi divergences. It has no pure epsilon, however large its noise is,
    and nothing is given back for what was not found. With Gaussian questions answers below are not
    free either: the cost grows with the logarithm of the number of questions. `SparseVector` is the
    better choice unless other releases are Gaussian and a delta is accepted.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> public = {"threshold": 100, "positives": 1, "questions": 50}
    >>> m = sd.GaussianSparseVector(**public, rho=0.5, sensitivity=sd.COUNTING)
    >>> m.release([3, 170, 8, 2], entropy=sd.Seeded(7)).indices.tolist()
    [1]
    >>> m.cost, m.cost.pure()
    (RDP(rho=0.5, choices=50), inf)
    """

    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    positives: int = parameter(
        COUNT, "After so many it stops, at least 1; at most 4096 with Gaussian noise."
    )
    rho: Number = parameter(
        POSITIVE, "Budget in (0, inf) of all Gaussian noise: the slope of the curve."
    )
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Converted[Literal["gaussian", "exponential", "laplace"] | Noise, Noise] = parameter(
        one_of_the_laws("gaussian", "exponential", "laplace"),
        "Noise of the questions.",
        default="gaussian",
    )
    questions: int | None = parameter(
        OrNone(DOMAIN_SIZE),
        "After so many answers it stops. Required with Gaussian questions, whose cost it is "
        "part of; public, like everything here.",
        default=None,
    )
    epsilon: Number | None = parameter(
        OrNone(POSITIVE),
        "Budget in (0, inf) of all exponential or Laplace noise of the questions; required "
        "with it, refused without it.",
        default=None,
    )
    split: Number | Literal["variance"] | None = parameter(
        OrNone(WordOr(("variance",), SHARE)),
        "With Gaussian questions the share of rho for the threshold, in (0, 1); None or "
        '"variance": the '
        "one with the least variance of a comparison.",
        default=None,
    )
    threshold_noise: DiscreteGaussian = derived("The law of the noise of the threshold, in steps.")
    step: Fraction = derived(STEP_MEANS)
    cost: RDP = derived(
        "What a release spends, exactly. Its `rho` and `constant` are at most rho and epsilon."
    )
    per_transcript: ClassVar[bool] = False

    def derive(self) -> None:
        """Set what follows from the parameters."""
        c, n, family, split = (
            self.positives,
            self.questions,
            str(getattr(self.noise, "name", self.noise)),
            self.split,
        )
        _check_options("GaussianSparseVector.", family, c, n, self.epsilon, split)
        sensitivity, budget, bound = (
            self.sensitivity,
            to_fraction(self.rho),
            to_fraction(self.sensitivity.bound),
        )
        # Answers that move both ways have twice the spread, and each positive pays for it.
        kappa = 1 if sensitivity.monotone else 2
        if family == "gaussian":
            share = (
                _threshold_share(c, kappa)
                if split is None or isinstance(split, str)
                else to_fraction(split)
            )
            least = min(
                bound**2 / (2 * budget * share),
                c * (kappa * bound) ** 2 / (2 * budget * (1 - share)),
            )
        else:
            share, pure = Fraction(1), POSITIVE("GaussianSparseVector.epsilon", self.epsilon)
            least = min(bound**2 / (2 * budget), (c * kappa * bound / pure) ** 2)
        # The smaller of the two noise scales, squared, chooses the grid.
        step = step_for(sensitivity, least, "GaussianSparseVector")
        moves = bound_in_steps(sensitivity, step, "GaussianSparseVector")
        # The threshold moves by the bound: its noise costs the rate times the squared bound.
        limit = fit_rate(budget * share / moves**2, "GaussianSparseVector", RATE_DENOMINATOR**2)
        law: Noise
        if family == "gaussian":
            # What the rounded rate of the threshold left of rho goes to the questions.
            rate = fit_rate(
                (budget - moves**2 * limit) / (c * (kappa * moves) ** 2),
                "GaussianSparseVector",
                RATE_DENOMINATOR**2,
            )
            law, cost = (
                DiscreteGaussian(rate),
                RDP(
                    rho=moves**2 * limit + c * (kappa * moves) ** 2 * rate,
                    choices=choices(n or 1, c),
                ),
            )
        else:
            # Pure noise of the questions has a budget of its own, the constant of the curve.
            rate = fit_rate(pure / (c * kappa * moves), "GaussianSparseVector")
            law = Geometric(rate) if family == "exponential" else DiscreteLaplace(rate)
            cost = RDP(rho=moves**2 * limit, constant=c * kappa * moves * rate)
        self._set(noise=law, threshold_noise=DiscreteGaussian(limit), step=step, cost=cost)
        self.cut()  # refuse a threshold beyond the clamp now

    @scrubbed
    def release(
        self, answers: Any, thresholds: Any = None, *, entropy: Entropy = SYSTEM
    ) -> Positives:
        """Find the first positives, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private; no more than `questions`. NaN and what is no number count as the lowest
            value, which is not found.
        thresholds : array of numbers, shape (n,), optional
            Public: a threshold for each answer, instead of the one of the mechanism.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        Positives
            Its gaps and estimates are NaN: a gap would be one more answer, for which nobody paid.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one and at most `questions` numbers, or
            thresholds do not go with them.
        """
        fresh_entropy(entropy, "GaussianSparseVector.release")
        heights = self.heights(answers, thresholds)
        places, asked = self.rules.play(heights, heights.size, entropy)
        # The whole cost whatever was found: the bound is about the whole law, not about a
        # transcript.
        return self._pack(places, asked, self.cost, simulated=entropy.simulated)

    @property
    def rules(self) -> Rules:
        """How a release is made: one noisy threshold, and fresh noise for each question.

        An outcome is (asked, places).
        """
        return Rules(
            draws=lambda n: ((self.threshold_noise, 1), (self.noise, n)),
            steps=self.heights,
            decide=lambda heights, entropy, limit, law: play(
                heights, limit, law, self.positives, entropy
            ),
            walks=True,
            # How many were asked, then the places: nothing else is released.
            written=lambda found: (found[1], *found[0].tolist()),
        )

    @scrubbed
    def open(self, *, entropy: Entropy = SYSTEM) -> CountedStream:
        """Open a stream: answers come one at a time, chosen after earlier verdicts if you like.

        It ends after `questions` of them.
        """
        return CountedStream(self, fresh_entropy(entropy, "GaussianSparseVector.open"))

    def heights(self, answers: Any, thresholds: Any = None) -> NDArray[np.int64]:
        """Return how far answers lie above their public thresholds, in steps, shape (n,).

        Raises
        ------
        InvalidParameter
            As in `release`.
        """
        heights = super().heights(answers, thresholds)
        # The cost counts the transcripts of so many questions, and of no more.
        if self.questions is not None and heights.size > self.questions:
            raise InvalidParameter(
                f"GaussianSparseVector.release takes at most {self.questions} answers, as many as "
                f"`questions` says; got {heights.size}."
            )
        return heights


def play(
    heights: NDArray[np.int64], threshold: Any, questions: Any, positives: int, entropy: Entropy
) -> tuple[NDArray[np.int64], int]:
    """Return the places of the first positives and how many questions were asked.

    There is one noisy threshold and fresh noise for each question. The lifts are dropped.
    """
    # One branch, and a token for each positive: the rules of the adaptive sparse vector do for this
    # one.
    found = crossings(
        [heights],
        thresholds=threshold,
        queries=[questions],
        prices=(1,),
        tokens=positives,
        resample=False,
        passes=1,
        entropy=entropy,
    )
    return found.places, found.asked


def choices(questions: int, positives: int) -> int:
    """Return the sum of C(questions - 1, j) over j <= positives.

    These are the transcripts, where the two verdicts on the last question count as one.
    """
    total = term = 1
    for j in range(min(positives, questions - 1)):
        # From one binomial coefficient to the next; the division leaves no rest.
        term = term * (questions - 1 - j) // (j + 1)
        total += term
    return total


def _threshold_share(positives: int, kappa: int) -> Fraction:
    """Return the share of the threshold with the least variance: 1/(1 + kappa sqrt(c)).

    The root is rounded down to a multiple of 2^-20.
    """
    # An integer root, so that no float enters the cost.
    return 1 / (1 + Fraction(isqrt(positives * kappa**2 << 40), 1 << 20))


def _check_options(name: str, family: str, c: int, n: int | None, epsilon: Any, split: Any) -> None:
    """Raise `InvalidParameter` if parameters do not go together."""
    if family != "gaussian":
        if split is not None:
            raise InvalidParameter(
                f"{name}split must only be given with noise='gaussian': rho is the threshold's, "
                "epsilon the questions'."
            )
        if epsilon is None:
            raise InvalidParameter(
                f"{name}epsilon must be given with noise={family!r}: the budget of the questions."
            )
        return
    if epsilon is not None:
        raise InvalidParameter(
            f"{name}epsilon must only be given with noise='exponential' or 'laplace'; got "
            f"{shown(epsilon)}."
        )
    if n is None:
        raise InvalidParameter(
            f"{name}questions must be given with noise='gaussian': answers below are not free, "
            "each one counts."
        )
    if c > _MOST_COUNTED:
        raise InvalidParameter(
            f"{name}positives must be at most {_MOST_COUNTED} with noise='gaussian'; got {c}."
        )
    if isinstance(split, str):
        one_of("variance")(f"{name}split", split)


def _find_one(
    epsilon: int, noise: Literal["exponential", "laplace"], sensitivity: Sensitivity
) -> GaussianSparseVector:
    """Return a mechanism that can be enumerated: it looks for one positive, with such questions."""
    return GaussianSparseVector(
        threshold=1, positives=1, rho=2, epsilon=epsilon, noise=noise, sensitivity=sensitivity
    )


_claim = ClaimsAbout("GaussianSparseVector", proof="gaussian-sparse-vector.md")
CLAIMS = (
    _claim(
        "With Gaussian questions the Rényi divergence is at most alpha rho + ln(choices)/(alpha - "
        "1).",
        ("zhu2020", "canonne2020, Thm 4"),
        (
            GaussianSparseVector(
                threshold=1, positives=1, rho=1, sensitivity=EITHER_WAY, questions=1
            ),
            (0,),
            (1,),
        ),
        (
            GaussianSparseVector(
                threshold=1, positives=1, rho=2, sensitivity=EITHER_WAY, questions=2
            ),
            (1, 0),
            (0, 1),
        ),
        (
            GaussianSparseVector(
                threshold=2, positives=2, rho=2, sensitivity=COUNTING, questions=2
            ),
            (0, 0),
            (1, 1),
        ),
    ),
    _claim(
        "With exponential or Laplace questions it is at most alpha rho + epsilon, for any number "
        "of questions.",
        ("zhu2020", "canonne2020, Thm 4"),
        (_find_one(4, "exponential", EITHER_WAY), (0, 0), (1, -1)),
        (_find_one(3, "exponential", COUNTING), (0, 0), (1, 0)),
        (_find_one(5, "laplace", EITHER_WAY), (0, 0), (1, -1)),
    ),
)
