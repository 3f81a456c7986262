"""Chooses labels of a unit by the law of ranks, where a whole number can hold the set of them all.

So few are listed that each has a bit. The labels that a unit has are a number: one for each unit,
in place of one row for each pair of a unit and a label. The rank of a label is how many bits below
its own are set. So the law is that of `rank_law`, and the same labels are chosen:
docs/proofs/numbers.md, 1.
"""

from __future__ import annotations

from collections.abc import Sequence

from sordino.questions.rank_law import Draw, write_choice
from sordino.sources.sql.sql_templates import SqlTemplates

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
            f" AND (many <= {most} OR {_write_choice(most, draw.words, place='listed.place')})"
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
    choice = _write_choice(most, draw.words, place="CAST(grp AS INTEGER)")
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


def _write_choice(most: int, words: SqlTemplates, place: str) -> str:
    """Return whether a label counts of a unit that has more than `most`.

    By its rank among those it has.
    """
    assert words.set_bits is not None  # noqa: S101  (`fits_sets`)
    rank = words.set_bits.format(f"bits & ({_write_bit(place)} - 1)")
    return write_choice(most, words, place=f"CAST({rank} AS BIGINT)")
