"""Finds the fields of CSV lines, for a whole block of lines at once.

Only the fields that are asked for reach the engine. The engine used to split the lines, and made every field
of a line before it took one. A file of 381 MB, with lines of a megabyte of delimiters, needed 5 GB. Here a
field is two places in the bytes of the block. So the memory is a fixed multiple of the block, whatever the
block holds: some arrays with one whole number for each line, delimiter or quote.

What a line means is written twice: here, and for one line in `_csv.split_line`. Tests compare both with a
third implementation that goes character by character.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sordino.data._csv_format import CsvFormat
from sordino.data._lines import Batch

LF = 10
Bytes = NDArray[np.uint8]
Places = NDArray[np.intp]
Offsets = NDArray[np.int32]


def field_texts(block: bytes, form: CsvFormat, indices: Sequence[int]) -> Batch:
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
        data, doubled = _well_formed(data, delimiter, quote)
        # A delimiter inside quotes is text. Every line has an even
        # number of quotes now, so parity over the block will do.
        separators = (data == delimiter) & (_parity(data, quote) == 0)
        block = data.tobytes()
    line_ends = data == LF
    size = int(np.count_nonzero(line_ends))
    if not (size and indices):
        return Batch(size, np.zeros(size + 1, dtype=np.int32), b"")
    # Two offsets for each field: where it starts and where
    # it stops. The engine sees two texts for each field.
    offsets = np.empty(2 * size * len(indices) + 1, dtype=np.int32)
    spans = offsets[:-1].reshape(size, len(indices), 2)
    _find(np.flatnonzero(line_ends | separators), line_ends, indices, spans)
    offsets[-1] = len(block)
    if quote is not None and doubled is not None:
        # Take the quotes off the ends of quoted fields. An empty
        # field starts at a delimiter or LF, so it is left alone.
        spans += (data[spans[:, :, :1]] == quote) * np.array([1, -1], dtype=np.int32)
        if doubled.size:
            # Every deleted byte moves what stands behind it one place to the left.
            offsets -= np.searchsorted(doubled, offsets).astype(np.int32)
            block = np.delete(data, doubled).tobytes()
    return Batch(size, offsets, block)


def _parity(data: Bytes, quote: int) -> Bytes:
    """Return for each byte whether the number of quotes up to it is odd."""
    # Bytes are enough for the sums: beyond 255 they wrap around and keep their parity.
    return np.bitwise_and(np.cumsum(data == quote, dtype=np.uint8), 1, dtype=np.uint8)


def _well_formed(data: Bytes, delimiter: int, quote: int) -> tuple[Bytes, Places]:
    """Return the lines whose quotes are all in place, and the places of quotes that only double the next one.

    Within a line quotes open and close in turn. A quote that opens stands at the start of a field, or right
    behind one that closed: then both are one quote of the text. A quote that closes stands at the end of a
    field, or right before one that opens.
    """
    # Whether a quote opens is counted from the start of its
    # own line: an open quote must not reach the next line.
    quotes, ends, parity = np.flatnonzero(data == quote), np.flatnonzero(data == LF), _parity(data, quote)
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
        opening = _parity(data, quote)[quotes] == 1
    return data, quotes[~opening & (data[quotes + 1] == quote)]


def _find(breaks: Places, line_ends: NDArray[np.bool_], indices: Sequence[int], spans: Offsets) -> None:
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
