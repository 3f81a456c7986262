"""Durable charges a second of many writers against a bare loop of UPDATE, INSERT, COMMIT on the same disk, and a long history."""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
import traceback
from fractions import Fraction
from pathlib import Path

from benchmarks.measuring import table, verdict
from sordino import Budget, Ledger, cost
from sordino.ledger import PartRange
from support.postgres import started_server

ROUNDS = 5
ROWS = 1_000_000
TINY = cost.Pure(epsilon=Fraction(5, 10**9))


BUDGETS = {"a": Budget(epsilon=10**6), "delta": Budget(epsilon=10**6, delta=1e-6)}
"""Accounts of a pure epsilon, and with a delta, which keep two sums."""


def make_accounts(url):
    for name, budget in BUDGETS.items():
        Ledger.create(
            url,
            account=name,
            budget=budget,
            adjacency="add-remove",
            unit="user",
            source="name:benchmark",
        )


def together(writers, job):
    """Seconds until `writers` processes have all done the job, from when all are ready."""
    ready, go = os.pipe(), os.pipe()
    children = []
    for _ in range(writers):
        child = os.fork()
        if not child:
            code = 1
            try:
                os.close(go[1])
                work = job()
                os.write(ready[1], b".")
                os.read(go[0], 1)
                work()
                code = 0
            except BaseException:  # noqa: BLE001  (a child must end here)
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    os.close(go[0])
    for _ in children:
        os.read(ready[0], 1)
    started = time.perf_counter()
    os.close(go[1])
    codes = [os.waitpid(child, 0)[1] for child in children]
    taken = time.perf_counter() - started
    os.close(ready[0])
    os.close(ready[1])
    if any(codes):
        raise RuntimeError(f"writers ended with {codes}")
    return taken


def ours(url, charges, *, whole=False, account="a"):
    def job():
        ledger = Ledger.open(url, account=account)

        def work():
            for _ in range(charges):
                charge = ledger.reserve(TINY, label="benchmark")
                if whole:
                    charge.draw(TINY)
                    charge.settle()

        return work

    return job


def bare_sqlite(path, charges, mode, safety):
    def job():
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute(f"PRAGMA synchronous = {safety}")

        def work():
            for _ in range(charges):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(
                    "UPDATE bare_budget SET spent = spent + 5 WHERE name = 'a' AND spent + 5 <= limit_"
                )
                connection.execute(
                    "INSERT INTO bare_charge VALUES (?, 'a', 5, 'benchmark')",
                    (os.urandom(16).hex(),),
                )
                connection.execute("COMMIT")

        return work

    return job


def bare_postgres(url, charges):
    import psycopg

    def job():
        connection = psycopg.connect(url)

        def work():
            for _ in range(charges):
                with connection.transaction():
                    connection.execute(
                        "UPDATE bare_budget SET spent = spent + 5 WHERE name = 'a' AND spent + 5 <= limit_"
                    )
                    connection.execute(
                        "INSERT INTO bare_charge VALUES (%s, 'a', 5, 'benchmark')",
                        (os.urandom(16).hex(),),
                    )

        return work

    return job


BARE = (
    "CREATE TABLE bare_budget (name TEXT PRIMARY KEY, spent BIGINT, limit_ BIGINT)",
    "CREATE TABLE bare_charge (id TEXT PRIMARY KEY, name TEXT, amount BIGINT, label TEXT)",
    "INSERT INTO bare_budget VALUES ('a', 0, 1000000000000)",
)


def compared(name, writers, each, bare, url, in_file=None):
    """Compare a ledger with a bare loop, and with one that keeps what is committed in the file itself."""
    taken = {"bare": [], "file": [], "reserve": [], "whole": [], "delta": []}
    for _ in range(ROUNDS):
        taken["bare"].append(together(writers, bare(each)))
        if in_file is not None:
            taken["file"].append(together(writers, in_file(each)))
        taken["reserve"].append(together(writers, ours(url, each)))
        taken["whole"].append(together(writers, ours(url, each, whole=True)))
        taken["delta"].append(together(writers, ours(url, each, account="delta")))
    rate = {
        job: writers * each / statistics.median(seconds)
        for job, seconds in taken.items()
        if seconds
    }
    ratio = rate["reserve"] / rate["bare"]
    return (
        name,
        writers,
        f"{rate['bare']:.0f}",
        f"{rate['reserve']:.0f}",
        f"{ratio:.2f}",
        verdict(ratio >= 0.6) if writers > 1 else "not asked",
        f"{rate['whole']:.0f}",
        f"{rate['delta']:.0f}",
        f"{rate['delta'] / rate['bare']:.2f}",
        f"{rate['reserve'] / rate['file']:.2f}" if in_file is not None else "",
    )


