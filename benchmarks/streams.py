"""What it costs that rows reach the engine as a stream: the same questions asked of a file through it, and of an engine that opens the file.

SORDINO_ROWS sets the number of rows (5,000,000 if it is not given).
"""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.measuring import ROUNDS, medians, table
from sordino import BucketGrid, PrivacyUnit
from sordino.questions import prepare_counts, prepare_numbers
from sordino.sources import open_source
from sordino.sources.engine import engine, scanning
from sordino.sources.tables import _name_columns

ROWS = int(os.environ.get("SORDINO_ROWS", "5000000"))
GRID = BucketGrid.geometric(lower=0, cap=1e6, growth=1.01)
COLUMNS = "i AS a, random() * 1000 AS x, 'user' || (i * 7919) % 500000 AS usr, 'item' || (i * 104729) % 1000 AS item"


def asked(source: Any):
    """Return the questions by name, each with its query and the texts that are sent with it."""
    items = [f"item{place}" for place in range(1000)]
    top = prepare_counts(source, PrivacyUnit("usr"), kind="items", item="item", domain=items)
    where = prepare_counts(
        source,
        PrivacyUnit.row(),
        kind="rows",
        where="a * 2 > 10 AND x < 900 OR item IN ('item1', 'item2')",
    )
    plain = prepare_counts(source, PrivacyUnit.row(), kind="rows", where="a > 5")
    mean = prepare_numbers(source, PrivacyUnit.row(), column="x", grid=GRID)
    quick = mean.dialect.buckets(mean.kind, GRID, None)[0]
    return {
        "units of each of 1,000 items": (top.indices, top.sql, items),
        "rows with a predicate of seven operators": (where.indices, where.sql, None),
        "rows with one comparison": (plain.indices, plain.sql, None),
        "rows in each of 1,390 buckets": (
            mean.indices,
            quick.over(mean.rows(len(quick.cuts)), grouped=False),
            list(quick.cuts),
        ),
    }


def own(path, source, indices, stack):
    """Return an engine that opens the file itself."""
    opened = stack.enter_context(engine())
    used = ", ".join(f"c{index}" for index in indices)
    opened.rows = f"SELECT {used} FROM read_parquet('{path}') AS file({_name_columns(len(source.backend.reader.types))})"
    return opened


def report():
    rows = []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        path = Path(folder) / "rows.parquet"
        duckdb.sql(f"COPY (SELECT {COLUMNS} FROM range({ROWS}) t(i)) TO '{path}'")
        source: Any = open_source(path)  # a file, whose backend has a reader
        for name, (indices, sql, labels) in asked(source).items():
            stream = stack.enter_context(scanning(source.backend.reader, indices))
            itself = own(path, source, indices, stack)
            before, after = medians(
                lambda itself=itself, sql=sql, labels=labels: itself.ask(sql, labels),
                lambda stream=stream, sql=sql, labels=labels: stream.ask(sql, labels),
                rounds=ROUNDS,
            )
            rows.append(
                (name, f"{before * 1e3:.0f} ms", f"{after * 1e3:.0f} ms", f"{after / before:.2f}")
            )
    return [
        "## Rows as a stream",
        "",
        f"The same query over {ROWS:,} rows of Parquet, by an engine that opens the file and by one that is handed its rows as a stream "
        "([decision 0014](../docs/decisions/0014-rows-travel-as-a-stream.md)). Medians.",
        "",
        *table(("question", "opens the file", "is handed a stream", "ratio"), rows),
    ]
