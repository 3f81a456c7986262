"""Estimates: free post-processing of releases, and mechanisms that are composed for one figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy

if TYPE_CHECKING:
    from sordino.estimators.clipped.clipped_mean import ClippedMean as ClippedMean
    from sordino.estimators.clipped.clipped_means import ClippedMeans as ClippedMeans
    from sordino.estimators.clipped.clipped_sum import ClippedSum as ClippedSum
    from sordino.estimators.clipped.clipped_sums import ClippedSums as ClippedSums
    from sordino.estimators.clipped.clipped_value import ClippedValue as ClippedValue
    from sordino.estimators.clipped.clipped_variance import (
        ClippedVariance as ClippedVariance,
        VarianceValue as VarianceValue,
    )
    from sordino.estimators.clipped.clipped_variances import ClippedVariances as ClippedVariances
    from sordino.estimators.column_release import NumbersShare as NumbersShare
    from sordino.estimators.derived_rows import (
        RowRanks as RowRanks,
        add_rows as add_rows,
        combine_looks as combine_looks,
        divide_rows as divide_rows,
        rank_rows as rank_rows,
        weigh_looks as weigh_looks,
    )
    from sordino.estimators.gaps import Estimates as Estimates, combine_gaps as combine_gaps
    from sordino.estimators.intervals import (
        interval as interval,
        lower_bound as lower_bound,
        p_value as p_value,
    )
    from sordino.estimators.quantiles.quantile import (
        Quantile as Quantile,
        QuantileValue as QuantileValue,
    )
    from sordino.estimators.quantiles.quantile_interval import (
        QuantileEnds as QuantileEnds,
        QuantileInterval as QuantileInterval,
    )
    from sordino.estimators.quantiles.quantiles import (
        Quantiles as Quantiles,
        QuantileValues as QuantileValues,
    )
    from sordino.estimators.quantiles.sized_quantile import SizedQuantile as SizedQuantile
    from sordino.estimators.reports import (
        ReportsMean as ReportsMean,
        mean_of_reports as mean_of_reports,
    )
else:
    __getattr__, __dir__ = lazy(__name__)
