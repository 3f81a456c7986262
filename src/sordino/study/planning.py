"""Takes the releases of a study as far as their charge, and says what a run of them would spend.

Finds epsilons of goals, and says what to expect: of each release, of all of them, and what the
account has left. Both is done by the planner of a session, so it looks at nothing but the schema
and the account.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

from sordino.errors import BudgetExceeded, LedgerError, SordinoError
from sordino.ledger import ChargeLine, Preview
from sordino.plan.goals import GRID
from sordino.session.executor import ReleaseExecutor, Started
from sordino.session.plans.widths import PlannedFigure, describe_law, name_figures
from sordino.session.request import CONFIDENCE
from sordino.sources import CsvFormat
from sordino.study.document import Document
from sordino.study.releases import StudyRelease, add_budgets
from sordino.study.tables import BudgetTable

if TYPE_CHECKING:
    from sordino.session.plans.dry_run import DryRun
    from sordino.session.plans.plan import Plan
    from sordino.session.plans.planner import Planner
from typing import TYPE_CHECKING

from sordino.cost import Cost
from sordino.record import list_spent
from sordino.releases import plain

if TYPE_CHECKING:
    from sordino.session.plans.plan import Plan
    from sordino.session.plans.widths import PlannedFigure


@final
@dataclass(frozen=True, kw_only=True)
class ReachedGoal:
    """A goal and the epsilon that was found for it; public.

    Attributes
    ----------
    goal : str
        As the study has it.
    epsilon : Fraction
        The smallest one of three digits that reaches it.
    assumed : str
        What was assumed of the data, in words; empty where nothing was.
    """

    goal: str
    epsilon: Fraction
    assumed: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {"goal": self.goal, "epsilon": float(self.epsilon), "assumed": self.assumed}


@final
@dataclass(frozen=True, kw_only=True)
class ReadyRelease:
    """A release up to its charge.

    Attributes
    ----------
    release : StudyRelease
        With its epsilon.
    started : Started
        At its reservation.
    reached : ReachedGoal or None
        The goal for which the epsilon was found.
    plan : Plan or None
        What it will give; None where nobody asked.
    """

    release: StudyRelease
    started: Started[Any]
    reached: ReachedGoal | None = None
    plan: Plan | None = None

    def list_known_figures(self) -> tuple[PlannedFigure, ...]:
        """Return how wide its intervals will be, as far as that is known without more dry runs."""
        if self.plan is not None:
            return self.plan.rows
        # What holds for all intervals together depends on how many there are.
        request = self.release.request
        if request.name == "table" or getattr(request, "simultaneous", False):
            return ()
        [name, *_] = name_figures(request)
        law = describe_law(self.started.reservation.parts[-1], name, CONFIDENCE)
        return () if law is None else (law,)


@final
@dataclass(frozen=True)
class Starter:
    """Starts the releases of a study, in the order of its file.

    Attributes
    ----------
    document : Document
        For messages.
    budget : BudgetTable
        Into which they fit.
    form : CsvFormat
        How texts of the table are written, and of public data in its place.
    executor : ReleaseExecutor
        Its schema and its account; no row is asked for.
    """

    document: Document
    budget: BudgetTable
    form: CsvFormat
    executor: ReleaseExecutor

    def start(
        self,
        releases: Sequence[StudyRelease],
        batch: ReleaseExecutor,
        known: Mapping[str, ReachedGoal],
    ) -> list[ReadyRelease]:
        """Take every release as far as its reservation: no row is read, and nothing is charged.

        A goal sees what stands before it, as its noise does. It takes no more than what those
        before it, and all that have an epsilon of their own, leave of the budget and of the
        account.

        Parameters
        ----------
        releases : sequence of StudyRelease
            In their order.
        batch : ReleaseExecutor
            That makes them.
        known : mapping of str to ReachedGoal
            Epsilons that were found before, by the names of releases; they are not looked for
            again.

        Raises
        ------
        BudgetExceeded
            If a goal takes more.
        SordinoError
            Where a release would be refused before its charge; with its line.
        """
        found: list[ReadyRelease] = []
        listed = list(releases)
        seeks = any(one.epsilon is None and one.name not in known for one in listed)
        fixed = self._rehearse(listed) if seeks else {}
        for number, one in enumerate(listed):
            before, reached, plan = [each.started for each in found], known.get(one.name), None
            if one.epsilon is None:
                if reached is None:
                    behind = [run for place, run in fixed.items() if place > number]
                    plan = self._seek(number, one, before, behind, add_budgets(self.budget, listed))
                    # A float means its shortest decimal, which has three digits here.
                    reached = ReachedGoal(
                        goal=str(plan.goal),
                        epsilon=Fraction(repr(plan.epsilon)),
                        assumed=plan.assumed,
                    )
                one = listed[number] = one.with_epsilon(reached.epsilon)  # noqa: PLW2901
            elif one.outlook.source is not None:
                # A run looks at no plan of it. What its file calls public is written down all the
                # same.
                self._check_public(number, one)
            started = self._start(number, one, batch, before)
            found.append(ReadyRelease(release=one, started=started, reached=reached, plan=plan))
        return found

    def describe(
        self, ready: Sequence[ReadyRelease], tell: Callable[[str, float], object], *, fits: bool
    ) -> list[ReadyRelease]:
        """Return the releases with what to expect of them.

        `fits` says whether the account would take them all, and then each plan says what it would
        leave. `tell` is called with the name of each and how much is done, in percent.
        """
        found = []
        for number, one in enumerate(ready):
            tell(one.release.name, 100 * number / len(ready))
            if one.plan is None:
                planner = self._make_planner([each.started for each in ready[:number]], fits=fits)
                plan = self._guard(
                    ("release", number),
                    lambda planner=planner, release=one.release: planner.make(
                        planner.settle(release.request), **_list_assumed(release), rehearsed=True
                    ),
                )
                one = replace(one, plan=plan)  # noqa: PLW2901
            found.append(one)
        return found

    def _start(
        self,
        number: int,
        one: StudyRelease,
        executor: ReleaseExecutor,
        before: Sequence[Started[Any]],
    ) -> Any:
        return self._guard(("release", number), lambda: executor.start(one.request, before))

    def _check_public(self, number: int, one: StudyRelease) -> None:
        assumed = _list_assumed(one)
        planner = self._make_planner((), fits=False)
        self._guard(
            ("release", number, "like"),
            lambda: planner.check_assumed(one.request, like=assumed["like"], rows=assumed["rows"]),
        )

    def _guard(self, place: tuple[str | int, ...], build: Any) -> Any:
        """Return what is built; what is refused is refused with its line."""
        try:
            return build()
        except SordinoError as error:
            refused = self.document.add_place(place, error)
        # Outside of the handler, so that the message is said once.
        raise refused

    def _make_planner(self, before: Sequence[Started[Any]], *, fits: bool) -> Planner:
        from sordino.session.plans.dry_run import DryRun  # noqa: PLC0415 - see above
        from sordino.session.plans.planner import Planner  # noqa: PLC0415

        return Planner(self.executor, self.form, before, DryRun.preview if fits else _ask_nobody)

    def _rehearse(self, releases: Sequence[StudyRelease]) -> dict[int, DryRun]:
        """Return those with an epsilon of their own, by their places.

        A goal leaves them what they need.

        Raises
        ------
        BudgetExceeded
            If the account has not so much.
        """
        from sordino.session.plans.dry_run import DryRun  # noqa: PLC0415 - see above

        runs = {
            number: self._guard(
                ("release", number), lambda one=one: DryRun(self.executor, one.request)
            )
            for number, one in enumerate(releases)
            if one.epsilon is not None
        }
        if runs:
            # Where they do not fit by themselves no goal is to blame.
            first, *others = runs.values()
            try:
                first.preview(others)
            except BudgetExceeded as error:
                refused = BudgetExceeded(
                    f"All releases with an epsilon of their own, together: {error}"
                )
            else:
                return runs
            raise refused
        return runs

    def _seek(
        self,
        number: int,
        one: StudyRelease,
        before: Sequence[Started[Any]],
        behind: Sequence[DryRun],
        spent: Fraction,
    ) -> Plan:
        """Return the plan with the smallest epsilon that reaches the goal of a release."""
        from sordino.session.plans.planner import Planner  # noqa: PLC0415 - see above

        def ask(run: DryRun) -> Preview | None:
            asked: Any = run.request
            self.budget.refuse_beyond(spent + self.budget.count(asked.epsilon))
            # Those behind it have to fit, too, and what they cost may depend on it.
            run.preview(behind)
            return run.preview()

        def seek() -> Plan:
            planner = Planner(self.executor, self.form, before, ask)
            goal: Any = one.outlook.goal
            return planner.seek(planner.settle(one.request), goal, **_list_assumed(one))

        try:
            plan: Plan = self._guard(("release", number, "goal"), seek)
        except BudgetExceeded as error:
            left = f"{float(self.budget.whole - spent):.9g}"
            refused = BudgetExceeded(f"{error} [budget] leaves it {self.budget.measure} {left}.")
        else:
            return plan
        raise refused


def _ask_nobody(_run: DryRun) -> Preview | None:
    return None


def _list_assumed(release: StudyRelease) -> dict[str, Any]:
    """Return what plans of a release assume, as a planner takes it."""
    from sordino.session.plans.assumed import NamedData  # noqa: PLC0415 - see above

    outlook = release.outlook
    like: Any = outlook.like
    if outlook.like is not None and outlook.source is not None:
        like = NamedData(outlook.like, outlook.source)
    return {"like": like, "rows": outlook.rows, "runs": outlook.runs}


def list_reached(ready: Sequence[ReadyRelease]) -> dict[str, Any]:
    """Return which epsilons were found for which goals, JSON-ready, by the names of releases."""
    return {one.release.name: one.reached.to_dict() for one in ready if one.reached is not None}


def recall_reached(line: ChargeLine, releases: Sequence[StudyRelease]) -> dict[str, ReachedGoal]:
    """Return the epsilons of a run that was paid before.

    They are in the ledger, and stay what they were.

    Raises
    ------
    LedgerError
        If it does not say them.
    """
    said = line.detail.get("study", {}).get("reached", {})
    found = {}
    for one in releases:
        if one.epsilon is not None:
            continue
        try:
            about = said[one.name]
            # Of those that are looked for; another one was written by somebody else.
            epsilon = GRID[GRID.index(Fraction(repr(float(about["epsilon"]))))]
            found[one.name] = ReachedGoal(
                goal=str(about["goal"]), epsilon=epsilon, assumed=str(about["assumed"])
            )
        # Whoever may charge the account may have written something else there.
        except (ArithmeticError, LookupError, TypeError, ValueError):
            raise LedgerError(
                f"Charge {line.id} must say which epsilon release {one.name!r} had; it does not."
            ) from None
    return found


@final
@dataclass(frozen=True, kw_only=True)
class PlannedRelease:
    """One release of a study, before it is made.

    Attributes
    ----------
    name, kind : str
        As the study says.
    epsilon : Fraction
        Its budget, also where the study gives it a share or a goal.
    cost : Cost
        What it may spend.
    goal : str or None
        What the epsilon was found for.
    plan : Plan or None
        How wide its intervals will be, how likely the right items are named, what is left out: as
        `Session.plan` says it. None where a run shows what it is about to spend.
    figures : tuple of PlannedFigure
        How wide its intervals will be, as far as that is known without dry runs; empty where it is
        not.
    """

    name: str
    kind: str
    epsilon: Fraction
    cost: Cost
    goal: str | None = None
    plan: Plan | None = None
    figures: tuple[PlannedFigure, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        spent = list_spent(self.cost)
        return {
            "name": self.name,
            "kind": self.kind,
            "budget": float(self.epsilon),
            "epsilon": spent["epsilon"],
            "rho": spent.get("rho"),
            "goal": self.goal,
            **({} if self.plan is None else _list_outlook(self.plan)),
        }


def _list_outlook(plan: Plan) -> dict[str, Any]:
    """Return what is to be expected of a release, JSON-ready, by the names that its dry run has."""
    return {
        "method": plan.method,
        "figures": plain(plan.rows),
        "choices": plain(plan.choices),
        "assumed": plan.assumed,
        "left_out": list(plan.left_out),
        "odds": plan.odds,
    }


@final
@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a run of a study would do; nothing was read or charged for it.

    Attributes
    ----------
    study, run, account : str
        Of the study, of the run, and of who pays.
    releases : tuple of PlannedRelease
        In the order of the study.
    epsilon : Fraction
        The budgets of all releases together.
    cost : Cost
        What all of them may spend together; their list is fixed, so the tight views hold.
    measure : str
        In what the account counts: "epsilon", "rho" or "divergence".
    remaining : Fraction
        What the account has left now.
    share_left : Fraction
        Which share of its budget that is.
    account_after : Preview or None
        What it would have left afterwards; None if it would not take the run, or was charged for it
        before.
    odds : str
        What all of it means for one person, in one sentence.
    refused : str or None
        Why the account would not take the run; None if it would.
    charge : str or None
        The id of its charge, if it was paid before: it is not paid again.
    kept : int
        How many of its releases the ledger has kept then.
    """

    study: str
    run: str
    account: str
    releases: tuple[PlannedRelease, ...]
    epsilon: Fraction
    cost: Cost
    measure: str
    remaining: Fraction
    share_left: Fraction
    odds: str
    refused: str | None = None
    charge: str | None = None
    kept: int = 0
    account_after: Preview | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values."""
        return {
            "study": self.study,
            "run": self.run,
            "account": self.account,
            "releases": [one.to_dict() for one in self.releases],
            "budget": float(self.epsilon),
            "cost": self.cost.to_dict(),
            "measure": self.measure,
            "remaining": float(self.remaining),
            "share_left": float(self.share_left),
            "left": None if self.account_after is None else self.account_after.to_dict(),
            "odds": self.odds,
            "refused": self.refused,
            "charge": self.charge,
            "kept": self.kept,
        }
