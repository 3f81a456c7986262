"""Frames that come wrapped, columns of nothing, and paths and types that only look harmless: one row decides nothing about others."""

from __future__ import annotations

import io
import json
import struct

import duckdb
import narwhals as nw
import narwhals.stable.v1 as nw_v1
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.errors import DataSourceError, InvalidParameter, UnsupportedBackend
from sordino.questions import PrivacyUnit, prepare_counts, prepare_numbers
from sordino.sources import open_source

ROW = PrivacyUnit.row()


def items(source, domain):
    return (
        prepare_counts(open_source(source), ROW, kind="items", item="x", domain=domain)
        .run()
        .values.tolist()
    )


# ---- frames that another library wraps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [nw.from_native, nw_v1.from_native])
def test_a_wrapper_hides_no_scan_of_texts(tmp_path, wrap):
    """One row of text more would make texts of 5,000 numbers, and another label of each."""
    (tmp_path / "t.csv").write_text("x\n" + "007\n" * 5000)
    for scan in (pl.scan_csv(tmp_path / "t.csv"), wrap(pl.scan_csv(tmp_path / "t.csv"))):
        with pytest.raises(UnsupportedBackend, match="must read files that declare"):
            open_source(scan)


@pytest.mark.parametrize("wrap", [nw.from_native, nw_v1.from_native])
@pytest.mark.parametrize("n", [10, 5000])
@pytest.mark.sample(4)
def test_a_wrapped_pandas_frame_is_a_pandas_frame(wrap, n):
    for more, counts in (([], [n, 0]), ([5], [n, 0]), ([None, True], [n, 0])):
        frame = pd.DataFrame({"x": pd.Series(["a"] * n + more, dtype=object)})
        assert items(frame, ["a", "b"]) == items(wrap(frame), ["a", "b"]) == counts
        assert open_source(wrap(frame)).inferred


def test_other_wrapped_tables_are_what_they_wrap_or_refused():
    table = pa.table({"x": ["a", "b", "b"]})
    for source in (table, pl.from_arrow(table), pl.from_arrow(table).lazy()):
        assert items(nw.from_native(source), ["a", "b"]) == [1, 2]
    with pytest.raises(UnsupportedBackend, match="got a table of duckdb"):
        open_source(nw.from_native(duckdb.sql("SELECT 1 AS x")))


def test_a_frame_of_datafusion_says_what_to_hand_over_in_its_place():
    """Its name is enough: nothing is imported, and no plan is run."""

    class DataFrame:
        def schema(self, *_):
            raise AssertionError

        to_arrow_table = execute_stream = __arrow_c_stream__ = schema

    DataFrame.__module__ = "datafusion.dataframe"
    with pytest.raises(UnsupportedBackend) as caught:
        open_source(DataFrame())
    assert str(caught.value) == (
        "A frame of DataFusion must be handed over as an Arrow table, which is frame.to_arrow_table()."
    )


# ---- columns in which no row has a value --------------------------------------------------------------------------------

NOTHING = {
    "Arrow": lambda n: pa.table({"x": pa.nulls(n)}),
    "Arrow, a dictionary": lambda n: pa.table(
        {"x": pa.DictionaryArray.from_arrays(pa.array([0, None] * n, pa.int32())[:n], pa.nulls(1))}
    ),
    "Polars": lambda n: pl.DataFrame({"x": [None] * n}),
    "Polars, lazy": lambda n: pl.LazyFrame({"x": [None] * n}),
    "pandas": lambda n: pd.DataFrame({"x": pd.array([None] * n, dtype=pd.ArrowDtype(pa.null()))}),
}


@pytest.mark.parametrize("made", NOTHING)
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.sample(4)
def test_a_column_of_nothing_is_asked_like_any_other(made, n):
    """With one value more it would be a column of whole numbers or texts, and no question of these is refused."""
    source = open_source(NOTHING[made](n))
    assert items(NOTHING[made](n), ["a", "7"]) == [0, 0]
    assert prepare_counts(source, PrivacyUnit("x"), kind="units").run().values.tolist() == [0]
    asked = prepare_numbers(source, ROW, column="x", grid=sd.BucketGrid(edges=[0.0, 2.0]))
    assert asked.run()[0].counts.tolist() == [0, 0, 0]
    assert asked.count().missing == n


@pytest.mark.parametrize("kind", ["Parquet", "relation", "DuckDB"])
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.sample(4)
def test_a_file_of_nothing_is_asked_like_any_other(kind, n, tmp_path):
    """Twin: its type was NULL, which no question takes; one row more, and it was answered."""
    path = tmp_path / "nothing.parquet"
    pd.DataFrame({"x": pd.Series([None] * n, dtype=object)}).to_parquet(path)
    table = path if kind == "Parquet" else duckdb.sql(f"FROM '{path}'")
    if kind == "DuckDB":
        with duckdb.connect(tmp_path / "nothing.duckdb") as connection:
            connection.execute(f"CREATE TABLE t AS SELECT NULL AS x FROM range({n})")
        table = f"duckdb://{tmp_path}/nothing.duckdb#t"
    source = open_source(table)
    assert source.columns == {"x": "INTEGER"}
    assert items(table, ["a", "7"]) == [0, 0]
    assert prepare_counts(source, PrivacyUnit("x"), kind="units").run().values.tolist() == [0]
    grid = sd.BucketGrid(edges=[0.0, 2.0])
    for where, missing in ((None, n), ("x IS NULL", n), ("x > 3", 0)):
        asked = prepare_numbers(source, ROW, column="x", grid=grid, where=where)
        assert asked.run()[0].counts.tolist() == [0, 0, 0]
        assert asked.count().missing == missing


