"""Bounds of any statistic: from an oracle, from a distance, from the list of all tables; and those that are refused."""

from __future__ import annotations

import math
from decimal import Decimal
from itertools import product

import numpy as np
import pytest

import sordino_audit as audit
from sordino import InvalidParameter, smooth
from sordino.smooth._table import Tables


def total_of_two(x, t):
    """U_t of the larger of some counts: what is below the second one, were t counts changed."""
    return abs(x - 3) + t


@pytest.mark.parametrize("beta", [0.1, 0.5, 2.0])
def test_a_bound_is_the_largest_term(beta):
    for x in range(8):
        terms = [min(20, total_of_two(x, t)) * math.exp(-beta * t) for t in range(200)]
        assert smooth.bound(total_of_two, x, beta=beta, ceiling=20) == pytest.approx(
            max(terms), rel=1e-10
        )


def test_a_bound_asks_no_farther_than_it_matters():
    asked = []

    def oracle(x, t):
        asked.append(t)
        return 4.0

    assert smooth.bound(oracle, None, beta=0.5, ceiling=8) == pytest.approx(4)
    assert asked == [0, 1]  # e^-1 of 8 is less than 4
    asked.clear()
    assert smooth.bound(oracle, None, beta=0.001, ceiling=8, steps=5) == pytest.approx(
        8 * math.exp(-0.005)
    )  # unknown beyond
    assert asked == [0, 1, 2, 3, 4]
    assert smooth.bound(lambda x, t: 0.0, None, beta=1, ceiling=8) > 0


@pytest.mark.parametrize("strange", [math.nan, None, "x", 1e400, 10**400, Decimal("NaN"), 1j])
def test_what_an_oracle_cannot_say_is_the_ceiling(strange):
    assert smooth.bound(lambda x, t: strange, None, beta=1, ceiling=8) == pytest.approx(8)
    assert smooth.bound(
        lambda x, t: -5 if t else strange, None, beta=1, ceiling=8
    ) == pytest.approx(8)


def test_the_ends_of_beta():
    assert smooth.bound(lambda x, t: 1.0, None, beta=0, ceiling=8) == pytest.approx(8)
    assert smooth.bound(lambda x, t: 1.0, None, beta=100, ceiling=8) == pytest.approx(1)
    for wrong in (
        {"beta": -1, "ceiling": 8},
        {"beta": 1, "ceiling": 0},
        {"beta": math.nan, "ceiling": 1},
    ):
        with pytest.raises(InvalidParameter):
            smooth.bound(lambda x, t: 1.0, None, **wrong)
    with pytest.raises(InvalidParameter, match="must be a function"):
        smooth.bound(3, None, beta=1, ceiling=8)


def test_a_distance():
    found = smooth.from_distance(
        [0, 1, 10, -2, math.nan, math.inf, 1e300], beta=0.2, ceiling=5, largest=0.2
    )
    assert found[:-1] == pytest.approx([5, 5 * math.exp(-0.2), 5 * math.exp(-2), 5, 5, 5], rel=1e-9)
    assert 0 < found[-1] < 1e-200
    with pytest.raises(
        InvalidParameter, match=r"beta must be at most 0\.19, the largest admissible one"
    ):
        smooth.from_distance(3, beta=0.2, ceiling=5, largest=0.19)
    assert (
        smooth.largest_beta([1, 2], [math.inf, math.inf], ceiling=5) == math.inf
    )  # nothing is that sensitive
    assert smooth.from_distance(math.inf, beta=9, ceiling=5, largest=math.inf) == pytest.approx(5)


