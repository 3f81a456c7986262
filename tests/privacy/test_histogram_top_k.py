"""The best of a noisy histogram: what it loses, with few items a unit, and what of that noise cannot do."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import (
    COUNTING,
    HistogramTopK,
    HybridTopK,
    InvalidParameter,
    NoisyTopK,
    Seeded,
    Sensitivity,
)
from sordino.mechanisms.crossings.branches import Cut
from sordino.mechanisms.histogram_top_k import CLAIMS, NOBODY, decide
from support.enumeration import by_formula, float_log, outputs

HALF = Fraction(1, 2)
LN2 = Fraction(693147180559945, 10**15)


def statement(most, adjacency="add-remove"):
    """What is true of counts where a unit has so many items at most."""
    adds = adjacency == "add-remove"
    return Sensitivity(
        bound=1, monotone=adds, adjacency=adjacency, step=1, l1=most if adds else 2 * most
    )


def moves(n, most, adjacency):
    """Every way in which the counts of neighbors differ."""
    joined = [move for move in product((0, 1), repeat=n) if sum(move) <= most]
    if adjacency == "add-remove":
        return joined + [tuple(-x for x in move) for move in joined]
    return [
        tuple(a - b for a, b in zip(one, other, strict=True)) for one in joined for other in joined
    ]


# ---- noisy top-k with two-sided noise ----------------------------------------------------------------------


def worst(kind, n, k, most, adjacency, *, bases, highest=2):
    """The largest loss of noisy top-k, in units of the rate."""
    found = 0.0
    for q in bases:
        for move in moves(n, most, adjacency):
            other = tuple(a + b for a, b in zip(q, move, strict=True))
            for key in outputs(n, k, highest):
                p, p_other = (by_formula(kind, HALF, x, *key, reach=40) for x in (q, other))
                if p:
                    found = max(
                        found,
                        math.inf if not p_other else -float_log(p / p_other) / float_log(HALF),
                    )
    return found


@pytest.mark.parametrize(
    ("n", "k", "most", "adjacency", "bound"),
    [
        (3, 2, 1, "add-remove", 1),
        (3, 3, 1, "add-remove", 1),
        (3, 3, 2, "add-remove", 2),
        (3, 3, 1, "replace-one", 2),
    ],
)
@pytest.mark.slow
def test_two_sided_noise_loses_what_the_answers_move(n, k, most, adjacency, bound):
    far = tuple(3 * x for x in range(n))
    found = worst("laplace", n, k, most, adjacency, bases=[(0,) * n, far[::-1]])
    assert found <= bound + 1e-9
    if most == 1:
        assert found >= 0.7 * bound, "the bound is approached where items stand far apart"
    mechanism = NoisyTopK(
        k=k, epsilon=bound, sensitivity=statement(most, adjacency), noise="laplace"
    )
    assert mechanism.noise.rate == 1
    assert mechanism.cost.pure() == bound


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.slow
def test_one_sided_noise_at_the_scale_of_few_items_is_convicted(k):
    n = k + 1
    # All equal, and the loser alone moves up: the unit has one item.
    found = worst("exponential", n, k, 1, "add-remove", bases=[(0,) * n], highest=0)
    assert found == pytest.approx(k, abs=1e-9), "k times the rate, where one item was paid for"
    mechanism = NoisyTopK(k=k, epsilon=1, sensitivity=statement(1))
    assert mechanism.noise.rate == Fraction(1, k), "so it keeps the noise of k items"


@pytest.mark.slow
def test_a_unit_of_one_item_that_is_replaced_moves_two_counts():
    found = worst("laplace", 3, 3, 1, "replace-one", bases=[(6, 3, 0)])
    assert found > 1.5, "noise for M items, and not for 2M, is convicted"


def test_without_a_statement_about_all_answers_nothing_changes():
    assert NoisyTopK(k=5, epsilon=1, sensitivity=COUNTING, noise="laplace").noise.rate == Fraction(
        1, 5
    )
    assert NoisyTopK(
        k=5, epsilon=1, sensitivity=statement(9), noise="laplace"
    ).noise.rate == Fraction(1, 5)
    assert NoisyTopK(
        k=5, epsilon=1, sensitivity=statement(2), noise="gumbel"
    ).noise.rate == Fraction(1, 5)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_hybrid_list_costs_no_more_than_the_answers_move(adjacency, most):
    hybrid = HybridTopK(
        k=5, threshold=3, epsilon=1, sensitivity=statement(most, adjacency), noise="laplace"
    )
    all_moves = most if adjacency == "add-remove" else 2 * most
    assert hybrid.cost.pure() == 1
    assert hybrid.noise.rate == Fraction(1, all_moves)
    for found in range(5):
        alone = found + 1 if adjacency == "add-remove" else 2 * found + 1
        assert hybrid.spent(found).pure() == Fraction(min(alone, all_moves), all_moves)
    one_sided = HybridTopK(k=5, threshold=3, epsilon=1, sensitivity=statement(most, adjacency))
    assert one_sided.noise.rate == Fraction(1, 5 if adjacency == "add-remove" else 10)


@pytest.mark.parametrize(("a", "b"), [((0, 0), (0, 1)), ((1, 1), (0, 1)), ((3, 0), (3, 1))])
def test_the_auditor_agrees_about_hybrid_lists_of_few_items(a, b):
    hybrid = HybridTopK(k=2, threshold=1, epsilon=2, sensitivity=statement(1), noise="laplace")
    assert not audit.exact(hybrid, answers_a=a, answers_b=b).broken


# ---- the histogram -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("cut", [None, Cut(2, Fraction(0))])
@pytest.mark.each_value
def test_each_winner_would_have_won_with_its_entry_and_not_with_less(k, cut):
    for noisy in product(range(4), repeat=4):
        if cut is None and k > len(noisy):
            continue
        items, values, entries = (part.tolist() for part in decide(np.array(noisy), k, cut))
        for item, value, entry in zip(items, values, entries, strict=True):
            if item == NOBODY:
                continue
            assert value == noisy[item]
            for other in range(-1, 6):
                changed = np.array([other if place == item else x for place, x in enumerate(noisy)])
                wins = item in decide(changed, k, cut)[0].tolist()
                assert wins == (other >= entry)


def test_many_lists_in_rows_are_decided_alike():
    rng = np.random.Generator(np.random.PCG64(2))
    rows = rng.integers(0, 9, (50, 7))
    for k, cut in product((1, 3, 7, 9), (None, Cut(4, Fraction(0)))):
        if cut is None and k > 7:
            continue
        together = decide(rows, k, cut)
        for number, row in enumerate(rows):
            assert [part.tolist() for part in decide(row, k, cut)] == [
                part[number].tolist() for part in together
            ]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.statement[:30])
@pytest.mark.slow
def test_the_claims_hold(claim):
    for mechanism, a, b in claim.neighbours:
        report = audit.exact(mechanism, answers_a=a, answers_b=b)
        assert not report.broken, report


def test_noise_for_one_count_where_two_move_is_convicted():
    # A replaced unit takes one item away and brings another: two counts move, and the noise is for one.
    mechanism = HistogramTopK(k=2, epsilon=LN2, sensitivity=statement(1).over(2))
    twin = audit.Subject(
        laws=[mechanism.noise] * 2,
        cost=mechanism.cost,
        decide=lambda noisy: np.concatenate(decide(noisy, 2, None), axis=-1),
        sensitivity=statement(1, "replace-one").over(2),
    )
    assert audit.exact(twin, answers_a=(1, 0), answers_b=(0, 1)).broken


def renyi(rate, order):
    """The divergence of an order between discrete Gaussian noise and the same noise one step on."""
    x = np.arange(-2000.0, 2001.0)
    together = np.exp(-order * rate * x**2 - (1 - order) * rate * (x - 1) ** 2)
    return math.log(together.sum() / np.exp(-rate * x**2).sum()) / (order - 1)


@pytest.mark.parametrize("most", [1, 3, 40])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rho", [Fraction(1, 2), Fraction(1, 50)])
@pytest.mark.each_value
def test_gaussian_noise_of_few_items_is_zcdp_and_reaches_it(rho, most, adjacency):
    """All ways in which a unit moves the counts: so many by one step each, whose divergences add up."""
    moving = most if adjacency == "add-remove" else 2 * most
    mechanism = HistogramTopK(k=3, rho=rho, sensitivity=statement(most, adjacency).over(9999, "l2"))
    assert mechanism.cost.zcdp() <= rho
    # A root is rounded up where it is not whole.
    assert mechanism.noise.rate == pytest.approx(float(rho / moving), rel=1e-9)
    for order in (1.01, 1.5, 2, 8):
        all_counts = moving * renyi(float(mechanism.noise.rate), order)
        assert all_counts <= order * float(rho) * (1 + 1e-9)
        if rho < Fraction(1, 10) or most > 1:
            assert all_counts > 0.99 * order * float(rho)
        # The twin: noise for M items where a unit is replaced, which moves twice as many.
        if adjacency == "replace-one" and most > 1:
            cheap = HistogramTopK(k=3, rho=rho, sensitivity=statement(most).over(9999, "l2")).noise
            assert moving * renyi(float(cheap.rate), order) > 1.9 * order * float(rho)


def test_the_auditor_takes_neighbors_that_keep_both_statements():
    hybrid = HybridTopK(k=2, threshold=1, epsilon=2, sensitivity=statement(1), noise="laplace")
    with pytest.raises(
        InvalidParameter, match="the L1 norm of all by at most 1; got answers at distances 1, 1"
    ):
        audit.exact(hybrid, answers_a=(0, 0), answers_b=(1, 1))


def test_a_list_below_a_threshold_may_be_short_or_empty():
    mechanism = HistogramTopK(k=5, epsilon=20, sensitivity=statement(1).over(9), threshold=10)
    top = mechanism.release([100, 0, 50], entropy=Seeded(1))
    assert top.indices.tolist() == [0, 2]
    assert top.crossed
    assert top.entries.tolist() == [10, 10]
    assert mechanism.release([0, 0], entropy=Seeded(1)).indices.size == 0
    full = HistogramTopK(k=1, epsilon=20, sensitivity=statement(1).over(9), threshold=10)
    assert full.release([100, 0, 50], entropy=Seeded(1)).crossed is False


def test_without_losers_any_value_would_have_won():
    mechanism = HistogramTopK(k=2, epsilon=20, sensitivity=statement(1).over(2))
    top = mechanism.release([100, 0], entropy=Seeded(1))
    assert top.entries.tolist() == [-math.inf, -math.inf]
    assert top.crossed is None


@pytest.mark.parametrize("size", [5, 1 << 20])
@pytest.mark.slow
def test_a_domain_has_the_law_of_the_list(size):
    mechanism = HistogramTopK(k=2, epsilon=3, sensitivity=statement(1).over(size), domain_size=size)
    counts: dict[tuple[int, ...], int] = {}
    entropy = Seeded(5)
    for _ in range(300):
        top = mechanism.release([9, 4], positions=[1, 3], entropy=entropy)
        assert top.values[0] >= top.values[1] >= top.entries.max() - 1
        counts[tuple(top.indices.tolist())] = counts.get(tuple(top.indices.tolist()), 0) + 1
    assert counts.get((1, 3), 0) > (250 if size == 5 else 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon or HistogramTopK.rho must be given"),
        ({"epsilon": 1, "rho": 1}, "and not both; got both"),
        ({"epsilon": 1, "k": 0}, "HistogramTopK.k must be"),
        ({"epsilon": 0}, "HistogramTopK.epsilon must be"),
        ({"epsilon": 1, "threshold": math.nan}, "HistogramTopK.threshold must be"),
        ({"epsilon": 1, "threshold": 2**60}, "must lie within 2\\^52 steps"),
        ({"epsilon": 1, "domain_size": 1}, "HistogramTopK.k must be at most the domain size"),
        ({"rho": 1, "domain_size": 5}, "must be None with rho"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(options, message):
    with pytest.raises(InvalidParameter, match=message):
        HistogramTopK(**{"k": 2, "sensitivity": COUNTING.over(5)} | options)


def test_a_statement_about_each_answer_is_not_enough():
    with pytest.raises(InvalidParameter, match="only under a statement about their L1 norm"):
        HistogramTopK(k=1, epsilon=1, sensitivity=statement(1)).release([1, 2])
    with pytest.raises(InvalidParameter, match="was given a statement about 2 answers"):
        HistogramTopK(k=1, epsilon=1, sensitivity=statement(1).over(2)).release([1, 2, 3])
    with pytest.raises(InvalidParameter, match="must be at most the number of answers"):
        HistogramTopK(k=3, epsilon=1, sensitivity=statement(1).over(2)).release([1, 2])
