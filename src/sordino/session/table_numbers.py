"""Runs an estimator of numbers over a table: for all rows, or for each group with noise of its own.

Claim: with every unit in at most G groups, or with at most M rows in all of them, the releases of
all groups together, each of an estimator for add-remove, cost what `cost_of_groups` says. Proof:
docs/proofs/groups.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.cost import Cost, compose
from sordino.cost.composition import cost_of_groups
from sordino.entropy import Entropy, fresh_entropy
from sordino.errors import InvalidParameter
from sordino.estimators import (
    ClippedMean,
    ClippedSum,
    Quantile,
    Quantiles,
    QuantileValues,
    SizedQuantile,
)
from sordino.estimators.clipped.clip import ClipSearch
from sordino.estimators.column_release import ColumnRelease, estimate_share
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.mechanisms import LaplaceMechanism
from sordino.population import Population
from sordino.questions import NumberQuestion
from sordino.receipt import Receipt
from sordino.releases import Label, Values, short_repr
from sordino.scrubbing import scrubbed
from sordino.sensitivity import Adjacency, Sensitivity
from sordino.session.column_figures import (
    ColumnFigures,
    ColumnReading,
    Estimator,
    PrivateNumbers,
    adapt,
)
from sordino.session.noise_choice import MeasureNoise, Terms, choose_rho, find_terms, match_budget
from sordino.session.request import CONFIDENCE, Table
from sordino.tabular import Kind, Row, WithRows

Told = float | bool | tuple[float | bool | None, ...] | None
"""What a row of a group says of its figure, or of several quantiles of it."""


@final
@dataclass(frozen=True)
class GroupRow:
    """What was released about one group.

    Attributes
    ----------
    item : str or tuple of str
        The label of the group; of several columns a tuple.
    release : object
        Its release, as without groups: a `QuantileValue`, `QuantileValues`, a `ClippedValue`, a
        `VarianceValue` or a `BoundedValue`. Its cost is that of one step of a unit in this group
        alone: of what a unit may have in it, added or removed, or of one row, where rows are
        bounded in all groups together. All of a unit, or a unit that is replaced, may be several
        such steps (`budgets`).
    estimate, low, high, true_low, true_high, too_few : optional
        Those of its release; of several quantiles a tuple of them, in their order.
    """

    item: Label
    release: Any

    @property
    def estimate(self) -> Told:
        """The figure of the group."""
        return self._pick("estimate")

    @property
    def low(self) -> Told:
        """Where the interval begins."""
        return self._pick("low")

    @property
    def high(self) -> Told:
        """Where the interval ends."""
        return self._pick("high")

    @property
    def true_low(self) -> Told:
        """Where an interval of all rows and numbers as they are begins."""
        return self._pick("true_low")

    @property
    def true_high(self) -> Told:
        """Where an interval of all rows and numbers as they are ends."""
        return self._pick("true_high")

    @property
    def too_few(self) -> Told:
        """Whether there are not enough people, or epsilon, to say anything."""
        return self._pick("too_few")

    def _pick(self, name: str) -> Told:
        several = hasattr(self.release, "__getitem__")
        found = tuple(
            getattr(one, name, None) for one in (self.release if several else [self.release])
        )
        return found if several else found[0]


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Groups(WithRows[GroupRow], ColumnRelease):
    """Private numbers of every group of a public domain, or of each one found, in their order.

    Attributes
    ----------
    rows : tuple of GroupRow, one for each label
        Groups that the data lack are there, too; where nobody listed the groups, those that were
        found.
    budgets : int
        How many times the pure epsilon of a single group the whole release costs at most, however
        many groups there are: G, or 2 G under replace-one, where a unit is in at most G of them.
        Sums with one clip of all groups cost 1: each of their releases is of all of them.
        Where M rows of a unit are bounded in all groups together: M, or 2 M, which may all be in
        one group. What finds groups comes on top. `cost` says more in every other view.
    label_threshold : int or None
        Where nobody listed the groups: how many units a group needs, noise aside, to be found. Of a
        group that is missing nothing follows: it may have fewer, or not exist. What found the
        groups stands first in `mechanism`, and alone where nothing was found.
    found_before : bool
        Whether an earlier figure of the same batch has found them, in whose `cost` that is.
    """

    rows: tuple[GroupRow, ...]
    budgets: int
    label_threshold: int | None = None
    found_before: bool = False

    def list_rows(self) -> list[Row]:
        """Return the figures of each group, with its label.

        Several quantiles of a group are one row each.
        """
        return [
            {"item": row.item} | record for row in self.rows for record in row.release.list_rows()
        ]

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
        for row in self.rows:
            row.release.take_population(population)
            # What was found of all groups is part of whom each of them is about.
            population = row.release.population
        super().take_population(population)


@final
@dataclass(frozen=True, repr=False, kw_only=True)
class TableNumbers:
    """An estimator that reads a table, for each of its groups: what a charge releases.

    Parameters
    ----------
    estimator : Estimator
        What is released, about all rows or about each group.
    adjacency : {"add-remove", "replace-one"}
        What neighbors are.
    labels : tuple of str, optional
        Of the groups; None: all rows are one group. What a release costs does not depend on them.
    order : array of int64, optional
        The places of the labels in the order in which their rows stand; None: in their own.
    groups_per_unit : int
        In how many groups one unit has a part.
    together : bool
        Whether one unit has so many rows instead, each in any group: all of them may be in the same
        one.
    shared : LaplaceMechanism, optional
        What counts rows with a number and rows without, of all groups together.
    """

    estimator: Estimator
    adjacency: Adjacency
    labels: tuple[Label, ...] | None = None
    groups_per_unit: int = 1
    together: bool = False
    order: NDArray[np.int64] | None = field(default=None, compare=False)
    shared: LaplaceMechanism | None = None

    def __repr__(self) -> str:
        groups = None if self.labels is None else len(self.labels)
        # Where rows are bounded in all groups together, so many rows of a unit are in any of them.
        bound = {"rows_in_all" if self.together else "groups_per_unit": self.groups_per_unit}
        return short_repr(self, {"estimator": self.estimator, "groups": groups, **bound})

    @cached_property
    def cost(self) -> Cost:
        """What a release spends."""
        figures = self.cost_of_figures()
        return figures if self.shared is None else compose(figures, self.shared.cost)

    @property
    def without_totals(self) -> Cost:
        """What is spent beside totals of sums and means: on clips and counting what is a number."""
        found = getattr(self.estimator, "cost_to_find", None)
        # Within clips that were found before nothing is looked for.
        parts = [] if found is None else [self.repeat_cost(found)]
        return compose(*parts, *([] if self.shared is None else [self.shared.cost]))

    def cost_of_figures(self) -> Cost:
        """Return what the figures of all groups cost."""
        return self.repeat_cost(self.estimator.cost)

    def repeat_cost(self, cost: Cost) -> Cost:
        """Return what all groups cost, of which one does so."""
        if self.labels is None or self.in_all:
            return cost
        return cost_of_groups(
            cost,
            most=self.groups_per_unit,
            anywhere=self.together,
            exchanged=self.adjacency == "replace-one",
            growing=grows(self.estimator),
        )

    @property
    def in_all(self) -> bool:
        """Whether the estimator is of all groups together."""
        return bool(getattr(self.estimator, "in_all", False))

    @property
    def budgets(self) -> int:
        """How many times the pure epsilon of a single group all of them cost at most."""
        if self.in_all:
            return 1
        return self.groups_per_unit * (1 if self.adjacency == "add-remove" else 2)

    @property
    def exact(self) -> bool:
        """True if the law that is proved is the law that is sampled."""
        return self.estimator.exact

    @property
    def _figures(self) -> ColumnFigures:
        return adapt(self.estimator)

    def read(self, question: NumberQuestion) -> ColumnReading:
        """Return what reads the rows that a question is about, after the charge."""
        return ColumnReading(question, self._figures)

    @scrubbed
    def release(self, numbers: PrivateNumbers, *, entropy: Entropy) -> Any:
        """Release one number, several, or those of all groups."""
        fresh_entropy(entropy, "TableNumbers.release")
        figures = self._release_figures(numbers, entropy)
        if self.shared is None:
            return figures
        counts = self.shared.release([numbers.known, numbers.missing], entropy=entropy)
        share = estimate_share(cast("Values", counts))
        if isinstance(figures, QuantileValues):
            return QuantileValues(
                replace(one, numbers_share=share, cost=self.cost) for one in figures
            )
        return replace(figures, numbers_share=share, cost=compose(figures.cost, share.cost))

    def _release_figures(self, numbers: PrivateNumbers, entropy: Entropy) -> Any:
        estimator, found = self.estimator, self._figures.release(numbers.answers, entropy)
        if self.labels is None:
            return found[0]
        places = range(len(self.labels)) if self.order is None else self.order.tolist()
        rows = tuple(GroupRow(self.labels[place], found[place]) for place in places)
        mechanism = (
            estimator.mechanisms if isinstance(estimator, QuantilesWithIntervals) else estimator
        )
        return Groups(
            rows=rows,
            budgets=self.budgets,
            mechanism=mechanism,
            cost=self.cost_of_figures(),
            simulated=entropy.simulated,
        )


def grows(estimator: Estimator) -> bool:
    """Tell whether a record can only raise the totals that an estimator adds noise to."""
    return bool(getattr(estimator, "totals_grow", False))


# ---- the noise of searches and totals ------------------------------------------------------------

Searches = Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals
_FINE_STEP = Fraction(1, 1 << 20)
"""Intervals are compared in steps of this share of what one unit moves."""


def refuse_gaussian_together(name: str, noise: MeasureNoise | None) -> None:
    """Refuse Gaussian noise where the bound on rows is about all groups together.

    All rows of a unit may be in one group: then its total moves by the sum of what they move, and
    that counts squared. Laplace noise pays for each row alone.
    """
    if noise == "gaussian":
        raise InvalidParameter(
            f"{name}.noise must be laplace where max_rows bounds the rows of a person in all "
            "groups together; got 'gaussian'. Give groups_per_unit (--groups-per-unit): then it "
            "bounds them in each group."
        )


def choose_totals_noise(
    name: str,
    noise: MeasureNoise | None,
    table: Table,
    whole: TableNumbers,
    search: Cost,
    build: Callable[..., Estimator] | None,
) -> dict[str, Fraction]:
    """Return the parameters of noise that is not pure, for each group; none where it stays pure.

    They are `total_rho`, of Gaussian noise for the totals, and where there is a clip to find
    `clip_gumbel`.

    Parameters
    ----------
    name : str
        Of the release, for messages.
    noise : {"laplace", "gaussian"} or None
        What the user asks for; None leaves it to the rule.
    table : Table
        Its account decides.
    whole : TableNumbers
        The release with pure noise.
    search : Cost
        Of what finds groups.
    build : function or None
        Makes the estimator of a `clip_gumbel`; None where the clips are known.
    """
    adjacency, groups = table.unit.adjacency, whole.groups_per_unit
    paid = compose(whole.cost, search)
    terms = find_terms(f"{name}.noise", table.price, paid, forced=noise == "gaussian")
    if terms is None:
        return {}
    found: dict[str, Fraction] = {}
    beside = whole
    if build is not None and noise != "laplace":
        gumbel = match_clip(terms, whole, build)
        if gumbel is not None:
            found["clip_gumbel"] = gumbel
            beside = replace(whole, estimator=build(clip_gumbel=gumbel))
    # How many times the rho of one step a unit pays in each of its groups: where one leaves and
    # another one joins, the totals move twice as far, or twice if they only rise.
    times = 1
    if whole.labels is not None and adjacency == "replace-one":
        times = 2 if grows(whole.estimator) else 4
    moved = Sensitivity(bound=1, monotone=False, adjacency=adjacency, step=_FINE_STEP)
    # Of all groups together Laplace noise is for what both units have, and Gaussian noise for what
    # their vectors are apart.
    apart = 2 if whole.in_all and times > 1 else 1
    each = Fraction(cast("ClippedSum | ClippedMean", whole.estimator).total_cost.pure())
    rho = choose_rho(
        terms,
        noise,
        # The noise of any clip is this noise, but for its unit.
        LaplaceMechanism(epsilon=groups * each, sensitivity=moved.over(groups * apart)),
        moved.over(groups * times, "l2"),
        # What counts rows with a number, and what finds groups stay pure.
        paid=paid,
        beside=compose(beside.without_totals, search),
        confidence=CONFIDENCE,
    )
    # Other noise in all parts or in none: the totals leave epsilons behind, a clip alone does not.
    parts = 1 if whole.in_all else groups * times
    return {} if rho is None else {**found, "total_rho": rho / parts}


def match_clip(
    terms: Terms, whole: TableNumbers, build: Callable[..., Estimator]
) -> Fraction | None:
    """Return the budget of a search for a clip with Gumbel noise, for what the pure one is worth.

    None where pure noise is as small, and costs no more than it is worth.
    """
    pure = cast("ClippedSum", whole.estimator).search
    paid = whole.repeat_cost(pure.cost)
    worth = terms.find_worth(paid)

    def find(budget: Fraction) -> ClipSearch:
        return cast("ClippedSum", build(clip_gumbel=budget)).search

    # A stage as long as the pure epsilon has about that price.
    guess = Fraction(pure.cost.pure())
    try:
        budget = match_budget(
            terms.price.meter, worth, guess, lambda one: whole.repeat_cost(find(one).cost)
        )
    except InvalidParameter:
        return None
    smaller = find(budget).scan.deviation < pure.scan.deviation
    # An open account leaves pure noise for smaller noise alone.
    return budget if smaller or not terms.keeps(paid) else None


def choose_search_noise(
    name: str,
    table: Table,
    whole: TableNumbers,
    search: Cost,
    build: Callable[[Fraction], Searches],
) -> Searches | None:
    """Return the estimator of quantiles with Gumbel noise of its price; None where it stays pure.

    Parameters as for `choose_totals_noise`; `build` makes the estimator with Gumbel noise, with so
    many times the share of epsilon.
    """
    pure, paid = cast("Searches", whole.estimator), compose(whole.cost, search)
    terms = find_terms(f"{name}.noise", table.price, paid, forced=False)
    # An account that adds up epsilons would add those of Gumbel noise, which are larger.
    if terms is None or terms.open:
        return None
    beside = search if whole.shared is None else compose(whole.shared.cost, search)
    worth = terms.find_worth(paid, beside)

    def find_cost(times: Fraction) -> Cost:
        return replace(whole, estimator=build(times)).cost_of_figures()

    try:
        if worth <= 0:
            return None
        other = build(match_budget(terms.price.meter, worth, Fraction(1), find_cost))
    except InvalidParameter:
        return None
    smaller = other.deviation < pure.deviation
    return other if smaller or not terms.keeps(paid) else None
