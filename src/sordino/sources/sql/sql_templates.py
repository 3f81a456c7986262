"""How each engine writes in SQL what the standard leaves open.

For example the text of a value, a number from a keyed hash, or the whole number in a text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class SqlTemplates:
    """The SQL of one engine; every part is a template for `str.format`.

    Parameters
    ----------
    text : str
        The text of a column, compared byte by byte; a value that has no text is NULL. A column of a
        database can carry a collation under which different texts are equal: one unit would then
        answer for another.
    float_text : str or None
        The same of a column of floats, read as floats of 64 bits. A whole number within 2^53 has
        the text of that whole number, every other number its shortest decimal; NaN has none. None:
        the engine writes them otherwise, so no column of floats holds labels or units.
    number : str
        A float as a number that is compared and ranked: NaN, of whatever sign, is NULL, and both
        zeros are one.
    drawn : str
        A whole number from 0 to 2^60 - 1 of 64 bits: the first bits of a cryptographic hash of a
        text.
    wide : str
        A whole number as one that does not overflow where two numbers of 64 bits are multiplied.
    shown : str
        The text of a number; equal numbers have one text.
    whole : str
        The whole number that a text is, if it is written as numbers usually are; otherwise NULL.
        Its type is wide enough for the difference from any other whole number of 64 bits.
    signed : str
        The same as a whole number of 64 bits with a sign; NULL also where it has more.
    shifted : str
        A whole number of 64 bits, shifted right by so many bits, which keeps its sign.
    plain : str
        Whether a text can be a label that nobody listed: it is not empty, has at most
        `LONGEST_LABEL` characters, and no NUL; an engine that keeps others sees that it is UTF-8.
    readable : str
        A text that may be handed out; NULL if it is none in UTF-8.
    code_points : str
        What orders texts by their code points, which is the order of their bytes in UTF-8.
    set_bits : str or None
        How many bits of a whole number of 64 bits are set, which is not negative. None: the engine
        keeps no sets of labels as numbers.
    materialized : bool
        Whether a part of a query that occurs several times can be read once. Where it cannot, no
        part that reads rows may occur twice: the rows may change in between.
    fast_windows : bool
        Whether windows over all rows, ordered by whole numbers, take less time than to find the
        rows of some owners and to order those; it numbers rows in 64 bits, and sorts once for
        orders that begin alike.
    """

    text: str
    float_text: str | None
    number: str
    drawn: str
    wide: str
    shown: str
    whole: str
    signed: str
    plain: str
    code_points: str
    readable: str = "{}"
    shifted: str = "({} >> {})"
    set_bits: str | None = None
    materialized: bool = True
    fast_windows: bool = False

    def label(self, index: int, declared: str) -> str:
        """Return the text of the column c<index>, by which labels and units are compared."""
        # The declared type decides, which is public: so it is the same rule for all rows of a
        # column.
        template = self.float_text if declared in FLOATS else self.text
        # Refused before the charge, by the declared type (`Source.label_index`).
        if template is None:
            raise AssertionError(declared)
        return template.format(f"c{index}")

    def unit(self, index: int, declared: str) -> str:
        """Return what units of the column c<index> are compared by: whole numbers, or its text.

        Equal whole numbers have equal texts, so both say the same about which rows are of one unit.
        Numbers are compared and sorted faster.
        """
        return f"c{index}" if declared in WHOLE_NUMBERS else self.label(index, declared)

    def name_columns(self, columns: Mapping[str, int], kinds: Sequence[str]) -> list[str]:
        """Return what selects the units and the labels of a question, each under its name in it."""
        return [
            f"{(self.unit if name == 'unit' else self.label)(place, kinds[place])} AS {name}"
            for name, place in columns.items()
        ]

    def is_plain(self, text: str, declared: str) -> str:
        """Return whether the text of a column can be a label that nobody listed.

        A rule of that text alone.

        What is no number is no label. Of floats it has no text already; decimals of a server can be
        NaN, too.
        """
        rule = self.plain.format(text)
        return f"{rule} AND {text} <> 'NaN'" if declared.startswith("DECIMAL") else rule


LONGEST_LABEL = 1 << 12
"""A label that nobody listed has at most this many characters.

Texts of rows may be as long as a table allows. One of hundreds of megabytes could not be sent by
every engine, and so one row would end a release.
"""

FLOATS = frozenset({"FLOAT", "DOUBLE"})
"""Declared types of floats.

