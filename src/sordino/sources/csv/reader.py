"""Reads CSV files as rows.

Lines come from `lines`, where the rules stand, names from `header`, and fields are found here, for
a block of lines at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.sources.csv.header import (
    check_typed_names,
    compare_headers,
    find_clear_names,
    read_header,
)
from sordino.sources.csv.lines import CsvFormat, TextBatch
from sordino.sources.csv.text_rows import TextRows, column_kinds
from sordino.sources.engine import Engine
from sordino.sources.folders import NO_FOLDERS, Folders, check_keys


@final
@dataclass(frozen=True)
class CsvReader:
    """Some CSV files with one header and one format.

    Parameters
    ----------
    rows : TextRows
        Their lines.
    names : tuple of str
        All columns of a line, also those that cannot be asked for because others have the same
        name, or none.
    """

    rows: TextRows
    names: tuple[str, ...]

    def relation(self, engine: Engine, indices: Sequence[int]) -> str:
        """Lend the fields at `indices` to the engine and return the SELECT that names them."""
        return self.rows.lend(engine, indices)


def open_csv(
    files: Sequence[Path], form: CsvFormat, folders: Folders = NO_FOLDERS
) -> tuple[CsvReader, dict[str, str]]:
    """Read the header lines, and nothing else, of CSV files.

    Raises
    ------
    DataSourceError
        If a header cannot be read, names a column as a folder, or differs between files.
    InvalidParameter
        If a type is declared for a column that there is not.
    """
    headers: tuple[bytes | None, ...]
    if form.header:
        headers, listed = zip(*(read_header(path, form) for path in files), strict=True)
        compare_headers(dict(zip(files, listed, strict=True)))
        names = tuple(listed[0])
        check_typed_names(names, form, str(files[0]), folders)
    else:
        headers = (None,) * len(files)
        names = form.columns
        check_typed_names(names, form, "CsvFormat.columns", folders)
    clear = find_clear_names(names)
    check_keys(folders, tuple(clear), files[0])
    columns = (*clear, *folders.keys)
    kinds = column_kinds(form, columns)
    # Where the columns stand that can be asked for.
    standing, width = list(clear.values()), None if form.ragged else len(names)

    def split(block: bytes, indices: Sequence[int]) -> TextBatch:
        return field_texts(block, form, [standing[index] for index in indices], width)

    rows = TextRows(tuple(files), form, headers, kinds, split, folders)
    return CsvReader(rows, names), {
        name: kind.engine for name, kind in zip(columns, kinds, strict=True)
    }


# ---- fields --------------------------------------------------------------------------------------
# Finds the fields of CSV lines, for a whole block of lines at once.
#
# Only the fields that are asked for reach the engine. The engine used to split the lines, and made
# every field of a line before it took one. A file of 381 MB, with lines of a megabyte of
# delimiters, needed 5 GB. Here a field is two places in the bytes of the block. So the memory is a
# fixed multiple of the block, whatever the block holds: some arrays with one whole number for each
# line, delimiter or quote.
#
# What a line means is written twice: here, and for one line in `split_line`. Tests compare both
# with a third implementation that goes character by character.


LF = 10
Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]
Offsets = NDArray[np.int32]


def field_texts(
    block: bytes, form: CsvFormat, indices: Sequence[int], width: int | None = None
) -> TextBatch:
    """Return some fields of the lines of a block; lines whose quotes are out of place are left out.

    Parameters
    ----------
    block : bytes
        Whole lines, each ended by LF.
    form : CsvFormat
        How they are written.
    indices : sequence of int
        Which fields, in ascending order.
    width : int, optional
        How many fields a line has; one with more or fewer is left out, unless all that it has
        beyond is a delimiter at its end. None: lines have any number of fields.

    Returns
    -------
    Batch
        For each line and field two texts: the field, which is empty if it is missing, and what lies
        between it and the next one, lines that are left out included.
    """
    data, delimiter = np.frombuffer(block, dtype=np.uint8), ord(form.delimiter)
    quoted = bool(form.quote) and form.quote.encode() in block
    # The usual case, for speed, where rows are counted and nothing else.
    if width and not indices and not quoted and (size := _count_full_lines(block, form, width)):
        return TextBatch(size, np.zeros(size + 1, dtype=np.int32), b"")
    separators, doubled, quote = data == delimiter, None, None
    if quoted:
        quote = ord(form.quote)
        data, doubled = _drop_misquoted_lines(data, delimiter, quote)
        # A delimiter inside quotes is text. Every line has an even
        # number of quotes now, so parity over the block will do.
        separators = (data == delimiter) & (_quote_parity(data, quote) == 0)
        block = data.tobytes()
    line_ends = data == LF
    if not (indices or width):
        size = int(np.count_nonzero(line_ends))
        return TextBatch(size, np.zeros(size + 1, dtype=np.int32), b"")
    breaks = np.flatnonzero(line_ends | separators)
    lines = _find_lines(breaks, line_ends, width)
    size = lines.ends.size
    if not (size and indices):
        return TextBatch(size, np.zeros(size + 1, dtype=np.int32), b"")
    # Two offsets for each field: where it starts and where
    # it stops. The engine sees two texts for each field.
    offsets = np.empty(2 * size * len(indices) + 1, dtype=np.int32)
    spans = offsets[:-1].reshape(size, len(indices), 2)
    _locate_fields(breaks, lines, indices, spans)
    offsets[-1] = len(block)
    if quote is not None and doubled is not None:
        # Take the quotes off the ends of quoted fields. An empty
        # field starts at a delimiter or LF, so it is left alone.
        spans += (data[spans[:, :, :1]] == quote) * np.array([1, -1], dtype=np.int32)
        if doubled.size:
            # Every deleted byte moves what stands behind it one place to the left.
            offsets -= np.searchsorted(doubled, offsets).astype(np.int32)
            block = np.delete(data, doubled).tobytes()
    return TextBatch(size, offsets, block)


def _count_full_lines(block: bytes, form: CsvFormat, width: int) -> int:
    """Return how many lines there are if each has so many fields, without quotes, else 0."""
    breaks = form.delimiter.encode() + b"\n"
    found = block.translate(None, bytes(set(range(256)) - set(breaks)))
    size = len(found) // width
    return size if found == (breaks[:1] * (width - 1) + b"\n") * size else 0


def _quote_parity(data: Bytes, quote: int) -> Bytes:
    """Return for each byte whether the number of quotes up to it is odd."""
    # Bytes are enough for the sums: beyond 255 they wrap around and keep their parity.
    return np.bitwise_and(np.cumsum(data == quote, dtype=np.uint8), 1, dtype=np.uint8)


def _drop_misquoted_lines(data: Bytes, delimiter: int, quote: int) -> tuple[Bytes, Places]:
    """Return the lines whose quotes are all in place, and where quotes only double the next one.

    Within a line quotes open and close in turn. A quote that opens stands at the start of a field,
    or right behind one that closed: then both are one quote of the text. A quote that closes stands
    at the end of a field, or right before one that opens.
    """
    # Whether a quote opens is counted from the start of its
    # own line: an open quote must not reach the next line.
    quotes, ends, parity = (
        np.flatnonzero(data == quote),
        np.flatnonzero(data == LF),
        _quote_parity(data, quote),
    )
    before = np.concatenate([[0], parity[ends[:-1]]]).astype(
        np.uint8
    )  # up to the start of each line
    counts = np.diff(np.searchsorted(quotes, ends), prepend=0)
    opening = parity[quotes] != np.repeat(before, counts)
    beside = np.where(opening, data[quotes - 1], data[quotes + 1])
    # Nothing stands before the first byte: index -1 was the last byte of the block.
    if quotes[0] == 0:
        beside[0] = LF
    misplaced = quotes[(beside != LF) & (beside != delimiter) & (beside != quote)]
    # A line is broken if its number of quotes is odd, or if one of its quotes is misplaced.
    broken = parity[ends] != before
    broken[np.searchsorted(ends, misplaced)] = True
    if broken.any():
        data = data[np.repeat(~broken, np.diff(ends, prepend=-1))]
        quotes = np.flatnonzero(data == quote)
        # The lines that are left have an even number of quotes each, so parity over the block will
        # do.
        opening = _quote_parity(data, quote)[quotes] == 1
    return data, quotes[~opening & (data[quotes + 1] == quote)]


class _Lines(NamedTuple):
    """The lines of a block that are left: which breaks end them, and which are their first ones.

    `most` is the number of fields where all lines of the block are left and have equally many;
    otherwise 0.
    """

    firsts: Places
    ends: Places
    most: int


def _find_lines(breaks: Places, line_ends: NDArray[np.bool_], width: int | None) -> _Lines:
    """Return the lines that have so many fields, or all of them."""
    ended = line_ends[breaks]
    size = int(np.count_nonzero(ended))
    most = breaks.size // size if size else 0
    # The usual case, for speed: all lines have equally many fields, so the breaks are a table.
    if (
        size
        and width in {None, most}
        and breaks.size == most * size
        and ended[most - 1 :: most].all()
    ):
        ends = np.arange(most - 1, breaks.size, most)
        return _Lines(ends - (most - 1), ends, most)
    ends = np.flatnonzero(ended)
    firsts = np.concatenate([[0], ends[:-1] + 1])[: ends.size]
    if width is not None:
        fields = ends - firsts + 1
        # A delimiter right before the end of a line, and one field too many: that field is empty.
        trailing = (fields == width + 1) & (breaks[ends] - breaks[ends - 1] == 1)
        left = (fields == width) | trailing
        ends, firsts = ends[left], firsts[left]
    return _Lines(firsts, ends, 0)


def _locate_fields(breaks: Places, lines: _Lines, indices: Sequence[int], spans: Offsets) -> None:
    """Write where fields start and stop: for each line, for each field.

    Missing fields start and stop at the end of the line.
    """
    size, most = spans.shape[0], lines.most
    if most:
        table = breaks.reshape(size, most)
        for column, index in enumerate(indices):
            spans[:, column, 1] = table[:, min(index, most - 1)]
            if 0 < index < most:
                spans[:, column, 0] = table[:, index - 1] + 1
            elif index:
                spans[:, column, 0] = table[:, -1]
            else:
                spans[:1, column, 0], spans[1:, column, 0] = 0, table[:-1, -1] + 1
        return
    # `minimum` below keeps the fields of a short line from reaching the next one.
    firsts, ends = lines.firsts, lines.ends
    for column, index in enumerate(indices):
        stops = breaks[np.minimum(firsts + index, ends)]
        spans[:, column, 1] = stops
        if index:
            spans[:, column, 0] = np.minimum(
                breaks[np.minimum(firsts + index - 1, ends)] + 1, stops
            )
        else:
            # Behind the end of the line before, if there is one.
            spans[:, column, 0] = np.where(firsts > 0, breaks[firsts - 1] + 1, 0)
