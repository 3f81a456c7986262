"""What sums, means and variances of all rows are, of made-up or public data.

The interval of a clipped figure is about rows that were moved between the ends that were found. With little
epsilon these ends lie near 0: the interval is narrow, and far from the figure of all rows. So plans compare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, final

from sordino.session.plans.dry_run import Answers
from sordino.session.plans.made_up import MadeUp
from sordino.session.plans.shapes import Floats

OF_CLIPPED = ("sum", "mean", "variance")
"""Releases whose rows may be clipped."""


@final
@dataclass(frozen=True)
class Truth:
    """The figure of all rows, or of each group.

    Attributes
    ----------
    each : float or None
        Of all rows, or of every group alike.
    of_groups : mapping of str to float
        Of groups that differ, by their labels.
    """

    each: float | None = None
    of_groups: Mapping[str, float] = field(default_factory=dict)

    def find(self, item: str | None) -> float | None:
        """Return the figure of a group, or of all rows; None if it is not known."""
        return self.each if item is None else self.of_groups.get(item, self.each)


@final
class Truths:
    """Finds the figures of all rows of what is assumed.

    Parameters
    ----------
    kind : str
        Which release: one of `OF_CLIPPED`.
    release : function
        From answers to what is released of them with next to no noise.
    """

    def __init__(self, kind: str, release: Callable[[Answers], Any]) -> None:
        self._kind, self._release = kind, release
        self._of_public: dict[str, Truth] = {}

    def find(self, answers: Answers, asked: Sequence[Any]) -> Truth:
        """Return the figure of the data that have answered these questions."""
        if isinstance(answers, MadeUp):
            drawn = (answers.draw_group(question) for question in asked)
            columns = [column for column in drawn if column is not None]
            # Where no group was found there is no column.
            return Truth(_compute_figure(self._kind, columns[0])) if columns else Truth()
        # Public rows are the same in each run, so that they are read once for all of them.
        if answers.text not in self._of_public:
            self._of_public[answers.text] = _read_truth(self._release(answers))
        return self._of_public[answers.text]


class Off(NamedTuple):
    """How far figures lie at most from those of all rows, and which share of their intervals holds these."""

    most: float
    held: float


def measure_off(releases: Sequence[Any], truths: Sequence[Truth]) -> Off | None:
    """Compare figures with those of all rows of their data; None where nothing is known of these."""
    distances, held = [], 0
    for release, truth in zip(releases, truths, strict=True):
        for item, one in _list_figures(release):
            true = truth.find(item)
            if true is not None:
                distances.append(abs(float(one.estimate) - true))
                held += float(one.low) <= true <= float(one.high)
    return Off(max(distances), held / len(distances)) if distances else None


def _read_truth(release: Any) -> Truth:
    found = {item: float(one.estimate) for item, one in _list_figures(release)}
    each = found.pop(None, None)
    return Truth(each, {item: figure for item, figure in found.items() if item is not None})


def _list_figures(release: Any) -> Iterator[tuple[str | None, Any]]:
    """Yield each figure of a release with the label of its group; None: it has no groups."""
    if hasattr(release, "budgets"):
        yield from ((row.item, row.release) for row in release.rows)
    else:
        yield None, release


def _compute_figure(kind: str, numbers: Floats) -> float:
    if kind == "sum":
        return float(numbers.sum())
    # A variance is divided by the number of rows, as the released one is.
    return float(numbers.mean() if kind == "mean" else numbers.var())
