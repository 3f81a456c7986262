"""A record as text for programs, JSON and CSV: what the command prints and a study writes down."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from sordino.record import Record, escape_controls, format_cell, spread_labels, steers

# Every character that JSON has left as it is and that is no plain one of ASCII.
_OTHER_CHARACTERS = re.compile(r"[^\x20-\x7e\n]")
# By which a cell begins that a spreadsheet computes: also in the wide letters of East Asia.
_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
# What a control character is written as; where a text holds it itself, backslashes are doubled.
_ESCAPE = re.compile(r"\\([tnr]|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)*([eE][+-]?[0-9]+)?", re.ASCII)
# These facts stand on every line of CSV, because lines are taken out of their file.
MARKS = (
    "standard_error",
    "range_low",
    "range_high",
    "records",
    "limited_by_grid",
    "numbers_share",
    "numbers_share_low",
    "numbers_share_high",
    "left_out",
    "success",
    "model",
    "warning",
    "confidence",
    "on_average",
    "column",
    "by",
    "where",
    "threshold",
    "crossed",
    "adjacency",
    "unit",
    "max_rows",
    "per_person",
    "weight_cap",
    "units_beyond",
    "own_clips",
    "lookups",
    "lent",
    "groups_per_unit",
    "domain",
    "noise",
    "measure_noise",
    "simulated",
    "kept",
    "epsilon",
    "delta",
    "rho",
    "failures",
    "charge_epsilon",
    "charge_delta",
    "charge_rho",
    "charge_failures",
    "account_epsilon",
    "account_delta",
    "id",
    "time",
    "account",
    "version",
    "schema",
)


def write_json(*records: Record) -> str:
    """Return a record as one object of JSON, its facts and its rows; or those of one charge."""
    made = make_document(*records) if len(records) == 1 else make_charge_document(records)
    return encode_json(made, indent=2) + "\n"


def make_document(record: Record) -> dict[str, Any]:
    """Return a record as the object that JSON writes."""
    return {**record.facts, "rows": list(record.rows)}


def make_charge_document(records: Sequence[Record]) -> dict[str, object]:
    """Return releases of one charge as one object: what all share and cost, and each of them."""
    facts, charge = records[0].facts, "charge_"
    spent = {name.removeprefix(charge): facts[name] for name in facts if name.startswith(charge)}
    names = ("id", "time", "account", "kept", "simulated", "version", "schema")
    shared = {name: facts[name] for name in names if name in facts}
    return {"release": "batch", **spent, **shared, "releases": [*map(make_document, records)]}


def write_csv(*records: Record) -> str:
    """Return records as CSV; each row repeats the facts that nobody may lose."""
    spread = [spread_labels(record) for record in records]
    # What a row says itself stands there: a fact of the same name is about something else, or says
    # it again.
    marks = [
        {name: record.facts[name] for name in MARKS if name in record.facts and name not in own}
        for record in spread
        for own in [record.columns]
    ]
    # Of several each has a cell for all that one of them says.
    names = list(dict.fromkeys(name for record in spread for name in record.columns))
    names += [name for name in MARKS if name not in names and any(name in own for own in marks)]
    lines: list[Sequence[Any]] = [names]
    for record, own in zip(spread, marks, strict=True):
        lines += ([{**own, **row}.get(name) for name in names] for row in record.rows)
    return "".join(format_csv_line(line) + "\n" for line in lines)


def encode_json(value: Any, *, indent: int | None = None) -> str:
    """Return JSON with letters of all alphabets as they are and all control characters spelled out.

    JSON itself spells out those of ASCII alone, and a terminal obeys others, too: a label must not
    steer it.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # They stand inside of strings alone.
    return _OTHER_CHARACTERS.sub(
        lambda found: json.dumps(found[0])[1:-1] if steers(found[0]) else found[0], text
    )


def format_csv_line(values: Iterable[Any]) -> str:
    """Return one line of CSV without its end, which neither a terminal nor a spreadsheet obeys."""
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow([_disarm(value) for value in values])
    return written.getvalue()


def _disarm(value: Any) -> str:
    """Return a cell of CSV that does nothing to who looks at it; no two texts are one cell.

    What a text would do is spelled out, or told to be a text.

    Control characters are written as in a table, and where something else could be taken for that,
    or stands beside it, each backslash is two. A text that a spreadsheet would compute gets an
    apostrophe in front, by which these programs know a text, and so does one that looks like that
    already; a number is none that does any harm. JSON has texts as they are.
    """
    cell = format_cell(value)
    if not isinstance(value, str | list):
        return cell
    shown = escape_controls(cell)
    if shown != cell or _ESCAPE.search(cell):
        shown = escape_controls(cell.replace("\\", r"\\"))
    bare = shown.lstrip("'")
    return (
        f"'{shown}" if bare.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(bare) else shown
    )
