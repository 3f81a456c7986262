"""Tells whether two sources have rows in common, as far as that can be seen from here."""

from __future__ import annotations

from typing import Any

from sordino.data.sources.source import Source


def share_rows(one: Source, other: Source) -> bool:
    """Tell whether a source is another one, or may have rows of it: by identity, file or table in memory.

    Tables of one server are told apart by their names alone: a view may hold rows of a table.
    """
    mine, yours = _find_table_in_memory(one), _find_table_in_memory(other)
    if mine is not None and mine is yours:
        return True
    known = one.identity is not None and one.identity == other.identity
    return known or any(one.find_tie(path) for path in other.files)


def _find_table_in_memory(source: Source) -> Any:
    """Return the frame or the relation of a source, None if it has neither."""
    reader = getattr(source.backend, "reader", None)
    return getattr(reader, "frame", getattr(reader, "value", None))
