"""What a field of a CSV file is, by its declared type: written a second time, without regular expressions and without an engine."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

DIGITS = frozenset("0123456789")
TRUE, FALSE = {"true", "yes", "t", "y", "1"}, {"false", "no", "f", "n", "0"}


def declared_value(
    text: str, kind: str, *, decimal: str = ".", thousands: str = "", date_format: str = "%Y-%m-%d"
) -> Any:
    """Return the value of a field, None if it is missing; decimals are fractions."""
    if kind == "text":
        return text
    body = text.strip(" \t")
    if kind == "boolean":
        word = body.lower() if body.isascii() else ""
        return True if word in TRUE else False if word in FALSE else None
    if kind == "date":
        found = _date(body, date_format)
        return found[0] if found and not found[1] else None
    if kind == "timestamp":
        return _timestamp(body, date_format)
    if kind == "double":
        written = _number(body, decimal, thousands, exponents=True)
        return None if written is None else float(written)
    written = _number(body, decimal, thousands, exponents=False)
    if written is None:
        return None
    number = Fraction(written)
    if kind == "integer":
        return int(number) if number.denominator == 1 and -(1 << 63) <= number < 1 << 63 else None
    digits, scale = (
        int(part) for part in kind.removeprefix("decimal(").removesuffix(")").split(",")
    )
    unscaled = number * 10**scale
    return number if unscaled.denominator == 1 and abs(unscaled) < 10**digits else None


def _all_digits(text: str) -> bool:
    return set(text) <= DIGITS


def _number(body: str, decimal: str, thousands: str, *, exponents: bool) -> str | None:
    """Return a number as Python writes it."""
    sign = body[:1] if body[:1] in {"+", "-"} else ""
    body, exponent = body[len(sign) :], ""
    for letter in "eE":
        if exponents and letter in body:
            body, _, exponent = body.partition(letter)
            bare = exponent[1:] if exponent[:1] in {"+", "-"} else exponent
            if not bare or not _all_digits(bare):
                return None
    whole, _, fraction = body.partition(decimal)
    if not _all_digits(fraction) or not (whole or fraction):
        return None
    if thousands and thousands in whole:
        first, *groups = whole.split(thousands)
        if (
            exponent
            or not 1 <= len(first) <= 3
            or first.startswith("0")
            or {len(one) for one in groups} != {3}
        ):
            return None
        whole = "".join([first, *groups])
    if not _all_digits(whole):
        return None
    return f"{sign}{whole or 0}.{fraction or 0}" + (f"e{exponent}" if exponent else "")


def _date(body: str, date_format: str) -> tuple[dt.date, str] | None:
    """Return the date that a text begins with, and what stands behind it."""
    parts: dict[str, int] = {}
    touching = any(date_format[at : at + 4 : 2] == "%%" for at in range(len(date_format)))
    at = 0
    while at < len(date_format):
        letter = date_format[at]
        if letter != "%":
            if not body.startswith(letter):
                return None
            body, at = body[1:], at + 1
            continue
        directive = date_format[at + 1]
        most = 4 if directive == "Y" else 2
        size = next((size for size in range(most) if body[size : size + 1] not in DIGITS), most)
        if not size or (size < most and (touching or directive == "Y")):
            return None
        parts[directive], body, at = int(body[:size]), body[size:], at + 2
    try:
        return dt.date(parts["Y"], parts["m"], parts["d"]), body
    except ValueError:
        return None


def _timestamp(body: str, date_format: str) -> dt.datetime | None:
    found = _date(body, date_format)
    if found is None or found[1][:1] not in {" ", "T"}:
        return None
    hour, *rest = found[1][1:].split(":")
    if not 1 <= len(rest) <= 2 or not 1 <= len(hour) <= 2:
        return None
    second, point, fraction = rest[1].partition(".") if len(rest) == 2 else ("00", "", "")
    if (point and not fraction) or len(fraction) > 15 or set(fraction[6:]) - {"0"}:
        return None
    if not all(map(_all_digits, (hour, rest[0], second, fraction))) or {
        len(rest[0]),
        len(second),
    } != {2}:
        return None
    try:
        micro = int(fraction[:6].ljust(6, "0"))
        return dt.datetime.combine(found[0], dt.time(int(hour), int(rest[0]), int(second), micro))
    except ValueError:
        return None
