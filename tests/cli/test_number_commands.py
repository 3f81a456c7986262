"""`sordino quantile`, `sum`, `mean` and `variance`: what they print, and that bad numbers of one unit change neither shape nor words."""

from __future__ import annotations

import random
import re

import pytest

from sordino.cli.output import write_rows
from sordino.record import Record
from sordino.record_table import format_figure, write_cells
from sordino.report.words import round_row, say_roughly
from support.release_lines import latest
from support.tables import amounts

CANARY = "86753099173.25"
FIXED = ("--synthetic", "--seed", 7)


pytestmark = pytest.mark.usefixtures("no_progress")


def commands(path):
    unit = ("--user", "user", "--max-rows", 3)
    by = ("--by", "group", "--domain", path.parent.parent / "groups.csv", "--groups-per-unit", 2)
    shared = (
        "--column",
        "amount",
        "--epsilon",
        1,
        "--lower",
        0,
        "--cap",
        "1e6",
        *FIXED,
        "--no-quiet",
    )
    return {
        "quantile": ("quantile", path, *shared, *unit, "--q", "0.5"),
        "quantiles": (
            "quantile",
            path,
            *shared,
            *unit,
            "--q",
            "0.25,0.5",
            "--size-hint",
            200,
            "--format",
            "table",
            "--details",
        ),
        "quantile by": ("quantile", path, *shared, *unit, *by, "--q", "0.5", "--format", "csv"),
        "sum": ("sum", path, *shared, *unit),
        "sum by": ("sum", path, *shared, *unit, *by, "--format", "table", "--details"),
        "mean": (
            "mean",
            path,
            *shared,
            *unit,
            "--where",
            "TRY_CAST(amount AS DOUBLE) < 50",
            "--format",
            "csv",
        ),
        "mean of rows": ("mean", path, *shared, "--row-is-unit"),
        "variance": ("variance", path, *shared, *unit),
        "mean with an upper end": ("mean", path, *shared, "--user", "user", "--upper"),
        "variance of weighed rows": ("variance", path, *shared, "--user", "user"),
        "variance by": ("variance", path, *shared, *unit, *by, "--format", "csv"),
    }


def test_what_is_printed(sordino, tmp_path):
    told = {name: sordino(*command) for name, command in commands(amounts(tmp_path / "a")).items()}
    assert {outcome.code for outcome in told.values()} == {0}
    assert all("By rule, lines that do not parse" in outcome.err for outcome in told.values())
    one = told["quantile"].json
    assert (one["release"], one["column"], one["adjacency"], one["unit"], one["max_rows"]) == (
        "quantile",
        "amount",
        "add-remove",
        "column user",
        3,
    )
    assert list(one["rows"][0]) == [
        "q",
        "estimate",
        "low",
        "high",
        "rank_error_low",
        "rank_error_high",
        "capped",
        "true_low",
        "true_high",
        "too_few",
    ]
    # Of each user some rows count: of those of all nothing is known.
    assert (one["rows"][0]["true_low"], one["rows"][0]["true_high"]) == (None, None)
    assert 0 <= one["rows"][0]["estimate"] <= 100
    assert one["simulated"] is True
    lines = told["quantiles"].out.splitlines()
    assert lines[0].split() == [
        "q",
        "estimate",
        "low",
        "high",
        "rank_error_low",
        "rank_error_high",
        "capped",
        "true_low",
        "true_high",
        "too_few",
    ]
    assert [line.split()[0] for line in lines[1:3]] == ["0.25", "0.5"]
    assert any(line.startswith("Spent: epsilon 1. Protects: column user") for line in lines)
    head, *rows = told["quantile by"].out.splitlines()
    assert head.startswith("item,q,estimate,")
    assert [row.split(",")[0] for row in rows] == ["a", "b", "z"]
    assert list(told["sum"].json["rows"][0]) == [
        "figure",
        "estimate",
        "low",
        "high",
        "standard_error",
        "clip_low",
        "clip_high",
        "capped",
        "true_low",
        "true_high",
        "too_few",
    ]
    assert "Each group got epsilon 0.475." in told["sum by"].out
    assert told["mean"].out.startswith("figure,estimate,low,high,")
    assert told["mean"].out.splitlines()[1].startswith("mean,")
    assert told["mean of rows"].json["rows"][0]["estimate"] == pytest.approx(43, abs=12)
    [spread] = told["variance"].json["rows"]
    assert spread["standard_deviation"] == pytest.approx(spread["estimate"] ** 0.5)
    assert spread["low"] <= spread["estimate"] <= spread["high"]
    head = (
        "item,figure,estimate,low,high,standard_error,standard_deviation,clip_low,clip_high,capped,"
    )
    assert told["variance by"].out.startswith(head)


