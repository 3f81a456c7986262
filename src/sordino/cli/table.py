"""Releases of tables.

Made and written, or with `--dry-run` what they would cost and give in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, cast, final

from sordino.cli.consent import MOST_EPSILON, require_consent
from sordino.cli.options import (
    DATE,
    DECLARATION,
    DETAILS,
    SOURCE,
    LabelOptions,
    RunOptions,
    Values,
    gather,
    is_quiet,
    list_given,
    run_options,
)
from sordino.cli.output import write_records
from sordino.cli.stderr import say
from sordino.cli.text_options import CsvOptions, csv_options
from sordino.cli.whom import UnitOptions, unit_options
from sordino.cli.work import make_domain, open_session, read_labels, show_progress
from sordino.cli.write import open_account, write_again, write_releases
from sordino.cost import Cost, compose
from sordino.errors import InvalidParameter
from sordino.record import SCHEMA, Record, list_spent
from sordino.releases import plain
from sordino.results import describe, describe_charge
from sordino.unit_columns import narrow_odds

# Only for type checkers: a release needs no plan.
if TYPE_CHECKING:
    from sordino.questions import Domain, PrivacyUnit
    from sordino.session import PlannedChoice, Progress, Session
    from sordino.session.plans.plan import Plan
    from sordino.study.declaration import DeclaredTable

NOT_READ = "Nothing was read but the schema, and nothing was charged."
ASSUMED = (
    "narrowest, typical, widest: width of the interval of a figure in dry runs; sure: how likely "
    "none is wider than the widest, if the data are as assumed."
)
OFF = (
    "off: how far the figure of a run lay at most from the one without noise, of the rows that "
    "count and between the public ends; held: the share of the intervals that held that one."
)
BARE = "No width is known: nothing is measured, intervals have one end, or epsilon is too little."
KNOWN = (
    "widest: width of the interval of a figure, whatever the data are; where it is cut at 0, less."
)


@final
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Which table a release is of, whom it protects, who pays, and how it is written."""

    source: str
    declared: DeclaredTable | None
    date: str | None
    unit: UnitOptions
    csv: CsvOptions
    run: RunOptions


table_options = gather(
    "table",
    TableOptions,
    SOURCE,
    DECLARATION,
    DATE,
    unit_options,
    csv_options,
    run_options,
    DETAILS,
)


_OF_ALL_ROWS = {
    "per_person": "makes one number of all rows of a person",
    "weight_cap": "lets all rows of a person count",
}


Make = Callable[["Session", str, RunOptions, "Progress | None", Values], list[Any]]
Tell = Callable[[Any], Record]


def release_from_table(
    name: str,
    table: TableOptions,
    asked: Values,
    make: Make | None = None,
    tell: Tell = describe,
) -> None:
    """Write a release of a table, or its plan.

    Parameters
    ----------
    name : str
        Of the method of a session.
    table : TableOptions
        Which table, whom it protects, who pays, and how the release is written.
    asked : dict
        What the method is called with; in the place of a domain, `labels` say where its labels come
        from.
    make : callable, optional
        Makes several, of one charge, or writes their plan.
    tell : callable
        Returns the record of each.
    """
    # One command asks one thing: a bound on rows that does not count is not dropped in silence.
    for option, what in _OF_ALL_ROWS.items():
        if asked.get(option) is not None and table.unit.max_rows is not None:
            raise InvalidParameter(
                f"--max-rows must not be given with --{option.replace('_', '-')}, which {what}; "
                f"got {table.unit.max_rows}. Leave out one of them."
            )
    run, labels = table.run, asked.pop("labels", None)
    if write_again(run):
        return
    # Labels are public: what is wrong with them is said before anything is charged.
    named = asked.get("item") or asked.get("by")
    one = named if isinstance(named, str) else None
    silent = labels is not None and one is not None and not _says_labels(labels)
    follows = silent and _follow_from_column(one, table.declared)
    # Of several columns the declaration may list the labels of each.
    domain = None if labels is None or silent else make_domain(labels, named)
    whom = table.unit
    if whom.part is not None:
        # Imported here: most releases are of a whole table.
        from sordino.study.declaration import read_part

        whom = replace(whom, part=read_part(whom.part, table.date, "--part"))
    with (
        open_session(table.source, whom, table.csv, run, table.declared) as session,
        show_progress(run.quiet) as progress,
    ):
        if silent and not follows:
            # What is wrong with the column comes first.
            source = session._executor.source  # noqa: SLF001 - names of columns are public
            source.index(one, "item" if "item" in asked else "by")
            make_domain(cast("LabelOptions", labels), one)
        if domain is not None:
            asked["domain"] = read_labels(session, domain, run)
        made = (make or release_or_plan)(session, name, run, progress, asked)
    if made:
        records = [tell(one) for one in made]
        if make is not None:
            split = "equal" if run.goal is None else "goal"
            records = describe_charge(records, compose(*(one.cost for one in made)), split=split)
        keeps = [partial(session.keep, one) for one in made]
        write_releases(list(zip(records, keeps, strict=True)), run)


