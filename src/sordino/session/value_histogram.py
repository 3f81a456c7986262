"""How many people have a number in each of some public bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, final, get_args

import numpy as np

from sordino.constraints import POSITIVE, TRUTH, Number, OrNone, one_of
from sordino.declared import parameter
from sordino.questions.value_bins import list_edges, prepare_bins
from sordino.session.counts import CountNoise, build_histogram
from sordino.session.noise_choice import NOISE_MEANS, MeasureNoise
from sordino.session.request import (
    SIMULTANEOUS_MEANS,
    Request,
    Reservation,
    Steps,
    Table,
    checked_later,
    counts_by_some_rows,
)
from sordino.session.results import Histogram
from sordino.sources.sql.person_query import Aggregate


@final
class ValueHistogramRequest(Request[Histogram]):
    """Release how many units have a number in each of some public bins.

    Each unit is in one bin: with `per_person` it has one number of all its rows. So there is one
    noise for all counts, however many bins there are. "Customers with at least 3 purchases" are
    those in the last of two bins: `bins=[3]`, `per_person="count"`. Who has no number is in none.

    Returns
    -------
    Histogram
        Rows with item (the bin), estimate, low, high, true_low, true_high, in the order of the
        bins: below the first edge, between two, from the last one on.

    Raises
    ------
    InvalidParameter, UnsafePredicate, BudgetExceeded, LedgerConflict, DataSourceError
        As for `histogram`; also if a unit may have several numbers.

    Examples
    --------
    >>> import polars as pl
    >>> import sordino as sd
    >>> customers = [*range(900), *range(300)]
    >>> orders = pl.DataFrame({"customer": customers, "amount": [20, 35, 80] * 400})
    >>> session = sd.Session(orders, unit=sd.PrivacyUnit("customer"), entropy=sd.Seeded(7))
    >>> spent = session.value_histogram("amount", bins=[30, 100], per_person="sum", epsilon=1)
    >>> [row.item for row in spent if row.low > 250]
    ['30 to below 100', '100 or more']
    """

    name: ClassVar[str] = "value_histogram"
    kept: ClassVar[tuple[str, ...]] = ("column", "bins", "per_person", "where", "simultaneous")

    column: str | None = parameter(
        checked_later,
        "Column of numbers.",
        more="None with `per_person='count'`: then all rows of a person are counted.",
        kw_only=False,
    )
    bins: Sequence[Number] = parameter(
        list_edges,
        "Edges of the bins, rising, such as 0,10,100.",
        more="Public. There is a bin below the first one, and one from the last one on.",
    )
    epsilon: Number = parameter(POSITIVE, "Budget of this release.")
    per_person: Aggregate | None = parameter(
        OrNone(one_of(*get_args(Aggregate))),
        "The one number of each person: the sum, mean, smallest or largest of its "
        "numbers, how many it has, or whether any is not 0.",
        more="Needed where people have rows. Where each row is somebody else it has a "
        "number itself.",
        default=None,
    )
    where: str | None = parameter(checked_later, "A row predicate.", default=None)
    simultaneous: bool = parameter(TRUTH, SIMULTANEOUS_MEANS, default=False)
    noise: MeasureNoise | None = parameter(
        OrNone(one_of("laplace", "gaussian")), NOISE_MEANS, more="As for `count`.", default=None
    )
    bounds: ClassVar[None] = None

    def steps(self, table: Table) -> Steps[Histogram]:
        """Measure the number of units in every bin."""
        question = prepare_bins(
            table.source,
            table.unit,
            column=self.column,
            edges=tuple(map(float, self.bins)),
            per_person=self.per_person,
            where=self.where,
            salt=table.salt(),
        )
        mechanism = CountNoise(self, table, question, question.domain.size).build(
            question.domain.size
        )
        detail = {
            "column": self.column,
            "where": self.where,
            "per_person": self.per_person,
        }

        charged = yield Reservation((mechanism,), detail, question.domain)
        counts = charged.read(question)
        return build_histogram(
            charged.release(mechanism, counts.at(np.arange(len(counts.labels)))),
            counts.labels,
            simultaneous=self.simultaneous,
            # Each unit counts, with all of its rows.
            capped=counts_by_some_rows(table, self, rows=False),
        )
