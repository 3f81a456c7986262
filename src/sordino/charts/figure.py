"""What a picture shows: a few rows of released figures, each with its label and its interval."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from textwrap import wrap
from typing import Any, Literal, final
from unicodedata import east_asian_width

from sordino.population import say_label
from sordino.record import escape_controls, find_sides

Form = Literal["whiskers", "bars", "curve", "trend", "names", "spread", "steps", "heat"]
"""Dots or bars with whiskers, a curve of quantiles, a line over time, names alone, how often values
occur, stairs, a table with colors."""

MOST_MARKS = 30
"""So many rows are drawn: more cannot be told apart on a phone. The table of a report has the
others."""
MOST_HEADS = 16
"""A table with more columns, or more lines than `MOST_MARKS`, is drawn as a list."""
_HEAD_LETTERS, _LINE_LETTERS = 10, 16
_MOST_DATES = 400
"""So many points a line over time has: each day of a year."""
_LEAST_DATES = 3
MOST_LETTERS = 20
"""Of a label in a picture; the table has all of it. A wide letter, as of Chinese, counts as two."""
_MOST_TITLE = 40
_MOST_NOTE, _NOTE_LINES = 60, 4
# What draws divides by differences and multiplies by widths: neither may leave the floats.
_MOST_SIZE = 1e150
_BINS = 20

# Where a row has its label, and where its figure: the first of these names that it has.
_LABELS = ("item", "part", "name", "label", "labels", "row", "indices", "index")
_VALUES = ("estimate", "value", "values", "estimates", "gap", "gaps", "p_value")
# Kinds of releases whose figures are lengths from zero, and complete: there bars say no more than
# is true.
_BARS = frozenset({"histogram", "Histogram", "UnlistedCounts"})
# A year, a month, or a day, of times that people keep tables of: other numbers are codes.
_DATE = re.compile(r"(?:19|20)[0-9]{2}(-[0-9]{2}){0,2}", re.ASCII)


@final
@dataclass(frozen=True, kw_only=True)
class Mark:
    """One row of a picture.

    Attributes
    ----------
    label : str
        Short, printable, and like no other label of the same picture.
    value : float or None
        The figure; None where a row has a name alone.
    low, high : float or None
        Its interval; None where that end is not bounded, or not known.
    at : float
        Of a curve: which quantile. Of stairs: which step. Of values: where the bar begins.
    is_sum : bool
        Of a table: whether it is a margin, or the total.
    least : float or None
        Over time: what no later figure lies below.
    """

    label: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    at: float = 0.0
    is_sum: bool = False
    least: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Figure:
    """What a picture shows.

    Attributes
    ----------
    form : str
        How it is drawn.
    marks : tuple of Mark
        At most `MOST_MARKS` of them; of a line over time as many as a year has days.
    total : int
        How many rows there are, drawn or not.
    value_name, label_name : str
        What stands at the axes.
    line : float or None
        A public number to compare with: a threshold, or the limit of an account.
    days : tuple of str
        Over time: the day of each mark, "YYYY-MM-DD", of a month or a year its first one.
    room, line_room : int or None
        How many narrow letters the longest label takes, where that is not the one that is drawn; of
        a table the longest head, and the longest name of a line.
    notes : tuple of str
        What stands above the picture: which rows count. A page says it beside the picture.
    lines, heads : tuple of str
        Of a table: what its lines and its columns are called; it has a mark for each of each.

    Examples
    --------
    >>> from sordino.charts import read_figure
    >>> row = {"item": "tea", "estimate": 118.0, "low": 103.0, "high": 131.0}
    >>> figure = read_figure("top", [row])
    >>> figure.form, figure.marks[0].label, figure.total
    ('whiskers', 'tea', 1)
    """

    form: Form
    marks: tuple[Mark, ...]
    total: int
    value_name: str = ""
    label_name: str = ""
    line: float | None = None
    days: tuple[str, ...] = ()
    room: int | None = None
    line_room: int | None = None
    notes: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()

    @property
    def strongest(self) -> float:
        """Of a table: the largest cell, which has the strongest color; margins have none."""
        cells = (mark.value for mark in self.marks if not mark.is_sum)
        return max((value for value in cells if value is not None), default=0.0)

    def say_colors(self) -> str:
        """Return what the colors of a table mean."""
        most = f"{self.strongest:,.0f} {self.value_name}".strip()
        return (
            "The larger a cell, the stronger its color: from none at 0 to the strongest at "
            f"{most}. Sums are bold and have no color."
        )


def read_figure(
    kind: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    value_name: str = "",
    label_name: str = "",
    line: float | None = None,
    notes: Sequence[str] = (),
) -> Figure:
    """Return what is drawn of the rows of a release.

    Parameters
    ----------
    kind : str
        What the release calls itself: "top", or the name of its class.
    rows : sequence of mapping of str to object
        As JSON has them, or as `list_rows` returns them. Anybody may have written them.
    value_name, label_name : str
        What stands at the axes; by default the names that the rows have.
    line : float, optional
        A public number to compare with, such as a threshold.
    notes : sequence of str, optional
        What stands above the picture.
    """
    found = _find_name(rows, _VALUES) or _find_row_number(rows)
    table = None if found is None else _read_table(rows, found)
    if table is not None:
        table = replace(table, value_name=shorten(value_name, _MOST_TITLE))
        # A page says it below.
        return replace(table, notes=_fold_label([*notes, table.say_colors()] if notes else []))
    label = _find_name(rows, _LABELS)
    many = len(rows) > MOST_MARKS and label is None and found is not None
    value_name = shorten(value_name or _say_name(found), _MOST_TITLE)
    label_name = shorten(label_name or label or "", _MOST_TITLE)
    if many and found is not None:
        numbers = [number for row in rows if (number := as_drawn(row.get(found))) is not None]
        return replace(_count_values(numbers, value_name), notes=_fold_label(notes))
    days: tuple[str, ...] = ()
    if _is_curve(rows):
        form: Form = "curve"
    elif found is None:
        form = "names"
    elif days := _list_days(rows, label):
        form = "trend"
    else:
        form = "bars" if kind in _BARS else "whiskers"
    drawn = rows[: _MOST_DATES if form == "trend" else MOST_MARKS]
    labels = shorten_labels([_name_row(row, label, place, kind) for place, row in enumerate(drawn)])
    marks = tuple(
        _read_mark(row, found, text, form) for row, text in zip(drawn, labels, strict=True)
    )
    return Figure(
        form=form,
        marks=marks,
        total=len(rows),
        days=days[: len(marks)],
        line=as_drawn(line),
        value_name=value_name,
        label_name=label_name,
        notes=_fold_label(notes),
    )


def find_drawn_ends(row: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Return between which ends the figure of a row lies, of all rows as they are.

    None where none is known.

    Its `low` and `high` may be about something else: numbers that were moved into a clip, or some
    rows of each unit. Then there are other ends for the figure itself, and what is not known of
    them is not drawn.
    """
    low, high = as_number(row.get("low")), as_number(row.get("high"))
    if "true_low" in row or "true_high" in row:
        true_low, true_high = as_number(row.get("true_low")), as_number(row.get("true_high"))
        # Where both are known they are those of the interval, cut at what a count may be.
        return (
            (low, high) if true_low is not None and true_high is not None else (true_low, true_high)
        )
    return (
        (None, None)
        if row.get("clip") is not None or row.get("clip_high") is not None
        else (low, high)
    )


