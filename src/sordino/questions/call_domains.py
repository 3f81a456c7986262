"""Domains of calls that stand in place of a column, such as `weekday(day)`.

Some calls have few values whatever the rows are, and those of a part of a date are all that lie
between two: both are public by their words alone.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from itertools import islice

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.questions.domain import Domain
from sordino.sources.source import Source

SPAN = re.compile(r"([0-9QW-]{4,10})\.\.([0-9QW-]{4,10})", re.ASCII)
"""The labels from one to another, such as 2024-01..2025-12."""

_DAY = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
_PART = re.compile("([0-9]{4})(?:-(Q|W)?([0-9]{1,2}))?", re.ASCII)
_MOST = 1 << 17


def list_call_domains(source: Source) -> dict[str, Domain]:
    """Return the domains of computed columns all of whose values are public, as they are shown."""
    names = list(source.columns)[len(source.columns) - len(source.calls) :]
    return {
        name: Domain("list", f"all values of {name}", known=column.image)
        for name, column in zip(names, source.calls, strict=True)
        if column.image is not None
    }


def span(text: str) -> Domain:
    """Return the domain of all years, quarters, months, weeks or days from one to another.

    Parameters
    ----------
    text : str
        Both ends, which are in it, as calls write them: 2023..2025, 2024-Q1..2025-Q4,
        2024-01..2025-12, 2024-W01..2025-W52, 2024-01-01..2024-12-31.

    Raises
    ------
    InvalidParameter
        If they are no such ends, or too far apart.

    Examples
    --------
    >>> from sordino.questions.call_domains import span
    >>> span("2024-Q3..2025-Q2").labels
    ('2024-Q3', '2024-Q4', '2025-Q1', '2025-Q2')
    """
    found = SPAN.fullmatch(text)
    ends = () if found is None else (found[1], found[2])
    labels: tuple[str, ...] = ()
    if ends and len({_find_shape(end) for end in ends}) == 1:
        labels = tuple(islice(_list_between(*ends), _MOST))
    if not labels or (labels[0], labels[-1]) != ends:
        raise InvalidParameter(
            "A span of dates must be written as 2023..2025, 2024-Q1..2025-Q4, 2024-01..2025-12, "
            "2024-W01..2025-W52 or 2024-01-01..2024-12-31, the earlier first and at most "
            f"{_MOST:,} of them; got {shown(text)}."
        )
    return Domain("list", text, known=labels)


def _find_shape(end: str) -> str:
    return re.sub("[0-9]", "0", end)


def _list_between(first: str, last: str) -> Iterator[str]:
    """Yield the labels from the first to the last; others, or none, if they are no such labels."""
    if _DAY.fullmatch(first):
        yield from _yield_days(first, last)
        return
    start, end = _PART.fullmatch(first), _PART.fullmatch(last)
    if start is None or end is None:
        return
    kind = start[2] or ("" if start[3] else "Y")
    for year in range(max(1, int(start[1])), int(end[1]) + 1):
        if kind == "Y":
            yield f"{year:04}"
            continue
        most = {"": 12, "Q": 4}.get(kind) or dt.date(year, 12, 28).isocalendar().week
        for part in range(1, most + 1):
            label = f"{year:04}-Q{part}" if kind == "Q" else f"{year:04}-{kind}{part:02}"
            if first <= label <= last:
                yield label


def _yield_days(first: str, last: str) -> Iterator[str]:
    try:
        low, high = dt.date.fromisoformat(first), dt.date.fromisoformat(last)
    except ValueError:
        return
    for place in range((high - low).days + 1):
        yield (low + dt.timedelta(place)).isoformat()
