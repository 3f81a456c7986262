"""A record as a table for people: numbers with the digits that their intervals deserve.

An estimate keeps its first two digits, however wide its interval is. JSON and CSV have all digits.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sordino.record import Record, escape_controls, find_sides, format_cell, spread_labels

if TYPE_CHECKING:
    from rich.console import Console

_LABEL, _BETWEEN = 20, 2
"""So wide a column of labels is at least, if its labels are; and so far columns stand apart."""
WIDTH = 160
_MOST_HEADS = 16
"""A cross table with more columns is drawn as a list."""
"""Of a table that nobody sees in a terminal, whose width is not known."""
_ROUNDED = {
    "estimate": ROUND_HALF_EVEN,
    "gap": ROUND_HALF_EVEN,
    # What lies between two ends lies between them after rounding.
    "low": ROUND_FLOOR,
    "true_low": ROUND_FLOOR,
    "high": ROUND_CEILING,
    "true_high": ROUND_CEILING,
}
"""What is written in the digits that the interval of its row deserves, and how it is rounded."""
_FEW: dict[str, Callable[[float], str]] = {
    "p_value": lambda number: f"{number:.2g}",
    "standard_error": lambda number: f"{number:.3g}" if number < 1000 else f"{number:,.0f}",
    # Of what a plan expects; what is promised is never rounded up.
    "narrowest": lambda number: _write_few(number, ROUND_FLOOR),
    "typical": lambda number: _write_few(number, ROUND_HALF_EVEN),
    "widest": lambda number: _write_few(number, ROUND_CEILING),
    "off": lambda number: _write_few(number, ROUND_CEILING),
    "sure": lambda number: f"{math.floor(100 * number) / 100:g}",
    "held": lambda number: f"{math.floor(100 * number) / 100:g}",
    "rank_error_low": lambda number: f"{math.floor(number):,}",
    "rank_error_high": lambda number: f"{math.ceil(number):,}",
}
_EXACT = Context(prec=700)


def _write_few(number: float, rounding: str) -> str:
    """Return a number with three digits, and no exponent where a person would write none."""
    if not math.isfinite(number):
        return format_cell(number)
    return format_figure(float(Context(prec=3, rounding=rounding).create_decimal(repr(number))))


def draw_table(record: Record, width: int | None = WIDTH) -> str:
    """Return the rows of a record as a table; with `width=None` as wide as the terminal."""
    # Imported here, because JSON and CSV do not need it.
    from rich.cells import cell_len  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    record = spread_labels(_lay_out(record))
    columns, whole, needed = [], -_BETWEEN, 0
    for name, texts in write_cells(record).items():
        cells = [escape_controls(text) for text in (name, *texts)]
        wide, numeric = max(map(cell_len, cells)), not _has_texts(record, name)
        columns.append(_DrawnColumn(cells, wide, numeric))
        whole += wide + _BETWEEN
        needed += (wide if numeric else min(wide, _LABEL)) + _BETWEEN
    # Off a terminal the output is the same wherever it is made.
    console = Console(file=io.StringIO(), width=width)
    console.width = max(console.width, needed)
    # What fits is written down: of thousands of rows that takes seconds less.
    lines = _write_lines(columns) if whole <= console.width else _fold_lines(columns, console)
    # The lines are padded to the width of the table.
    return "\n".join(line.rstrip() for line in lines) + "\n"


class _DrawnColumn(NamedTuple):
    """A column of a table: its header and its cells, and how wide the widest of them is."""

    cells: list[str]
    wide: int
    numeric: bool


def _has_texts(record: Record, name: str) -> bool:
    return any(isinstance(row[name], str) for row in record.rows)


def _write_lines(columns: Sequence[_DrawnColumn]) -> list[str]:
    """Return the lines of a table that is no wider than its console."""
    # Imported here, as in `draw_table`.
    from rich.cells import cell_len  # noqa: PLC0415

    padded = []
    for cells, wide, numeric in columns:
        # As wide as they are shown: some letters take two places, and some none.
        spaces = [" " * (wide - cell_len(cell)) for cell in cells]
        sides = zip(spaces, cells, strict=True) if numeric else zip(cells, spaces, strict=True)
        padded.append([left + right for left, right in sides])
    return [(" " * _BETWEEN).join(line) for line in zip(*padded, strict=True)]


def _fold_lines(columns: Sequence[_DrawnColumn], console: Console) -> list[str]:
    """Return the lines of a table of which some labels are folded."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table, listed = Table(box=None, pad_edge=False, header_style="bold"), []
    for (header, *cells), _, numeric in columns:
        # A long label is folded and never cut: the row must say which item it is. A number is
        # neither, for half of one is another number.
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(Text(header), justify=justify, overflow="fold", no_wrap=numeric)
        listed.append([Text(cell) for cell in cells])
    for line in zip(*listed, strict=True):
        table.add_row(*line)
    with console.capture() as capture:
        console.print(table)
    return capture.get().splitlines()


