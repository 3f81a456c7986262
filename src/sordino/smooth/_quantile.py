"""Quantiles of numbers within public limits, and smooth bounds of how far one record moves them.

Claim: `quantile` is a beta-smooth upper bound of the local sensitivity of `quantile_statistic` if
one record is replaced: without rounding its smooth sensitivity, the smallest such bound
[nissim2007]. Proof: docs/proofs/smooth-bounds.md, "Quantiles". Floats: rounded outward, beta
lowered by what rounding can do.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sordino.constraints import COUNT, PROPORTION, Number, shown
from sordino.errors import InvalidParameter
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


@scrubbed
def quantile(
    values: Any,
    *,
    lower: Number,
    upper: Number,
    beta: Number,
    q: Number | None = None,
    rank: int | None = None,
) -> float:
    """Return the smallest smooth bound of how far one record can move a quantile of `values`.

    Neighbors are lists of as many records that differ in one of them. The median (q=0.5) of a list
    that is dense around it hardly moves, whatever the limits are.

    Parameters
    ----------
    values : array of float, shape (n,)
        Private, in any order; n is public. They are moved into [lower, upper]; NaN, and what is no
        number, becomes `lower`.
    lower, upper : number
        Public limits.
    beta : number
        How fast the bound may change, in [0, inf), in nats a record: public. 0 makes it upper -
        lower.
    q : number, optional
        Share of the records at or below the quantile, in [0, 1]: that of rank max(1, ceil(q * n)).
    rank : int, optional
        Instead of q: 1 for the smallest record, n for the largest.

    Returns
    -------
    float
        In the unit of the values. Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the values, is not as it must be.

    Notes
    -----
    O(n log n) time: a tenth of a second for 100,000 records.

    Examples
    --------
    >>> import sordino as sd
    >>> ages = [21, 23, 24, 30, 31, 33, 34, 36, 41, 55, 62]
    >>> sd.smooth.quantile_statistic(ages, q=0.5, lower=0, upper=120)
    33.0
    >>> round(sd.smooth.quantile(ages, q=0.5, lower=0, upper=120, beta=0.7), 3)
    2.694
    """
    owner = "smooth.quantile"
    low, high = limits(lower, upper, owner)
    decay = inner(checked_beta(beta, owner), ERROR)
    records = clip_values(values, low, high, owner)
    place = _read_quantile_rank(q, rank, records.size, owner)
    # Records that are replaced may move to either limit, so the limits stand beside the sorted
    # records.
    padded = np.concatenate(([low], np.sort(records), [high]))
    return float(outward(largest_gap(padded, place, decay), rounded_up(high - low)))


@scrubbed
def quantile_statistic(
    values: Any, *, lower: Number, upper: Number, q: Number | None = None, rank: int | None = None
) -> float:
    """Return the quantile that `quantile` bounds: the record of that rank, no number between two.

    Parameters
    ----------
    values, lower, upper, q, rank
        As for `quantile`.

    Returns
    -------
    float
        In the unit of the values. Private.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the values, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.quantile_statistic([3, 1, float("nan"), 200], rank=4, lower=0, upper=10)
    10.0
    """
    owner = "smooth.quantile_statistic"
    low, high = limits(lower, upper, owner)
    records = clip_values(values, low, high, owner)
    return float(
        np.partition(records, place := _read_quantile_rank(q, rank, records.size, owner) - 1)[place]
    )


def _read_quantile_rank(q: Number | None, rank: int | None, n: int, owner: str) -> int:
    """Return the public rank, from 1 to n."""
    if (q is None) == (rank is None):
        raise InvalidParameter(
            f"{owner} needs either q or rank; got {'none' if q is None else 'both'}."
        )
    if q is not None:
        share: Fraction = PROPORTION(f"{owner}.q", q)
        return max(1, math.ceil(share * n))
    place: int = COUNT(f"{owner}.rank", rank)
    if place > n:
        raise InvalidParameter(
            f"{owner}.rank must be at most the number of values, {n}; got {shown(place)}."
        )
    return place


# ---- the spread of order statistics --------------------------------------------------------------
# The largest gap between two numbers of a sorted list on both sides of a place, less the better the
# farther apart they stand.
#
# Claim: `largest_gap` is max over i <= m <= j, i < j, of (x_j - x_i) e^(-decay (j - i - 1)), in
# time O(n log n) [nissim2007]. Proof: docs/proofs/smooth-bounds.md, "Quantiles". Floats:
# logarithms; off by a share of `ERROR` at most.


ERROR = 2.0**-36
"""Nearly equal candidates may be taken for each other, once on each of about twenty levels."""

Positions = NDArray[np.intp]


def largest_gap(padded: Floats, place: int, decay: float) -> float:
    """Return the largest weighted gap around `place` in a sorted list.

    The best partner of a left end does not move to the left when the left end moves to the right.
    So the partners of every other left end confine those between them, level by level: each level
    looks at each right end about once.
    """
    left, right = padded[: place + 1], padded[place:]
    partner = np.zeros(left.size, dtype=np.intp)
    ends = np.array([0]), np.array([right.size - 1])
    partner[:1], reached = _best_partners(left, right, np.array([0]), ends, decay)
    best = float(reached[0])
    for level in range(left.size.bit_length() - 1, -1, -1):
        stride = 1 << level
        # The left ends on both sides of these were solved on the levels before.
        rows = np.arange(stride, left.size, 2 * stride)
        if rows.size:
            beyond = rows + stride
            last = np.where(
                beyond < left.size, partner[np.minimum(beyond, left.size - 1)], right.size - 1
            )
            partner[rows], reached = _best_partners(
                left, right, rows, (partner[rows - stride], last), decay
            )
            best = max(best, float(reached.max()))
    nearest = padded[place - 1 : place + 2]
    # The two nearest gaps are the local sensitivity. They are taken without a logarithm, so without
    # its error.
    return max(math.exp(best), float(np.diff(nearest).max()))


def _best_partners(
    left: Floats, right: Floats, rows: Positions, ends: tuple[Positions, Positions], decay: float
) -> tuple[Positions, Floats]:
    """Return each left end's first best right end between two, and the log of the weighted gap."""
    first, last = ends
    lengths = last - first + 1
    starts = np.cumsum(lengths) - lengths
    row = np.repeat(np.arange(rows.size), lengths)
    column = np.arange(lengths.sum()) - starts[row] + first[row]
    apart = column + (left.size - 1 - rows)[row]  # j - i
    with np.errstate(divide="ignore"):
        logs = np.log(right[column] - left[rows][row]) - decay * (apart - 1)
    reached = np.maximum.reduceat(logs, starts)
    hits = np.flatnonzero(logs == reached[row])
    found = column[hits[np.searchsorted(hits, starts)]]
    return found, reached
