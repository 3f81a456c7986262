"""Two searches over all edges, up and down: what both lose together, where it is attained, and twins that are convicted."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import pytest

from sordino import QuantileInterval
from sordino.cost import Pure, Range
from sordino.ledger import Budget
from sordino.ledger.renyi import Sums, amounts_at
from support.quantiles import columns, replaced, shorter, walk

VALUES = (0.5, 2, 5, 9)  # one for each bucket of the edges 1, 3, 7
SLACK = 1e-9
RARE = 1e-12


def made(**options):
    return QuantileInterval(
        **(
            {"q": 0.5, "epsilon": 3, "adjacency": "replace-one", "lower": 0, "cap": 7, "growth": 2}
            | options
        )
    )


def laws_of(interval, records):
    """Laws of the two edges, which have noise of their own."""
    return [
        walk(
            records,
            interval.grid.edges.tolist(),
            Fraction(str(interval.q)),
            part.scan.threshold_noise.rate,
            part.scan.noise.rate,
            part.upward,
            threshold=part.scan.threshold,
        )
        for part in interval.parts
    ]


def ends_of(one, other):
    """Smallest and largest log ratio of both edges together: of independent laws the log ratios add."""
    low = high = 0.0
    for law, less in zip(one, other, strict=True):
        ratios = [
            math.log(law[edge] / less[edge]) for edge in law if max(law[edge], less[edge]) > RARE
        ]
        low, high = low + min(ratios), high + max(ratios)
    return low, high


@pytest.mark.parametrize("q", [0, 0.25, 0.5, 0.9])
@pytest.mark.parametrize(
    ("adjacency", "rows"), [("add-remove", 1), ("replace-one", 1), ("replace-one", 2)]
)
@pytest.mark.each_value
def test_no_neighbors_lose_more_than_the_cost(q, adjacency, rows):
    interval = made(q=q, adjacency=adjacency, rows_per_unit=rows)
    law = lru_cache(None)(lambda column: laws_of(interval, column))
    worst = 0.0
    for column in columns(VALUES, 3):
        others = (
            shorter(column, rows) if adjacency == "add-remove" else replaced(column, VALUES, rows)
        )
        for other in others:
            low, high = ends_of(law(column), law(other))
            worst = max(worst, -low, high)
    assert 0.4 * float(interval.cost.pure()) < worst <= interval.cost.pure() + SLACK


def test_units_of_several_rows_that_have_others_pay_for_one_threshold():
    """The answers of one search rise where those of the other fall, so that both thresholds never pay in full."""
    interval = made(rows_per_unit=2, epsilon=1)
    assert interval.cost == Pure(epsilon=interval.cost.pure())
    assert 1 - Fraction(1, 10**9) < interval.cost.pure() <= 1
    assert {round(float(part.scan.noise.rate) * part.weight * 2, 9) for part in interval.parts} == {
        round(1 / 3, 9)
    }


def test_that_cost_is_attained_by_two_rows_that_move_up():
    """From the bucket above the lowest edge to the last one: the walk down passes a long run, and then misses them."""
    interval = made(rows_per_unit=2, cap=2**60, growth=1.05)
    low_bucket, top = float(sum(interval.grid.edges[:2])) / 2, 2.0**62
    low, high = ends_of(
        laws_of(interval, [low_bucket] * 2 + [top] * 20), laws_of(interval, [top] * 22)
    )
    assert max(-low, high) == pytest.approx(3, abs=1e-3)
    assert max(-low, high) <= 3 + SLACK
    # A broken twin: one search's price for both, e1 + e2, which is 2 here.
    assert max(-low, high) > 2.9


def test_a_record_that_comes_between_two_long_runs_loses_the_sum():
    """Under add-remove both thresholds pay: q e1 + e2 upward, (1 - q) e1 + e2 downward."""
    for rows in (1, 2):
        interval = made(adjacency="add-remove", rows_per_unit=rows, cap=2**60)
        _, high = ends_of(laws_of(interval, [1.5 * 2.0**30] * rows), laws_of(interval, []))
        (u1, u2), (d1, d2) = (
            [
                noise.rate * part.weight * rows
                for noise in (part.scan.threshold_noise, part.scan.noise)
            ]
            for part in interval.parts
        )
        assert high == pytest.approx(float(u1 + d1) / 2 + float(u2 + d2), abs=1e-3)
        assert high <= interval.cost.pure() + SLACK


def test_two_ranges_have_less_rho_than_the_bound_of_both_at_usual_rates():
    """For one record a unit under replace-one: why the sum of two ranges is stated there."""

    def share(rate):
        rate = Fraction(rate)
        return float(2 * Range(low=rate, high=2 * rate).zcdp() / Pure(epsilon=3 * rate).zcdp())

    assert [round(share(rate), 2) for rate in ("0.1", "0.5", "1")] == [0.48, 0.56, 0.73]
    assert share("1.73") < 1 < share("1.74")
    # The rates are all equal where a table has one record a unit, and a fourth of epsilon.
    interval = made(epsilon=4)
    rates = {
        round(float(noise.rate * part.weight), 6)
        for part in interval.parts
        for noise in (part.scan.threshold_noise, part.scan.noise)
    }
    assert rates == {1.0}
    assert interval.cost.pure() <= 4


def test_neither_cost_of_a_record_that_moves_is_always_the_smaller_one():
    """What the page says of the two `Range`s that are charged, and of one pure epsilon for the same rates."""

    def fitting(cost):
        budget = Budget(epsilon=3, delta=1e-6)
        return budget.limits.count_more(Sums(), amounts_at(cost, budget.order).rounded_up())

    counts = []
    for epsilon in (Fraction(1, 10), Fraction(1, 2)):
        charged = made(epsilon=epsilon).cost
        assert charged.pure() == epsilon
        counts.append((fitting(charged), fitting(Pure(epsilon=3 * epsilon / 4))))
    assert counts == [(140, 70), (6, 8)]
    assert float(made(epsilon=1).cost.zcdp()) == pytest.approx(0.1345, abs=5e-5)
    assert float(Pure(epsilon=1).zcdp()) == pytest.approx(0.462, abs=5e-4)
