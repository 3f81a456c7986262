"""A sparse vector over a public domain of mostly zeros has the law of the dense computation: places, gaps, what was asked."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sordino import COUNTING, InvalidParameter, Seeded, Sensitivity, SparseVector
from sordino.mechanisms.crossings import transcripts as transcripts_module
from sordino.mechanisms.crossings.crossings import Part
from sordino.mechanisms.crossings.transcripts import domain_crossings
from sordino.noise import DiscreteLaplace, Geometric
from support.fit import assert_convicted, assert_fits
from support.sparse_vectors import Rules, by_formula, outcome, transcripts

SIZE = 5
LISTED = {1: 1, 3: 2}
HALF = Fraction(1, 2)
NONE = np.zeros(0, dtype=np.int64)


def one_branch(steps, at, size, cut, *, queries, positives, **rules):
    return domain_crossings(
        steps, at, size, [cut], queries=[queries], prices=[1], tokens=positives, **rules
    )


@pytest.fixture
def sparse(monkeypatch):
    monkeypatch.setattr(transcripts_module, "DENSE", 0)


def draws(law, limit, count, *, seed=1, cut=2, **rules):
    entropy = Seeded(seed)
    at, steps = np.array(list(LISTED)), np.array(list(LISTED.values()))
    seen = Counter()
    for _ in range(count):
        found = one_branch(
            steps, at, SIZE, cut, thresholds=limit, queries=law, entropy=entropy, **rules
        )
        assert (found.passes == 1).all()
        seen[
            tuple(
                zip(found.places.tolist(), found.lifts.tolist(), found.passes.tolist(), strict=True)
            ),
            found.asked,
            found.stages,
        ] += 1
    return seen


def fits(seen, rules, cut=2):
    """P-value of the outcomes against the law of the dense computation, by the formula."""
    q = tuple(LISTED.get(i, 0) - cut for i in range(SIZE))
    total = sum(seen.values())
    expected = {}
    for transcript in transcripts(SIZE, rules, 2):
        expected[outcome(transcript, SIZE, rules)] = (
            by_formula(q, rules, transcript, reach=30) * total
        )
    keys = [key for key, mass in expected.items() if mass >= 5]
    observed = [seen.get(key, 0) for key in keys]
    rest = total - sum(expected[key] for key in keys)
    return stats.chisquare(
        [*observed, total - sum(observed)], [*(float(expected[key]) for key in keys), float(rest)]
    ).pvalue


FAMILIES = {"exponential": Geometric, "laplace": DiscreteLaplace}
CASES = [
    ("exponential", Fraction(1), {"positives": 1, "resample": False}),
    ("laplace", Fraction(1), {"positives": 1, "resample": False}),
    ("exponential", Fraction(1, 2), {"positives": 2, "resample": False}),
    ("exponential", Fraction(1), {"positives": 2, "resample": True}),
    ("laplace", Fraction(1, 2), {"positives": 2, "resample": True}),
]


@pytest.mark.slow
@pytest.mark.parametrize("length", [None, 1, 2, 3])
@pytest.mark.parametrize(("kind", "rate", "options"), CASES)
def test_the_sparse_law_is_the_dense_law(sparse, monkeypatch, kind, rate, options, length):
    if length is not None:  # runs of any length give the same law
        monkeypatch.setattr(
            transcripts_module,
            "_choose_run_length",
            lambda law, level, rest, most: min(rest, length),
        )
    law = FAMILIES[kind](rate)
    ratio = math.exp(-rate)
    seen = draws(law, Geometric(Fraction(1)), 1500, **options)
    assert fits(seen, Rules(("exponential", math.exp(-1)), (kind, ratio), **options)) > 1e-8


@pytest.mark.slow
def test_the_comparison_tells_another_law(sparse):
    options = {"positives": 2, "resample": False}
    seen = draws(Geometric(Fraction(1)), Geometric(Fraction(1)), 1000, **options)
    assert (
        fits(seen, Rules(("exponential", math.exp(-1)), ("exponential", math.exp(-1)), **options))
        > 1e-8
    )
    assert (
        fits(seen, Rules(("exponential", math.exp(-1)), ("exponential", math.exp(-0.8)), **options))
        < 1e-8
    )


class Fixed:
    """A threshold without noise."""

    def sample(self, n, entropy):
        return np.zeros(n, dtype=np.int64)


@pytest.mark.parametrize("law", [Geometric(Fraction(1, 3)), DiscreteLaplace(Fraction(1, 3))])
@pytest.mark.slow
def test_the_first_zero_that_crosses_is_geometric_and_its_lift_memoryless(law):
    size, cut, entropy = 10**12, 40, Seeded(4)
    p = float(law.sf(cut - 1))
    first, lifts = [], []
    for _ in range(400):
        found = one_branch(
            NONE,
            NONE,
            size,
            cut,
            thresholds=Fixed(),
            queries=law,
            positives=1,
            resample=False,
            entropy=entropy,
        )
        assert found.asked == found.places[0] + 1
        first.append(int(found.places[0]))
        lifts.append(int(found.lifts[0]))
    assert stats.kstest(-np.expm1(np.array(first) * np.log1p(-p)), "uniform").pvalue > 1e-8
    assert_fits(Geometric(law.rate), np.array(lifts))
    assert_convicted(Geometric(law.rate * Fraction(3, 2)), np.array(lifts))


@pytest.mark.parametrize("resample", [False, True])
def test_gaps_between_crossings_are_geometric(resample):
    law, cut, entropy = Geometric(Fraction(1, 3)), 30, Seeded(5)
    p = float(law.sf(cut - 1))
    waits = []
    for _ in range(30):
        found = one_branch(
            NONE,
            NONE,
            10**12,
            cut,
            thresholds=Fixed(),
            queries=law,
            positives=10,
            resample=resample,
            entropy=entropy,
        )
        assert found.stages == (10 if resample else 1)
        waits += np.diff(found.places, prepend=-1).tolist()
    assert stats.kstest(-np.expm1((np.array(waits) - 1) * np.log1p(-p)), "uniform").pvalue > 1e-8


def test_how_many_of_a_million_cross_is_binomial():
    law, cut, entropy, size = Geometric(Fraction(1, 3)), 30, Seeded(6), 10**6
    p = float(law.sf(cut - 1))
    counts = []
    for _ in range(60):
        found = one_branch(
            NONE,
            NONE,
            size,
            cut,
            thresholds=Fixed(),
            queries=law,
            positives=10**4,
            resample=False,
            entropy=entropy,
        )
        assert found.asked == size
        assert (np.diff(found.places) > 0).all()
        counts.append(found.places.size)
    mean, deviation = size * p, math.sqrt(size * p * (1 - p) / len(counts))
    assert abs(np.mean(counts) - mean) < 6 * deviation


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 100])
def test_the_zero_items_of_a_run_stand_where_nothing_is_listed(
    sparse, monkeypatch, length, resample
):
    monkeypatch.setattr(
        transcripts_module, "_choose_run_length", lambda law, level, rest, most: min(rest, length)
    )
    monkeypatch.setattr(
        transcripts_module,
        "_draw_zero_hits",
        lambda n, *_: Part(np.arange(n), np.zeros(n, dtype=np.intp), np.zeros(n)),
    )
    at = np.array(
        [1, 2, 6, 9, 10, 17]
    )  # far below the threshold, so that the zero items alone are above
    found = one_branch(
        np.full(at.size, -(10**9)),
        at,
        20,
        5,
        thresholds=Fixed(),
        queries=Geometric(Fraction(1)),
        positives=20,
        resample=resample,
        entropy=Seeded(1),
    )
    assert found.places.tolist() == [place for place in range(20) if place not in at]
    assert not found.lifts.any()


@pytest.mark.parametrize("options", [{}, {"noise": "laplace"}, {"resample": True}])
def test_large_answers_in_a_large_domain_are_found_in_order(options):
    m = SparseVector(
        threshold=10**6, positives=3, epsilon=4, sensitivity=COUNTING, domain_size=10**12, **options
    )
    release = m.release(
        [2 * 10**6, 5, 3 * 10**6], positions=[999_999_999_998, 4, 17], entropy=Seeded(2)
    )
    assert release.indices.tolist() == [17, 999_999_999_998]
    assert release.asked == 10**12
    assert release.cost.pure() == m.spent(2, 3 if m.resample else 1).pure()
    assert np.allclose(release.gaps, [2 * 10**6, 10**6], atol=100)


def test_dense_and_sparse_agree_where_noise_hardly_matters():
    values, at = [50, 900, 901, 7], [3, 40_000, 90_000, 8]
    for size in (50_000, 100_000):
        m = SparseVector(
            threshold=500, positives=5, epsilon=50, sensitivity=COUNTING, domain_size=size
        )
        release = m.release(values, positions=at)
        assert release.indices.tolist() == [place for place in (40_000, 90_000) if place < size]
        assert release.asked == size


def test_a_threshold_that_every_zero_reaches():
    m = SparseVector(
        threshold=-(10**6), positives=5, epsilon=1, sensitivity=COUNTING, domain_size=10**12
    )
    assert m.release([], positions=[]).indices.tolist() == [0, 1, 2, 3, 4]
    low = m.release([-(10**9)], positions=[2])
    assert low.indices.tolist() == [0, 1, 3, 4, 5]
    assert low.asked == 6


def test_many_listed_items_and_many_positives(monkeypatch):
    monkeypatch.setattr(transcripts_module, "_MOST_LISTED", 100)
    n = 5000
    m = SparseVector(
        threshold=500, positives=n, epsilon=10**6, sensitivity=COUNTING, domain_size=10**9
    )
    release = m.release(np.full(n, 900), positions=np.arange(n) * 1000 + 3)
    assert release.indices.tolist() == (np.arange(n) * 1000 + 3).tolist()


def test_empty_tables_and_strange_positions_are_answers_too():
    m = SparseVector(threshold=100, positives=2, epsilon=9, sensitivity=COUNTING, domain_size=10**9)
    assert m.release([], positions=[]).indices.size <= 2
    strange = m.release([500, 600, 700, 10**9, 800], positions=[3, 3, -1, 10**12, math.nan])
    assert strange.indices.tolist() == [3]
    assert strange.gaps[0] == pytest.approx(400, abs=40)


@pytest.mark.parametrize("positions", [None, [1], [[1, 2]], 3])
def test_positions_must_go_with_the_answers(positions):
    m = SparseVector(threshold=1, positives=1, epsilon=1, sensitivity=COUNTING, domain_size=10)
    with pytest.raises(InvalidParameter, match="needs positions"):
        m.release([1, 2], positions=positions)
    with pytest.raises(InvalidParameter, match="takes positions only"):
        SparseVector(threshold=1, positives=1, epsilon=1, sensitivity=COUNTING).release(
            [1, 2], positions=[0, 1]
        )
    with pytest.raises(InvalidParameter, match="takes thresholds only"):
        m.release([1, 2], [1, 2], positions=[0, 1])


@pytest.mark.parametrize("epsilon", [1e-3, 1, 30, 3000])
@pytest.mark.parametrize("size", [10**5, 10**12])
@pytest.mark.parametrize("threshold", [0, 1, 1000, 2**40])
@pytest.mark.each_value
def test_any_level_ends(epsilon, size, threshold):
    m = SparseVector(
        threshold=threshold, positives=3, epsilon=epsilon, sensitivity=COUNTING, domain_size=size
    )
    release = m.release([5], positions=[7], entropy=Seeded(1))
    assert release.indices.size <= 3
    assert release.asked <= size
    real = Sensitivity(bound=1, monotone=False, adjacency="replace-one")
    fine = SparseVector(
        threshold=min(threshold, 10**6) / 7,
        positives=3,
        epsilon=1,
        sensitivity=real,
        domain_size=size,
    )
    assert fine.release([5.5], positions=[7]).asked <= size
