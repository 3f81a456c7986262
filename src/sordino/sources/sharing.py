"""Tells whether two sources have rows in common, as far as that can be seen from here."""

from __future__ import annotations

from typing import Any

from sordino.sources.nearby import find_origin
from sordino.sources.source import Source


def find_shared_rows(one: Source, other: Source) -> str:
    """Return why a source may hold rows of another one, in words; empty: nothing says so.

    It is found by identity, by file, by table in memory. Tables of one server are told apart by
    their names alone: a view may hold rows of a table.
    """
    for table in one.private_tables:
        if isinstance(table.source, Source) and (reason := find_shared_rows(table.source, other)):
            return reason
    mine, yours = _find_table_in_memory(one), _find_table_in_memory(other)
    if mine is not None and mine is yours:
        return "is that table"
    if one.identity is not None and one.identity == other.identity:
        return "is that table by its name"
    # A table of many files is told of by the first one. A database need not have a log of writes.
    there = (path for path in other.files if path.exists())
    told = ((path, one.find_tie(path) or find_origin(path)) for path in there)
    return next((f"holds {path}, which {reason}" for path, reason in told if reason), "")


def _find_table_in_memory(source: Source) -> Any:
    """Return the frame or the relation of a source, None if it has neither."""
    reader = source.reader
    return getattr(reader, "frame", getattr(reader, "value", None))
