"""How a release is written to stdout: a table for people, JSON and CSV for programs.

It is written at once, when all is known.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import click

from sordino.cli.options import UnitOptions, choose_format
from sordino.cli.outlet import LOST, OutputFile
from sordino.errors import DataSourceError
from sordino.population import Population
from sordino.sheet import Sheet, describe_receipt, describe_spent, escape_controls, list_facts, list_noises
from sordino.sheet_text import format_cell, write_csv, write_json

INTERVAL = "low and high: interval of each count, from the fresh measurement alone."
BEFORE_SELECTION = "estimate: from gaps and measurement, inside the interval; unbiased before selection."
ONLY_MEASURED = "estimate: the fresh measurement, unbiased; Gumbel noise selects without gaps."
FROM_GAPS = (
    "estimate: down to the threshold where that ended the list, too high after selection; else nothing."
)
FROM_HISTOGRAM = "estimate: the best of a noisy histogram; too high on average for the last rows."
INTERVAL_OF_SELECTED = (
    "low and high: interval of each count; allows for the selection, so that the low end of a row that was "
    "barely selected lies far down."
)
MEASURED_SET = "estimate: the fresh measurement as a whole number inside the interval."
A_SET = "A set: the rows stand in the order of the domain; nothing says which count is larger."
UNCLEAR = "order_unclear: yes where the item may be no larger than the next one."
SIMULATED = "SIMULATED: the noise is predictable; this protects nobody."


def write_rows(
    form: str | None,
    columns: Sequence[str],
    rows: Sequence[dict[str, Any]],
    facts: dict[str, Any],
    notes: Sequence[str],
) -> None:
    """Write rows to stdout: as JSON with the facts about them, as CSV, or as a table with notes below.

    Their numbers are amounts of a ledger, of which a small one is not nothing.
    """
    sheet = Sheet(columns=columns, rows=rows, facts=facts, notes=notes, counts=False)
    write_sheet(sheet, choose_format(form))


def write_sheet(sheet: Sheet, form: str, output: OutputFile | None = None) -> None:
    """Write a sheet in one of the formats, to stdout or to the file of `--output`.

    Each row of CSV repeats the facts that nobody may lose.

    Numbers in a table have one digit after the point if they are about counts, else at least six digits in
    all.
    """
    if form == "json":
        text = write_json(sheet)
    elif form == "csv":
        text = write_csv(sheet)
    else:
        # Where nobody looks at a terminal the width is fixed.
        text = _draw_table(sheet, fixed=output is not None or not sys.stdout.isatty())
        # Of a sheet that was kept, whoever may charge the account may have written them.
        text += "".join(f"{escape_controls(note)}\n" for note in sheet.notes)
    if output is not None:
        output.add(text)
        output.finish()
    else:
        write_lines([text.removesuffix("\n")] if text else [])


def write_lines(lines: Iterable[str]) -> None:
    """Write lines to stdout."""
    try:
        for line in lines:
            # `color=True` leaves the line as it stands: off a terminal click would take colors out of a
            # label.
            click.echo(line, color=True)
        sys.stdout.flush()
    except BrokenPipeError:
        # An OSError, too, but only the reader has gone: the command ends without a word then.
        raise
    except OSError:
        raise DataSourceError(LOST.format("stdout")) from None


def _draw_table(sheet: Sheet, *, fixed: bool) -> str:
    # Imported here, because JSON and CSV do not need it.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = [name for name in sheet.columns if name not in sheet.hidden]
    rows = [_shorten(row) for row in sheet.rows]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = all(not isinstance(row[name], str) for row in rows)
        # A long label is folded and never cut: the row must say which item it is.
        # As `Text`, so that brackets in a name are no markup.
        header = Text(escape_controls(name))
        table.add_column(header, justify="right" if numeric else "left", overflow="fold")
    # One digit after the point where a column has a number that is not whole, else none.
    digits = {name: int(any(_has_fraction(row[name]) for row in rows)) for name in columns}
    for row in rows:
        cells = (
            format_cell(row[name], digits[name]) if sheet.counts else format_figure(row[name])
            for name in columns
        )
        # Nor are those in a label.
        table.add_row(*(Text(escape_controls(cell)) for cell in cells))
    # Off a terminal the output is the same wherever it is made.
    console = Console(file=io.StringIO(), width=160 if fixed else None)
    with console.capture() as capture:
        console.print(table)
    # The lines are padded to the width of the table.
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _shorten(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as people read it: of a p-value two digits are enough, and programs get all of them."""
    found = row.get("p_value")
    # Of a sheet that was kept, somebody else may have written it.
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


def describe_release(kind: str, release: Any) -> tuple[dict[str, Any], list[str]]:
    """Return what a release of a session says about itself: facts for programs and notes for people."""
    some: Population = release.population
    facts = list_facts(
        kind,
        release,
        release.receipt,
        unit=some.unit,
        adjacency=some.adjacency,
        max_rows=some.max_rows,
    )
    facts |= list_noises(release.mechanism) | some.list_facts()
    notes = [
        *some.say_about(),
        *some.say_left_out(),
        f"Spent: {describe_spent(facts)}. Protects: {some.unit}, {some.adjacency}.",
        *_describe_noise(facts),
        *describe_receipt(release.receipt),
    ]
    if some.domain is not None:
        notes.append(f"Labels: {some.domain}.")
    if some.domain == "assumed public" and not release.cost.pure():
        # Only where nothing was drawn: those of a table without any label.
        facts["warning"] = f"{some.by or some.item} has no label in any row, so there is nothing to release."
        notes.insert(0, f"{facts['warning']} Nothing was spent.")
    return facts, [*notes, *list_warnings(release)]


