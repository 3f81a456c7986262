"""Transmission disequilibrium tests: the statistic, how far one family can move it, and smooth bounds of that.

Claim: `tdt` is a beta-smooth upper bound of the local sensitivity of `tdt_statistic` if one family is replaced, at most `tdt_ceiling`.
Proof: docs/proofs/smooth-bounds.md, "Transmission disequilibrium tests".
Floats: rounded outward, beta lowered by what rounding can do.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from sordino.constraints import COUNT, DOMAIN_SIZE, Number, one_of, shown
from sordino.errors import InvalidParameter
from sordino.remnants import no_remnants
from sordino.smooth._counts import Counts, tables
from sordino.smooth._floats import OUTWARD, Floats, checked_beta, inner, rounded_up
from sordino.smooth._tdt_distance import FEWEST, admissible, distance
from sordino.smooth._tdt_table import smallest_bounds

LARGEST = 2000
"""More families than this are not enumerated."""

_STATISTIC_ERROR = 2.0**-51
"""By how much of the largest statistic the floats of two statistics may be farther apart than the statistics."""

_ROOT_ERROR = 2.0**-47
"""The relative error of the formula on the scale "sqrt": exponents beyond 18 do not matter there."""

_SCALE = one_of("sqrt", "raw")
_METHOD = one_of("exact", "distance")


@no_remnants
def tdt_statistic(b: Any, c: Any, *, families: int, scale: Literal["sqrt", "raw"] = "sqrt") -> Any:
    """Return the statistic of a transmission disequilibrium test for each marker.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private: how often heterozygous parents transmitted the one and the other allele. A family has two parents, so b + c is at most
        twice the number of families; what is no such count becomes one by rule: NaN and what is below 0 become 0, b at most
        2 * families, c at most what b leaves of that; fractions are rounded down.
    families : int
        How many families there are: public.
    scale : {"sqrt", "raw"}
        "sqrt" is abs(b - c) / sqrt(b + c), "raw" its square, which is what is published as the statistic. Both order markers alike; the
        square root moves by at most 2 with one family, and by at most 4 / sqrt(b + c).

    Returns
    -------
    array of float, shape (m,), or a float
        0 where nothing was transmitted. Private.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.tdt_statistic([115, 60], [85, 60], families=150, scale="raw")
    array([4.5, 0. ])
    """
    first, second = tables(b, c, DOMAIN_SIZE("smooth.tdt_statistic.families", families), "smooth.tdt_statistic")
    apart, total = np.abs(first - second).astype(np.float64), np.maximum(first + second, 1).astype(np.float64)
    if _SCALE("smooth.tdt_statistic.scale", scale) == "raw":
        return _as_given(apart * apart / total)
    return _as_given(apart / np.sqrt(total))


def tdt_ceiling(*, families: int, scale: Literal["sqrt", "raw"] = "sqrt") -> Fraction:
    """Return by how much one family can move the statistic at most: the global sensitivity, which no bound exceeds by more than rounding.

    Parameters
    ----------
    families : int
        How many families there are: public.
    scale : {"sqrt", "raw"}
        As for `tdt_statistic`.

    Returns
    -------
    Fraction
        2 for the square root, 8 (N - 1) / N for the statistic itself (2 for one family).

    Raises
    ------
    InvalidParameter
        If a parameter does not satisfy its constraint.

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.tdt_ceiling(families=150), sd.smooth.tdt_ceiling(families=150, scale="raw")
    (Fraction(2, 1), Fraction(596, 75))
    """
    n = COUNT("smooth.tdt_ceiling.families", families)
    if _SCALE("smooth.tdt_ceiling.scale", scale) == "sqrt" or n == 1:
        return Fraction(2)
    return Fraction(8 * (n - 1), n)


@no_remnants
def tdt(
    b: Any,
    c: Any,
    *,
    families: int,
    beta: Number,
    scale: Literal["sqrt", "raw"] = "sqrt",
    method: Literal["exact", "distance"] = "exact",
) -> Any:
    """Return a smooth bound of how far one family can move the statistic of each marker.

    Neighbours are data sets of the same families but for one, which may be replaced by any other. The largest bound of all markers is
    smooth as well.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private counts, as for `tdt_statistic`.
    families : int
        How many families there are: public. At most 2000 for scale "raw", where all tables are enumerated once.
    beta : number
        How fast the bound may change, in [0, inf), in nats a family: public. 0 makes it the ceiling.
    scale : {"sqrt", "raw"}
        The statistic that is bounded. On the scale "sqrt" the bound is a formula in b + c, for any number of families and any beta.
    method : {"exact", "distance"}
        For scale "raw": "exact" is the smallest of all smooth bounds, for any beta, from a table of all tables that is kept. "distance" is
        ceiling * e^(-beta d), where d is the distance to the tables with a local sensitivity above 6 [yamamoto2024, Thm 5]: a smooth
        bound for small beta only, and a larger one.

    Returns
    -------
    array of float, shape (m,), or a float
        Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be; if beta is too large for the method "distance".

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.tdt([115, 60], [85, 60], families=150, beta=0.05).round(3)
    array([0.283, 0.365])
    >>> sd.smooth.tdt([115, 60], [85, 60], families=150, beta=0.05, scale="raw").round(3)
    array([1.756, 2.011])
    """
    n, rate = DOMAIN_SIZE("smooth.tdt.families", families), checked_beta(beta, "smooth.tdt")
    roots = _SCALE("smooth.tdt.scale", scale) == "sqrt"
    by_distance = _METHOD("smooth.tdt.method", method) == "distance"
    if roots and by_distance:
        raise InvalidParameter("smooth.tdt.method must be 'exact' on the scale 'sqrt', whose bound is a formula; got 'distance'.")
    if not roots and n > LARGEST:
        raise InvalidParameter(
            f"smooth.tdt.families must be at most {LARGEST} on the scale 'raw', where all tables are enumerated; got {shown(families)}. "
            "The scale 'sqrt' has no limit, and orders markers alike."
        )
    first, second = tables(b, c, n, "smooth.tdt")
    if roots:
        found = _root_bounds(first + second, inner(rate, _ROOT_ERROR))
    elif by_distance:
        found = _distance_bounds(first, second, n, rate)
    else:
        found = smallest_bounds(n, rate)[np.maximum(first, second), np.minimum(first, second)]
    largest = math.sqrt(2 * n) if roots else 2.0 * n
    return _as_given(found + largest * _STATISTIC_ERROR)


def _root_bounds(total: Counts, decay: float) -> Floats:
    """Return max over t of e^(-decay t) 4 / sqrt(max(total - 2 t, 4)).

    The logarithm is convex in t up to where the maximum sets in, so an end of that stretch is the best t, or the first one after it.
    """
    size = np.maximum(total, 4)
    last = (size - 4) // 2  # total - 2 t is 4 or 5
    found = np.maximum(4 / np.sqrt(size), np.exp(-decay * last) * (4 / np.sqrt(size - 2 * last)))
    bounds: Floats = np.maximum(found, 2 * np.exp(-decay * ((size - 3) // 2))) * OUTWARD
    return bounds


def _distance_bounds(first: Counts, second: Counts, families: int, rate: Fraction) -> Floats:
    ceiling = rounded_up(tdt_ceiling(families=families, scale="raw"))
    if families < FEWEST:
        return np.full(first.shape, ceiling)
    limit = admissible(families, ceiling)
    if rate > limit:
        raise InvalidParameter(
            f"smooth.tdt.beta must be at most {math.floor(limit * 1e9) / 1e9:.9f} for the method 'distance' and {families} families: "
            f"above it the formula is no upper bound; got {shown(rate)}. The method 'exact' takes any beta."
        )
    bounds: Floats = ceiling * np.exp(-inner(rate) * distance(first, second)) * OUTWARD
    return bounds


def _as_given(values: Any) -> Any:
    """Return an array of shape (m,), or a float for single numbers."""
    return values if np.ndim(values) else float(values)
