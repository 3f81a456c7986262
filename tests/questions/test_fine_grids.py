"""Grids whose steps are cut into many parts: the same counts from every way of counting, and a coarser grid is a sum of a finer one."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import numpy as np
import polars as pl
import pytest

import sordino as sd
from sordino import BucketCounts, BucketGrid
from sordino.errors import InvalidParameter
from sordino.sources.sql.fine_query import find_scale, fine_queries
from support.number_states import agrees, asked

WAYS = {
    "from 0": {"lower": 0, "cap": 1e9, "growth": 1.01},
    "cents": {"lower": 0, "cap": 1e6, "growth": 1.01, "unit": 0.01},
    "signed": {"lower": None, "cap": 1e9, "growth": 1.01},
    "from -7.25": {"lower": -7.25, "cap": 1e6, "growth": 1.05, "unit": 0.5},
    "whole": {"lower": 0, "cap": 10**6, "growth": 1.01, "whole": True},
    "whole, signed": {"lower": None, "cap": 10**6, "growth": 1.1, "whole": True},
    "crowded floats": {"lower": 1e15, "cap": 1e15 + 10, "growth": 1.01},
    "near 0": {"lower": 0, "cap": 3e-320, "growth": 2, "unit": 1e-321},
    "far": {"lower": -1e308, "cap": 1e308, "growth": 10},
}


def made(name, cuts):
    return BucketGrid.geometric(**WAYS[name], cuts=cuts)


@pytest.mark.parametrize("name", WAYS)
def test_a_coarser_grid_has_the_edges_that_it_shares_with_a_finer_one(name):
    fine = made(name, 56)
    column = BucketCounts.of(fine.edges, grid=fine)
    for cuts in (1, 2, 7, 8, 28, 56):
        coarse = made(name, cuts)
        assert np.isin(coarse.edges, fine.edges).all()
        assert (coarse.cuts, coarse.uncut()) == (cuts, made(name, 1)) or fine.size == coarse.size
        assert column.onto(coarse) == BucketCounts.of(fine.edges, grid=coarse)
        if name != "crowded floats":
            assert coarse.size <= fine.size


@pytest.mark.parametrize("name", ["signed", "whole, signed"])
def test_edges_on_either_side_of_0_mirror_each_other(name):
    edges = made(name, 16).edges
    assert (edges == -edges[::-1]).all()
    if "whole" in name:
        assert (edges == np.rint(edges)).all()


def test_steps_are_cut_into_parts_of_one_width():
    assert BucketGrid.geometric(lower=0, cap=7, growth=2, cuts=4).edges.tolist() == [
        *(1, 1.5, 2, 2.5),
        *(3, 4, 5, 6),
        7,
    ]
    whole = BucketGrid.geometric(lower=0, cap=7, growth=2, cuts=4, whole=True)
    assert whole.edges.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_what_is_no_coarser_grid_is_refused():
    column = BucketCounts.of([1.0], grid=made("from 0", 4))
    for other in (made("from 0", 8), made("cents", 1)):
        with pytest.raises(InvalidParameter, match="each edge is one of the grid"):
            column.onto(other)
    with pytest.raises(InvalidParameter, match=r"BucketGrid.cuts must leave at most 1048576 edges"):
        made("from 0", 1024)
    with pytest.raises(InvalidParameter, match="a whole number from 1 to 65536; got 0"):
        made("from 0", 0)


def answer(grid, query, values):
    """Return what the engine says to one query about floats."""
    with duckdb.connect() as connection:
        given = pl.DataFrame({"x": values}, schema={"x": pl.Float64}, strict=False)
        connection.register("rows", given)
        sent = list(query.cuts)
        texts = {"label": sent, "position": list(range(len(sent)))}
        connection.register(
            "labels", pl.DataFrame(texts, schema={"label": pl.String, "position": pl.Int64})
        )
        made = connection.sql(query.over("rows", grouped=False))
        found = made.fetchnumpy() if query.take is None else query.take(made)
    return query.counted(found, grid, 1)


@pytest.mark.parametrize("name", [name for name in WAYS if find_scale(made(name, 16)) is not None])
@pytest.mark.sample(2)
def test_a_logarithm_proposes_the_bucket_of_nearly_every_number(name):
    """All of 200,000 random numbers are where the fast way says, up to the very last step."""
    grid, rng = made(name, 64), np.random.default_rng(5)
    spread = np.exp(rng.uniform(-5, 15, 200_000)) * rng.choice([1, -1], 200_000)
    values = [*spread.tolist(), 0.0, float(grid.edges[-1]), float(grid.edges[0]), None]
    values += rng.uniform(grid.edges[-2], grid.edges[-1], 100).tolist()
    values += [np.inf, -np.inf, 1.7e308, -1.7e308]
    proposed = answer(grid, fine_queries(grid)[1], values)
    assert proposed is not None, "some number was misplaced, so that the engine has to search"
    expected = BucketCounts.of(values, grid=grid)
    assert (proposed.counts[0] == expected.counts).all()
    assert (proposed.known, proposed.missing) == (len(values) - 1, 1)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.sample(3)
def test_numbers_that_are_handed_on_are_in_their_buckets(name):
    """In several pieces, at every edge and beside it, with what is missing in no bucket."""
    grid, rng = made(name, 64), np.random.default_rng(5)
    edges = rng.permutation(grid.edges)[:60_000]
    beside = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    far = [0.0, -0.0, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -5e-324]
    values = np.concatenate([*beside, far, np.exp(rng.uniform(-5, 15, 200_000))])
    listed = [
        None if lost else one
        for one, lost in zip(values.tolist(), rng.random(len(values)) < 0.1, strict=True)
    ]
    found = answer(grid, fine_queries(grid)[0], listed)
    known = np.array([one for one in listed if one is not None])
    assert (found.counts[0] == [*BucketCounts.of(known, grid=grid).counts]).all()
    assert (
        found.counts[0]
        == np.bincount(np.searchsorted(grid.edges, known, "right"), minlength=grid.size + 1)
    ).all()
    assert (found.known, found.missing) == (known.size, len(listed) - known.size)


def test_two_grids_of_one_batch_have_their_own_counts():
    """The engine is asked the same of both: twin, an answer that is kept under the query alone."""
    prices = pl.DataFrame({"x": np.random.default_rng(3).lognormal(3, 1, 5000)})
    with sd.Session(prices, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(4)) as session:
        with session.batch():
            asked_for = [
                session.quantile("x", q=0.5, epsilon=50, lower=0, cap=cap) for cap in (1e9, 1e6)
            ]
        # Counts over another grid would name another edge, or none.
        true = float(prices["x"].median())
        assert all(abs(one.result.value / true - 1) < 0.01 for one in asked_for)


def test_ways_that_a_logarithm_has():
    """Else the test above would be about nothing."""
    assert {name for name in WAYS if find_scale(made(name, 16))} == {
        "from 0",
        "cents",
        "signed",
        "from -7.25",
    }


def any_grid(rng):
    """Return a grid of parameters drawn at random: caps of many digits, caps of 0, whole and mirrored ones; None if there is none."""
    whole, signed = bool(rng.random() < 0.3), bool(rng.random() < 0.3)
    odd = (19.99, 123456.789, 1000000.1, 1700000000.123, 1e-10, 2.0**60, 0.0, 20.0)
    cap = float(rng.choice([*odd, rng.lognormal(5, 5), rng.normal(0, 100)]))
    lower = float(rng.choice([0, -100, -1, 1.6e9, 1e15, rng.normal(0, 50)]))
    if whole:
        cap, lower = np.floor(cap), np.floor(lower)
    try:
        return BucketGrid.geometric(
            lower=None if signed else lower,
            cap=cap,
            growth=float(rng.choice([1.01, 1.05, 1.5, 10])),
            unit=float(rng.choice([1, 0.01, 1000, 0.3])),
            whole=whole,
            cuts=int(rng.choice([2, 7, 16, 28])),
        )
    except InvalidParameter:
        return None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.sample(1)
def test_engines_make_the_very_edges_of_a_grid(seed):
    """They made some beyond the last one, where rounding moved a part of it: a row there ended the release after the charge."""
    rng = np.random.default_rng(seed)
    grids = [grid for grid in (any_grid(rng) for _ in range(60)) if grid is not None]
    assert len(grids) > 30
    for grid in grids:
        edges = rng.choice(grid.edges, 50)
        values = [*edges, *np.nextafter(edges, np.inf), *np.nextafter(edges, -np.inf)]
        values += [np.inf, -np.inf, 0.0, -0.0, 1e308, -1e308, 5e-324]
        expected = BucketCounts.of(values, grid=grid)
        handed, *proposals, search = (answer(grid, one, values) for one in fine_queries(grid))
        assert (handed.counts[0] == expected.counts).all(), grid
        assert (search.counts[0] == expected.counts).all(), grid
        for one in proposals:
            assert one is None or (one.counts[0] == expected.counts).all(), grid


@pytest.mark.parametrize("integer", [True, False])
def test_a_search_takes_no_longer_for_each_row_and_edge(integer):
    """Of a stream an engine does not know the length: it compared each row with every edge, for ten seconds and hours."""
    rows = pl.DataFrame({"x": np.arange(60_000) % 5000})
    # With a cap beyond the values and no room for a logarithm the engine always searches.
    grid = BucketGrid.geometric(lower=0, cap=10**6, growth=1.01, whole=True, cuts=64)
    if not integer:
        grid = BucketGrid.geometric(lower=1e15, cap=1e15 + 10**6, growth=1.01, cuts=64)
    assert find_scale(grid) is None
    [counts] = asked(rows, grid).run()
    assert counts == BucketCounts.of(rows["x"].to_numpy(), grid=grid)


@pytest.mark.parametrize("moved", ["up", "down"])
def test_a_number_in_another_bucket_than_its_own_is_found_out(moved):
    """Broken twin: the engine's power is wrong by one part in a thousand; the check convicts it, and the search is right."""
    grid, values = made("from 0", 64), np.exp(np.linspace(1, 10, 5000)).tolist()
    _, proposal, search = fine_queries(grid)
    wrong = proposal.sql.replace("exp(", f"{1.001 if moved == 'up' else 0.999} * exp(")
    twin = type(proposal)(proposal.cuts, proposal.buckets, wrong)
    assert answer(grid, twin, values) is None
    found = answer(grid, search, values)
    assert (found.counts[0] == BucketCounts.of(values, grid=grid).counts).all()


@pytest.mark.parametrize("name", ["from 0", "signed", "whole"])
@pytest.mark.sample(3)
def test_every_kind_of_number_has_the_bucket_of_its_float(name):
    grid, rng = made(name, 4), np.random.default_rng(8)
    whole = rng.integers(-(10**5), 10**5, 3000)
    agrees(pl.DataFrame({"x": whole}), whole.tolist(), grid)
    cents = [Decimal(int(one)) / 100 for one in whole]
    agrees(pl.DataFrame({"x": cents}, schema={"x": pl.Decimal(12, 2)}), cents, grid)
    grouped = pl.DataFrame({"x": whole.astype(float), "g": ["a", "b", "c"] * 1000})
    found = asked(grouped, grid, by="g", domain=["a", "b", "none"]).run()
    for label, counts in zip(["a", "b", "none"], found, strict=True):
        of_group = grouped.filter(pl.col("g") == label)["x"].to_numpy()
        assert counts == BucketCounts.of(of_group, grid=grid)
