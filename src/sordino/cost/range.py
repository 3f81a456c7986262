"""Privacy loss in an interval that need not be symmetric.

Claim: a loss in [-low, high] is (low + high)^2/8-zCDP, and the two-point pair at its ends bounds every view.
Proof: docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from sordino.constraints import NOT_NEGATIVE, Number, text
from sordino.cost.conversion import (
    checked_alpha,
    checked_delta,
    checked_epsilon,
    round_down,
    round_up,
    stated,
)
from sordino.cost.digits import digits, nearest, ratio
from sordino.cost.two_point import range_delta, range_epsilon, range_rdp
from sordino.errors import InvalidParameter


@final
@dataclass(frozen=True)
class Range:
    """Privacy loss in [-low, high] for two neighbors in one order, and in [-high, low] in the other order.

    Every view holds for both orders. An interval of known width whose place is not known is a `BoundedRange`.

    Parameters
    ----------
    low, high : number
        The ends, in nats; both positive, or both 0. A float means its shortest decimal.
    orientation : str, optional
        Names the public condition that decides, for two given neighbors, in which order the loss lies in
        [-low, high]: for threshold searches over one column the same column, the same direction of the scan,
        a fixed threshold and one relation between neighbors. In a composition parts with equal texts are
        taken to be ordered alike, which is cheaper. Like every composition it is about a fixed list: column,
        direction and threshold are chosen before the first answer and not because of one. None is always
        right: the order may change from part to part.

    Raises
    ------
    InvalidParameter
        If an end is negative or not finite, if only one end is 0, or if the orientation is not a printable
        text.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.Range(low=0.05, high=0.1).zcdp()
    Fraction(9, 3200)
    >>> search = cost.Range(low=0.05, high=0.1, orientation="price, upward, fixed threshold, replace-one")
    >>> round(cost.repeat(search, 20).epsilon(1e-6), 4)
    1.3984
    """

    low: Fraction
    high: Fraction
    orientation: str | None

    def __init__(self, *, low: Number, high: Number, orientation: str | None = None) -> None:
        object.__setattr__(self, "low", NOT_NEGATIVE("Range.low", low))
        object.__setattr__(self, "high", NOT_NEGATIVE("Range.high", high))
        named = None if orientation is None else text(orientation, "Range.orientation")
        object.__setattr__(self, "orientation", named)
        if (self.low == 0) != (self.high == 0):
            # Mathematically free (a ratio of laws that is never below 1 is 1), so whoever writes it means
            # something else.
            raise InvalidParameter(
                "Range.low and Range.high must both be positive, or both 0, because a loss that "
                f"has one sign only is 0 everywhere; got {digits(self.low)} and {digits(self.high)}. "
                "Use BoundedRange(epsilon=) for an interval of unknown place."
            )

    def __hash__(self) -> int:  # of whole numbers: the hash of a fraction takes many times longer
        return hash(("range", *self.low.as_integer_ratio(), *self.high.as_integer_ratio(), self.orientation))

    def __repr__(self) -> str:
        named = "" if self.orientation is None else f", orientation={self.orientation!r}"
        return f"Range(low={digits(self.low)}, high={digits(self.high)}{named})"

    def pure(self) -> Fraction:
        """Return the larger end, exactly."""
        return max(self.low, self.high)

    def zcdp(self) -> Fraction:
        """Return (low + high)^2/8, which is never above half the square of the larger end."""
        return (self.low + self.high) ** 2 / 8

    def rdp(self, alpha: float) -> float:
        """Return the divergence of the two-point pair at the ends, in its worse order."""
        order = checked_alpha(alpha)
        # The ends are rounded up: a wider interval has a larger curve.
        return 0.0 if self.low == 0 else range_rdp(round_up(self.low), round_up(self.high), order)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon at `delta`, for the two-point pair in its worse order."""
        left = round_down(checked_delta(delta))
        return (
            0.0
            if self.low == 0
            else range_epsilon(round_up(self.low), round_up(self.high), left, stated(self.pure()))
        )

    def delta(self, epsilon: float) -> float:
        """Return the least delta at `epsilon`, for the two-point pair in its worse order."""
        least = checked_epsilon(epsilon)
        return (
            0.0
            if least >= self.pure()
            else range_delta(round_up(self.low), round_up(self.high), round_down(least))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the notion and its parameters, exact and as floats."""
        ends = {"low": nearest(self.low), "high": nearest(self.high)}
        return {
            "notion": "range",
            **ends,
            "orientation": self.orientation,
            "exact": [ratio(self.low), ratio(self.high)],
        }
