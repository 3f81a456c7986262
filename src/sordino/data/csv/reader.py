"""Reads CSV files as rows.

Lines come from `lines`, the rules stand in `csv_format`, and fields are found here, for a block of lines at
once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown
from sordino.data.csv.encodings import line_encoding, open_lines
from sordino.data.csv.lines import (
    LONGEST,
    CsvFormat,
    TextBatch,
    can_decode,
    first_line,
    kept,
)
from sordino.data.csv.text_rows import TextRows, column_kinds
from sordino.data.sources.engine import Engine
from sordino.data.sources.folders import NO_FOLDERS, Folders, check_keys
from sordino.errors import DataSourceError, InvalidParameter


@final
@dataclass(frozen=True)
class CsvReader:
    """Some CSV files with one header and one format."""

    rows: TextRows

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
        If a header cannot be read, names a column twice or as a folder, or differs between files.
    InvalidParameter
        If a type is declared for a column that there is not.
    """
    if form.header:
        headers = [_read_header(path, form) for path in files]
        for path, header in zip(files, headers, strict=True):
            if header != headers[0]:
                raise DataSourceError(
                    f"All files of a source must have the same header line; {path} differs from {files[0]}."
                )
        first: bytes | None = headers[0]
        names = header_names(headers[0], form, str(files[0]), folders)
    else:
        first, names = None, check_names(form.columns, form, "CsvFormat.columns", folders)
    check_keys(folders, names, files[0])
    columns = (*names, *folders.keys)
    kinds = column_kinds(form, columns)
    rows = TextRows(
        tuple(files), form, first, kinds, lambda block, places: field_texts(block, form, places), folders
    )
    return CsvReader(rows), {name: kind.engine for name, kind in zip(columns, kinds, strict=True)}


def header_names(line: bytes, form: CsvFormat, where: str, folders: Folders = NO_FOLDERS) -> tuple[str, ...]:
    """Return the columns that a header line names.

    Raises
    ------
    DataSourceError
        If the line cannot be a header.
    InvalidParameter
        If a type is declared for a column that it does not name.
    """
    if not line:
        raise DataSourceError(
            f"A CSV file must begin with a header line; {where} has none (empty file or empty first line)."
        )
    written = line_encoding(form.encoding)
    if not (kept(line) and can_decode(line, written)):
        raise DataSourceError(
            f"The header line of {where} must be {form.encoding} text without NUL of at most {LONGEST} "
            "bytes; it is not. Convert the file to UTF-8 CSV or to Parquet; call it .gz or .zst if it "
            "is compressed."
        )
    names = split_line(line.decode(written), form)
    if names is None:
        raise DataSourceError(
            f"The header line of {where} must have balanced quotes; declare another quote or repair it."
        )
    return check_names(names, form, where, folders)


def _read_header(path: Path, form: CsvFormat) -> bytes:
    try:
        with open_lines(path, form.encoding) as file:
            line = first_line(file, line_encoding(form.encoding))
    except OSError as error:
        raise DataSourceError(f"A CSV file must be readable; {path} is not ({error.strerror}).") from None
    return line


def check_names(
    names: Sequence[str], form: CsvFormat, where: str, folders: Folders = NO_FOLDERS
) -> tuple[str, ...]:
    """Return the names of columns, which must be different and all of those that have a declared type.

    Raises
    ------
    DataSourceError
        If a name stands there twice.
    InvalidParameter
        If a type is declared for a column that there is not.
    """
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataSourceError(f"Column names must be different; {where} has {twice[0]!r} more than once.")
    known = (*names, *folders.keys)
    unknown = [name for name in form.types if name not in known]
    if unknown:
        raise InvalidParameter(
            f"CsvFormat.types must be for columns of {where}; got {shown(unknown[0])}. "
            f"The columns are {', '.join(map(repr, known[:12]))}{', ...' if len(known) > 12 else ''}."
        )
    return tuple(names)


def split_line(line: str, form: CsvFormat) -> list[str] | None:
    """Return the fields of one line, or None if its quotes are not balanced."""
    if not form.quote or form.quote not in line:
        return line.split(form.delimiter)
    # First whether all of the line is fields: `findall` alone would pass over what fits nowhere.
    one = _field_pattern(form)
    delimiter = re.escape(form.delimiter)
    if not re.fullmatch(f"{one}(?:{delimiter}{one})*", line, re.DOTALL):
        return None
    # A delimiter in front makes every field one behind a delimiter. Otherwise the first field would be lost.
    fields = re.findall(f"{delimiter}({one})", form.delimiter + line, re.DOTALL)
    quote = form.quote
    return [field[1:-1].replace(quote * 2, quote) if field.startswith(quote) else field for field in fields]


