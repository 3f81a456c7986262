"""The documented choice of what counts of a unit, written again in Python, one rank after the other."""

from __future__ import annotations

import hashlib


def choose(values, names, most, salt):
    """Return the values of an owner that count, in order; `names` are the texts from which the offset follows."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return ordered
    text = salt.hex() + "".join(f"{len(name)}:{name}" for name in names)
    # The first sixty bits of the hash.
    offset = (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 4) % len(ordered)
    return [value for rank, value in enumerate(ordered) if (rank * most + offset) % len(ordered) < most]
