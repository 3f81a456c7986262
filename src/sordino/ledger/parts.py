"""Parts of an account: which they are, how they are written, and how the ledger keeps ranges.

A part is the value that one component of the unit has for a row, a time that was cut to an hour, a
day, a month or a year: a whole number of these since 1970. A unit lies in one part, so that
releases about other parts say nothing of it, and the sums of an account are kept for each part.

Claim: what is charged so has the guarantee of one part's limits.
Proof: docs/proofs/parts-of-an-account.md.
"""

from __future__ import annotations

import json
import re
from calendar import monthrange
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from typing import Any, final

from sordino.constraints import shown
from sordino.errors import InvalidParameter

MOST_PARTS = 4_096
"""In one charge: eleven years of days."""
MOST_RANGES = 366
"""In one charge: its event has them as a text, for good."""
OPEN = -(2**63)
"""What no part is at or below: `closed` of an account of which no part is closed."""
CUTS = {"hour": "day_hour", "day": "day", "month": "month", "year": "year"}
"""The cuts of a time, finest first, and what a component of a unit calls them."""
_EPOCH = date(1970, 1, 1).toordinal()
_HOURS, _MONTHS = 24, 12
_TIME = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2})(?:T(\d{2}))?)?)?", re.ASCII)
# As it is in the identity of a unit: a column, or a cut of one; quotes in names are doubled.
_NAME = r'"(?:[^"]|"")+"'
_CUT = rf"(day_hour|day|month|year)\({_NAME}(?: at '[+-]\d{{2}}:\d{{2}}')?\)"
_COMPONENT = re.compile(rf"{_CUT}|{_NAME}", re.ASCII)
_UNIT_START = "columns "
_FORMS = {
    "hour": "an hour (2026-11-27T05), a day, a month or a year",
    "day": "a day (2026-11-27), a month (2026-11) or a year (2026)",
    "month": "a month (2026-11) or a year (2026)",
    "year": "a year (2026)",
}
# One number of a range: a sign and eight digits, which hold every hour of the years 1 to 9999.
_DIGITS = 9


