"""What is known of an earlier release, so that the same can be measured once more.

Nothing of it is private.

A count, a histogram, a cross table and a measured top k are asked again as they were. The figures
of a clipped column keep the clip that was found: it is public, so all of the new budget goes to
their totals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast, final

import numpy as np

from sordino.columns import BucketGrid
from sordino.constraints import Number, shown
from sordino.cost import ZCDP, Cost, Pure
from sordino.errors import InvalidParameter
from sordino.estimators import ClippedSum, ClippedSums, ClippedValue, VarianceValue
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_again import Clipped, ClippedAgain
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino.questions import Domain
from sordino.releases import Label
from sordino.session.column_request import ColumnRequest
from sordino.session.counts import CountRequest, CountUnitsRequest, HistogramRequest
from sordino.session.cross_table import TableRequest
from sordino.session.looks import Rows, read_look
from sordino.session.noise_choice import MeasureNoise
from sordino.session.numbers import MeanRequest, SumRequest, VarianceRequest
from sordino.session.request import Request, Reservation, Steps, Table, is_unlisted
from sordino.session.table_numbers import (
    Groups,
    TableNumbers,
    choose_totals_noise,
    refuse_gaussian_together,
)
from sordino.session.top_k import SelectionRequest
from sordino.session.top_sums import TopSumsRequest
from sordino.session.value_histogram import ValueHistogramRequest

UNKNOWN = (
    "remeasure.release must be a count, a histogram, a cross table whose margins are sums, a "
    "measured top k, the largest sums, a sum, a mean or a variance of this session, or the id of "
    "one that its ledger has kept, with noise that has not selected, and not within bounds (nor a "
    "mean with an upper end or a clip of each group). Ask for the same again."
)
UNFIT = (
    "remeasure.release must have the rows that another look will have, each with the numbers "
    "behind it; this one has others. Ask for the same again."
)
Counted = CountRequest | CountUnitsRequest | HistogramRequest | ValueHistogramRequest | TableRequest
Column = SumRequest | MeanRequest | VarianceRequest


@final
@dataclass(frozen=True, kw_only=True)
class Clips:
    """The clips that an earlier release has found.

    Attributes
    ----------
    figure : ClippedSum, ClippedSums, ClippedMean, ClippedMeans, ClippedVariance, ClippedVariances
        What has found them; of weighed rows with the weight that was found.
    labels : tuple of str or None
        Of the groups; None: all rows are one group.
    found : tuple of Clip
        One for each group.
    """

    figure: Clipped
    labels: tuple[Label, ...] | None
    found: tuple[Clip, ...]


@final
@dataclass(frozen=True, kw_only=True)
class Base:
    """What is asked again: a request with listed labels, and the clips of a column."""

    request: Counted | Column
    clips: Clips | None = None

    def steps(self, table: Table, epsilon: Number, noise: MeasureNoise | None) -> Steps[Any]:
        """Ask the same once more, with noise of its own."""
        if self.clips is None:
            again = replace(cast("Counted", self.request), epsilon=epsilon, noise=noise)
            return (yield from again.steps(table))
        column = replace(cast("Column", self.request), epsilon=epsilon)
        return (yield from measure_totals(column, self.clips, noise, table))


@final
@dataclass(frozen=True, kw_only=True)
class Known:
    """An earlier release: what asks it again, its looks, and what all of them cost.

    Attributes
    ----------
    base : Base
    looks : tuple of Release
        Oldest first.
    rows : list of Rows
        What each look says; nothing where its noise has selected, as of the largest sums.
    total : Cost or None
        None where nobody knows it any more.
    charge : str or None
        The id of the charge of the last look; None where nobody paid.
    """

    base: Base
    looks: tuple[Any, ...]
    rows: list[Rows]
    total: Cost | None
    charge: str | None

    def check(self, domain: Domain | None) -> None:
        """Refuse looks that do not say what another one will: other rows, or other numbers behind.

        Raises
        ------
        InvalidParameter
            If they do not fit. Those of a session always do; what a ledger has kept others may have
            written.
        """
        names = set(self.names)
        listed = None if domain is None else domain.known
        if listed is not None and isinstance(self.base.request, TableRequest):
            # Of one column a label is a text, and of a table always a tuple.
            listed = [one if isinstance(one, tuple) else (one,) for one in listed]
        numbers, sized = self._expected
        fits = (
            (listed is None or set(listed) == names)
            and all(set(rows) == names for rows in self.rows if rows)
            and all(
                len(row.terms) == numbers and (row.records is not None) == sized
                for rows in self.rows
                for row in rows.values()
            )
        )
        if not fits:
            raise InvalidParameter(UNFIT)

    @property
    def names(self) -> list[Any]:
        """The names of the rows, in their order."""
        clips = self.base.clips
        # The first look at the largest sums says nothing of them.
        return list(self.rows[0] if clips is None or clips.labels is None else clips.labels)

    @property
    def _expected(self) -> tuple[int, bool]:
        """How many numbers stand behind a figure, and whether the number of records is public."""
        figure = None if self.base.clips is None else self.base.clips.figure
        if figure is None or isinstance(figure, ClippedSum | ClippedSums):
            return 1, False
        sized = bool(getattr(figure, "size_is_public", False))
        return (3 if figure.takes_squares else 2) - sized, sized


def find_known(
    release: Any, asked: Request[Any] | None, looks: Sequence[Any], base: Base | None
) -> Known:
    """Return what is known of a release of this session.

    Parameters
    ----------
    release : Release
    asked : Request or None
        What made it, or its first look; None if it is not of this session.
    looks : sequence of Release
        What it is made of.
    base : Base or None
        Of what was measured again.

    Raises
    ------
    InvalidParameter
        If it cannot be measured again.
    """
    if asked is None:
        raise InvalidParameter(UNKNOWN)
    # Of what was measured again nobody may know what all looks cost.
    total = release.total if base is not None else release.total or release.cost
    # What has no noise of its own is refused now, and not when it is paid for.
    if base is None:
        base = _find_base(asked, looks[0])
    rows = [read_look(look) for look in looks]
    if base.clips is None and isinstance(base.request, HistogramRequest):
        base = replace(base, request=_list_labels(base.request, list(rows[0])))
    receipt = release.receipt
    return Known(
        base=base,
        looks=tuple(looks),
        rows=rows,
        total=total,
        charge=None if receipt is None else receipt.id,
    )


def _find_base(asked: Request[Any], first: Any) -> Base:
    """Return what asks again what a release was."""
    bounds = getattr(asked, "bounds", None)
    if isinstance(asked, Counted) and bounds is None:
        # What the noise has selected is not measured again, nor what nobody listed. Of margins that
        # were measured the cells are no numbers with a noise of their own.
        chosen = getattr(first, "threshold", None) is not None or getattr(first, "measured", False)
        if chosen or (isinstance(asked, HistogramRequest) and is_unlisted(asked.domain)):
            raise InvalidParameter(UNKNOWN)
        return Base(request=asked)
    if isinstance(asked, TopSumsRequest) and not is_named(asked.domain) and first.rows:
        # Labels and clip are public now. What a person has in other labels enters nothing.
        labels = tuple(row.item for row in first.rows)
        clips = Clips(figure=first.mechanism[-1], labels=labels, found=(first.found,) * len(labels))
        return Base(request=asked.add_up(list(labels)), clips=clips)
    # Positions that a function names stand in the column, and not their names.
    if isinstance(asked, SelectionRequest) and not is_named(asked.domain):
        # What was selected is public now, and a domain like any other.
        return Base(
            request=HistogramRequest(
                item=asked.item,
                epsilon=asked.epsilon,
                domain=Domain.assume_public(),
                where=asked.where,
                simultaneous=asked.simultaneous,
            )
        )
    if isinstance(asked, SumRequest | MeanRequest | VarianceRequest) and bounds is None:
        if getattr(asked, "upper", False):
            raise InvalidParameter(
                "remeasure.release must be a mean without its upper end (upper): what lies beyond "
                "the clip is one of its totals, and is not measured again. Ask for the same again."
            )
        clips = _find_clips(first)
        keeps = asked.by is None or is_named(asked.domain)
        # Of weighed rows the weight that was found is declared now.
        weights = getattr(clips.figure, "weight_cap", None)
        declared = {} if weights is None else {"weight_cap": weights}
        return Base(
            request=replace(
                asked,
                **declared,
                # Labels that were found, or assumed, are public now.
                domain=asked.domain if keeps else list(clips.labels or ()),
                most_groups=None,
                # What has found groups counted a unit in so many; one clip of all needs no bound.
                groups_per_unit=None if asked.clips_together else asked.groups_per_unit,
                search_share=None,
                # How many rows held a number was said by the first look.
                numbers_share=0,
            ),
            clips=clips,
        )
    raise InvalidParameter(UNKNOWN)


def is_named(domain: Any) -> bool:
    """Tell whether a function of the caller's names the labels."""
    numbered = getattr(domain, "numbered", None)
    return numbered is not None and numbered.name is not None


