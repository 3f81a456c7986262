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
    item = generator.permutation(ITEMS)[
        generator.choice(ITEMS, size=ROWS, p=weights / weights.sum())
    ]
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


def create_account(command, source, folder, name, *terms):
    """Create an account of epsilon 100, and return the options that name it."""
    account = ["--ledger", str(folder / "budget.db"), "--account", name]
    made = [
        "ledger",
        "create",
        *account,
        "--epsilon",
        "100",
        *terms,
        "--unit",
        "user",
        "--source",
        str(source),
    ]
    process(str(command), *made)
    return account


def list_commands(source, domain, folder):
    """Return what is timed: our command with a list and without one, each beside its own, and the engine."""
    command = Path(sys.executable).with_name("sordino")
    pure = create_account(command, source, folder, "pure")
    failing = create_account(
        command, source, folder, "failing", "--delta", "1e-3", "--failures", "5e-4"
    )
    top = [str(command), "top", str(source), "--item", "item", "--user", "user", "-k", str(K)]
    top += ["--epsilon", "1", "--format", "json"]
    listed, unlisted = ["--domain", str(domain)], ["--unlisted", "--delta", "1e-6"]
    capped = ["--max-rows", "20"]
    return {
        "ours": [*top, *listed, *pure],
        "unlisted": [*top, *unlisted, *failing],
        "capped": [*top, *capped, *listed, *failing],
        "unlisted, capped": [*top, *capped, *unlisted, *failing],
        "bare": [sys.executable, "-c", BARE.format(source)],
    }


def check_rows(out, truth):
    """Check that the labels are the right ones, and that the intervals hold."""
    rows = json.loads(out)["rows"]
    assert len(rows) == K
    assert sum(row["item"] in truth for row in rows) >= K * 0.9
    held = [row["low"] <= truth.get(row["item"], row["low"]) <= row["high"] for row in rows]
    assert sum(held) >= K * 0.8


def report():
    compile_package()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, domain, truth = write(folder)
        commands = list_commands(source, domain, folder)
        seconds, memory = {who: [] for who in commands}, {who: [] for who in commands}
        for _ in range(ROUNDS):
            for who, line in commands.items():
                out, taken, peak = process(*line)
                seconds[who].append(taken)
                memory[who].append(peak)
                if who == "ours":
                    check_rows(out, truth)
        size = source.stat().st_size / 1e6
    middle = {who: statistics.median(times) for who, times in seconds.items()}
    a, b = middle["ours"], middle["bare"]
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
        "",
        "The same with labels that nobody listed (`--unlisted --delta 1e-6`), beside the same command with the list:",
        "",
        *table(
            ("a user counts for", "with a list s", "unlisted s", "ratio", "target", "peak MB", ""),
            [
                compare_unlisted("any number of items", "ours", "unlisted", middle, memory),
                compare_unlisted("20 rows at most", "capped", "unlisted, capped", middle, memory),
            ],
        ),
    ]


def compare_unlisted(case, listed, unlisted, middle, memory):
    """Return the row of a case: seconds of both, and how they compare."""
    ratio = middle[unlisted] / middle[listed]
    peak = f"{statistics.median(memory[unlisted]) / 1e6:.0f}"
    return (
        case,
        f"{middle[listed]:.2f}",
        f"{middle[unlisted]:.2f}",
        f"{ratio:.2f}x",
        "1.1x",
        peak,
        verdict(ratio <= 1.1),
    )
