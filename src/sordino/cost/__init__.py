"""What releases cost: values that can be read as pure, zCDP, Rényi or (epsilon, delta) privacy."""

from __future__ import annotations

from sordino.cost.approximate import Approximate, ApproximateZCDP
from sordino.cost.base import Cost
from sordino.cost.composition import Composition, compose, repeat
from sordino.cost.gumbel_stage import GumbelStage
from sordino.cost.randomized_choice import RandomizedChoice
from sordino.cost.range import BoundedRange, Pure, Range
from sordino.cost.rdp import RDP, ZCDP

__all__ = [
    "RDP",
    "ZCDP",
    "Approximate",
    "ApproximateZCDP",
    "BoundedRange",
    "Composition",
    "Cost",
    "GumbelStage",
    "Pure",
    "RandomizedChoice",
    "Range",
    "compose",
    "repeat",
]
