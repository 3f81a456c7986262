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
from sordino.constraints import (
    COUNT,
    POSITIVE,
    SHARE,
    Number,
    OrNone,
    exact,
    one_of,
    shown,
    to_fraction,
)
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedValue,
    ClippedVariance,
    Quantile,
    Quantiles,
    QuantileValue,
    QuantileValues,
    SizedQuantile,
    VarianceValue,
)
from sordino.estimators.quantiles.quantile_interval import QuantileInterval, QuantilesWithIntervals
from sordino.estimators.quantiles.sized_quantile import SIZE_SHARE
from sordino.questions import NumberQuestion, PrivacyUnit
from sordino.questions.totals import BYTES_OF_CELL
from sordino.session.bounded_total import BoundedTotal, BoundedValue
from sordino.session.column_figures import Searching
from sordino.session.column_request import GROWTH_MEANS, ColumnRequest
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import (
    R,
    Steps,
    Table,
    checked_bounds,
    checked_later,
    is_unlisted,
)
from sordino.session.table_numbers import (
    Groups,
    SingleQuantile,
    choose_search_noise,
    choose_totals_noise,
    refuse_gaussian_together,
)

_COARSEST = Fraction(101, 100)
"""The factor between edges of a grid that is cut no finer."""
_NEAREST = 2.0**-900
"""A grid with edges nearer to 0 than that, or farther than one over it, is not cut."""


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
    growth: Number | None = parameter(
        checked_later,
        f"{GROWTH_MEANS} Unless said, as fine as a noisy number of rows allows, on which a "
        "twentieth of epsilon is spent.",
        more="Up to 700,000 edges in all, on a server 131,072; `records` of the release is that "
        "number. Several quantiles have it in any case.",
        default=None,
    )
    size_hint: int | None = parameter(
        checked_later,
        "About how many rows count, as far as that is public; a single quantile then spends "
        "nothing on that.",
        default=None,
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
    ) -> Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals:
        """Return the estimator of a quantile or several, with intervals if a share is for them."""
        pure = self._build_searches(table, more, flips=self._may_flip(table))
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

    def _may_flip(self, table: Table) -> bool:
        """Tell whether permute-and-flip costs no more than a search does.

        Other accounts than those of pure epsilons count what a search loses on either side, and so
        do groups of which a unit leaves one and joins another one.
        """
        pure = table.price is None or table.price.is_pure
        return pure and (self.by is None or table.unit.adjacency == "add-remove")

    def _build_searches(
        self, table: Table, more: Fraction, *, flips: bool = False, **noise: str
    ) -> Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals:
        """Return the estimator with so many times its share of epsilon, and noise of this kind."""
        own = {"size_hint": self.size_hint, "integer": self.integer, **noise}
        shared = own | self.options(table, more)
        epsilon = shared.pop("epsilon")
        share = Fraction(0) if self.interval_share is None else to_fraction(self.interval_share)
        wanted = (cast("Number", self.q),) if self.listed is None else self.listed
        sized = self.growth is None
        if sized:
            shared["growth"] = _COARSEST
            shared["cuts"] = self._find_cuts(table, Quantile(q=0, epsilon=1, **shared).grid)
        values: Quantile | SizedQuantile | Quantiles
        # Several quantiles have a share of their own for the number of rows.
        counts_rows = sized and self.listed is None and self.size_hint is None
        size = epsilon * SIZE_SHARE if counts_rows else 0
        rest = epsilon - size
        if self.listed is not None:
            values = Quantiles(q=wanted, epsilon=rest * (1 - share), adapts=sized, **shared)
        elif not sized:
            values = Quantile(q=wanted[0], epsilon=rest * (1 - share), **shared)
        else:
            values = SizedQuantile(
                q=wanted[0],
                epsilon=size + rest * (1 - share),
                size_epsilon=size or None,
                flips=flips,
                **shared,
            )
        if not share:
            return values
        each = rest * share / len(wanted)
        return QuantilesWithIntervals(
            values, tuple(QuantileInterval(q=one, epsilon=each, **shared) for one in wanted)
        )

    def _find_cuts(self, table: Table, grid: BucketGrid) -> int:
        """Return into how many parts each step of the grid may be cut: what an answer has room for.

        The number of groups is public, and so is the source.
        """
        edges = grid.edges
        # Engines fail on products that no float is near enough to, and on differences beyond all.
        far = max(-float(edges[0]), float(edges[-1])) > 1 / _NEAREST
        if far or np.abs(edges[edges != 0]).min(initial=1) < _NEAREST:
            return 1
        room = table.source.count_cells(self.count_groups(), BYTES_OF_CELL)
        most = max(1, min(1 << 16, room // edges.size))
        # With few odd factors, so that it has many divisors.
        spare = max(0, most.bit_length() - 3)
        return most >> spare << spare

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
    ) -> ClippedSum | ClippedSums | ClippedMean | ClippedMeans:
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
            # Of weighed rows the clip has geometric noise on every account.
            None if self.weighs else lambda **noise: self.build_totals(table, {**options, **noise}),
        )
        return self.build_totals(table, {**options, **found}) if found else pure

    @abstractmethod
    def build_totals(
        self, table: Table, options: dict[str, Any]
    ) -> ClippedSum | ClippedSums | ClippedMean | ClippedMeans:
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

    def settle(self, unit: PrivacyUnit) -> SumRequest:
        """Add up what each person adds up to, where nothing bounds its rows.

        The figure is the same, and what is clipped is the total of a person.
        """
        if unit.column is None or unit.max_rows is not None:
            return self
        # Within a declared range what a person has in several groups has no clip.
        if self.by is not None and self.bounds is not None:
            return self
        return self if self.per_person is not None else replace(self, per_person="sum")

    @property
    def clips_together(self) -> bool:
        """Whether one clip is of what a person adds up to in all groups.

        Unless it has one number in each of so many, with a clip in each. What finds groups counts
        it in so many of them alone.
        """
        found = self.groups_per_unit is None or is_unlisted(self.domain)
        added = self.per_person in {"sum", "count"} and self.bounds is None
        return self.by is not None and added and found

    def build_totals(
        self,
        table: Table,  # noqa: ARG002
        options: dict[str, Any],
    ) -> ClippedSum | ClippedSums:
        """Return the estimator of a sum, or of the sums of all groups."""
        if not self.clips_together:
            return ClippedSum(**options)
        return ClippedSums(groups=self.count_groups(), **options)


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
    kept: ClassVar[tuple[str, ...]] = (*ColumnRequest.kept, "weight_cap")

    weight_cap: int | Literal["auto"] | None = parameter(
        checked_later,
        "Let all rows of a person count, who counts as at most so many in all groups together: a "
        "number, or auto, which finds about the .9 quantile on a twentieth of epsilon.",
        more="A person with more rows has a smaller weight for each; `max_rows` does not count "
        "then. It is auto where nothing else bounds the rows of a person (`max_rows`), or with "
        "`per_person` its groups. Then one clip is found for all groups. The mean is one with "
        "these weights: no interval is private of the plain mean over rows, of which a single "
        "person with enough rows makes anything.",
        default=None,
    )

    def settle(self, unit: PrivacyUnit) -> MeanRequest:
        """Weigh the rows of each person, where nothing bounds them."""
        if self.weight_cap is not None:
            self._check_weight_cap(unit)
            return self
        if unit.column is None or self.bounds is not None:
            return self
        any_rows = unit.max_rows is None and self.per_person is None
        in_some_groups = self.groups_per_unit is not None and not is_unlisted(self.domain)
        if any_rows and in_some_groups:
            raise UnboundedContribution(
                "mean.groups_per_unit (--groups-per-unit) must go with a bound on the rows of a "
                "person in each group (--max-rows), or one number of them (--per-person); got "
                "neither. Leave it out: then all rows of a person count, with weights."
            )
        # One number of a person in each group it is in.
        any_groups = self.per_person is not None and self.by is not None
        weighs = (any_rows or any_groups) and not in_some_groups
        return replace(self, weight_cap="auto") if weighs else self

    def _check_weight_cap(self, unit: PrivacyUnit) -> None:
        """Refuse weights where there is nothing to weigh."""
        if self.weight_cap != "auto":
            COUNT("mean.weight_cap, unless 'auto',", self.weight_cap)
        reason = {
            "units are rows, of which each counts once": unit.column is None,
            "with bounds rows are moved between public ends": self.bounds is not None,
            "one number of each person, without groups, counts once": self.by is None
            and self.per_person is not None,
            "groups_per_unit bounds what a person has": self.groups_per_unit is not None
            and not is_unlisted(self.domain),
        }
        for why, holds in reason.items():
            if holds:
                raise InvalidParameter(
                    f"mean.weight_cap (--weight-cap) must be left out here, because {why}; got "
                    f"{shown(self.weight_cap)}."
                )

    @property
    def weighs(self) -> bool:
        """Whether rows of a person count with weights, however many there are."""
        return self.weight_cap is not None

    @property
    def clips_together(self) -> bool:
        """Whether one clip is of what a person has in all groups."""
        return self.weighs

    def build_totals(self, table: Table, options: dict[str, Any]) -> ClippedMean | ClippedMeans:
        """Return the estimator of a mean, or of the means of all groups."""
        if self.weighs:
            cap = None if self.weight_cap == "auto" else self.weight_cap
            return ClippedMeans(groups=self.count_groups(), weight_cap=cap, **options)
        return ClippedMean(size_is_public=self.has_public_size(table), **options)

    def ask_for(self, table: Table, estimator: Searching) -> NumberQuestion:
        """Return what an estimator asks about the column."""
        if not self.weighs:
            return super().ask_for(table, estimator)
        # First it is counted how many rows each person has.
        rows = cast("ClippedMeans", estimator).row_grid
        return self.ask(table, rows, weigh_grid=estimator.grid)

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        return {**super().detail(), "weight_cap": self.weight_cap}


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
