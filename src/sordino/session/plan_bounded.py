"""Plans sums and means within a declared range, and refuses what could not be unbiased."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, final

import numpy as np

from sordino.constraints import POSITIVE, exact
from sordino.data import (
    CountQuestion,
    Domain,
    NumberQuestion,
    PrivacyUnit,
    Source,
    StepRange,
    prepare_counts,
    prepare_numbers,
)
from sordino.entropy import Entropy
from sordino.errors import InvalidParameter
from sordino.estimators import BucketGrid
from sordino.session.bounded_total import BoundedTotal, Figure
from sordino.session.plan import Bounds, Payer, Plan, Progress, Rows
from sordino.session.plan_numbers import size_is_public
from sordino.session.table_numbers import TableNumbers

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


def plan_bounded(
    name: Literal["sum", "mean"],
    source: Source,
    unit: PrivacyUnit,
    rows: Rows,
    /,
    *,
    bounds: Bounds,
    salt: bytes,
    epsilon: Any,
    lower: Any,
    cap: Any,
    **unused: Any,
) -> Plan[Any]:
    """Check the question and return the release, from public things alone: no row has been read."""
    # The session always passes growth and unit: other numbers than the defaults were asked for.
    if {option: exact(value) for option, value in unused.items()} != _CLIP_DEFAULTS:
        raise InvalidParameter(
            f"{name}.growth and unit must not be given with bounds: no clip is looked for, `lower` and "
            "`cap` are it."
        )
    if name == "mean":
        _check_records(source, unit, rows)
    budget, adjacency = POSITIVE(f"{name}.epsilon", epsilon), unit.adjacency
    # Groups divide the budget as in every release about groups (see `_estimator_options` in plan_numbers.py).
    if rows.by is not None:
        budget, adjacency = (
            budget / (rows.groups(name) * (1 if unit.adjacency == "add-remove" else 2)),
            "add-remove",
        )
    estimator = BoundedTotal(
        kind=name,
        epsilon=budget,
        adjacency=adjacency,
        # Without a lower end there are numbers of both signs: the clip is symmetric.
        lower=-POSITIVE(f"{name}.cap", cap) if lower is None else lower,
        cap=cap,
        bounds=bounds,
        rows_per_unit=unit.max_rows or 1,
    )
    about: dict[str, Any] = {"by": rows.by, "domain": rows.domain, "groups_per_unit": rows.groups_per_unit}
    question = prepare_numbers(
        source,
        unit,
        column=rows.column,
        # Nothing is counted in buckets here; a question needs a grid all the same.
        grid=BucketGrid(edges=np.zeros(1)),
        where=rows.where,
        salt=salt,
        **about,
    )
    labels = None if question.domain is None else tuple(question.groups)
    mechanism = TableNumbers(
        estimator=estimator, adjacency=unit.adjacency, labels=labels, groups_per_unit=rows.groups(name)
    )
    counted = prepare_counts(source, unit, kind="rows") if name == "mean" else None

    def finish(payer: Payer, figures: Sequence[Figure], entropy: Entropy) -> Any:
        return payer.release(mechanism, figures, entropy=entropy)

    public: dict[str, Any] = {
        "column": rows.column,
        "where": rows.where,
        "by": rows.by,
        "groups_per_unit": rows.groups_per_unit,
        "bounds": bounds,
    }
    public |= {"lower": Fraction(estimator.lower), "cap": Fraction(estimator.cap)}
    return Plan(name, Totals(question, estimator.records, counted), public, (mechanism,), finish)


def _check_records(source: Source, unit: PrivacyUnit, rows: Rows) -> None:
    """Refuse a mean over a private number of records.

    Nothing private and unbiased is known for a quotient of two private numbers.
    """
    if size_is_public(unit, rows, source):
        return
    reasons = {
        "the adjacency is add-remove": unit.adjacency == "add-remove",
        "units are those of a column, who have any number of rows": unit.column is not None,
        "a predicate drops rows": rows.where is not None,
        "rows are grouped": rows.by is not None,
        "lines of a CSV file are dropped if they do not parse (write it as Parquet)": source.drops,
        "a view, a relation or a lazy frame may drop rows (name a table, or write the rows to Parquet)": (
            source.computed
        ),
    }
    # One of them holds: they are what `size_is_public` asks for, turned around.
    found = next(reason for reason, holds in reasons.items() if holds)
    raise InvalidParameter(
        "mean.bounds must go with a public number of rows (replace-one, each row a unit, nothing that drops "
        f"or groups rows), but {found}. Ask for a sum and a count with bounds, or for the mean without."
    )
