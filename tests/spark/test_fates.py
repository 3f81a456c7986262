"""Whether Spark keeps a row is a function of that row, and what it keeps is what every other engine keeps."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import PrivacyUnit, prepare_counts
from sordino.sources import open_source
from sordino.sources.predicates import spark_condition
from sordino.sources.predicates.predicate import Predicate
from sordino.sources.spark import sql as spark_sql
from support.company import PAIRS
from support.fates import COLUMN, KINDS, NAN, fates, in_company, kept, mixed, predicates
from support.spark import frame, session

ROW = PrivacyUnit.row()


@pytest.mark.parametrize("name", PAIRS)
def test_one_row_more_changes_the_fate_of_no_other(name):
    together, alone = in_company(lambda rows: open_source(frame(rows)), PAIRS[name])
    assert together == alone


def kept_of_file(path, values, where):
    pq.write_table(pa.table({"x": values}), path)
    return kept(open_source(session().read.parquet(str(path))), where)


def bare(predicate: Predicate, kinds: object) -> str:
    return (
        spark_condition.write_condition(predicate, kinds)
        .removeprefix("coalesce(CASE WHEN spark_partition_id() >= 0 THEN ")
        .removesuffix(" END, FALSE)")
    )


@pytest.mark.parametrize("where", ["x > 6", "NOT (x <= 6)"])
def test_what_a_file_says_of_all_its_rows_decides_nothing(tmp_path, where):
    found = [
        kept_of_file(tmp_path / f"{more}.parquet", [*COLUMN, *[7.0] * more], where)
        for more in (0, 1)
    ]
    assert found == [3000, 3001]


def test_a_predicate_that_is_handed_to_the_reader_of_a_file_is_convicted(tmp_path, monkeypatch):
    twin = replace(spark_sql.SPARK, predicates=bare)
    monkeypatch.setattr("sordino.sources.spark.frames.SparkBackend.dialect", twin)
    found = [
        kept_of_file(tmp_path / f"{more}.parquet", [*COLUMN, *[7.0] * more], "x > 6")
        for more in (0, 1)
    ]
    assert found == [0, 3001]


def test_arithmetic_that_fails_for_one_row_ends_the_question_for_all(monkeypatch):
    """The twin: plain operators, which follow ANSI rules. The question is planned, and fails on a row."""
    table = pa.table({"n": pa.array([1] * 50 + [1 << 62], pa.int64())})
    question = prepare_counts(open_source(frame(table)), ROW, kind="rows", where="n * 4 > 3")
    assert question.run().values.tolist() == [50]
    monkeypatch.setattr(
        spark_condition, "_FUNCTIONS", {"*": "(SELECT 1) * 0 + try_add", "+": "+", "-": "-"}
    )
    monkeypatch.setattr(
        spark_condition._Writer,
        "_compute",
        lambda self, a, op, b: self._typed(f"({a.sql} {op} {b.sql})", "BIGINT"),
    )
    twin = prepare_counts(open_source(frame(table)), ROW, kind="rows", where="n * 4 > 3")
    with pytest.raises(DataSourceError, match="could not finish"):
        twin.run()


# ---- the same predicates on another engine --------------------------------------------------------------------------------


READ_OTHERWISE = ("TRY_CAST(", "1e400")
"""Spark reads texts by rules of its own, and makes infinities and the largest number of some that do not fit."""


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_predicates_keep_the_rows_that_they_keep_elsewhere(seed):
    chance = random.Random(seed)
    arrow = mixed(chance, 60)
    # As a table with types: a frame's columns are read by the words beside them.
    spark, embedded = open_source(frame(arrow)), open_source(duckdb.connect().from_arrow(arrow))
    wheres = predicates(chance, (embedded, spark), 60, otherwise=READ_OTHERWISE)
    found, wanted = [], fates(embedded, wheres)
    for start in range(0, len(wheres), 10):  # a query of sixty of them is compiled for minutes
        found += fates(spark, wheres[start : start + 10])
    wrong = [where for where, one, other in zip(wheres, found, wanted, strict=True) if one != other]
    assert not wrong
    assert sum(any(one) and not all(one) for one in wanted) > 10


CASTS = [
    ("TRY_CAST(x AS INTEGER) = 2", 2.5, True),
    ("TRY_CAST(x AS BIGINT) IS NULL", NAN, True),
    ("TRY_CAST(x AS BIGINT) IS NULL", 1e300, True),
    ("TRY_CAST(x AS TINYINT) = 100", 99.6, True),
    ("TRY_CAST(d AS INTEGER) = 2", 1.5, True),
    ("TRY_CAST(d AS INTEGER) = -1", -1.0, True),
    ("TRY_CAST(s AS INTEGER) = 7", "7", True),
    ("TRY_CAST(s AS INTEGER) IS NULL", "seven", True),
    ("TRY_CAST(s AS DATE) > '2023-12-31'", "2024-01-01", True),
    ("TRY_CAST(s AS DATE) IS NULL", "2024-02-30", True),
    ("s LIKE '_'", "\U0001f600", True),
    ("s LIKE 'a\\%'", "a\\b", True),
    ("s = 'a\\b'", "a\\b", True),
    ("s = 'A\\b'", "a\\b", False),
]


def test_what_a_cast_and_a_pattern_mean():
    """Each is asked of one row of a table; the others hold other values."""
    rows = []
    for where, value, _ in CASTS:
        name = next(name for name in "xds" if f"{name} " in where)
        rows.append({name: Decimal(value) if name == "d" else value})
    kinds = pa.schema([("id", pa.int64()), *((name, KINDS[name][1]) for name in "xds")])
    table = pa.Table.from_pylist(
        [{"id": place, **row} for place, row in enumerate(rows)], schema=kinds
    )
    found = fates(open_source(frame(table)), [where for where, *_ in CASTS])
    assert [kept[place] for place, kept in enumerate(found)] == [wanted for *_, wanted in CASTS]


@pytest.mark.parametrize(
    "where",
    [
        "n > 9223372036854775808",
        "w * w > 1",
        "- w > 1",
        "s = 7",
        "TRY_CAST(x AS VARCHAR) = 'a'",
        "TRY_CAST(n AS HUGEINT) > 1",
        "day + 1 > '2024-01-01'",
        "b = 1",
        f"s LIKE '{'_' * 256}'",
    ],
)
def test_what_spark_reads_otherwise_is_refused_before_the_charge(where):
    source = open_source(frame(mixed(random.Random(1), 2)))
    with pytest.raises(InvalidParameter, match="Spark"):
        source.predicate(where)
