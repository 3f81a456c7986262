"""Encodings in which CSV files are read, and UTF-16 as lines in UTF-8.

- UTF-16 is a row of units of two bytes, of which those that say LF end lines. Each line is written
  in UTF-8 by itself, and from there on is read as any line in UTF-8 is, its length included. Half
  of a character without the other half (a surrogate, or one byte at the end of a file) becomes
  bytes that are no UTF-8.
- Which of its two bytes comes first is said by the byte order mark of each file, which is part of
  its first line. So a file without a header has none (its first line is private), and the encoding
  says it: utf-16-le.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, final, get_args

from sordino.constraints import one_of
from sordino.sources.csv.packed import ByteFile, open_unpacked

Encoding = Literal["utf-8", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"]
LineEncoding = Literal["utf-8", "latin-1", "cp1252"]
"""In which lines are read once UTF-16 has been written in UTF-8."""


def line_encoding(encoding: Encoding) -> LineEncoding:
    """Return the encoding in which `open_lines` returns lines."""
    return encoding if encoding in {"latin-1", "cp1252"} else "utf-8"


def check_stream_encoding(encoding: Encoding) -> LineEncoding:
    """Return the encoding of what comes through a pipe.

    Raises
    ------
    InvalidParameter
        If it is one of those in which only files are read.
    """
    one_of(*get_args(LineEncoding))("The encoding of standard input", encoding)
    return line_encoding(encoding)


@contextmanager
def open_lines(path: Path, encoding: Encoding) -> Iterator[ByteFile]:
    """Open a file, compressed or not, whose bytes are those of its lines in `line_encoding`.

    Raises
    ------
    OSError
        If it cannot be read, or is in utf-16 and does not begin with a byte order mark. What is
        read of it raises the same if it is damaged.
    """
    with open_unpacked(path) as file:
        if encoding not in _BYTE_ORDERS:
            yield file
            return
        order = _BYTE_ORDERS[encoding]
        if not order:
            # Part of the first line of a file with a header, which is public.
            order = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(file.read(2), "")
        if not order:
            raise OSError(
                None, "it has no byte order mark: write one, or name utf-16-le or utf-16-be"
            )
        yield _Utf16Lines(file, order)


_BYTE_ORDERS = {"utf-16": "", "utf-16-le": "utf-16-le", "utf-16-be": "utf-16-be"}


@final
class _Utf16Lines:
    """A file in UTF-16 whose bytes are those of its lines in UTF-8.

    What is no character in UTF-16 becomes bytes that are none in UTF-8. LF is one unit and never
    half of another character, so each line is written by itself. What is held in memory is a fixed
    multiple of what is asked for.
    """

    def __init__(self, file: ByteFile, order: str) -> None:
        self._file, self._order = file, order
        self._rest = b""  # units whose other half has not come
        self._ready = b""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, and none at the end."""
        while not self._ready:
            # Two bytes of the file are at most three bytes in UTF-8.
            fresh = self._file.read(max(2, size // 3 * 2))
            if not fresh and not self._rest:
                return b""
            self._ready = self._write_in_utf8(fresh)
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or its first so many bytes, or up to a lone CR."""
        line = bytearray()
        # Three bytes are one unit: of a compressed file nothing behind the line is unpacked
        # (`packed`).
        while len(line) < size and (piece := self.read(min(3, size - len(line)))):
            head, end, behind = piece.partition(b"\n")
            lone = line.endswith(b"\r") and head
            line += head + end
            if end or lone:
                self._ready = behind + self._ready
                break
        return bytes(line)

    def tell(self) -> int:
        """Return how many bytes of the file have been read."""
        return self._file.tell()

    def _write_in_utf8(self, fresh: bytes) -> bytes:
        units = self._rest + fresh
        cut = len(units)
        if fresh:
            cut -= cut % 2
            high = 1 if self._order == "utf-16-le" else 0
            # The first half of a character waits for the second one.
            if cut and 0xD8 <= units[cut - 2 + high] < 0xDC:
                cut -= 2
        units, self._rest = units[:cut], units[cut:]
        whole, odd = (units[:-1], b"\xff") if len(units) % 2 else (units, b"")
        # A half without its other half passes, as bytes that are no UTF-8. So does one byte at the
        # end.
        return whole.decode(self._order, "surrogatepass").encode("utf-8", "surrogatepass") + odd
