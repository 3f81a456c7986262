"""What sums, means and variances are without noise, of made-up or public data.

The interval of a clipped figure is about rows that were moved between the ends that were found.
With little epsilon these ends lie near 0: the interval is narrow, and far from the figure of the
rows as they are. So plans compare with that one: of the rows that count, between the public ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, final

from sordino.columns import StepRange, Total
from sordino.columns.clipped_steps import SquareTotal
from sordino.constraints import exact
from sordino.questions import NumberQuestion
from sordino.questions.totals import Weight
from sordino.releases import Label
from sordino.session.plans.dry_run import Answers
from sordino.session.plans.shapes import Floats
from sordino.session.plans.synthetic import SyntheticData

# Between the public ends there are at most so many steps, so that no rounding is seen; fewer where
# they are squared.
_STEP_BITS, _SQUARED_BITS = 50, 31
_WEIGHT_BITS, _ALIKE = 24, 1 << 12


@final
@dataclass(frozen=True)
class ExpectedValue:
    """The figure of the rows that count, or of each group.

    Attributes
    ----------
    each : float or None
        Of all these rows, or of every group alike.
    of_groups : mapping of str to float
        Of groups that differ, by their labels.
    """

    each: float | None = None
    of_groups: Mapping[Label, float] = field(default_factory=dict)

    def find(self, item: Label | None) -> float | None:
        """Return the figure of a group, or of all rows; None if it is not known."""
        return self.each if item is None else self.of_groups.get(item, self.each)


@final
class ExpectedValues:
    """Finds the figures of what is assumed.

    Parameters
    ----------
    request : Request
        One of `TOTALS`: which figure, and its public ends.
    """

    def __init__(self, request: Any) -> None:
        # What is ranked are sums.
        self._kind = "sum" if request.name == "top_sums" else request.name
        cap = exact(request.cap)
        self._cap = Fraction(0) if cap is None else cap
        lower = None if request.lower is None else exact(request.lower)
        self._lower = -self._cap if lower is None else lower
        # Where the weight is found, rows as they are: so many of a person weigh alike.
        self._weight = Weight(getattr(request, "declared_weight", None) or _ALIKE, _WEIGHT_BITS)
        # Public rows are the same in each run, so that they are added up once for all of them.
        self._of_public: dict[tuple[str, Label | None], float | None] = {}

    def find(self, answers: Answers, asked: Sequence[Any]) -> ExpectedValue:
        """Return the figures of the data that have answered these questions."""
        if isinstance(answers, SyntheticData):
            drawn = [(question, answers.draw_group(question)) for question in asked]
            columns = [(one, column) for one, column in drawn if column is not None]
            # Where no group was found there is no column.
            if not columns:
                return ExpectedValue()
            reading, column = columns[0]
            figure, question = _compute_figure(self._kind, column), reading.question
            if question.shares is None:
                return ExpectedValue(figure)
            shares = answers.list_shares(len(question.groups)).tolist()
            each = zip(question.groups, shares, strict=True)
            return ExpectedValue(None, {label: figure * share for label, share in each})
        questions = [found for one in asked if (found := _find_question(one)) is not None]
        return self._read(answers.text, questions[0]) if questions else ExpectedValue()

    def _read(self, text: str, question: NumberQuestion) -> ExpectedValue:
        groups: list[Label | None] = [None] if question.domain is None else list(question.groups)
        if any((text, group) not in self._of_public for group in groups):
            for group, figure in zip(groups, self._add_up(question, len(groups)), strict=True):
                self._of_public[text, group] = figure
        known = {group: self._of_public[text, group] for group in groups}
        return ExpectedValue(
            known.get(None),
            {
                group: figure
                for group, figure in known.items()
                if group is not None and figure is not None
            },
        )

    def _add_up(self, question: NumberQuestion, groups: int) -> list[float | None]:
        """Return the figures of public rows, which are read for that.

        None of a group without a number.
        """
        squares = self._kind == "variance"
        bits = _SQUARED_BITS if squares else _STEP_BITS
        span = max(abs(self._lower), abs(self._cap), Fraction(1, 1 << 40))
        step = Fraction(2) ** (math.ceil(math.log2(span)) - bits)
        ends = StepRange(
            low=math.floor(self._lower / step), high=math.ceil(self._cap / step), step=step
        )
        weighed = question.weighed is not None
        if squares:
            squared = (
                question.weighed_totals([ends], self._weight, squares=True)
                if weighed
                else question.square_totals([ends] * groups)
            )
            return [
                float(step) ** 2
                * _find_variance(one.steps - ends.low * one.known, one.squares, one.known)
                if one.known
                else None
                for one in squared
            ]
        totals: Sequence[Total | SquareTotal] = (
            question.weighed_totals([ends], self._weight)
            if weighed
            else question.totals([ends] * groups)
        )
        return [
            float(one.steps * step / (one.known if self._kind == "mean" else 1))
            if one.known
            else None
            for one in totals
        ]


def _find_question(asked: Any) -> NumberQuestion | None:
    """Return the question about a column, where this is one; what finds groups is none."""
    question = getattr(asked, "question", None)
    return question if isinstance(question, NumberQuestion) else None


def _find_variance(total: int, squares: int, known: int) -> float:
    return float(Fraction(squares, known) - Fraction(total, known) ** 2)


class Off(NamedTuple):
    """How far figures lie at most from noiseless ones, and what share of intervals holds these."""

    most: float
    held: float


def measure_off(releases: Sequence[Any], expected_values: Sequence[ExpectedValue]) -> Off | None:
    """Compare figures with those of the rows of their data.

    None where nothing is known of these.
    """
    distances, held = [], 0
    for release, truth in zip(releases, expected_values, strict=True):
        for item, one in _list_released_figures(release):
            true = truth.find(item)
            if true is not None:
                distances.append(abs(float(one.estimate) - true))
                held += float(one.low) <= true <= float(one.high)
    return Off(max(distances), held / len(distances)) if distances else None


def _list_released_figures(release: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield each figure of a release with the label of its group; None: it has no groups."""
    if hasattr(release, "budgets"):
        yield from ((row.item, row.release) for row in release.rows)
    elif hasattr(release, "rows"):
        yield from ((row.item, row) for row in release.rows)
    else:
        yield None, release


def _compute_figure(kind: str, numbers: Floats) -> float:
    if kind == "sum":
        return float(numbers.sum())
    # A variance is divided by the number of rows, as the released one is.
    return float({"mean": numbers.mean(), "variance": numbers.var()}[kind])
