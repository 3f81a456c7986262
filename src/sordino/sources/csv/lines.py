"""Reads the bytes of CSV files as blocks of lines, and drops lines that cannot be read.

One rule, `kept`, decides about each line by itself. The result is the union over lines of what that
rule keeps, and nothing else. A block is cut at LF bytes, so no line can reach another.

An engine's CSV reader was tried for this. With quotes on it breaks the law of this package: one
open quote swallows other lines. With one text column a line and errors ignored, DuckDB 2.0 leaves
other lines alone, but a line with a CR in it is two rows there, and which lines it drops is
promised by nobody.

Tests on a whole block only save time. Where they pass, the rule keeps every line of the block;
where one fails, the rule is asked line by line.

Reads quotes in one line, as bytes: the fields of a private text, and what a public field says.

Time and memory are linear in what is read.

The public options that say how a CSV file is written; nothing about a file is guessed from its
rows.

The rules, each a function of one physical line (so that no line can swallow, shift or drop
another):

- A record is one physical line, ended by LF or CRLF (the last line may lack it). A carriage return
  elsewhere is ordinary text, but for the header line, where it is refused (`header`).
- A line is dropped if it is empty, holds a NUL byte, is longer than 1 MiB (1048576 bytes without
  its end), or holds a quote that does not open, close or (doubled) belong to a quoted field.
- It is dropped, too, if it has another number of fields than there are columns (`reader`). One more
  is allowed if it is empty, and holds no quotes: many programs end each line with a delimiter. How
  many columns there are is public, so this is a function of one line as well.
- A field that is not valid in the declared encoding is NULL.
- UTF-16 is written in UTF-8 first, line by line (`encodings`).
- A field is bare text without quotes, or quoted from its first to its last character; inside, a
  delimiter is text and a doubled quote is one quote. A quoted field cannot hold a line end. A
  record whose text has line breaks is several lines: the first and the last one have an unbalanced
  quote and are dropped, and those between are dropped unless they have as many fields as there are
  columns. Who can be somebody else by such a line can be so by any line that he writes.
- Fields are matched to the header by position. Spaces belong to the field.
- Where lines may be ragged (`ragged`), the number of fields drops none: missing fields are NULL,
  and extra ones are ignored. Then the lines between are rows.
- The empty field and a field equal to a NULL text are NULL, quoted or not. Every other field is
  text as it stands.
- In UTF-8 and UTF-16 a byte order mark that begins a line is no part of it, in any line.
- The first lines of every file may be skipped, as many as is declared, whatever they hold. Then
  comes the header line, which names the same columns in every file and is no record, unless none is
  declared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, final, get_args

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import TRUTH, WHOLE, is_unicode, one_of, shown
from sordino.errors import InvalidParameter
from sordino.sources.csv.column_types import (
    PLAIN_DATE,
    ColumnType,
    FileKind,
    Marks,
    check_date_format,
    check_marks,
    column_type,
)
from sordino.sources.csv.encodings import Encoding, LineEncoding, line_encoding, open_lines
from sordino.sources.csv.packed import ByteFile

# ---- csv format ----------------------------------------------------------------------------------


@final
@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """The public options of a CSV source, of JSON lines, or of a sheet of Excel.

    JSON lines have the columns that `types` declares, and take `null` and `date_format` besides. A
    sheet takes these three alone, too. `format_in` is for files of all kinds.

    Parameters
    ----------
    delimiter : str
        One ASCII character between fields, other than the quote, CR, LF and NUL.
    quote : str
        One ASCII character around quoted fields, or the empty text if the file has no quoted
        fields.
    header : bool
        True: the first line of every file names the columns. False: every line is a record and
        `columns` names them.
    columns : tuple of str
        Names of the columns of a file without a header.
    skip_lines : int
        How many lines at the beginning of every file are passed over, whatever they hold.
    ragged : bool
        False: a line with another number of fields than there are columns is dropped; one delimiter
        more at its end is allowed. True: missing fields are NULL, and extra ones are ignored.
    encoding : {"utf-8", "latin-1", "cp1252", "utf-16", "utf-16-le", "utf-16-be"}
        How the bytes are read. A file in utf-16 must begin with a byte order mark and have a header
        line. Other encodings must be converted first.
    null : str, or list or tuple of str
        A field equal to this text, or to one of them, is NULL, as the empty field always is.
    types : mapping of str to str
        Declared types of columns: integer (64 bits), decimal(p,s), double, date, timestamp, boolean
        or text. A field that is no value of its type is missing. Other columns are texts; JSON
        lines have no others.
    decimal : {".", ","}
        The mark before the digits after the point, in columns of numbers.
    thousands : str
        What stands between groups of three digits there; the empty text where digits are not
        grouped.
    date_format : str
        How dates are written, made of %Y, %m and %d.
    format_in : {"csv", "jsonl", "parquet"}, optional
        What files are whose names do not tell it, such as adult.data.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.sources import CsvFormat
    >>> CsvFormat(delimiter=";", null="NA").delimiter
    ';'

    A file with lines such as ``Anna;1.234,50;31.12.2024``:

    >>> form = CsvFormat(
    ...     delimiter=";",
    ...     types={"amount": "decimal(12,2)", "day": "date"},
    ...     decimal=",",
    ...     thousands=".",
    ...     date_format="%d.%m.%Y",
    ... )
    >>> form.types["amount"]
    'decimal(12,2)'

    The columns of JSON lines such as ``{"user": "u1", "amount": 12.5}``:

    >>> CsvFormat(types={"user": "text", "amount": "double"}).types["user"]
    'text'
    """

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    columns: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: bool = False
    encoding: Encoding = "utf-8"
    null: str | Sequence[str] = ""
    types: Mapping[str, str] = field(default_factory=dict, hash=False)
    decimal: str = "."
    thousands: str = ""
    date_format: str = PLAIN_DATE
    format_in: FileKind | None = None

    def __post_init__(self) -> None:
        name = "CsvFormat."
        # Fields are found in bytes, one byte at a time, so a delimiter must be one byte.
        if not _is_one_usable_character(self.delimiter):
            raise InvalidParameter(
                f"{name}delimiter must be one ASCII character other than CR, LF and NUL; got "
                f"{shown(self.delimiter)}."
            )
        if self.quote != "" and (
            not _is_one_usable_character(self.quote) or self.quote == self.delimiter
        ):
            raise InvalidParameter(
                f"{name}quote must be one ASCII character other than CR, LF, NUL and the "
                f"delimiter, or the empty text; got {shown(self.quote)}."
            )
        if self.format_in is not None:
            one_of(*get_args(FileKind))(name + "format_in", self.format_in)
        TRUTH(name + "header", self.header)
        TRUTH(name + "ragged", self.ragged)
        object.__setattr__(self, "skip_lines", WHOLE(name + "skip_lines", self.skip_lines))
        one_of(*get_args(Encoding))(name + "encoding", self.encoding)
        # The first bytes of a file without a header are those of a row.
        if self.encoding == "utf-16" and not self.header:
            raise InvalidParameter(
                f"{name}encoding must be utf-16-le or utf-16-be for a file without a header line, "
                "where a byte order mark would be part of a private line; got 'utf-16'."
            )
        nulls = null_texts(self)
        if not all(map(is_unicode, nulls)) or len(set(nulls)) < len(nulls):
            raise InvalidParameter(
                f"{name}null must be a text, or a list of different texts; got {shown(self.null)}."
            )
        # One form for each meaning: what is kept of two releases is compared.
        object.__setattr__(self, "null", nulls if len(nulls) > 1 else "".join(nulls))
        # Names come from one place: the header line of the file, or this tuple.
        if self.header == bool(self.columns):
            raise InvalidParameter(
                f"{name}columns must be given exactly when header is False; got "
                f"{shown(len(self.columns))} names."
            )
        # By the exact types: a subclass of `str` could say another text each time it is asked.
        if {type(self.columns), *map(type, self.columns)} - {tuple, str}:
            raise InvalidParameter(
                f"{name}columns must be a tuple of texts; got {shown(self.columns)}."
            )
        twice = sorted({column for column in self.columns if self.columns.count(column) > 1})
        if twice:
            raise InvalidParameter(
                f"{name}columns must be different names; got {shown(twice[0])} more than once. "
                "Name each column once."
            )
        types: object = self.types
        if not isinstance(types, Mapping) or {type(column) for column in types} - {str}:
            raise InvalidParameter(
                f"{name}types must be a mapping from columns to types, such as "
                f'{{"age": "integer"}}; got {shown(self.types)}.'
            )
        # A read-only copy: what was checked must not change afterwards.
        object.__setattr__(self, "types", MappingProxyType(dict(self.types)))
        check_marks(name, marks_of(self), delimiter=self.delimiter, quote=self.quote)
        try:
            self.thousands.encode(line_encoding(self.encoding))
        except UnicodeEncodeError:
            raise InvalidParameter(
                f"{name}thousands must be a character of the encoding; got "
                f"{shown(self.thousands)}, which {self.encoding} lacks."
            ) from None
        check_date_format(name + "date_format", self.date_format)
        kinds = {kind.engine for kind in declared_types(self).values()}
        if self.date_format != PLAIN_DATE and not kinds & {"DATE", "TIMESTAMP"}:
            raise InvalidParameter(
                f"{name}date_format must go with a column of type date or timestamp in "
                f"{name}types; got {shown(self.date_format)} and no such column."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled: a copy is made anew, from the parameters.
        return partial(CsvFormat, **(vars(self) | {"types": dict(self.types)})), ()


def declared_types(form: CsvFormat) -> dict[str, ColumnType]:
    """Return the types that are declared, by the names of columns."""
    return {
        column: column_type(f"CsvFormat.types[{column!r}]", kind)
        for column, kind in form.types.items()
    }


def null_texts(form: CsvFormat) -> tuple[str, ...]:
    """Return the texts that are NULL, beside the empty one."""
    given = form.null if isinstance(form.null, tuple | list) else (form.null,)
    return tuple(text for text in given if text != "")


def marks_of(form: CsvFormat) -> Marks:
    """Return the marks in numbers."""
    return Marks(form.decimal, form.thousands)


def refuse_declarations(form: CsvFormat, what: str) -> None:
    """Refuse types and marks for a reader that has rules of its own for its numbers.

    Raises
    ------
    InvalidParameter
        If something was declared.
    """
    if form.types or marks_of(form) != Marks():
        raise InvalidParameter(
            f"CsvFormat.types, decimal and thousands must not be given for {what}; got "
            f"{shown(', '.join(form.types) or form.decimal + form.thousands)}. Leave them out."
        )


def refuse_text_options(form: CsvFormat, what: str) -> None:
    """Refuse what says how a CSV file is written, for a format that has rules of its own for that.

    Types, the NULL texts and the date format are about values, and hold there as well.

    Raises
    ------
    InvalidParameter
        If such an option was given.
    """
    plain = CsvFormat()
    for name in (
        *("delimiter", "quote", "header", "skip_lines", "ragged"),
        *("encoding", "decimal", "thousands"),
    ):
        given = getattr(form, name)
        if given != getattr(plain, name):
            raise InvalidParameter(
                f"CsvFormat.{name} must be left out for {what}; got {shown(given)}."
            )


def _is_one_usable_character(value: object) -> bool:
    # CR and LF end lines, and a line with NUL is dropped: none of them can stand between fields.
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n\0"


# ---- quoted --------------------------------------------------------------------------------------


def public_text(field: bytes, quote: bytes) -> bytes | None:
    """Return what a public field says.

    None if it holds a quote and is not one quoted text from its first to its last byte.
    """
    # Without quotes the field is bare text, which says what it is.
    if not quote or quote not in field:
        return field
    # What stands between the first and the last byte, which must be the two quotes around it.
    text = field[1:-1]
    # A single quote inside, that is one which is not doubled, would close the text before its last
    # byte.
    if (
        len(field) < 2
        or not (field.startswith(quote) and field.endswith(quote))
        or quote in text.replace(quote * 2, b"")
    ):
        return None
    return text.replace(quote * 2, quote)


def quoted_fields(line: bytes, delimiter: bytes, quote: bytes) -> Iterator[bytes | None]:
    """Yield the fields of a line from the left.

    The first field in which a quote is out of place is None, and ends the list.
    """
    for span in field_spans(line, delimiter, quote):
        if span is None:
            yield None
            return
        start, end = span
        if quote and line.startswith(quote, start):
            # The quotes around the field go, and each doubled quote inside is one quote of the
            # text.
            yield line[start + 1 : end - 1].replace(quote * 2, quote)
        else:
            yield line[start:end]


def field_spans(line: bytes, delimiter: bytes, quote: bytes) -> Iterator[tuple[int, int] | None]:
    """Yield where the fields of a line begin and end, from the left, with the quotes around them.

    The first field in which a quote is out of place is None, and ends the list.
    """
    at = 0
    while True:
        if quote and line.startswith(quote, at):
            close = _find_closing_quote(line, at + 1, quote)
            # Never closed, or something other than a delimiter stands behind the closing quote.
            if close is None or not (
                close + 1 == len(line) or line.startswith(delimiter, close + 1)
            ):
                yield None
                return
            end = close + 1
        else:
            # A bare field ends at the next delimiter: there are no quotes in which one could be
            # text.
            end = line.find(delimiter, at)
            end = len(line) if end < 0 else end
            # A quote in the middle of bare text opens nothing. Where the fields behind it begin is
            # unclear.
            if quote and line.find(quote, at, end) >= 0:
                yield None
                return
        yield at, end
        # At the end of the line, or at a delimiter: then one more field follows, which may be
        # empty.
        if end == len(line):
            return
        at = end + 1


def _find_closing_quote(line: bytes, at: int, quote: bytes) -> int | None:
    """Return the place of the quote that closes the field whose text begins at `at`, or None."""
    while (at := line.find(quote, at)) >= 0:
        # A doubled quote is one quote of the text, and closes nothing.
        if not line.startswith(quote, at + 1):
            return at
        at += 2
    return None


def say_dropped(form: CsvFormat) -> str:
    """Return which lines of CSV are dropped, for people."""
    held = ["a NUL byte"]
    if form.quote:
        held.append("a quote out of place (quotes that are text: --quote none)")
    if not form.ragged:
        held.append("too few or too many fields (text with line breaks: use Parquet)")
    listed = ", ".join(held[:-1]) + " or " if held[1:] else ""
    return f"lines that are empty, longer than 1 MiB, or hold {listed}{held[-1]}"


LONGEST = 1 << 20
"""A line of more bytes than this, without its end, is dropped."""

BLOCK = 1 << 21
"""Bytes read at once: enough for the engine to work in parallel, little enough to stay in cache."""

_LOOKED_AT_ONCE = 1 << 9
"""Fields of a line of more bytes than this are looked at together; of a shorter one that is
slower."""

MARK = b"\xef\xbb\xbf"
"""A byte order mark in UTF-8. One that begins a line of a table is no part of it, wherever the line
stands.

