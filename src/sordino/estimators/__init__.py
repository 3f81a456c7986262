"""Estimates: free post-processing of releases, and mechanisms that are composed for one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.estimators._bucket_counts import BucketCounts
    from sordino.estimators._bucket_grid import BucketGrid
    from sordino.estimators._clipped_mean import ClippedMean
    from sordino.estimators._clipped_sum import ClippedSum
    from sordino.estimators._clipped_value import ClippedValue
    from sordino.estimators._combine_gaps import Estimates, combine_gaps
    from sordino.estimators._interval import interval
    from sordino.estimators._lower_bound import lower_bound
    from sordino.estimators._mean_of_reports import ReportsMean, mean_of_reports
    from sordino.estimators._p_value import p_value
    from sordino.estimators._quantile import Quantile, QuantileValue
    from sordino.estimators.quantiles import Quantiles, QuantileValues

_HOMES = {
    "_bucket_counts": ("BucketCounts",),
    "_bucket_grid": ("BucketGrid",),
    "_clipped_mean": ("ClippedMean",),
    "_clipped_sum": ("ClippedSum",),
    "_clipped_value": ("ClippedValue",),
    "_combine_gaps": ("Estimates", "combine_gaps"),
    "_interval": ("interval",),
    "_lower_bound": ("lower_bound",),
    "_mean_of_reports": ("ReportsMean", "mean_of_reports"),
    "_p_value": ("p_value",),
    "_quantile": ("Quantile", "QuantileValue"),
    "quantiles": ("Quantiles", "QuantileValues"),
}
__all__ = [
    "BucketCounts",
    "BucketGrid",
    "ClippedMean",
    "ClippedSum",
    "ClippedValue",
    "Estimates",
    "Quantile",
    "QuantileValue",
    "QuantileValues",
    "Quantiles",
    "ReportsMean",
    "combine_gaps",
    "interval",
    "lower_bound",
    "mean_of_reports",
    "p_value",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
