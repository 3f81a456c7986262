"""What releases cost: values that can be read as pure, zCDP, Rényi or (epsilon, delta) privacy."""

from __future__ import annotations

from sordino.cost._approximate import Approximate
from sordino.cost._bounded_range import BoundedRange
from sordino.cost._notion import Cost
from sordino.cost._pure import Pure
from sordino.cost._range import Range
from sordino.cost._zcdp import ZCDP
from sordino.cost.composition import Composition, compose, repeat
from sordino.cost.rdp import RDP

__all__ = [
    "RDP",
    "ZCDP",
    "Approximate",
    "BoundedRange",
    "Composition",
    "Cost",
    "Pure",
    "Range",
    "compose",
    "repeat",
]
