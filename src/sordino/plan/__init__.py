"""What to expect of a mechanism before any data is seen: guarantees of accuracy, from its exact law; and which mechanism to take."""

from __future__ import annotations

from sordino.plan._accuracy import Accuracy, accuracy
from sordino.plan._selector import Alternative, Selector, choose_selector

__all__ = ["Accuracy", "Alternative", "Selector", "accuracy", "choose_selector"]
