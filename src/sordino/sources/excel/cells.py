"""What one cell of a sheet says, as a text.

The rules, each a function of one cell, its number format, and what is public about the workbook:

- A text is what it says, without its escapes (`_x000D_`), formats and reading aids.
- A number is the float that Excel keeps, in the fewest digits that mean it, without an exponent:
  12.5, and 3 for 3.0. A whole number that is written with digits alone keeps all of them.
- A number whose format shows a day, a month or a year is the date that it stands for, with a time
  behind it if it is not midnight (and always, where the column is a timestamp): 2024-02-29
  13:45:00. It is written by the declared date format, and is to the nearest millisecond. What is no
  day of Excel's calendar is missing: so is 29 February 1900, which that calendar has and no other.
- A number whose format shows hours, minutes or seconds and no date is such a time, with as many
  hours as it has: 36:00:00. Below 0 it is missing.
- True and false are `true` and `false`. A date in ISO 8601 is what stands there.
- A formula is what was last computed for it. Without that the cell is empty.
- Errors (#N/A), what is no value of its kind, kinds that nobody knows, and texts that are none in
  Unicode without NUL are missing.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Literal, NamedTuple, final

Shows = Literal["number", "date", "time"]
"""What a number format shows of a number."""

_DAY = 86_400_000
"""Milliseconds."""

_FIRST_DAY = date(1899, 12, 31).toordinal()
"""Day 0 of the calendar that has a 29 February 1900."""

_FIRST_DAY_1904 = date(1904, 1, 1).toordinal()
_LAST_DAY = date(9999, 12, 31).toordinal()
_NO_DAY = 60
"""29 February 1900. All days behind it are counted one too far."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = re.compile(r"([+-]?)0*([0-9]+)")
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TRUTH = {"1": b"true", "true": b"true", "0": b"false", "false": b"false"}
_BLANKS = " \t\r\n"
"""Blanks of XML."""


class Cell(NamedTuple):
    """A cell as it stands in the sheet: of which kind it is, the number of its format, its text.

    A text of a cell that shares it with others stands in its place already, and has the kind "str".
    """

    kind: str
    style: str
    text: str


@final
@dataclass(frozen=True)
class CellRules:
    """What is the same for all cells.

    Parameters
    ----------
    formats : tuple of {"number", "date", "time"}
        What each number format of the workbook shows.
    from_1904 : bool
        Whether days are counted from 1904.
    date_format : str
        How dates are written.
    """

    formats: tuple[Shows, ...]
    from_1904: bool
    date_format: str

    def write(self, cell: Cell, *, timed: bool) -> bytes:
        """Return what a cell says in UTF-8, empty if it is missing.

        `timed`: dates always have a time.
        """
        if cell.kind in {"str", "inlineStr"}:
            return _write_cell_text(cell.text)
        plain = cell.text.strip(_BLANKS)
        if cell.kind == "b":
            return _TRUTH.get(plain, b"")
        if cell.kind == "d":
            return _write_cell_text(plain)
        number = cell.kind == "n" and _NUMBER.fullmatch(plain)
        return (
            self._write_shown(plain, self._format_of(cell.style), timed=timed).encode()
            if number
            else b""
        )

    def _write_shown(self, number: str, shows: Shows, *, timed: bool) -> str:
        if shows == "number":
            return _write_cell_number(number)
        value = float(number)
        # Before anything is computed: a time of 1e308 days would have 300 digits.
        if not 0 <= value < _LAST_DAY:
            return ""
        days, rest = divmod(round(value * _DAY), _DAY)
        if shows == "time":
            return _write_time(days * _DAY + rest)
        return self._write_date(days, rest, timed=timed)

    def _format_of(self, style: str) -> Shows:
        # What is no number of a format means the first one, as where nothing is said.
        place = int(style) if style.isascii() and style.isdigit() and len(style) < 10 else 0
        return self.formats[place] if place < len(self.formats) else "number"

    def _write_date(self, days: int, rest: int, *, timed: bool) -> str:
        if self.from_1904:
            day = _FIRST_DAY_1904 + days
        elif 0 < days != _NO_DAY:
            day = _FIRST_DAY + days - (days > _NO_DAY)
        else:
            return ""
        if day > _LAST_DAY:
            return ""
        found = date.fromordinal(day)
        written = (
            self.date_format.replace("%Y", f"{found.year:04}")
            .replace("%m", f"{found.month:02}")
            .replace("%d", f"{found.day:02}")
        )
        return f"{written} {_write_time(rest)}" if rest or timed else written


def _write_time(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{seconds:02}" + (f".{rest:03}" if rest else "")


def _write_cell_number(text: str) -> str:
    whole = _WHOLE.fullmatch(text)
    if whole is not None:
        sign, digits = whole.groups()
        return f"-{digits}" if sign == "-" and digits != "0" else digits
    value = float(text)
    if not math.isfinite(value):
        return ""
    # One zero. The fewest digits first, and then without the exponent that they may have.
    return format(Decimal(repr(value + 0.0)), "f").removesuffix(".0")


def _write_cell_text(text: str) -> bytes:
    """Return a text in UTF-8, without its escapes; empty if it is none."""
    if "_x" in text:
        text = _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)
    if "\0" in text:
        return b""
    try:
        # Two escapes may be the halves of one character.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le").encode()
    except UnicodeDecodeError:
        return b""


# ---- number formats ------------------------------------------------------------------------------

# Some of East Asia show a date in one language and a time in another: they count as dates.
_DATES = frozenset((*range(14, 18), 22, *range(27, 32), *range(34, 37), *range(50, 59)))
_TIMES = frozenset((*range(18, 22), 32, 33, *range(45, 48)))
_SPEECH = re.compile(
    r'"[^"]*"?|\\.|[_*].|\[(?![hms]+\])[^\]]*\]?|AM/PM|A/P|General', re.IGNORECASE | re.DOTALL
)
"""What means itself in a format: quoted text, escapes, fillers, colors, and words with letters of
dates."""


def numbered_format(number: int) -> Shows:
    """Return what a format shows that every workbook has, by its number."""
    return "date" if number in _DATES else "time" if number in _TIMES else "number"


def written_format(code: str) -> Shows:
    """Return what a format shows that a workbook defines, by its code for positive numbers."""
    # A semicolon in quotes ends nothing, so speech goes first.
    code = _SPEECH.sub("", code).partition(";")[0].lower()
    timed = "h" in code or "s" in code
    # Beside hours and seconds one m or two are minutes.
    if (
        "y" in code
        or "d" in code
        or "mmm" in code
        or ("m" in code and not timed and "[" not in code)
    ):
        return "date"
    return "time" if timed or "[m" in code else "number"
