"""The public options that say how a CSV file is written; nothing about a file is guessed from its rows.

The rules, each a function of one physical line (so that no line can swallow, shift or drop another):

- A record is one physical line, ended by LF or CRLF (the last line may lack it). A carriage return elsewhere
  is ordinary text.
- A line is dropped if it is empty, holds a NUL byte, is not valid in the declared encoding, is longer than 1
  MiB (1048576 bytes without its end), or holds a quote that does not open, close or (doubled) belong to a
  quoted field.
- A field is bare text without quotes, or quoted from its first to its last character; inside, a delimiter is
  text and a doubled quote is one quote. A quoted field cannot hold a line end: its two halves are two lines
  with an unbalanced quote, both dropped.
- Fields are matched to the header by position. Missing fields are NULL, extra fields are ignored. Spaces
  belong to the field.
- The empty field and a field equal to the NULL text are NULL, quoted or not. Every other field is text as it
  stands.
- In UTF-8 a byte order mark that begins a line is no part of it, in any line.
- Every file has the same header line; it is not a record.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from sordino.constraints import TRUTH, is_unicode, one_of, shown
from sordino.errors import InvalidParameter

Encoding = Literal["utf-8", "latin-1"]


@final
@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """The public options of a CSV source.

    Parameters
    ----------
    delimiter : str
        One ASCII character between fields, other than the quote, CR, LF and NUL.
    quote : str
        One ASCII character around quoted fields, or the empty text if the file has no quoted fields.
    header : bool
        True: the first line of every file names the columns. False: every line is a record and `columns`
        names them.
    columns : tuple of str
        Names of the columns of a file without a header.
    encoding : {"utf-8", "latin-1"}
        How the bytes are read. Other encodings must be converted first.
    null : str
        A field equal to this text is NULL, as the empty field always is.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> from sordino.data import CsvFormat
    >>> CsvFormat(delimiter=";", null="NA").delimiter
    ';'
    """

    delimiter: str = ","
    quote: str = '"'
    header: bool = True
    columns: tuple[str, ...] = ()
    encoding: Encoding = "utf-8"
    null: str = ""

    def __post_init__(self) -> None:
        name = "CsvFormat."
        # Fields are found in bytes, one byte at a time, so a delimiter must be one byte.
        if not _is_one_usable_character(self.delimiter):
            raise InvalidParameter(
                f"{name}delimiter must be one ASCII character other "
                f"than CR, LF and NUL; got {shown(self.delimiter)}."
            )
        if self.quote != "" and (not _is_one_usable_character(self.quote) or self.quote == self.delimiter):
            raise InvalidParameter(
                f"{name}quote must be one ASCII character other than CR, LF, NUL and the delimiter, "
                f"or the empty text; got {shown(self.quote)}."
            )
        TRUTH(name + "header", self.header)
        one_of("utf-8", "latin-1")(name + "encoding", self.encoding)
        if not is_unicode(self.null):
            raise InvalidParameter(f"{name}null must be a text; got {shown(self.null)}.")
        # Names come from one place: the header line of the file, or this tuple.
        if self.header == bool(self.columns):
            raise InvalidParameter(
                f"{name}columns must be given exactly when header "
                f"is False; got {shown(len(self.columns))} names."
            )
        # By the exact types: a subclass of `str` could say another text each time it is asked.
        if {type(self.columns), *map(type, self.columns)} - {tuple, str}:
            raise InvalidParameter(f"{name}columns must be a tuple of texts; got {shown(self.columns)}.")


def _is_one_usable_character(value: object) -> bool:
    # CR and LF end lines, and a line with NUL is dropped: none of them can stand between fields.
    return isinstance(value, str) and len(value) == 1 and value.isascii() and value not in "\r\n\0"
