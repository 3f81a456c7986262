"""Cross tables: how many people are in each cell of several columns, with all margins.

One noise for each cell, of which a person is in one; margins and the total are sums of what was
released. So the table adds up by itself: docs/proofs/tables.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self, final

import numpy as np

from sordino.constraints import COUNT, POSITIVE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.declared import parameter
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.figures import DerivedValue
from sordino.figures.derived_value import state
from sordino.figures.mixed_noise import find_far
from sordino.figures.ratio import Ratio
from sordino.figures.reading import read_terms
from sordino.figures.table_fit import Axes, Whole, fit_counts, list_margins
from sordino.figures.terms import Combination, Origin, Piece, Term
from sordino.population import ColumnNames, Population
from sordino.questions import Domain, PrivacyUnit
from sordino.questions.labels import DENSE, name_columns
from sordino.record import pivot_rows
from sordino.releases import Release
from sordino.session.counts import CountNoise
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import (
    CONFIDENCE,
    Request,
    Reservation,
    Steps,
    Table,
    accept_domain,
    ask_items,
    checked_columns,
    checked_later,
)
from sordino.tabular import Row, Tabular

Cell = tuple[str | None, ...]
"""The labels of a number of a table; None stands for all labels of that column."""


@final
@dataclass(frozen=True, kw_only=True)
class TableCell:
    """One number of a cross table: a cell, a margin or the total.

    Attributes
    ----------
    item : tuple of str or None
        Its labels; None in the place of a column over which it adds up.
    estimate : float
        Its unbiased noisy count: of a margin the sum of those of its cells.
    low, high : float
        Interval of the count. All of a table hold together with 95%.
    true_low, true_high : float
        The same for the true count; infinite where a person counts in some of its cells only.
    published : int or None
        With `not_negative`, what is shown in place of the estimate: whole, not below 0, inside of
        its interval, and still adding up. None where no such table was found.
    """

    item: Cell
    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float
    published: int | None = None


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrossTable(Release):
    """How many people are in each cell of a table, with all margins and the total.

    Attributes
    ----------
    rows : tuple of TableCell
        The cells, in the order in which labels were given; then the margins, and the total last.
    columns : tuple of str
        The columns of the labels.
    standard_error : float
        Standard deviation of the noise of a cell.
    confidence : float
        Of the interval of a cell alone.
    together : float
        With which probability all intervals of the table hold together, margins and total included.
    not_negative : bool
        Whether whole numbers that are not below 0 were asked for.
    """

    rows: tuple[TableCell, ...]
    columns: tuple[str, ...]
    standard_error: float
    confidence: float
    together: float
    not_negative: bool = False

    def __iter__(self) -> Iterator[TableCell]:
        """Iterate over cells, margins and the total."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return how many numbers there are, margins and the total among them."""
        return len(self.rows)

    def __getitem__(self, item: Cell) -> TableCell:
        """Return a number by its labels, with None for all labels of a column."""
        found = next((row for row in self.rows if row.item == item), None)
        if found is None:
            raise KeyError(item)
        return found

    @property
    def cells(self) -> tuple[TableCell, ...]:
        """The numbers of which all others are sums."""
        return tuple(row for row in self.rows if None not in row.item)

    @property
    def whole(self) -> TableCell:
        """The total: the sum of all cells."""
        return self.rows[-1]

    def pivot(self) -> PivotedTable:
        """Return the table with a column for each label of its last column, and the total.

        It costs nothing. `to_pandas()`, `to_polars()` and `to_arrow()` make it a frame.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> people = pl.DataFrame({"town": ["Arles", "Bern"] * 300, "sex": ["f", "f", "m"] * 200})
        >>> session = sd.Session(people, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> domain = {"town": ["Arles", "Bern"], "sex": ["f", "m"]}
        >>> wide = session.table(["town", "sex"], epsilon=1, domain=domain).pivot().to_polars()
        >>> wide.columns
        ['town', 'figure', 'f', 'm', 'Total']
        >>> wide["town"].to_list()[:3], wide["figure"].unique(maintain_order=True).to_list()[:3]
        (['Arles', 'Bern', 'Total'], ['estimate', 'low', 'high'])
        """
        return PivotedTable(table=self)

    def share(self, item: Cell, *, of: Cell | None = None) -> DerivedValue:
        """Return which part a number is of another one, with an interval of 95%.

        It costs nothing.

        Parameters
        ----------
        item : tuple of str or None
            The labels of the number, with None for all labels of a column.
        of : tuple of str or None, optional
            Those of what it is a part of, such as ``("North", None)`` for all of a row; else the
            total.

        Examples
        --------
        >>> import polars as pl
        >>> import sordino as sd
        >>> people = pl.DataFrame({"town": ["Arles", "Bern"] * 300, "sex": ["f", "f", "m"] * 200})
        >>> session = sd.Session(people, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
        >>> domain = {"town": ["Arles", "Bern"], "sex": ["f", "m"]}
        >>> table = session.table(["town", "sex"], epsilon=1, domain=domain)
        >>> share = table.share(("Bern", "f"), of=("Bern", None))
        >>> share.low < 2 / 3 < share.high
        True
        """
        whole = (None,) * len(self.columns) if of is None else of
        # Both are sums of cells of this release: one reading of its terms serves them.
        terms = read_terms(self, "CrossTable.share")
        ratio = Ratio(_sum_cells(terms, item), _sum_cells(terms, whole))
        confidence = to_fraction(CONFIDENCE)
        return state(ratio, confidence=confidence, planned=False, parts=(self,))

    def list_terms(self, origin: Origin) -> dict[Any, Term]:
        """Return the cells, which are one number with one noise each; a margin has several."""
        return {
            cell.item: Term(
                origin=origin,
                row=cell.item,
                value=round(Fraction(cell.estimate) / self.mechanism.step) * self.mechanism.step,
                law=self.mechanism.noise,
                step=self.mechanism.step,
                counts=True,
            )
            for cell in self.cells
        }


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PivotedTable(Tabular):
    """A cross table with a column for each label of its last column, and the total.

    Attributes
    ----------
    table : CrossTable
        Lines of what is shown come first, then those of the ends of all intervals: `figure` says
        what the numbers of a line are.
    """

    table: CrossTable

    @property
    def population(self) -> Population | None:
        """Of whom the table is."""
        return self.table.population

    @property
    def simulated(self) -> bool:
        """Whether the noise of the table is predictable."""
        return self.table.simulated

    def __repr__(self) -> str:
        return f"PivotedTable({self.table!r})"

    def list_rows(self) -> list[Row]:
        """Return a row for each label but the last, of each figure."""
        listed = self.table.list_rows()
        # Without whole numbers there is no line of them.
        figures = [
            name
            for name in ("published", *(one.name for one in fields(TableCell)))
            if name != "item" and any(row[name] is not None for row in listed)
        ]
        some = self.population
        taken = () if some is None else some.list_bounds()
        return pivot_rows(self.table.columns, listed, [*dict.fromkeys(figures)], taken) or []

    def plot(self) -> Any:
        """Return a picture of the table."""
        return self.table.plot()


