"""Faults: a process killed between two statements, a full disk, a cut connection, a backend that stops inside an operation."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from sordino.ledger.store import sqlite

PATIENCE = 20.0
COMMITTED = "after the COMMIT of a write"


class Counter:
    """Counts the boundaries between statements in this process and kills it at the `fatal` one.

    Its will, if there is one, is how many writes it had committed by then: busy neighbours move the boundaries.
    """

    def __init__(self, fatal: int | None = None, will: Path | None = None) -> None:
        self.seen: list[str] = []
        self.fatal, self.will = fatal, will
        counter = self

        class Connection(sqlite3.Connection):
            writes = False

            def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
                self.writes = sql == "BEGIN IMMEDIATE" or (self.writes and sql != "BEGIN")
                counter.boundary("before " + sql)
                try:
                    return super().execute(sql, *arguments)
                finally:
                    counter.boundary(
                        COMMITTED if sql == "COMMIT" and self.writes else "after " + sql
                    )

            def close(self) -> None:
                counter.boundary("before close")
                super().close()
                counter.boundary("after close")

        self.factory = Connection

    def boundary(self, name: str) -> None:
        self.seen.append(name)
        if len(self.seen) - 1 == self.fatal:
            if self.will is not None:
                self.will.write_text(str(self.seen.count(COMMITTED)))
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self, patch: Callable[[Any, str, Any], None] = setattr) -> None:
        sqlite.close_all()
        connect = sqlite3.connect
        patch(
            sqlite3,
            "connect",
            lambda *arguments, **options: connect(*arguments, factory=self.factory, **options),
        )


def failing(
    patch: pytest.MonkeyPatch, code: int, when: Callable[[str], bool], *, after: bool = False
) -> list[str]:
    """Let SQLite fail at chosen statements, before or after doing them; return the list of those that failed."""
    sqlite.close_all()
    connect, failed = sqlite3.connect, []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
            chosen = when(sql)
            if after or not chosen:
                cursor = super().execute(sql, *arguments)
            if chosen:
                failed.append(sql)
                error = sqlite3.OperationalError("said by a test")
                error.sqlite_errorcode = code
                raise error
            return cursor

    patch.setattr(
        sqlite3,
        "connect",
        lambda *arguments, **options: connect(*arguments, factory=Connection, **options),
    )
    return failed


class Proxy:
    """Stands between client and server and cuts connections.

    A plan is asked at every message of a client; it answers None (let it pass), "before" (the server never sees it), "after" (the client
    never sees the answer), "middle" (the client sees the beginning of the answer) or "at once" (cut while the server works on it).
    """

    def __init__(
        self, url: str, plan: Callable[[bytes], str | None] = lambda message: None
    ) -> None:
        server = urlsplit(url)
        self.server, self.plan, self.cuts = (server.hostname, server.port or 5432), plan, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.listening.settimeout(0.01)
        user = server.username or "postgres"
        secret = f":{server.password}" if server.password else ""
        self.url = (
            f"postgresql://{user}{secret}@127.0.0.1:{self.listening.getsockname()[1]}{server.path}"
        )
        self.stopped = threading.Event()
        self.pairs: list[tuple[socket.socket, socket.socket]] = []
        self.threads = [threading.Thread(target=self._accept)]
        self.threads[0].start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        self.threads[0].join()
        self.cut()
        for thread in self.threads:
            thread.join()
        self.listening.close()

    def cut(self) -> None:
        """Cut every connection now; whatever the servers are doing, they go on."""
        for pair in list(self.pairs):
            self._end(*pair)

    def _accept(self) -> None:
        while not self.stopped.is_set():
            try:
                client, _ = self.listening.accept()
            except TimeoutError:
                continue
            try:
                server = socket.create_connection(self.server, timeout=5)
            except OSError:  # the server is away
                client.close()
                continue
            for end in (client, server):
                end.settimeout(None)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((client, server))
            doomed: list[str] = []
            for run in (self._asks, self._answers):
                self.threads.append(threading.Thread(target=run, args=(client, server, doomed)))
                self.threads[-1].start()

    def _asks(self, client: socket.socket, server: socket.socket, doomed: list[str]) -> None:
        with suppress(OSError):
            while message := client.recv(1 << 16):
                manner = self.plan(message)
                if manner is not None:
                    self.cuts += 1
                if manner == "before":
                    break
                if manner in {"after", "middle", "at once"}:
                    doomed.append(
                        manner
                    )  # before the server is asked: a quick answer must not slip through
                server.sendall(message)
                if manner == "at once":
                    break
                if manner is not None:
                    return  # the other direction ends it
        self._end(client, server)

    def _answers(self, client: socket.socket, server: socket.socket, doomed: list[str]) -> None:
        with suppress(OSError):
            while answer := server.recv(1 << 16):
                if doomed:
                    if doomed[0] == "middle":
                        client.sendall(answer[: len(answer) // 2])
                    break
                client.sendall(answer)
        self._end(client, server)

    def _end(self, client: socket.socket, server: socket.socket) -> None:
        for end in (client, server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def once(needle: str, manner: str) -> Callable[[bytes], str | None]:
    """Return a plan that strikes the first message with the needle in it."""
    left = [manner]
    return lambda message: left.pop() if left and needle.encode() in message else None


POINTS = {  # where the function of an operation can be stopped: before and after each row that it writes
    "reserve": ("UPDATE account", "INSERT charge", "INSERT event"),
    "draw": ("UPDATE charge", "UPDATE account", "INSERT event"),
    "settle": ("UPDATE charge", "UPDATE account", "INSERT event"),
    "void": ("UPDATE charge", "UPDATE account", "INSERT event"),
    "keep": ("UPDATE account", "INSERT kept", "INSERT event"),
    "create": ("INSERT account", "INSERT event"),
    "entrust": ("UPDATE account", "INSERT account", "INSERT event"),
    "grant": ("UPDATE account", "INSERT event"),
}
_KEY = 7_777


@contextmanager
def trigger(url: str, point: str, moment: str, body: str) -> Iterator[psycopg.Connection]:
    """Let a trigger run `body` before or after every row that is written at a point."""
    verb, table = point.split()
    with psycopg.connect(url, autocommit=True) as connection:
        for sql in (
            "CREATE SCHEMA faults",
            f"CREATE FUNCTION faults.strike() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN NEW; END $$",
            f"CREATE TRIGGER strike {moment} {verb} ON sordino.{table} FOR EACH ROW EXECUTE FUNCTION faults.strike()",
        ):
            connection.execute(sql.encode())
        try:
            yield connection
        finally:
            connection.execute("SELECT pg_advisory_unlock_all()")
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA faults CASCADE")


class Blockade:
    """Stops every backend at one point until it is lifted."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        connection.execute("SELECT pg_advisory_lock(%s)", [_KEY])

    def waiting(self, count: int = 1) -> list[int]:
        """Wait until that many backends are stopped, here or behind one that is; return their process ids."""
        give_up = time.monotonic() + PATIENCE
        while True:
            stopped = self.connection.execute(
                "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ).fetchall()
            if len(stopped) >= count:
                return [pid for (pid,) in stopped]
            assert time.monotonic() < give_up, "nobody came to the point where the test waits"
            time.sleep(0.002)

    def terminate(self) -> None:
        """Terminate every backend that is stopped."""
        for pid in self.waiting():
            assert self.connection.execute(
                "SELECT pg_terminate_backend(%s, 5000)", [pid]
            ).fetchone() == (True,)

    def lift(self) -> None:
        self.connection.execute("SELECT pg_advisory_unlock(%s)", [_KEY])


@contextmanager
def blockade(url: str, point: str, moment: str) -> Iterator[Blockade]:
    body = f"PERFORM pg_advisory_xact_lock_shared({_KEY})"
    with trigger(url, point, moment, body) as connection:
        yield Blockade(connection)
