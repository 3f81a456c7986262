"""Smooth upper bounds of how far one unit can move a statistic at the data at hand, to scale noise.

A bound S(x) is beta-smooth if it is at least the largest change of the statistic between x and a
neighbor, and S(x) <= e^beta S(y) for neighbors x and y. It is private: `SmoothMechanism` and
`SmoothSelection` take it as an argument, and nothing else may depend on it. All bounds here are for
neighbors that differ in one replaced unit.
"""

from __future__ import annotations

from sordino.smooth._bound import best_beta, bound
from sordino.smooth._quantile import quantile, quantile_statistic
from sordino.smooth._table import Table, chi_square, table
from sordino.smooth._tdt import tdt, tdt_ceiling, tdt_statistic
from sordino.smooth._variance import variance, variance_ceiling, variance_statistic
from sordino.smooth.no_gain import count, mean, sum  # noqa: A004  (called as smooth.sum)
from sordino.smooth.values import from_distance, largest_beta

__all__ = [
    "Table",
    "best_beta",
    "bound",
    "chi_square",
    "count",
    "from_distance",
    "largest_beta",
    "mean",
    "quantile",
    "quantile_statistic",
    "sum",
    "table",
    "tdt",
    "tdt_ceiling",
    "tdt_statistic",
    "variance",
    "variance_ceiling",
    "variance_statistic",
]
