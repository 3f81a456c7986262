"""Writes what reads a field as a value of its declared type, in the SQL of the embedded engine.

Each expression sees one field, a text or NULL, and fails on none: a pattern decides first whether
the text is a value at all (`column_types`), and only what fits is written plainly and converted, by
`TRY_CAST` inside `TRY`. So the value of a field is a function of that field alone
(docs/decisions/0018).
"""

from __future__ import annotations

import duckdb

from sordino.errors import InvalidParameter
from sordino.sources.csv.column_types import (
    FALSE,
    TRUE,
    ColumnType,
    Marks,
    around,
    bare_number_pattern,
    date_pattern,
    number_pattern,
    timestamp_pattern,
)
from sordino.sources.csv.lines import CsvFormat, declared_types, marks_of
from sordino.sources.engine import literal
from sordino.sources.validation import lend_engine


def write_typed(field: str, kind: ColumnType, form: CsvFormat) -> str:
    """Return SQL for the value of a field in its declared type; NULL if the field is none."""
    if kind.engine == "VARCHAR":
        return field
    if kind.engine == "BOOLEAN":
        yes, no = _fits(field, around(TRUE)), _fits(field, around(FALSE))
        return f"CASE WHEN {yes} THEN TRUE WHEN {no} THEN FALSE END"
    if kind.engine in {"DATE", "TIMESTAMP"}:
        return _write_date(field, kind.engine, form.date_format)
    return write_number(field, marks_of(form), kind.scale, kind.engine)


def write_number(field: str, marks: Marks, scale: int | None = None, kind: str = "DOUBLE") -> str:
    """Return SQL for the number that a text is, NULL if it is none."""
    # Blanks are cut off here: one of them may be the thousands mark, and a cast need not know tabs.
    # Most fields have none around them, and to look for them takes longer than all else.
    bare = _write_plain_number(field, marks)
    cut = _write_plain_number(f"trim({field}, ' \t')", marks)
    return (
        f"TRY(CASE WHEN {_fits(field, bare_number_pattern(marks, scale))}"
        f" THEN TRY_CAST({bare} AS {kind})"
        f" WHEN {_fits(field, number_pattern(marks, scale))} THEN TRY_CAST({cut} AS {kind}) END)"
    )


def _write_plain_number(text: str, marks: Marks) -> str:
    """Return SQL for a number as the engine reads it, from one that is written with marks."""
    if marks.thousands:
        text = f"replace({text}, {literal(marks.thousands)}, '')"
    return text if marks.decimal == "." else f"replace({text}, {literal(marks.decimal)}, '.')"


def _write_date(field: str, kind: str, date_format: str) -> str:
    date = date_pattern(date_format)
    whole = date.pattern if kind == "DATE" else timestamp_pattern(date)
    # Year, month and day in the order in which the engine reads them; it refuses days that do not
    # exist.
    plain = rf"\{date.year}-\{date.month}-\{date.day}" + ("" if kind == "DATE" else r" \4")
    written = f"regexp_replace({field}, {literal(f'^{around(whole)}$')}, {literal(plain)})"
    return f"TRY(CASE WHEN {_fits(field, around(whole))} THEN TRY_CAST({written} AS {kind}) END)"


def _fits(field: str, pattern: str) -> str:
    return f"regexp_full_match({field}, {literal(pattern)})"


def rehearse_types(form: CsvFormat) -> None:
    """Read a missing field as a value of each declared type, before any row.

    Raises
    ------
    InvalidParameter
        If the engine cannot plan it: nothing that is declared may end a release after the charge.
    """
    kinds = set(declared_types(form).values())
    if not kinds:
        return
    values = ", ".join(write_typed("c", kind, form) for kind in sorted(kinds, key=repr))
    with lend_engine() as opened:
        try:
            opened.connection.execute(
                f"SELECT {values} FROM (VALUES ('?'), (NULL)) AS t(c)"
            ).fetchall()
        except duckdb.Error:
            raise InvalidParameter(
                "CsvFormat.types must be types that the engine can read in this format; got "
                "others. Use another date_format or thousands mark."
            ) from None
