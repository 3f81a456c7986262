"""Filters that say when to stop, and the epsilon of a fixed batch by every proven route."""

from __future__ import annotations

from sordino.accounting._compare import Comparison, Route, compare
from sordino.accounting._pld import LossDistribution, pld, to_dp_events
from sordino.accounting.filters import ApproximateFilter, PureFilter, RDPFilter, ZCDPFilter

__all__ = [
    "ApproximateFilter",
    "Comparison",
    "LossDistribution",
    "PureFilter",
    "RDPFilter",
    "Route",
    "ZCDPFilter",
    "compare",
    "pld",
    "to_dp_events",
]
