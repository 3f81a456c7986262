"""The documented choice of what counts of a unit, written again in Python, one rank after the other."""

from __future__ import annotations

import hashlib
import math
import re

PRIME = 2**31 - 1


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
    """Return what shifts the ranks of an owner: a secret polynomial of its key."""
    key = find_key(names, salt)
    factors = factors_of(salt, 4, f"polynomial of {len(names)}")
    return sum(factor * key ** (3 - place) for place, factor in enumerate(factors)) % PRIME


def find_key(names, salt):
    """Return a number of an owner: of a whole number of 64 bits a linear function of remainders, else a hash."""
    unit, *groups = names
    if re.fullmatch("0|-?[1-9][0-9]*", unit) and -(2**63) <= int(unit) < 2**63:
        number = int(unit)
        parts = [int(math.copysign(abs(number) % modulus, number)) for modulus in (4194301, 4194287, 4194277)]
        parts += [place for place, _ in groups]
        first, *factors = factors_of(salt, 1 + len(parts), "key")
        return (first + sum(factor * part for factor, part in zip(factors, parts, strict=True))) % PRIME
    # The first sixty bits.
    text = salt.hex() + "".join(f"{len(name)}:{name}" for name in (unit, *(label for _, label in groups)))
    return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 4) % PRIME


def factors_of(salt, count, name):
    names = [f"{name}, {place} of {count}: ".encode() for place in range(count)]
    return [int(hashlib.sha256(one + salt).hexdigest(), 16) % PRIME for one in names]
