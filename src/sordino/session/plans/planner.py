"""Makes plans: one dry run where the noise alone decides, else some over made-up or public data."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast, final

from sordino.address import without_password
from sordino.constraints import COUNT, exact, shown
from sordino.cost import Cost, compose
from sordino.cost.odds import say_odds_of
from sordino.data import CsvFormat, Source, open_source
from sordino.data.sources.sharing import share_rows
from sordino.errors import InvalidParameter
from sordino.ledger import Preview
from sordino.plan.goals import GRID, Goal, Reached, Search, climb
from sordino.session.desk import Desk, Started
from sordino.session.plans.choices import simulate_choice
from sordino.session.plans.dry_run import Answers, DryRun, Outcome, PublicRows
from sordino.session.plans.made_up import ASSUMED, MadeUp
from sordino.session.plans.plan import Plan, PlannedChoice
from sordino.session.plans.ruler import Ruler, check_goal
from sordino.session.plans.rules import list_rules
from sordino.session.plans.shapes import OF_COLUMNS, OF_LABELS, check_rows, is_shape, parse_shape
from sordino.session.plans.widths import (
    ANY_DATA,
    PlannedFigure,
    describe_law,
    describe_runs,
    find_sizes,
)
from sordino.session.request import CONFIDENCE, Request

ROWS = 10_000
"""About how many rows made-up data have where nobody says anything."""
RUNS = 19
"""How many dry runs show a width that depends on the data: in one of twenty the widest is too small."""
_MOST_ROWS = 10**7
# Of many figures, and of many labels, fewer runs are made unless somebody asks for more, so that a plan stays
# quick: so many figures together.
_FIGURES_IN_ALL = 72
_LABELS_IN_ALL = 1 << 21
_LEAST_RUNS = 3
_OF_CLIPPED = ("sum", "mean", "variance")
_NO_NOISE = Fraction(1000)


class _Assumption(NamedTuple):
    """What is assumed of the data, and what is said of that."""

    answers: tuple[Answers, ...]
    said: str
    # For each text of the answers what releases of them would be with next to no noise; empty: nobody asked.
    truths: Mapping[str, Sequence[Any]] = MappingProxyType({})


@final
@dataclass(frozen=True)
class NamedData:
    """Public or synthetic data that whoever wrote them down has another name for.

    Attributes
    ----------
    text : str
        What they are called.
    source : str
        Where they are from here.
    """

    text: str
    source: str


@final
class Planner:
    """Makes the plans of one session.

    Parameters
    ----------
    desk : Desk
        Of the session: its schema, its unit and its account are looked at.
    form : CsvFormat
        How its CSV files are written, and so public ones that are taken in their place.
    before : sequence of Started
        What stands before it in an open batch.
    ask : function
        What is asked of a release before anything else is said of it: by default what the account would say,
        which raises `BudgetExceeded` where it has not so much. What it returns stands in the plan.
    """

    def __init__(
        self,
        desk: Desk,
        form: CsvFormat,
        before: Sequence[Started[Any]],
        ask: Callable[[DryRun], Preview | None] = DryRun.preview,
    ) -> None:
        self._desk, self._form, self._before, self._ask = desk, form, before, ask

    def settle(self, request: Request[Any]) -> Request[Any]:
        """Return a request that knows what it is about: an earlier release is looked up once for all runs."""
        find = getattr(request, "find", None)
        return request if find is None else replace(cast("Any", request), release=find(self._desk))

    def check_assumed(self, request: Request[Any], *, like: Any, rows: Any) -> None:
        """Refuse what a plan could not assume, such as the private source; no plan is made.

        Raises
        ------
        InvalidParameter, DataSourceError
            If it is no public shape and no public data.
        """
        self._assume(request, like, rows)

    def make(
        self, request: Request[Any], *, like: Any, rows: Any, runs: Any, rehearsed: bool = False
    ) -> Plan:
        """Return the plan of a request; `rehearsed` says whether its question was put to the engine before.

        Raises
        ------
        SordinoError
            Where the release would be refused before its charge; if what is assumed is no public shape or
            public data.
        """
        assumed = self._assume(request, like, rows)
        wanted = _count_runs(request, assumed, runs)
        run = DryRun(self._desk, request, self._before, rehearsed=rehearsed)
        return self._describe(run, assumed, wanted)

    def seek(self, request: Request[Any], goal: Goal, *, like: Any, rows: Any, runs: Any) -> Plan:
        """Return the plan with the smallest epsilon that reaches a goal; the request has any epsilon.

        Raises
        ------
        BudgetExceeded
            If the account has less than it takes.
        InvalidParameter
            If no epsilon reaches the goal, or it is none of this release.
        """
        check_goal(request, goal, like=like, rows=rows)
        assumed = self._assume(request, like, rows)
        wanted = _count_runs(request, assumed, runs)
        # All that is wrong with the other parameters is said now, and the engine is asked once.
        first = DryRun(self._desk, request, self._before)
        ruler = Ruler(goal, self._measure_sizes(first, assumed) if goal.kind == "share" else {})
        confidence = self._find_confidence(first, assumed)
        if goal.kind != "right" and request.name in _OF_CLIPPED and self._find_law(first, confidence) is None:
            assumed = assumed._replace(truths=self._find_truths(request, assumed, wanted))

        def start(epsilon: Fraction) -> DryRun:
            asked = replace(cast("Any", request), epsilon=epsilon)
            return DryRun(self._desk, asked, self._before, rehearsed=True)

        def look(epsilon: Fraction) -> Reached:
            run = start(epsilon)
            if goal.kind == "right":
                return ruler.read((), self._choose(run, assumed, wanted))
            return ruler.read(self._list_figures(run, assumed, None, wanted, confidence), ())

        def fits(epsilon: Fraction) -> None:
            # Small, and so never what is refused here for another reason.
            self._ask(start(epsilon))

        exact = goal.kind != "right" and self._find_law(first, confidence) is not None
        search = Search(request.name, goal, look, fits, ruler.describe, exact)
        place = GRID.index(search.find())
        # What chance has shown once need not show again: the plan itself must say that the goal is reached.
        for higher in climb(place, len(GRID) - 1):
            run = start(GRID[higher])
            plan = replace(self._describe(run, assumed, wanted), goal=goal.text)
            if ruler.read(plan.rows, plan.choices).is_met:
                return plan
        return plan

    def _describe(self, run: DryRun, assumed: _Assumption, wanted: int) -> Plan:
        # First, so that a release that does not fit is refused at once.
        preview = self._ask(run)
        first = run.run(assumed.answers[0], seed=1)
        confidence = getattr(first.release, "confidence", None) or CONFIDENCE
        figures = self._list_figures(run, assumed, first, wanted, confidence)
        choices = self._choose(run, assumed, wanted)
        if not choices and all(row.like == ANY_DATA for row in figures):
            assumed = assumed._replace(said="")
        cost = compose(*(part if isinstance(part, Cost) else part.cost for part in run.reservation.parts))
        request = cast("Any", run.request)
        return Plan(
            release=request.name,
            epsilon=float(request.epsilon),
            rows=tuple(figures),
            choices=choices,
            cost=cost,
            account=preview,
            assumed=assumed.said,
            left_out=list_rules(run.request, self._desk),
            odds=say_odds_of(cost, None if preview is None else preview.delta),
            method=getattr(first.release, "method", None),
        )

    # ---- widths --------------------------------------------------------------------------------------------

    def _list_figures(
        self, run: DryRun, assumed: _Assumption, first: Outcome | None, wanted: int, confidence: float
    ) -> list[PlannedFigure]:
        """Return how wide intervals will be: by the law of the noise if that is enough, else by dry runs."""
        law = self._find_law(run, confidence)
        if law is not None:
            return [law]
        first = first or run.run(assumed.answers[0], seed=1)
        return self._look(run, assumed, first, wanted, name_figures(run.request))

    def _find_law(self, run: DryRun, confidence: float) -> PlannedFigure | None:
        """Return the width on any data, where what measures is known before the charge."""
        [name, *_] = name_figures(run.request)
        # A cost in its place: how many are measured depends on what is found.
        return describe_law(run.reservation.parts[-1], name, confidence)

    def _find_confidence(self, run: DryRun, assumed: _Assumption) -> float:
        release = run.run(assumed.answers[0], seed=1).release
        return getattr(release, "confidence", None) or CONFIDENCE

    def _measure_sizes(self, run: DryRun, assumed: _Assumption) -> dict[tuple[str, str], float]:
        """Return about how large each figure is, of data as they are assumed."""
        names = name_figures(run.request)
        sizes = {}
        for place, answers in enumerate(assumed.answers):
            for name, size in find_sizes(run.run(answers, seed=1).release, names).items():
                sizes[name, answers.text] = size
                if place == 0:
                    sizes[name, ANY_DATA] = size
        return sizes

    def _find_truths(
        self, request: Request[Any], assumed: _Assumption, wanted: int
    ) -> Mapping[str, Sequence[Any]]:
        """Return what runs over all that is assumed release with next to no noise, of rows hardly clipped."""
        asked = replace(cast("Any", request), epsilon=_NO_NOISE)
        run = DryRun(self._desk, asked, self._before, rehearsed=True)
        first = run.run(assumed.answers[0], seed=1)
        return self._release_all(run, assumed, first, wanted, name_figures(request))

    def _look(
        self, run: DryRun, assumed: _Assumption, first: Outcome, wanted: int, names: Sequence[str]
    ) -> list[PlannedFigure]:
        """Return the widths of dry runs over all that is assumed."""
        released = self._release_all(run, assumed, first, wanted, names)
        return [
            figure
            for text, releases in released.items()
            for figure in describe_runs(releases, text, names, assumed.truths.get(text, ()))
        ]

    def _release_all(
        self, run: DryRun, assumed: _Assumption, first: Outcome, wanted: int, names: Sequence[str]
    ) -> dict[str, list[Any]]:
        """Return what dry runs release, for each text of what is assumed."""
        found: dict[str, list[Any]] = {}
        for answers in assumed.answers:
            # Other plans have other seeds: chance is not the same in all of them. With another epsilon
            # it is, so that these can be compared.
            seed = zlib.crc32(f"{run.request.name} {answers.text} {len(names)}".encode())
            seeds = range(seed, seed + _limit_runs(run, wanted))
            if first.is_one_draw:
                # Answers to the same question: what was prepared for it is not prepared again.
                found[answers.text] = [first.repeat(answers.vary(one), one) for one in seeds]
            else:
                found[answers.text] = [run.run(answers.vary(one), one).release for one in seeds]
        return found

    # ---- choices -------------------------------------------------------------------------------------------

    def _choose(self, run: DryRun, assumed: _Assumption, wanted: int) -> tuple[PlannedChoice, ...]:
        """Return how likely the right items are named, for each assumption; none where nothing is chosen."""
        if run.request.name not in {"top_k", "above"}:
            return ()
        choices = []
        for answers in assumed.answers:
            chances = simulate_choice(run.request, run.find_first_draw(answers), wanted)
            choices.append(
                PlannedChoice(
                    like=answers.text,
                    right=chances.right,
                    share=chances.share,
                    wrong=chances.wrong,
                    error=chances.error,
                    runs=chances.runs,
                )
            )
        return tuple(choices)

    # ---- what is assumed -----------------------------------------------------------------------------------

    def _assume(self, request: Request[Any], like: Any, rows: Any) -> _Assumption:
        """Return where answers come from: made-up data of shapes, or public data."""
        number = COUNT(f"{request.name}.rows", _guess_rows(request) if rows is None else rows)
        if number > _MOST_ROWS:
            raise InvalidParameter(f"{request.name}.rows must be at most {_MOST_ROWS}; got {number}.")
        of_column = hasattr(request, "cap") or getattr(request, "of_column", False)
        if like is None or is_shape(like):
            written = (like,) if like is not None else OF_COLUMNS if of_column else OF_LABELS
            shapes = [parse_shape(text) for text in written]
            if not of_column and request.name != "randomize":
                for shape in shapes:
                    # What says nothing about labels is refused before anything is started.
                    shape.list_counts(1, 1)
            what = "rows" if of_column else "pairs of a unit and an item"
            listed = ", ".join(shape.text for shape in shapes)
            if getattr(getattr(request, "domain", None), "kind", None) == "assumed public":
                # How many there are decides how large the noise is.
                listed += f", {ASSUMED:,} labels"
            return _Assumption(
                tuple(MadeUp(shape, number) for shape in shapes), f"{number:,} {what}, like {listed}"
            )
        check_rows(request.name, like, rows)
        text, source = self._open_public(request, like)
        return _Assumption((PublicRows(text, source),), f"data like {text}, which is taken as public")

    def _open_public(self, request: Request[Any], like: Any) -> tuple[str, Source]:
        """Open public or synthetic data, and say what they are called; refuse the private source."""
        place = like.source if isinstance(like, NamedData) else like
        named = isinstance(place, str | os.PathLike)
        text = like.text if isinstance(like, NamedData) else str(like)
        # A text that is no shape and no file is more likely a shape that was mistyped.
        if isinstance(place, str) and not _may_be_table(text, place):
            parse_shape(text)
        source = open_source(place, csv=self._form if named else CsvFormat())
        if named and "://" in text:
            text = without_password(text)
        if share_rows(self._desk.source, source):
            text = text if named else f"a {source.kind}"
            raise InvalidParameter(
                f"{request.name}.like must be synthetic or public data; got {shown(text)}, which holds rows "
                "of the private source. A plan of them would be a release that nobody pays for."
            )
        return text if named else f"a public {source.kind}", source


def _count_runs(request: Request[Any], assumed: _Assumption, runs: Any) -> int:
    """Return how many dry runs are made: as asked, else fewer where there are many figures."""
    if runs is not None:
        asked: int = COUNT(f"{request.name}.runs", runs)
        return asked
    figures = len(name_figures(request)) * len(assumed.answers)
    return max(_LEAST_RUNS, min(RUNS, _FIGURES_IN_ALL // figures))


def _may_be_table(text: str, place: str) -> bool:
    """Tell whether a text looks like a source: an address, or a path that is there, or a pattern."""
    return "://" in text or "#" in text or "*" in text or "." in text or Path(place).exists()


def _guess_rows(request: Request[Any]) -> int:
    """Return about how many rows there are, as far as anybody said."""
    hint = getattr(request, "size_hint", None)
    return hint if isinstance(hint, int) and hint > 0 else ROWS


def _limit_runs(run: DryRun, wanted: int) -> int:
    """Return how many dry runs are made, by the public number of labels."""
    domain = run.reservation.domain
    labels = 1 if domain is None or domain.hidden or domain.known is None else len(domain.known)
    return max(_LEAST_RUNS, min(wanted, _LABELS_IN_ALL // max(1, labels)))


def name_figures(request: Any) -> tuple[str, ...]:
    """Return what the figures of a release are called, in the order in which it has them."""
    if request.name == "quantile":
        wanted = request.q if isinstance(request.q, tuple) else (request.q,)
        names = tuple(f"q {float(cast('Fraction', exact(one))):g}" for one in wanted)
    else:
        names = (
            {
                "count": "the number of rows",
                "count_distinct_units": "the number of units",
                "randomize": "each report",
                "sum": "the sum",
                "mean": "the mean",
                "variance": "the variance",
                "remeasure": "each figure",
            }.get(request.name, "each count"),
        )
    grouped = getattr(request, "by", None) is not None
    return tuple(f"{name} of each group" for name in names) if grouped else names
