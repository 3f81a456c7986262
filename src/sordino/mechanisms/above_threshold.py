"""AboveThreshold: the position of the first answer that reaches a noisy threshold, nothing else.

Claim: e1 + 2 e2 for any answers, a loss in [-e2, e1 + e2] for monotone ones, in [-max(q e2, (1 - q)
e1), q e1 + e2] for counts of records below rising edges less q for every record, with e1, e2 the
rates times one unit of change [durfee2023, Cor. A.1, Lemmas B.1, B.2]. Proof:
docs/proofs/above-threshold.md. Noise: threshold and answers each one-sided geometric, of two rates,
on the grid; long runs cost no draws. Floats: none after the answers are on the grid.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, final

import numpy as np

from sordino.claims import EITHER_WAY, ClaimsAbout
from sordino.constraints import (
    FINITE,
    POSITIVE,
    PROPORTION,
    TRUTH,
    Number,
    OrNone,
    shown,
    to_fraction,
)
from sordino.cost import Pure, Range
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.grid import Steps, bound_in_steps, fit_rate, step_for, to_steps, to_steps_uncut
from sordino.mechanisms.base import EACH_ANSWER, EACH_ANSWER_MEANS, Mechanism
from sordino.mechanisms.crossings.branches import cut_at
from sordino.mechanisms.crossings.threshold_scan import (
    ThresholdScan,
    general_cost,
    monotone_cost,
    nested_cost,
)
from sordino.noise import Geometric
from sordino.releases import FirstAbove
from sordino.scrubbing import scrubbed
from sordino.sensitivity import COUNTING, Sensitivity


@final
class AboveThreshold(Mechanism):
    """Find the first of n private answers above a public threshold.

    It releases the position, or that there is none, and nothing else. `SparseVector` is for several
    positives, for gaps, and for answers that come one at a time or after earlier verdicts (`open`):
    it does not charge for what it does not find. This mechanism is for one position in a list that
    is complete. It charges the same whether it finds one or not. For monotone answers it states the
    interval of its loss, which composes for less than its epsilon. It costs less with `nested`, for
    counts below rising edges, such as a quantile asks for. It has no stream: to find the first
    positive of a stream take `SparseVector`.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or parameters exclude each other.

    Examples
    --------
    >>> import sordino as sd
    >>> m = sd.AboveThreshold(threshold=100, epsilon=2, sensitivity=sd.COUNTING)
    >>> m.release([3, 170, 8, 150], entropy=sd.Seeded(7)).index, m.cost
    (1, Range(low=1, high=2))
    """

    threshold: Number = parameter(FINITE, "Public threshold, in the unit of the answers.")
    epsilon: Number = parameter(POSITIVE, "Budget of the release.")
    sensitivity: Sensitivity = parameter(EACH_ANSWER, EACH_ANSWER_MEANS)
    ratio: Number = parameter(
        POSITIVE,
        "Share of the threshold over that of the answers, e1/e2, in (0, inf): more makes the "
        "threshold surer and the tests less so.",
        default=1,
    )
    nested: bool = parameter(
        TRUTH,
        "Say True if each unit adds to the answers from some place of the list on and nowhere "
        "before: records below rising edges, counted. The statement is then about these "
        "counts, monotone under add-remove with a step of its own.",
        default=False,
    )
    offset: Number | None = parameter(
        OrNone(PROPORTION),
        "With `nested`: in [0, 1], the share of a unit's count that has been subtracted from "
        "all answers, as in counts less q times the number of records, which need a grid that "
        "knows q: multiply all by the denominator of q. None: nothing, 0.",
        default=None,
    )
    noise: Geometric = derived("The laws of the noise of answers and threshold, in steps.")
    threshold_noise: Geometric = derived(
        "The laws of the noise of answers and threshold, in steps."
    )
    step: Fraction = derived(
        "Width of the grid, in the unit of the answers. Answers beyond 2^52 steps are clamped, "
        "nested ones only from below: without a step of your own that is about 2^31 noise scales."
    )
    threshold_epsilon: Fraction = derived("e1 and e2: the rates times the bound in steps, exactly.")
    answer_epsilon: Fraction = derived("e1 and e2: the rates times the bound in steps, exactly.")
    cost: Pure | Range = derived(
        "What a release spends, exactly, found or not; its pure epsilon is at most epsilon."
    )

    def derive(self) -> None:
        """Set what follows from the parameters."""
        name, sensitivity = "AboveThreshold", self.sensitivity
        budget, share = to_fraction(self.epsilon), to_fraction(self.ratio)
        q = _nested_offset(sensitivity, self.nested, self.offset)
        # Each cost grows in proportion to both rates, so the cost for e2 = 1 tells which e2 the
        # budget buys.
        unit = budget / _scan_cost(share, Fraction(1), sensitivity, q).pure()  # e2, before rounding
        bound = to_fraction(sensitivity.bound)
        # Fine enough for the smaller of the two noise scales.
        step = step_for(sensitivity, (bound / (unit * max(share, Fraction(1)))) ** 2, name)
        moves = bound_in_steps(sensitivity, step, name)
        # Rounded down where they need too many digits; what follows is stated for the rounded
        # rates.
        limit, rate = fit_rate(share * unit / moves, name), fit_rate(unit / moves, name)
        self._set(noise=Geometric(rate), threshold_noise=Geometric(limit), step=step)
        self._set(threshold_epsilon=moves * limit, answer_epsilon=moves * rate)
        self._set(cost=_scan_cost(moves * limit, moves * rate, sensitivity, q))
        self.scan()  # refuse a threshold beyond the clamp now

    def scan(self) -> ThresholdScan:
        """Return the search on the grid, which knows nothing of an epsilon.

        Raises
        ------
        InvalidParameter
            If the threshold is no finite number or lies beyond 2^52 steps, where answers are
            clamped.
        """
        cut = cut_at("AboveThreshold.threshold", self.threshold, Fraction(0), self.step)
        return ThresholdScan(cut.steps, self.threshold_noise, self.noise)

    def steps(self, answers: Any) -> Steps:
        """Return private answers as whole numbers of steps, shape (n,).

        Nested ones are not clamped from above. At the clamp a unit would no longer move later
        answers, but would still move those before them. The proof needs later answers to move at
        least as much.

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number.
        """
        whole = to_steps_uncut if self.nested else to_steps
        return np.atleast_1d(whole(answers, self.step, "AboveThreshold"))

    @scrubbed
    def release(self, answers: Any, *, entropy: Entropy = SYSTEM) -> FirstAbove:
        """Find the first answer above the threshold, with fresh noise.

        Parameters
        ----------
        answers : array of numbers, shape (n,)
            Private. NaN and what is no number count as the lowest value, which is not found; +inf
            is found, and what is released of it is a number that no real answer has.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        FirstAbove

        Raises
        ------
        InvalidParameter
            If the answers are not a list of at least one number.
        """
        fresh_entropy(entropy, "AboveThreshold.release")
        # None: every answer is tested once.
        found = self.scan().first(self.steps(answers), None, entropy)
        return FirstAbove(index=found, mechanism=self, cost=self.cost, simulated=entropy.simulated)


def _nested_offset(
    sensitivity: Sensitivity, nested: bool, offset: Number | None
) -> Fraction | None:
    """Return the offset of nested counts, None for answers that are not nested."""
    name = "AboveThreshold"
    if not nested:
        if offset is not None:
            raise InvalidParameter(
                f"{name}.offset must be None unless nested=True; got {shown(offset)}."
            )
        return None
    q = Fraction(0) if offset is None else Fraction(PROPORTION(f"{name}.offset", offset))
    # Replacing a record moves only the counts between its two values: such counts are not nested.
    if (
        sensitivity.adjacency != "add-remove"
        or not sensitivity.monotone
        or sensitivity.step is None
    ):
        raise InvalidParameter(
            f"{name}.sensitivity must be monotone under add-remove, with a step that the answers "
            "are multiples of, such as COUNTING, where nested=True: it is about the counts "
            "themselves."
        )
    # How many steps one unit adds to a count.
    whole = FINITE("bound", sensitivity.bound) / FINITE("step", sensitivity.step)
    if q and whole.denominator > 1:
        raise InvalidParameter(
            f"{name}.sensitivity must have a bound that is a whole number of steps where an offset "
            f"is given; got {shown(sensitivity.bound)} and a step of {shown(sensitivity.step)}."
        )
    # What is subtracted must keep the answers on the grid: the proof does not cover rounding.
    if (q * whole).denominator > 1:
        raise InvalidParameter(
            f"{name}.offset must be a whole number of steps for each unit: offset times bound, "
            f"over step; got {shown(q)}. Multiply answers, threshold and bound by {q.denominator}."
        )
    return q


def _scan_cost(
    limit: Fraction, unit: Fraction, sensitivity: Sensitivity, offset: Fraction | None
) -> Pure | Range:
    """Return the cost where the threshold has e1 = `limit` and the answers e2 = `unit`."""
    if offset is not None:
        return nested_cost(limit, unit, offset)
    # The lines of the table on the proof page.
    return monotone_cost(limit, unit) if sensitivity.monotone else general_cost(limit, unit)


_COUNTS_IN_FOURTHS = Sensitivity(bound=4, monotone=True, adjacency="add-remove", step=1)
_claim = ClaimsAbout("AboveThreshold", proof="above-threshold.md")
CLAIMS = (
    _claim(
        "The position is private for e1 + 2 e2: the threshold once, the answer that reaches it "
        "twice.",
        ("durfee2023, Cor. A.1",),
        (AboveThreshold(threshold=0, epsilon=3, sensitivity=EITHER_WAY), (0, 0), (1, -1)),
        (AboveThreshold(threshold=0, epsilon=2, sensitivity=EITHER_WAY, ratio=3), (0, 0), (1, -1)),
        tight=True,
    ),
    _claim(
        "For monotone answers its loss lies in [-e2, e1 + e2] or the mirror image.",
        ("durfee2023, Cor. A.1 and A.2",),
        (AboveThreshold(threshold=0, epsilon=2, sensitivity=COUNTING), (0, 0), (1, 0)),
        (AboveThreshold(threshold=0, epsilon=1.5, sensitivity=COUNTING, ratio=0.5), (0, 0), (1, 0)),
        tight=True,
    ),
    _claim(
        "For counts below rising edges under add-remove its loss lies in [-e1, e2] or the mirror "
        "image.",
        ("durfee2023, Lemma B.2",),
        (AboveThreshold(threshold=1, epsilon=1, sensitivity=COUNTING, nested=True), (0,), (1,)),
        (
            AboveThreshold(threshold=0, epsilon=2, sensitivity=COUNTING, nested=True, ratio=2),
            (0, 0),
            (1, 1),
        ),
        tight=True,
    ),
    _claim(
        "For such counts less q for every record it lies in [-max(q e2, (1 - q) e1), q e1 + e2] or "
        "the mirror image.",
        ("durfee2023, Lemma B.1",),
        (
            AboveThreshold(
                threshold=4, epsilon=3, sensitivity=_COUNTS_IN_FOURTHS, nested=True, offset=0.5
            ),
            (5, 0),
            (3, 2),
        ),
        (
            AboveThreshold(
                threshold=0,
                epsilon=3,
                sensitivity=_COUNTS_IN_FOURTHS,
                nested=True,
                ratio=4,
                offset=0.25,
            ),
            (0, 0),
            (3, 3),
        ),
        (
            AboveThreshold(
                threshold=1, epsilon=2, sensitivity=_COUNTS_IN_FOURTHS, nested=True, offset=1
            ),
            (4, 0),
            (0, 0),
        ),
        tight=True,
    ),
)
