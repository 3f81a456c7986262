"""Chooses which rows, groups or items of a unit count, where it has more of them than may count.

The law of ranks: what a unit has is put in order, at ranks 0 to n - 1. If n is more than M, rank i counts if
(i * M + u) mod n < M. The offset u, from 0 to n - 1, follows from a secret salt and the unit. Exactly M ranks
count, each with chance M / n, and equal values may change places. So the choice is a function of what the
unit has itself and of the salt: docs/proofs/numbers.md, 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from sordino.data.sources.engine import literal
from sordino.data.sources.words import Words

_NARROW = 1 << 20
"""With at most so many, a product with any rank of a table fits into 64 bits."""

_UNBOUNDED = 1 << 62
"""No unit has so many rows: a larger bound is none."""


def choose_ranks(
    kept: str,
    *,
    taken: Sequence[str],
    owner: Sequence[str],
    named: Sequence[str],
    order: str,
    most: int,
    salt: bytes,
    words: Words,
    names: str = "",
) -> str:
    """Return a SELECT of the columns `taken`, of at most `most` rows of each owner.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, or a name. Its first column of `owner` is never NULL.
    taken : sequence of str
        Columns that are wanted.
    owner : sequence of str
        Columns that say whose a row is: the unit, and perhaps its group.
    named : sequence of str
        Columns with the names of the owner, from which the offset follows; equal within an owner.
    order : str
        A column of `kept` by which the rows of an owner are ordered; rows that are equal there are equal in
        every column that is taken.
    most : int
        At least 1.
    salt : bytes
        Secret.
    words : Words
        The words of the engine.
    names : str
        A SELECT in parentheses that has some of `named`, each once for an owner: what is left of them is in
        `owner`, and they are joined by the columns that both have. Not for an engine that keeps no part of a
        query.
    """
    if not words.materialized:
        return _choose_in_windows(kept, taken, owner, named, order, most, salt, words, alike=False)
    tables = list_marking(
        kept,
        columns=list(dict.fromkeys([*taken, order])),
        owner=owner,
        named=named,
        most=most,
        salt=salt,
        words=words,
        names=names,
    )
    return f"WITH {_write_tables(tables)} {pick_ranks(taken, order=order, most=most, words=words)}"


def _write_tables(tables: Sequence[tuple[str, str]]) -> str:
    """Return the tables of `list_marking` as parts of a query."""
    *kept_once, (marked, query) = tables
    # Those are made once, and used several times: a stream of rows cannot be read again. The last one is
    # written where it is used, twice: it joins the others, which takes less than to keep all rows again.
    made = "".join(f"{name} AS MATERIALIZED ({query}), " for name, query in kept_once)
    return f"{made}{marked} AS NOT MATERIALIZED ({query})"


def list_marking(
    kept: str,
    *,
    columns: Sequence[str],
    owner: Sequence[str],
    named: Sequence[str],
    most: int,
    salt: bytes,
    words: Words,
    names: str = "",
) -> list[tuple[str, str]]:
    """Return tables that say which rows are those of owners with more than may count.

    Each comes with its query over those before it. The last one, `marked`, has the columns and a number
    `holder`: NULL where all rows of the owner count.

    Parameters
    ----------
    kept, owner, named, most, salt, words, names
        As in `choose_ranks`.
    columns : sequence of str
        Columns that are wanted, or that rows are ordered by.
    """
    whose = ", ".join(owner)
    # Only those who have more than may count are put in order: sorting is what takes time. They are numbered,
    # in any order: rows are sorted by a number faster than by a text.
    counted = (
        f"SELECT {whose}, count(*) AS many FROM kept GROUP BY {whose}"
        f" HAVING count(*) > {min(most, _UNBOUNDED)}"
    )
    crowded = (
        f"SELECT {whose}, many, {write_offset(named, salt, words)} % many AS shift,"
        f" row_number() OVER () AS holder"
        f" FROM ({counted}) AS counted{f' NATURAL JOIN {names} AS names' if names else ''}"
    )
    marked = (
        f"SELECT {', '.join(f'kept.{name}' for name in columns)}, holder"
        f" FROM kept LEFT JOIN crowded ON {' AND '.join(f'kept.{name} = crowded.{name}' for name in owner)}"
    )
    needed = ", ".join(dict.fromkeys([*columns, *owner]))
    return [
        ("kept", f"SELECT {needed} FROM {kept} AS kept"),
        ("crowded", crowded),
        ("marked", marked),
    ]


def pick_ranks(taken: Sequence[str], *, order: str, most: int, words: Words) -> str:
    """Return a SELECT of the columns `taken` of the rows that count, from the tables of `list_marking`."""
    return (
        f"SELECT {', '.join(taken)} FROM marked WHERE holder IS NULL"
        f" UNION ALL {_pick_crowded(taken, order, most, words)}"
    )


def _pick_crowded(taken: Sequence[str], order: str, most: int, words: Words) -> str:
    """Return the part of `pick_ranks` about owners that have more than may count."""
    most = min(most, _UNBOUNDED)
    ranked = (
        f"SELECT {', '.join(taken)}, holder, row_number() OVER"
        f" (PARTITION BY holder ORDER BY {order} NULLS FIRST) - 1 AS place"
        " FROM marked WHERE holder IS NOT NULL"
    )
    return (
        f"SELECT {', '.join(f'ranked.{name}' for name in taken)}"
        f" FROM ({ranked}) AS ranked JOIN crowded ON ranked.holder = crowded.holder"
        f" WHERE {write_choice(most, words)} < {most}"
    )


def choose_groups(kept: str, columns: Sequence[str], *, most: int, salt: bytes, words: Words) -> str:
    """Return a SELECT of all rows of at most `most` groups of each unit, in parentheses.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, with columns unit, which is never NULL, and grp.
    columns : sequence of str
        What is wanted of it.
    most, salt, words
        As in `choose_ranks`.
    """
    if not words.materialized:
        chosen = _choose_in_windows(kept, columns, ["unit"], ["unit"], "grp", most, salt, words, alike=True)
        return f"({chosen})"
    # Distinct groups: how often one occurs in the unit does not matter, and neither does where.
    tables = list_marking(
        "(SELECT DISTINCT unit, grp FROM known)",
        columns=["unit", "grp"],
        owner=["unit"],
        named=["unit"],
        most=most,
        salt=salt,
        words=words,
    )
    wanted = ", ".join(f"known.{name}" for name in columns)
    # Rows are compared with groups that were chosen only where a unit has more than may count: they are few.
    return (
        f"(WITH known AS MATERIALIZED (SELECT {', '.join(columns)} FROM {kept} AS given),"
        f" {_write_tables(tables)}"
        f" SELECT {wanted} FROM known LEFT JOIN crowded ON known.unit = crowded.unit WHERE holder IS NULL"
        f" UNION ALL SELECT {wanted} FROM known"
        f" JOIN ({_pick_crowded(['unit', 'grp'], 'grp', most, words)}) AS chosen"
        " ON known.unit = chosen.unit AND known.grp = chosen.grp)"
    )


def _choose_in_windows(
    kept: str,
    taken: Sequence[str],
    owner: Sequence[str],
    named: Sequence[str],
    order: str,
    most: int,
    salt: bytes,
    words: Words,
    *,
    alike: bool,
) -> str:
    """Return the same in windows over rows that occur once in the query.

    With `alike` rows that are equal by the order share a rank, and all of them count or none.
    """
    columns = ", ".join(dict.fromkeys([*taken, *owner, *named]))
    most = min(most, _UNBOUNDED)
    whose = f"PARTITION BY {', '.join(owner)}"
    # Counted, because engines number rows in 32 bits.
    ordered = f"{whose} ORDER BY {order} NULLS FIRST"
    whole = f"OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    rank = f"dense_rank() OVER ({ordered})"
    if not alike:
        rank = f"count(*) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    # Windows of one order are computed together. So this one names an order that it would not need.
    ranked = (
        f"SELECT {columns}, CAST({rank} AS BIGINT) - 1 AS place"
        f"{'' if alike else f', count(*) {whole} AS many'} FROM {kept} AS kept"
    )
    if alike:
        ranked = f"SELECT {columns}, place, max(place) OVER ({whose}) + 1 AS many FROM ({ranked}) AS placed"
    # Hashed only for those who have more than may count, and in one row of each: hashing is what takes time.
    hashed = (
        f"CASE WHEN many > {most} AND place = 0 THEN {write_offset(named, salt, words)} % many ELSE 0 END"
    )
    hashed = f"SELECT {columns}, place, many, {hashed} AS hashed FROM ({ranked}) AS ranked"
    shifted = f"SELECT {columns}, place, many, max(hashed) OVER ({whose}) AS shift FROM ({hashed}) AS hashed"
    return (
        f"SELECT {', '.join(taken)} FROM ({shifted}) AS shifted"
        f" WHERE many <= {most} OR {write_choice(most, words)} < {most}"
    )


def write_choice(most: int, words: Words, *, place: str = "place") -> str:
    """Return what is below `most` for the ranks that count; `place` is the rank, of 64 bits."""
    place = place if most <= _NARROW else words.wide.format(place)
    return f"({place} * {most} + shift) % many"


def write_offset(named: Sequence[str], salt: bytes, words: Words) -> str:
    """Return a number from 0 to 2^60 - 1 that follows from the salt and the names of an owner."""
    # The length stands in front of each text, so that no two owners make one text.
    texts = [f"length({text}) || ':' || {text}" for text in map(words.shown.format, named)]
    return words.drawn.format(" || ".join([literal(salt.hex()), *texts]))
