"""The sparse vector with gaps: the first answers above a threshold in a list or a stream.

Each test has fresh noise, and what was not found is not paid for.

Claim: for every transcript, (epsilon_0 + positives b)-private; all of them epsilon-private
[ding2022, Thm 2 and Alg. 2; lyu2017], for monotone answers with a loss in [-(epsilon - epsilon_0),
epsilon] or its mirror image. Proof: docs/proofs/sparse-vector.md. Noise: threshold of rate
epsilon_0/bound, questions of rate b/spread, each one-sided geometric or discrete Laplace, on the
grid. Floats: split and correction are chosen with them, from public parameters; no comparison and
no cost is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal, final

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import (
    COUNT,
    DOMAIN_SIZE,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    TRUTH,
    Number,
    OrNone,
    WordOr,
    to_fraction,
)
from sordino.cost import Cost, Pure, repeat
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.mechanisms.base import DOMAIN, DOMAIN_MEANS, EACH_ANSWER, EACH_ANSWER_MEANS, STEP_MEANS
from sordino.mechanisms.crossings.branches import (
    Cut,
    Noise,
    cuts_of,
    divide_budget,
    family_of,
    law_parameter,
)
from sordino.mechanisms.crossings.split import Family, SplitPlan, Task
from sordino.mechanisms.crossings.stream import Stream
from sordino.mechanisms.crossings.threshold_scan import monotone_cost
from sordino.mechanisms.crossings.transcripts import BranchingMechanism
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity


@final
class SparseVector(BranchingMechanism):
    """Find the first answers above a public threshold.

    Those below cost nothing, however many they are.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.SparseVector(
    ...     threshold=100, positives=3, epsilon=4, sensitivity=sd.COUNTING, split=0.25
    ... )
    >>> found = m.release([3, 170, 8, 2], entropy=sd.Seeded(7))
    >>> found.indices.tolist(), found.cost, m.cost
    ([1], Pure(epsilon=2), Range(low=3, high=4))
    """

    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    positives: int = parameter(COUNT, "After so many it stops, at least 1.")
    epsilon: Number = parameter(POSITIVE, "Budget of the whole; what is not found is not spent.")
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Converted[Family | Noise, Noise] = law_parameter()
    threshold_noise: Converted[Family | Noise, Noise] = law_parameter()
    split: Number | Literal["variance", "success"] = parameter(
        WordOr(("variance", "success"), SHARE),
        "Share of the budget for the threshold, a number in (0, 1); or the one with the least "
        "variance of a comparison; or the one with which a task most likely succeeds: "
        "`correction_run` answers below the threshold by `correction_margin`, then one as far "
        "above, again and "
        'again ("success" '
        "is searched for, which takes up to two seconds).",
        default="variance",
    )
    correction: Number | Literal["optimal"] | None = parameter(
        OrNone(WordOr(("optimal",), FINITE)),
        "Public number added to the threshold, so that a long run of answers below it is "
        "passed; "
        '"optimal": for the task.',
        default=None,
    )
    correction_run: int | None = parameter(
        OrNone(DOMAIN_SIZE),
        ('How many answers below come before one above; needed with "optimal" and "success".'),
        default=None,
    )
    correction_margin: Number | None = parameter(
        OrNone(NOT_NEGATIVE),
        "How far answers keep from the threshold, at least 0; 0 if not given, needed above 0 "
        "with "
        '"success".',
        default=None,
    )
    passes: int = parameter(
        COUNT,
        "With more than one, answers that were below are asked again, in the same order, until "
        "enough are found.",
        default=1,
    )
    resample: bool = parameter(
        TRUTH,
        "Draw a new threshold after each positive. It costs more, and has its use in other "
        "accountings than that of pure epsilons.",
        default=False,
    )
    domain_size: int | None = parameter(DOMAIN, DOMAIN_MEANS, default=None)
    step: Fraction = derived(STEP_MEANS)
    threshold_epsilon: Fraction = derived("What each threshold and each positive costs, exactly.")
    positive_epsilon: Fraction = derived("What each threshold and each positive costs, exactly.")
    threshold_correction: Fraction = derived(
        "The number that is added to every threshold, in the unit of the answers."
    )
    cost: Cost = derived(
        "What a release spends at most, exactly; its pure epsilon is at most epsilon. For monotone "
        "answers it is an interval, which adds up to less. `Positives.cost` and `Stream.spent` are "
        "what it did spend."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        # Runs of zeros are skipped, so nobody knows which of them were below and would be asked
        # again.
        if self.domain_size is not None and self.passes > 1:
            raise InvalidParameter(
                f"SparseVector.passes must be 1 with a domain size; got {self.passes}."
            )
        plan = SplitPlan.checked(
            "SparseVector", self.split, self.correction, self.correction_run, self.correction_margin
        )
        budget, bound = to_fraction(self.epsilon), to_fraction(self.sensitivity.bound)
        # Answers that move both ways have twice the spread, and each positive pays for it.
        c, kappa = self.positives, 1 if self.sensitivity.monotone else 2
        # With `resample` each positive ends a threshold, so that the budget pays for as many
        # thresholds.
        stages = c if self.resample else 1
        query, limit = family_of(self.noise), family_of(self.threshold_noise)
        # The share for the thresholds; the correction is None if it waits for the rates.
        share, added = plan.share(Task(query, limit, kappa, c, self.resample), bound / budget)
        division = divide_budget("SparseVector", self.sensitivity, budget, share, c, stages=stages)
        # An optimal correction waits for the rates: it depends on the noise.
        if added is None:
            step, _, threshold_rate, rate = division
            added = plan.best_correction((query, step / rate), (limit, step / threshold_rate))
        self._set(**division.one_branch(query, limit, kappa), threshold_correction=added)
        # The dearest transcript finds all positives and meets all thresholds. Where all answers
        # move in one direction it loses less one way than the other, and so does each of several
        # thresholds.
        stage = monotone_cost(self.threshold_epsilon, c // stages * self.positive_epsilon)
        self._set(
            cost=repeat(stage, stages) if self.sensitivity.monotone else self.spent(c, stages)
        )
        self.cut()  # refuse a threshold beyond the clamp now

    def spent(self, positives: int, thresholds: int = 1) -> Pure:
        """Return the cost of a transcript with so many positives and so many thresholds met.

        The latter is 1 unless `resample`, or 0 if no question was asked.
        """
        return Pure(epsilon=thresholds * self.threshold_epsilon + positives * self.positive_epsilon)

    def cut(self, threshold: Number | None = None) -> Cut:
        """Return a public threshold (None: that of the mechanism) on the grid, correction included.

        Raises
        ------
        InvalidParameter
            If it is no finite number or lies, with the correction, beyond 2^52 steps, where answers
            are clamped.
        """
        [only] = cuts_of(self, self.threshold if threshold is None else threshold)
        return only

    @property
    def tokens(self) -> int:
        """How many tokens there are: one for each positive."""
        return self.positives

    @property
    def branch_tokens(self) -> tuple[int, ...]:
        """What a positive costs in tokens: 1, in the only branch."""
        return (1,)

    @property
    def branch_noise(self) -> tuple[Noise, ...]:
        """The noise of the only branch."""
        return (self.noise,)

    @property
    def branch_epsilons(self) -> tuple[Fraction, ...]:
        """What a positive of the only branch costs."""
        return (self.positive_epsilon,)

    @property
    def branch_corrections(self) -> tuple[Fraction, ...]:
        """What the only branch adds to a threshold, in the unit of the answers."""
        return (self.threshold_correction,)

    @scrubbed
    def open(self, *, entropy: Entropy = SYSTEM) -> Stream:
        """Open a stream: answers come one at a time, chosen after earlier verdicts if you like.

        Raises
        ------
        InvalidParameter
            If the mechanism has several passes or a domain size: a stream cannot go back.
        """
        fresh_entropy(entropy, "SparseVector.open")
        if self.passes > 1 or self.domain_size is not None:
            raise InvalidParameter(
                "SparseVector.open needs a mechanism with one pass and without a domain size, "
                f"because a stream cannot go back; got passes={self.passes}, "
                f"domain_size={self.domain_size}. Use release, or make a mechanism without them."
            )
        return Stream(self, entropy)


def _move_answers(**options: Any) -> tuple[SparseVector, tuple[int, int], tuple[int, int]]:
    """Return a mechanism and two answers that move in opposite directions."""
    return SparseVector(threshold=0, sensitivity=EITHER_WAY, **options), (0, 0), (1, -1)


def _raise_count(**options: Any) -> tuple[SparseVector, tuple[int, int], tuple[int, int]]:
    """Return a mechanism for one positive, and two counts of which one rises."""
    found = SparseVector(threshold=1, positives=1, epsilon=6, sensitivity=COUNTING, **options)
    return found, (0, 0), (1, 0)


_SPARSE_REFERENCES = ("ding2022, Thm 2", "lyu2017, Alg. 1")
_claim = ClaimsAbout("SparseVector", proof="sparse-vector.md")
CLAIMS = (
    _claim(
        "Each transcript, gaps included, is private for what it spent: the thresholds met and the "
        "positives found.",
        _SPARSE_REFERENCES,
        _move_answers(positives=1, epsilon=6),
        (
            SparseVector(threshold=0, positives=2, epsilon=12, sensitivity=EITHER_WAY, split=0.25),
            (0, 0, 0),
            (1, -1, -1),
        ),
        _raise_count(correction=-1),
        _raise_count(domain_size=2),
        tight=True,
    ),
    _claim(
        "The same with Laplace noise, with new thresholds after positives, and when answers are "
        "asked again.",
        _SPARSE_REFERENCES,
        _move_answers(positives=1, epsilon=12, noise="laplace"),
        _move_answers(positives=1, epsilon=12, threshold_noise="laplace"),
        _move_answers(positives=1, epsilon=12, noise="laplace", threshold_noise="laplace"),
        _move_answers(positives=2, epsilon=18, resample=True),
        _move_answers(positives=1, epsilon=12, passes=2),
    ),
)
