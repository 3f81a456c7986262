"""Commands over several columns of which nobody lists some: what is listed, what is found, and what is refused before a charge."""

from __future__ import annotations

import pytest

WHOM = ("--user", "customer", "--max-rows", 3, "--no-ledger")
SEARCH = ("--unlisted", "--delta", "1e-6")
ITEM = ("--item", "product", "--item", "price")
LISTED = ("--domain", "product=items.csv")


@pytest.fixture
def ask(sordino, orders, monkeypatch):
    monkeypatch.chdir(orders.parent)
    (orders.parent / "items.csv").write_text("name\nrice\nsalt\nsaffron\n", encoding="utf-8")
    return lambda name, *more: sordino(name, orders, *more, *WHOM, "--epsilon", 4)


@pytest.mark.slow
def test_columns_are_listed_or_found_each_by_itself(ask):
    for name, more in (
        ("top", ("-k", 9)),
        ("histogram", ()),
        ("above", ("--threshold", 5, "-c", 9)),
    ):
        told = ask(name, *ITEM, *LISTED, *SEARCH, *more, "--format", "json").json
        assert told["item"] == ["product", "price"]
        assert told["domain"].endswith("'name'; price: unlisted, delta 1/1000000, least 1")
        assert {tuple(row["item"]) for row in told["rows"]} == {("rice", "3"), ("rice", "4")}
    every = ask("histogram", *ITEM, *SEARCH, "--format", "json").json
    assert {row["item"][0] for row in every["rows"]} == {"tea", "rice", "unlisted"}
    groups = ("--by", "product", "--by", "price", "--groups-per-unit", 2, "--most-groups", 9)
    counted = ("--per-person", "count", "--lower", 0)
    told = ask("sum", *groups, *LISTED, *SEARCH, *counted, "--format", "json")
    assert told.code == 2, "a bound on rows does not count where people are added up"
    lines = ask(
        "mean",
        "--column",
        "price",
        *groups,
        *LISTED,
        *SEARCH,
        "--cap",
        9,
        "--lower",
        0,
        "--format",
        "csv",
    ).out
    assert {line.rpartition(",mean")[0].split(",mean")[0] for line in lines.splitlines()[1:]} == {
        "rice,3",
        "rice,4",
    }


def test_what_is_missing_or_too_much_is_said_before_the_charge(ask):
    both = (*LISTED, "--domain", "price=items.csv")
    for more, says in (
        ((*both, *SEARCH), "--unlisted must leave a column without labels"),
        (("--domain", "items.csv", *SEARCH), "--domain must be COL=FILE"),
        ((*LISTED, "--unlisted"), "--unlisted needs --delta D"),
        ((*LISTED, "--delta", "1e-6"), "--delta needs --unlisted"),
        ((*LISTED, "--least", 3), "--least needs --unlisted"),
        (("--assume-public", *SEARCH), "--assume-public is for one column"),
        (LISTED, 'item "price": no labels'),
    ):
        said = ask("top", *ITEM, *more, "-k", 2)
        assert said.code == 2
        assert says in said.err
    assert ask("table", *ITEM, *LISTED, *SEARCH).code == 2
