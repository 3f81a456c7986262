"""Chooses which rows, groups or items of a unit count, where it has more of them than may count.

The law of ranks: what a unit has is put in order, at ranks 0 to n - 1. If n is more than M, rank i counts if
(i * M + u) mod n < M. The offset u, from 0 to n - 1, follows from a secret salt and the unit. Exactly M ranks
count, each with chance M / n, and equal values may change places. So the choice is a function of what the
unit has itself and of the salt: docs/proofs/numbers.md, 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import final

from sordino.data.sources.engine import literal
from sordino.data.sources.words import Words

_NARROW = 1 << 20
"""With at most so many, a product with any rank of a table fits into 64 bits."""

_UNBOUNDED = 1 << 62
"""No unit has so many rows: a larger bound is none."""

_PRIME = (1 << 31) - 1
"""Offsets are computed modulo this prime."""

_MODULI = (4194301, 4194287, 4194277)
"""Primes below 2^22. Their product is above 2^65: the remainders tell whole numbers of 64 bits apart."""

_LIFT = _PRIME * (3 << 22)
"""A multiple of the prime that lifts three negative products above 0."""

_DEGREE = 3
"""Of the polynomial that makes offsets of any four owners independent: one more than this."""


@final
@dataclass(frozen=True, kw_only=True)
class Draw:
    """What decides which rows of a unit count.

    Parameters
    ----------
    salt : bytes
        Secret.
    words : Words
        The words of the engine.
    whole : bool
        Whether the column of the units has whole numbers of 64 bits alone: then nothing needs to be looked up
        in texts. What a unit is shifted by does not depend on it.
    """

    salt: bytes = field(repr=False)
    words: Words
    whole: bool

    @property
    def in_windows(self) -> bool:
        """Whether ranks are found in windows over all rows, and not over those of crowded owners alone."""
        return not self.words.materialized or (self.whole and self.words.fast_windows)

    def write_offset(self, owner: Sequence[str], named: Sequence[str]) -> str:
        """Return a whole number below 2^31, not negative, that follows from the salt and the owner of a row.

        A key is made of the owner first: of units that are whole numbers by arithmetic, of all others by a
        hash. The unit itself says which of the two it is, and not the type of its column: of tables in
        memory, and of files made of them, one row can change that type, and must not change which rows of
        others count.

        Parameters
        ----------
        owner : sequence of str
            Columns that say whose a row is: a unit, and perhaps the place of a group.
        named : sequence of str
            Columns with their names, the unit first.
        """
        unit, *groups = owner
        # Other factors for units than for their groups: which groups and which rows count are two choices.
        first, *factors = self._list_factors(1 + len(_MODULI) + len(groups), b"key")
        if self.whole:
            key = _write_key(unit, groups, first, factors)
        else:
            number = f"({self.words.signed.format(self.words.shown.format(unit))})"
            # The length stands in front of each text, so that no two owners make one text.
            texts = [f"length({text}) || ':' || {text}" for text in map(self.words.shown.format, named)]
            hashed = self.words.drawn.format(" || ".join([literal(self.salt.hex()), *texts]))
            # A whole number of 64 bits has one text that is usual, whatever type it is held in.
            arithmetic = _write_key(number, groups, first, factors)
            key = f"CASE WHEN {number} IS NULL THEN {hashed} % {_PRIME} ELSE {arithmetic} END"
        return self._write_polynomial(f"({key})", len(owner))

    def _write_polynomial(self, key: str, owners: int) -> str:
        """Return a secret polynomial of a key below the prime, modulo that prime: a product is below 2^62."""
        first, *others = self._list_factors(1 + _DEGREE, b"polynomial of %d" % owners)
        value = str(first)
        for factor in others:
            value = f"(({value} * {key} + {factor}) % {_PRIME})"
        return value

    def _list_factors(self, count: int, name: bytes) -> list[int]:
        """Return numbers below the prime that follow from the salt, as good as independent of each other."""
        names = [b"%b, %d of %d: " % (name, place, count) for place in range(count)]
        hashes = [sha256(one + self.salt).digest() for one in names]
        return [int.from_bytes(one, "big") % _PRIME for one in hashes]


def _write_key(unit: str, groups: Sequence[str], first: int, factors: Sequence[int]) -> str:
    """Return the sum of multiples of an owner's remainders, modulo the prime: two seldom have the same."""
    # Remainders have the sign of the unit. They are below 2^22, factors below 2^31, places of groups below
    # 2^18. So no sum is negative, and none leaves 64 bits.
    parts = [f"CAST({unit} % {modulus} AS BIGINT)" for modulus in _MODULI]
    parts += [f"CAST({group} AS BIGINT)" for group in groups]
    terms = " + ".join(f"{part} * {factor}" for part, factor in zip(parts, factors, strict=True))
    return f"(({terms} + ({first} + {_LIFT})) % {_PRIME})"


