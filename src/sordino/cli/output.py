"""How a release is written to stdout: a table for people, JSON and CSV for programs.

It is written at once, when all is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from sordino.cli.options import choose_format
from sordino.cli.output_file import LOST, OutputFile
from sordino.errors import DataSourceError
from sordino.record import Record, escape_controls
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
    write_record(record, choose_format(form))


def write_record(
    record: Record,
    form: str,
    output: OutputFile | None = None,
    *,
    notes: Sequence[str] | None = None,
) -> None:
    """Write a record in one of the formats, to stdout or to the file of `--output`.

    Each row of CSV repeats the facts that nobody may lose. Below a table stand the `notes`, by
    default all that the record has.
    """
    if form == "json":
        text = write_json(record)
    elif form == "csv":
        text = write_csv(record)
    else:
        # Where nobody looks at a terminal the width is fixed.
        fixed = output is not None or not sys.stdout.isatty()
        text = draw_table(record, WIDTH if fixed else None)
        # Of a record that was kept, whoever may charge the account may have written them.
        told = record.notes if notes is None else notes
        text += "".join(f"{escape_controls(note)}\n" for note in told)
    if output is not None:
        output.add(text)
        output.finish()
    else:
        write_lines([text.removesuffix("\n")] if text else [])


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
