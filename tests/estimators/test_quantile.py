"""Quantiles: lattices against counting by hand, the law of releases, what chooses the method, and silence about the data."""

from __future__ import annotations

import json
import math
import pickle
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from sordino import BucketCounts, BucketGrid, Quantile, QuantileValue, Seeded
from sordino.estimators.quantiles.column_quantiles import middle_of
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch, Runs
from sordino.mechanisms.crossings.threshold_scan import ThresholdScan
from sordino.noise import Geometric
from sordino_audit.enumeration.searches import positions
from support.fit import LEVEL
from support.quantiles import first_of, flip_runs, law_of

HALF = Fraction(1, 2)
ORACLE = [0, 0.5, 1, 2.9, 3, 7.5, 20]
PUBLIC = {"q": 0.5, "epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 15, "growth": 2}


def made(**changes):
    return Quantile(**(PUBLIC | changes))


def searched(quantile):
    [only] = quantile.parts
    return only


# ---- the lattice -------------------------------------------------------------------------------------------------------


def spread_out(answers, lengths):
    return np.repeat(answers, lengths).tolist()


def test_the_counts_are_those_of_the_worked_example():
    quantile = made(cap=255)
    runs = Runs.of(BucketCounts.of(ORACLE, grid=quantile.grid))
    answers = spread_out(*searched(quantile).lattice(runs))
    assert quantile.grid.edges.tolist() == [2**i - 1 for i in range(1, 9)]
    assert [(answer + 7) // 2 for answer in answers] == [2, 4, 5, 6, 7, 7, 7, 7]


@pytest.mark.parametrize("seed", range(4))
def test_a_lattice_is_counting_by_hand(seed):
    draw = np.random.default_rng(seed)
    edges = np.unique(draw.integers(-20, 20, 12)).astype(float)
    grid, size = BucketGrid(edges=edges), edges.size
    records = draw.integers(-25, 25, draw.integers(0, 30)).tolist()
    runs = Runs.of(BucketCounts.of(np.array(records, dtype=float), grid=grid))
    scan = ThresholdScan(0, Geometric(HALF), Geometric(HALF))
    for _ in range(20):
        first, last = sorted(draw.choice(size + 1, 2, replace=False).tolist())
        low, high = draw.integers(-1, first + 1), draw.integers(last - 1, size + 1)
        inside = [
            x for x in records if (low < 0 or x >= edges[low]) and (high >= size or x < edges[high])
        ]
        up = RankSearch(True, first, last, low, high, 4, 3, 0, scan)
        below = [
            4 * sum(x < edges[i] for x in inside) - 3 * len(records) for i in range(first, last)
        ]
        assert spread_out(*up.lattice(runs)) == below
        down = RankSearch(False, first, last, low, high, 4, 3, 0, scan)
        above = [
            4 * sum(x >= edges[i] for x in inside) - 3 * len(records)
            for i in reversed(range(first, last))
        ]
        assert spread_out(*down.lattice(runs)) == above
        assert [up.edge(k) for k in range(last - first)] == list(range(first, last))
        assert [down.edge(k) for k in range(last - first)] == list(reversed(range(first, last)))
        assert (up.edge(None), down.edge(None)) == (last, first - 1)
    below = [0, *(sum(x < edge for x in records) for edge in edges), len(records)]
    ranks = [
        range(4 * low, 4 * high + 1) for low, high in pairwise(below)
    ]  # that a bucket holds, in quarters of a record
    assert spread_out(*RankChoice(4, 3, HALF).lattice(runs)) == [
        min(abs(3 * len(records) - r) for r in held) for held in ranks
    ]


# ---- the law -----------------------------------------------------------------------------------------------------------


def test_the_worked_example_with_exponential_noise_is_the_limit_of_fine_lattices():
    """Oracle: threshold 3.5, rates 1/2, P(7) = .16545633; geometric noise on N times as fine a lattice errs by O(1/N)."""
    counts, masses = [2, 4, 5, 6, 7, 7, 7, 7], []
    for n in (10, 20, 40):
        law = first_of(
            [n * (2 * count - 7) for count in counts], 0, Fraction(1, 4 * n), Fraction(1, 4 * n)
        )
        masses.append(law[2])
    once = [2 * fine - coarse for coarse, fine in pairwise(masses)]
    assert (4 * once[1] - once[0]) / 3 == pytest.approx(0.1654563308249, abs=5e-8)


@pytest.mark.parametrize("q", [0.5, 0.25, 1])
def test_the_audit_and_the_definition_agree_on_the_law_of_a_search(q):
    quantile = made(q=q, epsilon=2)
    part = searched(quantile)
    answers, lengths = part.lattice(Runs.of(BucketCounts.of(ORACLE, grid=quantile.grid)))
    listed = positions(part.scan, answers.tolist(), lengths.tolist())
    law = law_of(quantile, ORACLE)
    assert {part.edge(found): float(low) for found, (low, _) in listed} == pytest.approx(
        law, abs=1e-12
    )
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)


LAWS = {
    "up": {"q": 0.75},
    "down": {"q": 0.02, "lower": -1},
    "flip": {"q": 0.4, "epsilon": 0.5, "method": "permute-and-flip"},
    "both signs, two searches": {"lower": None, "cap": 3, "q": 0.6, "epsilon": 3},
    "both signs, two searches, down first": {"lower": None, "cap": 3, "q": 0.4, "epsilon": 3},
    "both signs, one search": {"lower": None, "cap": 3, "q": 0.25, "size_hint": 100},
    "corrected": {"size_hint": 2, "growth": 1.5, "ratio": 2},
    "several rows": {"rows_per_unit": 2, "adjacency": "replace-one"},
}


@pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)
@pytest.mark.slow
def test_releases_have_the_law_of_the_definition_and_not_one_with_other_noise(options):
    records = [-2.5, -0.5, -0.5, 0.2, 0.4, 1.5, 1.5, 2.5, 9]
    quantile, entropy, n = made(**options), Seeded(11), 1000
    counts = BucketCounts.of(records, grid=quantile.grid)
    law = law_of(
        quantile,
        [
            max(x, options.get("lower") or 0) if options.get("lower", 0) is not None else x
            for x in records
        ],
    )
    edges = {edge: value_of(quantile, edge) for edge in law}
    drawn = Counter(quantile.release(counts, entropy=entropy).value for _ in range(n))
    expected = Counter()
    for edge, mass in law.items():
        expected[edges[edge]] += mass
    assert set(drawn) <= set(expected)
    assert fits(drawn, expected, n) > LEVEL
    other = law_of(made(**{**options, "epsilon": options.get("epsilon", 1) * 3}), records)
    threefold = Counter()
    for edge, mass in other.items():
        threefold[edges[edge]] += mass
    assert fits(drawn, threefold, n) < LEVEL


