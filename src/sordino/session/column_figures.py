"""How each figure of a column reads its rows, and what it makes of them.

All of them hand private numbers over in one shape. A question is one of `data`, or stands for
made-up rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast, final

from sordino.columns import BucketCounts, StepRange
from sordino.columns.bucket_sums import BucketSums, SumSteps
from sordino.columns.clipped_steps import Moments, SquareTotal, Total
from sordino.entropy import Entropy
from sordino.estimators import (
    ClippedMean,
    ClippedMeans,
    ClippedSum,
    ClippedSums,
    ClippedVariance,
    ClippedVariances,
    Quantile,
    Quantiles,
    SizedQuantile,
)
from sordino.estimators.clipped.clip import Clip
from sordino.estimators.clipped.clipped_again import Clipped, ClippedAgain
from sordino.estimators.clipped.weighed_clip import WeighedClip
from sordino.estimators.quantiles.quantile_interval import QuantilesWithIntervals
from sordino.estimators.quantiles.weighed_quantiles import WeighedQuantiles
from sordino.questions import Domain, NumberQuestion
from sordino.questions.totals import Weight
from sordino.session.bounded_total import BoundedFigure, BoundedTotal
from sordino.session.request import Progress

Weighing = ClippedMeans | ClippedVariances | WeighedQuantiles
"""What weighs all rows of people."""
Searching = (
    Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals | WeighedQuantiles | Clipped
)
"""What counts in buckets first."""
Estimator = Searching | ClippedAgain | BoundedTotal


@final
@dataclass(frozen=True)
class PrivateNumbers:
    """Private numbers of a table on their way to an estimator; the `repr` shows none of them.

    Parameters
    ----------
    answers : object
        What the estimator is handed.
    known, missing : int
        Rows that count: with a number, and without, of all groups together.
    """

    answers: Any = field(repr=False)
    known: int = field(repr=False)
    missing: int = field(repr=False)


class ColumnFigures(Protocol):
    """How an estimator gets its numbers from a table."""

    @property
    def ladder(self) -> SumSteps | None:
        """Steps in which buckets are added up while they are counted.

        None where only counts are needed.
        """
        ...

    @property
    def clip(self) -> StepRange | None:
        """The public ends that rows are moved into.

        None where ends are searched for, or differ by group.
        """
        ...

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        """Read the rows that a question is about, after the charge; private."""
        ...

    def release(self, answers: Any, entropy: Entropy) -> Sequence[object]:
        """Release the figure of each group."""
        ...


@final
@dataclass(frozen=True)
class ColumnReading:
    """What a session asks the table for a figure of a column."""

    question: NumberQuestion
    figures: ColumnFigures

    @property
    def domain(self) -> Domain | None:
        """The labels of the groups."""
        return self.question.domain

    def run(self, *, progress: Progress | None = None) -> PrivateNumbers:
        """Read the rows, after the charge; private."""
        return self.figures.read(self.question, progress)


@dataclass(frozen=True)
class _QuantileFigures:
    """Quantiles follow from the counts of buckets."""

    estimator: Quantile | SizedQuantile | Quantiles | QuantilesWithIntervals
    ladder = clip = None

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        found = question.count(progress=progress)
        return PrivateNumbers(found.buckets, found.known, found.missing)

    def release(self, answers: tuple[BucketCounts, ...], entropy: Entropy) -> Sequence[object]:
        return list(self.estimator.release_each(answers, entropy=entropy))


@dataclass(frozen=True)
class _SumFigures:
    """Sums and means need one reading: each bucket is added up where it is counted."""

    estimator: ClippedSum | ClippedMean
    clip = None

    @property
    def ladder(self) -> SumSteps:
        return self.estimator.search.ladder

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        sums = question.sums(progress=progress)
        return PrivateNumbers(sums, int(sums.known().sum()), int(sums.missing.sum()))

    def release(self, answers: BucketSums, entropy: Entropy) -> Sequence[object]:
        return list(self.estimator.release_each(answers, entropy=entropy))


class _OfUnits:
    """What units have in all groups is counted in buckets, before rows are read once more."""

    ladder = clip = None

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        found = question.count(progress=progress)
        return PrivateNumbers((question, found.buckets[0]), found.known, found.missing)


@dataclass(frozen=True)
class _SharedFigures(_OfUnits):
    """One clip is of what a unit adds up to in all groups, and then the rows are read once more."""

    estimator: ClippedSums

    def release(
        self, answers: tuple[NumberQuestion, BucketCounts], entropy: Entropy
    ) -> Sequence[object]:
        question, counts = answers
        # The clip is a private release of its own, so the second read may depend on it.
        clip = self.estimator.clip_from(counts, entropy=entropy)
        totals = question.totals(list_ranges([clip] * len(question.groups)))
        return self.estimator.finish_each([one.steps for one in totals], clip, entropy=entropy)


@dataclass(frozen=True)
class _WeighedFigures(_OfUnits):
    """Rows are counted for each unit, then weighed in buckets, then added up with their weights."""

    estimator: ClippedMeans | ClippedVariances

    def release(
        self, answers: tuple[NumberQuestion, BucketCounts], entropy: Entropy
    ) -> Sequence[object]:
        question, rows = answers
        estimator = self.estimator
        # The weight and the clip are private releases of their own, so what is read next may depend
        # on them.
        cap = estimator.find_weight(rows, entropy=entropy)
        weight = Weight(cap, estimator.bits)
        # One clip for all groups, or one for each.
        found = estimator.find_clips(question.weigh(weight), entropy=entropy)
        clips = found[: max(1, len(question.groups))]
        ends = list_ranges(clips)
        if isinstance(estimator, ClippedVariances):
            [clip, *_] = clips
            squares = question.weighed_totals(ends, weight, squares=True)
            moments = [_find_moments(one.missing, clip, one) for one in squares]
            return estimator.finish_each(moments, clip, cap, entropy=entropy)
        totals = question.weighed_totals(ends, weight, beyond=estimator.upper)
        return estimator.finish_each(
            [(one.steps, one.known, one.beyond) for one in totals], clips, cap, entropy=entropy
        )


@dataclass(frozen=True)
class _WeighedQuantileFigures(_OfUnits):
    """Rows are counted for each unit, then weighed in the buckets of each group."""

    estimator: WeighedQuantiles

    def release(
        self, answers: tuple[NumberQuestion, BucketCounts], entropy: Entropy
    ) -> Sequence[object]:
        question, rows = answers
        # The weight is a private release of its own, so what is read next may depend on it.
        cap = self.estimator.find_weight(rows, entropy=entropy)
        counts = question.weigh(Weight(cap, self.estimator.bits))
        return self.estimator.release_each(counts, cap, entropy=entropy)


@dataclass(frozen=True)
class _VarianceFigures:
    """A variance finds its clip among the buckets, and then reads the rows once more."""

    estimator: ClippedVariance
    ladder = clip = None

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        found = question.count(progress=progress)
        return PrivateNumbers((question, found.buckets), found.known, found.missing)

    def release(
        self, answers: tuple[NumberQuestion, tuple[BucketCounts, ...]], entropy: Entropy
    ) -> Sequence[object]:
        question, counted = answers
        # Each clip is a private release of its own, so the second read may depend on it.
        # docs/proofs/clipped-variance.md
        clips = self.estimator.search.release_each(counted, entropy=entropy)
        squares = question.square_totals(list_ranges(clips))
        moments = [
            _find_moments(counts.records - total.known, clip, total)
            for counts, clip, total in zip(counted, clips, squares, strict=True)
        ]
        return self.estimator.finish_each(moments, clips, entropy=entropy)


@dataclass(frozen=True)
class _BoundedFigures:
    """Within a declared range rows are clipped at public ends, and so are added up at once."""

    estimator: BoundedTotal
    ladder = None

    @property
    def clip(self) -> StepRange:
        return self.estimator.records

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        totals = question.totals([self.clip] * max(1, len(question.groups)), progress=progress)
        known, missing = _count_rows(totals)
        # The number of records decides how much noise there is, which is allowed: no neighbor of a
        # mean has another one. 0 keeps the place of one that was declared to have a number and has
        # none.
        records = known + missing if self.estimator.kind == "mean" else None
        return PrivateNumbers([BoundedFigure(total, records) for total in totals], known, missing)

    def release(self, answers: list[BoundedFigure], entropy: Entropy) -> Sequence[object]:
        return [self.estimator.release(figure, entropy=entropy) for figure in answers]


@dataclass(frozen=True)
class _AgainFigures:
    """Within clips that an earlier release has found, one of each group, rows are added up."""

    estimator: ClippedAgain
    ladder = clip = None

    def read(self, question: NumberQuestion, progress: Progress | None) -> PrivateNumbers:
        ranges = list_ranges(self.estimator.clips)
        figure = self.estimator.figure
        squares = figure.takes_squares
        if isinstance(figure, WeighedClip):
            weight = Weight(figure.weight_cap or 1, figure.bits)
            weighed = question.weighed_totals(ranges, weight, squares=squares, progress=progress)
            return PrivateNumbers(weighed, *_count_rows(weighed))
        found: Sequence[Total | SquareTotal] = (
            question.square_totals(ranges, progress=progress)
            if squares
            else question.totals(ranges, progress=progress)
        )
        return PrivateNumbers(found, *_count_rows(found))

    def release(self, answers: Sequence[Total | SquareTotal], entropy: Entropy) -> Sequence[object]:
        return [
            self.estimator.release_one(
                # What a figure adds noise to.
                _find_moments(total.missing, clip, cast("SquareTotal", total))
                if self.estimator.figure.takes_squares
                else total.steps,
                total.known,
                total.missing,
                group=group,
                entropy=entropy,
            )
            for group, (total, clip) in enumerate(zip(answers, self.estimator.clips, strict=True))
        ]


_ADAPTERS: dict[type, Callable[..., ColumnFigures]] = {
    Quantile: _QuantileFigures,
    SizedQuantile: _QuantileFigures,
    Quantiles: _QuantileFigures,
    QuantilesWithIntervals: _QuantileFigures,
    WeighedQuantiles: _WeighedQuantileFigures,
    ClippedSum: _SumFigures,
    ClippedSums: _SharedFigures,
    ClippedMean: _SumFigures,
    ClippedMeans: _WeighedFigures,
    ClippedVariance: _VarianceFigures,
    ClippedVariances: _WeighedFigures,
    BoundedTotal: _BoundedFigures,
    ClippedAgain: _AgainFigures,
}


def adapt(estimator: Estimator) -> ColumnFigures:
    """Return how an estimator reads a column of a table, and releases each group of it."""
    return _ADAPTERS[type(estimator)](estimator)


def list_ranges(clips: Sequence[Clip]) -> list[StepRange]:
    """Return where rows are moved to, in the steps in which they are added up."""
    # Thousands of groups may have one clip.
    different = {id(clip): clip for clip in clips}
    found = {name: StepRange(clip.low, clip.high, clip.step) for name, clip in different.items()}
    return [found[id(clip)] for clip in clips]


def _count_rows(totals: Sequence[Total | SquareTotal]) -> tuple[int, int]:
    """Return how many rows have a number, and how many have none; private."""
    return sum(total.known for total in totals), sum(total.missing for total in totals)


def _find_moments(missing: int, clip: Clip, total: SquareTotal) -> Moments:
    """Return what an engine added up as distances from the lower end of the clip; private."""
    return Moments(
        known=total.known,
        missing=missing,
        first=total.steps - total.known * clip.low,
        second=total.squares,
    )
