"""`sordino above`: which items of a domain, or answers of a stream, lie above a threshold."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any, cast

import click
from click.core import ParameterSource

from sordino.cli.grouped import GroupedCommand
from sordino.cli.options import (
    OPTIONAL_ITEM,
    DecimalsOr,
    LabelOptions,
    RunOptions,
    StatementOptions,
    Values,
    choose_format,
    is_quiet,
    statement_options,
    take,
    take_all,
)
from sordino.cli.output import write_lines
from sordino.cli.stderr import say
from sordino.cli.table import (
    TableOptions,
    plan_alone,
    refuse_shape,
    release_from_table,
    table_options,
)
from sordino.cli.text_options import CsvOptions
from sordino.cli.work import choose_entropy, make_csv_format, make_sensitivity, open_payer
from sordino.errors import InvalidParameter
from sordino.mechanisms import AdaptiveSparseVector, SparseVector
from sordino.receipt import Receipt
from sordino.record import SIMULATED, describe_receipt, escape_controls, format_cell
from sordino.record_text import encode_json, format_csv_line
from sordino.releases import Verdict
from sordino.sensitivity import Adjacency
from sordino.session.above import AboveRequest
from sordino.sources import Answer, answer_lines

# Options that mean nothing for answers on standard input, and those that mean nothing for a table.
OF_TABLES = (
    "item",
    *(field.name for field in fields(LabelOptions)),
    "user",
    "row_is_unit",
    "max_rows",
    "part",
    "where",
    "format_in",
    "null",
    "quote",
    "no_header",
    "columns",
    "skip_lines",
    "ragged",
    "types",
    "decimal",
    "thousands",
    "date_format",
    "measure_share",
    "measure_noise",
    "method",
    "simultaneous",
    # The verdicts of a stream are written one by one, and whoever reads them keeps them.
    "output",
    "keep",
    "run_id",
)
OF_STREAMS = tuple(field.name for field in fields(StatementOptions))


_SHAPE = ("noise", "split", "correction", "correction_run", "correction_margin")
"""Which noise a sparse vector draws, and how it divides epsilon."""


@click.command(cls=GroupedCommand)
@take_all(
    AboveRequest,
    # Answers on standard input have labels of their own.
    item=OPTIONAL_ITEM,
    threshold=take(AboveRequest, "threshold", metavar="T"),
    positives=take(AboveRequest, "positives", "-c", "--positives", metavar="C"),
    measure_share=take(AboveRequest, "measure_share", metavar="SHARE"),
    split=take(AboveRequest, "split", type=DecimalsOr("variance", "success"), metavar="SHARE"),
    correction=take(AboveRequest, "correction", type=DecimalsOr("optimal"), metavar="R"),
    correction_run=take(AboveRequest, "correction_run", metavar="N"),
    correction_margin=take(AboveRequest, "correction_margin", metavar="M"),
)
@statement_options
@table_options
@click.pass_context
def above(
    ctx: click.Context, /, table: TableOptions, *, statement: StatementOptions, **asked: Any
) -> None:
    """Release the items of a public domain that more than T people have, in its order.

    Where a person has few items all are counted with noise, and those above T are released. Else
    they are asked one after the other, those below cost nothing, and it stops after C.

    SOURCE is a path, a glob or a folder of CSV, JSON lines or Parquet, duckdb:FILE#TABLE,
    excel:FILE#SHEET, postgresql://...#TABLE or sc://HOST#CATALOG.SCHEMA.TABLE.

    With SOURCE - answers come on standard input, one "label,answer" a line, and each gets its
    verdict at once. Labels and the number of fields are public; answers move by at most
    --sensitivity S between neighbors (all in one direction: --monotone). It ends with the input,
    or when enough was found.
    """
    stream = table.source == "-"
    for name in OF_TABLES if stream else OF_STREAMS:
        # An option that nobody gave has its default: only what is on the command line was asked
        # for.
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            which = "a table" if stream else "answers on standard input (SOURCE -)"
            [flag] = [param.opts[0] for param in ctx.command.params if param.name == name]
            raise InvalidParameter(f"{flag} is for {which}.")
    if stream:
        watch(asked, statement, table.unit.adjacency, table.csv, table.run)
        return
    if asked["item"] is None:
        raise InvalidParameter("--item must name the column of labels; got none.")
    release_from_table("above", table, asked)


# ---- streams -------------------------------------------------------------------------------------
# Answers on standard input, each with its verdict at once: the loop of `sordino above -`.
#
# What is written depends on labels and verdicts alone. Verdicts are flushed before more input is
# waited for.


Line = Callable[[Answer, Verdict], str]
LOWEST = (
    "By rule, all that stands behind the first delimiter of a line is its answer, and what is no "
    "decimal number (1,5 with a comma is none) counts as the lowest; how many do is private."
)
STREAM_COLUMNS = ("label", "above", "gap", "branch", "charged", "adjacency", "simulated", "id")


def watch(
    asked: Values,
    statement: StatementOptions,
    adjacency: Adjacency,
    csv: CsvOptions,
    run: RunOptions,
) -> None:
    """Answer what comes on standard input until it ends or enough was found."""
    # Python sets a closed stdin to None. Refused now, while nothing is charged.
    if sys.stdin is None:
        raise InvalidParameter("stdin must be open: it brings the answers.")
    # Of answers on standard input nothing is assumed.
    refuse_shape(run)
    for name, limit in (("--memory-limit", csv.memory_limit), ("--temp-limit", csv.temp_limit)):
        if limit is not None:
            raise InvalidParameter(
                f"{name} is for tables: answers on standard input are read one by one."
            )
    mechanism = _build_stream_mechanism(asked, statement, adjacency)
    form = make_csv_format(csv)
    if run.dry_run:
        # Nothing is read of the input.
        plan_alone("watch", mechanism, run, epsilon=asked["epsilon"], adjacency=adjacency)
        return
    source = answer_lines(
        # `read1` returns what is there; to wait for more would keep back a verdict.
        cast("io.BufferedReader", sys.stdin.buffer).read1,
        delimiter=form.delimiter,
        encoding=form.encoding,
    )
    entropy = choose_entropy(run)
    chosen = choose_format(run.form)
    if not is_quiet(run.quiet):
        # Said before a line is read, in the same words: whether the rule applies to any line is
        # private.
        say(LOWEST)
    # The ledger keeps what is public about the stream, and no answer.
    detail = {
        **{name: asked[name] for name in ("threshold", "positives", "adaptive")},
        **vars(statement),
        "source": "stdin",
    }
    with (
        open_payer(run, mechanism, "watch", detail, adjacency=adjacency) as payer,
        payer.open(mechanism, entropy=entropy) as stream,
    ):
        header, line = _choose_verdict_writer(chosen, adjacency, payer.receipt)
        # A charge that is refused leaves stdout empty.
        write_lines(header)
        for answers in source:
            verdicts: list[str] = []
            for answer in answers:
                # Once enough was found, the rest of what came is not looked at.
                if stream.closed:
                    break
                verdicts.append(line(answer, stream.ask(answer.value)))
            # Verdicts are written and flushed before more input is waited for.
            write_lines(["\n".join(verdicts)] if verdicts else [])
            if stream.closed:
                break
    # JSON and CSV have their facts on each line; a table ends with them.
    if chosen == "table":
        spent = float(stream.spent.pure())
        told = (
            f"Asked: {stream.asked}. Spent: epsilon {spent:.12g} of "
            f"{float(mechanism.cost.pure()):.12g}. {adjacency}."
        )
        write_lines(
            [told, *describe_receipt(payer.receipt), *([SIMULATED] if entropy.simulated else [])]
        )


def _build_stream_mechanism(
    asked: Values, statement: StatementOptions, adjacency: Adjacency
) -> SparseVector | AdaptiveSparseVector:
    common: Values = {
        "threshold": asked["threshold"],
        "epsilon": asked["epsilon"],
        "sensitivity": make_sensitivity(statement, adjacency),
        # What was not given keeps the default of the mechanism.
        **{name: asked[name] for name in _SHAPE if asked[name] is not None},
    }
    if asked["adaptive"]:
        return AdaptiveSparseVector(at_least=asked["positives"], **common)
    return SparseVector(positives=asked["positives"], **common)


def _choose_verdict_writer(form: str, adjacency: str, receipt: Receipt) -> tuple[list[str], Line]:
    """Return the lines that come first, and what writes one verdict.

    Facts that nobody may lose stand on each line.
    """
    if form == "table":
        return [f"{'above':>5} {'gap':>14}  label"], _format_verdict
    if form == "csv":
        return [format_csv_line(STREAM_COLUMNS)], lambda answer, verdict: format_csv_line(
            _list_verdict_fields(answer, verdict, adjacency, receipt).values()
        )
    # The ends of ordinary lines, by whether they are simulated. Most lines are ordinary, and differ
    # in their label alone.
    ends: dict[bool, str] = {}

    def line(answer: Answer, verdict: Verdict) -> str:
        if verdict.above or verdict.charged:
            return encode_json(_list_verdict_fields(answer, verdict, adjacency, receipt))
        if verdict.simulated not in ends:
            row = _list_verdict_fields(answer, verdict, adjacency, receipt)
            del row["label"]
            ends[verdict.simulated] = encode_json(row).removeprefix("{")
        return f'{{"label": {encode_json(answer.label)}, {ends[verdict.simulated]}'

    return [], line


def _list_verdict_fields(
    answer: Answer, verdict: Verdict, adjacency: str, receipt: Receipt
) -> dict[str, Any]:
    return {
        "label": answer.label,
        "above": verdict.above,
        "gap": verdict.gap,
        "branch": verdict.branch,
        "charged": float(verdict.charged),
        "adjacency": adjacency,
        "simulated": verdict.simulated,
        # By it the ledger tells the rest.
        "id": receipt.id,
    }


def _format_verdict(answer: Answer, verdict: Verdict) -> str:
    return (
        f"{format_cell(verdict.above):>5} {format_cell(verdict.gap):>14}  "
        f"{escape_controls(answer.label)}"
    )
