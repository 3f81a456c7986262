"""How each engine writes in SQL what the standard leaves open.

For example the text of a value, a keyed hash, or the whole number in a text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Words:
    """The SQL of one engine; every part is a template for `str.format`.

    Parameters
    ----------
    text : str
        The text of a column, compared byte by byte; a value that has no text is NULL. A column of a database
        can carry a collation under which different texts are equal: one unit would then answer for another.
    float_text : str
        The same of a column of floats, read as floats of 64 bits. A whole number within 2^53 has the text of
        that whole number, every other number its shortest decimal; NaN has none.
    number : str
        A float as a number that is compared and ranked: NaN, of whatever sign, is NULL, and both zeros are
        one.
    hashed : str
        A cryptographic hash of a text, as a text.
    shown : str
        The text of a number; equal numbers have one text.
    whole : str
        The whole number that a text is, if it is written as numbers usually are; otherwise NULL. Its type is
        wide enough for the difference from any other whole number of 64 bits.
    """

    text: str
    float_text: str
    number: str
    hashed: str
    shown: str
    whole: str

    def label(self, index: int, declared: str) -> str:
        """Return the text of the column c<index>, by which labels and units are compared."""
        # The declared type decides, which is public: so it is the same rule for all rows of a column.
        template = self.float_text if declared in FLOATS else self.text
        return template.format(f"c{index}")


FLOATS = frozenset({"FLOAT", "DOUBLE"})
"""Declared types of floats.

Where a value is missing, frames turn whole numbers into floats: such a number keeps the text of the whole
number.
"""

# Up to here every whole number is a float of 64 bits.
_LARGEST_EXACT_WHOLE = 1 << 53


def float_text(value: float) -> str | None:
    """Return the text of a float, by the rule of `Words.float_text`."""
    if math.isnan(value):
        return None
    return str(int(value)) if abs(value) <= _LARGEST_EXACT_WHOLE and value == int(value) else repr(value)


def _write_float_text(is_nan: str, whole: str, decimal: str) -> str:
    """Return the CASE that gives the text of a float.

    It is made of the test for NaN, the text as a whole number and the text as a decimal.
    """
    return (
        f"(CASE WHEN {is_nan} THEN NULL WHEN abs({{0}}) <= {_LARGEST_EXACT_WHOLE} AND {{0}} = floor({{0}})"
        f" THEN {whole} ELSE {decimal} END)"
    )


EMBEDDED = Words(
    # `TRY`, because a value may have no text: then it is NULL, and the query goes on.
    text="(TRY(CAST({} AS VARCHAR)) COLLATE C)",
    float_text="("
    + _write_float_text(
        "isnan({0})", "CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR)", "CAST(CAST({0} AS DOUBLE) AS VARCHAR)"
    )
    + " COLLATE C)",
    number="CASE WHEN isnan({0}) THEN NULL WHEN {0} = 0 THEN CAST(0 AS DOUBLE) ELSE {0} END",
    hashed="sha256({})",
    shown="CAST({} AS VARCHAR)",
    # There and back: only the usual text of a number is equal to the text of that number.
    whole=(
        "CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0}"
        " THEN CAST(TRY_CAST({0} AS BIGINT) AS HUGEINT) END"
    ),
)
SERVER = Words(
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
    hashed="(encode(sha256(convert_to({}, getdatabaseencoding())), 'hex') COLLATE \"C\")",
    shown="CAST({} AS text)",
    # The length comes first, and by itself: the server fails where a pattern meets a text of 256 MiB.
    whole=(
        "CASE WHEN octet_length({0}) < 21 THEN CASE WHEN {0} ~ '^(0|-?[1-9][0-9]*)$'"
        " THEN CAST({0} AS numeric) END END"
    ),
)
