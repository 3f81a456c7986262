"""Which rows of a unit count: at most so many, in at most so many groups, chosen by a keyed hash of what the rows hold.

The choice is a function of the unit's own rows and a salt alone: not of where a row stands, and not of any other unit, so adding or
removing one unit changes no other unit's choice. Rows that hold the same are interchangeable: they are numbered, and it does not matter
which of them has which number. So each row of a unit has the same chance.
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
        A SELECT in parentheses with x (numbers that are equal have one text: no NaN, one zero), unit (NULL rows are dropped) and, in
        groups, grp and item; NULL units are no units.
    rows : int or None
        At most so many rows of a unit count (of each of its groups); None: every row is a unit of its own and there is no column unit.
    groups : int or None
        In at most so many groups; None: in all of them.
    floats : bool
        Whether the numbers are floats. Of these, whole numbers have the text of whole numbers: which of the two a frame has may depend on
        other rows.
    """
    if rows is None:
        return kept
    names = "grp, item, " if grouped else ""
    known = f"(SELECT x, {names}unit FROM {kept} AS kept WHERE unit IS NOT NULL)"
    whose = f"{literal(salt.hex())} || length(unit) || ':' || unit"
    if grouped and groups is not None:
        order = words.hashed.format(f"{whose} || item")
        place = f"row_number() OVER (PARTITION BY unit ORDER BY {order}, grp) AS place"
        first = (
            f"SELECT unit, grp, {place} FROM (SELECT DISTINCT unit, grp, item FROM {known} AS pairs) AS pairs"
        )
        chosen = f"(SELECT unit AS one, grp AS its FROM ({first}) AS placed WHERE place <= {groups})"
        known = f"(SELECT x, {names}unit FROM {known} AS known JOIN {chosen} AS chosen ON unit = one AND grp = its)"
    inside = "unit, grp" if grouped else "unit"
    label = "length(item) || ':' || item || " if grouped else ""
    text = (words.float_text if floats else words.shown).format("x")
    key = words.hashed.format(f"{whose} || {label}copy || ':' || coalesce({text}, '')")
    copies = (
        f"SELECT x, {names}unit, row_number() OVER (PARTITION BY {inside}, x) AS copy FROM {known} AS known"
    )
    placed = f"SELECT *, row_number() OVER (PARTITION BY {inside} ORDER BY {key}, x, copy) AS place FROM ({copies}) AS copies"
    return f"(SELECT {'grp, ' if grouped else ''}x FROM ({placed}) AS placed WHERE place <= {rows})"
