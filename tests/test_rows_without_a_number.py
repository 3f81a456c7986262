"""Rows without a number do not count: one table gives one figure, whatever source it comes from and whatever neighbors are.

Half of what these tests know is the twin: what quantiles, means and variances said when such rows were the lowest, or 0.
"""

from __future__ import annotations

import json

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pytest

import sordino as sd
from sordino import CsvFormat, PrivacyUnit, Seeded, Session
from sordino.errors import InvalidParameter
from sordino.sources.sql.bucket_query import BucketQuery, CountedRows
from support.postgres import database
from support.tables import made
from support.workbooks import write_table

KNOWN, UNKNOWN = 500, 5000
NUMBERS = [7.0] * KNOWN + [None] * UNKNOWN
NAN = float("nan")
EXACTLY = {"epsilon": 400, "lower": 0, "cap": 1000}
TABLE = pa.table(
    {
        "user": pa.array(range(len(NUMBERS)), pa.int64()),
        "half": pa.array(["ab"[place % 2] for place in range(len(NUMBERS))]),
        "v": pa.array(NUMBERS, pa.float64()),
    }
)


def with_nan(table=TABLE):
    """The same table, where every second missing number is NaN."""
    numbers = [
        NAN if value is None and place % 2 else value
        for place, value in enumerate(table["v"].to_pylist())
    ]
    return table.set_column(2, "v", pa.array(numbers, pa.float64()))


def of_excel(folder, table):
    write_table(
        folder / "t.xlsx", [table.column_names, *(row.values() for row in table.to_pylist())]
    )
    return f"excel:{folder / 't.xlsx'}#S", None


def of_json_lines(folder, table):
    path = folder / "t.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()), encoding="utf-8")
    return path, CsvFormat(types={"user": "integer", "half": "text", "v": "double"})


