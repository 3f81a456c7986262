"""Names and types of columns that no question can use: each is said in a sentence, and blocks nothing else."""

from __future__ import annotations

import datetime as dt

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.columns import BucketGrid
from sordino.errors import InvalidParameter
from sordino.questions import PrivacyUnit, prepare_counts, prepare_numbers
from sordino.sources import open_source
from sordino.sources.engine import quoted

ROW = PrivacyUnit.row()


def count(source, item="g", labels=("a",)):
    return (
        prepare_counts(open_source(source), ROW, kind="items", item=item, domain=list(labels))
        .run()
        .values.tolist()
    )


def make(made, names, columns, folder):
    """Return a source of one kind with these columns, of which some may have the same name."""
    if made == "pandas":
        series = [pd.Series(column, name=name) for name, column in zip(names, columns, strict=True)]
        return pd.concat(series, axis=1)
    if made in {"relation", "DuckDB file"}:
        rows = ", ".join(repr(row) for row in zip(*columns, strict=True))
        select = ", ".join(f"c{place} AS {quoted(name)}" for place, name in enumerate(names))
        places = ", ".join(f"c{place}" for place in range(len(names)))
        made_of = f"SELECT {select} FROM (VALUES {rows}) AS t({places})"
        if made == "relation":
            return duckdb.connect().sql(made_of)
        with duckdb.connect(folder / "t.duckdb") as stored:
            stored.execute(f"CREATE TABLE t AS {made_of}")
        return f"duckdb:{folder / 't.duckdb'}#t"
    table = pa.table([pa.array(column) for column in columns], names=list(names))
    if made == "Polars":
        return pl.DataFrame(dict(zip(names, columns, strict=True)))
    if made == "Parquet":
        pq.write_table(table, folder / "t.parquet")
        return str(folder / "t.parquet")
    return table


@pytest.mark.parametrize("made", ["pandas", "Arrow", "Parquet", "relation"])
@pytest.mark.sample(2)
def test_a_name_that_occurs_twice_blocks_nothing_else(made, tmp_path):
    source = make(made, ["v", "g", "v", "z"], [[1, 2], ["a", "b"], [3, 4], [5, 6]], tmp_path)
    assert count(source) == [1]
    assert count(source, "z", ["6"]) == [1]
    where = prepare_counts(open_source(source), ROW, kind="rows", where="z = 6 AND g = 'b'")
    assert where.run().values.tolist() == [1]
    for ask in (
        lambda: count(source, "v"),
        lambda: prepare_counts(open_source(source), ROW, kind="rows", where="v > 1"),
    ):
        with pytest.raises(
            InvalidParameter, match="'v' is the name of several columns. Rename them"
        ):
            ask()


def test_columns_behind_a_name_that_occurs_twice_are_their_own():
    frame = pa.table(
        [pa.array([1]), pa.array([2]), pa.array(["a"]), pa.array([7])], names=["v", "v", "g", "x"]
    )
    for source in (frame, frame.to_pandas()):
        assert count(source) == [1]
        assert prepare_counts(
            open_source(source), ROW, kind="rows", where="x = 7 AND g = 'a'"
        ).run().values.tolist() == [1]


@pytest.mark.parametrize("name", ["", "amount\n(EUR)", "a\tb", "a\u200bb", "x\x1b[31m", "x\u2028y"])
@pytest.mark.parametrize(
    "made", ["pandas", "Polars", "Arrow", "Parquet", "relation", "DuckDB file"]
)
@pytest.mark.each_value
def test_a_name_that_cannot_be_printed_blocks_nothing_else(made, name, tmp_path):
    if not name and made in {"relation", "DuckDB file"}:
        name = "\x7f"  # the engine has no empty name
    source = make(made, ["g", name, "z"], [["a", "b"], [1, 2], [5, 6]], tmp_path)
    assert count(source) == [1]
    assert count(source, "z", ["6"]) == [1]
    with pytest.raises(
        InvalidParameter, match="has a name that is empty or cannot be printed. Rename the column"
    ):
        count(source, name)


