"""Estimates built from releases: post-processing that costs nothing, and mechanisms composed for one purpose."""

from __future__ import annotations

from sordino.estimators._combine_gaps import Estimates, combine_gaps
from sordino.estimators._interval import interval
from sordino.estimators._lower_bound import lower_bound
from sordino.estimators._p_value import p_value

__all__ = ["Estimates", "combine_gaps", "interval", "lower_bound", "p_value"]
