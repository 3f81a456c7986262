"""Where a released number's true answer lies: exact quantiles of the noise, nothing normal about it.

Claim: the interval covers each true answer with at least the stated confidence, given everything released before the noise was drawn,
so also after a selection made with other noise. Proof: docs/proofs/intervals.md. Floats: rounding of the last bit.
"""

from __future__ import annotations

from typing import Any

from sordino.constraints import SHARE, Number
from sordino.errors import InvalidParameter
from sordino.mechanisms import GaussianMechanism, LaplaceMechanism
from sordino.releases import Value, Values


def interval(released: Value | Values, *, confidence: Number = 0.95) -> tuple[Any, Any]:
    """Return the two ends of an interval for each true answer of a `LaplaceMechanism` or `GaussianMechanism`.

    Parameters
    ----------
    released : Value or Values
        What the mechanism released.
    confidence : number
        In (0, 1): the least probability with which each interval covers its own answer.

    Returns
    -------
    low, high : float, or arrays of shape (n,)
        In the unit of the answers (for answers between two grid points: of the grid point below).

    Raises
    ------
    InvalidParameter
        If the confidence is not in (0, 1), or the release is of another mechanism: folded noise lies elsewhere than its law says.

    Examples
    --------
    >>> import sordino as sd
    >>> count = sd.LaplaceMechanism(epsilon=1.0, sensitivity=sd.COUNTING).release(1000, entropy=sd.Seeded(7))
    >>> low, high = sd.interval(count, confidence=0.95)
    >>> high - low
    6.0
    """
    share = SHARE("interval.confidence", confidence)
    if not isinstance(getattr(released, "mechanism", None), LaplaceMechanism | GaussianMechanism):
        raise InvalidParameter("interval.released must be what LaplaceMechanism or GaussianMechanism released.")
    law, step = released.mechanism.noise, float(released.mechanism.step)
    reach = -law.quantile(float((1 - share) / 2)) * step  # the law is symmetric: P(|noise| > reach) <= 1 - confidence
    values = released.value if isinstance(released, Value) else released.values
    return values - reach, values + reach
