"""The statistical audit.

Runs two black boxes, learns what tells them apart, and tests it on other runs.

Claim: with the stated confidence every lower bound is below the truth. Proof:
docs/proofs/statistical-audit.md.
Floats: the logarithm is rounded down; see `binomial_bounds` for the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from statistics import NormalDist
from typing import Any, final

import numpy as np

from sordino.constraints import COUNT, NOT_NEGATIVE, SHARE, Number, shown, text
from sordino.cost import Cost
from sordino.errors import InvalidParameter
from sordino_audit.black_boxes.events import Chooser, Chosen, EventQuestion
from sordino_audit.black_boxes.features import Codes, Columns, columns, learned
from sordino_audit.black_boxes.outcome_costs import (
    RUNS,
    Beyond,
    Sides,
    beyond_pure,
    beyond_zcdp,
    bound_from_above,
    bound_from_below,
    charged,
)
from sordino_audit.black_boxes.runs import CHARGED, BlackBox, Progress, Runner, RunPart
from sordino_audit.report import Bar, Delta, Evidence, StatisticalReport

_FEWEST_SAMPLES = 40
_MOST_KEPT_CHARGES = 100_000
_TESTED_DELTAS = (0.1, 0.01, 0.001)
# e^500 is still a float.
_LARGEST_TESTED_EPSILON = 500
_BOUND_ROUNDING_FACTOR = 1 - 1e-14


def statistical(
    run_a: BlackBox,
    run_b: BlackBox,
    *,
    samples: int,
    confidence: float,
    claimed: Cost | None = None,
    delta: float = 0.0,
    epsilons: Iterable[Number] | None = None,
    batch: int | None = None,
    partition: Callable[[Any], Any] | None = None,
    cost_of: Callable[[Any], Cost] | None = None,
    name: str = "a black box",
    progress: Progress | None = None,
) -> StatisticalReport:
    """Bound the privacy loss between two black boxes from below, with a stated confidence.

    Nothing need be known of their insides.

    The first half of the runs is spent on learning an event that is likely for one box and unlikely
    for the other; the second half tests it. Nothing that was learned can make the bound wrong, only
    weak. The audit itself draws no random numbers.

    Parameters
    ----------
    run_a, run_b : callable
        Take no argument and return what is released from one of two neighboring data sets: numbers,
        texts, arrays, lists, mappings, data classes. A run that raises is an outcome, too: the type
        of its error. Runs must be independent of each other.
    samples : int
        How many runs of each, from 40 to 10^8.
    confidence : float
        In (0, 1): with this probability all lower bounds of the report hold.
    claimed : Cost, optional
        What the mechanism claims to spend between these neighbors.
    delta : float
        In [0, 1): the delta beside `epsilon_at_least`.
    epsilons : iterable of number, optional
        At which epsilons (0 to 500) delta is bounded. None: where a claim without a pure epsilon
        allows a delta of 0.1, 0.01 and 0.001; else none. Each one shares in the confidence.
    batch : int, optional
        How many outcomes one call returns, in a list or an array (rows are outcomes). None: a call
        returns one outcome. A batch that raises ends the audit, because its runs would not be
        independent.
    partition : callable, optional
        Puts each outcome into a class, a hashable value; needed for outcomes of other types.
    cost_of : callable, optional
        What a single outcome is claimed to spend, where that depends on the outcome: takes an
        outcome, returns a Cost that is at most `claimed`, which must then be given. Equal outcomes
        cost the same; runs that raise are left out of this comparison.
    name : str
        What the report calls the black box.
    progress : callable, optional
        Is told the percentage of runs that are done.

    Returns
    -------
    StatisticalReport

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, a batch has another size, or outcomes need a
        partition.

    Examples
    --------
    Randomized response, truthful three times out of four, sold as 0.9 (its loss is ln 3 = 1.0986):

    >>> import sordino as sd
    >>> import sordino_audit as audit
    >>> coin = audit.Subject(
    ...     laws=[audit.Finite([3, 1])],
    ...     play=lambda bit, lie: bit ^ lie[:, 0],
    ...     cost=sd.cost.Pure(epsilon=1),
    ... )
    >>> a, b = (audit.black_box(coin, bit, entropy=sd.Seeded(bit), batch=1000) for bit in (0, 1))
    >>> report = audit.statistical(
    ...     a, b, samples=100_000, confidence=0.999, claimed=sd.cost.Pure(epsilon=0.9), batch=1000
    ... )
    >>> report.broken, 1.0 < report.epsilon_at_least < 1.0986
    (True, True)
    """
    samples = COUNT("audit.statistical.samples", samples)
    if not _FEWEST_SAMPLES <= samples <= RUNS:
        raise InvalidParameter(
            f"audit.statistical.samples must be a whole number from {_FEWEST_SAMPLES} to 10^8; got "
            f"{samples}."
        )
    # A fraction: shares of it add up to the level without rounding.
    level = 1 - SHARE("audit.statistical.confidence", confidence)
    beside = NOT_NEGATIVE("audit.statistical.delta", delta)
    if beside >= 1:
        raise InvalidParameter(
            f"audit.statistical.delta must be a number in [0, 1); got {shown(delta)}."
        )
    boxes: tuple[Any, ...] = run_a, run_b
    if not all(map(callable, boxes)):
        raise InvalidParameter(
            "audit.statistical needs two callables that take no argument; "
            "audit.black_box makes them of mechanisms."
        )
    if not isinstance(claimed, Cost | None):
        raise InvalidParameter(
            "audit.statistical.claimed must be a cost, such as cost.Pure(epsilon=1); got "
            f"{shown(claimed)}."
        )
    where = _choose_epsilons(claimed, epsilons)
    text(name, "audit.statistical.name")
    if cost_of is not None and claimed is None:
        raise InvalidParameter(
            "audit.statistical.cost_of needs claimed, the most that any outcome is charged."
        )
    runner = Runner(
        None if batch is None else COUNT("audit.statistical.batch", batch),
        partition,
        _make_charge_function(cost_of, claimed),
    )
    sizes = _split_samples(samples)
    parts = runner.both((run_a, run_b), sizes, progress)
    # Each question gets an equal share of the level, so that all bounds hold together (union
    # bound).
    share = level / (1 + len(where) + (cost_of is not None))
    learning = _LearnedEvents(parts)
    # Choosing looks at the first two parts only; the third is for the tests and the bars after
    # that.
    questions = [
        EventQuestion(epsilon, float(beside), sizes[2], _interval_width(share))
        for epsilon in (None, *where)
    ]
    chosen = [learning.chooser.best(question)[0] for question in questions]
    # Two bounds on one event, each at half of its share ("Several questions" on the proof page).
    evidence = [_test_event(one, learning.codes[2], share / 2, learning.chooser) for one in chosen]
    beyond = Beyond(-math.inf, None)
    if claimed is not None and cost_of is not None:
        beyond = learning.beyond(
            claimed, EventQuestion(None, 0.0, sizes[2], _interval_width(share)), float(share)
        )
    return StatisticalReport(
        name=name,
        claimed=claimed,
        confidence=float(1 - level),
        epsilon_at_least=_loss_lower_bound(evidence[0], float(beside)),
        epsilon_at_most=math.inf,
        delta=float(beside),
        claimed_epsilon=math.inf
        if claimed is None
        else float(claimed.pure() if beside == 0 else claimed.epsilon(float(beside))),
        deltas=tuple(
            Delta(
                epsilon=at,
                at_least=_delta_lower_bound(one, at),
                at_most=1.0,
                claimed=1.0 if claimed is None else claimed.delta(at),
            )
            for at, one in zip(where, evidence[1:], strict=True)
        ),
        witness=evidence[0],
        evidence=tuple(evidence[1:]),
        beyond_at_least=beyond.at_least,
        beyond_evidence=beyond.evidence,
        samples=samples,
        tested=sizes[2],
        all_raised=all(part.all_raised for pair in parts for part in pair),
        bars=tuple(
            Bar(event=word, hits_a=a, hits_b=b)
            for word, a, b in learning.chooser.bars(chosen[0].event, learning.codes[2])
        ),
    )


def _choose_epsilons(claimed: Cost | None, epsilons: Iterable[Number] | None) -> list[float]:
    """Return where delta is asked for."""
    if epsilons is not None:
        asked = [float(NOT_NEGATIVE("audit.statistical.epsilons", epsilon)) for epsilon in epsilons]
        if any(epsilon > _LARGEST_TESTED_EPSILON for epsilon in asked):
            raise InvalidParameter(
                f"audit.statistical.epsilons must be numbers from 0 to {_LARGEST_TESTED_EPSILON}; "
                f"got {max(asked):g}."
            )
        return asked
    # A pure claim is refuted by the log ratio: more questions would only thin out the confidence.
    if claimed is None or isinstance(claimed.pure(), Fraction):
        return []
    return [
        float(claimed.epsilon(delta))
        for delta in _TESTED_DELTAS
        if claimed.epsilon(delta) < _LARGEST_TESTED_EPSILON
    ]


def _split_samples(samples: int) -> tuple[int, int, int]:
    """Return how many runs are for learning, for choosing, and for the test."""
    # Half of the runs test, a quarter chooses, a quarter teaches.
    tested = samples - samples // 2
    chosen = samples // 4
    return samples - tested - chosen, chosen, tested


def _interval_width(share: Fraction) -> float:
    # 1 - share / 2 rounds to 1 for tiny shares. The width only ranks events, so about 8 is good
    # enough then.
    return (
        NormalDist().inv_cdf(1 - max(float(share) / 2, 1e-300))
        if share / 2 > Fraction(1, 10**15)
        else 8.0
    )


def _make_charge_function(
    cost_of: Callable[[Any], Cost] | None, claimed: Cost | None
) -> Callable[[Any], float] | None:
    if cost_of is None or claimed is None:
        return None
    # Outcomes repeat: their charges are kept, up to a number that bounds the memory.
    known: dict[Any, float] = {}

    def charge(outcome: Any) -> float:
        try:
            if outcome in known:
                return known[outcome]
        except TypeError:  # it has no hash
            return charged(cost_of(outcome), claimed)
        value = charged(cost_of(outcome), claimed)
        if len(known) < _MOST_KEPT_CHARGES:
            known[outcome] = value
        return value

    return charge


@final
class _LearnedEvents:
    """The features and events of the first runs, and all runs in their terms."""

    def __init__(self, parts: list[tuple[RunPart, RunPart]]) -> None:
        # The features come from the first part alone. All runs are then put in their terms.
        paths, self.features = learned(*parts[0])
        self.codes: list[tuple[Codes, Codes]] = []
        self._costs: list[Sides] = []
        for pair in parts:
            a, b = (columns(part, paths) for part in pair)
            self.codes.append((self._stacked(a), self._stacked(b)))
            if CHARGED in paths:
                self._costs.append((a.numbers[CHARGED], b.numbers[CHARGED]))
        sizes = self.codes[0][0].shape[0], self.codes[1][0].shape[0]
        self.chooser = Chooser(self.features, self.codes[0], self.codes[1], runs=sizes)

    def _stacked(self, found: Columns) -> Codes:
        # Features are read column by column.
        stacked: Codes = np.asfortranarray(
            np.column_stack([feature.codes(found) for feature in self.features])
        )
        return stacked

    def beyond(self, claimed: Cost, question: EventQuestion, share: float) -> Beyond:
        """Return by how much outcomes lose more than is charged for them."""
        if not self._costs:  # every run raised
            return Beyond(-math.inf, None)
        if isinstance(claimed.pure(), Fraction):
            return beyond_pure(self.features, self.codes, self._costs, question, share / 2)
        return beyond_zcdp(self._costs, share / 2)


def _test_event(
    chosen: Chosen, test: tuple[Codes, Codes], level: Fraction, chooser: Chooser
) -> Evidence:
    """Return what the tested runs say about an event.

    Each of the two bounds fails with probability `level` at most.
    """
    # The event favors one box: its probability there is bounded from below, at the other from
    # above.
    more, fewer = test[chosen.more], test[1 - chosen.more]
    hits, others = chosen.event.hits(more), chosen.event.hits(fewer)
    runs = more.shape[0]
    return Evidence(
        event=chooser.says(chosen.event),
        more="ab"[chosen.more],
        hits_more=hits,
        hits_fewer=others,
        runs=runs,
        at_least=bound_from_below(hits, runs, float(level) * _BOUND_ROUNDING_FACTOR),
        at_most=bound_from_above(others, runs, float(level) * _BOUND_ROUNDING_FACTOR),
    )


def _loss_lower_bound(evidence: Evidence, delta: float) -> float:
    """Return the largest epsilon that the two bounds refute, rounded down.

    0 if they refute none.
    """
    # Rounded down at each step: the bound must not be larger than what was shown.
    left = (evidence.at_least - delta) * _BOUND_ROUNDING_FACTOR
    if left <= evidence.at_most:
        return 0.0
    return max(0.0, math.log(left / evidence.at_most) * _BOUND_ROUNDING_FACTOR)


def _delta_lower_bound(evidence: Evidence, epsilon: float) -> float:
    """Return the delta at `epsilon` that the two bounds show, rounded down."""
    return max(
        0.0,
        (evidence.at_least - math.exp(epsilon) * evidence.at_most * (1 + 1e-14))
        * _BOUND_ROUNDING_FACTOR,
    )
