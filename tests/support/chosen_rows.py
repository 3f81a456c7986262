"""Rows of units as they are chosen: by the law, written again, and in pieces of any size on their way."""

from __future__ import annotations

from collections import defaultdict

from sordino.questions import rank_choice
from sordino.sources.number_stream import read_columns
from support.rank_law import choose

SALT = b"0123456789abcdef"


def choose_numbers(rows, most):
    """Return the numbers that count, of rows of a unit and a number each; None is one that is missing."""
    owned = defaultdict(list)
    for unit, number in rows:
        # What is missing has the first ranks.
        owned[unit].append((number is not None, number or 0))
    chosen = (choose(numbers, [str(unit)], most, SALT) for unit, numbers in owned.items())
    return [number if known else None for numbers in chosen for known, number in numbers]


def read_in_pieces(monkeypatch, piece):
    """Have rows arrive in pieces of so many, and in empty ones; return the list of the formats in which units will be read."""
    read = []

    def cut(made, formats):
        read.append(formats[0])
        for columns in read_columns(made, formats):
            yield [one.cut(0, 0) for one in columns]
            for start in range(0, len(columns[0].values), piece):
                yield [one.cut(start, min(start + piece, len(one.values))) for one in columns]

    monkeypatch.setattr(rank_choice, "read_columns", cut)
    return read
