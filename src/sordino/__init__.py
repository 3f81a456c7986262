"""Private answers to *which ones?* and *how big?* about tables. Public names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino import cost
    from sordino.data import CsvFormat, Domain, PrivacyUnit
    from sordino.entropy import SYSTEM, Entropy, Seeded
    from sordino.errors import (
        BudgetExceeded,
        DataSourceError,
        InvalidParameter,
        LedgerConflict,
        LedgerError,
        SimulatedRelease,
        SordinoError,
        UnboundedContribution,
        UnknownDomain,
        UnsafePredicate,
        UnsupportedBackend,
    )
    from sordino.estimators import Estimates, combine_gaps, interval
    from sordino.ledger import Budget, Ledger
    from sordino.mechanisms import GaussianMechanism, LaplaceMechanism, NoisyTopK
    from sordino.releases import TopK, Value, Values
    from sordino.sensitivity import COUNTING, Sensitivity
    from sordino.session import Session

_HOME = {
    "cost": ("cost",),
    "data": ("CsvFormat", "Domain", "PrivacyUnit"),
    "entropy": ("SYSTEM", "Entropy", "Seeded"),
    "errors": (
        "BudgetExceeded",
        "DataSourceError",
        "InvalidParameter",
        "LedgerConflict",
        "LedgerError",
        "SimulatedRelease",
        "SordinoError",
        "UnboundedContribution",
        "UnknownDomain",
        "UnsafePredicate",
        "UnsupportedBackend",
    ),
    "estimators": ("Estimates", "combine_gaps", "interval"),
    "ledger": ("Budget", "Ledger"),
    "mechanisms": ("GaussianMechanism", "LaplaceMechanism", "NoisyTopK"),
    "releases": ("TopK", "Value", "Values"),
    "sensitivity": ("COUNTING", "Sensitivity"),
    "session": ("Session",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__version__ = "0.1.0.dev0"
__all__ = [
    "COUNTING",
    "SYSTEM",
    "Budget",
    "BudgetExceeded",
    "CsvFormat",
    "DataSourceError",
    "Domain",
    "Entropy",
    "Estimates",
    "GaussianMechanism",
    "InvalidParameter",
    "LaplaceMechanism",
    "Ledger",
    "LedgerConflict",
    "LedgerError",
    "NoisyTopK",
    "PrivacyUnit",
    "Seeded",
    "Sensitivity",
    "Session",
    "SimulatedRelease",
    "SordinoError",
    "TopK",
    "UnboundedContribution",
    "UnknownDomain",
    "UnsafePredicate",
    "UnsupportedBackend",
    "Value",
    "Values",
    "combine_gaps",
    "cost",
    "interval",
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
