"""Each quick way by which a table is read, against the same release without it: what is not 1.25 times as fast does not stay.

SORDINO_ROWS sets the number of rows (10,000,000 if it is not given).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import duckdb

import sordino as sd
from benchmarks.measuring import medians, table
from sordino.questions import bounded_rows, counts, rank_choice, totals
from sordino.sources.sql import bucket_query, dialect, sql_templates, step_query

ROWS = int(os.environ.get("SORDINO_ROWS", "10000000"))
ROUNDS = 5
ASKED = 1.25
LABELS = [f"l{place}" for place in range(40)]


def make(folder):
    """Write ten rows of each unit: whole numbers, decimals, floats and labels."""
    path = Path(folder) / "rows.parquet"
    duckdb.sql(
        "COPY (SELECT CAST(hash(i // 10) % 4000000000 AS BIGINT) AS unit,"
        " CAST(random() * 1000 AS INTEGER) AS whole, CAST(random() * 1000 AS DECIMAL(12,2)) AS price,"
        " exp(9 * random()) - 1 AS x, 'l' || CAST(floor(40 * random()) AS INTEGER) AS label"
        f" FROM range({ROWS}) AS rows(i)) TO '{path}'"
    )
    return path


def make_texts(path):
    """Write the same rows with units that are texts."""
    other = Path(path).with_name("texts.parquet")
    duckdb.sql(f"COPY (SELECT 'u' || unit AS unit, whole, label FROM '{path}') TO '{other}'")
    return str(other)


@contextmanager
def without(*changes):
    """Let the library do without a quick way; each change is a module, a name and what stands there instead."""
    with ExitStack() as stack:
        for module, name, value in changes:
            stack.enter_context(patch.object(module, name, value))
        yield


def drop_first(queries):
    """Return what lists the queries for buckets without the quickest one."""
    return lambda *given: queries(*given)[1:]


def keep_last(queries):
    """Return what lists the queries for buckets with the slowest one alone."""
    return lambda *given: queries(*given)[-1:]


def report():
    plain = bucket_query.bucket_queries
    with tempfile.TemporaryDirectory() as folder:
        path = str(make(folder))
        rows = sd.Session(path, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        five = sd.Session(path, unit=sd.PrivacyUnit("unit", max_rows=5), entropy=sd.Seeded(7))
        texts = sd.Session(
            make_texts(path), unit=sd.PrivacyUnit("unit", max_rows=5), entropy=sd.Seeded(7)
        )
        jobs = [
            (
                "counts in the buckets of an even grid (median of floats)",
                lambda: rows.quantile("x", q=0.5, epsilon=1, lower=0, cap=1e4),
                [(dialect, "bucket_queries", drop_first(plain))],
            ),
            (
                "cells instead of a search for the edge (sum of floats; the even way left out of both)",
                lambda: rows.sum("x", epsilon=1, lower=0, cap=1e4),
                [(dialect, "bucket_queries", keep_last(plain))],
                [(dialect, "bucket_queries", drop_first(plain))],
            ),
            (
                "sums of whole numbers as they are (sum, each row)",
                lambda: rows.sum("whole", epsilon=1, lower=0, cap=1000),
                [
                    (dialect, "find_plain_sums", lambda *_: None),
                ],
            ),
            (
                "whole numbers of 64 bits instead of 128 (sum of decimals, each row)",
                lambda: rows.sum("price", epsilon=1, lower=0, cap=1000),
                [(step_query, "_BEYOND_BIGINT", 0)],
            ),
            (
                "rows of a unit chosen while they pass by (mean of floats, 5 rows of a unit)",
                lambda: five.mean("x", epsilon=1, lower=0, cap=1e4),
                [(totals, "prepare_choice", lambda *_, **__: None)],
            ),
            (
                "units of 32 bits (mean of floats, 5 rows of a unit)",
                lambda: five.mean("x", epsilon=1, lower=0, cap=1e4),
                [(rank_choice, "_NARROW_UNIT", "unit > 9e18")],
            ),
            (
                "labels of a unit as bits (histogram, 5 labels of a unit)",
                lambda: five.histogram("label", epsilon=1, domain=LABELS),
                [
                    (counts, "fits_sets", lambda *_: False),
                    (bounded_rows, "fits_sets", lambda *_: False),
                ],
            ),
            (
                "groups of a unit as bits (sum by label, units that are texts, 5 rows in each of 3 groups)",
                lambda: texts.sum(
                    "whole",
                    by="label",
                    groups_per_unit=3,
                    domain=LABELS,
                    epsilon=1,
                    lower=0,
                    cap=1000,
                ),
                [(bounded_rows, "fits_sets", lambda *_: False)],
            ),
            (
                "units compared as whole numbers instead of texts (count of units)",
                lambda: five.count_distinct_units(epsilon=1),
                [(sql_templates, "WHOLE_NUMBERS", frozenset())],
            ),
        ]
        found = []
        for name, ask, slow, *others in jobs:

            def plainly(ask=ask, base=others[0] if others else ()):
                with without(*base):
                    ask()

            def slowly(ask=ask, slow=slow):
                with without(*slow):
                    ask()

            quick, long = medians(plainly, slowly, rounds=ROUNDS)
            kept = "yes" if long / quick >= ASKED else "**no**"
            found.append((name, f"{quick:.2f}", f"{long:.2f}", f"{long / quick:.2f}", kept))
    return [
        f"## Quick ways of reading: {ROWS:,} rows of Parquet, ten of a unit",
        "",
        f"Seconds of a whole release, with the way and without it: medians of {ROUNDS} runs in turns.",
        "",
        *table(("", "with", "without", "times", f"at least {ASKED}"), found),
    ]


if __name__ == "__main__":
    print("\n".join(report()))