MISSING = [b"u99,a,not-a-number", b"u99,a,nan", b"u99,a", b"u99,a,1\xff"]
DROPPED = [b'u99,"a,1', b"u99\xff,a,1", b",a,1"]


@pytest.mark.parametrize(
    "name",
    ["quantile", *(pytest.param(name, marks=pytest.mark.slow) for name in ("quantile by", "mean"))],
)
def test_missing_numbers_are_alike_and_dropped_lines_are_not_there(sordino, tmp_path, name):
    for alike in (MISSING, DROPPED):
        outcomes = []
        for place, line in enumerate(alike):
            found = sordino(*commands(amounts(tmp_path / f"{place}", [line]))[name])
            outcomes.append((found.code, found.out, found.err))
        assert len(set(outcomes)) == 1
        assert outcomes[0][0] == 0
    plain = sordino(*commands(amounts(tmp_path / "plain"))[name])
    assert (plain.code, plain.out, plain.err) == outcomes[0]


def test_a_missing_number_adds_nothing(sordino, tmp_path):
    plain = sordino(*commands(amounts(tmp_path / "a"))["sum"])
    for place, line in enumerate([MISSING[0], b"u99,a,-7", b"u99,a,-inf"]):
        other = sordino(*commands(amounts(tmp_path / f"b{place}", [line]))["sum"])
        assert (other.code, other.out, other.err) == (plain.code, plain.out, plain.err)


def shape(outcome):
    return (
        outcome.code,
        outcome.err,
        [
            # A comma between digits is one of a number, and columns are as wide as their numbers.
            (
                re.sub(r"(?<=\d),(?=\d)", "", line).count(","),
                line.split(":")[0].split() * ("rank" in line),
            )
            for line in outcome.out.splitlines()
            # Whether there is a warning follows from the share of numbers that was released.
            if not line.startswith('  "warning"')
        ],
    )


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("quantiles", "mean of rows")),
        "sum by",
    ],
)
def test_odd_tables_print_the_same_shape(sordino, tmp_path, name):
    usual = sordino(*commands(amounts(tmp_path / "a"))[name])
    empty = tmp_path / "b" / "x.csv"
    for rows in (b"", b"u1,a,\nu2,b,\n", f"u1,a,{CANARY}\n".encode() * 50, b"u1,a,1e999\n" * 50):
        empty.parent.mkdir(exist_ok=True)
        empty.write_bytes(b"user,group,amount\n" + rows)
        odd = sordino(*commands(empty)[name])
        assert shape(odd) == shape(usual)
        assert CANARY not in odd.out + odd.err


