"""Writes the one SQL query of a counting question; every engine is asked the same, in its own words."""

from __future__ import annotations

from sordino.data._engine import literal
from sordino.data._sensitivity import Kind
from sordino.data._unit import PrivacyUnit
from sordino.data._words import Words


def placed(kept: str, start: int, size: int, words: Words, *, unit: bool) -> str:
    """Return the rows whose item is a number of a range, written as usual.

    Their item is now its position in the range, as text.
    """
    more = ", unit" if unit else ""
    position = f"{words.whole.format('item')} - ({start})"
    # Other values have no place (NULL), or one outside the range: the comparisons leave all such rows out.
    return (
        f"(SELECT {words.shown.format('place')} AS item{more} FROM "
        f"(SELECT {position} AS place{more} FROM {kept} AS kept) AS found "
        f"WHERE place >= 0 AND place < {size})"
    )


def count_query(kind: Kind, unit: PrivacyUnit, kept: str, salt: bytes, words: Words, *, listed: bool) -> str:
    """Return the query; `kept` has the columns item and unit, as texts or NULL.

    If the domain is not listed, the items are positions. The counts themselves leave out missing values
    (`count(unit)`, a join on `item`), which costs nothing.
    """
    if kind == "rows":
        if unit.max_rows is None:
            return f"SELECT count(*) AS n FROM {kept} AS kept"
        # The cap is on the count of each unit, not on which rows
        # count: rows are interchangeable here, so no salt is used.
        bounded = f"(SELECT least(count(unit), {unit.max_rows}) AS n FROM {kept} AS kept GROUP BY unit)"
        # The sum over no rows is NULL, and engines widen the type of sums: the answer has 64 bits anyway.
        return f"SELECT CAST(coalesce(sum(n), 0) AS BIGINT) AS n FROM {bounded} AS bounded"
    if kind == "units":
        return f"SELECT count({'*' if unit.column is None else 'DISTINCT unit'}) AS n FROM {kept} AS kept"
    if unit.column is None:
        counted = f"SELECT item, count(*) AS n FROM {kept} AS kept GROUP BY item"
    elif unit.max_rows is None:
        # DISTINCT, so that an item counts a unit once, however many of its rows have the item.
        counted = (
            f"SELECT item, count(unit) AS n FROM (SELECT DISTINCT item, unit FROM {kept} AS kept) AS pairs"
            " GROUP BY item"
        )
    else:
        counted = (
            f"SELECT item, count(*) AS n FROM ({_chosen(kept, unit.max_rows, salt, words, listed=listed)})"
            " AS chosen GROUP BY item"
        )
    if not listed:
        # Only counts that are not 0 are handed on. An item whose rows all lack a unit is counted 0 times.
        return f"SELECT CAST(item AS BIGINT) AS position, n FROM ({counted}) AS counted WHERE n > 0"
    return f"SELECT position, n FROM ({counted}) AS counted JOIN labels ON item = label"


def _chosen(kept: str, most: int, salt: bytes, words: Words, *, listed: bool) -> str:
    """Return at most `most` distinct items of each unit.

    The order depends on the salt, the unit and the item alone. It does not depend on where a row stands, or
    on any other unit: adding or removing one unit changes no other unit's choice. Items outside the domain
    are not chosen: they would waste the bound.
    """
    # The length of the unit stands in front of it, so that no two pairs of unit and item make one text.
    key = words.hashed.format(f"{literal(salt.hex())} || length(unit) || ':' || unit || item")
    inside = " AND item IN (SELECT label FROM labels)" if listed else ""
    pairs = f"SELECT DISTINCT item, unit FROM {kept} AS kept WHERE unit IS NOT NULL{inside}"
    # The item comes after the hash, so that the order is strict even if two hashes are equal.
    place = f"row_number() OVER (PARTITION BY unit ORDER BY {key}, item) AS place"
    return f"SELECT item FROM (SELECT item, {place} FROM ({pairs}) AS pairs) AS placed WHERE place <= {most}"
