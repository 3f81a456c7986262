"""What somebody else left in a table decides about its own row alone: values beyond their type, links to a file, types found from rows."""

from __future__ import annotations

import enum
import glob
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.errors import InvalidParameter, UnsupportedBackend
from sordino.questions import PrivacyUnit, prepare_counts, prepare_numbers, prepare_records
from sordino.sources import open_source
from sordino.sources.frames import _is_below

ROW = PrivacyUnit.row()
GRID = sd.BucketGrid(edges=[0.0, 2.0, 50.0])

# ---- decimals with more digits than their type --------------------------------------------------------------------------


def of_numbers(numbers, kind):
    """Return whole numbers of 128 bits as decimals of a type, which may be too small for them."""
    memory = b"".join(number.to_bytes(16, "little", signed=True) for number in numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(memory)])


@pytest.mark.parametrize("precision", [1, 4, 5, 9, 18, 19, 20, 37, 38])
def test_what_a_decimal_type_holds_is_compared_in_two_halves(precision):
    limit = 10**precision
    near = [limit + off for off in (-2, -1, 0, 1)] + [2**64 - 1, 2**64, 2**64 + 1, 2**127 - 1, 0, 1]
    numbers = [
        number
        for number in (*near, *(-one for one in near), -(2**127))
        if -(2**127) <= number < 2**127
    ]
    array = of_numbers(numbers, pa.decimal128(precision, 0))
    assert _is_below(array, limit).tolist() == [abs(number) < limit for number in numbers]
    assert _is_below(array.slice(3, 5), limit).tolist() == [
        abs(number) < limit for number in numbers[3:8]
    ]
    assert _is_below(array[:0], limit).tolist() == []


def crowded(first):
    """Return decimals of five digits of which many hold 10^20: what a cast leaves that is not safe."""
    values = [first, *[1] * 2047, *([10**20] + [1] * 2047) * 5]
    wide = pa.array([Decimal(value) for value in values], type=pa.decimal128(38, 2))
    return pc.cast(wide, options=pc.CastOptions(pa.decimal128(5, 2), allow_decimal_truncate=True))


FRAMES = {
    "Arrow": lambda column: pa.table({"x": column}),
    "Arrow, in small chunks": lambda column: pa.table(
        {"x": pa.chunked_array([column.slice(at, 7) for at in range(0, len(column), 7)])}
    ),
    "Polars": lambda column: pl.from_arrow(pa.table({"x": column})),
    "Polars, lazy": lambda column: pl.from_arrow(pa.table({"x": column})).lazy(),
}