def _fold_label(notes: Sequence[str]) -> tuple[str, ...]:
    """Return sentences as lines that fit above a picture."""
    return tuple(
        line for note in notes for line in wrap(escape_controls(note), _MOST_NOTE)[:_NOTE_LINES]
    )


def as_number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    # A whole number of JSON may be longer than any float.
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def as_drawn(value: Any) -> float | None:
    """Return a number that can be drawn: none beyond all reason, and 0 for what is next to it."""
    number = as_number(value)
    if number is None or abs(number) > _MOST_SIZE:
        return None
    return number if abs(number) * _MOST_SIZE > 1 else 0.0


def measure_text(text: str) -> int:
    """Return how many narrow letters a text is as wide as."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shorten(text: str, most: int) -> str:
    """Return a text that can be printed, and is no wider than so many narrow letters."""
    # Of a very long one only the beginning is looked at.
    printed = escape_controls(text[: 4 * most])
    if measure_text(printed) <= most:
        return printed
    while measure_text(printed) >= most:
        printed = printed[:-1]
    return f"{printed}…"


def shorten_labels(labels: Sequence[str], most: int = MOST_LETTERS) -> list[str]:
    """Return labels that can be printed and fit beside a picture; no two are the same."""
    short: list[str] = []
    for label in labels:
        text = shorten(label, most)
        number, unique = 1, text
        while unique in short:
            number += 1
            unique = f"{text} ({number})"
        short.append(unique)
    return short


def _find_name(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str | None:
    """Return the first of some names under which a row says something."""
    return next((name for name in names if any(row.get(name) is not None for row in rows)), None)


def _find_row_number(rows: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the first name under which every row has a number.

    Some releases call their figure otherwise.
    """
    names = [name for name in (rows[0] if rows else ()) if name not in (*_LABELS, "rank", "q")]
    return next(
        (name for name in names if all(as_number(row.get(name)) is not None for row in rows)), None
    )


