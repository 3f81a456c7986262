"""Labels that a call computes, from the command and a session to what a release, a ledger and JSON say."""

from __future__ import annotations

import datetime as dt
import random

import pandas as pd
import polars as pl
import psycopg
import pytest

import sordino as sd
from sordino.errors import InvalidParameter, UnknownDomain
from support.commands import sordino as sordino  # noqa: PLC0414 - a fixture
from support.postgres import database

MONTHS = [f"2024-{month:02}" for month in range(1, 13)]
USUAL = (
    "--user",
    "customer",
    "--max-rows",
    1,
    "--epsilon",
    8,
    "--synthetic",
    "--seed",
    3,
    "--format",
    "json",
)


def make_orders():
    chance = random.Random(4)
    return [
        (f"c{n}", dt.date(2024, 1, 1) + dt.timedelta(chance.randrange(366)), chance.randrange(100))
        for n in range(4000)
    ]


ORDERS = make_orders()


def count(name):
    found = [name(day) for _, day, _ in ORDERS]
    return {label: found.count(label) for label in set(found)}


@pytest.fixture
def table(tmp_path):
    lines = ["customer,ordered_at,price", *(f"{who},{day},{price}" for who, day, price in ORDERS)]
    (tmp_path / "orders.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "months.csv").write_text("\n".join(["month", *MONTHS]) + "\n")
    return tmp_path


def near(rows, wanted):
    assert [row["item"] for row in rows] == sorted(wanted)
    assert all(abs(row["estimate"] - wanted[row["item"]]) < 10 for row in rows)


def test_histograms_of_a_file(sordino, table):
    typed = (table / "orders.csv", "--type", "ordered_at=date")
    listed = ("--domain", table / "months.csv")
    by_month = sordino("histogram", *typed, "--item", "month(ordered_at)", *listed, *USUAL)
    assert by_month.code == 0, by_month.err
    near(by_month.json["rows"], count(lambda day: f"{day:%Y-%m}"))
    assert by_month.json["item"] == "month(ordered_at)"
    spanned = sordino(
        "histogram", *typed, "--item", "month(ordered_at)", "--domain", "2024-01..2024-12", *USUAL
    )
    assert spanned.json["rows"] == by_month.json["rows"]
    weekdays = sordino("histogram", *typed, "--item", "weekday(ordered_at)", *USUAL)
    near(weekdays.json["rows"], count(lambda day: str(day.isoweekday())))
    assert weekdays.json["domain"] == "all values of weekday(ordered_at)"
    bins = sordino("histogram", *typed, "--item", "bin(price, 20, 50)", *USUAL)
    assert [row["item"] for row in bins.json["rows"]] == [
        "below 20",
        "20 to below 50",
        "50 or more",
    ]
    untyped = sordino(
        "histogram", table / "orders.csv", "--item", "month(ordered_at)", *listed, *USUAL
    )
    assert untyped.code != 0
    assert (
        "ordered_at is a text here. Declare it: --type ordered_at=date, or =timestamp if there is "
        "a time of day" in untyped.err
    )
    missing = sordino("histogram", *typed, "--item", "month(ordered_at)", *USUAL)
    assert missing.code != 0
    assert "must have a public domain" in missing.err


def test_figures_and_plans_of_a_file(sordino, table):
    typed = (table / "orders.csv", "--type", "ordered_at=date")
    asked = (
        "--column",
        "price",
        "--cap",
        100,
        "--lower",
        0,
        "--by",
        "quarter_of_year(ordered_at)",
        *USUAL,
    )
    means = sordino("mean", *typed, *asked)
    assert means.code == 0, means.err
    assert [row["item"] for row in means.json["rows"]] == list("1234")
    assert all(40 < row["estimate"] < 60 for row in means.json["rows"])
    assert means.json["by"] == "quarter_of_year(ordered_at)"
    top = sordino("top", *typed, "--item", "month(ordered_at)", "--domain", "2024-01..2025-12", "--k", 12,
                  "--where", "weekday(ordered_at) in ('6', '7')", *USUAL)  # fmt: skip
    assert {row["item"] for row in top.json["rows"]} == set(MONTHS)
    dry = ("--item", "weekday(ordered_at)", *USUAL, "--dry-run")
    plan = sordino("histogram", *typed, *dry)
    assert plan.code == 0, plan.err


STUDY = """
name = "orders"
[source]
path = "orders.csv"
types = {ordered_at = "date"}
[unit]
column = "customer"
max_rows = 1
[account]
ledger = "budget.db"
name = "orders"
[budget]
epsilon = 24
[[release]]
name = "months"
kind = "histogram"
item = "month(ordered_at)"
domain = "2024-01..2024-12"
epsilon = 8
[[release]]
name = "weekdays"
kind = "histogram"
item = "weekday(ordered_at)"
where = "left(price, 1) IN ('1', '2')"
epsilon = 8
[[release]]
name = "means"
kind = "mean"
column = "price"
by = "bin(price, 50)"
lower = 0
cap = 100
epsilon = 8
"""


def test_a_study_reads_the_table_once_for_all_of_them(sordino, table, monkeypatch):
    monkeypatch.chdir(table)
    (table / "study.toml").write_text(STUDY)
    made = ("--ledger", "budget.db", "--account", "orders", "--epsilon", 30, "--unit", "customer")
    assert sordino("ledger", "create", *made, "--source", "orders.csv").code == 0
    ran = sordino("run", "study.toml", "--output", "runs")
    assert ran.code == 0, ran.err
    months = pl.read_csv(table / "runs" / "months.csv").to_dicts()
    near(months, count(lambda day: f"{day:%Y-%m}"))
    means = pl.read_csv(table / "runs" / "means.csv")
    assert means["item"].to_list() == ["below 50", "50 or more"]
    assert 20 < means["estimate"][0] < 30 < 70 < means["estimate"][1] < 80


def test_a_table_of_a_server(sordino):
    with psycopg.connect(database(), autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS labels CASCADE; CREATE SCHEMA labels;"
                           "CREATE TABLE labels.orders (customer text, ordered_at date, price int)")  # fmt: skip
        with connection.cursor().copy("COPY labels.orders FROM STDIN") as copy:
            for order in ORDERS:
                copy.write_row(order)
        source = f"{database()}#labels.orders"
        found = sordino(
            "histogram",
            source,
            "--item",
            "month(ordered_at)",
            "--domain",
            "2024-01..2024-12",
            *USUAL,
        )
        assert found.code == 0, found.err
        near(found.json["rows"], count(lambda day: f"{day:%Y-%m}"))
        sums = sordino(
            "sum",
            source,
            "--column",
            "price",
            "--cap",
            100,
            "--lower",
            0,
            "--by",
            "weekday(ordered_at)",
            *USUAL,
        )
        assert [row["item"] for row in sums.json["rows"]] == list("1234567")
        connection.execute("DROP SCHEMA labels CASCADE")


@pytest.mark.parametrize("kind", ["polars", "pandas"])
def test_a_session_says_in_all_forms_what_was_computed(tmp_path, kind):
    frame = pl.DataFrame(ORDERS, schema=["customer", "day", "price"], orient="row")
    orders = (
        frame if kind == "polars" else pd.DataFrame(ORDERS, columns=["customer", "day", "price"])
    )
    unit = sd.PrivacyUnit("customer", max_rows=1)
    ledger = sd.Ledger.create(
        tmp_path / "l.db",
        account="a",
        budget=sd.Budget(epsilon=90, delta=1e-6),
        source="name:orders",
        unit=unit,
        adjacency=unit.adjacency,
    )
    session = sd.Session(orders, unit=unit, ledger=ledger, name="orders")
    months = session.histogram("month(day)", epsilon=8, domain="2024-01..2024-12")
    near(
        [row.to_dict() if hasattr(row, "to_dict") else vars(row) for row in months.rows],
        count(lambda day: f"{day:%Y-%m}"),
    )
    assert months.population.item == "month(day)"
    assert months.population.domain == "2024-01..2024-12"
    again = session.remeasure(months, epsilon=8)
    assert [row.item for row in again] == MONTHS
    session.keep(months)
    kept = sd.Session(orders, unit=unit, ledger=ledger, name="orders").remeasure(
        months.receipt.id, epsilon=8
    )
    assert [row.item for row in kept] == MONTHS
    ranked = session.top_k("bin(price, 50)", k=1, epsilon=8)
    assert ranked.rows[0].item in {"below 50", "50 or more"}
    bins = session.histogram("bin(price, 9, 50)", epsilon=1)
    session.keep(bins)
    looked = session.remeasure(bins.receipt.id, epsilon=1)
    named = ["below 9", "9 to below 50", "50 or more"]
    assert [row.item for row in looked] == [row.item for row in bins.rows] == named
    with session.batch():
        days = session.histogram("weekday(day)", epsilon=1)
        sums = session.sum("price", by="weekday(day)", epsilon=8, cap=100, lower=0)
    assert (
        [row.item for row in days.result.rows]
        == [row.item for row in sums.result]
        == list("1234567")
    )
    with pytest.raises(UnknownDomain):
        session.histogram("month(day)", epsilon=1)
    with pytest.raises(InvalidParameter, match="must be a column of the source"):
        session.sum("month(day)", by="month(day)", epsilon=1, cap=1, lower=0, domain=MONTHS)
