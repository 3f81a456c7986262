"""Refuses frames of Spark over text files, whose rows decide the types of their columns.

Spark finds the types of columns of JSON, XML and, where it is asked to, CSV out from rows, each
time a frame is made. One row more would decide which questions are refused. The plan that Spark has
analyzed says which files it reads. Tables of a catalog have declared types. Of other files only the
plan of a client of Spark Connect says whether a schema was given, so what that plan does not show
counts as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sordino.errors import UnsupportedBackend

_GUESSED = frozenset({"csv", "json", "xml"})
# Lines such as `+- Relation [a#1,b#2] csv`. A table of a catalog has its name before the bracket.
_SCAN = re.compile(r"\bRelation(?: |V2)\[.*\] (csv|json|xml)\b")


def check_plan(frame: Any) -> None:
    """Refuse a frame that reads files whose rows may have decided the types of their columns.

    Raises
    ------
    UnsupportedBackend
        If more of such files are read than were given a schema.
    """
    of_client = type(frame).__module__.startswith("pyspark.sql.connect")
    found: list[str] = _SCAN.findall(
        _explain_client(frame) if of_client else _explain_classic(frame)
    )
    given, guessed = 0, list[str]()
    if of_client:
        # What was asked for is said only there.
        plan = frame._plan.to_proto(frame._session.client)  # noqa: SLF001
        for read in filter(_is_guessed, _walk(plan)):
            if _is_declared(read):
                given += 1
            else:
                guessed.append(read.format.lower())
    if guessed or len(found) > given:
        raise UnsupportedBackend(
            "A Spark frame must read files that declare the types of their columns, such as "
            "Parquet, or be given a schema, because otherwise rows decide them; got "
            f"{(guessed or found)[0].upper()}. Give a schema through Spark Connect "
            "(spark.read.schema(...)), or write the rows to a table."
        )


def _explain_classic(frame: Any) -> str:
    # Python has no other way there.
    return str(frame._jdf.queryExecution().analyzed().toString())  # noqa: SLF001


def _explain_client(frame: Any) -> str:
    """Return the analyzed plan; nothing if Spark cannot make one that can be run."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional dependency

    try:
        said: str = frame._explain_string(mode="extended")  # noqa: SLF001 - `explain` prints
    # Spark goes on to a plan that runs, and computes rows that stand in the frame itself: one of
    # them may fail, which must refuse nothing. Then what the client asked for has to do.
    except PySparkException:
        return ""
    # The plan as it was written comes first, and those behind say the same once more.
    behind = said.partition("== Analyzed Logical Plan ==")[2].partition(
        "== Optimized Logical Plan =="
    )[0]
    return behind or said


def _is_guessed(message: Any) -> bool:
    """Tell whether a part of a plan reads files of a kind whose types may be found from rows."""
    return message.DESCRIPTOR.name == "DataSource" and message.format.lower() in _GUESSED


def _is_declared(message: Any) -> bool:
    """Tell whether such files are read with types that follow from no row."""
    options = {key.lower(): value.lower() for key, value in message.options.items()}
    # Without being asked Spark makes texts of all columns of CSV, which the header names.
    plain = message.format.lower() == "csv" and options.get("header") == "true"
    return bool(message.schema) or (plain and options.get("inferschema", "false") == "false")


def _walk(message: Any) -> Iterator[Any]:
    """Yield a message of the protocol and all that are inside."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        for one in value if hasattr(value, "__len__") else (value,):
            yield from _walk(one)
