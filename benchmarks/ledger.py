"""Durable charges a second of many writers against a bare loop of UPDATE, INSERT, COMMIT on the same disk, and a long history."""

from __future__ import annotations

import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from fractions import Fraction
from pathlib import Path

from benchmarks.measuring import table, verdict
from sordino import Budget, Ledger, cost

ROUNDS = 5
ROWS = 1_000_000
TINY = cost.Pure(epsilon=Fraction(5, 10**9))


def account(url):
    budget = Budget(epsilon=10**6)
    return Ledger.create(url, account="a", budget=budget, adjacency="add-remove", unit="user", source="name:benchmark")


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


def ours(url, charges, *, whole=False):
    def job():
        ledger = Ledger.open(url, account="a")

        def work():
            for _ in range(charges):
                charge = ledger.reserve(TINY, label="benchmark")
                if whole:
                    charge.draw(TINY)
                    charge.settle()

        return work

    return job


def bare_sqlite(path, charges):
    def job():
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        connection.execute("PRAGMA synchronous = FULL")

        def work():
            for _ in range(charges):
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE budget SET spent = spent + 5 WHERE name = 'a' AND spent + 5 <= limit_")
                connection.execute("INSERT INTO charge VALUES (?, 'a', 5, 'benchmark')", (os.urandom(16).hex(),))
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
                    connection.execute("UPDATE budget SET spent = spent + 5 WHERE name = 'a' AND spent + 5 <= limit_")
                    connection.execute("INSERT INTO charge VALUES (%s, 'a', 5, 'benchmark')", (os.urandom(16).hex(),))

        return work

    return job


BARE = (
    "CREATE TABLE budget (name TEXT PRIMARY KEY, spent BIGINT, limit_ BIGINT)",
    "CREATE TABLE charge (id TEXT PRIMARY KEY, name TEXT, amount BIGINT, label TEXT)",
    "INSERT INTO budget VALUES ('a', 0, 1000000000000)",
)


def compared(name, writers, each, bare, url):
    taken = {"bare": [], "reserve": [], "whole": []}
    for _ in range(ROUNDS):
        taken["bare"].append(together(writers, bare(each)))
        taken["reserve"].append(together(writers, ours(url, each)))
        taken["whole"].append(together(writers, ours(url, each, whole=True)))
    rate = {job: writers * each / statistics.median(seconds) for job, seconds in taken.items()}
    ratio = rate["reserve"] / rate["bare"]
    return (
        name,
        writers,
        f"{rate['bare']:.0f}",
        f"{rate['reserve']:.0f}",
        f"{ratio:.2f}",
        verdict(ratio >= 0.6) if writers > 1 else "not asked",
        f"{rate['whole']:.0f}",
    )


def sqlite_rows(folder):
    bare = folder / "bare.db"
    connection = sqlite3.connect(bare, isolation_level=None)
    for statement in ("PRAGMA journal_mode = WAL", *BARE):
        connection.execute(statement)
    connection.close()
    account(folder / "ours.db")
    rows = [
        compared("SQLite", writers, each, lambda n: bare_sqlite(bare, n), folder / "ours.db")
        for writers, each in ((8, 60), (1, 300))
    ]
    Ledger.open(folder / "ours.db", account="a").verify().raise_if_broken()
    return rows


