"""Prepares questions about a column of numbers: all that is public is checked, and no row is read.

Rows without a unit, and rows whose group is not in the domain, are dropped:
docs/proofs/numbers.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast, final

from sordino.columns import BucketGrid
from sordino.columns.bucket_sums import SumSteps
from sordino.columns.clipped_steps import StepRange
from sordino.constraints import Number, shown
from sordino.errors import InvalidParameter, UnboundedContribution
from sordino.questions.bounded_rows import Bounds, bounded, choose_groups_of
from sordino.questions.counts import SALT, list_label_columns
from sordino.questions.domain import Domain
from sordino.questions.groups import grouping
from sordino.questions.labels import Tuples, join_found, name_columns, write_places
from sordino.questions.rank_choice import prepare_choice
from sordino.questions.rank_law import Draw, list_marking, pick_ranks
from sordino.questions.totals import BYTES_OF_CELL, NumberQuestion, Weighed, Weight
from sordino.questions.unit import PrivacyUnit
from sordino.sources.engine import Marking
from sordino.sources.source import Source
from sordino.sources.sql.bucket_query import WEIGHT
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.person_query import (
    FLOAT_VALUES,
    Aggregate,
    People,
    find_row_step,
    write_row_counts,
    write_weights,
)
from sordino.sources.sql.step_query import DIGITS, Addends


def prepare_numbers(
    source: Source,
    unit: PrivacyUnit,
    *,
    column: str | None,
    grid: BucketGrid,
    where: str | None = None,
    salt: Any = b"",
    by: str | Sequence[str] | None = None,
    domain: Domain | Iterable[object] | None = None,
    groups_per_unit: int | None = None,
    most_groups: int | None = None,
    squares: bool = False,
    ladder: SumSteps | None = None,
    per_person: Aggregate | None = None,
    row_cap: Number = 1,
    shared_ends: tuple[Fraction, Fraction] | None = None,
    weigh_grid: BucketGrid | None = None,
    weigh_each: bool = False,
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
    by : str or sequence of str, optional
        A column of labels, or several: each label of the domain is a group of its own.
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
    weigh_grid : BucketGrid, optional
        Rows of units count with weights, or what each unit has in each group, and there may be any
        number of them: in these buckets weights are added up. Then `grid` is one of numbers of rows
        of a unit.

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
    source = source.take_unit(unit.columns, "PrivacyUnit.column")
    if not isinstance(grid, BucketGrid):
        raise InvalidParameter(f"grid must be a BucketGrid; got {shown(grid)}.")
    # All checks see declared types and parameters: no row has been read.
    indices, number, kind = _find_number(source, column, per_person)
    columns = {}
    shared, weighs = shared_ends is not None, weigh_grid is not None
    # What adds up to no more than a clip in all groups together needs no bound on their number.
    adds_up = shared and per_person in {"sum", "count"}
    _check_people(unit, column, per_person, by=by, groups=groups_per_unit, in_all=adds_up or weighs)
    if unit.column is not None:
        _check_salt(salt)
        columns["unit"] = source.find_unit(unit.columns)
    known, most = grouping(
        source,
        unit,
        # With one clip units are counted in buckets of all groups together.
        BucketGrid(edges=grid.edges[:1]) if shared or weighs else grid,
        by=by,
        domain=domain,
        groups_per_unit=groups_per_unit,
        most_groups=most_groups,
    )
    if by is not None:
        # Labels of groups are compared as text, as items and units are (docs/proofs/counts.md).
        columns |= list_label_columns(source, name_columns("by", by), "by")
    predicate = None if where is None else source.predicate(where)
    indices |= {*columns.values()} | (predicate.indices if predicate is not None else frozenset())
    dialect = source.backend.dialect
    kinds = list(source.columns.values())
    named = dialect.words.name_columns(columns, kinds)
    draw = Draw.of(salt, dialect.words, kinds[columns["unit"]] if "unit" in columns else None)
    # `total` is true or false for every row, and never fails: a row decides about itself alone.
    whose = f" FROM {source.write_rows(indices)}" + (
        f" WHERE {predicate.total}" if predicate is not None else ""
    )
    # A unit has one number, in each of its groups; or each of its rows has a weight.
    one = per_person is not None or weighs
    bounds = Bounds(
        rows=1 if one else unit.max_rows if unit.column is not None else None,
        # Where a release finds groups, it counts a unit in so many of them. Among what was found
        # one clip of all needs no bound.
        groups=None if shared or weighs else most,
        grouped=by is not None,
        # At most so many groups, also where a release finds them: that is public, as the domain is.
        listed=most_groups if known is None or known.hidden else known.size,
    )
    writer = _RowWriter(
        kept=f"(SELECT {', '.join([f'{number} AS x', *named])}{whose})",
        bounds=bounds,
        draw=draw,
        people=_make_people(per_person, kind, row_cap, dialect, shared_ends),
        float_type=dialect.float_type,
        tuples=None if known is None else known.tuples,
        found=len(known.parts) if known is not None and known.hidden else 0,
    )
    number_kind = kind if per_person is None else FLOAT_VALUES
    question = NumberQuestion(
        source=source,
        unit=unit,
        grid=grid,
        domain=known,
        rows_per_unit=1 if one else unit.max_rows or 1,
        groups_per_unit=bounds.groups,
        most_groups=most_groups,
        ladder=ladder,
        kind=FLOAT_VALUES if weighs else number_kind,
        indices=source.find_read(indices),
        dialect=dialect,
        rows=writer.count_rows if weighs else writer.write_wholes if shared else writer.write_rows,
        # Where a unit has one number there is nothing to choose among its rows.
        marking=None if one else _mark_rows(unit, number, f"{', '.join(named)}{whose}", by, draw),
        choice=(None if one else prepare_choice(writer.take_in(0), bounds, draw, number=kind.name)),
        shares=writer.write_shares if shared else None,
        weighed=(
            None
            if weigh_grid is None
            else Weighed(
                weigh_grid, number_kind, writer.write_weights, weigh_each and by is not None
            )
        ),
    )
    _rehearse_numbers(question, squares=squares)
    return question


@final
@dataclass(frozen=True, kw_only=True)
class _RowWriter:
    """Writes the rows of a question, whose labels begin at `first` among the texts sent.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses of what the predicate keeps.
    bounds : Bounds
        How much of a unit counts.
    draw : Draw
        What decides.
    people : People or None
        What makes one number of the rows of a unit.
    float_type : str
        What the engine calls floats of 64 bits.
    tuples : Tuples or None
        The labels of groups, where they are of several columns and listed.
    found : int
        Of how many columns they are, where a release finds them; else 0.
    """

    kept: str
    bounds: Bounds
    draw: Draw
    people: People | None
    float_type: str
    tuples: Tuples | None
    found: int

    def take_in(self, first: int) -> str:
        """Return rows with their groups."""
        if not self.bounds.grouped:
            return self.kept
        # The join drops rows with other labels first, so that they use up no group of their unit.
        if self.found > 1:
            return join_found(self.kept, self.found, first=first)
        if self.tuples is not None:
            carried = ["x"] if self.bounds.rows is None else ["x", "unit"]
            words = self.draw.words
            return write_places(
                self.kept, self.tuples, words, carried=carried, named="grp", first=first
            )
        labels = (
            f"(SELECT position - {first} AS grp, label AS item FROM labels"
            f" WHERE position >= {first})"
        )
        return (
            f"(SELECT kept.*, grp FROM {self.kept} AS kept JOIN {labels} AS listed"
            " ON kept.item = listed.item)"
        )

    def write_rows(self, first: int) -> str:
        """Return the rows that count, or one number of each unit in their place."""
        if self.people is None:
            return bounded(self.take_in(first), self.bounds, self.draw)
        return self.people.write_one(self._write_all(first), grouped=self.bounds.grouped)

    def _write_all(self, first: int) -> str:
        """Return all rows of units in groups that count."""
        return choose_groups_of(self.take_in(first), self.bounds, self.draw)

    def write_wholes(self, first: int) -> str:
        """Return what units add up to in all of their groups."""
        return cast("People", self.people).write_wholes(self._write_all(first))

    def write_shares(self, first: int, clip: StepRange) -> str:
        """Return what units count as in each of their groups, with one clip."""
        people = cast("People", self.people)
        return people.write_shares(self._write_all(first), clip.high * clip.step, clip.step)

    def count_rows(self, first: int) -> str:
        """Return how many numbers units have in all of their groups."""
        return write_row_counts(self._write_numbers(first), self.float_type)

    def write_weights(self, first: int, weight: Weight) -> str:
        """Return all numbers of units, each with its weight."""
        return write_weights(
            self._write_numbers(first),
            weight.cap,
            1 << weight.bits,
            self.float_type,
            grouped=self.bounds.grouped,
        )

    def _write_numbers(self, first: int) -> str:
        """Return all numbers of units with their unit: of rows, or one in each group."""
        rows = self._write_all(first)
        if self.people is None:
            return rows
        return self.people.write_one(rows, grouped=self.bounds.grouped, owned=True)


def _check_salt(salt: Any) -> None:
    # The message does not show the salt, which is secret.
    if not (isinstance(salt, bytes) and len(salt) >= SALT):
        raise InvalidParameter(
            f"salt must be at least {SALT} secret random bytes where people have rows."
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
                "column must be a column of numbers, unless the rows of each person are counted "
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
    by: str | Sequence[str] | None,
    groups: int | None,
    in_all: bool,
) -> None:
    """Refuse rows of a unit that nothing bounds, and one number of it where that makes no sense.

    `in_all` what a unit has in all groups together is bounded.
    """
    if in_all and column is not None and column in unit.names:
        raise _refuse_own(column)
    if per_person is None:
        if unit.column is not None and unit.max_rows is None and not in_all:
            raise UnboundedContribution(
                "A question about numbers must have a bound on the rows of each person, or make "
                "one number of them; got neither. Give per_person (--per-person mean, or sum, "
                "count, min, max), or max_rows (--max-rows) where the table is opened."
            )
        return
    if unit.column is None:
        raise InvalidParameter(
            "per_person must go with a column that says whose a row is (--user); "
            "got 'each row', of which each has one number already. Leave it out."
        )
    if column in unit.names:
        raise _refuse_own(column)
    if by is not None and groups is None and not in_all:
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
    # Edges are texts of one form: two of a grid show as much as all, and nothing is counted in it.
    grouped = question.in_groups
    # Labels that nobody listed come from the engine itself, which takes them back.
    sent = ["group"] if question.domain is not None and question.domain.hidden else question.sent
    ends = StepRange(low=-1, high=1, step=Fraction(1))
    groups = question.most_groups or len(question.groups) or 1
    queries = question.list_queries(question.ladder)
    asked: list[tuple[str, Sequence[str] | None]] = [
        (query.over(question.rows(len(query.cuts)), grouped=grouped), [*query.cuts[:2], *sent])
        for query in queries
    ]
    cells = [query.buckets.size for query in queries]
    if question.weighed is not None:
        asked += _list_weighed(question, question.weighed, sent, squares=squares)
        cells.append((question.weighed.grid.size + 2) * (groups if question.weighed.each else 1))
    # Whoever asks for sums of buckets needs no second reading.
    elif question.ladder is None:
        labels = None if question.domain is None else ["group"]
        rows = question.write_rows(0, ends)
        wanted = Addends([ends], rows, labels is not None, squares)
        steps = question.dialect.steps(question.kind, wanted)
        asked.append((steps, labels))
        if grouped:
            others = replace(ends, high=2)
            wanted = Addends([ends, others], question.rows(1), grouped, squares)
            several = question.dialect.steps(question.kind, wanted)
            asked.append((several, ["0", "group"]))
    if question.choice is not None:
        labels = ["group"] if grouped else None
        asked += [(query, labels) for query in question.choice.list_queries()]
    # A row for each group and cell that have rows; with one clip a row for each cell, or group.
    most = max(2 * groups, max(cells) * (1 if question.in_all else groups))
    question.source.rehearse(
        question.indices, asked, question.marking, largest=most * BYTES_OF_CELL
    )


def _list_weighed(
    question: NumberQuestion, weighed: Weighed, sent: Sequence[str], *, squares: bool
) -> list[tuple[str, Sequence[str] | None]]:
    """Return the queries about weighed rows, each with the texts that it is sent."""
    weight = Weight(1, 24)
    grouped = question.domain is not None
    asked: list[tuple[str, Sequence[str] | None]] = [
        (
            query.over(weighed.rows(len(query.cuts), weight), grouped=weighed.each),
            [*query.cuts[:2], *sent],
        )
        for query in question.dialect.buckets(weighed.kind, weighed.grid, WEIGHT)
    ]
    ends = StepRange(low=-1, high=1, step=Fraction(1))
    rows = weighed.rows(0, weight)
    wanted = Addends([ends], rows, grouped, squares, weighed=True, beyond=not squares)
    asked.append((question.dialect.steps(weighed.kind, wanted), ["group"] if grouped else None))
    if weighed.each:
        ranges = [ends, replace(ends, high=2)]
        others = Addends(ranges, weighed.rows(1, weight), grouped, squares, weighed=True)
        asked.append((question.dialect.steps(weighed.kind, others), ["0", "group"]))
    return asked


def _refuse_own(column: str | None) -> InvalidParameter:
    return InvalidParameter(
        f"column must be another one than that of the person; got {column!r} for both."
    )


def _mark_rows(
    unit: PrivacyUnit, number: str, whose: str, by: str | Sequence[str] | None, draw: Draw
) -> Marking | None:
    """Return how rows of a unit are chosen beside those of other columns; None where they are not.

    Rows in groups are chosen for each question.
    """
    if by is not None or unit.column is None or unit.max_rows is None:
        return None
    return _mark_together(number, whose, unit.max_rows, draw)


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
