"""Privacy loss in an interval of known width and unknown place.

The guarantee of the exponential mechanism.

Claim: epsilon-bounded range is epsilon-private, with the hockey-stick curve
(1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon) [dong2020], and its smallest rho has a closed form,
which is at most epsilon^2/8. Proof: docs/proofs/dominating-pairs.md, docs/proofs/smallest-rho.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from sordino.constraints import NOT_NEGATIVE, Number
from sordino.cost.base import FirmCost
from sordino.cost.conversion import raise_delta, raise_divergence, round_up, solve_curve
from sordino.cost.rho import bounded_rho, log_sinhc

_BOUNDED_ROUNDING = 2.0**-49


@final
@dataclass(frozen=True, eq=False, repr=False)
class BoundedRange(FirmCost):
    """Privacy loss in [t - epsilon, t] for some t that may depend on the neighbors.

    This is epsilon-bounded range. Every view holds for the worst place of the interval.

    Parameters
    ----------
    epsilon : number
        The width of the interval, at least 0, in nats. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite.

    Examples
    --------
    >>> from sordino import cost
    >>> float(cost.BoundedRange(epsilon=4).zcdp())
    1.669849633511
    >>> cost.BoundedRange(epsilon=0.5).epsilon(1e-3) < cost.Pure(epsilon=0.5).epsilon(1e-3)
    True
    """

    notion = "bounded-range"
    epsilon_: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        self._set(epsilon_=NOT_NEGATIVE("BoundedRange.epsilon", epsilon))

    def pure(self) -> Fraction:
        """Return epsilon, exactly.

        The interval holds 0, so neither end is farther away than its width.
        """
        return self.epsilon_

    def zcdp(self) -> Fraction:
        """Return ln(sinh(y)/y) + y coth(y) - 1 with y = epsilon/2, rounded up.

        It is the divergence of order 1, and at most epsilon^2/8.
        """
        return bounded_rho(self.epsilon_)

    # A wider interval has larger curves, so the width is rounded up.

    def _bound_divergence(self, order: float) -> float:
        return bounded_rdp(round_up(self.epsilon_), order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        width = round_up(self.epsilon_)
        share = math.sqrt(left * -math.expm1(-width))
        return solve_curve(
            lambda epsilon: bounded_delta(width, epsilon), left, top, width, share, power=2
        )

    def _bound_delta(self, least: float) -> float:
        return bounded_delta(round_up(self.epsilon_), least)


def bounded_delta(width: float, epsilon: float) -> float:
    """Return the hockey-stick curve of bounded range at `epsilon` >= 0."""
    if epsilon >= width:
        return 0.0
    short = math.expm1((epsilon - width) / 2)
    return raise_delta(
        short * (short / -math.expm1(-width))
    )  # its square alone would leave the floats


def bounded_rdp(width: float, alpha: float) -> float:
    """Return the Rényi curve of bounded range, for the worst place of the interval.

    That place solves d/dt = 0 in closed form, and lies inside the interval. With w the width and
    g(y) = ln(sinh(y)/y) the curve is
    g(alpha w/2) - g((alpha-1) w/2) + (g(alpha w/2) - g(w/2)) / (alpha-1).
    """
    # Infinity less infinity is no number. At order inf the divergence is the largest loss, at most
    # the width.
    if math.isinf(width) or math.isinf(alpha):
        return width
    order = alpha - 1
    # The closed form under "Interval of width w, place unknown" (dominating-pairs).
    whole, rest, one = (log_sinhc(share * width / 2) for share in (alpha, order, 1.0))
    # Terms may cancel, so each is raised by a share of its own size.
    total = (
        whole
        - rest
        + (whole - one) / order
        + _BOUNDED_ROUNDING * (whole + rest + (whole + one) / order)
    )
    # The width and rho * alpha are bounds by themselves.
    return raise_divergence(
        min(width, width * width / 8 * alpha * (1 + 1e-15), total * (1 + 1e-12)), width
    )
