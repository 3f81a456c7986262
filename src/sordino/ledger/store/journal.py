"""Tells whether a SQLite file stands where it is safe, and the journal beside it belongs to it.

Refused are network file systems, second names, and files that are mounted alone.

Before SQLite writes to the file it keeps the old pages in a journal, FILE-journal. If a killed
process left one, whoever opens the file next rolls it back. SQLite does not ask whose it is. If the
file was moved without its journal, used elsewhere and moved back, the old journal would undo what
was charged meanwhile, and nobody would see it. So it is looked at here first, before SQLite sees
the file.

Every write counts up a number in the first page of the file (its *change counter*), and every
journal begins with the old first page or has it among its pages. A journal belongs to a file whose
counter is that of its old first page (nothing was written to the file yet, or all of it was undone)
or one more. SQLite keeps the journal after a write and clears its first bytes (`journal_mode =
PERSIST`), so a ledger that was never moved always has one that belongs to it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from sordino.errors import LedgerError

APPLICATION = 0x53_4F_52_44  # "SORD", in the first page of every ledger
_SQLITE_FORMAT = b"SQLite format 3\0"
_FIRST_PAGE_START = b"\0\0\0\1" + _SQLITE_FORMAT  # its number, and how it begins
_JOURNAL_START = bytes.fromhex("d9d505f920a163d7")  # how a journal begins that is to be rolled back
_MOST_JOURNAL_BYTES = (
    1 << 20
)  # bytes of a journal that are looked at; SQLite cuts it down to that (`sqlite`)


class Beside(NamedTuple):
    """What is known of a file before SQLite opens it."""

    version: int  # of the schema
    in_log: bool  # it is in WAL mode: what was committed may be in FILE-wal alone
    alone: bool  # no journal belongs to it: it was moved or copied without one, or is new


def look(descriptor: int, path: str, real: str) -> Beside:
    """Tell what lies beside an open file, which is called `path`.

    `real` is the name after which SQLite names its own files.

    Raises
    ------
    LedgerError
        If SQLite would undo or redo what does not belong to the file as it is.
    """
    # The first page has the write format (2 is WAL) at 18, the change counter at 24, then version
    # and application.
    header, size = os.pread(descriptor, 100, 0), os.fstat(descriptor).st_size
    ours = (
        len(header) == 100
        and header.startswith(_SQLITE_FORMAT)
        and _read_uint32(header, 68) == APPLICATION
    )
    if size and not ours:
        return Beside(
            version=0, in_log=False, alone=False
        )  # no ledger; what it is, SQLite will say
    changes, version, in_log = (
        (_read_uint32(header, 24), _read_uint32(header, 60), header[18] == 2)
        if ours
        else (0, 0, False)
    )
    if not in_log and _read_file_start(f"{real}-wal", 1):
        raise LedgerError(_FOREIGN_JOURNAL_MESSAGE.format(path=path, other=f"{real}-wal"))
    journal = _read_file_start(f"{real}-journal", _MOST_JOURNAL_BYTES)
    before = _changes_before(journal)
    if journal.startswith(_JOURNAL_START):
        # Without an old first page nothing was written to the file yet: SQLite would only cut it
        # down to its former size, which is the number of pages at 16 times the size of a page at
        # 24. If it counts pages, and only its beginning was looked at, nobody knows that.
        known = _read_uint32(journal, 8) == 0 or len(journal) < _MOST_JOURNAL_BYTES
        untouched = known and size == _read_uint32(journal, 16) * _read_uint32(journal, 24)
        # The counter has 32 bits, and begins again at zero.
        fits = untouched if before is None else (changes - before) % 2**32 <= 1
        if not fits:
            raise LedgerError(_FOREIGN_JOURNAL_MESSAGE.format(path=path, other=f"{real}-journal"))
        return Beside(version, in_log, alone=False)
    # One write makes the tables; there is nothing to lose yet.
    return Beside(
        version, in_log, alone=changes > 1 and (before is None or (changes - before) % 2**32 != 1)
    )


def read_change_counter(descriptor: int) -> int:
    """Return how many writes a file has counted: its change counter."""
    return _read_uint32(os.pread(descriptor, 28, 0), 24)


def _changes_before(journal: bytes) -> int | None:
    """Return the change counter in the old first page that a journal holds."""
    if journal.startswith(_JOURNAL_START):
        if _read_uint32(journal, 16) == 0:
            return 0  # there was no page yet: it was left while the file was made
        # It counts no page yet, so none was written to the file, and SQLite would put none back:
        # what stands behind its beginning may be pages of a journal before.
        if _read_uint32(journal, 8) == 0:
            return None
    old = journal.find(_FIRST_PAGE_START)
    return None if old < 0 else _read_uint32(journal, old + 28)


_FOREIGN_JOURNAL_MESSAGE = (
    "Beside the ledger at {path!r} lies {other!r}, which belongs to it as it was before: "
    "a process was killed, and the ledger was moved without that file and used since, "
    "or is another one. Move that file to another folder if this is the ledger that counts."
)


def _read_file_start(path: str, most: int) -> bytes:
    """Return the beginning of a file.

    Nothing if there is none, or it cannot be read (SQLite will say so).
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.pread(descriptor, min(most, os.fstat(descriptor).st_size), 0)
    finally:
        os.close(descriptor)


def _read_uint32(raw: bytes, place: int) -> int:
    return int.from_bytes(raw[place : place + 4], "big")


_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK_FILE_SYSTEMS = frozenset(
    (
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "gfs",
        "gfs2",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "pvfs2",
        "smb3",
        "smbfs",
        "vboxsf",
    )
)
_NETWORK_FUSE_SYSTEMS = frozenset(
    (
        "fuse.blobfuse",
        "fuse.grpcfuse",
        "fuse.juicefs",
        "fuse.vmhgfs-fuse",
        "fuse.ceph",
        "fuse.davfs2",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
    )
)


def check_place(path: str, mounts: Path = _MOUNTS) -> None:
    """Refuse a file where locks of SQLite do not hold, or that has two names and so two journals.

    Of a file that is yet to be made only the folder is looked at.
    """
    where, file = f"The ledger at {path!r}", Path(path)
    try:
        made = file.exists()
        status = file.stat() if made else file.parent.stat()
    except OSError:
        return  # whoever opens it says why that is not possible
    if made and file.is_file() and status.st_nlink > 1:
        raise LedgerError(
            f"{where} has {status.st_nlink} names (hard links), and would be another ledger under "
            "each; remove all but one."
        )
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for mounted, point, kind in _list_mounts(mounts):
        if point == os.path.realpath(path):
            raise LedgerError(
                f"{where} is mounted as a single file, and is another "
                "ledger under its other name; mount its folder instead."
            )
        if mounted == device and kind in _NETWORK_FILE_SYSTEMS | _NETWORK_FUSE_SYSTEMS:
            raise LedgerError(
                f"{where} is on a network file system ({kind}), where the locks of SQLite do not "
                "hold; use a local disk, or share a ledger in PostgreSQL "
                "(postgresql://HOST/DATABASE)."
            )


def _list_mounts(mounts: Path) -> list[tuple[str, str, str]]:
    """Return device, place and kind of everything that is mounted.

    Nothing where the system does not tell.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    # A line: "36 35 98:0 /root /mount options - kind source options".
    # The kind follows the separator, and a space in a name is written \040.
    parts = [
        (before.split(" "), after.split(" "))
        for before, mark, after in (line.partition(" - ") for line in lines)
        if mark
    ]
    return [(before[2], _unescape_mount_point(before[4]), after[0]) for before, after in parts]


def _unescape_mount_point(name: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
