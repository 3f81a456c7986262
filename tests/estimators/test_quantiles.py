"""Several quantiles: their law, their order, their cost, what is said of ranks, and what is refused."""

from __future__ import annotations

import json
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from sordino import BucketCounts, InvalidParameter, Ledger, Quantiles, QuantileValues, Seeded, cost
from sordino.estimators.quantiles.quantiles import Place
from sordino.estimators.quantiles.rank_search import Runs
from sordino.ledger import Budget
from support.fit import LEVEL
from support.quantiles import sized_law

PUBLIC = {
    "q": (0.25, 0.5, 0.75),
    "epsilon": 3,
    "adjacency": "add-remove",
    "lower": 0,
    "cap": 15,
    "growth": 2,
}


def made(**changes):
    return Quantiles(**(PUBLIC | changes))


# ---- the law -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 5},
        {"q": (0.01, 0.6), "epsilon": 5, "lower": -1},
        {"q": (0, 0.3, 0.4, 1), "epsilon": 9, "size_hint": 1, "growth": 1.5, "cap": 5},
    ],
    ids=["quartiles", "uneven", "four"],
)
@pytest.mark.sample(2)
def test_releases_have_the_law_of_the_definition(options):
    quantiles, n = made(**options, adjacency="replace-one"), 250
    records = [0.0, 0.5, 0.5, 2.0, 2.5, 4.0, 4.5, 9.0, 20.0]
    edges = quantiles.grid.edges.tolist()
    shares = [Fraction(str(q)) for q in options.get("q", PUBLIC["q"])]
    few = 2 if "size_hint" in options else Fraction(1, 20)
    law = sized_law(quantiles, records, shares, few=few)
    assert sum(law.values()) == pytest.approx(1, abs=1e-9)
    values = [
        quantiles.grid.edges[-1]
        if edge == len(edges)
        else float(options.get("lower", 0))
        if edge < 0
        else edges[edge]
        for edge in range(-1, len(edges) + 1)
    ]
    expected = Counter()
    for places, mass in law.items():
        expected[tuple(float(values[edge + 1]) for edge in places)] += mass
    counts, entropy = BucketCounts.of(records, grid=quantiles.grid), Seeded(12)
    drawn = Counter(
        tuple(found.value for found in quantiles.release(counts, entropy=entropy)) for _ in range(n)
    )
    assert set(drawn) <= set(expected)
    often = [one for one, mass in expected.items() if mass * n > 5]
    observed = [*(drawn[one] for one in often), n - sum(drawn[one] for one in often)]
    masses = np.array([*(expected[one] for one in often), 1 - sum(expected[one] for one in often)])
    if masses[-1] * n < 5:
        observed[-2:], masses = [sum(observed[-2:])], np.append(masses[:-2], masses[-2:].sum())
    assert stats.chisquare(observed, masses / masses.sum() * n).pvalue > LEVEL


def test_a_noisy_number_of_records_comes_first_and_sets_every_target():
    quantiles = made()
    assert quantiles.size_noise.rate == 1
    assert quantiles.targets(10) == (0, 3, 5, 8, 10)
    assert quantiles.targets(0) == (0, 0, 0, 0, 0)


def test_each_search_is_over_the_records_and_edges_between_its_places():
    quantiles = made(q=(0.1, 0.2, 0.6), cap=255, epsilon=1)
    bottom, top = quantiles.ends
    middle, search, upward = quantiles.search(bottom, top, quantiles.targets(100))
    assert (middle, upward) == (
        2,
        False,
    )  # .8 of the records lie above, .2 below: the walk from above is the safer one
    assert (
        search.first,
        search.last,
        search.low,
        search.high,
        search.target,
        search.weight,
        search.drop,
    ) == (
        0,
        8,
        -1,
        8,
        80,
        1,
        0,
    )
    place = Place(2, 4, False)
    middle, search, upward = quantiles.search(place, top, quantiles.targets(100))
    assert (middle, upward) == (3, False)  # from the end of the grid
    assert (search.first, search.last, search.low, search.high, search.target) == (5, 8, 4, 8, 40)
    runs = Runs.of(BucketCounts.of([5, 20, 31, 32, 60, 200, 1000], grid=quantiles.grid))
    answers, lengths = search.lattice(runs)
    assert np.repeat(answers, lengths).tolist() == [1, 2, 2]  # at 255 and above, at 127, at 63
    middle, search, upward = quantiles.search(bottom, place, quantiles.targets(100))
    assert (middle, upward, search.first, search.last, search.target) == (1, True, 0, 4, 10)
    answers, lengths = search.lattice(runs)
    assert np.repeat(answers, lengths).tolist() == [0, 0, 1, 1]
    assert quantiles.search(place, Place(4, 5, True), quantiles.targets(100))[1] is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([1e9] * 60, (15.0, True)),
        ([-5.0] * 60, (0.0, False)),
        ([math.nan] * 60, None),
        ([5.0] * 60, None),
    ],
)
def test_values_do_not_fall_and_lie_on_the_grid(values, expected):
    quantiles = made(epsilon=200, q=(0.2, 0.4, 0.5, 0.6, 0.8))
    for seed in range(5):
        found = quantiles.release(values, entropy=Seeded(seed))
        levels = [one.value for one in found]
        assert levels == sorted(levels)
        assert set(levels) <= {0.0, *quantiles.grid.edges.tolist()}
        if expected == (15.0, True):
            assert {(one.value, one.capped) for one in found} == {expected}
        elif expected:
            assert {one.value for one in found} <= {0.0, 1.0}
            assert not any(one.capped for one in found)


