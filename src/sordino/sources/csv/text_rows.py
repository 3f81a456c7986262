"""Hands rows of text files to the engine.

Some fields of each row, and the columns that folders are named by.

How a block of lines becomes fields is the format's own. All that happens here is the same for every
format: files are read anew for each scan, and fields get their declared types in the projection
over the stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np

from sordino.sources.arrow_interface import TextStream
from sordino.sources.csv.column_types import ColumnType, column_type
from sordino.sources.csv.lines import (
    CsvFormat,
    Repair,
    TextBatch,
    declared_types,
    empty_unreadable_fields,
    kept_blocks,
    null_texts,
)
from sordino.sources.csv.typed_fields import rehearse_types, write_typed
from sordino.sources.engine import Engine, literal
from sordino.sources.folders import NO_FOLDERS, Folders, write_lookup

Split = Callable[[bytes, Sequence[int]], TextBatch]
"""From whole lines and the places of columns, in ascending order, to two texts for each row and
column.

The first text is the field, which is empty if it is missing. What the second one holds is not
looked at.
"""


MOST_FIELDS = 1 << 20
"""How many fields are looked at together, unless one line alone has more that are asked for.

A block may hold a million lines. A predicate over 400 columns would need 3 GB for all of them at
once.
"""


@final
@dataclass(frozen=True)
class TextRows:
    """Some text files with the same columns and one format.

    Parameters
    ----------
    files : tuple of Path
        The files, in any order.
    format : CsvFormat
        How they are written.
    headers : tuple of bytes or None
        The header line of each of them as it was when they were opened; None if they have none.
    kinds : tuple of ColumnType
        The types of their columns, and then of the columns that their folders are named by.
    split : callable
        Finds the fields.
    folders : Folders
        The columns that their folders are named by.
    repair : callable
        What becomes of a line that is not in the encoding.
    """

    files: tuple[Path, ...]
    format: CsvFormat
    headers: tuple[bytes | None, ...]
    kinds: tuple[ColumnType, ...]
    split: Split = field(repr=False)
    folders: Folders = NO_FOLDERS
    repair: Repair = field(default=empty_unreadable_fields, repr=False)

    def lend(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the fields at `indices` to the engine and return the SELECT that names them."""
        done = [0]
        # Sizes are only for the progress. At least 1: it is a divisor, and all files may be empty.
        total = max(1, sum(path.stat().st_size for path in self.files))
        # Columns of the files stand before those of the folders.
        of_files = len(self.kinds) - len(self.folders.keys)
        # Each field once and in ascending order, as `split` wants them.
        places = sorted({index for index in indices if index < of_files})
        keys = sorted({index for index in indices if index >= of_files})

        def read(size: int) -> None:
            done[0] += size

        # The engine may scan the stream several times: each scan reads the files anew.
        def start() -> Iterator[TextBatch]:
            for number, (path, header) in enumerate(zip(self.files, self.headers, strict=True)):
                for block in kept_blocks([path], self.format, header, read, self.repair):
                    for lines in _cut_block(block, MOST_FIELDS // max(1, len(places)) or 1):
                        batch = self.split(lines, places)
                        # Which file a row is from is wanted only where its folders are.
                        if keys:
                            batch = batch._replace(
                                numbers=np.full(batch.size, number, dtype=np.int32)
                            )
                        if batch.size:
                            yield batch

        engine.measure = lambda: 100 * done[0] / total
        return lend_texts(
            engine,
            start,
            places,
            self.kinds,
            self.format,
            {index: write_lookup(self.folders.column(index - of_files), "file") for index in keys},
        )


def lend_texts(
    engine: Engine,
    start: Callable[[], Iterator[TextBatch]],
    places: Sequence[int],
    kinds: Sequence[ColumnType],
    form: CsvFormat,
    beside: Mapping[int, str] | None = None,
) -> str:
    """Lend fields to the engine and return the SELECT that names them, with their declared types.

    Parameters
    ----------
    engine : Engine
        Where they are evaluated.
    start : callable
        Begins to read them, anew for each scan: two texts for each row and place, as `Split` makes
        them.
    places : sequence of int
        Which columns are read, each once and in ascending order.
    kinds : sequence of ColumnType
        The types of all columns.
    form : CsvFormat
        How values are written.
    beside : mapping of int to str, optional
        Columns that are not read: SQL of each, in which `file` is the number of the file that a row
        is from.
    """
    beside = beside or {}
    stream = TextStream(
        "texts", start, width=2 * len(places) or 1, number="file" if beside else None
    )
    engine.connection.register("lines", stream)
    # Each field comes with a second text behind it, so fields are the 1st, 3rd, 5th, ... entry.
    fields = [
        f"{_write_field_or_null(f'texts[{2 * place + 1}]', null_texts(form))} AS f{index}"
        for place, index in enumerate(places)
    ]
    fields += [f"{looked_up} AS f{index}" for index, looked_up in beside.items()]
    values = (
        f"{write_typed(f'f{index}', kinds[index], form)} AS c{index}"
        for index in (*places, *beside)
    )
    return f"SELECT {', '.join(values) or '1'} FROM (SELECT {', '.join(fields) or '1'} FROM lines)"


def make_batch(size: int, texts: Sequence[bytes]) -> TextBatch:
    """Return rows of fields as `Split` makes them, without anything in the second text of each two.

    Parameters
    ----------
    size : int
        How many rows there are.
    texts : sequence of bytes
        Their fields in UTF-8, those of the first row first; equally many for each row, or none.
    """
    offsets = np.zeros(2 * len(texts) + 1 if texts else size + 1, dtype=np.int32)
    if texts:
        ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
        # The second text of each two begins and ends where the first one ends.
        offsets[1:] = np.repeat(ends, 2)
    return TextBatch(size, offsets, b"".join(texts))


def _cut_block(block: bytes, most: int) -> Iterator[bytes]:
    """Yield a block of whole lines in pieces of at most so many lines."""
    # Nearly always: then nothing is copied.
    if block.count(b"\n") <= most:
        yield block
        return
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + 1
    cuts = [0, *ends[most - 1 : -1 : most].tolist(), len(block)]
    for start, stop in itertools.pairwise(cuts):
        yield block[start:stop]


def _write_field_or_null(text: str, nulls: tuple[str, ...]) -> str:
    # All tests see the text without its quotes: a quoted field is NULL where a bare one would be.
    for null in ("", *nulls):
        text = f"nullif({text}, {literal(null)})"
    return text


def column_kinds(form: CsvFormat, names: Sequence[str]) -> tuple[ColumnType, ...]:
    """Return the types of columns: those that are declared, and texts.

    Raises
    ------
    InvalidParameter
        If the engine cannot read a declared type.
    """
    rehearse_types(form)
    declared = declared_types(form)
    # A type that was found out from rows would depend on them.
    return tuple(declared.get(name, column_type("", "text")) for name in names)
