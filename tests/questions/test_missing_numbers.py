"""NaN of both signs is missing, once and before anything else; and whole numbers of 128 bits add up as what they are."""

from __future__ import annotations

import random
import struct
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sordino as sd
from sordino.columns import StepRange
from sordino.questions import prepare_numbers
from sordino.sources import open_source
from support.postgres import database

SALT = bytes(range(16))
GRID = sd.BucketGrid.geometric(lower=0, cap=100, growth=2)
NAN, MINUS_NAN = (
    struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in (0x7FF8 << 48, 0xFFF8 << 48)
)
ENDS = StepRange(low=0, high=100, step=Fraction(1))


def written(values, writer, path):
    """Write a column of floats as Parquet, as one of the usual writers does, footers and all."""
    table = pa.table({"x": pa.array(values, type=pa.float64())})
    if writer == "pyarrow":
        pq.write_table(table, path, row_group_size=1000)
    elif writer == "pandas":
        pd.DataFrame({"x": np.array(values)}).to_parquet(path)
    elif writer == "polars":
        pl.DataFrame({"x": values}).write_parquet(path, row_group_size=1000)
    else:
        duckdb.from_arrow(table).write_parquet(str(path))
    return path


def asked(source, unit=None, grid=GRID):
    unit = unit or sd.PrivacyUnit.row()
    question = prepare_numbers(open_source(source), unit, column="x", grid=grid, salt=SALT)
    (counts,) = question.run()
    (total,) = question.totals([ENDS])
    return counts.counts.tolist(), tuple(total)


@pytest.mark.parametrize("writer", ["pyarrow", "pandas", "polars", "duckdb"])
@pytest.mark.parametrize("nan", [NAN, MINUS_NAN], ids=["NaN", "-NaN"])
@pytest.mark.sample(4)
def test_statistics_that_leave_nan_out_decide_nothing(tmp_path, writer, nan):
    """5,000 NaN and one 5.0: a footer says that all numbers are 5, and the comparison with 1000 was folded."""
    base = [nan] * 5000 + [5.0]
    few, total = asked(written(base, writer, tmp_path / "a.parquet"))
    more, other = asked(written([*base, 1000.0], writer, tmp_path / "b.parquet"))
    assert few == [0, 0, 1, 0, 0, 0, 0, 0]
    assert more == [0, 0, 1, 0, 0, 0, 0, 1]
    assert (total, other) == ((5, 1, 5000), (105, 2, 5000))


@pytest.mark.parametrize("kind", ["parquet", "relation", "duckdb", "numpy", "postgres"])
@pytest.mark.sample(8)
def test_which_rows_of_a_unit_count_does_not_depend_on_the_sign_of_nan_or_on_the_order(
    tmp_path, kind
):
    """Units of (NaN, -NaN, 5.0), of which one row counts, and one unit of many rows in any order."""
    rows = [(user, x) for user in range(400) for x in (NAN, MINUS_NAN, 5.0)]
    crowd = [(10**6, x) for x in (NAN, MINUS_NAN, 5.0, 0.0, -0.0) for _ in range(600)]
    seen = set()
    for seed in range(3):
        random.Random(seed).shuffle(crowd)
        table = [*rows, *crowd]
        if seed:
            random.Random(seed).shuffle(table)
        source = shuffled(table, kind, tmp_path / f"{seed}")
        seen.add(str(asked(source, sd.PrivacyUnit("usr", max_rows=1))))
    assert len(seen) == 1


def shuffled(table, kind, path):
    frame = pl.DataFrame(table, schema={"usr": pl.Int64, "x": pl.Float64}, orient="row")
    if kind == "parquet":
        frame.write_parquet(path.with_suffix(".parquet"), row_group_size=500)
        return path.with_suffix(".parquet")
    if kind == "numpy":
        return pd.DataFrame({"usr": frame["usr"].to_numpy(), "x": frame["x"].to_numpy()})
    if kind == "postgres":
        with psycopg.connect(database(), autocommit=True) as server:
            server.execute("DROP TABLE IF EXISTS public.nan_rows")
            server.execute("CREATE TABLE public.nan_rows (usr bigint, x double precision)")
            with server.cursor() as cursor:
                cursor.executemany("INSERT INTO public.nan_rows VALUES (%s, %s)", table)
        return f"{database()}#nan_rows"
    con = duckdb.connect(str(path) if kind == "duckdb" else ":memory:")
    con.register("frame", frame.to_arrow())
    con.execute("CREATE TABLE t AS SELECT * FROM frame")
    if kind == "relation":
        return con.table("t")
    con.close()
    return f"duckdb:{path}#t"


HUGE = [0, 5 * 2**90, -5 * 2**90, 2**127 - 1, -(2**127), 2**75, 2**75 - 1, -(2**75) - 1]
RANGES = [
    StepRange(low=-(2**52), high=2**52, step=Fraction(2**75)),
    StepRange(low=-(2**51), high=2**52, step=Fraction(2**76)),
    StepRange(low=-(2**52), high=-1, step=Fraction(2**80)),
    StepRange(low=-3, high=5, step=Fraction(2**126)),
    StepRange(low=-(2**52), high=2**52, step=Fraction(2**130)),
    StepRange(low=-(2**52), high=2**52, step=Fraction(1, 2**60)),
    StepRange(low=-(2**52), high=2**52, step=Fraction(1, 2**200)),
    StepRange(low=-(2**52), high=2**52, step=Fraction(1)),
]


@pytest.mark.parametrize("ends", RANGES, ids=str)
@pytest.mark.sample(8)
def test_whole_numbers_of_128_bits_are_added_up_exactly(ends):
    relation = duckdb.sql(f"SELECT CAST(unnest({[str(x) for x in HUGE]!r}) AS HUGEINT) AS x")
    grid = sd.BucketGrid.geometric(lower=None, cap=100, growth=2)
    for place, x in enumerate(HUGE):
        one = relation.query("all_rows", f"SELECT x FROM all_rows WHERE x = CAST('{x}' AS HUGEINT)")
        question = prepare_numbers(open_source(one), sd.PrivacyUnit.row(), column="x", grid=grid)
        wanted = max(ends.low, min(ends.high, Fraction(x) // ends.step))
        assert tuple(question.totals([ends])[0]) == (wanted, 1, 0), HUGE[place]
    question = prepare_numbers(open_source(relation), sd.PrivacyUnit.row(), column="x", grid=grid)
    assert question.totals([ends])[0].steps == sum(
        max(ends.low, min(ends.high, Fraction(x) // ends.step)) for x in HUGE
    )