def _says_labels(labels: LabelOptions) -> bool:
    names = (field.name for field in fields(labels))
    return any(getattr(labels, name) not in {None, False, ()} for name in names)


def _follow_from_column(named: str | None, declared: DeclaredTable | None) -> bool:
    """Tell whether labels may follow from a call, such as weekday(day), or a look-up."""
    # Imported here, because this module is read for the help as well.
    from sordino.sources.computed_columns import is_call

    looked_up = declared is not None and str(named).partition(".")[0] in declared.lookups
    return looked_up or is_call(named)


def release_or_plan(
    session: Session, name: str, run: RunOptions, progress: Progress | None, asked: Values
) -> list[Any]:
    """Return the release; with `--dry-run` write its plan, and return nothing.

    With `--goal` the epsilon of the release is that of its plan.

    Parameters
    ----------
    session : Session
        That releases.
    name : str
        Of its method.
    run : RunOptions
        Whether it is a dry run, and what that assumes.
    progress : callable or None
        Called while the engine works.
    asked : dict
        What the method is called with.
    """
    release = getattr(session, name)
    if not run.dry_run and run.goal is None:
        return [release(**asked, progress=progress)]
    planned = plan_release(session, name, run, asked)
    epsilon = confirm_goal(planned, run)
    if run.dry_run:
        write_plan(planned, run, asked.get("domain"))
        return []
    return [release(**asked | {"epsilon": epsilon}, progress=progress)]


def plan_release(session: Session, name: str, run: RunOptions, asked: Values) -> Plan:
    """Return the plan of a release, with the epsilon that a goal needs if there is one."""
    if run.goal is not None:
        del asked["epsilon"]
        # Imported here: a release needs no goal.
        from sordino.plan.goals import parse_goal

        # A list has as many items as its goal names, where nothing else is said.
        if "k" in asked and asked["k"] is None:
            asked["k"] = parse_goal(name, run.goal).k
    # Looked up here: it loads the planner, which takes longer than many a release.
    planned: Plan = getattr(session.plan, name)(
        like=run.like, rows=run.like_rows, goal=run.goal, **asked
    )
    return planned


def confirm_goal(plan: Plan, run: RunOptions) -> Fraction:
    """Return the epsilon of a plan, exactly; see `confirm_epsilon`."""
    return confirm_epsilon(take_epsilon(plan), run)


def take_epsilon(plan: Plan) -> Fraction:
    """Return the epsilon of a plan, exactly."""
    # A float means its shortest decimal, which has three digits here.
    return Fraction(repr(plan.epsilon))


def confirm_epsilon(epsilon: Fraction, run: RunOptions) -> Fraction:
    """Return an epsilon; ask whether it is meant, and say it, where a goal has found it."""
    if run.goal is not None:
        require_consent(
            f"What --goal needs, epsilon {float(epsilon):g},",
            epsilon,
            MOST_EPSILON,
            given=run.consent,
        )
        if not is_quiet(run.quiet):
            say(f"Goal {run.goal}: epsilon {float(epsilon):g}.")
    return epsilon