def test_a_value_that_most_records_share_does_not_push_the_others_to_the_cap():
    """Nine of ten are 0: the median is found at 0, and so are all that lie between it and the ends, counted from the ends."""
    quantiles = made(q=(0.25, 0.5, 0.75, 0.95), epsilon=20, cap=1e6, growth=1.05)
    found = quantiles.release([0.0] * 1800 + [5000.0] * 200, entropy=Seeded(1))
    assert all(one.value < 0.1 for one in found[:3])
    assert 4700 < found[3].value < 5300


def test_both_signs_end_where_the_grid_does():
    found = made(lower=None, epsilon=200).release([-1e9] * 30 + [1e9] * 30, entropy=Seeded(1))
    assert [(one.value, one.capped) for one in (found[0], found[2])] == [
        (-15.0, True),
        (15.0, True),
    ]


def test_deciles_of_a_large_column_are_near():
    values = np.random.default_rng(3).lognormal(3, 1, 50_000)
    deciles = made(q=tuple(i / 10 for i in range(1, 10)), epsilon=1, cap=1e6, growth=1.01)
    found = deciles.release(values, entropy=Seeded(5))
    for i, one in enumerate(found, 1):
        assert abs((values < one.value).mean() - i / 10) < 0.02
        assert one.rank_error_low < 0 < one.rank_error_high


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rank_errors_hold_for_records_that_do_not_share_buckets(adjacency):
    """Every record has a bucket of its own, so at most levels + 2 records are not counted."""
    quantiles = made(q=(0.1, 0.3, 0.5, 0.9), epsilon=2, cap=1e4, growth=1.01, adjacency=adjacency)
    edges = quantiles.grid.edges
    records = ((edges[400:900] + edges[401:901]) / 2)[:400]
    counts, entropy, runs = BucketCounts.of(records, grid=quantiles.grid), Seeded(9), 60
    wrong = 0
    for _ in range(runs):
        for q, one in zip(
            (0.1, 0.3, 0.5, 0.9), quantiles.release(counts, entropy=entropy), strict=True
        ):
            off = int((records < one.value).sum()) - math.ceil(q * records.size)
            slack = quantiles.levels + 2
            wrong += not one.rank_error_low - slack <= off <= one.rank_error_high + slack
    assert stats.binomtest(wrong, 4 * runs, 0.05, alternative="greater").pvalue > LEVEL


# ---- cost --------------------------------------------------------------------------------------------------------------


def test_levels_and_their_cost():
    assert [
        made(q=tuple(i / (m + 1) for i in range(1, m + 1))).levels for m in (1, 2, 3, 4, 7, 8, 9)
    ] == [
        1,
        2,
        2,
        3,
        3,
        4,
        4,
    ]
    assert made().cost == cost.compose(
        cost.Pure(epsilon=1), cost.repeat(cost.Range(low=1, high=1), 2)
    )
    # A record that loses its number moves their number, and what searches count by less than one that moves.
    for rows in (1, 4):
        replaced = made(adjacency="replace-one", rows_per_unit=rows)
        assert replaced.cost == cost.repeat(cost.Pure(epsilon=Fraction(3, 2)), 2)
        assert replaced.size_noise.rate == replaced.noise.rate == Fraction(3, 4) / rows
        assert replaced.cost.pure() == 3
    assert made().cost.pure() == 3
    assert made().cost.zcdp() == 3 * cost.Pure(epsilon=1).zcdp()


