"""What one missing value makes of the types of a frame decides neither whether a question is asked nor what the other rows mean."""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.errors import UnsupportedBackend
from sordino.questions import Domain, PrivacyUnit, prepare_counts, prepare_numbers, prepare_records
from sordino.sources import open_source
from sordino.sources.engine import engine
from sordino.sources.frames import _convert_for_engine
from sordino.sources.sql.sql_templates import float_text

GRID = sd.BucketGrid.geometric(lower=0, cap=100, growth=2)
ROW = PrivacyUnit.row()

# Pairs of columns that differ in one more row, and in what pandas makes of all of them.
PAIRS = {
    "whole numbers": (pd.Series([1, 2, 2, 40]), pd.Series([1, 2, 2, 40, None])),
    "truth values": (pd.Series([True, False, True]), pd.Series([True, False, True, None])),
    "a word among numbers": (pd.Series([1, 2, 2, 40]), pd.Series([1, 2, 2, 40, "many"])),
    "a fraction among numbers": (pd.Series([1, 2, 2, 40]), pd.Series([1, 2, 2, 40, 0.5])),
    "a word among fractions": (
        pd.Series([0.5, 7.25, np.inf, 2.0**60]),
        pd.Series([0.5, 7.25, np.inf, 2.0**60, "many"]),
    ),
    "a missing fraction": (pd.Series([0.5, 7.25]), pd.Series([0.5, 7.25, None])),
    "a missing text": (pd.Series(["1", "2", "a"]), pd.Series(["1", "2", "a", None])),
    "days": (pd.Series([dt.date(2020, 1, 1)] * 2), pd.Series([dt.date(2020, 1, 1)] * 2 + [None])),
    "a word among decimals": (
        pd.Series([Decimal("2.00"), Decimal("0.50")], dtype=pd.ArrowDtype(pa.decimal128(9, 2))),
        pd.Series([Decimal("2.00"), Decimal("0.50"), "many"]),
    ),
    "read from lines": (
        pd.read_csv(io.StringIO("a\n1\n2\n")).a,
        pd.read_csv(io.StringIO("a\n1\n2\nx\n")).a,
    ),
}


def answers(column):
    """Return what every kind of question says about a column, as text."""
    frame = pd.DataFrame({"a": column, "item": "x"})
    source, told = open_source(frame), {}
    labels = ["1", "2", "true", "false", "a", "40", "0.5", "2020-01-01"]

    def counted(unit, **about):
        return prepare_counts(source, unit, kind="items", **about).run().values.tolist()

    questions = {
        "label": lambda: counted(ROW, item="a", domain=labels),
        "place": lambda: counted(ROW, item="a", domain=Domain.range(0, 50)),
        "unit": lambda: counted(PrivacyUnit("a"), item="item", domain=["x"]),
        "number": lambda: (
            prepare_numbers(source, ROW, column="a", grid=GRID).run()[0].counts.tolist()[1:]
        ),
        "total": lambda: tuple(
            prepare_numbers(source, ROW, column="a", grid=GRID).totals(
                [StepRange(low=-99, high=99, step=Fraction(1))]
            )[0]
        ),
    }
    for name, ask in questions.items():
        try:
            told[name] = ask()
        except sd.SordinoError as error:
            told[name] = f"{type(error).__name__}: {error}"
    return told


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.sample(12)
def test_one_row_more_turns_no_type_into_a_refusal(name):
    few, more = (answers(column) for column in PAIRS[name])
    for question, before in few.items():
        after = more[question]
        assert isinstance(before, str) == isinstance(after, str), question
        if isinstance(before, str):
            continue
        moved = np.abs(np.asarray(after) - np.asarray(before))
        assert moved.max(initial=0) <= 1, question


def test_floats_are_the_labels_and_units_of_whole_numbers(tmp_path):
    values = [
        1.0,
        -0.0,
        0.0,
        2.5,
        float("nan"),
        float("inf"),
        2.0**53,
        2.0**53 + 2,
        -3.0,
        1e300,
        5e-324,
    ]
    wanted = {
        "1": 1,
        "0": 2,
        "2.5": 1,
        str(2**53): 1,
        "9007199254740994.0": 1,
        "-3": 1,
        "1e+300": 1,
        "inf": 1,
        "5e-324": 1,
    }
    table = pl.DataFrame({"a": values})
    table.write_parquet(tmp_path / "t.parquet")
    objects = pd.DataFrame({"a": pd.Series(values, dtype=object)})
    for frame in (
        pd.DataFrame({"a": values}),
        objects,
        table,
        table.lazy(),
        tmp_path / "t.parquet",
    ):
        source = open_source(frame)
        counted = prepare_counts(
            source,
            ROW,
            kind="items",
            item="a",
            domain=[*wanted, "-0", "1.0", "nan", str(2**53 + 2)],
        )
        found = dict(zip(counted.domain.labels, counted.run().values.tolist(), strict=True))
        assert {label: n for label, n in found.items() if n} == wanted
        assert int(prepare_counts(source, PrivacyUnit("a"), kind="units").run().values[0]) == len(
            wanted
        )
        ranged = prepare_counts(
            source, ROW, kind="items", item="a", domain=sd.Domain.range(-5, 2)
        ).run()
        assert dict(zip(ranged.positions.tolist(), ranged.values.tolist(), strict=True)) == {
            2: 1,
            5: 2,
            6: 1,
        }