def test_parts_of_which_one_has_held_nothing_so_far_still_differ(tmp_path):
    """An engine that reads both by one schema would fail on the numbers of the other, after the charge."""
    pd.DataFrame({"x": pd.Series([None], dtype=object)}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"x": pd.Series([7], dtype="int32")}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataSourceError, match="column 'x' is \"NULL\" and INTEGER"):
        open_source(tmp_path)


def test_a_column_that_pandas_found_nothing_in_is_answered_as_with_one_text():
    for text, count in (("x,y\n,1\n,2\n", 0), ("x,y\n,1\n,2\na,3\n", 1)):
        frame = pd.read_csv(io.StringIO(text), dtype_backend="pyarrow")
        assert items(frame, ["a"]) == [count]


# ---- names of folders, and what Polars says of them ---------------------------------------------------------------------


@pytest.mark.parametrize("base", ["export[2026]", "a, b", "x=1", "line\nbreak", "plain"])
def test_folders_that_make_a_column_are_found_wherever_they_lie(tmp_path, base):
    for folder in ("k=01", "k=02"):
        (tmp_path / base / folder).mkdir(parents=True)
        pl.DataFrame({"v": ["q"] * 5}).write_parquet(tmp_path / base / folder / "part.parquet")
    scan = pl.scan_parquet(tmp_path / base, hive_partitioning=True, glob=False)
    assert "k" in scan.collect_schema()
    with pytest.raises(UnsupportedBackend, match="NAME=VALUE"):
        open_source(scan)


@pytest.mark.parametrize("base", ["export[2026]", "a, b", "plain (2)"])
def test_files_in_odd_folders_are_read(tmp_path, base):
    (tmp_path / base).mkdir()
    pl.DataFrame({"x": ["a", "b"]}).write_parquet(tmp_path / base / "part.parquet")
    assert items(pl.scan_parquet(tmp_path / base / "part.parquet", glob=False), ["a", "b"]) == [
        1,
        1,
    ]


def test_a_plan_that_fails_says_nothing_of_what_it_met(tmp_path):
    folder = tmp_path / "k=86753099"
    folder.mkdir()
    pl.DataFrame({"v": ["q"]}).write_parquet(folder / "part.parquet")
    failing = pl.scan_parquet(tmp_path, hive_schema={"k": pl.Date}, hive_partitioning=True)
    for frame in (failing, pl.LazyFrame({"x": [1]}).select("y")):
        with pytest.raises((DataSourceError, UnsupportedBackend)) as caught:
            open_source(frame)
        assert "86753099" not in str(caught.value)
        assert caught.value.__cause__ is None


# ---- types on some values of which the engine fails ---------------------------------------------------------------------


def test_predicates_take_no_type_on_whose_values_the_engine_fails(tmp_path):
    """One row whose bytes are no geometry ended a release; a deep VARIANT ended the process."""
    geometry = {
        "version": "1.1.0",
        "primary_column": "g",
        "columns": {"g": {"encoding": "WKB", "geometry_types": []}},
    }
    rows = pa.table(
        {"g": pa.array([struct.pack("<BIdd", 1, 1, 1.0, 2.0), b""], pa.binary()), "x": ["a", "b"]}
    )
    pq.write_table(
        rows.replace_schema_metadata({"geo": json.dumps(geometry)}), tmp_path / "g.parquet"
    )
    with duckdb.connect(tmp_path / "v.duckdb") as con:
        con.execute("CREATE TABLE t (g VARIANT, x VARCHAR, s STRUCT(a VARIANT))")
        con.execute("INSERT INTO t VALUES (1::VARIANT, 'a', NULL), (NULL, 'b', NULL)")
    for source, columns in (
        (tmp_path / "g.parquet", "g"),
        (f"duckdb:{tmp_path / 'v.duckdb'}#t", "gs"),
    ):
        for column in columns:
            with pytest.raises(InvalidParameter, match="BIGNUM, GEOMETRY or VARIANT"):
                prepare_counts(open_source(source), ROW, kind="rows", where=f"{column} IS NULL")
        assert items(source, ["a", "b"]) == [1, 1]
        asked = prepare_counts(open_source(source), ROW, kind="rows", where="x = 'a'")
        assert asked.run().values.tolist() == [1]


# ---- frames that hand narwhals another frame ----------------------------------------------------------------------------


class Shell:
    """Any object may hand narwhals a frame."""

    def __init__(self, frame):
        self._frame = nw.from_native(frame)._compliant_frame

    def __narwhals_dataframe__(self):
        return self._frame


@pytest.mark.parametrize(
    "make", [Shell, lambda frame: nw.from_native(frame)._compliant_frame], ids=["shell", "inner"]
)
@pytest.mark.parametrize("more", [[], [7], [None], [b"x"], [float("nan")]], ids=repr)
@pytest.mark.sample(4)
def test_what_hands_over_a_pandas_frame_is_a_pandas_frame(make, more):
    frame = pd.DataFrame({"x": pd.Series(["a"] * 500 + more, dtype=object)})
    # Bytes are texts.
    found = [500, int(more == [b"x"])]
    assert items(make(frame), ["a", "x"]) == items(frame, ["a", "x"]) == found
    assert open_source(make(frame)).inferred
