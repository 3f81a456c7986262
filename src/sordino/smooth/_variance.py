"""The population variance of numbers within public limits, with its smooth bounds.

Claim: `variance` is a beta-smooth upper bound of the local sensitivity of `variance_statistic` if
one record is replaced, at most `variance_ceiling`. Proof: docs/proofs/smooth-bounds.md,
"Variances". Floats: rounded outward, beta lowered by what rounding can do; sums are rounded once,
and do not depend on the order of the records.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.constraints import COUNT, FINITE, Number
from sordino.scrubbing import scrubbed
from sordino.smooth.values import (
    Floats,
    checked_beta,
    clip_values,
    inner,
    limits,
    outward,
    rounded_up,
)

_WIDEST_RANGE = 2.0**500  # squares are floats
_VARIANCE_STATISTIC_ERROR = 2.0**-48
"""How much farther apart the floats of two variances may be than the variances.

As a share of the squared width.
"""


@scrubbed
def variance(values: Any, *, lower: Number, upper: Number, beta: Number) -> float:
    """Return a smooth bound of how far one record can move the population variance of `values`.

    Neighbors are lists of as many records that differ in one of them. At best, where the mean lies
    in the middle, the bound is a quarter of the ceiling: do not expect more from it.

    Parameters
    ----------
    values : array of float, shape (n,)
        Private, in any order; n is public. They are moved into [lower, upper]; NaN, and what is no
        number, becomes `lower`.
    lower, upper : number
        Public limits.
    beta : number
        How fast the bound may change, in [0, inf), in nats a record: public. 0 makes it the
        ceiling.

    Returns
    -------
    float
        In the squared unit of the values. Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the values, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> values = [4.0, 5.0, 6.0, 5.0, 4.5] * 40
    >>> round(sd.smooth.variance(values, lower=0, upper=10, beta=0.1), 3)
    0.132
    >>> float(sd.smooth.variance_ceiling(records=200, lower=0, upper=10))
    0.4975
    """
    owner = "smooth.variance"
    low, high = limits(lower, upper, owner, _WIDEST_RANGE)
    decay = inner(checked_beta(beta, owner))
    records = clip_values(values, low, high, owner)
    n, width = records.size, rounded_up(high - low)
    # A single record has no variance, and nothing moves it.
    top = rounded_up(variance_ceiling(records=n, lower=lower, upper=upper)) if n > 1 else 0.0
    # Counted from the lower limit: the shift to [0, B] of docs/proofs/smooth-bounds.md,
    # "Variances".
    mean = _mean_above(records, low)
    # From t = n/2 on the reach is the whole width, and the terms only fall.
    away = np.arange(n // 2 + 2)
    reach = np.minimum(width, max(mean, width - mean) + (away + 1) * (width / n))
    found = np.exp(-decay * away) * (reach / width) ** 2
    # The statistic is rounded, too. Its error does not shrink with the bound, so it is added.
    return float(outward(found.max() * top, top)) + width**2 * _VARIANCE_STATISTIC_ERROR


@scrubbed
def variance_statistic(values: Any, *, lower: Number, upper: Number) -> float:
    """Return the population variance that `variance` bounds.

    The mean squared distance from the mean.

    Parameters
    ----------
    values, lower, upper
        As for `variance`.

    Returns
    -------
    float
        In the squared unit of the values. Private.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the values, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.variance_statistic([1, 3, 5, 99], lower=0, upper=7)
    5.0
    """
    owner = "smooth.variance_statistic"
    low, high = limits(lower, upper, owner, _WIDEST_RANGE)
    records = clip_values(values, low, high, owner)
    return math.fsum((records - low - _mean_above(records, low)) ** 2) / records.size


def variance_ceiling(*, records: int, lower: Number, upper: Number) -> Fraction:
    """Return by how much one record can move the population variance at most.

    It is (n - 1) / n^2 times the squared width.

    Parameters
    ----------
    records : int
        How many there are: public.
    lower, upper : number
        Public limits.

    Returns
    -------
    Fraction
        In the squared unit of the values.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.variance_ceiling(records=10, lower=-1, upper=1)
    Fraction(9, 25)
    """
    owner = "smooth.variance_ceiling"
    limits(lower, upper, owner, _WIDEST_RANGE)
    n: int = COUNT(f"{owner}.records", records)
    width: Fraction = FINITE(f"{owner}.upper", upper) - FINITE(f"{owner}.lower", lower)
    return Fraction(n - 1, n**2) * width**2


def _mean_above(records: Floats, low: float) -> float:
    """Return the mean of the records above `low`."""
    # `fsum` rounds once, so the order of the records does not show.
    return math.fsum(records - low) / records.size