def pandas_frame(column):
    return pd.DataFrame({"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))})


def answers(frame, labels=("1.00", "40.00")):
    source = open_source(frame)
    numbers = prepare_numbers(source, ROW, column="x", grid=GRID)
    return {
        "kept": prepare_counts(source, ROW, kind="rows", where="x > 30").run().values.tolist(),
        "items": prepare_counts(source, ROW, kind="items", item="x", domain=list(labels))
        .run()
        .values.tolist(),
        "buckets": numbers.run()[0].counts.tolist(),
        "total": [*numbers.totals([StepRange(0, 400, Fraction(1, 4))])[0]],
    }


@pytest.mark.parametrize("made", FRAMES)
@pytest.mark.sample(4)
def test_a_decimal_beyond_its_type_is_missing_whatever_the_other_rows_hold(made):
    rows = 6 * 2048
    large, small = (answers(FRAMES[made](crowded(first))) for first in (40, 1))
    assert large == {
        "kept": [1],
        "items": [rows - 6, 1],
        "buckets": [0, rows - 6, 1, 0],
        "total": [160 + 4 * (rows - 6), rows - 5, 5],
    }
    assert small == {
        "kept": [0],
        "items": [rows - 5, 0],
        "buckets": [0, rows - 5, 0, 0],
        "total": [4 * (rows - 5), rows - 5, 5],
    }


def test_in_pandas_a_decimal_is_the_number_that_it_is_among_objects():
    """There its type does not decide what is missing, as it decides nothing else."""
    rows = 6 * 2048
    large, small = (answers(pandas_frame(crowded(first)), ("1", "40")) for first in (40, 1))
    assert large == {
        "kept": [6],
        "items": [rows - 6, 1],
        "buckets": [0, rows - 6, 1, 5],
        "total": [160 + 4 * (rows - 6) + 5 * 400, rows, 0],
    }
    assert small == {
        "kept": [5],
        "items": [rows - 5, 0],
        "buckets": [0, rows - 5, 0, 5],
        "total": [4 * (rows - 5) + 5 * 400, rows, 0],
    }


def test_the_least_number_of_128_bits_is_missing_too():
    frame = pa.table({"x": of_numbers([7, -(2**127), 8], pa.decimal128(38, 0))})
    assert prepare_counts(
        open_source(frame), PrivacyUnit("x"), kind="units"
    ).run().values.tolist() == [2]


# ---- numbers of other widths --------------------------------------------------------------------------------------------


def counts(frame, column="x", grid=GRID):
    return (
        prepare_numbers(open_source(frame), ROW, column=column, grid=grid).run()[0].counts.tolist()
    )


def test_whole_numbers_of_128_bits_are_numbers_and_labels():
    frame = pl.DataFrame(
        {
            "x": pl.Series([1, 3, 2**100, -(2**127), None], dtype=pl.Int128),
            "y": pl.Series([2**127] * 5, dtype=pl.UInt128),
        }
    )
    assert counts(frame) == counts(frame.lazy()) == [1, 1, 1, 1]
    labels = prepare_counts(
        open_source(frame), ROW, kind="items", item="x", domain=["0", str(2**100), "3"]
    )
    assert labels.run().values.tolist() == [0, 1, 1]
    assert prepare_counts(
        open_source(frame), ROW, kind="items", item="y", domain=[str(2**127)]
    ).run().values.tolist() == [5]


@pytest.mark.parametrize("kind", [np.float16, np.longdouble])
@pytest.mark.sample(4)
def test_floats_of_other_widths_are_those_numbers(kind):
    numbers = [kind(1.5), kind(3), kind(0.1)]
    alone = pd.DataFrame({"x": pd.Series(np.array(numbers, dtype=kind))})
    among = pd.DataFrame({"x": pd.Series([*numbers, "n/a"], dtype=object)})
    assert counts(alone) == [0, 2, 1, 0]
    assert counts(among) == [0, 2, 1, 0]
    for label in ("1.5", "3", repr(float(numbers[2]))):
        both = [
            prepare_counts(open_source(frame), ROW, kind="items", item="x", domain=[label])
            for frame in (alone, among)
        ]
        assert [one.run().values.tolist() for one in both] == [[1], [1]], label


# ---- pandas -------------------------------------------------------------------------------------------------------------

LARGE = sd.BucketGrid(edges=[0.0, float(2**53 + 4), float(2**54)])


@pytest.mark.parametrize("other", ["n/a", 2**64, 0.5, None])
@pytest.mark.parametrize("number", [2**53 + 1, 2**53 + 3, 2**62 + 1, -(2**53) - 1, 2**64 - 1])
@pytest.mark.sample(4)
def test_one_other_value_does_not_round_the_whole_numbers_of_all_rows(number, other):
    column = pd.Series([number] * 100)
    nullable = "UInt64" if number >= 2**63 else "Int64"
    among = pd.Series([*column, other], dtype=nullable if other is None else object)

    def seen(series):
        question = prepare_numbers(
            open_source(pd.DataFrame({"x": series})), ROW, column="x", grid=LARGE
        )
        return np.array(
            [
                *question.run()[0].counts,
                *question.totals([StepRange(-(2**52), 2**52, Fraction(4096))])[0],
            ]
        )

    moved = seen(among) - seen(column)
    assert np.abs(moved[:4]).sum() == (other in {2**64, 0.5}), (
        "a row without a number is in no bucket"
    )
    assert moved[5] == (other in {2**64, 0.5})  # how many are known
    assert moved[4] == (2**52 if other == 2**64 else 0), "what the other row adds, and nothing else"


def test_the_truth_values_that_a_text_made_texts_of_are_the_same_numbers():
    grid = sd.BucketGrid(edges=[0.0, 0.5])
    plain = counts(pd.DataFrame({"x": [True, False, True]}), grid=grid)
    texts = counts(pd.DataFrame({"x": ["True", "False", "True", "n/b"]}), grid=grid)
    assert (plain, texts) == ([0, 1, 2], [0, 1, 2])


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 40


class Odd(float):
    def __float__(self):
        raise RuntimeError("kryptonite")


@pytest.mark.parametrize(
    ("values", "number"),
    [
        ([Size.SMALL, Size.LARGE], [1, 40]),
        ([Decimal("1.50"), Decimal("1E+1")], [1.5, 10]),
        ([Odd(1.5), Odd(40)], [1.5, 40]),
        ([2**64, 10**30], [2.0**64, 1e30]),
        ([np.int8(1), np.float32(40)], [1, 40]),
    ],
)
@pytest.mark.sample(4)
def test_numbers_of_every_class_are_numbers_among_others(values, number):
    alone, among = (
        pd.DataFrame({"x": pd.Series([*values, *more], dtype=object)}) for more in ([], ["n/b"])
    )
    expected = counts(pd.DataFrame({"x": pd.Series(number, dtype=np.float64)}))
    assert counts(alone) == expected
    assert counts(among) == expected
    units = [
        prepare_counts(open_source(one), PrivacyUnit("x"), kind="units").run()
        for one in (alone, among)
    ]
    assert [one.values.tolist() for one in units] == [[2], [3]]


@pytest.mark.parametrize("written", ["TRUE", "True", "true", "tRuE"])
def test_truth_values_are_those_numbers_however_they_are_written(written):
    grid = sd.BucketGrid(edges=[0.0, 0.5])
    assert counts(pd.DataFrame({"x": [written, "FALSE", "n/b"]}), grid=grid) == [0, 1, 1]


def test_a_number_that_is_too_large_for_a_float_says_nothing():
    frame = pd.DataFrame({"x": pd.Series(np.array(["1e4000", "2"], dtype=np.longdouble))})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert counts(frame) == [0, 0, 1, 1]


# ---- dictionaries -------------------------------------------------------------------------------------------------------


def test_a_dictionary_is_a_column_of_what_it_holds():
    words = pa.table({"x": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert dict(open_source(words).columns) == {"x": "VARCHAR"}
    floats = pa.table({"x": pa.array([7.0, 1.5, 7.0]).dictionary_encode()})
    labels = prepare_counts(open_source(floats), ROW, kind="items", item="x", domain=["1.5", "7"])
    assert labels.run().values.tolist() == [1, 2]
    assert counts(floats) == [0, 1, 2, 0]
    decimals = pa.table({"x": pa.array([Decimal("1.25"), Decimal("3.00")]).dictionary_encode()})
    assert dict(open_source(decimals).columns) == {"x": "DECIMAL(3,2)"}


@pytest.mark.parametrize("made", ["Arrow", "pandas"])
@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal32(4, 2),
        pa.decimal64(9, 2),
        pa.decimal256(40, 2),
        pa.struct([("d", pa.decimal128(5, 2))]),
        pa.list_(pa.decimal128(5, 2), 1),
    ],
    ids=str,
)
@pytest.mark.each_value
def test_a_dictionary_of_what_is_no_label_is_none(made, kind):
    column = pa.DictionaryArray.from_arrays(pa.array([None], pa.int32()), pa.array([], kind))
    frame = pa.table({"x": column})
    if made == "pandas":
        frame = pd.DataFrame(
            {"x": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))}
        )
    # One value of another type makes objects of a column of pandas, among which these are missing.
    if made == "pandas":
        units = prepare_counts(open_source(frame), PrivacyUnit("x"), kind="units")
        assert units.run().values.tolist() == [0]
        return
    with pytest.raises(InvalidParameter, match="Convert the column"):
        prepare_counts(open_source(frame), PrivacyUnit("x"), kind="units")


