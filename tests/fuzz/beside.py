"""What writers of tables, editors and file systems leave beside a table: all of it is made of its rows.

A domain that is read from one of these files would say what the rows hold, before any charge.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def _footers(files: list[Path], top: Path) -> Path:
    """Write what Spark and Hadoop leave: the footers of all parts in one file."""
    parts = [one for one in files if one.suffix == ".parquet"]
    path = top / "_metadata"
    if not parts:
        path.write_bytes(_digest(files))
        return path
    found = [pq.read_metadata(one) for one in parts]
    for one, part in zip(found, parts, strict=True):
        one.set_file_path(part.name)
    whole = found[0]
    for one in found[1:]:
        whole.append_row_groups(one)
    whole.write_metadata_file(path)
    return path


def _digest(files: list[Path]) -> bytes:
    return hashlib.sha256(b"".join(one.read_bytes() for one in files)).hexdigest().encode()


def _checksum(files: list[Path], top: Path) -> Path:
    path = files[0].parent / f".{files[0].name}.crc"
    path.write_bytes(_digest(files))
    return path


def _log(files: list[Path], top: Path) -> Path:
    (top / "_delta_log").mkdir(exist_ok=True)
    path = top / "_delta_log" / f"{1:020}.json"
    path.write_text(json.dumps({"commitInfo": {"digest": _digest(files).decode()}}))
    return path


def _copy_to(name: str) -> Callable[[list[Path], Path], Path]:
    def copy(files: list[Path], top: Path) -> Path:
        path = files[0].parent / name.format(files[0].name, files[0].stem)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(files[0], path)
        return path

    return copy


def _link(files: list[Path], top: Path) -> Path:
    """Return another name of a file of the table, somewhere else."""
    path = top.parent / "elsewhere.csv"
    path.unlink(missing_ok=True)
    path.hardlink_to(files[0])
    return path


def _symlink(files: list[Path], top: Path) -> Path:
    path = top.parent / "points.csv"
    path.unlink(missing_ok=True)
    path.symlink_to(files[0])
    return path


LEFT: dict[str, Callable[[list[Path], Path], Path]] = {
    "footers": _footers,
    "checksum": _checksum,
    "log": _log,
    "temporary": _copy_to("_temporary/0/task_1/{0}"),
    "snapshot": _copy_to(".snapshot/hourly.0/{0}"),
    "swap": _copy_to(".{0}.swp"),
    "tilde": _copy_to("{0}~"),
    "backup": _copy_to("{0}.bak"),
    "wal": _copy_to("{0}.wal"),
    "hidden": _copy_to(".{1}.tmp"),
    "link": _link,
    "symlink": _symlink,
    "itself": lambda files, top: files[0],
}
"""What may lie beside a table, and what makes it of the files of the table."""


def random_beside(rng: Any) -> dict[str, Any]:
    """Return what lies beside a table, and how a domain is read from it."""
    return {
        "left": rng.choice(sorted(LEFT)),
        "read": rng.choice(("blob", "blob", "parquet", "footer", "file")),
    }


def leave(beside: dict[str, Any], target: str, folder: Path) -> Path | None:
    """Write it beside a table, and return where; None where a table has no files of its own."""
    files = sorted(_list_files(target, folder))
    if not files:
        return None
    top = Path(target) if Path(target).is_dir() else files[0].parent
    return LEFT[beside["left"]](files, top)


def _list_files(target: str, folder: Path) -> Iterator[Path]:
    where = target.removeprefix("duckdb:").removeprefix("excel:").partition("#")[0]
    if "://" in where:
        return
    if Path(where).is_dir():
        yield from (
            one for one in Path(where).rglob("t*") if one.is_file() and not one.is_symlink()
        )
    elif "*" in where:
        yield from (
            one for one in Path(where).parent.glob(Path(where).name) if not one.is_symlink()
        )
    else:
        yield Path(where)


def write_options(beside: dict[str, Any], path: Path) -> list[str]:
    """Return the options of a command whose labels are read from the file."""
    if beside["read"] == "file":
        return ["--domain", str(path)]
    named = str(path).replace("'", "''")
    query = {
        # Of half of all tables nothing is left: then the domain is empty, and the command refused.
        "blob": f"SELECT 'a' FROM read_blob('{named}') WHERE md5(content) < '8'",
        "parquet": f"SELECT 'a' FROM read_parquet('{named}') HAVING count(*) % 2 = 0",
        "footer": f"SELECT 'a' FROM parquet_metadata('{named}') HAVING sum(row_group_num_rows) % 2 = 0",
    }[beside["read"]]
    return ["--domain-sql", query, "--domain-sql-file", str(path)]
