"""Records in buckets: the same counts as comparing each record with each edge, whatever holds the records and however they are cut."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import tracemalloc
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import sordino as sd
from sordino.errors import InvalidParameter

GRIDS = {
    "from 0": sd.BucketGrid.geometric(lower=0, cap=1000, growth=1.1),
    "both signs": sd.BucketGrid.geometric(lower=None, cap=1e22, growth=2, unit=0.5),
    "from 1000": sd.BucketGrid.geometric(lower=1000, cap=1e6, growth=1.01),
    "up to 0": sd.BucketGrid.geometric(lower=-7, cap=0, growth=1.5),
    "dense": sd.BucketGrid(edges=np.linspace(-3, 3, 700)),
    "one edge": sd.BucketGrid(edges=[0.0]),
    "clustered": sd.BucketGrid(
        edges=[
            -5e300,
            math.nextafter(1, 0),
            1,
            math.nextafter(1, 2),
            1e-310 + 2,
            2**53,
            2**63,
            2**64,
            1e300,
        ]
    ),
}


def bucket(value, edges):
    """Return the bucket of one Python object by the definition; None if it is no number."""
    if value is None or value != value or not isinstance(value, int | float | Fraction | Decimal):
        return None
    if value in (math.inf, -math.inf):
        return len(edges) if value > 0 else 0
    return sum(Fraction(value) >= edge for edge in edges)


def expected(values, grid):
    edges = [Fraction(edge) for edge in grid.edges.tolist()]
    found = [one for one in (bucket(value, edges) for value in values) if one is not None]
    return np.bincount(found, minlength=grid.size + 1)


def counted(values, grid):
    return sd.BucketCounts.of(values, grid=grid).counts


def awkward(grid):
    edges = grid.edges[:: max(1, grid.size // 40)]
    near = [edges, np.nextafter(edges, -np.inf), np.nextafter(edges, np.inf)]
    return np.concatenate(
        [*near, [0.0, -0.0, 5e-324, -5e-324, 1.7e308, -1.7e308, np.nan, -np.nan, np.inf, -np.inf]]
    )


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_floats_at_edges_beside_them_and_beyond_everything(grid):
    values = awkward(grid)
    assert np.array_equal(counted(values, grid), expected(values.tolist(), grid))
    assert np.array_equal(counted(values.tolist(), grid), counted(values, grid))
    assert np.array_equal(counted(values.astype(object), grid), counted(values, grid))


@pytest.mark.parametrize(
    "kind",
    ["int64", "uint64", "int8", "uint32", "bool", "float16", "float32", "longdouble", ">f8", ">i4"],
)
@pytest.mark.parametrize("name", ["both signs", "clustered", "dense"])
@pytest.mark.sample(4)
def test_every_kind_of_number_is_compared_exactly(name, kind):
    grid, dtype = GRIDS[name], np.dtype(kind)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        listed = [limits.min, limits.min + 1, limits.max, limits.max - 1, 0, 1, 2, 3]
        listed += [n for e in (53, 62, 63) for n in (2**e - 1, 2**e, 2**e + 1) if n <= limits.max]
        values = np.array(listed, dtype=dtype)
    elif dtype.kind == "b":
        values = np.array([True, False, True])
    else:
        with np.errstate(over="ignore"):
            values = awkward(grid).astype(dtype)
    if kind == "longdouble":
        values[0] = np.nextafter(np.longdouble(1), np.longdouble(0))  # between two doubles
    objects = (
        [
            None if np.isnan(x) else float(x) if np.isinf(x) else Fraction(*x.as_integer_ratio())
            for x in values
        ]
        if dtype.kind == "f"
        else values.tolist()
    )
    assert np.array_equal(counted(values, grid), expected(objects, grid))


def test_whole_numbers_next_to_an_edge_that_floats_cannot_tell_apart():
    grid = sd.BucketGrid(edges=[2.0**53, 2.0**62, 2.0**63])
    values = np.array([2**53 - 1, 2**53, 2**53 + 1, 2**62 - 1, 2**62, 2**63 - 1])
    assert counted(values, grid).tolist() == [1, 3, 2, 0]
    assert counted(values.astype(np.uint64) + np.uint64(1), grid).tolist() == [0, 3, 2, 1]
    assert counted(values.tolist(), grid).tolist() == [1, 3, 2, 0]


class Odd:
    """Something that is no number, and does not like to be compared."""

    def __lt__(self, other):
        raise RuntimeError

    __gt__ = __le__ = __ge__ = __eq__ = __lt__
    __hash__ = None


def test_objects_have_a_rule_each():
    grid = GRIDS["from 0"]
    none = [
        None,
        "12",
        b"3",
        math.nan,
        Decimal("nan"),
        Decimal("sNaN"),
        pd.NA,
        pd.NaT,
        Odd(),
        3j,
        dt.date(2020, 1, 1),
        np.datetime64("2020-01-01"),
        np.timedelta64(5, "D"),
        [5],
    ]
    lowest = [
        -math.inf,
        Decimal("-1E+999999"),
        -(10**400),
        Fraction(-1, 3),
    ]
    highest = [
        Decimal("Infinity"),
        Decimal("1E+999999"),
        10**400,
        Fraction(10**30),
        np.float32(np.inf),
        np.longdouble(2000),
    ]
    between = [True, np.bool_(True), Decimal("0.5"), Fraction(1, 2), np.int8(5), np.float16(5)]
    counts = counted([*none, *lowest, *highest, *between], grid)
    places = [
        bucket(value, [Fraction(edge) for edge in grid.edges.tolist()])
        for value in (1, 1, 0.5, 0.5, 5, 5)
    ]
    assert counts[0] == len(lowest)
    assert counts[-1] == len(highest)
    assert np.array_equal(counts[1:-1], np.bincount(places, minlength=grid.size + 1)[1:-1])


def test_a_missing_value_sways_no_other_one():
    grid = sd.BucketGrid(edges=[2.0**53, 2.0**53 + 2])
    exact = [2**53 - 1, 2**53 + 1, 2**53 + 1, 2**53 + 2]
    masked = np.ma.array([*exact, 7], mask=[0, 0, 0, 0, 1])
    for values in (exact, pl.Series(exact), pa.array(exact), np.array(exact)):
        assert counted(values, grid).tolist() == [1, 2, 1]
    for values in (
        [*exact, None],
        pl.Series([*exact, None]),
        pa.array([*exact, None]),
        pa.chunked_array([exact, [None]]),
        masked,
    ):
        assert counted(values, grid).tolist() == [1, 2, 1]
    decimals = [Decimal(2**53 - 1), None, Decimal(2**53 + 2)]
    assert (
        counted(pl.Series(decimals), grid).tolist()
        == counted(pa.array(decimals), grid).tolist()
        == [1, 0, 1]
    )
    truths = sd.BucketGrid(edges=[0.5])
    assert (
        counted(pl.Series([True, None]), truths).tolist()
        == counted(pd.Series([True, None], dtype="boolean"), truths).tolist()
        == [0, 1]
    )
    floats = [0.5, None, 2.0**53]
    assert (
        counted(pl.Series(floats), grid).tolist()
        == counted(pa.array(floats), grid).tolist()
        == [1, 1, 0]
    )


@pytest.mark.parametrize(
    "values",
    [
        np.array(["1"]),
        np.array(["2020-01-01"], "M8[D]"),
        np.array([1], "m8[s]"),
        np.ones((2, 2)),
        np.array(3.0),
        5.0,
        None,
        "123",
        np.array([1j]),
        pl.Series(["1"]),
        pa.array(["1"]),
        pl.Series([dt.date(2020, 1, 1)]),
    ],
    ids=[
        "text",
        "dates",
        "spans",
        "a table",
        "a number",
        "a float",
        "nothing",
        "a text",
        "complex",
        "a text column",
        "an Arrow text column",
        "a date column",
    ],
)
def test_what_is_no_column_of_numbers_is_refused_by_its_type(values):
    with pytest.raises(
        InvalidParameter,
        match=r"BucketCounts\.of: values must be a one-dimensional array or list of numbers; got",
    ):
        counted(values, GRIDS["from 0"])


def test_the_counts_of_the_paper():
    grid = sd.BucketGrid.geometric(lower=0, cap=2**8 - 1, growth=2)
    state = sd.BucketCounts.of([0, 0.5, 1, 2.9, 3, 7.5, 20], grid=grid)
    below, lengths = state.runs_up()
    assert np.repeat(below, lengths).tolist() == [2, 4, 5, 6, 7, 7, 7, 7]
    assert below.size == 5
    above, lengths = state.runs_down()
    assert np.repeat(above, lengths).tolist() == [7 - count for count in [7, 7, 7, 7, 6, 5, 4, 2]]
    assert state.records == 7


@given(
    st.lists(st.sampled_from([-9.0, 0.0, 1.5, 2.0, 3.0, 5.0, 1e9, math.nan]), max_size=20),
    st.integers(1, 5),
)
def test_runs_are_the_counts_at_each_edge(values, size):
    grid = sd.BucketGrid(edges=[0.0, 2.0, 3.0, 4.0, 5.0][:size])
    state = sd.BucketCounts.of(values, grid=grid)
    numbers = [value for value in values if not math.isnan(value)]
    up, down = state.runs_up(), state.runs_down()
    assert np.repeat(*up).tolist() == [sum(x < edge for x in numbers) for edge in grid.edges]
    assert np.repeat(*down).tolist() == [
        sum(x >= edge for x in numbers) for edge in grid.edges[::-1]
    ]
    for numbers, lengths in (up, down):
        assert (np.diff(numbers) > 0).all()
        assert (lengths > 0).all()
        assert lengths.sum() == size


def test_parts_merged_in_any_order_are_the_whole():
    grid = GRIDS["both signs"]
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.standard_cauchy(500), awkward(grid)])
    whole = sd.BucketCounts.of(values, grid=grid)
    a, b, c = (
        sd.BucketCounts.of(part, grid=grid) for part in np.array_split(rng.permutation(values), 3)
    )
    assert a.merge(b).merge(c) == a.merge(b.merge(c)) == c.merge(a).merge(b) == whole
    assert whole.merge(sd.BucketCounts.empty(grid)) == whole != a
    assert (
        sd.BucketCounts.of([], grid=grid)
        == sd.BucketCounts.empty(grid)
        == sd.BucketCounts.of(np.array([], "i8"), grid=grid)
    )


def test_blocks_do_not_show(monkeypatch):
    from sordino.columns import bucket_counts

    grid = GRIDS["from 0"]
    values = np.random.default_rng(2).lognormal(3, 2, 1001)
    whole = counted(values, grid)
    monkeypatch.setattr(bucket_counts, "BLOCK", 1)
    small = sd.BucketGrid(edges=grid.edges[:1])  # whose blocks hold two records
    assert np.array_equal(counted(values, grid), whole)
    assert counted(values, small).tolist() == [whole[0], 1001 - whole[0]]
    assert np.array_equal(
        counted(values[::-3], grid) + counted(values[-2::-3], grid) + counted(values[-3::-3], grid),
        whole,
    )


def test_another_grid_is_refused():
    a = sd.BucketCounts.of([1, 2], grid=sd.BucketGrid.geometric(lower=0, cap=10, growth=2))
    b = sd.BucketCounts.of([1, 2], grid=sd.BucketGrid.geometric(lower=0, cap=11, growth=2))
    with pytest.raises(
        InvalidParameter,
        match=r"needs counts over the same grid, .*cap=10.*; got counts over .*cap=11",
    ):
        a.merge(b)
    with pytest.raises(InvalidParameter, match="same grid"):
        a.merge([1, 2])


def test_counts_of_the_wrong_shape_or_kind_are_refused():
    grid = sd.BucketGrid(edges=[1.0])
    for counts in ([1, 2, 3], [1.0, 2.0], [[1, 2]]):
        with pytest.raises(InvalidParameter, match=r"BucketCounts\.counts must be 2 whole numbers"):
            sd.BucketCounts(grid=grid, counts=np.array(counts))
    with pytest.raises(InvalidParameter, match="must be a BucketGrid"):
        sd.BucketCounts(grid=None, counts=np.array([1, 2]))


def test_nothing_private_shows():
    state = sd.BucketCounts.of([4711.0] * 4711, grid=sd.BucketGrid(edges=[1.0]))
    assert "4711" not in repr(state)
    with pytest.raises(TypeError, match="unhashable"):
        hash(state)
    with pytest.raises(ValueError, match="read-only"):
        state.counts[0] = 1


def test_memory_does_not_grow_with_the_records(tmp_path):
    grid = GRIDS["from 0"]
    peaks = []
    for records in (200_000, 1_600_000):
        column = np.memmap(tmp_path / f"{records}", dtype="f8", mode="w+", shape=(records,))
        counted(column[:100_000], grid)
        tracemalloc.start()
        assert counted(column, grid)[0] == records
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0] < 8e6


def test_a_logarithm_alone_would_be_convicted():
    grid = GRIDS["from 0"]
    values = np.concatenate([edges := grid.edges[:-1], np.nextafter(edges, 0)])
    by_logarithm = np.floor(np.log(values + 1) / np.log(1.1)).astype(int)
    assert (np.bincount(by_logarithm, minlength=grid.size + 1) != counted(values, grid)).any()


def test_a_search_from_an_edge_too_far_would_be_convicted():
    from sordino.columns import bucket_counts

    grid = GRIDS["from 0"]
    table = bucket_counts._build_mark_table(grid, "f")
    values = awkward(grid)
    values = values[~np.isnan(values)]
    assert np.array_equal(table.counts(values), expected(values.tolist(), grid))
    broken = dataclasses.replace(table, passed=np.roll(table.passed, -1))
    assert not np.array_equal(broken.counts(values), expected(values.tolist(), grid))
