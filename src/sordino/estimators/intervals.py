"""Intervals for the true answers behind released numbers, from exact quantiles of the noise.

Claim: the interval covers each true answer with at least the stated confidence, given everything released
before the noise was drawn, so also after a selection made with other noise. Proof: docs/proofs/intervals.md.
Floats: rounding of the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sordino.constraints import SHARE, Number
from sordino.errors import InvalidParameter
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.releases import Value, Values


def interval(released: Value | Values, *, confidence: Number = 0.95) -> tuple[Any, Any]:
    """Return the two ends of an interval for each true answer behind a release.

    The release is of a `LaplaceMechanism`, `GaussianMechanism` or `FoldedMechanism`.

    Parameters
    ----------
    released : Value or Values
        What the mechanism released.
    confidence : number
        In (0, 1): the least probability with which each interval covers its own answer.

    Returns
    -------
    low, high : float, or arrays of shape (n,)
        In the unit of the answers (for answers between two grid points: of the grid point below; of a
        `FoldedMechanism` without a step: of the one that the answer was rounded to). After folded noise both
        lie in the range of the answers, and an answer beyond that range counts as its end.

    Raises
    ------
    InvalidParameter
        If the confidence is not in (0, 1), or the release is of another mechanism.

    Examples
    --------
    >>> import sordino as sd
    >>> count = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING).release(1000, entropy=sd.Seeded(7))
    >>> low, high = sd.interval(count, confidence=0.95)
    >>> high - low
    6.0
    """
    from sordino.mechanisms import FoldedMechanism  # noqa: PLC0415 - few releases need it

    share = SHARE("interval.confidence", confidence)
    mechanism = getattr(released, "mechanism", None)
    if not isinstance(mechanism, LaplaceMechanism | GaussianMechanism | FoldedMechanism):
        raise InvalidParameter(
            "interval.released must be what LaplaceMechanism, GaussianMechanism or FoldedMechanism released."
        )
    law, step = mechanism.noise, float(mechanism.step)
    # The law is symmetric: P(|noise| > reach) <= 1 - confidence.
    reach = -law.quantile(float((1 - share) / 2)) * step
    # Fresh noise has its own law whatever was selected before, so the interval holds after a selection as
    # well (docs/proofs/intervals.md).
    values = released.value if isinstance(released, Value) else released.values
    if not isinstance(mechanism, FoldedMechanism):
        return values - reach, values + reach
    low, high = (end * step for end in mechanism.ends)
    # A released number beyond an end of the range is cut to that end: the ends stand for all that lies
    # beyond.
    unfolded = np.clip(values, low, high)
    ends = np.maximum(low, unfolded - reach), np.minimum(high, unfolded + reach)
    return ends if isinstance(released, Values) else (float(ends[0]), float(ends[1]))
