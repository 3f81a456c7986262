"""How a release is written to stdout: a table for people, JSON and CSV for programs.

It is written at once, when all is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import click

from sordino.cli.options import WIDE_CSV, choose_format
from sordino.cli.output_file import LOST, OutputFile
from sordino.errors import DataSourceError
from sordino.record import Record, escape_controls, pivot_table
from sordino.record_table import WIDTH, draw_table
from sordino.record_text import write_csv, write_json


def write_rows(
    form: str | None,
    columns: Sequence[str],
    rows: Sequence[dict[str, Any]],
    facts: dict[str, Any],
    notes: Sequence[str],
) -> None:
    """Write rows to stdout: as JSON with facts about them, as CSV, or as a table with notes below.

    Their numbers are amounts of a ledger, of which a small one is not nothing.
    """
    record = Record(columns=columns, rows=rows, facts=facts, notes=notes, counts=False)
    write_records([record], choose_format(form))


def write_records(
    records: Sequence[Record],
    form: str,
    output: OutputFile | None = None,
    *,
    notes: Sequence[Sequence[str] | None] = (None,),
) -> None:
    """Write a record, or those of one charge, in one of the formats.

    To stdout, or to the file of `--output`. Each row of CSV repeats the facts that nobody may lose.
    Below each table stand its `notes`, by default all that the record has.
    """
    if form == "json":
        text = write_json(*records)
    elif form == "csv":
        text = write_csv(*records)
    elif form == WIDE_CSV:
        text = write_csv(*map(pivot_table, records))
    else:
        # Imported here: programs get the words of the schema.
        from sordino.results.legend import call_counted

        # Where nobody looks at a terminal the width is fixed.
        fixed = output is not None or not sys.stdout.isatty()
        tables = []
        for record, own in zip(records, notes, strict=True):
            # Of a record that was kept, whoever may charge the account may have written them.
            told = record.notes if own is None else own
            lines = "".join(f"{escape_controls(note)}\n" for note in told)
            shown = call_counted(record)
            shown = shown if len(records) == 1 else _show_column(shown)
            tables.append(draw_table(shown, WIDTH if fixed else None) + lines)
        text = "\n".join(tables)
    if output is not None:
        output.add(text)
        output.finish()
    else:
        write_lines([text.removesuffix("\n")] if text else [])


def _show_column(record: Record) -> Record:
    """Return a record of which each row says first which column it is about."""
    about = {"column": record.facts.get("column")}
    rows = [{**about, **row} for row in record.rows]
    return replace(record, columns=("column", *record.columns), rows=rows)


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout."""
    try:
        for line in lines:
            # `color=True` leaves the line as it stands: off a terminal click would take colors out
            # of a label.
            click.echo(line, color=True)
        sys.stdout.flush()
    except BrokenPipeError:
        # An OSError, too, but only the reader has gone: the command ends without a word then.
        raise
    except OSError:
        raise DataSourceError(LOST.format("stdout")) from None
