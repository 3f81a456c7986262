"""Questions how many units have a number in each of some public bins.

A unit has one number (docs/proofs/person-values.md), so it is in one bin or in none. Its label is
that of the bin: so the counts move as those of items do of which a unit has at most one
(docs/proofs/counts.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, ClassVar, final

import numpy as np

from sordino.columns import BucketGrid
from sordino.constraints import FINITE, Number, shown
from sordino.errors import InvalidParameter
from sordino.questions.counts import Counts
from sordino.questions.domain import Domain
from sordino.questions.number_question import prepare_numbers
from sordino.questions.totals import NumberQuestion
from sordino.questions.unit import Kind, PrivacyUnit, VectorNorm, all_answers, each_answer
from sordino.sensitivity import Sensitivity
from sordino.sources.engine import Progress
from sordino.sources.predicates.calls import name_bins
from sordino.sources.source import Source
from sordino.sources.sql.person_query import Aggregate

MOST_BINS = 1 << 16
_ROOM = 1 << 20
"""A row counts as at most so many times the farthest edge: what is beyond it may be offset."""


@final
@dataclass(frozen=True)
class BinQuestion:
    """A question that is ready: everything public has been checked, and no row has been read.

    Parameters
    ----------
    numbers : NumberQuestion
        Counts the numbers of units between the edges of bins.
    unit : PrivacyUnit
        Who is protected; it has one number at most.
    domain : Domain
        The bins, in their order.
    """

    kind: ClassVar[Kind] = "items"
    numbers: NumberQuestion
    unit: PrivacyUnit
    domain: Domain

    @property
    def source(self) -> Source:
        """The table."""
        return self.numbers.source

    @property
    def sensitivity(self) -> Sensitivity:
        """How far any one count moves between neighbors."""
        return each_answer(self.kind, self.unit)

    def joint(self, k: int, norm: VectorNorm = "l1") -> Sensitivity:
        """Return how far `k` counts move together, in a norm."""
        return all_answers(self.kind, self.unit, k, norm)

    def run(self, *, progress: Progress | None = None) -> Counts:
        """Read the rows, after the charge, and count the numbers of units in each bin; private."""
        [found] = self.numbers.run(progress=progress)
        return Counts(np.asarray(found.counts, dtype=np.int64), self.domain.labels)


def list_edges(name: str, bins: Any) -> tuple[float, ...]:
    """Return the edges of bins, rising; refuse what is none.

    Raises
    ------
    InvalidParameter
        If they are no numbers, not rising, none or too many.
    """
    if isinstance(bins, str) or not isinstance(bins, Iterable):
        raise InvalidParameter(f"{name} must be a list of numbers; got {shown(bins)}.")
    given: list[Number] = list(bins)
    edges = tuple(float(FINITE(name, one)) for one in given)
    if not 1 <= len(edges) <= MOST_BINS or any(high <= low for low, high in pairwise(edges)):
        said = ", ".join(f"{edge:.12g}" for edge in edges[:3])
        more = ", and more" if len(edges) > 3 else ""
        raise InvalidParameter(
            f"{name} must be from 1 to {MOST_BINS} rising numbers; got {len(edges)}: "
            f"{said or 'none'}{more}."
        )
    return edges


def prepare_bins(
    source: Source,
    unit: PrivacyUnit,
    *,
    column: str | None,
    edges: tuple[float, ...],
    per_person: Aggregate | None = None,
    where: str | None = None,
    salt: Any = b"",
) -> BinQuestion:
    """Check a question about numbers in bins against what is public about a source.

    Parameters as for `prepare_numbers`; `edges` rise.

    Raises
    ------
    InvalidParameter, UnsafePredicate, DataSourceError
        If the question cannot be asked; nothing has been read.
    """
    if unit.column is not None and per_person is None:
        raise InvalidParameter(
            "bins must be of one number of each person; got rows of persons, who may have "
            "many. Give per_person (--per-person sum, or mean, count, min, max)."
        )
    cuts = np.array(edges)
    exact = column is not None and source.number_column(column, "column")[1].scale is not None
    if per_person is None and exact:
        # Decimals are compared as they are: the float of an edge may lie just above the decimal
        # that was meant, and then the float below it is the edge.
        above = [Fraction(edge) > Fraction(repr(edge)) for edge in edges]
        cuts = np.where(above, np.nextafter(cuts, -np.inf), cuts)
    numbers = prepare_numbers(
        source,
        unit,
        column=column,
        grid=BucketGrid(edges=cuts),
        where=where,
        salt=salt,
        per_person=per_person,
        row_cap=_ROOM * max(1.0, *map(abs, edges)),
    )
    one = unit if unit.column is None else replace(unit, max_rows=1)
    origin = f"bins between {', '.join(f'{edge:.12g}' for edge in edges)}"
    return BinQuestion(numbers, one, Domain("list", origin, known=name_bins(edges)))
