"""The adaptive sparse vector with gaps: answers far above the threshold are found by a cheaper, noisier test, so that more can be found.

Claim: for every transcript, (epsilon_0 + the sum of b_j over positives)-private; all of them epsilon-private [ding2022, Alg. 1, Thm 2].
Proof: docs/proofs/adaptive-sparse-vector.md.
Noise: threshold of rate epsilon_0/bound, tests of branch j of rate b_j/spread, each one-sided geometric or discrete Laplace, on the grid.
Floats: split, boundaries and corrections are chosen with them, from public parameters; no comparison and no cost is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Literal, final

from sordino.claims import Claim
from sordino.constraints import COUNT, FINITE, POSITIVE, Number, one_of
from sordino.cost import Pure
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import fit_rate
from sordino.mechanisms._branches import BRANCHES, LAWS, Noise, checked_boundaries, cuts_of, divided, family_of, far
from sordino.mechanisms._correction import Family
from sordino.mechanisms._split import Plan, Task
from sordino.mechanisms._statements import checked_sensitivity, checked_size, each_answer, set_fields
from sordino.mechanisms._stream import Stream
from sordino.mechanisms._transcripts import released
from sordino.releases import Positives, parameters, pictured
from sordino.remnants import no_remnants
from sordino.sensitivity import COUNTING, Sensitivity


@final
@dataclass(frozen=True, init=False, repr=False)
class AdaptiveSparseVector:
    """Find answers above a public threshold, the clearer ones at a lower price; those below cost nothing, however many they are.

    Each answer is tested in branches. The first has the most noise, costs least and asks for most: it fires where an answer lies far
    above. What it leaves goes to the next, which is dearer. If all answers above are far above, about 2^(branches - 1) times as many are
    found as by `SparseVector`; in the worst case as many. It goes on as long as any branch can be paid for.

    Parameters
    ----------
    threshold : number
        Public threshold, in the unit of the answers.
    at_least : int
        How many positives it can find even if each needs the dearest branch, at least 1.
    epsilon : number
        Budget of the whole, in (0, inf); what is not found is not spent.
    sensitivity : Sensitivity
        A statement about each answer (norm "each"), such as `COUNTING`.
    noise, threshold_noise : {"exponential", "laplace"}
        Noise of the tests and of the threshold: one-sided (smaller, the default) or two-sided.
    branches : int or sequence of int
        How many branches, 1 to 32, each at half the price of the next; or their prices, rising whole numbers of one unit: (1, 3) has two
        branches, the first at a third of the price of the second. With one branch it is a `SparseVector`.
    split : "variance" or number
        Share of the budget for the threshold, a number in (0, 1); or the one with the least variance of the gaps of the first branch.
    boundaries : sequence of numbers, optional
        How far above the threshold, in the unit of the answers, each branch asks for, none further than the one before. If not given:
        0 for the last; for each before it two standard deviations of its noise, more where that has the larger mean; 0 for all with an
        optimal correction, which does the same for each branch.
    correction : number or "optimal", optional
        Public number added to the threshold in all branches; "optimal": in each the number with which a run of answers below is most
        likely passed and the next one found, by this branch alone, as in `SparseVector`.
    correction_run : int, optional
        How many answers below come before one above; needed with "optimal".
    correction_margin : number, optional
        How far answers keep from the threshold, at least 0; 0 if not given.
    domain_size : int, optional
        Public number of items. If given, `release` takes only the answers that are not 0, with their positions.

    Attributes
    ----------
    branch_noise : tuple of Geometric or DiscreteLaplace
        The laws of the noise of each branch, in steps; `noise` is the name of their family.
    threshold_noise : Geometric or DiscreteLaplace
        The law of the noise of the threshold, in steps.
    threshold_epsilon : Fraction
        What the threshold costs, exactly.
    branch_epsilons : tuple of Fraction
        What a positive of each branch costs, exactly; `branch_tokens` times `token_epsilon`.
    token_epsilon : Fraction
        What a token costs, exactly.
    branch_tokens : tuple of int
        What a positive of each branch costs in tokens; there are `tokens` of them.
    branch_corrections : tuple of Fraction
        What each branch adds to every threshold, in the unit of the answers: its boundary and its correction.
    step : Fraction
        Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped: without a step of your own that is about
        2^31 scales of the noise of the last branch.
    cost : Pure
        What a release spends at most, exactly; at most epsilon. `Positives.cost` and `Stream.spent` are what it did spend.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.AdaptiveSparseVector(threshold=100, at_least=2, epsilon=4, sensitivity=sd.COUNTING, split=0.25)
    >>> found = m.release([3, 170, 8, 150, 190, 2, 180], entropy=sd.Seeded(7))
    >>> found.indices.tolist(), found.branches.tolist(), found.cost
    ([1, 3, 4, 6], [0, 0, 0, 0], Pure(epsilon=4))
    """

    threshold: Number
    at_least: int
    epsilon: Number
    sensitivity: Sensitivity
    noise: Family
    branches: int | tuple[int, ...]
    threshold_noise: Noise
    split: Number | str
    boundaries: tuple[Number, ...] | None
    correction: Number | str | None
    correction_run: int | None
    correction_margin: Number | None
    domain_size: int | None
    step: Fraction = field(init=False)
    threshold_epsilon: Fraction = field(init=False)
    token_epsilon: Fraction = field(init=False)
    branch_tokens: tuple[int, ...] = field(init=False)
    branch_epsilons: tuple[Fraction, ...] = field(init=False)
    branch_noise: tuple[Noise, ...] = field(init=False)
    branch_corrections: tuple[Fraction, ...] = field(init=False)
    cost: Pure = field(init=False)

    per_transcript: ClassVar[bool] = True
    passes: ClassVar[int] = 1
    resample: ClassVar[bool] = False

    def __init__(
        self,
        *,
        threshold: Number,
        at_least: int,
        epsilon: Number,
        sensitivity: Sensitivity,
        noise: Family = "exponential",
        branches: int | tuple[int, ...] | list[int] = 2,
        threshold_noise: Family | Noise = "exponential",
        split: Number | Literal["variance"] = "variance",
        boundaries: tuple[Number, ...] | list[Number] | None = None,
        correction: Number | Literal["optimal"] | None = None,
        correction_run: int | None = None,
        correction_margin: Number | None = None,
        domain_size: int | None = None,
    ) -> None:
        name = "AdaptiveSparseVector."
        FINITE(name + "threshold", threshold)
        k = COUNT(name + "at_least", at_least)
        budget = POSITIVE(name + "epsilon", epsilon)
        each_answer(checked_sensitivity(sensitivity, "AdaptiveSparseVector"), "AdaptiveSparseVector")
        query, limit = family_of(name + "noise", noise), family_of(name + "threshold_noise", threshold_noise)
        prices = BRANCHES(name + "branches", branches)
        if isinstance(split, str):
            one_of("variance")(name + "split", split)
        plan = Plan.checked("AdaptiveSparseVector", split, correction, correction_run, correction_margin)
        size = checked_size(domain_size, "AdaptiveSparseVector")
        bound = POSITIVE("Sensitivity.bound", sensitivity.bound)
        kappa = 1 if sensitivity.monotone else 2
        # The first branch has the noise of a sparse vector with so many positives [ding2022, Sec. 5.1, with their square as 16 k^2].
        alike = -(-k * prices[-1] // prices[0])
        share, added = plan.share(Task(query, limit, kappa, alike, resample=False), bound / budget)
        step, moves, threshold_rate, rate = divided("AdaptiveSparseVector", sensitivity, budget, share, k, tokens=prices[-1])
        laws = tuple(LAWS[query](fit_rate(price * rate, "AdaptiveSparseVector")) for price in prices)
        if added is None:
            threshold_scale = step / threshold_rate
            extra = tuple(plan.best_correction((query, step / law.rate), (limit, threshold_scale)) for law in laws)
        else:
            extra = (added,) * len(laws)
        if boundaries is not None:
            given = checked_boundaries(name + "boundaries", boundaries, len(laws))
        else:
            given = tuple(step * far(law, laws[-1]) if added is not None else Fraction(0) for law in laws)
        set_fields(
            self,
            threshold=threshold,
            at_least=k,
            epsilon=epsilon,
            sensitivity=sensitivity,
            noise=query,
            branches=tuple(branches) if isinstance(branches, list) else branches,
            threshold_noise=LAWS[limit](threshold_rate),
            split=split,
            boundaries=tuple(boundaries) if isinstance(boundaries, list) else boundaries,
            correction=correction,
            correction_run=correction_run,
            correction_margin=correction_margin,
            domain_size=size,
            step=step,
            threshold_epsilon=moves * threshold_rate,
            token_epsilon=kappa * moves * rate,
            branch_tokens=prices,
            branch_epsilons=tuple(price * kappa * moves * rate for price in prices),
            branch_noise=laws,
            branch_corrections=tuple(a + b for a, b in zip(given, extra, strict=True)),
        )
        set_fields(self, cost=self.spent(self.tokens))
        cuts_of(self, threshold)  # refuse a threshold beyond the clamp now

    def __repr__(self) -> str:
        return pictured(self, parameters(self))

    @property
    def exact(self) -> bool:
        """True: the law enumerated in the audit is the law that is sampled."""
        return True

    @property
    def tokens(self) -> int:
        """How many tokens there are: `at_least` times the price of the last branch."""
        return self.at_least * self.branch_tokens[-1]

    def spent(self, tokens: int, thresholds: int = 1) -> Pure:
        """Return the cost of a transcript whose positives took so many tokens (`thresholds` 0: no question was asked)."""
        return Pure(epsilon=thresholds * self.threshold_epsilon + tokens * self.token_epsilon)

    @no_remnants
    def release(self, answers: Any, thresholds: Any = None, *, positions: Any = None, entropy: Entropy = SYSTEM) -> Positives:
        """Find positives until no branch can be paid for, with fresh noise in every branch.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. With a domain size: the answers that are not 0.
        thresholds : array of numbers, shape (n,), optional
            Public: a threshold for each answer, instead of the one of the mechanism; boundaries and corrections are added to each.
        positions : array of int, shape (n,)
            Private; only with a domain size, where it is required: the position of each answer in the domain. Positions outside the
            domain and repeated ones are dropped.
        entropy : Entropy
            Where the noise comes from.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number, or thresholds or positions do not go with them.
        """
        fresh_entropy(entropy, "AdaptiveSparseVector.release")
        return released(self, answers, thresholds, positions, entropy)

    @no_remnants
    def open(self, *, entropy: Entropy = SYSTEM) -> Stream:
        """Open a stream: answers come one at a time, chosen after earlier verdicts if you like.

        Raises
        ------
        InvalidParameter
            If the mechanism has a domain size.
        """
        fresh_entropy(entropy, "AdaptiveSparseVector.open")
        if self.domain_size is not None:
            raise InvalidParameter("AdaptiveSparseVector.open needs a mechanism without a domain size.")
        return Stream(self, entropy)


def _small(sensitivity: Sensitivity, epsilon: int, **options: Any) -> AdaptiveSparseVector:
    """Return a mechanism that can be enumerated; answers of counts start one below its threshold, others on it."""
    return AdaptiveSparseVector(
        threshold=int(sensitivity.monotone), at_least=1, epsilon=epsilon, sensitivity=sensitivity, **options
    )


_EITHER_WAY = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
_MOVED, _FEWER = ((0, 0), (1, -1)), ((0, 0), (1, 0))
_REFERENCES = ("ding2022, Alg. 1, Thm 2",)
CLAIMS = (
    Claim(
        name="AdaptiveSparseVector",
        statement="Each transcript, gaps and branches included, is private for what it spent: the threshold and the branches that fired.",
        references=_REFERENCES,
        proof="adaptive-sparse-vector.md",
        neighbours=(
            # The first branch far off: that it fails says nothing then, and the last one reaches the cost of the whole.
            (_small(COUNTING, 11, boundaries=(4, 0)), *_FEWER),
            (_small(_EITHER_WAY, 14), *_MOVED),
            (_small(COUNTING, 10, branches=(2, 3)), *_FEWER),
            (_small(COUNTING, 10, domain_size=2), *_FEWER),
        ),
        tight=True,
    ),
    Claim(
        name="AdaptiveSparseVector",
        statement="The same with Laplace noise, with three branches, and when cheap positives take the place of a dear one.",
        references=_REFERENCES,
        proof="adaptive-sparse-vector.md",
        neighbours=(
            (_small(_EITHER_WAY, 24, noise="laplace"), *_MOVED),
            (_small(_EITHER_WAY, 24, threshold_noise="laplace"), *_MOVED),
            (_small(_EITHER_WAY, 30, noise="laplace", threshold_noise="laplace"), *_MOVED),
            (_small(COUNTING, 18, branches=3), *_FEWER),
            (_small(COUNTING, 14), (0, 0, 0), (1, 0, 0)),
        ),
    ),
)