def of_server(_folder, table):
    with psycopg.connect(database(), autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS public.without_number")
        server.execute(
            "CREATE TABLE public.without_number (who bigint, half text, v double precision)".replace(
                "who", '"user"'
            )
        )
        with (
            server.cursor() as cursor,
            cursor.copy("COPY public.without_number FROM STDIN") as copy,
        ):
            for row in table.to_pylist():
                copy.write_row(tuple(row.values()))
    return f"{database()}#without_number", None


MADE = {
    "excel": of_excel,
    "jsonl": of_json_lines,
    "postgres": of_server,
    "postgres, NaN": lambda folder, table: of_server(folder, with_nan(table)),
    "numpy": lambda _, table: (table.to_pandas(), None),
    "objects": lambda _, table: (
        table.to_pandas().astype({"v": object}).where(lambda one: one.notna(), None),
        None,
    ),
    "pandas, NA": lambda _, table: (table.to_pandas().astype({"v": "Float64"}), None),
    "pandas, whole": lambda _, table: (table.to_pandas().astype({"v": "Int64"}), None),
    "arrow, NaN": lambda _, table: (with_nan(table), None),
    "polars, NaN": lambda _, table: (pl.from_arrow(with_nan(table)), None),
    "parquet, NaN": lambda folder, table: (made(folder, "parquet", with_nan(table)), None),
    **{
        kind: lambda folder, table, kind=kind: (made(folder, kind, table), None)
        for kind in ("csv", "parquet", "duckdb", "relation", "polars", "lazy", "pandas", "arrow")
    },
}


def figures(session, **more):
    """Return mean, sum, deviation, median and two quantiles of a column, as nearly as noise allows."""
    asked = EXACTLY | more
    several = session.quantile("v", q=(0.3, 0.6), **asked)
    return {
        "mean": session.mean("v", **asked).value,
        "sum": session.sum("v", **asked).value,
        "deviation": session.variance("v", **asked).standard_deviation,
        "median": session.quantile("v", q=0.5, **asked).value,
        **{f"quantile {place}": one.value for place, one in enumerate(several)},
    }


def are_those_of_the_numbers(found, known=KNOWN):
    assert found["mean"] == pytest.approx(7, abs=0.05)
    assert found["sum"] == pytest.approx(7 * known, rel=0.01)
    assert found["deviation"] < 0.2
    for name in ("median", "quantile 0", "quantile 1"):
        assert found[name] == pytest.approx(7, abs=0.15), name


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", MADE)
@pytest.mark.sample(14)
def test_the_same_table_has_the_same_figures_from_every_source(tmp_path, kind, adjacency):
    """In the past: a median of 0.01 everywhere, and a mean of 0.636 under replace-one where no text was read."""
    source, form = MADE[kind](tmp_path, TABLE)
    unit = PrivacyUnit.row(adjacency=adjacency)
    are_those_of_the_numbers(figures(Session(source, unit=unit, csv=form, entropy=Seeded(5))))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", ["csv", "parquet", "numpy", "postgres, NaN"])
@pytest.mark.each_value
def test_so_it_is_of_units_in_groups_and_beside_a_predicate(tmp_path, kind, adjacency):
    source, form = MADE[kind](tmp_path, TABLE)
    unit = PrivacyUnit("user", max_rows=1, adjacency=adjacency)
    session = Session(source, unit=unit, csv=form, entropy=Seeded(6))
    more = {"by": "half", "domain": ["a", "b"]}
    for name in ("mean", "sum"):
        for row in getattr(session, name)("v", **EXACTLY, **more):
            assert row.release.value == pytest.approx(
                7 if name == "mean" else 7 * KNOWN / 2, rel=0.05
            )
    for q in (0.5, (0.3, 0.6)):
        for row in session.quantile("v", q=q, **EXACTLY, **more):
            for one in row.release if isinstance(q, tuple) else [row.release]:
                assert one.value == pytest.approx(7, abs=0.15)
    if not kind.startswith("postgres"):
        assert session.mean("v", where="half = 'a'", **EXACTLY).value == pytest.approx(7, abs=0.05)


def test_in_a_batch_and_in_another_look_they_do_not_count_either():
    session = Session(TABLE, unit=PrivacyUnit.row(adjacency="replace-one"), entropy=Seeded(7))
    with session.batch():
        mean, median = session.mean("v", **EXACTLY), session.quantile("v", q=0.5, **EXACTLY)
    assert mean.result.value == pytest.approx(7, abs=0.05)
    assert median.result.value == pytest.approx(7, abs=0.15)
    [again] = session.remeasure(session.mean("v", **EXACTLY), epsilon=400)
    assert again.estimate == pytest.approx(7, abs=0.05)


def test_the_old_rules_are_convicted(monkeypatch):
    """A row without a number in the lowest bucket: the median of before; as a 0 of a public number of rows: the mean of before."""
    unit = PrivacyUnit.row(adjacency="replace-one")
    honest = BucketQuery.counted

    def as_the_lowest(query, answer, grid, groups):
        found = honest(query, answer, grid, groups)
        if found is None:
            return None
        counts = found.counts.copy()
        counts[0, 0] += found.missing
        return CountedRows(counts, found.known, found.missing)

    with monkeypatch.context() as patched:
        patched.setattr(BucketQuery, "counted", as_the_lowest)
        found = figures(Session(TABLE, unit=unit, entropy=Seeded(8)))
    assert found["median"] < 0.1
    with pytest.raises(AssertionError):
        are_those_of_the_numbers(found)
    values = np.array([NAN if value is None else value for value in NUMBERS])
    twin = sd.ClippedMean(
        epsilon=400, adjacency="replace-one", lower=0, cap=1000, size_is_public=True
    )
    assert twin.release(values, entropy=Seeded(9)).value == pytest.approx(0.636, abs=0.01)
    assert sd.ClippedMean(epsilon=400, adjacency="replace-one", lower=0, cap=1000).release(
        values, entropy=Seeded(9)
    ).value == pytest.approx(7, abs=0.05)


ARRAYS = {
    "NaN": np.array([NAN if value is None else value for value in NUMBERS]),
    "float32": np.array([NAN if value is None else value for value in NUMBERS], dtype=np.float32),
    "-NaN": np.copysign(
        np.array([NAN if value is None else value for value in NUMBERS]),
        [1] * KNOWN + [-1] * UNKNOWN,
    ),
    "a list": NUMBERS,
    "a masked array": np.ma.array([7] * len(NUMBERS), mask=[value is None for value in NUMBERS]),
    "pandas": pd.Series(NUMBERS, dtype="Float64"),
    "polars": pl.Series(NUMBERS),
    "arrow": pa.array(NUMBERS, pa.float64()),
    "texts among them": [7.0] * KNOWN + ["n/a", None, NAN, object()] * (UNKNOWN // 4),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.each_value
def test_arrays_are_columns_like_any_other(name, adjacency):
    values, options = ARRAYS[name], {"adjacency": adjacency, **EXACTLY}
    assert sd.BucketCounts.of(values, grid=sd.Quantile(q=0.5, **options).grid).records == KNOWN
    several = sd.Quantiles(q=(0.3, 0.6), **options).release(values, entropy=Seeded(1))
    are_those_of_the_numbers(
        {
            "mean": sd.ClippedMean(**options).release(values, entropy=Seeded(1)).value,
            "sum": sd.ClippedSum(**options).release(values, entropy=Seeded(1)).value,
            "deviation": sd.ClippedVariance(**options)
            .release(values, entropy=Seeded(1))
            .standard_deviation,
            "median": sd.Quantile(q=0.5, **options).release(values, entropy=Seeded(1)).value,
            **{f"quantile {place}": one.value for place, one in enumerate(several)},
        }
    )


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("missing", [None, NAN], ids=["NULL", "NaN"])
@pytest.mark.sample(4)
def test_of_no_number_at_all_nothing_is_said(missing, adjacency):
    """The interval leaves nothing out: it was [0, 0.01], a confident figure about nothing."""
    table = pa.table({"v": pa.array([missing] * 50, pa.float64())})
    asked = {"epsilon": 5, "lower": 0, "cap": 1000}
    for seed in range(5):
        session = Session(table, unit=PrivacyUnit.row(adjacency=adjacency), entropy=Seeded(seed))
        median = session.quantile("v", q=0.5, **asked)
        for one in (median, *session.quantile("v", q=(0.3, 0.6), **asked)):
            # As far as values may go, or beyond.
            assert one.low == 0
            assert one.high >= asked["cap"]
        again = Session(table, unit=PrivacyUnit.row(adjacency=adjacency), entropy=Seeded(seed))
        mean = again.mean("v", **asked)
        assert (mean.low, mean.high) == mean.clip


# --- a public number of rows -------------------------------------------------------------------------------------------------


def stored(folder, kind, declared, rows=400):
    """Return a table of one column that a database declares so."""
    if kind == "duckdb":
        path = folder / "declared.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute(f"CREATE TABLE t (v {declared})")
            connection.execute(f"INSERT INTO t SELECT 7 FROM range({rows})")
        return f"duckdb:{path}#t"
    with psycopg.connect(database(), autocommit=True) as server:
        server.execute("DROP TABLE IF EXISTS public.declared")
        server.execute(f"CREATE TABLE public.declared (v {declared})")
        server.execute(f"INSERT INTO public.declared SELECT 7 FROM generate_series(1, {rows})")
    return f"{database()}#declared"


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
@pytest.mark.parametrize(
    ("declared", "public"),
    [
        ("integer NOT NULL", True),
        ("bigint PRIMARY KEY", True),
        ("integer", False),
        ("double precision NOT NULL", False),  # it has NaN
        ("numeric(10, 2) NOT NULL", False),  # on the server it has NaN
    ],
)
@pytest.mark.each_value
def test_a_number_of_rows_is_public_only_where_none_can_be_without_a_number(
    tmp_path, kind, declared, public
):
    rows = 1 if "KEY" in declared else 400
    source = stored(tmp_path, kind, declared, rows)
    session = Session(source, unit=PrivacyUnit.row(adjacency="replace-one"), entropy=Seeded(3))
    asked = {"epsilon": 50, "lower": 0, "cap": 1000}
    assert session.mean("v", **asked).mechanism.size_is_public == public
    assert session.variance("v", **asked).mechanism.size_is_public == public
    if public:
        assert session.mean("v", bounds=(0, 20), **asked).value == pytest.approx(
            7, abs=20 if rows == 1 else 0.5
        )
        return
    with pytest.raises(
        InvalidParameter,
        match="but a row may be without a number in 'v'. Ask for the sum with bounds",
    ):
        session.mean("v", bounds=(0, 20), **asked)


@pytest.mark.parametrize("kind", [kind for kind in MADE if not kind.startswith("postgres")])
@pytest.mark.parametrize("whole", [False, True], ids=["missing", "none missing"])
@pytest.mark.each_value
def test_what_rows_hold_decides_of_no_file_and_no_frame(tmp_path, kind, whole):
    """Neither that none lacks a number nor the type that follows from it: that would tell, for free, whether one does."""
    table = TABLE.slice(0, 20) if whole else TABLE.slice(KNOWN - 10, 20)
    source, form = MADE[kind](tmp_path, table)
    session = Session(
        source, unit=PrivacyUnit.row(adjacency="replace-one"), csv=form, entropy=Seeded(3)
    )
    assert not session.mean("v", **EXACTLY).mechanism.size_is_public
    with pytest.raises(InvalidParameter, match="public number of rows"):
        session.mean("v", bounds=(0, 20), **EXACTLY)


def test_a_schema_of_arrow_that_denies_missing_values_is_no_rule_of_a_database():
    schema = pa.schema([pa.field("v", pa.int64(), nullable=False)])
    table = pa.table({"v": [7] * 20}, schema=schema)
    session = Session(table, unit=PrivacyUnit.row(adjacency="replace-one"), entropy=Seeded(3))
    assert not session.mean("v", **EXACTLY).mechanism.size_is_public
