"""A ledger in a SQLite file.

A process has one connection to it, and one process at a time uses the file.

It has a rollback journal and synchronous=EXTRA: what is committed is in the file itself, not in a
log beside it, so that a file that is moved or copied alone has every charge. The reasons and the
measurements are in docs/decisions/0015-what-is-charged-is-in-the-file.md.

SQLite keeps writers apart by POSIX locks. Those can be lost without a word, in two ways, while
SQLite still believes in them. A fork hands the belief to the child. And anybody in the process who
opens the file and closes it again (to copy it, say) drops all locks of the process on it. Then two
may write at once, or a reader may take the journal of a living writer for one that a dead one left,
and undo the write under it. Hence:
* Whoever connects, reads or writes holds `flock` on the file, which nobody else's close can drop.
  Between transactions a connection holds no lock of either kind, so it can be kept, and there is
  nothing to lose.
* Before SQLite touches the file, `journal.look` says whether what lies beside it belongs to it. A
  file without a journal of its own is checked as a whole (`backup.is_whole`) before it is charged.
* A write is done when the file itself counts it, and its journal is still the one that was written:
  programs that know nothing of `flock` may have come between.
* A fork waits for the transaction that is running, and closes every connection first.
* A file with two names is refused: each name would have a journal of its own.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, final

from sordino.errors import InvalidParameter, LedgerConflict, LedgerError
from sordino.ledger.history import chained
from sordino.ledger.operation import Operation, rendered
from sordino.ledger.schema import VERSION
from sordino.ledger.store.backup import back_up, is_whole
from sordino.ledger.store.journal import (
    APPLICATION,
    Beside,
    check_place,
    look,
    read_change_counter,
)
from sordino.ledger.store.sqlite_schema import (
    bring_up_to_date,
    build_if_empty,
    keep_from_older,
    stand_in_for_newer,
    version_of,
)
from sordino.ledger.store.store import NoLedgerError, Rows, check_schema
from sordino.process import Process, close_before_fork

# Seconds: how long a lock is waited for, and how often it is looked at.
_LOCK_TIMEOUT = 30.0
_POLL_SECONDS = 0.001
_LOCKED_MESSAGE = (
    "The ledger at {} was locked by another process for longer than {:g} seconds; try again."
)
_NOT_OPENED_REASON = "cannot be opened; this user must be able to write to it and to its folder."
_MOST_OPEN_FILES = 4  # files whose connections stay open
_JOURNAL_BYTES = 1 << 20  # what a large write leaves of its journal
_TORN_MESSAGE = (
    "The ledger at {!r} holds half of a write: a process was killed, and the file was moved "
    "without the file -journal beside it. Put that file beside it again, or restore a backup; "
    "`sordino ledger verify` tells which account is concerned. Nothing was charged."
)
_DAMAGED_MESSAGE = (
    "The ledger at {} is damaged; restore it from a backup and charge what was released since."
)
_IN_LOG_MESSAGE = (
    "The ledger at {!r} is kept open by an older version of sordino, or another program, that "
    "leaves charges outside of the file (WAL); end it, and try again. Nothing was charged."
)
_REENTERED_MESSAGE = (
    "The ledger at {!r} is in the middle of another step of this thread; do not use it in a signal "
    "handler: set a flag there, and look at the ledger afterwards. Nothing was changed."
)
_UNDONE_MESSAGE = (
    "The ledger at {!r} was changed by another program while it was written, "
    "so that nobody knows whether this was charged; see `sordino ledger verify`."
)


class _OpenFile(NamedTuple):
    connection: sqlite3.Connection
    # Of the file, for flock. To close it drops the locks of SQLite, so the connection is closed
    # first.
    descriptor: int
    file: tuple[int, int]  # a file that was replaced under its name is another ledger
    real: str  # the path without symbolic links
    process: Process


_process_lock = (
    threading.RLock()
)  # reentrant, so that a fork from a signal handler cannot wait for itself
_open_files: OrderedDict[str, _OpenFile] = OrderedDict()
_busy_paths: set[str] = set()  # files of which a transaction is running


def close_all() -> None:
    """Close the connections that are kept open."""
    with _process_lock:
        for path in list(_open_files):
            _drop_connection(path, _open_files[path])


close_before_fork(_process_lock, close_all)


@final
class SqliteStore:
    """A file."""

    __slots__ = ("url",)

    def __init__(self, url: str) -> None:
        if url == ":memory:":
            raise LedgerError(
                "A ledger must outlive the process; give the path of a file instead of ':memory:'."
            )
        self.url = str(Path(url).absolute())  # the folder of the process may change later

    @property
    def address(self) -> str:
        """The path."""
        return self.url

    def build(self) -> None:
        """Make the file and its tables if there are none."""
        with _run_transaction(self.url, "create"):
            pass

    def apply(self, operation: Operation, parameters: dict[str, Any]) -> bool:
        """Do the operation; it is durable when this returns."""
        first, *rest = (rendered(statement, "", ":@") for statement in operation.statements)
        with _run_transaction(self.url, "write") as connection:
            if connection.execute(first, parameters).rowcount != 1:
                return False
            # It touches the first page, which SQLite would keep last: a large write has it early in
            # its journal, where it is looked for.
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            for statement in rest:
                connection.execute(statement, parameters)
        return True

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """Let the block ask questions that all see one moment."""
        with _run_transaction(self.url, "read") as connection:

            def rows(sql: str, **parameters: Any) -> Sequence[tuple[Any, ...]]:
                return connection.execute(rendered(sql, "", ":@"), parameters).fetchall()

            yield rows

    def backup(self, path: str) -> dict[str, str]:
        """Copy the file while others use it."""
        return back_up(
            path, self.url, partial(_run_transaction, self.url, "read"), _explain_sqlite_error
        )

    def permit(self, role: str) -> None:
        """Raise: a file has no roles."""
        raise InvalidParameter(
            "A ledger in a file has no roles: whoever may write the file may do everything with "
            f"it; got role {role!r}. Keep the ledger in PostgreSQL to let somebody charge and "
            "nothing else."
        )


@contextmanager
def _run_transaction(
    path: str, kind: Literal["read", "write", "create"]
) -> Iterator[sqlite3.Connection]:
    """Run one transaction.

    It is durable when the block is left, and never happened if the block raises.
    """
    try:
        with _take_turn(path):
            lent, beside = _lend_connection(path, kind)
            connection = lent.connection
            try:
                connection.execute("BEGIN" if kind == "read" else "BEGIN IMMEDIATE")
                # Counted only now, because to begin undoes what a killed process has left.
                writes, rows = read_change_counter(lent.descriptor), connection.total_changes
                if kind == "create":
                    build_if_empty(connection, path)
                elif kind == "write":
                    keep_from_older(connection)
                yield connection
                connection.execute("COMMIT")
                # Only a write counts up the number in the file.
                if connection.total_changes != rows:
                    _check_counted(lent, path, writes)
            except BaseException:
                _drop_connection(path, lent)
                raise
            # In WAL mode a connection that stays open would keep others from leaving that mode. And
            # a reader of an older file has a view of its own, where the table may have its column
            # by the next time.
            if beside.in_log or (kind == "read" and beside.version < VERSION):
                _drop_connection(path, lent)
            else:
                # Between transactions nothing is held, so there is nothing that a fork or a close
                # could drop.
                fcntl.flock(lent.descriptor, fcntl.LOCK_UN)
    except sqlite3.Error as error:
        # It may be what SQLite made of an interrupt in a function that it called.
        if _interrupts:
            raise _interrupts.pop() from None
        raise _explain_sqlite_error(error, path) from None
    # SQLite says what it found in a damaged schema, and Python cannot read that.
    except UnicodeDecodeError:
        raise LedgerError(_DAMAGED_MESSAGE.format(repr(path))) from None


@contextmanager
def _take_turn(path: str) -> Iterator[None]:
    """Let one thread at a time run a transaction, and none inside of another one of the same file.

    Both would run on one connection. It would be the same thread, in a signal handler for example.
    """
    # Asked before it is taken, because the lock lets its own thread in again.
    inside = _process_lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001
    with _process_lock:
        if not inside:
            # No transaction is running: what is left here was left by an interrupt.
            _busy_paths.clear()
            _interrupts.clear()
        if path in _busy_paths:
            raise LedgerConflict(_REENTERED_MESSAGE.format(path))
        _busy_paths.add(path)
        try:
            yield
        finally:
            _busy_paths.discard(path)


def _check_counted(lent: _OpenFile, path: str, before: int) -> None:
    """Refuse to call a write done unless the file itself counts it and has this write's journal."""
    if (
        look(lent.descriptor, path, lent.real).alone
        or read_change_counter(lent.descriptor) != (before + 1) % 2**32
    ):
        raise LedgerError(_UNDONE_MESSAGE.format(path))


