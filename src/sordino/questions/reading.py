"""How a source reads whose a row is, as one public text: an account adds up what is read alike.

By one reading `7` and `007` are two people, and by another one they are one. Releases of one
account add up for a person only if all of them mean the same rows by it. So an account keeps this
text with its first charge, and takes no charge with another one (docs/proofs/counts.md).
"""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace

from sordino.questions.unit import PrivacyUnit
from sordino.sources.csv.header import check_column
from sordino.sources.csv.lines import CsvFormat, declared_types
from sordino.sources.source import Source

_SAME_TEXTS = (
    ("text", re.compile(r"VARCHAR|ENUM\(.*\)", re.DOTALL)),
    ("integer", re.compile(r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?")),
)
"""Declared types that write equal values as equal texts; any other type stands for itself."""
_DECIMAL_TYPE = re.compile(r"DECIMAL\(\d+,\s*(\d+)\)")
_ABOUT_NUMBERS = frozenset({"decimal", "thousands"})


def describe_unit_reading(source: Source, unit: PrivacyUnit, form: CsvFormat) -> str:
    """Return how a source reads whose a row is: equal texts, equal units.

    Empty if nothing can differ.

    It follows from what is declared, and from no row.

    Examples
    --------
    >>> import polars
    >>> from sordino.questions import PrivacyUnit
    >>> from sordino.sources import CsvFormat, open_source
    >>> from sordino.questions.reading import describe_unit_reading
    >>> visits = open_source(polars.DataFrame({"guest": ["Ann"]}))
    >>> describe_unit_reading(visits, PrivacyUnit("guest"), CsvFormat())
    'values in memory'
    """
    if unit.key is None:
        return _describe_rows(source.kind, form) if source.texts else ""
    if unit.parts:
        # Each column by itself: rows are of one unit if all agree.
        each = [
            describe_unit_reading(source, replace(unit, column=name), form) for name in unit.names
        ]
        return "; ".join(each) if any(each) else ""
    column = unit.key
    declared = source.columns.get(column)
    for joined in source.lookups:
        if column in joined.names:
            # Which rows are whose: by the column that has the keys.
            by = describe_unit_reading(source, replace(unit, column=joined.table.of), form)
            return f"looked up by {by or joined.table.of}"
    if declared is None:
        # Nothing is read: a stream of answers that the caller computes.
        return ""
    if source.identity is None or source.identity.startswith("name:"):
        # Rows may decide the type of a column in memory, as pandas, a reader of CSV that guesses,
        # or the plan of a relation does, and values have the same texts whatever type they have
        # (`frames`). So the type must not decide whether a charge is refused.
        return "values in memory"
    kind = _name_reading(declared)
    return _describe_texts(f"{source.kind} {kind}", column, form) if source.texts else kind


def describe_piped_reading(unit: PrivacyUnit, form: CsvFormat) -> str:
    """Return in the same words how CSV lines on standard input are read, where a unit is a text."""
    if unit.key is None:
        return _describe_rows("csv", form)
    for name in unit.names:
        if not form.header:
            check_column(name, "The column of the person", form.columns, form)
    return "; ".join(_describe_texts("csv text", name, form) for name in unit.names)


def _describe_rows(kind: str, form: CsvFormat) -> str:
    # A row is a unit. All encodings of one byte a character end it alike, but it is simpler to say
    # which.
    return f"rows of {kind}, encoding {form.encoding}"


def _describe_texts(kind: str, column: str, form: CsvFormat) -> str:
    # JSON lines and sheets of Excel leave all but two of these as they are by default.
    said = {
        option.name: getattr(form, option.name)
        for option in fields(CsvFormat)
        if option.name not in _list_idle_options(form, column)
    }
    said = {name: value for name, value in said.items() if value != getattr(_PLAIN, name)}
    if "columns" in said:
        # Without a header a column is a place in the line; what the others are called decides
        # nothing.
        said["columns"] = f"column {form.columns.index(column) + 1}"
    return ", ".join((kind, *(f"{name} {json.dumps(said[name])}" for name in sorted(said))))


def _list_idle_options(form: CsvFormat, column: str) -> frozenset[str]:
    """Return the options that say nothing of the column of the unit.

    All others, also later ones, count.
    """
    # The type of the column itself and the kind of file are said beside them, and ragged lines are
    # read alike where they are kept.
    idle = {"types", "ragged", "format_in"}
    engine = declared_types(form)[column].engine if column in form.types else "VARCHAR"
    if engine == "VARCHAR":
        idle |= _ABOUT_NUMBERS
    if engine not in {"DATE", "TIMESTAMP"}:
        idle.add("date_format")
    return frozenset(idle)


def _name_reading(declared: str) -> str:
    for name, types in _SAME_TEXTS:
        if types.fullmatch(declared):
            return name
    decimal = _DECIMAL_TYPE.fullmatch(declared)
    # All digits behind the point are written, so their number decides; how many stand before it
    # does not.
    return declared.lower() if decimal is None else f"decimal of {decimal[1]} digits"


_PLAIN = CsvFormat()
