"""Reads the XML inside of a workbook: a zip archive of parts, piece by piece and in bounded memory.

A part is never held as a whole, whatever it unpacks to. Nor does its XML make memory grow: it has
no definitions of its own (DTD), is nested at most 64 deep, and has a bounded number of names;
between two `<` and `>` stands about 1 MiB at most. What breaks off, is damaged or goes beyond is an
error for the whole part. No program that writes workbooks makes such parts, whatever people type
into cells.
"""

from __future__ import annotations

import posixpath
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import final
from xml.parsers import expat

PIECE = 1 << 16
"""Bytes of a part that are unpacked and parsed at once."""

LARGEST_TAG = 1 << 20
"""About how many bytes may stand between `<` and `>`; expat keeps them until the `>` comes."""

DEEPEST = 64
"""How many elements may stand inside each other; expat keeps each of them until it ends."""

MOST_NAMES = 1 << 12
"""How many names of elements and attributes a part may have; expat keeps them all."""

BROKEN = (
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    expat.ExpatError,
)
"""What is raised by an archive or a part that cannot be read."""

# One and the same format, as two standards name it.
_SHEET_SPACES = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main",
    "http://purl.oclc.org/ooxml/spreadsheetml/main",
)
_LINK_SPACE = "http://schemas.openxmlformats.org/package/2006/relationships"
_LINKED_SPACES = (
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
    "http://purl.oclc.org/ooxml/officeDocument/relationships",
)
_WAYS = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))


class Enough(Exception):
    """Ends the reading of a part whose rest is not wanted."""


class Visitor:
    """Looks at the elements of a part.

    `path` are the names of those around, from the outermost one on.
    """

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        """Look at an element, the last one of `path`, that begins."""

    def end(self, path: list[str]) -> None:
        """Look at an element, the last one of `path`, that ends."""

    def text(self, words: str) -> None:
        """Look at a piece of text."""


@final
class Archive:
    """A workbook whose parts are read one after the other."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def size(self, part: str) -> int:
        """Return how many bytes a part unpacks to, as the archive says."""
        return self._archive.getinfo(part).file_size

    def walk(
        self,
        part: str,
        visitor: Visitor,
        read: Callable[[int], None] | None = None,
        piece: int = PIECE,
    ) -> Iterator[None]:
        """Show a part to a visitor, and pause after each piece.

        Ends early if the visitor has enough.

        Parameters
        ----------
        part : str
            The name of the part.
        visitor : Visitor
            What looks at it.
        read : callable, optional
            Called with the number of bytes of each piece.
        piece : int
            Bytes that are unpacked and parsed at once.

        Raises
        ------
        OSError, ValueError, zipfile.BadZipFile, zlib.error, expat.ExpatError, ...
            If it is damaged, or there is none: one of `BROKEN`.
        """
        try:
            found = self._archive.getinfo(part)
        except KeyError:
            raise OSError(f"there is no part {part}") from None
        # Other ways of packing need memory that the file asks for.
        if found.compress_type not in _WAYS:
            raise OSError("a part is packed in another way than deflate")
        with self._archive.open(found) as file:
            parser, names = _make_parser(visitor)
            fed = 0
            try:
                while data := file.read(piece):
                    parser.Parse(data, False)
                    fed += len(data)
                    # Whatever was fed and is not parsed yet waits for the end of a tag, in memory.
                    if fed - parser.CurrentByteIndex > LARGEST_TAG or len(names) > MOST_NAMES:
                        raise OSError("a part has a tag or a list of names beyond all bounds")
                    if read is not None:
                        read(len(data))
                    yield
                parser.Parse(b"", True)
            except Enough:
                pass
        yield

    def look(self, part: str, visitor: Visitor) -> None:
        """Show a part to a visitor, in small pieces.

        Little is parsed behind what the visitor wants.
        """
        for _ in self.walk(part, visitor, piece=256):
            pass

    def links(self, part: str) -> dict[str, tuple[str, str]]:
        """Return what a part refers to, by identifier: of what kind each is, and the part."""
        folder, name = posixpath.split(part)
        found = _Links(folder)
        self.look(posixpath.join(folder, "_rels", f"{name}.rels"), found)
        return found.links


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open a workbook.

    Raises
    ------
    OSError, zipfile.BadZipFile, ...
        If it is no zip archive: one of `BROKEN`.
    """
    with zipfile.ZipFile(path) as archive:
        yield Archive(archive)


@final
class _Links(Visitor):
    """Collects the relations of a part."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.links = dict[str, tuple[str, str]]()

    def begin(self, path: list[str], attributes: Mapping[str, str]) -> None:
        if path == ["Relationships", "Relationship"] and attributes.get("TargetMode") != "External":
            kind, target = attributes.get("Type", ""), attributes.get("Target", "")
            where = posixpath.normpath(posixpath.join("/", self._folder, target)).lstrip("/")
            self.links[attributes.get("Id", "")] = (kind.rpartition("/")[2], where)


def _make_parser(visitor: Visitor) -> tuple[expat.XMLParserType, dict[str, str]]:
    """Return a parser that shows elements to a visitor, and all names that it has met so far."""
    names = dict[str, str]()
    prefixes = set[str | None]()
    parser = expat.ParserCreate(None, " ", names)
    # A text comes in few pieces.
    parser.buffer_text = True
    path = list[str]()

    def begin(name: str, attributes: Mapping[str, str]) -> None:
        if len(path) == DEEPEST:
            raise OSError("elements are nested too deep")
        path.append(_plain_name(name))
        visitor.begin(path, attributes)

    def end(_name: str) -> None:
        visitor.end(path)
        path.pop()

    def declare(prefix: str | None, _space: str) -> None:
        prefixes.add(prefix)
        if len(prefixes) > MOST_NAMES:
            raise OSError("a part has a list of prefixes beyond all bounds")

    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = visitor.text
    parser.StartDoctypeDeclHandler, parser.StartNamespaceDeclHandler = _refuse_definitions, declare
    return parser, names


def _refuse_definitions(*_: object) -> None:
    # With definitions of its own a text of some bytes can stand for gigabytes.
    raise OSError("a part of a workbook has no definitions")


def _plain_name(name: str) -> str:
    """Return the name of an element of a workbook; elements of others have none."""
    return _PLAIN_NAMES.get(name, "")


_PLAIN_NAMES = {
    f"{space} {name}": name
    for space in _SHEET_SPACES
    for name in (
        *("workbook", "workbookPr", "sheets", "sheet"),
        *("worksheet", "sheetData", "row", "c", "v", "is", "t", "r"),
        *("sst", "si", "styleSheet", "numFmts", "numFmt", "cellXfs", "xf"),
    )
} | {f"{_LINK_SPACE} {name}": name for name in ("Relationships", "Relationship")}

LINKED = tuple(f"{space} id" for space in _LINKED_SPACES)
"""The attribute by which an element refers to another part."""