def test_the_largest_beta_is_that_of_all_data():
    local, away = [5, 4, 1, 0], [0, 1, 3, 9]
    assert smooth.largest_beta(local, away, ceiling=5) == pytest.approx(math.log(5 / 4), rel=1e-9)
    assert smooth.largest_beta(local[2:], away[2:], ceiling=5) == pytest.approx(
        math.log(5) / 3, rel=1e-9
    )
    assert smooth.largest_beta([5, 5], [0, 2], ceiling=5) == pytest.approx(0, abs=1e-12)
    for wrong in (
        ([6], [0]),
        ([1], [-1]),
        ([1, 1], [1, math.inf]),
        ([math.nan], [1]),
        ([1, 2], [1]),
    ):
        with pytest.raises(InvalidParameter):
            smooth.largest_beta(*wrong, ceiling=5)


@pytest.mark.parametrize(("totals", "cells"), [((4,), 4), ((3, 5), 2), ((2, 3), 3), ((7,), 1)])
def test_all_tables_are_listed_once_and_found_again(totals, cells):
    tables = Tables(totals=totals, cells=cells)
    listed = tables.listed()
    brute = set(product(*(range(total + 1) for total in totals for _ in range(cells))))
    kept = {
        row
        for row in brute
        if all(sum(row[i * cells : (i + 1) * cells]) == total for i, total in enumerate(totals))
    }
    assert {tuple(row) for row in listed.reshape(tables.size, -1).tolist()} == kept
    assert len(kept) == tables.size
    assert (tables.place(listed) == np.arange(tables.size)).all()
    moves = [
        (int(x), int(y))
        for start, end in tables.moves(listed)
        for x, y in zip(start, end, strict=True)
    ]
    for x, y in moves:
        change = listed[y] - listed[x]
        assert sorted(change[change != 0].tolist()) == [-1, 1]
        assert (change.sum(axis=1) == 0).all()
    assert len(set(moves)) == len(moves) == len({(y, x) for x, y in moves})


def expected_chi_square(table):
    rows, columns, total = table.sum(axis=1), table.sum(axis=0), table.sum()
    found = 0.0
    for i, j in product(range(table.shape[0]), range(table.shape[1])):
        expected = rows[i] * columns[j] / total
        found += (table[i, j] - expected) ** 2 / expected if expected else 0.0
    return found


CASES = [((2, 2), 8), ((2, 2), (4, 5)), ((2, 3), (3, 4)), ((2, 3), 4)]


@pytest.mark.parametrize(("shape", "records"), CASES)
@pytest.mark.parametrize("beta", [0.05, 0.6])
@pytest.mark.each_value
def test_tables_have_the_smooth_sensitivity(shape, records, beta):
    """From the definition: distances by counting the units that must move, cell by cell."""
    made = smooth.table(smooth.chi_square, shape=shape, records=records, beta=beta)
    listed = made._tables.listed().reshape(-1, *shape)
    values = np.array([expected_chi_square(table) for table in listed])
    apart = np.abs(listed[:, None] - listed[None, :]).sum(axis=(2, 3)) // 2
    change = np.abs(values[:, None] - values[None, :])
    local = np.where(apart == 1, change, 0).max(axis=1)
    smallest = (local[None, :] * np.exp(-beta * apart)).max(axis=1)
    found = np.array([made.bound(table) for table in listed])
    assert [made.statistic(table) for table in listed] == pytest.approx(
        values, rel=1e-12, abs=1e-12
    )
    assert found == pytest.approx(smallest, rel=1e-9)
    assert (found >= local * (1 - 1e-13)).all()
    assert made.ceiling == pytest.approx(local.max(), rel=1e-12)


def test_the_tester_acquits_tables_and_convicts_a_short_distance():
    made = smooth.table(smooth.chi_square, shape=(2, 2), records=(5, 6), beta=0.3)
    listed = made._tables.listed()
    pairs = [
        (listed[x], listed[y])
        for start, end in made._tables.moves(listed)
        for x, y in zip(start, end, strict=True)
    ]
    assert not audit.smooth_bound(made.bound, made.statistic, neighbours=pairs, beta=0.3).broken

    def squared(table):
        """A twin that takes the distance to the worst tables as the Euclidean one, which a unit moves by more than 1."""
        worst = [
            other
            for other, local in zip(listed, locals_, strict=True)
            if local > 0.99 * made.ceiling
        ]
        return made.ceiling * math.exp(-0.3 * min(np.abs(table - other).sum() for other in worst))

    locals_ = [
        max(abs(made.statistic(x) - made.statistic(y)) for x, y in pairs if (x == table).all())
        for table in listed
    ]
    assert audit.smooth_bound(squared, made.statistic, neighbours=pairs, beta=0.3).broken


