"""The documented choice of what counts of a unit, written again in Python, one rank after the other."""

from __future__ import annotations

import hashlib
import math

PRIME = 2**38 - 45
WHOLE = {f"{sign}{size}INT" for sign in ("", "U") for size in ("TINY", "SMALL", "BIG")} | {
    "INTEGER",
    "UINTEGER",
}


def choose(values, names, most, salt):
    """Return the values of an owner that count, in order.

    `names` are what the offset follows from: texts, or a unit that is a whole number and perhaps the place of a group.
    """
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    offset = (text_offset if isinstance(names[0], str) else whole_offset)(names, salt) % len(ordered)
    return [value for rank, value in enumerate(ordered) if (rank * most + offset) % len(ordered) < most]


def name_in(source, column):
    """Return what names a unit, by the type of its column: itself where a schema is stored, else its text."""
    in_memory = source.kind in {"frame", "lazy frame", "relation"}
    return int if source.columns[column] in WHOLE and not in_memory else str


def text_offset(names, salt):
    """Return the first sixty bits of a hash."""
    text = salt.hex() + "".join(f"{len(name)}:{name}" for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 4


def whole_offset(names, salt):
    """Return a secret linear function of remainders, which have the sign of the unit, modulo a prime."""
    unit, *places = names
    remainders = [math.copysign(abs(unit) % modulus, unit) for modulus in (4194301, 4194287, 4194277)]
    first, *factors = factors_of(salt, 4 + len(places))
    terms = zip(factors, [*map(int, remainders), *places], strict=True)
    return (first + sum(factor * number for factor, number in terms)) % PRIME


def factors_of(salt, count):
    found = [hashlib.sha256(f"factor {place} of ".encode() + salt).hexdigest() for place in range(count)]
    return [int(one, 16) % PRIME for one in found]