@final
@dataclass(frozen=True, order=True)
class PartRange:
    """Parts of an account from one to another, both included.

    Attributes
    ----------
    low, high : int
        The first and the last part: whole hours, days, months or years since 1970, whichever cut
        the account has.

    Raises
    ------
    InvalidParameter
        If they are no whole numbers, or `high` is below `low`.

    Examples
    --------
    >>> from sordino.ledger import PartRange, read_parts
    >>> read_parts("1970-01-03..1970-01-05", "day") == PartRange(2, 4)
    True
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for name, number in (("low", self.low), ("high", self.high)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise InvalidParameter(
                    f"PartRange.{name} must be a whole number; got {shown(number)}."
                )
        if self.high < self.low:
            raise InvalidParameter(
                f"A range of parts must not end before it begins; got {self.low} to {self.high}."
            )

    def __len__(self) -> int:
        return self.high - self.low + 1


def read_parts(text: str, cut: str) -> PartRange:
    """Return the parts that a text names.

    Parameters
    ----------
    text : str
        A day ``2026-11-27``, a month ``2026-11``, a year ``2026`` or an hour ``2026-11-27T05``, or
        two of these with ``..`` between them, both included. A month of an account that is cut by
        days is all of its days. Years are 1 to 9999, with four digits.
    cut : {"hour", "day", "month", "year"}
        Of the account.

    Raises
    ------
    InvalidParameter
        If it is no such text, is finer than the cut, goes backwards, or names more than 4,096
        parts.

    Examples
    --------
    >>> from sordino.ledger import read_parts
    >>> read_parts("1970-02", "day"), read_parts("1971", "month")
    (PartRange(low=31, high=58), PartRange(low=12, high=23))
    """
    _check_cut(cut)
    if not isinstance(text, str):
        raise InvalidParameter(f"Parts must be given as a text; got a {type(text).__name__}.")
    first, dots, last = text.partition("..")
    low = _read_one(first, cut)
    high = _read_one(last, cut) if dots else low
    if high.high < low.low or high.low < low.low:
        raise InvalidParameter(
            f"Parts must be given from the first to the last one; got {shown(text)}, which goes "
            "backwards."
        )
    made = PartRange(low.low, high.high)
    if len(made) > MOST_PARTS:
        raise InvalidParameter(
            f"One charge takes at most {MOST_PARTS:,} parts; {shown(text)} are {len(made):,} "
            f"{cut}s. Name fewer, or none for the whole table."
        )
    return made


def show_parts(parts: PartRange, cut: str) -> str:
    """Return the text of a range of parts; `read_parts` reads it.

    Parameters
    ----------
    parts : PartRange
        Within the years 1 to 9999.
    cut : {"hour", "day", "month", "year"}
        Of the account.

    Raises
    ------
    InvalidParameter
        If a part is outside of these years.

    Examples
    --------
    >>> from sordino.ledger import PartRange, show_parts
    >>> show_parts(PartRange(31, 58), "day"), show_parts(PartRange(5, 5), "hour")
    ('1970-02-01..1970-02-28', '1970-01-01T05')
    """
    _check_within(parts, cut)
    first, last = _show_one(parts.low, cut), _show_one(parts.high, cut)
    return first if first == last else f"{first}..{last}"


def find_last(cut: str, other: str, until: int) -> int:
    """Return the last part of another cut that has any of the time up to a part, that included.

    Of a coarser cut it is the part that holds the end of `until`.
    """
    if other == cut:
        return until
    year, month, day, hour = _split(until, cut)
    if cut == "year":
        month = _MONTHS
    if cut in {"year", "month"}:
        day = monthrange(year, month)[1]
    return _count_parts(date(year, month, day), hour if cut == "hour" else _HOURS - 1, other)


def read_components(unit: str) -> tuple[str, ...]:
    """Return the components of a unit of several columns, from its text; none of another unit.

    Strict: a text that is not written as sordino writes it has none.
    """
    if not unit.startswith(_UNIT_START):
        return ()
    found, place = [], len(_UNIT_START)
    while (one := _COMPONENT.match(unit, place)) is not None:
        found.append(one[0])
        if one.end() == len(unit):
            return tuple(found)
        if not unit.startswith(", ", one.end()):
            break
        place = one.end() + 2
    return ()


def find_key(unit: str, adjacency: str, cut: str) -> str:
    """Return what an account keeps of its parts, a JSON text.

    Raises
    ------
    InvalidParameter
        If an account of this unit and adjacency can have no such parts.
    """
    _check_cut(cut)
    if adjacency != "add-remove":
        raise InvalidParameter(
            "An account with parts must have the adjacency add-remove: under replace-one somebody "
            f"leaves one part and enters another, and both tell of it; got {shown(adjacency)}."
        )
    components = read_components(unit)
    if len(components) < 2:
        raise InvalidParameter(
            "An account with parts must protect by several columns, one of them a time that is "
            f'cut, such as columns "customer_id", day("ordered_at"); got {shown(unit)}.'
        )
    start = f"{CUTS[cut]}("
    keys = [one for one in components if one.startswith(start)]
    if len(keys) != 1:
        many = f"{len(keys)} columns are" if keys else "no column is"
        raise InvalidParameter(
            f"parts must be the cut of one of the columns that the account protects by, and of "
            f"{unit} {many} cut to the {cut}. By another key somebody would lie in several parts."
        )
    return json.dumps({"component": keys[0], "cut": cut}, sort_keys=True)


def cut_of(key: str) -> str:
    """Return the cut of an account, from what it keeps of its parts; "" where it has none."""
    # In a damaged file it may be anything; `verify` says so.
    try:
        cut = json.loads(key)["cut"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""
    return cut if cut in CUTS else ""


def component_of(key: str) -> str:
    """Return the component of the unit that is the part, from what an account keeps of it."""
    try:
        return str(json.loads(key)["component"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def join_ranges(given: PartRange | Sequence[PartRange], cut: str) -> tuple[PartRange, ...]:
    """Return ranges in order, of which no two touch, or refuse them.

    Raises
    ------
    InvalidParameter
        If there is none, or there are too many, or they are nothing of the kind.
    """
    listed: Any = [given] if isinstance(given, PartRange) else given
    if not isinstance(listed, Sequence) or not listed:
        raise InvalidParameter(
            "parts must be a PartRange or a list of them, and none at all (None) for the whole "
            f"table; got {shown(given)}."
        )
    for one in listed:
        if not isinstance(one, PartRange):
            raise InvalidParameter(
                f"parts must be a PartRange or a list of them; it has a {type(one).__name__}."
            )
        _check_within(one, cut)
    joined: list[PartRange] = []
    for one in sorted(listed):
        if joined and one.low <= joined[-1].high + 1:
            joined[-1] = PartRange(joined[-1].low, max(joined[-1].high, one.high))
        else:
            joined.append(one)
    many = sum(map(len, joined))
    if many > MOST_PARTS:
        raise InvalidParameter(
            f"One charge takes at most {MOST_PARTS:,} parts; these are {many:,} {cut}s. Name "
            "fewer, or none for the whole table."
        )
    if len(joined) > MOST_RANGES:
        raise InvalidParameter(
            f"One charge takes at most {MOST_RANGES} ranges of parts; these are {len(joined)}."
        )
    return tuple(joined)


def write_ranges(ranges: Iterable[PartRange]) -> str:
    """Return ranges as the ledger keeps them: two numbers of nine characters each."""
    return "".join(f"{one.low:+09d}{one.high:+09d}" for one in ranges)


def read_ranges(text: str) -> tuple[PartRange, ...]:
    """Return the ranges of such a text.

    Raises
    ------
    ValueError
        If it is none that `write_ranges` makes: in order, not touching before the last one ends.
    """
    width = 2 * _DIGITS
    found = [
        (int(text[n : n + _DIGITS]), int(text[n + _DIGITS : n + width]))
        for n in range(0, len(text), width)
    ]
    ends = [one for pair in found for one in pair]
    rising = all(low <= high for low, high in found) and all(
        before < low for (_, before), (low, _) in pairwise(found)
    )
    if not rising or "".join(f"{one:+09d}" for one in ends) != text:
        raise ValueError
    return tuple(PartRange(low, high) for low, high in found)


def check_closing(until: int, cut: str) -> int:
    """Return the last part that is to be closed, or refuse it."""
    _check_within(PartRange(until, until), cut)
    return until


def _check_cut(cut: Any) -> None:
    if cut not in CUTS:
        raise InvalidParameter(f"parts must be one of {', '.join(CUTS)}; got {shown(cut)}.")


def _check_within(parts: PartRange, cut: str) -> None:
    first, last = _count_parts(date.min, 0, cut), _count_parts(date.max, _HOURS - 1, cut)
    if parts.low < first or parts.high > last:
        raise InvalidParameter(
            f"Parts must lie in the years 1 to 9999, for a {cut} from {first} to {last}; got "
            f"{parts.low} to {parts.high}."
        )


def _read_one(text: str, cut: str) -> PartRange:
    """Return the parts of one time: all those of a coarser one."""
    found = _TIME.fullmatch(text)
    given = [] if found is None else [int(word) for word in found.groups() if word is not None]
    # Years, months, days and hours, as many as the cut tells apart.
    finest = len(CUTS) - list(CUTS).index(cut)
    no_date = InvalidParameter(
        f"A part of an account that is cut to the {cut} is {_FORMS[cut]}, or two of these with .. "
        f"between them; got {shown(text)}."
    )
    if not 1 <= len(given) <= finest:
        raise no_date
    year, month, day, hour = given + [1, 1, 1, 0][len(given) :]
    try:
        first = date(year, month, day)
    except ValueError:
        raise no_date from None
    if hour >= _HOURS:
        raise no_date
    named = list(reversed(CUTS))[len(given) - 1]
    low = _count_parts(first, hour, cut)
    if named == cut:
        return PartRange(low, low)
    # Of a coarser time the last hour, whatever the cut makes of it.
    return PartRange(low, find_last(named, cut, _count_parts(first, hour, named)))


def _show_one(number: int, cut: str) -> str:
    year, month, day, hour = _split(number, cut)
    words = (f"{year:04d}", f"-{month:02d}", f"-{day:02d}", f"T{hour:02d}")
    return "".join(words[: len(CUTS) - list(CUTS).index(cut)])


def _split(number: int, cut: str) -> tuple[int, int, int, int]:
    """Return year, month, day and hour at which a part begins."""
    if cut == "year":
        return 1970 + number, 1, 1, 0
    if cut == "month":
        year, month = divmod(number, _MONTHS)
        return 1970 + year, month + 1, 1, 0
    days, hour = divmod(number, _HOURS) if cut == "hour" else (number, 0)
    begun = date.fromordinal(days + _EPOCH)
    return begun.year, begun.month, begun.day, hour


def _count_parts(day: date, hour: int, cut: str) -> int:
    """Return the part of a time."""
    if cut == "year":
        return day.year - 1970
    if cut == "month":
        return (day.year - 1970) * _MONTHS + day.month - 1
    days = day.toordinal() - _EPOCH
    return days * _HOURS + hour if cut == "hour" else days
