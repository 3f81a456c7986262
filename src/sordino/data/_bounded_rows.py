"""Writes the SQL that chooses which rows of a unit count: at most so many rows, in at most so many groups.

The choice follows a keyed hash of what the rows hold. It is a function of the unit's own rows and a salt
alone. It does not depend on where a row stands, or on any other unit: adding or removing one unit changes no
other unit's choice. Rows that hold the same values are interchangeable. They are numbered, and it does not
matter which of them gets which number. So each row of a unit has the same chance.
"""

from __future__ import annotations

from sordino.data._engine import literal
from sordino.data._words import Words


def bounded(
    kept: str, *, rows: int | None, groups: int | None, grouped: bool, salt: bytes, words: Words, floats: bool
) -> str:
    """Return the rows that count, as a SELECT in parentheses with x and, in groups, grp.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses. It has the columns x (equal numbers have one text: no NaN, one zero), unit
        (rows in which it is NULL are dropped) and, in groups, grp and item.
    rows : int or None
        At most so many rows of a unit count, in each of its groups. None: every row is a unit of its own, and
        there is no column unit.
    groups : int or None
        In at most so many groups; None: in all of them.
    floats : bool
        Whether the numbers are floats. Floats that are whole numbers get the text of whole numbers, because
        other rows may decide which of the two types a frame has.
    """
    if rows is None:
        return kept
    names = "grp, item, " if grouped else ""
    known = f"(SELECT x, {names}unit FROM {kept} AS kept WHERE unit IS NOT NULL)"
    # The length of the unit stands in front of it, so that no two pairs of unit and label make one text.
    whose = f"{literal(salt.hex())} || length(unit) || ':' || unit"
    if grouped and groups is not None:
        # Distinct groups, ranked within the unit: how often a
        # group occurs does not matter, and neither does where.
        order = words.hashed.format(f"{whose} || item")
        place = f"row_number() OVER (PARTITION BY unit ORDER BY {order}, grp) AS place"
        first = (
            f"SELECT unit, grp, {place} FROM (SELECT DISTINCT unit, grp, item FROM {known} AS pairs) AS pairs"
        )
        chosen = f"(SELECT unit AS one, grp AS its FROM ({first}) AS placed WHERE place <= {groups})"
        known = (
            f"(SELECT x, {names}unit FROM {known} AS known"
            f" JOIN {chosen} AS chosen ON unit = one AND grp = its)"
        )
    inside = "unit, grp" if grouped else "unit"
    label = "length(item) || ':' || item || " if grouped else ""
    # Equal numbers must have one text: otherwise the hash
    # of a copy would depend on which copy the engine took.
    text = (words.float_text if floats else words.shown).format("x")
    key = words.hashed.format(f"{whose} || {label}copy || ':' || coalesce({text}, '')")
    # Equal rows get the numbers 1, 2, ... in any order. Each copy
    # has a hash of its own, so each row has the same chance.
    copies = (
        f"SELECT x, {names}unit, row_number() OVER (PARTITION BY {inside}, x) AS copy FROM {known} AS known"
    )
    # After the hash come x and copy: the order is strict even
    # if two hashes are equal, so the first rows are one set.
    placed = (
        f"SELECT *, row_number() OVER (PARTITION BY {inside} ORDER BY {key}, x, copy) AS place"
        f" FROM ({copies}) AS copies"
    )
    return f"(SELECT {'grp, ' if grouped else ''}x FROM ({placed}) AS placed WHERE place <= {rows})"
