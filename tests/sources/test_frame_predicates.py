"""What a predicate means in a frame follows from its words and from the values of a row, never from the type of a column.

Each pair is a frame, and the same frame with one row more, for which pandas, Polars or Arrow gives a column another type. The rows
that both have must have the same fate, and a predicate must be refused for both or for neither.
"""

from __future__ import annotations

import datetime as dt
import io
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from sordino.errors import InvalidParameter, SordinoError
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.frames import as_text
from sordino.sources.predicates import frame_condition

ROW = PrivacyUnit.row()
ZONED = dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=-5)))
DAY, NOON = dt.date(2024, 1, 1), dt.datetime.fromisoformat("2024-01-01T12:00:00.500")


def lines(*values):
    """Return a frame as pandas reads it from lines, and finds its types out."""
    return pd.read_csv(io.StringIO("x\n" + "\n".join(values) + "\n"))


def polars_lines(*values):
    return pl.read_csv(io.StringIO("x\n" + "\n".join(values) + "\n"), infer_schema_length=None)


def joined(*parts):
    """Return a frame of pandas of which each part had a type of its own."""
    return pd.concat([pd.DataFrame({"x": part}) for part in parts], ignore_index=True)


def arrow(values):
    return pa.table({"x": pa.array(values)})


# The issue's own example comes first.
PAIRS = {
    "fractions and a word": (lines(*["18.5"] * 200), lines(*["18.5"] * 200, "abc")),
    "halves, among objects": (joined([18.5, 2.5, -0.5]), joined([18.5, 2.5, -0.5], ["abc"])),
    "whole numbers and a word": (lines("1", "20", "3"), lines("1", "20", "3", "abc")),
    "whole numbers and a missing one": (joined([1, 20, 3]), joined([1, 20, 3], [None])),
    "whole numbers and a fraction": (joined([1, 20, 3]), joined([1, 20, 3], [0.5])),
    "large whole numbers and a missing one": (
        joined([2**53 + 1, 2**62 + 1]),
        pd.DataFrame({"x": [2**53 + 1, 2**62 + 1, None]}),
    ),
    "large whole numbers and a word": (lines(str(2**53 + 1), str(2**62 + 1)), lines(str(2**53 + 1), str(2**62 + 1), "a")),
    "larger than 64 bits": (joined([2**63 - 1, 5]), joined([2**63 - 1, 5], [2**70])),
    "truth values and a missing one": (lines("True", "False"), lines("True", "False", "NA")),
    "truth values and a word": (lines("True", "False"), lines("True", "False", "maybe")),
    "truth values and a fraction": (joined([True, False]), joined([True, False], [0.5])),
    "nullable": (
        pd.DataFrame({"x": pd.array([1, None], dtype="Int64")}),
        joined(pd.array([1, None], dtype="Int64"), ["a"]),
    ),
    "days": (pd.DataFrame({"x": pd.array([DAY], dtype=pd.ArrowDtype(pa.date32()))}), joined(pd.array([DAY], dtype=pd.ArrowDtype(pa.date32())), ["a"])),
    "moments and a word": (joined([NOON]), joined([NOON], ["never"])),
    "moments and a missing one": (joined([NOON]), joined([NOON], [None])),
    "moments with a zone": (joined([ZONED]), joined([ZONED], ["never"])),
    "moments of two zones": (joined([ZONED]), joined([ZONED], [ZONED.astimezone(dt.UTC)])),
    "moments of NumPy": (
        pd.DataFrame({"x": np.array(["2024-01-01T12:00:00.5"], dtype="datetime64[ns]")}),
        pd.DataFrame({"x": [np.datetime64("2024-01-01T12:00:00.500000000"), "never"]}),
    ),
    "times of day": (
        pd.DataFrame({"x": pd.array([dt.time(9, 30)], dtype=pd.ArrowDtype(pa.time64("us")))}),
        pd.DataFrame({"x": [dt.time(9, 30), "never"]}),
    ),
    "decimals": (
        pd.DataFrame({"x": pd.array([Decimal("1.50")], dtype=pd.ArrowDtype(pa.decimal128(9, 2)))}),
        pd.DataFrame({"x": [Decimal("1.50"), "a"]}),
    ),
    "categories": (
        pd.DataFrame({"x": pd.Categorical([7, 1.5])}),
        pd.DataFrame({"x": pd.Categorical([7, 1.5, "a"])}),
    ),
    "bytes": (arrow(["18.5", "abc"]), arrow(["18.5", "abc", b"z"])),
    "Arrow, decimals with more digits": (arrow([Decimal("1.50")]), arrow([Decimal("1.50"), Decimal("1.234")])),
    "Arrow, a dictionary": (
        pa.table({"x": pa.array([7, 20]).dictionary_encode()}),
        pa.table({"x": pa.array(["7", "20", "a"]).dictionary_encode()}),
    ),
    "Arrow, nothing": (pa.table({"x": pa.nulls(2)}), arrow([None, None, "a"])),
    "Polars, a word": (polars_lines("1", "20", "3"), polars_lines("1", "20", "3", "abc")),
    "Polars, a fraction": (polars_lines("1", "20", "3"), polars_lines("1", "20", "3", "0.5")),
    "Polars, beyond 64 bits": (polars_lines(str(2**62 + 1)), polars_lines(str(2**62 + 1), str(2**70))),
    "Polars, lazy": (pl.LazyFrame({"x": [1, 20]}), pl.LazyFrame({"x": ["1", "20", "abc"]})),
    "Polars, an Enum": (
        pl.DataFrame({"x": pl.Series(["7", "abc"], dtype=pl.Enum(["7", "abc"]))}),
        pl.DataFrame({"x": ["7", "abc", "new"]}),
    ),
}  # fmt: skip
PREDICATES = [
    "TRY_CAST(x AS INTEGER) >= 19",
    "TRY_CAST(x AS INTEGER) IN (18, 2, 0)",
    *(f"TRY_CAST(x AS {kind}) IS NULL" for kind in (*frame_condition._CAST_TO_MOMENT, "TINYINT", "HUGEINT", "DOUBLE", "BOOLEAN", "VARCHAR", "DECIMAL(4, 1)", "DECIMAL(38, 10)")),
    "TRY_CAST(x AS VARCHAR) < '2'",
    "TRY_CAST(x AS DATE) = '2024-01-01'",
    "x > 2", "x <> 7", "x = 18.5", "x IN (1, 20)", "x BETWEEN 0 AND 5", "NOT x > 2", "- x < 0", "x * 2 + 1 > 5", "x + x = 2", "x * x IS NULL",
    "x = 9007199254740993", "x = 4611686018427387905",
    "x = '7'", "x = '18.5'", "x IN ('1', '20', 'abc')", "x <> 'abc'", "x < 'm'", "x = '9007199254740993'", "x = 'true'", "x = 'True'", "x = '1.5'",
    "x LIKE '1%'", "x LIKE '%.5'", "x LIKE '2024%'", "x LIKE '%e%'", "x LIKE '%0'", "NOT x LIKE '_'",
    "x IN (1, '18.5', 'abc', NULL, '2024-01-01', TRUE) OR x = 20", "x NOT IN (1, 18.5, 9007199254740993)", "x NOT IN ('a', NULL)", "x IN ('2024-01-01', '2024-13-01')",
    "x = TRUE", "x", "NOT x", "x OR x = 1", "x AND TRUE", "(x = 1) = x",
    "x >= '2024-01-01'", "x = '2024-01-01 12:00:00.5'", "x < '2024-01-01 12:00:00-05'", "x = '2024-01-01 17:00'", "x > '09:00'", "x <> '2024-01-01'",
    "x IS NULL", "x IS NOT NULL", "x = x", "x <> x", "x = NULL", "x = TRY_CAST(x AS VARCHAR)", "x = TRY_CAST(x AS DOUBLE)", "x <= TRY_CAST(x AS TIMESTAMP)",
    # What is refused is refused by the words alone.
    "x < x", "x > '5'", "x BETWEEN '1' AND '20'", "x > '2024-02-30'", "x = '25:00'", "x + 1", "x + 1 = 'abc'", "TRY_CAST(x AS INTEGER) LIKE '1%'", "TRY_CAST(x AS DATE) + 1 > 3",
]  # fmt: skip


