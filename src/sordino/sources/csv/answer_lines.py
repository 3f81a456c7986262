"""Reads answers that somebody else computed, one on each line: "label,answer".

The label is public. Whatever stands behind its delimiter is private.

The rules, each about one line, ended by LF or CRLF (the last line may lack its end):

- An empty line is no question and is skipped. In every other line the label ends at the first
  delimiter, whatever quotes say.
- The label is bare text without quotes, or quoted as a whole, a doubled quote being one quote; it
  must be text in the declared encoding.
- The rest of the line is the answer: a decimal number, with or without blanks or quotes around it.
  Anything else counts as the lowest value, in silence. That includes a text with another delimiter
  and a number beyond the floats.
- A line that breaks a rule about its label, or has no delimiter, is refused by its number: these
  are public.
- An answer in a line with more than 1 MiB (1048576 bytes without its end) counts as the lowest
  value; it is skipped as it comes.
- A delimiter that could stand in a number, or in "nan", is refused: no answer could be read.

Suppose a label could hold its delimiter in quotes. Then it would end where its quote closes, and a
quote that is never closed would let the label end in the answer. So private bytes would decide what
is printed, and whether the line is refused (docs/decisions/0011).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sordino.constraints import shown
from sordino.errors import DataSourceError, InvalidParameter
from sordino.sources.csv.column_types import Marks, number_pattern
from sordino.sources.csv.encodings import Encoding, LineEncoding, check_stream_encoding
from sordino.sources.csv.lines import LONGEST, MARK, public_text

PIECE = 1 << 16
"""How many bytes are asked for at once; a reader returns what is there."""

NUMBER = re.compile(number_pattern(Marks(), None).encode())
"""A decimal number, with or without blanks around it."""


class Answer(NamedTuple):
    """One question: its public label, and its private answer, NaN if that is no number."""

    label: str
    value: float


def read_number(text: bytes) -> float:
    """Return the finite number that a private field holds, or NaN.

    Blanks and quotes around it do not matter.
    """
    if len(text) > 1 and text.startswith(b'"') and text.endswith(b'"'):
        text = text[1:-1]
    # The pattern comes first, because `float` also takes "inf", "nan" and digits with underscores.
    if NUMBER.fullmatch(text) is None:
        return math.nan
    value = float(text)
    return value if math.isfinite(value) else math.nan


def check_delimiter(delimiter: str) -> None:
    """Refuse a delimiter that could stand in a private number.

    What is a number would depend on it.
    """
    if delimiter.isalnum() or delimiter in "+-.":
        raise InvalidParameter(
            "delimiter must be no letter, digit, sign or point, which could stand in a number; "
            f"got {shown(delimiter)}."
        )


def answer_lines(
    read: Callable[[int], bytes], *, delimiter: str = ",", encoding: Encoding = "utf-8"
) -> Iterator[list[Answer]]:
    """Yield, for each piece that comes, the questions that it completes.

    Whoever answers them may do so before the next piece is read.

    Parameters
    ----------
    read : callable
        Returns at most so many bytes as soon as there are some, and none at the end.
    delimiter : str
        One ASCII character.
    encoding : {"utf-8", "latin-1", "cp1252"}
        Of the labels.

    Raises
    ------
    InvalidParameter
        At once, before anything is read, if the delimiter could stand in a number or the encoding
        is none of these.
    DataSourceError
        If a line breaks a rule about public things; after the questions before it were yielded.
    """
    # Not in the generator itself: the check has to run at once, before anything is read.
    check_delimiter(delimiter)
    return _read_answers(read, _AnswerLines(delimiter.encode(), check_stream_encoding(encoding)))


def _read_answers(read: Callable[[int], bytes], lines: _AnswerLines) -> Iterator[list[Answer]]:
    # Answers are handed on piece by piece, so that a pipe is answered while it is still being
    # written.
    while piece := read(PIECE):
        yield from lines.take(piece)
    yield from lines.end()


class _AnswerLines:
    def __init__(self, delimiter: bytes, encoding: LineEncoding) -> None:
        self._delimiter, self._encoding = delimiter, encoding
        self._rest = bytearray()  # the beginning of a line whose end has not come
        self._skipped: str | None = None  # the label of a line whose answer is too long to keep
        self._number = 1  # of the line that is being read

    def take(self, piece: bytes) -> Iterator[list[Answer]]:
        """Yield the questions of all lines that end within this piece."""
        answers: list[Answer] = []
        # What stands behind the last LF of the piece is a line whose end has not come yet.
        *ended, rest = piece.split(b"\n")
        try:
            for end in ended:
                answer = self._line(end)
                self._number += 1
                if answer is not None:
                    answers.append(answer)
            self._keep(rest)
        except DataSourceError:
            # The questions before the refused line are well
            # formed: they are answered before the error is raised.
            yield answers
            raise
        yield answers

    def end(self) -> Iterator[list[Answer]]:
        """Yield the question of the last line if that line lacks its end."""
        if self._rest or self._skipped is not None:
            answer = self._line(b"")
            yield [] if answer is None else [answer]

    def _line(self, end: bytes) -> Answer | None:
        """Return the question of a line, given the end of that line."""
        # The answer of this line was too long to keep: it counts as the lowest value.
        if self._skipped is not None:
            label, self._skipped = self._skipped, None
            return Answer(label, math.nan)
        if self._rest:
            end = bytes(self._rest + end)
            self._rest.clear()
        line = self._unmarked(end.removesuffix(b"\r"))
        if not line:
            return None
        label, answer = self._split(line)
        # The label was found by the bytes before the answer alone: the answer decides nothing but
        # its value.
        return Answer(label, read_number(answer) if len(line) <= LONGEST else math.nan)

    def _unmarked(self, line: bytes) -> bytes:
        """Return a line, or its beginning, without the byte order mark a first line may have."""
        return line.removeprefix(MARK) if self._number == 1 and self._encoding == "utf-8" else line

    def _keep(self, rest: bytes) -> None:
        """Keep the beginning of a line. Of a line that is far too long, keep only the label."""
        if self._skipped is not None:
            return
        self._rest += rest
        # A mark, and the CR of a line end, are no part of the line: they do not count against its
        # length.
        if len(self._rest) > LONGEST + len(MARK) + 1:
            # The label is public, so it is checked now. The rest of the line need not be held in
            # memory.
            self._skipped = self._split(self._unmarked(bytes(self._rest)))[0]
            self._rest.clear()

    def _split(self, line: bytes) -> tuple[str, bytes]:
        """Return the label of a line, or of its beginning, and what stands behind the delimiter."""
        field, delimiter, answer = line.partition(self._delimiter)
        text = public_text(field, b'"')
        # All three parts of this test are decided by the bytes before the first delimiter, which
        # are public.
        if not delimiter or len(field) > LONGEST or text is None:
            raise self._refused(
                "must begin with a label, bare or in quotes, and a delimiter, "
                "which cannot stand in the label, not even in quotes"
            )
        try:
            return text.decode(self._encoding), answer
        except UnicodeDecodeError:
            raise self._refused(f"must have a label in {self._encoding}") from None

    def _refused(self, rule: str) -> DataSourceError:
        """Return the error of the line that is being read. It tells only the number of the line."""
        return DataSourceError(
            f"Line {self._number} {rule}. It was not answered, and the charge stays."
        )
