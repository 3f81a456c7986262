"""Statistic of transmission disequilibrium tests, and smooth bounds of how far one family moves it.

Claim: `tdt` is a beta-smooth upper bound of the local sensitivity of `tdt_statistic` if one family
is replaced, at most `tdt_ceiling`. Proof: docs/proofs/smooth-bounds.md, "Transmission
disequilibrium tests". Floats: rounded outward, beta lowered by what rounding can do.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from sordino.constraints import COUNT, DOMAIN_SIZE, Number, one_of, shown
from sordino.errors import InvalidParameter
from sordino.scrubbing import scrubbed
from sordino.smooth.values import OUTWARD, Counts, Floats, checked_beta, inner, rounded_up, tables

LARGEST = 2000
"""More families than this are not enumerated."""

_TDT_STATISTIC_ERROR = 2.0**-51
"""How much farther apart the floats of two statistics may be than the statistics.

As a share of the largest statistic.
"""

_ROOT_ERROR = 2.0**-47
"""The relative error of the formula on the scale "sqrt", where exponents beyond 18 do not
matter."""

_TDT_SCALE = one_of("sqrt", "raw")
_TDT_METHOD = one_of("exact", "distance")


@scrubbed
def tdt_statistic(b: Any, c: Any, *, families: int, scale: Literal["sqrt", "raw"] = "sqrt") -> Any:
    """Return the statistic of a transmission disequilibrium test for each marker.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private: how often heterozygous parents transmitted the one and the other allele. A family
        has two parents, so b + c is at most twice the number of families; what is no such count
        becomes one by rule: NaN and what is below 0 become 0, b at most 2 * families, c at most
        what b leaves of that; fractions are rounded down.
    families : int
        How many families there are: public.
    scale : {"sqrt", "raw"}
        "sqrt" is abs(b - c) / sqrt(b + c), "raw" its square, which is what is published as the
        statistic. Both order markers alike; the square root moves by at most 2 with one family, and
        by at most 4 / sqrt(b + c).

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
    first, second = tables(
        b, c, DOMAIN_SIZE("smooth.tdt_statistic.families", families), "smooth.tdt_statistic"
    )
    apart, total = (
        np.abs(first - second).astype(np.float64),
        np.maximum(first + second, 1).astype(np.float64),
    )
    if _TDT_SCALE("smooth.tdt_statistic.scale", scale) == "raw":
        return _unwrap_single_marker(apart * apart / total)
    return _unwrap_single_marker(apart / np.sqrt(total))


def tdt_ceiling(*, families: int, scale: Literal["sqrt", "raw"] = "sqrt") -> Fraction:
    """Return by how much one family can move the statistic at most.

    It is the global sensitivity. No smooth bound exceeds it by more than rounding.

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
    if _TDT_SCALE("smooth.tdt_ceiling.scale", scale) == "sqrt" or n == 1:
        return Fraction(2)
    return Fraction(8 * (n - 1), n)


@scrubbed
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

    Neighbors are data sets of the same families but for one, which may be replaced by any other.
    The largest bound of all markers is smooth as well.

    Parameters
    ----------
    b, c : array of int, shape (m,), or a number
        Private counts, as for `tdt_statistic`.
    families : int
        How many families there are: public. At most 2000 for scale "raw", where all tables are
        enumerated once.
    beta : number
        How fast the bound may change, in [0, inf), in nats a family: public. 0 makes it the
        ceiling.
    scale : {"sqrt", "raw"}
        The statistic that is bounded. On the scale "sqrt" the bound is a formula in b + c, for any
        number of families and any beta.
    method : {"exact", "distance"}
        For scale "raw": "exact" is the smallest of all smooth bounds, for any beta, from a table of
        all tables that is kept. "distance" is ceiling * e^(-beta d), where d is the distance to the
        tables with a local sensitivity above 6 [yamamoto2024, Thm 5]: a smooth bound for small beta
        only, and a larger one.

    Returns
    -------
    array of float, shape (m,), or a float
        Private: it may scale noise, and must not be shown.

    Raises
    ------
    InvalidParameter
        If a public parameter, or the shape of the counts, is not as it must be; if beta is too
        large for the method "distance".

    Examples
    --------
    >>> import sordino as sd
    >>> sd.smooth.tdt([115, 60], [85, 60], families=150, beta=0.05).round(3)
    array([0.283, 0.365])
    >>> sd.smooth.tdt([115, 60], [85, 60], families=150, beta=0.05, scale="raw").round(3)
    array([1.756, 2.011])
    """
    n, rate = DOMAIN_SIZE("smooth.tdt.families", families), checked_beta(beta, "smooth.tdt")
    roots = _TDT_SCALE("smooth.tdt.scale", scale) == "sqrt"
    by_distance = _TDT_METHOD("smooth.tdt.method", method) == "distance"
    if roots and by_distance:
        raise InvalidParameter(
            "smooth.tdt.method must be 'exact' on the scale 'sqrt', whose bound is a formula; got "
            "'distance'."
        )
    if not roots and n > LARGEST:
        raise InvalidParameter(
            f"smooth.tdt.families must be at most {LARGEST} on the scale 'raw', where all tables "
            f"are enumerated; got {shown(families)}. The scale 'sqrt' has no limit, and orders "
            "markers alike."
        )
    # By a rule each pair of counts becomes a table of so many families, and every such table has a
    # bound.
    first, second = tables(b, c, n, "smooth.tdt")
    if roots:
        found = _root_bounds(first + second, inner(rate, _ROOT_ERROR))
    elif by_distance:
        found = _distance_bounds(first, second, n, rate)
    else:
        found = smallest_bounds(n, rate)[np.maximum(first, second), np.minimum(first, second)]
    # The statistic is rounded, too. Its error does not shrink with the bound, so it is added.
    largest = math.sqrt(2 * n) if roots else 2.0 * n
    return _unwrap_single_marker(found + largest * _TDT_STATISTIC_ERROR)


