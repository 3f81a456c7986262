"""Lets a release go on again and again over what is assumed, and looks at what comes of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, cast, final

from sordino.plan.chosen import Chances
from sordino.session.plans.assumed import Assumption
from sordino.session.plans.choices import CLIPS, join_chances, simulate_clip
from sordino.session.plans.dry_run import Answers, DryRun, Outcome
from sordino.session.plans.expected_values import ExpectedValue, ExpectedValues, measure_off
from sordino.session.plans.widths import PlannedFigure, describe_runs
from sordino.session.top_sums import TopSumsRequest

RUNS = 19
"""How many dry runs show a width that depends on the data: in one of twenty the widest is too
small."""
# Of many figures, and of many labels, fewer runs are made unless somebody asks for more, so that a
# plan stays quick: so many figures together.
_FIGURES_IN_ALL = 72
_LABELS_IN_ALL = 1 << 21
# The same of groups, each of which has intervals of its own.
_INTERVALS_IN_ALL = 1 << 9
_LEAST_RUNS = 3


class _Place(NamedTuple):
    """One run: of which of the data that are assumed, by their number, and with which chance."""

    number: int
    seed: int


class _Seen(NamedTuple):
    """What came of one run.

    What was released, and what it should have been, where a plan compares.
    """

    release: Any
    truth: ExpectedValue | None


@final
@dataclass(frozen=True)
class DryRuns:
    """Dry runs of one request over all that is assumed.

    With another epsilon these are the same runs.

    Attributes
    ----------
    assumed : Assumption
        Of the data.
    asked : int or None
        How many runs somebody asked for. None: as many as take a moment.
    names : tuple of str
        What the figures of a release are called.
    expected_values : ExpectedValues or None
        Finds the figures without noise, where intervals are about clipped rows.
    choices : int
        How often a choice is made at least, to see whether it is right.
    failed : list
        Runs that were not good enough with some epsilon, the newest first: with the next one they
        are tried first.
    """

    assumed: Assumption
    asked: int | None
    names: tuple[str, ...]
    expected_values: ExpectedValues | None
    choices: int
    failed: list[_Place] = field(default_factory=list)

    def describe(self, run: DryRun, first: Outcome | None = None) -> list[PlannedFigure]:
        """Return the widths of all of them.

        `first` is a run of the first answers that was made before.
        """
        first = first or self.start(run)
        found: list[PlannedFigure] = []
        for number in range(len(self.assumed.answers)):
            places = self._list_places(run, number)
            seen = [self._compare(self._make(run, first, place), place) for place in places]
            found += self._describe(number, seen)
        return found

    def find_worst(
        self, run: DryRun, measure: Callable[[list[PlannedFigure]], float], enough: float
    ) -> float:
        """Return the worst of what is measured of each run.

        The first that is not good enough ends it.

        Parameters
        ----------
        run : DryRun
            With the epsilon that is tried.
        measure : function
            From the figures of a run to a number; less is better.
        enough : float
            What is good enough.
        """
        listed = [self._list_places(run, number) for number in range(len(self.assumed.answers))]
        places = list(dict.fromkeys([*self.failed, *chain(*listed)]))
        # The first one prepares what all others share.
        first = self._run(run, places[0])
        worst = 0.0
        for place in places:
            made = first if place == places[0] else self._make(run, first, place)
            seen = self._compare(made, place)
            worst = max(worst, measure(self._describe(place.number, [seen])))
            if worst > enough:
                # The newest stands first.
                self.failed[:] = dict.fromkeys([place, *self.failed])
                break
        return worst

    def simulate_sums(self, run: DryRun, answers: Answers) -> Chances:
        """Return how often the labels with the largest sums are named, of some runs with a clip."""
        found, request = [], cast("TopSumsRequest", run.request)
        for seed in range(1, CLIPS + 1):
            varied = answers.vary(seed)
            outcome = run.run(varied, seed)
            truth = cast("ExpectedValues", self.expected_values).find(varied, outcome.asked)
            found.append(simulate_clip(request, outcome, varied, truth, seed, self.choices))
        return join_chances(found)

    def start(self, run: DryRun) -> Outcome:
        """Return a run that prepares what all others share."""
        return run.run(self.assumed.answers[0], seed=1)

    def _run(self, run: DryRun, place: _Place) -> Outcome:
        return run.run(self._find_answers(place), place.seed)

    def _make(self, run: DryRun, first: Outcome, place: _Place) -> Outcome:
        # Answers to the same question: what was prepared for it is not prepared again.
        if first.is_one_draw:
            return first.repeat(self._find_answers(place), place.seed)
        return self._run(run, place)

    def _find_answers(self, place: _Place) -> Answers:
        return self.assumed.answers[place.number].vary(place.seed)

    def _compare(self, made: Outcome, place: _Place) -> _Seen:
        """Return what was released, and what it should have been."""
        truth = (
            None
            if self.expected_values is None
            else self.expected_values.find(self._find_answers(place), made.asked)
        )
        return _Seen(made.release, truth)

    def _describe(self, number: int, seen: Sequence[_Seen]) -> list[PlannedFigure]:
        text = self.assumed.answers[number].text
        figures = describe_runs([one.release for one in seen], text, self.names)
        expected_values = [one.truth for one in seen if one.truth is not None]
        off = (
            measure_off([one.release for one in seen], expected_values) if expected_values else None
        )
        if off is None:
            return figures
        # Of these releases there is one figure, or one of each group.
        return [replace(figure, off=off.most, held=off.held) for figure in figures]

    def _list_places(self, run: DryRun, number: int) -> list[_Place]:
        """Return the runs over some of the data.

        Other plans have other chance than this one. With another epsilon it is the same, so that
        these can be compared.
        """
        turn = f" {self.assumed.turn}" if self.assumed.turn else ""
        text = f"{run.request.name} {self.assumed.answers[number].text} {len(self.names)}{turn}"
        seed = zlib.crc32(text.encode())
        return [_Place(number, one) for one in range(seed, seed + self._count(run))]

    def _count(self, run: DryRun) -> int:
        """Return how many runs are made: as asked, else fewer where there is much to look at."""
        if self.asked is not None:
            return self.asked
        figures = len(self.names) * len(self.assumed.answers)
        domain = run.reservation.domain
        labels = (
            1
            if domain is None or domain.hidden or domain.known is None
            else max(1, len(domain.known))
        )
        grouped = getattr(run.request, "by", None) is not None
        most = _INTERVALS_IN_ALL // figures if grouped else _LABELS_IN_ALL
        return max(_LEAST_RUNS, min(RUNS, _FIGURES_IN_ALL // figures, most // labels))
