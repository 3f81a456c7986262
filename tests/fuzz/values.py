"""What columns may be declared as, and the values in which engines differ from what people expect."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache
from typing import Any

WIDTHS = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64, "HUGEINT": 128}
WHOLE = {name: (-(1 << bits - 1), (1 << bits - 1) - 1) for name, bits in WIDTHS.items()}
WHOLE |= {f"U{name}": (0, (1 << bits) - 1) for name, bits in WIDTHS.items()}
DECIMALS = ("1,0", "4,2", "9,3", "9,9", "18,0", "18,6", "18,18", "38,0", "38,10", "38,18", "38,37")
FLOATS = ("FLOAT", "DOUBLE")
EXACT = Context(prec=120)


def bits(pattern: int) -> float:
    """Return the float with these 64 bits: NaN has many."""
    return struct.unpack("<d", struct.pack("<Q", pattern))[0]


NAN, MINUS_NAN, ODD_NAN = math.nan, bits(0xFFF8 << 48), bits(0x7FF8_0000_0000_0123)
SPECIAL = (
    *(
        NAN,
        MINUS_NAN,
        ODD_NAN,
        math.inf,
        -math.inf,
        0.0,
        -0.0,
        5e-324,
        -5e-324,
        2.2e-308,
        1e308,
        -1e308,
    ),
    *(
        1.7976931348623157e308,
        0.1,
        0.5,
        1.0,
        -1.0,
        3.0,
        5.0,
        7.0,
        100.0,
        1000.0,
        1e-5,
        2.0**53,
        2.0**63,
        -(2.0**63),
    ),
    *(1e19, 1e30, math.nextafter(3.0, 0.0), math.nextafter(7.0, 8.0), 16777217.0, 123456.789),
)
TEXTS = (
    "", "a", "b", "c", "A", "ß", "SS", "ss", "\u0131", "I", "\u0130", "i", "\xe9", "e\u0301", "\u0301", "\ufb01", "\u212b",
    "\xc5", "\uff11\uff12", "\u0663", "\u096d", "\u03ba", "\u03c2", "\u03c3", "nan", "NaN", "-nan", "inf", "-inf", "1e400",
    "-1e400", " 7 ", "+5", "007", "0", "-0", "1", "2", "7", "12", "-1", "1.0", "1.50", "1e2", "1_000", "0x10", "1d", "true",
    "false", "NULL", "NA", "\\N", "'", '"', 'te"a', '"a"', "a,b", "a;b", "a\tb", "\ud7ff", "\ue000", "\U0010ffff",
    "\U0001f600", "\u200b", "\ufeff", "\u2028", "\x85", "\x1f", "\x7f", "\r", "a\rb", "%", "_", "x%", "\\", "2024-01-01",
    "2024-02-30", " ", "  a", "9223372036854775807", "9223372036854775808", "1" * 40, "x" * 300, "a\0b",
)  # fmt: skip
NO_UNICODE = "a\udcff"
"""Stands for bytes that are no text, which some files can hold: a, and a byte that begins no character."""

SEVERAL_LINES = "one\ntwo\nthree\nfour"
"""A text with line breaks: in a file of lines it is several lines, of which none is a row of that many fields."""

ENUM = "ENUM('a', 'A', 'b', '7', 'ß')"
DAYS = tuple(
    map(
        dt.date.fromisoformat,
        ("1970-01-01", "2000-02-29", "0001-01-01", "9999-12-31", "2024-06-01", "1969-12-31"),
    )
)


class Far(int):
    """A date or a time beyond the calendar of Python: days, or microseconds, since 1970."""


FAR = {
    # 44 BC, the years 0 and 10000, and the ends of what 32 bits hold, where engines have infinity.
    "DATE": tuple(
        map(
            Far,
            (
                -735_600,
                -719_529,
                2_932_897,
                -(1 << 31) + 2,
                (1 << 31) - 2,
                (1 << 31) - 1,
                -(1 << 31) + 1,
            ),
        )
    ),
    "TIMESTAMP": tuple(
        map(
            Far,
            (
                -62_135_596_800_000_001,
                253_402_300_800_000_000,
                -(1 << 63) + 2,
                (1 << 63) - 2,
                (1 << 63) - 1,
            ),
        )
    ),
}
TIMES = (dt.time(0), dt.time(23, 59, 59, 999999), dt.time(12, 30))
STAMPS = tuple(
    map(
        dt.datetime.fromisoformat,
        (
            "1970-01-01 00:00:00",
            "2024-06-01 12:00:00.000001",
            "9999-12-31 23:59:59.999999",
            "0001-01-01 00:00:00",
        ),
    )
)


@cache
def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return width and scale of a decimal kind, None for others."""
    found = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind)
    return (int(found[1]), int(found[2])) if found else None