def test_names_that_are_no_texts_are_their_texts():
    frame = pd.DataFrame([["a", 1], ["b", 2]])
    assert count(frame, "0") == [1]
    with pytest.raises(
        InvalidParameter, match="item must be the name of a column as a text; got 0. Write '0'"
    ):
        count(frame, 0)
    deep = pd.DataFrame([["a", 1]], columns=pd.MultiIndex.from_tuples([("x", "g"), ("x", "v")]))
    assert count(deep, "('x', 'g')") == [1]


def test_a_column_that_became_the_index_is_found():
    frame = pd.DataFrame({"g": ["a"], "v": [1]}).set_index("g")
    with pytest.raises(
        InvalidParameter, match=r"'g' stands in the index of the frame.*reset_index\(\)"
    ):
        count(frame)


FRAMES = {
    "list<item: int64>": pa.table({"x": [[1]]}),
    "decimal256(50, 2)": pa.table({"x": pa.array([None], pa.decimal256(50, 2))}),
    "decimal128(5, -2)": pa.table({"x": pa.array([None], pa.decimal128(5, -2))}),
    "List(Int64)": pl.DataFrame({"x": [[1]]}),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_type_that_no_question_can_use_has_its_name_and_a_cast(kind):
    source = open_source(FRAMES[kind])
    for ask in (
        lambda: prepare_counts(source, ROW, kind="items", item="x", domain=["a"]),
        lambda: prepare_counts(source, PrivacyUnit("x"), kind="units"),
        lambda: prepare_counts(source, ROW, kind="rows", where="x IS NULL"),
    ):
        with pytest.raises(InvalidParameter) as caught:
            ask()
        said = str(caught.value)
        assert f"of type {kind}. Convert the column in " in said
        assert "UNUSABLE" not in said
    # It blocks no other column.
    assert prepare_counts(source, ROW, kind="rows").run().values.tolist() == [1]


STRANGE = {
    "span": pd.Series([dt.timedelta(1)] * 2),
    "period": pd.Series(pd.period_range("2024-01", periods=2, freq="M")),
    "interval": pd.Series(pd.IntervalIndex.from_breaks(range(3))),
    "complex": pd.Series([1j, 2j]),
    "list": pd.Series([[1], [2]], dtype=pd.ArrowDtype(pa.list_(pa.int64()))),
}


@pytest.mark.parametrize("kind", STRANGE)
@pytest.mark.parametrize("beside", [[], ["a"]], ids=["alone", "beside a text"])
@pytest.mark.sample(5)
def test_values_of_pandas_that_have_no_text_are_missing_alone_as_among_others(kind, beside):
    """Twin: a column of these alone was refused, and one row more decided it, for nothing."""
    column = STRANGE[kind]
    if beside:
        column = pd.concat([column.astype(object), pd.Series(beside)], ignore_index=True)
    source = open_source(pd.DataFrame({"x": column}))
    counted = prepare_counts(source, ROW, kind="items", item="x", domain=["a", "b"])
    assert counted.run().values.tolist() == [len(beside), 0]
    units = prepare_counts(source, PrivacyUnit("x"), kind="units")
    assert units.run().values.tolist() == [len(beside)]
    missing = prepare_counts(source, ROW, kind="rows", where="x IS NULL")
    assert missing.run().values.tolist() == [2]
    numbers = prepare_numbers(source, ROW, column="x", grid=BucketGrid(edges=[0.0]))
    assert numbers.count().known == 0


def test_one_complex_number_of_somebody_else_changes_no_other_number():
    """Twin: it makes complex numbers of the whole column, and all of them were missing."""
    for rows, known in (([7.0, 2.5], 2), ([7.0, 2.5, 1 + 2j], 2), ([7.0, 2.5, 3 + 0j], 3)):
        source = open_source(pd.DataFrame({"x": rows}))
        asked = prepare_numbers(source, ROW, column="x", grid=BucketGrid(edges=[0.0, 5.0]))
        assert asked.count().known == known
        counted = prepare_counts(source, ROW, kind="items", item="x", domain=["7", "2.5"])
        assert counted.run().values.tolist() == [1, 1]


@pytest.mark.parametrize("scheme", ["postgres", "POSTGRES", "PostgreSQL"])
def test_the_other_scheme_of_postgresql_is_named(scheme):
    with pytest.raises(InvalidParameter, match="Write postgresql:// in its place") as caught:
        open_source(f"{scheme}://me:secret@host/db#t")
    assert "secret" not in str(caught.value)
