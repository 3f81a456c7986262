"""CSV files with declared types: marks in numbers, dates in other formats, and which value a field is then."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from fuzz.questions import Question
from fuzz.tables import Table
from fuzz.values import EXACT, FLOATS, NO_UNICODE, WHOLE, decimal_digits
from support.declared import declared_value

Spec = dict[str, Any]
ENGINE = {
    "integer": "BIGINT",
    "double": "DOUBLE",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "boolean": "BOOLEAN",
    "text": "VARCHAR",
}
ANY = (*ENGINE, "decimal(9,3)", "decimal(18,0)", "decimal(38,10)", "decimal(4,4)")
MARKS = (
    ("", "."),
    ("", "."),
    ("", ","),
    (".", ","),
    (",", "."),
    ("'", "."),
    (" ", ","),
    ("\u202f", ","),
    ("_", "."),
)
DATES = ("%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d %m %Y")


def random_marks(rng: Any, spec: Spec) -> Spec:
    """Return how numbers and dates are written in a file, and an encoding that says its order where there is a header."""
    taken = {spec["delimiter"], spec["quote"]} - {""}
    fitting = [
        (thousands, decimal)
        for thousands, decimal in MARKS
        if not taken & {thousands, decimal}
        and (thousands != "\u202f" or spec["encoding"].startswith("utf"))
    ]
    thousands, decimal = rng.choice(fitting)
    if spec["encoding"] == "utf-16" and not spec["header"]:
        spec["encoding"] = "utf-16-le"
    return {"thousands": thousands, "decimal": decimal, "date_format": rng.choice(DATES)}


def random_types(rng: Any, columns: dict[str, str]) -> dict[str, str]:
    """Return types of some columns, mostly those of what stands there."""
    if rng.random() < 0.25:
        return {}
    types = {}
    for name, kind in columns.items():
        if rng.random() < 0.8:
            types[name] = _fitting(rng, kind) if rng.random() < 0.7 else rng.choice(ANY)
    return types


def _fitting(rng: Any, kind: str) -> str:
    if kind in WHOLE:
        return rng.choice(("integer", "integer", "double", "decimal(18,0)", "decimal(38,10)"))
    if kind in FLOATS:
        return rng.choice(("double", "double", "decimal(38,10)"))
    if digits := decimal_digits(kind):
        return f"decimal({digits[0]},{digits[1]})"
    return kind.lower() if kind.lower() in ENGINE else rng.choice(ANY)


def options(spec: Spec) -> dict[str, Any]:
    """Return the parameters of `CsvFormat` about types."""
    types = spec.get("types", {})
    dated = {"date", "timestamp"} & set(types.values())
    return {
        "types": types,
        "decimal": spec.get("decimal", "."),
        "thousands": spec.get("thousands", ""),
        **({"date_format": spec["date_format"]} if dated else {}),
    }


def encode(encoding: str, text: str) -> bytes:
    """Return the bytes of lines; what is no character becomes bytes that are none in the encoding, where there are such."""
    if encoding.startswith("utf-16"):
        order = "utf-16-le" if encoding == "utf-16" else encoding
        return text.encode(order, "surrogatepass")
    if encoding == "cp1252":
        text = text.replace(NO_UNICODE[-1], "\udc81")
    return text.encode(encoding, "surrogateescape")


# ---- how values are written, and read -----------------------------------------------------------------------------------


def field(spec: Spec, value: Any) -> str:
    """Return the text of a value in a file."""
    if value is None:
        return spec["null"]
    if isinstance(value, bool):
        return {True: "true", False: "false"}[value]
    if isinstance(value, dt.date):
        day, behind = str(value)[:10], str(value)[10:]
        parts = dict(zip(("%Y", "%m", "%d"), day.split("-"), strict=True))
        written = spec.get("date_format", "%Y-%m-%d")
        for directive, digits in parts.items():
            written = written.replace(directive, digits)
        return written + behind
    if isinstance(value, int | float | Decimal):
        plain = isinstance(value, Decimal) and bool(spec.get("types"))
        return _number(spec, f"{value:f}" if plain else str(value))
    return str(value)


def _number(spec: Spec, text: str) -> str:
    """Return a number as the file has it, grouped or not, as its last character says."""
    whole, point, fraction = text.partition(".")
    if (
        spec.get("thousands")
        and whole.lstrip("-").isdigit()
        and "E" not in text
        and "e" not in text
        and text[-1] in "02468"
    ):
        whole = f"{int(whole):,}".replace(",", spec["thousands"])
    return whole + (spec.get("decimal", ".") if point else "") + fraction


def kind_of(spec: Spec, name: str) -> str:
    """Return what a column of a file is to the engine."""
    declared = spec.get("types", {}).get(name, "text")
    return ENGINE.get(declared, declared.upper())


def as_read(spec: Spec, name: str, text: str | None, declared: str | None = None) -> Any:
    """Return the value of a field."""
    declared = declared or spec.get("types", {}).get(name, "text")
    if text is None or declared == "text":
        return text
    written = {key: value for key, value in options(spec).items() if key != "types"}
    value = declared_value(text, declared, **written)
    digits = decimal_digits(declared.upper())
    if digits is None or value is None:
        return value
    return Decimal(int(value * 10 ** digits[1])).scaleb(-digits[1], EXACT)


def read_field(spec: Spec, name: str, value: Any) -> Any:
    """Return the value of a column that is read where a value was written."""
    text = field(spec, value)
    return None if text in {"", spec["null"]} else as_read(spec, name, text)


def with_types(spec: Spec, table: Table, question: Question | None) -> Table | None:
    """Return a table of texts with the values that they are."""
    read = {name: spec.get("types", {}).get(name, "text") for name in table.names}
    kinds = {name: kind_of(spec, name) for name in table.names}
    marked = (spec.get("thousands", ""), spec.get("decimal", ".")) != ("", ".")
    if (
        marked
        and question is not None
        and question.column is not None
        and kinds[question.column] == "VARCHAR"
    ):
        if question.where is not None or question.column in {
            question.unit,
            question.item,
            question.by,
        }:
            return None  # it is a text there and a number here
        read[question.column], kinds[question.column] = "double", "DOUBLE"
    rows = (
        tuple(
            as_read(spec, name, text, read[name])
            for name, text in zip(table.names, row, strict=True)
        )
        for row in table.rows
    )
    return Table(table.names, tuple(kinds.values()), tuple(rows))