def _sum_cells(terms: Mapping[Cell, Term], item: Cell) -> Combination:
    """Return the sum of the cells of which a number is made; `KeyError` if there is none."""
    found: dict[Piece, Fraction] = {
        term: Fraction(1) for cell, term in terms.items() if _is_in(cell, item)
    }
    if not found:
        raise KeyError(item)
    return Combination(found)


def _is_in(cell: Cell, item: Cell) -> bool:
    """Tell whether a cell is one of those of which a number is the sum."""
    pairs = zip(cell, item, strict=False)
    return len(cell) == len(item) and all(wanted in {None, own} for own, wanted in pairs)


@final
class TableRequest(Request[CrossTable]):
    """Release how many units are in each cell of several columns, with margins and the total.

    Each unit counts in one cell (`max_cells`), so the noise of a cell is as small as that of one
    count, however many cells there are. Margins are sums of cells: all adds up.

    Returns
    -------
    CrossTable
        Rows with item (a label for each column; None for all), estimate, low, high, true_low,
        true_high, published. All intervals hold together.

    Raises
    ------
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `histogram`; also if there are more than 2^20 cells.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> people = pl.DataFrame({"town": ["Arles", "Bern"] * 300, "sex": ["f", "f", "m"] * 200})
    >>> session = sd.Session(people, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> domain = {"town": ["Arles", "Bern"], "sex": ["f", "m"]}
    >>> table = session.table(["town", "sex"], epsilon=1, domain=domain)
    >>> table["Bern", None].estimate == table["Bern", "f"].estimate + table["Bern", "m"].estimate
    True
    """

    name: ClassVar[str] = "table"

    item: ColumnNames = parameter(checked_columns, "Column of labels, or several.", kw_only=False)
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    domain: Any = parameter(
        accept_domain, "The labels of each column.", more="As for `top_k`.", default=None
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    max_cells: int = parameter(
        COUNT,
        "In how many cells a person counts at most, whatever bounds its rows; with more than one, "
        "margins count appearances.",
        default=1,
    )
    not_negative: bool = parameter(
        TRUTH,
        "Show whole numbers that are not below 0 and still add up, inside of all intervals.",
        more="The estimates stay as they are, beside them.",
        default=False,
    )
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, more="As for `count`.", default=None
    )
    bounds: ClassVar[None] = None

    def settle(self, unit: PrivacyUnit) -> Self:
        """Return the request; refuse a bound on cells where each row is a unit, which has one."""
        if unit.column is None and self.max_cells != 1:
            raise InvalidParameter(
                "table.max_cells must be 1 where each row is a person, which is in one cell; got "
                f"{self.max_cells}."
            )
        return self

    def steps(self, table: Table) -> Steps[CrossTable]:
        """Measure every cell."""
        unit = table.unit
        # Another bound than that of the session, which may be about rows.
        own = unit if unit.column is None else replace(unit, max_rows=self.max_cells)
        question = ask_items(table, self.name, self.item, self.domain, self.where, unit=own)
        domain = question.domain
        if domain is None or domain.known is None or domain.size > DENSE:
            raise UnknownDomain(
                f"table.domain must list the labels of each column, with at most {DENSE:,} cells; "
                f"got {'none' if domain is None else domain.origin}."
            )
        _check_cells(domain)
        mechanism = CountNoise(self, table, question, domain.size).build(domain.size)
        detail = {"item": self.item, "where": self.where, "max_cells": self.max_cells}

        charged = yield Reservation((mechanism,), detail, domain)
        counts = charged.read(question)
        fresh = charged.release(mechanism, counts.at(np.arange(len(counts.labels))))
        return self._build(fresh, domain, is_row=unit.column is None)

    def _build(self, fresh: Any, domain: Domain, *, is_row: bool) -> CrossTable:
        """Return the table of a measurement: everything here is made of what was released."""
        sides = _list_sides(domain)
        shape = tuple(len(side) for side in sides)
        step = fresh.mechanism.step
        noisy: Whole = np.rint(fresh.values / float(step)).astype(np.int64).reshape(shape)
        law = fresh.mechanism.noise
        reach = {axes: find_margin_reach(axes, shape, law) for axes in list_margins(len(shape))}
        # Only counts are in whole persons.
        fitted = fit_counts(noisy, reach) if self.not_negative and step == 1 else None
        rows: list[TableCell] = []
        for axes, far in reach.items():
            cells = math.prod(shape[axis] for axis in axes)
            # With several cells a person is in a sum as often as it has cells there.
            often = 1 if is_row else min(self.max_cells, cells)
            # One person in one cell: all who are in any cell count in the total.
            is_true = is_row or (self.max_cells == 1 and len(axes) == len(shape))
            sums = noisy.sum(axis=axes, keepdims=True)
            shown = None if fitted is None else fitted.sum(axis=axes, keepdims=True)
            for item, at in _list_places(sides, axes):
                low = float((sums[at] - far) * step)
                high = float((sums[at] + far) * step)
                if self.not_negative:
                    low = max(low, 0.0)
                    high = max(high, 0.0)
                rows.append(
                    TableCell(
                        item=item,
                        estimate=float(sums[at] * step),
                        low=low,
                        high=high,
                        true_low=max(float(math.ceil(low / often)), 0.0),
                        true_high=max(high, 0.0) if is_true else math.inf,
                        published=None if shown is None else int(shown[at]),
                    )
                )
        return CrossTable(
            rows=tuple(rows),
            columns=name_columns("item", self.item),
            standard_error=fresh.standard_error,
            confidence=float(1 - _find_level((), shape)),
            together=CONFIDENCE,
            not_negative=self.not_negative,
            mechanism=fresh.mechanism,
            cost=fresh.cost,
            simulated=fresh.simulated,
        )


