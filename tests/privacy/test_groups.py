"""Releases of groups, exactly: what all of them lose together is within what a session says, for all neighbors of small tables."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement, product

import pytest

import sordino as sd
from sordino.cost import RDP, ZCDP, Composition, Pure, Range, compose, repeat
from sordino.session.table_numbers import TableNumbers
from support.clipped_laws import GRID, compared, excess, neighbours, worst_loss
from support.quantiles import law_of

VALUES = (0.5, 2.0, 5.0)
SMALL = [records for size in range(3) for records in combinations_with_replacement(VALUES, size)]
QUANTILE = sd.Quantile(q=0.5, epsilon=0.8, adjacency="add-remove", lower=0, cap=7, growth=2)


@cache
def lost(before, after):
    """The largest loss of one group: of all edges that it may release."""
    one, other = (law_of(QUANTILE, list(records)) for records in (before, after))
    return max(math.log(one[edge] / other[edge]) for edge in one)


def largest(changes, groups):
    """The largest loss of independent releases: each group loses its own, and the worst outputs may come together."""
    worst = sorted((lost(*change) for change in changes), reverse=True)
    return sum(worst[:groups])


def cost(adjacency, groups):
    wrapped = TableNumbers(
        estimator=QUANTILE, adjacency=adjacency, labels=("a", "b", "c"), groups_per_unit=groups
    )
    return float(wrapped.cost.pure())


JOINED = [(records, (*records, new)) for records in SMALL for new in VALUES]
LEFT = [(after, before) for before, after in JOINED]
EXCHANGED = [
    ((*records, old), (*records, new)) for records in SMALL for old, new in product(VALUES, VALUES)
]


@pytest.mark.parametrize("groups", [1, 2])
def test_units_that_come_or_go_cost_the_budgets_of_their_groups(groups):
    for changes in (JOINED, LEFT):
        assert largest(changes, groups) <= cost("add-remove", groups) + 1e-9
    assert max(largest(JOINED, groups), largest(LEFT, groups)) > 0.9 * cost("add-remove", groups), (
        "about attained"
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_units_that_are_replaced_cost_twice_that_wherever_they_were(groups):
    """In other groups than before, in the same ones, or some of both: one of these ways costs more than once the budget."""
    total = cost("replace-one", groups)
    assert largest(LEFT, groups) + largest(JOINED, groups) <= total + 1e-9
    assert largest(EXCHANGED, groups) <= total + 1e-9
    assert largest(LEFT, groups) + largest(JOINED, groups) > cost("add-remove", groups), (
        "the budget of one life is not enough"
    )


# ---- Gaussian totals ----------------------------------------------------------------------------------------------------

SIGNED = (-9.0, 0.5, 7.99, 9.0)
TOTALS = [
    kind(epsilon=1, adjacency="add-remove", lower=None, total_rho=0.25, **GRID)
    for kind in (sd.ClippedSum, sd.ClippedMean, sd.ClippedVariance)
]


@pytest.mark.parametrize("estimator", TOTALS, ids=["sum", "mean", "variance"])
def test_a_unit_that_is_replaced_within_a_group_costs_more_than_one_step(estimator):
    """Noise is for one step: two in a row move a sum twice as far, and the rho is of the square; of a mean no total is negative."""
    wrapped = TableNumbers(
        estimator=estimator, adjacency="replace-one", labels=("a",), groups_per_unit=1
    )
    pairs = [
        ((*rest, old), (*rest, new))
        for rest in [(), (0.5,)]
        for old, new in product(SIGNED, SIGNED)
    ]
    found = compared(estimator, [pair for pair in pairs if pair[0] != pair[1]])
    assert excess(wrapped.cost, found) <= 1e-9
    [rho] = [part.rho for part, _ in wrapped.cost.parts if isinstance(part, ZCDP)]
    is_sum = isinstance(estimator, sd.ClippedSum)
    assert rho == (4 if is_sum else 2) * estimator.total_cost.rho
    # Twice what one step costs is not enough for a sum, whose totals may cross from one end to the other.
    if isinstance(estimator, sd.ClippedSum):
        assert found[2] > 0.97 * float(rho)
        assert excess(repeat(estimator.cost, 2), found) > 0.05


@pytest.mark.parametrize("groups", [1, 3])
def test_groups_of_gaussian_totals_cost_what_their_parts_do(groups):
    coming, replaced = (
        TableNumbers(
            estimator=TOTALS[0], adjacency=adjacency, labels=("a", "b"), groups_per_unit=groups
        ).cost
        for adjacency in ("add-remove", "replace-one")
    )
    assert coming == repeat(TOTALS[0].cost, groups)
    assert isinstance(replaced, Composition)
    assert dict(replaced.parts) == {
        sd.cost.Pure(epsilon=TOTALS[0].search.cost.low + TOTALS[0].search.cost.high): groups,
        ZCDP(rho=1): groups,
    }
    # A unit that leaves one group and joins another one costs each of them one step.
    assert all(
        repeat(TOTALS[0].cost, 2 * groups).rdp(order) <= replaced.rdp(order)
        for order in (1.5, 2, 8, 64)
    )


# ---- rows in all groups together ----------------------------------------------------------------------------------------

MONEY = {"adjacency": "add-remove", "lower": None, **GRID}
FIGURES = [kind(epsilon=0.5, **MONEY) for kind in (sd.ClippedSum, sd.ClippedMean)]


def together(estimator, rows, adjacency="add-remove"):
    return TableNumbers(
        estimator=estimator,
        adjacency=adjacency,
        labels=("a", "b", "c"),
        groups_per_unit=rows,
        together=True,
    )


def test_two_rows_cost_the_same_in_one_group_and_in_two():
    """All tables of at most two records in a group, and all units of two rows: exactly."""
    spent = float(together(QUANTILE, 2).cost.pure())
    assert spent == pytest.approx(2 * QUANTILE.epsilon)
    pairs = [(records, (*records, *new)) for records in SMALL for new in product(VALUES, VALUES)]
    one_group = max(max(lost(*pair), lost(*pair[::-1])) for pair in pairs)
    in_two = max(largest(JOINED, 2), largest(LEFT, 2))
    assert max(one_group, in_two) <= spent + 1e-9
    assert min(one_group, in_two) > 0.85 * spent, "both are about attained"
    assert in_two > float(together(QUANTILE, 1).cost.pure()), "the price of one row is convicted"
    replaced = float(together(QUANTILE, 2, "replace-one").cost.pure())
    assert largest(LEFT, 2) + largest(JOINED, 2) <= replaced + 1e-9
    ends = QUANTILE.cost.low + QUANTILE.cost.high
    assert replaced == pytest.approx(float(2 * ends))
    assert ends < 2 * QUANTILE.epsilon


@pytest.mark.parametrize("kind", [sd.ClippedSum, sd.ClippedMean, sd.ClippedVariance])
@pytest.mark.sample(3)
def test_two_rows_of_figures_cost_at_most_twice_a_row(kind):
    estimator = kind(epsilon=0.5, **MONEY)
    spent = float(together(estimator, 2).cost.pure())
    one_group, _ = worst_loss(estimator, neighbours("add-remove", 2, 1))
    one_row, _ = worst_loss(estimator, neighbours("add-remove", 1, 1))
    assert max(one_group, 2 * one_row) <= spent + 1e-9
    assert min(one_group, 2 * one_row) > 0.8 * spent, "both are about attained"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_rows_in_any_group_are_steps_in_a_row(adjacency, rows):
    """One search that loses as many intervals, and one number that moves by as many rows."""
    exchanged = adjacency == "replace-one"
    steps = rows * (2 if exchanged else 1)
    wrapped = together(FIGURES[0], rows, adjacency)
    search, total = FIGURES[0].search.cost, FIGURES[0].total_cost
    ends = {"low": rows * search.low, "high": rows * search.high}
    assert wrapped.cost == compose(
        Pure(epsilon=sum(ends.values()))
        if exchanged
        else Range(**ends, orientation=search.orientation),
        RDP(laplace=steps * total.laplace, laplace_steps=steps * total.laplace_steps),
    )
    assert wrapped.budgets == steps