def _lay_out(record: Record) -> Record:
    """Return a cross table of two columns as people draw it, others as a list of their numbers.

    Any other record as it is.
    """
    names = record.facts.get("item")
    if record.facts.get("figure") != "table" or not isinstance(names, list):
        return record
    # A kept record that somebody else has written is drawn as it is.
    sides = find_sides(names, record.rows)
    if sides is None:
        return record
    listed = [{**row, "item": [*map(sides.show, row["item"])]} for row in record.rows]
    record = replace(record, rows=listed)
    if len(names) != 2 or len(sides.labels[1]) > _MOST_HEADS + 1:
        return record
    fits = any(row.get("published") is not None for row in record.rows)
    value = "published" if fits else "estimate"
    lines, heads = sides.labels
    columns = [f"{names[0]} / {names[1]}", *map(sides.show, heads)]
    if len(set(columns)) < len(columns):
        return record
    found = {label: row.get(value) for label, row in sides.rows.items()}
    rows = [
        dict(
            zip(
                columns,
                [sides.show(line), *(found.get((line, head)) for head in heads)],
                strict=True,
            )
        )
        for line in lines
    ]
    return replace(record, columns=columns, rows=rows, hidden=())


def write_cells(record: Record) -> dict[str, list[str]]:
    """Return the cells of each column that people are shown, as texts."""
    record = spread_labels(record)
    units = [_find_power(row, counts=record.counts) for row in record.rows]
    found = {}
    for name in record.columns:
        if name in record.hidden:
            continue
        values = [row[name] for row in record.rows]
        # One digit after the point where a column has a number that is not whole, else none.
        digits = int(any(isinstance(one, float) and not one.is_integer() for one in values))
        write = partial(_format_count, digits=digits) if record.counts else format_figure
        found[name] = [
            write(value)
            if name not in _ROUNDED
            else _round(value, _choose_power(value, digits, record, unit, name), name)
            for value, unit in zip(values, units, strict=True)
        ]
    # Of these few digits are enough, and programs get all of them.
    for name in _FEW.keys() & found.keys():
        values = [row[name] for row in record.rows]
        found[name] = [_FEW[name](v) if isinstance(v, float) else format_cell(v) for v in values]
    return found


def _find_power(row: Mapping[str, Any], *, counts: bool) -> int | None:
    """Return the power of ten to which numbers of a row are rounded; None without an interval."""
    low, high, estimate = (row.get(name) for name in ("low", "high", "estimate"))
    end, times = (estimate, 1) if high is None else (high, 2)
    # Of a kept record somebody else may have written it.
    if not isinstance(low, int | float) or not isinstance(end, int | float):
        return None
    half = (end - low) / times
    # Rounded outwards an interval grows by a quarter at most.
    if not 1e-300 < half < 1e300:
        return None
    unit = math.floor(math.log10(half / 4))
    return max(unit, 0) if counts else unit


def _keep_two_digits(estimate: Any, power: int) -> int:
    """Return the power of ten to which an estimate is rounded: two digits are left, or more.

    An interval that reaches to the cap deserves no digit of a good estimate, and 0 would be
    another number.
    """
    if not isinstance(estimate, int | float) or not estimate or not math.isfinite(estimate):
        return power
    return min(power, math.floor(math.log10(abs(estimate))) - 1)


def _choose_power(value: Any, digits: int, record: Record, unit: int | None, name: str) -> int:
    """Return the power of ten to which a number is rounded: `unit` is that of its interval."""
    if unit is not None:
        kept = _keep_two_digits(value, unit) if name == "estimate" else unit
        return max(kept, 0) if record.counts else kept
    if record.counts or not isinstance(value, float) or not value or not math.isfinite(value):
        return -digits
    return math.floor(math.log10(abs(value))) - 5


def _round(value: Any, unit: int, name: str) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return format_cell(value)
    step = Decimal((0, (1,), unit))
    rounded = Decimal(repr(value)).quantize(step, rounding=_ROUNDED[name], context=_EXACT)
    # Beyond these ends an exponent is easier to read than the zeros.
    if rounded and not 1e-9 <= abs(rounded) < 1e15:
        return f"{rounded.normalize(_EXACT):g}"
    return f"{rounded + 0:,f}"


def _format_count(value: Any, digits: int) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return format_cell(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def format_figure(value: Any) -> str:
    """Return a cell with at least six digits, and no exponent where a person would write none."""
    # Beyond these ends an exponent is easier to read than the zeros.
    if not isinstance(value, float) or not 1e-9 <= abs(value) < 1e15:
        return _format_count(value, 0) if isinstance(value, int) else format_cell(value)
    text = f"{value:,.{max(0, 5 - math.floor(math.log10(abs(value))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
