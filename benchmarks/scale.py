"""How far one machine goes: releases over up to a billion rows, beside what the engine itself takes for the bounded or distinct query.

python -m benchmarks.scale [ROWS ...]      # 10,000,000 and 100,000,000 unless said

Rows are made up in slices of ten million, in a folder of Parquet files that is deleted afterwards. Each run is a process of its own; release and engine take turns, on the same files, with the
same limit of memory.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import threading
from pathlib import Path

import duckdb

from benchmarks.measuring import machine, process, table, verdict
from sordino.sources.memory import MEMORY

SLICE = 10_000_000
ROWS = (10_000_000, 100_000_000)
TARGET = 1.5
"""A release takes at most so many times the engine's own query."""
ITEMS = 1000
M = 10


def write_rows(folder, rows, *, units=None, items=ITEMS, text=False, even=False, more=""):
    """Write a table: who, what and how much; a tenth as many units as rows unless said. Items are skewed, amounts whole.

    With `even` each unit has as many rows as any other. `more` are further columns, in SQL, each with a comma in front; they may use `amount`.
    """
    folder.mkdir()
    units = rows // 10 if units is None else units
    who = f"i % {units}" if even else f"hash(i) % {units}"
    who = f"'u' || ({who})" if text else f"CAST({who} AS BIGINT)"
    even = "(hash(i, {}) / 18446744073709551616.0)".format
    with duckdb.connect(config={"preserve_insertion_order": "false"}) as engine:
        engine.execute("SET enable_progress_bar = false")
        for start in range(0, rows, SLICE):
            stop = min(rows, start + SLICE)
            engine.execute(
                f"COPY (SELECT {who} AS buyer, 'i' || CAST(floor({items} * pow({even(1)}, 3)) AS INTEGER) AS item,"
                f" CAST(exp(3 + 2 * ({even(2)} + {even(3)} + {even(4)} - 1.5)) AS INTEGER) AS amount{more}"
                f" FROM range({start}, {stop}) AS made(i)) TO '{folder}/{start // SLICE:04}.parquet' (ROW_GROUP_SIZE 200000)"
            )


def domain(items=ITEMS):
    return [f"i{n}" for n in range(items)]


# Each question as a session asks it, and as somebody would ask the engine for the same, without noise.
_RELEASE = """
import sys, sordino as sd
folder, kind, m, k, items = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])
labels = [f"i{n}" for n in range(items)]
unit = sd.PrivacyUnit("buyer", max_rows=None if kind == "top" else m)
with sd.Session(folder, unit=unit, ledger=None) as session:
    if kind == "mean":
        session.mean("amount", epsilon=1, lower=0, cap=1e6)
    elif kind == "mean by item":
        session.mean("amount", epsilon=1, lower=0, cap=1e6, by="item", domain=labels, groups_per_unit=m)
    elif kind == "histogram":
        session.histogram("item", epsilon=1, domain=labels)
    else:
        session.top_k("item", k=k, epsilon=1, domain=labels)
"""
_ENGINE = """
import sys, tempfile, duckdb
folder, question, memory = sys.argv[1], sys.argv[2], sys.argv[3]
with tempfile.TemporaryDirectory() as spill:
    config = {"memory_limit": memory, "temp_directory": spill, "preserve_insertion_order": "false"}
    with duckdb.connect(config=config) as engine:
        engine.execute(question.format(f"read_parquet('{folder}/*.parquet')")).fetchall()
"""


def ask_engine(kind, m, k):
    """Return the query that does the same: which rows count is a matter of chance there."""
    if kind == "top":
        return f"SELECT item, count(DISTINCT buyer) AS n FROM {{}} GROUP BY item ORDER BY n DESC LIMIT {k}"
    bounded = (
        "(SELECT item, amount FROM (SELECT item, amount, row_number() OVER (PARTITION BY buyer) AS place FROM {})"
        f" WHERE place <= {m})"
    )
    if kind == "mean":
        return f"SELECT avg(least(amount, 1000000)) FROM {bounded}"
    if kind == "mean by item":
        return f"SELECT item, avg(least(amount, 1000000)) FROM {bounded} GROUP BY item"
    # At most m items of a buyer, each counted once.
    distinct = "(SELECT DISTINCT buyer, item FROM {})"
    return (
        "SELECT item, count(*) AS n FROM (SELECT item, row_number() OVER (PARTITION BY buyer) AS place"
        f" FROM {distinct}) WHERE place <= {m} GROUP BY item ORDER BY n DESC"
    )


