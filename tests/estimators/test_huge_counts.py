"""Counts of any size: those that were made elsewhere, up to 64 bits and below 0, never wrap, never raise and keep their order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sordino import BucketCounts, BucketGrid, ClippedMean, ClippedSum, Quantile, Quantiles, Seeded
from sordino.estimators.quantiles.rank_search import Runs

GRID = BucketGrid.geometric(lower=0, cap=127, growth=2)  # edges 1, 3, ..., 127
LARGEST = (1 << 60) // (GRID.size + 1)
FINE = Fraction(333_333, 1_000_000)  # a lattice of about a millionth of a record
COMMON = {"epsilon": 1, "adjacency": "add-remove", "lower": 0, "cap": 127, "growth": 2}
MADE = [
    *(
        Quantile(q=q, method=method, **COMMON)
        for q in (FINE, 0.5, 0, 1)
        for method in ("above-threshold", "permute-and-flip")
    ),
    Quantile(q=FINE, **COMMON | {"lower": None, "cap": 7}),
    Quantiles(q=(0.25, FINE, 0.5), **COMMON),
]


def made(*counts, grid=GRID):
    return BucketCounts(grid=grid, counts=np.array([*counts, *[0] * (grid.size + 1 - len(counts))]))


def test_each_count_stays_where_all_of_them_add_up_in_64_bits():
    huge = made(*[(1 << 63) - 1] * (GRID.size + 1))
    assert set(huge.counts.tolist()) == {LARGEST}
    assert huge.records == LARGEST * (GRID.size + 1) <= 1 << 60
    assert huge.merge(huge).records == huge.records
    assert made(-5, 3, -(1 << 63)).counts.tolist() == [0, 3, *[0] * (GRID.size - 1)]
    unsigned = BucketCounts(
        grid=GRID, counts=np.full(GRID.size + 1, (1 << 64) - 1, dtype=np.uint64)
    )
    assert unsigned == huge


@pytest.mark.parametrize("add", [0, 3, 6])
def test_a_record_more_moves_one_count_by_one_or_none_wherever_it_is(add):
    """So nested answers stay nested: a limit on their sums would let a record raise some of them and leave those beyond."""
    for counts in (
        [LARGEST] * 8,
        [LARGEST - 1] * 8,
        [0, 5, LARGEST, 0, 1, LARGEST - 1, LARGEST, 2],
    ):
        more = [count + (place == add) for place, count in enumerate(counts)]
        before, after = Runs.of(made(*counts)), Runs.of(made(*more))
        moved = [after.at(edge) - before.at(edge) for edge in range(GRID.size + 1)]
        assert moved in ([0] * (GRID.size + 1), [int(edge >= add) for edge in range(GRID.size + 1)])


@pytest.mark.parametrize("m", MADE)
def test_no_number_of_records_makes_a_release_fail(m):
    edges = m.grid.size
    for counts in (
        [0, 0, 0, (1 << 63) - 1],
        [1 << 58] * (edges + 1),
        [0] * edges + [1 << 62],
        [1 << 45] * 3,
    ):
        found = m.release(made(*counts[: edges + 1], grid=m.grid), entropy=Seeded(3))
        assert found.cost == m.cost


@pytest.mark.parametrize("share", [FINE, Fraction(1, 2), Fraction(1)])
def test_lattices_of_many_records_are_those_of_few_times_a_factor(share):
    counts, factor = [3, 0, 20, 5, 0, 0, 40, 7], 1 << 51
    for upward in (True, False):
        part = Quantile(q=share, **COMMON).parts[0]
        part = type(part)(**{**vars(part), "upward": upward})
        few, many = (
            part.lattice(Runs.of(made(*(count * times for count in counts))))
            for times in (1, factor)
        )
        assert many[0].tolist() == [answer * factor for answer in few[0].tolist()]
        assert many[1].tolist() == few[1].tolist()


def test_the_bucket_that_many_records_point_at_is_found():
    for m, value in zip(MADE[:2], (7.0, 5.0), strict=True):  # the edge above it, and its middle
        found = m.release(made(0, 0, 1 << 50, 1 << 50, 1 << 50), entropy=Seeded(1))
        assert found.value == value, "a third of them lies below 7: one too many or too few decides"


@pytest.mark.parametrize("estimator", [ClippedSum, ClippedMean])
@pytest.mark.parametrize("lower", [0, None])
def test_clips_of_many_records(estimator, lower):
    m = estimator(**COMMON | {"lower": lower})
    counts = made(*[(1 << 63) - 1] * 3, grid=m.grid)
    clip = m.clip_from(counts, entropy=Seeded(1))
    assert -127 <= clip.ends[0] <= 0 < clip.ends[1] <= 127
