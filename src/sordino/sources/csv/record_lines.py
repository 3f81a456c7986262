"""Reads lines of CSV as records of one number each.

There are as many records as lines, whatever the lines hold. So the number of records can be public.

The rules, each about one physical line, ended by LF or CRLF (the last line may lack its end, if it
is not empty):

- Every line after the header is one record, also an empty one. None is dropped, and none reaches
  another.
- In UTF-8 a byte order mark that begins a line is no part of it.
- The column of the unit, if there is one, is the first or the last. Its field ends at the first
  delimiter, or begins at the last one, whatever quotes say: so nothing else in a line changes whose
  it is. The rest of the line is private; without a unit all of the line is.
- The unit is bare text without quotes, or quoted as a whole. A record has no unit if that field is
  empty, is a NULL text, holds quotes otherwise or more than 1 MiB (1048576 bytes), or if its line
  has no delimiter.
- What is private is read as fields of bytes, quoted or bare; no quote decides where another line
  ends.
- A line with another number of fields than there are columns has no number, and neither has one in
  which a quote is out of place or that has more than 1 MiB of private bytes, so that what no
  session would take for a row says nothing here. One delimiter more at the end of a line is
  allowed, unless the unit stands there. Lines that may be ragged (`CsvFormat.ragged`) are read as
  far as they go: of what is private the first MiB, up to the first quote that is out of place; what
  is missing is no number.
- The number of a record is a decimal number in the declared marks, with or without blanks around
  it; one beyond the floats is infinite. Anything else in its field, a NULL text included, is no
  number: NaN.

Of each unit the first M records count, in the order of the file. Records without a unit do not
count. Records that do not count have no number. Where a unit's records stand is taken as public;
whether they hold a number decides nothing about it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.sources.csv.column_types import Marks, number_pattern
from sordino.sources.csv.encodings import line_encoding
from sordino.sources.csv.lines import (
    LONGEST,
    CsvFormat,
    declared_types,
    marks_of,
    null_texts,
    public_text,
    quoted_fields,
    shortened_blocks,
    without_marks,
)

BLOCK = 1 << 18
"""Bytes asked for at once; a reader of a pipe returns what is there."""

Values = NDArray[np.float64]


class Fields(NamedTuple):
    """Where the number and the unit of a record stand.

    `number` counts the private fields of a line. `unit` is the end of the line at which the unit
    stands, if there is one. `private` is how many private fields a line has; None: any number.
    """

    number: int
    unit: Literal["first", "last"] | None
    private: int | None = None


def fields_of(
    names: Sequence[str], number: str, unit: str | None, *, ragged: bool = False
) -> Fields:
    """Return where number and unit stand.

    Raises
    ------
    InvalidParameter
        If the column of the unit has others on both sides.
    """
    # The header is public, and so is where a column stands.
    place = names.index(number)
    if unit is None:
        return Fields(place, None, None if ragged else len(names))
    # Private fields only: the field of the unit is none of these.
    private = None if ragged else len(names) - 1
    if unit == names[0]:
        return Fields(place - 1, "first", private)
    if unit == names[-1]:
        return Fields(place, "last", private)
    raise InvalidParameter(
        "The person of CSV that is randomized must be its first or its last column, because a "
        f"delimiter or a quote in another column could move what stands between two; got {unit!r} "
        f"among {', '.join(map(repr, names))}. Move the column, or use Parquet."
    )


def check_record_types(form: CsvFormat, number: str, unit: str | None) -> None:
    """Refuse declared types under which a record would not be what stands in its line.

    Raises
    ------
    InvalidParameter
        If the number is declared to be anything but a double, or the unit anything but a text.
    """
    declared = {name: kind.engine for name, kind in declared_types(form).items()}
    for name, role, word, engine in (
        (number, "the column of numbers", "double", "DOUBLE"),
        (unit, "the person", "text", "VARCHAR"),
    ):
        if name is not None and declared.get(name, engine) != engine:
            raise InvalidParameter(
                f"{role} of CSV that is randomized must have the type {word}, or none, because "
                f"every line is read as it stands; got {name!r} of type {form.types[name]!r}. "
                "Leave the type out."
            )


@final
class UnitRows:
    """Lets the first `most` records of each unit count.

    It remembers, over all blocks, how many records of each unit have counted.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: dict[Hashable, int] = {}

    def kept(self, values: Values, units: Iterable[Hashable | None]) -> Values:
        """Return the numbers of one block of records, NaN for those that do not count."""
        seen, most = self._seen, self._most
        counting = np.empty(values.size, dtype=bool)
        for place, unit in enumerate(units):
            # A record without a unit never counts.
            before = most if unit is None else seen.get(unit, 0)
            # Whether the record holds a number plays no part: no private value may decide about
            # another.
            counting[place] = before < most
            if before < most:
                seen[unit] = before + 1
        # Records that do not count stay, without a number: how many records there are is public.
        return np.where(counting, values, np.nan)