def test_what_is_refused(sordino, tmp_path):
    path = amounts(tmp_path / "a")
    base = ("--column", "amount", "--epsilon", 1, "--lower", 0, "--cap", 100, "--no-ledger")
    row = (*base, "--row-is-unit")
    refused = [
        (("quantile", path, *row, "--q", "1.5"), "Quantile.q must be"),
        (("quantile", path, *row, "--q", "0.5,x"), "not a finite decimal"),
        (("quantile", path, *row, "--q", "0.9,0.5"), "strictly rising"),
        (("quantile", path, *row), "--q"),
        (("quantile", path, *row, "--q", "0.5", "--growth", 1), "growth must be"),
        (("quantile", path, *row, "--q", "0.5", "--lower", 100), "cap must be above"),
        (
            ("variance", path, *base, "--user", "user", "--max-rows", 2, "--weight-cap", 3),
            "--max-rows must not be given with --weight-cap",
        ),
        (
            ("mean", path, *base, "--user", "user", "--max-rows", 2, "--weight-cap", 3),
            "--max-rows must not be given with --weight-cap",
        ),
        (("mean", path, *row, "--weight-cap", 3), "each row is somebody else"),
        (("mean", path, *row, "--upper"), "must go with rows that have weights"),
        (("mean", path, *base, "--user", "user", "--weight-cap", 0), "at least 1"),
        (("mean", path, *base, "--user", "user", "--weight-cap", "x"), "whole number, or auto"),
        (("sum", path, *row, "--per-person", "sum"), "--user"),
        (("sum", path, *row, "--max-rows", 3), "--max-rows needs --user"),
        (("sum", path, *row, "--lower", "nan"), "not a finite decimal"),
        (("sum", path, *row, "--by", "group"), "which labels may be released"),
        (("sum", path, *row, "--by", "group", "--assume-public"), "listed"),
        (("sum", path, *row, "--domain", path), "--domain needs --by"),
        (("mean", path, *row, "--groups-per-unit", 2), "--groups-per-unit needs --by"),
        (
            ("mean", path, "--column", "none", *row[2:]),
            "must be a column of the source",
        ),
    ]
    for arguments, words in refused:
        outcome = sordino(*latest(*arguments))
        assert (outcome.code, outcome.out) == (2, ""), arguments
        assert words in outcome.err.replace("\n", " "), arguments


def test_a_ledger_pays(sordino, tmp_path):
    path = amounts(tmp_path / "a")
    url = tmp_path / "budget.db"
    about = ("--ledger", url, "--account", "shop")
    assert (
        sordino("ledger", "create", *about, "--epsilon", 1, "--unit", "user", "--source", path).code
        == 0
    )
    ask = (
        "sum",
        path,
        "--column",
        "amount",
        "--lower",
        0,
        "--cap",
        1000,
        "--user",
        "user",
        "--max-rows",
        2,
        *about,
    )
    first = sordino(*ask, "--epsilon", "0.75")
    assert first.code == 0
    assert first.json["simulated"] is False
    second = sordino(*ask, "--epsilon", "0.75")
    assert (second.code, second.out) == (3, "")
    assert sordino(*ask, "--epsilon", "0.1", *FIXED).code == 2


def test_a_figure_of_texts_says_how_many_were_numbers(sordino, tmp_path):
    path = tmp_path / "k.csv"
    path.write_text("amount\n" + '"1.234,50"\n' * 4000, encoding="utf-8")
    asked = (
        "sum",
        path,
        "--column",
        "amount",
        "--row-is-unit",
        "--lower",
        0,
        "--cap",
        "1e6",
        "--epsilon",
        1,
        *FIXED,
    )
    found = sordino(*asked).json
    assert found["numbers_share_high"] < 0.1
    assert "few of the rows" in found["warning"]
    assert "rows without a number in amount" in found["left_out"]
    table = sordino(*asked, "--format", "table", "--details").out
    assert "Rows that count and held a number: about 0" in table
    assert "WARNING" in table
    assert "Left out: lines that are empty" in table
    names, values = sordino(*asked, "--format", "csv").out.splitlines()
    assert {"numbers_share", "warning", "left_out"} <= set(names.split(","))
    assert "few of the rows" in values
    quiet = sordino(*asked, "--numbers-share", 0)
    assert "numbers_share" not in quiet.json
    typed = sordino(
        *asked,
        "--delimiter",
        ";",
        "--decimal",
        ",",
        "--thousands",
        ".",
        "--type",
        "amount=decimal(12,2)",
    ).json
    assert "numbers_share" not in typed
    assert abs(typed["rows"][0]["estimate"] / (4000 * 1234.5) - 1) < 0.05
    refused = sordino(*asked, "--strict-types")
    assert refused.code == 2
    assert "--type" in refused.err
    assert "amount" in refused.err


