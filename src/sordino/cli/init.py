"""`sordino init`: a study of a table, from its columns and a few questions. No row is read."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import DATE, DECLARATION, NUMBER, SOURCE
from sordino.cli.output import write_lines
from sordino.cli.output_file import OutputFile
from sordino.cli.stderr import say
from sordino.cli.text_options import CsvOptions, form_options
from sordino.cli.work import make_csv_format
from sordino.constraints import COUNT, POSITIVE, did_you_mean
from sordino.cost import Pure
from sordino.cost.odds import say_odds_of
from sordino.entropy import SYSTEM
from sordino.errors import InvalidParameter, LedgerError, SordinoError
from sordino.ledger import Budget, Ledger
from sordino.plan.goals import parse_goal
from sordino.questions import PrivacyUnit
from sordino.session.executor import ReleaseExecutor
from sordino.session.request import Request
from sordino.sources import Source, open_source
from sordino.sources.source import name_type
from sordino.study.declaration import DeclaredTable, find_declaration
from sordino.study.kinds import build_request, find_kind, list_kinds, list_known, list_required
from sordino.study.tables import name_source
from sordino.study.template import TO_COMPLETE, Draft, name_after, write_study
from sordino.unit_columns import split_unit_columns

T = TypeVar("T")
_COLUMNS = ("item", "column", "by")
"""Parameters that name a column."""
_FIRST = (
    *("--output", "--declaration", "--date", "--format-in", "--delimiter", "--type", "--null"),
    *("--no-header", "--columns", "--decimal", "--date-format"),
)


@click.command("init", cls=GroupedCommand, first=_FIRST)
@SOURCE
@click.option(
    "--output",
    default="study.toml",
    show_default=True,
    metavar="FILE",
    help="The study; a new file.",
)
@DECLARATION
@DATE
@form_options
def init(
    source: str,
    output: str,
    declared: DeclaredTable | None,
    date: str | None,  # noqa: ARG001 - it stands in the place of the table
    csv: CsvOptions,
) -> None:
    """Write a template (study.toml) for several releases of SOURCE, which `sordino run` makes.

    It is made of the columns of SOURCE and of a few questions. No row is read.

    SOURCE is a table, or the name of a declared one. Where nobody can be asked (standard input is
    no terminal) the study has lines that must be completed.
    """
    form = make_csv_format(csv)
    opened = open_source(source, csv=form)
    file = OutputFile(Path(output))
    file.claim()
    folder = Path(output).parent
    named = name_source(str(folder), source)
    known: dict[str, Any] = {
        "name": name_after(source) or "study",
        "source": named,
        # Of a header behind lines that are skipped nothing is shown: it may be a row.
        "columns": {}
        if form.skip_lines
        else {name: name_type(kind) for name, kind in opened.columns.items()},
        "form": form,
        # A path is named otherwise, and hides nothing.
        "secret": "://" in source and named != source,
    }
    if declared is not None:
        known |= _name_declared(declared, folder)
    asked = {}
    if sys.stdin.isatty() and sys.stderr.isatty():
        asked = _ask_all(opened, source, folder, known["name"], known["columns"], declared)
    text = write_study(Draft(**known | asked))
    file.add(text)
    file.finish()
    left = text.count(TO_COMPLETE)
    places = "place in it that says" if left == 1 else f"{left} places in it that say"
    todo = f" Complete the {places} so, and its releases." if left else ""
    write_lines([f"Wrote {output}.{todo} See what it costs: sordino run {output} --dry-run"])


def _name_declared(declared: DeclaredTable, folder: Path) -> dict[str, Any]:
    """Return what a study says of a declared table."""
    path = declared.document.path
    nearest = find_declaration(str(folder))
    # A study finds the declaration of its own folder by itself.
    found = nearest is not None and Path(nearest).samefile(path)
    return {
        "name": declared.name,
        "table": declared.name,
        "declaration": None if found else name_source(str(folder), path),
    }


# ---- questions -----------------------------------------------------------------------------------


def _ask(question: str, check: Callable[[str], T], default: str | None = None) -> T:
    """Ask until the answer is one; what is wrong with the others is said."""
    while True:
        answer: str = click.prompt(
            question, default=default, err=True, type=str, show_default=bool(default)
        )
        try:
            return check(answer.strip())
        except (InvalidParameter, LedgerError) as error:
            say(f"  {error}")
        except click.BadParameter as error:
            say(f"  {error.message}")


def _ask_all(
    opened: Source,
    source: str,
    folder: Path,
    name: str,
    columns: dict[str, str],
    declared: DeclaredTable | None,
) -> dict[str, Any]:
    if columns:
        say("Columns: " + ", ".join(f"{column} ({kind})" for column, kind in columns.items()))
    if declared is not None:
        epsilon = _ask("Epsilon that one run may spend in all", _read_epsilon)
        say(f"  {_say_study_odds(epsilon)}")
        return {"epsilon": epsilon, "releases": _ask_releases(opened, folder, declared.unit)}
    unit = _ask_unit(opened)
    epsilon = _ask("Epsilon that one run may spend in all", _read_epsilon)
    say(f"  {_say_study_odds(epsilon)}")
    ledger = _ask("File of the ledger", str, "budget.db")
    account = _ask("Account of it that pays", str, name)
    _offer_account(folder, ledger, account, unit, source)
    return {
        "unit": unit,
        "epsilon": epsilon,
        "ledger": ledger,
        "account": account,
        "releases": _ask_releases(opened, folder, _make_unit(unit)),
    }


def _ask_unit(opened: Source) -> dict[str, Any]:
    def check(answer: str) -> str | tuple[str, ...] | None:
        if answer == "row" and "row" not in opened.columns:
            return None
        written = split_unit_columns(answer)
        opened.take_unit(PrivacyUnit(written).columns, "The column of the person")
        return written

    column = _ask(
        "Whom does a row belong to? A column; or row, if each row is somebody else", check
    )
    if column is None:
        return {"row": True}
    most = _ask(
        "How many rows of one of them count at most",
        lambda answer: COUNT("It", _read_asked_value(answer)),
        "1",
    )
    # As a study writes several: in a list.
    return {"column": list(column) if isinstance(column, tuple) else column, "max_rows": most}


def _read_epsilon(answer: str) -> Fraction:
    value: Fraction = POSITIVE("It", NUMBER.convert(answer, None, None))
    return value


def _say_study_odds(epsilon: Fraction) -> str:
    return say_odds_of(Pure(epsilon=epsilon), None)


def _offer_account(
    folder: Path, ledger: str, account: str, unit: dict[str, Any], source: str
) -> None:
    """Make the account, if it is not there and that is wanted."""
    url = ledger if "://" in ledger else str(folder / ledger)
    try:
        known = Ledger.open(url, account=account).statement(charges=False)
    except LedgerError:
        pass
    else:
        left = f"{known.measure} {float(known.remaining):.6g}"
        say(f"  It has {left} left, from which each run takes its part.")
        return
    say(
        "There is no such account. It has a budget for its whole life, from which each run takes "
        "its part."
    )

    def make(answer: str) -> None:
        if answer == "no":
            return
        budget = Budget(epsilon=_read_epsilon(answer))
        whom = replace(_make_unit(unit), max_rows=None)
        Ledger.create(
            url, account=account, budget=budget, adjacency=whom.adjacency, unit=whom, source=source
        )
        say(f"  All runs together: {_say_study_odds(cast('Fraction', budget.epsilon))}")

    _ask("Make it now? Its budget as an epsilon; or no", make, "no")


def _make_unit(said: dict[str, Any]) -> PrivacyUnit:
    return PrivacyUnit.row() if "row" in said else PrivacyUnit(**said)


def _ask_releases(opened: Source, folder: Path, unit: PrivacyUnit) -> list[dict[str, Any]]:
    say(
        f"Releases: {', '.join(list_kinds())}. They share the budget evenly; one with a goal takes "
        "what that needs."
    )
    found: list[dict[str, Any]] = []

    def check(answer: str) -> str | None:
        if answer != "end":
            find_kind(answer)
        return answer

    while True:
        kind = _ask("Kind of the next release; or end", check, "end")
        if kind == "end":
            # A study without any would be refused.
            if found:
                return found
            say("  A study must have at least one release.")
            continue
        asked = _ask_release(str(kind), opened, folder, unit, [one["name"] for one in found])
        if asked is not None:
            found.append(asked)


def _ask_release(
    name: str, opened: Source, folder: Path, unit: PrivacyUnit, taken: list[str]
) -> dict[str, Any] | None:
    """Ask for what a release of a kind needs, until it is one.

    None where no answer could make it one.
    """
    kind = find_kind(name)
    meanings = list_known(kind)
    while True:
        said = {
            one: _ask(f"  {meanings[one].rstrip('.')} ({one})", _reader_of(one, opened, folder))
            for one in list_required(kind)
            if one != "epsilon"
        }
        try:
            request = build_request(kind, said, Fraction(1), str(folder))
            # As far as a release goes before its charge: what fits no estimator is said now, too.
            ReleaseExecutor(opened, unit, None, SYSTEM).start(request)
        except SordinoError as error:
            say(f"  {error}")
            if not said:
                # Nothing was asked, so nothing would be answered otherwise.
                return None
            continue
        goal = _ask(
            "  What it shall reach in place of its share, such as ±20 (goal); or no",
            _reader_of_goal(request),
            "no",
        )
        if goal is not None:
            said["goal"] = goal
        about = next((f"_{said[one]}" for one in _COLUMNS if one in said), "")
        plain = re.sub(r"[^A-Za-z0-9_]+", "-", f"{name}{about}")[:60]
        same = sum(one == plain or one.startswith(f"{plain}-") for one in taken)
        return {"kind": name, "name": f"{plain}-{same + 1}" if same else plain, **said}


def _reader_of_goal(request: Request[Any]) -> Callable[[str], str | None]:
    """Return what makes a goal of an answer: None where there is to be none."""

    def read(answer: str) -> str | None:
        if answer == "no":
            return None
        # Here, because most studies have none.
        from sordino.session.plans.goal_meter import check_goal

        # A share of a size that nobody has said is refused: then it is written into the file, with
        # `rows`.
        check_goal(request, parse_goal(request.name, answer), like=None, rows=None)
        return answer

    return read


def _reader_of(parameter: str, opened: Source, folder: Path) -> Callable[[str], Any]:
    """Return what makes a value of an answer, by the parameter that it is for."""
    if parameter in _COLUMNS:

        def read_column(answer: str) -> str:
            if answer not in opened.columns:
                raise InvalidParameter(
                    "It must be a column of the table."
                    + (opened.advice or did_you_mean(answer, opened.columns))
                )
            return answer

        return read_column
    if parameter == "domain":
        return lambda answer: _read_domain(answer, folder)
    return _read_asked_value


def _read_domain(answer: str, folder: Path) -> Any:
    """Return a public domain: a file that is there, or labels with commas between them."""
    if (folder / answer).is_file():
        return {"file": answer}
    labels = [one.strip() for one in answer.split(",") if one.strip()]
    if not labels or "/" in answer or answer.endswith((".csv", ".parquet")):
        raise InvalidParameter(
            "It must be a file that lists the labels, or labels: tea, coffee, milk."
        )
    return labels


def _read_asked_value(answer: str) -> Any:
    """Return a number, or several, or a text."""
    for written in (answer, f"[{answer}]"):
        try:
            value = tomllib.loads(f"x = {written}")["x"]
        # What is no TOML is a ValueError, and so is a number of very many digits.
        except (ValueError, RecursionError):
            continue
        # One line is one value.
        return value
    return answer