# ---- files, folders, other types ----------------------------------------------------------------------------------------


def test_a_file_counts_once_under_whatever_names_a_pattern_finds_it(tmp_path):
    month = tmp_path / "2026-11.csv"
    month.write_text("u,x\n1,a\n2,b\n")
    (tmp_path / "latest.csv").symlink_to(month)
    (tmp_path / "copy.csv").hardlink_to(month)
    (tmp_path / "other.csv").write_text("u,x\n3,a\n")
    source = open_source(f"{tmp_path}/*.csv")
    assert len(source.files) == 2
    assert prepare_counts(source, ROW, kind="rows").run().values.tolist() == [3]


def test_columns_from_the_names_of_folders_are_refused_in_lazy_frames(tmp_path, monkeypatch):
    for folder in ("u=1", "u=2"):
        (tmp_path / folder).mkdir()
        pl.DataFrame({"v": [1]}).write_parquet(tmp_path / folder / "part.parquet")
    with pytest.raises(UnsupportedBackend, match="NAME=VALUE"):
        open_source(pl.scan_parquet(f"{tmp_path}/"))
    for other in (
        pl.scan_parquet(f"{tmp_path}/").rename({"u": "w"}),
        pl.scan_parquet(f"{tmp_path}/").select(pl.col("u").alias("w"), "v"),
        pl.concat(
            [pl.LazyFrame({"u": [1], "v": [1]}), pl.scan_parquet(f"{tmp_path}/").select("u", "v")]
        ),
    ):
        with pytest.raises(UnsupportedBackend, match="NAME=VALUE"):
            open_source(other)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnsupportedBackend, match="NAME=VALUE"):
        open_source(pl.scan_parquet("u=*/*.parquet", hive_partitioning=True))
    assert prepare_counts(
        open_source(f"{tmp_path}/*/*.parquet"), ROW, kind="rows"
    ).run().values.tolist() == [2]
    (tmp_path / "plain").mkdir()
    pl.DataFrame({"v": [1]}).write_parquet(tmp_path / "plain" / "a=1.parquet")
    assert prepare_counts(
        open_source(pl.scan_parquet("plain/*.parquet")), ROW, kind="rows"
    ).run().values.tolist() == [1]