class Cluster:
    """A PostgreSQL server of our own with its default durability, or the one that SORDINO_TEST_POSTGRES names."""

    def __init__(self, folder):
        self.data, self.child, self.url = folder / "postgres", None, os.environ.get("SORDINO_TEST_POSTGRES")
        if self.url is None:
            found = sorted(Path("/usr/lib/postgresql").glob("*/bin")) or [Path(shutil.which("initdb") or "/none/initdb").parent]
            self.bin = found[-1]
            self.user = {"user": "postgres"} if os.getuid() == 0 else {}
            self.start(folder)

    def start(self, folder):
        import socket

        if not (self.bin / "initdb").exists():
            raise FileNotFoundError("PostgreSQL is not installed")
        self.data.mkdir()
        if self.user:
            folder.chmod(0o755)
            shutil.chown(self.data, "postgres")
        run = [self.bin / "initdb", "-D", self.data, "-U", "owner", "--auth=trust", "-E", "UTF8", "--no-locale"]
        subprocess.run(run, check=True, capture_output=True, **self.user)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = (
            "-p",
            str(port),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "unix_socket_directories=",
            "-c",
            "max_connections=60",
        )
        log = (folder / "log").open("wb")
        self.child = subprocess.Popen([self.bin / "postgres", "-D", self.data, *options], stdout=log, stderr=log, **self.user)
        self.url = f"postgresql://owner@127.0.0.1:{port}/postgres"

    def __enter__(self):
        import psycopg

        for _ in range(100):
            try:
                self.server = psycopg.connect(self.url, autocommit=True)
            except psycopg.OperationalError:
                time.sleep(0.1)
            else:
                return self
        raise RuntimeError("the server does not answer")

    def __exit__(self, *_):
        self.server.execute("DROP SCHEMA IF EXISTS sordino CASCADE")
        self.server.execute("DROP TABLE IF EXISTS budget, charge")
        self.server.close()
        if self.child is not None:
            self.child.send_signal(2)  # SIGINT: a fast shutdown
            self.child.wait()


def postgres_rows(folder):
    with Cluster(folder) as cluster:
        for statement in ("DROP SCHEMA IF EXISTS sordino CASCADE", "DROP TABLE IF EXISTS budget, charge", *BARE):
            cluster.server.execute(statement)
        account(cluster.url)
        rows = [
            compared("PostgreSQL", writers, each, lambda n: bare_postgres(cluster.url, n), cluster.url)
            for writers, each in ((32, 63), (1, 300))
        ]
        Ledger.open(cluster.url, account="a").verify().raise_if_broken()
        looked = long_history(cluster.url, cluster.server.execute, "sordino.", "generate_series(2, {0}) AS s(n)")
    return rows, looked


def long_history(url, execute, prefix, numbers):
    """Milliseconds of `remaining` after a million more events were put beside the account."""
    ledger = Ledger.open(url, account="a")
    ledger.grant("long", 1)
    execute(
        f"INSERT INTO {prefix}event SELECT 'long', n, 'draw', '', 0, 0, 1000000000, 'x', '{{}}' FROM " + numbers.format(ROWS + 1)
    )
    execute(f"UPDATE {prefix}account SET number = {ROWS + 1} WHERE name = 'long'")
    long = Ledger.open(url, account="long")
    seconds = []
    for _ in range(101):
        started = time.perf_counter()
        assert long.remaining == 1
        seconds.append(time.perf_counter() - started)
    return 1000 * statistics.median(seconds)


def sqlite_history(folder):
    connection = sqlite3.connect(folder / "ours.db")
    series = "(WITH RECURSIVE s(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM s WHERE n < {0}) SELECT n FROM s)"

    def execute(statement):
        connection.execute(statement)
        connection.commit()

    try:
        return long_history(folder / "ours.db", execute, "", series)
    finally:
        connection.close()


def report():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = sqlite_rows(folder)
        looked = [("SQLite", sqlite_history(folder))]
        try:
            more, milliseconds = postgres_rows(folder)
        except (FileNotFoundError, ImportError) as missing:
            print(f"PostgreSQL is left out: {missing}", file=sys.stderr)
        else:
            rows += more
            looked.append(("PostgreSQL", milliseconds))
    header = ("database", "writers", "bare loop/s", "reserve/s", "ratio", "target 0.60", "reserve + draw + settle/s")
    return [
        "## Ledger",
        "",
        "Durable reservations of many processes on one account (one commit each, with their link of the hash chain) against the same number "
        "of processes that UPDATE, INSERT and COMMIT on connections of their own; full durability everywhere. The last column is whole "
        "charges: three commits each.",
        "",
        *table(header, rows),
        "",
        f"`remaining` beside {ROWS:,} events of the account:",
        "",
        *table(("database", "ms", "target 2 ms"), [(name, f"{ms:.2f}", verdict(ms < 2)) for name, ms in looked]),
    ]
