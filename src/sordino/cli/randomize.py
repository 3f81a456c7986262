"""The command `sordino randomize`.

A noisy report of every row, one line each, in constant memory.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast, final

import click
import numpy as np
from numpy.typing import NDArray

from sordino.cli.consent import CONSENT, MOST_EPSILON, check_epsilon, require_consent
from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    ACCOUNT,
    DATE,
    DECLARATION,
    FORMAT,
    LEDGER_URL,
    NO_LEDGER,
    NUMBER,
    QUIET,
    SEED,
    SOURCE,
    SYNTHETIC,
    DecimalsOr,
    RunOptions,
    Values,
    gather,
    is_quiet,
    take,
    take_all,
)
from sordino.cli.output import write_lines
from sordino.cli.output_file import OUTPUT, OutputFile
from sordino.cli.planned import plan_options
from sordino.cli.stderr import say
from sordino.cli.table import TableOptions, confirm_goal, plan_alone, refuse_shape, write_plan
from sordino.cli.text_options import form_options
from sordino.cli.whom import UnitOptions
from sordino.cli.work import (
    choose_entropy,
    find_source,
    make_csv_format,
    make_unit,
    open_payer,
    open_session,
    show_progress,
)
from sordino.cli.write import open_account
from sordino.cost.odds import say_odds
from sordino.errors import DataSourceError, InvalidParameter
from sordino.questions import PrivacyUnit, check_unit, describe_piped_reading, open_record_lines
from sordino.receipt import Receipt
from sordino.record import SIMULATED, describe_receipt
from sordino.record_text import format_csv_line
from sordino.session import LocalReports, Session
from sordino.session.local import RandomizeRequest, build_reports

KEPT = (
    "By rule, every line gives one line: what has no number counts as the middle of the range, and "
    "so does what is nobody's, as where a delimiter stands in that column, even in quotes. Public: "
    "how many lines there are, their order, and which of them are of one person."
)


unit_options = gather(
    "unit",
    UnitOptions,
    click.option(
        "--user",
        metavar="COL",
        help=(
            "Column that says whom a row belongs to: the guarantee protects the numbers of all "
            "its rows."
        ),
    ),
    click.option(
        "--row-is-unit", is_flag=True, help="The guarantee protects single rows: so without --user."
    ),
    click.option(
        "--max-rows",
        type=int,
        metavar="M",
        help="Rows of a person that count; it is charged M times --epsilon.",
    ),
    # The number of rows is public here, so neighbors have equally many: docs/proofs/reports.md.
    click.option(
        "--adjacency",
        type=click.Choice(["replace-one"]),
        default="replace-one",
        show_default=True,
        help="Neighbours have equally many rows.",
    ),
)


# A report has no list of labels, and no form but CSV: of a plan --format is one.
run_options = gather(
    "run",
    RunOptions,
    LEDGER_URL,
    ACCOUNT,
    NO_LEDGER,
    CONSENT,
    plan_options,
    FORMAT,
    OUTPUT,
    SEED,
    SYNTHETIC,
    QUIET,
)


@click.command(cls=GroupedCommand)
@take_all(
    RandomizeRequest,
    column=take(RandomizeRequest, "column", metavar="COL"),
    epsilon=click.option(
        "--epsilon", type=NUMBER, callback=check_epsilon, help="Budget of each report; or --goal."
    ),
    activation=take(
        RandomizeRequest,
        "activation",
        type=click.Choice(["mixture", "rectangle", "sine", "triangle"]),
    ),
    tuned_for=take(RandomizeRequest, "tuned_for", type=DecimalsOr("center", "worst", "uniform")),
    write=None,
)
@gather("table", TableOptions, SOURCE, DECLARATION, DATE, unit_options, form_options, run_options)
@click.option(
    "--where", metavar="PREDICATE", help="Refused: which rows a predicate keeps is not public."
)
def randomize(table: TableOptions, where: str | None, **asked: Any) -> None:
    """Release a noisy report of every row of a column.

    Local privacy, each row with noise of its own.

    SOURCE is a file, a DuckDB table, or "-" for CSV on standard input. Writes the column alone, as
    CSV, one line for each row, in their order, in a range that is wider by a known factor, and
    without bias. No row is dropped: what is no number counts as the middle of the range before
    noise.
    """
    if where is not None:
        raise InvalidParameter(
            "--where must not be given to randomize: how many lines come out is public, and which "
            "rows a predicate keeps is not. Randomize all rows."
        )
    # Without --user each row is a unit of its own.
    unit = replace(table.unit, row_is_unit=table.unit.row_is_unit or table.unit.user is None)
    table, run, whom = replace(table, unit=unit), table.run, make_unit(unit)
    # Also for a pipe, where no session checks the unit. Nothing is charged yet.
    check_unit(whom)
    if table.source == "-":
        refuse_shape(run)
        if table.csv.format_in not in {None, "csv"}:
            raise InvalidParameter(
                f"--format-in is for files: standard input is CSV; got {table.csv.format_in!r}."
            )
    if run.goal is not None:
        asked["epsilon"] = _find_report_epsilon(table, whom, asked)
    reports = build_reports(whom, **{key: asked[key] for key in asked if key != "column"})
    # A unit pays for all of its reports.
    spent = reports.cost.pure()
    require_consent("--epsilon times --max-rows", spent, MOST_EPSILON, given=run.consent)
    if run.form is not None and not run.dry_run:
        raise InvalidParameter("--format needs --dry-run: reports are written as CSV.")
    if run.dry_run:
        _write_report_plan(table, whom, reports, asked)
        return
    writer = _ReportWriter(asked["column"], reports, run.output)
    receipt: Receipt | None
    if table.source == "-":
        receipt = _randomize_stdin(table, whom, writer, asked)
    else:
        with _open_session(table) as session, show_progress(run.quiet) as progress:
            # Reports are written block by block: memory does not grow with the rows.
            receipt = session.randomize(**asked, write=writer.write, progress=progress).receipt
    # The header is written also where there was no row.
    writer.end()
    if not is_quiet(run.quiet):
        told = f"Spent: epsilon {float(reports.cost.pure()):.12g}. Protects: the numbers of"
        say(f"{told} {whom.identity}, {whom.adjacency}.")
        say(say_odds(Fraction(reports.cost.pure())))
        for line in describe_receipt(receipt):
            say(line)
    if run.seed is not None and is_quiet(run.quiet):
        # On stderr, because stdout holds the column and nothing else. Without --quiet it was said
        # before.
        say(SIMULATED)


def _open_session(table: TableOptions) -> AbstractContextManager[Session]:
    return open_session(table.source, table.unit, table.csv, table.run, table.declared, rule=KEPT)


def _find_report_epsilon(table: TableOptions, whom: PrivacyUnit, asked: Values) -> Fraction:
    """Return the smallest epsilon with which reports reach the goal."""
    run, form = table.run, make_csv_format(table.csv)
    ledger = open_account(run)
    opened = find_source(table.source, table.declared, form, ledger, whom)
    with Session(opened, unit=whom, ledger=ledger, csv=form) as session:
        known = {name: value for name, value in asked.items() if name != "epsilon"}
        plan = session.plan.randomize(**known, goal=run.goal, like=run.like, rows=run.like_rows)
    return confirm_goal(plan, run)


def _write_report_plan(
    table: TableOptions, whom: PrivacyUnit, reports: LocalReports, asked: Values
) -> None:
    """Write what reports would cost and how much noise one has."""
    run = table.run
    if table.source == "-":
        # Not even the header line is read of a pipe, which cannot be read again.
        about: Values = {"adjacency": whom.adjacency, "unit": whom}
        reading = describe_piped_reading(whom, make_csv_format(table.csv))
        plan_alone("randomize", reports, run, epsilon=asked["epsilon"], reading=reading, **about)
        return
    with _open_session(table) as session:
        plan = session.plan.randomize(**asked, like=run.like, rows=run.like_rows)
    write_plan(replace(plan, goal=run.goal), run)


def _randomize_stdin(
    table: TableOptions, whom: PrivacyUnit, writer: _ReportWriter, asked: Values
) -> Receipt:
    """Report lines of CSV on standard input; only its header is read before the charge.

    The receipt of the charge is returned.
    """
    if sys.stdin is None:
        raise InvalidParameter("stdin must be open: it brings the rows.")
    file = cast("io.BufferedReader", sys.stdin.buffer)
    run, form = table.run, make_csv_format(table.csv)
    entropy = choose_entropy(run)
    blocks = open_record_lines(file, form, whom, column=asked["column"])
    if not is_quiet(run.quiet):
        say(KEPT)
    detail = {
        **{name: asked[name] for name in ("column", "lower", "upper", "activation")},
        "user": whom.column,
        "max_rows": whom.max_rows,
        "source": "stdin",
        "public": "the number of records and their order",
    }
    paid = open_payer(
        run,
        writer.reports,
        "randomize",
        detail,
        adjacency=whom.adjacency,
        unit=whom,
        reading=describe_piped_reading(whom, form),
    )
    with paid as payer:
        payer.release(
            writer.reports, _read_after_charge(blocks), entropy=entropy, write=writer.write
        )
    return payer.receipt


def _read_after_charge(blocks: Iterable[NDArray[np.float64]]) -> Iterable[NDArray[np.float64]]:
    try:
        yield from blocks
    except OSError:
        # What failed after the charge may depend on the rows, so a constant sentence says it.
        raise DataSourceError.after_charge() from None


@final
class _ReportWriter:
    """Writes reports, with the header before the first one.

    A report is one of finitely many numbers; the text of each is made once.
    """

    def __init__(self, column: str, reports: LocalReports, output: OutputFile | None) -> None:
        self.reports = reports
        self._output = output
        self._header = [format_csv_line([column])]
        self._texts = {number: repr(number) for number in reports.mechanism.grid.outputs.tolist()}

    def write(self, reports: NDArray[np.float64]) -> None:
        """Write one line for each report."""
        # The header waits for the first reports, so that a refused charge leaves stdout empty.
        self._begin()
        if reports.size:
            self._put(["\n".join(map(self._texts.__getitem__, reports.tolist()))])

    def end(self) -> None:
        """Write the header, if nothing was written yet, and let a file appear."""
        self._begin()
        if self._output is not None:
            self._output.finish()

    def _begin(self) -> None:
        # A second call finds no header to write.
        header, self._header = self._header, []
        self._put(header)

    def _put(self, lines: list[str]) -> None:
        if self._output is None:
            write_lines(lines)
        else:
            self._output.add("".join(f"{line}\n" for line in lines))
