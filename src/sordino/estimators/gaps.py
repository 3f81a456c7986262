"""Combines the free gaps of a selection with fresh measurements.

The best linear unbiased estimates.

Claim: minimum variance among linear unbiased estimates for fixed indices [ding2022, Thm 4,
generalized]. After selection the noise of the winners is not centered: the estimates are "before
selection", their variance is no error bar. Proof: docs/proofs/combine-gaps.md. Floats:
post-processing in doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.estimators.difference import differences
from sordino.releases import (
    HybridTop,
    Positives,
    TopK,
    UnlistedTop,
    Value,
    Values,
    plain,
    short_repr,
)
from sordino.tabular import Row, Tabular, list_own_rows

Selection = TopK | HybridTop | UnlistedTop | Positives
Floats = NDArray[np.float64]

_TINY_VARIANCE = 1e-300  # a variance that has underflowed to 0 still divides


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimates(Tabular):
    """Estimates with their variances, both shape (k,).

    Unbiased for fixed indices ("before selection").

    Attributes
    ----------
    values : array of float, shape (k,)
        In the unit of the answers. NaN where neither a gap nor a measurement says anything.
    variances : array of float, shape (k,)
        In that unit squared, for fixed indices. Infinite where the value is NaN.

    Examples
    --------
    >>> import sordino as sd
    >>> noise = sd.Seeded(7)
    >>> select = sd.NoisyTopK(k=2, epsilon=2, sensitivity=sd.COUNTING)
    >>> top = select.release([50, 7, 90], entropy=noise)
    >>> measure = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2))
    >>> fresh = measure.release([90, 50], entropy=noise)
    >>> sd.combine_gaps(top, fresh).values.shape
    (2,)
    """

    values: Floats
    variances: Floats

    def __repr__(self) -> str:
        return short_repr(self, vars(self))

    def to_dict(self) -> dict[str, Any]:
        """Return both lists as JSON-ready values."""
        return dict(plain(vars(self)))

    def list_rows(self) -> list[Row]:
        """Return the estimates, each with its variance."""
        return list_own_rows(vars(self))


def combine_gaps(selection: Selection, measurements: Value | Values) -> Estimates:
    """Combine the gaps of `selection` with `measurements` of the same items.

    One estimate for each item.

    The estimates are unbiased **before selection only**, that is for items that were fixed in
    advance. An item that was found was found partly because its noise was high, so after selection
    its estimate is too high on average, the more so the further the answer lies below where it was
    found, and the variance is no error bar. For intervals take `interval` of the measurements, or
    `lower_bound`.

    Parameters
    ----------
    selection : TopK, HybridTop, UnlistedTop or Positives
        What `NoisyTopK`, `HybridTopK`, `UnlistedTopK`, `SparseVector`, `AdaptiveSparseVector` or
        `HybridSparseVector` released. After a threshold the gaps have estimates of their own. These
        share the noise of that threshold, which is estimated along with them. Positives of later
        passes have no gap: their measurement stands alone.
    measurements : Value or Values
        What `LaplaceMechanism` or `GaussianMechanism` released: `measurements.values[i]` belongs to
        `selection.indices[i]`; NaN means not measured. The noise must be independent of the
        selection's.

    Raises
    ------
    InvalidParameter
        If the lengths differ, the selection has no gaps, or its gaps say nothing without a
        measurement and nothing was measured.

    Notes
    -----
    Generalized least squares with the noise of the threshold as an unknown level, in one pass over
    the items.

    Examples
    --------
    >>> import sordino as sd
    >>> noise = sd.Seeded(7)
    >>> select = sd.NoisyTopK(k=2, epsilon=1.0, sensitivity=sd.COUNTING)
    >>> top = select.release([120, 7, 95, 3], entropy=noise)
    >>> measure = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING.over(2))
    >>> fresh = measure.release([120, 95], entropy=noise)
    >>> bool((sd.combine_gaps(top, fresh).variances < fresh.standard_error**2).all())
    True
    """
    # Both were released: nothing private is read from here on.
    known = _read_gaps(selection)
    measured, error = _read_measurements(measurements)
    k = known.centers.size
    if measured.shape != (k,):
        raise InvalidParameter(
            f"combine_gaps needs one measurement for each of the {k} selected items; got "
            f"{measured.size}."
        )
    if math.isinf(known.level) and np.isnan(measured).all():
        raise InvalidParameter(
            "combine_gaps needs at least one measurement that is not NaN: gaps alone do not say "
            "how high a list lies."
        )
    found, _ = _combine_centers(known, measured, error)
    return found


def combine_group(
    selection: Selection, measurements: Value | Values, rows: NDArray[np.int64]
) -> tuple[Estimates, float]:
    """Combine the gaps of some selected items with their measurements.

    It is as if only these items had been selected.

    Returns
    -------
    Estimates
        Of these rows.
    float
        How far gaps and measurements contradict each other: a sum of squares in units of their
        variance. For normal noise and answers that were not selected it is chi-square with one
        degree less than there are rows.
    """
    known = _read_gaps(selection)
    measured, error = _read_measurements(measurements)
    part = _GapCenters(known.centers[rows], known.deviations[rows], known.level)
    return _combine_centers(part, measured[rows], error)


def _combine_centers(known: _GapCenters, measured: Floats, error: float) -> tuple[Estimates, float]:
    """Return the combined estimates, and how far gaps and measurements contradict each other."""
    # In units of the largest deviation, so that squares neither overflow nor vanish together.
    scale = (
        max(
            [
                error,
                *known.deviations.tolist(),
                *([known.level] if math.isfinite(known.level) else []),
            ]
        )
        or 1.0
    )
    # What is missing has an infinite variance, and so no weight.
    u = np.where(
        np.isnan(known.centers), np.inf, np.maximum((known.deviations / scale) ** 2, _TINY_VARIANCE)
    )
    v = np.where(np.isnan(measured), np.inf, max((error / scale) ** 2, _TINY_VARIANCE))
    fitted = _least_squares(
        known.centers / scale, u, measured / scale, v, (known.level / scale) ** 2
    )
    with np.errstate(over="ignore", under="ignore"):
        return Estimates(
            values=fitted.values * scale, variances=fitted.variances * scale * scale
        ), fitted.misfit


class _GapCenters(NamedTuple):
    """What the gaps say of the items.

    `centers` are answer plus centered noise less a common unknown level; `deviations` and `level`
    are the standard deviations of that noise and of the level.
    """

    centers: Floats
    deviations: Floats
    level: float


def _read_gaps(selection: Any) -> _GapCenters:
    """Return what the gaps of a selection say of each item, in the unit of the answers.

    A center is NaN where they say nothing.
    """
    if not isinstance(selection, Selection):
        raise InvalidParameter(
            "combine_gaps.selection must be a TopK, HybridTop, UnlistedTop or Positives; got "
            "something else."
        )
    mechanism, k = selection.mechanism, selection.indices.size
    step = float(mechanism.step)
    if isinstance(selection, Positives) or (
        isinstance(selection, HybridTop | UnlistedTop) and selection.crossed
    ):
        laws = differences(selection)
        branches = (
            selection.branches if isinstance(selection, Positives) else np.zeros(k, dtype=np.int64)
        )
        variances, level = (
            np.array([law.query.variance for law in laws])[branches],
            laws[0].threshold.variance,
        )
        # Each positive has met a threshold of its own: nothing is shared.
        if getattr(mechanism, "resample", False):
            variances, level = variances + level, 0.0
        return _GapCenters(selection.estimates, np.sqrt(variances) * step, math.sqrt(level) * step)
    # Between k items there are k - 1 gaps.
    if selection.gaps.size < k - 1:
        raise InvalidParameter(
            "combine_gaps needs a selection with gaps: NoisyTopK with exponential or Laplace noise."
        )
    # The gaps fix the noisy answers up to one level, the noisy answer of the last item, of which
    # nothing is known. Without the margin, which says nothing linear about a selected item
    # (docs/proofs/combine-gaps.md).
    inner = selection.gaps[: k - 1]
    # Added up from the last item: how far each noisy answer lies above the last one.
    deviations = np.full(k, math.sqrt(mechanism.noise.variance) * step)
    return _GapCenters(np.append(np.cumsum(inner[::-1])[::-1], 0.0), deviations, math.inf)


class _Fitted(NamedTuple):
    """Estimates, their variances, and the weighted sum of squares left between both sources."""

    values: Floats
    variances: Floats
    misfit: float


def _least_squares(d: Floats, u: Floats, measured: Floats, v: Floats, level: float) -> _Fitted:
    """Return estimates and variances, from centers `d` and measurements, of variances `u` and `v`.

    A variance of inf means that there is none; `level` is the variance of the common level.
    """
    # Only items with both a center and a measurement say something of the common level.
    both = np.isfinite(u) & np.isfinite(v)
    weights = np.where(both, 1 / (u + v), 0.0)
    total = float(weights.sum())
    # The variance of the level that is left after the measurements.
    spread = 1 / total if math.isinf(level) else level / (1 + level * total)
    # The estimate of the level, the mu with a hat in docs/proofs/combine-gaps.md, "Least squares".
    apart = np.where(both, measured - d, 0.0)
    shift = spread * float((weights * apart).sum())
    misfit = float((weights * (apart - shift) ** 2).sum())
    of_gap, of_measurement = 1 / u, 1 / v
    precision = of_gap + of_measurement
    some = precision > 0
    # Where nothing is known any divisor will do: NaN and infinity are put there in the end.
    precision = np.where(some, precision, 1.0)
    share = of_gap / precision
    # Where there is no center or no measurement the number may be NaN, and a weight of 0 would not
    # remove it.
    from_gap, from_measurement = (
        np.where(of_gap > 0, d + shift, 0.0),
        np.where(of_measurement > 0, measured, 0.0),
    )
    values = share * from_gap + of_measurement / precision * from_measurement
    variances = 1 / precision + share**2 * spread
    return _Fitted(np.where(some, values, np.nan), np.where(some, variances, np.inf), misfit)


def _read_measurements(measurements: Any) -> tuple[Floats, float]:
    """Return the measured values, shape (n,), and the standard deviation of their noise."""
    if isinstance(measurements, Value | Values):
        values = np.atleast_1d(
            measurements.value if isinstance(measurements, Value) else measurements.values
        ).astype(np.float64)
        # Heavy-tailed noise has no finite deviation, and so no weight in least squares.
        error: Any = measurements.standard_error
        if isinstance(error, float | int) and 0 <= error < math.inf:
            return values, float(error)
    raise InvalidParameter(
        "combine_gaps.measurements must be what LaplaceMechanism or GaussianMechanism released, "
        "with a standard error."
    )
