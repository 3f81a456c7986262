"""Which rows a predicate keeps: of one table, by one engine, each row by itself or in company."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa

from fuzz.predicates import Maker, render
from sordino.errors import InvalidParameter, UnsafePredicate
from sordino.sources.source import Source

NAN = float("nan")
COLUMN = [NAN] * 3000 + [5.0]
"""A file says of it that its largest value is 5: the usual writers leave NaN out."""


def kept(source: Source, where: str) -> int:
    predicate = source.predicate(where)
    with source.backend.scan(sorted(predicate.indices)) as scan:
        return int(scan.ask(f"SELECT count(*) AS n FROM rows WHERE {predicate.total}")["n"][0])


def in_company(made, pair):
    """Return how many rows are kept in a table, and in it with one row more, beside the sums of the rows by themselves."""
    where, table, more = pair
    lone = type(table)([more], schema=table.schema, orient="row")
    sources = {"table": table, "more": lone.vstack(table)}
    for row in {*table.rows(), more}:
        sources[row] = type(table)([row], schema=table.schema, orient="row")
    found = {key: kept(made(rows.to_arrow()), where) for key, rows in sources.items()}
    alone = sum(found[row] for row in table.rows())
    return (found["table"], found["more"]), (alone, alone + found[more])


KINDS = {
    "t": ("TINYINT", pa.int8(), [0, 1, 2, -128, 127, 100]),
    "i": ("INTEGER", pa.int32(), [0, 1, 3, -(2**31), 2**31 - 1, 10]),
    "n": ("BIGINT", pa.int64(), [0, 1, 7, 2**62, -(2**63), -1]),
    "d": (
        "DECIMAL(10,2)",
        pa.decimal128(10, 2),
        [Decimal(v) for v in ("0.00", "1.50", "-1.00", "99999999.99", "0.10")],
    ),
    "w": (
        "DECIMAL(38,10)",
        pa.decimal128(38, 10),
        [Decimal(v) for v in ("0", "1.5", "-" + "9" * 28, "0.0000000001")],
    ),
    "f": ("FLOAT", pa.float32(), [0.0, -0.0, 1.5, NAN, float("inf"), 0.1]),
    "x": ("DOUBLE", pa.float64(), [0.0, -0.0, 0.1, NAN, float("-inf"), 1e30, 5e-324, 2.5]),
    "s": ("VARCHAR", pa.string(), ["", "a", "ab", "7", "a\\b", "\U0001f600", "%", "2024-01-01"]),
    "b": ("BOOLEAN", pa.bool_(), [True, False]),
    "day": ("DATE", pa.date32(), [dt.date(2024, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
}


def mixed(chance, rows):
    return pa.table(
        {"id": pa.array(range(rows), pa.int64())}
        | {
            name: pa.array([chance.choice([None, *values]) for _ in range(rows)], kind)
            for name, (_, kind, values) in KINDS.items()
        }
    )


def fates(source, wheres):
    """Return which rows each predicate keeps, asked in one query."""
    written = [source.predicate(where) for where in wheres]
    places = sorted({0}.union(*(one.indices for one in written)))
    listed = ", ".join(f"{one.total} AS p{place}" for place, one in enumerate(written))
    with source.backend.scan(places) as scan:
        answer = scan.ask(f"SELECT c0 AS id, {listed} FROM rows")
    order = answer["id"].astype(int).argsort()
    return [answer[f"p{place}"].astype(bool)[order].tolist() for place in range(len(written))]


def predicates(chance, sources, count, *, otherwise=()):
    """Return predicates at random that all of some sources take, without those that hold some marks."""
    types = {name: kind for name, (kind, *_) in KINDS.items()}
    found: list[str] = []
    while len(found) < count:
        where = render(Maker(chance, types).condition(2))
        try:
            for source in sources:
                source.predicate(where)
        except (InvalidParameter, UnsafePredicate):
            continue
        if not any(mark in where for mark in otherwise):
            found.append(where)
    return found
