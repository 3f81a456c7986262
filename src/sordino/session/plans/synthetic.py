"""Answers questions about a table with made-up data of a public shape.

No row is read, and none could be.

Each kind of question gets an answer of the form that its engine gives.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, singledispatchmethod
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from sordino.columns import BucketCounts, BucketGrid, StepRange, Total
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.columns.clipped_steps import SquareTotal
from sordino.errors import InvalidParameter
from sordino.questions import CountQuestion, Counts, Domain, NumberQuestion
from sordino.questions.records import RecordQuestion
from sordino.questions.totals import ColumnCounts, Weighed, Weight
from sordino.questions.value_bins import BinQuestion
from sordino.releases import Label
from sordino.session.column_figures import ColumnReading, PrivateNumbers
from sordino.session.plans.shapes import OF_LABELS, Ends, Floats, Shape, parse_shape

MOST_LISTED = 1 << 20
"""Of a range at most so many labels have a count above 0."""
ASSUMED = 1000
"""How many labels a domain has that is only assumed to be public."""
_REPORTED = 64
"""How many records are reported: what is said of a report is the same for all."""
_GOLDEN = 0.6180339887
_MOST_WORD = 1 << 62
_OF_WHOLE = 1 << 40
"""Into so many parts what people add up to is divided among groups."""
_FEW = 1 << 14
"""Columns of so many rows are kept for other plans like it."""


@final
@dataclass(frozen=True)
class SyntheticData:
    """Made-up data of one shape.

    Parameters
    ----------
    shape : Shape
        How counts fall, and how numbers lie.
    rows : int
        About how many rows, or pairs of a unit and an item, there are.
    seed : int
        Which numbers of a column are drawn.
    of_column : bool
        Whether the shape is that of the numbers of a column. It says nothing of its groups then.
    spread : Shape or None
        Where people add up to a number in all groups together: how that falls from group to group;
        None: all have as much.
    """

    shape: Shape
    rows: int
    seed: int = 0
    of_column: bool = False
    spread: Shape | None = None

    @property
    def text(self) -> str:
        """What is assumed."""
        return self.shape.text + ("" if self.spread is None else f" by {self.spread.text}")

    def vary(self, seed: int) -> SyntheticData:
        """Return other data of the same shape.

        A run with them is like one with data that nobody knows.
        """
        return replace(self, seed=seed)

    @singledispatchmethod
    def answer(self, question: Any) -> Any:
        """Return an answer of the form that the question has."""
        raise InvalidParameter(
            f"A plan must be of a release of a table; got {type(question).__name__}."
        )

    @answer.register
    def _(self, question: CountQuestion) -> Counts:
        if question.kind != "items":
            return Counts(np.array([self.rows]), ())
        domain = question.domain
        if domain is not None and domain.hidden:
            return self._count_hidden(domain, question.best)
        if domain is not None and domain.is_sparse:
            # Spread over the range: the rest of it has no rows.
            listed = min(domain.size, self.rows, MOST_LISTED)
            places = np.arange(listed, dtype=np.int64) * (domain.size // listed)
            counts = _list_shuffled(self.shape, listed, self.rows)
            kept = counts > 0
            return Counts(counts[kept], domain.labels, places[kept])
        known = None if domain is None else domain.known
        labels: Sequence[Label] = (
            [f"item {place + 1}" for place in range(ASSUMED)] if known is None else known
        )
        return Counts(_list_shuffled(self.shape, len(labels), self.rows), labels)

    @answer.register
    def _(self, question: BinQuestion) -> Counts:
        labels = question.domain.labels
        return Counts(_list_shuffled(self.shape, len(labels), self.rows), labels)

    def _count_hidden(self, domain: Domain, best: int | None) -> Counts:
        """Return counts of labels nobody listed, as an engine does: large enough ones, by label."""
        shape = parse_shape(OF_LABELS[0]) if self.of_column else self.shape
        counts = shape.list_counts(max(1, min(self.rows, MOST_LISTED)), self.rows)
        counts = counts[counts >= domain.least][: None if best is None else best + 1]
        labels: list[Label] = [f"item {place + 1:07}" for place in range(counts.size)]
        if domain.parts:
            labels = [(one,) * len(domain.parts) for one in map(str, labels)]
        return Counts(counts, tuple(labels))

    @answer.register
    def _(self, reading: ColumnReading) -> PrivateNumbers:
        return reading.figures.read(
            cast("NumberQuestion", _SyntheticColumn(self, reading.question)), None
        )

    def draw_group(self, reading: object) -> Floats | None:
        """Return the numbers of each group that a question is about.

        None if it is about no column.
        """
        if not isinstance(reading, ColumnReading):
            return None
        clip = reading.figures.clip
        return self.draw(reading.question, None if clip is None else _find_ends_of_clip(clip))

    def draw(self, question: NumberQuestion, ends: Ends | None = None) -> Floats:
        """Return the numbers of a group, between the question's ends if no others are given."""
        # What people add up to is in all groups together.
        groups = 1 if question.shares is not None else max(1, len(question.groups))
        # Of weighed rows the other grid is one of numbers of rows.
        grid = question.grid if question.weighed is None else question.weighed.grid
        return self._list_numbers(ends or _find_ends_of_grid(grid), groups)

    def list_shares(self, labels: int) -> Floats:
        """Return which share of what people add up to is in each of so many groups."""
        shape = parse_shape("flat") if self.spread is None else self.spread
        counts = _list_shuffled(shape, labels, _OF_WHOLE).astype(np.float64)
        shares: Floats = counts / (counts.sum() or 1.0)
        return shares

    def _list_numbers(self, ends: Ends, groups: int) -> Floats:
        rows = max(1, self.rows // groups)
        draw = _draw_few if rows <= _FEW else _draw_many
        return draw(self.shape, ends, rows, self.seed)

    @answer.register
    # All records are alike.
    def _(self, question: RecordQuestion) -> Iterator[Floats]:  # noqa: ARG002
        # NaN stands for the middle of the range, whatever that is.
        return iter([np.full(_REPORTED, np.nan)])


def _find_weight(weight: Weight) -> int:
    """Return what all rows of a unit weigh, on average."""
    return (1 << weight.bits) * 2 // 5


def _find_ends_of_grid(grid: BucketGrid) -> Ends:
    recipe = dict(grid.recipe)
    lower, unit = recipe.get("lower"), recipe.get("unit") or 1
    return Ends(None if lower is None else float(lower), float(grid.edges[-1]), float(unit))


def _find_ends_of_clip(clip: StepRange) -> Ends:
    low, high = float(clip.low * clip.step), float(clip.high * clip.step)
    return Ends(low, high, (high - low) / 1000)


def _draw_many(shape: Shape, ends: Ends, rows: int, seed: int) -> Floats:
    return shape.draw_numbers(ends, rows, seed)


# A goal asks for the same columns with each epsilon that it tries, and a plan for what they add up
# to.
@lru_cache(maxsize=128)
def _draw_few(shape: Shape, ends: Ends, rows: int, seed: int) -> Floats:
    numbers = shape.draw_numbers(ends, rows, seed)
    numbers.flags.writeable = False
    return numbers


# A plan asks several times for the same counts, of which there may be a million.
@lru_cache(maxsize=4)
def _list_shuffled(shape: Shape, labels: int, rows: int) -> NDArray[np.int64]:
    """Return counts in a fixed order that has nothing to do with labels or ranks."""
    # Steps of about the golden section that meet each place once: neighbors in rank lie far apart.
    steps = range(int(labels * _GOLDEN) + 1, 2 * labels + 2)
    step = next(one for one in steps if math.gcd(one, labels) == 1)
    places = np.arange(labels, dtype=np.int64) * step % labels
    counts: NDArray[np.int64] = shape.list_counts(labels, rows)[places]
    # Several plans share it.
    counts.flags.writeable = False
    return counts


def _add_up(steps: NDArray[np.int64], largest: int) -> int:
    """Return the sum of whole numbers of at most this size, exactly."""
    if largest < _MOST_WORD // max(1, steps.size):
        return int(steps.sum())
    # As whole numbers of any size: sums may have more than 64 bits.
    return sum(steps.tolist())


@final
@dataclass
class _SyntheticColumn:
    """Made-up numbers that are counted and added up, as a question about a column is.

    All groups are alike.

    They lie between the ends of the buckets if these were counted, else between those of each clip.
    Of weighed rows each unit has one number, which weighs two fifths of what it may: so much units
    weigh on average whose numbers of rows fall geometrically, where one in ten has more than count.
    """

    shape: SyntheticData
    question: NumberQuestion
    _counted: Floats | None = None

    @property
    def groups(self) -> Sequence[Label]:
        """Labels of the groups."""
        return self.question.groups

    # It is as a question has it.
    def count(self, *, progress: None = None) -> ColumnCounts:  # noqa: ARG002
        """Return how many numbers each bucket has; of weighed rows how many rows units have."""
        if self.question.weighed is not None:
            units = self._draw_weighed().size * max(1, len(self.groups))
            counts = BucketCounts.of(np.ones(units), grid=self.question.grid)
            return ColumnCounts((counts,), units, 0)
        self._counted = numbers = self.shape.draw(self.question)
        counts = BucketCounts.of(numbers, grid=self.question.grid)
        if self.question.shares is not None:
            return ColumnCounts((counts,), numbers.size, 0)
        groups = max(1, len(self.groups))
        return ColumnCounts((counts,) * groups, numbers.size * groups, 0)

    def _draw_weighed(self) -> Floats:
        """Return the numbers of a group, one for each unit, between the ends of its search."""
        self._counted = self.shape.draw(self.question)
        return self._counted

    def weigh(self, weight: Weight) -> tuple[BucketCounts, ...]:
        """Return what the rows of all units weigh in each bucket, of each group or of all."""
        weighed = cast("Weighed", self.question.weighed)
        counts = BucketCounts.of(self._draw_weighed(), grid=weighed.grid).counts
        groups, each = max(1, len(self.groups)), _find_weight(weight)
        if weighed.each:
            return (BucketCounts(grid=weighed.grid, counts=counts * each),) * groups
        return (BucketCounts(grid=weighed.grid, counts=counts * (each * groups)),)

    def weighed_totals(
        self,
        clips: Sequence[StepRange],
        weight: Weight,
        *,
        squares: bool = False,
        beyond: bool = False,
        progress: None = None,  # noqa: ARG002
    ) -> tuple[SquareTotal, ...]:
        """Return what they add up to with their weights, and these."""
        each, found = _find_weight(weight), []
        for clip in clips:
            outside = int((self._step(clip) >= clip.high).sum()) if beyond else 0
            [one] = self.square_totals([clip]) if squares else self.totals([clip])
            squared = one.squares * each if isinstance(one, SquareTotal) else 0
            total = SquareTotal(one.steps * each, one.known * each, 0, squared, outside * each)
            found.append(total)
        return tuple(found) * (max(1, len(self.groups)) if len(found) == 1 else 1)

    def sums(self, *, progress: None = None) -> BucketSums:  # noqa: ARG002
        """Return the same with the sum of each bucket."""
        groups = max(1, len(self.groups))
        one = BucketSums.of(self.shape.draw(self.question), cast("SumSteps", self.question.ladder))
        return replace(
            one,
            group=np.repeat(np.arange(groups), one.bucket.size),
            bucket=np.tile(one.bucket, groups),
            count=np.tile(one.count, groups),
            total=list(one.total) * groups,
            missing=np.zeros(groups, dtype=np.int64),
        )

    def totals(
        self,
        ranges: Sequence[StepRange],
        *,
        progress: None = None,  # noqa: ARG002
    ) -> tuple[Total, ...]:
        """Return what they add up to, clipped to each range."""
        if self.question.shares is not None:
            # One clip is of all groups, and everybody has the same share in each.
            [clip] = set(ranges)
            whole = _add_up(self._step(clip), max(abs(clip.low), abs(clip.high)))
            shares = self.shape.list_shares(len(ranges)).tolist()
            return tuple(Total(math.floor(whole * share), 1, 0) for share in shares)
        found = []
        for clip in ranges:
            steps = self._step(clip)
            total = _add_up(steps, max(abs(clip.low), abs(clip.high)))
            found.append(Total(total, steps.size, 0))
        return tuple(found)

    def square_totals(
        self,
        ranges: Sequence[StepRange],
        *,
        progress: None = None,  # noqa: ARG002
    ) -> tuple[SquareTotal, ...]:
        """Return the same, with squared distances from the lower end of each range."""
        found = []
        for clip in ranges:
            steps, span = self._step(clip), clip.high - clip.low
            if span**2 < _MOST_WORD // max(1, steps.size):
                squares = int(((steps - clip.low) ** 2).sum())
            else:
                squares = sum((step - clip.low) ** 2 for step in steps.tolist())
            total = _add_up(steps, max(abs(clip.low), abs(clip.high)))
            found.append(SquareTotal(total, steps.size, 0, squares))
        return tuple(found)

    def _step(self, clip: StepRange) -> NDArray[np.int64]:
        numbers = self._counted
        if numbers is None:
            numbers = self.shape.draw(self.question, _find_ends_of_clip(clip))
        return np.clip(np.floor(numbers / float(clip.step)), clip.low, clip.high).astype(np.int64)