def say_bound(release: Any) -> list[str]:
    """Return how much of each unit counts in a release; none where all of it does."""
    some: Population = release.population
    return some.say_bound()


def say_lower(release: Any) -> list[str]:
    """Return what becomes of numbers below the public end of a column; none where there is none."""
    lower = release.population.lower
    if lower is None:
        return []
    return [f"By --lower, numbers below {format_cell(lower)} count as {format_cell(lower)}."]


def _describe_noise(facts: Mapping[str, Any]) -> list[str]:
    """Return the note that names noise without a pure epsilon; of pure noise nothing is said."""
    selected, measured = facts.get("noise"), facts.get("measure_noise")
    if not {selected, measured} & {"gumbel", "gaussian"}:
        return []
    # One kind of noise, or one to select and one to measure.
    both = f"{selected} to select, {measured} to measure" if selected and measured else selected or measured
    return [f"Noise: {both}; chosen for what the account gets from it unless it was asked for by name."]


def without_gaps(facts: Mapping[str, Any]) -> bool:
    """Tell whether a selection was made by noise that leaves no gaps."""
    return facts.get("noise") == "gumbel"


def describe_found(release: Any, most: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return what a release of labels that nobody listed says of those that it found: facts and notes."""
    found, threshold = len(release), release.label_threshold
    among = "" if most is None else f" of at most {most}"
    # Without a bound on the labels of a unit the threshold hangs on a private count.
    needed = f"about {threshold} units" if threshold else "many units"
    facts = {} if threshold is None else {"label_threshold": threshold}
    notes = [
        f"Found {found}{among}: nobody listed the labels, and one needs {needed}. Of a label that is missing "
        "nothing follows: it may have fewer, or not exist."
    ]
    # Only a top has several ways to find labels.
    if why := getattr(release, "why", None):
        return facts | {"why": why}, [*notes, f"Method: {release.method}. {why}"]
    return facts, notes


def describe_rows(release: Any, *, on_average: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Return what the intervals of several rows are worth, alone and together: facts and notes.

    With `on_average` the share of intervals that hold is promised on average, not of each.
    """
    facts = {"confidence": release.confidence, "confidence_together": release.together}
    each = format_share(release.confidence)
    if len(release) < 2:
        return facts, [f"It holds with {each}."]
    if on_average:
        alone = f"On average at least {each} of the intervals hold"
        return facts | {"on_average": True}, [f"{alone}; {_describe_together(release)}."]
    return facts, [f"Each interval holds with {each}; {_describe_together(release)}."]


def _describe_together(release: Any) -> str:
    """Return what is promised of all intervals together."""
    if not release.together:
        return "nothing is promised of all together (--simultaneous)"
    return f"all {len(release)} together with at least {format_share(release.together)}"


def format_share(share: float) -> str:
    """Return a share in percent with at most two digits, rounded down: nothing more is promised."""
    return f"{math.floor(share * 10_000 + 1e-6) / 100:.12g} %"


def describe_cap(
    unit: UnitOptions, what: str, *, ordered: bool = False, moved: bool = False, whole: bool = False
) -> tuple[tuple[str, ...], list[str]]:
    """Return the columns and notes about true counts, where the interval is about something else.

    It is where a unit counts for some of its rows or items only, or a count was moved into a declared range.

    Parameters
    ----------
    unit : UnitOptions
        Whom the guarantee protects.
    what : str
        What is bounded: "rows" or "items".
    ordered : bool
        Whether it is said of the order, too, how clear it is.
    moved : bool
        Whether counts were moved into a declared range.
    whole : bool
        Whether all of a unit counts, whatever bounds its rows: it is counted once.
    """
    if unit.max_rows is None or whole:
        told = "low and high are about counts moved into the range. true_low and true_high: about the true"
        return (("true_low", "true_high"), [f"{told} count; empty: no end is known."]) if moved else ((), [])
    bound = (
        f"at most {unit.max_rows} {what} of each unit"
        if unit.max_rows > 1
        else f"one of the {what} of each unit"
    )
    # An item of units that touch few others may lead here, and lie behind in true counts.
    about = "low, high and order_unclear" if ordered else "low and high"
    return ("true_low", "true_high"), [
        f"Counts {bound}; true counts may be higher. {about} are about what is counted so. true_low: "
        "lower bound of the true count, as sure as the interval; it has no upper one."
    ]


def describe_range(
    bounds: tuple[Fraction, Fraction] | None, release: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return what a release within declared bounds says about its range: facts and notes.

    There are none without bounds.
    """
    if bounds is None:
        return {}, []
    (low, high), (least, most) = (float(end) for end in bounds), release.output_range
    facts = {"bounds": [low, high], "range_low": least, "range_high": most}
    told = (
        f"Published within [{format_cell(least, 2)}, {format_cell(most, 2)}]: unbiased from "
        f"{format_cell(low)} to {format_cell(high)}; what lies beyond"
    )
    return facts, [f"{told} counts as the nearer end."]


def list_warnings(release: Any) -> list[str]:
    """Return the warnings that stand below a table: whether the noise is predictable."""
    return [SIMULATED] if release.simulated else []
