"""Scores that somebody computed: every line of a CSV file is a candidate. How lines are split, and all columns but one, are public.

Columns before the score are counted from the left and columns after it from the right, so that nothing in a score moves a label to
another place. What stands between is the score: a decimal number, quoted or not; whatever else it is counts as the lowest value, in
silence. A line with another number of fields than the header is refused by its number. Empty lines are skipped, unless the score is the
only column: then an empty line is a candidate without a score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import shown, text
from sordino.data._answer_lines import check_delimiter, number
from sordino.data._csv import open_csv
from sordino.data._csv_format import CsvFormat
from sordino.data._lines import first_line
from sordino.errors import DataSourceError, InvalidParameter


@final
@dataclass(frozen=True)
class Scores:
    """Private scores with the public labels of their candidates."""

    values: NDArray[np.float64] = field(repr=False)
    labels: tuple[str, ...] | None = field(repr=False)


@final
@dataclass(frozen=True)
class ScoreFile:
    """A file of candidates whose header was read; `open_scores` makes it."""

    path: Path
    columns: tuple[str, ...]
    score: int
    label: int | None
    format: CsvFormat
    header: bytes

    def read(self) -> Scores:
        """Read the rows. Call it after the charge.

        Raises
        ------
        DataSourceError
            If a line breaks a rule about public things, or there is no candidate.
        """
        values: list[float] = []
        labels: list[str] = []
        for place, fields, score in self._lines():
            values.append(number(score))
            if self.label is not None:
                labels.append(self._text(fields[self.label - (self.label > self.score)], place))
        if not values:
            raise DataSourceError(f"A file of scores must have one candidate or more; {self.path} has none.")
        return Scores(np.array(values, dtype=np.float64), tuple(labels) if self.label is not None else None)

    def _lines(self) -> Iterator[tuple[int, list[bytes], bytes]]:
        """Yield the number of each line, its other fields and its score."""
        delimiter, quote = (re.escape(part.encode()) for part in (self.format.delimiter, self.format.quote or "\0"))
        one = rb"(?:%b(?:[^%b]|%b%b)*%b|[^%b%b]*)" % (quote, quote, quote, quote, quote, delimiter, quote)
        alone, each = re.compile(one, re.DOTALL), re.compile(rb"(%b)%b" % (one, delimiter), re.DOTALL)
        after = len(self.columns) - 1 - self.score
        left, right = (re.compile(rb"(?:%b%b){%d}" % (one, delimiter, count), re.DOTALL) for count in (self.score, after))
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
                score = line[head.end() : len(line) - tail.end()]
                if self.format.delimiter.encode() in score and alone.fullmatch(score) is None:
                    raise self._refused(place)
                behind = [part[::-1] for part in each.findall(tail.group())]
                yield place, [*each.findall(head.group()), *reversed(behind)], score

    def _text(self, raw: bytes, place: int) -> str:
        quote = self.format.quote.encode()
        if quote and raw.startswith(quote):
            raw = raw[1:-1].replace(quote * 2, quote)
        try:
            return raw.decode(self.format.encoding)
        except UnicodeDecodeError:
            raise DataSourceError(f"Line {place} of {self.path} must have a label in {self.format.encoding}.") from None

    def _refused(self, place: int) -> DataSourceError:
        return DataSourceError(f"Line {place} of {self.path} must have {len(self.columns)} fields, as the header line has.")


def open_scores(path: Path, *, score: str, label: str | None = None, form: CsvFormat) -> ScoreFile:
    """Read the header line, and nothing else, of a CSV file of candidates.

    Raises
    ------
    DataSourceError
        If the file or its header cannot be read.
    InvalidParameter
        If there is no such column, both are one, or the delimiter could stand in a score.
    """
    check_delimiter(form.delimiter)
    if not path.is_file():
        raise DataSourceError(f"A file of scores must exist; got {shown(str(path))}.")
    reader, columns = open_csv([path], form)
    names = tuple(columns)
    for role, name in (("--score", score), ("--label", label)):
        if name is not None and text(name, role) not in names:
            raise InvalidParameter(f"{role} must be one of the columns {', '.join(map(repr, names))}; got {shown(name)}.")
    if score == label:
        raise InvalidParameter(f"--label must be another column than --score; got {shown(label)} for both.")
    return ScoreFile(path, names, names.index(score), None if label is None else names.index(label), form, reader.header or b"")