def fates(frame, predicates=PREDICATES):
    """Return for each predicate whether each row is kept, or the refusal."""
    source, found, asked = open_source(frame), {}, {}
    for where in predicates:
        try:
            asked[where] = source.predicate(where).total
        except SordinoError as error:
            found[where] = str(error)
    columns = ", ".join(f"{total} AS p{place}" for place, total in enumerate(asked.values())) or "1"
    with source.backend.scan([0]) as scan:
        answer = scan.ask(f"SELECT {columns} FROM rows")
    return found | {where: answer[f"p{place}"].tolist() for place, where in enumerate(asked)}


def moved(pair, predicates=PREDICATES):
    """Return the predicates by which one row more changes the fate of another one, or a refusal."""
    few, more = (fates(frame, predicates) for frame in pair)
    cut = {where: kept if isinstance(kept, str) else kept[:-1] for where, kept in more.items()}
    return [where for where in predicates if few[where] != cut[where]]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.sample(16)
def test_one_row_more_changes_no_fate_and_no_refusal(name):
    assert moved(PAIRS[name]) == []


def test_to_take_a_column_by_its_type_is_convicted(monkeypatch):
    """As it was: what a predicate means, and whether it is refused, followed from the types."""
    where = "TRY_CAST(x AS INTEGER) >= 19"
    pair = PAIRS["fractions and a word"]
    assert [sum(fates(frame, [where])[where]) for frame in pair] == [0, 0]
    monkeypatch.setattr(frame_condition, "read_frame_columns", None)
    assert [sum(fates(frame, [where])[where]) for frame in pair] == [0, 200]
    for name in ("truth values and a word", "Polars, a word", "whole numbers and a word"):
        # Half of all predicates are, these two by each pair.
        assert moved(PAIRS[name], PREDICATES[18:20])


