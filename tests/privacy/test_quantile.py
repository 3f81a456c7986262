"""Quantiles: the loss of every pair of neighbors among small columns, where it is attained, and broken twins that are convicted."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import pytest

from sordino import Quantile, cost
from sordino.cost import Range
from sordino.cost.range import masses
from support.quantiles import columns, flip_runs, law_of, losses, replaced, shorter, split_law, walk

HALF = Fraction(1, 2)
BUCKETS = (0.5, 2, 5, 9)  # one value for each bucket of the edges 1, 3, 7
SLACK = 1e-9


def neighbors(most, rows, adjacency):
    """Pairs of columns; under add-remove the first one has the unit."""
    for column in columns(BUCKETS, most):
        others = (
            shorter(column, rows) if adjacency == "add-remove" else replaced(column, BUCKETS, rows)
        )
        yield from ((column, other) for other in sorted(others) if len(other) <= most)


def worst(law, pairs):
    """Smallest and largest loss over all pairs and outputs."""
    known = lru_cache(None)(law)
    found = [losses(known(one), known(other)) for one, other in pairs]
    return min(low for low, _ in found), max(high for _, high in found)


def made(**options):
    return Quantile(**({"lower": 0, "cap": 7, "growth": 2, "epsilon": 2} | options))


CASES = [
    ({"q": HALF, "adjacency": "add-remove"}, 1),
    ({"q": Fraction(3, 4), "adjacency": "add-remove", "ratio": 3}, 1),
    ({"q": 0.04, "adjacency": "add-remove"}, 1),
    ({"q": 1, "adjacency": "add-remove", "rows_per_unit": 2}, 2),
    ({"q": Fraction(3, 4), "adjacency": "replace-one"}, 1),
    ({"q": HALF, "adjacency": "replace-one", "ratio": 3}, 1),
    ({"q": 1, "adjacency": "replace-one", "rows_per_unit": 2}, 2),
    ({"q": HALF, "adjacency": "add-remove", "method": "permute-and-flip"}, 1),
    ({"q": Fraction(3, 4), "adjacency": "add-remove", "method": "permute-and-flip"}, 1),
    ({"q": HALF, "adjacency": "add-remove", "method": "permute-and-flip", "rows_per_unit": 2}, 2),
    ({"q": Fraction(1, 4), "adjacency": "replace-one", "method": "permute-and-flip"}, 1),
    ({"q": HALF, "adjacency": "replace-one", "method": "permute-and-flip", "rows_per_unit": 2}, 2),
]


def check(options, rows, most):
    quantile = made(**options)
    low, high = worst(
        lambda column: law_of(quantile, column), neighbors(most, rows, options["adjacency"])
    )
    stated = quantile.cost
    if isinstance(stated, Range) and stated.orientation is not None:
        assert -stated.low - SLACK <= low  # the orientation names which of the two comes first
        assert high <= stated.high + SLACK
    assert max(-low, high) <= stated.pure() + SLACK
    assert max(-low, high) > 0.4 * float(
        stated.pure()
    )  # the columns are large enough to see something


@pytest.mark.parametrize(("options", "rows"), CASES)
def test_no_neighbors_lose_more_than_the_cost(options, rows):
    check(options, rows, 4)


@pytest.mark.slow
@pytest.mark.parametrize(("options", "rows"), CASES)
def test_no_neighbors_among_larger_columns_do(options, rows):
    check(options, rows, 6)


# ---- where it is attained ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [Fraction(1, 4), HALF, Fraction(3, 4)])
@pytest.mark.parametrize("e1", [HALF, Fraction(1)])
def test_both_ends_of_the_interval_are_attained_by_one_record(q, e1):
    """A record in the bucket that a long run of tests ends at: its data loses q e1 + e2; below all edges, or above: the other end."""
    edges, e2, b = list(range(1, 102)), HALF, q.denominator  # rates a lattice step
    stated = cost.Range(low=max(q * b * e2, (1 - q) * b * e1), high=q * b * e1 + b * e2)
    crowd = [0.5] * 6
    with_it, without = (
        walk([*crowd, 100.5], edges, q, e1, e2, True),
        walk(crowd, edges, q, e1, e2, True),
    )
    assert math.log(with_it[100] / without[100]) == pytest.approx(float(stated.high), abs=2e-3)
    assert math.log(with_it[100] / without[100]) <= stated.high + SLACK
    below = losses(walk([0.5] * 7, edges, q, e1, e2, True), walk([0.5] * 6, edges, q, e1, e2, True))
    above = losses(
        walk([0.5] * 2 + [200] * 9, edges, q, e1, e2, True),
        walk([0.5] * 2 + [200] * 8, edges, q, e1, e2, True),
    )
    least = min(below[0], above[0])
    assert -least <= stated.low + SLACK
    assert -least == pytest.approx(float(stated.low), abs=2e-2)


CROWD = 10**7
Q3 = Fraction(3, 4)
RECORD = {  # records in four buckets: one in the first or the last moves the one with the target away from it, and the crowd towards it
    ("add-remove", HALF): ((1, 2, 0, 2), (0, 2, 0, 2)),
    ("add-remove", Q3): ((4, 3, 0, 2), (4, 3, 0, 1)),
    ("replace-one", HALF): ((1, 2, 0, 1), (0, 2, 0, 2)),
    ("replace-one", Q3): ((3, 4, 0, 1), (2, 4, 0, 2)),
}


def crowded(counts, q, rate):
    """Probability of one bucket of each of four kinds, the third of which is empty and comes ten million times."""
    below, (a, b) = [0, *accumulate(counts)], q.as_integer_ratio()
    depths = [
        max(0, b * low - a * below[-1], a * below[-1] - b * high) for low, high in pairwise(below)
    ]
    return flip_runs(depths, [1, 1, CROWD, 1], rate)


def worst_of_a_crowd(adjacency, q, rate):
    laws = [crowded(counts, q, rate) for counts in RECORD[adjacency, q]]
    return max(abs(math.log(one / other)) for one, other in zip(*laws, strict=True))


@pytest.mark.parametrize(("adjacency", "q"), RECORD)
def test_permute_and_flip_approaches_its_cost_where_runs_are_long(adjacency, q):
    """One bucket gets farther from the target by the sensitivity, and a crowd of empty ones comes nearer by as much."""
    [part] = made(q=q, adjacency=adjacency, method="permute-and-flip").parts
    assert 2 - 1e-5 < worst_of_a_crowd(adjacency, q, part.rate) <= 2 + SLACK


# ---- several quantiles -------------------------------------------------------------------------------------------------


THIRDS = (Fraction(1, 3), Fraction(2, 3))
EDGES = [1.0, 3.0, 7.0]


@pytest.mark.parametrize("size", [0, 2, 4])
def test_two_levels_lose_two_rates_when_a_record_comes(size):
    def law(column):
        return split_law(column, EDGES, THIRDS, size, HALF)

    low, high = worst(law, neighbors(4, 1, "add-remove"))
    assert max(-low, high) <= 2 * HALF + SLACK


def test_two_levels_lose_four_rates_when_a_record_moves():
    pairs = [
        (one, other) for one, other in neighbors(4, 1, "replace-one") if len(one) == len(other) == 4
    ]
    low, high = worst(lambda column: split_law(column, EDGES, THIRDS, 4, HALF), pairs)
    assert 2.2 * HALF < max(-low, high) <= 4 * HALF + SLACK


@pytest.mark.slow
def test_a_unit_of_two_rows_may_be_in_two_searches():
    quartiles = (Fraction(1, 4), HALF, Fraction(3, 4))
    for size in (2, 4):

        def law(column, size=size):
            return split_law(column, EDGES, quartiles, size, HALF / 2)

        low, high = worst(law, neighbors(4, 2, "add-remove"))
        assert max(-low, high) <= 2 * HALF + SLACK


# ---- broken twins ------------------------------------------------------------------------------------------------------


def test_a_private_number_of_records_taken_for_a_fixed_threshold_is_convicted():
    """The price max(e1, e2) is for a threshold that stays: q n moves along, which costs q e1 + e2."""
    edges, rate = list(range(1, 42)), Fraction(1)
    with_it, without = ([0.5] * 6 + [40.5], [0.5] * 6)
    a, b = (walk(column, edges, HALF, rate / 2, rate / 2, True) for column in (with_it, without))
    assert math.log(a[40] / b[40]) > 1.4 * float(rate)


def test_thresholds_from_the_counts_of_each_part_are_convicted():
    """Relative ranks: a record that comes moves the threshold of its part along, and one level costs more than one rate."""
    edges, columns_ = list(range(1, 42)), ([0.5] * 6 + [40.5], [0.5] * 6)
    for relative, most in ((False, 0.5), (True, 1.0)):
        laws = [
            split_law(column, edges, (HALF,), 8, HALF, relative=relative) for column in columns_
        ]
        loss = max(math.log(laws[0][out] / laws[1][out]) for out in laws[0])
        assert loss == pytest.approx(most, abs=0.01)


@pytest.mark.parametrize(("adjacency", "q"), RECORD)
def test_one_sensitivity_instead_of_two_is_too_little_for_permute_and_flip(adjacency, q):
    [part] = made(q=q, adjacency=adjacency, method="permute-and-flip").parts
    assert worst_of_a_crowd(adjacency, q, 2 * part.rate) > 2 * 1.9


def test_the_sensitivity_of_a_record_that_comes_is_too_little_for_one_that_is_replaced():
    """max(a, b - a) steps instead of b."""
    [part] = made(q=Q3, adjacency="add-remove", method="permute-and-flip").parts
    assert worst_of_a_crowd("replace-one", Q3, part.rate) > 2 * 1.3


# ---- the cost of one level under replace-one ---------------------------------------------------------------------------


@pytest.mark.parametrize("e", [0.01, 0.5, 3.0])
def test_a_record_that_moves_within_a_search_bounds_one_that_moves_between_two(e):
    """Range(e, 2e) in its first order has every Rényi divergence, and every hockey stick, of two searches with [-e, e] each."""
    _, top = masses(e, 2 * e)  # of the loss 2e
    q_top = top * math.exp(-2 * e)
    p = 1 / (1 + math.exp(-e))
    for alpha in (1.0001, 1.5, 2, 5, 40):
        one = math.log(q_top * math.exp(2 * e * alpha) + (1 - q_top) * math.exp(-e * alpha)) / (
            alpha - 1
        )
        two = 2 * math.log((1 - p) * math.exp(e * alpha) + p * math.exp(-e * alpha)) / (alpha - 1)
        assert two <= one * (1 + 1e-9)
    assert top >= p * p
