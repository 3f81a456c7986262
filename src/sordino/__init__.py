"""Private answers to *which ones?* and *how big?* about tables. Public names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino import accounting, audit, cost, plan
    from sordino.data import CsvFormat, Domain, PrivacyUnit
    from sordino.entropy import SYSTEM, Entropy, Seeded
    from sordino.errors import (
        BudgetExceeded,
        ClaimBroken,
        DataSourceError,
        InvalidParameter,
        LedgerConflict,
        LedgerError,
        SimulatedRelease,
        SordinoError,
        StreamClosed,
        UnboundedContribution,
        UnknownDomain,
        UnsafePredicate,
        UnsupportedBackend,
    )
    from sordino.estimators import (
        BucketCounts,
        BucketGrid,
        ClippedMean,
        ClippedSum,
        ClippedValue,
        Estimates,
        Quantile,
        Quantiles,
        QuantileValue,
        QuantileValues,
        combine_gaps,
        interval,
        lower_bound,
        p_value,
    )
    from sordino.ledger import Budget, Ledger
    from sordino.mechanisms import (
        AboveThreshold,
        AdaptiveSparseVector,
        CompositeMechanism,
        CompositeTable,
        ExponentialMechanism,
        FoldedMechanism,
        GaussianMechanism,
        GaussianSparseVector,
        GumbelSparseVector,
        HybridSparseVector,
        HybridTopK,
        LaplaceMechanism,
        NoisyTopK,
        PermuteAndFlip,
        RandomizedResponse,
        SparseVector,
    )
    from sordino.releases import Choice, FirstAbove, HybridTop, Positives, TopK, Value, Values, Verdict
    from sordino.sensitivity import COUNTING, Sensitivity
    from sordino.session import Session

_HOME = {
    "accounting": ("accounting",),
    "audit": ("audit",),
    "cost": ("cost",),
    "data": ("CsvFormat", "Domain", "PrivacyUnit"),
    "entropy": ("SYSTEM", "Entropy", "Seeded"),
    "errors": (
        "BudgetExceeded",
        "ClaimBroken",
        "DataSourceError",
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
        "Estimates",
        "Quantile",
        "QuantileValue",
        "QuantileValues",
        "Quantiles",
        "combine_gaps",
        "interval",
        "lower_bound",
        "p_value",
    ),
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
        "LaplaceMechanism",
        "NoisyTopK",
        "PermuteAndFlip",
        "RandomizedResponse",
        "SparseVector",
    ),
    "plan": ("plan",),
    "releases": ("Choice", "FirstAbove", "HybridTop", "Positives", "TopK", "Value", "Values", "Verdict"),
    "sensitivity": ("COUNTING", "Sensitivity"),
    "session": ("Session",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__version__ = "0.1.0.dev0"
__all__ = [
    "COUNTING",
    "SYSTEM",
    "AboveThreshold",
    "AdaptiveSparseVector",
    "BucketCounts",
    "BucketGrid",
    "Budget",
    "BudgetExceeded",
    "Choice",
    "ClaimBroken",
    "ClippedMean",
    "ClippedSum",
    "ClippedValue",
    "CompositeMechanism",
    "CompositeTable",
    "CsvFormat",
    "DataSourceError",
    "Domain",
    "Entropy",
    "Estimates",
    "ExponentialMechanism",
    "FirstAbove",
    "FoldedMechanism",
    "GaussianMechanism",
    "GaussianSparseVector",
    "GumbelSparseVector",
    "HybridSparseVector",
    "HybridTop",
    "HybridTopK",
    "InvalidParameter",
    "LaplaceMechanism",
    "Ledger",
    "LedgerConflict",
    "LedgerError",
    "NoisyTopK",
    "PermuteAndFlip",
    "Positives",
    "PrivacyUnit",
    "Quantile",
    "QuantileValue",
    "QuantileValues",
    "Quantiles",
    "RandomizedResponse",
    "Seeded",
    "Sensitivity",
    "Session",
    "SimulatedRelease",
    "SordinoError",
    "SparseVector",
    "StreamClosed",
    "TopK",
    "UnboundedContribution",
    "UnknownDomain",
    "UnsafePredicate",
    "UnsupportedBackend",
    "Value",
    "Values",
    "Verdict",
    "accounting",
    "audit",
    "combine_gaps",
    "cost",
    "interval",
    "lower_bound",
    "p_value",
    "plan",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE:
        raise AttributeError(f"module 'sordino' has no attribute {name!r}")
    module = import_module(f"sordino.{_MODULE[name]}")
    value = module if name == _MODULE[name] else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