If that held for the first line alone, a row put before that line would change what it says.
"""
# A mark, and the CR of a line end, are no part of a line: they do not count against its length.
_LONGEST_WITH_MARK_AND_CR = LONGEST + len(MARK) + 1


class TextBatch(NamedTuple):
    """Some rows, each of one text or several.

    Text i is `data[offsets[i]:offsets[i + 1]]`, in UTF-8.

    The texts of the first row come first. `numbers` is one whole number for each row, where these
    are wanted.
    """

    size: int
    offsets: NDArray[np.int32]
    data: bytes
    numbers: NDArray[np.int32] | None = None


Repair = Callable[[bytes, CsvFormat], bytes | None]
"""From a line that is not in the encoding to what is read in its place; None: nothing."""


def kept(line: bytes) -> bool:
    """Tell whether one line, without its end, is kept."""
    # All tests look at this line alone, so no line can keep or drop another one.
    return 0 < len(line) <= LONGEST and b"\0" not in line


def first_line(file: ByteFile, encoding: LineEncoding, skip: int = 0) -> bytes:
    """Read the header line, behind skipped lines, without its end and without a byte order mark.

    A line that is too long comes back cut, to be refused, and one with a CR in it perhaps, too.
    """
    skip_lines(file, skip)
    # A few bytes more than allowed: a line that was cut is
    # still longer than `LONGEST` without its mark and its end.
    line = file.readline(LONGEST + 8)
    if encoding == "utf-8":
        line = line.removeprefix(MARK)
    # A CR is a part of the end of a line only before an LF. Where none comes, what follows on a CR
    # are rows: with or without them the line has a CR in it.
    return line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line


def skip_lines(file: ByteFile, count: int) -> None:
    """Pass over so many lines, each ended by LF, whatever they hold."""
    while count and (piece := file.readline(BLOCK)):
        count -= piece.endswith(b"\n")


def shortened_blocks(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """Yield pieces of whole lines, each line ended by LF.

    Of very long lines the middle is left out.

    This happens to lines that are longer than four times `_LONGEST_WITH_MARK_AND_CR`. Of what is
    left, the first two thirds and the last third are as they were. So there are more than `LONGEST`
    bytes on either side, and more than `LONGEST` between those. Whoever looks no farther sees no
    difference.

    Parameters
    ----------
    read : callable
        Returns at most so many bytes, and none at the end.
    size : int
        Bytes asked for at once.
    """
    rest = bytearray()
    while fresh := read(size):
        cut = fresh.rfind(b"\n") + 1
        if cut:
            yield bytes(rest) + fresh[:cut] if rest else fresh[:cut]
            rest.clear()
        rest += fresh[cut:]
        # The middle goes as soon as it comes, so that memory is bounded however long a line is.
        if len(rest) > 4 * _LONGEST_WITH_MARK_AND_CR:
            del rest[2 * _LONGEST_WITH_MARK_AND_CR : -_LONGEST_WITH_MARK_AND_CR]
    if rest:
        yield bytes(rest) + b"\n"


def shortened_lines(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    """Yield the lines of `shortened_blocks` one by one, without LF."""
    for block in shortened_blocks(read, size):
        yield from block.split(b"\n")[:-1]


def kept_blocks(
    paths: Sequence[Path],
    form: CsvFormat,
    header: bytes | None,
    read: Callable[[int], None],
    repair: Repair | None = None,
) -> Iterator[bytes]:
    """Yield the kept lines of all files in blocks: whole lines in UTF-8, each ended by LF.

    Parameters
    ----------
    paths : sequence of Path
        The files, in any order.
    form : CsvFormat
        How all files are written.
    header : bytes or None
        The first line of every file as it was when the source was opened; None if files have no
        header.
    read : callable
        Called with the number of bytes of each block read.
    repair : callable, optional
        What becomes of a line that is not in the encoding; unless said, `empty_unreadable_fields`.
    """
    repair = repair or empty_unreadable_fields
    written = line_encoding(form.encoding)
    for path in paths:
        with open_lines(path, form.encoding) as file:
            # Fields are matched to columns by their places: another header would give them other
            # names.
            if header is None:
                skip_lines(file, form.skip_lines)
            elif first_line(file, written, form.skip_lines) != header:
                raise OSError("the header changed after the source was opened")
            for block in _read_whole_lines(file, read):
                lines = _drop_unreadable_lines(
                    without_marks(block) if written == "utf-8" else block, form, repair
                )
                if lines:
                    yield lines


def without_marks(block: bytes) -> bytes:
    """Return whole lines without the byte order mark that may begin each of them."""
    if MARK not in block:
        return block
    # The block begins a line, and each LF in it ends one: these are all places where a line can
    # begin.
    return block.removeprefix(MARK).replace(b"\n" + MARK, b"\n")


def _read_whole_lines(file: ByteFile, read: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the bytes of a file in pieces of whole lines, each line ended by LF alone.

    Lines that are far too long are left out.
    """
    rest, skipping, before = b"", False, file.tell()
    while fresh := file.read(BLOCK):
        read(file.tell() - before)
        before = file.tell()
        # In the middle of a line that is already known to be too long: all of it is dropped, up to
        # its end.
        if skipping:
            end = fresh.find(b"\n")
            if end < 0:
                continue
            fresh, skipping = fresh[end + 1 :], False
        cut = fresh.rfind(b"\n") + 1
        if cut:
            # Cut behind the last LF, so that no line is split between two blocks.
            yield _end_lines_by_lf(rest + fresh[:cut])
            rest = fresh[cut:]
        else:
            rest += fresh
        # A mark, and the CR of a line end, are no part of a line: they do not count against its
        # length.
        if len(rest) > LONGEST + len(MARK) + 1:
            rest, skipping = b"", True
    if rest:
        yield _end_lines_by_lf(rest + b"\n")


