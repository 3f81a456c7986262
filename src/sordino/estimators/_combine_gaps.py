"""The best linear unbiased estimates from a selection's free gaps and fresh measurements of the selected items.

Claim: minimum variance among linear unbiased estimates for fixed indices [ding2022, Thm 4, generalized]. After selection the noise of
the winners is not centered: the estimates are "before selection", their variance is no error bar. Proof: docs/proofs/combine-gaps.md.
Floats: post-processing in doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sordino.errors import InvalidParameter
from sordino.releases import TopK, Values, pictured, plain

_LEAST = 1e-300  # a variance that has underflowed to 0 still divides


@final
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimates:
    """Estimates with their variances, both shape (k,); unbiased for fixed indices ("before selection").

    Attributes
    ----------
    values : array of float, shape (k,)
        In the unit of the answers.
    variances : array of float, shape (k,)
        In that unit squared, for fixed indices.

    Examples
    --------
    >>> import sordino as sd
    >>> noise = sd.Seeded(7)
    >>> top = sd.NoisyTopK(k=2, epsilon=2, sensitivity=sd.COUNTING).release([50, 7, 90], entropy=noise)
    >>> fresh = sd.LaplaceMechanism(epsilon=2, sensitivity=sd.COUNTING.over(2)).release([90, 50], entropy=noise)
    >>> sd.combine_gaps(top, fresh).values.shape
    (2,)
    """

    values: NDArray[np.float64]
    variances: NDArray[np.float64]

    def __repr__(self) -> str:
        return pictured(self, vars(self))

    def to_dict(self) -> dict[str, Any]:
        """Return both lists as JSON-ready values."""
        return dict(plain(vars(self)))


def combine_gaps(selection: TopK, measurements: Values) -> Estimates:
    """Combine the gaps of `selection` with `measurements` of the selected items into one estimate for each item.

    Parameters
    ----------
    selection : TopK
        What `NoisyTopK` released.
    measurements : Values
        `measurements.values[i]` belongs to `selection.indices[i]`; NaN means not measured. The noise must be independent of the
        selection's.

    Raises
    ------
    InvalidParameter
        If the lengths differ, nothing was measured or the selection has no gaps.

    Examples
    --------
    >>> import sordino as sd
    >>> noise = sd.Seeded(7)
    >>> top = sd.NoisyTopK(k=2, epsilon=1.0, sensitivity=sd.COUNTING).release([120, 7, 95, 3], entropy=noise)
    >>> fresh = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING.over(2)).release([120, 95], entropy=noise)
    >>> bool((sd.combine_gaps(top, fresh).variances < fresh.standard_error**2).all())
    True
    """
    k = selection.indices.size
    measured = np.asarray(measurements.values, dtype=np.float64)
    if measured.shape != (k,):
        raise InvalidParameter(f"combine_gaps needs one measurement for each of the {k} selected items; got {measured.size}.")
    if selection.gaps.size < k - 1:
        raise InvalidParameter("combine_gaps needs a selection with gaps: NoisyTopK with exponential or Laplace noise.")
    known = ~np.isnan(measured)
    if not known.any():
        raise InvalidParameter("combine_gaps needs at least one measurement that is not NaN.")
    # d_i = q_i + noise_i - mu: the gaps fix the noisy answers up to one common level mu, the noisy answer of the last item.
    inner = selection.gaps[: k - 1]
    d = np.append(np.cumsum(inner[::-1])[::-1], 0.0)
    u = max(selection.mechanism.noise.variance * float(selection.mechanism.step) ** 2, _LEAST)
    v = np.where(known, max(measurements.standard_error**2, _LEAST), np.inf)
    weights = 1 / (u + v)
    level_variance = 1 / weights.sum()
    level = level_variance * (weights * np.where(known, measured - d, 0.0)).sum()
    share = 1 / (1 + u / v)
    values = np.where(known, (1 - share) * np.where(known, measured, 0.0) + share * (d + level), d + level)
    variances = share * u + share**2 * level_variance
    return Estimates(values=values, variances=variances)