def test_truth_values_that_pandas_made_numbers_of_are_still_truth_values():
    """Their text is another one, which docs/known-limits.md says."""
    pair = joined([True, False]), joined([True, False], [7])
    assert str(pair[1].dtypes["x"]) == "int64"
    assert (
        moved(
            pair,
            [
                "x",
                "NOT x",
                "x = TRUE",
                "x <> FALSE",
                "x = 1",
                "x + 1 > 1",
                "TRY_CAST(x AS INTEGER) = 0",
                "x IS NULL",
            ],
        )
        == []
    )


def test_types_do_differ_in_these_pairs():
    """Otherwise they would say nothing."""
    same = [name for name, (few, more) in PAIRS.items() if str(kind_of(few)) == str(kind_of(more))]
    assert same == []


def kind_of(frame):
    if isinstance(frame, pd.DataFrame):
        kind = frame.dtypes["x"]
        return kind.categories.dtype if hasattr(kind, "categories") else kind
    return (
        frame.schema.field("x").type if isinstance(frame, pa.Table) else frame.collect_schema()["x"]
    )


VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-50, 50),
    st.floats(),
    st.floats(width=32),
    st.booleans(),
    st.sampled_from(
        [
            "",
            "a",
            "7",
            "true",
            "1e400",
            "nan",
            "inf",
            "2024-01-01",
            "12:30",
            " 7 ",
            "1_0",
            str(2**53 + 1),
            "-1e20",
        ]
    ),
    st.dates(),
    st.datetimes(
        min_value=dt.datetime.fromisoformat("1700-01-01"),
        max_value=dt.datetime.fromisoformat("2250-01-01"),
    ),
    st.times(),
)