def sqlite_rows(folder):
    logged, journaled = folder / "logged.db", folder / "journaled.db"
    for path, mode in ((logged, "WAL"), (journaled, "PERSIST")):
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in (f"PRAGMA journal_mode = {mode}", *BARE):
            connection.execute(statement)
        connection.close()
    make_accounts(folder / "ours.db")
    rows = [
        compared(
            "SQLite",
            writers,
            each,
            lambda n: bare_sqlite(logged, n, "WAL", "FULL"),
            folder / "ours.db",
            lambda n: bare_sqlite(journaled, n, "PERSIST", "EXTRA"),
        )
        for writers, each in ((8, 60), (1, 300))
    ]
    Ledger.open(folder / "ours.db", account="a").verify().raise_if_broken()
    return rows


def postgres_rows():
    """Compare on a server of our own with its default durability."""
    import psycopg

    with (
        started_server(fsync="on", shared_buffers="128MB") as cluster,
        psycopg.connect(cluster.address, autocommit=True) as server,
    ):
        for statement in BARE:
            server.execute(statement)
        make_accounts(cluster.address)
        rows = [
            compared(
                "PostgreSQL",
                writers,
                each,
                lambda n: bare_postgres(cluster.address, n),
                cluster.address,
            )
            for writers, each in ((32, 63), (1, 300))
        ]
        Ledger.open(cluster.address, account="a").verify().raise_if_broken()
        given = (server.execute, "sordino.", "generate_series(2, CAST({0} AS bigint)) AS s(n)")
        looked = long_history(cluster.address, *given)
        parts = part_rows(cluster.address, "PostgreSQL")
        many = long_parts(cluster.address, "PostgreSQL", *given)
    return rows, looked, parts, many


class Unit:
    """A unit of two columns, one of them a day."""

    identity = 'columns "user", day("at")'


DAYS = 3_650
PARTS = {
    "one part": lambda n: PartRange(n % DAYS, n % DAYS),
    "31 parts": lambda n: PartRange(n % (DAYS - 31), n % (DAYS - 31) + 30),
    "365 parts": lambda n: PartRange(n % (DAYS - 365), n % (DAYS - 365) + 364),
    "the whole table": lambda _: None,
}
WANTED = {"one part": 1.3, "31 parts": 2.0}


def part_rows(url, name, rounds=200):
    """Milliseconds of a reservation in an account of 3,650 parts, in turns with one without parts on the same place."""
    plain = Ledger.open(url, account="a")
    parted = Ledger.create(
        url,
        account="parts",
        budget=BUDGETS["a"],
        adjacency="add-remove",
        unit=Unit(),
        source="name:parts",
        parts="day",
    )
    parted.reserve(TINY, parts=PartRange(0, DAYS - 1))
    jobs = {"no parts": lambda _: plain.reserve(TINY)}
    for what, of in PARTS.items():
        jobs[what] = lambda n, of=of: parted.reserve(TINY, parts=of(37 * n))
    taken = {what: [] for what in jobs}
    for n in range(rounds):
        for what, job in jobs.items():
            started = time.perf_counter()
            job(n)
            taken[what].append(1000 * (time.perf_counter() - started))
    middle = {what: statistics.median(times) for what, times in taken.items()}
    rows = []
    for what in PARTS:
        ratio = middle[what] / middle["no parts"]
        asked = verdict(ratio <= WANTED[what]) if what in WANTED else "not asked"
        target = f"{WANTED[what]} times, {asked}" if what in WANTED else asked
        rows.append((name, what, f"{middle[what]:.2f}", f"{ratio:.2f}", target))
    looked = []
    for n in range(50):
        started = time.perf_counter()
        parted.find_left(parts=PartRange(n, n))
        looked.append(1000 * (time.perf_counter() - started))
    left = statistics.median(looked)
    rows.append((name, "what is left of a part", f"{left:.2f}", "", f"3 ms, {verdict(left <= 3)}"))
    parted.verify().raise_if_broken()
    return rows


def long_history(url, execute, prefix, numbers):
    """Milliseconds of `remaining` after a million more events were put beside the account."""
    ledger = Ledger.open(url, account="a")
    ledger.grant("long", 1)
    execute(
        f"INSERT INTO {prefix}event (account, number, kind, charge, amount, spent, allowance, head, body) "
        "SELECT 'long', n, 'draw', '', 0, 0, 1000000000, 'x', '{}' FROM " + numbers.format(ROWS + 1)
    )
    execute(f"UPDATE {prefix}account SET number = {ROWS + 1} WHERE name = 'long'")
    long = Ledger.open(url, account="long")
    seconds = []
    for _ in range(101):
        started = time.perf_counter()
        assert long.remaining == 1
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds)