def _end_lines_by_lf(block: bytes) -> bytes:
    return block.replace(b"\r\n", b"\n") if b"\r" in block else block


def _drop_unreadable_lines(block: bytes, form: CsvFormat, repair: Repair) -> bytes:
    """Return the kept lines of a block of whole lines, in UTF-8."""
    encoding = line_encoding(form.encoding)
    if not _keeps_every_line(block, encoding):
        lines = (
            line if can_decode(line, encoding) else repair(line, form)
            for line in block.split(b"\n")[:-1]
            if kept(line)
        )
        block = b"".join(line + b"\n" for line in lines if line is not None)
    # The engine reads UTF-8. The length of a line was checked before, in the bytes of the file.
    if encoding != "utf-8" and not block.isascii():
        block = block.decode(encoding).encode("utf-8")
    return block


def empty_unreadable_fields(line: bytes, form: CsvFormat) -> bytes | None:
    """Return a line in which every field that is not in the encoding is empty.

    None if quotes are out of place: then it is unclear what its fields are, and the line is
    dropped.
    """
    encoding = line_encoding(form.encoding)
    # Delimiter and quote are ASCII, and no byte of another character is one of them. So fields are
    # found in bytes, and a line can be decoded exactly if each of its fields can.
    delimiter = form.delimiter.encode()
    # A line may have half a million fields: then they are looked at together.
    if len(line) > _LOOKED_AT_ONCE:
        return _empty_fields_at_once(line, form, encoding)
    fields = []
    for span in field_spans(line, delimiter, form.quote.encode()):
        if span is None:
            return None
        field = line[slice(*span)]
        fields.append(field if can_decode(field, encoding) else b"")
    return delimiter.join(fields)


