"""The one query of a counting question; every engine is asked the same, in its own words."""

from __future__ import annotations

from sordino.data._engine import literal
from sordino.data._sensitivity import Kind
from sordino.data._unit import PrivacyUnit
from sordino.data._words import Words


def placed(kept: str, start: int, size: int, words: Words, *, unit: bool) -> str:
    """Return the rows whose item is the usual text of a number of a range, with its position as the item, as text."""
    more = ", unit" if unit else ""
    position = f"{words.whole.format('item')} - ({start})"
    return (
        f"(SELECT {words.shown.format('place')} AS item{more} FROM (SELECT {position} AS place{more} FROM {kept} AS kept) AS found "
        f"WHERE place >= 0 AND place < {size})"
    )


def count_query(kind: Kind, unit: PrivacyUnit, kept: str, salt: bytes, words: Words, *, listed: bool) -> str:
    """Return the query; `kept` has the columns item and unit, as texts or NULL. A domain that is not listed has positions as items.

    Missing values are left out by the counts themselves (`count(unit)`, a join on `item`), which costs nothing.
    """
    if kind == "rows":
        if unit.max_rows is None:
            return f"SELECT count(*) AS n FROM {kept} AS kept"
        bounded = f"(SELECT least(count(unit), {unit.max_rows}) AS n FROM {kept} AS kept GROUP BY unit)"
        return f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS n FROM {bounded} AS bounded"
    if kind == "units":
        return f"SELECT count({'*' if unit.column is None else 'DISTINCT unit'}) AS n FROM {kept} AS kept"
    if unit.column is None:
        counted = f"SELECT item, count(*) AS n FROM {kept} AS kept GROUP BY item"
    elif unit.max_rows is None:
        counted = f"SELECT item, count(unit) AS n FROM (SELECT DISTINCT item, unit FROM {kept} AS kept) AS pairs GROUP BY item"
    else:
        counted = f"SELECT item, count(*) AS n FROM ({_chosen(kept, unit.max_rows, salt, words, listed=listed)}) AS chosen GROUP BY item"
    if not listed:
        return f"SELECT CAST(item AS BIGINT) AS position, n FROM ({counted}) AS counted WHERE n > 0"
    return f"SELECT position, n FROM ({counted}) AS counted JOIN labels ON item = label"


def _chosen(kept: str, most: int, salt: bytes, words: Words, *, listed: bool) -> str:
    """Return at most `most` distinct items of each unit.

    The order depends on the salt, the unit and the item alone: not on where a row stands, and not on any other unit, so adding or
    removing one unit changes no other unit's choice. Items outside the domain are not chosen: they would waste the bound.
    """
    key = words.hashed.format(f"{literal(salt.hex())} || length(unit) || ':' || unit || item")
    inside = " AND item IN (SELECT label FROM labels)" if listed else ""
    pairs = f"SELECT DISTINCT item, unit FROM {kept} AS kept WHERE unit IS NOT NULL{inside}"
    place = f"row_number() OVER (PARTITION BY unit ORDER BY {key}, item) AS place"
    return f"SELECT item FROM (SELECT item, {place} FROM ({pairs}) AS pairs) AS placed WHERE place <= {most}"
