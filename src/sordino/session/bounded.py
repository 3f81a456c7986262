"""The steps of sums and means within a declared range; refuses what could not be unbiased."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, cast, final

import numpy as np

from sordino.constraints import POSITIVE, exact
from sordino.data import CountQuestion, Domain, NumberQuestion, StepRange, prepare_counts
from sordino.errors import InvalidParameter
from sordino.estimators import BucketGrid
from sordino.session.bounded_total import BoundedTotal, Figure
from sordino.session.numbers import BoundedFigureRequest
from sordino.session.request import Progress, Reservation, Steps, Table

_CLIP_DEFAULTS = {"growth": Fraction(21, 20), "unit": Fraction(1)}


@final
@dataclass(frozen=True)
class Totals:
    """What clipped records add up to, and how many records there are where that is public."""

    question: NumberQuestion
    ends: StepRange
    counted: CountQuestion | None

    @property
    def domain(self) -> Domain | None:
        """The labels of the groups."""
        return self.question.domain

    def run(self, *, progress: Progress | None = None) -> tuple[Figure, ...]:
        """Read the rows, after the charge; private."""
        totals = self.question.totals([self.ends] * max(1, len(self.question.groups)), progress=progress)
        # The number of records decides how much noise there is, which is allowed: no neighbor has another
        # one.
        records = None if self.counted is None else int(self.counted.run().values[0])
        return tuple(Figure(total, records) for total in totals)


def bounded_steps(request: BoundedFigureRequest[Any], table: Table) -> Steps[Any]:
    """Add up rows that are moved between public ends, and release the figure within its range."""
    # Other numbers than the defaults were asked for.
    if {"growth": exact(request.growth), "unit": exact(request.unit)} != _CLIP_DEFAULTS:
        raise InvalidParameter(
            f"{request.name}.growth and unit must not be given with bounds: no clip is looked for, `lower` "
            "and `cap` are it."
        )
    if request.name == "mean":
        _check_records(request, table)
    epsilon, adjacency = request.share_of_group(table)
    estimator = BoundedTotal(
        kind=cast("Literal['sum', 'mean']", request.name),
        epsilon=epsilon,
        adjacency=adjacency,
        # Without a lower end there are numbers of both signs: the clip is symmetric.
        lower=-POSITIVE(f"{request.name}.cap", request.cap) if request.lower is None else request.lower,
        cap=request.cap,
        bounds=cast("Any", request.bounds),
        rows_per_unit=table.unit.max_rows or 1,
    )
    # Nothing is counted in buckets here; a question needs a grid all the same.
    question = request.ask(table, BucketGrid(edges=np.zeros(1)))
    mechanism = request.build_mechanism(table, question, estimator)
    counted = prepare_counts(table.source, table.unit, kind="rows") if request.name == "mean" else None
    detail = {
        **request.detail(),
        "bounds": request.bounds,
        "lower": Fraction(estimator.lower),
        "cap": Fraction(estimator.cap),
    }

    charged = yield Reservation((mechanism,), detail, question.domain)
    figures = charged.read(Totals(question, estimator.records, counted))
    return charged.release(mechanism, figures)


def _check_records(request: BoundedFigureRequest[Any], table: Table) -> None:
    """Refuse a mean over a private number of records.

    Nothing private and unbiased is known for a quotient of two private numbers.
    """
    if request.has_public_size(table):
        return
    source, unit = table.source, table.unit
    reasons = {
        "the adjacency is add-remove": unit.adjacency == "add-remove",
        "units are those of a column, who have any number of rows": unit.column is not None,
        "a predicate drops rows": request.where is not None,
        "rows are grouped": request.by is not None,
        "lines of a CSV file are dropped if they do not parse (write it as Parquet)": source.drops,
        "a view, a relation or a lazy frame may drop rows (name a table, or write the rows to Parquet)": (
            source.computed
        ),
    }
    # One of them holds: they are what `has_public_size` asks for, turned around.
    found = next(reason for reason, holds in reasons.items() if holds)
    raise InvalidParameter(
        "mean.bounds must go with a public number of rows (replace-one, each row a unit, nothing that drops "
        f"or groups rows), but {found}. Ask for a sum and a count with bounds, or for the mean without."
    )