def record_blocks(
    read: Callable[[int], bytes], form: CsvFormat, fields: Fields, rows: UnitRows | None
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
    """
    for block in shortened_blocks(read, BLOCK):
        lines = without_marks(block) if line_encoding(form.encoding) == "utf-8" else block
        # The quick way only saves time: it gives up on blocks that need the rules about quotes or
        # long lines.
        numbers, units = _read_unquoted_records(lines, form, fields) or _read_records_by_rule(
            lines, form, fields
        )
        yield numbers if rows is None else rows.kept(numbers, units)


def _read_unquoted_records(
    block: bytes, form: CsvFormat, fields: Fields
) -> tuple[Values, list[bytes | None]] | None:
    """Return what `_read_records_by_rule` returns.

    None for blocks in which a line has a quote or is too long.
    """
    if form.quote and form.quote.encode() in block:
        return None
    lines = (block.replace(b"\r\n", b"\n") if b"\r" in block else block).split(b"\n")[:-1]
    # By the rules only the first MiB of a line is read: lines that may have more go that way.
    if max(map(len, lines)) > LONGEST:
        return None
    delimiter, nulls = form.delimiter.encode(), _encode_null_texts(form)
    units: list[bytes | None] = []
    if fields.unit is not None:
        sides = [_split_off_unit(line, delimiter, fields.unit) for line in lines]
        units = [None if not unit or unit in nulls else unit for unit, _ in sides]
        lines = [private for _, private in sides]
    place, matches, plain = fields.number, _number_matcher(form), _number_writer(form)
    # Split no farther than the field that is wanted: a line may hold very many delimiters.
    split = [line.split(delimiter, place + 1) for line in lines]
    texts = [parts[place] if len(parts) > place else b"" for parts in split]
    if fields.private is not None:
        texts = [
            text if _has_all_fields(line, line.count(delimiter) + 1, delimiter, fields) else b""
            for text, line in zip(texts, lines, strict=True)
        ]
    return np.array(
        [float(plain(text)) if matches(text) and text not in nulls else math.nan for text in texts]
    ), units


def _read_records_by_rule(
    block: bytes, form: CsvFormat, fields: Fields
) -> tuple[Values, list[bytes | None]]:
    """Return number and unit of each line, by the rules, one after the other."""
    delimiter, quote, nulls = form.delimiter.encode(), form.quote.encode(), _encode_null_texts(form)
    numbers, units = list[float](), list[bytes | None]()
    matches, plain = _number_matcher(form), _number_writer(form)
    for line in block.split(b"\n")[:-1]:
        # LF and CRLF end lines alike, so a CR at the end is no part of the last field.
        private = line.removesuffix(b"\r")
        if fields.unit is not None:
            unit, private = _split_off_unit(private, delimiter, fields.unit)
            # The field of the unit alone decides whose record it is (docs/decisions/0011).
            name = public_text(unit, quote) if len(unit) <= LONGEST else None
            units.append(None if not name or name in nulls else name)
        field = _find_number(private, delimiter, quote, fields)
        known = field is not None and field not in nulls and matches(field)
        numbers.append(float(plain(field)) if field is not None and known else math.nan)
    return np.array(numbers), units


def _find_number(private: bytes, delimiter: bytes, quote: bytes, fields: Fields) -> bytes | None:
    """Return the field of the number.

    None if it is missing, or the line is none with all of its fields.
    """
    # Fields behind a misplaced quote are missing: the list ends there, with None.
    found = quoted_fields(private[:LONGEST], delimiter, quote)
    if fields.private is None:
        return next(islice(found, fields.number, None), None)
    # Two more than wanted are enough to see that there are too many.
    listed = list(islice(found, fields.private + 2))
    whole = len(private) <= LONGEST and None not in listed
    return (
        listed[fields.number]
        if whole and _has_all_fields(private, len(listed), delimiter, fields)
        else None
    )


def _has_all_fields(private: bytes, count: int, delimiter: bytes, fields: Fields) -> bool:
    """Tell whether what is private of a line has as many fields as there are columns."""
    # One delimiter more may stand at the end of the line, which is not here where the unit stands
    # behind.
    trailing = fields.unit != "last" and private.endswith(delimiter)
    return count == fields.private or (trailing and count - 1 == fields.private)


def _number_matcher(form: CsvFormat) -> Callable[[bytes], object]:
    """Return what tells whether a field is a number in the declared marks."""
    pattern = number_pattern(marks_of(form), None)
    return re.compile(pattern.encode(line_encoding(form.encoding))).fullmatch


def _number_writer(form: CsvFormat) -> Callable[[bytes], bytes]:
    """Return what writes such a number with a decimal point and without groups."""
    if marks_of(form) == Marks():
        # Nothing is changed: `bytes` of bytes are these bytes.
        return bytes
    decimal, thousands = form.decimal.encode(), form.thousands.encode(line_encoding(form.encoding))
    return lambda field: field.replace(thousands, b"").replace(decimal, b".")


def _split_off_unit(
    line: bytes, delimiter: bytes, unit: Literal["first", "last"]
) -> tuple[bytes, bytes]:
    """Return the field of the unit, and what is private; without a delimiter there is no unit."""
    if unit == "first":
        # From the left: the unit ends at the first delimiter, whatever stands behind it.
        field, found, private = line.partition(delimiter)
        return (field, private) if found else (b"", line)
    # From the right: delimiters in the private part cannot move where the unit begins.
    private, found, field = line.rpartition(delimiter)
    return (field, private) if found else (b"", line)


def _encode_null_texts(form: CsvFormat) -> frozenset[bytes]:
    """Return the NULL texts as bytes."""
    nulls = set[bytes]()
    for text in null_texts(form):
        # One that the encoding lacks stands in no field.
        with suppress(UnicodeEncodeError):
            nulls.add(text.encode(line_encoding(form.encoding)))
    return frozenset(nulls)
