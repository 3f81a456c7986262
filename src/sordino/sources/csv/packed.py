"""Opens compressed text files: gzip (.gz) and zstandard (.zst), as streams in bounded memory.

Both formats allow several compressed pieces in one file, one behind the other: `cat a.gz b.gz >
ab.gz`. All of them are read. What breaks off, is damaged, or stands behind the last piece without
being one is an error, as `OSError`: before the charge it is said of the header line alone, after it
there is one constant sentence.

What a small file unpacks to may be enormous. So it is unpacked as it is asked for, never more of
it, and a zstandard file that asks for a window of more than 128 MiB is an error: the window is what
must be kept of what was unpacked already. Only who asks for one writes such files (`zstd --long`
above 27).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, final

PACKED_PIECE = 1 << 16
"""Bytes of a compressed file that are read at once."""

# As many bytes at the beginning of a file say what it is.
_START = 4
LARGEST_WINDOW = 27
"""The power of two of the largest window of a zstandard file; that of zstd without --long."""


class ByteFile(Protocol):
    """What readers of lines need of a file."""

    def read(self, size: int, /) -> bytes:
        """Return at most so many bytes, and none at the end."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or the first so many bytes of it.

        Perhaps less, behind a CR.
        """

    def tell(self) -> int:
        """Return how many bytes of the file have been read.

        Of a compressed file those that are packed.
        """


class _Decoder(Protocol):
    """Unpacks one piece.

    Decoders of zstandard are such by themselves, and for gzip there is `_Gzip`.
    """

    @property
    def eof(self) -> bool:
        """Whether the piece has ended."""

    @property
    def needs_input(self) -> bool:
        """Whether nothing can be unpacked without more bytes."""

    @property
    def unused_data(self) -> bytes:
        """What was handed in and stands behind the end of the piece."""

    def decompress(self, data: bytes, size: int, /) -> bytes:
        """Take in bytes, and return at most so many that are unpacked."""


@final
class _Gzip:
    """One piece of a gzip file."""

    def __init__(self) -> None:
        # 31 means a gzip header and its checksum at the end, around a window of 32 KiB.
        self._decoder = zlib.decompressobj(31)
        self._rest = b""
        # Whether everything that could be unpacked was handed out.
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decompress(self, data: bytes, size: int, /) -> bytes:
        unpacked = self._decoder.decompress(self._rest + data, size)
        self._rest = self._decoder.unconsumed_tail
        # Where all that was asked for came out, more may be waiting inside, even if nothing is left
        # to take.
        self.needs_input = not self._rest and len(unpacked) < size
        return unpacked


class _Format(NamedTuple):
    name: str
    # How a file begins.
    start: re.Pattern[bytes]
    # Returns what opens a decoder, and the error that it raises.
    load: Callable[[], tuple[Callable[[], _Decoder], type[Exception]]]
    # What is said of bytes that cannot be unpacked: one sentence, whatever it is.
    damage: str
    # What may be repeated behind the last piece: tapes and disks fill a gzip file up with zeros.
    filling: bytes = b""


def _load_gzip() -> tuple[Callable[[], _Decoder], type[Exception]]:
    return _Gzip, zlib.error


def _load_zstandard() -> tuple[Callable[[], _Decoder], type[Exception]]:
    zstd = _import_zstandard()
    options = {zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW}
    return lambda: zstd.ZstdDecompressor(options=options), zstd.ZstdError


def _import_zstandard() -> Any:
    # From Python 3.14 on it is part of the standard library; before, a copy of just that (decision
    # 0021).
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return import_module(name)
    raise OSError(None, "a .zst file needs the package backports.zstd: pip install 'sordino[zstd]'")


_FORMATS = {
    ".gz": _Format("gzip", re.compile(rb"\x1f\x8b"), _load_gzip, "damaged", b"\0"),
    # The second way begins a piece that holds something else than data, and is passed over.
    ".zst": _Format(
        "zstandard",
        re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
        _load_zstandard,
        "damaged, or written with --long above 27",
    ),
}
PACKED = frozenset(_FORMATS)
"""How the names of compressed files end."""


def unpacked_suffix(path: Path) -> str:
    """Return how a file name ends, in small letters, without what says how it is compressed."""
    suffix = path.suffix.lower()
    return path.with_suffix("").suffix.lower() if suffix in PACKED else suffix


@contextmanager
def open_unpacked(path: Path) -> Iterator[ByteFile]:
    """Open a file; if its name says that it is compressed, its bytes are those that were packed.

    Raises
    ------
    OSError
        If it cannot be read. What is read of it raises the same if it is damaged.
    """
    form = _FORMATS.get(path.suffix.lower())
    with path.open("rb") as file:
        yield file if form is None else _Unpacked(file, form)


@final
class _Unpacked:
    """A compressed file whose bytes are those that were packed."""

    def __init__(self, file: BinaryIO, form: _Format) -> None:
        self._file, self._form = file, form
        # A plain file under such a name is refused by its first bytes, before anything is unpacked.
        if not form.start.match(file.read(_START)):
            raise OSError(None, f"it is no {form.name} file, as its name says")
        file.seek(0)
        self._new_decoder, self._error = form.load()
        self._decoder = self._new_decoder()
        # Bytes of the next piece that were read with the end of the one before.
        self._waiting = b""
        self._at_end = False

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, and fewer at the end only."""
        pieces = list[bytes]()
        while size and (piece := self._read_some(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def readline(self, size: int, /) -> bytes:
        """Return the next line with its end, or the first so many bytes of it.

        Less behind a lone CR.
        """
        line = bytearray()
        # One byte at a time: nothing behind the header line, which is what this reads, is unpacked
        # before the charge. So whether the rest of the file is damaged is not said before it. What
        # follows on a lone CR are rows of a file whose lines end with it (`header`).
        while len(line) < size and (byte := self._read_some(1)):
            line += byte
            if byte == b"\n" or line[-2:-1] == b"\r":
                break
        return bytes(line)

    def tell(self) -> int:
        """Return how many packed bytes have been read."""
        return self._file.tell()

    def _read_some(self, size: int) -> bytes:
        """Return at least one byte and at most so many, and none at the end."""
        try:
            while not self._at_end:
                if self._decoder.eof:
                    self._begin_next_piece()
                    continue
                wanting, fresh = self._decoder.needs_input, b""
                if wanting:
                    fresh, self._waiting = self._waiting or self._file.read(PACKED_PIECE), b""
                if unpacked := self._decoder.decompress(fresh, size):
                    return unpacked
                # The file ends, and the piece does not.
                if wanting and not fresh and not self._decoder.eof:
                    raise self._refused()
        # What exactly is wrong may depend on private bytes: one sentence for everything.
        except self._error:
            raise self._refused() from None
        return b""

    def _begin_next_piece(self) -> None:
        """Go on behind the end of a piece, with another one, or to the end of the file."""
        behind = self._decoder.unused_data or self._file.read(PACKED_PIECE)
        # Whole blocks of what a file may be filled up with, however many there are.
        while behind and not (begins := behind.lstrip(self._form.filling)):
            behind = self._file.read(PACKED_PIECE)
        if not behind:
            self._at_end = True
            return
        self._decoder, self._waiting = self._new_decoder(), begins

    def _refused(self) -> OSError:
        return OSError(None, f"its bytes are {self._form.damage}")
