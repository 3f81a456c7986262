"""Differentially private answers to *which ones?* and *how big?* about tables.

Public names are loaded when they are first used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sordino._lazy import lazy
from sordino._version import __version__ as __version__

# First of all: an older Python would fail at some name that it lacks, and not say why.
if sys.version_info < (3, 11):  # noqa: UP036
    raise ImportError(
        f"sordino needs Python 3.11 or newer; this is Python {sys.version.split()[0]}."
    )

if TYPE_CHECKING:
    from sordino import (
        accounting as accounting,
        cost as cost,
        genomics as genomics,
        plan as plan,
        report as report,
        smooth as smooth,
        statements as statements,
    )
    from sordino.columns import BucketCounts as BucketCounts, BucketGrid as BucketGrid
    from sordino.entropy import SYSTEM as SYSTEM, Entropy as Entropy, Seeded as Seeded
    from sordino.errors import (
        BudgetExceeded as BudgetExceeded,
        ClaimBroken as ClaimBroken,
        DataSourceError as DataSourceError,
        HeavyTailWarning as HeavyTailWarning,
        InvalidParameter as InvalidParameter,
        LedgerConflict as LedgerConflict,
        LedgerError as LedgerError,
        RunLost as RunLost,
        RunTaken as RunTaken,
        SimulatedRelease as SimulatedRelease,
        SordinoError as SordinoError,
        StreamClosed as StreamClosed,
        UnboundedContribution as UnboundedContribution,
        UnknownDomain as UnknownDomain,
        UnsafePredicate as UnsafePredicate,
        UnsupportedBackend as UnsupportedBackend,
    )
    from sordino.estimators import (
        ClippedMean as ClippedMean,
        ClippedMeans as ClippedMeans,
        ClippedSum as ClippedSum,
        ClippedSums as ClippedSums,
        ClippedValue as ClippedValue,
        ClippedVariance as ClippedVariance,
        ClippedVariances as ClippedVariances,
        Estimates as Estimates,
        NumbersShare as NumbersShare,
        Quantile as Quantile,
        QuantileEnds as QuantileEnds,
        QuantileInterval as QuantileInterval,
        Quantiles as Quantiles,
        QuantileValue as QuantileValue,
        QuantileValues as QuantileValues,
        ReportsMean as ReportsMean,
        RowRanks as RowRanks,
        SizedQuantile as SizedQuantile,
        VarianceValue as VarianceValue,
        add_rows as add_rows,
        combine_gaps as combine_gaps,
        combine_looks as combine_looks,
        divide_rows as divide_rows,
        interval as interval,
        lower_bound as lower_bound,
        mean_of_reports as mean_of_reports,
        p_value as p_value,
        rank_rows as rank_rows,
    )
    from sordino.figures import (
        DerivedValue as DerivedValue,
        DerivedValues as DerivedValues,
        derive as derive,
        derive_all as derive_all,
    )
    from sordino.ledger import Budget as Budget, Ledger as Ledger
    from sordino.mechanisms import (
        AboveThreshold as AboveThreshold,
        AdaptiveSparseVector as AdaptiveSparseVector,
        CompositeMechanism as CompositeMechanism,
        CompositeTable as CompositeTable,
        ExponentialMechanism as ExponentialMechanism,
        FoldedMechanism as FoldedMechanism,
        GaussianMechanism as GaussianMechanism,
        GaussianSparseVector as GaussianSparseVector,
        GumbelSparseVector as GumbelSparseVector,
        HistogramTopK as HistogramTopK,
        HybridSparseVector as HybridSparseVector,
        HybridTopK as HybridTopK,
        JointTopK as JointTopK,
        LaplaceMechanism as LaplaceMechanism,
        LimitedTopK as LimitedTopK,
        NoisyTopK as NoisyTopK,
        PermuteAndFlip as PermuteAndFlip,
        RandomizedResponse as RandomizedResponse,
        SmoothMechanism as SmoothMechanism,
        SmoothSelection as SmoothSelection,
        SmoothStepSelection as SmoothStepSelection,
        SparseVector as SparseVector,
        StepSelection as StepSelection,
        UnlistedHistogram as UnlistedHistogram,
        UnlistedTopK as UnlistedTopK,
    )
    from sordino.questions import Domain as Domain, Lookup as Lookup, PrivacyUnit as PrivacyUnit
    from sordino.releases import (
        Choice as Choice,
        FirstAbove as FirstAbove,
        HistogramTop as HistogramTop,
        HybridTop as HybridTop,
        Positives as Positives,
        SmoothValue as SmoothValue,
        TopK as TopK,
        TopSet as TopSet,
        UnlistedCounts as UnlistedCounts,
        UnlistedTop as UnlistedTop,
        Value as Value,
        Values as Values,
        Verdict as Verdict,
    )
    from sordino.sensitivity import COUNTING as COUNTING, Sensitivity as Sensitivity
    from sordino.session import Session as Session
    from sordino.sources import CsvFormat as CsvFormat
    from sordino.study import Study as Study, open as open  # noqa: A004 - sd.open
else:
    _load, __dir__ = lazy(__name__)

    def __getattr__(name):
        if name == "audit":
            raise AttributeError(
                "The auditor is a package of its own: pip install 'sordino[audit]' and import "
                "sordino_audit."
            )
        return _load(name)
