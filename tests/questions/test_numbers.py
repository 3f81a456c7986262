"""Numbers of a column: the state that an engine counts is that of the same numbers in an array, whatever they are."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Context, Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sordino as sd
from sordino.columns import BucketCounts
from sordino.columns.clipped_steps import clipped_steps
from sordino.errors import (
    DataSourceError,
    InvalidParameter,
    UnboundedContribution,
    UnknownDomain,
    UnsafePredicate,
)
from sordino.questions import PrivacyUnit
from sordino.sources.sql.bucket_query import bucket_queries
from sordino.sources.sql.dialect import EMBEDDED
from sordino.sources.sql.number_kind import number_kind
from sordino.sources.sql.step_query import Addends, ladder_steps, step_query
from support.number_states import GRIDS, STEPS, agrees, asked, floats, ladder_of, wholes
from support.tables import KINDS, columns, made

ROW = PrivacyUnit.row()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["from 0", pytest.param("made up", marks=pytest.mark.slow)])
@pytest.mark.sample(4)
def test_floats_of_every_source(tmp_path, kind, name):
    values = floats(GRIDS[name])
    source = made(tmp_path, kind, columns([[v, 1] for v in values], x=pa.float64(), y=pa.int8()))
    # No text is infinite: a field of a file of texts that says so has no number.
    texts = kind == "csv"
    known = [None if texts and value in {math.inf, -math.inf} else value for value in values]
    agrees(source, known, GRIDS[name])


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.sample(4)
def test_floats_at_and_beside_every_edge(name):
    values = floats(GRIDS[name])
    agrees(pl.DataFrame({"x": values}, schema={"x": pl.Float64}, strict=False), values, GRIDS[name])


@pytest.mark.parametrize("bits", [8, 64])
@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("name", ["from 0", "signed", "far away", "made up"])
@pytest.mark.sample(4)
def test_whole_numbers_are_compared_exactly(bits, signed, name):
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = wholes(GRIDS[name], low, high)
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    agrees(columns([[v] for v in values], x=kind), values, GRIDS[name])


@pytest.mark.parametrize("name", ["from 0", "signed", "made up"])
@pytest.mark.sample(4)
def test_decimals_and_numbers_of_128_bits_are_compared_exactly(tmp_path, name):
    fine = [
        None if v is None else Decimal(v) + Decimal(d) / 1000
        for v in wholes(GRIDS[name], 2 - 10**14, 10**14 - 2)
        for d in (-1, 0, 1)
    ]
    fine = [v for v in fine if v is not None] + [
        None,
        Decimal("99999999999999.999"),
        Decimal("-0.001"),
    ]
    agrees(columns([[v] for v in fine], x=pa.decimal128(17, 3)), fine, GRIDS[name])
    widest = [
        Decimal(v).scaleb(-18, Context(prec=50))
        for v in (10**38 - 1, 1 - 10**38, 1, -1, 0, 25 * 10**16, 10**18, -(10**18))
    ]
    agrees(columns([[v] for v in widest], x=pa.decimal128(38, 18)), widest, GRIDS[name])
    huge = [
        (1 << 127) - 1,
        -(1 << 127),
        -(1 << 127) + 1,
        0,
        1,
        -1,
        10**30,
        (1 << 62) * 3,
        -(1 << 62) * 3,
        -(1 << 62) * 3 - 1,
    ]
    con = duckdb.connect()
    con.execute("CREATE TABLE t (x HUGEINT)")
    con.executemany("INSERT INTO t VALUES (?)", [[value] for value in huge])
    agrees(con.table("t"), huge, GRIDS[name])


def test_narrow_floats_and_frames_with_missing_numbers():
    values = [0.1, 1.05, 3.3e38, -0.0, None]
    agrees(
        pl.DataFrame({"x": values}, schema={"x": pl.Float32}),
        np.array(values, dtype=np.float32).tolist(),
        GRIDS["from 0"],
    )
    agrees(pd.DataFrame({"x": [1.5, np.nan, 2.0]}), [1.5, None, 2.0], GRIDS["from 0"])
    whole = [1, None, (1 << 63) - 1]
    agrees(pl.DataFrame({"x": whole}), whole, GRIDS["made up"])
    # In pandas one text would make texts of them, which are read as floats: so they are floats from the start.
    agrees(
        pd.DataFrame({"x": pd.array(whole, dtype="Int64")}), [1.0, None, 2.0**63], GRIDS["made up"]
    )


def test_texts_of_a_csv_file_are_numbers_or_missing(tmp_path):
    path = tmp_path / "x.csv"
    texts = [
        "1",
        " 2 ",
        "3.5e1",
        "x",
        "",
        "1e999",
        "-1e999",
        "nan",
        "inf",
        "0x10",
        '"7"',
        "1,5",
        "1e-999",
        "-0",
        "--1",
        "9" * 400,
        *("1_0", "2024_05", "Infinity", "-inf", "true", "\u0661", '"5\r"', "\x0b5", "\t5 "),
    ]
    path.write_text("x\n" + "\n".join(texts) + "\n", encoding="utf-8")
    values = [
        1,
        2,
        35,
        None,
        1e999,
        -1e999,
        None,
        None,
        None,
        7,
        0,
        0,
        None,
        1e999,
        *[None] * 8,
        5,
    ]  # an empty line is no record, nor is one with two fields
    agrees(path, [None if v is None else float(v) for v in values], GRIDS["from 0"])


@pytest.mark.parametrize("kind", ["DOUBLE", "BIGINT", "DECIMAL(9,2)"])
def test_where_a_logarithm_proposes_the_edge_and_where_it_may_not(kind):
    ways = {
        name: [query.sql for query in bucket_queries(number_kind(kind, text=False), grid)]
        for name, grid in GRIDS.items()
    }
    for name in ("from 0", "signed", "from -17.3", "fine"):
        quick, slow = ways[name]
        assert "sound" in quick
        assert "ln(" in quick
        assert "ASOF" in slow
        assert "ln(" not in slow
    for name in ("far away", "made up", "one edge"):
        (only,) = ways[name]
        assert "ln(" not in only


@pytest.mark.parametrize("shift", [-0.2, 0.2])
def test_an_edge_that_the_logarithm_misses_by_a_lot_is_still_found(monkeypatch, shift):
    """What decides is comparison: with the logarithm wrong by a fifth of a cell the counts are the same."""
    grid = GRIDS["from 0"]
    values = floats(grid)
    quick, search = bucket_queries(number_kind("DOUBLE", text=False), grid)
    wrong = replace(quick, sql=re.sub(r"floor\(ln", f"floor({shift} + ln", quick.sql))
    assert wrong.sql != quick.sql
    monkeypatch.setattr(
        "sordino.sources.source.ReaderBackend.dialect",
        replace(EMBEDDED, buckets=lambda *_: (wrong, search)),
    )
    assert asked(pl.DataFrame({"x": values}, strict=False), grid).run() == (
        BucketCounts.of(values, grid=grid),
    )


def test_the_quick_way_is_taken_where_it_is_right_and_left_where_it_is_not():
    """Numbers between the edges need one question, numbers beside them a second one; a proposed bucket that is wrong is never believed."""
    grid = GRIDS["from 0"]
    quick, slow = bucket_queries(number_kind("DOUBLE", text=False), grid)
    between = [*((grid.edges[1:] + grid.edges[:-1]) / 2).tolist(), 0.0, 1e9, None]
    for values, sound in (
        (between, True),
        (floats(grid), None),
        ([float(np.nextafter(grid.edges[7], 0))] * 3, None),
    ):
        question = asked(pl.DataFrame({"x": values}, strict=False), grid)
        with question.source.backend.scan(question.indices) as scan:
            first = quick.counted(
                scan.ask(quick.over(question.rows(0), grouped=False), quick.cuts), grid, 1
            )
            second = slow.counted(
                scan.ask(slow.over(question.rows(0), grouped=False), slow.cuts), grid, 1
            )
        expected = BucketCounts.of(np.array(values, dtype=object), grid=grid).counts.tolist()
        assert second.counts.tolist() == [expected]
        assert first is None or first.counts.tolist() == [expected]
        assert sound is None or first is not None


def test_nothing_and_nothing_but_missing_numbers():
    grid = GRIDS["from 0"]
    for values in ([], [None] * 5, [float("nan")] * 5):
        agrees(pl.DataFrame({"x": values}, schema={"x": pl.Float64}), values, grid)


def test_predicates_and_groups():
    rows = [(i % 7 / 2, "abcz"[i % 4], i) for i in range(100)]
    frame = pl.DataFrame(rows, schema=["x", "g", "i"], orient="row")
    grid = GRIDS["from 0"]
    clips = [STEPS[0], STEPS[2], STEPS[0], STEPS[0]]
    question = asked(frame, grid, where="i < 50", by="g", domain=["c", "a", "none", "b"])
    assert list(question.groups) == ["a", "b", "c", "none"]
    inside = [[x for x, g, i in rows if g == label and i < 50] for label in question.groups]
    assert question.run() == tuple(BucketCounts.of(values, grid=grid) for values in inside)
    assert question.totals(clips) == tuple(
        (clipped_steps(values, c.low, c.high, c.step), len(values), 0)
        for values, c in zip(inside, clips, strict=True)
    )
    numbered = asked(
        frame.with_columns(k=pl.col("i") % 3),
        grid,
        by="k",
        domain=sd.Domain.indexed(3, label=lambda place: f"case {place}"),
    )
    assert list(numbered.groups) == ["case 0", "case 1", "case 2"]
    assert [counts.records for counts in numbered.run()] == [34, 33, 33]


def test_which_questions_are_refused(tmp_path):
    frame = pl.DataFrame({"x": [1.0], "s": ["1"], "b": [True], "u": [1], "g": ["a"], "l": [[1]]})
    grid, unit = GRIDS["from 0"], PrivacyUnit("u", max_rows=2)
    refused = [
        ({"column": "y"}, InvalidParameter, "column must be a column of the source"),
        (
            {"column": "s"},
            InvalidParameter,
            "whole numbers, decimals or floats; got 's' of type VARCHAR",
        ),
        ({"column": "b"}, InvalidParameter, "whole numbers, decimals or floats"),
        ({"grid": 3}, InvalidParameter, "grid must be a BucketGrid"),
        ({"unit": PrivacyUnit("u")}, UnboundedContribution, "--max-rows"),
        ({"unit": unit, "salt": b"short"}, InvalidParameter, "salt must be"),
        ({"where": "sum(x) > 3"}, UnsafePredicate, "function"),
        ({"by": "g"}, UnknownDomain, "public domain"),
        ({"by": "g", "domain": sd.Domain.assume_public()}, UnknownDomain, "listed"),
        ({"domain": ["a"]}, InvalidParameter, "belong to by"),
        ({"by": "l", "domain": ["a"]}, InvalidParameter, "by must be a column of texts"),
        (
            {"by": "g", "domain": sd.Domain.unlisted(delta=1e-6), "most_groups": 2, "unit": unit},
            UnboundedContribution,
            "--groups-per-unit",
        ),
        (
            {"by": "g", "domain": ["a"], "unit": unit, "groups_per_unit": 0},
            InvalidParameter,
            "groups_per_unit must be",
        ),
        ({"by": "g", "domain": ["a"], "groups_per_unit": 2}, InvalidParameter, "one group"),
        (
            {"by": "g", "domain": sd.Domain.range(0, 1 << 40)},
            InvalidParameter,
            "at most 262144 groups",
        ),
        (
            {"by": "g", "domain": sd.Domain.range(0, 9000), "grid": GRIDS["fine"]},
            InvalidParameter,
            "Raise the growth",
        ),
    ]
    for change, error, words in refused:
        with pytest.raises(error, match=words):
            asked(frame, **{"grid": grid} | change)
    with pytest.raises(InvalidParameter, match="one for each group"):
        asked(frame, grid).totals([])
    with pytest.raises(InvalidParameter, match="18 digits"):
        asked(columns([[Decimal(0)]], x=pa.decimal128(38, 30)), grid)
    with pytest.raises(DataSourceError):
        asked(tmp_path / "none.csv", grid)


AGGREGATES = re.compile(
    r"\b(sum|avg|mean|fsum|kahan_sum|favg|sumkahan|stddev\w*|var\w*|list|max|min|product|first|any_value|quantile\w*|median)\s*\("
)


def arguments(sql, function):
    """Return what stands in the parentheses of each call."""
    for found in re.finditer(rf"\b{function}\(", sql):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(sql[end], 0)
            end += 1
        yield sql[found.end() : end - 1]


@pytest.mark.parametrize("declared", ["DOUBLE", "BIGINT", "DECIMAL(9,2)", "HUGEINT"])
@pytest.mark.sample(4)
def test_no_query_adds_up_or_averages_floats(declared):
    """Read all queries that are generated: they count rows, and add up what the engine itself says is a whole number of 64 bits."""
    frame = columns([], x=pa.float64(), u=pa.int64(), g=pa.string())
    kind = number_kind(declared, text=False)
    for unit, more in (
        (ROW, {}),
        (PrivacyUnit("u", max_rows=2), {"by": "g", "domain": ["a"], "groups_per_unit": 1}),
    ):
        question, grouped = asked(frame, GRIDS["from 0"], unit=unit, **more), bool(more)
        queries = [
            query.over(question.rows(0), grouped=grouped)
            for grid in GRIDS.values()
            for query in bucket_queries(kind, grid)
        ]
        for text in queries:
            # The least and the largest number of a bucket are compared with its edges; what leaves the engine is whether they lie within.
            assert set(AGGREGATES.findall(text)) <= (
                {"min", "max"} if "AS sound" in text else set()
            )
            assert set(re.findall(r"AS (\w+)", text.split(" FROM ")[0])) <= {
                "cell",
                "n",
                "known",
                "sound",
                "BIGINT",
            }
        for grid in GRIDS.values():
            ladder = ladder_of(grid)
            for query in (
                () if ladder is None else bucket_queries(kind, grid, ladder_steps(kind, ladder))
            ):
                text = query.over(question.rows(0), grouped=grouped)
                assert set(AGGREGATES.findall(text)) <= {"sum", "min", "max"}
                assert list(arguments(text, "sum")) == ["steps"]
                empty = duckdb.sql(f"SELECT CAST(NULL AS {kind.name}) AS x")
                said = f"DESCRIBE SELECT {ladder_steps(kind, ladder)} FROM empty"
                assert empty.query("empty", said).fetchall()[0][1] == "BIGINT"
        sums = [step_query(kind, Addends([clip] * 2, question.rows(0), grouped)) for clip in STEPS]
        for text in [*sums, step_query(kind, Addends(STEPS, question.rows(0), grouped))]:
            assert set(AGGREGATES.findall(text)) == {"sum"}
            assert list(arguments(text, "sum")) == ["steps"]
            (added,) = re.findall(r"FROM \(SELECT (?:grp, )?(CASE .*) AS steps FROM", text)
            empty = duckdb.sql(f"SELECT CAST(NULL AS {kind.name}) AS x, 0 AS grp, '0' AS which")
            assert (
                empty.query("empty", f"DESCRIBE SELECT {added} FROM empty").fetchall()[0][1]
                == "BIGINT"
            )
