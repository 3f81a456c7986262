"""How a release is written to stdout: a table for people, JSON and CSV for programs.

It is written at once, when all is known.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import click

from sordino.cli.options import choose_format
from sordino.cli.output_file import LOST, OutputFile
from sordino.errors import DataSourceError
from sordino.record import Record, escape_controls, format_cell
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


def write_record(record: Record, form: str, output: OutputFile | None = None) -> None:
    """Write a record in one of the formats, to stdout or to the file of `--output`.

    Each row of CSV repeats the facts that nobody may lose.

    Numbers in a table have one digit after the point if they are about counts, else at least six
    digits in all.
    """
    if form == "json":
        text = write_json(record)
    elif form == "csv":
        text = write_csv(record)
    else:
        # Where nobody looks at a terminal the width is fixed.
        text = _draw_table(record, fixed=output is not None or not sys.stdout.isatty())
        # Of a record that was kept, whoever may charge the account may have written them.
        text += "".join(f"{escape_controls(note)}\n" for note in record.notes)
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


_LABEL, _BETWEEN = 20, 2
"""So wide a column of labels is at least, if its labels are; and so far columns stand apart."""


def _draw_table(record: Record, *, fixed: bool) -> str:
    # Imported here, because JSON and CSV do not need it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [_shorten(row) for row in record.rows]
    table, listed, needed = Table(box=None, pad_edge=False, header_style="bold"), [], 0
    for name in record.columns:
        if name in record.hidden:
            continue
        # One digit after the point where a column has a number that is not whole, else none.
        digits = int(any(_has_fraction(row[name]) for row in rows))
        write = partial(format_cell, digits=digits) if record.counts else format_figure
        # As `Text`, so that brackets in a label are no markup.
        cells = [Text(escape_controls(write(row[name]))) for row in rows]
        header = Text(escape_controls(name))
        numeric = all(not isinstance(row[name], str) for row in rows)
        # A long label is folded and never cut: the row must say which item it is. A number is
        # neither, for half of one is another number.
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(header, justify=justify, overflow="fold", no_wrap=numeric)
        listed.append(cells)
        width = max(cell.cell_len for cell in (header, *cells))
        needed += (width if numeric else min(width, _LABEL)) + _BETWEEN
    for line in zip(*listed, strict=True):
        table.add_row(*line)
    # Off a terminal the output is the same wherever it is made.
    console = Console(file=io.StringIO(), width=160 if fixed else None)
    console.width = max(console.width, needed)
    with console.capture() as capture:
        console.print(table)
    # The lines are padded to the width of the table.
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _shorten(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as people read it.

    Of a p-value two digits are enough, and programs get all of them.
    """
    found = row.get("p_value")
    # Of a record that was kept, somebody else may have written it.
    return {**row, "p_value": f"{found:.2g}"} if isinstance(found, float) else dict(row)


def _has_fraction(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def format_figure(value: Any) -> str:
    """Return a cell with at least six digits, and no exponent where a person would write none."""
    # Beyond these ends an exponent is easier to read than the zeros.
    if not isinstance(value, float) or not 1e-9 <= abs(value) < 1e15:
        return format_cell(value)
    text = f"{value:.{max(0, 5 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
