"""What Linux tells about the place of a file: network file systems, and locks that this process holds."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sordino.errors import LedgerError

_LOCKS = "/proc/locks"
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
    """Refuse a file where the locks of SQLite do not hold, or that has two names and so two write-ahead logs.

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
            f"{where} has {status.st_nlink} names (hard links), and would be another ledger under each; remove all but one."
        )
    device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
    for mounted, point, kind in _mounted(mounts):
        if point == os.path.realpath(path):
            raise LedgerError(
                f"{where} is mounted as a single file, and is another ledger under its other name; mount its folder instead."
            )
        if mounted == device and kind in _NETWORK | _NETWORK_FUSE:
            raise LedgerError(
                f"{where} is on a network file system ({kind}), where the locks of SQLite do not hold; use a local disk, or share a "
                "ledger in PostgreSQL (postgresql://HOST/DATABASE)."
            )


def _mounted(mounts: Path) -> list[tuple[str, str, str]]:
    """Return device, place and kind of everything that is mounted; nothing where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []
    # "36 35 98:0 /root /mount options - kind source options": the kind follows the separator, a space in a name is \040.
    parts = [(before.split(" "), after.split(" ")) for before, mark, after in (line.partition(" - ") for line in lines) if mark]
    return [(before[2], _unescaped(before[4]), after[0]) for before, after in parts]


def _unescaped(name: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), name)


def locks_of(path: str) -> tuple[bytes, ...]:
    """Return how the system shows the two locks that a SQLite connection in WAL mode keeps: on the file and on its shared memory."""
    real = os.path.realpath(path)  # SQLite names its files after it
    try:
        return tuple(
            f" {os.major(s.st_dev):02x}:{os.minor(s.st_dev):02x}:{s.st_ino} {first} ".encode()
            for s, first in ((os.stat(real), 1073741826), (os.stat(real + "-shm"), 128))  # noqa: PTH116
        )
    except OSError:
        return ()


def locks_are_held(locks: tuple[bytes, ...], shown: str = _LOCKS) -> bool:
    """Tell whether this process holds these locks; False for none, and where the system does not tell."""
    if not locks:
        return False
    try:
        descriptor = os.open(shown, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        parts = []
        while part := os.read(descriptor, 1 << 16):
            parts.append(part)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    # A line is "2: POSIX  ADVISORY  READ 22886 fe:00:2146309 1073741826 1073742335": kind, process, device and inode, range.
    owner = f" {os.getpid()} ".encode()
    own = [line + b" " for line in b"".join(parts).splitlines() if owner in line]
    return all(any(lock in line for line in own) for lock in locks)
