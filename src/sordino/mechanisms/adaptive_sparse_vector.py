"""The adaptive sparse vector with gaps.

Answers far above the threshold are found by a cheaper, noisier test.

What that saves pays for further positives.

Claim: for every transcript, (epsilon_0 + the sum of b_j over positives)-private; all of them
epsilon-private [ding2022, Alg. 1, Thm 2]. Proof: docs/proofs/adaptive-sparse-vector.md. Noise:
threshold of rate epsilon_0/bound, tests of branch j of rate b_j/spread, each one-sided geometric or
discrete Laplace, on the grid. Floats: split, boundaries and corrections are chosen with them, from
public parameters; no comparison and no cost is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, ClassVar, Literal, final

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import (
    COUNT,
    DOMAIN_SIZE,
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Number,
    OrNone,
    WordOr,
    to_fraction,
)
from sordino.cost import Pure, Range
from sordino.declared import Converted, derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import fit_rate
from sordino.mechanisms.base import DOMAIN, DOMAIN_MEANS, EACH_ANSWER, EACH_ANSWER_MEANS
from sordino.mechanisms.crossings.branches import (
    BRANCHES,
    LAWS,
    Noise,
    checked_boundaries,
    cuts_of,
    divide_budget,
    family_of,
    far,
    law_parameter,
)
from sordino.mechanisms.crossings.split import Family, SplitPlan, Task
from sordino.mechanisms.crossings.stream import Stream
from sordino.mechanisms.crossings.threshold_scan import monotone_cost
from sordino.mechanisms.crossings.transcripts import BranchingMechanism
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity


def _check_branches(name: str, value: Any) -> Any:
    """Check branches, and keep them as they were given, a list as a tuple."""
    BRANCHES(name, value)
    return _list_to_tuple(name, value)


def _list_to_tuple(name: str, value: Any) -> Any:  # noqa: ARG001 - the signature of a check
    """Return a list as a tuple, and anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


