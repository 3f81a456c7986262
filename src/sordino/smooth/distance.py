"""A smooth bound from a distance: that of the data from those where one unit moves a statistic far.

Claim: if the distance changes by at most 1 between neighbors and beta is admissible, ceiling * e^(-beta
distance) is a beta-smooth bound.
Proof: docs/proofs/smooth-bounds.md, "From a distance".
Floats: rounded outward; `largest_beta` is rounded down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sordino.constraints import NOT_NEGATIVE, Number, shown
from sordino.errors import InvalidParameter
from sordino.remnants import no_remnants
from sordino.smooth.floats import checked_beta, checked_ceiling, inner, outward
from sordino.smooth.values import as_floats


@no_remnants
def from_distance(distance: Any, *, beta: Number, ceiling: Number, largest: Number) -> Any:
    """Return the smooth bound ceiling * e^(-beta * distance) [yamamoto2024, Thm 4 and 5].

    Parameters
    ----------
    distance : number, or array of float, shape (m,)
        Private: how many units must be replaced, at least, to come from the data into a set that holds all
        data with a large local sensitivity; any lower bound of it will do that changes by at most 1 between
        neighbors. Below 0 counts as 0; what is not finite, as where that set is empty, as 0 too: the bound
        is the ceiling.
    beta : number
        How fast the bound may change, in [0, inf), in nats a unit: public.
    ceiling : number
        Public: at least every local sensitivity.
    largest : number
        Public: what `largest_beta` returns for this statistic and this distance, from *all* possible data.
        Read off the data at hand it would neither be public nor an upper bound for their neighbors.

    Returns
    -------
    float, or array of float, shape (m,)
        Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint, or beta is above `largest`.

    Examples
    --------
    >>> import sordino as sd
    >>> round(sd.smooth.from_distance(10, beta=0.1, ceiling=8, largest=0.2), 6)
    2.943036
    """
    owner = "smooth.from_distance"
    rate, top = checked_beta(beta, owner), checked_ceiling(ceiling, owner)
    limit = (
        math.inf
        if isinstance(largest, float) and largest == math.inf
        else NOT_NEGATIVE(f"{owner}.largest", largest)
    )
    # Both numbers are public, so the refusal says nothing of the data.
    if rate > limit:
        raise InvalidParameter(
            f"{owner}.beta must be at most {shown(limit)}, the largest admissible one: above it the formula "
            f"is no upper bound; got {shown(rate)}."
        )
    away = as_floats(distance, owner)
    # A rule for single numbers: no distance raises an error.
    away = np.where(np.isfinite(away), np.maximum(away, 0.0), 0.0)
    found = outward(top * np.exp(-inner(rate) * away), top)
    return found if found.ndim else float(found)


def largest_beta(local: Any, distance: Any, *, ceiling: Number) -> float:
    """Return the largest beta for which `from_distance` is an upper bound, rounded down.

    Parameters
    ----------
    local : array of float, shape (n,)
        The local sensitivity of *all* possible data sets, or of all tables that they lead to: public, not
        those of the data at hand.
    distance : array of float, shape (n,)
        Their distances. All infinite: nothing is that sensitive, and the bound is constant.
    ceiling : number
        At least every local sensitivity.

    Returns
    -------
    float
        The smallest ln(ceiling / local) / distance over all with a distance above 0; inf if there are none.

    Raises
    ------
    InvalidParameter
        If shapes differ, a number is negative or NaN, a local sensitivity is above the ceiling, or some
        distances are infinite and others not.

    Examples
    --------
    >>> import sordino as sd
    >>> round(sd.smooth.largest_beta([8, 4, 1], [0, 1, 5], ceiling=8), 6)
    0.415888
    """
    owner = "smooth.largest_beta"
    top = checked_ceiling(ceiling, owner)
    moves, away = as_floats(local, owner), as_floats(distance, owner)
    if moves.shape != away.shape or moves.ndim != 1:
        raise InvalidParameter(
            f"{owner} needs lists of equal length; got shapes {moves.shape} and {away.shape}."
        )
    if not ((moves >= 0) & (moves <= top)).all():
        raise InvalidParameter(
            f"{owner}.local must lie in [0, ceiling], in [0, {shown(top)}]; got something else."
        )
    # A set of data is either empty, so that all distances to it are infinite, or not.
    if not (away >= 0).all() or np.isinf(away).any() > np.isinf(away).all():
        raise InvalidParameter(
            f"{owner}.distance must be numbers in [0, inf), or all of them inf; got something else."
        )
    # At a distance of 0 the bound is the ceiling for every beta, and what nothing moves needs no bound.
    far = (away > 0) & (moves > 0) & np.isfinite(away)
    slopes = np.log(top / moves[far]) / away[far]
    # Rounded down: a larger beta would not be admissible.
    return float(np.min(slopes, initial=math.inf)) * (1 - 2.0**-40)
