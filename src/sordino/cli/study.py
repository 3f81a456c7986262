"""`sordino run`: all releases of a study, charged in one step and written into a folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import click

from sordino.charts import can_draw
from sordino.cli.once import Command
from sordino.cli.options import FORMAT, choose_format, is_quiet
from sordino.cli.output import write_rows
from sordino.cli.output_file import NotKeptError
from sordino.cli.stderr import say
from sordino.cli.whom import DAYS
from sordino.cli.work import DROPPED, show_progress
from sordino.cost.conversion import write_percent
from sordino.errors import BudgetExceeded
from sordino.ledger.left import say_more
from sordino.study import Study, StudyPlan, StudyRun

NOT_KEPT = (
    "The folder of the run was written, but the ledger did not say that it has kept all releases: "
    "take it for the only copy. Its charge stays; do not run it again for that."
)

_HOW_WIDE = "--dry-run says how wide it will be."


@click.command("run", cls=Command)
@click.argument("study")
@click.option(
    "--run-id",
    metavar="ID",
    help=(
        "Names this run, which is paid once however often it is started [default: day and digest]."
    ),
)
@click.option(
    "--output", metavar="DIR", help="Folder that is written, and not there yet [default: STUDY-ID]."
)
@click.option(
    "--date",
    metavar="DAY",
    help="Day for {date} in the path of a declared table: 2026-11-27, today, today-1.",
)
@DAYS
@click.option(
    "--dry-run", is_flag=True, help="Show what it would spend and give; nothing is read or charged."
)
@FORMAT
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def run(
    study: str,
    run_id: str | None,
    output: str | None,
    date: str | None,
    part: str | None,
    dry_run: bool,
    form: str | None,
    quiet: bool,
) -> None:
    """Make all releases of the file STUDY: check all, charge all in one step, read, write a folder.

    A second start of the same run pays nothing: it writes what the ledger has kept.
    """
    loaded = Study.load(study, date=date, part=part)
    if dry_run:
        with show_progress(quiet or None, "planning") as bar:
            tell = None if bar is None else lambda _name, percent: bar(percent)
            plan = loaded.plan(run_id=run_id, progress=tell)
        _write_plan(plan, form)
        if plan.refused is not None:
            raise BudgetExceeded(plan.refused)
        return
    with _show_steps(quiet) as progress:
        show = None if quiet else _say_plan
        # Whoever sits before a terminal reads what to expect. Under cron nobody waits for it.
        expect = not quiet and not is_quiet(None)
        done = loaded.run(output=output, run_id=run_id, progress=progress, show=show, expect=expect)
    _write_done(loaded, done, form)
    if not done.kept:
        raise NotKeptError(NOT_KEPT)


def _say_plan(plan: StudyPlan) -> None:
    """Say what is about to be spent, before it is."""
    # Only where somebody reads it.
    from sordino.session.plans.plan import say_planned_figure

    say(f"Run {plan.run} of study {plan.study}: {len(plan.releases)} releases.")
    for one in plan.releases:
        wish = "" if one.goal is None else f", found for {one.goal}"
        figures, choices = (
            (one.figures, []) if one.plan is None else (one.plan.rows, one.plan.list_choices())
        )
        # The first one stands on the line of its release, all else below it.
        first, *others = [*map(say_planned_figure, figures)] or [_HOW_WIDE]
        say(f"  {one.name}: {one.kind}, epsilon {float(one.epsilon):.6g}{wish}; {first}")
        for sentence in [*others, *choices]:
            say(f"    {sentence}")
    say(
        f"Together epsilon {float(plan.epsilon):.6g}; account {plan.account} has "
        f"{_say_left(plan)}. {plan.odds}"
    )
    if not can_draw():
        say("The folder will have no report.html, which needs: pip install 'sordino[report]'.")
    # The same words every time: whether the rule applied to any row is private.
    say(DROPPED)


@contextmanager
def _show_steps(quiet: bool) -> Iterator[Any]:
    """Yield what shows how far a run is: a bar on a terminal, elsewhere a line for each release."""
    if quiet:
        yield None
        return
    seen: list[str] = []

    def tell(name: str, _percent: float) -> None:
        if name not in seen:
            seen.append(name)
            say(f"Reading for {name}.")

    if is_quiet(None):
        yield tell
        return
    with show_progress(quiet) as bar:
        yield lambda _name, percent: None if bar is None else bar(percent)


_COLUMNS = ("name", "kind", "budget", "epsilon", "rho", "goal")
_OF_FIGURE = (
    *("figure", "like", "narrowest", "typical", "widest"),
    *("sure", "confidence", "standard_error", "off", "held"),
)
_OF_CHOICE = ("like", "right", "share", "wrong", "error")
RIGHT_ITEMS = "right items"
"""What stands as the figure of a line of CSV that says how likely the right items are named."""


def _write_plan(plan: StudyPlan, form: str | None) -> None:
    facts = plan.to_dict()
    rows = facts.pop("releases")
    if choose_format(form) == "csv":
        # A line for each figure, because a cell holds no list.
        columns = (
            *_COLUMNS,
            *_OF_FIGURE,
            *(name for name in _OF_CHOICE if name != "like"),
            "assumed",
        )
        lines = [line for row in rows for line in _list_lines(row)]
        write_rows(
            form, columns, [{name: line.get(name) for name in columns} for line in lines], facts, []
        )
        return
    notes = [
        *_say_expected(plan),
        f"Run {plan.run} of study {plan.study}, account {plan.account}: together epsilon "
        f"{float(plan.epsilon):.6g}.",
        plan.odds,
        f"The account has {_say_left(plan)}.",
        *([] if plan.account_after is None else [say_more(plan.account_after.more, "like this")]),
        "Nothing was read or charged.",
    ]
    if plan.charge is not None:
        notes.append(
            f"This run was paid before (charge {plan.charge}): it would not be charged again."
        )
    # People see a goal only where there is one.
    columns = _COLUMNS if any(one.goal is not None for one in plan.releases) else _COLUMNS[:-1]
    write_rows(form, columns, rows, facts, notes)


def _say_left(plan: StudyPlan) -> str:
    """Return what the account has left, and would have afterwards, where it would take the run."""
    after, left = plan.account_after, write_percent(plan.share_left, -1)
    more = "" if after is None else f", and {write_percent(after.share_left, -1)} after this run"
    return f"{left} of its budget left{more}"


def _list_lines(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of one release.

    One for each kind of figure, and for each choice that is assumed.
    """
    about = {name: row[name] for name in (*_COLUMNS, "assumed")}
    figures = [{name: one[name] for name in _OF_FIGURE} for one in row["figures"]]
    choices = [
        {"figure": RIGHT_ITEMS, **{name: one[name] for name in _OF_CHOICE}}
        for one in row["choices"]
    ]
    return [about | line for line in [*figures, *choices] or [{}]]


