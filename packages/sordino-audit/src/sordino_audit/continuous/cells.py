"""Cells of outputs with lines around the logarithms of two densities.

They are split where the loss may be largest. The lines come from the values at the ends and the
shape of the logarithm.

Claim: on every open cell both logarithms lie between their lines. Proof:
docs/proofs/exact-audit.md, "Lines" and "Cells".
Floats: outward, see `enclosures`; where cells are split is no matter of proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino_audit.continuous.enclosures import (
    NEVER,
    TINY as _LOST_TO_UNDERFLOW,
    WIDER,
    Bounds,
    Floats,
    bound_total,
    log_total,
    mean_exponential,
    widen,
)
from sordino_audit.continuous.integrals import CellBudget

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
    """Return the lines of every cell between neighboring points of `x`.

    All ends of pieces are points.
    """
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
    return slice(
        int(np.searchsorted(x, piece.start)), int(np.searchsorted(x, piece.end, side="right"))
    )


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
        left_line[0][1:], left_line[1][1:] = (
            high[1:-1],
            _replace_nan(widen(*(high[1:-1] + rise,) * 2)[1]),
        )
        fall = widen(*((low[2:] - high[1:-1]) / width[1:] * width[:-1],) * 2)[0]
        right_line[0][:-1], right_line[1][:-1] = (
            _replace_nan(widen(*(high[1:-1] - fall,) * 2)[1]),
            high[1:-1],
        )
        lift = _chord_lift(left_line, right_line, high[:-1], high[1:])
        lifted = (
            widen(high[:-1] + lift, high[:-1] + lift)[1],
            widen(high[1:] + lift, high[1:] + lift)[1],
        )
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
    """Return how far the chord from `left` to `right` must rise to be above the lower of two lines.

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
    """Carry minus infinity on, away from where a logarithm is finite.

    Seen from where it is finite, a concave logarithm stays minus infinity.
    """
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

    The logarithm of a sum of exponentials of lines is convex: it lies below its chord, and above
    sum w (l - log w) for any weights w that sum to one.
    """
    if len(terms) == 1:
        return terms[0]
    low_left, low_right, high_left, high_right = (
        np.array(ends) for ends in zip(*terms, strict=True)
    )
    middle = (low_left + low_right) / 2
    most = middle.max(axis=0)
    with np.errstate(invalid="ignore", under="ignore", divide="ignore"):
        # Any weights give a line below. Those in proportion to the terms in the middle give a close
        # one.
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
        found[0],
        found[1],
        log_total((high_left, high_left))[1],
        log_total((high_right, high_right))[1],
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
                f"{owner} must be {piece.shape} between its breaks; near "
                f"{points[1:-1][wrong][0]:.6g} it is not."
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


# ---- cells ---------------------------------------------------------------------------------------


TINY = 2.0**-46
"""A cell this narrow, relative to where it is, is not split."""

_HELPFUL_FACTOR = 0.8
"""How much a round of splitting has to help to be followed by another one.

