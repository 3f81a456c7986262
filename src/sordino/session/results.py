"""What is released about a table.

Rows with labels, and each release with its mechanisms and its cost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field
from typing import Literal, final

from sordino.constraints import SHARE, Number
from sordino.cost import compose
from sordino.estimators import interval
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.rows import estimate_rows, find_unclear
from sordino.figures import Derivable
from sordino.mechanisms import GaussianMechanism
from sordino.releases import HybridTop, Label, Release, TopK, UnlistedTop, Value, Values
from sordino.session.request import CONFIDENCE
from sordino.tabular import Row, WithRows


def _reaches_0(low: float | None, true_low: float | None) -> bool | None:
    # Of a row that was barely selected the first end lies far down, and the other one may not.
    return None if low is None or true_low is None else max(low, true_low) <= 0


@final
@dataclass(frozen=True, kw_only=True)
class TopItem:
    """One row of a private top-k.

    Attributes
    ----------
    rank : int
        1 for the first.
    item : str or tuple of str
        The label; of several columns a tuple.
    estimate : float or None
        One number for the count, inside the interval: from gaps and measurement where that is
        better, else the measurement. Unbiased before selection, not after it. Where nothing was
        measured: from the gaps down to the threshold that ended the list, else None.
    low, high : float or None
        95% interval of the count from the measurement alone; valid after selection. With
        `max_rows` it is about the count of units that count for so many items at most.
    true_low, true_high : float or None
        The same for the true count. With `max_rows` a unit counts for some of its rows or items
        only, and the true count may be higher: then `true_low` is a lower bound of 95%, and
        `true_high` is infinite.
    measured : float or None
        The fresh measurement: unbiased, also after selection.
    combined : float or None
        Gaps and measurement combined, before it was moved into the interval; None where gaps are
        not used.
    tie : bool or None
        Whether this item may be no larger than the next one (in the last row: than the best one
        left out, or than the threshold that ended the list). Where it is not larger, it is called
        clear with a probability of at most 5%. None: nothing is known. With `max_rows` it is about
        the counts of units that count for so many items at most, as `low` and `high` are: true
        counts may stand in another order.
    too_few : bool or None
        Whether the interval reaches down to 0, as that of an item that nobody has does; of labels
        that nobody listed somebody has each. None where nothing was measured.
    gap : float or None
        Lead over the next row, noise of the selection included; in the last row the margin over the
        best item left out (None if none is), or the lead over the threshold if that ended the list.
        None with Gumbel noise.
    """

    rank: int
    item: Label
    estimate: float | None
    low: float | None
    high: float | None
    gap: float | None
    true_low: float | None
    true_high: float | None
    measured: float | None
    combined: float | None
    tie: bool | None
    too_few: bool | None = field(init=False)
    was_found: InitVar[bool] = False

    def __post_init__(self, was_found: bool) -> None:
        """Tell whether the interval reaches down to 0; a label that was found somebody has."""
        few = _reaches_0(self.low, self.true_low)
        object.__setattr__(self, "too_few", few and not was_found)


@final
@dataclass(frozen=True, kw_only=True)
class CountedItem:
    """One row of a private histogram.

    Attributes
    ----------
    item : str or tuple of str
        The label; of several columns a tuple.
    estimate : float
        Its unbiased noisy count.
    low, high : float
        95% interval of the count; with `max_rows` it is about the units that count for so many
        items at most.
    true_low, true_high : float
        The same for the true count. With `max_rows` a unit counts for some of its rows or items
        only, and the true count may be higher: then `true_low` is a lower bound of 95%, and
        `true_high` is infinite.
    """

    item: Label
    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopItems(WithRows[TopItem], Release):
    """A private top-k of a table, best first.

    Attributes
    ----------
    rows : tuple of TopItem, length k; at most k if a threshold was given
    crossed : bool or None
        Whether the threshold ended the list; None if there was none.
    method : {"gaps", "histogram"}
        Whether items were selected with gaps and then measured, or are the best of a noisy
        histogram.
    label_threshold : int or None
        Where nobody listed the labels: how many units a label needs, noise aside, to be found. Of a
        label that is missing nothing follows: it may have fewer, or not exist.
    why : str or None
        Where nobody listed the labels: why they were found in this way and no other; public.
    clip : tuple of float, or None
        Of the largest sums: for how much a person counts at most, in all labels together.
    capped : bool or None
        Of the largest sums: whether that is the cap, or the search for it ran to its end.
    confidence : float
        Of the interval of each row: 95% unless all hold together. With method "histogram" the
        expected share of rows whose interval holds is at least that.
    together : float
        Least probability with which the intervals of all rows hold.
    """

    rows: tuple[TopItem, ...]
    crossed: bool | None = None
    method: Literal["gaps", "histogram"] = "gaps"
    label_threshold: int | None = None
    why: str | None = None
    clip: tuple[float, float] | None = None
    capped: bool | None = None
    confidence: float
    together: float
    found: Clip | None = field(default=None, repr=False)

    def _own(self) -> dict[str, object]:
        own = super()._own()
        # Counts have no clip, and say nothing about it.
        hidden = () if self.clip is not None else ("clip", "capped")
        return {name: value for name, value in own.items() if name not in hidden}

    def list_rows(self) -> list[Row]:
        """Return the rows, of the largest sums with their clip."""
        rows = super().list_rows()
        clip = {} if self.clip is None else {"clip": self.clip, "capped": self.capped}
        return [row | clip for row in rows]

    @property
    def on_average(self) -> bool:
        """Whether that share of the intervals holds on average, and not each with that probability.

        So it is with method "histogram" of listed labels where the list is full: the noise that has
        selected is that of the intervals.
        """
        listed = self.method == "histogram" and self.label_threshold is None
        return listed and self.crossed is not True and len(self.rows) > 1


@final
@dataclass(frozen=True, kw_only=True)
class TopSetItem:
    """One item of a private set of the largest; nothing says which of them is larger.

    Attributes
    ----------
    item : str or tuple of str
        The label; of several columns a tuple.
    estimate : float or None
        The fresh measurement as a whole number inside the interval; this and all below is None
        where nothing was measured.
    low, high : float or None
        95% interval of the count; valid after selection. With `max_rows` it is about the count of
        units that count for so many items at most.
    true_low, true_high : float or None
        The same for the true count. With `max_rows` a unit counts for some of its rows or items
        only, and the true count may be higher: then `true_low` is a lower bound of 95%, and
        `true_high` is infinite.
    too_few : bool or None
        Whether the interval reaches down to 0, as that of an item that nobody has does.
    measured : float or None
        The fresh measurement: unbiased, also after selection.
    """

    item: Label
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    true_low: float | None = None
    true_high: float | None = None
    too_few: bool | None = field(init=False)
    measured: float | None = None

    def __post_init__(self) -> None:
        """Tell whether the interval reaches down to 0."""
        object.__setattr__(self, "too_few", _reaches_0(self.low, self.true_low))


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TopSetItems(WithRows[TopSetItem], Release):
    """A private set of the k largest of a table, in the order of the domain.

    It says nothing of the counts.

    Attributes
    ----------
    rows : tuple of TopSetItem, length k
    confidence : float or None
        Of the interval of each row; None where nothing was measured.
    together : float or None
        Least probability with which the intervals of all rows hold.
    """

    rows: tuple[TopSetItem, ...]
    confidence: float | None = None
    together: float | None = None


@final
@dataclass(frozen=True, kw_only=True)
class AboveItem:
    """One item that was found above the threshold.

    Attributes
    ----------
    item : str or tuple of str
        The label; of several columns a tuple.
    gap : float or None
        How far its noisy count lay above the noisy threshold: raw, noise included. None with Gumbel
        noise.
    branch : int
        Which test found it, counted from 0: with `adaptive`, test 0 is the cheapest and finds what
        lies far above.
    estimate : float
        Point estimate of the count; unbiased before selection, too high after it.
    low : float or None
        95% lower bound of the count that is valid after selection: from the fresh measurement, or
        from the gap if nothing was measured; 0 where the gap bounds nothing. None with `adaptive`
        if nothing was measured: no bound from a gap is proved there.
    high : float or None
        With `low` a 95% interval from the fresh measurement; None if nothing was measured.
    true_low, true_high : float or None
        The same for the true count. With `max_rows` a unit counts for some of its rows or items
        only, and the true count may be higher: then `true_low` is a lower bound of 95%, and
        `true_high` is infinite.
    """

    item: Label
    gap: float | None
    branch: int
    estimate: float
    low: float | None
    high: float | None
    true_low: float | None
    true_high: float | None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AboveItems(WithRows[AboveItem], Release):
    """The items of a public domain that were found above a threshold, in the order of the domain.

    Attributes
    ----------
    rows : tuple of AboveItem
    asked : int or None
        How many items were asked, from the start of the domain; None where nobody listed the
        labels.
    complete : bool
        Whether that is all of them; if not, enough was found before.
    method : {"gaps", "histogram"}
        Whether a sparse vector found the items, or a noisy histogram.
    label_threshold : int or None
        Where nobody listed the labels: how many units a label needs, noise aside, to be found. Of a
        label that is missing nothing follows.
    confidence : float
        Of the interval, or of the lower bound, of each row.
    together : float
        Least probability with which those of all rows hold.
    """

    rows: tuple[AboveItem, ...]
    asked: int | None
    complete: bool
    method: Literal["gaps", "histogram"] = "gaps"
    label_threshold: int | None = None
    confidence: float
    together: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Histogram(WithRows[CountedItem], Release):
    """Private counts of every item of a domain, in the order of the domain.

    Attributes
    ----------
    rows : tuple of CountedItem, one for each label, or for each that reached the threshold
    standard_error : float
        Standard deviation of the noise of each count; within `bounds` the largest over the range.
    output_range : tuple of float, or None
        With `bounds`, the smallest and the largest count that could have been released: a little
        wider.
    label_threshold : int or None
        Where nobody listed the labels: how many units a label needs, noise aside, to be found. Of a
        label that is missing nothing follows.
    threshold : int or None
        Which noisy counts are released: those that are at least this. None: all of them.
    asked : int or None
        With a threshold: how many labels were counted. Of one that is missing nothing is said.
    confidence : float
        Of the interval of each row: 95% unless all hold together. With a threshold it allows for
        the selection: of what is released, and not of each label that was counted.
    together : float
        Least probability with which the intervals of all rows hold.
    """

    rows: tuple[CountedItem, ...]
    standard_error: float
    output_range: tuple[float, float] | None = None
    label_threshold: int | None = None
    threshold: int | None = None
    asked: int | None = None
    confidence: float
    together: float

    def _own(self) -> dict[str, object]:
        own = super()._own()
        # Where every label is released there is no threshold, and nothing is said of it.
        hidden = () if self.threshold is not None else ("threshold", "asked")
        return {name: value for name, value in own.items() if name not in hidden}


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Count(Derivable, Release):
    """One private count of a table: unbiased, with a 95% interval.

    Attributes
    ----------
    estimate : float
    low, high : float
        A 95% interval of the count; with `bounds`, of the count moved into them; with `max_rows`,
        of the rows that count.
    true_low, true_high : float
        The same for the true count. With `max_rows` a unit counts for some of its rows or items
        only, and the true count may be higher: then `true_low` is a lower bound of 95%, and
        `true_high` is infinite.
    standard_error : float
        Standard deviation of the noise; within `bounds` the largest over the range.
    output_range : tuple of float, or None
        With `bounds`, the smallest and the largest count that could have been released: a little
        wider.
    confidence : float
        Of the interval.
    """

    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float
    standard_error: float
    output_range: tuple[float, float] | None = None
    confidence: float

    def interval_at(self, *, confidence: Number) -> tuple[float, float]:
        """Return an interval of the count at another confidence than that of `low` and `high`.

        Raises
        ------
        InvalidParameter
            If the confidence is not in (0, 1).
        """
        low, high = interval(
            _as_value(self, self.estimate),
            confidence=SHARE("Count.interval_at.confidence", confidence),
        )
        return float(low), float(high)


def _as_value(release: Release, value: float) -> Value:
    """Return a figure as its mechanism released it."""
    shared = {"mechanism": release.mechanism, "cost": release.cost, "simulated": release.simulated}
    return Value(value=value, standard_error=0.0, **shared)


def build_top(
    top: TopK | HybridTop | UnlistedTop,
    fresh: Values,
    labels: Sequence[Label],
    *,
    crossed: bool | None,
    simultaneous: bool,
    capped: bool,
    label_threshold: int | None = None,
    why: str | None = None,
) -> TopItems:
    """Return the top k of what was selected and a measurement of it."""
    said = estimate_rows(
        top, fresh, confidence=CONFIDENCE, simultaneous=simultaneous, capped=capped
    )
    unclear = find_unclear(top, fresh, confidence=CONFIDENCE)
    # Where every item of the domain is selected, the last one leads over none. Gumbel noise has no
    # gaps.
    gaps = [*top.gaps.tolist(), *[None] * (len(labels) - top.gaps.size)]
    rows = tuple(
        TopItem(
            rank=rank + 1,
            item=label,
            gap=gaps[rank],
            **said.describe(rank),
            measured=float(said.measured[rank]),
            combined=None if math.isnan(said.combined[rank]) else float(said.combined[rank]),
            tie=unclear[rank],
            was_found=label_threshold is not None,
        )
        for rank, label in enumerate(labels)
    )
    # What a transcript spent is an epsilon of that transcript, and no rho: beside Gaussian noise
    # what the mechanism costs is said.
    paid = top.mechanism.cost if isinstance(fresh.mechanism, GaussianMechanism) else top.cost
    return TopItems(
        rows=rows,
        crossed=crossed,
        confidence=said.confidence,
        together=said.together,
        mechanism=(top.mechanism, fresh.mechanism),
        label_threshold=label_threshold,
        why=why,
        cost=compose(paid, fresh.cost),
        simulated=top.simulated,
    )
