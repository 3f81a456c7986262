"""Implicit zeros have the law of the dense computation: of the labels, the gaps and the margin, ties included."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from sordino import COUNTING, InvalidParameter, NoisyTopK, Seeded
from sordino.mechanisms.crossings import implicit_zeros
from sordino.mechanisms.crossings.implicit_zeros import noisy_domain
from sordino.mechanisms.noisy_top_k import decide
from sordino.noise import DiscreteLaplace, Geometric, Probability, geometric
from sordino.noise.probability import exp_bounds
from support.enumeration import by_formula, outputs
from support.fit import assert_convicted, assert_fits

SIZE = 7
LISTED = {2: 1, 5: 2}


def draws(law, k, count, *, seed=1):
    """Outcomes of the sparse computation."""
    entropy = Seeded(seed)
    positions = np.array(list(LISTED))
    steps = np.array(list(LISTED.values()))
    seen = Counter()
    for _ in range(count):
        noisy, places = noisy_domain(steps, positions, SIZE, law, k + 1, entropy)
        winners, gaps = decide(noisy, k)
        seen[tuple(places[winners].tolist()), tuple(gaps.tolist())] += 1
    return seen


@pytest.fixture
def sparse(monkeypatch):
    """Small domains are drawn as large ones are; certified digits of the same few numbers are found once."""
    monkeypatch.setattr(implicit_zeros, "DENSE", 0)
    monkeypatch.setattr(geometric, "exp_bounds", cache(exp_bounds))


def fits(seen, law_name, k, rate):
    q = tuple(LISTED.get(i, 0) for i in range(SIZE))
    r = Fraction(np.exp(-float(rate))).limit_denominator(10**4)
    total = sum(seen.values())
    expected = {
        key: float(by_formula(law_name, r, q, *key, reach=40)) * total
        for key in outputs(SIZE, k, 6)
    }
    keys = [key for key, mass in expected.items() if mass >= 5]
    observed = [seen.get(key, 0) for key in keys]
    rest = total - sum(expected[key] for key in keys)
    return stats.chisquare(
        [*observed, total - sum(observed)], [*(expected[key] for key in keys), rest]
    ).pvalue


def begin_at(level, monkeypatch):
    """Begin far too high: the descent crosses several levels, for the two-sided law below zero too."""
    monkeypatch.setattr(implicit_zeros, "_first_level", lambda *_: level)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "name"), [(Geometric, "exponential"), (DiscreteLaplace, "laplace")]
)
@pytest.mark.parametrize("start", [0, 6])
def test_the_sparse_law_is_the_dense_law(sparse, monkeypatch, law, name, start):
    begin_at(start, monkeypatch)
    assert fits(draws(law(Fraction(1, 2)), 1, 4_000), name, 1, Fraction(1, 2)) > 1e-8


@pytest.mark.parametrize(
    "law",
    [
        Geometric(Fraction(1, 2)),
        DiscreteLaplace(Fraction(1, 2)),
        pytest.param(DiscreteLaplace(Fraction(1, 9)), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("start", [0, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.sample(4)
def test_a_descent_to_the_last_item_draws_every_item_from_the_law(sparse, monkeypatch, law, start):
    begin_at(start, monkeypatch)
    entropy = Seeded(11)
    none = np.zeros(0, dtype=np.int64)
    rows = []
    for _ in range(400):
        noisy, places = noisy_domain(none, none, SIZE, law, SIZE, entropy)
        assert places.tolist() == list(range(SIZE))
        rows.append(noisy)
    table = np.array(rows)
    assert_fits(law, table.ravel())
    assert_convicted(replace(law, rate=law.rate * Fraction(5, 4)), table.ravel())
    correlations = np.corrcoef(table.T)[np.triu_indices(SIZE, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(400), "items are independent"


@pytest.mark.slow
def test_first_level_is_only_a_matter_of_speed(sparse):
    seen = draws(Geometric(Fraction(1, 2)), 1, 3000)
    assert fits(seen, "exponential", 1, Fraction(1, 2)) > 1e-8
    assert fits(seen, "exponential", 1, Fraction(3, 4)) < 1e-8, "another rate is told apart"


def test_dense_and_sparse_agree_on_the_winner_of_a_large_domain():
    size = 10**6
    m = NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=size)
    top = m.release([10**6, 2 * 10**6], positions=[17, 999_999], entropy=Seeded(2))
    assert top.indices[:2].tolist() == [999_999, 17]
    assert top.gaps.shape == (3,)
    assert (top.gaps >= 0).all()


def test_zero_winners_are_uniform_over_the_rest():
    size = 10**6
    m = NoisyTopK(k=20, epsilon=1, sensitivity=COUNTING, domain_size=size)
    entropy = Seeded(3)
    listed = np.arange(0, 1000)
    winners = np.concatenate(
        [
            m.release(np.full(1000, -(10**6)), positions=listed, entropy=entropy).indices
            for _ in range(50)
        ]
    )
    assert not np.isin(winners, listed).any()
    assert stats.kstest(winners / size, "uniform").pvalue > 1e-8


@pytest.mark.slow
def test_the_largest_zero_noise_has_the_law_of_a_maximum():
    size = 10**9
    rate = Fraction(1, 20)
    entropy = Seeded(5)
    none = np.zeros(0, dtype=np.int64)
    best = np.array(
        [noisy_domain(none, none, size, Geometric(rate), 2, entropy)[0].max() for _ in range(400)]
    )
    cdf = lambda x: np.exp(size * np.log1p(-np.exp(-float(rate) * (np.floor(x) + 1))))  # noqa: E731
    jitter = np.random.Generator(np.random.PCG64(1)).uniform(size=best.size)
    uniform = cdf(best - 1) + jitter * (cdf(best) - cdf(best - 1))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-8


def test_empty_tables_and_strange_positions_are_answers_too():
    m = NoisyTopK(k=2, epsilon=1, sensitivity=COUNTING, domain_size=10**12)
    assert m.release([], positions=[], entropy=Seeded(1)).indices.shape == (2,)
    strange = m.release([5, 6, 7, 10**9], positions=[3, 3, -1, 10**12], entropy=Seeded(1))
    assert ((strange.indices >= 0) & (strange.indices < 10**12)).all()
    full = NoisyTopK(k=3, epsilon=1, sensitivity=COUNTING, domain_size=3)
    assert sorted(
        full.release([5, 6, 7], positions=[0, 1, 2], entropy=Seeded(1)).indices.tolist()
    ) == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize("positions", [None, [1], [[1, 2]], 3, np.array(3)])
def test_positions_must_go_with_the_answers(positions):
    m = NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=10)
    with pytest.raises(InvalidParameter, match="needs positions"):
        m.release([1, 2], positions=positions)
    with pytest.raises(InvalidParameter, match="takes positions only"):
        NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING).release([1, 2], positions=[0, 1])


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint8, np.uint64, object])
def test_positions_of_any_whole_type(kind):
    m = NoisyTopK(k=1, epsilon=20, sensitivity=COUNTING, domain_size=10**9)
    assert m.release(
        [500, 6], positions=np.array([7, 3], dtype=kind), entropy=Seeded(1)
    ).indices.tolist() == [7]
    assert m.release([500, 6], positions=[7, 2**64], entropy=Seeded(1)).indices.tolist() == [7]
    assert m.release([500, 6], positions=[7, None], entropy=Seeded(1)).indices.tolist() == [7]


@pytest.mark.parametrize("size", [50, 10**7])
def test_a_repeated_position_counts_once(size):
    m = NoisyTopK(k=3, epsilon=30, sensitivity=COUNTING, domain_size=size)
    for seed in range(20):
        top = m.release([900, 900, 900, 5], positions=[7, 7, 7, 3], entropy=Seeded(seed))
        assert len(set(top.indices.tolist())) == 3
        assert top.indices[0] == 7


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("epsilon", [5, 30, 300, 3000, 10**9])
@pytest.mark.parametrize("size", [10**5, 10**9, 10**12])
@pytest.mark.each_value
def test_much_epsilon_and_an_empty_table(noise, epsilon, size):
    m = NoisyTopK(k=2, epsilon=epsilon, sensitivity=COUNTING, noise=noise, domain_size=size)
    top = m.release([], positions=[], entropy=Seeded(1))
    assert len(set(top.indices.tolist())) == 2
    if epsilon >= 3000:
        assert top.indices.tolist() == [0, 1], "all tie, and the smaller position wins"


@pytest.mark.slow
def test_ties_at_the_lowest_level_have_the_law_of_the_full_computation(sparse, monkeypatch):
    # the bands are one step wide and hold many hits; only the first m of them are listed
    begin_at(2, monkeypatch)
    monkeypatch.setattr(
        implicit_zeros, "_prefer_first_hits", lambda *_: True
    )  # a matter of speed only: the law must stay
    monkeypatch.setattr(implicit_zeros, "_hit_block", lambda *_: 3)
    for law, name in (
        (Geometric(Fraction(1)), "exponential"),
        (DiscreteLaplace(Fraction(1)), "laplace"),
    ):
        assert fits(draws(law, 1, 150), name, 1, Fraction(1)) > 1e-8


@pytest.mark.slow
def test_the_first_hits_are_independent_coins_in_turn(monkeypatch):
    monkeypatch.setattr(implicit_zeros, "_hit_block", lambda *_: 4)  # several of them
    entropy = Seeded(6)
    used = np.array([5, 1])  # in the order in which they were found
    chance = Probability.exp(Fraction(1, 2))._enclosure
    p = np.exp(-0.5)
    seen = Counter(
        tuple(implicit_zeros._first_hits(8, chance, used, 2, entropy).tolist()) for _ in range(800)
    )
    free = [0, 2, 3, 4, 6, 7]
    expected = Counter()
    for coins in product((0, 1), repeat=6):
        hits = tuple(rank for rank, coin in zip(free, coins, strict=True) if coin)[:2]
        expected[hits] += 800 * p ** sum(coins) * (1 - p) ** (6 - sum(coins))
    assert set(seen) <= set(expected)
    assert stats.chisquare([seen[key] for key in expected], list(expected.values())).pvalue > 1e-8
    assert implicit_zeros._first_hits(8, None, used, 5, entropy).tolist() == [0, 2, 3, 4, 6]


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
@pytest.mark.parametrize("epsilon", [20, 40])
def test_many_rare_ties_do_not_have_to_be_listed(noise, epsilon, monkeypatch):
    """A million of 10^12 zero items tie one step above the rest; the few that matter are found without drawing the others."""
    asked = []
    fresh = implicit_zeros.draw_fresh_ranks
    monkeypatch.setattr(
        implicit_zeros,
        "draw_fresh_ranks",
        lambda zeros, n, *rest: asked.append(n) or fresh(zeros, n, *rest),
    )
    m = NoisyTopK(k=3, epsilon=epsilon, sensitivity=COUNTING, noise=noise, domain_size=10**12)
    for seed in range(20):
        top = m.release([], positions=[], entropy=Seeded(seed))
        assert len(set(top.indices.tolist())) == 3
    assert max(asked) < 200


@pytest.mark.parametrize(("zeros", "n"), [(20, 3), (20, 12), (20, 17)])
def test_fresh_ranks_are_a_uniform_set(zeros, n):
    entropy = Seeded(6)
    used = np.array([0, 19, 7])
    seen = Counter()
    for _ in range(2000):
        ranks = implicit_zeros.draw_fresh_ranks(zeros, n, used, entropy).tolist()
        assert len(set(ranks)) == n
        assert not set(ranks) & set(used.tolist())
        seen.update(ranks)
    assert (
        stats.chisquare([seen[i] for i in range(20) if i not in {0, 7, 19}]).pvalue > 1e-8
        or n == 17
    )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_last_of_many_are_found_without_waiting(monkeypatch, n):
    below, drawn = implicit_zeros.uniform_below, []

    def counted(bound, size, entropy):
        drawn.append(size)
        assert sum(drawn) < 200, "not by drawing until one of a few comes up"
        return below(bound, size, entropy)

    monkeypatch.setattr(implicit_zeros, "uniform_below", counted)
    left, entropy = [7, 40_000, 99_999], Seeded(6)
    used = np.setdiff1d(np.arange(100_000), left)
    found = Counter(
        tuple(sorted(implicit_zeros.draw_fresh_ranks(100_000, n, used, entropy).tolist()))
        for _ in range(12)
    )
    assert set(found) == set(combinations(left, n))


def test_most_of_a_domain_is_chosen_without_waiting():
    m = NoisyTopK(k=60_000, epsilon=10**6, sensitivity=COUNTING, domain_size=70_000)
    assert (
        len(set(m.release([5], positions=[69_999], entropy=Seeded(1)).indices.tolist())) == 60_000
    )


@pytest.mark.parametrize("size", [0, 2**53, 2**64, 1.5])
def test_domains_beyond_the_grid_are_refused(size):
    with pytest.raises(
        InvalidParameter, match="NoisyTopK.domain_size must be a whole number from 1 to 2.52; got"
    ):
        NoisyTopK(k=1, epsilon=1, sensitivity=COUNTING, domain_size=size)


def test_noise_beyond_any_word_is_drawn_again_like_any_that_does_not_fit(monkeypatch):
    drawn = iter([np.array([1, 9, 2]), np.array([1 << 70], dtype=object), np.array([0])])
    monkeypatch.setattr(Geometric, "sample", lambda *_: next(drawn))
    assert implicit_zeros._noise_between(Geometric(Fraction(1)), 4, 7, 3, Seeded(1)).tolist() == [
        5,
        4,
        6,
    ]