class Spill:
    """A folder for spilled rows; `most` is the largest size of what lay in it, looked at five times a second."""

    def __init__(self) -> None:
        self.most = 0
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look)

    def __enter__(self):
        self.top = Path(tempfile.mkdtemp(prefix="scale-spill-"))
        self._watch.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._watch.join()
        shutil.rmtree(self.top)

    def _look(self):
        while not self._done.wait(0.2):
            self.most = max(self.most, sum(map(_size, self.top.rglob("*"))))


def _size(path):
    try:
        return path.stat().st_size
    except OSError:  # removed meanwhile
        return 0


def measure(folder, kind, *, m=M, k=10, items=ITEMS, rounds=3):
    """Return of a release and of the engine, by turns: median of seconds, peaks of memory and of spilled bytes."""
    commands = {
        "release": (_RELEASE, str(folder), kind, str(m), str(k), str(items)),
        "engine": (_ENGINE, str(folder), ask_engine(kind, m, k), f"{MEMORY}B"),
    }
    found = {name: ([], [], []) for name in commands}
    for _ in range(rounds):
        for name, (code, *arguments) in commands.items():
            with Spill() as spill:
                command = (
                    "/usr/bin/env",
                    f"TMPDIR={spill.top}",
                    sys.executable,
                    "-c",
                    code,
                    *arguments,
                )
                try:
                    _, seconds, peak = process(*command)
                except RuntimeError as error:
                    # The engine cannot answer every question of its own within the limit.
                    if name == "engine" and "OutOfMemoryException" in str(error):
                        continue
                    raise
            for figures, figure in zip(found[name], (seconds, peak, spill.most), strict=True):
                figures.append(figure)
    return {
        name: {"seconds": statistics.median(seconds), "peak": max(peaks), "spilled": max(spilled)}
        for name, (seconds, peaks, spilled) in found.items()
        if seconds
    }


KINDS = ("top", "histogram", "mean", "mean by item")


def measure_size(rows, rounds):
    """Make a table of so many rows, measure each kind of release over it, and delete it."""
    with tempfile.TemporaryDirectory(prefix="scale-") as made:
        folder = Path(made, "rows")
        write_rows(folder, rows)
        size = sum(map(_size, folder.iterdir()))
        return size, {kind: measure(folder, kind, rounds=rounds) for kind in KINDS}


def _compare(release, engine=None):
    """Return seconds of both, their ratio, peaks and spilled bytes, as texts."""
    if engine is None:
        short = f"{release['seconds']:.1f} s", "out of memory", "-"
        return [*short, f"{release['peak'] / 1e9:.1f} GB", f"{release['spilled'] / 1e9:.1f} GB"]
    ratio = release["seconds"] / engine["seconds"]
    return [
        f"{release['seconds']:.1f} s",
        f"{engine['seconds']:.1f} s",
        f"{ratio:.2f} ({verdict(ratio <= TARGET)})",
        f"{release['peak'] / 1e9:.1f} / {engine['peak'] / 1e9:.1f} GB",
        f"{release['spilled'] / 1e9:.1f} / {engine['spilled'] / 1e9:.1f} GB",
    ]


def report(sizes):
    lines = [
        "# How far one machine goes",
        "",
        *machine()[:2],
        "",
        "Rows are made up: a buyer, one of 1,000 items (skewed), a whole amount; ten rows a buyer on average. At most 10 rows (mean), or items (histogram), of a buyer count; `top` counts "
        "distinct buyers, with all of their items. Beside each release stands DuckDB's own query for the same, without noise: which rows of a buyer count is left to chance there. Both have the "
        "same limit of memory, 2 cores, and the same files, and take turns; seconds are of whole processes.",
        "",
    ]
    rows = []
    for size, rounds in sizes:
        stored, found = measure_size(size, rounds)
        for kind, one in found.items():
            rows.append([f"{size:,}", f"{stored / 1e9:.2f} GB", kind, *_compare(**one), rounds])
            print(rows[-1], file=sys.stderr, flush=True)
    header = [
        "rows",
        "files",
        "release",
        "seconds",
        "engine",
        "ratio",
        "peak memory",
        "spilled",
        "runs",
    ]
    return [*lines, *table(header, rows)]


if __name__ == "__main__":
    wanted = [int(one) for one in sys.argv[1:]] or ROWS
    # Of tables that take many minutes there is one run.
    print(
        "\n".join(
            report(
                [(rows, 5 if rows <= SLICE else 3 if rows <= 10 * SLICE else 1) for rows in wanted]
            )
        )
    )