def random_value(rng: Any, kind: str) -> Any:
    """Return a value of a kind, an extreme one as likely as not; never NULL."""
    if kind in WHOLE:
        low, high = WHOLE[kind]
        edges = (
            low,
            low + 1,
            high,
            high - 1,
            low // 2,
            high // 2,
            math.isqrt(high),
            0,
            1,
            -1,
            2,
            3,
            5,
            7,
            100,
            1000,
            1 << 62,
            5 << 90,
        )
        value = (
            rng.choice(edges)
            if rng.random() < 0.8
            else rng.randint(low, high) >> rng.randrange(0, 120)
        )
        return min(max(value, low), high)
    if digits := decimal_digits(kind):
        width, scale = digits
        most = 10**width - 1
        edges = (0, most, -most, 1, -1, 5 * 10**scale, 10**scale, most // 2, 10 ** (width // 2))
        unscaled = (
            rng.choice(edges)
            if rng.random() < 0.8
            else rng.randint(-most, most) // 10 ** rng.randrange(width)
        )
        return Decimal(min(max(unscaled, -most), most)).scaleb(-scale, EXACT)
    if kind == "NUMERIC":  # any number of digits, which servers have
        return rng.choice(
            [
                Decimal(text)
                for text in (
                    "0",
                    "1",
                    "-1",
                    "0.1",
                    "1e30",
                    "5e-40",
                    "123456.789",
                    "NaN",
                    "Infinity",
                    "7",
                )
            ]
        )
    if kind == "DOUBLE":
        return rng.choice(SPECIAL)
    if kind == "FLOAT":
        return narrow(rng.choice(SPECIAL))
    if kind == "BOOLEAN":
        return rng.random() < 0.5
    if kind == ENUM:
        return rng.choice(("a", "A", "b", "7", "ß"))
    if kind == "VARCHAR" and rng.random() < 0.002:
        return NO_UNICODE
    pools: dict[str, tuple[Any, ...]] = {
        "DATE": DAYS,
        "TIME": TIMES,
        "TIMESTAMP": STAMPS,
        "VARCHAR": TEXTS,
    }
    return rng.choice(pools[kind])


def value_beyond(rng: Any, kind: str) -> Any:
    """Return a decimal with more digits than its type has, which 128 bits hold all the same."""
    width, scale = decimal_digits(kind) or (38, 0)
    beyond = rng.choice(
        (10**width, 10**width + 1, 10 ** min(width + 3, 38), (1 << 127) - 1, 1 << 64, 1 << 100)
    )
    return Decimal(max(beyond, 10**width) * rng.choice((1, -1))).scaleb(-scale, EXACT)


def is_beyond(kind: str, value: Any) -> bool:
    """Tell whether a decimal has more digits than its type."""
    digits = decimal_digits(kind)
    return (
        digits is not None
        and value is not None
        and value.scaleb(digits[1], EXACT).copy_abs() >= 10 ** digits[0]
    )


def narrow(value: float) -> float:
    """Return the float of 32 bits nearest to a value, as a float of 64; the sign of a NaN stays."""
    if math.isnan(value):
        return MINUS_NAN if math.copysign(1.0, value) < 0 else NAN
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def is_missing(value: Any) -> bool:
    """Tell whether a value is no number: NULL, or NaN of any kind."""
    return value is None or (isinstance(value, float | Decimal) and value != value)


def exact_number(value: Any) -> Fraction | float | None:
    """Return a number exactly, infinity as a float, None for what is missing."""
    if is_missing(value):
        return None
    if isinstance(value, float | Decimal) and math.isinf(value):
        return math.inf if value > 0 else -math.inf
    return Fraction(value)


def text_of(value: Any, kind: str, *, server: bool = False) -> str | None:
    """Return the text under which a value is a unit or a label.

    A decimal that has no digits before the point is written without one there, but for servers.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if digits := decimal_digits(kind):
        text = f"{value:.{digits[1]}f}"
        return text.replace("0.", ".", 1) if digits[0] == digits[1] and not server else text
    if isinstance(value, float):  # the number decides, not how it is written
        if math.isnan(value):
            return None
        return str(int(value)) if abs(value) <= 1 << 53 and value.is_integer() else repr(value)
    return str(value)


def identity(value: Any) -> Any:
    """Return what tells two values apart, down to the bits of a float."""
    return struct.pack("<d", value) if isinstance(value, float) else (type(value).__name__, value)


def to_json(value: Any) -> Any:
    """Return a value as JSON keeps it, exactly."""
    if isinstance(value, float):
        pattern = struct.unpack("<Q", struct.pack("<d", value))[0]
        return {"nan": f"{pattern:016x}"} if math.isnan(value) else {"float": value.hex()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, Far):
        return {"far": int(value)}
    for name, kind in (("timestamp", dt.datetime), ("date", dt.date), ("time", dt.time)):
        if isinstance(value, kind):
            return {name: value.isoformat()}
    return value


def from_json(value: Any) -> Any:
    """Return the value that JSON kept."""
    if not isinstance(value, dict):
        return value
    ((name, text),) = value.items()
    makers: dict[str, Any] = {
        "nan": lambda text: bits(int(text, 16)),
        "float": float.fromhex,
        "decimal": Decimal,
        "far": Far,
        "timestamp": dt.datetime.fromisoformat,
        "date": dt.date.fromisoformat,
        "time": dt.time.fromisoformat,
    }
    return makers[name](text)
