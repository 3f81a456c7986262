"""Durable charges a second against a bare loop of UPDATE, INSERT, COMMIT on the same disk."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

from benchmarks.measuring import medians, table
from sordino import Budget, Ledger, cost

CHARGES = 60


def report():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledger = Ledger.create(
            folder / "ours.db",
            account="a",
            budget=Budget(epsilon=10**6),
            adjacency="add-remove",
            unit="user",
            source="name:benchmark",
        )
        bare = sqlite3.connect(folder / "bare.db", isolation_level=None)
        bare.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE budget(spent INTEGER); INSERT INTO budget VALUES (0);"
            "CREATE TABLE charge(id TEXT, amount INTEGER);"
        )
        tiny = cost.Pure(epsilon=0.001)

        def ours():
            for _ in range(CHARGES):
                ledger.reserve(tiny, label="benchmark")

        def theirs():
            for number in range(CHARGES):
                bare.execute("BEGIN IMMEDIATE")
                bare.execute("UPDATE budget SET spent = spent + 1")
                bare.execute("INSERT INTO charge VALUES (?, 1)", (str(number),))
                bare.execute("COMMIT")

        a, b = medians(ours, theirs)
        bare.close()
    return [
        "## Ledger",
        "",
        f"{CHARGES} durable reservations (SQLite, WAL, synchronous=FULL) against a bare loop on one open connection. No target in this version.",
        "",
        *table(("ours charges/s", "bare charges/s", "ours / bare"), [(f"{CHARGES / a:.0f}", f"{CHARGES / b:.0f}", f"{b / a:.2f}")]),
    ]
