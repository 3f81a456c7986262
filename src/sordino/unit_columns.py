"""The columns of a unit of several: values as they stand, and times cut to a day or the like.

Two rows are of one unit if they agree in each of its columns. So "a customer on one day" is
protected, and not the customer on all days together (docs/proofs/units-of-several-columns.md).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from sordino.constraints import shown, text
from sordino.errors import InvalidParameter

CUTS = ("year", "quarter", "month", "week", "day", "day_hour")
"""What times can be cut to."""

_MOST = 8
_NAME = r'"(?:[^"]|"")+"'
_BARE = r"[^\W\d]\w*"
_CUT = re.compile(
    rf"\s*({'|'.join(CUTS)})\(\s*({_NAME}|{_BARE})(?:\s+at\s+'([^']*)')?\s*\)\s*", re.IGNORECASE
)
_QUOTED = re.compile(_NAME)
# Minutes that are the same on every day and to every engine.
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])", re.ASCII)
_SEVERAL = "columns "
_PIECES = re.compile(rf"""(?:{_NAME}|'[^']*'|\([^()]*\)|[^,"'()])+""")


@final
@dataclass(frozen=True)
class UnitColumn:
    """One column of a unit.

    Parameters
    ----------
    name : str
        Of the column of the table.
    cut : str or None
        To what a time is cut; None: the value as it stands.
    offset : str or None
        Of a time with a zone: at which offset from UTC, such as "+01:00", it is cut.
    """

    name: str
    cut: str | None = None
    offset: str | None = None

    @property
    def text(self) -> str:
        """How an account writes it."""
        return self._write('"' + self.name.replace('"', '""') + '"')

    @property
    def short(self) -> str:
        """How people write it: without quotes where its name needs none."""
        return self._write(self.name) if re.fullmatch(_BARE, self.name) else self.text

    def _write(self, name: str) -> str:
        if self.cut is None:
            return name
        return f"{self.cut}({name}{'' if self.offset is None else f' at {self.offset!r}'})"


def read_unit_column(written: str) -> UnitColumn:
    """Return one column of a unit, as it is written: customer, "the day", day(seen at '+01:00').

    Raises
    ------
    InvalidParameter
        If it is none.
    """
    found = _CUT.fullmatch(text(written, "Each column that says whom it protects"))
    if found is None:
        return UnitColumn(_take_quotes_off(written))
    offset = found[3]
    if offset is not None and offset != "UTC" and read_offset(offset) is None:
        raise InvalidParameter(
            f"{found[1]}({found[2]} at ...) must be cut at UTC or at an offset such as '+01:00' "
            "where it tells whom a row is of: what a time zone calls a day may change; got "
            f"{shown(offset)}."
        )
    if offset in {"UTC", "-00:00"}:
        offset = "+00:00"
    return UnitColumn(_take_quotes_off(found[2]), found[1].lower(), offset)


def read_offset(zone: str) -> int | None:
    """Return by how many minutes an offset such as "+01:00" is ahead of UTC; None: it is none."""
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    minutes = 60 * int(found[2]) + int(found[3])
    return -minutes if found[1] == "-" else minutes


def read_unit_columns(columns: Sequence[str]) -> tuple[UnitColumn, ...]:
    """Return the columns of a unit of several.

    Raises
    ------
    InvalidParameter
        If they are none, are too many, repeat, or are times alone, which protect nobody.
    """
    if not 2 <= len(columns) <= _MOST:
        raise InvalidParameter(
            f"Whom it protects must be told by 2 to {_MOST} columns, or by one that is no list; "
            f"got {len(columns)}."
        )
    found = tuple(read_unit_column(one) for one in columns)
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InvalidParameter(
            "Whom it protects must be told by each column once; got "
            f"{shown(twice[0])} again. Leave one out: rows of one day are of one month."
        )
    if all(one.cut is not None for one in found):
        raise InvalidParameter(
            "Whom it protects must be told by a column that says whose a row is, too, such as "
            f"['customer', {found[0].short!r}]: a time alone protects nobody; got "
            f"{', '.join(one.short for one in found)}."
        )
    return found


def write_unit_columns(columns: Sequence[UnitColumn]) -> str:
    """Return the one text that stands for the columns of a unit."""
    return _SEVERAL + ", ".join(one.text for one in columns)


def split_unit_columns(written: str) -> str | tuple[str, ...]:
    """Return the column, or the columns with commas between them, as a command takes them.

    A name with a comma stands in double quotes.

    Examples
    --------
    >>> from sordino.unit_columns import split_unit_columns
    >>> split_unit_columns("customer_id,day(ordered_at)"), split_unit_columns("customer_id")
    (('customer_id', 'day(ordered_at)'), 'customer_id')
    """
    found = _PIECES.findall(written)
    pieces = tuple(one.strip() for one in found)
    # What is written otherwise is the name of a column, whatever it is.
    if len(pieces) > 1 and ",".join(found) == written and all(pieces):
        return pieces
    return _take_quotes_off(written) if "," in written else written


def join_unit_columns(columns: Sequence[UnitColumn]) -> str:
    """Return how a command takes these columns."""
    return ",".join(one.text if "," in one.name else one.short for one in columns)


def find_cut(unit: str) -> str | None:
    """Return "day" of the unit "a person on one day", by its text; None of any other unit.

    Somebody is on one day in one of these. With a column more somebody may be in many.
    """
    if not unit.startswith(_SEVERAL):
        return None
    pieces = _PIECES.findall(unit.removeprefix(_SEVERAL))
    cuts = [found[1].lower() for one in pieces if (found := _CUT.fullmatch(one)) is not None]
    return cuts[0] if (len(cuts), len(pieces)) == (1, 2) else None


def has_several_columns(unit: str) -> bool:
    """Tell whether the text of an account is that of a unit of several columns."""
    return unit.startswith(_SEVERAL)


def name_unit_of(unit: str, called: str) -> str:
    """Return what one unit of several columns is called: "customer-day", or "combination"."""
    cut = find_cut(unit)
    if cut is None:
        return "combination"
    return f"{called}-{cut.removeprefix('day_')}"


def say_unit_of(unit: str, called: str) -> str:
    """Return the same in a sentence: "a customer on one day"."""
    cut = find_cut(unit)
    if cut is None:
        return "a combination of " + unit.removeprefix(_SEVERAL)
    return f"{add_article(called)} {'on' if cut == 'day' else 'in'} one {cut.removeprefix('day_')}"


def add_article(word: str) -> str:
    """Return a word with its article: a customer, an aircraft, a user."""
    # It goes by the sound: "user" begins with a y, and "hour" with no h.
    vowel = re.match("(?!u[^aeiou][aeiou]|eu)[aeiou]|hour|heir|hono", word.lower())
    return f"{'an' if vowel else 'a'} {word}"


def narrow_odds(said: str, unit: str | None, called: str | None = None) -> str:
    """Return a sentence on what a reader learns of somebody as one of whom is protected."""
    if unit is None or not has_several_columns(unit):
        whom = "somebody" if called in {None, "row", "person"} else add_article(str(called))
        return said.replace("a fact about somebody", f"a fact about {whom}")
    cut = find_cut(unit)
    of = "one combination of these columns" if cut is None else f"one {cut} of somebody"
    return said.replace("a fact about somebody", f"a fact about {of.replace('day_hour', 'hour')}")


def _take_quotes_off(written: str) -> str:
    return written[1:-1].replace('""', '"') if _QUOTED.fullmatch(written) else written
