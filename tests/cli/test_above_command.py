"""`sordino above` over a table: what it prints, what it refuses before the charge, what returns to the account."""

from __future__ import annotations

import csv
import io

import pytest

from support.release_lines import paid


@pytest.fixture
def above(sordino, orders, tmp_path):
    """`sordino above` on the shop, with changes."""
    base = {
        "--item": "product",
        "--user": "customer",
        "--threshold": 50,
        "-c": 3,
        "--epsilon": 4,
        "--domain": tmp_path / "items.csv",
        "--domain-column": "name",
    }

    def call(*flags, source=None, **changes):
        options = base | {"--" + name.replace("_", "-"): value for name, value in changes.items()}
        if "c" in changes:
            options["-c"] = options.pop("--c")
        listed = [
            part for name, value in options.items() if value is not None for part in (name, value)
        ]
        return sordino("above", source or orders, *paid(*listed, *flags))

    return call


def test_above_as_json(above, sordino, account):
    result = above(*account)
    assert (result.code, result.err) == (0, "")
    rows = result.json["rows"]
    assert [row["item"] for row in rows] == ["rice", "tea"]
    for row, count in zip(rows, (100, 300), strict=True):
        assert list(row) == ["item", "estimate", "low", "high", "gap"]
        assert abs(row["estimate"] - count) < 40
        assert row["low"] < count + 40
        assert row["high"] is None
    facts = {
        key: result.json[key]
        for key in (
            "release",
            "adjacency",
            "unit",
            "item",
            "threshold",
            "asked",
            "complete",
            "simulated",
            "exact",
        )
    }
    assert facts == {
        "release": "above",
        "adjacency": "add-remove",
        "unit": "column customer",
        "item": "product",
        "threshold": 50.0,
        "asked": 4,
        "complete": True,
        "simulated": False,
        "exact": True,
    }
    assert 0 < result.json["epsilon"] < 4
    spent = sordino("ledger", "show", *account).json
    assert spent["spent"] == pytest.approx(result.json["epsilon"], abs=1e-8), (
        "what was not found returned"
    )
    assert spent["rows"][0]["label"] == "above"


def test_above_as_csv_and_table(above):
    rows = list(
        csv.DictReader(io.StringIO(above("--format", "csv", "--synthetic", "--seed", 3).out))
    )
    assert [row["item"] for row in rows] == ["rice", "tea"]
    assert list(rows[0]) == [
        "item",
        "estimate",
        "low",
        "high",
        "gap",
        "left_out",
        "confidence",
        "threshold",
        "adjacency",
        "unit",
        "max_rows",
        "domain",
        "noise",
        "measure_noise",
        "simulated",
        "epsilon",
        "delta",
        "id",
        "time",
        "account",
        "version",
        "schema",
    ]
    table = above("--format", "table", "--details", "--synthetic", "--seed", 3).out
    assert table.splitlines()[0].split() == list(rows[0])[:5]
    assert "Asked: 4; all items were asked." in table
    assert "95% lower bound" in table
    assert "SIMULATED" in table
    one = above("--format", "table", "--details", c=1).out
    assert "Asked: 1; enough was found" in one or "Asked: 2; enough was found" in one
    none = above("--format", "table", "--details", threshold=10**6).out
    assert none.splitlines()[0] == one.splitlines()[0], "the same columns"
    assert none.splitlines()[1].startswith("estimate:"), "no rows, and still what it cost"


def test_what_was_found_is_measured(above):
    result = above("--format", "table", "--details", measure_share="0.75")
    assert "95% interval" in result.out
    rows = above(measure_share="0.75").json["rows"]
    assert all(row["low"] < row["high"] for row in rows)


def test_the_adaptive_one_says_which_test_found(above):
    result = above("--adaptive", c=1)
    assert [row["branch"] for row in result.json["rows"]][-1] == 0
    assert [row["item"] for row in result.json["rows"]] == ["rice", "tea"]


def test_shapes_go_through(above):
    result = above("--correction", "optimal", "--noise", "laplace", "--split", "0.4")
    assert [row["item"] for row in result.json["rows"]] == ["rice", "tea"]
    assert above("--correction", "3.5", "--split", "success", "--correction-margin", 20).code == 0


def test_a_range_as_domain(sordino, orders):
    line = (
        "above",
        orders,
        "--item",
        "price",
        "--user",
        "customer",
        "--threshold",
        72,
        "-c",
        3,
        "--epsilon",
        4,
        "--no-ledger",
    )
    result = sordino(*line, "--domain-range", "0:1000000000000")
    assert [row["item"] for row in result.json["rows"]] == ["3", "4"]
    assert result.json["domain"] == "range 0:1000000000000"
    for wrong in ("0", "a:b", "0:1.5", "5:5", "9:3", "0:9999999999999999999"):
        refused = sordino(*line, "--domain-range", wrong)
        assert (refused.code, refused.out) == (2, "")
        assert "range" in refused.err


def test_the_top_above_a_threshold(top):
    result = top(k=4, threshold=50)
    assert [row["item"] for row in result.json["rows"]] == ["tea", "rice"]
    assert (result.json["crossed"], result.json["threshold"]) == (True, 50.0)
    assert result.json["epsilon"] < 4
    table = top("--format", "table", "--details", k=1, threshold=50).out
    assert "Threshold: 50; the list is full." in table
    none = top("--format", "table", "--details", threshold=10**6)
    assert none.code == 0
    assert "the threshold ended the list" in none.out
    assert none.out.splitlines()[0] == table.splitlines()[0], "names of columns, also above no row"
    assert top(threshold=10**6).json["rows"] == []


REFUSED = {
    "no item": ({"item": None}, (), "--item must name the column"),
    "no domain": ({"domain": None, "domain_column": None}, (), "Give exactly one of --domain"),
    "c zero": ({"c": 0}, (), "above.positives must be a whole number, at least 1; got 0."),
    "threshold nan": ({"threshold": "nan"}, (), "'nan' is not a finite decimal number"),
    "threshold inf": ({"threshold": "inf"}, (), "'inf' is not a finite decimal number"),
    "epsilon zero": ({"epsilon": 0}, (), "above.epsilon must be a number in (0, inf)"),
    "share": ({"measure_share": 1}, (), "above.measure_share must be a number in (0, 1)"),
    "split": ({"split": "most"}, (), "'most' is not a finite decimal number"),
    "split nan": ({"split": "nan"}, (), "is not a finite decimal number"),
    "correction": ({"correction": "inf"}, (), "is not a finite decimal number"),
    "sensitivity": ({"sensitivity": 1}, (), "--sensitivity is for answers on standard input"),
    "monotone": ({}, ("--monotone",), "--monotone is for answers on standard input"),
    "success and adaptive": ({"split": "success"}, ("--adaptive",), "AdaptiveSparseVector.split"),
}


@pytest.mark.parametrize(("changes", "flags", "words"), REFUSED.values(), ids=REFUSED)
def test_public_mistakes_cost_nothing(above, sordino, account, changes, flags, words):
    result = above(*flags, *account, **changes)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert sordino("ledger", "show", *account).json["spent"] == 0


def test_a_budget_that_does_not_allow_the_worst_case(above, account):
    result = above(*account, "--yes-i-mean-it", epsilon=11)
    assert (result.code, result.out) == (3, "")
