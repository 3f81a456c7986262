"""Refuses the statistics for which a smooth bound gains nothing, and says what to use instead.

Claim: none; nothing is computed here.
Proof: docs/proofs/smooth-bounds.md, "Where nothing is gained".
Floats: none.
"""

from __future__ import annotations

from typing import Any, NoReturn

from sordino.errors import InvalidParameter
from sordino.scrubbing import scrubbed


@scrubbed
def mean(*_values: Any, **_parameters: Any) -> NoReturn:
    """Refuse: a smooth bound of a mean is its global sensitivity.

    Raises
    ------
    InvalidParameter
        Always: one record moves the mean of values in [lower, upper] by up to (upper - lower) / n
        within a step of *any* data, so that no smooth bound is much below that. `ClippedMean`, and
        `LaplaceMechanism` where the limits are known, need no bound.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.mean([1, 2, 3], lower=0, upper=10, beta=0.1)
    Traceback (most recent call last):
    ...
    sordino.errors.InvalidParameter: smooth.mean must not be used: ... Use ClippedMean, ...
    """
    raise _refusal(
        "mean", "(upper - lower) / n", "ClippedMean, or LaplaceMechanism where the limits are known"
    )


@scrubbed
def sum(*_values: Any, **_parameters: Any) -> NoReturn:  # noqa: A001  (it is called as smooth.sum)
    """Refuse: a smooth bound of a sum is its global sensitivity.

    Raises
    ------
    InvalidParameter
        Always, as `mean`: `ClippedSum`, and `LaplaceMechanism` where the limits are known, need no
        bound.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.sum([1, 2, 3], lower=0, upper=10, beta=0.1)
    Traceback (most recent call last):
    ...
    sordino.errors.InvalidParameter: smooth.sum must not be used: ... Use ClippedSum, or ...
    """
    raise _refusal(
        "sum", "upper - lower", "ClippedSum, or LaplaceMechanism where the limits are known"
    )


@scrubbed
def count(*_values: Any, **_parameters: Any) -> NoReturn:
    """Refuse: a smooth bound of a count, of distinct items too, is its global sensitivity.

    Raises
    ------
    InvalidParameter
        Always, as `mean`: `LaplaceMechanism` with `COUNTING` needs no bound.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.count([1, 2, 3], beta=0.1)
    Traceback (most recent call last):
    ...
    sordino.errors.InvalidParameter: smooth.count must not be used: ... Use LaplaceMechanism(...
    """
    raise _refusal("count", "1", "LaplaceMechanism(sensitivity=COUNTING)")


def _refusal(name: str, sensitivity: str, instead: str) -> InvalidParameter:
    return InvalidParameter(
        f"smooth.{name} must not be used: within a step of any data one record moves a {name} by "
        f"as much as it ever does, {sensitivity}, so a smooth bound is hardly smaller and its "
        f"noise is heavier. Use {instead}."
    )
