"""Quantiles: what public parameters choose, what it costs, what is refused, and that nothing reads the number of rows."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from sordino import BucketCounts, InvalidParameter, Quantile, Seeded, cost
from sordino.estimators.quantiles.quantile_plan import (
    LARGER_FIRST,
    correction,
    find_step,
    flips,
    upward,
    walks_far,
)
from sordino.estimators.quantiles.rank_search import RankChoice, RankSearch

HALF = Fraction(1, 2)
PUBLIC = {"q": 0.5, "epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 15, "growth": 2}


def made(**changes):
    return Quantile(**(PUBLIC | changes))


def searched(quantile):
    [only] = quantile.parts
    return only


# ---- choices by public numbers -----------------------------------------------------------------------------------------


def test_the_method_follows_the_size_hint_and_nothing_else():
    edges = made(cap=1e6, growth=1.01).grid.size
    enough = math.ceil((math.log(edges) + 5) / 0.25)
    assert isinstance(searched(made(cap=1e6, growth=1.01, size_hint=enough)), RankChoice)
    assert isinstance(searched(made(cap=1e6, growth=1.01, size_hint=enough - 1)), RankSearch)
    assert isinstance(searched(made(cap=1e6, growth=1.01)), RankSearch)
    assert isinstance(searched(made(method="permute-and-flip")), RankChoice)
    assert isinstance(searched(made(size_hint=10**9, method="above-threshold")), RankSearch)
    assert not flips(Fraction(99, 100), Fraction(1), 1390, 1000)
    assert flips(Fraction(95, 100), Fraction(1), 1390, 1000)
    assert isinstance(
        searched(made(cap=1e6, growth=1.01, size_hint=enough, rows_per_unit=2)), RankSearch
    )


def test_the_direction_is_up_unless_few_records_lie_below():
    assert searched(made(q=0.05)).upward
    assert not searched(made(q=0.04)).upward
    assert searched(made(q=1)).upward
    assert not searched(made(q=0)).upward
    assert upward(Fraction(1, 100), Fraction(1), 1000, 2000)
    assert not upward(Fraction(1, 100), Fraction(1), 1000, 1000)
    assert walks_far(Fraction(1, 100), Fraction(1), 1000, 1382)
    assert not walks_far(Fraction(1, 100), Fraction(1), 1000, 1381)  # ln 1000 + ln 1000 = 13.8


def test_both_signs_take_one_search_if_the_hint_allows_it_and_else_two():
    one = made(lower=None, cap=1e6, size_hint=40, epsilon=4, method="above-threshold")
    assert searched(one).upward
    assert not searched(
        made(lower=None, cap=1e6, size_hint=10**4, q=0.3, method="above-threshold")
    ).upward
    for hint in (None, 3):
        up, down = made(lower=None, cap=1e6, size_hint=hint).parts
        zero = (up.last - 1) // 2
        assert (up.upward, up.first, up.last) == (
            True,
            zero,
            2 * zero + 1,
        )  # the first test is at 0, not at the first positive edge
        assert (down.upward, down.first, down.last) == (False, 0, zero + 1)
        assert one.grid.edges[zero] == 0
        # Below 1/2 the larger share lies above: the same two, the other way first.
        first, second = made(lower=None, cap=1e6, size_hint=hint, q=0.4).parts
        assert (first.upward, first.first, first.last) == (False, 0, zero + 1)
        assert (second.upward, second.first, second.last) == (True, zero, 2 * zero + 1)


def test_the_correction_is_that_of_crowded_edges_and_only_with_a_hint():
    assert correction(HALF, HALF, find_step(1.001, 1), None) == 0
    assert correction(HALF, HALF, find_step(1.001, 1), 10**6) == 0
    crowding = 1 / (100 * math.log(1.001) * 0.5)
    assert correction(HALF, Fraction(1), find_step(1.001, 1), 100) == pytest.approx(
        (math.log(crowding) + 0.5772156649) / 0.5 - 1
    )
    crowded = made(growth=1.001, cap=1e4, size_hint=20, method="above-threshold")
    assert searched(crowded).scan.threshold > 0 == searched(crowded).target
    # The spec's example: R = 4 edges for each record, e = .5: mean shift -3.313 without a correction (threshold noise included)
    assert -correction(HALF, HALF, 1 / 4, 1) == pytest.approx(-3.313, abs=2e-3)
    # Parts of a step are so much closer to each other.
    assert find_step(1.001, 4) == pytest.approx(math.log(1.001) / 4)


class Logged:
    """Entropy that notes how many words are asked for, one entry a call."""

    simulated = True

    def __init__(self, seed):
        self.source, self.asked = Seeded(seed), []

    def words(self, n):
        self.asked.append(n)
        return self.source.words(n)


COLUMNS = {
    "none": [],
    "one": [3.0],
    "all missing": [math.nan] * 40,
    "equal": [2.0] * 5000,
    "beyond": [1e300] * 70,
    "below": [-1e300] * 70,
    "spread": np.linspace(0, 14, 10_001),
    "large": np.arange(200_000),
}


@pytest.mark.parametrize(
    "options",
    [{"q": 0.75}, {"q": 0.01}, {"size_hint": 1000}, {"adjacency": "replace-one", "size_hint": 5}],
)
def test_nothing_reads_the_number_of_rows(options, monkeypatch):
    """For every column the same state is asked the same questions, the same words are drawn, and the same is charged."""
    quantile, calls = made(**options), []
    for name in ("runs_up", "runs_down", "merge"):
        monkeypatch.setattr(BucketCounts, name, noting(calls, name, getattr(BucketCounts, name)))
    seen = set()
    for column in COLUMNS.values():
        counts = BucketCounts.of(column, grid=quantile.grid)
        for seed in range(3):
            calls.clear()
            entropy = Logged(seed)
            found = quantile.release(counts, entropy=entropy)
            asked = (
                entropy.asked[:2] if isinstance(quantile.parts[0], RankChoice) else entropy.asked
            )
            seen.add((tuple(calls), tuple(asked), found.cost, found.mechanism))
    assert len({(calls, cost_, mechanism) for calls, _, cost_, mechanism in seen}) == 1
    # More words are drawn only where those that were drawn do not decide.
    assert len({asked for _, asked, _, _ in seen}) == 1


def noting(calls, name, method):
    def noted(*arguments, **named):
        calls.append(name)
        return method(*arguments, **named)

    return noted


# ---- cost --------------------------------------------------------------------------------------------------------------


def test_the_cost_is_the_interval_of_its_search():
    assert made(q=0.75).cost == cost.Range(low=Fraction(3, 7), high=1, orientation=LARGER_FIRST)
    assert made(q=0.02).cost == cost.Range(
        low=Fraction(49, 99), high=1, orientation=LARGER_FIRST
    )  # down: 1 - q takes the place of q
    assert made(q=0.75, ratio=3).cost == cost.Range(
        low=Fraction(3, 13), high=1, orientation=LARGER_FIRST
    )
    assert made(adjacency="replace-one").cost == cost.Range(low=HALF, high=1)
    assert made(adjacency="replace-one", rows_per_unit=2).cost == cost.Pure(epsilon=1)
    assert made(method="permute-and-flip").cost == cost.Pure(epsilon=1)
    two = made(lower=None, q=0.75)
    assert two.cost == cost.Range(low=Fraction(33, 35), high=1, orientation=LARGER_FIRST)
    for quantile in (
        made(q=0.75),
        two,
        made(adjacency="replace-one"),
        made(method="permute-and-flip", rows_per_unit=3),
    ):
        assert quantile.cost.pure() == 1
        assert quantile.cost.zcdp() <= HALF
        assert quantile.exact


def test_equally_oriented_searches_compose_for_less():
    one = cost.Range(low=made(q=0.75).cost.low, high=1)
    assert cost.repeat(made(q=0.75, epsilon=0.1).cost, 20).epsilon(1e-6) < cost.repeat(
        cost.Range(low=one.low / 10, high=Fraction(1, 10)), 20
    ).epsilon(1e-6)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_rates_are_those_of_the_budget_for_each_row(adjacency, rows):
    part = searched(made(q=0.75, adjacency=adjacency, rows_per_unit=rows))
    e = Fraction(4, 7) if adjacency == "add-remove" else HALF
    assert (part.weight, part.drop) == (4, 3)
    assert part.scan.noise.rate == part.scan.threshold_noise.rate == e / (4 * rows)
    flip = searched(
        made(q=0.75, adjacency=adjacency, rows_per_unit=rows, method="permute-and-flip")
    )
    assert flip.rate == Fraction(
        1, rows * (6 if adjacency == "add-remove" else 8)
    )  # twice 3 or 4 steps


def test_a_share_is_a_fraction_with_a_small_denominator():
    assert (searched(made(q=0.1)).weight, searched(made(q=Fraction(1, 3))).weight) == (10, 3)
    assert searched(made(q=math.pi / 4)).weight <= 1 << 20
    assert searched(made(q=1e-9)).weight == 1


# ---- what is refused, and what is not ----------------------------------------------------------------------------------

REFUSED = {
    "q": (-0.1, 1.1, math.nan, "0.5", None),
    "epsilon": (0, -1, math.inf, None),
    "adjacency": ("swap", None),
    "lower": (math.nan, math.inf, "0", 15, 20),
    "cap": (None, 0, -1, math.inf, math.nan),
    "growth": (1, 0.5, math.nan, math.inf, None, 1 + 1e-9),
    "unit": (0, -1, math.inf, None, 1e-300),
    "size_hint": (0, -5, 1.5, True),
    "method": ("noisy", "", 3),
    "rows_per_unit": (0, 1.5, None),
    "ratio": (0, -1, math.inf, 1e-30),
}


@pytest.mark.parametrize("name", REFUSED)
def test_public_parameters_are_refused_by_name(name):
    for value in REFUSED[name]:
        growth = {"growth": 1 + 1e-12} if value == 1e-300 else {}
        with pytest.raises(
            InvalidParameter, match=r"Quantile|BucketGrid\.growth must leave at most"
        ) as caught:
            made(**(growth | {name: value}))
        assert name in str(caught.value) or value in (1e-300, 15, 20, 1e-30)


def test_both_signs_need_a_positive_cap():
    with pytest.raises(
        InvalidParameter, match=r"Quantile\.cap must be above 0, where lower is None; got -1"
    ):
        made(lower=None, cap=-1)


def test_extreme_public_numbers_are_refused_or_work_but_never_break():
    assert isinstance(made(size_hint=10**400).parts[0], RankChoice)
    assert made(growth=10**400, size_hint=1).grid.size == 1
    with pytest.raises(InvalidParameter, match="at most 2\\^40 a step"):
        made(epsilon=Fraction(10) ** 400)
    with pytest.raises(InvalidParameter, match="Raise epsilon"):
        made(epsilon=1e-14)


def test_counts_over_another_grid_are_refused():
    with pytest.raises(InvalidParameter, match=r"Quantile\.release needs counts over its own grid"):
        made().release(BucketCounts.of([1.0], grid=made(cap=7).grid), entropy=Seeded(1))
    same = BucketCounts.of([1.0], grid=made(epsilon=3, q=0.9).grid)
    assert made().release(same, entropy=Seeded(1)).mechanism == made()


@pytest.mark.parametrize(
    "values",
    ["abc", np.array(["1", "2"]), np.zeros((2, 2)), 5.0, None, np.zeros(3, dtype="datetime64[s]")],
)
def test_what_is_no_list_of_numbers_is_refused(values):
    with pytest.raises(InvalidParameter, match="one-dimensional"):
        made().release(values, entropy=Seeded(1))


def test_entropy_is_checked():
    with pytest.raises(InvalidParameter, match="entropy"):
        made().release([1.0], entropy=7)
