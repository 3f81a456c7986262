"""A bucket that the exponential mechanism chooses: what it loses, how near it is, and when it is taken in place of a search."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest
from scipy import stats

import sordino as sd
from sordino.columns import BucketCounts
from sordino.cost import BoundedRange, compose, repeat
from sordino.cost.composition import cost_of_groups
from sordino.errors import InvalidParameter
from sordino.estimators import Quantile, SizedQuantile
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch, Runs
from support.quantiles import choose, columns, first_of, law_of, replaced, shorter

HALF, Q3 = Fraction(1, 2), Fraction(3, 4)
BUCKETS = (0.5, 2, 5, 9)
GRID = {"lower": 0, "cap": 7, "growth": 2, "epsilon": 2}
SLACK = 1e-9


def make(q=HALF, adjacency="add-remove", **more):
    return Quantile(**GRID | {"q": q, "adjacency": adjacency, "method": "exponential"} | more)


def list_neighbors(most, rows, adjacency):
    for column in columns(BUCKETS, most):
        others = (
            shorter(column, rows) if adjacency == "add-remove" else replaced(column, BUCKETS, rows)
        )
        yield from ((column, other) for other in others if len(other) <= most)


def find_range(one, other):
    """How long the interval is in which all losses of a pair lie, with 0."""
    ratios = [0.0, *(math.log(one[out] / other[out]) for out in one)]
    return max(ratios) - min(ratios)


CASES = [
    (HALF, "add-remove", 1),
    (HALF, "add-remove", 2),
    (Q3, "add-remove", 1),
    (HALF, "replace-one", 1),
    (Fraction(1, 4), "replace-one", 2),
]


@pytest.mark.parametrize(("q", "adjacency", "rows"), CASES)
def test_all_losses_of_a_pair_lie_in_an_interval_of_the_cost(q, adjacency, rows):
    quantile = make(q, adjacency, rows_per_unit=rows)
    laws = {}
    found = 0.0
    for pair in list_neighbors(5, rows, adjacency):
        for column in pair:
            if column not in laws:
                laws[column] = law_of(quantile, column)
        found = max(found, find_range(*(laws[column] for column in pair)))
    assert quantile.cost == BoundedRange(epsilon=2)
    assert 1.4 < found <= 2 + SLACK


@pytest.mark.parametrize(("adjacency", "q"), [("add-remove", HALF), ("add-remove", Q3)])
def test_one_way_of_a_bucket_instead_of_two_is_convicted(adjacency, q):
    """Buckets on one side of the target come nearer while the others move away."""
    [part] = make(q, adjacency).parts
    pairs = [*list_neighbors(5, 1, adjacency)]
    edges = make(q).grid.edges.tolist()

    def find_worst(rate):
        return max(
            find_range(*(choose(one, edges, q, rate, exponential=True) for one in pair))
            for pair in pairs
        )

    assert find_worst(part.rate) <= 2 + SLACK < 2.8 < find_worst(2 * part.rate)


def test_the_way_of_a_record_that_comes_is_too_short_for_one_that_is_replaced():
    [part] = make(HALF, "add-remove").parts
    edges = make(HALF).grid.edges.tolist()
    worst = max(
        find_range(*(choose(one, edges, HALF, part.rate, exponential=True) for one in pair))
        for pair in list_neighbors(5, 1, "replace-one")
    )
    assert worst > 2 * 1.4


def test_a_unit_that_leaves_one_group_and_joins_another_costs_both_widths():
    """The loss of all groups is the sum of those of the steps, and each lies in an interval of one width."""
    quantile = make(HALF)
    once = quantile.cost
    cost = cost_of_groups(once, most=1, anywhere=False, exchanged=True, growing=False)
    assert cost == BoundedRange(epsilon=4)
    assert cost_of_groups(once, most=3, anywhere=True, exchanged=False, growing=False) == (
        BoundedRange(epsilon=6)
    )
    assert cost_of_groups(once, most=3, anywhere=False, exchanged=False, growing=False) == (
        repeat(once, 3)
    )
    worst, find_law = 0.0, cache(partial(law_of, quantile))
    pairs = [*list_neighbors(4, 1, "add-remove")]
    for (more, less), (many, few) in itertools.product(pairs[::3], pairs[1::3]):
        # The unit is in the first group of one data set and in the second group of the other.
        ratios = [
            [math.log(one[out] / other[out]) for out in one]
            for one, other in (map(find_law, pair) for pair in ((more, less), (few, many)))
        ]
        # Groups are independent: the extremes of both come up together.
        worst = max(worst, sum(max(one) - min(one) for one in ratios))
    assert once.epsilon_ * 1.4 < worst <= cost.epsilon_ + SLACK


def test_releases_follow_the_law():
    quantile = make(HALF, cap=1e3, epsilon=1.5)
    records = [1, 3, 3, 3, 8, 8, 20, 100, 100, 500]
    law = law_of(quantile, records)
    [part] = quantile.parts
    runs = Runs.of(BucketCounts.of(records, grid=quantile.grid))
    draws, entropy = 6000, sd.Seeded(11)
    drawn = Counter(part.find(runs, entropy) for _ in range(draws))
    expected = np.array([law[place] * draws for place in range(quantile.grid.size + 1)])
    seen = np.array([drawn[place] for place in range(quantile.grid.size + 1)])
    assert stats.chisquare(seen, expected).pvalue > 1e-4


def test_the_target_lies_as_near_as_is_said():
    quantile = make(HALF, cap=1e3, epsilon=1)
    for records in ([5] * 7, [1, 2, 3, 9, 30, 200, 900], list(range(1, 60))):
        [part] = quantile.parts
        depths, lengths = part.lattice(Runs.of(BucketCounts.of(records, grid=quantile.grid)))
        law = law_of(quantile, records)
        far = np.repeat(depths, lengths) / part.weight > part.error(quantile.grid.size, 0.05)
        assert sum(law[place] for place in np.flatnonzero(far).tolist()) <= 0.05


def find_rms(law, ranks):
    """The root mean square around the middle: a threshold moved in the best way takes the middle to 0."""
    law = np.asarray(law) / np.sum(law)
    return math.sqrt(float(law @ (ranks - law @ ranks) ** 2))


@pytest.mark.parametrize("edges_a_record", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_medians_are_nearer_at_equal_rho_than_by_any_search(epsilon, edges_a_record):
    """Exact laws: .6 of one-sided noise and .8 of a search with Gumbel noise, whose thresholds are moved in the best way."""
    options = {"q": HALF, "adjacency": "add-remove", "lower": 0, "cap": 1e6}
    pure = Quantile(epsilon=epsilon, method="above-threshold", **options)
    found = {}
    for method in ("above-threshold", "exponential"):
        low, high = 0.1 * epsilon, 10.0 * epsilon
        for _ in range(50):
            middle = math.sqrt(low * high)
            other = Quantile(epsilon=middle, search_noise="gumbel", method=method, **options)
            low, high = (middle, high) if other.cost.zcdp() <= pure.cost.zcdp() else (low, middle)
        found[method] = Quantile(epsilon=low, search_noise="gumbel", method=method, **options)
    ranks = np.arange(-math.ceil(60 / epsilon), math.ceil(60 / epsilon)) / edges_a_record
    # Half records, as counts less half of all of them come in.
    answers = np.floor(2 * ranks)
    rate = pure.parts[0].scan.noise.rate
    one_sided = find_rms(first_of(answers.astype(int).tolist(), 0, rate, rate)[:-1], ranks)
    weights = np.exp(float(found["above-threshold"].parts[0].scan.noise.rate) * answers)
    sums = np.concatenate([[1.0], 1 + np.cumsum(weights)])
    searched = find_rms(weights / (sums[1:] * sums[:-1]), ranks)
    [part] = found["exponential"].parts
    chosen = find_rms(np.exp(-float(part.rate) * np.abs(answers)), ranks)
    assert chosen <= 0.6 * one_sided
    assert chosen <= 0.8 * searched


def test_the_rule_reads_public_parameters_alone():
    def find_kind(q, adjacency="add-remove", **more):
        options = {"epsilon": 1, "lower": 0, "cap": 1e6, "search_noise": "gumbel"} | more
        made = Quantile(q=q, adjacency=adjacency, **options)
        return type(made.parts[0])

    assert find_kind(0.5) is find_kind(0.26) is find_kind(0.74) is RankChoice
    assert find_kind(0.25) is find_kind(0.75) is find_kind(0.9) is RankSearch
    assert find_kind(0.5, "replace-one") is RankSearch
    # Where two searches would be needed, one choice is nearer for every q and every adjacency.
    assert find_kind(0.05, lower=None) is find_kind(0.9, "replace-one", lower=None) is RankChoice
    assert find_kind(0.9, lower=None, size_hint=10**6) is RankSearch
    assert find_kind(0.5, method="above-threshold") is RankSearch
    with pytest.raises(InvalidParameter, match="method must be"):
        find_kind(0.5, method="noisy")


@pytest.mark.parametrize("options", [{"q": 0.5}, {"q": 0.1, "lower": None}, {"q": 0.9}])
def test_the_price_is_the_same_whatever_number_of_rows_is_released(options):
    sized = SizedQuantile(
        **{"epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 1e6, "cuts": 64} | options,
        flips=False,
        search_noise="gumbel",
    )
    plans = [sized.for_size(size) for size in (0, 1, 40, 10**3, 10**7, 10**12)]
    assert len({plan.cuts for plan in plans}) > 1
    [rest] = {plan.cost for plan in plans}
    assert sized.cost == compose(sd.cost.Pure(epsilon=Fraction(1, 20)), rest)
