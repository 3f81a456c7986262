"""The days, months and years that a series asks once each, and which of them make up a time.

Claim: none; this is the calendar, and no noise. Proof of what is made of it:
docs/proofs/running-totals.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.ledger import PartRange, read_parts, show_parts
from sordino.ledger.renyi import NANO
from sordino.session.noise_choice import MeasureNoise

_LENGTHS = {"year": 4, "month": 7, "day": 10, "hour": 13}
"""So many characters of the text of a part name the period that it is in."""
LEVELS = {
    "hour": ("hour", "day", "month"),
    "day": ("day", "month", "year"),
    "month": ("month", "year"),
    "year": ("year",),
}
"""Which periods are asked, by the cut of the account. No charge has a year of hours."""
_SHARES = {
    ("hour", "day"): (48, 52),
    ("hour", "day", "month"): (35, 38, 27),
    ("day", "month"): (58, 42),
    ("day", "month", "year"): (42, 30, 28),
    ("month", "year"): (52, 48),
}
"""Hundredths of the epsilon for each of them, in proportion to the third root of how many of a
period a running figure has on average: then its mean squared error is least."""
_GAUSSIAN_SHARES = {
    ("hour", "day"): (49, 51),
    ("hour", "day", "month"): (35, 37, 28),
    ("day", "month"): (56, 44),
    ("day", "month", "year"): (40, 31, 29),
    ("month", "year"): (51, 49),
}
"""The same of Gaussian noise, which costs about the square of its epsilon: in proportion to the
fourth root. They are nearer to each other than those above, so they cost no more."""


@final
@dataclass(frozen=True, order=True)
class Node:
    """A period that is asked once.

    Attributes
    ----------
    parts : PartRange
        The parts of the account that it is.
    level : str
        "hour", "day", "month" or "year".
    cut : str
        That of the account.
    """

    parts: PartRange
    level: str
    cut: str

    @property
    def text(self) -> str:
        """How its parts are written."""
        return show_parts(self.parts, self.cut)


def check_levels(cut: str, levels: Sequence[str]) -> tuple[str, ...]:
    """Return the periods of a series, the shortest first.

    Raises
    ------
    InvalidParameter
        If they are none for an account that is cut so.
    """
    known = LEVELS[cut]
    found = tuple(level for level in known if level in levels)
    fits = len(found) == len(levels) and cut in found
    if not fits or (len(found) > 1 and found not in _SHARES):
        listed = ", ".join(map(repr, known))
        raise InvalidParameter(
            f"series.levels must be the first ones of {listed}, for an account that is cut to the "
            f"{cut}; got {shown(', '.join(map(str, levels)))}."
        )
    return found


def weigh_levels(levels: Sequence[str]) -> dict[str, float]:
    """Return how many periods of each level a running figure has on average, in proportion."""
    shares = _SHARES.get(tuple(levels), (100,))
    return {level: (share / 100) ** 3 for level, share in zip(levels, shares, strict=True)}


def split_epsilon(
    epsilon: Fraction, levels: Sequence[str], noise: MeasureNoise = "laplace"
) -> dict[str, Fraction]:
    """Return the epsilon of each period, in whole billionths that are `epsilon` together.

    Otherwise what is rounded up for a day would be missing for its month.
    """
    whole = epsilon.numerator * NANO // epsilon.denominator
    listed = _SHARES if noise == "laplace" else _GAUSSIAN_SHARES
    shares = listed.get(tuple(levels), (100,))
    parts = [whole * share // 100 for share in shares]
    parts[0] += whole - sum(parts)
    if min(parts) < 1:
        raise InvalidParameter(
            f"series.epsilon must be at least a billionth for each of {len(parts)} periods; got "
            f"{shown(epsilon)}."
        )
    return {level: Fraction(part, NANO) for level, part in zip(levels, parts, strict=True)}


def list_nodes(first: int, until: int, cut: str, levels: Sequence[str]) -> Iterator[Node]:
    """Yield all periods that have ended by a part, in the order of their ends.

    Parameters
    ----------
    first, until : int
        The first part of the series, and the last one that has ended.
    cut : str
        Of the account.
    levels : sequence of str
        As `check_levels` returns them.
    """
    for part in range(first, until + 1):
        for level in levels:
            node = find_node(part, first, cut, level)
            if node.parts.high == part:
                yield node


def find_node(part: int, first: int, cut: str, level: str) -> Node:
    """Return the period of a part; the first one begins with the series."""
    named = show_parts(PartRange(part, part), cut)[: _LENGTHS[level]]
    whole = read_parts(named, cut)
    return Node(PartRange(max(whole.low, first), whole.high), level, cut)


def index_nodes(nodes: Iterable[Node]) -> dict[int, list[Node]]:
    """Return periods by their first parts, of each the longest first."""
    found: dict[int, list[Node]] = {}
    for one in sorted(nodes, key=lambda one: -len(one.parts)):
        found.setdefault(one.parts.low, []).append(one)
    return found


def cover(low: int, high: int, known: Mapping[int, Sequence[Node]]) -> list[Node] | None:
    """Return periods that make up a time, as few as there are; None if some of it is missing.

    Parameters
    ----------
    low, high : int
        Its first and its last part.
    known : mapping of int to sequence of Node
        Those that may be taken, as `index_nodes` returns them. Of two one holds the other, or they
        have no part in common.
    """
    found, place = [], low
    while place <= high:
        # The longest one leaves out none that follows: a shorter one and more would lie in it.
        taken = next((one for one in known.get(place, ()) if one.parts.high <= high), None)
        if taken is None:
            return None
        found.append(taken)
        place = taken.parts.high + 1
    return found
