"""Predicates with tables that tempt an engine, and one row more: by company alone it must decide nothing about other rows."""

from __future__ import annotations

import datetime as dt

import polars as pl


def typed(rows, **types):
    return pl.DataFrame(rows, schema=types, orient="row")


I8, I16, I32, I64 = pl.Int8, pl.Int16, pl.Int32, pl.Int64
PAIRS = {
    # name: (predicate, table, one row more)
    "a product that only NULL makes the engine compute": (
        "ts * 1000 IS NOT NULL",
        typed([(i % 3, 1_700_000_000 + i % 3) for i in range(1000)], usr=I32, ts=I32),
        (1000, None),
    ),
    "bytes": ("small + small > -500 OR small IS NULL", typed([(100,)] * 50, small=I8), (None,)),
    "a column that is NULL in a whole block": (
        "status <> 3 OR bonus > (1 - delta)",
        typed([(1, None, -32768)] * 5000, status=I16, bonus=I16, delta=I16),
        (1, 5, 7),
    ),
    "OR with an overflow": ("a = 1 OR b * b > 0", typed([(1, 2**62)] * 100, a=I64, b=I64), (0, 3)),
    "AND with an overflow": (
        "NOT (a = 1 AND b * b > 0)",
        typed([(0, 2**62)] * 100, a=I64, b=I64),
        (1, 2),
    ),
    "dates": (
        "TRY_CAST(day AS DATE) >= '1000-01-01' OR TRY_CAST(number AS TINYINT) + 100 > 0",
        typed([(dt.date(2024, 1, 1), 100)] * 60, day=pl.Date, number=I64),
        (None, 5),
    ),
    "a column without NULL": (
        "x * x IS NULL OR y = 0",
        typed([(2**40, 1)] * 30, x=I64, y=I64),
        (None, 0),
    ),
    "two of them": (
        "x BETWEEN y * 2 AND 5",
        typed([(0, -100), (0, 1)] * 20, x=I8, y=I8),
        (None, 100),
    ),
    "a list": (
        "x * 2 IN (4, 200) OR y IS NULL",
        typed([(100, None), (2, 1)] * 20, x=I8, y=I8),
        (127, 1),
    ),
}
