"""Quantiles, sums, means and variances of a column: of all rows, or of each group.

Sums and means within a declared range have steps of their own, which refuse what could not be
unbiased.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, cast, final

import numpy as np

from sordino.columns import BucketGrid
from sordino.columns.sum_steps import SumSteps
from sordino.constraints import (
    COUNT,
    POSITIVE,
    SHARE,
    TRUTH,
    Number,
    OrNone,
    exact,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import Pure, compose
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import (
    ClippedMean,
    ClippedSum,
    ClippedValue,
    ClippedVariance,
    Quantile,
    Quantiles,
    QuantileValue,
    QuantileValues,
    VarianceValue,
)
from sordino.estimators.numbers_share import count_numbers
from sordino.estimators.quantiles.quantile_interval import QuantileInterval, QuantilesWithIntervals
from sordino.mechanisms import LaplaceMechanism, UnlistedHistogram
from sordino.questions import Counts, Domain, NumberQuestion, prepare_groups, prepare_numbers
from sordino.releases import UnlistedCounts
from sordino.sensitivity import Adjacency
from sordino.session.bounded_total import BoundedTotal, BoundedValue
from sordino.session.column_figures import Estimator, Searching, adapt
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import (
    R,
    Request,
    Reservation,
    Steps,
    Table,
    check_account,
    checked_bounds,
    checked_later,
    is_unlisted,
)
from sordino.session.table_numbers import (
    Groups,
    SingleQuantile,
    TableNumbers,
    choose_search_noise,
    choose_totals_noise,
    refuse_gaussian_together,
)

_LOWER_MEANS = "Public bound, or none: both signs."
_GROWTH_MEANS = "Factor between edges of the grid."
SEARCH_SHARE = Fraction(1, 4)
"""Share of epsilon that finds groups that nobody listed, where nothing is said."""
NUMBERS_SHARE = Fraction(1, 20)
"""Share of epsilon for how many rows held a number, where texts are read as numbers and nothing is
said."""


def _accept_share_or_none_of_it(name: str, value: Any) -> Any:
    """Keep None, 0 and what is in (0, 1)."""
    return value if value is None or exact(value) == 0 else SHARE(name, value)


class ColumnRequest(Request[R]):
    """Figures of a column of numbers: of all rows, or of each group with noise of its own."""

    kept: ClassVar[tuple[str, ...]] = ("column", "where", "by", "groups_per_unit", "strict_types")
    squares: ClassVar[bool] = False
    """Whether squares are added up as well."""

    column: str = parameter(
        checked_later,
        "Column of numbers.",
        more="Whole numbers, decimals or floats; of a CSV source the texts are read as numbers.",
        kw_only=False,
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    # The estimator checks these, as it does for everybody.
    cap: Number = parameter(
        checked_later, "Public: as far up as anything goes; it can be generous."
    )
    lower: Number | None = parameter(checked_later, _LOWER_MEANS)
    growth: Number = parameter(checked_later, _GROWTH_MEANS, default=1.05)
    unit: Number = parameter(checked_later, "Below it edges are evenly spaced.", default=1.0)
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    by: str | None = parameter(
        checked_later, "Column of labels: one release for each label of the domain.", default=None
    )
    domain: Any = parameter(
        checked_later,
        "The labels of the groups.",
        more="A `Domain` or a list of labels; rows with other labels are dropped.",
        default=None,
    )
    groups_per_unit: int | None = parameter(
        checked_later,
        "Let a unit count in at most so many groups, with max_rows rows in each; unless said, it "
        "may be in any, and max_rows is about all of them together.",
        more="With `by` and a unit column. The groups G of a unit are chosen by a secret salt, "
        "and each group has epsilon / G of the budget. Not given, each group has the noise of one "
        "in which all rows of a unit are, and none is divided by the number of groups. That is "
        "better wherever rows of a unit lie in several groups. Under replace-one a unit pays for "
        "leaving a group and for joining one. Labels that nobody listed need a number here.",
        default=None,
    )
    most_groups: int | None = parameter(
        OrNone(COUNT),
        "Where nobody listed the groups: find at most so many.",
        more=(
            "With `Domain.unlisted`, on an account with a delta: those with the most units by "
            "noisy counts."
        ),
        default=None,
    )
    search_share: Number | None = parameter(
        OrNone(SHARE),
        "Share of epsilon that finds groups that nobody listed; 1/4 unless said.",
        default=None,
    )
    numbers_share: Number | None = parameter(
        _accept_share_or_none_of_it,
        "Share of epsilon for how many rows held a number; where texts are read as numbers it is "
        "1/20 unless said, else 0.",
        more="In [0, 1); `numbers_share` of the release. Texts are those of a CSV column without "
        "a declared type, and of every column of a pandas frame, in which one more row may turn "
        "numbers into texts.",
        default=None,
    )
    strict_types: bool = parameter(
        TRUTH, "Refuse a column of texts, instead of reading them as numbers.", default=False
    )

    @abstractmethod
    def build_estimator(self, table: Table, more: Fraction = Fraction(1)) -> Searching:
        """Return what releases the figures of a group, with so many times its share of epsilon."""

    def fill_epsilon(self, table: Table) -> Searching:
        """Return the estimator of a group, with all of epsilon where pure epsilons are counted.

        A search in a group that a unit leaves, and in one that it joins, loses the two ends of its
        interval, which is less than twice the larger one. On an account with a delta the noise
        stays what it is, and the release costs less.
        """
        estimator = self.build_estimator(table)
        pure = table.price is None or table.price.is_pure
        if self.by is None or table.unit.adjacency == "add-remove" or not pure:
            return estimator
        whole = self.epsilon_of_figures * (1 - self.share_for_numbers(table))
        spent = Fraction(self.wrap(table, estimator, ()).cost_of_figures().pure())
        # Rates follow the budget, but which search is the best one may change with it.
        filled = self.build_estimator(table, whole / spent)
        fits = Fraction(self.wrap(table, filled, ()).cost_of_figures().pure()) <= whole
        return filled if fits else estimator

    def steps(self, table: Table) -> Steps[Any]:
        """Count the rows in buckets, and let an estimator release from that."""
        estimator = self.fill_epsilon(table)
        question = self.ask(table, estimator.grid, adapt(estimator).ladder)
        return (yield from self.release_figures(table, question, estimator, self.detail()))

    def release_figures(
        self, table: Table, question: NumberQuestion, estimator: Estimator, detail: dict[str, Any]
    ) -> Steps[Any]:
        """Release the figure of all rows, or of each group; `detail` is what the ledger keeps."""
        if is_unlisted(self.domain):
            return (yield from find_and_release(self, table, question, estimator, detail))
        mechanism = self.build_mechanism(table, question, estimator)

        charged = yield Reservation((mechanism,), detail, question.domain)
        return charged.release(mechanism, charged.read(mechanism.read(question)))

    def options(self, table: Table, more: Fraction = Fraction(1)) -> dict[str, Any]:
        """Return what every estimator of a column takes, with so many times its epsilon."""
        epsilon, adjacency = self.share_of_group(table)
        return {
            "epsilon": epsilon * more,
            "adjacency": adjacency,
            "rows_per_unit": self.count_rows_of_part(table),
            "lower": self.lower,
            "cap": self.cap,
            "growth": self.growth,
            "unit": self.unit,
        }

    @property
    def epsilon_to_find(self) -> Fraction:
        """The part of epsilon that finds groups; 0 where they are listed."""
        if not is_unlisted(self.domain):
            return Fraction(0)
        share = SEARCH_SHARE if self.search_share is None else to_fraction(self.search_share)
        return to_fraction(self.epsilon) * share

    @property
    def epsilon_of_figures(self) -> Fraction:
        """What is left of epsilon for the figures, and for how many rows held a number."""
        return to_fraction(self.epsilon) - self.epsilon_to_find

    def counts_together(self, table: Table) -> bool:
        """Tell whether the bound on rows of a unit is about all groups together, not about each."""
        return (
            self.by is not None and self.groups_per_unit is None and table.unit.column is not None
        )

    def count_parts(self, table: Table) -> int:
        """Return among how many parts of groups the budget is divided.

        Those that one unit has at most.
        """
        # Each row is a part of its own: they may all be in one group, or each in another one.
        if self.counts_together(table):
            return table.unit.max_rows or 1
        # Where each row is a unit it has one group.
        if self.by is None or self.groups_per_unit is None:
            return 1
        count: int = COUNT(f"{self.name}.groups_per_unit", self.groups_per_unit)
        return count

    def count_rows_of_part(self, table: Table) -> int:
        """Return how many rows one unit has at most in such a part."""
        return 1 if self.counts_together(table) else table.unit.max_rows or 1

    def share_of_group(self, table: Table) -> tuple[Fraction, Adjacency]:
        """Return the budget of one group, and what its neighbors are."""
        adjacency = table.unit.adjacency
        epsilon = self.epsilon_of_figures * (1 - self.share_for_numbers(table))
        if self.by is None:
            return epsilon, adjacency
        # Under replace-one the unit that leaves and the one that joins may have a part in different
        # groups.
        parts = self.count_parts(table) * (1 if adjacency == "add-remove" else 2)
        # A unit that moves from one group to another leaves the one and joins the other: within a
        # group nobody is replaced.
        return epsilon / parts, "add-remove"

    def share_for_numbers(self, table: Table) -> Fraction:
        """Return the share of epsilon that says how many rows held a number."""
        if self.numbers_share is not None:
            return to_fraction(self.numbers_share)
        return NUMBERS_SHARE if _reads_texts(table, self.column) else Fraction(0)

    def build_count(self, table: Table) -> LaplaceMechanism | None:
        """Return what counts rows with a number and rows without.

        None where nothing is spent on that.
        """
        share = self.share_for_numbers(table)
        if not share:
            return None
        return count_numbers(
            self.epsilon_of_figures * share,
            adjacency=table.unit.adjacency,
            rows=self.count_rows_of_part(table) * self.count_parts(table),
        )

    def has_public_size(self, table: Table) -> bool:
        """Tell whether neighbors have equally many rows with a number.

        They do if nothing filters, groups or computes them, no rule of the format drops any, and no
        row can be without a number.
        """
        return not self.list_private_sizes(table)

    def list_private_sizes(self, table: Table) -> list[str]:
        """Return why the number of rows that count is private; nothing if it is public."""
        source, unit = table.source, table.unit
        reasons = {
            "the adjacency is add-remove": unit.adjacency == "add-remove",
            "units are those of a column, who have any number of rows": unit.column is not None,
            "a predicate drops rows": self.where is not None,
            "rows are grouped": self.by is not None,
            # Lines of text that do not parse are dropped, and so may be rows of a view.
            "rows of CSV, JSON lines or Excel are dropped if they do not parse": bool(
                source.dropped
            ),
            "a view, a relation or a lazy frame may drop rows": source.computed,
            f"a row may be without a number in {shown(self.column)}": not source.always_has_number(
                self.column
            ),
        }
        return [reason for reason, holds in reasons.items() if holds]

    def ask(self, table: Table, grid: BucketGrid, ladder: SumSteps | None = None) -> NumberQuestion:
        """Return the question about the column."""
        self._check_search()
        if self.strict_types and _reads_texts(table, self.column):
            raise InvalidParameter(
                f"{self.name}.column must have a type of numbers, by strict_types; got "
                f"{shown(self.column)}, whose values are texts or may be. Declare its type "
                "(--type, CsvFormat.types), or make it numbers at its source (of a pandas frame: "
                "an Arrow table with a schema)."
            )
        return prepare_numbers(
            table.source,
            table.unit,
            column=self.column,
            grid=grid,
            where=self.where,
            # A fresh salt for each release: which rows of a unit count follows from it.
            salt=table.salt(),
            by=self.by,
            domain=self.domain,
            groups_per_unit=self.groups_per_unit,
            most_groups=self.most_groups,
            squares=self.squares,
            ladder=ladder,
        )

    def _check_search(self) -> None:
        """Refuse a share for a search where nothing is looked for."""
        if self.search_share is not None and not is_unlisted(self.domain):
            raise InvalidParameter(
                f"{self.name}.search_share belongs to Domain.unlisted (--unlisted); got "
                f"{shown(self.search_share)} with groups that are listed, or none."
            )

    def build_mechanism(
        self, table: Table, question: NumberQuestion, estimator: Estimator
    ) -> TableNumbers:
        """Return what releases the figures of all groups."""
        return self.wrap(
            table, estimator, None if question.domain is None else tuple(question.groups)
        )

    def wrap(
        self, table: Table, estimator: Estimator, labels: tuple[str, ...] | None
    ) -> TableNumbers:
        """Return what releases the figures of groups; what it costs does not depend on labels."""
        return TableNumbers(
            estimator=estimator,
            adjacency=table.unit.adjacency,
            labels=labels,
            groups_per_unit=self.count_parts(table),
            together=self.counts_together(table),
            shared=self.build_count(table),
        )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {
            "column": self.column,
            "where": self.where,
            "by": self.by,
            "groups_per_unit": self.groups_per_unit,
            "most_groups": self.most_groups,
        }


def _reads_texts(table: Table, column: str) -> bool:
    """Tell whether values of a column are texts, or may be: by what is public about the source."""
    # In a frame whose types were found out from values any column may turn into texts by one more
    # value. So there it is said of all columns alike, whatever type this one has.
    return table.source.inferred or table.source.number_column(column, "column")[1].text


def _list_several(_name: str, q: Any) -> Any:
    """Keep several quantiles as a tuple, which can be read twice, and a single one as it is."""
    # A text can be iterated over as well; it is refused later, as no number.
    return tuple(q) if isinstance(q, Iterable) and not isinstance(q, str) else q


@final
class QuantileRequest(ColumnRequest[QuantileValue | QuantileValues | Groups]):
    """Release a quantile of a column of numbers, or several, without a range to guess.

    With a unit column this needs `PrivacyUnit(..., max_rows=M)`: at most M rows of each unit count
    (see `groups_per_unit`), chosen by their ranks and a secret salt.

    Rows without a number (NULL and NaN alike) do not count, and how many do is private. With
    `max_rows` they are chosen like any other: one without a number takes a place of its unit.

    Returns
    -------
    QuantileValue, QuantileValues or Groups
        For one q, for several, or with `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> incomes = pl.DataFrame({"income": [21_000, 34_000, 28_500, 90_000, 45_000] * 400})
    >>> session = sd.Session(incomes, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> 30_000 < session.quantile("income", q=0.5, epsilon=1, lower=0, cap=1e9).value < 40_000
    True
    """

    name: ClassVar[str] = "quantile"
    # It is not measured again: what it releases is no noisy number.
    kept: ClassVar[tuple[str, ...]] = ()

    # `Quantile` checks these, as it does for everybody.
    q: Number | Sequence[Number] = parameter(
        _list_several,
        "Which quantiles, rising, such as 0.5,0.99.",
        more="A number in [0, 1], or a list of them, which are released together (`Quantiles`).",
    )
    growth: Number = parameter(checked_later, _GROWTH_MEANS, default=1.01)
    size_hint: int | None = parameter(
        checked_later, "About how many rows count, as far as that is public.", default=None
    )
    interval_share: Number | None = parameter(
        OrNone(SHARE),
        "Share of epsilon for an interval of each quantile, in the unit of the column.",
        more="In (0, 1): `low` and `high` contain it with 95%. None: all of epsilon goes to the "
        "value, and only its rank error is known.",
        default=0.5,
    )
    integer: bool = parameter(
        checked_later, "The values are whole numbers, and so is what is released.", default=False
    )

    @property
    def listed(self) -> tuple[Number, ...] | None:
        """The quantiles of a list; None where a single one is asked for."""
        return self.q if isinstance(self.q, tuple) else None

    def build_estimator(
        self, table: Table, more: Fraction = Fraction(1)
    ) -> Quantile | Quantiles | QuantilesWithIntervals:
        """Return the estimator of a quantile or several, with intervals if a share is for them."""
        pure = self._build_searches(table, more)
        # Several quantiles have no other noise, nor have rows of a unit that are in any group.
        if self.listed is not None or self.counts_together(table):
            return pure
        other = choose_search_noise(
            self.name,
            table,
            self.wrap(table, pure, None if self.by is None else ()),
            Pure(epsilon=self.epsilon_to_find),
            lambda times: cast(
                "SingleQuantile", self._build_searches(table, times, search_noise="gumbel")
            ),
        )
        return other or pure

    def _build_searches(
        self, table: Table, more: Fraction, **noise: str
    ) -> Quantile | Quantiles | QuantilesWithIntervals:
        """Return the estimator with so many times its share of epsilon, and noise of this kind."""
        own = {"size_hint": self.size_hint, "integer": self.integer, **noise}
        shared = own | self.options(table, more)
        epsilon = shared.pop("epsilon")
        share = Fraction(0) if self.interval_share is None else to_fraction(self.interval_share)
        wanted = (cast("Number", self.q),) if self.listed is None else self.listed
        values: Quantile | Quantiles
        if self.listed is not None:
            values = Quantiles(q=wanted, epsilon=epsilon * (1 - share), **shared)
        else:
            values = Quantile(q=wanted[0], epsilon=epsilon * (1 - share), **shared)
        if not share:
            return values
        each = epsilon * share / len(wanted)
        return QuantilesWithIntervals(
            values, tuple(QuantileInterval(q=one, epsilon=each, **shared) for one in wanted)
        )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        q = self.q if self.listed is None else [float(one) for one in self.listed]
        return {"column": self.column, "q": q, **super().detail()}


class BoundedFigureRequest(ColumnRequest[R]):
    """A figure that may be asked for within a declared range; then no clip is looked for."""

    bounds: tuple[Number, Number] | None = parameter(
        checked_bounds,
        "Public range of the figure: it is published within a slightly wider one, without bias.",
        more="Two numbers (low, high). No clip is looked for then: each row is moved into `lower` "
        "and `cap`, which had better be close to the values, and rows are read once. The range of "
        "the release is `output_range`; a figure beyond the declared one is moved to its nearer "
        "end by rule. Of a mean the number of rows with a number must be public, and the output "
        "range tells it.",
        default=None,
    )
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")),
        f"Of the totals. {NOISE_MEANS}",
        more="As for `count`; beside Gaussian noise the clip is found with Gumbel noise.",
        default=None,
    )

    def steps(self, table: Table) -> Steps[Any]:
        """Release within the declared range, if there is one, else from a clip that is found."""
        if self.bounds is None:
            return (yield from super().steps(table))
        if self.noise == "gaussian":
            raise InvalidParameter(
                f"{self.name}.noise must be laplace with bounds, within which noise is folded; "
                "got 'gaussian'."
            )
        return (yield from bounded_steps(self, table))

    def build_estimator(
        self, table: Table, more: Fraction = Fraction(1)
    ) -> ClippedSum | ClippedMean:
        """Return the estimator of the figure, with the noise that the account gets more from."""
        options = self.options(table, more)
        pure = self.build_totals(table, options)
        if self.counts_together(table):
            refuse_gaussian_together(self.name, self.noise)
            return pure
        found = choose_totals_noise(
            self.name,
            self.noise,
            table,
            self.wrap(table, pure, None if self.by is None else ()),
            # What finds groups has no other noise, and is part of what the release costs. Where
            # they are listed it costs nothing.
            Pure(epsilon=self.epsilon_to_find),
            lambda **noise: self.build_totals(table, {**options, **noise}),
        )
        return self.build_totals(table, {**options, **found}) if found else pure

    @abstractmethod
    def build_totals(self, table: Table, options: dict[str, Any]) -> ClippedSum | ClippedMean:
        """Return the estimator of the figure with these options."""


@final
class SumRequest(BoundedFigureRequest[ClippedValue | BoundedValue | Groups]):
    """Release the sum of a column of numbers without a bound to guess.

    Where to clip is found privately, then the clipped rows are added. The rows are read once. Rows
    without a number do not count. Which rows of a unit count is as for `quantile`. `lower` is at
    most 0: smaller numbers count as this.

    Returns
    -------
    ClippedValue, BoundedValue (with `bounds`) or Groups
        With `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"amount": [20, 35, 50, 65, 80] * 400})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> 90_000 < session.sum("amount", epsilon=1, lower=0, cap=1e6).estimate < 110_000
    True
    """

    name: ClassVar[str] = "sum"

    def build_totals(self, table: Table, options: dict[str, Any]) -> ClippedSum:  # noqa: ARG002
        """Return the estimator of a sum."""
        return ClippedSum(**options)


@final
class MeanRequest(BoundedFigureRequest[ClippedValue | BoundedValue | Groups]):
    """Release the mean of a column of numbers without a bound to guess.

    It is found as for `sum`, together with the number of rows with a number where that is private.

    Rows without a number do not count, and how many do is private, under replace-one as well. Only
    where no row can be without one it is public, and there is less noise: replace-one, each row a
    unit, no `where`, no `by`, and a column of whole numbers that a table of PostgreSQL or DuckDB
    declares NOT NULL. `lower` may be any number below the cap: the closer to the values, the less
    noise.

    Returns
    -------
    ClippedValue, BoundedValue (with `bounds`) or Groups
        With `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> ages = pl.DataFrame({"age": [20, 35, 50, 65, 80] * 400})
    >>> session = sd.Session(ages, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> 45 < session.mean("age", epsilon=1, lower=0, cap=1000).estimate < 55
    True
    """

    name: ClassVar[str] = "mean"

    def build_totals(self, table: Table, options: dict[str, Any]) -> ClippedMean:
        """Return the estimator of a mean."""
        return ClippedMean(size_is_public=self.has_public_size(table), **options)


@final
class VarianceRequest(ColumnRequest[VarianceValue | Groups]):
    """Release the variance and the standard deviation of a column without a bound to guess.

    It is found as for `mean`, from totals of squares under one charge. Rows without a number do not
    count.

    Returns
    -------
    VarianceValue or Groups
        With `by`: rows with item and release.

    Raises
    ------
    UnboundedContribution
        Before the charge, if nothing bounds the rows of one unit, or its groups.
    InvalidParameter, UnsafePredicate, UnknownDomain, BudgetExceeded, LedgerConflict,
    DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> ages = pl.DataFrame({"age": [20, 35, 50, 65, 80] * 400})
    >>> session = sd.Session(ages, unit=sd.PrivacyUnit.row(), entropy=sd.Seeded(7))
    >>> spread = session.variance("age", epsilon=1, lower=0, cap=1000)
    >>> 15 < spread.standard_deviation < 27
    True
    """

    name: ClassVar[str] = "variance"
    squares: ClassVar[bool] = True

    def build_estimator(self, table: Table, more: Fraction = Fraction(1)) -> ClippedVariance:
        """Return the estimator of a variance."""
        return ClippedVariance(
            size_is_public=self.has_public_size(table), **self.options(table, more)
        )


# ---- bounded -------------------------------------------------------------------------------------


_CLIP_DEFAULTS = {"growth": Fraction(21, 20), "unit": Fraction(1)}


def bounded_steps(request: BoundedFigureRequest[Any], table: Table) -> Steps[Any]:
    """Add up rows that are moved between public ends, and release the figure within its range."""
    # Other numbers than the defaults were asked for.
    if {"growth": exact(request.growth), "unit": exact(request.unit)} != _CLIP_DEFAULTS:
        raise InvalidParameter(
            f"{request.name}.growth and unit must not be given with bounds: no clip is looked for, "
            "`lower` and `cap` are it."
        )
    if request.name == "mean":
        _check_records(request, table)
    epsilon, adjacency = request.share_of_group(table)
    estimator = BoundedTotal(
        kind=cast("Literal['sum', 'mean']", request.name),
        epsilon=epsilon,
        adjacency=adjacency,
        # Without a lower end there are numbers of both signs: the clip is symmetric.
        lower=-POSITIVE(f"{request.name}.cap", request.cap)
        if request.lower is None
        else request.lower,
        cap=request.cap,
        bounds=cast("Any", request.bounds),
        rows_per_unit=request.count_rows_of_part(table),
    )
    # Nothing is counted in buckets here; a question needs a grid all the same.
    question = request.ask(table, BucketGrid(edges=np.zeros(1)))
    detail = {
        **request.detail(),
        "bounds": request.bounds,
        "lower": Fraction(estimator.lower),
        "cap": Fraction(estimator.cap),
    }
    return (yield from request.release_figures(table, question, estimator, detail))


def _check_records(request: BoundedFigureRequest[Any], table: Table) -> None:
    """Refuse a mean over a private number of records.

    Nothing private and unbiased is known for a quotient of two private numbers.
    """
    for reason in request.list_private_sizes(table):
        raise InvalidParameter(
            "mean.bounds must go with a public number of rows (replace-one, each row a unit, "
            "nothing that drops or groups rows, a column of whole numbers that a table of "
            f"PostgreSQL or DuckDB declares NOT NULL), but {reason}. Ask for the sum with bounds, "
            "or for the mean without."
        )


# ---- groups that nobody listed -------------------------------------------------------------------
# Figures of groups that nobody listed: they are found first, then each is released as if it were
# listed.
# Claim: epsilon of the search and that of the figures add up, and the failure of the search is
# the delta that the domain states (docs/proofs/groups.md).


def find_and_release(
    request: ColumnRequest[Any],
    table: Table,
    question: NumberQuestion,
    estimator: Estimator,
    detail: dict[str, Any],
) -> Steps[Groups]:
    """Find groups, at most `most_groups`, and release the figures of those.

    Parameters
    ----------
    request : ColumnRequest
        What is asked for.
    table : Table
        What is public about the table.
    question : NumberQuestion
        About groups that nobody listed.
    estimator : Estimator
        What releases the figure of a group.
    detail : dict
        What the ledger keeps.
    """
    check_account(request.name, table)
    domain = cast("Domain", question.domain)
    units = prepare_groups(
        table.source,
        table.unit,
        by=cast("str", request.by),
        domain=domain,
        groups_per_unit=request.groups_per_unit,
        where=request.where,
        # Of its own: in which groups a unit counts is chosen anew among those that are found.
        salt=table.salt(),
    )
    finder = UnlistedHistogram(
        epsilon=request.epsilon_to_find,
        delta=cast("Fraction", domain.delta),
        sensitivity=units.sensitivity,
        least=domain.least,
        k=request.most_groups,
    )
    # What the figures cost hangs on the groups of a unit, not on which ones or how many are found.
    figures = request.wrap(table, estimator, ())

    charged = yield Reservation((finder, figures), detail, domain)
    counts: Counts = charged.read(units)
    found: UnlistedCounts = charged.release(finder, counts.values, labels=counts.labels)
    # Nothing is asked about no groups, so the rest of epsilon returns: what was found is public by
    # now.
    if not found.labels:
        return Groups(
            rows=(),
            budgets=figures.budgets,
            label_threshold=finder.threshold,
            mechanism=(finder,),
            cost=found.cost,
            simulated=found.simulated,
        )
    among = question.among(found.labels)
    numbers = charged.read(figures.read(among))
    released: Groups = charged.release(replace(figures, labels=tuple(among.groups)), numbers)
    measuring = released.mechanism
    return replace(
        released,
        label_threshold=finder.threshold,
        mechanism=(finder, *(measuring if isinstance(measuring, tuple) else (measuring,))),
        cost=compose(found.cost, released.cost),
    )
