"""Chooses which rows of a unit count while they pass by, in order, on their way out of the engine.

The law is the one of `rank_law`, and so is what is chosen. There the engine ranks all rows in
windows, and counts those of each unit in another one, which takes longer than to sort them. Here it
only sorts: rows come unit by unit, and numpy finds where each begins and how many it has. Rows of
one unit are together in memory until its last one is seen. A unit with more than `_MOST_TOGETHER`
is left out, and asked for afterwards in the engine's own words (`bounded`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.questions.bounded_rows import Bounds, bounded, keep_owned
from sordino.questions.rank_law import Draw
from sordino.sources.number_stream import Column, find_format, join, read_ahead, read_columns

_NARROW, _WHOLE, _GROUP = "I", "l", "I"
"""How units of 32 bits, units of 64, and places of groups travel (`find_format`)."""

_MOST_TOGETHER = 1 << 20
"""So many rows of one unit are kept in memory."""

_NARROW_UNIT = f"unit >= 0 AND unit < {1 << 32}"
"""Whether a unit fits 32 bits, and so is sorted in less time."""


@final
@dataclass(frozen=True)
class SortedChoice:
    """How the rows that count are chosen from rows in order; `prepare_choice` makes one.

    Parameters
    ----------
    known : str
        The rows that have a unit, as a SELECT in parentheses.
    bounds : Bounds
        How many of them count.
    draw : Draw
        What decides. Its units are whole numbers.
    number : str
        How x travels, by `find_format`.
    """

    known: str = field(repr=False)
    bounds: Bounds
    draw: Draw
    number: str

    @property
    def most(self) -> int:
        """At most so many rows of an owner count."""
        # Where every row is a unit, nothing is chosen (`prepare_choice`).
        return self.bounds.rows or 1

    @property
    def formats(self) -> dict[str, str]:
        """The columns of what is chosen, and how they travel: x as c0, in groups grp as c1."""
        return {"c0": self.number} | ({"c1": _GROUP} if self.bounds.grouped else {})

    def list_queries(self) -> list[str]:
        """Return every query that may be asked, as it is rehearsed."""
        return [self._sort_narrow(), self._sort_whole(), self._write_some([0])]

    def choose(self, ask: Callable[[str], object]) -> Generator[list[Column]]:
        """Yield the rows that count, piece by piece.

        Parameters
        ----------
        ask : callable
            Returns the stream of a query over the rows.
        """
        passing = _Passing(self)
        with closing(self._read_sorted(ask)) as made, closing(read_ahead(made)) as pieces:
            yield from passing.choose(pieces)
        if passing.left_out:
            some = self._write_some(passing.left_out)
            yield from read_columns(ask(some), list(self.formats.values()))

    def _read_sorted(self, ask: Callable[[str], object]) -> Generator[list[Column]]:
        """Yield rows in order: with units of 32 bits if all of these fit, or else of 64."""
        rest = [*([_GROUP] if self.bounds.grouped else []), self.number]
        # Another sort takes longer, and so much is lost only where some unit needs it.
        with closing(read_columns(ask(self._sort_narrow()), [_NARROW, *rest])) as pieces:
            # A piece may be empty, and says nothing of the first unit then.
            first = next((piece for piece in pieces if len(piece[0].values)), None)
            if first is None:
                return
            # A unit that does not fit is NULL here, and comes first.
            if _has_all(first[0]):
                yield from chain([first], pieces)
                return
        yield from read_columns(ask(self._sort_whole()), [_WHOLE, *rest])

    def _sort_narrow(self) -> str:
        # If none fits, which is usual for hashes, rows that are all equal are sorted in no time.
        return self._sort(
            f"CAST(CASE WHEN {_NARROW_UNIT} THEN unit END AS UINTEGER)",
            f"CASE WHEN {_NARROW_UNIT} THEN x END",
        )

    def _sort_whole(self) -> str:
        return self._sort("CAST(unit AS BIGINT)", "x")

    def _sort(self, unit: str, number: str) -> str:
        """Return the query for rows in order, with units and numbers in the words of the engine."""
        group = "grp, " if self.bounds.grouped else ""
        cast = "CAST(grp AS UINTEGER) AS grp, " if self.bounds.grouped else ""
        return (
            f"SELECT owner, {group}x"
            f" FROM (SELECT {unit} AS owner, {cast}{number} AS x FROM {self.known} AS known)"
            f" ORDER BY owner NULLS FIRST, {group}x NULLS FIRST"
        )

    def _write_some(self, units: Sequence[int]) -> str:
        """Return the query for the rows that count of some units."""
        listed = ", ".join(map(str, units))
        group = "" if not self.bounds.grouped else ", CAST(grp AS UINTEGER) AS c1"
        some = f"(SELECT * FROM {self.known} AS known WHERE unit IN ({listed}))"
        return f"SELECT x AS c0{group} FROM {bounded(some, self.bounds, self.draw)} AS kept"


def prepare_choice(kept: str, bounds: Bounds, draw: Draw, *, number: str) -> SortedChoice | None:
    """Return how rows are chosen while they pass by.

    None if they are chosen in the engine's own words.

    Which of the two it is follows from public things alone: the kind of source and declared types.

    Parameters
    ----------
    kept, bounds, draw
        As in `bounded`, which chooses the same.
    number : str
        The declared type of x.
    """
    form = find_format(number)
    # Every row is a unit, or no numbers of units are there, or no numbers that travel.
    if bounds.rows is None or not draw.sorts_at_once or form is None:
        return None
    return SortedChoice(keep_owned(kept, bounds), bounds, draw, form)


class _Rows(NamedTuple):
    """Rows in order: whole numbers of units, and of groups where there are any, and x."""

    unit: NDArray[np.int64]
    group: NDArray[np.int64] | None
    x: Column

    def cut(self, start: int, stop: int) -> _Rows:
        group = None if self.group is None else self.group[start:stop]
        return _Rows(self.unit[start:stop], group, self.x.cut(start, stop))


def _join_rows(pieces: Sequence[_Rows]) -> _Rows:
    if len(pieces) == 1:
        return pieces[0]
    groups = [one.group for one in pieces if one.group is not None]
    return _Rows(
        np.concatenate([one.unit for one in pieces]),
        np.concatenate(groups) if groups else None,
        join([one.x for one in pieces]),
    )


class _Passing:
    """One passage of rows in order."""

    def __init__(self, how: SortedChoice) -> None:
        self._how = how
        # The rows of the last unit, of which more may come.
        self._open: list[_Rows] = []
        self._opened = 0
        self.left_out: list[int] = []

    def choose(self, pieces: Iterator[list[Column]]) -> Iterator[list[Column]]:
        """Yield the rows that count.

        What is left to be asked for stands in `left_out` afterwards.
        """
        newest = -(1 << 63)
        for unit, *group, x in pieces:
            rows = _Rows(unit.values, group[0].values if group else None, x)
            if not len(rows.unit):
                continue
            # A unit that came twice would have more rows that count, so this is not left to the
            # engine alone.
            _refuse_disorder(
                not _has_all(unit), np.any(rows.unit[1:] < rows.unit[:-1]), rows.unit[0] < newest
            )
            newest = rows.unit[-1]
            rows = self._leave_out(rows)
            if not len(rows.unit):
                continue
            last = rows.unit[-1]
            is_open = not self._open or self._open[0].unit[0] == last
            # Nothing but more rows of the unit that is open, or the first rows of one.
            if is_open and rows.unit[0] == last:
                self._keep(rows)
                continue
            start = int(np.searchsorted(rows.unit, last))
            # What comes before the last unit has all of its rows here.
            whole = _join_rows([*self._open, rows.cut(0, start)])
            self._open, self._opened = [], 0
            self._keep(rows.cut(start, len(rows.unit)))
            yield self._pick(whole)
        if self._open:
            yield self._pick(_join_rows(self._open))

    def _leave_out(self, rows: _Rows) -> _Rows:
        """Return the rows without those of units that are asked for afterwards."""
        if self.left_out and rows.unit[0] == self.left_out[-1]:
            rows = rows.cut(
                int(np.searchsorted(rows.unit, rows.unit[0], side="right")), len(rows.unit)
            )
        return rows

    def _keep(self, rows: _Rows) -> None:
        """Keep rows of one unit until its last one is seen, or note that it has too many."""
        self._open.append(rows)
        self._opened += len(rows.unit)
        if self._opened > _MOST_TOGETHER:
            self.left_out.append(int(rows.unit[0]))
            self._open, self._opened = [], 0

    def _pick(self, rows: _Rows) -> list[Column]:
        """Return the rows that count of units of which all rows are here."""
        bounds, draw, most = self._how.bounds, self._how.draw, self._how.most
        starts = _find_starts(rows.unit)
        keys = draw.find_keys(rows.unit[starts].astype(np.int64))
        if not bounds.in_each or rows.group is None:
            sizes = _find_sizes(starts, len(rows.unit))
            offsets = draw.find_offsets(keys)
            chosen = choose_places(sizes, most, offsets)
        else:
            first = np.zeros(len(rows.unit), bool)
            first[starts] = True
            first[1:] |= rows.group[1:] != rows.group[:-1]
            owners = np.flatnonzero(first)
            units = np.searchsorted(owners, starts)
            many = _find_sizes(units, len(owners))
            sizes = _find_sizes(owners, len(rows.unit))
            groups = rows.group[owners].astype(np.int64)
            descends = groups[1:] <= groups[:-1]
            descends[units[1:] - 1] = False
            _refuse_disorder(np.any(descends))
            offsets = draw.find_offsets(np.repeat(keys, many), groups)
            chosen = choose_places(sizes, most, offsets)
            if bounds.chosen_groups is not None:
                counts = choose_places(many, bounds.chosen_groups, draw.find_offsets(keys))
                chosen &= np.repeat(counts, sizes)
        group = [] if rows.group is None else [Column(rows.group.compress(chosen))]
        return [rows.x.pick(chosen), *group]


def _has_all(column: Column) -> bool:
    """Tell whether nothing is missing in a column."""
    return column.known is None or bool(np.all(column.known))


def _refuse_disorder(*found: bool | np.bool_) -> None:
    """Fail if anything was found that rows in order do not have."""
    if any(found):
        raise AssertionError("rows that are put in order came in another one")


def _find_starts(unit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each unit begins."""
    return np.concatenate([[0], np.flatnonzero(unit[1:] != unit[:-1]) + 1])


