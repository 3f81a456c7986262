"""Lines of CSV as records of one number: as many records as lines, whatever the lines hold, so that how many there are can be public.

The rules, each about one physical line, ended by LF or CRLF (the last line may lack its end, if it is not empty):

- Every line after the header is one record, also an empty one. None is dropped, and none reaches another. Of a line only the first MiB
  (1048576 bytes) is read.
- Fields are bytes. Where a quote does not open, close or (doubled) belong to a quoted field, the fields before stand, and the rest of the
  line is missing.
- The number of a record is a finite decimal number, with or without blanks around it; one beyond the floats is infinite. Whatever else
  its field holds, the NULL text among it, is no number: NaN.
- The unit of a record is its field; the empty field, a missing one and the NULL text are none. So nothing that stands behind the unit in
  a line changes whose it is.

Of each unit the first M records count, in the order of the file, and of no unit none; the others have no number. Where a unit's records
stand is taken as public; whether they hold a number decides nothing about it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.data._answer_lines import NUMBER
from sordino.data._csv_format import CsvFormat
from sordino.data._lines import LONGEST, MARK

BLOCK = 1 << 18
"""Bytes asked for at once; a reader of a pipe returns what is there."""

Values = NDArray[np.float64]


class Fields(NamedTuple):
    """Where the number stands in a line, and the unit if there is one."""

    number: int
    unit: int | None


@final
class UnitRows:
    """Lets the first `most` records of each unit count; it holds a number for each unit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[Hashable, int] = {}

    def kept(self, values: Values, units: Iterable[Hashable | None]) -> Values:
        """Return the numbers of one block of records, NaN for those that do not count."""
        seen, most = self._seen, self._most
        counting = np.empty(values.size, dtype=bool)
        for place, unit in enumerate(units):
            before = most if unit is None else seen.get(unit, 0)
            counting[place] = before < most
            if before < most:
                seen[unit] = before + 1
        return np.where(counting, values, np.nan)


def record_blocks(
    read: Callable[[int], bytes], form: CsvFormat, fields: Fields, rows: UnitRows | None, *, marked: bool = False
) -> Iterator[Values]:
    """Yield the numbers of the records, in blocks, in the order of the lines; private.

    Parameters
    ----------
    read : callable
        Returns at most so many bytes, and none at the end.
    form : CsvFormat
        How lines are written; the header has been read.
    fields : Fields
        Where number and unit stand.
    rows : UnitRows, optional
        Which records of a unit count; with a unit field.
    marked : bool
        Whether a byte order mark may stand before the first record.
    """
    for block in _blocks(read):
        lines = block.removeprefix(MARK) if marked else block
        marked = False
        numbers, units = _quickly(lines, form, fields) or _read(lines, form, fields)
        yield numbers if rows is None else rows.kept(numbers, units)


def _blocks(read: Callable[[int], bytes]) -> Iterator[bytes]:
    """Yield pieces of whole lines, each line ended by LF; of one that is too long the beginning."""
    rest, skipping = b"", False
    while fresh := read(BLOCK):
        if skipping:  # in the middle of a line of which enough is known
            end = fresh.find(b"\n")
            if end < 0:
                continue
            fresh, skipping = fresh[end:], False
        block = rest + fresh
        cut = block.rfind(b"\n") + 1
        if cut:
            yield block[:cut]
        rest = block[cut:]
        if len(rest) > LONGEST + len(MARK) + 1:  # a mark, and the CR of a line end, are no part of the line
            rest, skipping = rest[: LONGEST + len(MARK) + 1], True
    if rest:
        yield rest + b"\n"


def _quickly(block: bytes, form: CsvFormat, fields: Fields) -> tuple[Values, list[bytes | None]] | None:
    """Return what `_read` returns where no line has a quote or is too long; None for other blocks."""
    if form.quote and form.quote.encode() in block:
        return None
    lines = (block.replace(b"\r\n", b"\n") if b"\r" in block else block).split(b"\n")[:-1]
    if max(map(len, lines)) > LONGEST:
        return None
    delimiter, null, last = form.delimiter.encode(), _null(form), max(fields.number, fields.unit or 0) + 1
    split, matches = [line.split(delimiter, last) for line in lines], NUMBER.fullmatch
    texts = [parts[fields.number] if len(parts) > fields.number else b"" for parts in split]
    numbers = np.array([float(text) if matches(text) and text != null else math.nan for text in texts])
    return numbers, [] if fields.unit is None else [_field(parts, fields.unit, null) for parts in split]


def _read(block: bytes, form: CsvFormat, fields: Fields) -> tuple[Values, list[bytes | None]]:
    """Return number and unit of each line, by the rules, one after the other."""
    delimiter, quote, null = form.delimiter.encode(), form.quote.encode(), _null(form)
    numbers, units = list[float](), list[bytes | None]()
    for line in block.split(b"\n")[:-1]:
        text = line.removesuffix(b"\r")[:LONGEST]
        parts = split_quoted(text, delimiter, quote) if quote and quote in text else text.split(delimiter)
        field = _field(parts, fields.number, null)
        numbers.append(float(field) if field is not None and NUMBER.fullmatch(field) else math.nan)
        if fields.unit is not None:
            units.append(_field(parts, fields.unit, null))
    return np.array(numbers), units


def _null(form: CsvFormat) -> bytes:
    """Return the NULL text as bytes; one that the encoding lacks stands in no field."""
    try:
        return form.null.encode(form.encoding)
    except UnicodeEncodeError:
        return b""


def split_quoted(line: bytes, delimiter: bytes, quote: bytes) -> list[bytes]:
    """Return the fields of a line, those before the first quote that is out of place; in time linear in the line."""
    fields, at = list[bytes](), 0
    while True:
        if line.startswith(quote, at):
            end = _closing(line, at + 1, quote)
            if end is None or not (end + 1 == len(line) or line.startswith(delimiter, end + 1)):
                return fields
            fields.append(line[at + 1 : end].replace(quote * 2, quote))
            at = end + 1
        else:
            end = line.find(delimiter, at)
            bare = line[at:] if end < 0 else line[at:end]
            if quote in bare:
                return fields
            fields.append(bare)
            at += len(bare)
        if at == len(line):
            return fields
        at += 1


def _closing(line: bytes, at: int, quote: bytes) -> int | None:
    """Return where the quoted field ends whose text begins here."""
    while (at := line.find(quote, at)) >= 0:
        if not line.startswith(quote, at + 1):
            return at
        at += 2
    return None


def _field(parts: list[bytes], place: int, null: bytes) -> bytes | None:
    """Return a field; None if it is missing, empty or the NULL text."""
    if place >= len(parts):
        return None
    field = parts[place]
    return None if not field or field == null else field