def test_counts_of_any_kind_are_tables():
    made = smooth.table(smooth.chi_square, shape=(2, 2), records=(4, 5), beta=0.3)
    for strange, plain in (
        ([[9, 9], [math.nan, None]], [[4, 0], [0, 5]]),
        (np.array([[-3.0, math.inf], [2.9, 0]]), [[0, 4], [2, 3]]),
        ([["x", 1], [10**400, 1]], [[0, 4], [5, 0]]),
    ):
        assert made.bound(strange) == made.bound(plain)
        assert made.statistic(strange) == made.statistic(plain)
    free = smooth.table(smooth.chi_square, shape=(1, 3), records=6, beta=0.3)
    assert free.statistic([[4, 4, 4]]) == free.statistic([[4, 2, 0]])
    for shape in ([1, 2, 3, 4], [[1, 2]], [[1, 2], [3]], 3, "many", None, np.zeros((2, 3))):
        with pytest.raises(InvalidParameter, match=r"counts of shape \(2, 2\)|smooth.Table needs"):
            made.bound(shape)
    assert "bound" not in repr(made)


def test_what_cannot_be_listed_is_refused():
    with pytest.raises(
        InvalidParameter, match="at most 524288 of them; got a shape and records with 96560646"
    ):
        smooth.table(smooth.chi_square, shape=(2, 3), records=100, beta=0.1)
    for wrong in (
        {"shape": (2, 2, 2), "records": 4},
        {"shape": (2, 2), "records": (4,)},
        {"shape": (0, 2), "records": 4},
        {"shape": (2, 2), "records": 0},
    ):
        with pytest.raises(InvalidParameter):
            smooth.table(smooth.chi_square, beta=0.1, **wrong)
    for statistic in (
        3,
        lambda tables: 1.0,
        lambda tables: ["a"] * len(tables),
        lambda tables: 1j * tables[:, 0, 0],
        lambda tables: np.full(len(tables), math.nan),
    ):
        with pytest.raises(InvalidParameter, match="statistic must"):
            smooth.table(statistic, shape=(2, 2), records=3, beta=0.1)


@pytest.mark.parametrize(
    ("refused", "instead"),
    [("mean", "ClippedMean"), ("sum", "ClippedSum"), ("count", "LaplaceMechanism")],
)
def test_where_nothing_is_gained_one_is_told(refused, instead):
    with pytest.raises(InvalidParameter, match=f"smooth.{refused} must not be used.*Use {instead}"):
        getattr(smooth, refused)([1, 2, 3], lower=0, upper=5, beta=0.1)


def test_an_oracle_of_a_sum_gains_nothing():
    """What `smooth.sum` says: at distance 1 everything may have moved to an end."""
    found = smooth.bound(lambda x, t: max(x, 10 - x) if t == 0 else 10, 5, beta=0.1, ceiling=10)
    assert found > 10 * math.exp(-0.11)


def test_advice_about_beta():
    def at(beta):
        return max(math.exp(-10 * beta) * 100, 1.0)

    for law, share in (("cauchy", 1), ("quartic", 3)):
        beta = smooth.best_beta(at, epsilon=1, law=law)
        assert 0 < beta < 1 / share
    assert (
        smooth.best_beta(lambda beta: 1.0, epsilon=1, law="quartic") < 0.01
    )  # nothing is gained: as little as possible
    with pytest.raises(InvalidParameter, match="above 0"):
        smooth.best_beta(lambda beta: 0.0, epsilon=1)