def _list_labels(request: HistogramRequest, names: list[Any]) -> HistogramRequest:
    """Return a histogram of listed labels, where it was of labels that were assumed or selected."""
    if getattr(request.domain, "kind", None) != "assumed public":
        return request
    # Those labels are public now; which ones the table has by now would not be.
    return replace(request, domain=names)


def _find_clips(first: Any) -> Clips:
    """Return the clips of the first look at a column."""
    if isinstance(first, Groups):
        labels: tuple[Label, ...] | None = tuple(row.item for row in first.rows)
        releases = [row.release for row in first.rows]
        if not releases:
            raise InvalidParameter(
                "remeasure.release must have a group at least; in this one none was found. Ask for "
                "the same again."
            )
    else:
        labels, releases = None, [first]
    if not all(isinstance(one, ClippedValue | VarianceValue) for one in releases):
        raise InvalidParameter(UNKNOWN)
    figure, found = releases[0].mechanism, tuple(one.found for one in releases)
    if isinstance(figure, WeighedClip):
        # The weight that was found is public now, as the clip is.
        figure = replace(figure, weight_cap=releases[0].weights.cap)
    return Clips(figure=figure, labels=labels, found=found)


def measure_totals(
    request: Column, clips: Clips, noise: MeasureNoise | None, table: Table
) -> Steps[Any]:
    """Add up rows within clips that are public, and release their figures.

    All of the budget is theirs.
    """
    # Nothing is counted in buckets here; a question needs a grid all the same.
    grid = BucketGrid(edges=np.zeros(1))
    question = request.ask(table, grid, weigh_grid=grid if request.weighs else None)
    labels = None if question.domain is None else tuple(question.groups)
    epsilon, _ = request.share_of_group(table)
    _check_figure(request, clips.figure, table)
    pure = ClippedAgain(
        figure=clips.figure, clips=_order(clips, labels), budget=Pure(epsilon=epsilon)
    )
    whole = _build_again(request, table, pure, labels)
    rho = None
    if request.counts_together(table):
        refuse_gaussian_together("remeasure", noise)
    else:
        found = choose_totals_noise("remeasure", noise, table, whole, Pure(epsilon=0), None)
        rho = found.get("total_rho")
    if rho is not None:
        whole = _build_again(request, table, replace(pure, budget=ZCDP(rho=rho)), labels)
    order = None if question.domain is None else question.domain.order
    mechanism = replace(whole, order=order)

    charged = yield Reservation((mechanism,), request.detail(), question.domain)
    totals = charged.read(mechanism.read(question))
    return charged.release(mechanism, totals)


