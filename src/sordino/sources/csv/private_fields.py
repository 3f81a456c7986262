"""Reads CSV files in which some neighboring columns are private, and all others are public.

Public is also where the private ones begin and end. The public fields before them end at the first,
second, ... delimiter of a line; those behind them begin at the last, second last, ... one. What
lies between is private, whatever delimiters and quotes stand in it, and decides its own numbers
only. So a public field holds no delimiter, not even in quotes. docs/decisions/0011 proves that
nothing public depends on private bytes, and that a rule that lets quoted labels hold delimiters has
no such proof. Empty lines are skipped, unless all columns are private: then an empty line is a
candidate about which nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import final

from sordino.constraints import shown, text
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.csv.answer_lines import check_delimiter
from sordino.sources.csv.encodings import Encoding, line_encoding, open_lines
from sordino.sources.csv.header import check_column
from sordino.sources.csv.lines import (
    BLOCK,
    LONGEST,
    CsvFormat,
    first_line,
    public_text,
    quoted_fields,
    refuse_declarations,
    shortened_lines,
)
from sordino.sources.csv.reader import open_csv


@final
@dataclass(frozen=True)
class PrivateFields:
    """A file whose header was read.

    It has `count` private columns from column `first` on; `label` is the place of the column of
    labels, or None.
    """

    path: Path
    columns: tuple[str, ...]
    first: int
    count: int
    label: int | None
    format: CsvFormat
    header: bytes

    def lines(self) -> Iterator[tuple[str | None, list[bytes]]]:
        """Yield the label of each line, and its private fields as they stand there.

        Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things.
        """
        for place, line in self._candidate_lines():
            # What is public is taken from the ends of the line alone (docs/decisions/0011).
            public, private = self._parts(line, place)
            yield self._label(public, place), self._fields(private)

    def check_lines(self) -> int:
        """Return how many lines there are, after a look at what is public about each.

        Before the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things.
        """
        count = 0
        for place, line in self._candidate_lines():
            self._label(self._parts(line, place)[0], place)
            count += 1
        return count

    def _candidate_lines(self) -> Iterator[tuple[int, bytes]]:
        # If all columns are private, an empty line is an empty private text. Skipping it would let
        # private bytes decide how many candidates there are.
        every_line = len(self.columns) == self.count
        return candidate_lines(
            self.path,
            self.header,
            self.format.encoding,
            self.format.skip_lines,
            every_line=every_line,
        )

    def _parts(self, line: bytes, place: int) -> tuple[list[bytes], bytes]:
        """Return the public fields of a line, and what lies between them."""
        delimiter, behind = (
            self.format.delimiter.encode(),
            len(self.columns) - self.count - self.first,
        )
        # From both ends, so that nothing in the private part can move a public field.
        *left, rest = line.split(delimiter, self.first)
        private, *right = rest.rsplit(delimiter, behind)
        longest = max(len(line) - len(rest), len(rest) - len(private))
        # One sentence for all three: a very long line is cut in
        # the middle, and the cut must not decide which is said.
        if len(left) < self.first or len(right) < behind or longest > LONGEST:
            raise DataSourceError(
                f"Line {place} of {self.path} must have {len(self.columns)} fields, as the header "
                f"line has, and public fields of at most {LONGEST} bytes on either side of the "
                "private ones."
            )
        return [*left, *right], private

    def _fields(self, private: bytes) -> list[bytes]:
        """Return the private fields.

        Empty ones if there are more or fewer of them, or more than 1 MiB.
        """
        delimiter, quote = self.format.delimiter.encode(), self.format.quote.encode()
        nothing = [b""] * self.count
        # A line may have been cut in its middle. Such a text is never read, so the cut decides
        # nothing.
        if len(private) > LONGEST:
            return nothing
        # A single private field needs no delimiter: whatever delimiters it holds, all of it is the
        # field.
        if self.count == 1:
            return [private]
        # Nothing here is refused: whether private bytes are well formed is private.
        plain = private.split(delimiter, self.count)
        if len(plain) == self.count:
            return plain
        # One field more than wanted is enough to see that there are too many of them.
        quoted = list(islice(quoted_fields(private, delimiter, quote), self.count + 1))
        known = [field for field in quoted if field is not None]
        return known if len(known) == len(quoted) == self.count else nothing

    def _label(self, public: list[bytes], place: int) -> str | None:
        """Return the label, after a look at the quotes of all public fields."""
        quote, wanted = self.format.quote.encode(), self.label
        if wanted is not None and wanted > self.first:
            # Its place among the public fields.
            wanted -= self.count
        label = None
        # All public fields are checked, also those that are not printed (docs/decisions/0011).
        for index, field in enumerate(public):
            said = public_text(field, quote)
            if said is None:
                raise DataSourceError(
                    f"Line {place} of {self.path} must have public fields that are bare, or quoted "
                    "as a whole, and hold no delimiter, not even in quotes; choose another "
                    "delimiter."
                )
            if index == wanted:
                label = said
        return (
            None if label is None else decode_label(label, self.format.encoding, self.path, place)
        )


def candidate_lines(
    path: Path, header: bytes, encoding: Encoding, skip: int = 0, *, every_line: bool
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines behind the header with their numbers; empty ones only if every line counts.

    So many lines are skipped before the header, and counted.

    Raises
    ------
    DataSourceError
        If the header line is another one by now, or the file cannot be read to its end.
    """
    try:
        with open_lines(path, encoding) as file:
            # The header is public and was read before the charge. So it may be said that it
            # changed.
            if first_line(file, line_encoding(encoding), skip) != header:
                raise DataSourceError(f"The header line of {path} changed after it was read.")
            # Lines count from 1. The number of a line depends on the LF bytes before it, which are
            # public.
            for place, ended in enumerate(shortened_lines(file.read, BLOCK), start=skip + 2):
                line = ended.removesuffix(b"\r")
                if line or every_line:
                    yield place, line
    # It is gone, or compressed and damaged. Where, is not said.
    except OSError:
        raise DataSourceError(f"{path} could not be read to its end.") from None


