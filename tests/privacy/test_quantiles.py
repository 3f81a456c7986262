"""Quantiles over all small data sets and their neighbours: the exact law of every output, its loss, and twins that must be convicted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import sordino_audit as audit
from sordino import BucketCounts, Quantile, Quantiles, Seeded
from sordino.cost import Pure, Range
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles.rank_search import Runs
from sordino_audit.enumeration.searches import law_of, quantiles_paths
from support.fit import LEVEL
from support.rank_laws import law, multiplied, neighbours, part_law, plus
from support.rank_losses import ROUNDING, Losses

SMALL = {"lower": 0, "cap": 7, "growth": 2}  # edges 1, 3, 7
SIGNED = {"lower": None, "cap": 1, "growth": 2}  # edges -1, 0, 1


def quantile(**changes):
    return Quantile(**({"q": 0.5, "epsilon": 2, "adjacency": "add-remove"} | SMALL | changes))


def quantiles(**changes):
    return Quantiles(**({"q": (0.5,), "epsilon": 2, "adjacency": "add-remove"} | SMALL | changes))


# --- one quantile -----------------------------------------------------------------------------------------------------------------

AT = {"method": "above-threshold"}
ONE = {
    "up": {},
    "up, three quarters": {"q": 0.75, "ratio": 2},
    "all": {"q": 1},
    "down": {"q": 0},
    "down, a twenty-fifth": {"q": 0.04, "ratio": 0.5},
    "two searches": SIGNED,
    "one search, both signs": SIGNED | AT | {"size_hint": 1000, "q": 0.25},
    "replaced": {"adjacency": "replace-one", "q": 0.25},
    "permute and flip": {"method": "permute-and-flip", "q": 0.25},
    "permute and flip, replaced": {"method": "permute-and-flip", "adjacency": "replace-one"},
}
EXACTLY = {"down"}  # elsewhere long runs of equal counts approach the cost, or nothing is known to


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.slow
def test_a_quantile_loses_at_most_its_cost(name, rows):
    m = quantile(rows_per_unit=rows, **ONE[name])
    found = Losses(m, neighbours(m, 2))
    found.no_view_is_broken(m.cost)
    if (
        isinstance(m.cost, Range) and m.adjacency == "add-remove"
    ):  # oriented: the larger data set comes first
        assert m.cost.orientation
        assert found.forth <= m.cost.high + ROUNDING
        assert found.back <= m.cost.low + ROUNDING
    if name in EXACTLY and rows == 1:
        assert found.worst == pytest.approx(float(m.cost.pure()), abs=ROUNDING)


def long_run(m, below, above, added):
    """A column with records below all edges and at the cap only, and the same with one record more: K - 1 equal counts."""
    first = (below, *[0] * (m.grid.size - 1), above)
    return plus(first, tuple(int(i == added) for i in range(m.grid.size + 1))), first


@pytest.mark.parametrize(
    ("options", "below", "above", "added", "end"),
    [
        ({"q": 0.5}, 4, 4, -2, "high"),  # the next to last bucket: the last edge alone counts it
        ({"q": 1, "ratio": 2}, 8, 0, -2, "high"),
        (
            {"q": 0.25, "ratio": 4},
            1,
            3,
            0,
            "low",
        ),  # the lowest bucket: all edges count it, (1 - q) e1
    ],
)
def test_the_cost_of_a_search_is_attained_by_long_runs(options, below, above, added, end):
    m = quantile(epsilon=3, cap=2**60, **options)
    added = added % (m.grid.size + 1)
    found = Losses(m, [long_run(m, below, above, added)])
    reached, claimed = (found.forth, m.cost.high) if end == "high" else (found.back, m.cost.low)
    assert reached == pytest.approx(float(claimed), abs=1e-6)


def moved_row(m):
    """Two columns: one row goes from the lowest bucket to the next to last one."""
    middle = [0] * (m.grid.size - 2)
    return (5, *middle, 0, 4), (4, *middle, 1, 4)


def test_the_cost_of_a_replaced_row_is_attained():
    m = quantile(adjacency="replace-one", cap=2**60)
    assert m.cost.pure() == 2
    assert Losses(m, [moved_row(m)]).worst == pytest.approx(2, abs=1e-6)


# --- several ----------------------------------------------------------------------------------------------------------------------

REPLACED = {"adjacency": "replace-one"}
TWO_EDGES = {"cap": 3}
SEVERAL = {
    "one": (REPLACED, 2),
    "three": (REPLACED | {"q": (0.25, 0.5, 0.75), "epsilon": 3}, 2),
    "both signs": (REPLACED | SIGNED | {"q": (0.2, 0.5), "epsilon": 3}, 2),
    "one, number private": (TWO_EDGES, 2),
}
MANY = {
    "two, number private": (TWO_EDGES | {"q": (0.25, 0.5), "epsilon": 3}, 2),
    "two rows": (TWO_EDGES | {"rows_per_unit": 2}, 1),
    "two rows, replaced": (TWO_EDGES | REPLACED | {"rows_per_unit": 2}, 0),
    "row replaced, two": (TWO_EDGES | REPLACED | {"q": (0.3, 0.6)}, 1),
    "two rows, three quantiles": (
        TWO_EDGES | {"rows_per_unit": 2, "q": (0.25, 0.5, 0.75), "epsilon": 4},
        0,
    ),
    "five": (REPLACED | {"q": (0, 0.25, 0.5, 0.75, 1), "epsilon": 3}, 2),
}


@pytest.mark.parametrize(
    "name", [*SEVERAL, *(pytest.param(name, marks=pytest.mark.slow) for name in MANY)]
)
def test_quantiles_lose_at_most_their_cost(name):
    options, base = (SEVERAL | MANY)[name]
    m = quantiles(**options)
    found = Losses(m, neighbours(m, base))
    found.no_view_is_broken(m.cost)


@pytest.mark.parametrize(("epsilon", "reached"), [(2, 1.98), (40, 40 - 1e-6)])
@pytest.mark.slow
def test_one_level_is_attained_where_a_row_is_replaced(epsilon, reached):
    """The noisy number takes a little away, and less the larger epsilon is."""
    below, above = (0,) * 4, (2**60,) * 4
    m = quantiles(adjacency="replace-one", cap=2**60, epsilon=epsilon)
    found = audit.exact(m, answers_a=(*below, 0, *above), answers_b=(*below, 2**59, *above))
    assert reached < found.epsilon_at_least <= epsilon


@pytest.mark.slow
def test_a_row_between_two_searches_of_a_level_attains_two_sides_of_one():
    # it leaves the lower half and joins the upper one: each search loses e, in different directions, 2 e together
    m = quantiles(q=(0.25, 0.5, 0.75), epsilon=4, adjacency="replace-one", growth=1.5)
    found = Losses(m, neighbours(m, 1))
    # The noisy number of records takes a little away.
    assert 2.9 < found.worst <= m.cost.pure() + ROUNDING


@pytest.mark.slow
def test_draws_follow_the_law():
    m = quantiles(q=(0.25, 0.5, 0.75), epsilon=3)
    counts, n = (3, 2, 0, 4), 600
    values = [1.0, 3.0, 7.0, 7.0, 0.0]  # of the edges 0, 1, 2 and 3, behind the last, and -1
    expected, drawn, entropy = {}, {}, Seeded(3)
    for edges, chance in law(m, counts).items():
        key = tuple(values[edge] for edge in edges)
        expected[key] = expected.get(key, 0.0) + chance
    for _ in range(n):
        key = tuple(
            one.value
            for one in m.release(
                BucketCounts(grid=m.grid, counts=np.array(counts)), entropy=entropy
            )
        )
        drawn[key] = drawn.get(key, 0) + 1
    assert set(drawn) <= set(expected)
    often = [key for key in expected if expected[key] * n > 5]
    observed = np.array(
        [*(drawn.get(key, 0) for key in often), n - sum(drawn.get(key, 0) for key in often)]
    )
    chances = np.array([expected[key] for key in often])
    assert stats.chisquare(observed, np.append(chances, 1 - chances.sum()) * n).pvalue > LEVEL


def any_quantile(rng):
    """Return a quantile, or several, of public parameters drawn at random."""
    few = bool(rng.random() < 0.35)
    lower, edges = (None, 2) if rng.random() < 0.3 else (0, int(rng.integers(2, 3 if few else 7)))
    options = {
        "lower": lower,
        "cap": 2**edges - 1,
        "adjacency": str(rng.choice(["add-remove", "replace-one"])),
        "rows_per_unit": int(rng.integers(1, 4)),
    }
    if few:
        shares = rng.choice(
            [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1], size=int(rng.integers(1, 5)), replace=False
        )
        return quantiles(q=tuple(sorted(shares.tolist())), epsilon=5, **options)
    return quantile(
        q=float(rng.choice([0, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 1])),
        epsilon=float(rng.choice([1, 2, 5])),
        ratio=float(rng.choice([0.3, 1, 3])),
        method=str(rng.choice(["above-threshold", "permute-and-flip"])),
        size_hint=None if rng.random() < 0.5 else 1000,
        **options,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_columns_and_parameters_at_random(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        m = any_quantile(rng)
        buckets = m.grid.size + 1
        rest = rng.integers(0, 13, size=buckets) * (rng.random(buckets) < 0.6)
        rows = rng.integers(0, m.rows_per_unit + 1, size=2) * [1, m.adjacency == "replace-one"]
        a, b = (
            rest + np.bincount(rng.integers(0, buckets, size=n), minlength=buckets) for n in rows
        )
        Losses(m, [(tuple(a.tolist()), tuple(b.tolist()))]).no_view_is_broken(m.cost)


# --- the audit --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["up, three quarters", "down", "two searches", "permute and flip"])
@pytest.mark.slow
def test_the_audit_adds_up_the_same_law(name):
    m = quantile(**ONE[name])
    values = [0.5, 2, 2, 5, -4, 0]
    runs = Runs.of(BucketCounts.of(values, grid=m.grid))
    for part in m.parts:
        told = dict(law_of(part, runs))
        expected = part_law(part, runs)
        assert set(told) == set(expected)
        for output, (low, high) in told.items():
            assert low <= high
            assert float(low) == pytest.approx(expected[output], rel=1e-11)
    reported = audit.exact(m, answers_a=values, answers_b=values[:-1])
    ratios = [
        p / q
        for p, q in zip(
            *(
                law(m, BucketCounts.of(x, grid=m.grid).counts).values()
                for x in (values, values[:-1])
            ),
            strict=True,
        )
    ]
    assert reported.epsilon_at_least == pytest.approx(
        max(math.log(max(ratios)), -math.log(min(ratios))), abs=1e-9
    )
    assert not reported.broken


@pytest.mark.slow
def test_the_audit_of_several_quantiles():
    m = quantiles(q=(0.25, 0.5, 0.75), epsilon=4, adjacency="replace-one")
    report = audit.exact(m, answers_a=[0, 0, 3], answers_b=[0, 0, 0])
    assert report.epsilon_at_least == pytest.approx(
        Losses(m, [((2, 0, 1, 0), (3, 0, 0, 0))]).worst, abs=1e-9
    )
    assert not report.broken
    with pytest.raises(InvalidParameter, match="at most 500 of them; got noise of the rate 0.05"):
        audit.exact(quantiles(epsilon=0.1), answers_a=[0], answers_b=[])
    with pytest.raises(InvalidParameter, match="at most 64; got"):
        audit.exact(quantile(growth=1.01), answers_a=[0], answers_b=[])


@pytest.mark.slow
def test_the_audit_of_a_private_number_of_records():
    m = quantiles(cap=3, epsilon=6)
    report = audit.exact(m, answers_a=[0, 2], answers_b=[0])
    assert report.epsilon_at_least == pytest.approx(
        Losses(m, [((1, 1, 0), (1, 0, 0))]).worst, abs=1e-9
    )
    assert report.epsilon_at_most == pytest.approx(report.epsilon_at_least, abs=1e-6)
    assert report.unresolved < 1e-12


# --- twins ------------------------------------------------------------------------------------------------------------------------


class Sold:
    """A mechanism with another price, or other parts, than its own."""

    def __init__(self, m, **changes):
        self.m, self.changes = m, changes

    def __getattr__(self, name):
        return self.changes[name] if name in self.changes else getattr(self.m, name)


def convicted(m, law_of_it, pairs, cost):
    known = {one: law_of_it(m, one) for pair in pairs for one in pair}
    ratios = [abs(math.log(known[a][key] / known[b][key])) for a, b in pairs for key in known[a]]
    return max(ratios) > cost.pure() + ROUNDING


def test_a_threshold_that_follows_the_records_at_the_price_of_a_fixed_one_is_convicted():
    # count - q n under add-remove, charged max(e1, e2) as for a threshold that no record moves
    m = quantile(q=1)
    rate = m.parts[0].scan.noise.rate
    pairs = list(neighbours(m, 2))
    assert not convicted(m, law, pairs, m.cost)
    assert convicted(m, law, pairs, Pure(epsilon=rate))


def test_rates_for_one_row_of_a_unit_with_two_are_convicted():
    m = quantile(q=0)
    two = list(neighbours(quantile(q=0, rows_per_unit=2), 1))
    assert convicted(m, law, two, m.cost)


def test_a_replaced_row_at_the_price_of_an_added_one_is_convicted():
    m = quantile(cap=2**60)  # e1/2 + e2 if a row joins, e1 + e2 if it moves
    assert convicted(m, law, [moved_row(m)], m.cost)


@pytest.mark.slow
def test_a_unit_that_moves_between_searches_at_the_price_of_one_of_them_is_convicted():
    m = quantiles(q=(0.25, 0.5, 0.75), epsilon=4, adjacency="replace-one", growth=1.5)
    assert convicted(m, law, list(neighbours(m, 1)), Pure(epsilon=m.noise.rate * m.levels))


def test_targets_from_the_true_number_of_records_at_no_price_are_convicted():
    honest = quantiles(q=(0.5,), epsilon=4, cap=3)
    twin = Sold(honest, size_noise=None)
    searches = Pure(epsilon=honest.noise.rate * honest.levels)
    pairs = list(neighbours(honest, 2))
    sold = {
        one: multiplied(
            quantiles_paths(honest, honest.targets(sum(one))),
            Runs.of(BucketCounts(grid=honest.grid, counts=np.array(one))),
        )
        for pair in pairs
        for one in pair
    }
    assert convicted(twin, lambda _, one: sold[one], pairs, searches)