def _find_sizes(starts: NDArray[np.int64], stop: int) -> NDArray[np.int64]:
    return np.diff(starts, append=stop)


def choose_places(
    sizes: NDArray[np.int64], most: int, offsets: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return, for the ranks of owners one after the other, which of them count by the law of ranks.

    Parameters
    ----------
    sizes : array of int64, shape (owners,)
        How much each owner has.
    most : int
        At most so much of it counts; at least 1.
    offsets : array of int64, shape (owners,)
        What shifts the ranks of each, not negative.

    Returns
    -------
    array of bool, shape (sum of sizes,)
    """
    crowded = sizes > most
    chosen = np.repeat(~crowded, sizes)
    if not crowded.any():
        return chosen
    many, starts = sizes[crowded], (np.cumsum(sizes) - sizes)[crowded]
    shift = offsets[crowded] % many
    # Rank i counts if i * most + shift reaches a multiple of `many` that i - 1 does not. So the
    # ranks that count are the multiples of `many`, less the shift, divided by `most` and rounded
    # up. The first one is 0 if the shift is below `most`, or else the one of `many`
    # (docs/proofs/numbers.md, 1).
    reached = np.where(shift < most, -shift, many - shift) + (most - 1)
    if most <= len(many):
        for _ in range(most):
            chosen[starts + reached // most] = True
            reached += many
    else:
        # Few owners with many each: the same, owner by owner.
        times = np.arange(most)
        for start, one, size in zip(starts.tolist(), reached.tolist(), many.tolist(), strict=True):
            chosen[start + (one + times * size) // most] = True
    return chosen