def choose_ranks(
    kept: str,
    *,
    taken: Sequence[str],
    owner: Sequence[str],
    named: Sequence[str],
    order: Sequence[str],
    most: int,
    draw: Draw,
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
        Columns with the names of the owner; equal within an owner.
    order : sequence of str
        Columns of `kept` by which the rows of an owner are ordered; rows that are equal there are equal in
        every column that is taken.
    most : int
        At least 1.
    draw : Draw
        What decides.
    names : str
        A SELECT in parentheses that has some of `named`, each once for an owner: what is left of them is in
        `owner`, and they are joined by the columns that both have. Not for an engine that keeps no part of a
        query.
    """
    if draw.in_windows:
        return _choose_in_windows(kept, taken, owner, named, order, most, draw, alike=False)
    tables = list_marking(
        kept,
        columns=list(dict.fromkeys([*taken, *order])),
        owner=owner,
        named=named,
        most=most,
        draw=draw,
        names=names,
    )
    return f"WITH {_write_tables(tables)} {pick_ranks(taken, order=order, most=most, words=draw.words)}"


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
    draw: Draw,
    names: str = "",
) -> list[tuple[str, str]]:
    """Return tables that say which rows are those of owners with more than may count.

    Each comes with its query over those before it. The last one, `marked`, has the columns and a number
    `holder`: NULL where all rows of the owner count.

    Parameters
    ----------
    kept, owner, named, most, draw, names
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
    # Of whole numbers no name is asked for.
    looked_up = f" NATURAL JOIN {names} AS names" if names and not draw.whole else ""
    crowded = (
        f"SELECT {whose}, many, {draw.write_offset(owner, named)} % many AS shift,"
        f" row_number() OVER () AS holder FROM ({counted}) AS counted{looked_up}"
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


def pick_ranks(taken: Sequence[str], *, order: Sequence[str], most: int, words: Words) -> str:
    """Return a SELECT of the columns `taken` of the rows that count, from the tables of `list_marking`."""
    return (
        f"SELECT {', '.join(taken)} FROM marked WHERE holder IS NULL"
        f" UNION ALL {_pick_crowded(taken, order, most, words)}"
    )


def _pick_crowded(taken: Sequence[str], order: Sequence[str], most: int, words: Words) -> str:
    """Return the part of `pick_ranks` about owners that have more than may count."""
    ranked = (
        f"SELECT {', '.join(taken)}, holder, row_number() OVER"
        f" (PARTITION BY holder ORDER BY {_write_order(order)}) - 1 AS place"
        " FROM marked WHERE holder IS NOT NULL"
    )
    return (
        f"SELECT {', '.join(f'ranked.{name}' for name in taken)}"
        f" FROM ({ranked}) AS ranked JOIN crowded ON ranked.holder = crowded.holder"
        f" WHERE {write_choice(most, words)}"
    )


def choose_groups(kept: str, columns: Sequence[str], *, most: int, draw: Draw) -> str:
    """Return a SELECT of all rows of at most `most` groups of each unit, in parentheses.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, with columns unit, which is never NULL, and grp.
    columns : sequence of str
        What is wanted of it.
    most, draw
        As in `choose_ranks`.
    """
    if draw.in_windows:
        return f"({_choose_in_windows(kept, columns, ['unit'], ['unit'], ['grp'], most, draw, alike=True)})"
    # Distinct groups: how often one occurs in the unit does not matter, and neither does where.
    tables = list_marking(
        "(SELECT DISTINCT unit, grp FROM known)",
        columns=["unit", "grp"],
        owner=["unit"],
        named=["unit"],
        most=most,
        draw=draw,
    )
    wanted = ", ".join(f"known.{name}" for name in columns)
    # Rows are compared with groups that were chosen only where a unit has more than may count: they are few.
    return (
        f"(WITH known AS MATERIALIZED (SELECT {', '.join(columns)} FROM {kept} AS given),"
        f" {_write_tables(tables)}"
        f" SELECT {wanted} FROM known LEFT JOIN crowded ON known.unit = crowded.unit WHERE holder IS NULL"
        f" UNION ALL SELECT {wanted} FROM known"
        f" JOIN ({_pick_crowded(['unit', 'grp'], ['grp'], most, draw.words)}) AS chosen"
        " ON known.unit = chosen.unit AND known.grp = chosen.grp)"
    )


def choose_groups_and_ranks(kept: str, *, groups: int, rows: int, draw: Draw) -> str:
    """Return a SELECT of grp and x: of each unit at most `groups` groups, in each at most `rows` rows.

    It chooses what `choose_groups` and `choose_ranks` choose one after the other, and sorts the rows once for
    both. Only for an engine with fast windows, and units that are whole numbers.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, with columns unit, which is never NULL, grp and x.
    groups, rows : int
        At least 1.
    draw : Draw
        What decides.
    """
    # All of these go by one order, or by a part of it, so one sort is enough: its groups, and in each its
    # numbers. How many groups a unit has is known only behind that.
    by_group = "PARTITION BY unit ORDER BY grp"
    ranked = (
        f"SELECT unit, grp, x, dense_rank() OVER ({by_group}) - 1 AS spot,"
        f" row_number() OVER ({by_group}, x NULLS FIRST) - rank() OVER ({by_group}) AS place,"
        f" count(*) OVER ({by_group} RANGE BETWEEN CURRENT ROW AND CURRENT ROW) AS many FROM {kept} AS kept"
    )
    counted = (
        "SELECT unit, grp, x, spot, place, many, max(spot) OVER (PARTITION BY unit) + 1 AS spots"
        f" FROM ({ranked}) AS ranked"
    )
    chosen = _write_bound(groups, draw, ["unit"], place="spot", many="spots")
    counts = _write_bound(rows, draw, ["unit", "grp"])
    return f"SELECT grp, x FROM ({counted}) AS counted WHERE ({chosen}) AND ({counts})"


def _choose_in_windows(
    kept: str,
    taken: Sequence[str],
    owner: Sequence[str],
    named: Sequence[str],
    order: Sequence[str],
    most: int,
    draw: Draw,
    *,
    alike: bool,
) -> str:
    """Return the same in windows over rows that occur once in the query.

    With `alike` rows that are equal by the order share a rank, and all of them count or none.
    """
    columns = ", ".join(dict.fromkeys([*taken, *owner, *([] if draw.whole else named)]))
    whose = f"PARTITION BY {', '.join(owner)}"
    ordered = f"{whose} ORDER BY {_write_order(order)}"
    whole = f"OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    if alike:
        rank = f"dense_rank() OVER ({ordered})"
    elif draw.words.fast_windows:
        rank = f"row_number() OVER ({ordered})"
    else:
        # Counted, because some engines number rows in 32 bits.
        rank = f"count(*) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    # Windows of one order are computed together. So this one names an order that it would not need.
    ranked = (
        f"SELECT {columns}, CAST({rank} AS BIGINT) - 1 AS place"
        f"{'' if alike else f', count(*) {whole} AS many'} FROM {kept} AS kept"
    )
    if alike:
        ranked = f"SELECT {columns}, place, max(place) OVER ({whose}) + 1 AS many FROM ({ranked}) AS placed"
    wanted = f"SELECT {', '.join(taken)} FROM"
    if draw.whole:
        return f"{wanted} ({ranked}) AS ranked WHERE {_write_bound(most, draw, owner)}"
    # Hashed only for those who have more than may count, and in one row of each: hashing is what takes time.
    offset = f"{draw.write_offset(owner, named)} % many"
    hashed = f"CASE WHEN {_is_crowded(most)} AND place = 0 THEN {offset} ELSE 0 END"
    hashed = f"SELECT {columns}, place, many, {hashed} AS hashed FROM ({ranked}) AS ranked"
    shifted = f"SELECT {columns}, place, many, max(hashed) OVER ({whose}) AS shift FROM ({hashed}) AS hashed"
    return (
        f"{wanted} ({shifted}) AS shifted WHERE NOT {_is_crowded(most)} OR {write_choice(most, draw.words)}"
    )


def _write_order(columns: Sequence[str]) -> str:
    # Engines differ in where they put what is missing.
    return ", ".join(f"{name} NULLS FIRST" for name in columns)


def _is_crowded(most: int, many: str = "many") -> str:
    return f"{many} > {min(most, _UNBOUNDED)}"


def _write_bound(
    most: int, draw: Draw, owner: Sequence[str], *, place: str = "place", many: str = "many"
) -> str:
    """Return whether a rank counts, of an owner that is whole numbers."""
    # Not reduced first: what is below the prime adds nothing that 64 bits do not hold.
    choice = write_choice(most, draw.words, place=place, many=many, shift=draw.write_offset(owner, ()))
    return f"NOT {_is_crowded(most, many)} OR {choice}"


def write_choice(
    most: int, words: Words, *, place: str = "place", many: str = "many", shift: str = "shift"
) -> str:
    """Return whether a rank counts of an owner that has more than `most`; `place` is the rank, of 64 bits."""
    most = min(most, _UNBOUNDED)
    place = place if most <= _NARROW else words.wide.format(place)
    return f"({place} * {most} + {shift}) % {many} < {most}"
