"""Runs an estimator of numbers over a table: for all rows, or for each group with noise of its own.

Claim: with every unit in at most G groups the releases of all groups together, each of an estimator for
add-remove, cost what G of them do under add-remove, and under replace-one G times twice the pure epsilon of
one and four times the rho of its Gaussian totals. Proof: docs/proofs/groups.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

from sordino.cost import ZCDP, Composition, Cost, Pure, compose, repeat
from sordino.data import Domain, NumberQuestion, StepRange
from sordino.data.questions.step_query import SquareTotal, Total
from sordino.entropy import Entropy, fresh_entropy
from sordino.estimators import (
    BucketCounts,
    ClippedVariance,
    Quantile,
    Quantiles,
    QuantileValues,
    VarianceValue,
)
from sordino.estimators.clipped.bucket_sums import BucketSums
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_again import Clipped, ClippedAgain
from sordino.estimators.clipped.clipped_steps import Moments
from sordino.estimators.columns.column_release import ColumnRelease
from sordino.estimators.numbers_share import estimate_share
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.mechanisms import LaplaceMechanism
from sordino.population import Population
from sordino.receipt import Receipt
from sordino.releases import Values, pictured
from sordino.remnants import no_remnants
from sordino.sensitivity import Adjacency
from sordino.session.bounded_total import BoundedTotal, Figure
from sordino.session.request import Progress
from sordino.tabular import Kind, Record

Searching = Quantile | Quantiles | QuantilesWithIntervals | Clipped
"""What counts in buckets first."""
Estimator = Searching | ClippedAgain


@final
@dataclass(frozen=True)
class GroupRow:
    """What was released about one group.

    Attributes
    ----------
    item : str
        The label of the group.
    release : object
        Its release, as without groups: a `QuantileValue`, `QuantileValues`, a `ClippedValue`, a
        `VarianceValue` or a `BoundedValue`. Its cost is that of one step of a unit in this group
        alone: of what a unit may have in it, added or removed, or of one row, where rows are bounded in all
        groups together. All of a unit, or a unit that is replaced, may be several such steps (`budgets`).
    """

    item: str
    release: Any


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Groups(ColumnRelease):
    """Private numbers of every group of a public domain, or of each one that was found, in their order.

    Attributes
    ----------
    rows : tuple of GroupRow, one for each label
        Groups that the data lack are there, too; where nobody listed the groups, those that were found.
    budgets : int
        How many times the pure epsilon of a single group the whole release costs at most, however many groups
        there are: G, or 2 G under replace-one, where a unit is in at most G of them. Gaussian totals cost G
        times the rho of a single group, or 4 G times. Where M rows of a unit are bounded in all groups
        together: M, or 2 M, which may all be in one group. What finds groups comes on top.
    label_threshold : int or None
        Where nobody listed the groups: how many units a group needs, noise aside, to be found. Of a group
        that is missing nothing follows: it may have fewer, or not exist. What found the groups stands first
        in `mechanism`, and alone where nothing was found.
    """

    rows: tuple[GroupRow, ...]
    budgets: int
    label_threshold: int | None = None

    def __iter__(self) -> Iterator[GroupRow]:
        """Iterate over the rows."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Return the size of the domain."""
        return len(self.rows)

    def list_records(self) -> list[Record]:
        """Return the figures of each group, with its label; several quantiles of a group are one row each."""
        return [{"item": row.item} | record for row in self.rows for record in row.release.list_records()]

    def _list_columns(self) -> dict[str, Kind]:
        # What is said of a group depends on its figure; without a group only labels are known.
        return {"item": "text"}

    def take_receipt(self, receipt: Receipt) -> None:
        """Take the receipt of the charge, which all groups share."""
        super().take_receipt(receipt)
        for row in self.rows:
            row.release.take_receipt(receipt)

    def take_population(self, population: Population) -> None:
        """Take what says of whom the release is, which all groups share."""
        super().take_population(population)
        for row in self.rows:
            row.release.take_population(population)


@final
@dataclass(frozen=True)
class Numbers:
    """Private numbers of a table on their way to an estimator: counted, and ready to be added up.

    The `repr` shows none of them.

    Parameters
    ----------
    question : NumberQuestion
        What adds them up, once clips are known.
    counts : tuple of BucketCounts
        Of each group, or of all rows.
    known, missing : int
        Rows that count: with a number, and without, of all groups together.
    """

    question: NumberQuestion
    counts: tuple[BucketCounts, ...] = field(repr=False)
    known: int = field(repr=False)
    missing: int = field(repr=False)


@final
@dataclass(frozen=True)
class Sums:
    """Private numbers of a table on their way to a sum or a mean: counted and added up, bucket by bucket.

    `known` and `missing` are those of `Numbers`.
    """

    sums: BucketSums = field(repr=False)
    known: int = field(repr=False)
    missing: int = field(repr=False)


