"""What the command writes of labels that nobody listed: a rho never stands without the delta that goes with it."""

from __future__ import annotations

import csv
import io
import json

import pytest


def test_a_rho_has_its_delta_in_every_format(sordino, orders, tmp_path):
    account = ("--ledger", tmp_path / "budget.db", "--account", "a")
    made = (
        "--epsilon",
        9,
        "--delta",
        "1e-4",
        "--failures",
        "1e-5",
        "--source",
        orders,
        "--unit",
        "customer",
    )
    assert sordino("ledger", "create", *account, *made).code == 0
    asked = (
        "histogram",
        orders,
        "--item",
        "product",
        "--user",
        "customer",
        "--max-rows",
        2,
        *account,
    )
    asked += ("--epsilon", 1, "--unlisted", "--delta", "1e-6", "--noise", "gaussian")
    told = sordino(*asked, "--format", "json").json
    assert told["rho"] > 0
    assert told["failures"] == 1e-6
    rows = list(csv.DictReader(io.StringIO(sordino(*asked, "--format", "csv").out)))
    assert {row["failures"] for row in rows} == {"1e-06"}
    assert "and delta 1e-06" in sordino(*asked, "--format", "table", "--details").out


def test_the_odds_of_such_a_release_hold_but_for_a_failure(sordino, orders):
    """Without it the sentence would say more than is proved: a label may be that of one unit alone."""
    asked = (
        "top",
        orders,
        "--item",
        "product",
        "--user",
        "customer",
        "-k",
        1,
        "--no-ledger",
        "--no-quiet",
    )
    told = sordino(*asked, "--epsilon", 1, "--unlisted", "--delta", "1e-4").err
    assert "At epsilon 1, someone" in told
    assert " in 1,000, but for a chance of 1 in 5,000." in told


@pytest.mark.parametrize("wild", ["a\u009b31mred", "a\u202etxt", "a\u2028b", "a\x7fb", "a\x1b[31m"])
def test_a_label_steers_no_terminal_in_json_either(sordino, wild, tmp_path):
    """JSON itself spells out the control characters of ASCII alone."""
    path = tmp_path / "t.csv"
    path.write_text("who,what\n" + "".join(f"u{i},{wild}\n" for i in range(80)), encoding="utf-8")
    options = (
        "--user",
        "who",
        "--max-rows",
        "1",
        "-k",
        "1",
        "--epsilon",
        "4",
        "--seed",
        "7",
        "--synthetic",
    )
    labels = ("--item", "what", "--unlisted", "--delta", "1e-6")
    done = sordino("top", path, *options, *labels, "--format", "json")
    assert done.code == 0
    assert wild not in done.out
    assert [row["item"] for row in json.loads(done.out)["rows"]] == [wild]