def value_of(quantile, edge):
    ends = quantile.grid.edges.tolist()
    if isinstance(
        quantile.parts[0], RankChoice
    ):  # a bucket: its middle, or the edge of one without an end
        cuts = [*([] if quantile.lower is None else [quantile.lower]), *ends]
        here = cuts[max(0, edge - (quantile.lower is None)) :][:2]
        return ends[0] if quantile.lower is None and not edge else sum(here) / len(here)
    return (
        ends[min(edge, len(ends) - 1)]
        if edge >= 0
        else (ends[0] if quantile.lower is None else quantile.lower)
    )


def fits(drawn, expected, n):
    often = [one for one, mass in expected.items() if mass * n > 5]
    observed = [drawn[one] for one in often] + [n - sum(drawn[one] for one in often)]
    masses = [expected[one] for one in often] + [1 - sum(expected[one] for one in often)]
    if masses[-1] * n < 5:
        observed[-2:], masses[-2:] = [sum(observed[-2:])], [sum(masses[-2:])]
    masses = np.array(masses) / sum(masses)
    return stats.chisquare(observed, masses * n).pvalue


@pytest.mark.parametrize(
    ("options", "values", "value", "capped"),
    [
        ({"q": 1}, 1e9, 15.0, True),
        (
            {"q": 0.4, "size_hint": 1, "method": "above-threshold"},
            1e9,
            15.0,
            True,
        ),  # downward: the first test says that the quantile lies at the cap or above
        ({"q": 0.5, "method": "permute-and-flip"}, 1e9, 15.0, True),
        ({"q": 1}, 14.0, 15.0, False),
        ({"q": 0.25, "method": "permute-and-flip"}, 1e9, 15.0, True),
        (
            {"q": 0.25, "method": "permute-and-flip"},
            6.0,
            5.0,
            False,
        ),  # the middle of 3 and 7
        ({"q": 0.75, "method": "permute-and-flip"}, 6.0, 5.0, False),
        ({"q": 0.9, "method": "permute-and-flip", "lower": None}, -1e9, -15.0, True),
        (
            {"q": 0.9, "method": "permute-and-flip", "lower": None},
            15,
            15.0,
            True,
        ),  # a record at the cap lies in the last bucket
        ({"q": 0.5, "method": "permute-and-flip", "lower": None}, -15, -11.0, False),
        ({"q": 0.5, "method": "permute-and-flip", "lower": None}, 0.0, 0.5, False),
        ({"q": 0.5, "method": "permute-and-flip", "lower": -3}, -1e9, -2.5, False),
        (
            {"q": 0, "lower": -3},
            -7.5,
            -3.0,
            False,
        ),  # what lies below the lower bound counts as equal to it
        (
            {"q": 0.5, "method": "permute-and-flip"},
            0.0,
            0.5,
            False,
        ),  # and is told from the empty buckets beside it
        ({"q": 0, "lower": None, "size_hint": 50}, -1e9, -15.0, True),
        ({"q": 1, "lower": None, "size_hint": 50}, -1e9, -15.0, True),
        ({"q": 0.5, "lower": None}, -1e9, -15.0, True),
        ({"q": 0.5, "lower": None}, 1e9, 15.0, True),
        ({"q": 0.5, "lower": None}, 0.0, 1.0, False),
        ({"q": 0.5}, 2.0, 3.0, False),
    ],
)
@pytest.mark.sample(2)
def test_ends_of_the_grid_say_what_they_know(options, values, value, capped):
    for seed in range(3):
        found = made(**{"epsilon": 100, **options}).release([values] * 50, entropy=Seeded(seed))
        assert (found.value, found.capped) == (value, capped)


