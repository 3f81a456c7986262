"""The privacy loss of the hybrid sparse vector, enumerated exactly: none above what a release says it spent, and attained."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import COUNTING, HybridSparseVector, Seeded, Sensitivity
from sordino.cost import Pure
from sordino.mechanisms.hybrid_sparse_vector import decide
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import pmf
from support.hybrids import NOBODY, excess, found, found_law, found_outcomes, neighbours

HALF = Fraction(1, 2)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def released(noisy, threshold, k):
    """What the product decides, in the words of the definition."""
    items, lifts = (row.tolist() for row in decide(np.array(noisy), np.array([threshold]), k))
    s = sum(item >= 0 for item in items)
    assert items[s:] == [NOBODY] * (k - s)
    assert not any(lifts[s:])
    return tuple(items[:s]), tuple(lifts[:s])


@pytest.mark.parametrize(
    ("n", "k", "high"), [(1, 1, 4), (2, 1, 4), (2, 2, 4), (3, 2, 3), (3, 3, 3), (4, 2, 2)]
)
def test_decide_does_what_the_definition_says(n, k, high):
    for threshold, *noisy in product(range(high + 1), repeat=n + 1):
        assert released(noisy, threshold, k) == found(noisy, threshold, k)


def test_long_lists_and_lists_in_rows_are_decided_alike():
    rng = np.random.Generator(np.random.PCG64(1))
    for k in (1, 3, 7):
        rows, thresholds = rng.integers(0, 30, (40, 100)), rng.integers(20, 30, (40, 1))
        items, lifts = decide(rows, thresholds, k)
        for row, threshold, one, other in zip(rows, thresholds, items, lifts, strict=True):
            assert released(row, int(threshold[0]), k) == found(row.tolist(), int(threshold[0]), k)
            assert [x.tolist() for x in decide(row, threshold, k)] == [one.tolist(), other.tolist()]


@pytest.mark.parametrize("threshold", [2, 1 << 61, 1 << 62, 1 << 70, -(1 << 61), -(1 << 62)])
def test_noise_beyond_any_word_is_decided_alike(threshold):
    for values in ([1 << 71, -3, 1 << 62], [(1 << 62) + 5, -(1 << 62) - 5]):
        assert released(values, threshold, 2) == found(values, threshold, 2)


@pytest.mark.parametrize("limit", ["exponential", "laplace"])
@pytest.mark.parametrize("query", ["exponential", "laplace"])
@pytest.mark.slow
def test_the_law_of_the_definition_is_that_of_the_formula(query, limit):
    q, threshold, box = (1, 0), 1, 6
    laws = [(limit, HALF), (query, Fraction(1, 3)), (query, Fraction(1, 3))]
    supports = [range(-box if kind == "laplace" else 0, box + 1) for kind, _ in laws]
    for k in (1, 2):
        law = defaultdict(Fraction)
        for rho, *noise in product(*supports):
            mass = math.prod(pmf(*one, z) for one, z in zip(laws, (rho, *noise), strict=True))
            law[found([a + b for a, b in zip(q, noise, strict=True)], threshold + rho, k)] += mass
        rest = 1 - sum(law.values())
        for outcome in found_outcomes(2, k, 3):
            exactly = found_law(laws[1], laws[0], q, threshold, k, outcome)
            assert law.get(outcome, 0) <= exactly <= law.get(outcome, 0) + rest


def price(*, monotone):
    return lambda s: 1 + s * (1 if monotone else 2)


CASES = [
    ("exponential", "exponential", 2, 1, True),
    ("exponential", "exponential", 2, 1, False),
    ("exponential", "exponential", 2, 2, True),
    ("exponential", "exponential", 2, 2, False),
    ("laplace", "exponential", 2, 2, False),
    ("exponential", "laplace", 2, 2, False),
    ("laplace", "laplace", 2, 1, True),
    ("exponential", "exponential", 3, 2, True),
    pytest.param("exponential", "exponential", 3, 2, False, marks=pytest.mark.slow),
    pytest.param("exponential", "exponential", 3, 3, False, marks=pytest.mark.slow),
    pytest.param("laplace", "exponential", 3, 2, True, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("query", "limit", "n", "k", "monotone"), CASES)
def test_no_release_loses_more_than_it_spent_and_each_reaches_it(query, limit, n, k, monotone):
    outcomes, pairs = list(found_outcomes(n, k, 2)), neighbours(n, monotone=monotone)
    worst = excess(
        lambda q, outcome: found_law((query, 0.5), (limit, 0.5), q, 0, k, outcome, 40),
        outcomes,
        pairs,
        0.5,
        price(monotone=monotone),
    )
    assert set(worst) == set(range(k + 1))
    assert max(worst.values()) <= 1e-9
    if query == limit == "exponential":
        for s in range(k + 1):
            if s < n:  # somebody must be below for the threshold to be paid for
                assert worst[s] >= -1e-9, f"{s} items above the threshold reach their price"


def test_what_is_declared_is_what_is_enumerated():
    for statement in (COUNTING, EITHER):
        for k in (1, 2, 5):
            m = HybridSparseVector(k=k, threshold=3, epsilon=0.7, sensitivity=statement, split=0.2)
            spread = 1 if statement.monotone else 2
            assert m.threshold_epsilon == m.threshold_noise.rate == Fraction(14, 100)
            assert m.positive_epsilon == spread * m.noise.rate == Fraction(56, 100) / k
            assert [m.spent(s).pure() for s in range(k + 1)] == [
                m.threshold_epsilon + s * m.positive_epsilon for s in range(k + 1)
            ]
            assert m.cost.pure() == m.spent(k).pure() == Fraction(7, 10)
    rounded = HybridSparseVector(
        k=3, threshold=3, epsilon=Fraction(1, 3) + Fraction(1, 3**30), sensitivity=EITHER
    )
    assert (
        rounded.cost.pure()
        == rounded.threshold_noise.rate + 6 * rounded.noise.rate
        <= Fraction(1, 3) + Fraction(1, 3**30)
    )


@pytest.mark.parametrize(("k", "monotone"), [(1, True), (1, False), (12, True), (12, False)])
def test_the_split_has_the_least_variance(k, monotone):
    """theta = 1/(1 + (kappa k)^(2/3)) [ding2022, Sec. 5.1]; (1 + (kappa k)^(2/3))^3 is the variance of a gap at epsilon 1."""
    statement = Sensitivity(bound=1, monotone=monotone, adjacency="add-remove")
    m = HybridSparseVector(k=k, threshold=0, epsilon=1, sensitivity=statement)
    kappa = 1 if monotone else 2
    assert float(m.threshold_epsilon) == pytest.approx(1 / (1 + (kappa * k) ** (2 / 3)), rel=1e-5)
    variance = (m.noise.variance + m.threshold_noise.variance) * float(m.step) ** 2
    assert variance == pytest.approx((1 + (kappa * k) ** (2 / 3)) ** 3, rel=1e-4)


@pytest.mark.slow
def test_the_claims_hold_and_are_reached():
    tight, laplace = audit.run_claims("HybridSparseVector")
    tight.raise_if_broken()
    assert tight.tight
    assert not laplace.broken


@pytest.mark.parametrize(
    "options",
    [{}, {"noise": "laplace"}, {"threshold_noise": "laplace"}, {"threshold": 0.5}, {"k": 2}],
)
@pytest.mark.slow
def test_a_search_finds_nothing_beyond_the_claim(options):
    m = HybridSparseVector(
        **({"k": 1, "threshold": 1, "epsilon": 12, "sensitivity": EITHER} | options)
    )
    assert not audit.exact(m, search=True, n=2, limit=24).broken


@pytest.mark.parametrize("statement", [COUNTING, EITHER])
@pytest.mark.slow
def test_a_domain_has_the_law_of_the_list(statement):
    known = {"k": 2, "threshold": 1, "epsilon": 12, "sensitivity": statement}
    for a, b in (((1, 0), (1, 1)), ((0, 2), (0, 1))):
        of_list, of_domain = (
            audit.exact(HybridSparseVector(**known, domain_size=size), answers_a=a, answers_b=b)
            for size in (None, 2)
        )
        assert of_domain.epsilon_at_least == pytest.approx(of_list.epsilon_at_least, abs=1e-9)
        assert of_domain.outputs == of_list.outputs
        assert not of_domain.broken


def twin(m, n, **changes):
    """The mechanism as the auditor plays it, with something changed."""
    honest = subject_of(m, n)
    own = {
        "laws": honest.laws,
        "play": honest.play,
        "steps": honest.steps,
        "cost": m.cost,
        "cost_of": honest.cost_of,
        "sensitivity": m.sensitivity,
    }
    return Subject(**(own | changes))


GENERAL = HybridSparseVector(k=2, threshold=0, epsilon=12, sensitivity=EITHER, split=0.25)


def test_a_threshold_that_is_not_paid_for_is_convicted():
    free = lambda out: Pure(epsilon=sum(item >= 0 for item in out[:2]) * GENERAL.positive_epsilon)  # noqa: E731
    pair = {"answers_a": (0, 0), "answers_b": (1, -1)}
    assert not audit.exact(twin(GENERAL, 2), **pair).broken
    report = audit.exact(twin(GENERAL, 2, cost_of=free), **pair)
    assert report.broken
    assert report.beyond_at_least == pytest.approx(3, abs=1e-6)


def test_an_item_that_is_not_paid_for_is_convicted():
    def one_less(out):
        s = sum(item >= 0 for item in out[:2])
        return GENERAL.spent(s - 1 if s == 1 else s)

    report = audit.exact(twin(GENERAL, 2, cost_of=one_less), answers_a=(0, 0), answers_b=(1, -1))
    assert report.beyond_at_least == pytest.approx(4.5, abs=1e-6)


def test_noise_for_monotone_lists_where_answers_move_both_ways_is_convicted():
    m = HybridSparseVector(k=1, threshold=0, epsilon=4, sensitivity=COUNTING, split=0.5)
    report = audit.exact(twin(m, 2, sensitivity=EITHER), answers_a=(0, 0), answers_b=(1, -1))
    assert report.epsilon_at_least == pytest.approx(6, abs=1e-6), (
        "the threshold once, the item twice"
    )


FINE = 64


def density(q, query, limit, outcome):
    ratios = [("exponential", math.exp(-1 / (scale * FINE))) for scale in (query, limit)]
    return math.log(found_law(*ratios, tuple(x * FINE for x in q), 0, 2, outcome, 40 * FINE))


def test_table_of_losses():
    """Continuous limit, scales 2 for the threshold and 4 for the answers: 1/2 for it and 1/2 for each item are attained."""
    empty, one = ((), ()), ((0,), (FINE,))
    assert density((0, 0), 4, 2, empty) - density((1, 1), 4, 2, empty) == pytest.approx(
        0.5, abs=1e-6
    )
    assert density((0, 0), 4, 2, one) - density((-1, 1), 4, 2, one) == pytest.approx(1, abs=1e-6)
    two = (0, 1), (FINE, 0)
    assert density((0, 0, 0), 4, 2, two) - density((-1, -1, 1), 4, 2, two) == pytest.approx(
        1.5, abs=1e-6
    )


@pytest.mark.parametrize(
    ("noise", "threshold_noise"),
    [("exponential", "exponential"), ("laplace", "exponential"), ("exponential", "laplace")],
)
@pytest.mark.slow
def test_a_release_tells_what_was_decided(noise, threshold_noise):
    for threshold in (2, 2.25, -3):
        m = HybridSparseVector(
            k=2,
            threshold=threshold,
            epsilon=1,
            sensitivity=EITHER,
            noise=noise,
            threshold_noise=threshold_noise,
        )
        q = [3, 1, 2]
        center = m.noise.mean - m.threshold_noise.mean
        for seed in range(60):
            entropy = Seeded(seed)
            rho, eta = (
                m.threshold_noise.sample(1, entropy).tolist(),
                m.noise.sample(3, entropy).tolist(),
            )
            height = math.ceil(threshold) + rho[0]
            items, lifts = found([a + b for a, b in zip(q, eta, strict=True)], height, 2)
            release = m.release(q, entropy=Seeded(seed))
            assert release.indices.tolist() == list(items)
            assert release.gaps.tolist() == [
                lift + math.ceil(threshold) - threshold for lift in lifts
            ]
            assert release.estimates.tolist() == [
                math.ceil(threshold) + lift - center for lift in lifts
            ]
            assert (release.asked, release.branches.tolist(), release.passes.tolist()) == (
                3,
                [0] * len(items),
                [1] * len(items),
            )
            assert release.cost == m.spent(len(items))


@pytest.mark.slow
def test_estimates_are_centered():
    m = HybridSparseVector(k=3, threshold=100, epsilon=3, sensitivity=COUNTING)
    entropy = Seeded(5)
    seen = np.array([m.release([190, 280, 0], entropy=entropy).estimates for _ in range(800)])
    error = np.array([280.0, 190.0]) - seen
    variance = m.noise.variance + m.threshold_noise.variance
    assert (np.abs(error.mean(axis=0)) < 6 * math.sqrt(variance / 800)).all()
    assert error.var(axis=0) == pytest.approx(variance, rel=0.3)
