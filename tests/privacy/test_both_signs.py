"""Two searches from 0, the second only if the first ended at its first test: what both lose together, and twins that are convicted."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from itertools import product

import pytest

from sordino import Quantile
from sordino.cost import Pure, Range
from sordino.estimators.quantiles.quantile_plan import LARGER_FIRST, BothSides
from support.quantiles import columns, law_of, losses, replaced, shorter, walk

HALF = Fraction(1, 2)
QUARTERS = [Fraction(i, 4) for i in range(5)]
VALUES = (-5, -0.5, 0.5, 5)  # one for each bucket of the edges -1, 0, 1
SLACK = 1e-9


def made(**options):
    return Quantile(**({"adjacency": "add-remove", "lower": None, "cap": 1, "growth": 2} | options))


def rates(quantile):
    """Return e1 and e2 of the first search and of the second one, for a whole unit."""
    rows = quantile.rows_per_unit
    return tuple(
        rows * part.weight * noise.rate
        for part in quantile.parts
        for noise in (part.scan.threshold_noise, part.scan.noise)
    )


def both_sides(one, other, p, adjacency="add-remove", rows=1):
    return BothSides(Fraction(p), adjacency, rows).cost(
        tuple(map(Fraction, one)), tuple(map(Fraction, other))
    )


# ---- the cost ------------------------------------------------------------------------------------------------------------


def test_the_cost_is_that_of_the_worked_example():
    stated = both_sides(("0.6", "0.6"), ("0.6", "0.6"), HALF)
    assert stated == Range(low=Fraction("0.6"), high=Fraction("1.2"), orientation=LARGER_FIRST)
    one = both_sides(("0.6", "0.6"), ("0.6", "0.6"), HALF, "replace-one")
    assert one == Range(low=Fraction("1.2"), high=Fraction("1.8"))
    assert both_sides(("0.6", "0.6"), ("0.6", "0.6"), HALF, "replace-one", 2) == Pure(
        epsilon=Fraction("1.8")
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"q": 0.5}, ("2/3", "2/3", "4/9", "4/9")),
        (
            {"q": 0.9},
            ("10/19", "10/19", "100/171", "100/171"),
        ),  # as low = 0.9 (u2 + d1) may be 1: not 0.861
        ({"q": 0.1}, ("10/19", "10/19", "100/171", "100/171")),  # down first: the mirror image
        ({"q": 0.75, "ratio": 2}, ("4/5", "2/5", "14/15", "7/15")),
        ({"q": 0.25, "ratio": 5}, ("20/19", "4/19", "64/57", "64/285")),
        ({"q": 0.5, "adjacency": "replace-one"}, ("1/2", "1/2", "1/4", "1/4")),
        ({"q": 0.9, "adjacency": "replace-one", "rows_per_unit": 3}, ("1/2", "1/2", "1/4", "1/4")),
        ({"q": 0.5, "adjacency": "replace-one", "ratio": 0.5}, ("1/4", "1/2", "1/6", "1/3")),
    ],
)
def test_the_first_search_is_as_large_as_it_may_be(options, expected):
    quantile = made(epsilon=1, **options)
    assert [float(rate) for rate in rates(quantile)] == pytest.approx(
        [float(Fraction(x)) for x in expected]
    )
    assert 1 - Fraction(1, 10**6) < quantile.cost.pure() <= 1


def test_no_search_has_less_than_half_of_the_budget_would_give_it():
    """What one search of a shared budget had: half of it, over the larger end of its own interval."""
    shares = (0, 0.01, 0.1, 0.25, 0.4, 0.5, 0.51, 0.75, 0.9, 0.99, 1)
    for q, ratio, adjacency in product(
        shares, (0.01, 0.1, 0.5, 1, 2, 5, 100), ("add-remove", "replace-one")
    ):
        quantile = made(q=q, ratio=ratio, adjacency=adjacency, epsilon=1)
        assert quantile.cost.pure() <= 1
        for part in quantile.parts:
            p = q if part.upward else 1 - q
            alone = max(1 + p * ratio, (1 - p) * ratio) if adjacency == "add-remove" else 1 + ratio
            assert part.weight * part.scan.noise.rate >= 0.5 / alone * (1 - 1e-6), (
                q,
                ratio,
                adjacency,
            )


def test_both_directions_are_mirror_images():
    """The walk that passes the larger share comes first."""
    records = [-5, -0.5, -0.5, 0.5, 5, 5]
    for q in (Fraction(1, 4), Fraction(1, 3)):
        low, high = made(q=q, epsilon=2), made(q=1 - q, epsilon=2)
        assert [part.upward for part in low.parts] == [False, True]
        assert [part.upward for part in high.parts] == [True, False]
        assert low.cost == high.cost
        one, other = law_of(low, records), law_of(high, [-x for x in records])
        assert one == pytest.approx({2 - edge: mass for edge, mass in other.items()})


def two_walks(records, edges, q, both, leads_on=None):
    """Law of the edge where two walks from 0 end; rates a lattice step.

    `leads_on`: the edges of the first walk after which the second one is made; broken if given. Then both edges are released.
    """
    zero, up = (len(edges) - 1) // 2, q >= HALF
    ways = {True: {"first": zero, "last": len(edges)}, False: {"first": 0, "last": zero + 1}}
    (e1, e2), (d1, d2) = both
    first = walk(records, edges, q, e1, e2, up, **ways[up])
    second = walk(records, edges, q, d1, d2, not up, **ways[not up])
    law = Counter()
    for edge, mass in first.items():
        if edge in (leads_on or (zero,)):
            for again, times in second.items():
                law[again if leads_on is None else (edge, again)] += mass * times
        else:
            law[edge if leads_on is None else (edge, None)] += mass
    return dict(law)


# ---- no neighbors lose more ----------------------------------------------------------------------------------------------


def pairs(most, rows, adjacency):
    """Pairs of columns; under add-remove the first one has the unit."""
    for column in columns(VALUES, most):
        others = (
            shorter(column, rows) if adjacency == "add-remove" else replaced(column, VALUES, rows)
        )
        yield from ((column, other) for other in sorted(others) if len(other) <= most)


def check(quantile, most):
    law = lru_cache(None)(lambda column: law_of(quantile, column))
    found = [
        losses(law(one), law(other))
        for one, other in pairs(most, quantile.rows_per_unit, quantile.adjacency)
    ]
    low, high = min(low for low, _ in found), max(high for _, high in found)
    stated = quantile.cost
    if quantile.adjacency == "add-remove":
        assert stated.orientation == LARGER_FIRST
        assert -low <= stated.low + SLACK
        assert high <= stated.high + SLACK
    assert max(-low, high) <= stated.pure() + SLACK
    return max(-low, high) / float(stated.pure())


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("q", QUARTERS)
@pytest.mark.parametrize(("ratio", "rows"), [(1, 1), (4, 1), (Fraction(1, 3), 2)])
@pytest.mark.each_value
def test_no_neighbors_lose_more_than_both_searches_cost(q, ratio, rows, adjacency):
    assert (
        check(made(q=q, ratio=ratio, rows_per_unit=rows, adjacency=adjacency, epsilon=2), 3) > 0.4
    )


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("q", [*QUARTERS, 0.9, 0.05])
@pytest.mark.parametrize(("ratio", "rows"), [(1, 1), (4, 1), (Fraction(1, 3), 2), (1, 3)])
def test_no_neighbors_among_larger_columns_lose_more(q, ratio, rows, adjacency):
    check(made(q=q, ratio=ratio, rows_per_unit=rows, adjacency=adjacency, epsilon=4), 5)


# ---- where it is attained ------------------------------------------------------------------------------------------------

FAR = 30  # edges on either side of 0
EDGES = list(range(-FAR, FAR + 1))
ABOVE, BELOW, BOTTOM, TOP = FAR - 0.5, 0.5 - FAR, -FAR - 1, FAR + 1
"""In the next to last bucket, in the one after the first, and beyond both ends."""


def ends_of(q, both, with_it, without):
    """Smallest and largest loss, the data with one record more first; rates for a whole record."""
    a_step = [tuple(Fraction(x) / q.denominator for x in pair) for pair in both]
    return losses(two_walks(with_it, EDGES, q, a_step), two_walks(without, EDGES, q, a_step))


@pytest.mark.parametrize("q", [HALF, Fraction(3, 4), Fraction(1)])
@pytest.mark.parametrize("both", [((1, 1), (1, 1)), ((2, 1), (HALF, 1)), ((HALF, 1), (2, 1))])
@pytest.mark.each_value
def test_both_ends_are_attained_by_one_record(q, both):
    stated = both_sides(*both, q)
    few, worst = [[], [0.5], [BOTTOM] * 2, [TOP] * 3, [BOTTOM, 0.5, TOP]], [0.0, 0.0]
    for crowd, record in product(few, (BELOW, ABOVE, BOTTOM, TOP, -0.5, 0.5)):
        low, high = ends_of(q, both, [*crowd, record], crowd)
        worst = [max(worst[0], -low), max(worst[1], high)]
    assert worst[0] == pytest.approx(float(stated.low), abs=1e-3)
    assert worst[1] == pytest.approx(float(stated.high), abs=1e-3)
    assert worst[0] <= stated.low + SLACK
    assert worst[1] <= stated.high + SLACK


def test_a_record_that_moves_across_0_attains_the_cost():
    """It leaves the first test, raises all of the second search, and then is missed by it: u2 + d1 + d2."""
    both = ((HALF, HALF), (HALF, HALF))
    stated = both_sides(*both, HALF, "replace-one")
    crowd = [TOP] * 3
    low, high = ends_of(HALF, both, [*crowd, BELOW], [*crowd, TOP])
    assert max(-low, high) == pytest.approx(float(stated.high), abs=1e-3)
    assert max(-low, high) <= stated.high + SLACK


# ---- broken twins --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("q", "ratio", "lost"),
    [(Fraction(9, 10), 1, 1.249), (Fraction(3, 4), 2, 1.2), (Fraction(3, 4), 5, 1.737)],
)
def test_a_second_search_that_is_not_lowered_is_convicted(q, ratio, lost):
    """The high end alone would allow its rates; a record that leaves, above all edges, loses q (u2 + d1)."""
    first = 1 / (1 + q * ratio)
    second = (1 - (1 - q) * first) / (1 + (1 - q) * ratio)
    both = ((ratio * first, first), (ratio * second, second))
    assert both_sides(*both, q).high == 1
    honest = rates(made(q=q, ratio=ratio, epsilon=1))
    broken, ours = (
        -ends_of(q, each, [TOP] * 5, [TOP] * 4)[0] for each in (both, (honest[:2], honest[2:]))
    )
    assert broken == pytest.approx(lost, abs=1e-3)
    assert ours == pytest.approx(1, abs=1e-3)
    assert ours <= 1 + SLACK


def rates_of_the_median():
    """Return the rates of both searches for a step of the lattice, half a record."""
    quantile = made(q=HALF, epsilon=1)
    return [(one / 2, other / 2) for one, other in (rates(quantile)[:2], rates(quantile)[2:])]


def test_a_second_search_after_any_edge_of_the_first_is_convicted():
    """The first search then pays its whole cost besides that of the second, and the rates do not allow it."""
    every = tuple(range(FAR, 2 * FAR + 2))
    found = [
        losses(
            two_walks([*crowd, record], EDGES, HALF, rates_of_the_median(), leads_on=every),
            two_walks(crowd, EDGES, HALF, rates_of_the_median(), leads_on=every),
        )
        for crowd, record in product(([], [0.5], [TOP] * 3), (ABOVE, BELOW, -0.5, 0.5))
    ]
    assert max(high for _, high in found) > 1.1


def test_both_searches_made_in_any_case_at_this_price_are_convicted():
    """As an interval makes them: one record between two long runs loses the high ends of both."""
    quantile = made(q=HALF, epsilon=1)
    (e1, e2), (d1, d2) = rates_of_the_median()
    with_it, without = [0.5], []
    lost = 0.0
    for up, rate, edge in ((True, (e1, e2), FAR + 1), (False, (d1, d2), FAR)):
        laws = [walk(column, EDGES, HALF, *rate, up) for column in (with_it, without)]
        lost += math.log(laws[0][edge] / laws[1][edge])
    assert lost > quantile.cost.pure() + 0.5
