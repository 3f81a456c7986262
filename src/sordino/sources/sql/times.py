"""Times that a declared type does not mean, though its bits hold them."""

from __future__ import annotations

import re

_MOMENT = re.compile(r"TIMESTAMP(?:_S|_MS| WITH TIME ZONE)?")
_FIRST_MOMENT, _LAST_MOMENT = "290309-12-22 (BC) 00:00:00+00", "294247-01-10 04:00:54+00"


def drop_beyond_type(column: str, kind: str) -> str:
    """Return a column of a declared type in which times that this type does not mean are NULL.

    Files and frames hold any bits there. On some of them the engine ends the query, inside of `TRY`
    as well, once it writes them as texts.
    """
    if kind in {"TIME", "TIME_NS"}:
        ends = f"CAST('00:00:00' AS {kind}) AND CAST('24:00:00' AS {kind})"
        return f"CASE WHEN {column} BETWEEN {ends} THEN {column} END"
    if not _MOMENT.fullmatch(kind):
        return column
    first, last, never, ever = (
        f"CAST('{end}' AS {kind})" for end in (_FIRST_MOMENT, _LAST_MOMENT, "-infinity", "infinity")
    )
    known = f"{column} BETWEEN {first} AND {last} OR {column} IN ({never}, {ever})"
    return f"CASE WHEN {known} THEN {column} END"
