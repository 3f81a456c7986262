"""`sordino remeasure`: another look at what a ledger has kept, as the command writes it, and what it refuses before the charge."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from sordino.ledger import Ledger
from support.json_schema import check

FORM = json.loads(files("sordino.cli").joinpath("release.schema.json").read_text(encoding="utf-8"))
FIGURE = ("--column", "x", "--lower", 0, "--cap", 1000)
GROUPS = ("--by", "g", "--domain", "groups.csv", "--groups-per-unit", 1)
LINES = {
    "count": ("count", "rows.csv", "--where", "g = 'a'"),
    "units": ("count", "rows.csv", "--units"),
    "histogram": ("histogram", "rows.csv", "--item", "g", "--domain", "groups.csv"),
    "top": (
        "top",
        "rows.csv",
        "--item",
        "g",
        "--domain",
        "groups.csv",
        "-k",
        1,
        "--method",
        "gaps",
    ),
    "sum of groups": ("sum", "rows.csv", *FIGURE, *GROUPS),
    "mean": ("mean", "rows.csv", *FIGURE),
    "variance": ("variance", "rows.csv", *FIGURE),
}
ACCOUNT = ("--ledger", "budget.db", "--account", "shop")
pytestmark = pytest.mark.usefixtures("no_progress")


@pytest.fixture
def shop(sordino, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"u{i};{'ab'[i % 2]};{i % 40}\n" for i in range(900))
    (tmp_path / "rows.csv").write_text("u;g;x\n" + rows, encoding="utf-8")
    (tmp_path / "groups.csv").write_text("g\na\nb\n", encoding="utf-8")
    about = ("--unit", "u", "--source", "rows.csv", "--delimiter", ";", "--epsilon", 50)
    assert sordino("ledger", "create", *ACCOUNT, *about).code == 0
    return tmp_path


@pytest.fixture
def kept(sordino, shop):
    """Release a line with --keep; returns its id."""

    def call(name, *more):
        whom = ("--user", "u", "--max-rows", 1, "--delimiter", ";")
        done = sordino(
            *LINES[name], *whom, "--epsilon", 1, *ACCOUNT, "--keep", "--format", "json", *more
        )
        assert done.code == 0, done.err
        return done.json["id"]

    return call


def spent():
    return Ledger.open("budget.db", account="shop").statement().spent


@pytest.mark.parametrize("name", LINES)
@pytest.mark.sample(2)
def test_what_is_written_is_what_the_file_says(sordino, kept, name):
    key, before = kept(name), spent()
    done = sordino(
        "remeasure",
        "rows.csv",
        "--release",
        key,
        "--epsilon",
        2,
        *ACCOUNT,
        "--format",
        "json",
        "--keep",
    )
    assert done.code == 0, done.err
    check(done.json, FORM)
    told = done.json
    assert (told["remeasures"], told["looks"], told["epsilon"], told["kept"]) == (key, 2, 2.0, True)
    assert told["figure"] == {
        "units": "count_distinct_units",
        "top": "histogram",
        "sum of groups": "sum",
    }.get(name, name)
    assert spent() == before + 2
    for row in told["rows"]:
        assert row["low"] <= row["estimate"] <= row["high"]
    # Once more, of what was kept just now; and printed again.
    third = sordino(
        "remeasure",
        "rows.csv",
        "--release",
        told["id"],
        "--epsilon",
        1,
        *ACCOUNT,
        "--format",
        "json",
    )
    assert third.json["looks"] == 3
    assert sordino("ledger", "release", told["id"], *ACCOUNT, "--format", "json").out == done.out


@pytest.mark.parametrize("name", ["count", "histogram", "mean", "sum of groups"])
@pytest.mark.sample(2)
def test_a_table_says_how_much_of_each_unit_counts(sordino, kept, name):
    key, before = kept(name), len(Ledger.open("budget.db", account="shop").statement().charges)
    shown = ("--format", "table", "--details")
    first = sordino("ledger", "release", key, *ACCOUNT, *shown).out
    line = (
        "remeasure",
        "rows.csv",
        "--release",
        key,
        "--epsilon",
        2,
        *ACCOUNT,
        "--format",
        "table",
        "--details",
    )
    again = sordino(*line).out
    assert "of each person" in first
    assert "Counts at most 1 " in again
    assert "of each person" in again
    if name in {"mean", "sum of groups"}:
        assert "By --lower, numbers below 0 count as 0." in first
        assert "By --lower, numbers below 0 count as 0." in again
    assert len(Ledger.open("budget.db", account="shop").statement().charges) == before + 1
    # A number of units is that of all of them.
    whole = sordino(*line[:3], kept("units"), *line[4:]).out
    assert "at most" not in whole


def test_what_all_looks_cost_is_told(sordino, kept, shop):
    """The estimate is made of all of them, so the odds of the new one alone would be too small."""
    key = kept("count")
    line = ("remeasure", "rows.csv", "--release", key, "--epsilon", 0.5, *ACCOUNT, "--no-quiet")
    done = sordino(*line, "--output", "again.json", "--format", "json")
    assert "At epsilon 1.5, someone" in done.err
    told = json.loads((shop / "again.json").read_text(encoding="utf-8"))
    check(told, FORM)
    assert (told["epsilon"], told["total_epsilon"], told["total_delta"]) == (0.5, 1.5, 0)
    assert sordino("report", "again.json", "--output", "page.html").code == 0
    assert "At epsilon 1.5, someone" in (shop / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["table", "csv"])
def test_it_is_written_for_people_and_for_programs(sordino, kept, form):
    key = kept("sum of groups")
    done = sordino(
        "remeasure",
        "rows.csv",
        "--release",
        key,
        "--epsilon",
        2,
        *ACCOUNT,
        "--format",
        form,
        "--planned",
    )
    assert done.code == 0
    if form == "table":
        assert "from all looks together" in done.out
        assert "after capping values to" in done.out
    else:
        assert done.out.startswith(
            "item,estimate,low,high,true_low,true_high,measured,standard_error,"
        )


def test_a_dry_run_charges_nothing(sordino, kept):
    key, before = kept("sum of groups"), spent()
    done = sordino(
        "remeasure",
        "rows.csv",
        "--release",
        key,
        "--epsilon",
        2,
        *ACCOUNT,
        "--dry-run",
        "--format",
        "json",
    )
    assert done.code == 0, done.err
    assert (done.json["plan"], done.json["epsilon"]) == ("remeasure", 2.0)
    assert spent() == before


def test_a_report_shows_it(sordino, kept, shop):
    key = kept("mean")
    line = (
        "remeasure",
        "rows.csv",
        "--release",
        key,
        "--epsilon",
        2,
        *ACCOUNT,
        "--output",
        "again.json",
    )
    assert sordino(*line).code == 0
    done = sordino("report", "again.json", "--output", "page.html")
    assert done.code == 0, done.err
    assert "<svg" in (shop / "page.html").read_text(encoding="utf-8")


REFUSED = {
    "nobody pays": (("--no-ledger",), 2, "the release to be measured again is kept there"),
    "a seed": (("--synthetic", "--seed", 3), 2, "the release to be measured again is kept there"),
    "another file": (ACCOUNT, 5, "is about"),
    "an unknown id": (ACCOUNT, 5, "no charge"),
    "a part that is not there": ((*ACCOUNT, "--part", 2), 2, "part must be from 1 to 1"),
    "part 0": ((*ACCOUNT, "--part", 0), 2, "--part"),
    "too much": ((*ACCOUNT, "--epsilon", 500, "--yes-i-mean-it"), 3, "is left; this needs"),
    "a planned variance": ((*ACCOUNT, "--planned"), 2, "planned must be False for a variance"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.sample(2)
def test_what_is_refused_is_refused_before_the_charge(sordino, kept, shop, name):
    key, before = kept("variance"), spent()
    more, code, words = REFUSED[name]
    (shop / "other.csv").write_bytes((shop / "rows.csv").read_bytes())
    source = "other.csv" if name == "another file" else "rows.csv"
    epsilon = () if "--epsilon" in more else ("--epsilon", 1)
    asked = "0" * 32 if name == "an unknown id" else key
    done = sordino("remeasure", source, "--release", asked, *epsilon, *more)
    assert (done.code, done.out) == (code, ""), done.err
    assert words in done.err
    assert spent() == before


def test_what_was_not_kept_is_refused(sordino, shop):
    whom = ("--user", "u", "--max-rows", 1, "--delimiter", ";")
    done = sordino(*LINES["mean"], *whom, "--epsilon", 1, *ACCOUNT, "--format", "json")
    again = sordino("remeasure", "rows.csv", "--release", done.json["id"], "--epsilon", 1, *ACCOUNT)
    assert again.code == 5
    assert "has not kept" in again.err


def test_a_release_of_a_study_is_measured_again(sordino, shop):
    (shop / "study.toml").write_text(
        'name = "weekly"\n[source]\npath = "rows.csv"\ndelimiter = ";"\n[unit]\ncolumn = "u"\nmax_rows = 1\n'
        '[account]\nledger = "budget.db"\nname = "shop"\n[budget]\nepsilon = 2\n'
        '[[release]]\nkind = "count_distinct_units"\nname = "people"\nshare = 0.5\n'
        '[[release]]\nkind = "sum"\nname = "all"\ncolumn = "x"\nlower = 0\ncap = 1000\nshare = 0.5\n',
        encoding="utf-8",
    )
    done = sordino("run", "study.toml", "--run-id", "one", "--output", "one")
    assert done.code == 0, done.err
    key = json.loads((shop / "one" / "results.json").read_text(encoding="utf-8"))["charge"]
    for part, figure in ((1, "count_distinct_units"), (2, "sum")):
        line = ("remeasure", "rows.csv", "--release", key, "--part", part, "--epsilon", 1, *ACCOUNT)
        again = sordino(*line, "--format", "json")
        assert again.code == 0, again.err
        assert again.json["figure"] == figure