def _check_cells(domain: Domain) -> None:
    """Refuse labels of which no table can be made: before the charge."""
    parts = (domain.labels,) if domain.tuples is None else domain.tuples.parts
    if domain.tuples is not None and domain.tuples.places is not None:
        raise UnknownDomain(
            "table.domain must list the labels of each column, and not tuples, of which a margin "
            "would lack some."
        )
    for part in parts:
        if len({*part}) < len(part) or "" in part:
            raise InvalidParameter(
                "table.domain must have labels that differ, none of them empty: an empty one "
                "stands for all labels of a column."
            )


def find_margin_reach(axes: Axes, shape: tuple[int, ...], law: Any) -> int:
    """Return how far the sums of a margin reach, in steps, so that all of a table hold together.

    Each margin may fail with an equal share of what all may; its sums have noises of their own.
    """
    cells = math.prod(shape[axis] for axis in axes)
    return math.ceil(find_far([(law, Fraction(1))] * cells, _find_level(axes, shape)))


def _find_level(axes: Axes, shape: tuple[int, ...]) -> Fraction:
    """Return with which chance one sum of a margin may fail."""
    share = (1 - to_fraction(CONFIDENCE)) / 2 ** len(shape)
    many = math.prod(shape) // math.prod(shape[axis] for axis in axes)
    # 1 - (1 - a)^(1/n), rounded down.
    return Fraction(-math.expm1(math.log1p(-float(share)) / many) * (1 - 1e-9))


def _list_sides(domain: Domain) -> list[list[tuple[str, int]]]:
    """Return the labels of each column with their places, in the order in which they were given."""
    if domain.tuples is None:
        orders = [domain.order]
        parts = [[str(label) for label in domain.labels]]
    else:
        parts = [list(part) for part in domain.tuples.parts]
        # A list of tuples that has all combinations says nothing of the order of each column.
        orders = [part.order for part in domain.parts] or [None] * len(parts)
    places = [
        range(len(part)) if order is None else order.tolist()
        for part, order in zip(parts, orders, strict=True)
    ]
    return [
        [(part[place], place) for place in own] for part, own in zip(parts, places, strict=True)
    ]


def _list_places(
    sides: Sequence[Sequence[tuple[str, int]]], axes: Axes
) -> Iterator[tuple[Cell, tuple[int, ...]]]:
    """Yield the labels of each sum of a margin, in the order given, and where it stands."""
    every: list[tuple[str | None, int]] = [(None, 0)]
    named = (every if axis in axes else side for axis, side in enumerate(sides))
    for found in itertools.product(*named):
        yield tuple(label for label, _ in found), tuple(place for _, place in found)
