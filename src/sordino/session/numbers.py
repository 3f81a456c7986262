"""Sums, means and variances of a column: of all rows, or of each group.

Sums and means within a declared range have steps of their own, which refuse what could not be
unbiased.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, Self, cast, final

import numpy as np

from sordino.columns import BucketGrid
from sordino.constraints import POSITIVE, TRUTH, Number, OrNone, exact, one_of
from sordino.cost import Pure
from sordino.declared import parameter
from sordino.errors import InvalidParameter
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedValue,
    ClippedVariance,
    ClippedVariances,
    VarianceValue,
)
from sordino.estimators.clipped.clipped_again import Clipped
from sordino.questions import PrivacyUnit
from sordino.session.bounded_total import BoundedTotal, BoundedValue
from sordino.session.column_request import ColumnRequest
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import R, Steps, Table, checked_bounds, is_unlisted
from sordino.session.table_numbers import Groups, choose_totals_noise, refuse_gaussian_together
from sordino.session.weighed_request import WeighedRequest


class TotalsRequest(ColumnRequest[R]):
    """A figure of totals, whose noise may be other than pure."""

    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")),
        f"Of the totals. {NOISE_MEANS}",
        more="As for `count`; beside Gaussian noise the clip is found with Gumbel noise.",
        default=None,
    )

    def build_estimator(self, table: Table, more: Fraction = Fraction(1)) -> Clipped:
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
    def build_totals(self, table: Table, options: dict[str, Any]) -> Clipped:
        """Return the estimator of the figure with these options."""


class BoundedFigureRequest(TotalsRequest[R]):
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

    def derive(self) -> None:
        """Refuse a range without the end into which numbers are moved."""
        if self.bounds is not None and self.cap is None:
            raise InvalidParameter(
                f"{self.name}.cap (--cap) must be given with bounds, because no clip is looked for "
                "then: say close to how far up numbers go, such as cap=100, and lower, such as "
                "lower=0."
            )
        super().derive()

    def steps(self, table: Table) -> Steps[Any]:
        """Release within the declared range, if there is one, else from a clip that is found."""
        if self.bounds is None:
            return (yield from super().steps(table))
        if self.noise == "gaussian":
            raise InvalidParameter(
                f"{self.name}.noise must be laplace with bounds, within which noise is folded; "
                "got 'gaussian'."
            )
        return (yield from bounded_steps(self.read_labels(table).join_search(table), table))


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
class MeanRequest(
    BoundedFigureRequest[ClippedValue | BoundedValue | Groups],
    WeighedRequest[ClippedValue | BoundedValue | Groups],
):
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

    upper: bool = parameter(
        TRUTH,
        "With weights: also release an upper end of the mean as it is (true_high), which holds if "
        "no number lies above the cap.",
        more="What weighs beyond the clip is a third total then, at the same cost; the mean has up "
        "to 1.4 times the noise. Such a mean is not measured again.",
        default=False,
    )
    clip: Literal["shared", "each"] = parameter(
        one_of("shared", "each"),
        "With weights and groups: one clip for all of them, or each its own, for groups whose "
        "numbers are of different size.",
        more="Searches in all groups cost what one costs. A group with few rows has a clip that is "
        "far off; such means are not measured again.",
        default="shared",
    )

    def settle(self, unit: PrivacyUnit) -> Self:
        """Weigh the rows of each person, where nothing bounds them."""
        found = super().settle(unit)
        if found.upper and not found.weighs:
            raise InvalidParameter(
                "mean.upper (--upper) must go with rows that have weights: people (--user) "
                "without a bound on its rows or groups, or a weight (--weight-cap); of other means "
                "no upper end is known. Leave it out."
            )
        if found.clip == "each":
            found.check_own_clips()
        return found

    def check_own_clips(self) -> None:
        """Refuse a clip of each group where there is one anyway, or none."""
        if self.by is None or not self.weighs:
            raise InvalidParameter(
                "mean.clip (--clip each) must go with groups (--by) and rows that have weights; "
                "with a bound on rows or groups each group has a clip of its own anyway. Leave it "
                "out."
            )
        if self.upper:
            raise InvalidParameter(
                "mean.upper (--upper) must be left out with a clip of each group (--clip each), "
                "where what lies beyond is not added up."
            )

    def detail(self) -> dict[str, Any]:
        """Return what the ledger keeps."""
        own = {"clip": "each"} if self.clip == "each" else {}
        return super().detail() | ({"upper": True} if self.upper else {}) | own

    @property
    def searches_together(self) -> bool:
        """Whether one search is over what persons have in all groups together."""
        return self.clip == "shared"

    @property
    def has_public_ends(self) -> bool:
        """Whether rows are moved between public ends, and a declared range is asked for."""
        return self.bounds is not None

    def build_totals(self, table: Table, options: dict[str, Any]) -> ClippedMean | ClippedMeans:
        """Return the estimator of a mean, or of the means of all groups."""
        if self.weighs:
            return ClippedMeans(
                groups=self.count_groups(),
                weight_cap=self.declared_weight,
                upper=self.upper,
                own_clips=self.clip == "each",
                **options,
            )
        return ClippedMean(size_is_public=self.has_public_size(table), **options)


@final
class VarianceRequest(
    TotalsRequest[VarianceValue | Groups], WeighedRequest[VarianceValue | Groups]
):
    """Release the variance and the standard deviation of a column without a bound to guess.

    It is found as for `mean`, from totals of squares under one charge. Rows without a number do not
    count. Where rows of a person have weights it is that with these weights.

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

    def build_totals(
        self, table: Table, options: dict[str, Any]
    ) -> ClippedVariance | ClippedVariances:
        """Return the estimator of a variance, or of the variances of all groups."""
        if self.weighs:
            return ClippedVariances(
                groups=self.count_groups(), weight_cap=self.declared_weight, **options
            )
        return ClippedVariance(size_is_public=self.has_public_size(table), **options)


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
        cap=cast("Number", request.cap),
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
            "mean.bounds must go with a public number of rows (replace-one, each row somebody "
            "else, nothing that drops or groups rows, a column of whole numbers that a table of "
            f"PostgreSQL or DuckDB declares NOT NULL), but {reason}. Ask for the sum with bounds, "
            "or for the mean without."
        )
