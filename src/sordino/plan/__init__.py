"""What to expect of a mechanism before any data is seen: how accurate it is, and which one to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.plan._accuracy import Accuracy, accuracy
    from sordino.plan.selector import Alternative, Selector, choose_selector

_HOMES = {
    "_accuracy": ("Accuracy", "accuracy"),
    "selector": ("Alternative", "Selector", "choose_selector"),
}
__all__ = ["Accuracy", "Alternative", "Selector", "accuracy", "choose_selector"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