def decode_label(label: bytes, encoding: Encoding, path: Path, place: int) -> str:
    """Return the label of a line as text.

    Raises
    ------
    DataSourceError
        If it is none in this encoding.
    """
    try:
        return label.decode(line_encoding(encoding))
    except UnicodeDecodeError:
        raise DataSourceError(f"Line {place} of {path} must have a label in {encoding}.") from None


def open_private(
    path: Path, *, private: dict[str, str], label: tuple[str, str | None], form: CsvFormat
) -> PrivateFields:
    """Read the header line, and nothing else, of a CSV file of candidates.

    Parameters
    ----------
    path : Path
        The file.
    private : dict
        From options to the columns that they name; these stand side by side, in any order.
    label : tuple
        The option for the column of labels, and that column or None.
    form : CsvFormat
        How the file is written.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If the file has no header, there is no such column, one is named twice, the private ones lie
        apart, or the delimiter could stand in a number.
    """
    # All that is refused below is public: options, the path, and the header line.
    check_delimiter(form.delimiter)
    refuse_declarations(form, "a file of candidates, whose numbers have a rule of their own")
    if not form.header:
        raise InvalidParameter(
            "CsvFormat.header must be True for a file of candidates, whose header line says "
            "which columns are public; got False."
        )
    if not path.is_file():
        raise DataSourceError(f"A file of scores must exist; got {shown(str(path))}.")
    reader, _ = open_csv([path], form)
    names = reader.names
    for role, name in (*private.items(), label):
        if name is not None:
            check_column(text(name, role), role, names, form)
    places = sorted(names.index(name) for name in private.values())
    roles = " and ".join(private)
    # A label is printed as it stands, so it cannot be a private column.
    if label[1] in private.values():
        raise InvalidParameter(
            f"{label[0]} must be another column than {roles}; got {shown(label[1])} for both."
        )
    if places != list(range(places[0], places[0] + len(places))):
        raise InvalidParameter(
            f"{roles} must be two columns that stand side by side: otherwise what is wrong in one "
            f"could move what stands between them. Move columns, of {', '.join(map(repr, names))}."
        )
    where = None if label[1] is None else names.index(label[1])
    return PrivateFields(
        path, names, places[0], len(places), where, form, reader.rows.headers[0] or b""
    )