It has to lessen what is not known of the probabilities by this factor.
"""

Marks = NDArray[np.bool_]


@final
@dataclass(frozen=True, eq=False)
class Curve:
    """A density over an interval, as a sum of terms.

    Attributes
    ----------
    pieces : sequence of Piece
        The shapes of the logarithm of every term, from the left end of the interval to the right
        one.
    at : callable
        Takes points; returns bounds of the logarithms of all terms there, two arrays of shape
        (terms, points).
    first : int
        Into how many cells the interval is cut at first.
    over : callable or None
        Takes the ends of cells; returns bounds of the logarithm there, for a single term. Needed
        for pieces of the shape "any".
    """

    pieces: Sequence[Piece]
    at: Callable[[Floats], Bounds]
    first: int = 128
    over: OverCells | None = None

    def lines(self, x: Floats, at: Bounds) -> Lines:
        """Return lines around the logarithm of the whole."""
        return sum_lines(
            [lines(x, (low, high), self.pieces, self.over) for low, high in zip(*at, strict=True)]
        )


class Cells(NamedTuple):
    """Outputs of one label: those between `start` and `end`, `width` apart.

    An atom has no place, and the width 1.
    """

    start: Floats
    end: Floats
    width: Floats
    a: Lines
    b: Lines

    @property
    def turned(self) -> Cells:
        """Return the same with both sides exchanged."""
        return self._replace(a=self.b, b=self.a)

    def chosen(self, kept: Marks) -> Cells:
        """Return some of the cells."""
        return Cells(
            self.start[kept],
            self.end[kept],
            self.width[kept],
            *(Lines(*(x[kept] for x in side)) for side in self[3:]),
        )

    def split(self, share: Floats) -> Cells:
        """Return the left parts of all cells, this share of their width, then the right parts."""
        sides = []
        for side in (self.a, self.b):
            # Each line is followed to the new point, with more than the rounding on the unfavorable
            # side.
            low = widen(*(side.low_left + (side.low_right - side.low_left) * share,) * 2)[
                0
            ] - _interpolation_error(side.low_left, side.low_right)
            high = widen(*(side.high_left + (side.high_right - side.high_left) * share,) * 2)[
                1
            ] + _interpolation_error(side.high_left, side.high_right)
            sides.append(
                Lines(
                    *map(
                        np.concatenate,
                        (
                            (side.low_left, low),
                            (low, side.low_right),
                            (side.high_left, high),
                            (high, side.high_right),
                        ),
                    )
                )
            )
        middle = self.start + (self.end - self.start) * share
        start, end = np.concatenate([self.start, middle]), np.concatenate([middle, self.end])
        return Cells(
            start,
            end,
            np.concatenate([self.width * share, self.width * (1 - share)]),
            sides[0],
            sides[1],
        )

    def ends(self) -> tuple[Bounds, Bounds]:
        """Return bounds of the log ratio a/b at the left and right end of every cell.

        The ends are seen from inside.
        """
        left = difference((self.a.low_left, self.a.high_left), (self.b.low_left, self.b.high_left))
        right = difference(
            (self.a.low_right, self.a.high_right), (self.b.low_right, self.b.high_right)
        )
        return left, right

    def mass(self, side: Lines) -> Bounds:
        """Return bounds of the probability of every cell under one side."""
        low = mean_exponential(*((side.low_left,) * 2, (side.low_right,) * 2))[0]
        high = mean_exponential(*((side.high_left,) * 2, (side.high_right,) * 2))[1]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            least, most = widen(low * self.width, high * self.width)
        none = (high == 0) | (self.width == 0)
        return np.maximum(least - _LOST_TO_UNDERFLOW, 0.0), np.where(
            none, 0.0, most + _LOST_TO_UNDERFLOW
        )


Rule = Callable[[Cells], Marks]
"""Which cells have to be split."""


def joined(parts: Sequence[Cells]) -> Cells:
    """Return the cells of all parts."""
    start, end, width = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("start", "end", "width")
    )
    a, b = (
        Lines(
            *(
                np.concatenate(ends)
                for ends in zip(*(getattr(part, side) for part in parts), strict=True)
            )
        )
        for side in "ab"
    )
    return Cells(start, end, width, a, b)


def _interpolation_error(left: Floats, right: Floats) -> Floats:
    """Return more than the roundings of an interpolation."""
    return WIDER * (np.abs(left) + np.abs(right))


def atom(a: tuple[float, float], b: tuple[float, float]) -> Cells:
    """Return one output with these bounds of its log probabilities."""
    # An atom has no place, and constant lines.
    nowhere, sides = (
        np.array([math.nan]),
        [Lines(*(np.array([x]) for x in (low, low, high, high))) for low, high in (a, b)],
    )
    return Cells(nowhere, nowhere, np.ones(1), sides[0], sides[1])


def difference(a: Bounds, b: Bounds) -> Bounds:
    """Return bounds of a log ratio; where neither side may be possible nothing is lost."""
    with np.errstate(invalid="ignore"):
        low, high = widen(a[0] - b[1], a[1] - b[0])
    low = np.where(
        np.isneginf(a[0]) | np.isnan(low), -math.inf, low
    )  # it may be that a is impossible
    return low, np.where(np.isneginf(a[1]), -math.inf, np.where(np.isnan(high), math.inf, high))


def compared(
    a: Curve, b: Curve, unclear: Rule, budget: CellBudget, cuts: Sequence[float] = ()
) -> Cells:
    """Return the cells of two curves over one interval.

    They are split until none is unclear, or the budget ends.
    """
    x = _choose_first_points(a, b, cuts)
    values = [curve.at(x) for curve in (a, b)]
    while True:
        sides = [curve.lines(x, at) for curve, at in zip((a, b), values, strict=True)]
        cells = Cells(x[:-1], x[1:], np.diff(x), *sides)
        chosen = unclear(cells)
        # Lines of a cell come from its neighbors, too.
        chosen |= np.append(chosen[1:], False) | np.insert(chosen[:-1], 0, False)
        middle = x[:-1] / 2 + x[1:] / 2
        # Floats end somewhere: what is this narrow stays as it is.
        chosen &= np.diff(x) > TINY * np.maximum(np.abs(x[:-1]), np.abs(x[1:]))
        new = middle[chosen]
        # Each new point is looked at on both curves.
        if not new.size or not budget.take(2 * new.size):
            return cells
        # New points go to their places, with their values beside them.
        where = np.searchsorted(x, new)
        for i, curve in enumerate((a, b)):
            low, high = curve.at(new)
            values[i] = (
                np.insert(values[i][0], where, low, axis=1),
                np.insert(values[i][1], where, high, axis=1),
            )
        x = np.insert(x, where, new)


def either(*rules: Rule) -> Rule:
    """Return the rule that all of these are satisfied."""
    return lambda cells: np.logical_or.reduce([rule(cells) for rule in rules])


def within(slack: float) -> Rule:
    """Return the rule that the largest log ratio of either order be known up to `slack`."""

    def unclear(cells: Cells) -> Marks:
        marks = np.zeros(cells.width.size, dtype=bool)
        for each in (cells, cells.turned):
            left, right = each.ends()
            # A cell whose upper bound is hardly above the best lower one need not be split.
            best = max(float(left[0].max()), float(right[0].max()))
            marks |= np.maximum(left[1], right[1]) > best + slack
        return marks

    return unclear


def weighed(share: float) -> Rule:
    """Return the rule that probabilities be known up to a share, as long as splitting helps."""
    before = math.inf

    def unclear(cells: Cells) -> Marks:
        nonlocal before
        gaps = [high - low for low, high in (cells.mass(cells.a), cells.mass(cells.b))]
        now = sum(bound_total(np.nan_to_num(gap, nan=0.0, posinf=1.0), up=True) for gap in gaps)
        # The last round hardly helped, so that no further one is asked for.
        if now > before * _HELPFUL_FACTOR:
            return np.zeros(cells.width.size, dtype=bool)
        before = now
        marks: Marks = np.maximum(*gaps) > share / cells.width.size
        return marks

    return unclear


def _choose_first_points(a: Curve, b: Curve, cuts: Sequence[float]) -> Floats:
    """Return the first points: evenly spread, and ever closer to the ends of all pieces."""
    ends = sorted(
        {end for curve in (a, b) for piece in curve.pieces for end in (piece.start, piece.end)}
    )
    first, last = ends[0], ends[-1]
    found = {
        *ends,
        *(cut for cut in cuts if first < cut < last),
        *np.linspace(first, last, a.first + 1).tolist(),
    }
    reach = (last - first) * 2.0 ** -np.arange(1.0, 2 + a.first // 6)
    for end in ends:
        found.update(
            x for x in (*(end - reach).tolist(), *(end + reach).tolist()) if first < x < last
        )
    points = np.array(sorted(found))
    # No point strictly between the ends of the tiny pieces around breaks.
    inside = np.zeros(points.size, dtype=bool)
    for one, other in pairwise(ends):
        if other - one <= TINY * max(abs(one), abs(other), 2.0**-1000):
            inside |= (points > one) & (points < other)
    return points[~inside]