def _root_bounds(total: Counts, decay: float) -> Floats:
    """Return max over t of e^(-decay t) 4 / sqrt(max(total - 2 t, 4)).

    The logarithm is convex in t up to where the maximum sets in, so an end of that stretch is the
    best t, or the first one after it.
    """
    # The maximum in the formula sets in at 4 transmissions.
    size = np.maximum(total, 4)
    last = (size - 4) // 2  # total - 2 t is 4 or 5
    found = np.maximum(4 / np.sqrt(size), np.exp(-decay * last) * (4 / np.sqrt(size - 2 * last)))
    bounds: Floats = np.maximum(found, 2 * np.exp(-decay * ((size - 3) // 2))) * OUTWARD
    return bounds


def _distance_bounds(first: Counts, second: Counts, families: int, rate: Fraction) -> Floats:
    ceiling = rounded_up(tdt_ceiling(families=families, scale="raw"))
    if families < FEWEST:
        # No table moves the statistic by more than 6, so the distance to such tables is infinite.
        return np.full(first.shape, ceiling)
    limit = admissible(families, ceiling)
    if rate > limit:
        raise InvalidParameter(
            f"smooth.tdt.beta must be at most {math.floor(limit * 1e9) / 1e9:.9f} for the method "
            f"'distance' and {families} families: above it the formula is no upper bound; got "
            f"{shown(rate)}. The method 'exact' takes any beta."
        )
    bounds: Floats = ceiling * np.exp(-inner(rate) * distance(first, second)) * OUTWARD
    return bounds


def _unwrap_single_marker(values: Any) -> Any:
    """Return an array of shape (m,), or a float for single numbers."""
    return values if np.ndim(values) else float(values)


# ---- by distance ---------------------------------------------------------------------------------
# How many families away the nearest table is at which the statistic of a transmission
# disequilibrium test moves by more than 6.
#
# Claim: one family changes `distance` by at most 1, and `admissible` is a beta for which ceiling *
# e^(-beta distance) is at least the local sensitivity of every table: both are checked on all
# tables. Proof: docs/proofs/smooth-bounds.md, "Distances". Floats: `admissible` is rounded down.


FEWEST = 5
"""With fewer families the statistic never moves by more than 6."""

_INFINITE_DISTANCE = np.iinfo(np.int64).max


def distance(b: Counts, c: Counts) -> Counts:
    """Return how many families to replace to reach a table where one moves the statistic by over 6.

    These tables have none, one or two transmissions of the rarer allele, or few of both; each kind
    has its nearest one.
    """
    more, less = np.maximum(b, c), np.minimum(b, c)
    none = np.maximum(np.maximum(_halve_rounding_up(less), _halve_rounding_up(9 - more)), 0)
    one = np.maximum(np.maximum(_halve_rounding_up(less - 1), _halve_rounding_up(16 - more)), 0)
    two = np.maximum(np.maximum(-((more + 7 - 7 * less) // 16), _halve_rounding_up(7 - more)), 0)
    alone = np.maximum(_halve_rounding_up(8 - more), 1)  # less is 1: it has to grow
    two = np.where(less >= 2, two, np.where(less == 1, alone, _INFINITE_DISTANCE))
    found: Counts = np.minimum(np.minimum(none, np.where(less >= 1, one, _INFINITE_DISTANCE)), two)
    return found


def _halve_rounding_up(counts: Counts) -> Counts:
    """Return half of each number, rounded up: a family moves a count by two."""
    return (counts + 1) // 2


@lru_cache(maxsize=64)
def admissible(families: int, ceiling: float) -> float:
    """Return the largest beta for which the distance makes a smooth bound, rounded down.

    0 if no beta does.

    Every table is looked at, and every move between tables.
    """
    size = 2 * families + 1
    local = local_table(families)
    counts = np.arange(size, dtype=np.int64)
    # The guarantee rests on this check of all tables and moves, not on the closed form of the
    # distance.
    away = np.full((size, size), -1, dtype=np.int64)
    for b in range(size):
        away[b, : size - b] = distance(np.full(size - b, b), counts[: size - b])
    for i, j in MOVES:
        here, there = _select_movable_cells(away, i, j), _select_movable_cells(away, -i, -j)
        if (np.abs(here - there)[(here >= 0) & (there >= 0)] > 1).any():
            return 0.0
    tables, far = (away >= 0) & (local > 0), away > 0
    if (local[tables & ~far] > ceiling).any():
        return 0.0
    slopes = np.log(ceiling / local[tables & far]) / away[tables & far]
    return max(0.0, float(slopes.min(initial=math.inf)) * (1 - 2.0**-40))


def _select_movable_cells(table: Counts, i: int, j: int) -> Counts:
    """Return the cells from which a move by (i, j) stays inside the square."""
    size = len(table)
    return table[max(0, -i) : size - max(0, i), max(0, -j) : size - max(0, j)]


# ---- by table ------------------------------------------------------------------------------------
# The smallest smooth bound of a transmission disequilibrium test, for all its tables at once.
#
# Claim: `smallest_bounds` is at least the local sensitivity, and moves by a factor of at most
# e^beta with one family; without rounding it is the smooth sensitivity, the smallest such bound.
# Proof: docs/proofs/smooth-bounds.md, "The smallest bound by two sweeps". Floats: in logarithms;
# whether the result is smooth is checked on every move, and beta is lowered by what the check lets
# pass.


_PAD = 2  # no move goes farther
_TDT_LOG_ROUNDING = 2.0**-50


@lru_cache(maxsize=4)
def smallest_bounds(families: int, beta: Fraction) -> Floats:
    """Return the bounds at (larger count, smaller count), shape (2N + 1, N + 1).

    The statistic does not tell b from c, so half of the tables is enough.

    Cells where both counts together are more than 2N have no meaning.
    """
    local = local_table(families)
    least = float(local.min(where=local > 0, initial=math.inf))
    # A larger beta has the same closure as this one.
    steepest = math.log(float(local.max()) / least)
    error = _TDT_LOG_ROUNDING * (16 + families * min(float(beta), steepest))
    decay = min(inner(beta, error), steepest)
    if decay == 0:
        return np.full((2 * families + 1, families + 1), float(local.max()) * OUTWARD)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.pad(np.where(local > 0, np.log(local), -np.inf), _PAD, constant_values=-np.inf)
    del local
    # One pass is enough in practice. The check decides, and looks at every move of every table.
    while True:
        # With every move its reverse is a move, so the same scrub serves from either end.
        for turned in (logs, logs[::-1, ::-1]):
            _sweep(turned, decay, families, reverse=turned is not logs)
        # `decay` was lowered before by more than what this check lets pass.
        if _is_closed(logs, decay + 2 * error, families):
            break
    bounds: Floats = np.exp(logs[_PAD:-_PAD, _PAD : _PAD + families + 1]) * OUTWARD
    bounds.flags.writeable = False
    return bounds


def _sweep(logs: Floats, decay: float, families: int, *, reverse: bool) -> None:
    """Raise each row by what the two rows before, and its own cells, lend it, family by family."""
    size = 2 * families + 1
    costs: Floats = decay * np.arange(size // 2 + 1, dtype=np.float64)[:, None]
    for row in range(size):
        # The cells of the row that are tables, in padded columns.
        cells = (
            slice(_PAD + size - 1 - row, _PAD + size) if reverse else slice(_PAD, _PAD + size - row)
        )
        own, one, two = (logs[row + _PAD - back] for back in range(3))
        lent = np.maximum(one[cells], two[cells])
        for shift, source in ((-1, one), (1, one), (2, one), (1, two), (2, two)):
            np.maximum(lent, source[cells.start + shift : cells.stop + shift], out=lent)
        np.maximum(own[cells], lent - decay, out=own[cells])
        _close_row(own[cells], decay, costs)


def _close_row(row: Floats, decay: float, costs: Floats) -> None:
    """Raise each cell of a row to what each other cell lends it.

    A family pays for one cell or for two cells of the way.
    """
    pairs = np.full((row.size + 1) // 2 * 2, -np.inf)
    pairs[: row.size] = row
    for seen in (pairs, pairs[::-1]):  # from the left, from the right
        halves = seen.reshape(-1, 2)
        paid = costs[: len(halves)]
        even = np.maximum.accumulate(halves + paid, axis=0)
        even -= paid
        reached = even.reshape(-1)
        np.maximum(seen, reached, out=seen)
        np.maximum(seen[1:], reached[:-1] - decay, out=seen[1:])
    row[:] = pairs[: row.size]


def _is_closed(logs: Floats, decay: float, families: int) -> bool:
    """Return whether no move lowers the bound by more than `decay`."""
    size = 2 * families + 1
    for row in range(_PAD, _PAD + size):
        cells = slice(_PAD, 2 * _PAD + size - row)
        own = logs[row, cells] + decay
        for i, j in MOVES:
            if (logs[row + i, cells.start + j : cells.stop + j] > own).any():
                return False
    return True


# ---- moves ---------------------------------------------------------------------------------------
# Tables (b, c) of a transmission disequilibrium test: how a family moves them, and how far the
# statistic moves then.
#
# Claim: the tables of two data sets that differ in one family differ by one of 18 moves, or not at
# all; `local_table` is the largest change of the statistic over the moves that lead to a table of
# as many families. Proof: docs/proofs/smooth-bounds.md, "Tables of families". Floats: differences
# are whole numbers over whole numbers, one division.


MOVES = tuple(
    (i, j) for i in range(-2, 3) for j in range(-2, 3) if 0 < max(abs(i), abs(j), abs(i + j)) <= 2
)
"""What one family in place of another adds to (b, c).

Each of its two parents transmits the one allele, or the other one, or says nothing.
"""

_FORWARD_MOVES = tuple(move for move in MOVES if move > (0, 0))


def local_table(families: int) -> Floats:
    """Return the local sensitivity of (b - c)^2 / (b + c) at all tables, shape (2N + 1, 2N + 1).

    It is -1 where b + c > 2N.
    """
    size = 2 * families + 1
    found = np.full((size, size), -1.0)
    counts = np.arange(size, dtype=np.float64)

    def row(b: int) -> tuple[Floats, Floats]:
        return (b - counts) ** 2, np.maximum(b + counts, 1.0)  # no transmissions: 0/1

    # A forward move goes at most two rows on, so three rows are enough at a time.
    rows = [row(b) for b in range(3)]
    for b in range(size):
        for i, j in _FORWARD_MOVES:  # from (b, c) to (b + i, c + j), and back
            here = slice(max(0, -j), min(size - b, size - b - i - j))  # both are tables
            if b + i >= size or here.start >= here.stop:
                continue
            there = slice(here.start + j, here.stop + j)
            change = _statistic_change(
                *(part[here] for part in rows[0]), *(part[there] for part in rows[i])
            )
            np.maximum(found[b, here], change, out=found[b, here])
            np.maximum(found[b + i, there], change, out=found[b + i, there])
        rows = [*rows[1:], row(b + 3)]
    return found


def _statistic_change(
    square: Floats, total: Floats, square_moved: Floats, total_moved: Floats
) -> Floats:
    """Return how far square/total moves; numerators are exact."""
    change: Floats = np.abs(square_moved * total - square * total_moved) / (total * total_moved)
    return change
