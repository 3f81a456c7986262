"""The labels with the largest sums, or the most rows, where people are protected."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, cast, final

import numpy as np

from sordino.constraints import FINITE, POSITIVE, TRUTH, Number, OrNone, one_of, to_fraction
from sordino.declared import parameter
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.estimators import ClippedSums, ClippedValue
from sordino.estimators.rows import estimate_histogram_rows
from sordino.mechanisms import HistogramTopK
from sordino.mechanisms.crossings.branches import Cut
from sordino.mechanisms.histogram_top_k import NOBODY, decide
from sordino.population import ColumnNames
from sordino.questions import PrivacyUnit
from sordino.questions.groups import resolve_groups
from sordino.releases import HistogramTop, Label
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.noisy_histogram import NoisyCounts, make_rows
from sordino.session.numbers import SumRequest
from sordino.session.request import (
    CAP,
    CONFIDENCE,
    MOST_ROWS,
    SIMULTANEOUS_MEANS,
    ListRequest,
    Steps,
    Table,
    accept_domain,
    checked_columns,
    checked_later,
    is_unlisted,
)
from sordino.session.results import TopItems
from sordino.session.table_numbers import Groups
from sordino.sources.sql.person_query import Aggregate

_FAR = 1 << 61
_FOUND = 10
"""Where nobody listed the labels: so many times k are found, by how many people have them."""


@final
class TopSumsRequest(ListRequest[TopItems]):
    """Release the `k` labels of a public domain with the largest sums, or with the most rows.

    With a threshold only those above it. Which products earn most, which pages are read most: where
    customers or readers are protected. What a person adds up to in all labels together is clipped
    at an end that is found privately, in proportion (`ClippedSums`), all sums get noise of that
    size, and the largest are released. So the noise does not grow with k, nor with how many labels
    there are or a person has, and `max_rows` does not count but where labels are looked for. What a
    person adds up to in a label counts as at least 0: where refunds may exceed that, `true_low` is
    no end of the sum as it is.

    Returns
    -------
    TopItems
        Rows with rank, item, estimate, low, high, gap, true_low, true_high, measured,
        tie, too_few; estimates and ends are sums. `clip` is what a person counts for at most.

    Raises
    ------
    InvalidParameter, UnboundedContribution, UnsafePredicate, UnknownDomain
        Before the charge, about public parameters; also if each row is a unit.
    BudgetExceeded, LedgerConflict, DataSourceError
        As for `top_k`.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> orders = pl.DataFrame({"customer": [*range(300)] * 2, "price": [9, 4, 5] * 200,
    ...                        "product": ["tea", "tea", "rice"] * 200})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> top = session.top_sums("product", "price", k=1, epsilon=1, domain=["rice", "tea"], cap=1e6)
    >>> [row.item for row in top], 2000 < top.rows[0].estimate < 2800
    (['tea'], True)
    """

    name: ClassVar[str] = "top_sums"
    chooses: ClassVar[bool] = True
    ranks_sums: ClassVar[bool] = True
    """Whether what people add up to falls from label to label: a plan asks."""

    item: ColumnNames = parameter(checked_columns, "Column of labels, or several.", kw_only=False)
    column: str | None = parameter(
        checked_later,
        "Column of numbers that are added up for each label; None: its rows are counted.",
        default=None,
        kw_only=False,
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    domain: Any = parameter(
        accept_domain,
        "Which labels can be released.",
        more="A `Domain` or a list of labels. With `Domain.unlisted` ten times k labels are found "
        "first, by how many people have them; `max_rows` says for how many labels a person counts "
        "there.",
        default=None,
    )
    cap: Number | None = parameter(
        OrNone(POSITIVE),
        "Public: as far up as what a person adds up to in all labels together goes; it can be "
        "generous. A billion, of rows a million, if nothing is said.",
        default=None,
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    threshold: Number | None = parameter(
        OrNone(FINITE), "Only items above this public threshold: K at most.", default=None
    )
    growth: Number = parameter(checked_later, "Factor between edges of the grid.", default=1.05)
    unit: Number = parameter(checked_later, "Below it edges are evenly spaced.", default=1.0)
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), f"Of the sums. {NOISE_MEANS}", default=None
    )
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)

    def settle(self, unit: PrivacyUnit) -> TopSumsRequest:  # noqa: ARG002 - of any unit
        """Choose a generous cap, where nothing is said."""
        if self.cap is not None:
            return self
        return replace(self, cap=MOST_ROWS if self.column is None else CAP)

    @property
    def per_person(self) -> Aggregate:
        """What a person has in a label."""
        return "count" if self.column is None else "sum"

    @property
    def lower(self) -> Number:
        """What a person adds up to in a label counts as no less: so no sum lies below 0."""
        return 0

    def steps(self, table: Table) -> Steps[TopItems]:
        """Release all sums with noise, and keep the largest."""
        if table.unit.column is None:
            raise InvalidParameter(
                "top_sums must go with people (--user), whose rows are added up; got "
                "'each row'. Ask for the sum by groups."
            )
        unlisted = is_unlisted(self.domain)
        if unlisted and table.unit.max_rows is None:
            raise UnboundedContribution(
                "top_sums of labels that nobody listed must have a bound on how many of them a "
                "person counts for while they are looked for; got none. Say it where the table is "
                "opened, such as max_rows=5 (--max-rows 5)."
            )
        domain = self.domain
        if domain is not None and not unlisted:
            # Ties go by the order of labels, whatever order they were given in.
            domain = replace(resolve_groups(domain, self.item, table.source), order=None)
            if domain.kind != "assumed public" and self.many > domain.size:
                raise InvalidParameter(
                    f"top_sums.k must be at most the size of the domain, {domain.size}; got "
                    f"{self.many}."
                )
        sums = replace(
            self.add_up(domain),
            groups_per_unit=table.unit.max_rows if unlisted else None,
            most_groups=_FOUND * self.many if unlisted else None,
        )
        groups: Groups = yield from sums.steps(table)
        return self._take_largest(groups)

    def add_up(self, domain: Any) -> SumRequest:
        """Return the request of the sums of some labels, of which the largest may be kept."""
        return SumRequest(
            column=self.column,
            by=self.item,
            domain=domain,
            per_person=self.per_person,
            epsilon=self.epsilon,
            lower=self.lower,
            cap=self.cap,
            growth=self.growth,
            unit=self.unit,
            where=self.where,
            noise=self.noise,
            # What is asked about is which are the largest.
            numbers_share=0,
        )

    def _take_largest(self, groups: Groups) -> TopItems:
        """Return the largest of noisy sums: what is made of a release costs nothing."""
        found = groups.label_threshold is not None
        sums = cast("list[ClippedValue]", [row.release for row in groups])
        counted = self._pick([row.item for row in groups], sums, found=found) if sums else None
        return TopItems(
            rows=() if counted is None else make_rows(counted, was_found=found),
            method="histogram",
            # What has found labels stands first.
            mechanism=groups.mechanism if found else (groups.mechanism,),
            cost=groups.cost,
            simulated=groups.simulated,
            label_threshold=groups.label_threshold,
            crossed=None if counted is None else counted.top.crossed,
            confidence=CONFIDENCE if counted is None else counted.said.confidence,
            together=CONFIDENCE if counted is None else counted.said.together,
            clip=None if counted is None else sums[0].clip,
            found=None if counted is None else sums[0].found,
            capped=None if counted is None else sums[0].capped,
        )

    def _cut(self, step: Fraction) -> Cut | None:
        """Return the threshold in steps of the noise, rounded up; beyond all sums it is there."""
        if self.threshold is None:
            return None
        threshold = to_fraction(self.threshold)
        steps = max(-_FAR, min(_FAR, math.ceil(threshold / step)))
        return Cut(steps, steps * step - threshold)

    def _pick(self, labels: list[Label], sums: list[ClippedValue], *, found: bool) -> NoisyCounts:
        """Return the largest, with intervals that allow for the selection."""
        noise, estimator = sums[0].noise, cast("ClippedSums", sums[0].mechanism)
        many, step = min(self.many, len(labels)), float(noise.step)
        # The noise of the sums is that of a histogram whose bound is the clip.
        histogram = HistogramTopK(
            k=many,
            sensitivity=noise.mechanism.sensitivity,
            epsilon=noise.budget.pure() if estimator.total_rho is None else None,
            rho=estimator.total_rho,
        )
        # Farther out nothing is told apart: they are whole numbers of any size.
        noisy = np.array([max(-_FAR, min(_FAR, one.noisy[0])) for one in sums], dtype=np.int64)
        items, values, entries = decide(noisy, many, self._cut(noise.step))
        here = items != NOBODY
        items, values, entries = items[here], values[here], entries[here]
        # Without a loser and a threshold every value would have been selected.
        alone = many == len(labels) and self.threshold is None
        top = HistogramTop(
            indices=items,
            values=values * step,
            entries=np.full(many, -np.inf) if alone else entries * step,
            crossed=None if self.threshold is None else items.size < many,
            mechanism=histogram,
            cost=sums[0].cost,
            simulated=sums[0].simulated,
        )
        said = estimate_histogram_rows(
            top,
            # How many labels were found is no public number.
            size=None if found else len(labels),
            confidence=CONFIDENCE,
            simultaneous=self.simultaneous,
            # Of what lies beyond the clip nothing is known.
            capped=True,
        )
        # A sum may have been rounded down by up to a step of its noise.
        said = replace(said, high=said.high + noise.rounded * step)
        return NoisyCounts(top, tuple(labels[place] for place in items.tolist()), said, None)
