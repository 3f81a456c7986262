"""Privacy loss in an interval: symmetric, any other one, or one of known width and unknown place.

Claim: of all laws with a log ratio in [-low, high] the pair of two points at the ends, with the
masses P(high) = (1 - e^-low) / (1 - e^-(low+high)) and Q = P e^-loss, has the largest divergence of
every convex kind; in the other order low and high are exchanged. Its rho is at most (low +
high)^2/8. Where only the width epsilon is known, as of the exponential mechanism, the curve is
(1 - e^((x - epsilon)/2))^2 / (1 - e^-epsilon) [dong2020], and the smallest rho has a closed form,
at most epsilon^2/8. Proof: docs/proofs/dominating-pairs.md, docs/proofs/smallest-rho.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import final

from sordino.constraints import NOT_NEGATIVE, Number, text
from sordino.cost.base import FirmCost
from sordino.cost.conversion import (
    digits,
    pure_delta,
    pure_epsilon,
    pure_rdp,
    raise_delta,
    raise_divergence,
    round_up,
    solve_curve,
)
from sordino.cost.rho import bounded_rho, certify_rho, log_sinhc, pure_rho, shorten_up
from sordino.errors import InvalidParameter


@final
@dataclass(frozen=True, eq=False, repr=False)
class Pure(FirmCost):
    """Pure epsilon-differential privacy.

    Every view is that of randomized response [kairouz2015, Thm 3.3].

    Parameters
    ----------
    epsilon : number
        At least 0, in nats. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If epsilon is negative or not finite.

    Examples
    --------
    >>> from sordino import cost
    >>> cost.Pure(epsilon=0.1).pure()
    Fraction(1, 10)
    """

    notion = "pure"
    epsilon_: Fraction

    def __init__(self, *, epsilon: Number) -> None:
        self._set(epsilon_=NOT_NEGATIVE("Pure.epsilon", epsilon))

    def pure(self) -> Fraction:
        """Return epsilon, exactly."""
        return self.epsilon_

    def zcdp(self) -> Fraction:
        """Return epsilon tanh(epsilon/2), rounded up.

        The divergence of randomized response at order 1.

        It is at most epsilon^2/2 [bun2016, Prop. 3.3], and the least rho that holds for every pure
        epsilon.
        """
        return pure_rho(self.epsilon_)

    # Where epsilon is rounded up: neither a divergence nor a delta falls with it.

    def _bound_divergence(self, order: float) -> float:
        return pure_rdp(round_up(self.epsilon_), order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        return pure_epsilon(top, left)

    def _bound_delta(self, least: float) -> float:
        return pure_delta(round_up(self.epsilon_), least)


LARGER_FIRST = "add-remove, the larger data first"
"""Which neighbor comes first depends on no column, no figure and no direction of a search."""

# Between them chords say more than the closed forms, and no float is lost.
_SMALLEST_END, _LARGEST_END = 1e-5, 500.0

_TWO_POINT_ROUNDING = 2.0**-49  # a difference of rounded terms is raised by this share of their sum


def masses(low: float, high: float) -> tuple[float, float]:
    """Return the probabilities of the losses -low and high under the first law.

    Both ends positive.
    """
    # Written with negative exponents only, so that nothing overflows ("Loss in [-l,h]").
    width = -math.expm1(-(low + high))
    return math.exp(-low) * -math.expm1(-high) / width, -math.expm1(-low) / width


def range_delta(low: float, high: float, epsilon: float) -> float:
    """Return the delta at `epsilon` of the worse order.

    There the loss max(low, high) comes with the probability of that end.
    """
    if low == high:
        return pure_delta(high, epsilon)
    top, other = max(low, high), min(low, high)
    return (
        0.0 if epsilon >= top else raise_delta(masses(other, top)[1] * -math.expm1(epsilon - top))
    )


def range_epsilon(low: float, high: float, delta: float, limit: float) -> float:
    """Return the least epsilon at `delta` for the worse order; `limit` is one that always holds."""
    top, other = max(low, high), min(low, high)
    if low == high or delta == 0:
        return pure_epsilon(limit, delta)
    share = delta / masses(other, top)[1]
    return solve_curve(lambda epsilon: range_delta(low, high, epsilon), delta, limit, top, share)


def range_rdp(low: float, high: float, alpha: float) -> float:
    """Return the largest Rényi divergence of order `alpha` over both orders of the pair."""
    if low == high:
        return pure_rdp(high, alpha)
    top = max(low, high)
    if math.isinf(alpha) or math.isinf(top):
        return top
    worse = max(
        _two_point_divergence(low, high, alpha - 1), _two_point_divergence(high, low, alpha - 1)
    )
    return raise_divergence(min(top, worse, _zcdp_bound(low, high, alpha)), top)


def _zcdp_bound(low: float, high: float, alpha: float) -> float:
    # The rho of an interval is (low + high)^2 / 8 ("zCDP" in dominating-pairs).
    return (low + high) * (low + high) / 8 * alpha * (1 + 1e-15)


@lru_cache(maxsize=4096)
def _range_rho(low: tuple[int, int], high: tuple[int, int]) -> Fraction:
    """Return the smallest rho proved for losses in [-low, high], ends as two whole numbers."""
    ends = Fraction(*low), Fraction(*high)
    known = min((ends[0] + ends[1]) ** 2 / 8, pure_rho(max(ends)))
    down, up = map(round_up, ends)
    # With equal ends the pair is randomized response. Where an end leaves the floats its formulas
    # would, too.
    if low == high or not _SMALLEST_END < min(down, up) <= max(down, up) < _LARGEST_END:
        return known
    return min(
        known, shorten_up(certify_rho(lambda alpha: range_rdp(down, up, alpha), max(down, up)))
    )


def _two_point_divergence(low: float, high: float, order: float) -> float:
    p_low, p_high = masses(low, high)
    reach = order * high
    # Up to e^30 the moment less 1 is a difference, raised by what its two terms may have lost.
    if reach < 30:
        up, down = p_high * math.expm1(reach), -p_low * math.expm1(-order * low)
        total = math.log1p(up - down + _TWO_POINT_ROUNDING * (up + down))
    else:
        # The moment would leave the floats, so its logarithm is summed.
        share = math.log(p_high)
        total = (
            reach
            + share
            + math.log1p(p_low / p_high * math.exp(-order * (low + high)))
            + _TWO_POINT_ROUNDING * (reach - share)
        )
    return total / order * (1 + 1e-12)


@final
@dataclass(frozen=True, eq=False, repr=False)
class Range(FirmCost):
    """Privacy loss in [-low, high] for neighbors in one order, and in [-high, low] in the other.

    Every view holds for both orders. An interval of known width whose place is not known is a
    `BoundedRange`.

    Parameters
    ----------
    low, high : number
        The ends, in nats; both positive, or both 0. A float means its shortest decimal.
    orientation : str, optional
        Names the public condition that decides, for two given neighbors, in which order the loss
        lies in [-low, high]: for threshold searches over one column the same column, the same
        direction of the scan, a fixed threshold and one relation between neighbors. In a
        composition parts with equal texts are taken to be ordered alike, which is cheaper. Like
        every composition it is about a fixed list: column, direction and threshold are chosen
        before the first answer and not because of one. None is always right: the order may change
        from part to part.

    Raises
    ------
    InvalidParameter
        If an end is negative or not finite, if only one end is 0, or if the orientation is not a
        printable text.

    Examples
    --------
    >>> from sordino import cost
    >>> round(float(cost.Range(low=0.05, high=0.1).zcdp()), 6)
    0.002704
    >>> ordered = "price, upward, fixed threshold, replace-one"
    >>> search = cost.Range(low=0.05, high=0.1, orientation=ordered)
    >>> round(cost.repeat(search, 20).epsilon(1e-6), 4)
    1.3984
    """

    notion = "range"
    low: Fraction
    high: Fraction
    orientation: str | None = None

    def __init__(self, *, low: Number, high: Number, orientation: str | None = None) -> None:
        self._set(
            low=NOT_NEGATIVE("Range.low", low),
            high=NOT_NEGATIVE("Range.high", high),
            orientation=None if orientation is None else text(orientation, "Range.orientation"),
        )
        if (self.low == 0) != (self.high == 0):
            # Mathematically free (a ratio of laws that is never below 1 is 1), so whoever writes it
            # means something else.
            raise InvalidParameter(
                "Range.low and Range.high must both be positive, or both 0, because a loss that "
                f"has one sign only is 0 everywhere; got {digits(self.low)} and "
                f"{digits(self.high)}. Use BoundedRange(epsilon=) for an interval of unknown place."
            )

    def pure(self) -> Fraction:
        """Return the larger end, exactly."""
        return max(self.low, self.high)

    def zcdp(self) -> Fraction:
        """Return the smallest rho of the two-point pair in both orders, within 1e-5 of itself.

        It is rounded up, and at most (low + high)^2/8.
        """
        # Of whole numbers: the hash of a fraction takes many times longer.
        return _range_rho(self.low.as_integer_ratio(), self.high.as_integer_ratio())

    # The ends are rounded up: a wider interval has a larger curve.

    def _bound_divergence(self, order: float) -> float:
        return range_rdp(round_up(self.low), round_up(self.high), order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        return range_epsilon(round_up(self.low), round_up(self.high), left, top)

    def _bound_delta(self, least: float) -> float:
        return range_delta(round_up(self.low), round_up(self.high), least)


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