def plan_alone(
    name: str,
    mechanism: Any,
    run: RunOptions,
    *,
    epsilon: Any,
    unit: PrivacyUnit | None = None,
    choices: Sequence[PlannedChoice] = (),
    assumed: str = "",
    method: str | None = None,
    **charged: Any,
) -> None:
    """Write the plan of a mechanism, or of a cost, whose answers come from a pipe or from a file.

    `charged` is what `Ledger.preview` takes besides.
    """
    # Imported here: a release needs no plan.
    from sordino.cost.odds import say_odds_of
    from sordino.session.plans.plan import Plan

    run.claim_output()
    ledger, preview = open_account(run), None
    if ledger is not None:
        preview = ledger.preview(mechanism, label=name, unit=unit, **charged)
    cost: Cost = mechanism if isinstance(mechanism, Cost) else mechanism.cost
    odds = say_odds_of(cost, None if preview is None else preview.delta)
    plan = Plan(
        release=name,
        epsilon=float(epsilon),
        rows=(),
        choices=tuple(choices),
        cost=cost,
        account=preview,
        assumed=assumed,
        left_out=(),
        odds=odds if unit is None else narrow_odds(odds, unit.identity, unit.called),
        method=method,
        goal=run.goal,
    )
    # It has few notes, and no option that asks for them.
    write_plan(plan, replace(run, details=True))


def refuse_shape(run: RunOptions) -> None:
    """Refuse an assumption about data where a plan says nothing of answers."""
    given = list_given({"--goal": run.goal, "--like": run.like, "--like-rows": run.like_rows})
    if given:
        raise InvalidParameter(
            f"{given[0]} is for a table: of answers on standard input nothing is assumed."
        )


def write_plan(plan: Plan, run: RunOptions, domain: Domain | None = None) -> None:
    """Write a plan as a table, as JSON or as CSV.

    With a `domain` it says where the labels come from.
    """
    said = plan.to_dict()
    facts = {
        "plan": plan.release,
        "method": plan.method,
        "domain": None if domain is None else domain.origin,
        "goal": plan.goal,
        **list_spent(plan.cost),
        "cost": plan.cost.to_dict(),
        "account": None if plan.account is None else plan.account.account,
        "left": said["account"],
        "choices": said["choices"],
        **({} if plan.threshold is None else {"threshold": plan.threshold}),
        "assumed": plan.assumed,
        "left_out": list(plan.left_out),
        "odds": plan.odds,
        "schema": SCHEMA,
    }
    labels = [] if domain is None else [f"Labels: {domain.origin}."]
    rows = [plain({field.name: getattr(row, field.name) for field in fields(row)}) for row in plan]
    columns = tuple(rows[0]) if rows else ()
    bare = all(row.typical is row.widest is row.standard_error is None for row in plan)
    # What is the same for all data need not be said three times.
    known = all(row.narrowest == row.widest for row in plan)
    wide = any(row.widest is not None or row.typical is not None for row in plan)
    told = [KNOWN if all(row.sure == 1 for row in plan) else ASSUMED] if wide else []
    if bare and rows:
        told = [BARE]
    if plan.is_empty:
        # It says itself that nothing is expected.
        told = plan.list_figures()
    told += [OFF] * any(row.off is not None for row in plan)
    record = Record(
        facts=facts,
        columns=columns,
        rows=rows,
        notes=[
            *told,
            *plan.list_choices(),
            *plan.list_notes(),
            *plan.list_details(),
            *labels,
            NOT_READ,
        ],
        hidden=tuple(
            name
            for name in columns
            if (known and name in {"narrowest", "typical", "sure"})
            or (bare and name != "figure")
            or all(row[name] is None for row in rows)
        ),
        counts=False,
    )
    short = None if run.details else _shorten_plan(plan, told)
    write_records([record], run.chosen_form, run.output, notes=[short])


def _shorten_plan(plan: Plan, told: list[str]) -> list[str]:
    """Return three lines at most: what the widths are, what was assumed, and what it would cost."""
    *first, cost, account, _odds = plan.list_notes()
    assumed = [note for note in first if not note.startswith("Left out: ")]
    parts = (
        [*told, *plan.list_choices()],
        assumed,
        [cost, account, NOT_READ, "More: --details."],
    )
    return [" ".join(part) for part in parts if part]
