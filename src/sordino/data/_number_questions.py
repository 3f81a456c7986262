"""Questions about a column of numbers: counts of rows in buckets, and sums of clipped rows in whole steps.

Floats are never added up or averaged. What leaves the engine are counts of rows and sums of whole numbers,
and what a row contributes is a function of that row alone (docs/proofs/numbers.md). Rows without a unit, and
rows whose group is not in the domain, are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, final

from sordino.constraints import shown
from sordino.data._bounded_rows import bounded
from sordino.data._domain import Domain
from sordino.data._engine import Progress, Scan, after_charge
from sordino.data._grouping import grouping
from sordino.data._number_words import EMBEDDED, NumberWords
from sordino.data._numbers import NumberKind, number_column
from sordino.data._postgres_numbers import POSTGRES
from sordino.data._questions import SALT
from sordino.data._source import Source
from sordino.data._step_query import DIGITS, StepRange, Total
from sordino.data._unit import PrivacyUnit
from sordino.errors import DataSourceError, InvalidParameter, UnboundedContribution
from sordino.estimators import BucketCounts, BucketGrid


@final
@dataclass(frozen=True)
class NumberQuestion:
    """A question that is ready: everything public has been checked, and no row has been read.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected.
    grid : BucketGrid
        The buckets that are counted.
    domain : Domain or None
        The labels of the groups; None: all rows are one group.
    rows_per_unit : int
        At most so many rows of a unit count, in each group.
    groups_per_unit : int
        In at most so many groups a unit counts.
    """

    source: Source
    unit: PrivacyUnit
    grid: BucketGrid
    domain: Domain | None
    rows_per_unit: int
    groups_per_unit: int
    kind: NumberKind = field(repr=False)
    indices: tuple[int, ...] = field(repr=False)
    words: NumberWords = field(repr=False)
    rows: Callable[[int], str] = field(repr=False)

    @property
    def groups(self) -> Sequence[str]:
        """The labels of the groups; none if all rows are one group."""
        return () if self.domain is None else self.domain.labels

    @property
    def _sent(self) -> Sequence[str]:
        """The groups as the column writes them: a range may have other names for them."""
        if self.domain is None or self.domain.numbered is None:
            return self.groups
        start = self.domain.numbered.start
        return [str(number) for number in range(start, start + self.domain.size)]

    def run(self, *, progress: Progress | None = None) -> tuple[BucketCounts, ...]:
        """Read the rows, once, and count them. Call it after the charge.

        Parameters
        ----------
        progress : callable, optional
            Called now and then with how much has been read, 0 to 100.

        Returns
        -------
        tuple of BucketCounts
            Private; one for each group, in the order of the domain, or a single one.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        return after_charge(self._count, progress)

    def totals(self, ranges: Sequence[StepRange], *, progress: Progress | None = None) -> tuple[Total, ...]:
        """Read the rows, once, and add up their steps, clipped to the range of their group.

        Call it after the charge.

        Parameters
        ----------
        ranges : sequence of StepRange
            One for each group, or a single one; not private.

        Returns
        -------
        tuple of Total
            Private; one for each group, in the order of the domain, or a single one.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        wanted = max(1, len(self.groups))
        if len(ranges) != wanted:
            raise InvalidParameter(f"totals.ranges must be {wanted}, one for each group; got {len(ranges)}.")
        return after_charge(lambda announce: self._add_up(ranges, announce), progress)

    def _count(self, announce: Callable[[Scan], None]) -> tuple[BucketCounts, ...]:
        groups = max(1, len(self.groups))
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            # A later query is asked only if the one before found that it put a number into a wrong bucket.
            for query in self.words.buckets(self.kind, self.grid):
                # Cuts and labels travel as one list of texts: the cuts first, then the labels of the groups.
                sql = query.over(self.rows(len(query.cuts)), grouped=self.domain is not None)
                counts = query.counted(scan.ask(sql, [*query.cuts, *self._sent]), self.grid, groups)
                if counts is not None:
                    return tuple(BucketCounts(grid=self.grid, counts=one) for one in counts)
        raise DataSourceError.after_charge()

    def _add_up(self, ranges: Sequence[StepRange], announce: Callable[[Scan], None]) -> tuple[Total, ...]:
        grouped = self.domain is not None
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            sql = self.words.steps(self.kind, ranges, self.rows(0), grouped)
            answer = scan.ask(sql, self._sent if grouped else None)
        # Groups without rows are not in the answer: their total is 0, and they are released like all others.
        found = [Total(0, 0)] * len(ranges)
        places = answer["grp"].tolist() if grouped else [0]
        for place, total, known in zip(
            places, answer["total"].tolist(), answer["known"].tolist(), strict=True
        ):
            found[place] = Total(int(total), int(known))
        return tuple(found)


def prepare_numbers(
    source: Source,
    unit: PrivacyUnit,
    *,
    column: str,
    grid: BucketGrid,
    where: str | None = None,
    salt: Any = b"",
    by: str | None = None,
    domain: Domain | Iterable[object] | None = None,
    groups_per_unit: int | None = None,
) -> NumberQuestion:
    """Check a question about a column of numbers against what is public about a source.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected; with a unit column, `max_rows` bounds how many rows of a unit count (in each group).
    column : str
        A column of whole numbers, decimals or floats. The texts of a CSV source are read as floats; those
        that are none are missing.
    grid : BucketGrid
        The buckets.
    where : str, optional
        A row predicate.
    salt : bytes
        At least 16 secret random bytes, needed with a unit column: it decides which rows of a unit count.
    by : str, optional
        A column of labels: each label of the domain is a group of its own.
    domain : Domain or list of labels, optional
        The groups, with `by`; rows with other labels are dropped.
    groups_per_unit : int, optional
        With `by` and a unit column: a unit counts in at most so many groups, of which the salt decides.

    Returns
    -------
    NumberQuestion
        `run` counts the rows in buckets after the charge, `totals` adds up clipped rows.

    Raises
    ------
    InvalidParameter, UnknownDomain, UnboundedContribution, UnsafePredicate, DataSourceError
        If the question cannot be asked; nothing has been read.

    Examples
    --------
    >>> import polars
    >>> from fractions import Fraction
    >>> import sordino as sd
    >>> from sordino.data import StepRange, open_source, prepare_numbers
    >>> rows = open_source(polars.DataFrame({"amount": [1.5, 7.0, None, 200.0]}))
    >>> grid = sd.BucketGrid.geometric(lower=0, cap=100, growth=10)
    >>> question = prepare_numbers(rows, sd.PrivacyUnit.row(), column="amount", grid=grid)
    >>> question.run()[0].counts  # private: only a mechanism may see them
    array([3, 0, 1])
    >>> question.totals([StepRange(low=0, high=20, step=Fraction(1, 2))])
    (Total(steps=37, known=3),)
    """
    if not isinstance(source, Source):
        raise InvalidParameter(f"source must be what open_source returns; got {shown(source)}.")
    if not isinstance(unit, PrivacyUnit):
        raise InvalidParameter(f"unit must be a PrivacyUnit; got {shown(unit)}.")
    if not isinstance(grid, BucketGrid):
        raise InvalidParameter(f"grid must be a BucketGrid; got {shown(grid)}.")
    index, kind = number_column(source, column, "column")
    if (kind.scale or 0) > DIGITS:
        raise InvalidParameter(
            f"column must have at most {DIGITS} digits after the point; got {column!r} with {kind.scale}."
        )
    columns = {}
    if unit.column is not None:
        if unit.max_rows is None:
            raise UnboundedContribution(
                "A question about numbers must have a bound on the rows of one unit; got a unit column "
                "without one. Give PrivacyUnit.max_rows (--max-rows)."
            )
        # The message does not show the salt, which is secret.
        if not (isinstance(salt, bytes) and len(salt) >= SALT):
            raise InvalidParameter(f"salt must be at least {SALT} secret random bytes with a unit column.")
        columns["unit"] = source.label_index(unit.column, "PrivacyUnit.column")
    known, groups = grouping(source, unit, grid, by=by, domain=domain, groups_per_unit=groups_per_unit)
    if by is not None:
        columns["item"] = source.label_index(by, "by")
    predicate = None if where is None else source.predicate(where)
    indices = {index, *columns.values()} | (predicate.indices if predicate is not None else frozenset())
    words = POSTGRES if source.kind == "postgres" else EMBEDDED
    kinds = list(source.columns.values())
    taken = ", ".join(
        [
            f"{words.number(index, kind)} AS x",
            *(f"{words.words.label(place, kinds[place])} AS {name}" for name, place in columns.items()),
        ]
    )
    # `total` is true or false for every row, and never fails: a row decides about itself alone.
    kept = f"(SELECT {taken} FROM rows" + (f" WHERE {predicate.total})" if predicate is not None else ")")

    def rows(first: int) -> str:
        """Return the rows that count; group labels begin at `first` among the texts that are sent."""
        inside = kept
        if by is not None:
            # The join drops rows with other labels first, so that they use up no group of their unit.
            labels = f"(SELECT position - {first} AS grp, label FROM labels WHERE position >= {first})"
            inside = f"(SELECT kept.*, grp FROM {kept} AS kept JOIN {labels} AS listed ON item = label)"
        most = unit.max_rows if unit.column is not None else None
        return bounded(
            inside,
            rows=most,
            groups=groups,
            grouped=by is not None,
            salt=salt,
            words=words.words,
            floats=kind.scale is None,
        )

    question = NumberQuestion(
        source=source,
        unit=unit,
        grid=grid,
        domain=known,
        rows_per_unit=unit.max_rows or 1,
        groups_per_unit=groups or 1,
        kind=kind,
        indices=tuple(sorted(indices)),
        words=words,
        rows=rows,
    )
    _rehearse(question)
    return question


def _rehearse(question: NumberQuestion) -> None:
    """Ask the question of an empty table of the declared types: what fails here would fail on any rows."""
    # All queries are asked, also those that are seldom needed:
    # after the charge none of them may fail for its plan.
    grouped = question.domain is not None
    ends = StepRange(low=-1, high=1, step=Fraction(1))
    asked: list[tuple[str, Sequence[str] | None]] = [
        (query.over(question.rows(len(query.cuts)), grouped=grouped), [*query.cuts, *question.groups])
        for query in question.words.buckets(question.kind, question.grid)
    ]
    asked.append(
        (
            question.words.steps(question.kind, [ends], question.rows(0), grouped),
            ["group"] if grouped else None,
        )
    )
    question.source.rehearse(question.indices, asked)
