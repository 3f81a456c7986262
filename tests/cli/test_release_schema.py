"""`release.schema.json` describes what every command writes with `--format json`, and knows every name in it."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from sordino.record import SCHEMA
from support.json_schema import Invalid, check
from support.release_lines import GIVEN, RELEASE_LINES, write_files

FORM = json.loads(files("sordino.cli").joinpath("release.schema.json").read_text(encoding="utf-8"))
ITEMS = ("--item", "item", "--domain", "items.csv")
UNLISTED = ("--item", "item", "--unlisted", "--delta", "0.001")
FIGURE = ("--column", "x", "--lower", 0, "--cap", 9)
ROWS = ("--user", "u", "--max-rows", 1)
BY = ("--by", "item", "--domain", "items.csv", "--groups-per-unit", 1)
SCORES = ("scores.csv", "--score", "x", "--sensitivity", 1)
TDT = ("snps.csv", "--statistic", "tdt", "--b", "b", "--c", "c", "--families", 9, "--force")
WHERE = ("--where", "item = 'tea'")
# Whatever adds a name to a release or to its rows.
MORE = {
    "top with a threshold": (
        "top",
        "orders.csv",
        *ITEMS,
        *ROWS,
        "-k",
        2,
        "--threshold",
        -90,
        *WHERE,
    ),
    "mean of two columns": ("mean", "orders.csv", *FIGURE, "--column", "u", *ROWS),
    "quantile of two columns by group": (
        "quantile",
        "orders.csv",
        *FIGURE,
        "--column",
        "u",
        *ROWS,
        *BY,
        "--q",
        "0.5",
    ),
    "mean with its count and sum": (
        "mean",
        "orders.csv",
        *FIGURE,
        *ROWS,
        *BY,
        "--with",
        "count",
        "--with",
        "sum",
    ),
    "top of nothing": ("top", "orders.csv", *ITEMS, *ROWS, "-k", 2, "--threshold", 9000),
    "top of all": ("top", "orders.csv", *ITEMS, *ROWS, "-k", 2, "--simultaneous"),
    "top as a set": ("top", "orders.csv", *ITEMS, *ROWS, "-k", 2, "--set", *WHERE),
    "top as names": ("top", "orders.csv", *ITEMS, *ROWS, "-k", 2, "--set", "--selection-share", 1),
    "top of unlisted labels": ("top", "orders.csv", *UNLISTED, *ROWS, "-k", 2, "--kth-count", 30),
    "histogram of unlisted labels": ("histogram", "orders.csv", *UNLISTED, *ROWS),
    "above, unlisted": ("above", "orders.csv", *UNLISTED, *ROWS, "--threshold", 2, "-c", 1),
    "above, adaptive": (
        "above",
        "orders.csv",
        *ITEMS,
        *ROWS,
        "--threshold",
        -90,
        "-c",
        1,
        "--adaptive",
    ),
    "above, measured": (
        "above",
        "orders.csv",
        *ITEMS,
        *ROWS,
        "--threshold",
        -90,
        "-c",
        2,
        "--measure-share",
        "0.5",
        *WHERE,
    ),
    "histogram of rows": (
        "histogram",
        "orders.csv",
        *ITEMS,
        "--row-is-unit",
        "--bounded",
        0,
        9,
        *WHERE,
    ),
    "table of two columns": (
        "table",
        "orders.csv",
        "--item",
        "item",
        "--item",
        "u",
        "--domain",
        "item=items.csv",
        "--domain",
        "u=0:3",
        "--row-is-unit",
        "--no-negative",
        *WHERE,
    ),
    "histogram of two columns": (
        "histogram",
        "orders.csv",
        "--item",
        "item",
        "--item",
        "u",
        "--domain",
        "item=items.csv",
        "--domain",
        "u=0:3",
        "--row-is-unit",
    ),
    "histogram, capped": ("histogram", "orders.csv", *ITEMS, *ROWS),
    "count of rows": ("count", "orders.csv", *ROWS, *WHERE),
    "count within bounds": ("count", "orders.csv", "--row-is-unit", "--bounded", 0, 9),
    "quantiles of groups": (
        "quantile",
        "orders.csv",
        *FIGURE,
        *ROWS,
        "--q",
        "0.2,0.8",
        *BY,
        *WHERE,
    ),
    "quantile of both signs": (
        "quantile",
        "orders.csv",
        "--column",
        "x",
        "--cap",
        9,
        *ROWS,
        "--q",
        "0.5",
    ),
    "sum of both signs": (
        "sum",
        "orders.csv",
        "--column",
        "x",
        "--cap",
        9,
        "--lower",
        "none",
        *ROWS,
        *WHERE,
    ),
    "sum of groups": ("sum", "orders.csv", *FIGURE, *ROWS, *BY),
    "sum within bounds": ("sum", "orders.csv", *FIGURE, *ROWS, "--bounded", 0, 90),
    "variance of groups": ("variance", "orders.csv", *FIGURE, *ROWS, *BY, *WHERE),
    "exponential": ("select", *SCORES, "--method", "exponential", "--monotone"),
    "several candidates": ("select", *SCORES, "-k", 2, "--step", 1),
    "markers": ("select", *TDT, "--snp", "snp", "-k", 2, "--damping", 3),
}
LINES = {
    name: line for name, line in RELEASE_LINES.items() if not name.startswith("randomize")
} | MORE
LINES["select by a statistic"] = (*LINES["select by a statistic"], "--force")


@pytest.fixture
def released(told, tmp_path, monkeypatch):
    write_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    account = ("--ledger", "budget.db", "--account", "shop")

    def call(name, *, paid=False):
        payer = account if paid else ("--no-ledger",)
        if paid:
            about = ("--unit", "u", "--source", "orders.csv", "--epsilon", 9)
            assert told("", "ledger", "create", *account, *about).code == 0
        done = told(GIVEN.get(name, ""), *LINES[name], "--epsilon", 1, "--format", "json", *payer)
        assert done.code == 0, done.err
        return done

    return call


def look(name, done):
    if name == "above on stdin":
        for line in done.lines:
            check(line, FORM["$defs"]["verdict"], FORM)
    else:
        check(done.json, FORM)


@pytest.mark.parametrize("name", LINES)
@pytest.mark.sample(4)
def test_what_a_command_writes_is_what_the_file_says(released, name):
    done = released(name)
    look(name, done)
    assert name == "above on stdin" or done.json["schema"] == SCHEMA


@pytest.mark.parametrize("name", ["top", "above on stdin", "sum", "mean of two columns"])
def test_so_is_what_an_account_paid_for(released, name):
    look(name, released(name, paid=True))


def spoiled(told):
    """Broken twins of a release: each has one thing that the file does not know, or lacks one."""
    yield told | {"rows_read": 3}
    yield told | {"rows": [{**told["rows"][0], "exact_count": 2}]}
    yield told | {"schema": 2}
    yield told | {"crossed": "no"}
    for name in told:
        yield {key: value for key, value in told.items() if key != name}
    for name in told["rows"][0]:
        yield told | {
            "rows": [{key: value for key, value in told["rows"][0].items() if key != name}]
        }


def test_what_is_unknown_or_missing_is_refused(released):
    told = released("top").json
    twins = list(spoiled(told))
    assert len(twins) > 20
    for twin in twins:
        with pytest.raises(Invalid):
            check(twin, FORM)


def test_the_number_of_the_form_is_that_of_the_file():
    assert FORM["$defs"]["papers"]["properties"]["schema"]["const"] == SCHEMA


@pytest.mark.parametrize("twin", [{"type": "string", "oddly": 1}, {"format": "uri"}])
def test_the_checker_refuses_a_word_that_it_does_not_know(twin):
    with pytest.raises(KeyError):
        check("text", twin)
