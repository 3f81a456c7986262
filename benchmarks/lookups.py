"""Look-ups: what they take beside the engine's own join of the same files.

Ratios within one run, medians of five, each pair one after the other. Counted are distinct persons of each label.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb

import sordino as sd

ROWS, PEOPLE, PRODUCTS, TIMES = 20_000_000, 2_000_000, 100_000, 5


def report():
    yield "## Look-ups"
    yield ""
    yield f"{ROWS:,} rows of Parquet. Seconds of a histogram of people, and of the same query of the engine itself; medians of {TIMES}."
    yield ""
    yield "| looked up | product | engine | ratio | asked |"
    yield "|---|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        con = duckdb.connect()
        con.execute("SET enable_progress_bar = false")
        _write(con, home)
        for name, item, domain, query in _list_questions(home):
            ours, theirs = [], []
            for _ in range(TIMES):
                theirs.append(_time(lambda query=query: con.execute(query).fetchall()))
                session = _open(home)
                ours.append(
                    _time(
                        lambda session=session, item=item, domain=domain: session.histogram(
                            item, epsilon=1, domain=domain
                        )
                    )
                )
            product, engine = median(ours), median(theirs)
            yield f"| {name} | {product:.2f} | {engine:.2f} | {product / engine:.2f} | ≤ 2 |"


def _write(con, home):
    con.execute(
        "COPY (SELECT CAST(hash(i) % ? AS BIGINT) AS customer, 'P' || CAST(hash(i + 7) % ? AS VARCHAR) AS product"
        f" FROM range({ROWS}) AS r(i)) TO '{home}/orders.parquet'",
        [PEOPLE, PRODUCTS],
    )
    con.execute(
        f"COPY (SELECT i AS id, 'R' || CAST(hash(i) % 20 AS VARCHAR) AS region FROM range({PEOPLE}) AS r(i))"
        f" TO '{home}/customers.parquet'"
    )
    con.execute(
        f"COPY (SELECT 'P' || CAST(i AS VARCHAR) AS product, 'c' || CAST(i % 50 AS VARCHAR) AS category"
        f" FROM range({PRODUCTS}) AS r(i)) TO '{home}/products.csv' (HEADER)"
    )


def _open(home):
    return sd.Session(
        home / "orders.parquet",
        unit=sd.PrivacyUnit("customer"),
        entropy=sd.Seeded(1),
        lookup={
            "products": sd.Lookup(home / "products.csv", key="product"),
            "customers": sd.Lookup(
                home / "customers.parquet", key="id", of="customer", private=True
            ),
        },
    )


def _list_questions(home):
    rows = f"'{home}/orders.parquet' AS o LEFT JOIN "
    count = "count(DISTINCT customer) FROM "
    yield (
        f"{PRODUCTS:,} products, public",
        "products.category",
        None,
        f"SELECT category, {count}{rows}'{home}/products.csv' AS p USING (product) GROUP BY 1",
    )
    yield (
        f"{PEOPLE:,} customers, private",
        "customers.region",
        [f"R{n}" for n in range(20)],
        f"SELECT region, {count}{rows}'{home}/customers.parquet' AS p ON customer = id GROUP BY 1",
    )


def _time(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin
