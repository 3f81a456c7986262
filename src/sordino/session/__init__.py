"""Sessions: the only place where data, entropy and budget meet."""

from __future__ import annotations

from sordino.session._batch import Pending
from sordino.session._plan import Payer, Progress, Uncharged
from sordino.session._results import AboveItem, AboveItems, Count, CountedItem, Histogram, TopItem, TopItems
from sordino.session._session import Session
from sordino.session._table_numbers import GroupRow, Groups

__all__ = [
    "AboveItem",
    "AboveItems",
    "Count",
    "CountedItem",
    "GroupRow",
    "Groups",
    "Histogram",
    "Payer",
    "Pending",
    "Progress",
    "Session",
    "TopItem",
    "TopItems",
    "Uncharged",
]
