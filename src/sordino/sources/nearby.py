"""Tells, by names alone, which files may have been made of the rows of a source.

Whoever writes a table leaves more behind than its rows: statistics, checksums, logs, unfinished
parts, copies of an editor, snapshots of a disk. A list of labels that is read from such a file says
something of rows, and nobody pays. Names are public; what stands in a file is not looked at. So
this is not what a file was made of, but what the names of files tell of it, and it refuses too much
rather than too little.

A file may hold something of the rows of a source if

- it is one of its files, under whatever name, or matches its pattern by now;
- it lies in a folder of the source: one that was named, or that of a table by KEY=VALUE folders;
- it lies in the folder of one of its files, or below, and on the way there a name begins with what
  is no letter and no digit (`_metadata`, `.orders.csv.crc`, `.snapshot/`), or has the name of that
  file as a word (`orders.csv.bak`, `tmp_orders.parquet`);
- it lies elsewhere, and where the two ways part its name begins so, or it turns into `metadata`
  where that of the source turns into `data`, as in tables of Iceberg.

No list of labels is also what belongs to the machine or to a server, and what has several names:
one of them might be one of these.
"""

from __future__ import annotations

import glob
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_MAGIC = re.compile(r"[*?\[]")
_WORD = re.compile(r"'([^']+)'|\"([^\"]+)\"|([^\s'\"(),;]+)")
_OF_THE_MACHINE = tuple(map(Path, ("/proc", "/sys", "/dev")))
_TABLESPACE = re.compile(r"PG_\d+(?:\.\d+)?_\d+")
_OF_AN_ENGINE = re.compile(r"sordino-[a-z0-9_]{8}|duckdb_temp.*")
_WAREHOUSES = frozenset({"spark-warehouse", "metastore_db"})
"""What Spark calls the folder of its tables, and that of what it knows of them."""


def find_origin(path: Path) -> str:
    """Return why a file is no public list, whatever the source is, in words.

    Empty: nothing tells so.
    """
    real = Path(os.path.realpath(path))
    try:
        about, same = path.stat(), real.stat()
    # A file that is open and has no name any more leads nowhere.
    except OSError:
        return "is no ordinary file"
    if not stat.S_ISREG(about.st_mode) or not os.path.samestat(about, same):
        return "is no ordinary file"
    # What the system tells of a process has no size, wherever it is mounted.
    if not about.st_size or any(
        one.is_relative_to(top) for one in _list_names(path) for top in _OF_THE_MACHINE
    ):
        return "has no size: it is empty, or the machine tells it of itself"
    for folder in sorted({folder for one in _list_names(path) for folder in one.parents}):
        if whose := _find_owner(folder):
            return f"lies in {folder}, {whose}"
    if about.st_nlink > 1:
        return "has several names (hard links), any of which may stand among private files"
    return ""


def _find_owner(folder: Path) -> str:
    """Return who keeps files in a folder, of those who keep rows there; empty: nothing tells so."""
    if _OF_AN_ENGINE.fullmatch(folder.name):
        return "where an engine keeps what does not fit in memory"
    served = folder.name in _WAREHOUSES or _TABLESPACE.fullmatch(folder.name)
    return "among the files of a server" if served or (folder / "PG_VERSION").exists() else ""


def find_tie(
    path: Path, files: Sequence[Path], folders: Sequence[Path] = (), pattern: str = ""
) -> str:
    """Return why a file may hold something of the rows of a source, in words.

    Empty: nothing says so.

    Parameters
    ----------
    path : Path
        The file.
    files, folders : sequence of Path
        What holds the rows: files, and folders all of whose files do, also those that come later.
    pattern : str
        By which the files were found, if by one.
    """
    names = _list_names(path)
    found = glob.glob(pattern, recursive=True) if _MAGIC.search(pattern) else ()  # noqa: PTH207
    if _is_one_of(path, [*files, *map(Path, found)]):
        return "is a file of the source"
    # The same place may be written in several ways, through links.
    parents = {folder: _list_names(folder) for folder in {file.parent for file in files}}
    places = {folder / file.name for file in files for folder in parents[file.parent]}
    places |= {Path(os.path.realpath(file)) for file in files if file.is_symlink()}
    tops = {name for folder in folders for name in _list_names(folder)}
    tops |= {
        top for place in {place.parent for place in places} if (top := _find_top(place)) != place
    }
    for top in sorted(tops):
        if any(name.is_relative_to(top) for name in names):
            return f"lies in {top}, a folder of the source"
    owned: dict[Path, set[str]] = {}
    for place in (*places, *tops):
        owned.setdefault(place.parent, set()).add(_find_stem(place.name))
    for root, start in _split_pattern(pattern):
        owned.setdefault(root, set()).add(start)
    for folder, stems in sorted(owned.items()):
        for name in names:
            if told := _find_trace(name, folder, stems - {""}):
                return told
    return ""