def _say_name(found: str | None) -> str:
    lead = "lead over the next"
    said = {
        "values": "value",
        "gaps": lead,
        "gap": lead,
        "estimates": "estimate",
        "p_value": "p-value",
    }
    return "" if found is None else said.get(found, found)


def _is_curve(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether rows are several quantiles of one column."""
    shares = [as_number(row.get("q")) for row in rows]
    plain = all(share is not None and 0 <= share <= 1 for share in shares) and not any(
        "item" in row for row in rows
    )
    return (
        plain and len(rows) > 1 and all(as_drawn(row.get("estimate")) is not None for row in rows)
    )


def _read_table(rows: Sequence[Mapping[str, Any]], found: str) -> Figure | None:
    """Return a cross table of two columns or more as people draw it; None of what is none."""
    labels = [row.get("parts") for row in rows]
    # Where no label stands for all, there are no margins.
    if not any(isinstance(one, list | tuple) and len(one) > 1 and None in one for one in labels):
        return None
    first = next(one for one in labels if isinstance(one, list | tuple))
    sides = find_sides([""] * len(first), [{**row, "item": row.get("parts")} for row in rows])
    if sides is None:
        return None
    *_, last = sides.labels
    starts = list(dict.fromkeys(label[:-1] for label in sides.rows))
    # Sums stand behind what they are sums of.
    places = [{label: place for place, label in enumerate(side)} for side in sides.labels]
    starts.sort(key=lambda one: [at[part] for at, part in zip(places, one, strict=False)])
    if len(last) > MOST_HEADS or len(starts) > MOST_MARKS:
        return None
    named = [" \N{MIDDLE DOT} ".join(map(sides.show, start)) for start in starts]
    marks = tuple(
        Mark(
            label="",
            value=as_drawn(sides.rows.get((*start, head), {}).get(found)),
            is_sum=None in (*start, head),
        )
        for start in starts
        for head in last
    )
    heads = shorten_labels(list(map(sides.show, last)), _HEAD_LETTERS)
    lines = tuple(shorten_labels(named, _LINE_LETTERS))
    return Figure(form="heat", marks=marks, total=len(marks), lines=lines, heads=tuple(heads))


def _list_days(rows: Sequence[Mapping[str, Any]], label: str | None) -> tuple[str, ...]:
    """Return the days of rows that are one figure of each of some years, months or days.

    Nothing if they are not, or do not follow one another: where several quantiles stand in one
    group, its date comes several times.
    """
    if label is None or len(rows) < _LEAST_DATES or any("rank" in row for row in rows):
        return ()
    dates = [row.get(label) for row in rows]
    texts = [one for one in dates if isinstance(one, str) and _DATE.fullmatch(one)]
    if len(texts) < len(rows) or len(set(map(len, texts))) > 1:
        return ()
    days = [text + "0000-01-01"[len(text) :] for text in texts]
    try:
        known = [date.fromisoformat(day) for day in days]
    except ValueError:
        return ()
    return tuple(days) if all(day < later for day, later in pairwise(known)) else ()


def _name_row(row: Mapping[str, Any], label: str | None, place: int, kind: str) -> str:
    """Return what a row is called."""
    parts = [] if label is None else [str(say_label(row.get(label)))]
    share = as_number(row.get("q"))
    if share is not None:
        parts.append(f"{100 * share:.6g}%")
    own = next((row[name] for name in ("figure", "count") if isinstance(row.get(name), str)), None)
    if not parts and own is not None:
        parts.append(own)
    return ", ".join(parts) or (
        str(place + 1) if place or kind in {"Values", "RandomizedResponse"} else kind
    )


def _read_mark(row: Mapping[str, Any], found: str | None, label: str, form: Form) -> Mark:
    low, high = map(as_drawn, find_drawn_ends(row))
    at = as_number(row.get("q")) if form == "curve" else None
    return Mark(
        label=label,
        value=None if found is None else as_drawn(row.get(found)),
        low=low,
        high=high,
        at=at or 0.0,
        least=as_drawn(row.get("at_least")) if form == "trend" else None,
    )


def _count_values(values: Sequence[float], name: str) -> Figure:
    """Return how often released values lie in each of some equal steps.

    There are too many to draw each.
    """
    least, most = min(values, default=0.0), max(values, default=0.0)
    # Divided before they are subtracted: the difference of two floats may be none.
    width = most / _BINS - least / _BINS or 1.0
    counts = [0] * _BINS
    for value in values:
        counts[min(int(value / width - least / width), _BINS - 1)] += 1
    marks = tuple(
        Mark(
            label=str(place),
            value=float(count),
            at=least + place * width,
            high=least + (place + 1) * width,
        )
        for place, count in enumerate(counts)
    )
    return Figure(
        form="spread", marks=marks, total=len(values), value_name="how many", label_name=name
    )
