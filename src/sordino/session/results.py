"""What is released about a table: rows with labels, and each release with its mechanisms and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from sordino.releases import Release


@final
@dataclass(frozen=True, kw_only=True)
class TopItem:
    """One row of a private top-k.

    Attributes
    ----------
    rank : int
        1 for the first.
    item : str
        The label.
    estimate : float
        Point estimate of the count from the gaps and the fresh measurement; unbiased before selection, not
        after it.
    low, high : float
        95 % interval of the count from the fresh measurement alone; valid after selection.
    gap : float or None
        Lead over the next row, noise of the selection included; in the last row the margin over the best item
        left out (None if none is), or the lead over the threshold if that ended the list.
    """

    rank: int
    item: str
    estimate: float
    low: float
    high: float
    gap: float | None


@final
@dataclass(frozen=True, kw_only=True)
class CountedItem:
    """One row of a private histogram: a label, its unbiased noisy count and a 95 % interval."""

    item: str
    estimate: float
    low: float
    high: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopItems(Release):
    """A private top-k of a table, best first.

    Attributes
    ----------
    rows : tuple of TopItem, length k; at most k if a threshold was given
    crossed : bool or None
        Whether the threshold ended the list; None if there was none.
    """

    rows: tuple[TopItem, ...]
    crossed: bool | None = None

    def __iter__(self) -> Iterator[TopItem]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.rows)


@final
@dataclass(frozen=True, kw_only=True)
class AboveItem:
    """One item that was found above the threshold.

    Attributes
    ----------
    item : str
        The label.
    gap : float
        How far its noisy count lay above the noisy threshold: raw, noise included.
    branch : int
        Which test found it, counted from 0: with `adaptive`, test 0 is the cheapest and finds what lies far
        above.
    estimate : float
        Point estimate of the count; unbiased before selection, too high after it.
    low : float or None
        95 % lower bound of the count that is valid after selection: from the fresh measurement, or from the
        gap if nothing was measured. None if the gap bounds nothing, as with `adaptive`.
    high : float or None
        With `low` a 95 % interval from the fresh measurement; None if nothing was measured.
    """

    item: str
    gap: float
    branch: int
    estimate: float
    low: float | None
    high: float | None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AboveItems(Release):
    """The items of a public domain that were found above a threshold, in the order of the domain.

    Attributes
    ----------
    rows : tuple of AboveItem
    asked : int
        How many items were asked, from the start of the domain.
    complete : bool
        Whether that is all of them; if not, enough was found before.
    """

    rows: tuple[AboveItem, ...]
    asked: int
    complete: bool

    def __iter__(self) -> Iterator[AboveItem]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many were found."""
        return len(self.rows)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Histogram(Release):
    """Private counts of every item of a domain, in the order of the domain.

    Attributes
    ----------
    rows : tuple of CountedItem, one for each label
    standard_error : float
        Standard deviation of the noise of each count; within `bounds` the largest over the range.
    output_range : tuple of float, or None
        With `bounds`, the smallest and the largest count that could have been released: a little wider.
    """

    rows: tuple[CountedItem, ...]
    standard_error: float
    output_range: tuple[float, float] | None = None

    def __iter__(self) -> Iterator[CountedItem]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the size of the domain."""
        return len(self.rows)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Count(Release):
    """One private count of a table: unbiased, with a 95 % interval.

    Attributes
    ----------
    estimate : float
    low, high : float
        A 95 % interval of the count; with `bounds`, of the count moved into them.
    standard_error : float
        Standard deviation of the noise; within `bounds` the largest over the range.
    output_range : tuple of float, or None
        With `bounds`, the smallest and the largest count that could have been released: a little wider.
    """

    estimate: float
    low: float
    high: float
    standard_error: float
    output_range: tuple[float, float] | None = None
