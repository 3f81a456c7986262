"""What to expect of a mechanism before any data is seen: how accurate it is, and which one to take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.plan._accuracy import Accuracy as Accuracy, accuracy as accuracy
    from sordino.plan.selector import (
        Alternative as Alternative,
        Selector as Selector,
        choose_selector as choose_selector,
    )

_HOMES = {
    "_accuracy": ("Accuracy", "accuracy"),
    "selector": ("Alternative", "Selector", "choose_selector"),
}

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
