"""Cross tables: how many people are in each cell of several columns, with all margins.

One noise for each cell, of which a person is in one; margins and the total are sums of what was
released. So the table adds up by itself. Where margins are measured, too, each figure is the best
mean of all that was measured, and they add up as well: docs/proofs/tables.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, cast, final

import numpy as np

from sordino.constraints import COUNT, POSITIVE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.cost import compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter, UnknownDomain
from sordino.figures import DerivedValue
from sordino.figures.derived_value import state
from sordino.figures.mixed_noise import find_far
from sordino.figures.ratio import Ratio
from sordino.figures.table_fit import Axes, Ends, Floats, fit_within, list_margins
from sordino.figures.table_sums import (
    Mix,
    find_rounding,
    find_sum_reach,
    round_cells,
    share_margins,
)
from sordino.figures.terms import Combination, Origin, Piece, Term, read_terms
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.population import ColumnNames, Population
from sordino.questions import CountQuestion, Domain, PrivacyUnit
from sordino.questions.labels import DENSE, name_columns
from sordino.record import pivot_rows
from sordino.releases import Release, Values
from sordino.session.counts import CountNoise
from sordino.session.noise_choice import NOISE_MEANS, Additive, MeasureNoise
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
from sordino.tabular import Row, Tabular, WithRows

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
        What is shown in place of the estimate, with `not_negative` and where margins were measured:
        whole, inside of its interval, and still adding up; with `not_negative` not below 0. None
        where no such table was found.
    """

    item: Cell
    estimate: float
    low: float
    high: float
    true_low: float
    true_high: float
    published: int | None = None


