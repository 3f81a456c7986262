"""Sessions: the only place where data, entropy and budget meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.session.batch import Pending
    from sordino.session.bounded_total import BoundedValue
    from sordino.session.local import LocalReports, Reported
    from sordino.session.plan import Payer, Progress, Uncharged
    from sordino.session.results import (
        AboveItem,
        AboveItems,
        Count,
        CountedItem,
        Histogram,
        TopItem,
        TopItems,
    )
    from sordino.session.session import Session
    from sordino.session.table_numbers import GroupRow, Groups

# Which module of the package holds each public name; type checkers read the imports above.
_HOMES = {
    "batch": ("Pending",),
    "bounded_total": ("BoundedValue",),
    "plan": ("Payer", "Progress", "Uncharged"),
    "local": ("LocalReports", "Reported"),
    "results": ("AboveItem", "AboveItems", "Count", "CountedItem", "Histogram", "TopItem", "TopItems"),
    "session": ("Session",),
    "table_numbers": ("GroupRow", "Groups"),
}
__all__ = [
    "AboveItem",
    "AboveItems",
    "BoundedValue",
    "Count",
    "CountedItem",
    "GroupRow",
    "Groups",
    "Histogram",
    "LocalReports",
    "Payer",
    "Pending",
    "Progress",
    "Reported",
    "Session",
    "TopItem",
    "TopItems",
    "Uncharged",
]

# Hidden from type checkers, which would take every name for known.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
