"""How each engine writes the calls that may stand in place of a column.

Each template is total where its operand is, or stands in what `attempt` makes of it; the years are
guarded around it (`computed_columns`). Proof: docs/proofs/computed-columns.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from sordino.sources.engine import literal
from sordino.sources.predicates.calls import HOST


@final
@dataclass(frozen=True, kw_only=True)
class CallTemplates:
    """The SQL of one engine; texts are templates for `str.format`.

    Parameters
    ----------
    attempt : str
        A call whose own errors are NULL; as it is where none of its operators can fail.
    bytes : str
        How many bytes a text has.
    sound : str
        A text that is one in Unicode, else NULL.
    moments : mapping of str to str
        From the declared types of dates and times without a zone to a timestamp.
    instant : str
        From a time with a zone, and the name of another, to the timestamp that a clock there shows.
    asks_zone : str
        A query that fails where the engine does not know a zone.
    parts : mapping of str to str
        From functions of a timestamp within the years 1 to 9999 to their texts.
    exact_type : str
        The type in which numbers that are no floats are compared, from their own.
    lower, trim, length, left, part, host : str
        Functions of a text. Its length is how many characters of Unicode it has, as a text.
    asks_lower : str
        A query that fails where the engine lacks what `lower` needs.
    """

    attempt: str
    bytes: str
    sound: str
    moments: Mapping[str, str]
    instant: str
    asks_zone: str
    parts: Mapping[str, str]
    exact_type: str
    lower: str
    trim: str
    host: str
    length: str
    left: str = "left({}, {})"
    part: str = "split_part({}, {}, {})"
    asks_lower: str = ""


_BLANKS = literal(" \t\r\n")

EMBEDDED_CALLS = CallTemplates(
    attempt="TRY({})",
    bytes="strlen({})",
    # Relations hold others: on these `lower` fails in a way that TRY does not catch.
    sound="TRY(decode(encode({})))",
    moments={
        **dict.fromkeys(
            ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"), "CAST({} AS TIMESTAMP)"
        ),
        # A cast would round: the last nanosecond of a year is not in the next one.
        "TIMESTAMP_NS": "CAST(left(CAST({} AS VARCHAR), 19) AS TIMESTAMP)",
    },
    instant="({} AT TIME ZONE {})",
    asks_zone="SELECT CAST('2000-01-01 00:00:00+00' AS TIMESTAMP WITH TIME ZONE)"
    " AT TIME ZONE {} AS shown",
    parts={
        "year": "strftime({}, '%Y')",
        "quarter": "strftime({0}, '%Y-Q') || CAST(quarter({0}) AS VARCHAR)",
        "month": "strftime({}, '%Y-%m')",
        # The year to which the week belongs, which is another one around January 1.
        "week": "strftime({}, '%G-W%V')",
        "day": "strftime({}, '%Y-%m-%d')",
        "day_hour": "strftime({}, '%Y-%m-%dT%H')",
        "weekday": "strftime({}, '%u')",
        "hour": "strftime({}, '%H')",
        "minute": "strftime({}, '%M')",
        "month_of_year": "strftime({}, '%m')",
        "quarter_of_year": "CAST(quarter({}) AS VARCHAR)",
    },
    exact_type="{}",
    lower="lower({})",
    trim=f"trim({{}}, {_BLANKS})",
    length="CAST(length({}) AS VARCHAR)",
    host=f"lower(nullif(regexp_extract({{}}, {literal(HOST).replace('{', '{{').replace('}', '}}')},"
    " 2), ''))",
)
SERVER_CALLS = CallTemplates(
    attempt="{}",
    bytes="octet_length({})",
    sound="{}",
    moments={
        # A cast of a date beyond the timestamps would fail.
        "DATE": "CASE WHEN {0} >= CAST('0001-01-01' AS date) AND {0} <= CAST('9999-12-31' AS date)"
        " THEN CAST({0} AS timestamp) END",
        "TIMESTAMP": "{}",
    },
    # Whatever the zone is: farther from the ends than any is from UTC.
    instant="CASE WHEN {0} >= CAST('0001-12-30 00:00:00+00 BC' AS timestamptz)"
    " AND {0} < CAST('10000-01-03 00:00:00+00' AS timestamptz) THEN {0} AT TIME ZONE {1} END",
    asks_zone="SELECT CAST('2000-01-01 00:00:00+00' AS timestamptz) AT TIME ZONE {} AS shown",
    parts={
        "year": "to_char({}, 'YYYY')",
        "quarter": "to_char({}, 'YYYY-\"Q\"Q')",
        "month": "to_char({}, 'YYYY-MM')",
        "week": "to_char({}, 'IYYY-\"W\"IW')",
        "day": "to_char({}, 'YYYY-MM-DD')",
        "day_hour": "to_char({}, 'YYYY-MM-DD\"T\"HH24')",
        "weekday": "to_char({}, 'ID')",
        "hour": "to_char({}, 'HH24')",
        "minute": "to_char({}, 'MI')",
        "month_of_year": "to_char({}, 'MM')",
        "quarter_of_year": "to_char({}, 'Q')",
    },
    exact_type="numeric",
    # Under "C" only A to Z have small letters; under other collations letters differ by language.
    lower='(lower({} COLLATE pg_catalog."C.utf8") COLLATE "C")',
    asks_lower="SELECT lower('A' COLLATE pg_catalog.\"C.utf8\") AS small",
    trim=f"btrim({{}}, {_BLANKS})",
    length="CAST(char_length({}) AS text)",
    # Letters of a host are those of ASCII, whatever the collation.
    host="lower((regexp_match({}, "
    + literal(HOST).replace("{", "{{").replace("}", "}}")
    + '))[2] COLLATE "C")',
)
