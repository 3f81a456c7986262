"""The best linear estimate of a table of which margins were measured as well as cells.

Claim: it is unbiased and adds up, and each of its sums is the true one and a sum of the noises with
public weights, which `Mix.list_noises` has all of. Proof: docs/proofs/tables.md. Floats: weights
are exact fractions; estimates are rounded to a grid, on which sums are exact.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import final

import numpy as np

from sordino.constraints import to_fraction
from sordino.figures.mixed_noise import Law, Part, find_far
from sordino.figures.table_fit import Axes, Floats, list_margins

GRID = 1 << 20
"""Estimates of cells are whole numbers of so many parts of a step: floats add them up exactly."""
TOTAL_FROM, LINES_FROM, GAUSSIAN_FROM = 50, 100, 5
"""From so many cells on the total is measured with pure noise; from so many labels of each of two
columns all margins are; with Gaussian noise from so many of each column."""
_TOTAL_SHARE = Fraction(19, 100)
_LARGEST_WEIGHT = 1 << 24
_LEAST_VARIANCE = 1e-280
"""Of noise that is hardly ever there."""
_RARE = 1e-6
"""As a share of what may go wrong."""


def share_margins(shape: tuple[int, ...], *, gaussian: bool) -> dict[Axes, Fraction]:
    """Return which part of a budget measures each margin; the cells alone where that is best.

    Parameters
    ----------
    shape : tuple of int
        How many labels each column has.
    gaussian : bool
        Whether the noise is Gaussian: then several measurements cost less accuracy.
    """
    every: Axes = tuple(range(len(shape)))
    equal = dict.fromkeys(list_margins(len(shape)), Fraction(1, 2 ** len(shape)))
    if gaussian:
        large = min(shape) >= GAUSSIAN_FROM and math.prod(shape) >= GAUSSIAN_FROM**2
        return equal if large else {(): Fraction(1)}
    if len(shape) == 2 and min(shape) >= LINES_FROM:
        return equal
    if math.prod(shape) >= TOTAL_FROM:
        return {(): 1 - _TOTAL_SHARE, every: _TOTAL_SHARE}
    return {(): Fraction(1)}


def round_cells(cells: Floats) -> Floats:
    """Return estimates of which any sums are exact in floats."""
    rounded: Floats = np.rint(cells * GRID) / GRID
    return rounded


def find_rounding(cells: int) -> Fraction:
    """Return how far rounding moves a sum of so many cells at most, floats included."""
    return Fraction(cells, GRID)


def find_sum_reach(parts: Iterable[Part], wrong: Fraction) -> Fraction:
    """Return how far a sum of noises reaches, but for a chance of `wrong`.

    As `find_far`, which has no digits for noise that is hardly ever there: how likely that is there
    after all is a part of what may go wrong.
    """
    counted = Counter(parts)
    chances = {part: 2 * float(part[0].sf(0)) * many for part, many in counted.items() if part[1]}
    rare = {part for part, chance in chances.items() if chance <= float(wrong) * _RARE}
    left = wrong - len(rare) * wrong * to_fraction(_RARE)
    return find_far(
        itertools.chain.from_iterable(
            itertools.repeat(part, many) for part, many in counted.items() if part not in rare
        ),
        left,
    )


@final
@dataclass(frozen=True)
class Mix:
    """Puts measurements of cells and of margins together, each weighted by what it knows.

    A table is a sum of parts that do not know of each other: its mean, what rows differ by, what
    columns do, and so on. Each margin has measured some of these parts; of each part the mean of
    what was measured is taken, weighted by one over the variances.

    Parameters
    ----------
    shape : tuple of int
        How many labels each column has.
    laws : mapping of tuple of int to law
        The noise of each margin that was measured, cells among them, in steps that all share.
    """

    shape: tuple[int, ...]
    laws: Mapping[Axes, Law]

    @cached_property
    def weights(self) -> dict[Axes, dict[Axes, Fraction]]:
        """How each margin counts, by the columns that are kept apart when it is averaged."""
        return {axes: dict(self._list_weights(axes)) for axes in self.laws}

    def _list_weights(self, axes: Axes) -> Iterator[tuple[Axes, Fraction]]:
        kept = self._keep(axes)
        for apart in _list_subsets(kept):
            yield (
                apart,
                sum(
                    (
                        (-1) ** (len(part) - len(apart)) * self._shares[part][axes]
                        for part in _list_subsets(kept)
                        if {*apart} <= {*part}
                    ),
                    Fraction(0),
                ),
            )

    @cached_property
    def _shares(self) -> dict[Axes, dict[Axes, Fraction]]:
        """Of each part of a table the weight of every margin that has measured it; 1 in all."""
        found = {}
        for part in _list_subsets(tuple(range(len(self.shape)))):
            known = {
                axes: math.prod(self.shape[axis] for axis in axes)
                / max(law.variance, _LEAST_VARIANCE)
                for axes, law in self.laws.items()
                if not {*axes} & {*part}
            }
            most = max(known.values())
            whole = {
                axes: max(1, round(_LARGEST_WEIGHT * one / most)) for axes, one in known.items()
            }
            found[part] = {axes: Fraction(one, sum(whole.values())) for axes, one in whole.items()}
        return found

    def _keep(self, axes: Axes) -> Axes:
        return tuple(axis for axis in range(len(self.shape)) if axis not in axes)

    def estimate(self, measured: Mapping[Axes, Floats]) -> Floats:
        """Return the estimates of all cells, in the unit of what was measured.

        Parameters
        ----------
        measured : mapping of tuple of int to array
            What each margin was measured as; axes over which it adds up have length 1.
        """
        cells: Floats = np.zeros(self.shape)
        for axes, weights in self.weights.items():
            kept = self._keep(axes)
            for apart, weight in weights.items():
                over = tuple(axis for axis in kept if axis not in apart)
                many = math.prod(n for axis, n in enumerate(self.shape) if axis not in apart)
                cells = cells + float(weight / many) * measured[axes].sum(axis=over, keepdims=True)
        return cells

    def list_noises(self, axes: Axes) -> Iterator[tuple[Axes, Axes, Fraction, int]]:
        """Yield the noises in one sum of a margin: whose, which, with which weight, and how many.

        Which: those whose labels are the same in just these columns, of those that both have.
        """
        kept = self._keep(axes)
        for measured, weights in self.weights.items():
            both = tuple(axis for axis in self._keep(measured) if axis in kept)
            others = math.prod(
                self.shape[axis] for axis in self._keep(measured) if axis not in kept
            )
            for same in _list_subsets(both):
                weight = sum(
                    (
                        one / math.prod(self.shape[axis] for axis in kept if axis not in apart)
                        for apart, one in weights.items()
                        if {*apart} & {*kept} <= {*same}
                    ),
                    Fraction(0),
                )
                many = math.prod(self.shape[axis] - 1 for axis in both if axis not in same)
                yield measured, same, weight, many * others

    def list_laws(self, axes: Axes) -> Iterator[Part]:
        """Yield every noise in one sum of a margin: its law, and its weight."""
        for measured, _, weight, many in self.list_noises(axes):
            yield from itertools.repeat((self.laws[measured], weight), many)

    def find_variance(self, axes: Axes) -> float:
        """Return the variance of one sum of a margin, in squares of steps."""
        return math.fsum(
            many * float(weight) ** 2 * self.laws[measured].variance
            for measured, _, weight, many in self.list_noises(axes)
        )


def _list_subsets(axes: Axes) -> list[Axes]:
    """Return all parts of some columns, the empty one first."""
    return [part for many in range(len(axes) + 1) for part in itertools.combinations(axes, many)]
