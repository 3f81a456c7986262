"""Copies a ledger file with everything in it, while others charge it.

Tells whether a file is whole.

A file is whole if the pages of one write are all there, or none of them. One that was moved without
its journal, while a process that was writing it was killed, may hold the first half of a write.
Then its tables disagree. `is_whole` compares their numbers and reads no text, which takes a tenth
of the time in which `Ledger.verify` replays every hash.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from sordino.errors import InvalidParameter, LedgerError
from sordino.ledger.store.sqlite_schema import stand_in_for_newer


def back_up(
    path: str,
    ledger: str,
    source: Callable[[], AbstractContextManager[sqlite3.Connection]],
    explained: Callable[[sqlite3.Error, str], LedgerError],
) -> dict[str, str]:
    """Copy what `source` lends of a ledger into a new file, and give it its name once it is whole.

    Return the head of every account in it.
    """
    target = Path(path).absolute()
    with (
        _create_backup_file(target, Path(ledger)) as unnamed,
        _explain_copy_errors(target, explained),
    ):
        with closing(_open_unshared_file(unnamed)) as copy, source() as connection:
            # This waits for a lock for as long as is allowed; the copy would wait for ever.
            connection.execute("SELECT count(*) FROM account").fetchone()
            with _explain_copy_errors(target, explained):
                connection.backup(copy)
        return _heads_of_copy(unnamed)


@contextmanager
def _explain_copy_errors(
    target: Path, explained: Callable[[sqlite3.Error, str], LedgerError]
) -> Iterator[None]:
    """Let what SQLite fails on be about the copy; `source` speaks for itself."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, str(target)) from None


def _open_unshared_file(file: Path) -> sqlite3.Connection:
    """Open a file that nobody else knows.

    It needs neither locks nor a journal, and is made durable later.
    """
    connection = sqlite3.connect(
        f"{file.as_uri()}?mode=rw&nolock=1", uri=True, isolation_level=None
    )
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _heads_of_copy(file: Path) -> dict[str, str]:
    """Return the head of every account of a copy, or raise `LedgerError` if it is not whole."""
    # What an older version has in a log is in the copy, which has none: bytes 18 and 19 say so.
    with file.open("r+b") as copied:
        copied.seek(18)
        copied.write(b"\1\1")
    with closing(_open_unshared_file(file)) as copy, suppress(sqlite3.DatabaseError):
        # What was copied may be of schema 4.
        stand_in_for_newer(copy)
        if is_whole(copy):
            return dict(copy.execute("SELECT name, head FROM account ORDER BY name").fetchall())
    raise LedgerError(
        "The ledger holds half of a write or is damaged, so that it was not copied; "
        "`sordino ledger verify` tells which account is concerned."
    )


@contextmanager
def _create_backup_file(target: Path, ledger: Path) -> Iterator[Path]:
    """Lend a file to write into.

    If the block does not fail it becomes `target`, which must not exist.

    Nobody may read it who may not read the ledger, whose releases may be kept in it.
    """
    for other in (target, Path(f"{target}-journal"), Path(f"{target}-wal")):
        if other.exists() or other.is_symlink():
            raise InvalidParameter(
                f"A backup must go to a new file; {str(other)!r} exists already, and was left as "
                "it is."
            )
    made: list[Path] = []
    try:
        # An empty file holds the name while the copy is made.
        holder = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        made.append(target)
        try:
            rights = _find_rights(ledger, os.fstat(holder))
        finally:
            os.close(holder)
        # Made for its owner alone.
        descriptor, unnamed = tempfile.mkstemp(prefix=f".{target.name[:99]}.", dir=target.parent)
        made.append(Path(unnamed))
        try:
            yield Path(unnamed)
            os.fchmod(descriptor, rights)
            # On the disk before it gets its name, so that no half of a copy ever has it.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        Path(unnamed).replace(target)
        # The copy has its name now: nothing is removed any more.
        made.clear()
        # The name must be on the disk, too.
        _sync_folder(target.parent)
    except OSError as error:
        raise LedgerError(
            f"A backup cannot be made at {str(target)!r}: {error.strerror}. Choose another folder."
        ) from None
    finally:
        for path in made:
            path.unlink(missing_ok=True)