@pytest.mark.parametrize("terminal", [False, True])
def test_a_number_is_never_cut_and_a_label_never_loses_a_letter(capsys, monkeypatch, terminal):
    """Half of a number is another number: of 2.49999999932e-61 a narrow column made 2.49999999932e-6."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    label, columns = "öä" * 300, ("item", *(f"standard_deviation_{place}" for place in range(12)))
    numbers = [2.49999999932e-61 * 7**place for place in range(12)]
    write_rows("table", columns, [dict(zip(columns, [label, *numbers], strict=True))], {}, [])
    words = capsys.readouterr().out.split()
    assert {*columns, *map(format_figure, numbers)} <= {*words}
    assert "".join(word for word in words if word[0] in "öä") == label


def test_digits_are_as_many_as_the_interval_deserves_and_it_still_holds():
    """Rounded, the low end is no higher and the high end no lower, and neither by more than a quarter."""
    rng = random.Random(7)
    for _ in range(3_000):
        middle = rng.choice((0, 1, -1)) * 10 ** rng.uniform(-6, 12)
        half = 10 ** rng.uniform(-5, 9)
        row = {"estimate": middle + half * rng.uniform(-1, 1), "low": middle - half}
        row |= {"high": middle + half, "true_low": middle - 2 * half, "true_high": None}
        half = (row["high"] - row["low"]) / 2
        for counts in (True, False) if half > 0 else ():
            record = Record(columns=tuple(row), rows=[row], facts={}, counts=counts)
            cells = {name: one for name, [one] in write_cells(record).items()}
            assert cells.pop("true_high") == ""
            shown = {name: float(cell.replace(",", "")) for name, cell in cells.items()}
            least = 1.0 if counts else 0.0
            assert row["low"] - max(half / 4, least) <= shown["low"] <= row["low"]
            assert row["high"] <= shown["high"] <= row["high"] + max(half / 4, least)
            assert shown["true_low"] <= row["true_low"]
            assert shown["low"] <= shown["estimate"] <= shown["high"]
    row = {"estimate": 1234.0, "low": 1194.0, "high": 1274.0}
    record = Record(columns=tuple(row), rows=[row], facts={})
    assert write_cells(record) == {"estimate": ["1,230"], "low": ["1,190"], "high": ["1,280"]}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        ({"estimate": 25.54, "low": -2e8, "high": 9e8}, "26"),
        ({"estimate": -0.02554, "low": -1e9, "high": None}, "-0.026"),
        ({"estimate": 35.98, "low": 0.0, "high": 1e6}, "36"),
        ({"estimate": 1234.0, "low": -2e5, "high": 2e5}, "1,200"),
        ({"estimate": 0.0, "low": -2e5, "high": 2e5}, "0"),
        ({"estimate": 25.54, "low": 25.01, "high": 26.02}, "25.5"),
    ],
    ids=str,
)
def test_an_estimate_keeps_its_first_two_digits_however_wide_its_interval_is(row, shown):
    """Twin: a median of 25.54 between -200,000,000 and 900,000,000 was printed as 0."""
    record = Record(columns=tuple(row), rows=[row], facts={}, counts=False)
    assert write_cells(record)["estimate"] == [shown]
    if row["high"] is not None:
        said = say_roughly(row).replace("\N{MINUS SIGN}", "-")
        assert said.split(" ")[0] == shown
        assert float(round_row(row)["low"]) <= row["low"]