def long_parts(url, name, execute, prefix, numbers):
    """Milliseconds of what is asked of an account of 3,650 parts after a million charges of random days."""
    rows = []
    for kind, budget in {"epsilons": BUDGETS["a"], "with a delta": BUDGETS["delta"]}.items():
        account = f"{kind} parts"
        ledger = Ledger.create(
            url,
            account=account,
            budget=budget,
            adjacency="add-remove",
            unit=Unit(),
            source=f"name:{kind}",
            parts="day",
        )
        ledger.reserve(TINY, parts=PartRange(0, DAYS - 1))
        # Of each number another day, in no order.
        key, day = f"'{account} ' || n", f"(n * 2654435761) % {DAYS}"
        series, sums = numbers.format(ROWS + 2), "0,0,0,0,0,0,0,0;;0;0;0,0,0,0"
        execute(
            f"INSERT INTO {prefix}charge (id, account, number, digest, lock, state, reserved, drawn, draws, settled) "
            f"SELECT {key}, '{account}', n, 'x', 'x', 'settled', 0, 0, 0, 0 FROM {series} WHERE n > 2"
        )
        execute(
            f"INSERT INTO {prefix}span (charge, low, high, account) SELECT {key}, {day}, {day}, '{account}' "
            f"FROM {series} WHERE n > 2"
        )
        execute(
            f"INSERT INTO {prefix}event (account, number, kind, charge, amount, spent, allowance, head, body, sums) "
            f"SELECT '{account}', n, 'reserve', {key}, 0, 0, 1000000000, 'x', '{{}}', '{sums}' "
            f"FROM {series} WHERE n > 2"
        )
        execute(f"UPDATE {prefix}account SET number = {ROWS + 2} WHERE name = '{account}'")
        long = Ledger.open(url, account=account)
        jobs = {
            "remaining of a part": lambda n, long=long: long.find_left(parts=PartRange(n, n)),
            "of 365 parts": lambda n, long=long: long.find_left(parts=PartRange(n, n + 364)),
            "of the whole table": lambda _, long=long: long.find_left(),
            "remaining of the account": lambda _, long=long: long.remaining,
            "a statement without charges": lambda _, long=long: long.statement(charges=False),
            "a charge of one part": lambda n, long=long: long.reserve(TINY, parts=PartRange(n, n)),
        }
        for what, job in jobs.items():
            taken = []
            for n in range(101):
                started = time.perf_counter()
                job(37 * n % (DAYS - 365))
                taken.append(1000 * (time.perf_counter() - started))
            middle = statistics.median(taken)
            asked = f"3 ms, {verdict(middle < 3)}" if what == "remaining of a part" else "not asked"
            rows.append((name, kind, what, f"{middle:.2f}", asked))
    return rows


def in_sqlite(path, job):
    """Run a job with what changes a file behind the back of the ledger, and numbers for that."""
    connection = sqlite3.connect(path)
    # As the ledger does: the file beside it says that nothing was torn.
    connection.execute("PRAGMA journal_mode = PERSIST")
    series = "(WITH RECURSIVE s(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)"

    def execute(statement):
        connection.execute(statement)
        connection.commit()

    try:
        return job(execute, "", series)
    finally:
        connection.close()


def report():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = sqlite_rows(folder)
        file, parted = folder / "ours.db", folder / "parts.db"
        looked = [("SQLite", in_sqlite(file, lambda *given: long_history(file, *given)))]
        make_accounts(parted)
        parts = part_rows(parted, "SQLite")
        many = in_sqlite(parted, lambda *given: long_parts(parted, "SQLite", *given))
        more, milliseconds, of_server, many_of_server = postgres_rows()
        many += many_of_server
        rows += more
        parts += of_server
        looked.append(("PostgreSQL", milliseconds))
    header = (
        "database",
        "writers",
        "bare loop/s",
        "reserve/s",
        "ratio",
        "target 0.60",
        "reserve + draw + settle/s",
        "reserve/s with a delta",
        "ratio",
        "reserve to a bare loop that keeps charges in the file",
    )
    return [
        "## Ledger",
        "",
        "Durable reservations of many processes on one account (one commit each, with their link of the hash chain) against the same number "
        "of processes that UPDATE, INSERT and COMMIT on connections of their own; full durability everywhere. Whole charges "
        "are three commits each. An account with a delta keeps two sums. The bare loop of SQLite writes a log beside the file (WAL, one "
        "sync a commit); a ledger keeps every charge in the file itself (a journal, several syncs a commit: ADR 0015), and so "
        "does the bare loop of the last column.",
        "",
        *table(header, rows),
        "",
        f"`remaining` beside {ROWS:,} events of the account:",
        "",
        *table(
            ("database", "ms", "target 2 ms"),
            [(name, f"{ms:.2f}", verdict(ms < 2)) for name, ms in looked],
        ),
        "",
        f"One client reserves, in turns, in an account without parts and in one of {DAYS:,} parts "
        "(medians of 200 turns):",
        "",
        *table(("database", "a charge of", "ms", "to one without parts", "target"), parts),
        "",
        f"Accounts of {DAYS:,} parts after {ROWS:,} charges of random days, which were put into the tables of the ledger directly (medians of 101):",
        "",
        *table(("database", "account", "what", "ms", "target"), many),
    ]
