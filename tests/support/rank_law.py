"""The documented choice of what counts of a unit, written again in Python, one rank after the other."""

from __future__ import annotations

import hashlib
import re
from functools import cache

PRIME = 2**31 - 1


def choose(values, owner, most, salt):
    """Return the values of an owner that count, in order: of the text of a unit, and perhaps of the place of a group."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    offset = find_offset(owner, salt) % len(ordered)
    return [
        value for rank, value in enumerate(ordered) if (rank * most + offset) % len(ordered) < most
    ]


def find_offset(owner, salt):
    """Return what shifts the ranks of an owner: a secret polynomial of its key."""
    unit, *places = owner
    key = find_key(unit, salt)
    for place in places:
        of_key, of_place, first = factors_of(salt, 3, "group")
        key = (of_key * key + of_place * place + first) % PRIME
    factors = factors_of(salt, 4, "offset in groups" if places else "offset")
    return sum(factor * key ** (3 - place) for place, factor in enumerate(factors)) % PRIME


def find_key(unit, salt):
    """Return a number of a unit: of a whole number of 64 bits a linear function of its pieces, else a hash."""
    if re.fullmatch("0|-?[1-9][0-9]*", unit) and -(2**63) <= int(unit) < 2**63:
        number = int(unit)
        # Pieces of 22 bits; the last one has the sign.
        pieces = [number % 2**22, number // 2**22 % 2**22, number // 2**44]
        first, *factors = factors_of(salt, 4, "key")
        return (
            first + sum(factor * piece for factor, piece in zip(factors, pieces, strict=True))
        ) % PRIME
    # The first sixty bits.
    return (
        int.from_bytes(hashlib.sha256((salt.hex() + unit).encode()).digest()[:8], "big") >> 4
    ) % PRIME


@cache
def factors_of(salt, count, name):
    names = [f"{name}, {place} of {count}: ".encode() for place in range(count)]
    return [int(hashlib.sha256(one + salt).hexdigest(), 16) % PRIME for one in names]
