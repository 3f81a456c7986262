"""Labels that are too many to write down: of a range, and of several columns together.

A label of several columns is a tuple, which is known by its place and never by a joined text. The
place of a tuple is a whole number, made of the places of its parts in what is listed for each
(mixed radix). Different tuples have different places, whatever separators their texts hold:
docs/proofs/tuples.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, final, overload

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import is_unicode, shown, text
from sordino.errors import InvalidParameter
from sordino.sources.sql.sql_templates import SqlTemplates

LARGEST_PLACE = 1 << 52
"""A product of lists has at most so many tuples; then every partial sum fits 64 bits."""
DENSE = 1 << 20
"""Of at most so many tuples every count is kept, also those that are 0."""

MOST_CELLS = 10**7
"""A histogram counts at most so many labels that nobody writes down one by one."""


@final
@dataclass(frozen=True)
class Numbered(Sequence[str]):
    """The labels of a range, each made when it is asked for.

    They are the whole numbers from `start` on, or what `name` calls their positions.
    """

    start: int
    size: int
    name: Callable[[int], str] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, position: int) -> str: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[str, ...]: ...
    def __getitem__(self, position: int | slice) -> str | tuple[str, ...]:
        if isinstance(position, slice):
            return tuple(self[place] for place in range(*position.indices(self.size)))
        place = int(position) + (self.size if position < 0 else 0)
        if not 0 <= place < self.size:
            raise IndexError(position)
        if self.name is None:
            return str(self.start + place)
        # The function is the caller's: what it returns is checked each time.
        label = self.name(place)
        if not is_unicode(label) or "\0" in label:
            raise InvalidParameter(
                f"Domain.indexed.label must return Unicode text without NUL for {place}; got "
                f"{shown(label)}."
            )
        return label


@final
@dataclass(frozen=True)
class Tuples(Sequence[tuple[str, ...]]):
    """The tuples of listed parts, each made when it is asked for; sorted part by part.

    Parameters
    ----------
    parts : tuple of sequence of str
        What is listed for each column, sorted, or a range.
    places : tuple of int or None
        Which places of the product are listed, rising; None: all of them.
    """

    parts: tuple[Sequence[str], ...] = field(repr=False)
    places: tuple[int, ...] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        every = math.prod(len(part) for part in self.parts)
        return every if self.places is None else len(self.places)

    @overload
    def __getitem__(self, position: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, position: slice) -> tuple[tuple[str, ...], ...]: ...
    def __getitem__(self, position: int | slice) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        if isinstance(position, slice):
            return tuple(self[place] for place in range(*position.indices(len(self))))
        place = int(position) + (len(self) if position < 0 else 0)
        if not 0 <= place < len(self):
            raise IndexError(position)
        rest = place if self.places is None else self.places[place]
        found = []
        for part in reversed(self.parts):
            rest, own = divmod(rest, len(part))
            found.append(part[own])
        return tuple(reversed(found))

    @property
    def sent(self) -> list[str]:
        """The texts that an engine is sent: those of listed parts, then the places of a list."""
        return [*send_parts(self.parts), *map(str, self.places or ())]

    def order(self, parts: Iterable[NDArray[np.int64] | None]) -> NDArray[np.int64] | None:
        """Return the places in the order in which parts were given; None if that is their own."""
        orders = [*parts]
        if self.places is not None or all(one is None for one in orders):
            return None
        found = np.zeros(1, dtype=np.int64)
        for part, order in zip(self.parts, orders, strict=True):
            own = np.arange(len(part)) if order is None else order
            found = np.add.outer(found * len(part), own).reshape(-1)
        return found


def list_tuples(given: Iterable[Any], columns: int) -> tuple[Tuples, NDArray[np.int64] | None]:
    """Return the tuples of a list, and the order in which they were given.

    What lacks a part is no tuple; what stands there twice counts once.

    Raises
    ------
    InvalidParameter
        If none is left, or one has another number of parts.
    """
    known: dict[tuple[str, ...], None] = {}
    for one in given:
        if len(one) != columns:
            raise InvalidParameter(
                f"Labels of {columns} columns must be tuples of {columns} texts; got {shown(one)}."
            )
        if None not in one:
            known[tuple(one)] = None
    if not known:
        raise InvalidParameter("A list of tuples must have one or more without a missing part.")
    parts = tuple(tuple(sorted({one[place] for one in known})) for place in range(columns))
    check_product(parts)
    places = {one: _number_tuple(parts, one) for one in known}
    ranks = {place: rank for rank, place in enumerate(sorted(places.values()))}
    order = np.array([ranks[places[one]] for one in known], dtype=np.int64)
    every = Tuples(parts)
    found = every if len(known) == len(every) else Tuples(parts, tuple(ranks))
    return found, None if np.all(np.diff(order) > 0) else order


def _number_tuple(parts: Sequence[Sequence[str]], one: Sequence[str]) -> int:
    """Return the place of a tuple in the combinations of sorted parts that have its texts."""
    place = 0
    for part, label in zip(parts, one, strict=True):
        place = place * len(part) + bisect_left(part, label)
    return place


def check_product(parts: Sequence[Sequence[str]]) -> None:
    """Refuse more combinations than a place can number."""
    if (size := math.prod(len(part) for part in parts)) > LARGEST_PLACE:
        sizes = " x ".join(f"{len(part):,}" for part in parts)
        raise InvalidParameter(
            f"Labels of several columns must have at most 2^52 combinations; got {sizes} = "
            f"{size:,}. Leave a column away, or list the tuples."
        )


def name_columns(name: str, given: Any) -> tuple[str, ...]:
    """Return the names of one column of labels, or of several, in their order.

    Raises
    ------
    InvalidParameter
        If they are no texts, none, or one stands there twice.
    """
    if not isinstance(given, tuple | list):
        return (given,)
    if not given:
        raise InvalidParameter(f"{name} must be the name of a column, or a list of some; got none.")
    names = tuple(text(one, name) for one in given)
    for one in names:
        if names.count(one) > 1:
            raise InvalidParameter(f"{name} must name each column once; got {one!r} twice.")
    return names


def send_parts(parts: Iterable[Sequence[str] | None]) -> list[str]:
    """Return the texts of listed parts that an engine is sent; of a range it needs none."""
    return [*chain(*(one for one in parts if one is not None and not isinstance(one, Numbered)))]


def write_places(
    kept: str,
    tuples: Tuples,
    words: SqlTemplates,
    *,
    carried: Sequence[str],
    named: str,
    first: int = 0,
) -> str:
    """Return rows with the place of their tuple, in parentheses; those without one are dropped.

    Whether a row has a tuple is a rule of that row alone.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses with the columns item0, item1 and so on, as texts or NULL.
    tuples : Tuples
        What is listed.
    words : SqlTemplates
        The words of the engine.
    carried : sequence of str
        Other columns that are wanted.
    named : str
        What the place is called.
    first : int
        Where its texts begin among those that are sent.
    """
    joined, places, at = _join_listed(kept, tuples.parts, words, first)
    place = places[0]
    for number, part in enumerate(tuples.parts[1:], start=1):
        place = f"({place} * {len(part)} + {places[number]})"
    more = "".join(f", {name}" for name in carried)
    found = f"(SELECT {place} AS place{more} FROM {joined})"
    if tuples.places is None:
        # Where all parts are listed no row is left without a place.
        numbered = any(isinstance(part, Numbered) for part in tuples.parts)
        inside = " WHERE place IS NOT NULL" if numbered else ""
        return f"(SELECT place AS {named}{more} FROM {found} AS found{inside})"
    # Places are compared as texts, which never fails; equal numbers have one text.
    listed = (
        f"(SELECT CAST(position AS BIGINT) - {at} AS listed, label FROM labels"
        f" WHERE position >= {at})"
    )
    return (
        f"(SELECT listed AS {named}{more} FROM {found} AS found JOIN {listed} AS ranks"
        f" ON {words.shown.format('place')} = ranks.label)"
    )


def write_listed(
    kept: str, parts: Sequence[Sequence[str] | None], words: SqlTemplates, *, carried: Sequence[str]
) -> str:
    """Return the rows whose listed parts are listed, in parentheses; all texts as they are.

    Whether a row is among them is a rule of that row alone.

    Parameters
    ----------
    kept, words, carried
        As in `write_places`.
    parts : sequence of (sequence of str or None)
        What is listed for each column; None: nobody listed its labels.
    """
    joined, places, _ = _join_listed(kept, parts, words, 0)
    names = [*(f"item{number}" for number in range(len(parts))), *carried]
    taken = ", ".join(f"kept.{name}" for name in names)
    inside = " AND ".join(f"{place} IS NOT NULL" for place in places.values()) or "TRUE"
    return f"(SELECT {taken} FROM {joined} WHERE {inside})"


def join_found(kept: str, columns: int, *, first: int) -> str:
    """Return rows with their group `grp`, in parentheses; those of none that was found are dropped.

    Parameters
    ----------
    kept : str
        As in `write_places`.
    columns : int
        How many parts a label has. Those of each label that was found are sent one behind the
        other: so nothing is joined in a text, and how many there are decides nothing.
    first : int
        Where they begin among the texts that are sent.
    """
    at = f"CAST(position AS BIGINT) - {first}"
    parts = ", ".join(
        f"max(CASE WHEN ({at}) % {columns} = {number} THEN label END) AS label{number}"
        for number in range(columns)
    )
    # Of one label each part stands in one row, so its largest text is its only one.
    found = (
        f"SELECT {at} - ({at}) % {columns} AS start, {parts} FROM labels"
        f" WHERE position >= {first} GROUP BY {at} - ({at}) % {columns}"
    )
    alike = " AND ".join(f"kept.item{number} = found.label{number}" for number in range(columns))
    return (
        f"(SELECT kept.*, CAST(start / {columns} AS BIGINT) AS grp"
        f" FROM {kept} AS kept JOIN ({found}) AS found ON {alike})"
    )


def _join_listed(
    kept: str, parts: Sequence[Sequence[str] | None], words: SqlTemplates, first: int
) -> tuple[str, dict[int, str], int]:
    """Return rows joined with the lists of their parts, and the place of each part in its list.

    With them where the texts end that it has used of those that are sent. A place is NULL beyond
    a range; rows with a text that is in no list are dropped.
    """
    joins, places, at = "", {}, first
    ranges = {}
    for number, part in enumerate(parts):
        if part is None:
            continue
        if isinstance(part, Numbered):
            ranges[number] = f"{words.whole.format(f'item{number}')} - ({part.start})"
            places[number] = _cast_place(f"range{number}", len(part))
            continue
        end = at + len(part)
        # 64 bits before anything is multiplied: in fewer, one row could end the query for all.
        joins += (
            f" JOIN (SELECT CAST(position AS BIGINT) - {at} AS place, label FROM labels"
            f" WHERE position >= {at} AND position < {end}) AS part{number}"
            f" ON kept.item{number} = part{number}.label"
        )
        places[number] = f"part{number}.place"
        at = end
    if ranges:
        # Read once: the number in a text is written out as often as it is named.
        made = ", ".join(f"{sql} AS range{number}" for number, sql in ranges.items())
        kept = f"(SELECT kept.*, {made} FROM {kept} AS kept)"
    return f"{kept} AS kept{joins}", places, at


def _cast_place(value: str, size: int) -> str:
    """Return a place in a range in 64 bits; NULL beyond it, whatever the number is."""
    return f"CASE WHEN {value} >= 0 AND {value} < {size} THEN CAST({value} AS BIGINT) END"
