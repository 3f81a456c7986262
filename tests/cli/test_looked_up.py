"""Look-ups of a declared table: what commands find, say and refuse, and which account pays."""

from __future__ import annotations

import csv
import io
import random

import pytest

DECLARED = """
[table.orders]
source = "orders.csv"
person = "customer"
account = {ledger = "l.db", name = "orders"}
lookup.products = {source = "public/products.csv", key = "product"}
lookup.people = {source = "people.csv", key = "id", of = "customer", private = true}
labels."people.region" = "public/regions.csv"
"""


@pytest.fixture
def shop(tmp_path, monkeypatch, sordino):
    monkeypatch.chdir(tmp_path)
    chance = random.Random(4)
    (tmp_path / "public").mkdir()

    def write(path, *rows):
        with (tmp_path / path).open("w", newline="") as file:
            csv.writer(file).writerows(rows)

    write(
        "orders.csv",
        ["customer", "product"],
        *([f"u{chance.randrange(400)}", f"p{n % 6}"] for n in range(2000)),
    )
    write(
        "people.csv",
        ["id", "region", "joined"],
        *([f"u{n}", "NSE"[n % 3], f"202{n % 4}-05-01"] for n in range(390)),
    )
    write(
        "public/products.csv",
        ["product", "kind"],
        *([f"p{n}", ["drink", "food"][n % 2]] for n in range(6)),
    )
    write("public/regions.csv", ["region"], ["N"], ["S"], ["E"])
    assert (
        sordino(
            "declare",
            "orders.csv",
            "--person",
            "customer",
            "--epsilon",
            "90",
            "--account",
            "orders",
        ).code
        == 0
    )
    (tmp_path / "sordino.toml").write_text(DECLARED.replace("l.db", "budget.db"))
    return tmp_path


def widen(sordino):
    return sordino(
        "ledger", "resource", "--ledger", "budget.db", "--account", "orders", "--to", "orders"
    )


def test_an_account_learns_of_private_tables_before_it_pays(shop, sordino):
    asked = ("histogram", "orders", "--item", "people.region", "--epsilon", "1")
    refused = sordino(*asked)
    assert refused.code != 0
    assert "ledger resource --to NAME" in refused.err
    assert "Nothing was charged" in refused.err
    assert widen(sordino).code == 0
    found = sordino(*asked)
    assert [row["item"] for row in found.json["rows"]] == ["N", "S", "E"]
    # One region a person: noise for one.
    assert found.json["standard_error"] < 2
    # A second time there is nothing left to learn.
    assert widen(sordino).code != 0
    assert sordino("ledger", "verify", "--ledger", "budget.db", "--account", "orders").code == 0


def test_every_form_says_what_was_looked_up(shop, sordino):
    widen(sordino)
    asked = (
        "table",
        "orders",
        "--item",
        "people.region",
        "--item",
        "products.kind",
        "--epsilon",
        "9",
        "--keep",
        "--format",
        "json",
    )
    told = sordino(*asked).json
    private, public = told["lookups"]
    assert public.startswith("products: file public/products.csv, key product, SHA-256 ")
    assert private.startswith("people: private table, one row of each person by id")
    line = next(csv.DictReader(io.StringIO(sordino(*asked[:-1], "csv").out)))
    assert public in line["lookups"]
    assert private.split(",")[0] in line["lookups"]
    assert "Looked up: people: private table" in sordino(*asked[:-1], "table", "--details").out
    kept = sordino("ledger", "release", "--ledger", "budget.db", "--account", "orders", told["id"])
    assert kept.json["lookups"] == told["lookups"]
    (shop / "r.json").write_text(sordino(*asked).out)
    assert sordino("report", "r.json", "--output", "r.html").code == 0
    page = (shop / "r.html").read_text()
    assert "Looked up" in page
    assert "private table, one row of each person" in page


def test_calls_filters_and_plans_see_them(shop, sordino):
    widen(sordino)
    count = ("count", "orders", "--units", "--epsilon", "9")
    assert (
        abs(
            sordino(*count, "--where", "products.kind = 'drink' AND people.region = 'N'").json[
                "rows"
            ][0]["estimate"]
            - 120
        )
        < 20
    )
    years = sordino(
        "histogram",
        "orders",
        "--item",
        "year(people.joined)",
        "--domain",
        "2020..2023",
        "--epsilon",
        "9",
    ).json
    assert all(80 < row["estimate"] < 100 for row in years["rows"])
    plan = sordino(
        "top", "orders", "--item", "products.kind", "-k", "1", "--epsilon", "1", "--dry-run"
    )
    assert plan.code == 0
    # Nothing is typed of labels that a public table has; of others something must be.
    assert sordino("histogram", "orders", "--item", "people.joined", "--epsilon", "1").code == 2


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ('lookup.products = {source = "public/products.csv"}', "must say its file and its key"),
        ('lookup.products = "public/products.csv"', "must say its file and its key"),
        ("lookup = 3", "must say its file and its key"),
        (
            'lookup.products = {source = "public/products.csv", key = "p"}',
            "must be one of 'product', 'kind'",
        ),
        ('lookup.products = {source = "public/products.csv", key = "product", keys = 1}', "keys"),
        ('lookup.products = {source = "public/products.csv", key = 3}', "key"),
        (
            'lookup.products = {source = "people.csv", key = "id", of = "customer"}',
            "private = true",
        ),
        (
            'lookup.products = {source = "public/products.csv", key = "product", private = true}',
            "leave private away",
        ),
        (
            'lookup.products = {source = "orders.csv", key = "product"}',
            "must not be made of the rows",
        ),
        ('lookup.2x = {source = "public/products.csv", key = "product"}', "letters, digits and _"),
    ],
)
@pytest.mark.sample(3)
def test_a_wrong_look_up_is_refused_before_anything_is_charged(shop, sordino, line, match):
    text = "".join(
        f"{one}\n" for one in DECLARED.splitlines() if not one.startswith(("lookup", "labels"))
    )
    (shop / "sordino.toml").write_text(text.replace("l.db", "budget.db") + line + "\n")
    refused = sordino("count", "orders", "--units", "--epsilon", "1")
    assert refused.code != 0
    assert match in refused.err
    history = sordino("ledger", "history", "--ledger", "budget.db", "--account", "orders")
    assert '"reserve"' not in history.out


def test_a_run_with_another_look_up_is_another_request(shop, sordino):
    widen(sordino)
    asked = ("count", "orders", "--units", "--epsilon", "1", "--run-id", "monday")
    first = sordino(*asked)
    assert first.code == 0
    assert sordino(*asked).out == first.out
    declared = shop / "sordino.toml"
    declared.write_text(
        declared.read_text().replace('key = "product"', 'key = "product", of = "product"')
    )
    assert "paid for another request" in sordino(*asked).err


def test_a_report_says_both_bounds(shop, sordino):
    widen(sordino)
    said = sordino(
        "histogram",
        "orders",
        "--item",
        "products.kind",
        "--where",
        "people.region = 'N'",
        "--max-rows",
        "1",
        "--epsilon",
        "9",
    )
    (shop / "r.json").write_text(said.out)
    assert sordino("report", "r.json", "--output", "r.html").code == 0
    page = (shop / "r.html").read_text()
    assert "at most 1 item of each" in page
    assert "by one row of people, drawn if there are more" in page
