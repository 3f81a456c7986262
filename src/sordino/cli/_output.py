"""What a release looks like on stdout: a table for people, JSON and CSV for programs. Written at once, when all is known."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from sordino.cli._options import chosen_format
from sordino.errors import DataSourceError

INTERVAL = "low and high: 95 % interval of each count, from the fresh measurement alone."
BEFORE_SELECTION = "estimate: from the gaps and the measurement, unbiased before selection."


MARKS = ("adjacency", "unit", "domain", "simulated")


def write_rows(
    form: str | None, columns: Sequence[str], rows: Sequence[dict[str, Any]], facts: dict[str, Any], notes: Sequence[str]
) -> None:
    """Write rows with the facts about them (JSON), rows that repeat the facts nobody may lose (CSV), or a table with notes below."""
    chosen = chosen_format(form)
    if chosen == "json":
        text = json.dumps({**facts, "rows": list(rows)}, ensure_ascii=False, indent=2) + "\n"
    elif chosen == "csv":
        marks = {name: facts[name] for name in MARKS if name in facts}
        text = _csv([*columns, *marks], [row | marks for row in rows])
    else:
        text = _table(columns, rows) + "".join(f"{note}\n" for note in notes)
    write_lines([text.removesuffix("\n")] if text else [])


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout."""
    try:
        for line in lines:
            click.echo(line)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError:
        raise DataSourceError("The release could not be written to stdout: it is lost, and its charge stays.") from None


def _csv(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    written = io.StringIO()
    writer = csv.DictWriter(written, fieldnames=columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({name: shown(value) for name, value in row.items()} for row in rows)
    return written.getvalue()


def _table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return ""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = all(not isinstance(row[name], str) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    digits = {name: int(any(_broken(row[name]) for row in rows)) for name in columns}
    for row in rows:
        table.add_row(*(Text(visible(shown(row[name], digits[name]))) for name in columns))
    console = Console(file=io.StringIO(), width=None if sys.stdout.isatty() else 120)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def visible(text: str) -> str:
    """Return a text in which control characters are spelled out: a label must not steer the terminal or break a row."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _broken(value: Any) -> bool:
    return isinstance(value, float) and not value.is_integer()


def shown(value: Any, digits: int | None = None) -> str:
    """Return a cell: nothing for None, numbers with that many digits after the point (None: as many as they need)."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.12g}" if digits is None else f"{value:.{digits}f}"
    return ("no", "yes")[value] if isinstance(value, bool) else str(value)


def about(kind: str, release: Any, options: dict[str, Any], domain: Any = None) -> tuple[dict[str, Any], list[str]]:
    """Return what a release says about itself: as facts for programs and as notes for people."""
    epsilon = float(release.cost.pure())
    unit = f"column {options['user']}" if options["user"] else "each row"
    facts: dict[str, Any] = {
        "release": kind,
        "epsilon": epsilon,
        "adjacency": options["adjacency"],
        "unit": unit,
        **({"max_rows": options["max_rows"]} if options["max_rows"] else {}),
        **({"where": options["where"]} if options["where"] else {}),
        **({"item": options["item"], "domain": domain.origin} if domain is not None else {}),
        "simulated": release.simulated,
        "exact": release.exact,
        "cost": release.cost.to_dict(),
    }
    notes = [f"Spent: epsilon {epsilon:.12g}. Protects: {unit}, {options['adjacency']}."]
    if domain is not None:
        notes.append(f"Labels: {domain.origin}.")
    if release.simulated:
        notes.append("SIMULATED: the noise is predictable; this protects nobody.")
    return facts, notes