def test_a_middle_lies_in_its_bucket_however_large_or_small_the_edges_are():
    largest = 1.7976931348623157e308
    for edges in (
        [5e-324, 1e-323, 1.5e-323],
        [-largest, largest],
        [1e308, largest],
        [0.1, 0.3, 1e16, 1e16 + 2],
    ):
        grid = BucketGrid(edges=edges)
        middles = [middle_of(bucket, grid, None) for bucket in range(len(edges) + 1)]
        assert middles == [
            edges[0],
            *(float((Fraction(a) + Fraction(b)) / 2) for a, b in pairwise(edges)),
            edges[-1],
        ]
        assert all(
            a <= middle <= b for middle, (a, b) in zip(middles[1:-1], pairwise(edges), strict=True)
        )
    assert middle_of(0, BucketGrid(edges=[largest]), -largest) == 0
    assert middle_of(0, BucketGrid(edges=[3.0]), Fraction(1, 2)) == 1.75


@pytest.mark.parametrize("q", [0.2, 0.6, 0.9])
def test_a_heavy_value_is_told_from_the_empty_buckets_beside_it_and_from_its_neighbors(q):
    """Nine of ten records are equal, the others spread over [0, 1000]: the value wins by itself, with edges a hundredth apart."""
    quantile = made(q=q, cap=1e6, growth=1.01, size_hint=1000, adjacency="replace-one")
    records = [200.0] * 900 + list(range(0, 1000, 10))
    law = law_of_buckets(quantile, records)
    bucket = np.searchsorted(quantile.grid.edges, 200.0, side="right")
    assert law[bucket] > 0.999
    assert middle_of(bucket, quantile.grid, 0) == pytest.approx(200, rel=0.01)


def test_of_a_column_without_records_or_with_missing_ones_only_every_bucket_is_as_likely():
    quantile = made(method="permute-and-flip")
    buckets = quantile.grid.size + 1
    assert law_of_buckets(quantile, []) == pytest.approx(dict.fromkeys(range(buckets), 1 / buckets))
    for missing in (math.nan, None, "n/a"):
        assert law_of_buckets(quantile, [missing] * 60) == law_of_buckets(quantile, [])


def law_of_buckets(quantile, records):
    """The law of permute-and-flip for many buckets, by quadrature."""
    [part] = quantile.parts
    depths, lengths = part.lattice(Runs.of(BucketCounts.of(records, grid=quantile.grid)))
    every = np.repeat(depths, lengths)
    kinds, each = np.unique(every, return_counts=True)
    return dict(
        enumerate(
            np.array(flip_runs(kinds.tolist(), each.tolist(), part.rate))[
                np.searchsorted(kinds, every)
            ]
        )
    )


# ---- rank errors -------------------------------------------------------------------------------------------------------


def off_by(records, edges, q, edge, flips):
    """Records between the target and an edge, without those in the target's bucket and in the bucket next to the edge.

    Between the target and a bucket, if one is chosen: without those in that bucket.
    """
    below = [
        0,
        *(sum(x < e for x in records) for e in edges),
        len(records),
    ]  # below[i + 1] for edge i
    if flips:
        return max(0, below[edge] - q * len(records)) + min(0, below[edge + 1] - q * len(records))
    reached = next(i for i in range(len(edges) + 1) if below[i + 1] >= q * len(records))
    if edge >= reached:
        return max(0, below[edge] - below[reached + 1])
    return min(0, below[edge + 2] - below[reached])


@pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)
def test_rank_errors_hold_with_their_confidence(options):
    quantile = made(**{**options, "epsilon": 4})
    records = [-4.0] * 6 + [0.3] * 4 + [0.6] * 9 + [1.5] * 7 + [2.5] * 3 + [9.0] * 12
    edges, wrong, told = quantile.grid.edges.tolist(), 0.0, 0.0
    for edge, mass in law_of(quantile, records).items():
        places = range(len(quantile.parts))
        ranges = [
            quantile.errors(edge, place)
            for place in places
            if in_reach(quantile.parts[place], edge)
        ]
        low, high = (
            max(low for low, _ in ranges),
            min(high for _, high in ranges),
        )  # if the narrowest holds, each does
        assert low <= 0 <= high
        told += mass * (high - low)
        flips = isinstance(quantile.parts[0], RankChoice)
        wrong += mass * (
            not low <= off_by(records, edges, Fraction(str(quantile.q)), edge, flips) <= high
        )
    assert wrong <= 0.05
    assert told < 150  # they say something


@pytest.mark.parametrize("options", LAWS.values(), ids=LAWS)
def test_all_bounds_of_a_rank_share_what_may_be_wrong(options):
    quantile = made(**{**options, "epsilon": 4})
    for place, part in enumerate(quantile.parts):
        if isinstance(part, RankChoice):
            error = part.error(quantile.grid.size, 0.05)
            assert quantile.errors(0, place) == pytest.approx((-error, error), rel=1e-12)
            continue
        # Two of each search. The edge is not its first one, where a second search has a bound of the first.
        edge = part.edge(1)
        short, over = part.errors(edge, 0.05 / (2 * len(quantile.parts)))
        found = quantile.errors(edge, place)
        assert found == pytest.approx((-short, over) if part.upward else (-over, short), rel=1e-12)


def in_reach(part, edge):
    return (
        not isinstance(part, RankSearch)
        or part.first - (not part.upward) <= edge < part.last + part.upward
    )


def test_rank_errors_grow_with_the_rows_of_a_unit_and_know_no_number_of_records():
    one, three = made(growth=1.1, cap=1e4), made(growth=1.1, cap=1e4, rows_per_unit=3)
    assert three.errors(50) == pytest.approx([3 * error for error in one.errors(50)])
    few, many = (one.release([5.0] * n, entropy=Seeded(3)) for n in (1000, 100_000))
    assert few.value == many.value
    assert (few.rank_error_low, few.rank_error_high) == (many.rank_error_low, many.rank_error_high)


# ---- what is released ------------------------------------------------------------------------------------------------


def test_an_array_and_its_counts_are_released_alike():
    quantile = made(cap=1e4, growth=1.1)
    values = np.random.default_rng(5).lognormal(3, 2, 1000)
    counts = BucketCounts.of(values[:300], grid=quantile.grid).merge(
        BucketCounts.of(values[300:], grid=quantile.grid)
    )
    results = [
        quantile.release(column, entropy=Seeded(2)).to_dict()
        for column in (values, counts, values[::-1].tolist())
    ]
    assert results[0] == results[1] == results[2]


ODD = [
    [],
    [math.nan] * 30,
    [7] * 30,
    [None, math.nan, math.inf, -math.inf],
    [-(1 << 63), (1 << 63) - 1],
    np.array([], dtype=float),
    np.ma.masked_array([1.0, 2.0], mask=[True, False]),
    [Decimal("NaN"), Decimal("sNaN"), Decimal("1e999999"), Fraction(1, 3)],
    [True, False],
    ["text", object(), 3],
    np.array([0.0, -0.0, 5e-324]),
]


@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.parametrize("method", [None, "permute-and-flip"])
def test_private_values_never_raise(lower, method):
    quantile = made(lower=lower, method=method)
    for values in ODD:
        found = quantile.release(values, entropy=Seeded(4))
        assert (-15 if lower is None else 0) <= found.value <= 15
        assert found.cost == quantile.cost


def test_a_release_is_a_value_with_its_public_story():
    found = made().release(ORACLE, entropy=Seeded(7))
    assert isinstance(found, QuantileValue)
    assert found.simulated
    assert found.exact
    assert found.mechanism == made()
    told = json.loads(json.dumps(found.to_dict()))
    assert told["mechanism"]["q"] == 0.5
    assert set(told) >= {"value", "capped", "rank_error_low", "rank_error_high", "cost"}
    assert repr(found).startswith("QuantileValue(simulated=True, value=")
    assert pickle.loads(pickle.dumps(made())) == made()
    assert repr(made()).startswith(
        "Quantile(q=0.5, epsilon=1, adjacency='add-remove', lower=0, cap=15, growth=2, unit=1"
    )
    assert hash(made()) == hash(made())
