"""What SQL leaves open, in the words of each engine that is asked: the text of a value, a keyed hash, a whole number in a text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Words:
    """How an engine says it; every part is a template for `str.format`.

    Parameters
    ----------
    text : str
        The text of a column, compared byte by byte; a value that has no text is NULL. A column of a database can carry a collation
        under which different texts are equal: one unit would then answer for another.
    hashed : str
        A cryptographic hash of a text, as a text.
    shown : str
        The text of a number; equal numbers have one text.
    whole : str
        The whole number that a text is, if the text is written as numbers usually are, as a number that the difference from any other
        whole number of 64 bits fits into; otherwise NULL.
    """

    text: str
    hashed: str
    shown: str
    whole: str


EMBEDDED = Words(
    text="(TRY(CAST({} AS VARCHAR)) COLLATE C)",
    hashed="sha256({})",
    shown="CAST({} AS VARCHAR)",
    whole="CASE WHEN CAST(TRY_CAST({0} AS BIGINT) AS VARCHAR) = {0} THEN CAST(TRY_CAST({0} AS BIGINT) AS HUGEINT) END",
)
SERVER = Words(
    text='(CAST({} AS text) COLLATE "C")',
    # The bytes as the database keeps them: in another encoding some texts do not exist, and the server would fail on their rows.
    hashed="(encode(sha256(convert_to({}, getdatabaseencoding())), 'hex') COLLATE \"C\")",
    shown="CAST({} AS text)",
    whole="CASE WHEN {0} ~ '^(0|-?[1-9][0-9]*)$' AND length({0}) < 21 THEN CAST({0} AS numeric) END",
)


def words_of(kind: str) -> Words:
    """Return the words of the engine that reads a kind of source."""
    return SERVER if kind == "postgres" else EMBEDDED