def test_the_text_of_a_float_is_the_same_for_one_value_and_for_a_column():
    rng = np.random.default_rng(5)
    values = np.concatenate(
        [
            rng.integers(0, 2**64, 3000, dtype=np.uint64).view(np.float64),
            rng.normal(0, 1e6, 2000),
            10.0 ** np.arange(-30, 40),
        ]
    )
    texts = [text for text in map(float_text, values.tolist()) if text is not None]
    source = open_source(pd.DataFrame({"a": values}))
    assumed = prepare_counts(
        source, ROW, kind="items", item="a", domain=sd.Domain.assume_public()
    ).run()
    assert sorted(assumed.labels) == sorted(set(texts))


def test_texts_that_are_no_utf8_are_missing():
    """Arrow does not look at the bytes of a text, and one of them ended a release."""
    spoiled = pa.array([b"ok", b"\xff\xfe", None, b"ok", b"\xc3("], type=pa.binary()).view(
        pa.string()
    )
    repeated = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 0, 1]), spoiled[:3])
    for column in (
        spoiled,
        repeated,
        spoiled.cast(pa.large_binary()).view(pa.large_string()),
        pa.chunked_array([spoiled[:2], spoiled[2:]]),
    ):
        source = open_source(pa.table({"a": column, "b": pa.array(["1", "2", "3", "4", "x"])}))
        assert int(prepare_counts(source, PrivacyUnit("a"), kind="units").run().values[0]) == 1
        assumed = prepare_counts(
            source, ROW, kind="items", item="a", domain=sd.Domain.assume_public()
        ).run()
        assert dict(zip(assumed.labels, assumed.values.tolist(), strict=True)) == {"ok": 2}
        assert (
            int(
                prepare_counts(source, ROW, kind="rows", where="a LIKE 'o%' OR b = '2'")
                .run()
                .values[0]
            )
            == 3
        )


def test_lazy_frames_that_find_types_out_from_rows_are_refused(tmp_path):
    csv, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    csv.write_text("a,b\n1,2\n", encoding="utf-8")
    pl.DataFrame({"a": [1], "b": [2]}).write_parquet(parquet)
    (tmp_path / "t.ndjson").write_text('{"a": 1}\n', encoding="utf-8")
    for lazy in (
        pl.scan_csv(csv),
        pl.scan_csv(csv).filter(pl.col("a") > 0).select("b"),
        pl.scan_parquet(parquet).join(pl.scan_csv(csv), on="a"),
        pl.concat([pl.scan_csv(csv), pl.scan_csv(csv)]),
        pl.scan_ndjson(tmp_path / "t.ndjson"),
    ):
        with pytest.raises(
            UnsupportedBackend, match="must read files that declare the types of their columns"
        ):
            open_source(lazy)
    frames = (
        pl.scan_parquet(parquet),
        pl.scan_parquet(parquet).with_columns(c=pl.lit(" CSV SCAN [x] ")),
        pl.DataFrame({"a": [1]}).lazy(),
    )
    assert [
        int(prepare_counts(open_source(frame), ROW, kind="rows").run().values[0])
        for frame in frames
    ] == [1, 1, 1]


def test_relations_over_what_has_no_declared_types_are_refused(tmp_path):
    """One row more would decide whether a question is refused, for free."""
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    con = duckdb.connect()
    con.sql("SELECT 1 AS a").write_parquet(str(tmp_path / "t.parquet"))
    con.execute(f"CREATE VIEW seen AS SELECT * FROM '{tmp_path / 't.csv'}'")
    con.execute("CREATE MACRO listed(path) AS TABLE SELECT * FROM read_csv(path)")
    con.execute("CREATE TABLE stored AS SELECT 1 AS a, 'READ_CSV' AS b")
    con.register("lent", pd.DataFrame({"a": [1]}))
    for guessed in (
        con.read_csv(str(tmp_path / "t.csv")),
        con.read_json(str(tmp_path / "t.jsonl")),
        con.sql(f"SELECT * FROM '{tmp_path / 't.jsonl'}'"),
        con.sql(f"SELECT a + 1 AS c FROM '{tmp_path / 't.csv'}' WHERE a > 0"),
        con.sql(
            f"SELECT s.a FROM stored AS s JOIN read_csv('{tmp_path / 't.csv'}') AS t ON s.a = t.a"
        ),
        con.table("seen"),
        con.sql(f"FROM listed('{tmp_path / 't.csv'}')"),
        con.from_df(pd.DataFrame({"a": [1]})),
        con.table("lent").filter("a > 0"),
    ):
        with pytest.raises(UnsupportedBackend, match="declare the types of their columns"):
            open_source(guessed)
    declared = pa.table({"a": [1]})
    for taken in (
        con.table("stored"),
        con.sql("""SELECT a, '"name": "READ_CSV' AS b, b AS "READ_CSV" FROM stored"""),
        con.read_parquet(str(tmp_path / "t.parquet")),
        con.from_arrow(declared),
    ):
        assert "INT" in open_source(taken).columns["a"]


