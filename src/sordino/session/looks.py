"""What one look says: the released numbers behind each row, answers plus noise of known laws.

A sum and a count are one number. A mean over a private number of records is two, a variance two or
three: the totals that met the noise. Looks at one cross table are put together from these numbers,
never from the whole ones that readers see: those are fitted to each table anew.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np

from sordino.estimators import ClippedMean, ClippedValue, VarianceValue, weigh_looks
from sordino.figures import Combination, Origin, Ratio, Term, read_terms
from sordino.figures.table_fit import Axes, Ends, Floats, list_margins
from sordino.figures.table_sums import find_sum_reach, round_cells
from sordino.releases import Label
from sordino.session.cross_table import CrossTable, TableCell, find_level, find_sums, place_ends
from sordino.session.results import TopItems
from sordino.session.table_numbers import Groups
from sordino.tabular import Kind, Row, Tabular, list_row_columns


@final
@dataclass(frozen=True)
class LookRow:
    """The released numbers behind one figure.

    Attributes
    ----------
    terms : tuple of Term
        Where the number of records is public, each is divided by it.
    records : int or None
        That number.
    """

    terms: tuple[Term, ...]
    records: int | None = None


Rows = dict[Any, LookRow]
"""The rows of a look, by their labels; a figure alone has the label 0."""


@final
@dataclass(frozen=True, kw_only=True)
class KeptNumber:
    """One number of a kept look.

    Attributes
    ----------
    item : str or None
        The label; None of a figure alone.
    number : int
        Which of the numbers behind the figure it is, from 0.
    measured : float
        What was released: an answer plus noise. Of a mean over records whose number is public it is
        divided by that number.
    standard_error : float
        Standard deviation of that noise.
    """

    item: Label | None
    number: int
    measured: float
    standard_error: float


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptLook(Tabular):
    """An earlier look of which a ledger has the numbers.

    Attributes
    ----------
    rows : tuple of KeptNumber
    charge : str
        The id of the charge of the release that has kept it.
    clipped : bool
        Whether its figures are about clipped records.
    simulated : bool
        False: no ledger keeps what is simulated.
    """

    rows: tuple[KeptNumber, ...]
    charge: str
    known: Rows = field(repr=False)
    clipped: bool = field(default=False, repr=False)
    simulated: bool = False

    def __repr__(self) -> str:
        return f"KeptLook({len(self.rows)} numbers, charge={self.charge!r})"

    @classmethod
    def of(cls, rows: Rows, charge: str, *, clipped: bool = False) -> KeptLook:
        """Return the look that has these rows."""
        numbers = tuple(
            KeptNumber(
                item=None if name == 0 else name,
                number=place,
                measured=float(term.value),
                standard_error=math.sqrt(term.law.variance) * float(term.step),
            )
            for name, row in rows.items()
            for place, term in enumerate(row.terms)
        )
        return cls(rows=numbers, charge=charge, known=rows, clipped=clipped)

    def list_rows(self) -> list[Row]:
        """Return the numbers, each as a mapping of names."""
        return [{one.name: getattr(row, one.name) for one in fields(row)} for row in self.rows]

    def _list_columns(self) -> dict[str, Kind]:
        return list_row_columns(self)

    def list_terms(self, origin: Origin) -> dict[Any, Term]:
        """Return the figures that are one number each, for figures that are made of them."""
        # Whoever asks names the release, which is one origin. In it each row is a number of its
        # own.
        return {
            name: replace(row.terms[0], origin=origin, row=name)
            for name, row in self.known.items()
            if len(row.terms) == 1
        }


def has_selected(look: Any) -> bool:
    """Tell whether the noise of a look has selected its rows: it is no measurement of these."""
    if isinstance(look, KeptLook):
        return not look.known
    return isinstance(look, TopItems) and look.found is not None


def read_look(release: Any) -> Rows:
    """Return the rows of a look; none if its own noise has selected them.

    Raises
    ------
    InvalidParameter
        If they are no answers plus noise of a known law.
    """
    if has_selected(release):
        return {}
    if isinstance(release, KeptLook):
        return release.known
    if isinstance(release, Groups):
        return {row.item: read_look(row.release)[0] for row in release.rows}
    if isinstance(release, ClippedValue | VarianceValue):
        return {0: _read_totals(release)}
    return {name: LookRow((term,)) for name, term in read_terms(release, "remeasure").items()}


def _read_totals(release: ClippedValue | VarianceValue) -> LookRow:
    """Return the released totals, in the unit of the values, or of a variance in record steps."""
    noisy: Sequence[int | Fraction]
    if isinstance(release, ClippedValue):
        noisy, noise = release.noisy, release.noise
    else:
        noisy, noise = release.totals.noisy, release.totals.noise
    return build_row(
        [int(total) for total in noisy],
        law=noise.mechanism.noise,
        step=noise.step,
        rounded=noise.rounded * noise.step,
        records=release.records,
        origin=Origin(),
        # Distances from an end are not negative.
        counts=isinstance(release, ClippedValue) and len(noisy) > 1,
    )


def build_row(
    noisy: Sequence[int],
    *,
    law: Any,
    step: Fraction,
    rounded: Fraction,
    records: int | None,
    origin: Origin,
    counts: bool,
) -> LookRow:
    """Return the row of totals in noise steps, each per record if their number is public."""
    each = 1 if records is None else max(1, records)
    terms = tuple(
        Term(
            origin=origin,
            row=place,
            value=total * step / each,
            law=law,
            step=step / each,
            rounded=rounded / each,
            counts=counts,
        )
        for place, total in enumerate(noisy)
    )
    return LookRow(terms, records)


@final
@dataclass(frozen=True)
class Joined:
    """All looks at one figure, each total weighted by one over its variance.

    Attributes
    ----------
    weights : tuple of Fraction
        One for each look.
    rows : tuple of LookRow
        What each look says.
    """

    weights: tuple[Fraction, ...]
    rows: tuple[LookRow, ...]

    @classmethod
    def of(cls, rows: Sequence[LookRow]) -> Joined:
        """Return looks at the same figure, weighted."""
        # All numbers of a look have the same noise.
        return cls(tuple(weigh_looks([row.terms[0] for row in rows])), tuple(rows))

    @property
    def sums(self) -> list[Combination]:
        """Of each total the mean of all looks."""
        return [
            Combination(dict(zip(terms, self.weights, strict=True)))
            for terms in zip(*(row.terms for row in self.rows), strict=True)
        ]

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise of such a mean."""
        # One after the other, and not by squares: these may leave the floats where steps do not.
        return math.hypot(
            *(
                float(weight) * float(row.terms[0].step) * math.sqrt(row.terms[0].law.variance)
                for weight, row in zip(self.weights, self.rows, strict=True)
            )
        )

    def estimate(self, figure: Any) -> tuple[float | Fraction, float]:
        """Return the figure of these means, and its standard error.

        Parameters
        ----------
        figure : pair of ClippedAgain and int, or None
            What has measured again, and which of its groups this is; None where each total is a
            figure.
        """
        sums, last = self.sums, self.rows[-1]
        if figure is None:
            return sums[0].value, self.deviation
        again, group = figure
        # In steps of the last look, to which its clip and its noise belong.
        each = 1 if last.records is None else max(1, last.records)
        alone = math.sqrt(last.terms[0].law.variance) * float(last.terms[0].step)
        share = self.deviation / alone if alone else 1.0
        totals = [one.value * each for one in sums]
        found: tuple[float | Fraction, float] = again.combine(
            totals, last.records, share, group=group
        )
        return found

    def bound(self, figure: Any, wrong: Fraction) -> tuple[float, float]:
        """Return ends that hold the figure but for a chance of `wrong`.

        That is so if all looks were settled before.
        """
        sums = self.sums
        if figure is None or len(sums) == 1:
            low, high = sums[0].bound(wrong, planned=True)
            ends = float(low), float(high)
            if figure is None or not isinstance(figure[0].figure, ClippedMean):
                return ends
            # A mean of clipped records lies within the clip.
            least, most = figure[0].clips[figure[1]].ends
            return min(max(ends[0], least), most), max(min(ends[1], most), least)
        again, group = figure
        clip = again.clips[group]
        below, above = sums
        low_end, width = clip.bottom * clip.step, (clip.top - clip.bottom) * clip.step
        both = below.plus(above)
        # The mean is the lower end plus the width times the share of the distances from there.
        return Ratio(both.times(low_end).plus(below, width), both).bound(wrong, planned=True)