def test_numbers_without_a_width_take_no_predicate(tmp_path):
    with duckdb.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t (n BIGNUM, l BIGNUM[], x INTEGER)")
        con.execute("INSERT INTO t VALUES ('1000000000000000000000000000000'::BIGNUM, NULL, 3)")
    source = open_source(f"duckdb:{tmp_path}/a.db#t")
    for where in ("TRY_CAST(n AS BIGINT) > 1", "l IS NULL"):
        with pytest.raises(InvalidParameter, match="BIGNUM"):
            prepare_counts(source, ROW, kind="rows", where=where)
    assert prepare_counts(source, ROW, kind="rows", where="x = 3").run().values.tolist() == [1]


def test_what_a_table_computes_when_it_is_read_is_not_used(tmp_path):
    with duckdb.connect(tmp_path / "a.db") as con:
        con.execute("CREATE SCHEMA Shop")
        con.execute(
            "CREATE TABLE Shop.T (a INTEGER, g INTEGER GENERATED ALWAYS AS (TRY(a + 1)), b INTEGER DEFAULT 5)"
        )
        con.execute("INSERT INTO Shop.T (a) VALUES (1), (2)")
    source = open_source(f"duckdb:{tmp_path}/a.db#shop.t")
    assert dict(source.columns) == {
        "a": "INTEGER",
        "g": "UNUSABLE INTEGER (computed when it is read)",
        "b": "INTEGER",
    }
    with pytest.raises(InvalidParameter):
        prepare_counts(source, ROW, kind="rows", where="g > 1")
    assert prepare_counts(
        source, ROW, kind="rows", where="a > 1 AND b = 5"
    ).run().values.tolist() == [1]


def test_records_of_what_is_computed_have_no_public_number(tmp_path):
    unit = PrivacyUnit.row(adjacency="replace-one")
    with duckdb.connect(tmp_path / "a.db") as con:
        con.execute("CREATE TABLE t AS SELECT 1.0 AS x")
        con.execute("CREATE VIEW v AS SELECT * FROM t WHERE x > 0")
    for source in (
        f"duckdb:{tmp_path}/a.db#v",
        pl.LazyFrame({"x": [1.0]}).filter(pl.col("x") > 0),
        duckdb.sql("SELECT 1.0 AS x"),
    ):
        with pytest.raises(InvalidParameter, match="number of rows is public"):
            prepare_records(open_source(source), unit, column="x")
    assert prepare_records(open_source(f"duckdb:{tmp_path}/a.db#t"), unit, column="x") is not None


def test_a_file_that_goes_away_while_a_pattern_is_expanded_is_none(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("x\n1\n")
    gone = tmp_path / "b.csv"
    is_file = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda self: self == gone or is_file(self))
    monkeypatch.setattr(glob, "glob", lambda *_, **__: [str(tmp_path / "a.csv"), str(gone)])
    assert open_source(f"{tmp_path}/*.csv").files == (tmp_path / "a.csv",)


@pytest.mark.parametrize(
    ("number", "units"),
    [
        pytest.param(10**639, 1, id="640 digits"),
        pytest.param(1 - 10**640, 1, id="640 digits and a sign"),
        pytest.param(10**640, 0, id="641 digits"),
        pytest.param(-(10**5000), 0, id="5001 digits"),
    ],
)
@pytest.mark.sample(4)
def test_how_many_digits_a_whole_number_has_is_no_matter_of_settings(number, units):
    frame = pd.DataFrame({"x": pd.Series([number, None], dtype=object)})
    before = sys.get_int_max_str_digits()
    try:
        for digits in (640, 4300, 0):
            sys.set_int_max_str_digits(digits)
            counted = prepare_counts(open_source(frame), PrivacyUnit("x"), kind="units").run()
            assert counted.values.tolist() == [units]
    finally:
        sys.set_int_max_str_digits(before)
