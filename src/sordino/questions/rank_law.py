"""Chooses which rows, groups or items of a unit count, where it has more of them than may count.

The law of ranks: what a unit has is put in order, at ranks 0 to n - 1. If n is more than M, rank i
counts if (i * M + u) mod n < M. The offset u, from 0 to n - 1, follows from a secret salt and the
unit. Exactly M ranks count, each with chance M / n, and equal values may change places. So the
choice is a function of what the unit has itself and of the salt: docs/proofs/numbers.md, 1.

Where so few labels are listed that each has a bit, the labels that a unit has are a number: one for
each unit, in place of one row for each pair of a unit and a label. The rank of a label is how many
bits below its own are set, so that the same labels are chosen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import final

import numpy as np
from numpy.typing import NDArray

from sordino.sources.engine import literal
from sordino.sources.sql.sql_templates import SIGNED_64, SqlTemplates

_NARROW = 1 << 20
"""With at most so many, a product with any rank of a table fits into 64 bits."""

_UNBOUNDED = 1 << 62
"""No unit has so many rows: a larger bound is none."""

_PRIME = (1 << 31) - 1
"""Offsets are computed modulo this prime."""

_LIMB = 22
"""A whole number of 64 bits is cut into pieces of so many bits, the last of which has its sign."""

_LIFT = _PRIME << 20
"""A multiple of the prime that lifts the product with a negative last piece above 0."""

_DEGREE = 3
"""Of the polynomial that gives offsets: those of any four owners, one more than this, are
independent."""


@final
@dataclass(frozen=True, kw_only=True)
class Draw:
    """What decides which rows of a unit count.

    Parameters
    ----------
    salt : bytes
        Secret.
    words : SqlTemplates
        The words of the engine.
    whole : bool
        Whether the column of the units has whole numbers of 64 bits alone: then nothing needs to be
        looked up in texts. What a unit is shifted by does not depend on it.
    """

    salt: bytes = field(repr=False)
    words: SqlTemplates
    whole: bool

    @classmethod
    def of(cls, salt: bytes, words: SqlTemplates, kind: str | None) -> Draw:
        """Return what decides where the column of the units has a declared type.

        None: there is no column.
        """
        return cls(salt=salt, words=words, whole=kind in SIGNED_64)

    @property
    def sorts_at_once(self) -> bool:
        """Whether one sort of all rows is faster than to find crowded owners and sort theirs."""
        return self.whole and self.words.fast_windows

    @property
    def in_windows(self) -> bool:
        """Whether ranks are found in windows over all rows, not only those of crowded owners."""
        return not self.words.materialized or self.sorts_at_once

    def write_key(self) -> str:
        """Return the key of the column `unit`, below the prime, which two units seldom share.

        Of units that are whole numbers arithmetic gives it, of all others a hash. The unit itself
        says which of the two it is, and not the type of its column: of tables in memory, and of
        files made of them, one row can change that type, and must not change which rows of others
        count.
        """
        if self.whole:
            return self._write_arithmetic("unit")
        text = self.words.shown.format("unit")
        # A whole number of 64 bits has one text that is usual, whatever type it is held in.
        number = f"({self.words.signed.format(text)})"
        hashed = self.words.drawn.format(f"{literal(self.salt.hex())} || {text}")
        return (
            f"(CASE WHEN {number} IS NULL THEN {hashed} % {_PRIME} ELSE "
            f"{self._write_arithmetic(number)} END)"
        )

    def _write_arithmetic(self, unit: str) -> str:
        """Return the sum of secret multiples of a unit's pieces, modulo the prime."""
        # Factors are below 2^31, pieces below 2^22, and the last piece is at least -2^19. So no sum
        # is negative, and none leaves 64 bits.
        whole, mask = f"CAST({unit} AS BIGINT)", (1 << _LIMB) - 1
        second, third = (self.words.shifted.format(whole, bits) for bits in (_LIMB, 2 * _LIMB))
        pieces = [f"({whole} & {mask})", f"({second} & {mask})", third]
        first, *factors = self._list_factors(1 + len(pieces), b"key")
        terms = " + ".join(
            f"{piece} * {factor}" for piece, factor in zip(pieces, factors, strict=True)
        )
        return f"(({terms} + ({first} + {_LIFT})) % {_PRIME})"

    def find_keys(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the keys of units that are whole numbers, as `write_key` writes them."""
        mask = (1 << _LIMB) - 1
        pieces = (units & mask, (units >> _LIMB) & mask, units >> (2 * _LIMB))
        first, *factors = self._list_factors(1 + len(pieces), b"key")
        keys = np.full_like(units, first + _LIFT)
        for piece, factor in zip(pieces, factors, strict=True):
            keys += piece * factor
        return keys % _PRIME

    def write_offset(self, key: str, *, grouped: bool) -> str:
        """Return what shifts an owner's ranks: a secret polynomial of its key, below the prime.

        Parameters
        ----------
        key : str
            A column of 64 bits with the key of the unit.
        grouped : bool
            Whether an owner is a unit and its group, whose place is in the column `grp`. Which
            groups and which rows of a unit count are two choices, so it has other factors then.
        """
        if grouped:
            of_key, of_group, first = self._list_factors(3, b"group")
            key = f"(({key} * {of_key} + CAST(grp AS BIGINT) * {of_group} + {first}) % {_PRIME})"
        value, *factors = map(
            str, self._list_factors(1 + _DEGREE, b"offset in groups" if grouped else b"offset")
        )
        for factor in factors:
            # Both are below 2^31, so a product and what is added stay within 64 bits.
            value = f"(({value} * {key} + {factor}) % {_PRIME})"
        return value

    def find_offsets(
        self, keys: NDArray[np.int64], groups: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """Return what shifts the ranks of owners, as `write_offset` writes it.

        Parameters
        ----------
        keys : array of int64, shape (owners,)
            Of their units.
        groups : array of int64, shape (owners,), optional
            The places of their groups, where an owner is a unit and its group.
        """
        if groups is not None:
            of_key, of_group, first = self._list_factors(3, b"group")
            keys = (keys * of_key + groups * of_group + first) % _PRIME
        value, *factors = self._list_factors(
            1 + _DEGREE, b"offset" if groups is None else b"offset in groups"
        )
        offsets = np.full_like(keys, value)
        for factor in factors:
            offsets = (offsets * keys + factor) % _PRIME
        return offsets

    def _list_factors(self, count: int, name: bytes) -> list[int]:
        """Return numbers below the prime that follow from the salt, as good as independent."""
        names = [b"%b, %d of %d: " % (name, place, count) for place in range(count)]
        hashes = [sha256(one + self.salt).digest() for one in names]
        return [int.from_bytes(one, "big") % _PRIME for one in hashes]


def choose_ranks(
    kept: str,
    *,
    taken: Sequence[str],
    owner: Sequence[str],
    order: Sequence[str],
    most: int,
    draw: Draw,
) -> str:
    """Return a SELECT of the columns `taken`, of at most `most` rows of each owner.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, or a name. Its first column of `owner` is never NULL.
    taken : sequence of str
        Columns that are wanted.
    owner : sequence of str
        Columns that say whose a row is: unit, and perhaps grp, the place of its group.
    order : sequence of str
        Columns of `kept` by which the rows of an owner are ordered; rows that are equal there are
        equal in every column that is taken.
    most : int
        At least 1.
    draw : Draw
        What decides.
    """
    if draw.in_windows:
        return _choose_in_windows(kept, taken, owner, order, most, draw, alike=False)
    tables = list_marking(
        kept,
        columns=list(dict.fromkeys([*taken, *order])),
        owner=owner,
        most=most,
        draw=draw,
    )
    return (
        f"WITH {_write_tables(tables)} "
        f"{pick_ranks(taken, order=order, most=most, words=draw.words)}"
    )


def _write_tables(tables: Sequence[tuple[str, str]]) -> str:
    """Return the tables of `list_marking` as parts of a query."""
    *kept_once, (marked, query) = tables
    # Those are made once, and used several times: a stream of rows cannot be read again. The last
    # one is written where it is used, twice: it joins the others, which takes less than to keep all
    # rows again.
    made = "".join(f"{name} AS MATERIALIZED ({query}), " for name, query in kept_once)
    return f"{made}{marked} AS NOT MATERIALIZED ({query})"


def list_marking(
    kept: str,
    *,
    columns: Sequence[str],
    owner: Sequence[str],
    most: int,
    draw: Draw,
) -> list[tuple[str, str]]:
    """Return tables that say which rows are those of owners with more than may count.

    Each comes with its query over those before it. The last one, `marked`, has the columns and a
    number `holder`: NULL where all rows of the owner count.

    Parameters
    ----------
    kept, owner, most, draw
        As in `choose_ranks`.
    columns : sequence of str
        Columns that are wanted, or that rows are ordered by.
    """
    whose = ", ".join(owner)
    # Only those who have more than may count are put in order: sorting is what takes time. They are
    # numbered, in any order: rows are sorted by a number faster than by a text.
    counted = (
        f"SELECT {whose}, count(*) AS many FROM kept GROUP BY {whose}"
        f" HAVING count(*) > {min(most, _UNBOUNDED)}"
    )
    # The key is made first, because a polynomial names it several times.
    keyed = f"SELECT {whose}, many, {draw.write_key()} AS key FROM ({counted}) AS counted"
    crowded = (
        f"SELECT {whose}, many, {draw.write_offset('key', grouped='grp' in owner)} % many AS shift,"
        f" row_number() OVER () AS holder FROM ({keyed}) AS keyed"
    )
    marked = (
        f"SELECT {', '.join(f'kept.{name}' for name in columns)}, holder"
        " FROM kept LEFT JOIN crowded ON "
        f"{' AND '.join(f'kept.{name} = crowded.{name}' for name in owner)}"
    )
    needed = ", ".join(dict.fromkeys([*columns, *owner]))
    return [
        ("kept", f"SELECT {needed} FROM {kept} AS kept"),
        ("crowded", crowded),
        ("marked", marked),
    ]


def pick_ranks(
    taken: Sequence[str], *, order: Sequence[str], most: int, words: SqlTemplates
) -> str:
    """Return a SELECT of columns `taken` of rows that count, from the tables of `list_marking`."""
    return (
        f"SELECT {', '.join(taken)} FROM marked WHERE holder IS NULL"
        f" UNION ALL {_pick_crowded(taken, order, most, words)}"
    )


def _pick_crowded(
    taken: Sequence[str], order: Sequence[str], most: int, words: SqlTemplates
) -> str:
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
        return f"({_choose_in_windows(kept, columns, ['unit'], ['grp'], most, draw, alike=True)})"
    # Distinct groups: how often one occurs in the unit does not matter, and neither does where.
    tables = list_marking(
        "(SELECT DISTINCT unit, grp FROM known)",
        columns=["unit", "grp"],
        owner=["unit"],
        most=most,
        draw=draw,
    )
    wanted = ", ".join(f"known.{name}" for name in columns)
    # Rows are compared with groups that were chosen only where a unit has more than may count: they
    # are few.
    return (
        f"(WITH known AS MATERIALIZED (SELECT {', '.join(columns)} FROM {kept} AS given),"
        f" {_write_tables(tables)}"
        f" SELECT {wanted} FROM known LEFT JOIN crowded ON known.unit = crowded.unit"
        " WHERE holder IS NULL"
        f" UNION ALL SELECT {wanted} FROM known"
        f" JOIN ({_pick_crowded(['unit', 'grp'], ['grp'], most, draw.words)}) AS chosen"
        " ON known.unit = chosen.unit AND known.grp = chosen.grp)"
    )


def _choose_in_windows(
    kept: str,
    taken: Sequence[str],
    owner: Sequence[str],
    order: Sequence[str],
    most: int,
    draw: Draw,
    *,
    alike: bool,
) -> str:
    """Return the same in windows over rows that occur once in the query.

    With `alike` rows that are equal by the order share a rank, and all of them count or none.
    """
    columns = ", ".join(dict.fromkeys([*taken, *owner]))
    carried = f"{columns}, key" if draw.sorts_at_once else columns
    if draw.sorts_at_once:
        kept = _write_keyed(kept, dict.fromkeys([*taken, *owner[1:], *order]), draw)
    whose = f"PARTITION BY {', '.join(owner)}"
    ordered = f"{whose} ORDER BY {_write_order(order)}"
    of_all = f"OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)"
    if alike:
        rank = f"dense_rank() OVER ({ordered})"
    elif draw.words.fast_windows:
        rank = f"row_number() OVER ({ordered})"
    else:
        # Counted, because some engines number rows in 32 bits.
        rank = f"count(*) OVER ({ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    # Windows of one order are computed together. So this one names an order that it would not need.
    ranked = (
        f"SELECT {carried}, CAST({rank} AS BIGINT) - 1 AS place"
        f"{'' if alike else f', count(*) {of_all} AS many'} FROM {kept} AS kept"
    )
    if alike:
        ranked = (
            f"SELECT {carried}, place, max(place) OVER ({whose}) + 1 AS many"
            f" FROM ({ranked}) AS placed"
        )
    if not draw.whole:
        # Hashed only for those who have more than may count, and in one row of each: hashing takes
        # time.
        hashed = f"CASE WHEN {_is_crowded(most)} AND place = 0 THEN {draw.write_key()} ELSE 0 END"
        hashed = f"SELECT {columns}, place, many, {hashed} AS hashed FROM ({ranked}) AS ranked"
        ranked = (
            f"SELECT {columns}, place, many, max(hashed) OVER ({whose}) AS key"
            f" FROM ({hashed}) AS hashed"
        )
    elif not draw.sorts_at_once:
        # Not before: other engines send their rows to each other first, and would send the keys
        # with them.
        ranked = (
            f"SELECT {columns}, place, many, {draw.write_key()} AS key FROM ({ranked}) AS ranked"
        )
    counts = _write_bound(most, draw, grouped="grp" in owner)
    return f"SELECT {', '.join(taken)} FROM ({ranked}) AS ranked WHERE {counts}"


def _write_keyed(kept: str, columns: Iterable[str], draw: Draw) -> str:
    """Return rows with keys of units that are whole numbers, in a column that takes little room.

    They are made before the windows, because an engine writes what a filter asks for out as often
    as it stands there.
    """
    taken = ", ".join(name for name in columns if name != "unit")
    return (
        f"(SELECT unit, {taken}, CAST({draw.write_key()} AS INTEGER) AS key FROM {kept} AS given)"
    )


def _write_order(columns: Sequence[str]) -> str:
    # Engines differ in where they put what is missing.
    return ", ".join(f"{name} NULLS FIRST" for name in columns)


def _is_crowded(most: int, many: str = "many") -> str:
    return f"{many} > {min(most, _UNBOUNDED)}"


def _write_bound(
    most: int, draw: Draw, *, grouped: bool, place: str = "place", many: str = "many"
) -> str:
    """Return whether a rank counts; the key of its unit is in a column."""
    # Not reduced first: what is below the prime adds nothing that 64 bits do not hold.
    shift = draw.write_offset("CAST(key AS BIGINT)", grouped=grouped)
    choice = write_choice(most, draw.words, place=place, many=many, shift=shift)
    return f"NOT {_is_crowded(most, many)} OR {choice}"


def write_choice(
    most: int,
    words: SqlTemplates,
    *,
    place: str = "place",
    many: str = "many",
    shift: str = "shift",
) -> str:
    """Return whether a rank counts of an owner that has more than `most`.

    `place` is the rank, of 64 bits.
    """
    most = min(most, _UNBOUNDED)
    place = place if most <= _NARROW else words.wide.format(place)
    return f"({place} * {most} + {shift}) % {many} < {most}"


MOST_LABELS = 62
"""Every set of so many labels is a number of 64 bits that is not negative."""


def fits_sets(size: int | None, words: SqlTemplates) -> bool:
    """Tell whether an engine can keep sets of labels, of which `size` are listed, as numbers."""
    return size is not None and size <= MOST_LABELS and words.set_bits is not None


def count_sets(kept: str, *, most: int | None, draw: Draw) -> str:
    """Return a SELECT of each label's position, with the number `n` of units that count for it.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, with columns item, the place of a label in the domain, and unit, or
        NULL.
    most : int or None
        At most so many labels of a unit count; None: all that it has.
    draw : Draw
        What decides which labels of a unit count.
    """
    had = f"(SELECT unit, item AS place FROM {kept} AS kept WHERE unit IS NOT NULL)"
    counts = f"(bits & {_write_bit('listed.place')}) <> 0"
    if most is not None:
        counts += (
            f" AND (many <= {most} OR {_write_chosen_bits(most, draw.words, place='listed.place')})"
        )
    return (
        f"SELECT position, count(*) AS n FROM ({_write_sets(had, most, draw)}) AS owned"
        " JOIN (SELECT position, CAST(position AS INTEGER) AS place FROM labels) AS listed"
        f" ON {counts}"
        " GROUP BY position"
    )


def choose_in_sets(kept: str, columns: Sequence[str], *, most: int, draw: Draw) -> str:
    """Return a SELECT of all rows of at most `most` groups of each unit, in parentheses.

    Parameters
    ----------
    kept : str
        A SELECT in parentheses, with columns unit, which is never NULL, and grp, from 0 to
        `MOST_LABELS` - 1.
    columns : sequence of str
        What is wanted of it.
    most, draw
        As in `count_sets`.
    """
    taken = ", ".join(f"known.{name}" for name in columns)
    bits = "(SELECT unit, CAST(grp AS INTEGER) AS place FROM known)"
    crowded = f"SELECT * FROM ({_write_sets(bits, most, draw)}) AS owned WHERE many > {most}"
    choice = _write_chosen_bits(most, draw.words, place="CAST(grp AS INTEGER)")
    return (
        # Read once, and used twice: a stream of rows cannot be read again.
        f"(WITH known AS MATERIALIZED (SELECT {', '.join(columns)} FROM {kept} AS kept),"
        f" crowded AS ({crowded})"
        f" SELECT {taken} FROM known LEFT JOIN crowded ON known.unit = crowded.unit"
        f" WHERE many IS NULL OR {choice})"
    )


def _write_sets(had: str, most: int | None, draw: Draw) -> str:
    """Return a SELECT of each unit, its labels as bits, their number, and what shifts the ranks."""
    owned = f"SELECT unit, bit_or({_write_bit('place')}) AS bits FROM {had} AS had GROUP BY unit"
    assert draw.words.set_bits is not None  # noqa: S101  (`fits_sets`)
    many = draw.words.set_bits.format("bits")
    counted = f"SELECT unit, bits, {many} AS many FROM ({owned}) AS sets"
    if most is None:
        return counted
    # Hashed only for those who have more than may count: hashing is what takes time.
    keyed = (
        f"SELECT unit, bits, many, CASE WHEN many > {most} THEN {draw.write_key()} END AS key"
        f" FROM ({counted}) AS counted"
    )
    shift = f"CASE WHEN many > {most} THEN {draw.write_offset('key', grouped=False)} % many END"
    return f"SELECT unit, bits, many, {shift} AS shift FROM ({keyed}) AS keyed"


def _write_bit(place: str) -> str:
    return f"(CAST(1 AS BIGINT) << {place})"


def _write_chosen_bits(most: int, words: SqlTemplates, place: str) -> str:
    """Return whether a label counts of a unit that has more than `most`.

    By its rank among those it has.
    """
    assert words.set_bits is not None  # noqa: S101  (`fits_sets`)
    rank = words.set_bits.format(f"bits & ({_write_bit(place)} - 1)")
    return write_choice(most, words, place=f"CAST({rank} AS BIGINT)")
