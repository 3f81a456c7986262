"""The ledger's transactions on a SQLite file: WAL, synchronous=FULL, one connection per transaction.

A connection that is open during a fork costs commits: SQLite keeps its file locks in memory of the process, the child believes it holds
them, the parent deletes the write-ahead log under the child and what the child commits next is lost (seen with SQLite 3.40: "committed"
rows were gone). So no connection outlives its transaction, and a fork waits for the transaction that is running.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from sordino.errors import LedgerConflict, LedgerError
from sordino.ledger._records import SCHEMA, VERSION

APPLICATION = 0x53_4F_52_44  # "SORD"
_TIMEOUT = 30.0

_running = threading.RLock()  # reentrant, so that a fork from a signal handler cannot wait for itself


# The forking thread holds the lock on both sides of the fork, so each side lets go of its own copy.
os.register_at_fork(before=_running.acquire, after_in_parent=_running.release, after_in_child=_running.release)


@contextmanager
def transaction(path: str, kind: Literal["read", "write", "create"]) -> Iterator[sqlite3.Connection]:
    """Run one transaction; it is durable when the block is left, and never happened if the block raises."""
    try:
        with _running:
            connection = _connect(path, kind)
            try:
                connection.execute("BEGIN" if kind == "read" else "BEGIN IMMEDIATE")
                if kind == "create":
                    _build_if_empty(connection, path)
                yield connection
                connection.execute("COMMIT")
            finally:
                _close(connection)
    except sqlite3.Error as error:
        raise _explained(error, path) from None


def _connect(path: str, kind: str) -> sqlite3.Connection:
    _check_place(path, kind)
    mode = "rwc" if kind == "create" else "rw"
    connection = sqlite3.connect(f"{Path(path).as_uri()}?mode={mode}", uri=True, timeout=_TIMEOUT, isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        if _is_ours(connection, path, may_be_new=kind == "create"):
            # For speed, not for safety: where WAL is not possible the rollback journal is as durable.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA journal_mode = WAL")
    except BaseException:
        connection.close()
        raise
    return connection


def _close(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:  # closing rolls back as well; what stopped the transaction is what the caller must hear
        pass
    finally:
        connection.close()


def _check_place(path: str, kind: str) -> None:
    file = Path(path)
    try:
        if not file.parent.is_dir():
            raise LedgerError(f"There is no folder {str(file.parent)!r} for the ledger {file.name!r}.")
        if kind != "create" and not file.exists():
            raise LedgerError(f"There is no ledger at {path!r}; `sordino ledger create` (Ledger.create) makes one.")
    except OSError:
        raise LedgerError(f"The ledger at {path!r} cannot be reached; check its name and the rights on its folder.") from None


def _is_ours(connection: sqlite3.Connection, path: str, *, may_be_new: bool) -> bool:
    """Return True for a ledger and False for an empty file where a ledger may be made; refuse everything else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION and version > VERSION:
        raise LedgerError(
            f"The ledger at {path!r} has schema {version} but this version of sordino knows schemas up to {VERSION}; use a newer sordino."
        )
    if application == APPLICATION and version >= 1:
        return True
    things = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if may_be_new and not (application or version or things):
        return False
    raise LedgerError(f"{path!r} is not a sordino ledger; it was left as it is.")


def _build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    if _is_ours(connection, path, may_be_new=True):
        return
    for statement in SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _explained(error: sqlite3.Error, path: str) -> LedgerError:
    """Return one clear sentence for a failure of SQLite; nothing of its text is repeated."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the class of an extended code
    where = f"The ledger at {path!r}"
    said = {
        sqlite3.SQLITE_FULL: f"{where} could not be written because the disk is full.",
        sqlite3.SQLITE_BUSY: f"{where} was locked by another process for longer than {_TIMEOUT:g} seconds; try again.",
        sqlite3.SQLITE_LOCKED: f"{where} was locked for longer than {_TIMEOUT:g} seconds; try again.",
        sqlite3.SQLITE_READONLY: f"{where} is read-only, and charges must be written to it.",
        sqlite3.SQLITE_PERM: f"{where} may not be opened by this user.",
        sqlite3.SQLITE_CANTOPEN: f"{where} cannot be opened; this user must be able to write to it and to its folder.",
        sqlite3.SQLITE_NOTADB: f"{path!r} is not a sordino ledger.",
        sqlite3.SQLITE_CORRUPT: f"{where} is damaged; restore it from a backup and charge what was released since.",
        sqlite3.SQLITE_IOERR: f"{where} could not be read or written: the operating system reports an input/output error.",
    }
    if code == sqlite3.SQLITE_CONSTRAINT:
        return LedgerConflict(f"{where} refused a change because it would break one of its own rules.")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return LedgerError(said.get(code, f"{where} could not be used: SQLite reports {name}."))