@final
@dataclass(frozen=True)
class Figures:
    """Private figures of a table whose records were clipped at public ends, and so are added up already.

    `known` and `missing` are those of `Numbers`.
    """

    figures: tuple[Figure, ...] = field(repr=False)
    known: int = field(repr=False)
    missing: int = field(repr=False)


@final
@dataclass(frozen=True)
class ColumnReading:
    """Reads a column once: what `Numbers` are made from."""

    question: NumberQuestion

    @property
    def domain(self) -> Domain | None:
        """The labels of the groups."""
        return self.question.domain

    def run(self, *, progress: Progress | None = None) -> Numbers:
        """Read the rows, after the charge; private."""
        found = self.question.count(progress=progress)
        return Numbers(self.question, found.buckets, found.known, found.missing)


@final
@dataclass(frozen=True)
class SumReading:
    """Reads a column once: what `Sums` are made from."""

    question: NumberQuestion

    @property
    def domain(self) -> Domain | None:
        """The labels of the groups."""
        return self.question.domain

    def run(self, *, progress: Progress | None = None) -> Sums:
        """Read the rows, after the charge; private."""
        sums = self.question.sums(progress=progress)
        return Sums(sums, int(sums.known().sum()), int(sums.missing.sum()))


@final
@dataclass(frozen=True)
class Totals:
    """Private totals of a table within clips that an earlier release has found, one of each group.

    `known` and `missing` are those of `Numbers`.
    """

    totals: tuple[Total | SquareTotal, ...] = field(repr=False)
    known: int = field(repr=False)
    missing: int = field(repr=False)


@final
@dataclass(frozen=True)
class AgainReading:
    """Adds up the records of a column within clips that are public: what `Totals` are made from."""

    question: NumberQuestion
    again: ClippedAgain

    @property
    def domain(self) -> Domain | None:
        """The labels of the groups."""
        return self.question.domain

    @property
    def ranges(self) -> list[StepRange]:
        """Where records are moved to, in each group."""
        return [StepRange(clip.low, clip.high, clip.step) for clip in self.again.clips]

    def run(self, *, progress: Progress | None = None) -> Totals:
        """Read the rows, after the charge; private."""
        squares = isinstance(self.again.figure, ClippedVariance)
        found: tuple[Total | SquareTotal, ...] = (
            self.question.square_totals(self.ranges, progress=progress)
            if squares
            else self.question.totals(self.ranges, progress=progress)
        )
        return Totals(found, sum(one.known for one in found), sum(one.missing for one in found))


