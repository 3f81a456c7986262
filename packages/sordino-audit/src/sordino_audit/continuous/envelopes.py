"""Lays straight lines above and below a logarithm on each cell, from its values at the ends and its shape.

Claim: on every open cell the function lies between its two lines. Proof: docs/proofs/exact-audit.md, "Lines".
Floats: outward, see `enclosures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino_audit.continuous.enclosures import NEVER, WIDER, Bounds, Floats, log_total, widen

Shape = Literal["linear", "concave", "convex", "monotone", "any"]
SHAPES: tuple[Shape, ...] = ("linear", "concave", "convex", "monotone", "any")

OverCells = Callable[[Floats, Floats], Bounds]


class Lines(NamedTuple):
    """For each cell the ends, left and right, of a line below and of a line above."""

    low_left: Floats
    low_right: Floats
    high_left: Floats
    high_right: Floats


class Piece(NamedTuple):
    """An interval on which a function has one shape."""

    start: float
    end: float
    shape: Shape


def lines(x: Floats, at: Bounds, pieces: Sequence[Piece], over: OverCells | None) -> Lines:
    """Return the lines of every cell between neighboring points of `x`; all ends of pieces are points."""
    parts = []
    for piece in pieces:
        inner = _slice_piece(x, piece)
        points, values = x[inner], (at[0][inner], at[1][inner])
        # A piece with fewer than two points has no cell.
        if points.size < 2:
            continue
        if piece.shape == "any" and over is not None:
            low, high = over(points[:-1], points[1:])
            parts.append(Lines(low, low, high, high))
        else:
            parts.append(_LINES_OF_SHAPE.get(piece.shape, _monotone_lines)(points, values))
    return Lines(*(np.concatenate(ends) for ends in zip(*parts, strict=True)))


def _slice_piece(x: Floats, piece: Piece) -> slice:
    return slice(int(np.searchsorted(x, piece.start)), int(np.searchsorted(x, piece.end, side="right")))


def _monotone_lines(x: Floats, at: Bounds) -> Lines:  # noqa: ARG001 - the signature of a shape
    low, high = np.minimum(at[0][:-1], at[0][1:]), np.maximum(at[1][:-1], at[1][1:])
    return Lines(low, low, high, high)


def _linear_lines(x: Floats, at: Bounds) -> Lines:  # noqa: ARG001 - the signature of a shape
    return Lines(*_chord_ends(at[0]), *_chord_ends(at[1]))


def _chord_ends(values: Floats) -> tuple[Floats, Floats]:
    """Return the ends of the chords; a chord with an end at minus infinity is minus infinity."""
    left, right = values[:-1], values[1:]
    none = np.isneginf(left) | np.isneginf(right)
    return np.where(none, NEVER, left), np.where(none, NEVER, right)


def _concave_lines(x: Floats, at: Bounds) -> Lines:
    """Return chords below, and above the best of three lines.

    They are the neighbors' chords prolonged, and the own chord lifted to where they meet.
    """
    low, high = at
    width = np.diff(x)
    count = width.size
    # A line that is infinite bounds nothing: so it is where a cell has no neighbor.
    wide = np.full(count, math.inf)
    left_line, right_line = (wide.copy(), wide.copy()), (wide.copy(), wide.copy())
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # Slopes are taken from the bounds that make the prolonged line higher.
        rise = widen(*((high[1:-1] - low[:-2]) / width[:-1] * width[1:],) * 2)[1]
        left_line[0][1:], left_line[1][1:] = high[1:-1], _replace_nan(widen(*(high[1:-1] + rise,) * 2)[1])
        fall = widen(*((low[2:] - high[1:-1]) / width[1:] * width[:-1],) * 2)[0]
        right_line[0][:-1], right_line[1][:-1] = (
            _replace_nan(widen(*(high[1:-1] - fall,) * 2)[1]),
            high[1:-1],
        )
        lift = _chord_lift(left_line, right_line, high[:-1], high[1:])
        lifted = widen(high[:-1] + lift, high[:-1] + lift)[1], widen(high[1:] + lift, high[1:] + lift)[1]
    left, right = wide.copy(), wide.copy()
    for one, other in (left_line, right_line, (_replace_nan(lifted[0]), _replace_nan(lifted[1]))):
        with np.errstate(invalid="ignore"):
            # The line with the lowest middle is the best one.
            better = ~(one + other >= left + right) & ~np.isneginf(one) & ~np.isneginf(other)
        left, right = np.where(better, one, left), np.where(better, other, right)
    _spread_minus_infinity(left, right, low, high)
    return Lines(*_chord_ends(low), left, right)


def _chord_lift(
    one: tuple[Floats, Floats], other: tuple[Floats, Floats], left: Floats, right: Floats
) -> Floats:
    """Return by how much the chord from `left` to `right` has to rise to be above the lower of two lines.

    The point where they meet is computed roughly: any point will do.
    """
    gap, end = other[0] - one[0], other[1] - one[1]
    share = np.clip(np.where(gap > end, gap / (gap - end), 0.5), 0.0, 1.0)
    # Any point will do where that one cannot be computed.
    share = np.where(np.isnan(share), 0.5, share)
    chord = left + (right - left) * share
    over = [line[0] + (line[1] - line[0]) * share - chord for line in (one, other)]
    slop = WIDER * (np.abs(left) + np.abs(right) + np.abs(one[1]) + np.abs(other[0]))
    lift: Floats = np.maximum(np.maximum(over[0], over[1]), 0.0) + slop
    return lift


def _replace_nan(values: Floats) -> Floats:
    return np.where(np.isnan(values), math.inf, values)


def _spread_minus_infinity(left: Floats, right: Floats, low: Floats, high: Floats) -> None:
    """Carry minus infinity on: seen from where it is finite, a concave logarithm stays minus infinity."""
    finite = np.flatnonzero(low > NEVER)
    if not finite.size:
        return
    none = np.flatnonzero(np.isneginf(high))
    # Beyond an empty point, seen from the finite part, no cell has anything.
    before, after = none[none < finite[0]], none[none > finite[-1]]
    if before.size:
        left[: before[-1]] = right[: before[-1]] = NEVER
    if after.size:
        left[after[0] :] = right[after[0] :] = NEVER


def _convex_lines(x: Floats, at: Bounds) -> Lines:
    # Minus a convex function is concave: the same lines upside down.
    below = _concave_lines(x, (-at[1], -at[0]))
    finite = np.isfinite(at[0][:-1]) & np.isfinite(at[0][1:])
    ends = (np.where(finite & np.isfinite(end), -end, NEVER) for end in below[2:])
    left, right = ends
    none = np.isneginf(left) | np.isneginf(right)
    return Lines(np.where(none, NEVER, left), np.where(none, NEVER, right), at[1][:-1], at[1][1:])


_LINES_OF_SHAPE: dict[str, Callable[[Floats, Bounds], Lines]] = {
    "linear": _linear_lines,
    "concave": _concave_lines,
    "convex": _convex_lines,
    "monotone": _monotone_lines,
}


def sum_lines(terms: list[Lines]) -> Lines:
    """Return lines of the logarithm of a sum.

    The logarithm of a sum of exponentials of lines is convex: it lies below its chord, and above sum w (l -
    log w) for any weights w that sum to one.
    """
    if len(terms) == 1:
        return terms[0]
    low_left, low_right, high_left, high_right = (np.array(ends) for ends in zip(*terms, strict=True))
    middle = (low_left + low_right) / 2
    most = middle.max(axis=0)
    with np.errstate(invalid="ignore", under="ignore", divide="ignore"):
        # Any weights give a line below. Those in proportion to the terms in the middle give a close one.
        weights = np.exp(middle - np.where(np.isinf(most), 0.0, most))
        weights = np.where(weights < 1e-18 * weights.max(axis=0), 0.0, weights)
        weights = weights / weights.sum(axis=0)
        # Gibbs: the sum of w (l - log w) is a line below ("Lines" on the proof page, "Sums").
        entropy = np.where(weights > 0, -np.log(weights), 0.0)
    found = []
    for end in (low_left, low_right):
        with np.errstate(invalid="ignore"):
            parts = np.where(weights > 0, weights * (end + entropy), 0.0)
            value = parts.sum(axis=0) - WIDER * (1 + np.abs(parts).sum(axis=0))
        found.append(np.where(most > NEVER, value, NEVER))
    return Lines(
        found[0], found[1], log_total((high_left, high_left))[1], log_total((high_right, high_right))[1]
    )


def check_shape(x: Floats, at: Bounds, pieces: Sequence[Piece], owner: str) -> None:
    """Raise `InvalidParameter` where the values refute the shape that is declared."""
    for piece in pieces:
        inner = _slice_piece(x, piece)
        points, low, high = x[inner], at[0][inner], at[1][inner]
        if piece.shape in {"linear", "convex"} and np.isneginf(high).any() and (low > NEVER).any():
            raise InvalidParameter(
                f"{owner} must be -inf all along a {piece.shape} piece, or nowhere; "
                "got both, so there is a break."
            )
        # Two points contradict no shape.
        if points.size < 3 or piece.shape == "any":
            continue
        wrong = _find_contradictions(points, low, high, piece.shape)
        if wrong.any():
            raise InvalidParameter(
                f"{owner} must be {piece.shape} between its breaks; "
                f"near {points[1:-1][wrong][0]:.6g} it is not."
            )


def _find_contradictions(x: Floats, low: Floats, high: Floats, shape: Shape) -> NDArray[np.bool_]:
    """Return at which inner points the neighbors contradict the shape for certain."""
    if shape == "monotone":
        # One rise and one fall anywhere on a piece are enough.
        rises, falls = low[1:] > high[:-1], high[1:] < low[:-1]
        return (
            (rises[1:] & falls[:-1])
            | (falls[1:] & rises[:-1])
            | np.full(x.size - 2, rises.any() and falls.any())
        )
    share = (x[1:-1] - x[:-2]) / (x[2:] - x[:-2])
    with np.errstate(invalid="ignore"):
        below, above = (side[:-2] + (side[2:] - side[:-2]) * share for side in (low, high))
        # More than the rounding of the interpolation: only what is certain is refused.
        slop = WIDER * (np.abs(below) + np.abs(above))
        dips = np.isfinite(below) & (below - slop > high[1:-1])
        bulges = np.isfinite(above) & (above + slop < low[1:-1])
    if shape == "linear":
        return dips | bulges
    return dips if shape == "concave" else bulges