@final
@dataclass(frozen=True, kw_only=True)
class Layout:
    """Which labels a table has, in their order, and how people count in it.

    Attributes
    ----------
    sides : tuple of tuple of str
        The labels of each column.
    is_row : bool
        Whether each row is a person.
    max_cells : int
        In how many cells a person counts at most.
    not_negative : bool
        Whether whole numbers that are not below 0 were asked for.
    """

    sides: tuple[tuple[str, ...], ...]
    is_row: bool
    max_cells: int
    not_negative: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """How many labels each column has."""
        return tuple(map(len, self.sides))

    def list_items(self, axes: Axes) -> Iterator[Cell]:
        """Yield the labels of each sum of a margin."""
        every: tuple[str | None, ...] = (None,)
        return itertools.product(
            *(every if axis in axes else side for axis, side in enumerate(self.sides))
        )

    def list_numbers(
        self, cells: Floats, ends: Mapping[Axes, Ends], *, whole: bool
    ) -> tuple[TableCell, ...]:
        """Return every number of a table of estimates, whose sums lie between these ends.

        With `whole` there are whole numbers to be shown, where any fit.
        """
        if self.not_negative:
            # Counts are not, so nothing is lost. Of an interval below 0 nothing lies inside.
            ends = {axes: (np.maximum(low, 0.0), high) for axes, (low, high) in ends.items()}
        fitted = fit_within(cells, ends) if whole else None
        rows: list[TableCell] = []
        for axes, (lows, highs) in ends.items():
            many = math.prod(self.shape[axis] for axis in axes)
            # With several cells a person is in a sum as often as it has cells there.
            often = 1 if self.is_row else min(self.max_cells, many)
            # One person in one cell: all who are in any cell count in the total.
            is_true = self.is_row or (self.max_cells == 1 and len(axes) == len(self.shape))
            sums = cells.sum(axis=axes, keepdims=True)
            shown = None if fitted is None else fitted.sum(axis=axes, keepdims=True).reshape(-1)
            for place, item in enumerate(self.list_items(axes)):
                low = float(lows.flat[place])
                high = max(float(highs.flat[place]), 0.0 if self.not_negative else -math.inf)
                rows.append(
                    TableCell(
                        item=item,
                        estimate=float(sums.flat[place]),
                        low=low,
                        high=high,
                        true_low=max(float(math.ceil(low / often)), 0.0),
                        true_high=max(high, 0.0) if is_true else math.inf,
                        published=None if shown is None else int(shown[place]),
                    )
                )
        return tuple(rows)


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CrossTable(WithRows[TableCell], Release):
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
    measured : tuple of tuple of int
        Of which margins there is a measurement of their own: over which columns each adds up.
    """

    rows: tuple[TableCell, ...]
    columns: tuple[str, ...]
    standard_error: float
    confidence: float
    together: float
    not_negative: bool = False
    measured: tuple[Axes, ...] = ()
    layout: Layout = field(repr=False)
    parts: Mapping[Axes, Values] = field(repr=False)

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
    def mechanisms(self) -> dict[Axes, Additive]:
        """What has measured the cells, and each margin that was measured."""
        return {axes: part.mechanism for axes, part in self.parts.items()}

    @property
    def whole(self) -> TableCell:
        """The total: the sum of all cells."""
        return self.rows[-1]

    def find_widths(self) -> dict[Axes, tuple[float, float]]:
        """Return the width of the intervals of each margin, and its standard error."""
        shape = self.layout.shape
        _, ends = find_sums(self.parts, shape)
        mix, step = find_mix(shape, self.mechanisms), float(self.mechanisms[()].step)
        return {
            axes: (float(high.flat[0] - low.flat[0]), math.sqrt(mix.find_variance(axes)) * step)
            for axes, (low, high) in ends.items()
        }

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
        terms = read_terms(self, "CrossTable.share")
        ratio = Ratio(self._combine(terms, item), self._combine(terms, whole))
        confidence = to_fraction(CONFIDENCE)
        return state(ratio, confidence=confidence, planned=False, parts=(self,))

    def _combine(self, terms: Mapping[Any, Term], item: Cell) -> Combination:
        """Return a number as a sum of all that was measured; `KeyError` if there is none."""
        axes = tuple(axis for axis, part in enumerate(item) if part is None)
        if not self.measured:
            return _sum_cells(terms, item)
        self[item]
        mix = find_mix(self.layout.shape, self.mechanisms)
        weights = {
            (part, same): weight for part, same, weight, _ in mix.list_noises(axes) if weight
        }
        found: dict[Piece, Fraction] = {}
        for (part, label), term in terms.items():
            same = tuple(
                axis for axis, own in enumerate(label) if own is not None and own == item[axis]
            )
            if weight := weights.get((part, same)):
                found[term] = weight
        return Combination(found)

    def list_terms(self, origin: Origin) -> dict[Any, Term]:
        """Return the cells, which are one number with one noise each; a margin has several.

        Where margins were measured, too, no figure is: then each measurement, by its margin and its
        labels.
        """
        first = self.parts[()].mechanism
        if not self.measured:
            return {
                cell.item: _make_term(origin, cell.item, cell.estimate, first)
                for cell in self.cells
            }
        return {
            (axes, item): _make_term(origin, (axes, item), value, part.mechanism)
            for axes, part in self.parts.items()
            for item, value in zip(self.layout.list_items(axes), part.values.tolist(), strict=True)
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


def _make_term(origin: Origin, row: Any, value: float, mechanism: Additive) -> Term:
    """Return a measured number; it is whole steps."""
    step = mechanism.step
    whole = round(Fraction(value) / step) * step
    return Term(origin=origin, row=row, value=whole, law=mechanism.noise, step=step, counts=True)


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
    count, however many cells there are. Margins are sums of cells: all adds up. So it does where
    margins are measured as well (`margins`), and each figure is the best mean of all.

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
    kept: ClassVar[tuple[str, ...]] = ("item", "where", "max_cells", "not_negative")

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
    margins: Literal["sums", "measured"] = parameter(
        one_of("sums", "measured"),
        "Whether margins are sums of cells, or a part of epsilon measures them, too.",
        more="Measured, large sums are less noisy and cells more so: with Gaussian noise all "
        "margins from 5 x 5 cells on; else the total from 50 cells on, and all margins from "
        "100 x 100. Of smaller tables cells alone are best, and are measured.",
        default="sums",
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
        if self.margins == "measured" and self.max_cells != 1:
            raise InvalidParameter(
                "table.margins must be sums where a person counts in several cells; got "
                f"'measured' with max_cells {self.max_cells}."
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
        sides = _list_sides(domain)
        shape = tuple(map(len, sides))
        # There are no bounds, within which noise is folded.
        whole = cast("Additive", CountNoise(self, table, question, domain.size).build(domain.size))
        mechanisms = self._share_budget(shape, whole, question)
        # By public numbers alone: what cannot be computed is refused before the charge.
        find_table_reach(mechanisms, shape)
        detail = {"item": self.item, "where": self.where, "max_cells": self.max_cells}
        detail |= {"margins": self.margins} if len(mechanisms) > 1 else {}

        charged = yield Reservation(tuple(mechanisms.values()), detail, domain)
        counts = charged.read(question)
        values = counts.at(np.arange(len(counts.labels))).reshape(shape)
        # In the order in which labels were given.
        values = values[np.ix_(*([place for _, place in side] for side in sides))]
        parts = {
            axes: charged.release(mechanism, values.sum(axis=axes).reshape(-1))
            for axes, mechanism in mechanisms.items()
        }
        layout = Layout(
            sides=tuple(tuple(label for label, _ in side) for side in sides),
            is_row=unit.column is None,
            max_cells=self.max_cells,
            not_negative=self.not_negative,
        )
        return build_table(parts, layout, name_columns("item", self.item))

    def _share_budget(
        self, shape: tuple[int, ...], whole: Additive, question: CountQuestion
    ) -> dict[Axes, Additive]:
        """Return what measures the cells, and each margin that is measured."""
        rho = getattr(whole, "rho", None)
        shares = share_margins(shape, gaussian=rho is not None)
        if self.margins == "sums" or len(shares) < 2:
            return {(): whole}
        if math.prod(shape) > MOST_MEASURED:
            raise InvalidParameter(
                f"table.margins must be sums in tables of more than {MOST_MEASURED:,} cells; got "
                f"'measured' with {math.prod(shape):,}."
            )
        found: dict[Axes, Additive] = {}
        for axes, share in shares.items():
            # A person is in one cell, and so in one sum of each margin.
            size = math.prod(shape) // math.prod(shape[axis] for axis in axes)
            if rho is None:
                epsilon = to_fraction(self.epsilon) * share
                found[axes] = LaplaceMechanism(epsilon=epsilon, sensitivity=question.joint(size))
            else:
                moved = question.joint(size, "l2")
                found[axes] = GaussianMechanism(rho=to_fraction(rho) * share, sensitivity=moved)
        return found


MOST_MEASURED = 100_000
"""Of larger tables the reach of sums of all measurements is not computed closely enough."""


def find_mix(shape: tuple[int, ...], mechanisms: Mapping[Axes, Additive]) -> Mix:
    """Return what puts the measurements of cells and margins together."""
    return Mix(shape, {axes: one.noise for axes, one in mechanisms.items()})


def build_table(
    parts: Mapping[Axes, Values], layout: Layout, columns: tuple[str, ...]
) -> CrossTable:
    """Return the table of some measurements: everything here is made of what was released."""
    shape, several, fresh = layout.shape, len(parts) > 1, parts[()]
    mechanisms = {axes: part.mechanism for axes, part in parts.items()}
    cells, ends = find_sums(parts, shape)
    first, error = fresh.mechanism, fresh.standard_error
    if several:
        error = math.sqrt(find_mix(shape, mechanisms).find_variance(())) * float(first.step)
    # Only counts are in whole persons.
    whole = first.step == 1 and (layout.not_negative or several)
    return CrossTable(
        rows=layout.list_numbers(cells, ends, whole=whole),
        columns=columns,
        standard_error=error,
        confidence=float(1 - find_level((), shape, alone=several)),
        together=CONFIDENCE,
        not_negative=layout.not_negative,
        measured=tuple(parts) if several else (),
        layout=layout,
        parts=parts,
        mechanism=tuple(mechanisms.values()) if several else first,
        cost=compose(*(part.cost for part in parts.values())) if several else fresh.cost,
        simulated=any(part.simulated for part in parts.values()),
    )


def find_sums(
    parts: Mapping[Axes, Values], shape: tuple[int, ...]
) -> tuple[Floats, dict[Axes, Ends]]:
    """Return the estimates of all cells, and between which ends each sum of them lies."""
    mechanisms = {axes: part.mechanism for axes, part in parts.items()}
    reach = find_table_reach(mechanisms, shape)
    if len(parts) == 1:
        cells = parts[()].values.reshape(shape)
        return cells, place_ends(cells, reach)
    measured = {
        axes: part.values.reshape([1 if axis in axes else n for axis, n in enumerate(shape)])
        for axes, part in parts.items()
    }
    cells = round_cells(find_mix(shape, mechanisms).estimate(measured))
    return cells, place_ends(cells, reach, rounded=True)


def find_table_reach(
    mechanisms: Mapping[Axes, Additive], shape: tuple[int, ...]
) -> dict[Axes, Fraction]:
    """Return how far the sums of each margin reach, by public numbers alone."""
    every, first = list_margins(len(shape)), mechanisms[()]
    if len(mechanisms) == 1:
        return {axes: find_margin_reach(axes, shape, first.noise) * first.step for axes in every}
    mix = find_mix(shape, mechanisms)
    return {
        axes: find_sum_reach(mix.list_laws(axes), find_level(axes, shape, alone=True)) * first.step
        for axes in every
    }


def place_ends(
    cells: Floats, reach: Mapping[Axes, Fraction], *, rounded: bool = False
) -> dict[Axes, Ends]:
    """Return the ends of the interval of each sum of cells, which are counts.

    With `rounded` estimates were rounded: what that moves is added, and ends are whole.
    """
    ends: dict[Axes, Ends] = {}
    for axes, far in reach.items():
        sums = cells.sum(axis=axes, keepdims=True)
        if rounded:
            wide = float(far + find_rounding(cells.size // sums.size))
            ends[axes] = np.ceil(sums - wide), np.floor(sums + wide)
        else:
            ends[axes] = sums - float(far), sums + float(far)
    return ends


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
    return math.ceil(find_far([(law, Fraction(1))] * cells, find_level(axes, shape)))


def find_level(axes: Axes, shape: tuple[int, ...], *, alone: bool = False) -> Fraction:
    """Return with which chance one sum of a margin may fail.

    Sums of a margin have noises of their own, unless margins were measured, too (`alone`).
    """
    share = (1 - to_fraction(CONFIDENCE)) / 2 ** len(shape)
    many = math.prod(shape) // math.prod(shape[axis] for axis in axes)
    if alone:
        return Fraction(share / many)
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
