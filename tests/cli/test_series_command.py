"""`sordino series`: started once, caught up by a nightly job, shown as a table, as JSON and as CSV."""

from __future__ import annotations

import json

import pytest

from series.shop import COUNT, ITEMS, Shop, count_until, make_rows
from sordino.ledger import Ledger

TODAY = ("--today", "2026-02-05")


@pytest.fixture
def shop(tmp_path, monkeypatch):
    made = Shop(tmp_path, make_rows(5))
    items = COUNT | {"release": '"histogram"', "item": '"product"', "domain": ITEMS}
    made.declare(visits=COUNT, items=items | {"levels": '["day"]'})
    monkeypatch.chdir(tmp_path)
    return made


def test_a_series_is_started_caught_up_and_shown(sordino, shop):
    refused = sordino("series", "catch-up", "visits", *TODAY)
    assert (refused.code, refused.out) == (5, "")
    assert "sordino series start visits" in refused.err
    started = sordino("series", "start", "visits")
    assert (started.code, started.out) == (0, "")
    assert "Next: sordino series catch-up visits" in started.err
    again = sordino("series", "start", "visits")
    assert (again.code, again.out) == (5, "")
    assert "was started before" in again.err
    caught = sordino("series", "catch-up", "visits", *TODAY)
    assert caught.code == 0, caught.err
    assert caught.err.count("Reading for") == 6
    last = caught.json
    truth = count_until(shop.rows, make_day("2026-02-02"))
    [row] = last["rows"]
    assert (row["part"], row["total"], row["periods"]) == ("2026-02-02", truth, 3)
    assert (last["kept"], last["lost"], last["open"], last["closed"], last["due"]) == (
        6,
        [],
        {},
        [],
        [],
    )
    assert (last["rates"], last["until"]) == ({"day": 116, "month": 84}, "2026-02-02")
    # Again, on the same night: nothing is read or charged, and it says the same.
    head = Ledger.open(shop.ledger, account="series-visits").statement().head
    quiet = sordino("series", "catch-up", "visits", *TODAY, "--quiet")
    assert (quiet.out, quiet.err) == (caught.out, "")
    shown = sordino("series", "show", "visits", *TODAY)
    assert [one["part"] for one in shown.json["rows"]][::4] == ["2026-01-29", "2026-02-02"]
    assert shown.json["rows"][-1] == row
    assert Ledger.open(shop.ledger, account="series-visits").statement().head == head
    table = sordino("series", "show", "visits", *TODAY, "--format", "table")
    assert "low to high: holds what the periods counted, with 95%." in table.out
    assert "Late rows count until 2 days after their own" in table.out
    assert "customer" in table.out.split("Protects: ")[1]
    # Of whom at most how many rows count is a sentence of its own.
    whom = table.out.split("Protects: ")[1].split(", add-remove")[0]
    assert f"\nOf {whom} at most 2 rows count.\n" in table.out
    csv = sordino("series", "show", "visits", *TODAY, "--format", "csv").out.splitlines()
    assert csv[0].startswith("part,total,low,high,revised,revised_low,revised_high,periods,")
    assert len(csv) == 6
    # Where rows are only ever added, no total falls; that is said afterwards, too.
    shop.declare(visits=COUNT | {"only_added": "true"})
    risen = sordino("series", "show", "visits", *TODAY).json
    lows = [one["at_least"] for one in risen["rows"]]
    assert (risen["only_added"], lows) == (True, sorted(lows))
    assert [one["at_most"] >= one["at_least"] == one["total"] for one in risen["rows"]] == [
        True
    ] * 5
    caught = sordino("series", "catch-up", "visits", *TODAY, "--quiet").json
    assert caught["rows"] == risen["rows"][-1:]
    csv = sordino("series", "show", "visits", *TODAY, "--format", "csv").out.splitlines()
    assert csv[0].startswith(f"part,{','.join(list(row)[1:])},at_least,at_most,")
    table = sordino("series", "show", "visits", *TODAY, "--format", "table")
    assert "at_least, at_most: if no row is ever deleted or changed, so many are" in table.out


def make_day(text):
    import datetime as dt

    return dt.date.fromisoformat(text)


def test_labels_are_shown_at_the_last_day_and_the_largest_of_them(sordino, shop):
    assert sordino("series", "start", "items").code == 0
    caught = sordino("series", "catch-up", "items", "--today", "2026-02-02", "--quiet")
    assert caught.code == 0, caught.err
    shown = sordino("series", "show", "items", "--today", "2026-02-02").json["rows"]
    assert caught.json["rows"] == shown
    assert [one["item"] for one in shown] == json.loads(ITEMS)
    assert {one["part"] for one in shown} == {"2026-01-30"}
    top = sordino("series", "show", "items", "--today", "2026-02-02", "--top", 2).json["rows"]
    totals = sorted((one["total"] for one in shown), reverse=True)
    assert [one["total"] for one in top] == totals[:2]
    assert top[0]["high"] >= max(one["high"] for one in shown)
    refused = sordino("series", "show", "items", "--top", 0)
    assert (refused.code, refused.out) == (2, "")
    assert "--top must be" in refused.err


def test_what_is_wrong_has_a_code_and_a_sentence(sordino, shop):
    for asked, code, says in (
        (("start", "visit"), 2, "must declare the series 'visit'"),
        (("start", "visits", "--declaration", "no.toml"), 2, "no.toml"),
        (("catch-up", "visits", "--today", "tomorrow"), 5, "must be started first"),
        (("show", "visits", "--today", "2026-13-01"), 5, "must be started first"),
    ):
        seen = sordino("series", *asked)
        assert (seen.code, seen.out) == (code, ""), (asked, seen.err)
        assert says in seen.err
    assert sordino("series", "start", "visits").code == 0
    seen = sordino("series", "show", "visits", "--today", "2026-13-01")
    assert (seen.code, seen.out) == (2, "")
    assert "must be a day as in 2026-11-27" in seen.err
