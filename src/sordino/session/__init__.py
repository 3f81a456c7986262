"""Sessions: the only place where data, entropy and budget meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.session._batch import Pending
    from sordino.session._bounded_total import BoundedValue
    from sordino.session._plan import Payer, Progress, Uncharged
    from sordino.session._results import (
        AboveItem,
        AboveItems,
        Count,
        CountedItem,
        Histogram,
        TopItem,
        TopItems,
    )
    from sordino.session._session import Session
    from sordino.session._table_numbers import GroupRow, Groups
    from sordino.session.local import LocalReports, Reported

_HOMES = {
    "_batch": ("Pending",),
    "_bounded_total": ("BoundedValue",),
    "_plan": ("Payer", "Progress", "Uncharged"),
    "local": ("LocalReports", "Reported"),
    "_results": ("AboveItem", "AboveItems", "Count", "CountedItem", "Histogram", "TopItem", "TopItems"),
    "_session": ("Session",),
    "_table_numbers": ("GroupRow", "Groups"),
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

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
