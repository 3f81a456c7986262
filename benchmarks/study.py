"""A study of twenty releases against the longest of them: what one reading of the table, shared by all, is worth.

python -m benchmarks.study [ROWS]      # 5,000,000 unless said
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import sordino as sd
from benchmarks.measuring import table

ROWS = 5_000_000
TARGET = 2.5
"""The study takes at most so many times its longest release."""
PRODUCTS, SHOPS, STATES = (
    [f"p{i}" for i in range(50)],
    [f"s{i}" for i in range(8)],
    ["NY", "CA", "TX"],
)
FIGURE = {"lower": 0, "cap": 1e6}
# Twenty figures as an office would ask for them: of items, of two columns of numbers, of parts of the table.
RELEASES = [
    ("count", {}),
    ("count_distinct_units", {}),
    ("count", {"where": "state = 'NY'"}),
    ("histogram", {"item": "shop", "domain": SHOPS}),
    ("histogram", {"item": "state", "domain": STATES}),
    ("histogram", {"item": "product", "domain": PRODUCTS}),
    ("top_k", {"item": "product", "k": 10, "domain": PRODUCTS}),
    ("top_k", {"item": "product", "k": 10, "domain": PRODUCTS, "where": "state = 'NY'"}),
    ("above", {"item": "product", "threshold": 1000, "positives": 10, "domain": PRODUCTS}),
    ("quantile", {"column": "amount", "q": [0.25, 0.5, 0.75], **FIGURE}),
    ("quantile", {"column": "amount", "q": 0.99, **FIGURE}),
    ("sum", {"column": "amount", **FIGURE}),
    ("mean", {"column": "amount", **FIGURE}),
    ("variance", {"column": "amount", **FIGURE}),
    ("sum", {"column": "amount", **FIGURE, "where": "state = 'NY'"}),
    ("mean", {"column": "amount", **FIGURE, "by": "shop", "domain": SHOPS}),
    ("sum", {"column": "amount", **FIGURE, "by": "shop", "domain": SHOPS}),
    ("quantile", {"column": "age", "q": 0.5, "lower": 0, "cap": 200}),
    ("mean", {"column": "age", "lower": 0, "cap": 200}),
    ("variance", {"column": "age", "lower": 0, "cap": 200}),
]
UNITS = {
    "each row": sd.PrivacyUnit.row(),
    "customer, 5 rows": sd.PrivacyUnit("customer", max_rows=5),
}


def write_orders(path, rows):
    """Write made-up orders."""
    chance = np.random.default_rng(1)
    pl.DataFrame(
        {
            "customer": pl.Series(chance.integers(0, max(1, rows // 5), rows)).cast(pl.String),
            "product": pl.Series(PRODUCTS).gather(chance.integers(0, len(PRODUCTS), rows)),
            "shop": pl.Series(SHOPS).gather(chance.integers(0, len(SHOPS), rows)),
            "state": pl.Series(STATES).gather(chance.integers(0, len(STATES), rows)),
            "amount": np.round(chance.lognormal(3, 1, rows), 2),
            "age": chance.integers(0, 90, rows),
        }
    ).write_csv(path)


def ask(session, kind, said, unit):
    more = {"groups_per_unit": 2} if "by" in said and unit.column is not None else {}
    return getattr(session, kind)(epsilon=0.1, **said, **more)


def timed(job):
    """Return the seconds that a job takes by the clock, and of the processor."""
    began = time.perf_counter(), time.process_time()
    job()
    return np.array([time.perf_counter() - began[0], time.process_time() - began[1]])


def measure(path, unit):
    """Return the seconds of each release alone, and of all of them as a batch."""
    form = sd.CsvFormat(types={"amount": "double", "age": "integer"})
    with sd.Session(str(path), unit=unit, ledger=None, csv=form) as session:

        def ask_all():
            with session.batch():
                for kind, said in RELEASES:
                    ask(session, kind, said, unit)

        alone = [
            timed(lambda kind=kind, said=said: ask(session, kind, said, unit))
            for kind, said in RELEASES
        ]
        return np.array(alone), timed(ask_all)


def report(rows=ROWS):
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "orders.csv"
        write_orders(path, rows)
        for name, unit in UNITS.items():
            alone, together = measure(path, unit)
            for which, all_of_them, longest, study in zip(
                ("clock", "processor"), alone.sum(axis=0), alone.max(axis=0), together, strict=True
            ):
                figures = (
                    f"{all_of_them:.1f}",
                    f"{longest:.1f}",
                    f"{study:.1f}",
                    f"{study / longest:.2f}",
                )
                lines.append((name, which, *figures))
    head = (
        "unit",
        "seconds of the",
        "one after the other",
        "longest",
        "as a study",
        f"times the longest (at most {TARGET})",
    )
    yield "## A study"
    yield ""
    yield f"Twenty releases over a CSV of {rows:,} rows with six columns, with declared types; each once, one run of each."
    yield ""
    yield from table(head, lines)


if __name__ == "__main__":
    print(*report(*map(int, sys.argv[1:])), sep="\n")
