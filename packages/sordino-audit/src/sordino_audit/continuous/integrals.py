"""Encloses integrals of products of densities, distribution and survival functions.

The variable of integration is a shift that all functions of a product share. Where all laws are
analytic, ball arithmetic integrates them; those of a caller are known by enclosures only, and are
summed cell by cell.

Claim: every integral lies between its two bounds, whatever the partition. Proof:
docs/proofs/exact-audit.md, "Integrals". Floats: outward, see `enclosures` and `balls`; where cells
are split is no matter of proof.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino_audit.continuous import enclosures as floats
from sordino_audit.continuous.balls import BallIntegral, Kind, PlacedFactor
from sordino_audit.continuous.enclosures import Bounds, Floats, enclose
from sordino_audit.continuous.laws import Law

Shifts = tuple[Fraction, ...]

_MOST_SPLITTING_ROUNDS = 200
_FINEST_GAP = 2.0**-36
"""A cell whose bounds are this close, relatively, gains nothing from being split."""


class Factor(NamedTuple):
    """What stands in the integral: a function of (x + shift) / scale.

    Each integral has its own shift.
    """

    kind: Kind
    law: Law
    scale: Fraction


@final
@dataclass
class CellBudget:
    """How many cells may be looked at, over all integrals of an audit."""

    left: int
    spent: int = 0

    def take(self, cells: int) -> bool:
        """Take so many cells, and tell whether they were there."""
        self.spent, self.left = self.spent + cells, self.left - cells
        return self.left > 0


def integrate(
    factors: Sequence[Factor], jobs: Sequence[Shifts], share: float, budget: CellBudget
) -> Bounds:
    """Return bounds of the integrals over all real x of one product of factors.

    There is one integral for each list of shifts. The first factor is a density. The bounds are
    apart by `share` of their size unless the budget ends before.
    """
    laws = [factor.law.analytic for factor in factors]
    if None in laws:
        return _CellIntegrals(factors, jobs).bounds(share, budget)
    found = []
    for job in jobs:
        parts = [
            PlacedFactor(factor.kind, law, factor.scale * factor.law.scale, shift)
            for factor, law, shift in zip(factors, laws, job, strict=True)
            if law is not None
        ]
        integral = BallIntegral(parts, share, budget.left)
        found.append(integral.bounds())
        budget.take(integral.evaluations)
    low, high = np.array(found).T
    return low, high


@final
class _CellIntegrals:
    """Integrals of one product of factors for many lists of shifts at once, by sums over cells.

    They are computed in a unit near the smallest scale, a power of two, so that it does not matter
    in which one scales are given: with d densities, the integral is unit^(1 - d) times the one of
    everything divided by the unit.
    """

    def __init__(self, factors: Sequence[Factor], jobs: Sequence[Shifts]) -> None:
        unit = _choose_unit(min(factor.scale * factor.law.scale for factor in factors))
        self.factors = tuple(factor._replace(scale=factor.scale / unit) for factor in factors)
        self.jobs = [tuple(shift / unit for shift in job) for job in jobs]
        # Each density is one over a length, and the variable of integration is a length.
        self._stretch = enclose(unit ** (1 - sum(factor.kind == "density" for factor in factors)))
        self._shifts = np.array([[enclose(shift) for shift in job] for job in self.jobs]).reshape(
            len(jobs), len(factors), 2
        )
        self._slopes = [1 / (factor.scale * factor.law.scale) for factor in self.factors]

    def bounds(self, share: float, budget: CellBudget) -> Bounds:
        """Return bounds of all integrals, apart by `share` of their size if the budget lasts."""
        count = len(self.jobs)
        job, x0, x1 = self._grid()
        low, high = self._cells(job, x0, x1)
        for _ in range(_MOST_SPLITTING_ROUNDS):
            least, most = _sum_by_job(job, low, count), _sum_by_job(job, high, count)
            # In integrals that are not known well enough those cells are split that hold much of
            # the gap.
            wide = (most - least > share * least)[job]
            cells = np.bincount(job, minlength=count)
            gap = high - low
            chosen = (
                wide
                & (gap > (share * least / (3 * cells))[job])
                & (gap > _FINEST_GAP * high)
                & _can_be_split(x0, x1)
            )
            if not chosen.any() or not budget.take(2 * int(chosen.sum())):
                break
            middle = _split_point(x0[chosen], x1[chosen])
            owner, left, right = (
                np.repeat(job[chosen], 2),
                np.repeat(x0[chosen], 2),
                np.repeat(x1[chosen], 2),
            )
            # Every chosen cell becomes two, which meet in the middle.
            right[::2] = left[1::2] = middle
            found = self._cells(owner, left, right)
            job = np.concatenate([job[~chosen], owner])
            x0, x1, low, high = (
                np.concatenate([old[~chosen], new])
                for old, new in zip((x0, x1, low, high), (left, right, *found), strict=True)
            )
        # More than the roundings of a sum over so many cells.
        slop = 1 + (np.bincount(job, minlength=count) + 8) * 2.0**-51
        with np.errstate(over="ignore", under="ignore"):
            below, above = _sum_by_job(job, low, count) / slop, _sum_by_job(job, high, count) * slop
            # What is this small may have lost something to an underflow: 0 from below, `TINY` from
            # above.
            least, most = (
                below * self._stretch[0],
                np.maximum(above * self._stretch[1], floats.TINY),
            )
        return np.where(least < floats.TINY, 0.0, np.minimum(least, floats.LARGEST)), np.where(
            above == 0, 0.0, most
        )

    def _grid(self) -> tuple[NDArray[np.int64], Floats, Floats]:
        """Return the first cells of every integral.

        They are cut where a factor has a break, are finer near the middle, and have no end at both
        sides.
        """
        jobs, left, right = [], [], []
        for i, job in enumerate(self.jobs):
            cuts = _choose_first_cuts(self.factors, job)
            jobs.append(np.full(cuts.size - 1, i))
            left.append(cuts[:-1])
            right.append(cuts[1:])
        return np.concatenate(jobs), np.concatenate(left), np.concatenate(right)

    def _at(self, factor: int, job: NDArray[np.int64], x: Floats) -> Bounds:
        """Return bounds of the argument of a factor."""
        shift = self._shifts[job, factor]
        moved = floats.plus((x, x), (shift[:, 0], shift[:, 1]))
        return floats.scaled(moved, self._slopes[factor])

    def _cells(self, job: NDArray[np.int64], x0: Floats, x1: Floats) -> Bounds:
        """Return bounds of the integral over each cell, which come from its ends."""
        ends = [(self._at(f, job, x0), self._at(f, job, x1)) for f in range(len(self.factors))]
        ranges = [
            _enclose_factor(factor, slope, *at)
            for factor, slope, at in zip(self.factors, self._slopes, ends, strict=True)
        ]
        # Monotone sums: the probability of the cell under the first factor, times bounds of all
        # others.
        low, high = self._carried(ranges[0], ends[0], x0, x1)
        for part in ranges[1:]:
            low, high = _multiply_factors((low, high), part)
        # Bounds that cross show that a law contradicts itself.
        if (low > high).any():
            i = int((low > high).argmax())
            raise InvalidParameter(
                f"{self.factors[0].law} must have functions that agree with each other and with "
                f"the density; between {x0[i]:.6g} and {x1[i]:.6g} they do not."
            )
        return low, high

    def _carried(self, values: Bounds, at: tuple[Bounds, Bounds], x0: Floats, x1: Floats) -> Bounds:
        """Return bounds of the probability of each cell under the first factor."""
        law = self.factors[0].law
        low, high = np.zeros_like(x0), np.ones_like(x0)
        if law.log_cdf is not None:
            below, above = bound_mass(law, *at)
            low, high = np.maximum(low, below), np.minimum(high, above)
        if law.log_density is not None:
            width = floats.widen(x1 - x0, x1 - x0)
            with np.errstate(invalid="ignore"):
                least, most = _multiply_factors(values, width)
            # What is no number says nothing: fmax and fmin pass over it.
            low, high = (
                np.fmax(low, np.where(np.isfinite(width[1]), least, 0.0)),
                np.fmin(high, most),
            )
        return low, high


def bound_mass(law: Law, left: Bounds, right: Bounds) -> Bounds:
    """Bound the probability between two points, from distribution and survival function."""
    if law.log_cdf is None:
        return np.zeros_like(left[0]), np.ones_like(left[0])
    low, high = np.zeros_like(left[0]), np.ones_like(left[0])
    # Differences of the distribution function are precise in the lower tail, the others in the
    # upper one.
    for tail, (near, far) in ((cdf, (right, left)), (survival, (left, right))):
        more, less = tail(law, near), tail(law, far)
        if (more[1] < less[0]).any():
            i = int((more[1] < less[0]).argmax())
            raise InvalidParameter(
                f"{law}.log_cdf must not fall, nor log_survival rise; "
                f"got the contrary between {left[0][i]:.6g} and {right[0][i]:.6g}."
            )
        low, high = (
            np.maximum(low, (more[0] - less[1]) * (1 - 2.0**-50)),
            np.minimum(high, (more[1] - less[0]) * (1 + 2.0**-50)),
        )
    return low, high


def cdf(law: Law, z: Bounds) -> Bounds:
    """Return bounds of P(Z <= z)."""
    low, high = enclosed(law, "log_cdf", z[0])[0], enclosed(law, "log_cdf", z[1])[1]
    return floats.exp((low, np.minimum(high, 0.0)))


def survival(law: Law, z: Bounds) -> Bounds:
    """Return bounds of P(Z > z)."""
    if law.log_survival is None:
        # One minus the other: inexact far up, but a bound.
        low, high = cdf(law, z)
        return np.maximum(floats.widen(1 - high, 1 - high)[0], 0.0), floats.widen(1 - low, 1 - low)[
            1
        ]
    low, high = enclosed(law, "log_survival", z[1])[0], enclosed(law, "log_survival", z[0])[1]
    return floats.exp((low, np.minimum(high, 0.0)))


def enclosed(law: Law, name: str, *at: Floats) -> Bounds:
    """Return what a function of a law says, if it makes sense at all."""
    low, high = (
        np.broadcast_to(np.asarray(side, dtype=np.float64), at[0].shape)
        for side in getattr(law, name)(*at)
    )
    wrong = np.isnan(low) | np.isnan(high) | (low > high)
    # A probability is at most 1; a density may be anything.
    if name != "log_density":
        wrong |= low > 0
    if wrong.any():
        i = int(wrong.argmax())
        raise InvalidParameter(
            f"{law}.{name} must return a lower and an upper bound, of a probability not above 0; "
            f"got {low.flat[i]:.6g} and {high.flat[i]:.6g} at {at[0].flat[i]:.6g}."
        )
    return low, high


def _enclose_factor(factor: Factor, slope: Fraction, left: Bounds, right: Bounds) -> Bounds:
    """Return bounds of a factor over each cell, from bounds of its argument at both ends."""
    if factor.kind == "cdf":
        return cdf(factor.law, left)[0], cdf(factor.law, right)[1]
    if factor.kind == "survival":
        return survival(factor.law, right)[0], survival(factor.law, left)[1]
    if factor.law.log_density is None:
        return np.zeros_like(left[0]), np.full_like(left[0], math.inf)
    return floats.scaled(floats.exp(enclosed(factor.law, "log_density", left[0], right[1])), slope)


def _multiply_factors(a: Bounds, b: Bounds) -> Bounds:
    """Return bounds of a product of numbers that are not negative.

    0 times what is not bounded is 0.
    """
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        low, high = floats.widen(a[0] * b[0], a[1] * b[1])
    none = (a[1] == 0) | (b[1] == 0)
    return np.where(np.isfinite(low), np.maximum(low - floats.TINY, 0.0), 0.0), np.where(
        none, 0.0, high + floats.TINY
    )


def _sum_by_job(job: NDArray[np.int64], values: Floats, count: int) -> Floats:
    sums: Floats = np.bincount(job, weights=values, minlength=count).astype(np.float64)
    return sums


def _split_point(x0: Floats, x1: Floats) -> Floats:
    """Return where a cell is split: in the middle; twice as far out, if it has no end."""
    with np.errstate(invalid="ignore", over="ignore"):
        below, above = x1 - np.abs(x1) - 1, x0 + np.abs(x0) + 1
        return np.where(
            np.isinf(x0),
            np.where(np.isinf(x1), 0.0, below),
            np.where(np.isinf(x1), above, x0 / 2 + x1 / 2),
        )


def _can_be_split(x0: Floats, x1: Floats) -> NDArray[np.bool_]:
    middle = _split_point(x0, x1)
    return (x0 < middle) & (middle < x1)


def _choose_unit(scale: Fraction) -> Fraction:
    """Return a power of two near a scale."""
    return Fraction(2) ** (scale.numerator.bit_length() - scale.denominator.bit_length())


def _choose_first_cuts(factors: Iterable[Factor], job: Shifts) -> Floats:
    """Return where an integral is cut first.

    At every break it is cut at both floats next to it: no cell but these tiny ones contains a
    break.
    """
    found: list[float] = []
    centers, scales = [], []
    for factor, shift in zip(factors, job, strict=True):
        scale = factor.scale * factor.law.scale
        centers.append(float(-shift))
        scales.append(float(scale))
        for place in factor.law.breaks:
            found += enclose(place * scale - shift)
    low, high, fine = min(centers), max(centers), min(scales)
    # Between the answers cells are about as wide as the smallest scale, as far as 64 cells reach.
    steps = min(64, 2 + math.ceil((high - low) / fine))
    found += np.linspace(low, high, steps).tolist()
    reach = fine / 2
    # Outward the cells are twice as wide each time: little is left there.
    while reach < 64 * max(scales):
        reach *= 2
        found += [low - reach, high + reach]
    return np.array([-math.inf, *sorted({x for x in found if math.isfinite(x)}), math.inf])
