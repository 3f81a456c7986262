"""The bytes of CSV files as batches of kept lines: the union over lines of the rule of one line, and nothing else.

An engine's CSV reader was tried for this and breaks the law: with quotes on, one open quote swallows other lines; with one text
column a line, DuckDB 2.0 raises on a lone CR, and drops good lines at the edges of its parallel scans. Here a block is cut at LF
bytes, so no line can reach another. `kept` is the rule of one line. Tests on a whole block only save time: where they pass, the rule
keeps every line of the block; where one fails, the rule is asked line by line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.data._csv_format import Encoding

LONGEST = 1 << 20
"""A line of more bytes than this, without its end, is dropped."""

BLOCK = 1 << 21
"""Bytes read at once: enough for the engine to work in parallel, little enough to stay in cache."""

MARK = b"\xef\xbb\xbf"


class Batch(NamedTuple):
    """Some lines: text `data[offsets[i]:offsets[i + 1]]`, in UTF-8 and without line ends."""

    size: int
    offsets: NDArray[np.int32]
    data: bytes


def kept(line: bytes, encoding: Encoding) -> bool:
    """Tell whether one line, without its end, is kept."""
    return 0 < len(line) <= LONGEST and b"\0" not in line and _decodes(line, encoding)


def first_line(file: BinaryIO, encoding: Encoding) -> bytes:
    """Read the header line without its end and without a byte order mark; longer ones come back cut, to be refused."""
    line = file.readline(LONGEST + 8)
    if encoding == "utf-8":
        line = line.removeprefix(MARK)
    return line.removesuffix(b"\n").removesuffix(b"\r")


def batches(paths: Sequence[Path], encoding: Encoding, header: bytes | None, read: Callable[[int], None]) -> Iterator[Batch]:
    """Yield the kept lines of all files.

    Parameters
    ----------
    paths : sequence of Path
        The files, in any order.
    encoding : {"utf-8", "latin-1"}
        Declared encoding of all files.
    header : bytes or None
        The first line of every file as it was when the source was opened; None if files have no header.
    read : callable
        Called with the number of bytes of each block read.
    """
    for path in paths:
        with path.open("rb") as file:
            if header is not None and first_line(file, encoding) != header:
                raise OSError("the header changed after the source was opened")
            for block in _blocks(file, read, skip_mark=header is None and encoding == "utf-8"):
                batch = _batch(block, encoding)
                if batch.size:
                    yield batch


def _blocks(file: BinaryIO, read: Callable[[int], None], *, skip_mark: bool) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces of whole lines, each line ended by LF alone; lines far too long are left out."""
    rest, skipping = b"", False
    while fresh := file.read(BLOCK):
        read(len(fresh))
        if skip_mark:
            fresh, skip_mark = fresh.removeprefix(MARK), False
        if skipping:  # in the middle of a line that is already known to be too long
            end = fresh.find(b"\n")
            if end < 0:
                continue
            fresh, skipping = fresh[end + 1 :], False
        cut = fresh.rfind(b"\n") + 1
        if cut:
            yield _ended_by_lf(rest + fresh[:cut])
            rest = fresh[cut:]
        else:
            rest += fresh
        if len(rest) > LONGEST + 1:  # one more: the last byte may be the CR of a line end
            rest, skipping = b"", True
    if rest:
        yield _ended_by_lf(rest + b"\n")


def _ended_by_lf(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def _batch(block: bytes, encoding: Encoding) -> Batch:
    """Return the kept lines of a block of whole lines."""
    ends = _ends(block)
    if not _keeps_all(block, ends, encoding):
        lines = block.split(b"\n")[:-1]
        block = b"".join(line + b"\n" for line in lines if kept(line, encoding))
        ends = _ends(block)
    if encoding == "latin-1" and not block.isascii():
        block = block.decode("latin-1").encode("utf-8")
        ends = _ends(block)
    offsets = np.zeros(ends.size + 1, dtype=np.int32)
    np.subtract(ends, np.arange(ends.size), out=offsets[1:], casting="unsafe")  # each earlier LF is gone from the data
    return Batch(ends.size, offsets, block.translate(None, b"\n"))


def _ends(block: bytes) -> NDArray[np.intp]:
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)


def _keeps_all(block: bytes, ends: NDArray[np.intp], encoding: Encoding) -> bool:
    """Tell whether `kept` holds for every line of the block, without looking at each."""
    lengths = np.diff(ends, prepend=-1)  # with the LF
    return bool(lengths.min() > 1 and lengths.max() <= LONGEST + 1) and b"\0" not in block and _decodes(block, encoding)


def _decodes(data: bytes, encoding: Encoding) -> bool:
    # LF is never part of another character, so whole lines decode exactly when each of them does.
    if encoding == "latin-1" or data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
