"""Names and types of columns that no question can use: each is said in a sentence, and blocks nothing else."""

from __future__ import annotations

import datetime as dt

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from sordino.data import PrivacyUnit, open_source, prepare_counts
from sordino.errors import InvalidParameter

ROW = PrivacyUnit.row()


def count(source, item="g", labels=("a",)):
    return (
        prepare_counts(open_source(source), ROW, kind="items", item=item, domain=list(labels))
        .run()
        .values.tolist()
    )


def twice(made):
    if made == "pandas":
        frame = pd.DataFrame({"g": ["a", "b"], "v": [1, 2]})
        return pd.concat([frame, frame[["v"]]], axis=1)
    return pa.table([pa.array(["a", "b"]), pa.array([1, 2]), pa.array([3, 4])], names=["g", "v", "v"])


@pytest.mark.parametrize("made", ["pandas", "Arrow"])
def test_a_name_that_occurs_twice_blocks_nothing_else(made):
    assert count(twice(made)) == [1]
    for ask in (
        lambda: count(twice(made), "v"),
        lambda: prepare_counts(open_source(twice(made)), ROW, kind="rows", where="v > 1"),
    ):
        with pytest.raises(InvalidParameter, match="'v' is the name of several columns. Rename them"):
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


@pytest.mark.parametrize("name", ["", "amount\n(EUR)", "a\tb", "a\u200bb"])
@pytest.mark.parametrize("made", ["pandas", "Polars", "Arrow"])
def test_a_name_that_cannot_be_printed_blocks_nothing_else(made, name):
    columns = {"g": ["a", "b"], name: [1, 2], "z": [5, 6]}
    frame = {"pandas": pd.DataFrame, "Polars": pl.DataFrame, "Arrow": pa.table}[made](columns)
    assert count(frame) == [1]
    assert count(frame, "z", ["6"]) == [1]
    with pytest.raises(
        InvalidParameter, match="has a name that is empty or cannot be printed. Rename the column"
    ):
        count(frame, name)


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
    with pytest.raises(InvalidParameter, match=r"'g' stands in the index of the frame.*reset_index\(\)"):
        count(frame)


FRAMES = {
    "timedelta64[us]": pd.DataFrame({"x": pd.Series([dt.timedelta(1)]).astype("timedelta64[us]")}),
    "period[M]": pd.DataFrame({"x": pd.period_range("2024-01", periods=1, freq="M")}),
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


def test_the_other_scheme_of_postgresql_is_named():
    with pytest.raises(InvalidParameter, match="Write postgresql:// in its place") as caught:
        open_source("postgres://me:secret@host/db#t")
    assert "secret" not in str(caught.value)
