"""What the auditor looks at for a number with noise in proportion to a bound.

It is the density of the noise, moved and stretched.

Claim: none of its own. Rounding to a grid, and the range of the releases, come after the noise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sordino.audit.continuous.added import added
from sordino.audit.continuous.continuous import Continuous
from sordino.audit.continuous.density import Density
from sordino.audit.continuous.laws import Law
from sordino.constraints import to_fraction
from sordino.errors import InvalidParameter
from sordino.mechanisms import SmoothMechanism
from sordino.mechanisms.smooth.clamped_bound import clamped_bound

_WINDOW_REACH = 1 << 6
"""The window reaches so many ceilings/alpha to both sides."""


def smooth_mechanism(mechanism: SmoothMechanism, n: int) -> Continuous:
    """Return the density of the noise; answers are a number and its smooth bound."""
    if n != 2:
        raise InvalidParameter(
            f"audit.exact needs a pair on each side, a number and its smooth bound; got {n} numbers."
        )
    low, high = to_fraction(mechanism.floor), to_fraction(mechanism.ceiling)
    alpha = Fraction(mechanism.alpha)
    # The noise is widest where the bound is the ceiling: ceiling/alpha.
    window = -_WINDOW_REACH * high / alpha, _WINDOW_REACH * high / alpha
    # Noise for a bound of 1; each answer brings its own bound as the scale.
    plain = added(Law.cauchy(mechanism.noise.gamma, 1 / alpha), window, scaled=True)

    def kept(pair: Any) -> tuple[Any, Fraction]:
        # The bound is clamped by the function that a release calls.
        value, bound = pair
        return value, clamped_bound(bound, 1, low, high, "SmoothMechanism")

    seen: dict[str, Any] = {
        "log_density": lambda start, end, pair: plain["log_density"](start, end, kept(pair)),
        "breaks": lambda pair: plain["breaks"](kept(pair)),
        "tail": lambda a, b: plain["tail"](kept(a), kept(b)),
        "shape": plain["shape"],
    }
    return Density(window=window, cost=mechanism.cost, name=repr(mechanism), **seen)