Where a value is missing, frames turn whole numbers into floats: such a number keeps the text of the
whole number.
"""

WHOLE_NUMBERS = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"}
)
"""Declared types of whole numbers."""

SIGNED_64 = WHOLE_NUMBERS - {"UBIGINT"}
"""Those of which all values are whole numbers of 64 bits with a sign."""

LARGEST_EXACT_WHOLE = 1 << 53
"""Up to here every whole number is a float of 64 bits."""


def float_text(value: float) -> str | None:
    """Return the text of a float, by the rule of `SqlTemplates.float_text`."""
    if math.isnan(value):
        return None
    return (
        str(int(value))
        if abs(value) <= LARGEST_EXACT_WHOLE and value == int(value)
        else repr(value)
    )


def _write_float_text(is_nan: str, whole: str, decimal: str) -> str:
    """Return the CASE that gives the text of a float.

    It is made of the test for NaN, the text as a whole number and the text as a decimal.
    """
    return (
        f"(CASE WHEN {is_nan} THEN NULL WHEN abs({{0}}) <= {LARGEST_EXACT_WHOLE}"
        f" AND {{0}} = floor({{0}})"
        f" THEN {whole} ELSE {decimal} END)"
    )


EMBEDDED = SqlTemplates(
    # `TRY`, because a value may have no text: then it is NULL, and the query goes on.
    text="(TRY(CAST({} AS VARCHAR)) COLLATE C)",
    float_text="("
    + _write_float_text(
        "isnan({0})",
        "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR)",
        "CAST(CAST({0} AS DOUBLE) AS VARCHAR)",
    )
    + " COLLATE C)",
    number="CASE WHEN isnan({0}) THEN NULL WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE {0} END",
    drawn="CAST('0x' || substr(sha256({}), 1, 15) AS BIGINT)",
    wide="CAST({} AS HUGEINT)",
    shown="CAST({} AS VARCHAR)",
    # There and back: only the usual text of a number is equal to the text of that number.
    whole=(
        "CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}"
        " THEN CAST(TRY_CAST({0} AS BIGINT) AS HUGEINT) END"
    ),
    signed=(
        "CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0} THEN TRY_CAST({0} AS BIGINT) END"
    ),
    # No text of a server holds NUL, so no engine hands out one that does.
    plain=(
        f"{{0}} <> '' AND length({{0}}) <= {LONGEST_LABEL} AND NOT contains({{0}}, chr(0))"
        # A relation may be made of texts that are none in UTF-8, which nobody could read.
        " AND TRY(decode(encode({0}))) IS NOT NULL"
    ),
    # Texts are kept in UTF-8 and compared byte by byte.
    code_points="{}",
    set_bits="CAST(bit_count({}) AS BIGINT)",
    fast_windows=True,
)
SERVER = SqlTemplates(
    # Byte by byte, whatever collation the column carries (docs/proofs/counts.md).
    text='(CAST({} AS text) COLLATE "C")',
    float_text="("
    + _write_float_text(
        "{0} = 'NaN'", "CAST(CAST({0} AS bigint) AS text)", "CAST(CAST({0} AS float8) AS text)"
    )
    + ' COLLATE "C")',
    # PostgreSQL takes NaN to be equal to itself, so a comparison finds it.
    number="CASE WHEN {0} = 'NaN' THEN NULL WHEN {0} = 0 THEN 0 ELSE {0} END",
    # The bytes as the database keeps them: in another encoding some
    # texts do not exist, and the server would fail on their rows.
    drawn=(
        "CAST(CAST('x' || substr(encode(sha256(convert_to({}, getdatabaseencoding())), 'hex'), 1, "
        "15)"
        " AS bit(60)) AS bigint)"
    ),
    wide="CAST({} AS numeric)",
    shown="CAST({} AS text)",
    # The length comes first, and by itself: the server fails where a pattern meets a text of 256
    # MiB.
    whole=(
        "CASE WHEN octet_length({0}) < 21 THEN CASE WHEN {0} ~ '^(0|-?[1-9][0-9]*)$'"
        " THEN CAST({0} AS numeric) END END"
    ),
    # A cast of a number with more than 64 bits would fail.
    signed=(
        "CASE WHEN octet_length({0}) < 21 THEN CASE WHEN {0} ~ '^(0|-?[1-9][0-9]*)$'"
        f" THEN CASE WHEN CAST({{0}} AS numeric) BETWEEN {-(1 << 63)} AND {(1 << 63) - 1}"
        " THEN CAST({0} AS bigint) END END END"
    ),
    plain=f"{{0}} <> '' AND length({{0}}) <= {LONGEST_LABEL}",
    # In another encoding of a database the bytes have another order.
    code_points="convert_to({}, 'UTF8')",
)
