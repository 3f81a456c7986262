"""Questions about a column of numbers.

Counts of rows in buckets, and sums of clipped rows in whole steps.

Floats are never added up or averaged. What leaves the engine are counts of rows and sums of whole
numbers, and what a row contributes is a function of that row alone (docs/proofs/numbers.md). Rows
without a unit, and rows whose group is not in the domain, are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, NamedTuple, final

from sordino.columns import BucketCounts, BucketGrid
from sordino.columns.bucket_sums import BucketSums
from sordino.columns.step_range import SquareTotal, StepRange, Total
from sordino.columns.sum_steps import SumSteps
from sordino.constraints import Number, shown
from sordino.errors import DataSourceError, InvalidParameter, UnboundedContribution
from sordino.questions.bounded_rows import Bounds, bounded, choose_groups_of
from sordino.questions.counts import SALT
from sordino.questions.domain import Domain
from sordino.questions.groups import grouping
from sordino.questions.rank_choice import SortedChoice, prepare_choice
from sordino.questions.rank_law import Draw, list_marking, pick_ranks
from sordino.questions.unit import PrivacyUnit
from sordino.sources.engine import Answer, Kept, Marking, Progress, Scan, after_charge
from sordino.sources.source import Source
from sordino.sources.sql.bucket_query import BucketQuery
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.person_query import (
    FLOAT_VALUES,
    Aggregate,
    People,
    find_row_step,
)
from sordino.sources.sql.step_query import DIGITS

BYTES_OF_CELL = 80
"""As much as a row of an answer takes on its way: up to six numbers, and a total as a text of 40
digits."""


class ColumnCounts(NamedTuple):
    """A column, counted: the buckets of each group, and all rows with a number and without.

    Private.
    """

    buckets: tuple[BucketCounts, ...]
    known: int
    missing: int


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
    groups_per_unit : int or None
        In at most so many groups a unit counts. None: its rows count in all groups together.
    most_groups : int or None
        Where nobody listed the groups, at most so many may be found; else None.
    ladder : SumSteps or None
        In which steps each bucket is added up, if `sums` will be asked.
    people : People or None
        What makes one number of the rows of a unit.
    all_rows : callable or None
        Where one clip is of what a unit adds up to in all of its groups: the rows with their
        groups. Then that is what is counted in buckets, of all groups together, and `totals` are of
        what each unit counts as in a group.
    """

    source: Source
    unit: PrivacyUnit
    grid: BucketGrid
    domain: Domain | None
    rows_per_unit: int
    groups_per_unit: int | None
    most_groups: int | None
    ladder: SumSteps | None = field(repr=False)
    kind: NumberKind = field(repr=False)
    indices: tuple[int, ...] = field(repr=False)
    dialect: Dialect = field(repr=False)
    rows: Callable[[int], str] = field(repr=False)
    marking: Marking | None = field(repr=False)
    choice: SortedChoice | None = field(repr=False)
    people: People | None = field(repr=False)
    all_rows: Callable[[int], str] | None = field(repr=False)

    @property
    def in_groups(self) -> bool:
        """Whether what is counted in buckets is in a group, or of all groups of a unit together."""
        return self.domain is not None and self.all_rows is None

    @property
    def groups(self) -> Sequence[str]:
        """The labels of the groups; none if all rows are one group.

        Raises
        ------
        UnknownDomain
            If nobody listed them, before a release has found them (`among`).
        """
        return () if self.domain is None else self.domain.labels

    @property
    def _sent(self) -> Sequence[str]:
        """The groups as the column writes them: a range may have other names for them."""
        if self.domain is None or self.domain.numbered is None:
            return self.groups
        # Rows hold the numbers themselves. What `Domain.indexed` calls them is for releases only.
        start = self.domain.numbered.start
        return [str(number) for number in range(start, start + self.domain.size)]

    def among(self, found: Iterable[str]) -> NumberQuestion:
        """Return this question about groups that a release found: their labels are public now.

        Everything else of it is as it was prepared. A unit takes part in groups that were found
        alone, and so what it has in others takes none of its places.

        Parameters
        ----------
        found : iterable of str
            At least one label, at most `most_groups`; not private.

        Raises
        ------
        InvalidParameter
            If they are none or too many, or the groups were known before.
        """
        labels = tuple(found)
        if self.domain is None or self.most_groups is None or len(labels) > self.most_groups:
            raise InvalidParameter(
                f"among.found must be at most {self.most_groups or 0} labels of groups that nobody "
                f"listed; got {len(labels)}."
            )
        return replace(self, domain=self.domain.found(labels))

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
        return self.count(progress=progress).buckets

    def count(self, *, progress: Progress | None = None) -> ColumnCounts:
        """Return what `run` does, and how many of the rows that count hold a number."""
        return after_charge(self._count, progress)

    def sums(self, *, progress: Progress | None = None) -> BucketSums:
        """Read the rows, once: count them as `run` does, and add up those of each bucket.

        Only a question that was prepared with a `ladder` can be asked that, after the charge.

        Returns
        -------
        BucketSums
            Private; of all groups, in the order of the domain, or of all rows as one group.

        Raises
        ------
        DataSourceError
            If anything fails, always with the same message.
        """
        return after_charge(self._sum, progress)

    def totals(
        self, ranges: Sequence[StepRange], *, progress: Progress | None = None
    ) -> tuple[Total, ...]:
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
        found = self._totals(ranges, squares=False, progress=progress)
        return tuple(Total(one.steps, one.known, one.missing) for one in found)

    def square_totals(
        self, ranges: Sequence[StepRange], *, progress: Progress | None = None
    ) -> tuple[SquareTotal, ...]:
        """Read the rows, once, and add up their steps as `totals` does, and squares of them.

        Only a question that was prepared with `squares` can be asked that.
        """
        return self._totals(ranges, squares=True, progress=progress)

    def _totals(
        self, ranges: Sequence[StepRange], *, squares: bool, progress: Progress | None
    ) -> tuple[SquareTotal, ...]:
        wanted = max(1, len(self.groups))
        if len(ranges) != wanted:
            raise InvalidParameter(
                f"totals.ranges must be {wanted}, one for each group; got {len(ranges)}."
            )
        if self.all_rows is not None and len({*ranges}) > 1:
            raise InvalidParameter(
                "totals.ranges must be one and the same for all groups, where one clip is of what "
                "a unit adds up to in all of them; got several."
            )
        return after_charge(lambda announce: self._add_up(ranges, squares, announce), progress)

    def _keep(self, first: int) -> Kept | None:
        """Return the part of a query that chooses numbers; other queries may choose the same."""
        # Of all rows of a unit nothing is chosen.
        if self.all_rows is not None:
            return None
        grouped = self.domain is not None
        sent = self._sent if grouped else None
        return Kept(self.rows(first), self.rows(0), sent, self.marking, self.choice)

    def _count(self, announce: Callable[[Scan], None]) -> ColumnCounts:
        groups = max(1, len(self.groups)) if self.in_groups else 1
        for query, answer in self._ask_buckets(announce, None):
            found = query.counted(answer, self.grid, groups)
            if found is not None:
                buckets = tuple(BucketCounts(grid=self.grid, counts=one) for one in found.counts)
                return ColumnCounts(buckets, found.known, found.missing)
        raise DataSourceError.after_charge()

    def _sum(self, announce: Callable[[Scan], None]) -> BucketSums:
        if self.ladder is None:
            raise InvalidParameter(
                "NumberQuestion.sums must be asked of a question with a ladder; got none."
            )
        for query, answer in self._ask_buckets(announce, self.ladder):
            found = query.summed(answer, self.ladder, max(1, len(self.groups)))
            if found is not None:
                return found
        raise DataSourceError.after_charge()

    def _ask_buckets(
        self, announce: Callable[[Scan], None], ladder: SumSteps | None
    ) -> Iterator[tuple[BucketQuery, Answer]]:
        """Yield the queries about buckets with their answers.

        Each is asked if the one before did not do.
        """
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            # A later query is asked only if the one before found that it put a number into a wrong
            # bucket.
            for query in self.dialect.buckets(self.kind, self.grid, ladder):
                # Cuts and labels travel as one list of texts: the cuts first, then the labels of
                # the groups.
                sql = query.over(self.rows(len(query.cuts)), grouped=self.in_groups)
                kept = self._keep(len(query.cuts))
                yield query, scan.ask(sql, [*query.cuts, *self._sent], kept=kept)

    def _add_up(
        self, ranges: Sequence[StepRange], squares: bool, announce: Callable[[Scan], None]
    ) -> tuple[SquareTotal, ...]:
        grouped = self.domain is not None
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            # Many groups have few ranges. Which one each has is sent before the labels, if there
            # are several.
            places = {one: place for place, one in enumerate(dict.fromkeys(ranges))}
            own = [str(places[one]) for one in ranges] if len(places) > 1 else []
            rows = self.write_rows(len(own), ranges[0])
            sql = self.dialect.steps(self.kind, list(places), rows, grouped, squares)
            sent = [*own, *self._sent] if grouped else None
            answer = scan.ask(sql, sent, kept=self._keep(len(own)))
        # Groups without rows are not in the answer: their total is 0, and they are released like
        # all others.
        found = [SquareTotal(0, 0, 0, 0)] * len(ranges)
        groups = answer["grp"].tolist() if grouped else [0]
        names = ("total", "known", "missing", *(["squares"] if squares else []))
        for place, *sums in zip(groups, *(answer[name].tolist() for name in names), strict=True):
            found[place] = SquareTotal(*map(int, sums), *([] if squares else [0]))
        return tuple(found)

    def write_rows(self, first: int, clip: StepRange) -> str:
        """Return what is added up, whose labels begin at `first` among the texts sent."""
        if self.all_rows is None or self.people is None:
            return self.rows(first)
        # There is one clip for all groups.
        return self.people.write_shares(self.all_rows(first), clip.high * clip.step, clip.step)


