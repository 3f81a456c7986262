"""What quantiles of a column share: a grid of edges, and plans that follow from how many records.

Claim: none of its own; docs/proofs/quantile.md and docs/proofs/quantile-rule.md say what a release
costs. Floats: the edges, which are public, and what is computed from the edge or bucket that was
found. No count and no cost.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import numpy as np

from sordino.columns.bucket_counts import BucketCounts
from sordino.columns.bucket_grid import BucketGrid
from sordino.constraints import (
    ADJACENCY,
    COUNT,
    CUTS,
    FINITE,
    GROWTH,
    POSITIVE,
    PROPORTION,
    TRUTH,
    Number,
    OrNone,
    shown,
    to_fraction,
)
from sordino.cost import Cost
from sordino.declared import derived, parameter
from sordino.entropy import SYSTEM, Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators.quantiles.quantile_plan import Adjacency, find_step, round_size
from sordino.mechanisms.base import Mechanism
from sordino.scrubbing import scrubbed

# More than so many times what the noise blurs lies between two edges: then the grid is what limits.
_MANY = 4
ReleaseKind = TypeVar("ReleaseKind")
Plan = TypeVar("Plan", bound="ColumnQuantiles[Any]")


class ColumnQuantiles(Mechanism, Generic[ReleaseKind]):
    """What quantiles of a column share: a grid of edges, from public numbers, and neighbors."""

    q: Any = parameter(PROPORTION, "Which quantile.")
    epsilon: Number = parameter(POSITIVE, "Budget of the release.")
    adjacency: Adjacency = parameter(
        ADJACENCY, "What neighbors are. The number of records is private under both."
    )
    lower: Number | None = parameter(
        OrNone(FINITE),
        "Public lower bound; smaller values count as equal to it. None: values have both signs.",
    )
    cap: Number = parameter(
        FINITE,
        "Public; the largest value that is released, and with `lower=None` its negative the "
        "smallest. It can be generous: the steps up to it cost little. In the unit of the "
        "values, as `lower` and `unit`.",
    )
    growth: Number = parameter(
        GROWTH,
        "The factor between one edge and the next. With a size hint about 1 + 2 / size_hint, "
        "at least 1.0005, tells single records apart; finer is no use.",
        default=1.01,
    )
    unit: Number = parameter(
        POSITIVE,
        "The edges are lower + unit (growth^i - 1); near `lower` they lie about unit (growth - "
        "1) apart.",
        default=1.0,
    )
    size_hint: int | None = parameter(
        OrNone(COUNT),
        "About how many records there are, as far as that is public; it never has to be right, "
        "and nothing reads the real number. It chooses directions and how `lower=None` is "
        "searched, and corrects thresholds where edges are crowded.",
        default=None,
    )
    integer: bool = parameter(
        TRUTH,
        "Whether the values are whole numbers, such as ages, counts or cents: then whole "
        "numbers are released. `lower` and the cap must be whole.",
        default=False,
    )
    rows_per_unit: int = parameter(
        COUNT,
        "How many records one unit has at most; it is up to the caller to bound them.",
        default=1,
    )
    cuts: int = parameter(
        CUTS,
        "Into so many parts of one width each step of the grid is cut.",
        default=1,
    )
    grid: BucketGrid = derived("The edges, for `BucketCounts.of`.")
    cost: Cost = derived("What a release spends, exactly; its pure epsilon is at most `epsilon`.")

    @scrubbed
    def release(self, values: Any, *, entropy: Entropy = SYSTEM) -> ReleaseKind:
        """Release what is asked of a column, with fresh noise.

        Parameters
        ----------
        values : array of numbers, shape (n,), or BucketCounts
            Private; or counted before, over `grid`. NaN and what is no number do not count, and
            there may be no values at all. Infinite ones lie beyond the ends of the grid.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        QuantileValue, QuantileValues or QuantileEnds
            Of several quantiles the values do not fall.

        Raises
        ------
        InvalidParameter
            If the values are no one-dimensional list of a numeric type, or counts over another
            grid.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release")
        [released] = self.release_each([values], entropy=entropy)
        return released

    @scrubbed
    def release_each(
        self, columns: Sequence[Any], *, entropy: Entropy = SYSTEM
    ) -> list[ReleaseKind]:
        """Release what `release` does of each of several columns, with noise of its own.

        Parameters
        ----------
        columns : sequence of arrays, or of BucketCounts
            Private, such as those of the groups of a table. How many there are is public.
        entropy : Entropy
            Where the noise comes from.

        Returns
        -------
        list
            One release for each column, in their order.

        Raises
        ------
        InvalidParameter
            As for `release`.
        """
        fresh_entropy(entropy, f"{type(self).__name__}.release_each")
        released: list[ReleaseKind] = []
        # Not all at once: what searches look at would fill the memory.
        for begin in range(0, len(columns), self.grid.together):
            some = columns[begin : begin + self.grid.together]
            # One pass over the records. What is searched from here on are counts in buckets.
            counts = [count_column(values, self.grid, type(self).__name__) for values in some]
            released += self._release_counts(counts, entropy)
        return released

    @abstractmethod
    def _release_counts(
        self, counts: Sequence[BucketCounts], entropy: Entropy
    ) -> list[ReleaseKind]:
        """Release what is asked of each of some columns, which were counted."""

    def for_size(self, records: int) -> ColumnQuantiles[ReleaseKind]:
        """Return what releases this of about so many records, at the same price.

        It is over some of the edges, or the same where the grid was given whole.

        Parameters
        ----------
        records : int
            A noisy number, or a public one.
        """
        return cast("ColumnQuantiles[ReleaseKind]", _choose_plan(self, round_size(records)))

    def choose(self, size: int) -> ColumnQuantiles[ReleaseKind]:  # noqa: ARG002 - others need it
        """Return the same for so many records, a number of few digits."""
        return self

    def value_of(self, place: int, upward: bool | None) -> float:
        """Return the value that is released for what was found.

        Parameters
        ----------
        place : int
            An edge where a search ended, or a bucket that was chosen.
        upward : bool or None
            The direction of the search; None for a bucket.
        """
        if upward is None:
            return middle_of(place, self.grid, self.lower, whole=self.integer)
        value = value_at(place, self.grid, self.lower)
        # Upward enough records lie below the edge: the largest whole number there is one less.
        # Downward enough lie at or above it. An end that was not passed stands for itself.
        passed = 0 <= place < self.grid.size
        return value - 1 if self.integer and upward and passed else value

    def is_limited(self, value: float, records: int, rate: float) -> bool:
        """Tell whether more records than the noise blurs lie between edges beside a value.

        From what was released alone.

        Parameters
        ----------
        value : float
            What was released.
        records : int
            About how many records there are, over values that differ by a factor e.
        rate : float
            Of the noise, in nats a record.
        """
        many, edges = records * rate * find_step(self.growth, self.cuts) > _MANY, self.grid.edges
        place = min(max(int(np.searchsorted(edges, value)), 1), edges.size - 1)
        # Nothing lies between neighboring whole numbers.
        apart = edges.size == 1 or bool(edges[place] - edges[place - 1] > 1)
        return many and (not self.integer or apart)

    def derive(self) -> None:
        """Set the grid.

        Raises
        ------
        InvalidParameter
            If the cap is not above `lower` (0 where there is none), or there are too many edges.
        """
        # Refused here as well as by the grid, in the words of this mechanism.
        low = Fraction(0) if self.lower is None else to_fraction(self.lower)
        if to_fraction(self.cap) <= low:
            lowest = (
                "0, where lower is None" if self.lower is None else f"lower, {shown(self.lower)}"
            )
            raise InvalidParameter(
                f"{type(self).__name__}.cap must be above {lowest}; got {shown(self.cap)}."
            )
        self._set(
            grid=BucketGrid.geometric(
                lower=self.lower,
                cap=self.cap,
                growth=self.growth,
                unit=self.unit,
                whole=self.integer,
                cuts=self.cuts,
            )
        )


