"""The hybrids over domains of mostly zeros have the law of the list, and what is listed is read, put in order and kept as it must be."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from sordino import COUNTING, HybridSparseVector, HybridTopK, NoisyTopK, Seeded
from sordino.mechanisms.crossings import implicit_zeros
from sordino.mechanisms.crossings.implicit_zeros import (
    _contenders,
    distinct,
    find_unlisted_places,
    listed,
)
from sordino.noise import geometric
from sordino.noise.probability import exp_bounds
from support.hybrids import found_law, found_outcomes, top_law, top_outcomes

HYBRIDS = {"HybridTopK": HybridTopK, "HybridSparseVector": HybridSparseVector}
LOW = -(10**9)
SIZE, LISTED = 5, {1: 1, 3: 2}


@pytest.fixture
def sparse(monkeypatch):
    """Small domains are drawn as large ones are; certified digits of the same few numbers are found once."""
    monkeypatch.setattr(implicit_zeros, "DENSE", 0)
    monkeypatch.setattr(geometric, "exp_bounds", cache(exp_bounds))


def fits(m, kind, law, outcomes, count, seed=1):
    """P-value of releases over a domain against the law of the list, by the formula."""
    q, entropy = tuple(LISTED.get(i, 0) for i in range(SIZE)), Seeded(seed)
    seen = Counter()
    for _ in range(count):
        release = m.release(list(LISTED.values()), positions=list(LISTED), entropy=entropy)
        margin = (getattr(release, "threshold_margin", None),) if kind == "top" else ()
        seen[tuple(release.indices.tolist()), tuple(release.gaps.tolist()), *margin] += 1
    expected = {key: float(law(q, key)) * count for key in outcomes}
    keys = [key for key, mass in expected.items() if mass >= 5]
    observed = [seen.get(key, 0) for key in keys]
    rest = count - sum(expected[key] for key in keys)
    return stats.chisquare(
        [*observed, count - sum(observed)], [*(expected[key] for key in keys), rest]
    ).pvalue


@pytest.mark.slow
@pytest.mark.parametrize("start", [None, 5])
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_zeros_that_are_not_listed_compete_as_if_they_were(sparse, monkeypatch, noise, start):
    if start is not None:  # begin far too high: the descent crosses several levels
        monkeypatch.setattr(implicit_zeros, "_first_level", lambda *_: start)
    m = HybridTopK(k=2, threshold=2, epsilon=2, sensitivity=COUNTING, noise=noise, domain_size=SIZE)
    r = math.exp(-m.noise.rate)
    outcomes = list(top_outcomes(SIZE, 2, 4))
    assert fits(m, "top", lambda q, key: top_law(noise, r, q, 2, 2, key, 40), outcomes, 1000) > 1e-8
    other = HybridTopK(
        k=2, threshold=2, epsilon=1.4, sensitivity=COUNTING, noise=noise, domain_size=SIZE
    )
    assert (
        fits(other, "top", lambda q, key: top_law(noise, r, q, 2, 2, key, 40), outcomes, 600) < 1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "limit"),
    [("exponential", "exponential"), ("laplace", "exponential"), ("exponential", "laplace")],
)
def test_zeros_that_are_not_listed_reach_the_threshold_as_if_they_were(sparse, noise, limit):
    known = {
        "k": 2,
        "threshold": 2,
        "sensitivity": COUNTING,
        "noise": noise,
        "threshold_noise": limit,
        "domain_size": SIZE,
    }
    m = HybridSparseVector(**known, epsilon=3, split=0.25)
    laws = (noise, math.exp(-m.noise.rate)), (limit, math.exp(-m.threshold_noise.rate))
    outcomes = list(found_outcomes(SIZE, 2, 4))
    assert (
        fits(m, "sparse", lambda q, key: found_law(*laws, q, 2, 2, key, 40), outcomes, 1000) > 1e-8
    )
    other = HybridSparseVector(**known, epsilon=2, split=0.25)
    assert (
        fits(other, "sparse", lambda q, key: found_law(*laws, q, 2, 2, key, 40), outcomes, 600)
        < 1e-8
    )


@pytest.mark.parametrize("name", HYBRIDS)
@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("size", [50, 10**6, 10**12])
@pytest.mark.each_value
def test_domains_of_any_size(name, noise, size):
    m = HYBRIDS[name](
        k=3, threshold=500, epsilon=40, sensitivity=COUNTING, noise=noise, domain_size=size
    )
    release = m.release([900, 901, 7, 950], positions=[size - 1, 17, 4, 17], entropy=Seeded(3))
    assert sorted(release.indices.tolist()) == [17, size - 1], "a repeated position counts once"
    assert release.cost == m.spent(2)
    assert release.estimates == pytest.approx(
        np.array([900 + (i == 17) for i in release.indices]), abs=30
    )
    assert m.release([], positions=[]).indices.size == 0
    low = dataclasses.replace(m, threshold=-(10**6)).release([LOW], positions=[0])
    assert low.indices.size == 3
    assert 0 not in low.indices
    strange = m.release([500, 10**9, 800], positions=[-1, 1 << 53, math.nan])
    assert strange.indices.size == 0
    if name == "HybridSparseVector":
        assert release.asked == size


@pytest.mark.parametrize("size", [50, 10**6, 10**12])
def test_margins_in_a_domain_are_those_of_the_list(size):
    """Without noise to speak of: the best that was not selected is a listed item, the threshold, or a zero item."""
    known = {"k": 2, "epsilon": 10**9, "sensitivity": COUNTING, "domain_size": size}
    for threshold, values, gaps, margin in (
        (5, [900, 800, 700], [100, 100], None),
        (750, [900, 800, 700], [100, 50], None),
        (850, [900, 800, 700], [50], 49),
        (5, [900, -3, -4], [895], 4),
        (-5, [900, 800, -9], [100, 799], None),  # place 0 would win a tie
    ):
        top = HybridTopK(threshold=threshold, **known).release(values, positions=[9, 10, 20])
        assert (top.gaps.tolist(), top.threshold_margin) == (gaps, margin)


def test_a_domain_in_which_k_is_everything():
    m = HybridTopK(k=3, threshold=0, epsilon=100, sensitivity=COUNTING, domain_size=3)
    assert m.release([500, 600, 700], positions=[0, 1, 2]).indices.tolist() == [2, 1, 0]


@given(
    pairs=st.lists(st.tuples(st.integers(-3, 14), st.integers(0, 99)), max_size=12),
    size=st.integers(1, 12),
    order=st.sampled_from(["sorted", "as it comes"]),
)
def test_listed_answers_are_put_in_order_once_each(pairs, size, order):
    given_ = sorted(pairs) if order == "sorted" else pairs
    positions = np.array([place for place, _ in given_], dtype=np.int64)
    steps, at = distinct(np.array([value for _, value in given_], dtype=np.int64), positions, size)
    first = {}
    for place, value in given_:
        first.setdefault(place, value)
    assert list(zip(at.tolist(), steps.tolist(), strict=True)) == sorted(
        (p, v) for p, v in first.items() if 0 <= p < size
    )


@given(size=st.integers(1, 40), data=st.data())
def test_ranks_of_unlisted_items_are_turned_into_places(size, data):
    at = sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=size)))
    free = [place for place in range(size) if place not in at]
    ranks = data.draw(st.permutations(range(len(free))))
    assert find_unlisted_places(
        np.array(ranks, dtype=np.int64), np.array(at, dtype=np.int64)
    ).tolist() == [free[rank] for rank in ranks]


@given(values=st.lists(st.integers(0, 6), max_size=20), m=st.integers(1, 8))
def test_whoever_may_be_among_the_largest_is_kept(values, m):
    kept = _contenders(np.array(values, dtype=np.int64), m).tolist()
    least = sorted(values, reverse=True)[m - 1] if len(values) >= m else min(values, default=0)
    assert kept == [i for i, value in enumerate(values) if value >= least]
    huge = np.array([value << 70 for value in values], dtype=object)
    assert _contenders(huge, m).tolist() == list(range(len(values)))


@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int16, object, None])
def test_positions_of_any_kind_are_read_alike(kind):
    at = [3, 1, 2]
    _, found = listed(
        [5, 6, 7], at if kind is None else np.array(at, dtype=kind), Fraction(1), "HybridTopK"
    )
    assert found.dtype == np.int64
    assert found.tolist() == at


def test_masked_positions_and_those_beyond_any_domain_stay_outside():
    masked = np.ma.masked_array([3, 1], mask=[True, False])
    beyond = np.array([(1 << 63) + 3, 1], dtype=np.uint64)
    for positions in (masked, beyond):
        steps, at = listed([5, 6], positions, Fraction(1), "HybridTopK")
        assert [part.tolist() for part in distinct(steps, at, 10)] == [[6], [1]]


def test_the_order_in_which_answers_are_listed_does_not_matter():
    m = NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=10**9)
    a = m.release([50, 60, 70], positions=[7, 8, 9], entropy=Seeded(1))
    b = m.release([70, 50, 60], positions=[9, 7, 8], entropy=Seeded(1))
    assert (a.indices.tolist(), a.gaps.tolist()) == (b.indices.tolist(), b.gaps.tolist())
