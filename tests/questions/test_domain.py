"""Public domains: what they list, and that they are never read from the private source."""

from __future__ import annotations

import datetime as dt
import os

import duckdb
import numpy as np
import polars as pl
import pytest

from sordino.errors import DataSourceError, InvalidParameter, UnknownDomain, UnsafePredicate
from sordino.questions import Domain, PrivacyUnit, prepare_counts
from sordino.sources import open_source


@pytest.fixture
def shop(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pl.DataFrame({"user": [1, 2], "item": ["a", "b"]}).write_parquet("orders.parquet")
    pl.DataFrame({"item": ["b", "c", None, "c"], "n": [1, 2, 3, 4]}).write_parquet("items.parquet")
    (tmp_path / "items.csv").write_text('\ufeffitem,name\nb,"x, y"\na,z\n,w\n')
    (tmp_path / "one.csv").write_text("item\nq\n")
    (tmp_path / "hard.parquet").hardlink_to("orders.parquet")
    (tmp_path / "soft.parquet").symlink_to("orders.parquet")
    return tmp_path


@pytest.fixture
def orders(shop):
    return open_source("orders.parquet")


def test_lists():
    assert Domain.of(["b", "a", None, "b", "é", "Z"]).labels == ("Z", "a", "b", "é")
    values = [
        10,
        np.int64(9),
        True,
        np.bool_(False),
        dt.date(2024, 1, 2),
        dt.datetime.fromisoformat("2024-01-02T03:04"),
        dt.datetime.fromisoformat("2024-01-02T03:04:05.5"),
    ]
    assert Domain.of(values).labels == (
        "10",
        "2024-01-02",
        "2024-01-02 03:04:00",
        "2024-01-02 03:04:05.5",
        "9",
        "false",
        "true",
    )
    for wrong in ([], [None], "ab", 3, [1.5], ["a\0"], ["\ud800"], [b"a"]):
        with pytest.raises(InvalidParameter):
            Domain.of(wrong)


def test_texts_of_values_are_those_of_the_engine():
    frame = pl.DataFrame(
        {
            "day": [dt.date(2024, 1, 2), dt.date(1, 2, 3)],
            "truth": [True, False],
        }
    )
    for name in frame.columns:
        question = prepare_counts(
            open_source(frame),
            PrivacyUnit.row(),
            kind="items",
            item=name,
            domain=frame[name].to_list(),
        )
        assert question.run().values.tolist() == [1, 1]


def test_files(orders, shop):
    assert Domain.from_file("one.csv").resolve(orders).labels == ("q",)
    named = Domain.from_file("items.csv", "item").resolve(orders)
    assert (named.labels, named.size) == (("a", "b"), 2)
    assert named.origin == (
        "file items.csv, column item, 2 labels; its first line was taken for the header: 'item,name'"
    )
    assert Domain.from_file("items.parquet", "item").resolve(orders).labels == ("b", "c")
    assert Domain.from_file(shop / "items.parquet", "n").resolve(orders).labels == (
        "1",
        "2",
        "3",
        "4",
    )
    for column in (None, "nome"):
        with pytest.raises(InvalidParameter, match="'item', 'name'"):
            Domain.from_file("items.csv", column).resolve(orders)
        with pytest.raises(InvalidParameter, match="'item', 'n'"):
            Domain.from_file("items.parquet", column).resolve(orders)
    with pytest.raises(DataSourceError, match="must exist"):
        Domain.from_file("nowhere.csv").resolve(orders)
    (shop / "bad.csv").write_bytes(b"item\n\xff\n")
    (shop / "empty.csv").write_bytes(b"item\n")
    with pytest.raises(DataSourceError, match="UTF-8 CSV"):
        Domain.from_file("bad.csv").resolve(orders)
    with pytest.raises(InvalidParameter, match="one label or more"):
        Domain.from_file("empty.csv").resolve(orders)
    with pytest.raises(UnknownDomain):
        _ = Domain.from_file("one.csv").labels


@pytest.mark.parametrize(
    "name", ["orders.parquet", "hard.parquet", "soft.parquet", "./orders.parquet"]
)
def test_the_source_is_no_domain(orders, shop, name):
    with pytest.raises(UnsafePredicate, match="is a file of the source"):
        Domain.from_file(name, "item").resolve(orders)
    for query in (
        f"SELECT item FROM '{name}'",
        f"SELECT item FROM read_parquet(['items.parquet', '{shop / name}'])",
    ):
        with pytest.raises(UnsafePredicate, match="--domain-sql-file"):
            Domain.from_sql(query, files=["items.parquet"]).resolve(orders)
        with pytest.raises(UnsafePredicate, match="is a file of the source"):
            Domain.from_sql(query, files=["items.parquet", name]).resolve(orders)


def test_queries(orders, shop):
    for query, labels in {
        "SELECT item FROM 'items.csv' WHERE name <> 'z'": ("b",),
        "SELECT item FROM read_parquet('items.parquet');": ("b", "c"),
        f"FROM (SELECT n FROM '{shop / 'items.parquet'}')": ("1", "2", "3", "4"),
        "WITH t AS (SELECT 'x' AS label UNION ALL SELECT item FROM 'one.csv') SELECT * FROM t -- all": (
            "q",
            "x",
        ),
        "SELECT unnest(range(3))": ("0", "1", "2"),
        "VALUES ('a'), (NULL), ('b')": ("a", "b"),
    }.items():
        named = [name for name in ("items.csv", "items.parquet", "one.csv") if name in query]
        domain = Domain.from_sql(query, files=named).resolve(orders)
        assert domain.labels == labels
        # How many, and what the column is called: perhaps like a line taken for the header.
        over = f"sql over {', '.join(named)}" if named else "sql"
        assert domain.origin.startswith(f"{over}, column ")
        assert domain.origin.endswith(f", {len(labels)} label{'s' if len(labels) > 1 else ''}")


REFUSED = [
    "SELECT 1; SELECT 2",
    "",
    "   ",
    "DROP TABLE x",
    "COPY (SELECT 1) TO 'out.csv'",
    "ATTACH 'orders.db'",
    "SET threads = 1",
    "INSTALL httpfs",
    "CREATE TABLE x AS SELECT 1",
    "PRAGMA version",
    "SELECT item FROM '*.parquet'",
    "SELECT item FROM read_parquet('ord*.parquet')",
    "SELECT item FROM read_parquet('or' || 'ders.parquet')",
    "SELECT item FROM read_parquet(concat('orders', '.parquet'))",
    "SELECT content FROM read_text('/etc/host' || 'name')",
    "SELECT file FROM glob('*')",
    "SELECT item FROM orders",
    "SELECT item FROM frame",
    "SELECT * FROM query('SELECT item FROM ' || chr(39) || 'orders.' || 'parquet' || chr(39))",
    "SELECT item FROM 'nowhere.csv'",
    "SELECT 1, 2",
    "SELECT 1.5e0",
    "SELECT [1]",
    "SELECT 1 WHERE false",
    "SELECT",
    "SELECT 1) UNION (SELECT 2",
]


@pytest.mark.parametrize("query", REFUSED)
@pytest.mark.sample(4)
def test_refused_queries(orders, query):
    frame = pl.DataFrame({"item": ["a"]})
    with pytest.raises((UnsafePredicate, InvalidParameter)):
        Domain.from_sql(query, files=["items.csv"]).resolve(orders)
    assert frame.height == 1


def test_a_query_sees_no_database_of_the_source(shop):
    con = duckdb.connect("shop.db")
    con.execute("CREATE TABLE orders AS SELECT 1 AS user, 'a' AS item")
    con.close()
    source = open_source("duckdb:shop.db#orders")
    os.link("shop.db", "other.db")
    for query in (
        "SELECT item FROM 'shop.db'",
        "SELECT item FROM read_duckdb('other.db')",
        "SELECT item FROM shop.orders",
    ):
        with pytest.raises((UnsafePredicate, InvalidParameter)):
            Domain.from_sql(query).resolve(source)


def test_a_domain_is_resolved_when_the_question_is_prepared(orders):
    question = prepare_counts(
        orders,
        PrivacyUnit("user"),
        kind="items",
        item="item",
        domain=Domain.from_file("items.csv", "item"),
    )
    assert question.domain.size == 2
    assert question.run().values.tolist() == [1, 1]
