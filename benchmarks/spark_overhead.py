"""What a release over a table of Spark takes beside Spark's own query for the same, in one session.

PYTHONPATH=tests python -m benchmarks.spark_overhead [ROWS]      # 10,000,000 unless said

The server is one of Spark Connect on this machine, local[2]. Release and query take turns over the same files of Parquet, which are deleted
afterwards. What Spark says of its own plans stands in a second table: what was sent between its tasks, and what left it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import sordino as sd
from benchmarks.measuring import medians, table, verdict
from benchmarks.scale import domain, write_rows
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
    return (
        f"SELECT sum(least(greatest({column}, 0), 1000000)) AS s, count({column}) AS n FROM {rows}"
    )


# Some 285 buckets, as a release has of which a clip is found: by a logarithm that nothing checks, and in sums that may fail.
IN_BUCKETS = (
    "SELECT CAST(floor(ln(1 + CAST(least(greatest({0}, 0), 1000000) AS DOUBLE)) * 20.5) AS INT) AS cell, count(*) AS n,"
    " count({0}) AS known, sum(least(greatest({0}, 0), 1000000)) AS s FROM rows GROUP BY cell"
)
BESIDE = ", beside sums in buckets"
COLUMNS = {
    "whole numbers": "amount",
    "doubles": "weight",
    "decimals of 10 digits": "price",
    "decimals of 38 digits": "turnover",
}


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
        for name, column in COLUMNS.items()
    },
    **{
        f"sum of {name}, each row by itself{BESIDE}": (
            lambda session, column=column: session.sum(column, **NUMBERS),
            EACH,
            IN_BUCKETS.format(column),
        )
        for name, column in COLUMNS.items()
    },
}


class Told:
    """What Spark says of the queries that it answered: bytes that its tasks sent to each other, and rows that left it."""

    def __init__(self, frames) -> None:
        self._frames, self._ask = frames, frames.toArrow
        self.queries, self.sent, self.rows, self.bytes = 0, 0, 0, 0

    def __enter__(self):
        def ask(frame):
            answer = self._ask(frame)
            self.queries += 1
            self.rows += answer.num_rows
            self.bytes += answer.nbytes
            for node in frame.executionInfo.metrics._metrics:  # noqa: SLF001 - the rest draws trees
                self.sent += sum(
                    one.value for one in node.metrics if one.name == "shuffleBytesWritten"
                )
            return answer

        self._frames.toArrow = ask
        return self

    def __exit__(self, *_):
        self._frames.toArrow = self._ask


def measure(session, folder, rounds):
    """Yield of each job: seconds of the release and of Spark's own query, and what Spark tells of a release."""
    session.read.parquet(str(folder)).createOrReplaceTempView("rows")
    # Of files that are named anew in each question Spark looks up the columns anew; the query has them looked up once.
    frame = session.table("rows")
    for name, (release, unit, query) in JOBS.items():
        with sd.Session(frame, name="rows", unit=unit, ledger=None) as asks:
            seconds = medians(
                lambda asks=asks, release=release: release(asks),
                lambda query=query: session.sql(query).toArrow(),
                rounds=rounds,
            )
            with Told(type(frame)) as told:
                release(asks)
        print(name, *seconds, told.sent, file=sys.stderr, flush=True)
        yield name, seconds, told


def report(rows=ROWS, rounds=ROUNDS):
    timed, moved = [], []
    with tempfile.TemporaryDirectory(prefix="spark-overhead-") as made:
        folder = Path(made, "rows")
        write_rows(folder, rows, more=MORE)
        server = Server(SERVER)
        session = server.session()
        try:
            for name, (ours, theirs), told in measure(session, folder, rounds):
                reached = verdict(ours / theirs <= TARGET)
                timed.append(
                    (name, f"{ours:.2f}", f"{theirs:.2f}", f"{ours / theirs:.2f}", reached)
                )
                # What a release sends is the same, whatever stands beside it.
                if not name.endswith(BESIDE):
                    sent = (
                        told.queries,
                        f"{told.sent / rows:.2f}",
                        f"{told.rows:,}",
                        f"{told.bytes:,}",
                    )
                    moved.append((name, *sent))
        finally:
            # While there is a server: later the client would try for minutes.
            session.stop()
            server.remove()
    return [
        "## Releases from Spark",
        "",
        f"{rows:,} rows of Parquet, ten of a buyer on average, in one session of Spark Connect on this machine (local[2]). Beside each whole release, with its rehearsal and its noise, stands "
        "Spark's own query for the same: which rows of a buyer count is left to chance there, and it finds no buckets. The last four stand beside sums in as many buckets as a release has, with nothing checked: Spark's own price of a `GROUP BY`. "
        f"Seconds, medians of {rounds} runs in turns.",
        "",
        *table(("release", "release", "Spark's own", "ratio", ""), timed),
        "",
        "What one release had Spark send between its tasks, by its own metrics, and what left it, rehearsals included.",
        "",
        *table(
            ("release", "queries", "bytes sent for a row", "rows that left", "bytes that left"),
            moved,
        ),
    ]


if __name__ == "__main__":
    print("\n".join(report(*map(int, sys.argv[1:]))))