@pytest.mark.slow
@given(value=VALUES)
@settings(max_examples=20)
def test_a_value_has_one_fate_in_whatever_type_it_comes(value):
    """Alone a value has the type that is found out for it; beside others it is an object of Python."""
    frames = [
        pd.DataFrame({"x": [value]}),
        pd.DataFrame({"x": pd.Series([value, "w", None, 0.5, True], dtype=object)}),
    ]
    if (
        type(value) is not float
    ):  # NaN of Polars and Arrow is read as missing, too, but None is another value for `pl.Object`
        frames += [pl.DataFrame({"x": [value]}), pa.table({"x": [value]})]
    alone, *found = map(fates, frames)
    for other in found:
        assert [
            where for where in PREDICATES if other[where][: len(alone[where])] != alone[where]
        ] == []


@given(
    value=st.datetimes(
        min_value=dt.datetime.fromisoformat("1678-01-01"),
        max_value=dt.datetime.fromisoformat("2262-01-01"),
    ),
    nanoseconds=st.integers(0, 999),
    zone=st.sampled_from([None, "UTC", "America/New_York", "Asia/Kolkata"]),
)
@settings(max_examples=60)
@pytest.mark.slow
def test_a_moment_has_one_text(value, nanoseconds, zone):
    moment = pd.Timestamp(value) + pd.Timedelta(nanoseconds, "ns")
    column = pd.Series([moment]).dt.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
    source = open_source(pd.DataFrame({"x": column}))
    assumed = prepare_counts(
        source, ROW, kind="items", item="x", domain=[as_text(column.iloc[0])]
    ).run()
    assert assumed.values.tolist() == [1]


# ---- meaning -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("price > 10", 1), ("price = 2.5", 1), ("price + 1 = 3.5", 1), ("price = '2.5'", 1), ("price LIKE '1%'", 1), ("price IS NULL", 1),
        ("item = 'tea'", 2), ("item < 'm'", 1), ("item > 10", 0), ("on", 2), ("NOT on", 1), ("on = TRUE AND price > 1", 2), ("on = 1", 2),
        ("day >= '2024-01-02'", 2), ("day = '2024-01-02 00:00'", 1), ("day LIKE '2024-01%'", 2), ("TRY_CAST(day AS DATE) < '2024-01-03'", 2),
        ("TRY_CAST(price AS INTEGER) = 2", 1), ("price", 0), ("item = day", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("made", ["pandas", "polars", "arrow"])
@pytest.mark.each_value
def test_meaning(made, where, wanted):
    columns = {
        "price": [2.5, 12.0, None],
        "item": ["tea", "tea", "coffee"],
        "on": [True, True, False],
        "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 2), dt.date(2025, 1, 1)],
    }
    frame = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[made](columns)
    assert prepare_counts(
        open_source(frame), ROW, kind="rows", where=where
    ).run().values.tolist() == [wanted]


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (
            "x < y",
            r"must say how two columns of a frame are compared by <.*TRY_CAST\(x AS DOUBLE\)",
        ),
        ("x > '5'", "with a number in quotes; got '5'. Write the number without quotes"),
        ("x >= '2024-02-30'", "use dates and numbers that exist"),
        ("x + 1", "must compare columns with values"),
    ],
)
def test_what_is_refused_names_no_type(where, message):
    said = set()
    for values in ([1, 2], [0.5, None], ["a", "b"], [True, False], [NOON, NOON]):
        with pytest.raises(InvalidParameter, match=message) as caught:
            prepare_counts(
                open_source(pd.DataFrame({"x": values, "y": values})), ROW, kind="rows", where=where
            )
        said.add(str(caught.value))
    assert len(said) == 1
