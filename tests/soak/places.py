"""Where the ledger of a round is: a file in memory, a file on the disk, or a server."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from support.postgres import Cluster

MEMORY = Path("/dev/shm")
_SMALL = 256 << 20
"""Bytes of a file system that is made to be full at times."""
_NEW_MOUNTS, _NEW_USERS, _PRIVATE = 0x20000, 0x10000000, 1 << 18 | 1 << 14
_DETACH = 2


def small_disk(folder: Path) -> bool:
    """Put a small file system of our own at a folder, which only this process and its children see; tell whether that is allowed.

    It needs Linux and the right to make a mount namespace. The system removes it when the last of these processes has ended.
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
        size = f"size={_SMALL},mode=755".encode()
        # Nothing that is mounted here is seen outside.
        alone = system.mount(b"none", b"/", None, _PRIVATE, None)
        return not alone and not system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, size)
    except (AttributeError, OSError):
        return False


def remove_small_disk(folder: Path) -> None:
    """Take the small file system away, so that its folder can be removed."""
    ctypes.CDLL(None).umount2(os.fsencode(folder), _DETACH)


@contextmanager
def scratch(folder: Path | None = None) -> Iterator[Path]:
    """Lend a folder for files that nobody keeps, in memory unless another place is named."""
    place = folder or (MEMORY if os.access(MEMORY, os.W_OK) else None)
    with tempfile.TemporaryDirectory(prefix="sordino-soak-", dir=place, ignore_cleanup_errors=True) as name:
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

    def __init__(self, server: Cluster) -> None:
        self.server = server

    @property
    def url(self) -> str:
        return self.server.url()

    def clear(self) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET client_min_messages = warning")
            connection.execute("DROP SCHEMA IF EXISTS sordino CASCADE")


Place = FilePlace | ServerPlace
