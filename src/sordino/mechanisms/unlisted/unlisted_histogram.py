"""Noisy counts of labels that nobody listed: those that reach a public threshold.

Claim: with discrete Laplace noise epsilon-private but for a failure of probability delta, with
discrete Gaussian noise rho-zCDP but for one; all noisy counts that reach the threshold may be told
[desfontaines2022, for several labels a unit]. Proof: docs/proofs/unlisted.md. Noise: discrete
Laplace of rate epsilon/l1 or discrete Gaussian of rate rho/l1 on every label that occurs; none on
the threshold. Floats: none; noisy counts and the threshold are whole numbers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.claims import ClaimsAbout
from sordino.constraints import COUNT, FINITE, POSITIVE, SHARE, Number, OrNone, to_fraction
from sordino.cost import Approximate, ApproximateZCDP
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import RATE_DENOMINATOR, Steps, add, fit_rate, from_steps, largest, widen
from sordino.mechanisms.base import EACH_ANSWER, Mechanism, Rules
from sordino.mechanisms.unlisted.failures import least_offset
from sordino.mechanisms.unlisted.occurring import (
    ABOVE_MEANS,
    COUNT_STEP_MEANS,
    COUNTS_OF_UNITS_MEANS,
    DELTA_MEANS,
    LEAST_MEANS,
    counting,
    find_threshold,
    play_labels,
    read_counts,
    read_reach,
)
from sordino.noise import DiscreteGaussian, DiscreteLaplace
from sordino.releases import UnlistedCounts
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Sensitivity

Found = tuple[NDArray[np.int64], Steps]


@final
class UnlistedHistogram(Mechanism):
    """Release the noisy counts of labels that reach a threshold, without a public list of labels.

    Every label that occurs with at least `least` units gets noise for all counts of a unit
    together, so that whatever reaches the threshold may be told, with its noisy count. The
    threshold has no noise; it lies so high that a label which only one unit has reaches it with
    probability at most delta.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or not exactly one of epsilon and rho is
        given.

    Examples
    --------
    >>> import sordino as sd
    >>> counts = sd.Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1, l1=3)
    >>> m = sd.UnlistedHistogram(epsilon=1.0, delta=1e-6, sensitivity=counts)
    >>> m.threshold, m.cost
    (45, Approximate(epsilon=1, delta=1e-06))
    >>> found = m.release([120, 7, 95], labels=["fig", "kiwi", "lime"], entropy=sd.Seeded(7))
    >>> found.labels, found.values.tolist()
    (('fig', 'lime'), [113.0, 89.0])
    """

    delta: Number = parameter(SHARE, DELTA_MEANS)
    sensitivity: Sensitivity = parameter(
        EACH_ANSWER,
        COUNTS_OF_UNITS_MEANS,
    )
    epsilon: Number | None = parameter(
        OrNone(POSITIVE),
        "Budget of the whole release; the noise is discrete Laplace.",
        default=None,
    )
    rho: Number | None = parameter(
        OrNone(POSITIVE),
        "Budget in zero-concentrated privacy instead of epsilon; the noise is discrete Gaussian.",
        default=None,
    )
    k: int | None = parameter(
        OrNone(COUNT),
        "How many to release at most, the largest noisy counts. None: all.",
        default=None,
    )
    least: int = parameter(COUNT, LEAST_MEANS, default=1)
    above: Number | None = parameter(
        OrNone(FINITE),
        ABOVE_MEANS,
        default=None,
    )
    noise: DiscreteLaplace | DiscreteGaussian = derived("The law of the noise on each count.")
    threshold: int = derived("The public threshold that a noisy count must reach.")
    step: Fraction = derived(COUNT_STEP_MEANS)
    cost: Approximate | ApproximateZCDP = derived(
        "What a release spends, whatever is found, exactly."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        owner = "UnlistedHistogram"
        if (self.epsilon is None) == (self.rho is None):
            raise InvalidParameter(
                f"{owner} must have either epsilon, for Laplace noise, or rho, for Gaussian noise; "
                f"got {'neither' if self.rho is None else 'both'}."
            )
        reach = read_reach(self.sensitivity, owner)
        assert reach is not None  # noqa: S101  (without a bound it raised)
        together, delta = reach.together, to_fraction(self.delta)
        law: DiscreteLaplace | DiscreteGaussian
        cost: Approximate | ApproximateZCDP
        if self.epsilon is not None:
            law = DiscreteLaplace(fit_rate(to_fraction(self.epsilon) / together, owner))
            cost = Approximate(epsilon=together * law.rate, delta=delta)
        else:
            assert self.rho is not None  # noqa: S101  (one of both is given)
            # Each count moves by one step, so that the squares add up to as much as the moves.
            law = DiscreteGaussian(
                fit_rate(to_fraction(self.rho) / together, owner, RATE_DENOMINATOR**2)
            )
            cost = ApproximateZCDP(rho=together * law.rate, delta=delta)
        offset = least_offset(law, reach.labels, delta, owner, noisy=False)
        self._set(
            noise=law,
            threshold=find_threshold(self.least, offset, self.above, owner),
            step=Fraction(1),
            cost=cost,
        )

    @scrubbed
    def release(self, answers: Any, *, labels: Any, entropy: Entropy = SYSTEM) -> UnlistedCounts:
        """Release, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private: how many units each label has. n may be 0. Counts below `least` are left out,
            and so is NaN.
        labels : list of str, or of tuples of str, length n
            Private: the labels, of several columns as tuples of texts, which are ordered part by
            part. What is neither is left out; of equal ones the largest count
            counts.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the answers and the labels are not two lists of one length.
        """
        fresh_entropy(entropy, "UnlistedHistogram.release")
        told, values = play_labels(self, answers, labels, entropy)
        return UnlistedCounts(
            labels=told,
            values=from_steps(values, self.step),
            # The same whatever the counts are: it tells nothing about them.
            standard_error=math.sqrt(self.noise.variance),
            mechanism=self,
            cost=self.cost,
            simulated=entropy.simulated,
        )

    @property
    def rules(self) -> Rules:
        """How a release is made: what reaches the threshold is told, with its noisy count.

        The best comes first.

        An output lists positions of labels, -1 where there are no more, and then the noisy counts.
        """
        return Rules(
            draws=lambda n: ((self.noise, n),),
            steps=lambda answers: read_counts(answers, "UnlistedHistogram"),
            decide=lambda counts, noise: decide(counts, noise, self.least, self.threshold, self.k),
        )


def decide(
    counts: NDArray[np.int64], noise: Steps, least: int, threshold: int, k: int | None
) -> Found:
    """Return positions of the labels that reach the threshold, best first, and their noisy counts.

    Counts have shape (n,), noise (..., n), both results (..., n) or (..., min(k, n)). Counts below
    `least` are no items. Among equals the smaller position comes first; -1 and 0 stand where there
    are no more.
    """
    # Below the threshold whatever the noise is: what does not occur is not looked at.
    occurring = np.flatnonzero(counts >= least)
    noisy = add(counts[occurring], noise[..., occurring])
    most = counts.size if k is None else min(counts.size, k)
    order = largest(noisy, most)
    values = np.take_along_axis(noisy, order, axis=-1)
    told = values >= threshold
    return widen(np.where(told, occurring[order], -1), most, -1), widen(
        np.where(told, values, 0), most
    )


# Two labels that one unit alone has, at rate 1 and three steps below the threshold: each reaches it
# with probability e^-3/(1 + e^-1) = 0.0363973..., one of them with 0.0714698...
_JUST_ENOUGH = Fraction("0.0714699")
_claim = ClaimsAbout("UnlistedHistogram", proof="unlisted.md")
CLAIMS = (
    _claim(
        "With Laplace noise all noisy counts that reach the threshold are epsilon-private "
        "together, but for a failure of probability delta.",
        ("desfontaines2022",),
        (UnlistedHistogram(epsilon=2, delta=_JUST_ENOUGH, sensitivity=counting(2)), (1, 1), (0, 0)),
        (
            UnlistedHistogram(
                epsilon=4, delta=_JUST_ENOUGH, sensitivity=counting(2, either=True), least=3, k=1
            ),
            (3, 3, 2),
            (2, 2, 3),
        ),
        tight=True,
    ),
    _claim(
        "With Gaussian noise they are rho-zCDP together, but for a failure of probability delta.",
        ("desfontaines2022", "canonne2020, Thm 4"),
        (
            UnlistedHistogram(rho=Fraction(1, 2), delta=Fraction(1, 1000), sensitivity=counting(1)),
            (1, 6),
            (0, 6),
        ),
        (
            UnlistedHistogram(rho=1, delta=Fraction(1, 1000), sensitivity=counting(1, either=True)),
            (5, 6),
            (6, 5),
        ),
    ),
)
