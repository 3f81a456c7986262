"""Types that columns of a CSV file may be declared to have, and which texts are values of each.

The grammar is ours, and each rule looks at one field: a text either is a value of its type, or is
missing. No text is refused, rounded or repaired. Patterns are written in what the regular
expressions of the engine and of Python have in common.

The rules, each about one field that is not NULL:

- Blanks and tabs around a number, a date, a time or a truth value are no part of it. They belong to
  a text.
- A number is a sign or none, ASCII digits, and the decimal mark followed by digits or nothing;
  digits may be missing on one side of the mark. Its whole part may be grouped by the thousands
  mark: groups of exactly three digits, but for the first, which has one to three and does not begin
  with 0; then all of it is grouped. Without groups a double may have an exponent (1e5).
- An integer or a decimal is such a number without exponent that is exactly a value of its type:
  digits beyond its scale are zeros, and it is not too large. So 7.0 is an integer, and 7.5 is none.
- A double is the float nearest to the number, infinite beyond the floats. Words such as nan and inf
  are none.
- A date is written as the date format says: %Y are four digits (0001 to 9999), %m and %d one digit
  or two (where two of these touch, two), and everything else stands for itself. The day must exist.
- A timestamp is such a date, a blank or T, and a time: hours, minutes, and none or seconds with
  none or one to six digits behind a point (and at most nine zeros behind these). It has no time
  zone.
- A boolean is true, yes, t, y or 1, or false, no, f, n or 0, in letters of either case.
- A text is what stands there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, final

from sordino.constraints import is_unicode, shown
from sordino.errors import InvalidParameter

FileKind = Literal["csv", "jsonl", "parquet"]
"""How a file is read."""
PLAIN_DATE = "%Y-%m-%d"
"""How dates are written where nothing else is declared."""

TYPES = "integer, decimal(p,s), double, date, timestamp, boolean and text"
_ENGINE_TYPES = {
    "integer": "BIGINT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
}
_DECIMAL = re.compile(r"decimal\(([0-9]{1,2}),([0-9]{1,2})\)", re.ASCII)
_MOST_DIGITS = 38
_LONGEST_DATE_FORMAT = 40


@final
@dataclass(frozen=True)
class ColumnType:
    """A declared type.

    Parameters
    ----------
    engine : str
        The type in the words of the engine.
    scale : int or None
        How many digits an integer or a decimal has after the decimal mark; None for other types.
    """

    engine: str
    scale: int | None = None


class Marks(NamedTuple):
    """The two marks in numbers; no thousands mark is the empty text."""

    decimal: str = "."
    thousands: str = ""


def column_type(name: str, declared: object) -> ColumnType:
    """Return the type that was declared, in any case and with blanks or without.

    Raises
    ------
    InvalidParameter
        If it is none.
    """
    # By the exact type: a subclass of `str` could say another text each time it is asked.
    word = str(declared).replace(" ", "").lower() if type(declared) is str else ""
    if word in _ENGINE_TYPES:
        return ColumnType(_ENGINE_TYPES[word], 0 if word == "integer" else None)
    digits = _DECIMAL.fullmatch(word)
    if digits is None:
        raise InvalidParameter(f"{name} must be one of {TYPES}; got {shown(declared)}.")
    precision, scale = int(digits[1]), int(digits[2])
    if not (1 <= precision <= _MOST_DIGITS and scale <= precision):
        raise InvalidParameter(
            f"{name} must have 1 to {_MOST_DIGITS} digits, of which at most all stand after "
            "the decimal mark: decimal(12,2) has 10 before it and 2 after it; got "
            f"{shown(declared)}."
        )
    return ColumnType(f"DECIMAL({precision},{scale})", scale)


def check_marks(name: str, marks: Marks, *, delimiter: str, quote: str) -> None:
    """Refuse marks that could be taken for something else in a line.

    Raises
    ------
    InvalidParameter
        If a mark is none of the usual ones, or stands for something else already.
    """
    if marks.decimal not in {".", ","}:
        raise InvalidParameter(
            f"{name}decimal must be a point or a comma; got {shown(marks.decimal)}."
        )
    if marks.thousands not in _THOUSANDS_MARKS:
        raise InvalidParameter(
            f"{name}thousands must be the empty text, one of . , ' _ or a blank, or the apostrophe "
            f"U+2019 or one of the blanks U+00A0 and U+202F; got {shown(marks.thousands)}."
        )
    if marks.thousands == marks.decimal:
        raise InvalidParameter(
            f"{name}thousands must be another mark than decimal; got {shown(marks.decimal)} for "
            "both."
        )
    for role, mark in zip(Marks._fields, marks, strict=True):
        # The decimal point is the default, also of files without numbers, which may be written in
        # any way.
        if (role, mark) == ("decimal", "."):
            continue
        # A bare 1,5 would be two fields, and the first of them a number.
        if mark == delimiter:
            raise InvalidParameter(
                f"{name}{role} must be another mark than the delimiter, which would cut numbers in "
                f"two; got {shown(mark)} for both. Name the delimiter of the file (often ;), or "
                "write it with another."
            )
        if mark and mark == quote:
            raise InvalidParameter(
                f"{name}{role} must be another mark than the quote; got {shown(mark)} for both."
            )


_THOUSANDS_MARKS = frozenset({"", ".", ",", "'", "_", "\u2019", " ", "\u00a0", "\u202f"})


# ---- patterns ------------------------------------------------------------------------------------


BLANKS = r"[ \t]*"
TRUE = "[Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Tt]|[Yy]|1"
FALSE = "[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Ff]|[Nn]|0"


def around(pattern: str) -> str:
    """Return the pattern of a value with blanks around it."""
    return f"{BLANKS}(?:{pattern}){BLANKS}"


def number_pattern(marks: Marks, scale: int | None) -> str:
    """Return the pattern of a number, with or without blanks around; see `bare_number_pattern`."""
    return around(bare_number_pattern(marks, scale))


def bare_number_pattern(marks: Marks, scale: int | None) -> str:
    """Return the pattern of a number without blanks around it.

    Parameters
    ----------
    marks : Marks
        How numbers are written.
    scale : int or None
        For exact numbers how many digits after the decimal mark need not be 0; None for floats.
    """
    point = re.escape(marks.decimal)
    if scale is None:
        behind, alone, exponent = f"(?:{point}[0-9]*)?", f"{point}[0-9]+", "(?:[eE][+-]?[0-9]+)?"
    else:
        # Zeros beyond the scale change nothing about the number.
        behind = f"(?:{point}[0-9]{{0,{scale}}}0*)?"
        alone = f"{point}[0-9]{{1,{scale}}}0*" if scale else f"{point}0+"
        exponent = ""
    ways = [f"(?:[0-9]+{behind}|{alone}){exponent}"]
    if marks.thousands:
        # A first group of 0 is what no program writes: 0.123 with a thousands point is no 123. Nor
        # is there an exponent: 1.234e5 is a number with a decimal point.
        grouped = f"[1-9][0-9]{{0,2}}(?:{re.escape(marks.thousands)}[0-9]{{3}})+"
        ways.append(f"{grouped}{behind}")
    return f"[+-]?(?:{'|'.join(ways)})"


_YEAR = "[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000"
_TIME = r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,6}0{0,9})?)?"


class WrittenDate(NamedTuple):
    """The pattern of a date without blanks around it, and which groups are year, month and day."""

    pattern: str
    year: int
    month: int
    day: int


def date_pattern(date_format: str) -> WrittenDate:
    """Return the pattern of a date format that was checked."""
    parts = re.split("(%[Ymd])", date_format)
    # The directives and what stands between them, in turn.
    between, order = parts[::2], [part[1] for part in parts[1::2]]
    # Where two touch, 2024111 could be two days: then each has all of its digits.
    touching = not all(between[1:-1])
    month = "0[1-9]|1[0-2]" if touching else "0?[1-9]|1[0-2]"
    day = "0[1-9]|[12][0-9]|3[01]" if touching else "0?[1-9]|[12][0-9]|3[01]"
    groups = {"Y": f"({_YEAR})", "m": f"({month})", "d": f"({day})"}
    pattern = re.escape(between[0]) + "".join(
        groups[directive] + re.escape(text)
        for directive, text in zip(order, between[1:], strict=True)
    )
    return WrittenDate(pattern, *(order.index(directive) + 1 for directive in "Ymd"))


def timestamp_pattern(date: WrittenDate) -> str:
    """Return the pattern of a date with a time behind it, which is group 4."""
    return f"{date.pattern}[ T]({_TIME})"


def check_date_format(name: str, value: object) -> None:
    """Refuse what is no date format.

    Raises
    ------
    InvalidParameter
        If year, month and day do not all stand in it once, or something else with a percent sign
        does.
    """
    short = is_unicode(value) and len(str(value)) <= _LONGEST_DATE_FORMAT
    parts = re.split("(%[Ymd])", str(value) if short else "")
    rest = "".join(parts[::2])
    # Digits beside a directive would be taken for some of its digits.
    clear = rest.isprintable() and not re.search("[%0-9]", rest)
    if sorted(parts[1::2]) != ["%Y", "%d", "%m"] or not clear:
        raise InvalidParameter(
            f"{name} must have %Y (four digits of the year), %m and %d once each, of at most "
            f"{_LONGEST_DATE_FORMAT} characters, and no other directives, digits or control "
            f"characters; got {shown(value)}. For 31.12.2024 it is %d.%m.%Y."
        )


UNCLEAR_NAME = (
    "is a name that stands more than once in the header, or is empty there. Rename the column, or "
    "name all of them: --skip-lines 1 --no-header --columns a,b,c."
)
"""Why a column cannot be asked for: words that follow on its name."""


def say_unclear(role: str, name: str) -> str:
    """Return what is said where a column is asked for whose name is there twice or is empty."""
    return f"{role} must be a column that can be named; {shown(name)} {UNCLEAR_NAME}"


def say_conversion(kind: str, texts: Sequence[str]) -> str:
    """Return how what is compared gets another type; `texts` are columns of undeclared texts."""
    if kind == "postgres":
        return "Compare with what is of the same type, or name a view that converts the column."
    if texts:
        name = shown(texts[0])[1:-1]
        return f"{say_type_first(name)} Or compare texts, for example flag = 'true'."
    return (
        "Compare, or convert texts first, for example flag = 'true' or TRY_CAST(price AS DOUBLE) > "
        "10."
    )


def say_type_first(name: str) -> str:
    """Return how a column of texts is declared to be one of something else."""
    return (
        f"Declare its type first, such as --type {name}=double, =date or =boolean; in a file "
        f"types.{name} = 'double', in Python CsvFormat(types={{'{name}': 'double'}})."
    )
