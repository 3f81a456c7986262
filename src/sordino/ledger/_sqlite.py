"""A ledger in a SQLite file: WAL, synchronous=EXTRA, one connection for the whole process, one process at a time.

SQLite keeps writers apart by POSIX locks, and those are lost without a word in two ways while SQLite still believes in them: a fork hands
the belief to the child, and anybody in the process who opens one of the files and closes it again (to copy it, say) drops all locks of the
process on it. Then two may write at once, or a third may delete the write-ahead log under them (both seen with SQLite 3.40). Hence:

* Whoever connects, writes or closes holds `flock` on the file, which nobody else's close can drop.
* A connection is kept only while the system shows the locks that SQLite believes to hold; where it does not show locks, no connection
  outlives its transaction.
* A fork waits for the transaction that is running, and closes every connection first.
* A file with two names is refused: each name would have a write-ahead log of its own.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger._filesystem import check_place, locks_are_held, locks_of
from sordino.ledger._history import chained
from sordino.ledger._migration import migrate
from sordino.ledger._schema import TABLES, VERSION, Operation, rendered
from sordino.ledger._store import Rows

APPLICATION = 0x53_4F_52_44  # "SORD"
APPEND_ONLY = tuple(
    f"CREATE TRIGGER event_{verb.lower()} BEFORE {verb} ON event BEGIN SELECT RAISE(ABORT, 'the history is append-only'); END"
    for verb in ("UPDATE", "DELETE")
)
_TIMEOUT = 30.0
_POLL = 0.001
_LOCKED = "The ledger at {} was locked by another process for longer than {:g} seconds; try again."
_NOT_OPENED = "cannot be opened; this user must be able to write to it and to its folder."
_KEPT = 4  # files whose connections stay open


class _Open(NamedTuple):
    connection: sqlite3.Connection
    descriptor: int  # of the file, for flock; to close it drops the locks of SQLite, so the connection is closed first
    file: tuple[int, int]  # a file that was replaced under its name is another ledger
    process: int
    locks: tuple[bytes, ...]  # as the system shows them; empty: not to be kept


_running = threading.RLock()  # reentrant, so that a fork from a signal handler cannot wait for itself
_open: OrderedDict[str, _Open] = OrderedDict()


def close_all() -> None:
    """Close the connections that are kept open."""
    with _running:
        for path in list(_open):
            _drop(path, _open[path])


def _before_fork() -> None:
    _running.acquire()
    close_all()


# The forking thread holds the lock on both sides of the fork, so each side lets go of its own copy.
os.register_at_fork(before=_before_fork, after_in_parent=_running.release, after_in_child=_running.release)
atexit.register(close_all)


@final
class SqliteStore:
    """A file."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        if url == ":memory:":
            raise LedgerError("A ledger must outlive the process; give the path of a file instead of ':memory:'.")
        self.url = str(Path(url).absolute())  # the folder of the process may change later

    @property
    def address(self) -> str:
        """The path."""
        return self.url

    def build(self) -> None:
        """Make the file and its tables if there are none."""
        with _transaction(self.url, "create"):
            pass

    def apply(self, operation: Operation, parameters: dict[str, Any]) -> bool:
        """Do the operation; it is durable when this returns."""
        first, *rest = (rendered(statement, "", ":@") for statement in operation.statements)
        with _transaction(self.url, "write") as connection:
            if connection.execute(first, parameters).rowcount != 1:
                return False
            for statement in rest:
                connection.execute(statement, parameters)
        return True

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """Let the block ask questions that all see one moment."""
        with _transaction(self.url, "read") as connection:

            def rows(sql: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
                return connection.execute(rendered(sql, "", ":@"), parameters).fetchall()

            yield rows

    def permit(self, role: str) -> None:
        """Raise: a file has no roles."""
        raise InvalidParameter(
            f"A ledger in a file has no roles: whoever may write the file may do everything with it; got role {role!r}. "
            "Keep the ledger in PostgreSQL to let somebody charge and nothing else."
        )


@contextmanager
def _transaction(path: str, kind: Literal["read", "write", "create"]) -> Iterator[sqlite3.Connection]:
    """Run one transaction; it is durable when the block is left, and never happened if the block raises."""
    try:
        with _running:
            lent = _lent(path, kind)
            try:
                if kind == "read":  # needs no flock: a reader that has lost its locks reads wrong at worst, and writes nothing
                    fcntl.flock(lent.descriptor, fcntl.LOCK_UN)
                lent.connection.execute("BEGIN" if kind == "read" else "BEGIN IMMEDIATE")
                if kind == "create":
                    _build_if_empty(lent.connection, path)
                yield lent.connection
                lent.connection.execute("COMMIT")
            except BaseException:
                _drop(path, lent)
                raise
            if lent.locks:
                fcntl.flock(lent.descriptor, fcntl.LOCK_UN)
            else:
                _drop(path, lent)
    except sqlite3.Error as error:
        raise _explained(error, path) from None


def _lent(path: str, kind: str) -> _Open:
    """Return the connection that is kept for a file, or a new one, with the flock taken."""
    kept = _open.get(path)
    if kept is not None:
        if kept.process != os.getpid():
            raise LedgerError(
                f"The ledger at {path!r} was in use while this process was forked outside of Python; start the process with os.fork or "
                "multiprocessing, or use the ledger only after forking."
            )
        _take(kept.descriptor, path)
        if kept.file == _identity(path) and locks_are_held(kept.locks):
            _open.move_to_end(path)
            return kept
        _drop(path, kept)
    check_place(path)
    descriptor = _descriptor(path, kind)
    try:
        _take(descriptor, path)
        connection, locks = _connect(path, kind)
    except BaseException:
        os.close(descriptor)
        raise
    status = os.fstat(descriptor)
    fresh = _open[path] = _Open(connection, descriptor, (status.st_dev, status.st_ino), os.getpid(), locks)
    if fresh.file != _identity(path):
        _drop(path, fresh)
        raise LedgerError(f"The ledger at {path!r} was replaced in this moment; try again.")
    while len(_open) > _KEPT:
        oldest = next(iter(_open))
        _drop(oldest, _open[oldest])
    return fresh


def _take(descriptor: int, path: str) -> None:
    """Take the flock; one that this process has already stays taken."""
    give_up = time.monotonic() + _TIMEOUT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise LedgerError(_LOCKED.format(repr(path), _TIMEOUT)) from None
            time.sleep(_POLL)
        else:
            return


def _drop(path: str, kept: _Open) -> None:
    """Close a connection; the last one to close deletes the write-ahead log, so nobody may be writing meanwhile."""
    with suppress(KeyError):
        del _open[path]
    if kept.process != os.getpid():
        return
    try:
        with suppress(LedgerError):
            _take(kept.descriptor, path)
        _close(kept.connection)
    finally:
        os.close(kept.descriptor)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  (on the way of every charge)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _descriptor(path: str, kind: str) -> int:
    """Open the file for flock."""
    file = Path(path)
    try:
        if not file.parent.is_dir():
            raise LedgerError(f"There is no folder {str(file.parent)!r} for the ledger {file.name!r}.")
        return os.open(path, os.O_CLOEXEC | (os.O_RDWR | os.O_CREAT if kind == "create" else os.O_RDONLY), 0o644)
    except FileNotFoundError:
        raise LedgerError(f"There is no ledger at {path!r}; `sordino ledger create` (Ledger.create) makes one.") from None
    except (PermissionError, IsADirectoryError):
        raise LedgerError(f"The ledger at {path!r} {_NOT_OPENED}") from None
    except OSError:
        raise LedgerError(f"The ledger at {path!r} cannot be reached; check its name and the rights on its folder.") from None


def _connect(path: str, kind: str) -> tuple[sqlite3.Connection, tuple[bytes, ...]]:
    """Return a new connection, and the locks by which it can be kept."""
    # The locks above let one thread of one process at a time write with it.
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw", uri=True, timeout=_TIMEOUT, isolation_level=None, check_same_thread=False
    )
    locks: tuple[bytes, ...] = ()
    try:
        connection.create_function("chain", 1, chained, deterministic=True)
        connection.execute("PRAGMA synchronous = EXTRA")
        version = _version(connection, path, may_be_new=kind == "create")
        if version is not None:
            # For speed, not for safety: where WAL is not possible the rollback journal is as durable.
            with suppress(sqlite3.OperationalError):
                if connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",):
                    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                    locks = locks_of(path)
            if version < VERSION:
                _migrate(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection, locks if locks_are_held(locks) else ()


def _close(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except sqlite3.Error:  # closing rolls back as well; what stopped the transaction is what the caller must hear
        pass
    finally:
        connection.close()


def _version(connection: sqlite3.Connection, path: str, *, may_be_new: bool) -> int | None:
    """Return the schema of a ledger and None for an empty file where a ledger may be made; refuse everything else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if application == APPLICATION and version > VERSION:
        raise LedgerError(
            f"The ledger at {path!r} has schema {version} but this version of sordino knows schemas up to {VERSION}; use a newer sordino."
        )
    if application == APPLICATION and version >= 1:
        return version
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if may_be_new and not (application or version or tables):
        return None
    raise LedgerError(f"{path!r} is not a sordino ledger; it was left as it is.")


def _build_if_empty(connection: sqlite3.Connection, path: str) -> None:
    if _version(connection, path, may_be_new=True) is None:
        _build(connection)


def _build(connection: sqlite3.Connection) -> None:
    # The rows live in the index of their key: a charge touches as few pages as a table without a key would.
    for statement in (*(table + " WITHOUT ROWID" for table in TABLES), *APPEND_ONLY):
        connection.execute(rendered(statement, "", ":@"))
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _migrate(connection: sqlite3.Connection, path: str) -> None:
    """Bring an older file to the present schema, in one transaction; another process may have been quicker."""
    connection.execute("BEGIN IMMEDIATE")
    if _version(connection, path, may_be_new=False) != VERSION:
        migrate(connection, _build)
    connection.execute("COMMIT")


def _explained(error: sqlite3.Error, path: str) -> LedgerError:
    """Return one clear sentence for a failure of SQLite; nothing of its text is repeated."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the low byte is the class of an extended code
    where = f"The ledger at {path!r}"
    said = {
        sqlite3.SQLITE_FULL: f"{where} could not be written because the disk is full.",
        sqlite3.SQLITE_BUSY: _LOCKED.format(repr(path), _TIMEOUT),
        sqlite3.SQLITE_LOCKED: f"{where} was locked for longer than {_TIMEOUT:g} seconds; try again.",
        sqlite3.SQLITE_READONLY: f"{where} is read-only, and charges must be written to it.",
        sqlite3.SQLITE_PERM: f"{where} may not be opened by this user.",
        sqlite3.SQLITE_CANTOPEN: f"{where} {_NOT_OPENED}",
        sqlite3.SQLITE_NOTADB: f"{path!r} is not a sordino ledger.",
        sqlite3.SQLITE_CORRUPT: f"{where} is damaged; restore it from a backup and charge what was released since.",
        sqlite3.SQLITE_IOERR: f"{where} could not be read or written: the operating system reports an input/output error.",
    }
    if code == sqlite3.SQLITE_CONSTRAINT:
        return LedgerConflict(f"{where} refused a change because it would break one of its own rules.")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return LedgerError(said.get(code, f"{where} could not be used: SQLite reports {name}."))
