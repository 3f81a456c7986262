"""What may be called in place of a column: which functions there are, and which values they have.

Every call is a function of one row whose value is a text, or NULL (`computed_columns` writes it).
Some have few values by their words alone: these are public, and can be a domain.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.sources.predicates.condition import Call
from sordino.unit_columns import read_offset

USAGES = {
    **{
        name: f"{name} is written {name}(column), or {name}(column at 'Area/City') of a time with "
        "a zone"
        for name in (
            "year", "quarter", "month", "week", "day", "day_hour", "weekday", "hour", "minute",
            "month_of_year", "quarter_of_year",
        )
    },
    "bin": "bin is written bin(column, 18, 30, 65), with rising numbers",
    "lower": "lower is written lower(column)",
    "trim": "trim is written trim(column)",
    "length": "length is written length(column)",
    "left": "left is written left(column, 3), with how many characters are kept",
    "part": "part is written part(column, '/', 2), with what stands between parts and which one",
    "host": "host is written host(column)",
    "map": "map is written map(column, 'a' = 'x', 'b' = 'y', else = 'z'), with texts",
    "coalesce": "coalesce is written coalesce(column, 'text'), with columns and texts",
}  # fmt: skip
"""How each function is written: the beginning of a message about one that is not."""

DATE_PARTS = frozenset(list(USAGES)[:11])
"""Functions of a date or a time."""

LONGEST_TEXT = 1 << 14
"""Texts of more bytes are missing in a call.

On some servers one of hundreds of megabytes would end a query for all rows.
"""

HOST = "^[A-Za-z][A-Za-z0-9+.-]{0,20}://([^/?#@]*@)?([A-Za-z0-9.-]{1,253})(:[0-9]{0,5})?([/?#]|$)"
"""An address; its second group is the host. It means the same to every engine and to Python."""

MOST_EDGES = 1000
# Neither digits nor signs: PostgreSQL takes Foo/Bar+3 for a zone of its own making.
_ZONE = re.compile(r"UTC|[A-Za-z_]+(?:/[A-Za-z_]+(?:-[A-Za-z_]+)*){1,2}", re.ASCII)
_EDGE = re.compile(r"-?(?:[0-9]{1,38}(?:\.[0-9]{0,38})?|\.[0-9]{1,38})", re.ASCII)
_COUNT = re.compile("[1-9][0-9]{0,3}", re.ASCII)

_IMAGES = {
    "weekday": tuple("1234567"),
    "hour": tuple(f"{hour:02}" for hour in range(24)),
    "minute": tuple(f"{minute:02}" for minute in range(60)),
    "month_of_year": tuple(f"{month:02}" for month in range(1, 13)),
    "quarter_of_year": tuple("1234"),
}


def check_call(call: Call) -> None:
    """Refuse literals that a function does not take.

    Raises
    ------
    InvalidParameter
        If they are none of those in `USAGES`.
    """
    words, fits = call.words, True
    if call.function == "bin":
        fits = 1 <= len(words) <= MOST_EDGES and all(map(_EDGE.fullmatch, words))
        edges = [Fraction(word) for word in words] if fits else []
        # Of edges that are written alike nobody could tell the bins apart.
        written = {_name_edge(float(edge)) for edge in edges}
        fits &= all(low < high for low, high in pairwise(edges)) and len(written) == len(edges)
    elif call.function == "map":
        keys = words[::2]
        fits = bool(keys)
        if twice := [key for key in keys if keys.count(key) > 1]:
            raise InvalidParameter(f"map must have each text once; got {shown(twice[0])} again.")
    elif call.function == "part":
        fits = len(words) == 2 and words[0] != "" and bool(_COUNT.fullmatch(words[1]))
    elif call.function == "left":
        fits = len(words) == 1 and bool(_COUNT.fullmatch(words[0]))
    elif call.function == "coalesce":
        fits = len(call.operands) > 1
    else:
        fits = not words
    if not fits:
        raise InvalidParameter(
            f"{USAGES[call.function]}; got {', '.join(map(shown, words[:3])) or 'nothing'}"
            f"{', and more' if len(words) > 3 else ''}."
        )
    zone = call.zone
    if zone is not None and read_offset(zone) is None and not _ZONE.fullmatch(zone):
        raise InvalidParameter(
            "A time zone must be UTC, an area and a city such as Europe/Zurich, or an offset such "
            f"as +01:00; got {shown(zone)}."
        )


def list_image(call: Call) -> tuple[str, ...] | None:
    """Return all values that a call can have, as they are shown; None where rows decide."""
    if call.function == "bin":
        return name_bins([*map(float, call.words)])
    if call.function == "map":
        other = () if call.otherwise is None else (call.otherwise,)
        return tuple(dict.fromkeys((*call.words[1::2], *other)))
    return _IMAGES.get(call.function)


def name_bins(edges: Sequence[float]) -> tuple[str, ...]:
    """Return what bins are called: below the first edge, between two, and from the last one on."""
    named = [_name_edge(edge) for edge in edges]
    between = [f"{low} to below {high}" for low, high in pairwise(named)]
    return (f"below {named[0]}", *between, f"{named[-1]} or more")


def _name_edge(edge: float) -> str:
    return f"{edge:.12g}"