def test_records_of_a_frame_may_be_texts_and_truth_values():
    unit = PrivacyUnit.row(adjacency="replace-one")
    for column, wanted in (
        ([1, 2, "x"], [1, 2, np.nan]),
        ([True, None, False], [1, np.nan, 0]),
        ([True, False], [1, 0]),
    ):
        found = np.concatenate(
            list(prepare_records(open_source(pd.DataFrame({"a": column})), unit, column="a").run())
        )
        np.testing.assert_array_equal(found, wanted)


def test_which_rows_of_a_unit_count_does_not_depend_on_what_became_of_the_type():
    """A missing number of one unit makes floats of the numbers of all others."""
    rows = [(usr, x) for usr in range(300) for x in (1, 14, 70)]
    few, more = (
        pd.DataFrame(rows, columns=["usr", "x"]),
        pd.DataFrame([*rows, (300, None)], columns=["usr", "x"]),
    )
    assert [str(frame.dtypes["x"]) for frame in (few, more)] == ["int64", "float64"]
    unit, salt = PrivacyUnit("usr", max_rows=1), bytes(range(16))
    before, after = (
        prepare_numbers(open_source(frame), unit, column="x", grid=GRID, salt=salt).run()[0].counts
        for frame in (few, more)
    )
    assert (after - before).tolist() == [0] * (GRID.size + 1)


# ---- names and sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["*", "^.*$", "^visit$", "^v", "a.b", "(visit)"])
@pytest.mark.parametrize("made", ["eager", "lazy", "arrow", "pandas"])
@pytest.mark.sample(4)
def test_a_column_whose_name_is_a_pattern_is_itself(made, name):
    """Polars takes such names for patterns: one unit more would have moved the number of units by a thousand."""
    convert = {
        "eager": lambda f: f,
        "lazy": pl.DataFrame.lazy,
        "arrow": pl.DataFrame.to_arrow,
        "pandas": pl.DataFrame.to_pandas,
    }[made]
    for users in (["anna"] * 10, ["anna"] * 10 + ["bob"] * 1000):
        frame = pl.DataFrame(
            {"visit": [str(i) for i in range(len(users))], name: users, "z": [1] * len(users)}
        )
        found = prepare_counts(open_source(convert(frame)), PrivacyUnit(name), kind="units").run()
        assert found.values.tolist() == [len(set(users))]


@pytest.mark.parametrize("texts", [pa.string(), pa.large_string(), pa.string_view()])
def test_texts_of_a_dictionary_have_room(texts):
    """Decoded texts may be longer together than 32 bits can say, however short the dictionary is."""
    column = pa.array(["a", None, "b", "a"], type=texts).dictionary_encode()
    for array in (
        column,
        pa.chunked_array([column, column[1:]]),
        pa.chunked_array([], type=column.type),
    ):
        sent = _convert_for_engine(array, pa)
        assert sent.type == pa.large_binary()
        assert [
            None if one is None else one.decode() for one in sent.to_pylist()
        ] == array.to_pylist()
    numbers = pa.array([3, None, 3]).dictionary_encode()
    assert _convert_for_engine(numbers, pa).to_pylist() == [3, None, 3]


def large(path, rows, width):
    """Write a file with so many texts, each another one."""
    with duckdb.connect() as con:
        con.execute(
            f"COPY (SELECT repeat(chr(97 + (i % 26)::INT), {width}) || i AS g FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"
        )
    return path


@pytest.mark.slow
def test_a_block_of_rows_may_hold_more_than_two_gigabytes(tmp_path):
    path = large(tmp_path / "t.parquet", 140_000, 17_000)
    with duckdb.connect() as con:
        relation = con.sql(
            f"SELECT CASE WHEN length(g) > 0 THEN g END AS g FROM read_parquet('{path}')"
        )
        for source in (path, relation):
            assert prepare_counts(
                open_source(source), ROW, kind="rows", where="g LIKE 'b%'"
            ).run().values.tolist() == [5385]


def test_engines_hand_on_large_blocks():
    with engine() as opened:
        assert opened.connection.execute(
            "SELECT current_setting('arrow_large_buffer_size')"
        ).fetchall() == [(True,)]
