"""Where the ledger of a round is: a file in memory, a file on the disk, or a server."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.postgres import Cluster

MEMORY = Path("/dev/shm")
_SMALL = {"memory": 256 << 20, "server": 640 << 20}
"""Bytes of file systems that are made to be full at times."""
_NEW_MOUNTS, _NEW_USERS, _PRIVATE = 0x20000, 0x10000000, 1 << 18 | 1 << 14
_DETACH = 2
_RECOVERS = 60.0


def own_mounts() -> bool:
    """Let what this process mounts be seen by it and its children alone; tell whether that is allowed.

    It needs Linux and the right to make a mount namespace; a process with threads may not have one.
    """
    try:
        system = ctypes.CDLL(None, use_errno=True)
        user, group = os.getuid(), os.getgid()
        if system.unshare(_NEW_MOUNTS | (_NEW_USERS if user else 0)):
            return False
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        return not system.mount(b"none", b"/", None, _PRIVATE, None)
    except (AttributeError, OSError):
        return False


def small_disk(kind: str, folder: Path) -> bool:
    """Put a small file system at a folder; the system removes it when the last process that sees it has ended."""
    size = f"size={_SMALL[kind]},mode=777".encode()
    return not ctypes.CDLL(None).mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, size)


def remove_small_disk(folder: Path) -> None:
    """Take a small file system away, so that its folder can be removed."""
    ctypes.CDLL(None).umount2(os.fsencode(folder), _DETACH)


@contextmanager
def scratch(folder: Path | None = None) -> Iterator[Path]:
    """Lend a folder for files that nobody keeps, in memory unless another place is named."""
    place = folder or (MEMORY if os.access(MEMORY, os.W_OK) else None)
    with tempfile.TemporaryDirectory(
        prefix="sordino-soak-", dir=place, ignore_cleanup_errors=True
    ) as name:
        Path(name).chmod(0o711)  # the user of the server passes through
        yield Path(name)


class FilePlace:
    """A ledger in a file, which can be moved."""

    def __init__(self, kind: str, folder: Path, *, small: bool = False) -> None:
        self.kind, self.folder, self.small = kind, folder, small
        self.moves = 0
        self.path = self._next()

    @property
    def url(self) -> str:
        return str(self.path)

    def _next(self) -> Path:
        self.moves += 1
        place = self.folder / f"place-{self.moves}"
        place.mkdir()
        return place / "budget.db"

    @property
    def journal(self) -> Path:
        return Path(f"{self.path}-journal")

    def move(self, *, journal: bool) -> Path:
        """Move the file to a new folder, with its journal or alone; return where it was."""
        before, beside = self.path, self.journal
        self.path = self._next()
        before.rename(self.path)
        if journal and beside.exists():
            beside.rename(self.journal)
        return before

    def copy_back(self) -> None:
        """Copy the file and its journal away, and copies of the copies back under their names."""
        away = self._next().parent
        for path in (self.path, self.journal):
            if path.exists():
                copy = shutil.copy(path, away)
                path.unlink()
                shutil.copy(copy, path)
        shutil.rmtree(away)

    def clear(self) -> None:
        for path in self.folder.glob("place-*"):
            shutil.rmtree(path)
        self.path = self._next()


class ServerPlace:
    """A ledger on a server of our own."""

    kind = "server"

    def __init__(self, server: Cluster, *, small: bool = False) -> None:
        self.server, self.small = server, small

    @property
    def folder(self) -> Path:
        return self.server.folder

    @property
    def url(self) -> str:
        return self.server.url()

    def revived(self) -> bool:
        """Start the server if it has ended by itself; tell whether it had. One that is recovering is waited for."""
        give_up = time.monotonic() + _RECOVERS
        while self.server.is_running():
            try:
                self.server.superuser().close()
            except psycopg.OperationalError:
                if time.monotonic() > give_up:
                    raise
                time.sleep(0.05)
            else:
                return False
        self.server.start()
        return True

    def clear(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS sordino CASCADE")


Place = FilePlace | ServerPlace
