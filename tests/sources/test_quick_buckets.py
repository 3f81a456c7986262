"""A logarithm that proposes buckets is never believed unseen: else one row would decide how the others are counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from sordino.columns import BucketCounts, BucketGrid, StepRange
from sordino.sources.sql.bucket_query import bucket_queries
from sordino.sources.sql.dialect import EMBEDDED
from sordino.sources.sql.number_kind import number_kind
from support.number_states import asked

FEW = [(1.05, 5, 1), (1.05, -17.3, 0.1), (1.02, 5, 0.1), (1.5, None, 0.25)]
MANY = [
    (g, lower, unit)
    for g in (1.01, 1.05, 1.1, 1.3, 1.7, 3)
    for lower in (0, None, -17.3, 5)
    for unit in (1, 0.1, 3)
]


def grid_of(growth, lower, unit):
    grid = BucketGrid.geometric(lower=lower, cap=1e3, growth=growth, unit=unit)
    assert "sound" in bucket_queries(number_kind("DOUBLE", text=False), grid)[0].sql
    return grid


def counted(values, grid):
    (found,) = asked(pl.DataFrame({"x": values}, schema={"x": pl.Float64}), grid).run()
    return found


def wrong(grid, edges):
    """Numbers that are not in their bucket. Each is asked alone: no other one makes the engine ask again where its logarithm errs."""
    near = [
        value
        for edge in edges.tolist()
        for value in (edge, float(np.nextafter(edge, -np.inf)), float(np.nextafter(edge, np.inf)))
    ]
    return [
        value
        for value in near
        if counted([value] * 3, grid) != BucketCounts.of([value] * 3, grid=grid)
    ]


@pytest.mark.parametrize("made", FEW, ids=str)
@pytest.mark.sample(4)
def test_numbers_at_the_first_edge_are_in_its_bucket_whoever_else_is_there(made):
    grid = grid_of(*made)
    assert wrong(grid, grid.edges[:1]) == []


@pytest.mark.slow
@pytest.mark.parametrize("made", MANY, ids=str)
def test_numbers_at_other_edges_are(made):
    grid = grid_of(*made)
    assert wrong(grid, grid.edges[[0, 1, -2, -1]]) == []


def moved(grid, values):
    """How many counts one row more changes, in all, where many numbers stand at the first edge."""
    crowd = [float(grid.edges[0])] * 1000
    before = counted(crowd, grid).counts
    return [int(np.abs(counted([*crowd, value], grid).counts - before).sum()) for value in values]


def test_a_row_more_moves_one_count_by_one():
    grid = grid_of(*FEW[0])
    assert (
        moved(grid, [float(np.nextafter(grid.edges[2], -np.inf)), *grid.edges[1:4].tolist()])
        == [1] * 4
    )


@pytest.mark.slow
def test_the_twin_that_believes_what_is_proposed_below_the_first_edge_is_convicted(monkeypatch):
    """There nothing is compared with an edge, because missing numbers are there; a row beside another edge then moves a thousand others."""

    def believed(kind, grid, steps):
        return tuple(
            replace(query, sql=query.sql.replace("greatest(1, ", "greatest(0, "))
            for query in bucket_queries(kind, grid, steps)
        )

    monkeypatch.setattr(
        "sordino.sources.source.ReaderBackend.dialect", replace(EMBEDDED, buckets=believed)
    )
    grid = grid_of(*FEW[0])
    assert wrong(grid, grid.edges[:1]) != []
    assert (
        max(moved(grid, [float(np.nextafter(grid.edges[2], -np.inf)), *grid.edges[1:4].tolist()]))
        > 1000
    )


@pytest.mark.parametrize("text", ["{group}", "{rows}", "{0}", "grp, "])
@pytest.mark.sample(4)
def test_a_text_of_a_predicate_means_itself_whatever_it_looks_like(text):
    frame = pl.DataFrame(
        {"name": [text, text, "", "grp, ", "other"], "x": [1.0, 2.0, 3.0, 4.0, 5.0], "g": ["a"] * 5}
    )
    literal = "'" + text + "'"
    expected = 3 if text == "grp, " else 2
    for more in ({}, {"by": "g", "domain": ["a"]}):
        question = asked(
            frame, BucketGrid(edges=np.array([0.0, 2.5])), where=f"name = {literal}", **more
        )
        assert question.run()[0].records == expected
        assert question.totals([StepRange(low=0, high=9, step=1)])[0].known == expected
