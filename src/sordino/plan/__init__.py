"""What to expect of a mechanism before any data is seen: guarantees of accuracy, from its exact law."""

from __future__ import annotations

from sordino.plan._accuracy import Accuracy, accuracy

__all__ = ["Accuracy", "accuracy"]