def find_named_files(texts: Iterable[str]) -> tuple[Path, ...]:
    """Return the files that some SQL could mean.

    What stands there in quotes or as a word, and exists.
    """
    words = {next(filter(None, found), "") for text in texts for found in _WORD.findall(text)}
    # Paths hold no NUL, and are no longer than that. A pattern counts as all files that it matches.
    known = (word for word in words if word and "\0" not in word and len(word) < 4096)
    names = {name for word in known for name in ([word, *_expand(word)])}
    # Not `Path.is_file`, which raises where a name is too long.
    files = (name for name in names if os.path.isfile(name))  # noqa: PTH113
    return tuple(sorted(Path(name).absolute() for name in files))


def _expand(word: str) -> list[str]:
    # Not `SELECT *`, nor a pattern of LIKE.
    if not _MAGIC.search(word) or not set(word) & set("./"):
        return []
    return glob.glob(word, recursive=True)  # noqa: PTH207 - it may be absolute


def _list_names(path: Path) -> set[Path]:
    """Return a path as it is written, and where it leads to."""
    # `..` is to go.
    return {Path(os.path.abspath(path)), Path(os.path.realpath(path))}  # noqa: PTH100


def _is_one_of(path: Path, files: Iterable[Path]) -> bool:
    try:
        about = path.stat()
    except OSError:
        return False
    # By the file itself: links of both kinds have other paths.
    for file in files:
        try:
            if os.path.samestat(about, file.stat()):
                return True
        except OSError:
            continue
    return False


def _find_top(folder: Path) -> Path:
    """Return the folder of the table that a folder KEY=VALUE belongs to.

    Any other folder as it is.
    """
    while "=" in folder.name.strip("="):
        folder = folder.parent
    return folder


def _find_stem(name: str) -> str:
    """Return what a file is called, without the signs around it and without endings."""
    return re.sub(r"^[\W_]+", "", _fold(name)).partition(".")[0].rstrip("_- ")


def _fold(name: str) -> str:
    """Return a name as it reads.

    Letters of both cases, and of all forms of Unicode, are the same.
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _split_pattern(pattern: str) -> Iterator[tuple[Path, str]]:
    """Yield the folder in which a pattern begins, and how the names begin that it finds there."""
    if found := _MAGIC.search(pattern):
        folder, _, start = pattern[: found.start()].rpartition("/")
        for root in _list_names(Path(folder or "/")):
            yield root, _find_stem(start)


def _find_trace(name: Path, folder: Path, stems: set[str]) -> str:
    """Return what the way to a file tells, from a folder in which files of the source lie."""
    common = Path(os.path.commonpath([name, folder]))
    way = name.relative_to(common).parts
    if common != folder:
        other = folder.relative_to(common).parts[0]
        # Elsewhere only the first step counts: what follows belongs to whatever lies there.
        if _is_note(way[0]) or (way[0].casefold(), other.casefold()) == ("metadata", "data"):
            return (
                f"lies beside the source under {way[0]}, a name that programs give to what they "
                "make of it"
            )
        return ""
    for part in way:
        if _is_note(part):
            return (
                f"is called {part}, a name that programs give to what they make of the files "
                "beside it"
            )
        if stems & _list_words(part):
            return f"is called {part}, after a file of the source that lies beside it"
    return ""


def _is_note(name: str) -> bool:
    """Tell whether a name begins as those of notes, hidden files and snapshots do."""
    return not name[0].isalnum()


def _list_words(name: str) -> set[str]:
    """Return every part of a name that stands there as a word, or as several."""
    text = _fold(name)
    size = len(text)
    starts = [at for at in range(size) if at == 0 or not text[at - 1].isalnum()]
    ends = [at for at in range(1, size + 1) if at == size or not text[at].isalnum()]
    return {text[start:end] for start in starts for end in ends if start < end}
