"""Differentially private answers to *which ones?* and *how big?* about tables.

Public names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino._lazy import lazy
from sordino._version import __version__ as __version__

if TYPE_CHECKING:
    from sordino import (
        accounting as accounting,
        audit as audit,
        cost as cost,
        genomics as genomics,
        plan as plan,
        smooth as smooth,
    )
    from sordino.data import CsvFormat as CsvFormat, Domain as Domain, PrivacyUnit as PrivacyUnit
    from sordino.entropy import SYSTEM as SYSTEM, Entropy as Entropy, Seeded as Seeded
    from sordino.errors import (
        BudgetExceeded as BudgetExceeded,
        ClaimBroken as ClaimBroken,
        DataSourceError as DataSourceError,
        HeavyTailWarning as HeavyTailWarning,
        InvalidParameter as InvalidParameter,
        LedgerConflict as LedgerConflict,
        LedgerError as LedgerError,
        SimulatedRelease as SimulatedRelease,
        SordinoError as SordinoError,
        StreamClosed as StreamClosed,
        UnboundedContribution as UnboundedContribution,
        UnknownDomain as UnknownDomain,
        UnsafePredicate as UnsafePredicate,
        UnsupportedBackend as UnsupportedBackend,
    )
    from sordino.estimators import (
        BucketCounts as BucketCounts,
        BucketGrid as BucketGrid,
        ClippedMean as ClippedMean,
        ClippedSum as ClippedSum,
        ClippedValue as ClippedValue,
        ClippedVariance as ClippedVariance,
        Estimates as Estimates,
        NumbersShare as NumbersShare,
        Quantile as Quantile,
        QuantileEnds as QuantileEnds,
        QuantileInterval as QuantileInterval,
        Quantiles as Quantiles,
        QuantileValue as QuantileValue,
        QuantileValues as QuantileValues,
        ReportsMean as ReportsMean,
        VarianceValue as VarianceValue,
        combine_gaps as combine_gaps,
        interval as interval,
        lower_bound as lower_bound,
        mean_of_reports as mean_of_reports,
        p_value as p_value,
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
        HybridSparseVector as HybridSparseVector,
        HybridTopK as HybridTopK,
        JointTopK as JointTopK,
        LaplaceMechanism as LaplaceMechanism,
        NoisyTopK as NoisyTopK,
        PermuteAndFlip as PermuteAndFlip,
        RandomizedResponse as RandomizedResponse,
        SmoothMechanism as SmoothMechanism,
        SmoothSelection as SmoothSelection,
        SmoothStepSelection as SmoothStepSelection,
        SparseVector as SparseVector,
        StepSelection as StepSelection,
    )
    from sordino.releases import (
        Choice as Choice,
        FirstAbove as FirstAbove,
        HybridTop as HybridTop,
        Positives as Positives,
        SmoothValue as SmoothValue,
        TopK as TopK,
        TopSet as TopSet,
        Value as Value,
        Values as Values,
        Verdict as Verdict,
    )
    from sordino.sensitivity import COUNTING as COUNTING, Sensitivity as Sensitivity
    from sordino.session import Session as Session

# Which module of the package holds each public name.
# Type checkers read the imports above, and Python this table; a test compares the two.
_HOMES = {
    "accounting": ("accounting",),
    "audit": ("audit",),
    "cost": ("cost",),
    "data": ("CsvFormat", "Domain", "PrivacyUnit"),
    "entropy": ("SYSTEM", "Entropy", "Seeded"),
    "errors": (
        "BudgetExceeded",
        "ClaimBroken",
        "DataSourceError",
        "HeavyTailWarning",
        "InvalidParameter",
        "LedgerConflict",
        "LedgerError",
        "SimulatedRelease",
        "SordinoError",
        "StreamClosed",
        "UnboundedContribution",
        "UnknownDomain",
        "UnsafePredicate",
        "UnsupportedBackend",
    ),
    "estimators": (
        "BucketCounts",
        "BucketGrid",
        "ClippedMean",
        "ClippedSum",
        "ClippedValue",
        "ClippedVariance",
        "Estimates",
        "Quantile",
        "NumbersShare",
        "QuantileEnds",
        "QuantileInterval",
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
    ),
    "genomics": ("genomics",),
    "ledger": ("Budget", "Ledger"),
    "mechanisms": (
        "AboveThreshold",
        "AdaptiveSparseVector",
        "CompositeMechanism",
        "CompositeTable",
        "ExponentialMechanism",
        "FoldedMechanism",
        "GaussianMechanism",
        "GaussianSparseVector",
        "GumbelSparseVector",
        "HybridSparseVector",
        "HybridTopK",
        "JointTopK",
        "LaplaceMechanism",
        "NoisyTopK",
        "PermuteAndFlip",
        "RandomizedResponse",
        "SmoothMechanism",
        "SmoothSelection",
        "SmoothStepSelection",
        "SparseVector",
        "StepSelection",
    ),
    "plan": ("plan",),
    "releases": (
        "Choice",
        "FirstAbove",
        "HybridTop",
        "Positives",
        "SmoothValue",
        "TopK",
        "TopSet",
        "Value",
        "Values",
        "Verdict",
    ),
    "sensitivity": ("COUNTING", "Sensitivity"),
    "session": ("Session",),
    "smooth": ("smooth",),
}

# Hidden from type checkers, which would take every name for known.
if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy(__name__, _HOMES)