def _find_rights(ledger: Path, copy: os.stat_result) -> int:
    """Return the rights of a copy: those of the ledger, which its owner may write in any case."""
    own = ledger.stat()
    rights = own.st_mode & 0o666
    if own.st_gid != copy.st_gid:
        # Its group are other people: whoever is in neither group has the least of both rights.
        least = rights & 0o007 & (rights >> 3)
        rights = (rights & 0o700) | least << 3 | least
    return rights | 0o600


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# Compares what each account row says with what its events, its charges and its children say.
# It finds one row if one of them contradicts another.
_FIND_CONTRADICTION = """
WITH told AS (
    SELECT account, count(*) AS events, max(number) AS highest, sum(number) AS numbers,
        sum(kind = 'reserve') AS reserves, sum(kind = 'draw') AS draws,
        sum(kind = 'settle') AS settles, sum(kind = 'void') AS voids, sum(kind = 'keep') AS keeps,
        sum(CASE WHEN kind = 'grant' THEN amount ELSE 0 END) AS granted,
        sum(CASE WHEN kind IN ('create', 'receive') THEN amount ELSE 0 END) AS received
    FROM event GROUP BY account
), charged AS (
    SELECT account, count(*) AS charges, sum(draws) AS draws, sum(state = 'settled') AS settled,
        sum(state = 'void') AS voided, sum(coalesce(settled, reserved)) AS spent,
        sum(CASE WHEN settled IS NULL THEN pure_reserved ELSE pure_settled END) AS pure,
        sum(CASE WHEN settled IS NULL THEN failing_reserved ELSE failing_drawn END) AS failing
    FROM charge GROUP BY account
), held AS (
    SELECT account, count(*) AS sheets FROM kept GROUP BY account
), shared AS (
    SELECT parent, sum(allowance) AS granted, sum(max(pure_limit, 0)) AS pure,
        sum(failing_limit) AS failing FROM account WHERE parent IS NOT NULL GROUP BY parent
)
SELECT 1 FROM account AS a
    LEFT JOIN told ON told.account = a.name
    LEFT JOIN charged ON charged.account = a.name
    LEFT JOIN held ON held.account = a.name
    LEFT JOIN shared ON shared.parent = a.name
    LEFT JOIN event AS last ON last.account = a.name AND last.number = a.number
WHERE (a.number, a.head, a.spent, a.allowance)
        IS NOT (told.events, last.head, last.spent, last.allowance)
    OR (a.number, a.number * (a.number + 1) / 2) IS NOT (told.highest, told.numbers)
    OR (told.reserves, told.draws) IS NOT (coalesce(charged.charges, 0), coalesce(charged.draws, 0))
    OR (told.settles, told.voids) IS NOT (coalesce(charged.settled, 0), coalesce(charged.voided, 0))
    OR told.keeps IS NOT coalesce(held.sheets, 0)
    OR (a.allowance, told.granted) IS NOT (told.received, coalesce(shared.granted, 0))
    OR a.parts = '' AND (a.spent, a.pure_spent, a.failing_spent) IS NOT (
        coalesce(charged.spent, 0) + coalesce(shared.granted, 0),
        coalesce(charged.pure, 0) + coalesce(shared.pure, 0),
        coalesce(charged.failing, 0) + coalesce(shared.failing, 0))
LIMIT 1
"""
# The same of accounts with parts: what all of them have, what each one has, and the largest.
_FIND_PART_CONTRADICTION = """
WITH RECURSIVE taken AS (
    SELECT c.account, c.id, c.whole, coalesce(c.settled, c.reserved) AS spent,
        CASE WHEN c.settled IS NULL THEN c.pure_reserved ELSE c.pure_settled END AS pure,
        CASE WHEN c.settled IS NULL THEN c.failing_reserved ELSE c.failing_drawn END AS failing
    FROM charge AS c JOIN account AS a ON a.name = c.account WHERE a.parts <> ''
), based AS (
    SELECT account, sum(spent) AS spent, sum(pure) AS pure, sum(failing) AS failing
    FROM (SELECT account, spent, pure, failing FROM taken WHERE whole = 1
        UNION ALL SELECT parent, allowance, max(pure_limit, 0), failing_limit FROM account
        WHERE parent IS NOT NULL AND parts <> '') GROUP BY account
), one (account, charge, key, high) AS (
    SELECT account, charge, low, high FROM span
    UNION ALL SELECT account, charge, key + 1, high FROM one WHERE key < high
), added AS (
    SELECT one.account, one.key, sum(taken.spent) AS spent, sum(taken.pure) AS pure,
        sum(taken.failing) AS failing FROM one JOIN taken ON taken.id = one.charge
    GROUP BY one.account, one.key
)
SELECT 1 WHERE EXISTS (
    SELECT 1 FROM account AS a LEFT JOIN based ON based.account = a.name
    WHERE a.parts <> '' AND ((a.base, a.base_pure, a.base_failing) IS NOT
            (coalesce(based.spent, 0), coalesce(based.pure, 0), coalesce(based.failing, 0))
        OR a.spent - a.base IS NOT coalesce((SELECT max(p.spent) FROM part AS p
            WHERE p.account = a.name AND p.key > a.closed), 0))
) OR EXISTS (
    SELECT account, key, spent, pure_spent, failing_spent FROM part
    EXCEPT SELECT account, key, spent, pure, failing FROM added
) OR EXISTS (
    SELECT account, key FROM added EXCEPT SELECT account, key FROM part
)
"""
_FIND_ORPHAN_ROW = "SELECT 1 FROM {} WHERE account NOT IN (SELECT name FROM account) LIMIT 1"


_OF_ACCOUNTS = ("event", "charge", "kept", "part", "span")


def is_whole(connection: sqlite3.Connection) -> bool:
    """Tell whether the pages of a ledger fit together and its tables agree with each other.

    Raises
    ------
    sqlite3.Error
        If SQLite cannot even read it.
    """
    if connection.execute("PRAGMA integrity_check(1)").fetchall() != [("ok",)]:
        return False
    orphans = (_FIND_ORPHAN_ROW.format(table) for table in _OF_ACCOUNTS)
    questions = (_FIND_CONTRADICTION, _FIND_PART_CONTRADICTION, *orphans)
    return all(connection.execute(question).fetchone() is None for question in questions)
