"""`sordino declare`: a table gets a name, which stands for all that is declared of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from shlex import quote
from typing import final

import click

from sordino.address import without_password
from sordino.cli.consent import CONSENT, MOST_BUDGET, require_consent, require_small_delta
from sordino.cli.grouped import ShortHelpCommand
from sordino.cli.options import ADJACENCY, NUMBER, SOURCE, gather, require_one
from sordino.cli.output import write_lines
from sordino.cli.text_options import CsvOptions, form_options
from sordino.cli.whom import PARTS
from sordino.cli.work import make_csv_format
from sordino.constraints import TABLE_NAME, shown, text
from sordino.errors import InvalidParameter
from sordino.ledger import Budget, Ledger
from sordino.ledger.account.identity import known_source
from sordino.ledger.account.named import WantedAccount, make_or_find
from sordino.population import call_person, say_unit
from sordino.questions import PrivacyUnit
from sordino.report.spent import say_account_days
from sordino.sensitivity import Adjacency
from sordino.sources import open_source
from sordino.study.declaration import FILE, LEDGER, put_day
from sordino.study.declare import DeclarationFile, TableDraft, find_folder, write_table
from sordino.study.tables import locate_ledger, name_source
from sordino.study.template import name_after
from sordino.unit_columns import split_unit_columns


def _split_labels(
    _ctx: click.Context, _param: click.Parameter, value: tuple[str, ...]
) -> dict[str, str]:
    labels: dict[str, str] = {}
    for one in value:
        # From the left: names of files hold an equals sign more often.
        column, equals, file = one.partition("=")
        if not (equals and column and file):
            raise click.BadParameter(
                f"must be COL=FILE, such as product=products.csv; got {one!r}."
            )
        if column in labels:
            raise click.BadParameter(f"must name each column once; got {column!r} twice.")
        labels[column] = file
    return labels


@final
@dataclass(frozen=True, kw_only=True)
class NewTable:
    """A table that is to be declared."""

    person: str | None
    row_is_unit: bool
    called: str | None
    max_rows: int | None
    adjacency: Adjacency
    labels: dict[str, str]
    name: str | None
    to: str | None
    epsilon: Fraction | None
    delta: Fraction | None
    failures: Fraction | None
    parts: str | None
    ledger: str | None
    account: str | None
    second_budget: bool
    consent: bool
    date: str | None


_FIRST = (
    *("--person", "--row-is-unit", "--called", "--epsilon", "--delta", "--labels", "--name"),
    *("--ledger", "--format-in", "--delimiter", "--type", "--null", "--no-header"),
)
_new_table = gather(
    "new",
    NewTable,
    click.option(
        "--person",
        metavar="COL",
        help="Column that says whom a row belongs to: all rows of a person are protected.",
    ),
    click.option("--row-is-unit", is_flag=True, help="Each row is somebody else."),
    click.option(
        "--called",
        metavar="WORD",
        help="What such a person is, in one word [default: after the column].",
    ),
    click.option("--epsilon", type=NUMBER, help="What all releases together may spend, for ever."),
    click.option("--delta", type=NUMBER, metavar="D", help="The delta of the account."),
    click.option(
        "--failures",
        type=NUMBER,
        metavar="F",
        help="The part of --delta for labels that nobody listed [default: 0].",
    ),
    click.option(
        "--ledger",
        metavar="URL",
        help="File of the ledger, made if there is none [default: budget.db beside the "
        "declaration].",
    ),
    click.option(
        "--account", metavar="NAME", help="Account of the ledger [default: as the table]."
    ),
    click.option(
        "--labels",
        metavar="COL=FILE",
        multiple=True,
        callback=_split_labels,
        help="Public file that lists the labels of a column. May be given for several columns.",
    ),
    click.option("--name", metavar="NAME", help="What you call it [default: as the file]."),
    click.option(
        "--to", metavar="FILE", help=f"The declaration [default: {FILE} beside the table]."
    ),
    click.option(
        "--date", metavar="DAY", help="Day for {date} in SOURCE: 2026-11-27, today, today-1."
    ),
    click.option("--max-rows", type=int, metavar="M", help="Use at most M rows of each person."),
    PARTS,
    ADJACENCY,
    click.option(
        "--second-budget",
        is_flag=True,
        help="Make an account although the ledger has one for this table.",
    ),
    CONSENT,
)


@click.command("declare", cls=ShortHelpCommand, first=_FIRST)
@SOURCE
@_new_table
@form_options
def declare(source: str, new: NewTable, csv: CsvOptions) -> None:
    """Give the table SOURCE a name, under which commands and programs know all about it.

    Where it lies, whom it protects, how it is written and who pays are written into a file, and its
    account is made. Only names of columns are looked at, and no row.
    """
    require_one({"--person": new.person, "--row-is-unit": new.row_is_unit}, "whom it protects")
    person = None if new.person is None else split_unit_columns(new.person)
    unit = PrivacyUnit(person, adjacency=new.adjacency, max_rows=new.max_rows)
    budget = _make_budget(new)
    name = name_after(source.replace("{date}", "")) if new.name is None else new.name
    TABLE_NAME("--name", name)
    whose = next((one.name for one in unit.columns if one.cut is None), None)
    if new.row_is_unit and new.called is not None:
        raise InvalidParameter(
            f"--called must go with --person, whom the column names; got {shown(new.called)} with "
            "--row-is-unit, which protects each row by itself. Leave it out."
        )
    called = call_person(whose) if new.called is None else text(new.called, "--called")
    form = make_csv_format(csv)
    opened = open_source(put_day(source, new.date, "--date"), csv=form)
    opened.take_unit(unit.columns, "--person")
    for column, file in new.labels.items():
        opened.label_index(column, "--labels")
        if not Path(file).is_file():
            raise InvalidParameter(f"--labels must name a file that is there; got {shown(file)}.")
    path = str(find_folder(source) / FILE) if new.to is None else new.to
    folder = os.path.dirname(path)  # noqa: PTH120 - the empty text is this folder, unlike "."
    # Beside the declaration, unless somebody has named it from here.
    url = str(Path(folder) / LEDGER) if new.ledger is None else locate_ledger("", new.ledger)
    account = text(name if new.account is None else new.account, "--account")
    declared = TableDraft(
        name=name,
        source=name_source(folder or ".", source),
        unit=unit,
        called=called,
        # A header behind lines that are skipped may be a row.
        columns=() if form.skip_lines else tuple(opened.columns),
        texts=opened.texts,
        form=form,
        labels={one: os.path.relpath(file, folder or ".") for one, file in new.labels.items()},
        ledger=without_password(url) if "://" in url else os.path.relpath(url, folder or "."),
        account=account,
        secret=any("://" in one and without_password(one) != one for one in (source, url)),
    )
    wanted = WantedAccount(
        account=account,
        name=name,
        place=known_source(source),
        unit=unit,
        epsilon=None if budget is None else Fraction(budget.epsilon),
        delta=None if new.delta is None else Fraction(new.delta),
        failures=new.failures,
        named=new.name is not None or new.account is not None,
        second=new.second_budget,
        parts=new.parts or "",
        say_account="--account {}",
        say_second="--second-budget",
        say_epsilon="--epsilon",
    )
    # Before the account is made, so that a file that cannot be written leaves none behind.
    with DeclarationFile(path) as target:
        target.check(name, source, second=new.second_budget)
        target.add(write_table(declared))
        ledger = make_or_find(url, wanted, budget)
        target.finish()
    write_lines(_say_done(declared, path, ledger, new.date))


def _make_budget(new: NewTable) -> Budget | None:
    if new.epsilon is None:
        for flag, given in (("--delta", new.delta), ("--failures", new.failures)):
            if given is not None:
                raise InvalidParameter(f"{flag} needs --epsilon: a budget has both.")
        return None
    require_consent("--epsilon", new.epsilon, MOST_BUDGET, given=new.consent)
    delta = Fraction(0) if new.delta is None else new.delta
    require_small_delta(delta, None, given=new.consent)
    return Budget(epsilon=new.epsilon, delta=delta, failures=new.failures or 0)


def _say_done(declared: TableDraft, path: str, ledger: Ledger, day: str | None) -> list[str]:
    unit = declared.unit
    whom = "each row" if unit.key is None else f"each {declared.called} (column {unit.key})"
    if unit.parts:
        whom = say_unit(unit.identity, declared.called)
    # An address was written down without user and password.
    first = "Say in the file who asks. Then" if declared.secret else "Next"
    return [
        f"Declared table {declared.name} in {path}. It protects {whom}.",
        *say_account_days(ledger.statement(charges=False).to_dict()),
        f"Account {declared.account} in {declared.ledger}: {_say_worth(ledger)}.",
        f"{first}: {_say_next(declared, path, day)}",
    ]


def _say_worth(ledger: Ledger) -> str:
    """Return what an account is good for, in releases."""
    known = ledger.statement(charges=False)
    budget = f"epsilon {float(known.epsilon):g}"
    if known.delta:
        budget += f", delta {float(known.delta):g}"
    assert known.examples is not None  # noqa: S101  (a statement of a ledger has them)
    return f"{budget}, {'still ' if known.spent else ''}{known.examples.say()}"


def _say_next(declared: TableDraft, path: str, day: str | None) -> str:
    """Return a command that releases something, as it can be typed here."""
    each = "0.05"
    words = ["sordino"]
    item = next(iter(declared.labels), None)
    if item is not None:
        words += ["top", declared.name, "--item", item, "--epsilon", each]
    else:
        units = ["--units"] if declared.unit.column is not None else []
        words += ["count", declared.name, *units, "--epsilon", each]
    if path != FILE:
        words += ["--declaration", path]
    if day is not None:
        words += ["--date", day]
    return " ".join(map(quote, words))
