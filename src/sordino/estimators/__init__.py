"""Estimates: free post-processing of releases, and mechanisms that are composed for one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.estimators.clipped.clipped_mean import ClippedMean
    from sordino.estimators.clipped.clipped_sum import ClippedSum
    from sordino.estimators.clipped.clipped_value import ClippedValue
    from sordino.estimators.clipped.clipped_variance import ClippedVariance, VarianceValue
    from sordino.estimators.columns.bucket_counts import BucketCounts
    from sordino.estimators.columns.bucket_grid import BucketGrid
    from sordino.estimators.gaps import Estimates, combine_gaps
    from sordino.estimators.intervals import interval
    from sordino.estimators.lower_bounds import lower_bound
    from sordino.estimators.p_values import p_value
    from sordino.estimators.quantiles.quantile import Quantile, QuantileValue
    from sordino.estimators.quantiles.quantiles import Quantiles, QuantileValues
    from sordino.estimators.reports import ReportsMean, mean_of_reports

# A name is imported from its module when it is first asked for, so that importing the package stays fast.
_HOMES = {
    "columns.bucket_counts": ("BucketCounts",),
    "columns.bucket_grid": ("BucketGrid",),
    "clipped.clipped_mean": ("ClippedMean",),
    "clipped.clipped_sum": ("ClippedSum",),
    "clipped.clipped_value": ("ClippedValue",),
    "clipped.clipped_variance": ("ClippedVariance", "VarianceValue"),
    "gaps": ("Estimates", "combine_gaps"),
    "intervals": ("interval",),
    "lower_bounds": ("lower_bound",),
    "reports": ("ReportsMean", "mean_of_reports"),
    "p_values": ("p_value",),
    "quantiles.quantile": ("Quantile", "QuantileValue"),
    "quantiles.quantiles": ("Quantiles", "QuantileValues"),
}
__all__ = [
    "BucketCounts",
    "BucketGrid",
    "ClippedMean",
    "ClippedSum",
    "ClippedValue",
    "ClippedVariance",
    "Estimates",
    "Quantile",
    "QuantileValue",
    "QuantileValues",
    "Quantiles",
    "ReportsMean",
    "VarianceValue",
    "combine_gaps",
    "interval",
    "lower_bound",
    "mean_of_reports",
    "p_value",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