@final
class AdaptiveSparseVector(BranchingMechanism):
    """Find answers above a public threshold, the clearer ones at a lower price.

    Answers below cost nothing, however many they are. Each answer is tested in branches. The first
    has the most noise, costs least and asks for most: it fires where an answer lies far above. What
    it leaves goes to the next, which is dearer. If all answers above are far above, about
    2^(branches - 1) times as many are found as by `SparseVector`; in the worst case as many. It
    goes on as long as any branch can be paid for.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.AdaptiveSparseVector(
    ...     threshold=100, at_least=2, epsilon=4, sensitivity=sd.COUNTING, split=0.25
    ... )
    >>> found = m.release([3, 170, 8, 150, 190, 2, 180], entropy=sd.Seeded(7))
    >>> found.indices.tolist(), found.branches.tolist(), found.cost
    ([1, 3, 4, 6], [0, 0, 0, 0], Pure(epsilon=4))
    """

    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    at_least: int = parameter(
        COUNT, ("How many positives it can find even if each needs the dearest branch, at least 1.")
    )
    epsilon: Number = parameter(POSITIVE, "Budget of the whole; what is not found is not spent.")
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    noise: Family = law_parameter()
    branches: Converted[int | tuple[int, ...] | list[int], int | tuple[int, ...]] = parameter(
        _check_branches,
        "How many branches, 1 to 32, each at half the price of the next; or their prices, "
        "rising whole numbers of one unit: (1, 3) has two branches, the first at a third of "
        "the price of the second. With one branch it is a `SparseVector`.",
        default=2,
    )
    threshold_noise: Converted[Family | Noise, Noise] = law_parameter()
    split: Number | Literal["variance"] = parameter(
        WordOr(("variance",), SHARE),
        "Share of the budget for the threshold, a number in (0, 1); or the one with the least "
        "variance of the gaps of the first branch.",
        default="variance",
    )
    boundaries: Converted[tuple[Number, ...] | list[Number] | None, tuple[Number, ...] | None] = (
        parameter(
            _list_to_tuple,
            "How far above the threshold, in the unit of the answers, each branch asks for, "
            "none further than the one before. If not given: 0 for the last; for each before "
            "it two standard deviations of its noise, more where that has the larger mean; 0 "
            "for all with an optimal correction, which does the same for each branch.",
            default=None,
        )
    )
    correction: Number | Literal["optimal"] | None = parameter(
        OrNone(WordOr(("optimal",), FINITE)),
        'Public number added to the threshold in all branches; "optimal": in each the '
        "number with which a run of answers below is most likely passed and the next one "
        "found, by this branch alone, as in `SparseVector`.",
        default=None,
    )
    correction_run: int | None = parameter(
        OrNone(DOMAIN_SIZE),
        'How many answers below come before one above; needed with "optimal".',
        default=None,
    )
    correction_margin: Number | None = parameter(
        OrNone(NOT_NEGATIVE),
        "How far answers keep from the threshold, at least 0; 0 if not given.",
        default=None,
    )
    domain_size: int | None = parameter(DOMAIN, DOMAIN_MEANS, default=None)
    step: Fraction = derived(
        "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: "
        "without a step of your own that is about 2^31 scales of the noise of the last branch."
    )
    threshold_epsilon: Fraction = derived("What the threshold costs, exactly.")
    token_epsilon: Fraction = derived("What a token costs, exactly.")
    branch_tokens: tuple[int, ...] = derived(
        "What a positive of each branch costs in tokens; there are `tokens` of them."
    )
    branch_epsilons: tuple[Fraction, ...] = derived(
        "What a positive of each branch costs, exactly; `branch_tokens` times `token_epsilon`."
    )
    branch_noise: tuple[Noise, ...] = derived(
        "The laws of the noise of each branch, in steps; `noise` is the name of their family."
    )
    branch_corrections: tuple[Fraction, ...] = derived(
        "What each branch adds to every threshold, in the unit of the answers: its boundary and "
        "its correction."
    )
    cost: Pure | Range = derived(
        "What a release spends at most, exactly; its pure epsilon is at most epsilon. For monotone "
        "answers it is an interval, which adds up to less. `Positives.cost` and `Stream.spent` are "
        "what it did spend."
    )
    passes: ClassVar[int] = 1
    resample: ClassVar[bool] = False

    def derive(self) -> None:
        """Set what follows from the parameters."""
        plan = SplitPlan.checked(
            "AdaptiveSparseVector",
            self.split,
            self.correction,
            self.correction_run,
            self.correction_margin,
        )
        prices = BRANCHES("AdaptiveSparseVector.branches", self.branches)
        query, limit = family_of(self.noise), family_of(self.threshold_noise)
        budget, bound = to_fraction(self.epsilon), to_fraction(self.sensitivity.bound)
        # Answers that move both ways have twice the spread, and each token pays for it.
        k, kappa = self.at_least, 1 if self.sensitivity.monotone else 2
        # The first branch has the noise of a sparse vector with so many positives, rounded up
        # [ding2022, Sec. 5.1, with their square as 16 k^2].
        alike = -(-k * prices[-1] // prices[0])
        share, added = plan.share(Task(query, limit, kappa, alike, resample=False), bound / budget)
        step, moves, threshold_rate, rate = divide_budget(
            "AdaptiveSparseVector", self.sensitivity, budget, share, k, tokens=prices[-1]
        )
        # The rate is that of one token: a branch of p tokens has p times the rate, and its
        # positives cost p times as much.
        laws = tuple(
            LAWS[query](fit_rate(price * rate, "AdaptiveSparseVector")) for price in prices
        )
        if added is None:
            threshold_scale = step / threshold_rate
            # Each branch has noise of its own, so each has a best correction of its own.
            extra = tuple(
                plan.best_correction((query, step / law.rate), (limit, threshold_scale))
                for law in laws
            )
        else:
            extra = (added,) * len(laws)
        if self.boundaries is not None:
            given = checked_boundaries(
                "AdaptiveSparseVector.boundaries", self.boundaries, len(laws)
            )
        else:
            # An optimal correction is a boundary already.
            given = tuple(
                step * far(law, laws[-1]) if added is not None else Fraction(0) for law in laws
            )
        self._set(
            threshold_noise=LAWS[limit](threshold_rate),
            step=step,
            threshold_epsilon=moves * threshold_rate,
            token_epsilon=kappa * moves * rate,
            branch_tokens=prices,
            branch_epsilons=tuple(price * kappa * moves * rate for price in prices),
            branch_noise=laws,
            branch_corrections=tuple(a + b for a, b in zip(given, extra, strict=True)),
        )
        # The most that can be spent: the threshold and all tokens. The threshold costs one
        # direction only, where all answers move in one direction.
        most = self.tokens * self.token_epsilon
        self._set(
            cost=monotone_cost(self.threshold_epsilon, most)
            if self.sensitivity.monotone
            else self.spent(self.tokens)
        )
        cuts_of(self, self.threshold)  # refuse a threshold beyond the clamp now

    @property
    def tokens(self) -> int:
        """How many tokens there are: `at_least` times the price of the last branch."""
        return self.at_least * self.branch_tokens[-1]

    def spent(self, tokens: int, thresholds: int = 1) -> Pure:
        """Return the cost of a transcript whose positives took so many tokens.

        `thresholds` is 0 if no question was asked.
        """
        return Pure(epsilon=thresholds * self.threshold_epsilon + tokens * self.token_epsilon)

    @scrubbed
    def open(self, *, entropy: Entropy = SYSTEM) -> Stream:
        """Open a stream: answers come one at a time, chosen after earlier verdicts if you like.

        Raises
        ------
        InvalidParameter
            If the mechanism has a domain size.
        """
        fresh_entropy(entropy, "AdaptiveSparseVector.open")
        # A stream asks one answer after the other, so there are no zeros to skip.
        if self.domain_size is not None:
            raise InvalidParameter(
                "AdaptiveSparseVector.open needs a mechanism without a domain size."
            )
        return Stream(self, entropy)


def _make_enumerable(
    sensitivity: Sensitivity, epsilon: int, **options: Any
) -> AdaptiveSparseVector:
    """Return a mechanism that can be enumerated.

    Its threshold is 1 for counts, 0 for other answers.
    """
    return AdaptiveSparseVector(
        threshold=int(sensitivity.monotone),
        at_least=1,
        epsilon=epsilon,
        sensitivity=sensitivity,
        **options,
    )


# Two answers that move in opposite directions, and two counts of which one rises.
_OPPOSITE_NEIGHBORS, _COUNT_NEIGHBORS = ((0, 0), (1, -1)), ((0, 0), (1, 0))
_ADAPTIVE_REFERENCES = ("ding2022, Alg. 1, Thm 2",)
_claim = ClaimsAbout("AdaptiveSparseVector", proof="adaptive-sparse-vector.md")
CLAIMS = (
    _claim(
        "Each transcript, gaps and branches included, is private for what it spent: the threshold "
        "and the branches that fired.",
        _ADAPTIVE_REFERENCES,
        # The first branch asks for far more than the answers have. Then its failure says next
        # to nothing, and a positive of the last branch loses nearly all of the cost.
        (_make_enumerable(COUNTING, 11, boundaries=(4, 0)), *_COUNT_NEIGHBORS),
        (_make_enumerable(EITHER_WAY, 14), *_OPPOSITE_NEIGHBORS),
        (_make_enumerable(COUNTING, 10, branches=(2, 3)), *_COUNT_NEIGHBORS),
        (_make_enumerable(COUNTING, 10, domain_size=2), *_COUNT_NEIGHBORS),
        tight=True,
    ),
    _claim(
        "The same with Laplace noise, with three branches, and when cheap positives take the place "
        "of a dear one.",
        _ADAPTIVE_REFERENCES,
        (_make_enumerable(EITHER_WAY, 24, noise="laplace"), *_OPPOSITE_NEIGHBORS),
        (_make_enumerable(EITHER_WAY, 24, threshold_noise="laplace"), *_OPPOSITE_NEIGHBORS),
        (
            _make_enumerable(EITHER_WAY, 30, noise="laplace", threshold_noise="laplace"),
            *_OPPOSITE_NEIGHBORS,
        ),
        (_make_enumerable(COUNTING, 18, branches=3), *_COUNT_NEIGHBORS),
        (_make_enumerable(COUNTING, 14), (0, 0, 0), (1, 0, 0)),
    ),
)
