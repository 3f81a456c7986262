"""Questions about a column of numbers.

Counts of rows in buckets, and sums of clipped rows in whole steps.

Floats are never added up or averaged. What leaves the engine are counts of rows and sums of whole
numbers, and what a row contributes is a function of that row alone (docs/proofs/numbers.md). Rows
without a unit, and rows whose group is not in the domain, are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple, final

from sordino.columns import BucketCounts, BucketGrid
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.columns.clipped_steps import SquareTotal, StepRange, Total
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions.domain import Domain
from sordino.questions.rank_choice import SortedChoice
from sordino.questions.unit import PrivacyUnit
from sordino.releases import Label
from sordino.sources.engine import Answer, Kept, Marking, Progress, Scan, after_charge
from sordino.sources.source import Source
from sordino.sources.sql.bucket_query import WEIGHT, BucketQuery
from sordino.sources.sql.dialect import Dialect
from sordino.sources.sql.number_kind import NumberKind
from sordino.sources.sql.step_query import Addends

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


class Weight(NamedTuple):
    """What a row of a unit counts: 2^bits over the rows of its unit, or over `cap` if it has fewer.

    Rounded down. Both are public.
    """

    cap: int
    bits: int


@final
@dataclass(frozen=True)
class Weighed:
    """Rows that count with a weight each.

    Parameters
    ----------
    grid : BucketGrid
        In whose buckets weights are added up.
    kind : NumberKind
        Of the numbers.
    rows : callable
        From where the labels begin among the texts sent, and a weight, to the rows.
    each : bool
        Whether weights of each group are added up by themselves.
    """

    grid: BucketGrid
    kind: NumberKind = field(repr=False)
    rows: Callable[[int, Weight], str] = field(repr=False)
    each: bool = False


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
    shares : callable or None
        Where one clip is of what a person adds up to in all of its groups: from where the labels
        begin and the clip to what each unit counts as in a group. Then what it adds up to is what
        is counted in buckets, of all groups together, and `totals` are of these shares.
    weighed : Weighed or None
        Where rows count with weights: then how many rows units have is what is counted in buckets,
        and `weigh` and `weighed_totals` may be asked.
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
    shares: Callable[[int, StepRange], str] | None = field(repr=False)
    weighed: Weighed | None

    @property
    def in_all(self) -> bool:
        """Whether what a unit has in all of its groups is counted in buckets."""
        return self.shares is not None or self.weighed is not None

    @property
    def in_groups(self) -> bool:
        """Whether what is counted in buckets is in a group, or of all groups of a unit together."""
        return self.domain is not None and not self.in_all

    @property
    def groups(self) -> Sequence[Label]:
        """The labels of the groups; none if all rows are one group.

        Raises
        ------
        UnknownDomain
            If nobody listed them, before a release has found them (`among`).
        """
        return () if self.domain is None else self.domain.labels

    @property
    def sent(self) -> Sequence[str]:
        """The groups as the column writes them: a range may have other names for them."""
        if self.domain is None:
            return ()
        if self.domain.numbered is None:
            return self.domain.list_texts(self.groups) or ()
        # Rows hold the numbers themselves. What `Domain.indexed` calls them is for releases only.
        start = self.domain.numbered.start
        return [str(number) for number in range(start, start + self.domain.size)]

    def among(self, found: Iterable[Label]) -> NumberQuestion:
        """Return this question about groups that a release found: their labels are public now.

        Everything else of it is as it was prepared. A unit takes part in groups that were found
        alone, and so what it has in others takes none of its places.

        Parameters
        ----------
        found : iterable of str, or of tuples of str
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

    def weigh(self, weight: Weight) -> tuple[BucketCounts, ...]:
        """Read the rows, once, and add up their weights in the buckets of `weighed`.

        Of each group, or of all rows together. Call it after the charge; private.
        """
        return after_charge(partial(self._weigh, self._get_weighed(), weight), None)

    def weighed_totals(
        self,
        clips: Sequence[StepRange],
        weight: Weight,
        *,
        squares: bool = False,
        beyond: bool = False,
        progress: Progress | None = None,
    ) -> tuple[SquareTotal, ...]:
        """Read the rows, once, and add up their steps times their weights, in each group.

        Each group has its clip, or all have one. Call it after the charge; private. `known` are the
        weights of rows with a number. `squares`, and the weights `beyond` the upper end, are added
        up where they are asked for, else 0.
        """
        weighed, groups = self._get_weighed(), max(1, len(self.groups))
        ranges = [*clips] * groups if len(clips) == 1 else [*clips]
        if len(ranges) != groups:
            raise InvalidParameter(
                f"weighed_totals.clips must be one, or {groups}, one for each group; got "
                f"{len(clips)}."
            )

        def write_rows(first: int, _clip: StepRange) -> str:
            return weighed.rows(first, weight)

        read = partial(
            self._add_up,
            weighed.kind,
            write_rows,
            ranges,
            squares=squares,
            weighed=True,
            beyond=beyond,
        )
        return after_charge(read, progress)

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
        if self.in_all and len({*ranges}) > 1:
            raise InvalidParameter(
                "totals.ranges must be one and the same for all groups, where one clip is of what "
                "a person adds up to in all of them; got several."
            )
        read = partial(
            self._add_up, self.kind, self.write_rows, ranges, squares=squares, weighed=False
        )
        return after_charge(read, progress)

    def _keep(self, first: int) -> Kept | None:
        """Return the part of a query that chooses numbers; other queries may choose the same."""
        # Of all rows of a unit nothing is chosen.
        if self.in_all:
            return None
        grouped = self.domain is not None
        sent = self.sent if grouped else None
        return Kept(self.rows(first), self.rows(0), sent, self.marking, self.choice)

    def _count(self, announce: Callable[[Scan], None]) -> ColumnCounts:
        groups = max(1, len(self.groups)) if self.in_groups else 1
        for query, answer in self._ask_buckets(announce, None):
            found = query.counted(answer, self.grid, groups)
            if found is not None:
                buckets = tuple(BucketCounts(grid=self.grid, counts=one) for one in found.counts)
                return ColumnCounts(buckets, found.known, found.missing)
        raise DataSourceError.after_charge()

    def _weigh(
        self, weighed: Weighed, weight: Weight, announce: Callable[[Scan], None]
    ) -> tuple[BucketCounts, ...]:
        groups = max(1, len(self.groups)) if weighed.each else 1
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            for query in self.dialect.buckets(weighed.kind, weighed.grid, WEIGHT):
                sql = query.over(weighed.rows(len(query.cuts), weight), grouped=weighed.each)
                answer = scan.ask(sql, [*query.cuts, *self.sent])
                found = query.weighed(answer, weighed.grid, groups)
                if found is not None:
                    return found
        raise DataSourceError.after_charge()

    def _get_weighed(self) -> Weighed:
        if self.weighed is None:
            raise InvalidParameter(
                "NumberQuestion.weigh must be asked of a question about weighed rows; got another."
            )
        return self.weighed

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

    def list_queries(self, ladder: SumSteps | None) -> list[BucketQuery]:
        """Return the queries about buckets, each for where the one before did not do."""
        queries = self.dialect.buckets(self.kind, self.grid, ladder)
        # What is handed on has no group.
        return [one for one in queries if one.take is None or not self.in_groups]

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
            for query in self.list_queries(ladder):
                # Cuts and labels travel as one list of texts: the cuts first, then the labels of
                # the groups.
                sql = query.over(self.rows(len(query.cuts)), grouped=self.in_groups)
                kept = self._keep(len(query.cuts))
                sent = [*query.cuts, *self.sent]
                yield query, scan.ask(sql, sent, kept=kept, take=query.take)

    def _add_up(
        self,
        kind: NumberKind,
        write_rows: Callable[[int, StepRange], str],
        ranges: Sequence[StepRange],
        announce: Callable[[Scan], None],
        *,
        squares: bool,
        weighed: bool,
        beyond: bool = False,
    ) -> tuple[SquareTotal, ...]:
        """Add up the steps of rows; where they are weighed, each times its weight."""
        grouped = self.domain is not None
        with self.source.backend.scan(self.indices) as scan:
            announce(scan)
            # Many groups have few ranges. Which one each has is sent before the labels, if there
            # are several.
            places = {one: place for place, one in enumerate(dict.fromkeys(ranges))}
            own = [str(places[one]) for one in ranges] if len(places) > 1 else []
            rows = write_rows(len(own), ranges[0])
            wanted = Addends(list(places), rows, grouped, squares, weighed, beyond)
            sql = self.dialect.steps(kind, wanted)
            sent = [*own, *self.sent] if grouped else None
            answer = scan.ask(sql, sent, kept=self._keep(len(own)))
        # Groups without rows are not in the answer: their total is 0, and they are released like
        # all others.
        found = [SquareTotal(0, 0, 0, 0)] * len(ranges)
        groups = answer["grp"].tolist() if grouped else [0]
        asked = {"squares": squares, "beyond": beyond}
        more = [name for name, wanted_too in asked.items() if wanted_too]
        names = ("total", "known", "missing", *more)
        for place, *sums in zip(groups, *(answer[name].tolist() for name in names), strict=True):
            total, known, missing, *others = map(int, sums)
            parts = {"squares": 0} | dict(zip(more, others, strict=True))
            found[place] = SquareTotal(total, known, missing, **parts)
        return tuple(found)

    def write_rows(self, first: int, clip: StepRange) -> str:
        """Return what is added up, whose labels begin at `first` among the texts sent."""
        # There is one clip for all groups.
        return self.rows(first) if self.shares is None else self.shares(first, clip)