def count_column(values: Any, grid: BucketGrid, owner: str) -> BucketCounts:
    """Return the counts of a column, which may have been counted before.

    Raises
    ------
    InvalidParameter
        If the values are no one-dimensional list of a numeric type, or counts over another grid.
    """
    counts = values if isinstance(values, BucketCounts) else BucketCounts.of(values, grid=grid)
    if counts.grid != grid:
        raise InvalidParameter(
            f"{owner}.release needs counts over its own grid, {grid!r}; got counts over "
            f"{counts.grid!r}. Count with BucketCounts.of(values, grid={owner.lower()}.grid)."
        )
    return counts


@scrubbed
def release_by_plan(
    counts: Sequence[BucketCounts],
    plans: Sequence[ColumnQuantiles[ReleaseKind]],
    entropy: Entropy,
) -> list[ReleaseKind]:
    """Release each of several columns by a plan of its own, over some of the edges of the counts.

    Parameters
    ----------
    counts : sequence of BucketCounts
        Private.
    plans : sequence of ColumnQuantiles
        One for each column; a function of what was released.
    entropy : Entropy
    """
    released: dict[int, ReleaseKind] = {}
    for plan, places in group_by_plan(plans):
        some = [counts[place].onto(plan.grid) for place in places]
        released |= zip(places, plan.release_each(some, entropy=entropy), strict=True)
    return [released[place] for place in range(len(counts))]


def group_by_plan(plans: Sequence[Plan]) -> Iterator[tuple[Plan, list[int]]]:
    """Yield each plan with the places of its columns, which are searched together."""
    for plan in {id(one): one for one in plans}.values():
        yield plan, [place for place, one in enumerate(plans) if one is plan]


@lru_cache(maxsize=1024)
def _choose_plan(mechanism: ColumnQuantiles[Any], size: int) -> ColumnQuantiles[Any]:
    return mechanism.choose(size)


def value_at(edge: int, grid: BucketGrid, lower: Number | None) -> float:
    """Return the value of an edge, counted from 0.

    -1 is the lower end of the grid, K its upper end.
    """
    # An end that was not reached counts as the nearest edge, or as `lower`.
    if edge >= 0:
        return float(grid.edges[min(edge, grid.size - 1)])
    return float(grid.edges[0] if lower is None else lower)


def middle_of(bucket: int, grid: BucketGrid, lower: Number | None, *, whole: bool = False) -> float:
    """Return the middle of a bucket, rounded once.

    With `whole` the middle one of the whole numbers in it.

    A bucket without an end (at the cap, or opposite) gives the edge that it has.
    """
    if bucket == grid.size:
        return float(grid.edges[-1])
    high = float(grid.edges[bucket])
    if bucket == 0 and lower is None:
        return high
    # As fractions: a sum of floats might overflow, and would be rounded once more.
    low = value_at(bucket - 1, grid, lower)
    middle = (Fraction(low) + Fraction(high)) / 2
    # Whole numbers from `low` up to, and without, `high`: the lower one of the two in the middle.
    return float(math.floor(middle - Fraction(1, 2)) if whole else middle)
