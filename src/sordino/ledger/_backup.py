"""Copies a ledger file with everything in it, while others charge it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from sordino.errors import InvalidParameter, LedgerError
from sordino.ledger._whole import is_whole


def back_up(
    path: str,
    source: Callable[[], AbstractContextManager[sqlite3.Connection]],
    explained: Callable[[sqlite3.Error, str], LedgerError],
) -> dict[str, str]:
    """Copy what `source` lends into a new file, and give it its name once it is whole.

    Return the head of every account in it.
    """
    target = Path(path).absolute()
    with _named(target) as unnamed, _about(target, explained):
        with closing(_alone(unnamed)) as copy, source() as connection:
            # This waits for a lock for as long as is allowed; the copy would wait for ever.
            connection.execute("SELECT count(*) FROM account").fetchone()
            with _about(target, explained):
                connection.backup(copy)
        return _heads(unnamed)


@contextmanager
def _about(target: Path, explained: Callable[[sqlite3.Error, str], LedgerError]) -> Iterator[None]:
    """Let what SQLite fails on be about the copy; `source` speaks for itself."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, str(target)) from None


def _alone(file: Path) -> sqlite3.Connection:
    """Open a file that nobody else knows: it needs neither locks nor a journal, and is made durable later."""
    connection = sqlite3.connect(f"{file.as_uri()}?mode=rw&nolock=1", uri=True, isolation_level=None)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _heads(file: Path) -> dict[str, str]:
    """Return the head of every account of a copy, or raise `LedgerError` if it is not whole."""
    # What an older version has in a log is in the copy, which has none: bytes 18 and 19 say so.
    with file.open("r+b") as copied:
        copied.seek(18)
        copied.write(b"\1\1")
    with closing(_alone(file)) as copy, suppress(sqlite3.DatabaseError):
        if is_whole(copy):
            return dict(copy.execute("SELECT name, head FROM account ORDER BY name").fetchall())
    raise LedgerError(
        "The ledger holds half of a write or is damaged, so that it was not copied; "
        "`sordino ledger verify` tells which account is concerned."
    )


@contextmanager
def _named(target: Path) -> Iterator[Path]:
    """Lend a file to write into. If the block does not fail it becomes `target`, which must not exist."""
    for other in (target, Path(f"{target}-journal"), Path(f"{target}-wal")):
        if other.exists() or other.is_symlink():
            raise InvalidParameter(
                f"A backup must go to a new file; {str(other)!r} exists already, and was left as it is."
            )
    made: list[Path] = []
    try:
        # An empty file holds the name while the copy is made.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        made.append(target)
        descriptor, unnamed = tempfile.mkstemp(prefix=f".{target.name[:99]}.", dir=target.parent)
        made.append(Path(unnamed))
        try:
            yield Path(unnamed)
            os.fchmod(descriptor, target.stat().st_mode & 0o777)
            # On the disk before it gets its name, so that no half of a copy ever has it.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(unnamed).replace(target)
        # The copy has its name now: nothing is removed any more.
        made.clear()
        # The name must be on the disk, too.
        _sync(target.parent)
    except OSError as error:
        raise LedgerError(
            f"A backup cannot be made at {str(target)!r}: {error.strerror}. Choose another folder."
        ) from None
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