def _lend_connection(path: str, kind: str) -> tuple[_OpenFile, Beside]:
    """Return a connection with the flock taken, and what lies beside the file and belongs to it."""
    kept = _open_files.get(path)
    if kept is not None and not kept.process.is_here():
        raise LedgerError(
            f"The ledger at {path!r} was in use while this process was forked outside of Python; "
            "start the process with os.fork or multiprocessing, or use the ledger only after "
            "forking."
        )
    try:
        if kept is not None:
            _take_file_lock(kept.descriptor, path)
            # If the file was replaced, nothing is looked at: what lies beside it belongs to the new
            # one.
            if (
                kept.file != _file_identity(path)
                or (beside := look(kept.descriptor, path, kept.real)).in_log
            ):
                _drop_connection(path, kept)
                kept = None
        if kept is None:
            kept, beside = _open_connection(path, kind)
        # What was used last is closed last.
        _open_files.move_to_end(path)
        if kind != "read" and beside.alone:
            beside = _adopt_lone_file(kept, path)
    except BaseException:
        if kept is not None:
            _drop_connection(path, kept)
        raise
    return kept, beside


def _open_connection(path: str, kind: str) -> tuple[_OpenFile, Beside]:
    """Return a new connection, which is kept from now on."""
    check_place(path)
    descriptor, real = _open_descriptor(path, kind), os.path.realpath(path)
    try:
        _take_file_lock(descriptor, path)
        beside = look(descriptor, path, real)
        if beside.in_log and kind != "read":
            # What is refused stays as it is.
            check_schema(beside.version, path)
            _leave_wal_mode(path, descriptor)
            # What lay in the log is in the file now; whether the file came without its log, nobody
            # can tell.
            beside = look(descriptor, path, real)._replace(alone=True)
        _narrow_journal(descriptor, f"{real}-journal")
        connection = _connect_sqlite(path, kind, in_log=beside.in_log)
    except BaseException:
        os.close(descriptor)
        raise
    status = os.fstat(descriptor)
    fresh = _open_files[path] = _OpenFile(
        connection, descriptor, (status.st_dev, status.st_ino), real, Process()
    )
    # The name may have come to mean another file between opening and locking.
    if fresh.file != _file_identity(path):
        _drop_connection(path, fresh)
        raise LedgerError(f"The ledger at {path!r} was replaced in this moment; try again.")
    spare = [one for one in _open_files if one not in _busy_paths]
    for oldest in spare[: max(0, len(_open_files) - _MOST_OPEN_FILES)]:
        _drop_connection(oldest, _open_files[oldest])
    return fresh, beside