def prepare_numbers(
    source: Source,
    unit: PrivacyUnit,
    *,
    column: str | None,
    grid: BucketGrid,
    where: str | None = None,
    salt: Any = b"",
    by: str | None = None,
    domain: Domain | Iterable[object] | None = None,
    groups_per_unit: int | None = None,
    most_groups: int | None = None,
    squares: bool = False,
    ladder: SumSteps | None = None,
    per_person: Aggregate | None = None,
    row_cap: Number = 1,
    shared_ends: tuple[Fraction, Fraction] | None = None,
) -> NumberQuestion:
    """Check a question about a column of numbers against what is public about a source.

    Parameters
    ----------
    source : Source
        The opened table.
    unit : PrivacyUnit
        Who is protected; with a unit column, `max_rows` bounds how many rows of a unit count.
    column : str
        A column of whole numbers, decimals or floats. The texts of a CSV source are read as floats;
        those that are none are missing.
    grid : BucketGrid
        The buckets.
    where : str, optional
        A row predicate.
    salt : bytes
        At least 16 secret random bytes, needed with a unit column: it decides which rows of a unit
        count.
    by : str, optional
        A column of labels: each label of the domain is a group of its own.
    domain : Domain or list of labels, optional
        The groups, with `by`; rows with other labels are dropped. With `Domain.unlisted` a release
        finds them first (`prepare_groups`), and `NumberQuestion.among` takes what it found.
    groups_per_unit : int, optional
        With `by` and a unit column: a unit counts in at most so many groups, of which the salt
        decides, and `max_rows` is about each of them. None: it is about all groups together.
    most_groups : int, optional
        With `Domain.unlisted`: that release finds at most so many.
    squares : bool
        Whether `square_totals` will be asked, too.
    ladder : SumSteps, optional
        The steps of the buckets of the grid, if `sums` will be asked, and neither `run` nor
        `totals`.
    per_person : {"sum", "count", "mean", "min", "max", "any"}, optional
        Put one number for each unit, in each group, in place of its rows: this of the numbers that
        they hold. None: every row has its own. With "count" there may be no column: then all rows
        of a unit are counted.
    row_cap : number
        With `per_person`: public; a row beyond it may count as less (`find_row_step`).
    shared_ends : tuple of Fraction, optional
        With `by` and a sum or number of each unit: one clip is of what it adds up to in all of its
        groups, of which there may be any number. Public: between these ends lies what it adds up to
        in one.

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
    >>> from sordino.columns import StepRange
    >>> from sordino.questions import prepare_numbers
    >>> from sordino.sources import open_source
    >>> rows = open_source(polars.DataFrame({"amount": [1.5, 7.0, None, 200.0]}))
    >>> grid = sd.BucketGrid.geometric(lower=0, cap=100, growth=10)
    >>> question = prepare_numbers(rows, sd.PrivacyUnit.row(), column="amount", grid=grid)
    >>> question.run()[0].counts  # private: only a mechanism may see them
    array([3, 0, 0, 1])
    >>> question.totals([StepRange(low=0, high=20, step=Fraction(1, 2))])
    (Total(steps=37, known=3, missing=1),)
    """
    if not isinstance(source, Source):
        raise InvalidParameter(f"source must be what open_source returns; got {shown(source)}.")
    if not isinstance(unit, PrivacyUnit):
        raise InvalidParameter(f"unit must be a PrivacyUnit; got {shown(unit)}.")
    if not isinstance(grid, BucketGrid):
        raise InvalidParameter(f"grid must be a BucketGrid; got {shown(grid)}.")
    # All checks see declared types and parameters: no row has been read.
    indices, number, kind = _find_number(source, column, per_person)
    columns = {}
    # What adds up to no more than a clip in all groups together needs no bound on their number.
    shared = shared_ends is not None and per_person in {"sum", "count"}
    bounded_groups = groups_per_unit is not None or shared
    _check_people(unit, column, per_person, by=by, bounded=bounded_groups)
    if unit.column is not None:
        _check_salt(salt)
        columns["unit"] = source.label_index(unit.column, "PrivacyUnit.column")
    known, most = grouping(
        source,
        unit,
        # With one clip units are counted in buckets of all groups together.
        grid if shared_ends is None else BucketGrid(edges=grid.edges[:1]),
        by=by,
        domain=domain,
        groups_per_unit=groups_per_unit,
        most_groups=most_groups,
    )
    if by is not None:
        # Labels of groups are compared as text, as items and units are (docs/proofs/counts.md).
        columns["item"] = source.label_index(by, "by")
    # Where a release finds groups, it counts a unit in so many of them. Among what was found one
    # clip of all needs no bound.
    groups = most if shared_ends is None else None
    # At most so many groups, also where a release finds them: that is public, as the domain is.
    listed = most_groups if known is None or known.hidden else known.size
    predicate = None if where is None else source.predicate(where)
    indices |= {*columns.values()} | (predicate.indices if predicate is not None else frozenset())
    dialect = source.backend.dialect
    kinds = list(source.columns.values())
    named = dialect.words.name_columns(columns, kinds)
    draw = Draw.of(salt, dialect.words, kinds[columns["unit"]] if "unit" in columns else None)
    # `total` is true or false for every row, and never fails: a row decides about itself alone.
    whose = " FROM rows" + (f" WHERE {predicate.total}" if predicate is not None else "")
    kept = f"(SELECT {', '.join([f'{number} AS x', *named])}{whose})"

    def take_in(first: int) -> str:
        """Return rows with their groups, whose labels begin at `first` among the texts sent."""
        if by is None:
            return kept
        # The join drops rows with other labels first, so that they use up no group of their unit.
        labels = (
            f"(SELECT position - {first} AS grp, label AS item FROM labels"
            f" WHERE position >= {first})"
        )
        return (
            f"(SELECT kept.*, grp FROM {kept} AS kept JOIN {labels} AS listed"
            " ON kept.item = listed.item)"
        )

    people = _make_people(per_person, kind, row_cap, dialect, shared_ends)
    bounds = Bounds(
        # A unit has one number, in each of its groups.
        rows=1 if people is not None else unit.max_rows if unit.column is not None else None,
        groups=groups,
        grouped=by is not None,
        listed=listed,
    )

    def rows(first: int) -> str:
        """Return the rows that count."""
        if people is None:
            return bounded(take_in(first), bounds, draw)
        if shared_ends is not None:
            return people.write_wholes(all_rows(first))
        return people.write_one(all_rows(first), grouped=by is not None)

    def all_rows(first: int) -> str:
        """Return all rows of units in groups that count."""
        return choose_groups_of(take_in(first), bounds, draw)

    question = NumberQuestion(
        source=source,
        unit=unit,
        grid=grid,
        domain=known,
        rows_per_unit=1 if people is not None else unit.max_rows or 1,
        groups_per_unit=groups,
        most_groups=most_groups,
        ladder=ladder,
        kind=kind if people is None else FLOAT_VALUES,
        indices=tuple(sorted(indices)),
        dialect=dialect,
        rows=rows,
        marking=(
            _mark_together(number, f"{', '.join(named)}{whose}", unit.max_rows, draw)
            if people is None
            and by is None
            and unit.column is not None
            and unit.max_rows is not None
            else None
        ),
        # Where a unit has one number there is nothing to choose among its rows.
        choice=(
            prepare_choice(take_in(0), bounds, draw, number=kind.name) if people is None else None
        ),
        people=people,
        all_rows=None if shared_ends is None else all_rows,
    )
    _rehearse_numbers(question, squares=squares)
    return question


