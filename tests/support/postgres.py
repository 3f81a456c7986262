"""A PostgreSQL server for tests: a cluster of their own, or the server that SORDINO_TEST_POSTGRES names."""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

VARIABLE = "SORDINO_TEST_POSTGRES"
MISSING = (
    "These tests need PostgreSQL: install its server (initdb and postgres, for example the package postgresql) or set "
    f"{VARIABLE} to the address of a server where they may make a database of their own."
)
_PATIENCE = 60.0
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "max_connections": "80",
    "shared_buffers": "16MB",
    "dynamic_shared_memory_type": "mmap",
    "fsync": "off",  # the machine does not crash here, processes do
    "synchronous_commit": "on",
    "autovacuum": "off",
    "log_min_messages": "log",
}


def binaries() -> Path:
    """Return the folder of initdb and postgres, or fail with what to install."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    if (asks := shutil.which("pg_config")) is not None:
        said = subprocess.run([asks, "--bindir"], capture_output=True, text=True, check=True)
        folders.append(Path(said.stdout.strip()))
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)
    for folder in folders:
        if (folder / "initdb").is_file() and (folder / "postgres").is_file():
            return folder
    raise AssertionError(MISSING)


def _unprivileged() -> str | None:
    """Return the user that runs the server where root must not."""
    if os.getuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody", "daemon") if name in known)


def _dies_with_its_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)  # PR_SET_PDEATHSIG: no server outlives tests that were killed


class Cluster:
    """A server that belongs to the tests of this process."""

    def __init__(self) -> None:
        self.bin = binaries()
        self.folder = Path(tempfile.mkdtemp(prefix="sordino-postgres-"))
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.user = _unprivileged()
        if self.user is not None:
            shutil.chown(self.folder, self.user)
        self.running: subprocess.Popen[bytes] | None = None
        self.owner = os.getpid()
        atexit.register(self.remove)
        made = [self.bin / "initdb", "-D", self.data, "-U", "sordino", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(made, user=self.user, check=True, capture_output=True, cwd=self.folder)
        self.allow("host all all 127.0.0.1/32 trust")
        self.port = _free_port()
        self.start()
        with self.superuser() as connection:
            connection.execute("CREATE DATABASE ledgers")

    def allow(self, *lines: str) -> None:
        """Write pg_hba.conf; the first line that fits decides."""
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")

    def url(self, user: str = "sordino", password: str | None = None, database: str = "ledgers") -> str:
        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def superuser(self) -> psycopg.Connection:
        return psycopg.connect(self.url(database="postgres"), autocommit=True)

    def start(self) -> None:
        assert threading.current_thread() is threading.main_thread(), "the server would die with the thread that started it"
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [self.bin / "postgres", "-D", self.data, "-p", str(self.port), *settings],
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=_dies_with_its_parent,  # noqa: PLW1509  (calls into the system only)
            )
        give_up = time.monotonic() + _PATIENCE
        while True:
            try:
                self.superuser().close()
            except psycopg.OperationalError:
                assert time.monotonic() < give_up, self.log.read_text()
                assert self.running.poll() is None, self.log.read_text()
                time.sleep(0.02)
            else:
                return

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends every session first, SIGQUIT is a crash."""
        if self.running is not None:
            self.running.send_signal(how)
            self.running.wait(_PATIENCE)
            self.running = None

    def reload(self) -> None:
        with self.superuser() as connection:
            connection.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        if self.owner == os.getpid():  # a fork of the tests leaves it alone
            self.stop(signal.SIGQUIT)
            shutil.rmtree(self.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as asks:
        asks.bind(("127.0.0.1", 0))
        return int(asks.getsockname()[1])


@cache
def own_server() -> Cluster:
    """Return the cluster of this process, made at the first call and removed when the process ends."""
    return Cluster()


@cache
def database() -> str:
    """Return the address of a database that belongs to this process."""
    named = os.environ.get(VARIABLE)
    if not named:
        return own_server().url()
    mine = f"sordino_test_{os.getpid()}"

    def again(statement: str) -> None:
        with psycopg.connect(named, autocommit=True) as connection:
            connection.execute(statement.encode())

    def drop(owner: int = os.getpid()) -> None:
        if owner == os.getpid():
            again(f"DROP DATABASE IF EXISTS {mine} WITH (FORCE)")

    drop()
    again(f"CREATE DATABASE {mine}")
    atexit.register(drop)
    return urlunsplit(urlsplit(named)._replace(path=f"/{mine}"))


def fresh(*, roles: tuple[str, ...] = ()) -> str:
    """Return the address of a database without a ledger, where nobody else is at work."""
    url = database()
    with psycopg.connect(url, autocommit=True) as connection:
        others = "pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()"
        connection.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}".encode())
        connection.execute("SET client_min_messages = warning")
        for statement in ("DROP SCHEMA IF EXISTS sordino CASCADE", "DROP SCHEMA IF EXISTS faults CASCADE"):
            connection.execute(statement.encode())
        for role in roles:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
                connection.execute(f"DROP ROLE {role}".encode())
    return url