def _say_expected(plan: StudyPlan) -> list[str]:
    """Return what to expect of each release, as a dry run says it.

    What all leave out is said once.
    """
    plans = [(one.name, one.plan) for one in plan.releases if one.plan is not None]
    shared = [
        rule
        for rule in (plans[0][1].left_out if plans else ())
        if all(rule in one.left_out for _, one in plans)
    ]
    said = []
    for name, one in plans:
        own = [rule for rule in one.left_out if rule not in shared]
        sentences = [
            *one.list_figures(),
            *one.list_choices(),
            *([f"Assumed: {one.assumed}."] if one.assumed else []),
            *([f"Left out: {'; '.join(own)}."] if own else []),
        ]
        said += [f"{name}: {sentence}" for sentence in sentences]
    return [*said, *([f"Left out of all: {'; '.join(shared)}."] if shared else [])]


def _write_done(study: Study, done: StudyRun, form: str | None) -> None:
    reached = {said.get("name"): said.get("reached") for said in done.releases}
    rows = [
        {
            "name": one.name,
            "kind": one.kind,
            "budget": _find_budget(one.epsilon, reached.get(one.name)),
            "file": f"{one.name}.csv",
        }
        for one in study.releases
    ]
    facts = {
        "study": study.name,
        "run": done.run,
        "charge": done.charge,
        "folder": str(done.folder),
        "paid": done.paid,
        "kept": done.kept,
    }
    paid = "" if done.paid else ". It was paid before, and not again"
    notes = [
        f"Run {done.run} of study {study.name}, charge {done.charge}{paid}.",
        f"Folder: {done.folder}.",
    ]
    write_rows(form, ("name", "kind", "budget", "file"), rows, facts, notes)


def _find_budget(epsilon: Fraction | None, reached: Any) -> float | None:
    """Return what a release had: as the study says, or as it was found for a goal."""
    if epsilon is not None:
        return float(epsilon)
    # Of a folder that was there before, somebody may have changed the file.
    found = reached.get("epsilon") if isinstance(reached, dict) else None
    return found if isinstance(found, float) else None
