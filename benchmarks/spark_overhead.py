"""What a release over a table of Spark takes beside Spark's own query for the same, in one session.

python -m benchmarks.spark_overhead [ROWS]      # 10,000,000 unless said

The server is one of Spark Connect on this machine, local[2]. Release and query take turns over the same files of Parquet, which are deleted
afterwards. What Spark says of its own plans stands in a second table: what was sent between its tasks, and what left it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

import sordino as sd
from benchmarks.measuring import medians, table, verdict
from benchmarks.scale import domain, write_rows
from sordino.data.sources import spark as spark_source
from support.spark import Server

ROWS = 10_000_000
ROUNDS = 5
M = 10
TARGET = 1.3
SERVER = ("-Xmx4g",)
"""Of Java: as a cluster runs it, and not as tests do, which start soon and run slowly."""
MORE = (
    ", exp(3 + 2 * (hash(i, 5) / 18446744073709551616.0 + hash(i, 6) / 18446744073709551616.0 - 1)) AS weight"
    ", CAST(exp(3 + 2 * (hash(i, 7) / 18446744073709551616.0)) AS DECIMAL(10,2)) AS price"
    ", CAST(exp(3 + 2 * (hash(i, 8) / 18446744073709551616.0)) AS DECIMAL(38,4)) AS turnover"
)
UNIT = sd.PrivacyUnit("buyer", max_rows=M)
ANYBODY = sd.PrivacyUnit("buyer")
EACH = sd.PrivacyUnit.row()
NUMBERS = {"epsilon": 1, "lower": 0, "cap": 1e6}
WHERE = "amount * 2 > 50 AND item <> 'i7' AND (weight < 40 OR price >= 12.5)"

# Which rows of a buyer count is left to chance there.
BOUNDED = (
    "(SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY buyer ORDER BY {order}) AS place FROM rows)"
    f" WHERE place <= {M})"
)
DISTINCT = "(SELECT DISTINCT buyer, item FROM rows)"


def sums(column, unit):
    return lambda session: session.sum(column, **NUMBERS), unit, _sum_query(column, unit)


def _sum_query(column, unit):
    rows = "rows" if unit is EACH else BOUNDED.format(order=column)
    return f"SELECT sum(least(greatest({column}, 0), 1000000)) AS s, count({column}) AS n FROM {rows}"


JOBS = {
    "predicate, rows counted": (
        lambda s: s.count(epsilon=1, where=WHERE),
        EACH,
        f"SELECT count(*) FROM rows WHERE {WHERE}",
    ),
    "distinct buyers": (
        lambda s: s.count_distinct_units(epsilon=1),
        ANYBODY,
        "SELECT count(DISTINCT buyer) FROM rows",
    ),
    "top items by distinct buyers": (
        lambda s: s.top_k("item", k=10, epsilon=1, domain=domain()),
        ANYBODY,
        "SELECT item, count(DISTINCT buyer) AS n FROM rows GROUP BY item ORDER BY n DESC LIMIT 10",
    ),
    f"histogram, {M} items of a buyer": (
        lambda s: s.histogram("item", epsilon=1, domain=domain()),
        UNIT,
        f"SELECT item, count(*) AS n FROM (SELECT item, row_number() OVER (PARTITION BY buyer ORDER BY item) AS place FROM {DISTINCT})"
        f" WHERE place <= {M} GROUP BY item",
    ),
    f"median of doubles, {M} rows of a buyer": (
        lambda s: s.quantile("weight", q=0.5, **NUMBERS),
        UNIT,
        f"SELECT percentile_approx(weight, 0.5) FROM {BOUNDED.format(order='weight')}",
    ),
    **{
        f"sum of {name}, {what}": sums(column, unit)
        for what, unit in ((f"{M} rows of a buyer", UNIT), ("each row by itself", EACH))
        for name, column in (
            ("whole numbers", "amount"),
            ("doubles", "weight"),
            ("decimals of 10 digits", "price"),
            ("decimals of 38 digits", "turnover"),
        )
    },
}
