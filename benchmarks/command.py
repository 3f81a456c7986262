"""The whole command on a CSV of 5e6 rows against a bare DuckDB group-by on the same file, process against process."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.measuring import compile_package, process, table, verdict

ITEMS, USERS, ROWS, K = 41_270, 250_000, 5_000_000, 50
ROUNDS = 7
BARE = "import duckdb; print(len(duckdb.sql(\"SELECT item, count(DISTINCT user) FROM '{}' GROUP BY item\").fetchall()))"


def write(folder):
    import duckdb

    generator = np.random.default_rng(1)
    weights = 1 / np.arange(1, ITEMS + 1) ** 1.05
    item = generator.permutation(ITEMS)[generator.choice(ITEMS, size=ROWS, p=weights / weights.sum())]
    user = generator.integers(0, USERS, size=ROWS)
    source, domain = folder / "orders.csv", folder / "items.csv"
    connection = duckdb.connect()
    connection.register("frame", {"user": user, "item": item})
    connection.sql(f"COPY (SELECT * FROM frame) TO '{source}' (HEADER)")
    domain.write_text("item\n" + "\n".join(str(i) for i in range(ITEMS)) + "\n", encoding="utf-8")
    truth = connection.sql(
        f"SELECT item, count(DISTINCT user) c FROM frame GROUP BY item ORDER BY c DESC LIMIT {2 * K}"
    ).fetchall()
    connection.close()
    return source, domain, {str(label): count for label, count in truth}


def report():
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, domain, truth = write(folder)
        command = Path(sys.executable).with_name("sordino")
        ledger = str(folder / "budget.db")
        account = ["--ledger", ledger, "--account", "orders"]
        process(
            str(command),
            "ledger",
            "create",
            *account,
            "--epsilon",
            "100",
            "--unit",
            "user",
            "--source",
            str(source),
        )
        ours = [
            str(command),
            "top",
            str(source),
            "--item",
            "item",
            "--user",
            "user",
            "-k",
            str(K),
            "--epsilon",
            "1",
        ]
        ours += ["--domain", str(domain), *account, "--format", "json"]
        bare = [sys.executable, "-c", BARE.format(source)]
        seconds, memory = {"ours": [], "bare": []}, {"ours": [], "bare": []}
        for _ in range(ROUNDS):
            for who, line in (("ours", ours), ("bare", bare)):
                out, taken, peak = process(*line)
                seconds[who].append(taken)
                memory[who].append(peak)
                if who == "ours":
                    rows = json.loads(out)["rows"]
                    assert len(rows) == K
                    assert sum(row["item"] in truth for row in rows) >= K * 0.9
                    assert (
                        sum(row["low"] <= truth.get(row["item"], row["low"]) <= row["high"] for row in rows)
                        >= K * 0.8
                    )
        size = source.stat().st_size / 1e6
    a, b = statistics.median(seconds["ours"]), statistics.median(seconds["bare"])
    peak = statistics.median(memory["ours"]) / 1e6
    return [
        "## `sordino top -k 50` on a CSV, whole process",
        "",
        f"CSV of {ROWS:,} rows, {USERS:,} users, {ITEMS:,} items, {size:.0f} MB, shuffled Zipf 1.05; bare: Python, DuckDB with its own CSV "
        "reader, `count(DISTINCT user) GROUP BY item`. Ours reads line by line, charges a ledger, selects, measures, prints JSON.",
        "",
        *table(
            ("ours s", "bare s", "ratio", "target", "ours peak MB", "target", "bare peak MB", ""),
            [
                (
                    f"{a:.2f}",
                    f"{b:.2f}",
                    f"{a / b:.2f}x",
                    "2x",
                    f"{peak:.0f}",
                    "600",
                    f"{statistics.median(memory['bare']) / 1e6:.0f}",
                    verdict(a <= 2 * b and peak < 600),
                )
            ],
        ),
    ]