def test_the_correction_reads_the_hint():
    assert made().threshold_correction == 0
    assert made(growth=1.001, cap=1e4, size_hint=50).threshold_correction > 0


# ---- what is released --------------------------------------------------------------------------------------------------


def test_the_release_is_several_values_with_one_public_story():
    found = made().release([1.0, 2.0, 5.0] * 20, entropy=Seeded(7))
    assert isinstance(found, QuantileValues)
    assert (len(found), found.simulated, found.exact, found.cost, found.mechanism) == (
        3,
        True,
        True,
        made().cost,
        made(),
    )
    told = json.loads(json.dumps(found.to_dict()))
    assert [set(one) for one in told["values"]] == [
        {"value", "capped", "rank_error_low", "rank_error_high", "low", "high"}
    ] * 3
    assert told["type"] == "QuantileValues"
    assert told["mechanism"]["q"] == [0.25, 0.5, 0.75]
    assert repr(made()).startswith(
        "Quantiles(q=(0.25, 0.5, 0.75), epsilon=3, adjacency='add-remove', lower=0"
    )
    assert hash(made()) == hash(made())


def test_a_ledger_charges_it_once(tmp_path):
    budget = Budget(epsilon=4)
    ledger = Ledger.create(
        tmp_path / "b.db",
        account="a",
        budget=budget,
        adjacency="add-remove",
        unit="row",
        source="s",
    )
    with ledger.reserve(made(), label="quartiles") as charge:
        assert len(charge.release(made(), [1.0, 2.0, 3.0] * 9)) == 3
    assert ledger.remaining == 1


def test_counts_serve_every_question_over_one_grid():
    quantiles = made(cap=1e4, growth=1.1)
    values = np.random.default_rng(5).lognormal(3, 2, 1000)
    counts = BucketCounts.of(values[:300], grid=quantiles.grid).merge(
        BucketCounts.of(values[300:], grid=made(epsilon=1, cap=1e4, growth=1.1).grid)
    )
    assert (
        quantiles.release(values, entropy=Seeded(2)).to_dict()
        == quantiles.release(counts, entropy=Seeded(2)).to_dict()
    )


class Logged:
    """Entropy that notes how many words are asked for, one entry a call."""

    simulated = True

    def __init__(self, seed):
        self.source, self.asked = Seeded(seed), []

    def words(self, n):
        self.asked.append(n)
        return self.source.words(n)


def test_the_same_words_are_drawn_for_the_same_outputs_whatever_the_number_of_rows():
    quantiles, seen = made(epsilon=400), {}
    for times in (50, 500, 50_000):
        entropy = Logged(3)
        found = quantiles.release(np.repeat([0.5, 2.0, 5.0, 9.0], times), entropy=entropy)
        seen[tuple(one.value for one in found)] = seen.get(
            tuple(one.value for one in found), set()
        ) | {tuple(entropy.asked)}
    assert set(seen) == {(1.0, 3.0, 7.0)}
    assert len(seen[1.0, 3.0, 7.0]) == 1


# ---- what is refused ---------------------------------------------------------------------------------------------------

REFUSED = {
    "q": (
        (),
        0.5,
        "0.5",
        (0.5, 0.5),
        (0.75, 0.25),
        (0.5, 1.5),
        (0.5, None),
        (0.5, 0.5 + 1e-9),
        None,
        [math.nan],
    ),
    "epsilon": (0, -1, math.inf, None),
    "adjacency": ("swap", None),
    "lower": (math.nan, "0", 15),
    "cap": (None, 0, math.inf),
    "growth": (1, 0.5, None),
    "unit": (0, -1, None),
    "size_hint": (0, 1.5),
    "rows_per_unit": (0, None),
}


@pytest.mark.parametrize("name", REFUSED)
def test_public_parameters_are_refused_by_name(name):
    for value in REFUSED[name]:
        with pytest.raises(InvalidParameter, match="Quantiles"):
            made(**{name: value})


def test_counts_over_another_grid_are_refused():
    with pytest.raises(
        InvalidParameter, match=r"Quantiles\.release needs counts over its own grid"
    ):
        made().release(BucketCounts.of([1.0], grid=made(cap=7).grid), entropy=Seeded(1))