@final
@dataclass(frozen=True, repr=False, kw_only=True)
class TableNumbers:
    """An estimator that reads a table, for each of its groups: what a charge releases.

    Parameters
    ----------
    estimator : Estimator or BoundedTotal
        What is released, about all rows or about each group.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    labels : tuple of str, optional
        Of the groups; None: all rows are one group. What a release costs does not depend on them.
    groups_per_unit : int
        In how many groups one unit has a part.
    together : bool
        Whether one unit has so many rows instead, each in any group: all of them may be in the same one.
    shared : LaplaceMechanism, optional
        What counts rows with a number and rows without, of all groups together.
    """

    estimator: Estimator | BoundedTotal
    adjacency: Adjacency
    labels: tuple[str, ...] | None = None
    groups_per_unit: int = 1
    together: bool = False
    shared: LaplaceMechanism | None = None

    def __repr__(self) -> str:
        groups = None if self.labels is None else len(self.labels)
        # Where rows are bounded in all groups together, so many rows of a unit are in any of them.
        bound = {"rows_in_all" if self.together else "groups_per_unit": self.groups_per_unit}
        return pictured(self, {"estimator": self.estimator, "groups": groups, **bound})

    @cached_property
    def cost(self) -> Cost:
        """What a release spends."""
        figures = self._cost_of_figures()
        return figures if self.shared is None else compose(figures, self.shared.cost)

    @property
    def without_totals(self) -> Cost:
        """What is spent beside the totals of sums and means: on clips, and on counting what was a number."""
        search = getattr(self.estimator, "search", None)
        # Within clips that were found before nothing is looked for.
        parts = [] if search is None else [self._repeat_cost(search.cost)]
        return compose(*parts, *([] if self.shared is None else [self.shared.cost]))

    def _cost_of_figures(self) -> Cost:
        return self._repeat_cost(self.estimator.cost)

    def _repeat_cost(self, cost: Cost) -> Cost:
        """Return what all groups cost, of which one does so."""
        if self.labels is None:
            return cost
        if self.together:
            # So many steps of one row, one after the other: in one group they are not releases of their own,
            # and only the pure bound is known to add up.
            return Pure(epsilon=self.budgets * Fraction(cost.pure()))
        if self.adjacency == "add-remove":
            # In all other groups neighbors have the same rows that count.
            return repeat(cost, self.groups_per_unit)
        # The unit that leaves a group and the one that joins it may do so in the same group.
        return repeat(_cost_of_two_steps(cost), self.groups_per_unit)

    @property
    def budgets(self) -> int:
        """How many times the pure epsilon of a single group all of them cost at most."""
        return self.groups_per_unit * (1 if self.adjacency == "add-remove" else 2)

    @property
    def exact(self) -> bool:
        """True if the law that is proved is the law that is sampled."""
        return self.estimator.exact

    @no_remnants
    def release(self, numbers: Numbers | Sums | Figures | Totals, *, entropy: Entropy) -> Any:
        """Release one number, several, or those of all groups; a `BoundedTotal` is handed its figures."""
        fresh_entropy(entropy, "TableNumbers.release")
        figures = self._release_figures(numbers, entropy)
        if self.shared is None:
            return figures
        counts = self.shared.release([numbers.known, numbers.missing], entropy=entropy)
        share = estimate_share(cast("Values", counts))
        if isinstance(figures, QuantileValues):
            return QuantileValues(replace(one, numbers_share=share, cost=self.cost) for one in figures)
        return replace(figures, numbers_share=share, cost=compose(figures.cost, share.cost))

    def _release_figures(self, numbers: Numbers | Sums | Figures | Totals, entropy: Entropy) -> Any:
        estimator = self.estimator
        if isinstance(estimator, BoundedTotal):
            found: list[Any] = [
                estimator.release(figure, entropy=entropy) for figure in cast("Figures", numbers).figures
            ]
        elif isinstance(estimator, ClippedAgain):
            found = [
                estimator.release_one(
                    _take_total(estimator.figure, total, clip),
                    total.known,
                    total.missing,
                    group=group,
                    entropy=entropy,
                )
                for group, (total, clip) in enumerate(
                    zip(cast("Totals", numbers).totals, estimator.clips, strict=True)
                )
            ]
        elif isinstance(estimator, Quantile | Quantiles | QuantilesWithIntervals):
            found = list(estimator.release_each(cast("Numbers", numbers).counts, entropy=entropy))
        elif isinstance(estimator, ClippedVariance):
            found = _release_variances(estimator, cast("Numbers", numbers), entropy)
        else:
            found = list(estimator.release_each(cast("Sums", numbers).sums, entropy=entropy))
        if self.labels is None:
            return found[0]
        rows = tuple(GroupRow(label, release) for label, release in zip(self.labels, found, strict=True))
        mechanism = estimator.mechanisms if isinstance(estimator, QuantilesWithIntervals) else estimator
        return Groups(
            rows=rows,
            budgets=self.budgets,
            mechanism=mechanism,
            cost=self._cost_of_figures(),
            simulated=entropy.simulated,
        )


def _cost_of_two_steps(cost: Cost) -> Cost:
    """Return what a release costs if a unit leaves and another one joins in the same group."""
    # These are two steps in a row, of which mostly only the pure bound is known. Gaussian totals move twice
    # as far, which counts four times.
    parts = cost.parts if isinstance(cost, Composition) else frozenset({(cost, 1)})
    rho = sum((part.rho * count for part, count in parts if isinstance(part, ZCDP)), Fraction(0))
    epsilon = sum(
        (Fraction(part.pure()) * count for part, count in parts if not isinstance(part, ZCDP)), Fraction(0)
    )
    return compose(Pure(epsilon=2 * epsilon), ZCDP(rho=4 * rho))


def _release_variances(estimator: ClippedVariance, numbers: Numbers, entropy: Entropy) -> list[VarianceValue]:
    """Return the variance of each group: find the clips first, then read the rows once more."""
    # Each clip is a private release of its own, so the second read may depend on it.
    # docs/proofs/clipped-variance.md
    clips = estimator.search.release_each(numbers.counts, entropy=entropy)
    squares = numbers.question.square_totals([StepRange(clip.low, clip.high, clip.step) for clip in clips])
    moments = [
        _moments(counts.records - total.known, clip, total)
        for counts, clip, total in zip(numbers.counts, clips, squares, strict=True)
    ]
    return estimator.finish_each(moments, clips, entropy=entropy)


def _take_total(figure: Any, total: Total | SquareTotal, clip: Clip) -> int | Moments:
    """Return what a figure adds noise to, of what an engine has added up within its clip; private."""
    if isinstance(figure, ClippedVariance):
        return _moments(total.missing, clip, cast("SquareTotal", total))
    return total.steps


def _moments(missing: int, clip: Clip, total: SquareTotal) -> Moments:
    """Return what an engine added up as distances from the lower end of the clip."""
    return Moments(
        known=total.known,
        missing=missing,
        first=total.steps - total.known * clip.low,
        second=total.squares,
    )