def find_true_ends(kind: str, release: Any, *, capped: bool) -> tuple[float, float]:
    """Return the ends for the figure of the records themselves, of a sum, a mean or a variance.

    With `capped` a unit counts for some of its rows only. They make no sum smaller where no number
    lies below 0; of anything else nothing is known then.
    """
    low, high = release.true_interval()
    return (low, high) if not capped else (low if kind == "sum" else -math.inf, math.inf)


class TableLooks(NamedTuple):
    """What several looks say together.

    Attributes
    ----------
    rows : tuple of TableCell
        In the order of a table.
    errors : list of float
        The standard deviation of the noise of each estimate.
    """

    rows: tuple[TableCell, ...]
    errors: list[float]


def join_table_looks(fresh: CrossTable, reads: Sequence[Rows], *, planned: bool) -> TableLooks:
    """Return all looks at a table as one, which adds up and lies inside of all intervals.

    Parameters
    ----------
    fresh : CrossTable
        The last look.
    reads : sequence of Rows
        The cells of all looks, the last one among them.
    planned : bool
        Whether intervals are those of all looks, else of the last one.
    """
    layout, shape = fresh.layout, fresh.layout.shape
    items = list(layout.list_items(()))
    # All cells of a look have the same noise.
    joined = Joined.of([look[items[0]] for look in reads])
    cells = np.zeros(shape)
    for weight, look in zip(joined.weights, reads, strict=True):
        values = np.array([float(look[item].terms[0].value) for item in items])
        cells = cells + float(weight) * values.reshape(shape)
    cells, error = round_cells(cells), joined.deviation
    if planned:
        ends = place_ends(cells, _find_joint_reach(joined, shape), rounded=True)
    else:
        alone, ends = find_sums(fresh.parts, shape)
        # Whoever looks again because of what the first look said may have been misled by it. Moved
        # into an interval each by itself, numbers would not add up.
        if not _lie_between(cells, ends):
            cells, error = alone, fresh.standard_error
    whole = fresh.parts[()].mechanism.step == 1
    errors = [
        error * math.sqrt(math.prod(shape[axis] for axis in axes))
        for axes in list_margins(len(shape))
        for _ in layout.list_items(axes)
    ]
    return TableLooks(layout.list_numbers(cells, ends, whole=whole), errors)


def _find_joint_reach(joined: Joined, shape: tuple[int, ...]) -> dict[Axes, Fraction]:
    """Return how far the sums of all looks reach, so that all intervals of a table hold."""
    noises = [
        (row.terms[0].law, weight * row.terms[0].step)
        for weight, row in zip(joined.weights, joined.rows, strict=True)
    ]
    return {
        axes: find_sum_reach(
            noises * math.prod(shape[axis] for axis in axes), find_level(axes, shape)
        )
        for axes in list_margins(len(shape))
    }


def _lie_between(cells: Floats, ends: dict[Axes, Ends]) -> bool:
    """Tell whether all sums of a table lie within their intervals."""
    return all(
        bool(np.all((low <= sums) & (sums <= high)))
        for axes, (low, high) in ends.items()
        for sums in [cells.sum(axis=axes, keepdims=True)]
    )