def _check_salt(salt: Any) -> None:
    # The message does not show the salt, which is secret.
    if not (isinstance(salt, bytes) and len(salt) >= SALT):
        raise InvalidParameter(
            f"salt must be at least {SALT} secret random bytes with a unit column."
        )


def _make_people(
    aggregate: Aggregate | None,
    kind: NumberKind,
    cap: Number,
    dialect: Dialect,
    ends: tuple[Fraction, Fraction] | None,
) -> People | None:
    """Return what makes one number of the rows of a unit, in the SQL of an engine; None of none."""
    if aggregate is None:
        return None
    step = find_row_step(kind, cap)
    return People(
        aggregate=aggregate,
        # How many rows there are is a whole number by itself.
        step=Fraction(1) if aggregate == "count" else step,
        steps=dialect.row_steps(kind, step),
        add=dialect.add_steps("steps"),
        float_type=dialect.float_type,
        float_of_sum=dialect.float_of_sum,
        ends=ends,
    )


def _find_number(
    source: Source, column: str | None, per_person: Aggregate | None
) -> tuple[set[int], str, NumberKind]:
    """Return which columns the number of a row needs, the number, and its kind."""
    if column is None:
        if per_person != "count":
            raise InvalidParameter(
                "column must be a column of numbers, unless the rows of each unit are counted "
                f"(per_person='count'); got none with per_person={per_person!r}."
            )
        return set(), "1", NumberKind("INTEGER", False, 0, -(1 << 31), (1 << 31) - 1)
    index, kind = source.number_column(column, "column")
    if (kind.scale or 0) > DIGITS:
        raise InvalidParameter(
            f"column must have at most {DIGITS} digits after the point; got {column!r} with "
            f"{kind.scale}."
        )
    dialect = source.backend.dialect
    number = dialect.number(index, kind)
    # A row of anybody may turn such a column into one of texts, whose numbers are floats: in which
    # steps the rows of all others are added up must not follow from that.
    if source.inferred and per_person is not None:
        return {index}, f"CAST({number} AS {dialect.float_type})", FLOAT_VALUES
    return {index}, number, kind


