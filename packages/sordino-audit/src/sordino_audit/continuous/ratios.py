"""Compares two densities on cells of outputs, which are split where the loss may be largest.

Each cell has lines around both logarithms.

Claim: on every cell both logarithms lie between their lines. Proof: docs/proofs/exact-audit.md, "Cells".
Floats: outward, see `enclosures`; where cells are split is no matter of proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino_audit.continuous.enclosures import (
    TINY as _LOST_TO_UNDERFLOW,
    WIDER,
    Bounds,
    Floats,
    bound_total,
    mean_exponential,
    widen,
)
from sordino_audit.continuous.envelopes import Lines, OverCells, Piece, lines, sum_lines
from sordino_audit.continuous.integrals import CellBudget

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
        The shapes of the logarithm of every term, from the left end of the interval to the right one.
    at : callable
        Takes points; returns bounds of the logarithms of all terms there, two arrays of shape (terms,
        points).
    first : int
        Into how many cells the interval is cut at first.
    over : callable or None
        Takes the ends of cells; returns bounds of the logarithm there, for a single term. Needed for pieces
        of the shape "any".
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
        """Return the left parts of all cells, of this share of their width, and then the right parts."""
        sides = []
        for side in (self.a, self.b):
            # Each line is followed to the new point, with more than the rounding on the unfavorable side.
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
            start, end, np.concatenate([self.width * share, self.width * (1 - share)]), sides[0], sides[1]
        )

    def ends(self) -> tuple[Bounds, Bounds]:
        """Return bounds of the log ratio a/b at the left and right end of every cell, seen from inside."""
        left = difference((self.a.low_left, self.a.high_left), (self.b.low_left, self.b.high_left))
        right = difference((self.a.low_right, self.a.high_right), (self.b.low_right, self.b.high_right))
        return left, right

    def mass(self, side: Lines) -> Bounds:
        """Return bounds of the probability of every cell under one side."""
        low = mean_exponential(*((side.low_left,) * 2, (side.low_right,) * 2))[0]
        high = mean_exponential(*((side.high_left,) * 2, (side.high_right,) * 2))[1]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            least, most = widen(low * self.width, high * self.width)
        none = (high == 0) | (self.width == 0)
        return np.maximum(least - _LOST_TO_UNDERFLOW, 0.0), np.where(none, 0.0, most + _LOST_TO_UNDERFLOW)


Rule = Callable[[Cells], Marks]
"""Which cells have to be split."""


def joined(parts: Sequence[Cells]) -> Cells:
    """Return the cells of all parts."""
    start, end, width = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("start", "end", "width")
    )
    a, b = (
        Lines(*(np.concatenate(ends) for ends in zip(*(getattr(part, side) for part in parts), strict=True)))
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
    low = np.where(np.isneginf(a[0]) | np.isnan(low), -math.inf, low)  # it may be that a is impossible
    return low, np.where(np.isneginf(a[1]), -math.inf, np.where(np.isnan(high), math.inf, high))


def compared(a: Curve, b: Curve, unclear: Rule, budget: CellBudget, cuts: Sequence[float] = ()) -> Cells:
    """Return the cells of two curves over one interval, split until none is unclear, or the budget ends."""
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
    """Return the rule that probabilities be known up to a share, as long as splitting still helps."""
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
    ends = sorted({end for curve in (a, b) for piece in curve.pieces for end in (piece.start, piece.end)})
    first, last = ends[0], ends[-1]
    found = {
        *ends,
        *(cut for cut in cuts if first < cut < last),
        *np.linspace(first, last, a.first + 1).tolist(),
    }
    reach = (last - first) * 2.0 ** -np.arange(1.0, 2 + a.first // 6)
    for end in ends:
        found.update(x for x in (*(end - reach).tolist(), *(end + reach).tolist()) if first < x < last)
    points = np.array(sorted(found))
    # No point strictly between the ends of the tiny pieces around breaks.
    inside = np.zeros(points.size, dtype=bool)
    for one, other in pairwise(ends):
        if other - one <= TINY * max(abs(one), abs(other), 2.0**-1000):
            inside |= (points > one) & (points < other)
    return points[~inside]
