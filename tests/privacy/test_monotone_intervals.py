"""Sparse vectors of answers that all move in one direction: the loss of the whole lies in an interval, smaller answers first."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

import sordino_audit as audit
from sordino import COUNTING, AdaptiveSparseVector, HybridSparseVector, Sensitivity, SparseVector
from sordino.cost import Pure, Range, repeat
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import float_log
from support.sparse_vectors import Rules, by_formula

EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)
RISES = [((0, 0), move) for move in ((1, 0), (0, 1), (1, 1))]
QUICK = {"tail": 1e-9, "slack": 1e-3}
# Noise of one side wastes nothing: both ends are attained.
ATTAINED = [
    HybridSparseVector(k=1, threshold=1, epsilon=4, sensitivity=COUNTING, split=0.4),
    *(
        pytest.param(
            SparseVector(
                threshold=1, positives=1, epsilon=4, sensitivity=COUNTING, split=0.5, **options
            ),
            marks=pytest.mark.slow,
        )
        for options in ({}, {"correction": -1}, {"domain_size": 2}, {"passes": 2})
    ),
]
WITHIN = [
    HybridSparseVector(k=1, threshold=1, epsilon=6, sensitivity=COUNTING, noise="laplace"),
    *(
        pytest.param(mechanism, marks=pytest.mark.slow)
        for mechanism in (
            SparseVector(threshold=1, positives=2, epsilon=9, sensitivity=COUNTING, split=0.25),
            SparseVector(
                threshold=1, positives=1, epsilon=8, sensitivity=COUNTING, noise="laplace"
            ),
            SparseVector(
                threshold=1, positives=1, epsilon=8, sensitivity=COUNTING, threshold_noise="laplace"
            ),
            HybridSparseVector(k=2, threshold=1, epsilon=8, sensitivity=COUNTING, split=0.25),
            HybridSparseVector(k=2, threshold=1, epsilon=8, sensitivity=COUNTING, domain_size=2),
            AdaptiveSparseVector(threshold=1, at_least=1, epsilon=9, sensitivity=COUNTING),
        )
    ),
]


@pytest.mark.parametrize("mechanism", ATTAINED + WITHIN)
def test_no_loss_leaves_the_interval(mechanism):
    assert isinstance(mechanism.cost, Range)
    assert mechanism.cost.orientation is None, "which data have the larger answers is not said"
    assert mechanism.cost.high == mechanism.cost.low + mechanism.threshold_epsilon
    report = audit.exact(mechanism, neighbours=RISES, **QUICK)
    assert report.interval_beyond_at_least <= 1e-9, report
    assert not report.broken, report


@pytest.mark.parametrize("mechanism", ATTAINED)
def test_both_ends_are_attained(mechanism):
    """The broken twin is a little narrower at one end: the audit convicts it."""
    subject, whole = subject_of(mechanism, 2), mechanism.cost
    less = Fraction(1, 10**4)
    for low, high in ((whole.low - less, whole.high), (whole.low, whole.high - less)):
        twin = replace_cost(subject, Range(low=low, high=high))
        report = audit.exact(twin, neighbours=RISES, **QUICK)
        assert report.broken
        assert report.interval_beyond_at_least > float(less) / 2


def replace_cost(subject, cost):
    """The same outputs under another claim, for the whole alone."""
    return replace(subject, cost=cost, cost_of=None)


def test_answers_that_move_both_ways_have_no_interval():
    """The broken twin takes the statement of monotone answers for them: of one pair both orders lose the whole.

    The third answer stands high enough that in the second order it alone decides how high the threshold lies.
    """
    rules = Rules(("exponential", Fraction(1, 2)), ("exponential", Fraction(1, 3)))
    less, more = (0, 0, 9, 0), (1, -1, 8, 1)
    e0, b = math.log(2), 2 * math.log(3)
    forth, back = ((0, None), (1, 0)), ((0, None), (1, None), (2, None), (3, 0))
    for transcript, first, second in ((forth, less, more), (back, more, less)):
        loss = float_log(
            by_formula(first, rules, transcript) / by_formula(second, rules, transcript)
        )
        assert loss == pytest.approx(e0 + b, abs=1e-3)
        assert loss > b + 0.5, "what the twin says of one of the two orders"
    general = SparseVector(threshold=0, positives=2, epsilon=9, sensitivity=EITHER, split=0.5)
    assert general.cost == general.spent(2)


def test_what_it_costs():
    """Pure accounts and refunds as before; under zCDP (e0 + 2 B)^2 / 8, and in a list the intervals are summed."""
    search = SparseVector(
        threshold=1,
        positives=7,
        epsilon=1,
        sensitivity=Sensitivity(bound=1, monotone=True, adjacency="add-remove", step=1),
        split=0.3,
    )
    low, high = Fraction(7, 10), Fraction(1)
    assert search.cost == Range(low=low, high=high)
    assert search.cost.pure() == search.spent(7).pure() == 1
    assert search.cost.zcdp() <= Fraction("0.36125")
    assert search.cost.zcdp() < search.spent(7).zcdp()
    assert repeat(search.cost, 20).epsilon(1e-6) < repeat(search.spent(7), 20).epsilon(1e-6)
    stages = SparseVector(
        threshold=1, positives=4, epsilon=4, sensitivity=COUNTING, resample=True, split=0.5
    )
    one = Range(
        low=stages.positive_epsilon, high=stages.threshold_epsilon + stages.positive_epsilon
    )
    assert stages.cost == repeat(one, 4)
    assert stages.cost.pure() == stages.spent(4, 4).pure() == 4


def test_a_transcript_costs_what_it_did():
    """What is refunded on a pure account does not change: a transcript has an epsilon of its own."""
    search = SparseVector(threshold=1, positives=3, epsilon=4, sensitivity=COUNTING, split=0.25)
    found = search.release([0, -5, 1])
    assert found.cost == search.spent(len(found.indices))
    assert isinstance(found.cost, Pure)
    assert math.isfinite(search.cost.epsilon(1e-6))