def _empty_fields_at_once(line: bytes, form: CsvFormat, encoding: LineEncoding) -> bytes | None:
    """Do what `empty_unreadable_fields` does, with a few operations on all characters together."""
    # What is not in the encoding becomes halves of surrogate pairs, which no text in an encoding
    # has.
    text = line.decode(encoding, "surrogateescape")
    marks = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    unreadable, ends = (marks >= 0xDC80) & (marks <= 0xDCFF), marks == ord(form.delimiter)
    if form.quote:
        quotes = np.flatnonzero(marks == ord(form.quote))
        if not _are_in_place(quotes, ends):
            return None
        # Behind an odd number of quotes a delimiter is text.
        ends &= np.cumsum(marks == ord(form.quote)) % 2 == 0
    fields = np.cumsum(ends) - ends
    spoiled = np.zeros(fields[-1] + 1, dtype=bool)
    spoiled[fields[unreadable]] = True
    left: bytes = marks[ends | ~spoiled[fields]].tobytes()
    return left.decode("utf-32-le").encode(encoding)


def _are_in_place(quotes: NDArray[np.intp], ends: NDArray[np.bool_]) -> bool:
    """Tell whether each quote begins a field, ends it, or is one of two that stand for one in it.

    Parameters
    ----------
    quotes : array of int
        Their places in a line.
    ends : array of bool
        Whether each character of the line is a delimiter.
    """
    if quotes.size % 2:
        return False
    # Every other quote opens, or is the second one of two; the others close, or are the first one
    # of two.
    openers, closers = quotes[::2], quotes[1::2]
    doubled = closers[:-1] + 1 == openers[1:]
    begins = (openers == 0) | ends[openers - 1]
    stops = (closers == ends.size - 1) | ends[np.minimum(closers + 1, ends.size - 1)]
    return bool(
        (begins | np.append(False, doubled)).all() and (stops | np.append(doubled, False)).all()
    )


def _keeps_every_line(block: bytes, encoding: LineEncoding) -> bool:
    """Tell whether every line of the block is kept as it is, without looking at each."""
    ends = np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 10)
    # Lengths include the LF, so an empty line has length 1.
    lengths = np.diff(ends, prepend=-1)
    return (
        bool(lengths.min() > 1 and lengths.max() <= LONGEST + 1)
        and b"\0" not in block
        and can_decode(block, encoding)
    )


def can_decode(data: bytes, encoding: LineEncoding) -> bool:
    """Tell whether bytes are text in an encoding."""
    # LF is never part of another character, so whole lines decode exactly when each of them does.
    if encoding == "latin-1" or data.isascii():
        return True
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
