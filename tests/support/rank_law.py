"""The documented choice of what counts of a unit, written again in Python, one rank after the other."""

from __future__ import annotations

import hashlib
import math
import re

PRIME = 2**38 - 45


def choose(values, names, most, salt):
    """Return the values of an owner that count, in order.

    `names` are what the offset follows from: the text of a unit, and perhaps a group, as its place and its label.
    """
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    offset = find_offset(names, salt) % len(ordered)
    return [value for rank, value in enumerate(ordered) if (rank * most + offset) % len(ordered) < most]


def find_offset(names, salt):
    """Return what shifts the ranks of an owner: of a whole number of 64 bits by arithmetic, else by a hash."""
    unit, *groups = names
    if re.fullmatch("0|-?[1-9][0-9]*", unit) and -(2**63) <= int(unit) < 2**63:
        return whole_offset([int(unit), *(place for place, _ in groups)], salt)
    # The first sixty bits.
    text = salt.hex() + "".join(f"{len(name)}:{name}" for name in (unit, *(label for _, label in groups)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 4


def whole_offset(names, salt):
    """Return a secret linear function of remainders, which have the sign of the unit, modulo a prime."""
    unit, *places = names
    remainders = [int(math.copysign(abs(unit) % modulus, unit)) for modulus in (4194301, 4194287, 4194277)]
    first, *factors = factors_of(salt, 4 + len(places))
    return (
        first + sum(factor * number for factor, number in zip(factors, [*remainders, *places], strict=True))
    ) % PRIME


def factors_of(salt, count):
    names = [f"factor {place} of {count} of ".encode() for place in range(count)]
    return [int(hashlib.sha256(name + salt).hexdigest(), 16) % PRIME for name in names]
