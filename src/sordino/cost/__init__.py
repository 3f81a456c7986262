"""Costs are values with views; accountants only add."""

from __future__ import annotations

from sordino.cost._composition import Composition, compose, repeat
from sordino.cost._notion import Cost
from sordino.cost._pure import Pure
from sordino.cost._zcdp import ZCDP

__all__ = ["ZCDP", "Composition", "Cost", "Pure", "compose", "repeat"]
