"""Writes SQL that chooses which rows of a unit count: at most so many, in at most so many groups.

The choice follows the law of ranks (`rank_law`): a function of the unit's own rows and a salt
alone. It does not depend on where a row stands, or on any other unit: adding or removing one unit
changes no other unit's choice. Rows that hold the same values are interchangeable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sordino.questions.rank_law import Draw, choose_groups, choose_in_sets, choose_ranks, fits_sets


@final
@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much of a unit counts.

    Parameters
    ----------
    rows : int or None
        At most so many rows of a unit, in each of its groups. None: every row is a unit of its own,
        and there is no column unit.
    groups : int or None
        In at most so many groups. None: in any number of them, and `rows` of a unit count in all of
        them together.
    grouped : bool
        Whether there are groups.
    listed : int, optional
        There are at most so many groups.
    """

    rows: int | None
    groups: int | None
    grouped: bool
    listed: int | None = None

    @property
    def in_each(self) -> bool:
        """Whether `rows` is about each group of a unit.

        Without a bound on groups it is about all of them.
        """
        return self.grouped and self.groups is not None

    @property
    def chosen_groups(self) -> int | None:
        """Of how many groups a unit has some are chosen; None: all of them count."""
        # No unit is in more groups than there are: where all of them may count, there is nothing to
        # choose.
        if self.groups is not None and (self.listed is None or self.groups < self.listed):
            return self.groups
        return None

    @property
    def columns(self) -> list[str]:
        """The columns of rows of which some count."""
        return ["x", "grp", "unit"] if self.grouped else ["x", "unit"]


def keep_owned(kept: str, bounds: Bounds) -> str:
    """Return the rows that have a unit, as a SELECT in parentheses."""
    return f"(SELECT {', '.join(bounds.columns)} FROM {kept} AS kept WHERE unit IS NOT NULL)"


def choose_groups_of(kept: str, bounds: Bounds, draw: Draw) -> str:
    """Return the rows that have a unit and a group of it that counts, as a SELECT in parentheses.

    Parameters as for `bounded`.
    """
    known = keep_owned(kept, bounds)
    if bounds.chosen_groups is None:
        return known
    choose = choose_in_sets if fits_sets(bounds.listed, draw.words) else choose_groups
    return choose(known, bounds.columns, most=bounds.chosen_groups, draw=draw)


def bounded(kept: str, bounds: Bounds, draw: Draw) -> str:
    """Return the rows that count, as a SELECT in parentheses with x and, in groups, grp.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses. It has the columns x (no NaN, one zero), unit
        (rows in which it is NULL are dropped) and, in groups, grp.
    bounds : Bounds
        How many.
    draw : Draw
        What decides.
    """
    # Every row is a unit: all of them count, in the one group that each is in
    # (docs/proofs/numbers.md, 1).
    if bounds.rows is None:
        return kept
    known = choose_groups_of(kept, bounds, draw)
    counted = choose_ranks(
        known,
        taken=["grp", "x"] if bounds.grouped else ["x"],
        owner=["unit", "grp"] if bounds.in_each else ["unit"],
        order=["grp", "x"] if bounds.grouped and not bounds.in_each else ["x"],
        most=bounds.rows,
        draw=draw,
    )
    return f"({counted})"
