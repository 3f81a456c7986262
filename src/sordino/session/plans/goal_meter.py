"""Measures how far a plan is from a goal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast, final

from sordino.errors import InvalidParameter
from sordino.plan.goals import Goal, Reached, describe_right
from sordino.session.plans.plan import PlannedChoice
from sordino.session.plans.widths import PlannedFigure
from sordino.session.request import Request

R = TypeVar("R", bound=Request[Any])

# Of a choice that is wrong as seldom as wanted so many failures are seen; of very rare ones fewer.
_FAILURES, _MOST_CHOICES = 40, 20_000


@final
@dataclass(frozen=True)
class GoalMeter:
    """Reads one number off a plan: how far figures lie off, or how likely a choice is wrong.

    Parameters
    ----------
    goal : Goal
        What is measured.
    sizes : mapping of (str, str) to float
        About how large each figure is, by its name and by what is assumed; for goals in shares.
    """

    goal: Goal
    sizes: Mapping[tuple[str, str], float]

    def read(self, rows: Sequence[PlannedFigure], choices: Sequence[PlannedChoice]) -> Reached:
        """Return how good that is, of the worst figure and the worst assumption."""
        amount = float(self.goal.amount)
        if self.goal.kind == "right":
            # An estimate is as likely too high as too low: it must be enough by one standard error.
            worst = max((1 - one.right + one.error for one in choices), default=1.0)
            return Reached(min(worst, 1.0), 1 - amount)
        return Reached(max((self._read_row(row) for row in rows), default=math.inf), amount)

    def _read_row(self, row: PlannedFigure) -> float:
        reach = find_reach_of(row)
        if self.goal.kind == "reach":
            return reach
        size = self.sizes.get((row.figure, row.like), 0.0)
        return reach / size if size else math.inf

    def describe(self, value: float) -> str:
        """Return what was reached, in words."""
        if not math.isfinite(value):
            return "an interval without an end, or none because nothing is measured"
        if self.goal.kind == "right":
            return describe_right(value)
        return f"± {value:.3g}" if self.goal.kind == "reach" else f"± {100 * value:.3g}%"


def count_choices(goal: Goal) -> int:
    """Return how often a choice is made to see whether it is right as often as a goal says."""
    return min(_MOST_CHOICES, math.ceil(_FAILURES / (1 - goal.amount)))


def find_reach_of(row: PlannedFigure) -> float:
    """Return how far a figure may lie off: half its widest interval.

    Of a report two standard errors.

    The interval of clipped rows may be narrow, and far from the figure without noise. So it is no
    less than what the figures of the runs lay off.
    """
    if row.widest is not None:
        return max(row.widest / 2, row.off or 0.0)
    return math.inf if row.standard_error is None else 2 * row.standard_error


def take_number(request: R, goal: Goal) -> R:
    """Return the request of a list with as many items as a goal names, where it says none."""
    if goal.k is None or getattr(request, "k", goal.k) is not None:
        return request
    found: R = replace(cast("Any", request), k=goal.k)
    return found


def check_goal(request: Any, goal: Goal, *, like: Any, rows: Any) -> None:
    """Refuse a goal that a release cannot have, with what is assumed of the data.

    Raises
    ------
    InvalidParameter
        If nothing is chosen and a choice shall be right, another number of items is meant, or a
        share of a size is wished of which nobody has said anything.
    """
    k = getattr(request, "k", None)
    if goal.kind == "right" and not request.chooses:
        raise InvalidParameter(
            f'{request.name}.goal must be about a figure, such as "±20" or "5%", because '
            f"nothing is chosen; got {goal.text!r}."
        )
    if goal.k is not None and goal.k != k:
        said = "which chooses all above a threshold" if k is None else f"k is {k}"
        raise InvalidParameter(
            f"{request.name}.goal must be about the same items: {said}; got {goal.text!r}."
        )
    sized = like is not None or rows is not None or getattr(request, "size_hint", None) is not None
    if goal.kind == "share" and not sized:
        raise InvalidParameter(
            f"{request.name}.goal must come with a public size where it is a share: like, rows or "
            f"a size hint (--like, --like-rows, --size-hint); got {goal.text!r} alone."
        )
