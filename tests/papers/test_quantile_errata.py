"""What the paper on unbounded quantiles says wrongly or leaves open, each with the numbers that show it (docs/papers)."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import pytest
from scipy import integrate, special

from sordino import BucketCounts, Quantile, Quantiles, Seeded
from sordino.cost import Pure
from sordino.estimators.quantiles.rank_search import Runs
from support.quantiles import first_of, walk

HALF = Fraction(1, 2)


def listing(data, lower, growth, tests):
    """Appendix C without noise: the counts that its tests see, as it computes them, and the value it returns at test i."""
    buckets = defaultdict(int)
    for x in data:
        buckets[math.log(x - lower + 1, growth) // 1] += 1
    below, seen = 0, []
    for i in range(tests):
        below += buckets[i]
        seen.append((below, growth ** (i + 1) - lower + 1))
    return seen


def ours(data, lower, cap, q=1):
    """The counts below each edge, and the edges."""
    quantile = Quantile(q=q, epsilon=1, adjacency="replace-one", lower=lower, cap=cap, growth=2)
    runs = Runs.of(BucketCounts.of(data, grid=quantile.grid))
    return [runs.at(i) for i in range(quantile.grid.size)], quantile.grid.edges.tolist()


@pytest.mark.parametrize(("lower", "off"), [(0, 2), (-5, 12), (17, -32), (1, 0)])
def test_e1_the_listing_returns_its_value_with_the_wrong_sign(lower, off):
    _, edges = ours([lower], lower, lower + 255)
    assert [
        value - edge for (_, value), edge in zip(listing([lower], lower, 2, 8), edges, strict=True)
    ] == [off] * 8


def test_e2_the_first_test_of_the_listing_is_the_first_edge():
    data = [0, 0.5, 1, 2.9, 3, 7.5, 20]
    counts, edges = ours(data, 0, 255)
    assert counts == [2, 4, 5, 6, 7, 7, 7, 7] == [below for below, _ in listing(data, 0, 2, 8)]
    assert counts == [sum(x < edge for x in data) for edge in edges]


def test_e3_a_record_below_the_lower_bound_breaks_the_listing_or_is_lost():
    with pytest.raises(ValueError, match="math domain error|positive input"):
        listing([-1.5], 0, 2, 8)
    assert listing([-0.5, 3], 0, 2, 8)[-1][0] == 1  # bucket -1 is never added
    assert ours([-1.5, -0.5, 3], 0, 255)[0][-1] == 3


def test_e4_a_search_for_positive_quantiles_must_begin_at_zero():
    """Begun at the first positive edge it cannot halt "at 0", and the quantile of negative data comes out positive."""
    negative, both = (
        [-100.0] * 200,
        Quantile(q=0.5, epsilon=4, adjacency="add-remove", lower=None, cap=1000, growth=2),
    )
    zero = both.parts[0].first
    assert both.grid.edges[zero] == 0
    begun_late = walk(negative, both.grid.edges.tolist(), HALF, 1, 1, True, first=zero + 1)
    assert min(begun_late) > zero
    assert both.release(negative, entropy=Seeded(1)).value == pytest.approx(-127)


def gumbel(answers, e1, e2):
    """Law of the first answer above a threshold of 0, with Gumbel noise of two rates, by quadrature over the threshold."""

    def below(x, rate):
        return math.exp(-math.exp(-min(rate * x, 700))) if rate * x > -700 else 0.0

    def density(z):
        return e1 * math.exp(-e1 * z - math.exp(-e1 * z)) if e1 * z > -700 else 0.0

    def first(k):
        def at(z):
            return (
                density(z)
                * math.prod(below(z - f, e2) for f in answers[:k])
                * (1 - below(z - answers[k], e2))
            )

        return integrate.quad(at, -40, 120, limit=400, epsabs=1e-13)[0]

    return [first(k) for k in range(len(answers))]


@pytest.mark.parametrize(("e1", "e2"), [(0.5, 1.0), (1.0, 0.5)])
def test_e5_gumbel_noise_needs_no_equal_rates(e1, e2):
    for one, other, most in (
        ([0, 0], [1, -1], e1 + 2 * e2),
        ([0, 0], [1, 0], e1 + e2),
        ([-3, -3], [-2, -3], e1 + e2),
    ):
        ratios = [
            math.log(a / b) for a, b in zip(gumbel(one, e1, e2), gumbel(other, e1, e2), strict=True)
        ]
        assert max(map(abs, ratios)) <= most + 1e-6


def test_e7_without_a_cap_the_mean_is_infinite():
    """With the threshold at the top rank P(J > j) is rho B(j + 1, rho), a power, and the value grows like growth^J."""
    fine = 60
    masses = first_of([0] * 100, 0, Fraction(1, fine), Fraction(1, fine))
    assert masses[-1] == pytest.approx(
        special.beta(101, 1), rel=0.02
    )  # 1/101, to the fineness of the lattice
    data = [1.0] * 50
    means = []
    for cap in (1e4, 1e8, 1e16):
        quantile = Quantile(q=1, epsilon=1, adjacency="replace-one", lower=0, cap=cap, growth=2)
        law = walk(data, quantile.grid.edges.tolist(), 1, HALF, HALF, True)
        means.append(
            sum(
                mass * quantile.grid.edges[min(edge, quantile.grid.size - 1)]
                for edge, mass in law.items()
            )
        )
    assert means[1] > 1000 * means[0]
    assert means[2] > 1e6 * means[1]


def test_e8_more_threshold_noise_rate_makes_values_far_beyond_rare():
    """rho = e1/e2 = 2 cuts P(J > 100) from 1/101 to 1.9e-4, in the limit of fine lattices."""
    assert 2 * special.beta(101, 2) == pytest.approx(1.94e-4, rel=0.01)
    data, edges = [0.5] * 40, list(range(1, 102))
    tails = [
        walk(data, edges, 1, ratio * Fraction(1, 20), Fraction(1, 20), True)[101]
        for ratio in (1, 2)
    ]
    assert tails[1] < tails[0] / 20


def test_e10_the_interval_of_lemma_b1_is_the_cost():
    """Both directed bounds; that both are attained is in tests/privacy/test_quantile.py."""
    for q in (HALF, Fraction(3, 4), Fraction(1)):
        stated = Quantile(
            q=q, epsilon=1, adjacency="add-remove", lower=0, cap=7, growth=2, ratio=2
        ).cost
        e2 = 1 / (2 * q + 1)
        assert (stated.low, stated.high) == (max(q * e2, (1 - q) * 2 * e2), 1)


@pytest.mark.parametrize("e", [0.1, 1.0])
def test_e12_a_level_of_splitting_costs_e1_plus_e2_whatever_the_rates(e):
    """A record that moves to another part loses e2 where it was and e1 where it goes; two formulas meet at e1 = sqrt 2 e2."""
    for ratio in (0.5, 1, math.sqrt(2), 4):
        e1, e2 = ratio * e, e
        within, between = (e1 + 2 * e2) ** 2 / 8, (e1 + e2) ** 2 / 4
        assert (between > within * (1 + 1e-9)) == (ratio > 1.42)
    level = Quantiles(q=(0.5,), epsilon=1, adjacency="replace-one", lower=0, cap=7).cost
    # Equal rates of 1/2. One level would be a range; in sums of several a record that moves between two
    # searches is below neither of its orders, so each is charged all of 2e.
    assert level == Pure(epsilon=1)
    assert level.zcdp() > 2 * Pure(epsilon=HALF).zcdp()


def test_e15_no_crossing_is_an_outcome_and_costs_the_threshold():
    edges = list(range(1, 62))
    longer, shorter = (
        walk([0.5] * n, edges, HALF, HALF, HALF, True) for n in (7, 6)
    )  # rates for each half record
    assert math.log(shorter[61] / longer[61]) == pytest.approx(0.5, abs=0.01)  # (1 - q) e1
    assert math.log(shorter[61] / longer[61]) <= 0.5 + 1e-9
