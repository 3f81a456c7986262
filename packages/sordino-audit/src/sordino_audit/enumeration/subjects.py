"""Turns a mechanism into what the auditor looks at.

Most mechanisms are played by their own rules. The others stand in a table: no finite number of draws decides
what they release, so the law of a release is stated, or one try of it is played.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sordino.constraints import shown
from sordino.errors import InvalidParameter
from sordino.estimators import ClippedMean, ClippedSum, ClippedVariance, Quantile, QuantileInterval, Quantiles
from sordino.mechanisms import (
    AboveThreshold,
    CompositeMechanism,
    CompositeTable,
    ExponentialMechanism,
    FoldedMechanism,
    GumbelSparseVector,
    JointTopK,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    SmoothMechanism,
    SmoothSelection,
    SmoothStepSelection,
)
from sordino.mechanisms.base import Rules
from sordino_audit.continuous.continuous import Continuous
from sordino_audit.continuous.scaled import smooth_mechanism, smooth_selection
from sordino_audit.enumeration.bounded import composite, folded
from sordino_audit.enumeration.clipped import clipped
from sordino_audit.enumeration.joint_sets import joint_top_k
from sordino_audit.enumeration.played import subject_by_rules
from sordino_audit.enumeration.quantiles import quantile, quantile_interval, quantiles
from sordino_audit.enumeration.scans import above_threshold
from sordino_audit.enumeration.selection import (
    exponential_mechanism,
    gumbel_sparse_vector,
    noisy_top_k,
    permute_and_flip,
    randomized_response,
    smooth_step_selection,
)
from sordino_audit.enumeration.subject import Subject

Audited = Subject | Continuous

STATED: dict[type, Callable[[Any, int], Audited | None]] = {
    AboveThreshold: above_threshold,
    ClippedMean: clipped,
    ClippedVariance: clipped,
    ClippedSum: clipped,
    CompositeMechanism: composite,
    CompositeTable: composite,
    ExponentialMechanism: exponential_mechanism,
    FoldedMechanism: folded,
    GumbelSparseVector: gumbel_sparse_vector,
    JointTopK: joint_top_k,
    NoisyTopK: noisy_top_k,
    PermuteAndFlip: permute_and_flip,
    Quantile: quantile,
    QuantileInterval: quantile_interval,
    Quantiles: quantiles,
    RandomizedResponse: randomized_response,
    SmoothMechanism: smooth_mechanism,
    SmoothSelection: smooth_selection,
    SmoothStepSelection: smooth_step_selection,
}
"""What is not played by its rules; None from a function says that these parameters are."""


def subject_of(mechanism: Any, n: int) -> Audited:
    """Return the mechanism, for `n` answers, as the auditor sees it.

    A mechanism of yours has a method `audited(n)` for that.

    Raises
    ------
    InvalidParameter
        If the auditor knows nothing about it.
    """
    # A subject is what the auditor looks at already.
    if isinstance(mechanism, Subject | Continuous):
        return mechanism
    stated = STATED.get(type(mechanism))
    found = None if stated is None else stated(mechanism, n)
    # None from the table: with these parameters the mechanism is played by its rules.
    if found is not None:
        return found
    rules = getattr(mechanism, "rules", None)
    if isinstance(rules, Rules):
        return subject_by_rules(mechanism, rules, n)
    # Somebody else's mechanism says itself what is to be audited.
    made = mechanism.audited(n) if hasattr(mechanism, "audited") else None
    if isinstance(made, Subject | Continuous):
        return made
    raise InvalidParameter(
        "audit.exact needs a mechanism of this library, an audit.Subject, "
        "or an object whose audited(n) returns one; got "
        f"{shown(mechanism)}."
    )
