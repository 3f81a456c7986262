"""Refuses places where a ledger file is not safe: network file systems, second names, files mounted alone."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sordino.errors import LedgerError

_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = frozenset(
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
_NETWORK_FUSE = frozenset(
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
    """Refuse a file where the locks of SQLite do not hold, or that has two names and so two journals.

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
            f"{where} has {status.st_nlink} names (hard links), "
            "and would be another ledger under each; remove all but one."
        )
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for mounted, point, kind in _mounted(mounts):
        if point == os.path.realpath(path):
            raise LedgerError(
                f"{where} is mounted as a single file, and is another "
                "ledger under its other name; mount its folder instead."
            )
        if mounted == device and kind in _NETWORK | _NETWORK_FUSE:
            raise LedgerError(
                f"{where} is on a network file system ({kind}), where the locks of SQLite do not hold; "
                "use a local disk, or share a ledger in PostgreSQL (postgresql://HOST/DATABASE)."
            )


def _mounted(mounts: Path) -> list[tuple[str, str, str]]:
    """Return device, place and kind of everything that is mounted; nothing where the system does not tell."""
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
    return [(before[2], _unescaped(before[4]), after[0]) for before, after in parts]


def _unescaped(name: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)
