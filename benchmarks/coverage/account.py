"""Coverage on an account with a delta that has left epsilons behind: counts and totals have Gaussian noise there, searches and selections Gumbel noise."""

from __future__ import annotations

import sordino as sd
from benchmarks.coverage import figures, items
from benchmarks.coverage.tables import ITEM_SHAPES, NUMBER_SHAPES
from sordino.ledger import Price
from sordino.ledger.amounts import Meter
from sordino.ledger.renyi import NOTHING

BUDGET = sd.Budget(epsilon=8, delta=1e-6)
FREE = Price(
    Meter("renyi", BUDGET.order), limits=BUDGET.limits, spent=NOTHING._replace(impure=True)
)
"""The account after its first release without an epsilon: each release has other noise where that is smaller."""
COUNTED = {
    "count --units": ("unit", "M = 2"),
    "histogram": ("row", "unit", "M = 2"),
    "histogram --simultaneous": ("unit", "M = 2"),
    "top": ("unit", "M = 2"),
    "above --measure-share": ("unit", "M = 2"),
}
FIGURES = (
    "quantile",
    "quantile --q 0.1,0.5,0.9",
    "quantile --interval-share none",
    "sum",
    "mean",
    "variance",
    "quantile --by",
    "sum --by",
    "mean --by",
    "variance --by",
)
UNITS = ("row, replace-one", "M = 1", "M = 3")


class Counts:
    """Of counts, by the cells of `items`."""

    @staticmethod
    def cells():
        return [
            (name, shape, unit)
            for shape in ITEM_SHAPES
            for name, units in COUNTED.items()
            for unit in units
        ]

    @staticmethod
    def measure(name, shape, unit, runs=items.RUNS):
        return items.measure(name, shape, unit, runs, FREE)


class Figures:
    """Of figures of columns, by the cells of `figures`."""

    @staticmethod
    def cells():
        return [
            (name, shape, unit) for shape in NUMBER_SHAPES for unit in UNITS for name in FIGURES
        ]

    @staticmethod
    def measure(name, shape, unit, runs=figures.RUNS):
        return figures.measure(name, shape, unit, runs, FREE)
