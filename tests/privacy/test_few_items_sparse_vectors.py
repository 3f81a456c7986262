"""Sparse vectors where a unit has few items: what two-sided noise would lose, which prices would be wrong, and why there is no such sparse vector."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    AboveThreshold,
    AdaptiveSparseVector,
    GaussianSparseVector,
    GumbelSparseVector,
    HistogramTopK,
    HybridSparseVector,
    Sensitivity,
    SparseVector,
)
from sordino.cost import Pure
from sordino.noise import DiscreteLaplace, Geometric
from sordino_audit import Subject
from sordino_audit.enumeration.subjects import subject_of
from support.enumeration import cdf, pmf
from support.hybrids import excess, found_law, found_outcomes
from support.sparse_vectors import Rules, by_formula, transcripts

ONE_SIDED, TWO_SIDED = ("exponential", 0.5), ("laplace", 0.5)
LN2 = Fraction(693147180559945, 10**15)
EITHER = Sensitivity(bound=1, monotone=False, adjacency="replace-one", step=1)


def statement(most, adjacency="add-remove"):
    """What is true of counts where a unit has so many items at most."""
    adds = adjacency == "add-remove"
    moving = most if adds else 2 * most
    return Sensitivity(
        bound=1,
        monotone=adds,
        adjacency=adjacency,
        step=1,
        l1=moving,
        l2=Fraction(math.isqrt(moving) + 1),
    )


def pairs(bases, most, adjacency):
    """Neighbors, in both orders, where a unit has so many items."""
    n = len(bases[0])
    joined = [move for move in product((0, 1), repeat=n) if 0 < sum(move) <= most]
    moves = joined
    if adjacency == "replace-one":
        gone = [(0,) * n, *joined]
        moves = [
            tuple(a - b for a, b in zip(x, y, strict=True)) for x in gone for y in gone if x != y
        ]
    for base in bases:
        for move in moves:
            other = tuple(a + b for a, b in zip(base, move, strict=True))
            yield base, other
            yield other, base


def spent(most, adjacency):
    """The smaller one of both bounds, in units of the rate, which is one for the threshold and the answers."""
    sigma, moving = (1, most) if adjacency == "add-remove" else (2, 2 * most)
    return lambda found: min(1 + found * sigma, moving)


def worst_of_hybrid(query, limit, bases, k, most, adjacency, price=None):
    """The largest loss of the sorted list beyond its price, for each number of items found."""
    n = len(bases[0])
    return excess(
        lambda q, outcome: found_law(query, limit, q, 0, k, outcome, 40),
        list(found_outcomes(n, k, 2)),
        list(pairs(bases, most, adjacency)),
        0.5,
        price or spent(most, adjacency),
    )


# ---- both bounds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [TWO_SIDED, ONE_SIDED], ids=["two-sided", "one-sided"])
@pytest.mark.parametrize(
    ("most", "adjacency"),
    [(1, "add-remove"), (2, "add-remove"), (1, "replace-one"), (2, "replace-one")],
)
@pytest.mark.sample(3)
def test_two_sided_noise_on_the_answers_would_lose_the_smaller_of_both_bounds(
    most, adjacency, limit
):
    """Whatever noise the threshold has, which the second alignment leaves alone."""
    worst = worst_of_hybrid(TWO_SIDED, limit, [(0, 0), (6, 0), (6, -6)], 2, most, adjacency)
    assert set(worst) == {0, 1, 2}
    assert max(worst.values()) <= 1e-9
    rules = Rules(threshold=limit, query=TWO_SIDED, positives=2)
    price = spent(most, adjacency)
    for a, b in pairs([(0, 0), (4, 0)], most, adjacency):
        for transcript in transcripts(2, rules, 2):
            p, other = (by_formula(q, rules, transcript, 40) for q in (a, b))
            t = sum(lift is not None for _, lift in transcript)
            assert math.log(p / other) / math.log(2) <= price(t) + 1e-9


def test_all_that_a_unit_moves_is_reached():
    """One item that is far above, or far below, pays a full rate; a replaced unit two."""
    worst = worst_of_hybrid(TWO_SIDED, ONE_SIDED, [(9, -9)], 2, 1, "add-remove", lambda found: 1)
    assert max(worst.values()) == pytest.approx(0, abs=0.01)
    worst = worst_of_hybrid(TWO_SIDED, ONE_SIDED, [(9, -9)], 2, 1, "replace-one", lambda found: 1)
    assert max(worst.values()) > 0.9, "noise for M items, and not for 2M, is convicted"


# ---- what is not private -----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [ONE_SIDED, TWO_SIDED], ids=["one-sided", "two-sided"])
def test_one_sided_noise_at_the_scale_of_few_items_is_convicted(limit):
    """Three equal answers; the one that is not found moves up, and the unit has no other item."""
    worst = worst_of_hybrid(ONE_SIDED, limit, [(0, 0, 0)], 3, 1, "add-remove", lambda found: 1)
    assert worst[2] == pytest.approx(2, abs=1e-6 if limit == ONE_SIDED else 0.5)
    rules = Rules(threshold=ONE_SIDED, query=ONE_SIDED, positives=3)
    transcript = ((0, 0), (1, 0), (2, None))
    loss = math.log(
        by_formula((0, 0, 0), rules, transcript) / by_formula((0, 0, 1), rules, transcript)
    )
    assert loss / math.log(2) == pytest.approx(3), (
        "the threshold and two items, where one item was paid for"
    )


def twin(mechanism, n, cost_of):
    """The mechanism as the auditor plays it, with a price of its own."""
    honest = subject_of(mechanism, n)
    return Subject(
        laws=honest.laws,
        play=honest.play,
        steps=honest.steps,
        cost=mechanism.cost,
        cost_of=cost_of,
        sensitivity=mechanism.sensitivity,
    )


@pytest.mark.slow
def test_the_auditor_convicts_the_price_of_few_items_with_one_sided_noise():
    mechanism = HybridSparseVector(
        k=2, threshold=0, epsilon=3 * LN2, sensitivity=statement(1), split=1 / 3
    )
    answers = {"answers_a": (0, 0), "answers_b": (0, 1)}
    assert not audit.exact(mechanism, **answers).broken
    few = twin(mechanism, 2, lambda out: Pure(epsilon=mechanism.noise.rate))
    assert audit.exact(few, **answers).broken


def test_an_answer_that_is_asked_twice_moves_twice():
    """A second pass, or a stream that asks again: the norm is that of the answers asked, with repetitions."""
    rules = Rules(threshold=("laplace", 0.5**3), query=TWO_SIDED, positives=1, passes=2)
    # It lies far above, and is found below twice: the noisy threshold hardly moves, and the answer pays twice.
    worst = max(
        math.log(by_formula(a, rules, transcript, 60) / by_formula(b, rules, transcript, 60))
        / math.log(2)
        for a, b in (((0,), (1,)), ((1,), (0,)), ((-6,), (-5,)), ((6,), (7,)), ((7,), (6,)))
        for transcript in transcripts(1, rules, 2)
    )
    assert 1.9 < worst <= 2, "the rate was paid for once"


def law_with_margin(query, limit, q, threshold, items, lifts, margin, lowest):
    """P(items with their lifts, and by how much the threshold leads the rest, or `lowest` if that is more)."""

    def all_below(height):
        return math.prod(cdf(*query, height - q[i]) for i in range(len(q)) if i not in items)

    total = 0.0
    for rho in range(-40 if limit[0] == "laplace" else 0, 40):
        height = threshold + rho
        mass = pmf(*limit, rho)
        for item, lift in zip(items, lifts, strict=True):
            mass *= pmf(*query, height + lift - q[item])
        best = height - margin
        if margin <= 0 or best < lowest:
            continue
        total += mass * (all_below(best) - (all_below(best - 1) if best > lowest else 0))
    return total


def test_a_margin_that_ends_below_the_threshold_is_convicted():
    """With noise of one side it tells the noise of the threshold: what was found must lie on or above its answer."""
    # Nobody else comes near: the margin ends at the public threshold less one.
    found = {"items": (0,), "lifts": (3,), "margin": 1, "lowest": 3}
    p, other = (law_with_margin(ONE_SIDED, ONE_SIDED, (above, -9), 4, **found) for above in (7, 8))
    assert p > 0.1
    assert other < 1e-5, "with one more only if the rest comes near after all"


# ---- why there is no sparse vector for few items -----------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda s: SparseVector(threshold=5, positives=4, epsilon=1, sensitivity=s),
        lambda s: SparseVector(threshold=5, positives=4, epsilon=1, sensitivity=s, noise="laplace"),
        lambda s: HybridSparseVector(k=4, threshold=5, epsilon=1, sensitivity=s),
        lambda s: HybridSparseVector(k=4, threshold=5, epsilon=1, sensitivity=s, noise="laplace"),
        lambda s: AdaptiveSparseVector(threshold=5, at_least=4, epsilon=1, sensitivity=s),
        lambda s: GumbelSparseVector(threshold=5, positives=4, epsilon=1, sensitivity=s),
        lambda s: GaussianSparseVector(threshold=5, positives=4, rho=1, questions=9, sensitivity=s),
        lambda s: AboveThreshold(threshold=5, epsilon=1, sensitivity=s),
    ],
)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.each_value
def test_what_is_said_of_all_answers_changes_no_sparse_vector(build, adjacency):
    """Not with two-sided noise, and not in a stream, which may ask an answer again."""
    few = statement(1, adjacency)
    with_norm, without = build(few), build(replace(few, l1=None, l2=None))
    known = {
        "noise",
        "threshold_noise",
        "step",
        "cost",
        "threshold_epsilon",
        "positive_epsilon",
        "branch_noise",
    }
    for name in known & set(dir(without)):
        assert getattr(with_norm, name) == getattr(without, name), name


@pytest.mark.parametrize("rate", [Fraction(1, 3), Fraction(1, 50)])
@pytest.mark.parametrize("most", [1, 3, 10, 30])
@pytest.mark.parametrize("ratio", [1, 2, 4])
@pytest.mark.each_value
def test_for_each_outcome_a_sparse_vector_or_a_histogram_of_the_same_price_has_less_noise(
    rate, most, ratio
):
    """Both have their noise at the rates of a sparse vector that would be charged the smaller one of both bounds."""
    limit = Geometric(ratio * rate).variance
    both = DiscreteLaplace(rate).variance + limit
    for found in range(100):
        price = min(ratio * rate + found * rate, most * rate)
        sparse_vector = HybridSparseVector(
            k=max(found, 1), threshold=5, epsilon=(ratio + max(found, 1)) * rate, sensitivity=COUNTING,
            split=Fraction(ratio, ratio + max(found, 1)),
        )  # fmt: skip
        histogram = HistogramTopK(
            k=1, epsilon=most * rate, sensitivity=statement(most).over(999), threshold=5
        )
        others = {
            sparse_vector.spent(found).pure(): sparse_vector.noise.variance
            + sparse_vector.threshold_noise.variance,
            histogram.cost.pure(): histogram.noise.variance,
        }
        cheapest = min(others)
        assert float(cheapest) == pytest.approx(float(price), rel=1e-6)
        assert others[cheapest] < 0.999 * both


def price_at_unit_noise(found, most, design, limit=20):
    """What a design spends where so many are found, over what the histogram does; a test has the same noise."""
    histogram = math.sqrt(2) * most
    if design == "histogram":
        return 1.0
    if design == "sparse vector":  # one-sided, of up to `limit`, with the best split
        whole = (1 + limit ** (2 / 3)) ** 1.5
        threshold = whole / (1 + limit ** (2 / 3))
        return (threshold + found * (whole - threshold) / limit) / histogram
    rate = math.sqrt(2 + 1 / 4)  # the threshold at twice the rate
    return min(2 * rate + found * rate, most * rate) / histogram


def test_the_table_of_the_page():
    """docs/proofs/hybrid-sparse-vector.md, "Few items a unit": M = 10, up to 20 found."""
    table = {
        "sparse vector": [0.20, 0.28, 0.36, 0.58, 0.96, 1.71],
        "histogram": [1, 1, 1, 1, 1, 1],
        "both": [0.21, 0.32, 0.42, 0.74, 1.06, 1.06],
    }
    for design, row in table.items():
        for found, value in zip((0, 1, 2, 5, 10, 20), row, strict=True):
            assert price_at_unit_noise(found, 10, design) == pytest.approx(value, abs=0.006)
    m = HybridSparseVector(k=20, threshold=5, epsilon=1, sensitivity=COUNTING)
    of_test = (m.noise.variance + m.threshold_noise.variance) * float(m.step) ** 2
    scale = math.sqrt(of_test) / (math.sqrt(2) * 10)
    for found, value in zip((0, 1, 2, 5, 10, 20), table["sparse vector"], strict=True):
        assert float(m.spent(found).pure()) * scale == pytest.approx(value, abs=0.006)