def _check_people(
    unit: PrivacyUnit,
    column: str | None,
    per_person: Aggregate | None,
    *,
    by: str | None,
    bounded: bool,
) -> None:
    """Refuse rows of a unit that nothing bounds, and one number of it where that makes no sense."""
    if per_person is None:
        if unit.column is not None and unit.max_rows is None:
            raise UnboundedContribution(
                "A question about numbers must have a bound on the rows of one unit, or make one "
                "number of them; got a unit column with neither. Give per_person (--per-person "
                "mean, or sum, count, min, max), or PrivacyUnit.max_rows (--max-rows)."
            )
        return
    if unit.column is None:
        raise InvalidParameter(
            "per_person must go with a unit column (--user), of whose rows it makes one number; "
            "got 'each row', which has one already. Leave it out."
        )
    if column == unit.column:
        raise InvalidParameter(
            f"column must be another one than that of the unit; got {column!r} for both."
        )
    if by is not None and not bounded:
        raise UnboundedContribution(
            "One number for each person in each group must have a bound on how many groups a "
            "person counts in; got none. Give groups_per_unit (--groups-per-unit)."
        )


def _rehearse_numbers(question: NumberQuestion, *, squares: bool) -> None:
    """Ask the question of an empty table of the declared types.

    What fails here would fail on any rows.
    """
    # All queries are asked, also those that are seldom needed:
    # after the charge none of them may fail for its plan.
    grouped = question.in_groups
    # Labels that nobody listed come from the engine itself, which takes them back.
    sent = ["group"] if question.domain is not None and question.domain.hidden else question.groups
    ends = StepRange(low=-1, high=1, step=Fraction(1))
    queries = question.dialect.buckets(question.kind, question.grid, question.ladder)
    asked: list[tuple[str, Sequence[str] | None]] = [
        (query.over(question.rows(len(query.cuts)), grouped=grouped), [*query.cuts, *sent])
        for query in queries
    ]
    # Whoever asks for sums of buckets needs no second reading.
    if question.ladder is None:
        labels = None if question.domain is None else ["group"]
        rows = question.write_rows(0, ends)
        steps = question.dialect.steps(question.kind, [ends], rows, labels is not None, squares)
        asked.append((steps, labels))
        if grouped:
            others = replace(ends, high=2)
            several = question.dialect.steps(
                question.kind, [ends, others], question.rows(1), grouped, squares
            )
            asked.append((several, ["0", "group"]))
    if question.choice is not None:
        labels = ["group"] if grouped else None
        asked += [(query, labels) for query in question.choice.list_queries()]
    # A row for each group and cell that have rows.
    most_groups = question.most_groups or len(question.groups) or 1
    cells = max(2, *(query.buckets.size for query in queries))
    largest = most_groups * cells * BYTES_OF_CELL
    question.source.rehearse(question.indices, asked, question.marking, largest=largest)


def _mark_together(number: str, whose: str, most: int, draw: Draw) -> Marking | None:
    """Return how the numbers of a unit are chosen beside those of other columns of the same rows.

    `whose` is what stands behind the numbers in the SELECT of `bounded`. The choice is that of
    `bounded`: who has how many rows, and what shifts their ranks, is the same for every column, and
    each has ranks of its own.
    """
    if not draw.words.materialized:
        return None

    def list_tables(numbers: Sequence[str]) -> list[tuple[str, str]]:
        names = [f"x{place}" for place in range(len(numbers))]
        listed = ", ".join(f"{one} AS {name}" for one, name in zip(numbers, names, strict=True))
        known = f"(SELECT * FROM (SELECT {listed}, {whose}) AS known WHERE unit IS NOT NULL)"
        return list_marking(known, columns=names, owner=["unit"], most=most, draw=draw)

    return Marking(
        number,
        f"{most} of {whose}, {draw.salt.hex()}",
        list_tables,
        lambda name: pick_ranks([name], order=[name], most=most, words=draw.words),
    )