def _narrow_journal(descriptor: int, journal: str) -> None:
    """Take from the journal, which holds old pages, the rights that the file has lost since."""
    # SQLite gives a new journal those of the file. One that is another user's is that user's to
    # narrow.
    with suppress(OSError):
        beside, own = Path(journal), os.fstat(descriptor).st_mode
        rights = beside.stat().st_mode
        if rights & ~own & 0o777:
            beside.chmod(rights & own & 0o777)


def _adopt_lone_file(kept: _OpenFile, path: str) -> Beside:
    """Check the whole of a file that has no journal of its own, and give it one."""
    if not is_whole(kept.connection):
        raise LedgerError(_TORN_MESSAGE.format(path))
    # Two writes, so that a journal that was left where the file came from can never belong to it
    # again.
    for _ in range(2):
        kept.connection.execute(f"PRAGMA user_version = {VERSION}")
    return look(kept.descriptor, path, kept.real)


def _leave_wal_mode(path: str, descriptor: int) -> None:
    """Bring what lies in a write-ahead log into the file, for good.

    Wait for programs that have it open.
    """
    give_up = time.monotonic() + _LOCK_TIMEOUT
    while True:
        connection = sqlite3.connect(_sqlite_uri(path), uri=True, timeout=0, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            if connection.execute("PRAGMA journal_mode = PERSIST").fetchone() == ("persist",):
                return
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in {
                sqlite3.SQLITE_BUSY,
                sqlite3.SQLITE_LOCKED,
            }:
                raise
        finally:
            connection.close()
        if time.monotonic() > give_up:
            raise LedgerError(_IN_LOG_MESSAGE.format(path))
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # an older version needs it to close the file
        time.sleep(10 * _POLL_SECONDS)
        _take_file_lock(descriptor, path)


def _take_file_lock(descriptor: int, path: str) -> None:
    """Take the flock; one that this process has already stays taken."""
    give_up = time.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            # Without waiting in the system, so that it can be given up.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > give_up:
                raise LedgerError(_LOCKED_MESSAGE.format(repr(path), _LOCK_TIMEOUT)) from None
            time.sleep(_POLL_SECONDS)
        else:
            return


def _drop_connection(path: str, kept: _OpenFile) -> None:
    """Close a connection, which undoes what it has not committed.

    Then the flock ends with the descriptor.
    """
    # Only once: by now the number of the descriptor may mean a file of somebody else.
    if _open_files.get(path) is not kept:
        return
    del _open_files[path]
    # A child of a fork leaves its parent's connection as it is.
    if not kept.process.is_here():
        return
    try:
        _close_sqlite_connection(kept.connection)
    finally:
        os.close(kept.descriptor)


def _file_identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116  (on the way of every charge)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _open_descriptor(path: str, kind: str) -> int:
    """Open the file for flock."""
    file = Path(path)
    try:
        if not file.parent.is_dir():
            raise LedgerError(
                f"There is no folder {str(file.parent)!r} for the ledger {file.name!r}."
            )
        if file.is_dir():  # it can be opened, and has no bytes to read
            raise LedgerError(f"The ledger at {path!r} {_NOT_OPENED_REASON}")
        return os.open(
            path,
            os.O_CLOEXEC | (os.O_RDWR | os.O_CREAT if kind == "create" else os.O_RDONLY),
            0o644,
        )
    except FileNotFoundError:
        raise NoLedgerError(
            f"There is no ledger at {path!r}. If it was moved, say where it is (--ledger, or "
            "account in sordino.toml): what was spent is in it. `sordino ledger create` "
            "(Ledger.create) makes one."
        ) from None
    except (PermissionError, IsADirectoryError):
        raise LedgerError(f"The ledger at {path!r} {_NOT_OPENED_REASON}") from None
    except OSError:
        raise LedgerError(
            f"The ledger at {path!r} cannot be reached; check its name and the rights on its "
            "folder."
        ) from None


# What interrupted `_chain`. One thread at a time comes there (`_process_lock`).
_interrupts: list[BaseException] = []


def _chain(covered: str) -> str:
    """Return the hash of an event, for SQLite."""
    try:
        return chained(covered)
    except BaseException as interrupt:
        _interrupts.append(interrupt)
        raise


def _connect_sqlite(path: str, kind: str, *, in_log: bool) -> sqlite3.Connection:
    """Return a new connection."""
    # The locks above let one thread of one process at a time write with it.
    connection = sqlite3.connect(
        _sqlite_uri(path),
        uri=True,
        timeout=_LOCK_TIMEOUT,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # The statements of the ledger call it for the hash of an event; PostgreSQL has its own.
        connection.create_function("chain", 1, _chain, deterministic=True)
        connection.execute("PRAGMA synchronous = EXTRA")
        # Nothing reaches the file before the journal is complete.
        connection.execute("PRAGMA cache_spill = OFF")
        connection.execute(f"PRAGMA journal_size_limit = {_JOURNAL_BYTES}")
        version = version_of(connection, path, may_be_new=kind == "create")
        # Only a reader finds a log here, and a reader leaves the file as it is.
        if not in_log:
            connection.execute("PRAGMA journal_mode = PERSIST")
        if version is not None and version < VERSION:
            # Who may only read, or reads while an older process has the file open, reads it as it
            # is.
            if kind == "read":
                stand_in_for_newer(connection)
            else:
                bring_up_to_date(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _sqlite_uri(path: str) -> str:
    return f"{Path(path).as_uri()}?mode=rw"


def _close_sqlite_connection(connection: sqlite3.Connection) -> None:
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    # Closing rolls back as well; what stopped the transaction is what the caller must hear.
    except sqlite3.Error:
        pass
    finally:
        connection.close()


def _explain_sqlite_error(error: sqlite3.Error, path: str) -> LedgerError:
    """Return one clear sentence for a failure of SQLite; nothing of its text is repeated."""
    extended = getattr(error, "sqlite_errorcode", 0)
    code = extended & 0xFF  # the class of an extended code
    where = f"The ledger at {path!r}"
    said = {
        sqlite3.SQLITE_FULL: f"{where} could not be written because the disk is full.",
        sqlite3.SQLITE_BUSY: _LOCKED_MESSAGE.format(repr(path), _LOCK_TIMEOUT),
        sqlite3.SQLITE_LOCKED: (
            f"{where} was locked for longer than {_LOCK_TIMEOUT:g} seconds; try again."
        ),
        sqlite3.SQLITE_READONLY: f"{where} is read-only, and charges must be written to it.",
        sqlite3.SQLITE_PERM: f"{where} may not be opened by this user.",
        sqlite3.SQLITE_CANTOPEN: f"{where} {_NOT_OPENED_REASON}",
        sqlite3.SQLITE_NOTADB: f"{path!r} is not a sordino ledger. Name the file of the ledger "
        "(--ledger).",
        sqlite3.SQLITE_CORRUPT: _DAMAGED_MESSAGE.format(repr(path)),
        sqlite3.SQLITE_IOERR: f"{where} could not be read or written: "
        "the operating system reports an input/output error.",
    }
    if extended == sqlite3.SQLITE_READONLY_ROLLBACK:
        return LedgerError(
            f"{where} holds half of a write that a killed process has left; a user who may write "
            "to it and to its folder must open it once (`sordino ledger accounts`), which undoes "
            "that."
        )
    if code == sqlite3.SQLITE_CONSTRAINT:
        return LedgerConflict(
            f"{where} refused a change because it would break one of its own rules."
        )
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return LedgerError(said.get(code, f"{where} could not be used: SQLite reports {name}."))
