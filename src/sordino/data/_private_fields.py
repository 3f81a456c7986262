"""Lines of a CSV file of which some neighbouring columns are private: how lines are split, and all other columns, are public.

Columns before the private ones are counted from the left and columns after them from the right, so that nothing in a private field
moves a label to another place. What stands between are the private fields. Empty lines are skipped, unless there is one column only: then
an empty line is a candidate about which nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import final

from sordino.constraints import shown, text
from sordino.data._answer_lines import check_delimiter
from sordino.data._csv import open_csv
from sordino.data._csv_format import CsvFormat
from sordino.data._lines import first_line
from sordino.errors import DataSourceError, InvalidParameter


@final
@dataclass(frozen=True)
class PrivateFields:
    """A file whose header was read: `count` private columns from column `first` on, and a column of labels or None."""

    path: Path
    columns: tuple[str, ...]
    first: int
    count: int
    label: int | None
    format: CsvFormat
    header: bytes

    def lines(self) -> Iterator[tuple[str | None, list[bytes]]]:
        """Yield the label of each line, and its private fields as they stand there. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things.
        """
        delimiter, quote = (re.escape(part.encode()) for part in (self.format.delimiter, self.format.quote or "\0"))
        one = rb"(?:%b(?:[^%b]|%b%b)*%b|[^%b%b]*)" % (quote, quote, quote, quote, quote, delimiter, quote)
        private = re.compile(delimiter.join([rb"(%b)" % one] * self.count), re.DOTALL)
        each = re.compile(rb"(%b)%b" % (one, delimiter), re.DOTALL)
        after = len(self.columns) - self.count - self.first
        left, right = (re.compile(rb"(?:%b%b){%d}" % (one, delimiter, count), re.DOTALL) for count in (self.first, after))
        with self.path.open("rb") as file:
            if first_line(file, self.format.encoding) != self.header:
                raise DataSourceError(f"The header line of {self.path} changed after it was read.")
            for place, raw in enumerate(file, start=2):
                line = raw.removesuffix(b"\n").removesuffix(b"\r")
                if not line and len(self.columns) > 1:
                    continue
                head, tail = left.match(line), right.match(line[::-1])  # a field reads the same from either end
                if head is None or tail is None or head.end() + tail.end() > len(line):
                    raise self._refused(place)
                fields = self._split(line[head.end() : len(line) - tail.end()], private)
                if fields is None:
                    raise self._refused(place)
                behind = [part[::-1] for part in each.findall(tail.group())]
                yield self._label([*each.findall(head.group()), *reversed(behind)], place), fields

    def _split(self, between: bytes, private: re.Pattern[bytes]) -> list[bytes] | None:
        """Return the private fields, None if there are more or fewer: quotes that do not balance are no quotes.

        Where delimiters and quotes are mixed so that no reading has as many fields, they are fields in which nothing stands.
        """
        fields = between.split(self.format.delimiter.encode())
        if len(fields) == self.count:
            return fields
        whole = private.fullmatch(between)
        if whole is not None:
            return list(whole.groups())
        quoted = self.format.quote and self.format.quote.encode() in between
        return [b""] * self.count if quoted and len(fields) > self.count else None

    def _label(self, fields: list[bytes], place: int) -> str | None:
        if self.label is None:
            return None
        raw, quote = fields[self.label - (self.count if self.label > self.first else 0)], self.format.quote.encode()
        if quote and raw.startswith(quote):
            raw = raw[1:-1].replace(quote * 2, quote)
        try:
            return raw.decode(self.format.encoding)
        except UnicodeDecodeError:
            raise DataSourceError(f"Line {place} of {self.path} must have a label in {self.format.encoding}.") from None

    def _refused(self, place: int) -> DataSourceError:
        return DataSourceError(f"Line {place} of {self.path} must have {len(self.columns)} fields, as the header line has.")


def open_private(path: Path, *, private: dict[str, str], label: tuple[str, str | None], form: CsvFormat) -> PrivateFields:
    """Read the header line, and nothing else, of a CSV file of candidates.

    Parameters
    ----------
    path : Path
        The file.
    private : dict
        From options to the columns that they name: neighbours, in any order.
    label : tuple
        The option for the column of labels, and that column or None.
    form : CsvFormat
        How the file is written.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, one is named twice, the private ones lie apart, or the delimiter could stand in a number.
    """
    check_delimiter(form.delimiter)
    if not path.is_file():
        raise DataSourceError(f"A file of scores must exist; got {shown(str(path))}.")
    reader, columns = open_csv([path], form)
    names = tuple(columns)
    for role, name in (*private.items(), label):
        if name is not None and text(name, role) not in names:
            raise InvalidParameter(f"{role} must be one of the columns {', '.join(map(repr, names))}; got {shown(name)}.")
    places = sorted(names.index(name) for name in private.values())
    roles = " and ".join(private)
    if label[1] in private.values():
        raise InvalidParameter(f"{label[0]} must be another column than {roles}; got {shown(label[1])} for both.")
    if places != list(range(places[0], places[0] + len(places))):
        raise InvalidParameter(
            f"{roles} must be two columns that stand side by side: otherwise what is wrong in one could move what stands between them. "
            f"Move columns, of {', '.join(map(repr, names))}."
        )
    where = None if label[1] is None else names.index(label[1])
    return PrivateFields(path, names, places[0], len(places), where, form, reader.header or b"")
