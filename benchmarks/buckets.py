"""Counting a column of Parquet in 1,390 buckets, times the `floor(x / width)` group-by with as many groups; memory against rows.

SORDINO_ROWS sets the number of rows (10,000,000 if it is not given; a hundred million need 800 MB of disk).
"""

from __future__ import annotations

import os
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

import duckdb

from benchmarks.measuring import ROUNDS, medians, process, table, verdict
from sordino import BucketGrid, PrivacyUnit
from sordino.columns import StepRange
from sordino.questions import prepare_numbers
from sordino.sources import open_source

ROWS = int(os.environ.get("SORDINO_ROWS", "10000000"))
GRID = BucketGrid.geometric(lower=0, cap=1.01**1389 * 1.005 - 1, growth=1.01)  # 1,390 edges
FEW = ROWS // 10
CHILD = """
import sys
from sordino import BucketGrid, PrivacyUnit
from sordino.questions import prepare_numbers
from sordino.sources import open_source
grid = BucketGrid.geometric(lower=0, cap=1.01**1389 * 1.005 - 1, growth=1.01)
prepare_numbers(open_source(sys.argv[1]), PrivacyUnit.row(), column="x", grid=grid).run()
"""


def made(folder, rows):
    """Write numbers that fill about all buckets of the grid, and numbers that fill as many groups of equal width."""
    path = Path(folder) / f"{rows}.parquet"
    reach = float(GRID.edges[-1])
    numbers = f"exp(ln({reach} + 1) * random()) - 1 AS x, {reach} * random() AS y"
    duckdb.sql(f"COPY (SELECT {numbers} FROM range({rows})) TO '{path}'")
    return path


def report():
    with tempfile.TemporaryDirectory() as folder:
        path = made(folder, ROWS)
        questions = {
            name: prepare_numbers(open_source(path), PrivacyUnit.row(), column=name, grid=GRID)
            for name in "xy"
        }
        both = sorted({*questions["x"].indices, *questions["y"].indices})
        with questions["x"].source.backend.scan(both) as scan:
            y = f"c{questions['y'].indices[0]}"
            quick, slow = (
                (query.over(questions["x"].rows(len(query.cuts)), grouped=False), list(query.cuts))
                for query in questions["x"].dialect.buckets(questions["x"].kind, GRID, None)
            )
            width = f"SELECT floor({y} / {float(GRID.edges[-1]) / GRID.size}) AS g, count(*) AS n FROM rows GROUP BY g"
            groups = len(scan.ask(width)["g"]), int((questions["x"].run()[0].counts > 0).sum())
            base, buckets, repaired = medians(
                lambda: scan.ask(width),
                lambda: scan.ask(*quick),
                lambda: scan.ask(*slow),
                rounds=ROUNDS,
            )
        whole, sums = medians(
            questions["x"].run,
            lambda: questions["x"].totals([StepRange(0, 1 << 32, Fraction(1))]),
            rounds=5,
        )
        small, large = (
            process(sys.executable, "-c", CHILD, str(file))[2] for file in (made(folder, FEW), path)
        )
    limit = verdict(buckets <= 2.5 * base)
    rows = [
        (f"floor(y / width) group-by, {groups[0]} groups", f"{base * 1e3:.0f} ms", "", ""),
        (
            f"buckets of x, {groups[1]} of {GRID.size + 1} not empty, times that",
            f"{buckets / base:.2f}x",
            "2.5x",
            limit,
        ),
        (
            "where a number lies beside an edge they are counted again, times that",
            f"{repaired / base:.2f}x",
            "",
            "",
        ),
        ("`NumberQuestion.run`: with opening an engine, in all", f"{whole * 1e3:.0f} ms", "", ""),
        ("`NumberQuestion.totals`: a sum of clipped steps, in all", f"{sums * 1e3:.0f} ms", "", ""),
        (
            f"peak memory of a process, {FEW:,} and {ROWS:,} rows",
            f"{small >> 20} and {large >> 20} MiB",
            "",
            "",
        ),
    ]
    return [
        f"## Buckets of a column: {ROWS:,} rows of Parquet",
        "",
        *table(("", "measured", "asked", "reached"), rows),
    ]


if __name__ == "__main__":
    print("\n".join(report()))
