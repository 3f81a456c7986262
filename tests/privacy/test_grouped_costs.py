"""Figures of groups, in every view: divergences of searches and totals together against what is charged for all groups.

Groups are independent given the table, so divergences add up over them: what is enumerated is one group with its part of
the unit, and then every way to divide a unit among groups.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

import sordino as sd
from sordino.cost import RDP, ZCDP, Pure, Range, compose, repeat
from sordino.cost.composition import cost_of_groups
from sordino.cost.range import LARGER_FIRST
from sordino.session.table_numbers import TableNumbers
from support.clipped_laws import GRID, noise_of, stages
from support.quantiles import law_of

ORDERS = (1.01, 1.5, 2, 3, 8, 22)
ADD = {"exchanged": False, "growing": False}


def moment(rate, steps, order):
    """E_Q (dP/dQ)^order of discrete Laplace noise on a number that moves by so many steps, from its masses."""
    if steps == 0:
        return 1.0
    r = math.exp(-rate)
    # The law is a sum over all z between the two places and of both ends; so many terms are an integral.
    if steps > 4000:
        e, a = rate * steps, order
        return a / (2 * a - 1) * math.exp((a - 1) * e) + (a - 1) / (2 * a - 1) * math.exp(-a * e)
    z = np.arange(1, steps)
    loss = rate * (steps - 2 * z)
    mass = (1 - r) / (1 + r) * r**z
    ends = math.exp((order - 1) * rate * steps) / (1 + r) + r**steps / (1 + r) * math.exp(
        -(order - 1) * rate * steps
    )
    return ends + float(mass @ np.exp((order - 1) * loss))


def divergence(moves, rate, order):
    """Of several numbers with noise of their own, which move by so many steps each."""
    return sum(math.log(moment(rate, abs(move), order)) for move in moves) / (order - 1)


# ---- totals alone ----------------------------------------------------------------------------------------------------


def splits(most, numbers):
    """All ways in which so many steps, or fewer, fall to several numbers."""
    return [one for one in product(range(most + 1), repeat=numbers) if sum(one) <= most]


@pytest.mark.parametrize("rate", [0.03, 0.4])
@pytest.mark.parametrize("steps", [1, 5])
def test_rows_in_any_group_cost_what_one_number_does_that_moves_by_all(rate, steps):
    """Each row moves the totals by at most `steps` of the grid, whichever of three they are."""
    one = RDP(laplace=rate * steps, laplace_steps=steps)
    for rows in (2, 4):
        stated = cost_of_groups(one, most=rows, anywhere=True, **ADD)
        wrong = repeat(one, rows)
        worst = {
            order: max(divergence(moves, rate, order) for moves in splits(rows * steps, 3))
            for order in ORDERS
        }
        assert all(worst[order] <= stated.rdp(order) * (1 + 1e-9) for order in ORDERS)
        assert all(worst[order] >= stated.rdp(order) * (1 - 1e-6) for order in ORDERS)
        # All rows may be in one group: then they are steps in a row, and no releases of their own.
        assert max(worst[order] / wrong.rdp(order) for order in ORDERS) > 1.3
        # A coarser grid at the same rate costs more, and so it is no wrong price.
        coarse = RDP(laplace=rows * one.laplace, laplace_steps=steps)
        assert all(stated.rdp(order) <= coarse.rdp(order) * (1 + 1e-12) for order in ORDERS)


def apart(one, other):
    return tuple(a - b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("rate", [0.03, 0.4])
def test_units_that_are_exchanged_move_what_only_rises_by_less(rate):
    """What leaves takes up to `rows * steps` away, and what joins brings as much: totals that only rise differ by the larger one."""
    steps, rows = 3, 2
    one = RDP(laplace=rate * steps, laplace_steps=steps)
    rising = [apart(out, back) for out, back in product(splits(rows * steps, 2), repeat=2)]
    anything = [
        apart(tuple(s * x for s, x in zip(signs, out, strict=True)), back)
        for out, back in product(splits(rows * steps, 2), repeat=2)
        for signs in product((1, -1), repeat=2)
    ]
    for growing, moves in ((True, rising), (False, anything)):
        stated = cost_of_groups(one, most=rows, anywhere=True, exchanged=True, growing=growing)
        worst = {order: max(divergence(move, rate, order) for move in moves) for order in ORDERS}
        assert all(worst[order] <= stated.rdp(order) * (1 + 1e-9) for order in ORDERS)
        assert max(worst[order] / stated.rdp(order) for order in ORDERS) > 0.999
    # Signed totals cross from one end to the other: two numbers are not enough for them, nor is one for what rises.
    two = cost_of_groups(one, most=rows, anywhere=True, exchanged=True, growing=True)
    alone = cost_of_groups(one, most=rows, anywhere=True, **ADD)
    assert max(divergence(move, rate, 2) for move in anything) > 1.05 * two.rdp(2)
    # Nor are blocks of one row out and one row in, so many of them: all may be in one group.
    block = cost_of_groups(one, most=1, anywhere=True, exchanged=True, growing=False)
    assert max(divergence(move, rate, 2) for move in anything) > 1.05 * repeat(block, rows).rdp(2)
    assert max(divergence(move, rate, 2) for move in rising) > 1.4 * alone.rdp(2)


def test_gaussian_totals_count_the_square_of_what_they_move():
    one = ZCDP(rho=1)

    def rho(**how):
        return cost_of_groups(one, **how).zcdp()

    assert rho(most=3, anywhere=False, **ADD) == 3
    assert rho(most=3, anywhere=True, **ADD) == 9
    assert rho(most=3, anywhere=False, exchanged=True, growing=False) == 12
    assert rho(most=3, anywhere=False, exchanged=True, growing=True) == 6
    assert rho(most=3, anywhere=True, exchanged=True, growing=True) == 18


# ---- searches --------------------------------------------------------------------------------------------------------

VALUES = (0.5, 2.0, 5.0)
SMALL = [records for size in range(4) for records in combinations_with_replacement(VALUES, size)]
PARTS = [records for size in range(3) for records in combinations_with_replacement(VALUES, size)]
MEDIANS = [
    sd.Quantile(q=q, epsilon=0.8, adjacency="add-remove", lower=0, cap=7, growth=2)
    for q in (0.25, 0.5, 0.9)
]


@cache
def searched(median, records):
    found = law_of(median, list(records))
    return np.array([found[edge] for edge in sorted(found)])


def renyi(p, q, order):
    return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)


def worst_of_groups(lost, most):
    """The largest sum over groups, where a part of `k` rows of a unit loses at most `lost[k]` in its group."""
    best = [0.0] * (most + 1)
    for rows in range(1, most + 1):
        best[rows] = max(best[rows - k] + lost[k] for k in range(1, rows + 1))
    return best[most]


@pytest.mark.parametrize("median", MEDIANS, ids=lambda one: str(one.q))
def test_searches_of_all_groups_keep_their_interval(median):
    """Two rows in one group or in two: never above what an interval twice as wide costs, at any order, in either direction."""
    stated = TableNumbers(
        estimator=median,
        adjacency="add-remove",
        labels=("a", "b"),
        groups_per_unit=2,
        together=True,
    ).cost
    one = median.cost
    assert stated == Range(low=2 * one.low, high=2 * one.high, orientation=LARGER_FIRST)
    reached = 0.0
    for order in ORDERS:
        for turned in (False, True):
            lost = {1: 0.0, 2: 0.0}
            for base, new in product(SMALL, PARTS):
                if not new:
                    continue
                pair = searched(median, base + new), searched(median, base)
                p, q = pair[::-1] if turned else pair
                lost[len(new)] = max(lost[len(new)], renyi(p, q, order))
            worst = worst_of_groups(lost, 2)
            assert worst <= stated.rdp(order) * (1 + 1e-9)
            reached = max(reached, worst / stated.rdp(order))
    assert reached > 0.8
    assert stated.zcdp() < 0.75 * Pure(epsilon=2 * one.pure()).zcdp()


@pytest.mark.parametrize("median", MEDIANS, ids=lambda one: str(one.q))
def test_a_unit_that_leaves_one_group_and_joins_another_loses_both_ends(median):
    """The larger end when it leaves, the smaller one when it joins: their sum, and never twice the larger one."""
    one = median.cost
    stated = TableNumbers(
        estimator=median, adjacency="replace-one", labels=("a", "b"), groups_per_unit=1
    ).cost
    assert stated == Pure(epsilon=one.low + one.high)

    def largest(pairs):
        return max(
            float(np.max(np.log(searched(median, a) / searched(median, b)))) for a, b in pairs
        )

    joined = [((*base, new), base) for base in SMALL for new in VALUES]
    left = [(b, a) for a, b in joined]
    crossed = largest(joined) + largest(left)
    within = largest(
        [((*base, new), (*base, old)) for base in SMALL for new, old in product(VALUES, repeat=2)]
    )
    total = float(one.low + one.high)
    assert max(crossed, within) <= total + 1e-9
    assert max(crossed, within) > 0.9 * total
    # One life alone is too little.
    assert max(crossed, within) > 1.05 * float(one.pure())


@pytest.mark.parametrize("lower", [None, 0])
@pytest.mark.parametrize("kind", [sd.ClippedSum, sd.ClippedMean])
def test_the_larger_data_lose_the_larger_end_of_a_clip(kind, lower):
    """So the orientation of a search for a clip is that of a search for a quantile; turned around it would be false."""
    figure = kind(epsilon=0.7, lower=lower, **MONEY)
    cost, losses = figure.search.cost, []
    assert cost.orientation == LARGER_FIRST
    values = SIGNED if lower is None else RISING
    bases = [base for size in range(3) for base in combinations_with_replacement(values, size)]
    for base, new in product(bases, values):
        longer, shorter = stages(figure, (*base, new)), stages(figure, base)
        losses += [math.log(longer[tests][0] / shorter[tests][0]) for tests in longer]
    assert -float(cost.low) - 1e-9 <= min(losses)
    assert max(losses) <= float(cost.high) + 1e-9
    assert max(losses) > 1.5 * float(cost.low)


# ---- searches and totals, as they are released ----------------------------------------------------------------------

MONEY = {"adjacency": "add-remove", **GRID}
FIGURES = {
    "sum": sd.ClippedSum(epsilon=0.7, lower=None, **MONEY),
    "sum from 0": sd.ClippedSum(epsilon=0.7, lower=0, **MONEY),
    "mean": sd.ClippedMean(epsilon=0.7, lower=0, **MONEY),
    "variance": sd.ClippedVariance(epsilon=0.7, lower=0, **MONEY),
}
SIGNED = (-9.0, 0.5, 7.99, 9.0)
RISING = (0.5, 2.0, 7.99, 9.0)


@cache
def staged(name, records):
    return stages(FIGURES[name], records)


def joint(name, one, other, order):
    """The divergence of clip and noisy totals of one group together."""
    figure, total = FIGURES[name], 0.0
    there = staged(name, other)
    for tests, (chance, at) in staged(name, one).items():
        against, other_at = there[tests]
        rate, _ = noise_of(figure, tests)
        noise = math.prod(
            moment(rate, abs(x - y), order) for x, y in zip(at, other_at, strict=True)
        )
        total += chance**order * against ** (1 - order) * noise
    return math.log(total) / (order - 1)


def values_of(name):
    return SIGNED if name == "sum" else RISING


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("order", [1.5, 2, 8])
def test_figures_with_two_rows_of_a_unit_anywhere(name, order):
    """Two rows that come or go, in one group or in two; and two that go while two others come."""
    figure, values = FIGURES[name], values_of(name)
    bases = [(), (0.5,), (7.99, 7.99)]
    units = {size: list(combinations_with_replacement(values, size)) for size in (0, 1, 2)}

    def charged(adjacency):
        return TableNumbers(
            estimator=figure,
            adjacency=adjacency,
            labels=("a", "b"),
            groups_per_unit=2,
            together=True,
        ).cost.rdp(order)

    lost = {}
    for out, back in product((0, 1, 2), repeat=2):
        pairs = [(base + a, base + b) for base in bases for a in units[out] for b in units[back]]
        lost[out, back] = max(joint(name, *pair, order) for pair in pairs)
    come = worst_of_groups({1: max(lost[1, 0], lost[0, 1]), 2: max(lost[2, 0], lost[0, 2])}, 2)
    assert come <= charged("add-remove") * (1 + 1e-6)
    # Every way to divide two rows out and two rows in among groups.
    ways = [
        [(2, 2)],
        [(2, 1), (0, 1)],
        [(1, 2), (1, 0)],
        [(1, 1), (1, 1)],
        [(2, 0), (0, 2)],
        [(1, 1), (1, 0), (0, 1)],
        [(1, 0), (1, 0), (0, 1), (0, 1)],
        [(2, 0), (0, 1), (0, 1)],
        [(0, 2), (1, 0), (1, 0)],
    ]
    exchanged = max(sum(lost[part] for part in way) for way in ways)
    assert exchanged <= charged("replace-one") * (1 + 1e-6)
    assert max(come / charged("add-remove"), exchanged / charged("replace-one")) > 0.45


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("order", [1.5, 2, 8])
def test_figures_with_one_group_of_a_unit(name, order):
    """A row that leaves one group and joins the same or another one."""
    figure, values = FIGURES[name], values_of(name)
    stated = TableNumbers(
        estimator=figure, adjacency="replace-one", labels=("a", "b"), groups_per_unit=1
    ).cost
    bases = [(), (0.5,), (7.99, 7.99)]

    def worst(outs, backs):
        return max(
            joint(name, base + out, base + back, order)
            for base in bases
            for out in outs
            for back in backs
        )

    single = [(value,) for value in values]
    within, crossed = worst(single, single), worst(single, [()]) + worst([()], single)
    assert max(within, crossed) <= stated.rdp(order) * (1 + 1e-6)
    if name == "sum":
        # The price of totals that only rise is too low for a sum of both signs.
        rising = cost_of_groups(figure.cost, most=1, anywhere=False, exchanged=True, growing=True)
        totals = cost_of_groups(
            figure.total_cost, most=1, anywhere=False, exchanged=True, growing=True
        )
        assert rising.rdp(order) < stated.rdp(order)
        assert within > totals.rdp(order)


def test_what_was_promised_of_the_default_sum():
    """One row a person, add-remove and replace-one: rho of a sum by group at epsilon .2, before .0199."""
    four = sd.ClippedSum(epsilon=0.05, adjacency="add-remove", lower=0, cap=1e6)
    half = sd.ClippedSum(epsilon=0.1, adjacency="add-remove", lower=0, cap=1e6)
    everywhere = TableNumbers(
        estimator=four, adjacency="add-remove", labels=("a",), groups_per_unit=4, together=True
    ).cost
    replaced = TableNumbers(
        estimator=half, adjacency="replace-one", labels=("a",), groups_per_unit=1
    ).cost
    assert float(everywhere.zcdp()) == pytest.approx(0.0091, rel=0.02)
    assert float(replaced.zcdp()) == pytest.approx(0.0052, rel=0.02)
    assert float(replaced.pure()) == pytest.approx(0.17667, rel=1e-3)


def test_other_costs_add_up_their_pure_epsilons():
    flip = Pure(epsilon=1)
    mixed = compose(flip, Range(low=1, high=2))
    assert cost_of_groups(mixed, most=3, anywhere=True, **ADD).pure() == 9
    assert cost_of_groups(mixed, most=3, anywhere=True, exchanged=True, growing=True).pure() == 18
    assert cost_of_groups(mixed, most=3, anywhere=False, **ADD) == repeat(mixed, 3)
