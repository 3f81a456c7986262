r"""Reads JSON lines: one object on each line, `{"user": "u1", "amount": 12.5}`.

Which fields there are cannot be found out, because every line may have others: so the columns are
those that were declared with a type. Blocks of lines are cut as those of CSV are (`lines`), and
each line is parsed by itself, by Python's parser and not by the engine's: an engine's reader of
JSON ends a whole query by one bad line, or keeps it as a row of NULL.

The rules, each a function of one physical line:

- A line is dropped if it is empty, holds a NUL byte, is no UTF-8, or is longer than 1 MiB, as in
  CSV.
- It is dropped if it is not one JSON object (RFC 8259), or if arrays and objects in it are nested
  more than 64 deep. NaN and Infinity are no JSON.
- A column is the entry of the outermost object with exactly that name. Of equal names the first
  counts.
- A text is what it says, without its escapes. A number is the text that stands there, digit by
  digit; true and false are those words. The rules about types are those of CSV, and take these
  texts.
- null, the empty text, a text equal to a NULL text, and a name that the object lacks are NULL. So
  are arrays, objects, and texts with NUL or with half of a character (`\ud800`), which no text can
  hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, final

from sordino.errors import DataSourceError
from sordino.sources.csv.lines import CsvFormat, TextBatch, refuse_text_options
from sordino.sources.csv.packed import open_unpacked
from sordino.sources.csv.text_rows import TextRows, column_kinds, make_batch
from sordino.sources.engine import Engine
from sordino.sources.folders import NO_FOLDERS, Folders, check_keys

NO_OBJECT_LINES = "lines that are no JSON object in UTF-8, hold a NUL byte, or have more than 1 MiB"
"""Which lines are dropped, for people."""

DEEPEST_JSON = 64
"""How many arrays and objects may stand inside each other.

Python's parser calls itself for each, and gives up somewhere beyond; where, depends on more than
the line.
"""

# A text, to its end or to that of the line: so every quote outside of a text begins a match, and
# the search takes one walk through the line.
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


@final
@dataclass(frozen=True)
class JsonReader:
    """Some files of JSON lines, of which the declared columns are read."""

    rows: TextRows

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the columns at `indices` to the engine and return the SELECT that names them."""
        return self.rows.lend(engine, indices)


def open_json_lines(
    files: Sequence[Path], form: CsvFormat, folders: Folders = NO_FOLDERS
) -> tuple[JsonReader, dict[str, str]]:
    """Take the columns that were declared; nothing of the files is read.

    Raises
    ------
    DataSourceError
        If a file cannot be opened, or a column has the name of a folder.
    InvalidParameter
        If something was declared that JSON lines have not.
    """
    refuse_text_options(
        form,
        "JSON lines, which have rules of their own (UTF-8, a decimal point, names in every line)",
    )
    # The first line is private: whether a file can be opened is all that is found out.
    for path in files:
        try:
            with open_unpacked(path):
                pass
        except OSError as error:
            raise DataSourceError(
                f"A file of JSON lines must be readable; {path} is not ({error.strerror})."
            ) from None
    # A declared type of a key is that of the folders, and no column of the lines.
    names = tuple(name for name in form.types if name not in folders.keys)
    check_keys(folders, names, files[0])
    columns = (*names, *folders.keys)
    kinds = column_kinds(form, columns)
    split, headers = partial(json_texts, names=names), (None,) * len(files)
    rows = TextRows(tuple(files), form, headers, kinds, split, folders, _drop_line)
    return JsonReader(rows), {name: kind.engine for name, kind in zip(columns, kinds, strict=True)}


def _drop_line(_line: bytes, _form: CsvFormat) -> None:
    """Read nothing in place of a line that is no UTF-8: it is no JSON either."""


def json_texts(block: bytes, indices: Sequence[int], *, names: Sequence[str]) -> TextBatch:
    """Return some columns of the lines of a block; lines that are no object are left out.

    Parameters
    ----------
    block : bytes
        Whole lines, each ended by LF.
    indices : sequence of int
        Which columns, in ascending order.
    names : sequence of str
        The names of all columns.

    Returns
    -------
    TextBatch
        For each line and column two texts: that of the entry, which is empty if it is missing, and
        an empty one.
    """
    wanted = [names[index] for index in indices]
    size, texts = 0, list[bytes]()
    for line in block.split(b"\n")[:-1]:
        found = parse_object(line)
        if found is not None:
            size += 1
            texts += [_write_json_text(found.get(name)) for name in wanted]
    return make_batch(size, texts)


def parse_object(line: bytes) -> dict[str, Any] | None:
    """Return the entries of the object that a line in UTF-8 is, numbers as texts.

    None if it is none.
    """
    if _nests_too_deep(line):
        return None
    try:
        found = _DECODER.decode(line.decode())
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _nests_too_deep(line: bytes) -> bool:
    # The usual case, for speed: there are too few brackets.
    if line.count(b"[") + line.count(b"{") <= DEEPEST_JSON:
        return False
    depth = 0
    # Brackets inside of texts do not count.
    for bracket in _BRACKETS.findall(_TEXT.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        if depth > DEEPEST_JSON:
            return True
    return False


def _keep_first(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(entries[::-1])


def _refuse_word(_word: str) -> NoReturn:
    raise ValueError("NaN and Infinity are no JSON")


# Numbers stay texts: as such they have all of their digits, and none is too long for Python.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_keep_first, parse_int=str, parse_float=str, parse_constant=_refuse_word
)


def _write_json_text(value: Any) -> bytes:
    """Return the text of an entry in UTF-8, empty if it has none."""
    if value is True or value is False:
        return b"true" if value else b"false"
    if not isinstance(value, str) or "\0" in value:
        return b""
    try:
        return value.encode()
    except UnicodeEncodeError:
        return b""