def _field_pattern(form: CsvFormat) -> str:
    """Return the regular expression of one field: quoted, or bare without any quote."""
    quote, delimiter = re.escape(form.quote), re.escape(form.delimiter)
    return f"(?:{quote}(?:[^{quote}]|{quote}{quote})*{quote}|[^{delimiter}{quote}]*)"


# ---- fields ------------------------------------------------------------------------------------------------
# Finds the fields of CSV lines, for a whole block of lines at once.
#
# Only the fields that are asked for reach the engine. The engine used to split the lines, and made every
# field of a line before it took one. A file of 381 MB, with lines of a megabyte of delimiters, needed 5 GB.
# Here a field is two places in the bytes of the block. So the memory is a fixed multiple of the block,
# whatever the block holds: some arrays with one whole number for each line, delimiter or quote.
#
# What a line means is written twice: here, and for one line in `split_line`. Tests compare both with a
# third implementation that goes character by character.


LF = 10
Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]
Offsets = NDArray[np.int32]


def field_texts(block: bytes, form: CsvFormat, indices: Sequence[int]) -> TextBatch:
    """Return some fields of the lines of a block; lines whose quotes are out of place are left out.

    Parameters
    ----------
    block : bytes
        Whole lines, each ended by LF.
    form : CsvFormat
        How they are written.
    indices : sequence of int
        Which fields, in ascending order.

    Returns
    -------
    Batch
        For each line and field two texts: the field, which is empty if it is missing, and what lies between
        it and the next one.
    """
    data, delimiter = np.frombuffer(block, dtype=np.uint8), ord(form.delimiter)
    separators, doubled, quote = data == delimiter, None, None
    if form.quote and form.quote.encode() in block:
        quote = ord(form.quote)
        data, doubled = _drop_misquoted_lines(data, delimiter, quote)
        # A delimiter inside quotes is text. Every line has an even
        # number of quotes now, so parity over the block will do.
        separators = (data == delimiter) & (_quote_parity(data, quote) == 0)
        block = data.tobytes()
    line_ends = data == LF
    size = int(np.count_nonzero(line_ends))
    if not (size and indices):
        return TextBatch(size, np.zeros(size + 1, dtype=np.int32), b"")
    # Two offsets for each field: where it starts and where
    # it stops. The engine sees two texts for each field.
    offsets = np.empty(2 * size * len(indices) + 1, dtype=np.int32)
    spans = offsets[:-1].reshape(size, len(indices), 2)
    _locate_fields(np.flatnonzero(line_ends | separators), line_ends, indices, spans)
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


def _quote_parity(data: Bytes, quote: int) -> Bytes:
    """Return for each byte whether the number of quotes up to it is odd."""
    # Bytes are enough for the sums: beyond 255 they wrap around and keep their parity.
    return np.bitwise_and(np.cumsum(data == quote, dtype=np.uint8), 1, dtype=np.uint8)


def _drop_misquoted_lines(data: Bytes, delimiter: int, quote: int) -> tuple[Bytes, Places]:
    """Return the lines whose quotes are all in place, and the places of quotes that only double the next one.

    Within a line quotes open and close in turn. A quote that opens stands at the start of a field, or right
    behind one that closed: then both are one quote of the text. A quote that closes stands at the end of a
    field, or right before one that opens.
    """
    # Whether a quote opens is counted from the start of its
    # own line: an open quote must not reach the next line.
    quotes, ends, parity = (
        np.flatnonzero(data == quote),
        np.flatnonzero(data == LF),
        _quote_parity(data, quote),
    )
    before = np.concatenate([[0], parity[ends[:-1]]]).astype(np.uint8)  # up to the start of each line
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
        # The lines that are left have an even number of quotes each, so parity over the block will do.
        opening = _quote_parity(data, quote)[quotes] == 1
    return data, quotes[~opening & (data[quotes + 1] == quote)]


def _locate_fields(
    breaks: Places, line_ends: NDArray[np.bool_], indices: Sequence[int], spans: Offsets
) -> None:
    """Write where fields start and stop: for each line, for each field.

    Missing fields start and stop at the end of the line.
    """
    size = spans.shape[0]
    most = breaks.size // size
    # The usual case, for speed: all lines have equally many fields, so the breaks are a table.
    if breaks.size == most * size and line_ends[breaks[most - 1 :: most]].all():
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
    ends = np.flatnonzero(line_ends[breaks])
    # The first break of each line. `minimum` below keeps
    # the fields of a short line from reaching the next one.
    firsts = np.concatenate([[0], ends[:-1] + 1])
    for column, index in enumerate(indices):
        stops = breaks[np.minimum(firsts + index, ends)]
        spans[:, column, 1] = stops
        if index:
            spans[:, column, 0] = np.minimum(breaks[np.minimum(firsts + index - 1, ends)] + 1, stops)
        else:
            spans[:1, column, 0], spans[1:, column, 0] = 0, breaks[ends[:-1]] + 1
