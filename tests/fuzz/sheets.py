"""Tables as sheets of Excel: numbers as cells of numbers, everything else as texts."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

from fuzz import declared
from fuzz.tables import Table
from fuzz.written import Written
from sordino.sources import CsvFormat
from support.workbooks import Book, C, write_book

KINDS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "VARCHAR")
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def random_made(rng: Any) -> dict[str, Any]:
    """Return how a sheet is written."""
    return {
        "null": rng.choice(("", "", "NA", "7")),
        "date_format": rng.choice(declared.DATES),
        "texts": rng.choice(("share", "inlineStr", "str")),
        "numbered": rng.random() < 0.5,
    }


def fitted(value: Any) -> Any:
    """Return the value nearest to one that a cell can hold: no number but finite ones, no text that XML has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return _NOT_IN_XML.sub("", value) if isinstance(value, str) else value


def write(spec: dict[str, Any], table: Table, folder: Path) -> Written:
    """Write a workbook with one sheet."""
    book = Book()
    head = book.row([C(None, name, spec["texts"]) for name in table.names], 1)
    rows = [
        book.row([_cell(spec, value) for value in row], place if spec["numbered"] else None)
        for place, row in enumerate(table.rows, 2)
    ]
    write_book(folder / "t.xlsx", head + "".join(rows), book.shared_xml())
    types = spec.get("types", {})
    form = CsvFormat(null=spec["null"], **declared.options(spec | {"types": types}))
    return Written(f"excel:{folder / 't.xlsx'}#S", form)


def _cell(spec: dict[str, Any], value: Any) -> C:
    if value is None:
        return C(None, None)
    if isinstance(value, bool):
        return C(None, str(int(value)), "b")
    if isinstance(value, int | float):
        return C(None, repr(value))
    return C(None, declared.field(spec, value), spec["texts"])


def effective(spec: dict[str, Any], table: Table) -> Table:
    """Return the texts that a reader of the sheet finds."""
    rows = [tuple(_text(spec, value) for value in row) for row in table.rows]
    # A rule: a row in whose cells nothing stands is none.
    kept = [row for row in rows if any(text is not None for text in row)]
    nulls = {"", spec["null"]}
    found = (tuple(None if text in nulls else text for text in row) for row in kept)
    return Table(table.names, ("VARCHAR",) * len(table.names), tuple(found))


def _text(spec: dict[str, Any], value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, float):
        # The fewest digits that mean it, written out.
        shortest = format(Decimal(repr(value)), "f")
        return (shortest.rstrip("0").rstrip(".") if "." in shortest else shortest) or "0"
    return declared.field(spec, value)
