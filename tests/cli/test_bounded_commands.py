"""`--bounded`: what is printed about the range, and that neighbours are told the same."""

from __future__ import annotations

import csv

import duckdb
import pytest

from support.tables import amounts

FIXED = ("--synthetic", "--seed", 7, "--no-quiet")


pytestmark = pytest.mark.usefixtures("no_progress")


def commands(path):
    unit = ("--user", "user", "--max-rows", 3)
    domain = ("--domain", path.parent.parent / "groups.csv")
    shared = ("--epsilon", 1, *FIXED)
    money = ("--column", "amount", "--lower", 0, "--cap", 100, "--bounded", 0, 100_000)
    return {
        "count": (
            "count",
            path,
            *shared,
            *unit,
            "--bounded",
            0,
            1000,
            "--format",
            "table",
            "--details",
        ),
        "units": (
            "count",
            path,
            *shared,
            *unit,
            "--units",
            "--bounded",
            "-5",
            "1e3",
            "--format",
            "csv",
        ),
        "histogram": (
            "histogram",
            path,
            "--item",
            "group",
            *shared,
            *unit,
            *domain,
            "--bounded",
            0,
            1000,
        ),
        "sum": ("sum", path, *shared, *unit, *money, "--format", "table", "--details"),
        "sum csv": ("sum", path, *shared, *unit, *money, "--format", "csv"),
        "sum by": (
            "sum",
            path,
            *shared,
            *unit,
            *money,
            "--by",
            "group",
            *domain,
            "--groups-per-unit",
            2,
        ),
    }


def test_what_is_printed(sordino, tmp_path):
    told = {name: sordino(*command) for name, command in commands(amounts(tmp_path / "a")).items()}
    assert {outcome.code for outcome in told.values()} == {0}
    assert (
        "Published within [-2.53, 1002.53]: unbiased from 0 to 1000; what lies beyond counts as the nearer end."
        in told["count"].out
    )
    head, _ = told["units"].out.splitlines()
    assert (
        head
        == "count,estimate,low,high,true_low,true_high,standard_error,range_low,range_high,left_out,confidence,adjacency,unit,max_rows,noise,simulated"
        ",epsilon,delta,id,time,account,version,schema"
    )
    assert next(csv.DictReader(told["units"].out.splitlines()))["range_low"] == "-5.58197670687"
    one = told["histogram"].json
    assert one["bounds"] == [0, 1000]
    assert one["range_low"] < 0 < 1000 < one["range_high"]
    assert one["standard_error"] > 0
    assert [list(row) for row in one["rows"]] == [
        ["item", "estimate", "low", "high", "true_low", "true_high"]
    ] * 3
    assert "Published within [-315.79, 100315.79]" in told["sum"].out
    columns = ["figure", "estimate", "low", "high", "standard_error", "clip_low", "clip_high"]
    assert told["sum"].out.split()[: len(columns)] == columns
    assert told["sum csv"].out.startswith(
        "figure,estimate,low,high,standard_error,clip_low,clip_high,range_low,range_high,numbers_share,"
    )
    by = told["sum by"].json
    assert [row["item"] for row in by["rows"]] == ["a", "b", "z"]
    assert by["bounds"] == [0, 100_000]
    assert by["groups_per_unit"] == 2


def test_a_mean_of_a_public_number_of_rows(sordino, tmp_path):
    path = amounts(tmp_path / "a")
    duckdb.sql(f"COPY (SELECT i % 90 AS amount FROM range(240) t(i)) TO '{tmp_path / 'x.parquet'}'")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as con:
        con.execute("CREATE TABLE t (amount INTEGER NOT NULL)")
        con.execute("INSERT INTO t SELECT i % 90 FROM range(240) t(i)")
    stored = f"duckdb:{tmp_path / 'x.duckdb'}#t"
    money = (
        "--column",
        "amount",
        "--lower",
        0,
        "--cap",
        100,
        "--bounded",
        0,
        100,
        "--epsilon",
        5,
        "--row-is-unit",
        *FIXED,
    )
    replaced = ("--adjacency", "replace-one")
    done = sordino("mean", stored, *money, *replaced)
    assert done.code == 0
    assert 35 < done.json["rows"][0]["estimate"] < 50
    assert done.json["range_high"] == pytest.approx(100 + 100 / 240 / 5, rel=1e-4)
    for source, more in ((stored, ()), (path, replaced), (tmp_path / "x.parquet", replaced)):
        refused = sordino("mean", source, *money, *more)
        assert (refused.code, refused.out) == (2, "")
        assert "mean.bounds must go with a public number of rows" in refused.err


DROPPED = [b'u99,"a,1', b"u99\xff,a,1", b",a,1", b"", b"u99,a,1\0"]


@pytest.mark.parametrize(
    "name",
    ["count", "sum", *(pytest.param(n, marks=pytest.mark.slow) for n in ("histogram", "sum by"))],
)
@pytest.mark.sample(4)
def test_dropped_rows_are_not_there(sordino, tmp_path, name):
    plain = sordino(*commands(amounts(tmp_path / "a"))[name])
    for place, line in enumerate(DROPPED):
        other = sordino(*commands(amounts(tmp_path / f"b{place}", [line]))[name])
        assert (other.code, other.out, other.err) == (plain.code, plain.out, plain.err)


@pytest.mark.parametrize("name", ["count", "sum csv"])
@pytest.mark.sample(4)
def test_neighbours_are_told_the_same_but_for_the_figure(sordino, tmp_path, name):
    plain = sordino(*commands(amounts(tmp_path / "a"))[name])
    for place, more in enumerate(
        [[b"u99,a,86753099173"] * 3, [b"u99,a,1e999"], [b"u99,a,nan"], [b"u99,dynamite,-1e30"]]
    ):
        other = sordino(*commands(amounts(tmp_path / f"b{place}", more))[name])
        assert (other.code, other.err) == (plain.code, plain.err)
        assert len(other.out.splitlines()) == len(plain.out.splitlines())
        assert "86753" not in other.out + other.err


def test_what_is_refused(sordino, tmp_path):
    path = amounts(tmp_path / "a")
    row = ("--row-is-unit", "--epsilon", 1, "--no-ledger")
    refused = [
        (("count", path, *row, "--bounded", 5, 5), "the second one larger"),
        (("count", path, *row, "--bounded", 0, "0.5"), "at least as far apart as one person"),
        (("count", path, *row, "--bounded", 0, "inf"), "not a finite decimal"),
        (("count", path, *row, "--bounded", "nan", 1), "not a finite decimal"),
        (
            (
                "sum",
                path,
                *row,
                "--column",
                "amount",
                "--lower",
                0,
                "--cap",
                100,
                "--bounded",
                0,
                50,
            ),
            "one person can move the sum, 100",
        ),
        (
            (
                "sum",
                path,
                *row,
                "--column",
                "amount",
                "--lower",
                0,
                "--cap",
                100,
                "--growth",
                2,
                "--bounded",
                0,
                500,
            ),
            "must not be given with bounds",
        ),
        (
            (
                "quantile",
                path,
                *row,
                "--column",
                "amount",
                "--lower",
                0,
                "--cap",
                100,
                "--q",
                "0.5",
                "--bounded",
                0,
                500,
            ),
            "No such option",
        ),
    ]
    for arguments, words in refused:
        outcome = sordino(*arguments)
        assert (outcome.code, outcome.out) == (2, ""), arguments
        assert words in outcome.err.replace("\n", " "), arguments
