"""What is known of a mechanism at each Rényi order: a line through 0 (zCDP), or any curve.

Claim: each term bounds a divergence where it is used; between the orders of a table (alpha - 1)
D(alpha) is convex [vanerven2014, Cor. 2] and D is not decreasing [vanerven2014, Thm 3]. Proof:
docs/proofs/dominating-pairs.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, final

from sordino.constraints import (
    COUNT,
    DOMAIN_SIZE,
    NOT_NEGATIVE,
    POSITIVE,
    Constraint,
    Number,
    accept_if,
    shown,
)
from sordino.cost.base import FirmCost
from sordino.cost.conversion import (
    nearest,
    pure_delta,
    pure_epsilon,
    raise_divergence,
    ratio,
    rdp_delta,
    rdp_epsilon,
    round_up,
)
from sordino.cost.rho import laplace_rho, pure_rho
from sordino.errors import InvalidParameter


@final
@dataclass(frozen=True, eq=False, repr=False)
class ZCDP(FirmCost):
    """Rho-zero-concentrated differential privacy.

    Rényi divergence at most rho * alpha at every alpha > 1.

    Epsilon and delta are the least over all orders [canonne2020, Prop. 12].

    Parameters
    ----------
    rho : number
        At least 0. A float means its shortest decimal.

    Raises
    ------
    InvalidParameter
        If rho is negative or not finite.

    Examples
    --------
    >>> from sordino import cost
    >>> round(cost.ZCDP(rho=0.05625).epsilon(1e-6), 4)
    1.5681
    """

    notion = "zcdp"
    rho: Fraction

    def __init__(self, *, rho: Number) -> None:
        self._set(rho=NOT_NEGATIVE("ZCDP.rho", rho))

    def pure(self) -> Fraction | float:
        """Return inf: concentrated privacy bounds no single log ratio (0 when rho is 0)."""
        return Fraction(0) if self.rho == 0 else math.inf

    def zcdp(self) -> Fraction:
        """Return rho, exactly."""
        return self.rho

    def _bound_divergence(self, order: float) -> float:
        # One exact product, rounded once.
        return math.inf if math.isinf(order) else round_up(self.rho * Fraction(order))

    def _solve_epsilon(self, left: float, top: float) -> float:
        return min(top, rdp_epsilon(self.rdp, left))

    def _bound_delta(self, least: float) -> float:
        return rdp_delta(self.rdp, least)


@final
@dataclass(frozen=True, eq=False, repr=False)
class RDP(FirmCost):
    """A bound of the Rényi divergence at every order alpha > 1, by a formula or by a table.

    The divergence is at most rho*alpha + constant + L(alpha) + ln(choices)/(alpha - 1), or what the
    table says. Releases with Laplace noise cost `RDP(laplace=e, laplace_steps=s)`: the pure epsilon
    e, of which it is known besides that it hides s steps of the grid.

    Parameters
    ----------
    rho, constant : number
        At least 0.
    laplace : number, optional
        In (0, inf): the rate of Laplace noise on a number that moves by 1; L is its curve, at most
        min(laplace, alpha*laplace^2/2).
    laplace_steps : int or "continuous", optional
        Required with `laplace`: how many steps of the grid that 1 is, when the noise is discrete;
        with one step it is randomized response. "continuous" is the law whose curve is the lowest;
        it does not hold for noise on any grid.
    choices : int
        At least 1: over how many outcomes a union bound was taken.
    table : pairs (order, epsilon)
        Instead of all others: the divergence itself, known at some orders only, each in [1.000001,
        1e300]; a chord between them, the first value below the first, inf above the last. It is the
        bound of one mechanism and stands alone; compose it with others.

    Raises
    ------
    InvalidParameter
        If a number is outside its range, an order appears twice, a table comes with other terms, or
        only one of `laplace` and `laplace_steps` is given.

    Examples
    --------
    >>> from sordino import cost
    >>> curve = cost.RDP(rho=0.125, laplace=0.5, laplace_steps="continuous", choices=41)
    >>> round(curve.rdp(16), 4)
    2.7035
    >>> cost.RDP(table=[(2, 0.1), (32, 1.5)]).rdp(64)
    inf
    """

    notion = "rdp"
    rho: Fraction = Fraction(0)
    constant: Fraction = Fraction(0)
    laplace: Fraction | None = None
    laplace_steps: int | Literal["continuous"] | None = None
    choices: int = 1
    table: tuple[tuple[Fraction, Fraction], ...] = ()

    def __init__(
        self,
        *,
        rho: Number = 0,
        constant: Number = 0,
        laplace: Number | None = None,
        laplace_steps: int | Literal["continuous"] | None = None,
        choices: int = 1,
        table: Iterable[tuple[Number, Number]] = (),
    ) -> None:
        self._set(
            rho=NOT_NEGATIVE("RDP.rho", rho),
            constant=NOT_NEGATIVE("RDP.constant", constant),
            laplace=None if laplace is None else POSITIVE("RDP.laplace", laplace),
            laplace_steps=None
            if laplace_steps is None
            else STEPS("RDP.laplace_steps", laplace_steps),
            choices=COUNT("RDP.choices", choices),
            table=_check_curve_table(table),
        )
        if (self.laplace_steps is None) != (self.laplace is None):
            raise InvalidParameter(
                "RDP.laplace, the rate of the noise, and RDP.laplace_steps, its grid or "
                f"'continuous', must be given together; got {shown(laplace)} and "
                f"{shown(laplace_steps)}."
            )
        if self.table and (
            self.rho or self.constant or self.laplace is not None or self.choices > 1
        ):
            raise InvalidParameter(
                "RDP.table must stand alone; got other terms too. Compose it with another RDP that "
                "has those."
            )

    def pure(self) -> Fraction | float:
        """Return constant + laplace, the limit of the curve, if nothing else is in it; else inf."""
        # A line in the order has no limit, and a table says nothing above its last order.
        if self.rho or self.choices > 1 or self.table:
            return math.inf
        return self.constant + (self.laplace or 0)

    def zcdp(self) -> Fraction | float:
        """Return the smallest rho that is proved, or inf.

        It is the smaller one of rho + constant + the rho of the Laplace noise, and that of a finite
        pure epsilon. A constant c is at most c*alpha at every order above 1. A union bound or a
        table is no line through the origin.
        """
        if self.choices > 1 or self.table:
            return math.inf
        noise = Fraction(0) if self.laplace is None else laplace_rho(self.laplace, steps_of(self))
        # A constant c is at most c times the order ("Curves").
        line = self.rho + self.constant + noise
        return line if self.rho or not self.constant else min(line, pure_rho(Fraction(self.pure())))

    def _bound_divergence(self, order: float) -> float:
        if self.choices == 1 or math.isinf(order):
            return _divergence_at_order(self, order)
        # Divergences do not fall with the order, so that what holds at an order holds below it.
        turn, least = turning(self)
        return least if order <= turn else _divergence_at_order(self, order)

    def _solve_epsilon(self, left: float, top: float) -> float:
        # Where there is a pure epsilon its own curve holds, too, and may be the lower one.
        return min(pure_epsilon(top, left), rdp_epsilon(self.rdp, left))

    def _bound_delta(self, least: float) -> float:
        return min(pure_delta(round_up(self.pure()), least), rdp_delta(self.rdp, least))

    def to_dict(self) -> dict[str, Any]:
        """Return the notion, the pure epsilon or None, and the parameters.

        The parameters are given exactly as text, and as floats.
        """
        pure = self.pure()
        return {
            "notion": "rdp",
            "epsilon": nearest(pure) if isinstance(pure, Fraction) else None,
            "rho": nearest(self.rho),
            "constant": nearest(self.constant),
            "laplace": None if self.laplace is None else nearest(self.laplace),
            "laplace_steps": self.laplace_steps,
            "choices": ratio(Fraction(self.choices)) if self.choices > 1 << 53 else self.choices,
            "table": [[nearest(order), nearest(value)] for order, value in self.table],
            "exact": {
                "rho": ratio(self.rho),
                "constant": ratio(self.constant),
                "laplace": None if self.laplace is None else ratio(self.laplace),
                "table": [[ratio(order), ratio(value)] for order, value in self.table],
            },
        }


LAST = math.exp(16)  # no union bound is spent beyond this order


def _convert_grid_steps(value: Any) -> int | str | None:
    return value if isinstance(value, str) and value == "continuous" else DOMAIN_SIZE.convert(value)


STEPS = Constraint(
    f"'continuous', or {DOMAIN_SIZE.says} for noise on a grid",
    _convert_grid_steps,
    ("continuous", 1, 60),
    ("discrete", 0, -1, 1.5, True, math.nan),
)


ORDER = Constraint(
    "a number in [1.000001, 1e300]",
    accept_if(lambda number: Fraction(1000001, 10**6) <= number <= 10**300),
    (2, 1.5, Fraction(4, 3)),
    (1, 0.5, 1 + 1e-9, math.inf, math.nan, None, "2", True),
)


def _check_curve_table(table: Iterable[Any]) -> tuple[tuple[Fraction, Fraction], ...]:
    if not isinstance(table, Iterable):
        raise InvalidParameter(f"RDP.table must list pairs (order, epsilon); got {shown(table)}.")
    rows = []
    for row in table:
        if not isinstance(row, tuple | list) or len(row) != 2:
            raise InvalidParameter(f"RDP.table must list pairs (order, epsilon); got {shown(row)}.")
        order = ORDER("An order of RDP.table", row[0])
        rows.append((order, NOT_NEGATIVE("A value of RDP.table", row[1])))
    # By order, as `_table_chord` searches them.
    rows.sort()
    if len({order for order, _ in rows}) < len(rows):
        raise InvalidParameter("RDP.table must name every order once; got one twice.")
    return tuple(rows)


def _divergence_at_order(curve: RDP, alpha: float) -> float:
    """Return the table at `alpha`, or the sum of the terms, rounded up."""
    if curve.table:
        return _table_chord(_curve_table_rows(curve), alpha)
    terms = [round_up(curve.constant)]
    if curve.rho:
        terms.append(round_up(curve.rho) * alpha)
    if curve.laplace is not None:
        terms.append(laplace_rdp(round_up(curve.laplace), steps_of(curve), alpha))
    if curve.choices > 1 and alpha < math.inf:
        terms.append(union(curve) / (alpha - 1))
    terms = [term for term in terms if term]
    # `fsum` raises where a sum leaves the floats.
    total = math.fsum(terms) if sum(terms) < math.inf else math.inf
    # Every term is positive and off by a few 2^-53 of itself at most.
    return total * (1 + 1e-15)


def steps_of(curve: RDP) -> int | None:
    """Return the steps of the grid of the Laplace noise, None for the continuous law."""
    return None if curve.laplace_steps == "continuous" else curve.laplace_steps


def union(curve: RDP) -> float:
    """Return ln(choices), rounded up."""
    return math.log(curve.choices) * (1 + 1e-12)


@lru_cache(maxsize=256)
def _curve_table_rows(curve: RDP) -> tuple[tuple[float, float], ...]:
    return falling(curve.table)


def falling(table: tuple[tuple[Fraction, Fraction], ...]) -> tuple[tuple[float, float], ...]:
    """Return the table as floats, each value lowered to the least at or above its order.

    Divergences do not fall with the order.
    """
    rows: list[tuple[float, float]] = []
    least = math.inf
    for order, value in reversed(table):
        least = min(least, round_up(value))
        nearest = float(order)
        # Down, because what holds at an order holds below it.
        rows.append((nearest if nearest <= order else math.nextafter(nearest, 1.0), least))
    return tuple(reversed(rows))


def _table_chord(rows: tuple[tuple[float, float], ...], alpha: float) -> float:
    """Return a bound between the orders of a table.

    (alpha - 1) D is convex, so it lies below its chords.
    """
    if alpha > rows[-1][0]:
        return math.inf
    place = next(i for i, (order, _) in enumerate(rows) if alpha <= order)
    right, high = rows[place]
    if place == 0 or alpha == right:
        return high
    left, low = rows[place - 1]
    # The chord of (alpha - 1) D, divided by alpha - 1 again ("Curves" in dominating-pairs).
    share = (alpha - left) / (right - left)
    chord = ((1 - share) * (left - 1) * low + share * (right - 1) * high) / (alpha - 1)
    # A divergence does not fall with the order, so it lies between the values of the two rows.
    return min(high, max(low, chord * (1 + 1e-14)))


@lru_cache(maxsize=256)
def turning(curve: RDP) -> tuple[float, float]:
    """Return the order of the lowest point of a curve with a union bound in it, and its value.

    Any order would be valid.
    """
    if curve.laplace is None:  # rho * order + ln(choices) / order, the order less 1
        slope = round_up(curve.rho)
        order = min(max(math.sqrt(union(curve) / slope), 2**-40), LAST) if slope else LAST
        return 1 + order, _divergence_at_order(curve, 1 + order)
    highest = math.log(LAST)
    # With Laplace noise the lowest point has no closed form. The logarithm of the order, less 1, is
    # searched.
    grid = [-7 + (highest + 7) * i / 128 for i in range(129)]
    value, x = min((_divergence_at_order(curve, 1 + math.exp(x)), x) for x in grid)
    width = (highest + 7) / 128
    while width > 1e-7:
        value, x = min(
            (_divergence_at_order(curve, 1 + math.exp(y)), y)
            for y in (x - width, x, min(x + width, highest))
        )
        width /= 2
    return 1 + math.exp(x), value


# ---- the curve of one Laplace shift --------------------------------------------------------------
# The Rényi divergence between Laplace noise and the same noise moved by 1, at `rate` per unit.
#
# Continuous [mironov2017, Prop. 6], with e = rate:
# ln(a/(2a-1) e^((a-1)e) + (a-1)/(2a-1) e^(-ae)) / (a-1).
# Discrete on a grid of 1/s, with r = e^(-e/s) and x = r^(2a-1), the moment is
# [e^((a-1)e) + e^(-ae) + (1-r) e^((a-1)e) (x - x^s)/(1-x)] / (1+r).
# Proof: docs/proofs/dominating-pairs.md.


# A difference of rounded terms is raised by this share of their sum.
_LAPLACE_ROUNDING = 2.0**-48


def laplace_rdp(rate: float, steps: int | None, alpha: float) -> float:
    """Return the divergence, rounded up and never above min(rate, alpha*rate^2/2).

    `steps` of the grid are 1; None is the continuous law.
    """
    if math.isinf(alpha) or math.isinf(rate):
        return rate
    # The rate is the pure epsilon of the noise, and rate^2/2 its rho: bounds by themselves.
    order, cap = alpha - 1, min(rate, rate * rate / 2 * alpha * (1 + 1e-15))
    # What one step of the grid does would leave the floats.
    if steps is not None and rate / steps < 1e-300:
        return raise_divergence(cap, rate)
    total = (
        _continuous_log_moment(rate, order)
        if steps is None
        else _discrete_log_moment(rate, steps, order)
    )
    return raise_divergence(min(cap, total / order * (1 + 1e-12)), rate)


def _continuous_log_moment(rate: float, order: float) -> float:
    whole = 2 * order + 1
    # The moment would leave the floats, so its logarithm is summed.
    if order * rate > 30:
        share = math.log1p(order) - math.log(whole)
        rest = math.log1p(order / (order + 1) * math.exp(-whole * rate))
        return order * rate + share + rest + _LAPLACE_ROUNDING * (order * rate - share)
    up, down = (
        (order + 1) / whole * math.expm1(order * rate),
        order / whole * -math.expm1(-(order + 1) * rate),
    )
    return math.log1p(up - down + _LAPLACE_ROUNDING * (up + down))


def _discrete_log_moment(rate: float, steps: int, order: float) -> float:
    """Return the log of the moment, everything divided by e^(order*rate) when that is large."""
    step = rate / steps
    r, log_x = math.exp(-step), -step * (2 * order + 1)
    inner = 0.0
    if steps > 1:  # (1 - r) (x - x^s) / (1 - x)
        inner = (
            math.expm1(-step)
            * math.exp(log_x)
            * math.expm1((steps - 1) * log_x)
            / -math.expm1(log_x)
        )
    if order * rate > 30:
        scaled = (1 + math.exp(-(2 * order + 1) * rate) + inner) / (1 + r)
        return order * rate + math.log(scaled) + _LAPLACE_ROUNDING * (order * rate + 1)
    lift = math.expm1(order * rate)
    # moment - 1: the masses are 1/(1+r), e^-rate/(1+r), and (e^-step - e^-rate)/(1+r) between the
    # ends
    ends = (lift + math.exp(-rate) * math.expm1(-order * rate)) / (1 + r)
    between = (inner * (1 + lift) - (r - math.exp(-rate))) / (1 + r)
    return math.log1p(ends + between + _LAPLACE_ROUNDING * (lift + 2))