def _check_figure(request: Column, figure: Clipped, table: Table) -> None:
    """Refuse a figure whose noise was made for other neighbors than those of this session.

    How far totals move follows from these parameters: what somebody else says of them is not
    believed.
    """
    # What rows are read with is the weight of the figure, and what is said is that of the request.
    read, said = (getattr(one, "weight_cap", None) for one in (figure, request))
    weighed = isinstance(figure, WeighedClip)
    same = read == said and weighed == (read is not None) == request.weighs
    if figure.in_all != request.clips_together or not same:
        raise InvalidParameter(UNFIT)
    _, adjacency = request.share_of_group(table)
    needed: dict[str, Any] = {
        "adjacency": adjacency,
        "rows_per_unit": request.count_rows_of_part(table),
    }
    if not isinstance(request, SumRequest) and not request.weighs:
        needed["size_is_public"] = request.has_public_size(table)
    for name, value in needed.items():
        given = getattr(figure, name)
        if given != value:
            raise InvalidParameter(
                "remeasure.release must be a release with the neighbors of this session: its "
                f"{name} is {shown(given)}, and here it is {shown(value)}. Ask for the same again."
            )


def _order(clips: Clips, labels: tuple[Label, ...] | None) -> tuple[Clip, ...]:
    """Return the clips in the order in which a question has its groups."""
    if labels is None or clips.labels is None:
        return clips.found
    of = dict(zip(clips.labels, clips.found, strict=True))
    if set(of) != set(labels):
        raise InvalidParameter(
            f"remeasure.release must have the groups of its domain, {len(labels)}; it has "
            f"{len(of)}, such as {shown(next(iter(of), None))}."
        )
    return tuple(of[label] for label in labels)


def _build_again(
    request: ColumnRequest[Any], table: Table, again: ClippedAgain, labels: tuple[Label, ...] | None
) -> TableNumbers:
    return TableNumbers(
        estimator=again,
        adjacency=table.unit.adjacency,
        labels=labels,
        groups_per_unit=request.count_parts(table),
        together=request.counts_together(table),
    )
