"""Makes plans: one dry run where the noise alone decides, else some over made-up or public data.

A plan also lists the public rules by which rows do not count, or count as something else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast, final

from sordino.constraints import COUNT
from sordino.cost import Cost, compose
from sordino.cost.odds import say_odds_of
from sordino.errors import BudgetExceeded
from sordino.ledger import Preview
from sordino.plan.goals import GRID, Goal, Reached, Search, name_largest
from sordino.population import describe_missing, say_columns
from sordino.results.sentences import TOTALS
from sordino.session.executor import ReleaseExecutor, Started
from sordino.session.plans.assumed import Assumption, assume
from sordino.session.plans.choices import simulate_choice
from sordino.session.plans.dry_run import DryRun, Outcome
from sordino.session.plans.expected_values import ExpectedValues
from sordino.session.plans.goal_meter import GoalMeter, check_goal, count_choices
from sordino.session.plans.plan import Plan, PlannedChoice
from sordino.session.plans.runs import DryRuns
from sordino.session.plans.widths import (
    ANY_DATA,
    PlannedFigure,
    describe_law,
    describe_table,
    find_sizes,
    name_figures,
)
from sordino.session.request import CONFIDENCE, Request, find_lookups, list_lent
from sordino.sources import CsvFormat
from sordino.unit_columns import narrow_odds


def list_rules(request: Any, executor: ReleaseExecutor) -> tuple[str, ...]:
    """Return the rules by which a release drops, bounds or moves rows.

    How many it moves is private.
    """
    rules = list(executor.list_left_out())
    if (where := getattr(request, "where", None)) is not None:
        rules.append(f"rows for which {where} does not hold")
    labels = getattr(request, "by", None) or getattr(request, "item", None)
    if labels is not None and getattr(request, "domain", None) is not None:
        rules.append(f"rows whose {say_columns(labels, 'or')} is no label of the domain")
    cells = getattr(request, "max_cells", None) if executor.unit.column is not None else None
    most = executor.unit.max_rows if cells is None else cells
    lent = list_lent(find_lookups(executor.source, request))
    rules += [f"rows of a person in {table} beyond one, which is drawn" for table in lent]
    groups = getattr(request, "groups_per_unit", None)
    per_person = getattr(request, "per_person", None)
    # A number of units is that of all of them, whichever of their rows count.
    if most is not None and request.name != "count_distinct_units" and per_person is None:
        counted = "items" if hasattr(request, "item") else "rows"
        everywhere = (
            ", in all groups together" if getattr(request, "by", None) and groups is None else ""
        )
        rules.append(f"{counted} of a person beyond {most}{everywhere}")
    if groups is not None and executor.unit.column is not None:
        rules.append(f"groups of a person beyond {groups}")
    if (hasattr(request, "cap") or hasattr(request, "bins")) and per_person != "count":
        rules.append(describe_missing(request.column))
    if hasattr(request, "cap"):
        rules += _list_ends(request)
    return tuple(rules)


def _list_ends(request: Any) -> list[str]:
    """Return what becomes of numbers beyond the ends of a column."""
    rules = []
    if request.lower is not None:
        low = f"{float(request.lower):.12g}"
        rules.append(f"what lies below {low} (it counts as {low})")
    cap = f"{float(request.cap):.12g}"
    if request.name == "quantile":
        rules.append(f"what lies above {cap} (it counts as {cap})")
    elif getattr(request, "bounds", None) is not None:
        rules.append(
            f"what lies above {cap} (it counts as {cap}), and what a figure lies beyond its bounds"
        )
    else:
        rules.append(
            f"what lies beyond a clip that is found, at most {cap} (it counts as the clip)"
        )
    return rules


IDLE = "nothing of the data: no width here hangs on them"
"""What is said where somebody has said something of the data."""


@final
class Planner:
    """Makes the plans of one session.

    Parameters
    ----------
    executor : ReleaseExecutor
        Of the session: its schema, its unit and its account are looked at.
    form : CsvFormat
        How its CSV files are written, and so public ones that are taken in their place.
    before : sequence of Started
        What stands before it in an open batch.
    ask : function
        What is asked of a release before anything else is said of it: by default what the account
        would say, which raises `BudgetExceeded` where it has not so much. What it returns stands in
        the plan.
    """

    def __init__(
        self,
        executor: ReleaseExecutor,
        form: CsvFormat,
        before: Sequence[Started[Any]],
        ask: Callable[[DryRun], Preview | None] = DryRun.preview,
    ) -> None:
        self._executor, self._form, self._before, self._ask = executor, form, before, ask

    def settle(self, request: Request[Any]) -> Request[Any]:
        """Return a request that knows what it is about.

        An earlier release is looked up once for all runs.
        """
        request, _ = self._executor.settle(request, self._before)
        find = getattr(request, "find", None)
        return (
            request if find is None else replace(cast("Any", request), release=find(self._executor))
        )

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
        """Return the plan of a request.

        `rehearsed` says whether its question was put to the engine before.

        Raises
        ------
        SordinoError
            Where the release would be refused before its charge; if what is assumed is no public
            shape or public data.
        """
        prepared = self._prepare(request, self._assume(request, like, rows), runs)
        run = DryRun(self._executor, request, self._before, rehearsed=rehearsed)
        try:
            plan = self._describe(run, prepared)
            # Whoever said something is told what came of it.
            said = plan.assumed or (IDLE if like is not None else "")
            return replace(plan, assumed=said)
        except BudgetExceeded as refused:
            raise name_largest(
                refused, lambda epsilon: self._ask(self._start(request, epsilon))
            ) from None

    def _start(self, request: Request[Any], epsilon: Fraction) -> DryRun:
        """Return a request with another epsilon; its question was put to the engine before."""
        asked = replace(cast("Any", request), epsilon=epsilon)
        return DryRun(self._executor, asked, self._before, rehearsed=True)

    def seek(self, request: Request[Any], goal: Goal, *, like: Any, rows: Any, runs: Any) -> Plan:
        """Return the plan with the smallest epsilon that reaches a goal.

        The request has any epsilon.

        Raises
        ------
        BudgetExceeded
            If the account has less than it takes.
        InvalidParameter
            If no epsilon reaches the goal, or it is none of this release.
        """
        check_goal(request, goal, like=like, rows=rows)
        prepared = self._prepare(request, self._assume(request, like, rows), runs)
        if goal.kind == "right":
            prepared = replace(prepared, choices=max(prepared.choices, count_choices(goal)))
        # All that is wrong with the other parameters is said now, and the engine is asked once.
        first = DryRun(self._executor, request, self._before)
        goal_meter = GoalMeter(
            goal, self._measure_sizes(first, prepared) if goal.kind == "share" else {}
        )
        began = prepared.start(first)
        exact = goal.kind != "right" and bool(self._find_laws(first, began))

        def start(epsilon: Fraction) -> DryRun:
            return self._start(request, epsilon)

        def look(epsilon: Fraction, runs: DryRuns = prepared, *, closely: bool = False) -> Reached:
            run = start(epsilon)
            if goal.kind == "right":
                return goal_meter.read((), self._choose(run, runs))
            # How sure intervals are does not hang on epsilon; how far those of a table reach does.
            laws = self._find_laws(run, runs.start(run) if request.name == "table" else began)
            if laws:
                # Of a table a goal is about the cells, which stand first.
                return goal_meter.read(laws[:1], ())
            enough = float("inf") if closely else float(goal.amount)
            worst = runs.find_worst(run, lambda figures: goal_meter.read(figures, ()).value, enough)
            return Reached(worst, float(goal.amount))

        def fits(epsilon: Fraction) -> None:
            # Small, and so never what is refused here for another reason.
            self._ask(start(epsilon))

        def look_closely(epsilon: Fraction) -> Reached:
            return look(epsilon, closely=True)

        def describe(value: float) -> str:
            said = "" if exact else f" (assumed: {prepared.assumed.said})"
            return f"{goal_meter.describe(value)}{said}"

        search = Search(request.name, goal, look, fits, describe, exact, look_closely)
        epsilon = search.find()
        # The search takes what its own runs reach, by luck as well. How likely the right items are
        # named is told with its error. Of widths it is told how sure they are: so the plan is made
        # of other runs. If these do not reach the goal, an epsilon is looked for with which they
        # do.
        turn = 0 if goal.kind == "right" else 1
        afresh = replace(prepared, assumed=prepared.assumed._replace(turn=turn), failed=[])
        plan = self._describe(start(epsilon), afresh)
        aimed = plan.rows[:1] if exact else plan.rows
        if not goal_meter.read(aimed, plan.choices).is_met:
            again = replace(search, look=lambda one: look(one, afresh))
            plan = self._describe(start(again.find(above=GRID.index(epsilon))), afresh)
        # A share is one of sizes that were assumed, also where widths hang on no data.
        said = plan.assumed or (prepared.assumed.said if goal.kind == "share" else "")
        return replace(plan, goal=goal.text, assumed=said or (IDLE if like is not None else ""))

    def _assume(self, request: Request[Any], like: Any, rows: Any) -> Assumption:
        return assume(request, self._executor.source, self._form, like=like, rows=rows)

    def _prepare(self, request: Request[Any], assumed: Assumption, runs: Any) -> DryRuns:
        """Return the dry runs of a request, of any epsilon."""
        names = name_figures(request)
        asked = None if runs is None else COUNT(f"{request.name}.runs", runs)
        of_sums = request.name in TOTALS or request.name == "top_sums"
        expected_values = ExpectedValues(request) if of_sums else None
        return DryRuns(assumed, asked, names, expected_values, choices=asked or 0)

    def _describe(self, run: DryRun, runs: DryRuns) -> Plan:
        # First, so that a release that does not fit is refused at once.
        preview = self._ask(run)
        first = runs.start(run)
        laws = self._find_laws(run, first)
        figures = laws or runs.describe(run, first)
        choices = self._choose(run, runs)
        depends = bool(choices) or not laws
        cost = compose(
            *(part if isinstance(part, Cost) else part.cost for part in run.reservation.parts)
        )
        request = cast("Any", run.request)
        return Plan(
            release=request.name,
            epsilon=float(request.epsilon),
            rows=tuple(figures),
            choices=choices,
            cost=cost,
            account=preview,
            assumed=runs.assumed.said if depends else "",
            left_out=list_rules(run.request, self._executor),
            odds=narrow_odds(
                say_odds_of(cost, None if preview is None else preview.delta),
                self._executor.unit.identity,
                self._executor.unit.called,
            ),
            method=getattr(first.release, "method", None),
            # Public numbers decide it, whatever is counted.
            threshold=first.release.threshold if request.name == "histogram" else None,
        )

    # ---- widths ----------------------------------------------------------------------------------

    def _find_laws(self, run: DryRun, first: Outcome) -> list[PlannedFigure]:
        """Return the widths on any data, where what measures is known before the charge."""
        if run.request.name == "table":
            return describe_table(first.release)
        [name, *_] = name_figures(run.request)
        confidence = getattr(first.release, "confidence", None) or CONFIDENCE
        # A cost in its place: how many are measured depends on what is found.
        law = describe_law(run.reservation.parts[-1], name, confidence)
        return [] if law is None else [law]

    def _measure_sizes(self, run: DryRun, runs: DryRuns) -> dict[tuple[str, str], float]:
        """Return about how large each figure is, of data as they are assumed."""
        sizes = {}
        for place, answers in enumerate(runs.assumed.answers):
            for name, size in find_sizes(run.run(answers, seed=1).release, runs.names).items():
                sizes[name, answers.text] = size
                if place == 0:
                    sizes[name, ANY_DATA] = size
        return sizes

    # ---- choices ---------------------------------------------------------------------------------

    def _choose(self, run: DryRun, runs: DryRuns) -> tuple[PlannedChoice, ...]:
        """Return how likely the right items are named, for each assumption.

        None where nothing is chosen.
        """
        if not run.request.chooses:
            return ()
        choices = []
        for answers in runs.assumed.answers:
            if run.request.name == "top_sums":
                chances = runs.simulate_sums(run, answers)
            else:
                draw = run.find_first_draw(answers)
                chances = simulate_choice(run.request, draw, runs.choices)
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
