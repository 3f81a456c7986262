"""Quantiles whose grid and method follow a noisy number of records: the exact law of both, its loss in every view, and twins that are convicted."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import BucketCounts, Quantile, Quantiles, Seeded, SizedQuantile
from sordino.cost import BoundedRange, GumbelStage, Pure, Range, compose
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles.quantile_plan import choose_cuts, find_step
from sordino.estimators.quantiles.rank_search import RankChoice
from support.fit import LEVEL
from support.rank_laws import law, neighbours, sized_law
from support.rank_losses import ROUNDING, Losses

SMALL = {"lower": 0, "cap": 0.1, "growth": 1.05, "cuts": 2}  # edges 0.05, 0.075, 0.1
WIDE = {"cap": 1.25, "growth": 1.5}  # edges 0.5, 0.875, 1.25
SIGNED = {"lower": None, "cap": 1, "growth": 2, "cuts": 1}  # edges -1, 0, 1
SEARCH = WIDE | {"flips": False, "epsilon": 5, "size_epsilon": 1}
GUMBEL = SEARCH | {"search_noise": "gumbel"}


def sized(**changes):
    asked = {"q": 0.5, "epsilon": 16, "size_epsilon": 3, "adjacency": "add-remove"}
    return SizedQuantile(**(asked | SMALL | changes))


CASES = {
    "flips": {},
    "flips, a quarter": {"q": 0.25},
    "flips, replaced": {"adjacency": "replace-one"},
    "flips, both signs": SIGNED | {"epsilon": 19},
    "searches": SEARCH,
    "searches, a quarter": SEARCH | {"q": 0.75},
    "searches, both signs": SEARCH | SIGNED,
    "searches, replaced": SEARCH | {"adjacency": "replace-one"},
    "Gumbel": GUMBEL,
    "Gumbel, replaced": GUMBEL | {"adjacency": "replace-one"},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rows", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_number_and_the_quantile_together_lose_at_most_the_cost(name, rows):
    m = sized(rows_per_unit=rows, **CASES[name])
    Losses(m, neighbours(m, 2 if rows == 1 else 1)).no_view_is_broken(m.cost)


def test_the_small_cases_have_several_plans():
    """Else the laws above would say nothing of grids and methods that follow from the number."""
    m = sized()
    plans = {
        (m.for_size(n).cuts, isinstance(m.for_size(n).parts[0], RankChoice)) for n in range(40)
    }
    assert len({cuts for cuts, _ in plans}) == 2
    assert {flips for _, flips in plans} == {True, False}
    searches = sized(**CASES["searches"])
    assert {searches.for_size(n).cuts for n in range(40)} == {1, 2}


@pytest.mark.parametrize("options", [{}, {"adjacency": "replace-one"}], ids=["added", "replaced"])
def test_several_quantiles_whose_grid_follows_their_number(options):
    asked = {"q": (0.3, 0.6), "epsilon": 6, "adjacency": "add-remove", "adapts": True}
    m = Quantiles(**(asked | SMALL | WIDE | options))
    assert {m.for_size(n).cuts for n in range(60)} == {1, 2}
    Losses(m, neighbours(m, 1)).no_view_is_broken(m.cost)


# ---- the price -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lower", [0, None])
@pytest.mark.parametrize("q", [0, 0.01, 0.2, 0.5, 0.9, 1])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.sample(3)
def test_whatever_the_number_is_the_price_is_the_same(lower, q, adjacency, rows):
    asked = {"q": q, "adjacency": adjacency, "rows_per_unit": rows, "lower": lower}
    asked |= {"cap": 1e6, "growth": 1.05, "cuts": 64, "epsilon": 1, "size_epsilon": None}
    sizes = [0, 1, 30, 10**3, 10**5, 10**9]
    for noise in ("geometric", "gumbel"):
        m = sized(**asked, flips=False, search_noise=noise)
        assert len({m.for_size(size).cost for size in sizes}) == 1
        assert m.cost == compose(Pure(epsilon=m.size_noise.rate * rows), m.for_size(sizes[-1]).cost)
        assert len({m.for_size(size).cuts for size in sizes}) > 1 or q in {0, 1}
    free = sized(**asked)
    assert all(free.for_size(size).cost.pure() <= free.budget for size in sizes)
    assert free.cost == compose(
        Pure(epsilon=free.size_noise.rate * rows), Pure(epsilon=free.budget)
    )
    assert free.cost.pure() <= 1


def test_a_method_that_follows_the_number_at_the_price_of_one_of_them_is_convicted():
    """One search or two, as the number says: one of them has half the rho of the other (8.K of the specification: .230 and .420)."""
    asked = {
        "q": 0.9,
        "lower": None,
        "cap": 1e6,
        "growth": 1.05,
        "epsilon": 1,
        "size_epsilon": 0.05,
    }
    m = sized(**asked)
    few, many = (m._build(cuts=1, method="above-threshold", size_hint=n) for n in (10, 10**6))
    assert (len(few.parts), len(many.parts)) == (2, 1)
    assert [round(float(one.cost.zcdp()), 2) for one in (many, few)] == [0.23, 0.42]
    # So what is charged is neither of them, but a pure epsilon that holds both.
    assert isinstance(few.cost, Range)
    assert Pure(epsilon=m.budget).zcdp() >= max(few.cost.zcdp(), many.cost.zcdp())


def test_with_a_size_hint_nothing_is_spent_on_the_number():
    m = sized(size_hint=1000, size_epsilon=None)
    assert (m.size_noise, m.budget, m.cost) == (None, 16, Pure(epsilon=16))
    found = m.release([1.5] * 300, entropy=Seeded(1))
    assert found.records is None


@pytest.mark.parametrize("epsilon", [16, 17])
def test_the_number_cannot_take_all_of_epsilon(epsilon):
    with pytest.raises(InvalidParameter, match="size_epsilon must be below epsilon, 16"):
        sized(size_epsilon=epsilon)
    with pytest.raises(InvalidParameter, match="flips must be False with Gumbel noise"):
        sized(search_noise="gumbel")


@pytest.mark.parametrize(
    "asked",
    [
        {"q": 0.333334, "epsilon": 1e-6, "size_epsilon": 1e-7},
        {"q": 0, "epsilon": 3 * 10**12, "size_epsilon": 1},
    ],
    ids=["no noise so wide", "no noise so narrow"],
)
def test_what_no_noise_fits_is_refused_when_it_is_made(asked):
    """And not once the number of records says which method follows, after the charge."""
    with pytest.raises(InvalidParameter, match="rate"):
        sized(**asked)


# ---- twins ---------------------------------------------------------------------------------------------------------------


def worst(m, pairs, law_of_it):
    known = {one: law_of_it(one) for pair in pairs for one in pair}
    found = 0.0
    for a, b in pairs:
        for key in known[a].keys() | known[b].keys():
            p, r = known[a].get(key, 0.0), known[b].get(key, 0.0)
            if max(p, r) > 1e-9:
                found = max(found, abs(math.log(p / r)) if min(p, r) > 0 else math.inf)
    return found


def test_a_number_that_is_used_and_not_charged_is_convicted():
    m = sized(epsilon=6, size_epsilon=4)
    found = worst(m, list(neighbours(m, 2)), lambda one: law(m, one))
    assert float(m.budget) + 1 < found <= m.cost.pure() + ROUNDING


def test_a_grid_from_the_true_number_is_convicted():
    m = sized()

    def twin(one):
        counted = BucketCounts(grid=m.grid, counts=np.array(one))
        return sized_law(m, counted, {counted.records: 1.0})

    assert worst(m, list(neighbours(m, 2)), twin) == math.inf


# ---- rules ---------------------------------------------------------------------------------------------------------------

# Noisy number, epsilon, q, method, fine edges for each edge: from the specification, whose grid has 2^20 edges up to 1e9.
ORACLE = [
    (300, 0.1, 0.5, "search", 503),
    (300, 0.1, 0.99, "search", 503),
    (300, 1.0, 0.5, "flip", 89),
    (300, 1.0, 0.9, "flip", 160),
    (300, 1.0, 0.99, "search", 503),
    (1000, 0.1, 0.5, "flip", 266),
    (1000, 0.1, 0.9, "search", 503),
    (1000, 1.0, 0.5, "flip", 27),
]


@pytest.mark.parametrize(("size", "epsilon", "q", "method", "spacing"), ORACLE)
def test_the_rule_is_that_of_the_specification(size, epsilon, q, method, spacing):
    m = sized(q=q, epsilon=epsilon, size_epsilon=None, cap=1e9, growth=1.01, cuts=256)
    plan = m.for_size(size)
    assert isinstance(plan.parts[0], RankChoice) == (method == "flip")
    step = math.log(1e9 + 1) / (1 << 20)
    # Powers of two, and sizes of four digits: within a factor of two.
    assert 0.5 < find_step(1.01, plan.cuts) / (spacing * step) < 2.1


def test_cuts_are_divisors_of_the_most_there_may_be():
    sizes = (0, 1, 100, 201, 1000, 10**6, 10**30)
    assert [choose_cuts(n, 1.01, 256) for n in sizes] == [1, 1, 1, 2, 8, 256, 256]
    # Seven times a power of two has all of these as divisors.
    found = {choose_cuts(n, 1.01, 448) for n in range(1, 60_000, 7)}
    assert found == {1, 2, 4, 7, 8, 14, 16, 28, 32, 56, 64, 112, 224, 448}
    assert all(448 % cuts == 0 for cuts in found)


# ---- what is released ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"flips": False}], ids=["flips", "searches"])
@pytest.mark.sample(2)
def test_draws_follow_the_law(options):
    m, n, entropy = sized(epsilon=9, size_epsilon=1, **options), 500, Seeded(5)
    counts = (2, 3, 0, 2)
    expected, drawn = {}, {}
    column = BucketCounts(grid=m.grid, counts=np.array(counts))
    for (size, _, (_, place)), chance in law(m, counts).items():
        plan = m.for_size(size)
        flips = isinstance(plan.parts[0], RankChoice)
        value = plan.value_of(place, None if flips else plan.parts[0].upward)
        key = (size, value)
        expected[key] = expected.get(key, 0.0) + chance
    for _ in range(n):
        found = m.release(column, entropy=entropy)
        drawn[found.records, found.value] = drawn.get((found.records, found.value), 0) + 1
    assert set(drawn) <= set(expected)
    often = [key for key in expected if expected[key] * n > 5]
    seen = [drawn.get(key, 0) for key in often]
    chances = np.array([expected[key] for key in often])
    observed, wanted = np.array([*seen, n - sum(seen)]), np.append(chances, 1 - chances.sum())
    assert stats.chisquare(observed, wanted * n).pvalue > LEVEL


def test_columns_together_are_released_as_each_alone_would_be():
    """Columns of many sizes have plans of their own: each release is of its column, in order."""
    m = sized(epsilon=60, size_epsilon=20, cap=1000, growth=1.1, cuts=16)
    columns = [[float(100 * (place + 1))] * (10 ** (place % 3 + 1)) for place in range(9)]
    found = m.release_each(columns, entropy=Seeded(3))
    for place, one in enumerate(found):
        assert abs(one.value / (100 * (place + 1)) - 1) < 0.11, place
        assert abs(one.records - len(columns[place])) < 5


def test_the_grid_is_named_where_it_limits():
    """Of a million records one bucket holds thousands; of single whole numbers nothing lies between edges."""
    rows = np.arange(1, 1_000_001) % 1000 / 10 + 100
    asked = {"q": 0.5, "epsilon": 1, "size_epsilon": None, "cap": 1e6, "growth": 1.01}
    coarse, fine = (sized(**asked | {"cuts": cuts}) for cuts in (1, 512))
    assert coarse.release(rows, entropy=Seeded(1)).limited_by_grid
    assert not fine.release(rows[:5000], entropy=Seeded(1)).limited_by_grid
    whole = sized(**asked | {"cuts": 1, "integer": True, "cap": 10**6})
    ages = np.arange(1_000_000) % 90
    assert not whole.release(ages, entropy=Seeded(1)).limited_by_grid
    assert whole.release(ages * 10_000, entropy=Seeded(1)).limited_by_grid


def test_a_size_hint_is_not_dropped_for_several_quantiles():
    """Their number is released in any case; what somebody says of it decides the grid, and intervals follow."""
    asked = {"q": (0.3, 0.6), "epsilon": 6, "adjacency": "add-remove", "adapts": True}
    asked |= {"lower": 0, "cap": 1e6, "growth": 1.05, "cuts": 64, "size_hint": 100}
    hinted, unsaid = Quantiles(**asked), Quantiles(**asked | {"size_hint": None})
    assert hinted.for_size(10**6) == hinted.for_size(100) == unsaid.for_size(100)
    assert unsaid.for_size(10**6).cuts > unsaid.for_size(100).cuts
    found = hinted.release([2.5] * 50, entropy=Seeded(1))
    assert abs(found.records - 50) < 20
    assert found[0].searched_grid == hinted.for_size(100).grid


@pytest.mark.parametrize("hint", [None, 1000])
def test_the_grid_that_was_searched_is_told(hint):
    m = sized(size_hint=hint, size_epsilon=None, cap=1e6, growth=1.05, cuts=64, epsilon=4)
    found = m.release([2.5] * 1000, entropy=Seeded(1))
    assert found.searched_grid == m.for_size(hint or found.records).grid
    assert found.limited_by_grid is False
    told = found.to_dict()
    assert "limited_by_grid" in told
    assert ("records" in told) == (hint is None)
    given = Quantile(q=0.5, epsilon=4, adjacency="add-remove", lower=0, cap=1e6)
    alone = given.release([2.5] * 1000, entropy=Seeded(1))
    assert alone.searched_grid == given.grid
    assert not {"records", "limited_by_grid"} & alone.to_dict().keys()


# ---- the audit -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["flips", "searches"])
@pytest.mark.slow
def test_the_audit_adds_up_the_same_law(name):
    m = sized(**CASES[name])
    between = float(m.grid.edges[1:].mean())
    report = audit.exact(m, answers_a=[0, between], answers_b=[0])
    exact = Losses(m, [((1, 0, 1, 0), (1, 0, 0, 0))]).worst
    assert report.epsilon_at_least == pytest.approx(exact, abs=1e-6)
    assert not report.broken


def test_the_audit_refuses_a_number_with_too_much_noise():
    with pytest.raises(InvalidParameter, match="at most 500 of them; got noise of the rate 0.1"):
        audit.exact(sized(size_epsilon=Fraction(1, 10)), answers_a=[0], answers_b=[])
    for name, kind in (("Gumbel", BoundedRange), ("Gumbel, replaced", GumbelStage)):
        assert any(isinstance(part, kind) for part, _ in sized(**CASES[name]).cost.parts)
